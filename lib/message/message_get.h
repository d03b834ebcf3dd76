/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous by get: the receiver copies a long message out of the sender's device memory. What message_get.c offers to
 * the rendezvous protocol. Under the engine's lock.
 */
#ifndef SV_MESSAGE_GET_H
#define SV_MESSAGE_GET_H

#include "message/message_layout.h"
#include "message/message_shm.h"

/* The shared segment that a request's offer is in. */
sv_shm_end_t *sv_get_end_of(const selvage_request_t *request);

/* Sender: offers its memory in an RTS, if the receiver could reach it, and has the digest made. stream is the caller's,
   after which the bytes are there. */
void sv_get_offer(selvage_request_t *send, void *stream, sv_ctrl_header_t *rts);
/* A CTS has come: if it answers an offer that was not taken, that counts towards making fewer of them. A receive in
   host memory does not count, nor one that wants nothing. */
void sv_get_declined(const selvage_request_t *send, const sv_ctrl_header_t *cts);
/* Whether the bytes of a buffered send can be lent, and should be; asked once for each. */
bool sv_get_may_lend(const selvage_request_t *send, void *stream);
/* A buffered send: it is lent; or a kernel copies it to device memory of the engine's, from which it is received, and
   then it is complete. ERR_LIMIT if that cannot be. */
selvage_status_t sv_get_send_buffered(selvage_request_t *send, const sv_message_peer_t *peer, bool lends, void *stream);
/* Whether the digest is there, or there is none to come; of a buffered send, whether it is complete. */
bool sv_get_is_ready(const selvage_request_t *send);
/* Takes the offer back; false: the receiver has begun to read. */
bool sv_get_revoke(selvage_request_t *send);

/* Receiver: an RTS was met. Takes what it offers down, and maps it if this receive can be had so. ERR_TIMEOUT if the
   sender has given up. */
selvage_status_t sv_get_match(selvage_request_t *recv, const sv_ctrl_header_t *rts);
/* Begins, if there is an offer that this rank can reach: then the receive is MOVING. ERR_TIMEOUT if the sender has
   given up. */
selvage_status_t sv_get_begin(selvage_request_t *recv, bool *begun_out);
/* Copies, and verifies once the digest is there. */
selvage_status_t sv_get_poll(selvage_request_t *recv, bool *moved);

/* Receiver, when it did not verify: whether it is read once more, without its sender's doing. */
bool sv_get_again(selvage_request_t *recv);
/* Receiver, when it was verified: on to host memory, if it is to go there. */
selvage_status_t sv_get_to_host(selvage_request_t *recv);

/* The end of either. Accepts a request without an offer. */
void sv_get_end(selvage_request_t *request);

/* Host memory that a lent message was moved to. */
typedef struct sv_move_segment {
    sv_list_t link;          /* of those that nobody needs any more */
    sv_shared_segment_t shared;
} sv_move_segment_t;

/* --- message_lend.c ----------------------------------------------------------------------------------------------- */

/* Completes it when it was read or moved, and moves it when its receiver is late. */
selvage_status_t sv_lend_poll(selvage_request_t *send, bool *moved);
/* Whether it can be given up: its carrier only offers it, and nobody has taken that. */
bool sv_lend_revoke(selvage_request_t *send);
/* Receiver: maps what the message was moved to, in place of what was mapped. */
selvage_status_t sv_lend_follow(selvage_request_t *recv);
/* Nobody needs the segment any more that the bytes were moved to. */
void sv_lend_leave_segment(sv_message_engine_t *engine, sv_request_get_t *get);
/* Moves the segments that nobody needs any more to the list `trimmed`, which is initialized. Partner:
   sv_lend_close(). */
void sv_lend_trim(sv_message_engine_t *engine, sv_list_t *trimmed);
/* May wait for all work of the device. Without the lock. */
void sv_lend_close(sv_list_t *trimmed);

#endif
