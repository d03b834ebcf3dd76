/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages, and the descriptors that they lie in. A control message is 256 bytes that say what is to be done,
 * with the bytes of a small message after them. A descriptor belongs to its last taker: the pool, a list of the engine,
 * a request, or the neighbour whose shared segment it lies in. Under the engine's lock.
 */
#ifndef SV_MESSAGE_CTRL_H
#define SV_MESSAGE_CTRL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base_list.h"
#include "base/base_status.h"
#include "kernels/kernels.h"
#include "wire/wire.h"

typedef struct sv_message_engine sv_message_engine_t;

enum { SV_CTRL_RING = 32 }; /* receives of control messages that are posted ahead */

typedef enum sv_ctrl_kind {
    SV_CTRL_EAGER = 1,   /* a small message: its bytes are after */
    SV_CTRL_RTS,         /* a message wants to be sent */
    SV_CTRL_DEFERRED,    /* a small message will come, when its caller's stream has come to it */
    SV_CTRL_CTS,         /* it may come, by this route; or again */
    SV_CTRL_FIN,         /* it has left; the record is here */
    SV_CTRL_STATUS,      /* it is good, or it is not and will not be asked for again */
    SV_CTRL_ACK,         /* small messages have been taken */
    SV_CTRL_NACK,        /* a small message did not verify */
    SV_CTRL_SHM,         /* memory of the sender's for control messages to it */
    SV_CTRL_CTS_NACK,    /* the memory that a CTS named cannot be reached */
    SV_CTRL_DISCONNECT,  /* nothing comes after this */
    SV_CTRL_SEQUENCE_ACK /* control messages by the wire have come, up to a sequence number; has no number itself */
} sv_ctrl_kind_t;

/*
 * What value[] says, by kind:
 *
 *   EAGER         0: count of its device slot, or 0; 1: number of the last message before it with such a tag
 *   DEFERRED      0: as EAGER
 *   RTS           0: on a device; 1, 2: put slot and stamp of the RTR that it claims; 3, 4: stamp of the get that it
 *                 offers, place and flags of that (message_get.c)
 *   CTS           0: route; 1, 2: put slot and stamp; from 3 on: where to
 *   STATUS        0: SV_OUTCOME_
 *   ACK           numbers of messages
 *   SHM           handle
 *   SEQUENCE_ACK  0 to 15: bits of the control messages that came out of order
 *
 * By the wire the last value acknowledges: up to which sequence number all came. Only a CTS for a direct copy has no
 * room for that.
 */
typedef struct sv_ctrl_header {
    uint64_t check;          /* of all words but the record, which has its own digest */
    uint16_t kind, attempt;
    int32_t source;
    uint32_t tag;
    uint32_t sequence;       /* among the control messages of this pair by the wire, from 1; it wraps */
    uint64_t number;         /* of the message in its pair of ranks, from 1 */
    uint64_t bytes;
    uint64_t send_id, recv_id;
    uint64_t value[17];
    sv_record_t record;
} sv_ctrl_header_t;

_Static_assert(sizeof(sv_ctrl_header_t) == 256, "a control header has no holes, and what is after it is aligned");

/* A control message in pinned memory, with room for a small message after it: of a pool, or a place in a shared
   segment. */
typedef struct sv_ctrl_desc {
    sv_list_t link, retained_link;
    sv_ctrl_header_t *header;
    uint64_t *word;          /* pinned: the kernel that fills it releases stamp there */
    uint64_t stamp;
    sv_wire_request_t request;
    bool in_flight;          /* a send of it is under way */
    bool retained;           /* it may be asked for again; on its peer's list */
    bool header_only;        /* without room after the control message */
    bool withdrawn;          /* the engine has ended, and it was the wire's until then */
    struct sv_message_peer *counted; /* eager: by whom, until it is put back */
    struct sv_unacked *unacked;   /* it may have to be sent again */
    uint64_t corrupted;      /* a fault: byte corrupted - 1 of it was changed on the way out */
    bool from_wire;          /* it came by the wire, and its sender keeps it until it is acknowledged */
    struct sv_shm_end *shm;  /* it lies there, in this slot; NULL: of the pool */
    unsigned slot;
    uintptr_t shift;         /* to the addresses that kernels are given */
    struct sv_shm_end *devslot; /* the message is in a slot of this one's; NULL: after the control message */
    uint64_t devslot_count;
} sv_ctrl_desc_t;

typedef struct sv_ctrl_desc_chunk {
    struct sv_ctrl_desc_chunk *next;
    uint8_t *pinned;
    sv_ctrl_desc_t desc[SV_CTRL_RING];
} sv_ctrl_desc_chunk_t;

static inline uint8_t *sv_ctrl_payload(const sv_ctrl_desc_t *desc)
{
    return (uint8_t *)(desc->header + 1);
}
static inline void *sv_ctrl_device_ptr(const sv_ctrl_desc_t *desc, const void *ptr)
{
    return (void *)((uintptr_t)ptr + desc->shift); /* what a kernel is given */
}
size_t sv_ctrl_bytes(const sv_ctrl_header_t *header);
bool sv_ctrl_is_header_only(const sv_ctrl_header_t *header); /* nothing is to be after it in its descriptor */
/* finalize: nothing but the record and the payload changes after this. is_valid: it is whole, whoever wrote it. */
void sv_ctrl_finalize(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
bool sv_ctrl_is_valid(const sv_message_engine_t *engine, const sv_ctrl_header_t *header);
/* Finalizes a control message with its payload, and sends it. The descriptor is given back when it has left, unless it
   is kept. */
selvage_status_t sv_ctrl_send(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
/* For a control message without bytes, in a descriptor of its own. */
selvage_status_t sv_ctrl_send_header(sv_message_engine_t *engine, int rank, const sv_ctrl_header_t *header);
/* By the wire, with the sequence number that it has. */
selvage_status_t sv_ctrl_send_wire(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
/* consumed: a small message was taken, so its descriptor is free, and its sender is told. ack: only tells the
   sender. */
selvage_status_t sv_ctrl_consumed(sv_message_engine_t *engine, sv_ctrl_desc_t *desc);
selvage_status_t sv_ctrl_ack(sv_message_engine_t *engine, int rank, uint64_t number);
selvage_status_t sv_ctrl_poll(sv_message_engine_t *engine, bool *moved);
/* Withdraws what is posted and in flight. */
void sv_ctrl_cancel(sv_message_engine_t *engine);
/* Whether polls have something to do: a request is open, an acknowledgement awaited or owed. With the lock. */
bool sv_message_has_work(const sv_message_engine_t *engine);
/* That they have not. Any thread. False while another one is inside. */
bool sv_message_is_idle(sv_message_engine_t *engine);

#endif
