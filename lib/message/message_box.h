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
 * memory, and in recorded[k] that the record is here.
 */
#ifndef SV_MESSAGE_BOX_H
#define SV_MESSAGE_BOX_H

#include "memory/memory_shared.h"
#include "message/message_engine.h"

enum { SV_BOX_SLOTS = 16, SV_BOX_LANDINGS = 32 };

typedef struct sv_message_box {
    uint64_t arrived[SV_BOX_SLOTS];
    uint64_t landed[SV_BOX_LANDINGS], recorded[SV_BOX_LANDINGS];
    uint64_t freed[SV_BOX_SLOTS];
    sv_record_t record[SV_BOX_LANDINGS];
} sv_message_box_t;

typedef struct sv_message_box_end {
    sv_shared_segment_t segment;
    sv_message_box_t *box;   /* in the segment; behind it the places */
    sv_mail_t mail[SV_BOX_SLOTS];
    uint64_t stamp[SV_BOX_SLOTS]; /* writer: given last; reader: taken last */
    bool writer, used;       /* reader: something came */
    uint32_t landings;       /* reader: those in use */
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
/* Takes what has arrived. */
selvage_status_t sv_message_boxes_poll(sv_message_engine_t *engine, bool *moved);

#endif
