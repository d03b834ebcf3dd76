/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared segments: pinned memory that two ranks of a node share, through which one sends the other control messages and
 * small messages without the wire. The reader makes it when the first control message of the writer came by the wire,
 * and offers it. A writer that cannot map it goes on as before. Slots are taken and given back one by one, in any
 * order, since messages have numbers. So a slot that a kernel fills after a long stream holds up nobody.
 *
 *   writer                                       reader
 *   control message, bytes; arrived[i] = stamp  ------->  sees a new stamp, takes the control message
 *   (its host, or the kernel that copied)        freed[i] = stamp when it is taken; the slot is free again
 *
 * Direct copies use a shared segment, too. The writer's stream or kernel says in put_arrived[k] that the bytes are in
 * the reader's memory. It says in recorded[k] that the record is here, or in device memory if there are slots
 * (message_devslot.h). The reader's kernel says in outcome[k] that they are good, and the writer in left[k] that it has
 * seen so. Of gets (message_get.c), whose places are chosen by the writer, get_where, get_record, get_ready, get_moved
 * and get_moved_to are the writer's, get_done is the reader's kernel's, and get_begun is exchanged by both.
 */
#ifndef SV_MESSAGE_SHM_H
#define SV_MESSAGE_SHM_H

#include "host/memory_buffer.h"
#include "host/memory_shared.h"
#include "message/message_engine.h"

enum { SV_SHM_SLOTS = 16, SV_SHM_PUT_SLOTS = 32, SV_SHM_GETS = 256, SV_DEVSLOTS = 4 };

/* Where a lent message is after it was moved (message_lend.c): in device memory, or in a segment of host memory. */
typedef struct sv_message_moved {
    sv_message_where_t where;
    sv_mapping_handle_t segment;
    uint64_t token;          /* of that segment; 0: it is in device memory */
} sv_message_moved_t;

/* What get_begun says of an offer with a stamp. */
typedef enum sv_get_state { SV_GET_OFFERED, SV_GET_TAKEN, SV_GET_MOVED } sv_get_state_t;

static inline uint64_t sv_get_word(uint64_t stamp, sv_get_state_t state)
{
    return stamp << 2 | (uint64_t)state;
}

typedef struct sv_message_shm {
    uint64_t arrived[SV_SHM_SLOTS];
    uint64_t put_arrived[SV_SHM_PUT_SLOTS], recorded[SV_SHM_PUT_SLOTS];
    uint64_t freed[SV_SHM_SLOTS];
    uint64_t outcome[SV_SHM_PUT_SLOTS]; /* reader: verified */
    uint64_t left[SV_SHM_PUT_SLOTS];   /* writer: it looks there no more */
    sv_record_t record[SV_SHM_PUT_SLOTS];
    uint64_t get_ready[SV_SHM_GETS]; /* writer (message_get.c) */
    sv_record_t get_record[SV_SHM_GETS];
    sv_message_where_t get_where[SV_SHM_GETS];
    uint64_t get_begun[SV_SHM_GETS];   /* both: a word of sv_get_word(); 0: taken back, or over */
    uint64_t get_done[SV_SHM_GETS];    /* reader: the stamp, when a lent message has been read and is good */
    uint64_t get_moved[SV_SHM_GETS];   /* writer: the stamp, when a lent one is where get_moved_to says */
    sv_message_moved_t get_moved_to[SV_SHM_GETS];
    uint64_t begun[SV_SHM_PUT_SLOTS];  /* both: stamp * 2: a copy may begin; stamp * 2 + 1: it has begun; 0: none may */
    uint64_t advertised[SV_SHM_PUT_SLOTS]; /* both (message_rtr.c) */
    uint64_t rtr_tag[SV_SHM_PUT_SLOTS], rtr_taken[SV_SHM_PUT_SLOTS], rtr_bytes[SV_SHM_PUT_SLOTS];
    uint64_t rtr_recv[SV_SHM_PUT_SLOTS];
    sv_message_where_t where[SV_SHM_PUT_SLOTS]; /* reader */
    uint64_t devslot_open;   /* writer: it has mapped the slots */
    uint64_t devslot_freed[SV_DEVSLOTS];
    uint64_t prefers_host;   /* reader: what came last went to host memory */
    uint64_t devslot_bytes, devslot_offset; /* reader: of its slots in device memory; bytes 0: none */
    sv_device_handle_t devslot_handle;
} sv_message_shm_t;

/* Slots in the reader's device memory (message_devslot.h). */
typedef struct sv_message_devslots {
    uint8_t *base;           /* NULL: none */
    sv_transfer_mapping_t *mapping; /* writer */
    bool shown;              /* reader: a kernel that runs sees what is stored there */
    uint64_t count;          /* of messages that went this way, or came and were taken in order */
    uint64_t given[SV_DEVSLOTS]; /* writer: by count, what each slot was given to last */
    uint64_t taken[SV_DEVSLOTS]; /* reader: by count, what was taken out of each last */
    uint64_t value[SV_DEVSLOTS]; /* and its word at that time */
} sv_message_devslots_t;

typedef struct sv_shm_end {
    sv_shared_segment_t segment;
    sv_message_shm_t *shm;   /* in the segment; after it the places */
    sv_ctrl_desc_t desc[SV_SHM_SLOTS];
    uint64_t stamp[SV_SHM_SLOTS]; /* writer: given last; reader: taken last */
    bool writer, used;       /* reader: something came */
    uint32_t put_slots;      /* reader: those in use */
    uint64_t given[SV_SHM_PUT_SLOTS]; /* reader: stamp that each was given last */
    bool get_used[SV_SHM_GETS];      /* writer: places of offers that have not ended, ... */
    uint64_t get_stamp[SV_SHM_GETS]; /* ... the stamp that each was given last, ... */
    unsigned get_next;               /* ... and where the next free one is looked for */
    uint64_t lent_taken_ns;          /* writer: when it was seen last that a lent message was received */
    uint32_t revoked;        /* reader: those whose writer never began, and will not */
    sv_message_devslots_t devslot;
} sv_shm_end_t;

/* Reader: makes the shared segment of a rank of the node and offers it, once. The rank itself has one without an
   RTR. */
selvage_status_t sv_shm_advertise(sv_message_engine_t *engine, int rank);
/* Writer: maps what was offered, if it can. */
void sv_shm_open(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_ctrl_header_t *advert);
/* Accepts NULL. */
void sv_shm_close(sv_shm_end_t *end);

/* Writer: a free place as a descriptor, or NULL. */
sv_ctrl_desc_t *sv_shm_take_slot(sv_message_engine_t *engine, sv_shm_end_t *end);
/* Gives a place back: the reader one that it has taken, the writer one that it has not posted. */
void sv_shm_put_slot(sv_ctrl_desc_t *desc);
/* Reader: where the last message of device memory went, for the writer to choose by; and the writer asks. */
void sv_shm_prefer(sv_shm_end_t *end, bool host);
static inline bool sv_shm_prefers_host(const sv_shm_end_t *end)
{
    return __atomic_load_n(&end->shm->prefers_host, __ATOMIC_ACQUIRE); /* partner: the release in sv_shm_prefer() */
}
/* Takes what has arrived. ERR_CHECKSUM if that is damaged, because nobody sends it again. */
selvage_status_t sv_shm_poll(sv_message_engine_t *engine, bool *moved);

#endif
