/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a message engine has kept for later messages and nobody has used for long: mappings of other ranks' memory,
 * buffers of device memory, segments of moved messages. To give that back may wait for all work of the device. So polls
 * leave it, and calls that may wait take it out under the engine's lock, and give it back without.
 */
#ifndef SV_MESSAGE_IDLE_H
#define SV_MESSAGE_IDLE_H

#include "message/message_engine.h"

typedef struct sv_message_idle {
    sv_list_t mappings, segments, buffers;
} sv_message_idle_t;

/* Takes out what is to be given back at this time, which may be a little late: nothing after an error, or where the
   device may never come to an end. The caller has the lock. Partner: sv_message_free_idle(). */
void sv_message_take_idle(sv_message_engine_t *engine, uint64_t now_ns, sv_message_idle_t *idle);
/* May wait for the device. Without the lock. */
void sv_message_free_idle(sv_message_engine_t *engine, sv_message_idle_t *idle);

#endif
