/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a message's protocols offer each other: what sends (message_send.c) and receives (message_recv.c)
 * have in common, and the protocols eager and rendezvous. All is called under the engine's lock.
 */
#ifndef SV_MESSAGE_PROTOCOLS_H
#define SV_MESSAGE_PROTOCOLS_H

#include "message/message_calls.h"
#include "message/message_engine.h"

/* --- message_calls.c: what all calls have in common --------------------------------------------------------------- */

/* A request that knows its buffer, with the lock held; on an error neither. Partner: sv_message_conclude(), when the
   call has done what there is to do with it, which gives it and the lock away. */
selvage_status_t sv_message_begin_request(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer,
                                          void *stream, selvage_request_t **request_out);
selvage_status_t sv_message_conclude(selvage_request_t *request, selvage_status_t status,
                                     selvage_request_t **request_out);
/* Lets go of the lock at the end of any other call; returns status. */
selvage_status_t sv_message_leave(sv_message_engine_t *engine, selvage_status_t status);
/* Gives a complete request back, and returns its error; and what a status says where there is no request. */
selvage_status_t sv_message_finish(selvage_request_t **request, selvage_message_status_t *status_out);
selvage_message_status_t sv_message_empty_status(void);

/* --- message_send.c: what all sends have in common ---------------------------------------------------------------- */

/* A control message about a send. */
sv_ctrl_header_t sv_message_send_header(const selvage_request_t *send, sv_ctrl_kind_t kind);
/* What goes wrong after the call ends the request, and nothing else. SUCCESS and IN_PROGRESS change nothing. */
selvage_status_t sv_message_settle_send(selvage_request_t *send, selvage_status_t status);
/* Where kernels of a send run that are to be after the caller's work. */
void *sv_message_send_stream(const selvage_request_t *send, void *stream);
/* Records where the caller's stream, or the engine's that packs, must have come to before the buffer is read. */
selvage_status_t sv_message_record_gate(selvage_request_t *send, void *stream);

/* --- message_recv.c: what all receives have in common ------------------------------------------------------------- */

/* A control message about a receive; and one sent that has only this. */
sv_ctrl_header_t sv_message_recv_header(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value);
selvage_status_t sv_message_reply(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value);
/* The bytes are here and good: to where they belong, if that is not where they are. Completes the receive, or leaves
   that to a kernel. */
selvage_status_t sv_message_unpack(selvage_request_t *recv);
/* A long message is here, and was verified. */
selvage_status_t sv_message_recv_finish(selvage_request_t *recv, selvage_status_t found);
void sv_message_count_outcome(selvage_request_t *recv, selvage_status_t found);
/* Whether the policy allows another attempt. If not, give_up returns the error, with the thread's detail. */
bool sv_message_may_retry(const selvage_request_t *recv);
selvage_status_t sv_message_give_up(selvage_request_t *recv);

/* --- message_eager.c ---------------------------------------------------------------------------------------------- */

/* Takes a descriptor in the neighbour's shared segment, with a slot in his device memory, which takes longer messages
   too. False if there is none for this send. */
bool sv_eager_take_slot(selvage_request_t *send, const sv_message_peer_t *peer);
/* Whether it is short enough for a descriptor, and not too many are in flight. */
bool sv_eager_takes(const selvage_request_t *send, const sv_message_peer_t *peer);
selvage_status_t sv_eager_begin(selvage_request_t *send, sv_message_peer_t *peer, void *stream);
/* Of a send that is held. */
selvage_status_t sv_eager_launch(selvage_request_t *send);
/* GATE; gate is what sv_message_gate() says. */
selvage_status_t sv_eager_pass_gate(selvage_request_t *send, selvage_status_t gate);
/* FILLING. */
selvage_status_t sv_eager_poll_filled(selvage_request_t *send, bool *moved);
/* Receive: GATE, with the descriptor; and once it is verified. */
selvage_status_t sv_eager_receive(selvage_request_t *recv);
selvage_status_t sv_eager_finish(selvage_request_t *recv, selvage_status_t found);

/* --- message_rendezvous.c ----------------------------------------------------------------------------------------- */

/* Sends an RTS. After an RTR was claimed it copies, and sends an RTS that says so. */
selvage_status_t sv_rendezvous_begin(selvage_request_t *send, void *stream);
selvage_status_t sv_rendezvous_begin_claimed(selvage_request_t *send, const sv_message_peer_t *peer, void *stream);
/* GATE: the caller's stream has come so far, or this one is after it. IN_PROGRESS for want of memory. */
selvage_status_t sv_rendezvous_pass_gate(selvage_request_t *send, void *stream);
/* MOVING, and CLOSING. */
selvage_status_t sv_rendezvous_poll_moving(selvage_request_t *send, bool *moved);
selvage_status_t sv_rendezvous_send_record(selvage_request_t *send);
/* Receive: GATE, if it is not got; and MOVING. */
selvage_status_t sv_rendezvous_receive(selvage_request_t *recv);
selvage_status_t sv_rendezvous_take(selvage_request_t *recv, bool *moved);

#endif
