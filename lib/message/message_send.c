/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all sends have in common from call to end: number and identity, the choice of a protocol, the order after the
 * caller's stream, the receiver's verdict, errors. message_eager.c and message_rendezvous.c are the protocols, with
 * tables of their states. The calls take the engine's lock, and all else is under it.
 */
#include "message/message_calls.h"
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

selvage_status_t sv_message_isend(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, sv_send_kind_t kind, void *stream, selvage_request_t **request_out)
{
    enum { HOST_ANSWERS = 63, FEW = 64 };
    selvage_request_t *send;
    sv_message_peer_t *to = NULL;
    SV_TRY(sv_message_begin_request(comm, call, buffer, stream, &send));
    sv_message_engine_t *engine = send->engine;
    send->is_send = true;
    send->peer = peer;
    send->tag = tag;
    send->bytes = send->place.bytes;
    send->synchronous = kind == SV_SEND_SYNCHRONOUS;
    send->buffered = kind == SV_SEND_BUFFERED || kind == SV_SEND_HELD;
    if (peer == SV_MESSAGE_NOBODY) {
        sv_message_complete(send, SELVAGE_SUCCESS);
        return sv_message_conclude(send, SELVAGE_SUCCESS, request_out);
    }
    if (kind == SV_SEND_HELD && stream == SELVAGE_MESSAGE_NO_STREAM) /* others may be gone by then */
        sv_message_hold(send);
    /* 1. Its number, and who it is. */
    selvage_status_t status = sv_message_peer(engine, peer, &to);
    if (status != SELVAGE_SUCCESS)
        goto done;
    send->number = to->sent + 1;
    send->before = to->last[sv_message_tag_class(tag)];
    sv_message_identify(send);
    /* 2. Its protocol. A buffered one is lent, goes to a slot or is copied, and waits for nobody. */
    const bool lends = send->buffered && sv_get_may_lend(send, stream);
    if (lends || (send->buffered && !sv_eager_take_slot(send, to))) {
        status = sv_get_send_buffered(send, to, lends, stream);
        if (status == SELVAGE_ERR_LIMIT && sv_eager_take_slot(send, to)) /* no place to lend it from */
            status = sv_eager_begin(send, to, stream);
        send->refused = status == SELVAGE_ERR_LIMIT;
        if (send->refused)
            status = sv_error_quiet(status, "rank %d has no room for a message of %llu bytes now", peer,
                                    (unsigned long long)send->bytes);
    } else if (send->desc || sv_eager_take_slot(send, to) || sv_eager_takes(send, to)) {
        status = sv_eager_begin(send, to, stream);
    } else {
        status = sv_message_rtr_claim(send, to) ? sv_rendezvous_begin_claimed(send, to, stream)
                                                : sv_rendezvous_begin(send, stream);
    }
    if (status != SELVAGE_SUCCESS)
        goto done;
    /* 3. It is under way, and the next one has the next number. */
    to->sent++;
    to->last[sv_message_tag_class(tag)] = send->number;
    if (send->place.on_device)
        to->host_answers = HOST_ANSWERS;
    sv_list_append(&engine->active, &send->link);
    /* The digest of an offered get was kept until its announcement was out. If that fails, the engine has failed. */
    if (engine->group.depth == 0)
        (void)sv_message_group_launch(engine);
    if (send->state == SV_REQUEST_GATE && engine->open < FEW)
        (void)sv_message_poll(engine); /* of host memory: it leaves now, if nothing is in its way */
    else
        sv_message_poll_if_many(engine);
done:
    if (status != SELVAGE_SUCCESS)
        (void)sv_message_release_held(send);
    return sv_message_conclude(send, status, request_out);
}

selvage_status_t sv_message_launch(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    selvage_status_t status = SELVAGE_SUCCESS;
    pthread_mutex_lock(&engine->lock);
    if (send->state == SV_REQUEST_HELD) /* not where an error has ended it meanwhile */
        status = sv_eager_launch(send);
    const selvage_status_t launched = sv_message_release_held(send);
    if (status == SELVAGE_SUCCESS)
        status = send->launch_error != SELVAGE_SUCCESS ? sv_message_group_error(send) : launched;
    (void)sv_message_settle_send(send, status);
    return sv_message_leave(engine, status);
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

void sv_message_send_status(selvage_request_t *send, const sv_ctrl_header_t *outcome)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_PUT;
    if (outcome->value[0] == SV_OUTCOME_ABANDONED) {
        /* A copy that has begun is over: its receiver has waited for that, unless its device has failed. */
        if (send->number == outcome->number && send->state != SV_REQUEST_COMPLETE &&
            send->state != SV_REQUEST_FILLING)
            (void)sv_message_settle_send(
                send, sv_error(SELVAGE_ERR_TIMEOUT, "rank %d has given up its receive of message %llu (tag %d, %llu "
                               "bytes)", send->peer, (unsigned long long)send->number, send->tag,
                               (unsigned long long)send->bytes));
        return;
    }
    const bool is_got = send->state == SV_REQUEST_RTS_SENT && send->get.stamp != 0;
    sv_message_peer_t *peer;
    if (is_got && sv_message_peer(send->engine, send->peer, &peer) == SELVAGE_SUCCESS)
        peer->gets_declined = 0;
    if (!is_got && ((send->state != SV_REQUEST_AWAITS_STATUS && !direct) || outcome->attempt != send->attempt))
        return;
    if (outcome->value[0])
        status = sv_error(SELVAGE_ERR_CHECKSUM, "message %llu to rank %d (tag %d, %llu bytes) did not verify there, "
                          "after %u attempts; was its buffer written before it was complete, or freed?",
                          (unsigned long long)send->number, send->peer, send->tag,
                          (unsigned long long)send->bytes, send->attempt + 1);
    sv_message_complete(send, status);
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
