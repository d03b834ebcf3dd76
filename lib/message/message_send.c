/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all sends have in common from call to end: number and identity, the choice of a protocol, the order after the
 * caller's stream, errors. message_eager.c and message_rendezvous.c are the protocols, with tables of their states.
 * Under the engine's lock.
 */
#include "message/message_get.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_protocols.h"
#include "message/message_put.h"

sv_ctrl_header_t sv_message_send_header(const selvage_request_t *send, sv_ctrl_kind_t kind)
{
    return (sv_ctrl_header_t){.kind = kind,
                              .tag = (uint32_t)send->tag,
                              .number = send->number,
                              .bytes = send->bytes,
                              .attempt = send->attempt,
                              .send_id = sv_message_id(send),
                              .recv_id = send->other_id};
}

/* An error after the call ends this request and nothing else. But messages after it wait for its number. So the number
   is announced as that of a long message whose sender never answers. */
selvage_status_t sv_message_settle_send(selvage_request_t *send, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS || status == SELVAGE_IN_PROGRESS || send->state == SV_REQUEST_COMPLETE)
        return SELVAGE_SUCCESS;
    sv_message_engine_t *engine = send->engine;
    const sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_RTS);
    const bool is_gap = send->desc && !send->eager.announced && engine->broken == SELVAGE_SUCCESS;
    const int peer = send->peer;
    sv_message_complete(send, status);
    if (is_gap)
        (void)sv_ctrl_send_header(engine, peer, &header);
    return SELVAGE_SUCCESS;
}

/* Where kernels of a send run that are to be after the caller's work. */
void *sv_message_send_stream(const selvage_request_t *send, void *stream)
{
    return stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->streams.kernel : stream;
}

selvage_status_t sv_message_record_gate(selvage_request_t *send, void *stream)
{
    const bool packed = send->place.layout && send->place.on_device;
    if (send->bytes == 0 || (stream == SELVAGE_MESSAGE_NO_STREAM && !packed))
        return SELVAGE_SUCCESS;
    return sv_message_record(send, sv_message_send_stream(send, stream));
}

static selvage_status_t begin_protocol(selvage_request_t *send, sv_message_peer_t *peer, void *stream)
{
    const bool lends = send->buffered && sv_get_may_lend(send, stream);
    if (lends || (send->buffered && !sv_eager_take_slot(send, peer))) {
        selvage_status_t status = sv_get_send_buffered(send, peer, lends, stream);
        if (status == SELVAGE_ERR_LIMIT && sv_eager_take_slot(send, peer)) /* no place to lend it from */
            status = sv_eager_begin(send, peer, stream);
        send->refused = status == SELVAGE_ERR_LIMIT;
        if (send->refused)
            return sv_error_quiet(status, "rank %d has no room for a message of %llu bytes now", send->peer,
                                  (unsigned long long)send->bytes);
        return status;
    }
    if (send->desc || sv_eager_take_slot(send, peer) || sv_eager_takes(send, peer))
        return sv_eager_begin(send, peer, stream);
    return sv_message_rtr_claim(send, peer) ? sv_rendezvous_begin_claimed(send, peer, stream)
                                            : sv_rendezvous_begin(send, stream);
}

selvage_status_t sv_message_send(selvage_request_t *send, void *stream)
{
    enum { HOST_ANSWERS = 63 };
    sv_message_engine_t *engine = send->engine;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->number = peer->sent + 1;
    send->before = peer->last[sv_message_tag_class(send->tag)];
    sv_message_identify(send);
    SV_TRY(begin_protocol(send, peer, stream));
    peer->sent++;
    if (send->place.on_device)
        peer->host_answers = HOST_ANSWERS;
    peer->last[sv_message_tag_class(send->tag)] = send->number;
    sv_list_append(&engine->active, &send->link);
    /* The digest of an offered get was kept until its announcement was out. If that fails, the engine has failed. */
    if (engine->group.depth == 0)
        (void)sv_message_group_launch(engine);
    return SELVAGE_SUCCESS;
}

/* The caller's stream has come so far, or not. */
static selvage_status_t pass_gate(selvage_request_t *send, bool *moved)
{
    selvage_status_t status = sv_message_gate(send);
    if (send->desc) {
        const bool passed = status == SELVAGE_SUCCESS;
        status = sv_eager_pass_gate(send, status);
        *moved |= passed && status == SELVAGE_SUCCESS;
        return status;
    }
    SV_TRY(status);
    if (!sv_get_is_ready(send)) /* a get that was offered and not taken: a kernel still reads the buffer */
        return SELVAGE_IN_PROGRESS;
    if (send->route == SV_MESSAGE_NONE) /* what packs it no longer writes the bounce buffer */
        sv_message_complete(send, SELVAGE_SUCCESS);
    else
        status = sv_rendezvous_pass_gate(send, send->engine->streams.kernel);
    *moved |= status == SELVAGE_SUCCESS;
    return status;
}

selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved)
{
    selvage_status_t status = sv_message_group_error(send);
    if (status != SELVAGE_SUCCESS)
        return sv_message_settle_send(send, status);
    status = SELVAGE_IN_PROGRESS;
    if (send->state == SV_REQUEST_GATE) {
        status = pass_gate(send, moved);
    } else if (send->state == SV_REQUEST_FILLING) {
        status = sv_eager_poll_filled(send, moved);
    } else if (send->state == SV_REQUEST_BUFFERING) {
        if (sv_get_is_ready(send)) {
            *moved = true;
            sv_message_complete(send, SELVAGE_SUCCESS);
        }
    } else if (send->state == SV_REQUEST_LENT) {
        status = sv_lend_poll(send, moved);
    } else if (send->state == SV_REQUEST_MOVING) {
        status = sv_rendezvous_poll_moving(send, moved);
    } else if (send->state == SV_REQUEST_CLOSING) {
        status = sv_rendezvous_send_record(send);
        *moved |= status == SELVAGE_SUCCESS;
    }
    return sv_message_settle_send(send, status);
}

/* A kernel on the caller's stream reads the buffer in the order of that stream. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status)
{
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_PUT;
    if (send->state == SV_REQUEST_COMPLETE)
        return true;
    if (send->state == SV_REQUEST_FILLING || send->state == SV_REQUEST_BUFFERING ||
        !(send->state == SV_REQUEST_LENT ? sv_lend_revoke(send) : sv_get_revoke(send)) ||
        (direct && !(sv_message_drain(send->engine) && sv_put_has_left(send))))
        return false;
    (void)sv_message_settle_send(send, status);
    return true;
}
