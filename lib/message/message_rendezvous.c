/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous protocol: a long message, and one that is to be complete only when it has met its receive, is
 * announced by an RTS and waits for the CTS that says which way its bytes go.
 *
 *   get      out of the sender's device memory, by the receiver's kernel or copy engine; no CTS     message_get.c
 *   put      straight into the receiver's device memory, by the sender's kernel or copy engine      message_put.c
 *   staged   in pieces over the wire, through pinned memory                                         message_staged.c
 *
 *   send      event                            action                                             next
 *   (call)    no RTR                           RTS                                                RTS_SENT
 *   (call)    an RTR is claimed                the copy begins, RTS tells it                      MOVING, GATE
 *   RTS_SENT  get: STATUS good, bad                                                               COMPLETE
 *   RTS_SENT  CTS                              the memory is mapped (else CTS_NACK: as before)    GATE
 *   RTS_SENT  CTS of nothing, digest is there                                                     COMPLETE
 *   any       ABANDONED                                                                           COMPLETE
 *   GATE      the caller's stream is there     copy or pieces begin; the digest                   MOVING
 *   MOVING    put: the receiver's verdict                                                         COMPLETE
 *   MOVING    staged: all pieces have left                                                        CLOSING
 *   CLOSING   the digest is there              FIN with the record                                AWAITS_STATUS
 *   AWAITS_STATUS  STATUS good, bad                                                               COMPLETE
 *   AWAITS_STATUS, MOVING  CTS of the next attempt                                                GATE
 *
 *   receive   event                            action                                             next
 *   GATE      RTS met that offers a get        the copy begins                                    MOVING
 *   MOVING    get: the digest is here          a kernel verifies                                  CLOSING
 *   GATE      RTS of a get, taken back                                                            COMPLETE
 *   GATE      RTS met, stream is there         CTS, with a put slot or a tag for pieces           MOVING
 *   MOVING    put: bytes and record are here   a kernel verifies                                  CLOSING
 *   MOVING    staged: pieces and FIN are here  a kernel verifies; host memory was summed          CLOSING
 *   MOVING    staged: FIN is here, pieces lost counted as damage                                  GATE
 *   MOVING    CTS_NACK                         no put of it any more, or none from this rank      GATE
 *   CLOSING   good                             STATUS, unless the kernel told it; unpacked        COMPLETE, UNPACKING
 *   CLOSING   damaged, out of a buffer         copied once more                                   GATE
 *   CLOSING   damaged                          asked for again, by a CTS of the next attempt      GATE
 *
 * Under the engine's lock.
 */
#include "base/base_log.h"
#include "message/message_get.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_protocols.h"
#include "message/message_put.h"
#include "message/message_shm.h"

/* --- send --------------------------------------------------------------------------------------------------------- */

selvage_status_t sv_rendezvous_begin(selvage_request_t *send, void *stream)
{
    sv_ctrl_desc_t *desc = NULL;
    sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_RTS);
    header.value[0] = send->place.on_device;
    if (send->place.on_device)
        SV_TRY(sv_message_pack_device(send, sv_message_send_stream(send, stream)));
    SV_TRY(sv_message_record_gate(send, stream)); /* what is told has its number */
    /* The descriptor is there before anything is offered, so that nothing fails after that but what ends the engine. */
    SV_TRY(sv_ctrl_alloc_to(send->engine, send->peer, true, &desc));
    send->state = SV_REQUEST_RTS_SENT;
    sv_get_offer(send, stream, &header);
    *desc->header = header;
    return sv_ctrl_send(send->engine, desc, send->peer);
}

/* Copies and sums may begin: the caller's stream has come so far. */
selvage_status_t sv_rendezvous_pass_gate(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    if (send->route == SV_MESSAGE_STAGED)
        SV_TRY(sv_message_pieces_begin(send));
    if (send->route == SV_MESSAGE_PUT)
        SV_TRY(sv_put_start(send));
    send->state = SV_REQUEST_MOVING;
    send->corrupted = engine->comm->fault.armed && send->place.on_device &&
                      sv_fault_packet(&engine->comm->fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    if (send->route == SV_MESSAGE_PUT)
        return sv_put_copy(send, stream);
    if (!send->place.on_device)
        return sv_message_pack_host(send);
    if (!sv_message_checks(engine))
        return SELVAGE_SUCCESS;
    send->stamp = ++engine->stamps;
    const sv_prepare_job_t job = {.src = send->place.data, .record = &send->line->record, .word = &send->line->ready,
                                  .stamp = send->stamp};
    return sv_message_prepare(send, &job, engine->streams.kernel);
}

static selvage_status_t move_claimed(selvage_request_t *send, void *stream)
{
    enum { SHORT_BYTES = 2 << 20 }; /* what holds the caller's stream up for microseconds only */
    const bool packed = send->place.layout != NULL;
    SV_TRY(sv_message_pack_device(send, sv_message_send_stream(send, stream)));
    SV_TRY(sv_message_record_gate(send, stream));
    if (!send->gated)
        return sv_rendezvous_pass_gate(send, send->engine->streams.kernel);
    if (sv_put_by_kernel(send) && (packed || send->bytes <= SHORT_BYTES)) {
        send->gated = false; /* the stream itself sees to it */
        return sv_rendezvous_pass_gate(send, sv_message_send_stream(send, stream));
    }
    send->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* Its receive is posted, and has said where: the copy begins, and then the receiver hears of it, by a descriptor that
   is there before. */
selvage_status_t sv_rendezvous_begin_claimed(selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    sv_ctrl_desc_t *desc = NULL;
    sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_RTS);
    header.value[0] = true;
    header.value[1] = send->put.slot;
    header.value[2] = send->put.stamp;
    selvage_status_t status = sv_ctrl_alloc_to(send->engine, send->peer, true, &desc);
    if (status == SELVAGE_SUCCESS)
        status = move_claimed(send, stream);
    if (status == SELVAGE_SUCCESS) {
        *desc->header = header;
        return sv_ctrl_send(send->engine, desc, send->peer);
    }
    if (desc)
        sv_ctrl_free(send->engine, desc);
    sv_message_rtr_unclaim(send, peer);
    return status;
}

selvage_status_t sv_rendezvous_poll_moving(selvage_request_t *send, bool *moved)
{
    const bool checks = sv_message_checks(send->engine);
    if (send->route == SV_MESSAGE_PUT) {
        /* The streams tell the receiver themselves, and his kernel gives the verdict. */
        if (checks ? !sv_put_is_good(send) : !sv_put_has_left(send))
            return SELVAGE_IN_PROGRESS;
    } else {
        SV_TRY(sv_message_pieces_send(send, moved));
        sv_message_pieces_end(send);
    }
    *moved = true;
    if (send->route != SV_MESSAGE_PUT && checks)
        send->state = SV_REQUEST_CLOSING;
    else
        sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

/* All bytes have left: the record follows. */
selvage_status_t sv_rendezvous_send_record(selvage_request_t *send)
{
    sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_FIN);
    if (send->place.on_device) {
        if (!sv_word_is(&send->line->ready, send->stamp)) /* partner: the digest kernel */
            return SELVAGE_IN_PROGRESS;
        header.record = send->line->record;
    } else {
        header.record = send->identity;
        header.record.digest = sv_digest_finish(send->key, send->staged.sum);
    }
    send->state = SV_REQUEST_AWAITS_STATUS;
    return sv_ctrl_send_header(send->engine, send->peer, &header);
}

/* Whether the receiver says a way that there is, and a place in its shared segment that there is. */
static bool is_route_usable(const selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    sv_message_peer_t *peer;
    if (cts->value[0] != SV_MESSAGE_PUT)
        return cts->value[0] == SV_MESSAGE_NONE || cts->value[0] == SV_MESSAGE_STAGED;
    if (cts->value[1] >= SV_SHM_PUT_SLOTS || cts->value[2] == 0)
        return false;
    return sv_message_peer(send->engine, send->peer, &peer) == SELVAGE_SUCCESS &&
           (send->peer == send->engine->wire->rank ? peer->in : peer->out) != NULL;
}

void sv_message_send_cleared(selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    bool again = cts->attempt > send->attempt;
    if (send->given_up) { /* its caller has its buffer back */
        (void)sv_message_settle_send(send, sv_error_quiet(SELVAGE_ERR_TIMEOUT, "its caller has given it up"));
        return;
    }
    sv_get_declined(send, cts);
    if (again && send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_PUT)
        sv_put_end(send);
    else if (send->state != SV_REQUEST_RTS_SENT && !(again && send->state == SV_REQUEST_AWAITS_STATUS))
        return;
    if (!is_route_usable(send, cts)) {
        (void)sv_message_settle_send(send, sv_error(SELVAGE_ERR_MISMATCH,
                                                    "rank %d wants message %llu by a way that there is not", send->peer,
                                                    (unsigned long long)send->number));
        return;
    }
    if (cts->value[0] == SV_MESSAGE_NONE && !send->place.bounce && sv_get_is_ready(send)) {
        sv_message_complete(send, SELVAGE_SUCCESS);
        return;
    }
    send->other_id = cts->recv_id;
    send->attempt = cts->attempt;
    send->route = (sv_message_route_t)cts->value[0];
    sv_message_identify(send);
    const selvage_status_t opened = send->route == SV_MESSAGE_PUT ? sv_put_open(send, cts) : SELVAGE_SUCCESS;
    if (opened != SELVAGE_SUCCESS) {
        sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_CTS_NACK);
        header.value[0] = sv_transfer_never_maps(opened);
        sv_put_end(send);
        send->state = SV_REQUEST_RTS_SENT;
        (void)sv_message_settle_send(send, sv_ctrl_send_header(send->engine, send->peer, &header));
        return;
    }
    send->state = SV_REQUEST_GATE;
    sv_message_wake(send);
}

/* --- receive ------------------------------------------------------------------------------------------------------ */

selvage_status_t sv_rendezvous_receive(selvage_request_t *recv)
{
    sv_get_end(recv);
    sv_ctrl_header_t header = sv_message_recv_header(recv, SV_CTRL_CTS, SV_MESSAGE_PUT);
    recv->route = SV_MESSAGE_PUT;
    if (sv_put_fill_cts(recv, &header)) {
        recv->state = SV_REQUEST_MOVING;
        recv->engine->arrived.by[SV_WAY_DIRECT]++;
        return sv_ctrl_send_header(recv->engine, recv->peer, &header);
    }
    recv->route = SV_MESSAGE_NONE;
    if (recv->early.launched) /* for what will not land: meet_early_kernel() has it go */
        return SELVAGE_IN_PROGRESS;
    recv->route = SV_MESSAGE_STAGED;
    SV_TRY(sv_message_pieces_begin(recv));
    recv->engine->arrived.by[SV_WAY_STAGED]++;
    recv->state = SV_REQUEST_MOVING;
    recv->staged.record_here = false;
    recv->staged.silent_ns = 0;
    return sv_message_reply(recv, SV_CTRL_CTS, SV_MESSAGE_STAGED);
}

/* What a neighbour on the node has copied straight here. */
static selvage_status_t take_put(selvage_request_t *recv, bool *moved)
{
    if (!sv_put_has_arrived(recv))
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    if (sv_message_checks(recv->engine)) {
        sv_verify_job_t job = sv_put_job(recv);
        job.await = NULL;
        recv->state = SV_REQUEST_CLOSING;
        return sv_message_verify(recv, &job, recv->engine->streams.kernel);
    }
    sv_put_end(recv);
    return sv_message_unpack(recv);
}

/* Everything has landed, and what says what it should be. */
static selvage_status_t take_staged(selvage_request_t *recv, bool *moved)
{
    if (recv->staged.finished < recv->staged.npieces || recv->staged.nslots > 0) {
        bool any = false;
        const selvage_status_t status = sv_message_pieces_recv(recv, &any);
        *moved |= any;
        if (status == SELVAGE_IN_PROGRESS && sv_message_pieces_are_lost(recv, any)) {
            /* The wire has lost pieces, unless it is in the middle of one: all of them are asked for again. */
            if (!sv_message_pieces_take_back(recv))
                return SELVAGE_IN_PROGRESS;
            (void)sv_error_quiet(SELVAGE_ERR_CHECKSUM,
                                 "of message %llu from rank %d (tag %d, %llu bytes) %u of %u pieces came",
                                 (unsigned long long)recv->number, recv->peer, recv->tag,
                                 (unsigned long long)recv->bytes, recv->staged.issued, recv->staged.npieces);
            sv_message_pieces_end(recv);
            recv->staged.losses++; /* how often is bounded by the deadline alone */
            return sv_message_recv_finish(recv, SELVAGE_ERR_CHECKSUM);
        }
        SV_TRY(status);
        sv_message_pieces_end(recv);
        *moved = true;
    }
    if (!sv_message_checks(recv->engine))
        return sv_message_unpack(recv);
    recv->staged.awaits_record = !recv->staged.record_here;
    if (recv->staged.awaits_record)
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    if (!recv->place.on_device)
        return sv_message_recv_finish(recv, sv_message_compare(recv, &recv->line->record, recv->staged.sum));
    recv->state = SV_REQUEST_CLOSING;
    const sv_verify_job_t job = {.src = recv->place.data, .record = &recv->line->record};
    return sv_message_verify(recv, &job, recv->engine->streams.in);
}

selvage_status_t sv_rendezvous_take(selvage_request_t *recv, bool *moved)
{
    if (recv->route == SV_MESSAGE_GET)
        return sv_get_poll(recv, moved);
    return recv->route == SV_MESSAGE_PUT ? take_put(recv, moved) : take_staged(recv, moved);
}

void sv_message_recv_fin(selvage_request_t *recv, const sv_ctrl_header_t *done)
{
    sv_message_peer_t *peer;
    if (recv->state != SV_REQUEST_MOVING || done->attempt != recv->attempt)
        return;
    if (done->kind != SV_CTRL_CTS_NACK) {
        recv->line->record = done->record;
        recv->staged.record_here = true;
        sv_message_wake(recv);
    } else if (recv->route == SV_MESSAGE_PUT) {
        /* The sender cannot reach this memory: by another way, this message, and those after it if that is for good. */
        sv_put_end(recv);
        recv->put.denied = true;
        recv->engine->arrived.by[SV_WAY_DIRECT]--;
        recv->state = SV_REQUEST_GATE;
        if (done->value[0] && sv_message_peer(recv->engine, recv->peer, &peer) == SELVAGE_SUCCESS)
            peer->no_direct = true;
    }
}
