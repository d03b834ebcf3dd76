/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots in the device memory of a box's reader, for what its writer sends from device memory to device memory: the
 * writer's kernel stores payload, record and then a word there, and the reader's copies on and verifies in one pass,
 * without a look at host memory. The letter comes by the box as ever.
 *
 * Slots take turns: the message that is number c of those that came this way lies in slot c modulo their number. So the
 * reader knows where the next one will be, and its word is made of the message's key, which says what it is, and of the
 * number of the last message with such a tag, which says that none comes before it; a kernel can wait for a message
 * that has not come yet, and take no other one (message_early.c).
 */
#ifndef SV_MESSAGE_NEAR_H
#define SV_MESSAGE_NEAR_H

#include "message/message_box.h"

typedef struct sv_near_place {
    uint8_t *payload;
    sv_record_t *record;
    uint64_t *word;
} sv_near_place_t;

/* Reader: makes the slots, if it can, and says in the box where they are. */
void sv_near_make(sv_message_engine_t *engine, sv_message_box_end_t *end);
/* Writer: maps them, if it can. */
void sv_near_open(sv_message_engine_t *engine, const sv_message_peer_t *peer, sv_message_box_end_t *end);
void sv_near_close(sv_message_box_end_t *end);

/* Writer: gives mail that lies in the box the next slot; false if it is not free, or there is none for it. */
bool sv_near_take(const selvage_request_t *send, sv_mail_t *mail);
/* Gives the slot of mail back, if it has one: the reader when the message was taken, the writer if it never left. */
void sv_near_leave(sv_mail_t *mail);
/* Reader: has noted what the word of the slot is, with the message in it. */
void sv_near_note(sv_mail_t *mail, uint64_t key);
/* Reader: whether this message would find its slot free, and what the word is until then. */
bool sv_near_is_awaited(const sv_message_box_end_t *end, uint64_t count, uint64_t *before_out);
/* The slot goes over to other mail. */
void sv_near_move(sv_mail_t *from, sv_mail_t *to);

/* Where the record of a direct copy goes, and the word of a kernel that waits for it; NULLs where there is none. */
sv_near_place_t sv_near_landing(const sv_message_engine_t *engine, const sv_message_box_end_t *end, unsigned landing);
sv_near_place_t sv_near_place(const sv_message_engine_t *engine, const sv_message_box_end_t *end, uint64_t count);
/* What the word of a message's slot is when the message is there; before: as in a request. */
static inline uint64_t sv_near_value(uint64_t key, uint64_t before)
{
    return (key ^ sv_digest_mix(before)) | 1; /* new slots have 0 */
}
/* The same for a direct copy, which may be repeated. */
static inline uint64_t sv_near_landed_value(uint64_t key, uint64_t stamp)
{
    return (key ^ stamp << 1) | 1;
}

#endif
