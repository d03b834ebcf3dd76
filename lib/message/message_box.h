/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boxes: pinned memory that two ranks of a node share, through which one of them sends the other letters and small
 * messages without the wire. The reader makes it when the first letter of the writer came by the wire, and offers it;
 * a writer that cannot map it goes on as before. Places are taken and given back one by one, in any order, since
 * messages have numbers: one that a kernel fills behind a long stream holds up nobody.
 *
 *   writer                                       reader
 *   letter, bytes; arrived[i] = stamp  ------->  sees a new stamp, takes the letter
 *   (its host, or the kernel that copied)        freed[i] = stamp when it is taken; the place is free again
 *
 * Direct copies use a box, too: the writer's stream or kernel says in landed[k] that the bytes are in the reader's
 * memory, and in recorded[k] that the record is here, or in device memory if there are slots (message_near.h). The
 * reader's kernel says in verdict[k] that they are good, and the writer in left[k] that it has seen so.
 */
#ifndef SV_MESSAGE_BOX_H
#define SV_MESSAGE_BOX_H

#include "memory/memory_buffer.h"
#include "memory/memory_shared.h"
#include "message/message_engine.h"

enum { SV_BOX_SLOTS = 16, SV_BOX_LANDINGS = 32, SV_NEAR_SLOTS = 4 };

typedef struct sv_message_box {
    uint64_t arrived[SV_BOX_SLOTS];
    uint64_t landed[SV_BOX_LANDINGS], recorded[SV_BOX_LANDINGS];
    uint64_t freed[SV_BOX_SLOTS];
    uint64_t verdict[SV_BOX_LANDINGS]; /* reader: verified */
    uint64_t left[SV_BOX_LANDINGS];    /* writer: it looks there no more */
    sv_record_t record[SV_BOX_LANDINGS];
    uint64_t begun[SV_BOX_LANDINGS];   /* both: stamp * 2: a copy may begin; stamp * 2 + 1: it has; 0: it may not */
    uint64_t offered[SV_BOX_LANDINGS]; /* both (message_offer.c) */
    uint64_t offer_tag[SV_BOX_LANDINGS], offer_taken[SV_BOX_LANDINGS], offer_bytes[SV_BOX_LANDINGS];
    uint64_t offer_recv[SV_BOX_LANDINGS];
    sv_message_where_t where[SV_BOX_LANDINGS]; /* reader */
    uint64_t near_open;      /* writer: it has mapped the slots */
    uint64_t near_freed[SV_NEAR_SLOTS];
    uint64_t wants_host;     /* reader: what came last went to host memory */
    uint64_t near_bytes, near_offset; /* reader: of its slots in device memory; bytes 0: none */
    sv_device_handle_t near_handle;
} sv_message_box_t;

/* Slots in the reader's device memory (message_near.h). */
typedef struct sv_message_near {
    uint8_t *base;           /* NULL: none */
    sv_opened_t *opened;     /* writer */
    bool shown;              /* reader: a kernel that runs sees what is stored there */
    uint64_t count;          /* of messages that went this way, or came and were taken in order */
    uint64_t given[SV_NEAR_SLOTS]; /* writer: by count, what each slot was given to last */
    uint64_t taken[SV_NEAR_SLOTS]; /* reader: by count, what was taken out of each last ... */
    uint64_t value[SV_NEAR_SLOTS]; /* ... and what its word was then */
} sv_message_near_t;

typedef struct sv_message_box_end {
    sv_shared_segment_t segment;
    sv_message_box_t *box;   /* in the segment; behind it the places */
    sv_mail_t mail[SV_BOX_SLOTS];
    uint64_t stamp[SV_BOX_SLOTS]; /* writer: given last; reader: taken last */
    bool writer, used;       /* reader: something came */
    uint32_t landings;       /* reader: those in use */
    uint64_t given[SV_BOX_LANDINGS]; /* reader: stamp that each was given last */
    uint32_t revoked;        /* reader: those whose writer never began, and will not */
    sv_message_near_t near;
} sv_message_box_end_t;

/* Reader: makes the box of a rank of the node and offers it, once; the rank itself has one without an offer. */
selvage_status_t sv_message_box_offer(sv_message_engine_t *engine, int rank);
/* Writer: maps what was offered, if it can. */
void sv_message_box_open(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *offer);
/* Accepts NULL. */
void sv_message_box_close(sv_message_box_end_t *end);

/* Writer: a free place as mail, or NULL. */
sv_mail_t *sv_message_box_room(sv_message_engine_t *engine, sv_message_box_end_t *end);
/* Gives a place back: the reader one that it has taken, the writer one that it has not posted. */
void sv_message_box_leave(sv_mail_t *mail);
/* Reader: where the last message of device memory went, for the writer to choose by. */
void sv_message_box_wish(sv_message_box_end_t *end, bool host);
/* Takes what has arrived; ERR_CHECKSUM if that is damaged, which nobody sends again. */
selvage_status_t sv_message_boxes_poll(sv_message_engine_t *engine, bool *moved);

#endif
