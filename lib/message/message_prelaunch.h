/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that are launched before their message is there (message_prelaunch.c): which, and when. Under the engine's
 * lock.
 */
#ifndef SV_MESSAGE_PRELAUNCH_H
#define SV_MESSAGE_PRELAUNCH_H

#include "message/message_engine.h"

/* Says how long such kernels may wait. 0: there are none. */
void sv_prelaunch_init(sv_message_engine_t *engine);
/* A host is about to wait for these (some may be NULL, or sends): launches what can be. */
void sv_prelaunch_requests(sv_message_engine_t *engine, size_t count, selvage_request_t **requests);
/* The caller knows that a message of so many bytes has begun to come, from another GPU. */
void sv_prelaunch_expect(selvage_request_t *recv, uint64_t bytes);
/* Of a receive that has met its message: whether its kernel takes just that. */
bool sv_prelaunch_fits(const selvage_request_t *recv);
/* What has come in a slot tells what the next one will be. */
void sv_prelaunch_predict(const selvage_request_t *recv, sv_ctrl_desc_t *desc);
/* Ends receives that were to be taken back and whose kernels have gone. */
void sv_prelaunch_cancel(sv_message_engine_t *engine);
/* Waits for all kernels that wait, but no longer than the deadline: a device that has failed ends none. */
void sv_prelaunch_end(sv_message_engine_t *engine);

#endif
