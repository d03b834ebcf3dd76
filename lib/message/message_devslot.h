/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots in the device memory of a shared segment's reader, for what its writer sends from device memory to device
 * memory. The writer's kernel stores payload, record and then a word there. The reader's kernel copies on and verifies
 * in one pass, without a look at host memory. The control message comes by the shared segment as ever.
 *
 * Slots take turns: of the messages that came this way, number c lies in slot c modulo their number. So the reader
 * knows where the next one will be. Its word is made of the message's key, and of the number of the last message before
 * it with such a tag. A kernel can thus wait for a message that has not come yet, and take no other one
 * (message_prelaunch.c). The writer's kernel stores the same value beside the word, ahead of it, when the record is
 * under way (SV_DIGEST_AHEAD).
 */
#ifndef SV_MESSAGE_DEVSLOT_H
#define SV_MESSAGE_DEVSLOT_H

#include "message/message_shm.h"

typedef struct sv_devslot_place {
    uint8_t *payload;
    sv_record_t *record;
    uint64_t *word;
} sv_devslot_place_t;

/* Reader: makes the slots, if it can, and says in the shared segment where they are. */
void sv_devslot_create(sv_message_engine_t *engine, sv_shm_end_t *end);
/* Writer: maps them, if it can. */
void sv_devslot_open(sv_message_engine_t *engine, const sv_message_peer_t *peer, sv_shm_end_t *end);
void sv_devslot_close(sv_shm_end_t *end);

/* Writer: gives a descriptor in the shared segment the next slot. False if that is not free, or there is none. */
bool sv_devslot_take(const selvage_request_t *send, sv_ctrl_desc_t *desc);
/* Gives the slot of a descriptor back, if it has one: the reader when the message was taken, the writer if it never
   left. */
void sv_devslot_put(sv_ctrl_desc_t *desc);
/* Reader: has noted what the word of the slot is, with the message in it. */
void sv_devslot_mark(sv_ctrl_desc_t *desc, uint64_t key);
/* Reader: whether this message would find its slot free, and what the word is until then. */
bool sv_devslot_is_awaited(const sv_shm_end_t *end, uint64_t count, uint64_t *before_out);
/* The slot goes over to another descriptor. */
void sv_devslot_move(sv_ctrl_desc_t *from, sv_ctrl_desc_t *to);

/* Where the record of a direct copy goes, and the word of a kernel that waits for it. NULLs where there is none. */
sv_devslot_place_t sv_devslot_of_put(const sv_message_engine_t *engine, const sv_shm_end_t *end, unsigned put_slot);
/* The same for a get. Its writer says in the RTS whether it uses this. */
sv_devslot_place_t sv_devslot_of_get(const sv_message_engine_t *engine, const sv_shm_end_t *end, unsigned place);
sv_devslot_place_t sv_devslot_place(const sv_message_engine_t *engine, const sv_shm_end_t *end, uint64_t count);
/* The word of a message's slot when the message is there. before is as in a request. */
static inline uint64_t sv_devslot_value(uint64_t key, uint64_t before)
{
    return (key ^ sv_digest_mix(before)) | 1; /* new slots have 0 */
}
/* Likewise for a direct copy, which may be repeated. */
static inline uint64_t sv_devslot_put_value(uint64_t key, uint64_t stamp)
{
    return (key ^ stamp << 1) | 1;
}

#endif
