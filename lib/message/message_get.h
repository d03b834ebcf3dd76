/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous by get: the receiver copies a long message out of the sender's device memory. What message_get.c offers to
 * the rendezvous protocol. Under the engine's lock.
 */
#ifndef SV_MESSAGE_GET_H
#define SV_MESSAGE_GET_H

#include "message/message_engine.h"

/* Sender: offers its memory in an RTS, if the receiver could reach it, and has the digest made. stream is the caller's,
   after which the bytes are there. */
void sv_get_offer(selvage_request_t *send, void *stream, sv_ctrl_header_t *rts);
/* Whether the digest is there, or there is none to come. */
bool sv_get_is_ready(const selvage_request_t *send);
/* Takes the offer back; false: the receiver has begun to read. */
bool sv_get_revoke(selvage_request_t *send);

/* Receiver: an RTS was met. Takes what it offers down, and maps it if this receive can be had so. */
void sv_get_match(selvage_request_t *recv, const sv_ctrl_header_t *rts);
/* Begins, unless there is no offer, or its sender has taken it back: false, and there is none any more. */
bool sv_get_begin(selvage_request_t *recv);
/* Copies, and verifies once the digest is there. */
selvage_status_t sv_get_poll(selvage_request_t *recv, bool *moved);

/* The end of either. Accepts a request without an offer. */
void sv_get_end(selvage_request_t *request);

#endif
