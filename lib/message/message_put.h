/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages straight into the receiver's device memory: what message_put.c offers, and message_rtr.c, which saves
 * the handshake. Under the engine's lock.
 */
#ifndef SV_MESSAGE_PUT_H
#define SV_MESSAGE_PUT_H

#include "message/message_engine.h"
#include "message/message_layout.h"

/* Copies straight into the receiver's memory. Receiver: reserve finds a put slot and says in the shared segment where
   the memory is, false if that cannot be. release gives back a slot that nobody has seen. fill_cts writes it into a
   CTS. */
bool sv_put_reserve(selvage_request_t *recv, struct sv_message_peer *peer);
void sv_put_release(selvage_request_t *recv);
bool sv_put_fill_cts(selvage_request_t *recv, sv_ctrl_header_t *cts);
/* Sender: SUCCESS, or that memory cannot be reached from here, now or ever: sv_transfer_never_maps(). */
selvage_status_t sv_put_map(selvage_request_t *send, const sv_message_where_t *where);
selvage_status_t sv_put_open(selvage_request_t *send, const sv_ctrl_header_t *cts);
/* Before the copy. start: ERR_TIMEOUT if the receiver has taken its memory back. revoke takes it back; false if the
   copy has begun. */
selvage_status_t sv_put_start(selvage_request_t *send);
bool sv_put_revoke(const selvage_request_t *recv);
/* Takes the memory back, or waits for the copy. False if that takes too long. */
bool sv_put_close(const selvage_request_t *recv);
/* The handle of this rank's memory, and the offset there; those of allocations that were asked for lately are known.
   id: of the allocation, 0 if it was not asked for. */
selvage_status_t sv_message_export(sv_message_engine_t *engine, const uint8_t *ptr, size_t bytes, uint64_t id,
                                   sv_device_handle_t *handle, uint64_t *offset);
/* How often that was asked of an allocation, after the first time. */
unsigned sv_message_export_uses(const sv_message_engine_t *engine, uint64_t id);
/* The same of a whole bounce buffer, which keeps it. */
selvage_status_t sv_message_export_bounce(sv_message_engine_t *engine, sv_message_bounce_t *bounce,
                                          sv_message_where_t *where_out);
/* stream: of a kernel that copies. */
selvage_status_t sv_put_copy(selvage_request_t *send, void *stream);
/* Whether a kernel copies it, and sums in the same pass; both ends come to one answer. */
bool sv_put_by_kernel(const selvage_request_t *request);
/* Whether the bytes, and the record, have left or landed. */
bool sv_put_has_left(const selvage_request_t *send);
bool sv_put_has_arrived(const selvage_request_t *recv);
/* Sender: whether the receiver's kernel has found all good. */
bool sv_put_is_good(const selvage_request_t *send);
/* Receiver: what is to be verified, and what a kernel can wait for. Nothing if await is NULL. */
sv_verify_job_t sv_put_job(const selvage_request_t *recv);
void sv_put_end(selvage_request_t *request);

/* --- message_rtr.c ------------------------------------------------------------------------------------------------ */

/* Offers a receive that is posted, if it can be. */
void sv_message_rtr_post(selvage_request_t *recv);
typedef enum sv_rtr_end {
    SV_RTR_CANCELLED, /* nobody will claim it, or there was none */
    SV_RTR_CLAIMED,   /* its message is on its way */
    SV_RTR_DENIED,    /* claimed, but its memory could not be mapped, and given back */
    SV_RTR_RETURNED   /* claimed, but its message could not leave, and given back */
} sv_rtr_end_t;
sv_rtr_end_t sv_message_rtr_cancel(selvage_request_t *recv);
/* The receive has met its message. Says whether that has claimed it, and withdraws the RTR if not. */
selvage_status_t sv_message_rtr_match(selvage_request_t *recv, const sv_ctrl_header_t *header, bool *claimed_out);
/* Sender: finds, claims and maps what is offered for this message. */
bool sv_message_rtr_claim(selvage_request_t *send, struct sv_message_peer *peer);
/* The message of sv_message_rtr_claim() does not leave after all. Waits for the copy that has begun, and gives the RTR
   back. */
void sv_message_rtr_unclaim(selvage_request_t *send, const struct sv_message_peer *peer);

#endif
