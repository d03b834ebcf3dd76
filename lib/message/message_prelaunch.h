/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that are launched before their message is there (message_prelaunch.c). Under the engine's lock.
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
/* Launches a kernel that waits for job->await, for a receive that has met its message. False: it may not wait, or too
   many do. stream NULL: one of the engine's for such kernels. */
bool sv_prelaunch_verify(selvage_request_t *recv, sv_verify_job_t *job, void *stream);
/* Of a receive that has met its message: whether its kernel takes just that. */
bool sv_prelaunch_fits(const selvage_request_t *recv);
/* What has come in a slot tells what the next one will be. */
void sv_prelaunch_predict(const selvage_request_t *recv, sv_ctrl_desc_t *desc);
/* Whether the kernel has gone without it. */
bool sv_prelaunch_has_left(selvage_request_t *recv);
/* Its kernel is over, without the message or with it. */
bool sv_prelaunch_is_over(selvage_request_t *recv);
void sv_prelaunch_stop(selvage_request_t *recv);
/* Its kernel is over. */
void sv_prelaunch_ended(selvage_request_t *recv);
/* How many blocks of such kernels may be on the device by now. */
unsigned sv_prelaunch_blocks(const sv_message_engine_t *engine);
/* Ends receives that were to be taken back and whose kernels have gone. */
void sv_prelaunch_cancel(sv_message_engine_t *engine);
/* Waits for all kernels that wait, but no longer than the deadline: a device that has failed ends none. */
void sv_prelaunch_end(sv_message_engine_t *engine);

#endif
