/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send from its call to its end. A small message leaves at once: of device memory a kernel on the caller's stream
 * stores payload and record into a descriptor, of host memory this thread does, as soon as that stream has come so far.
 * A long one, and one that is to be complete only when it has met its receive, is announced and waits to be cleared.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "message/message_layout.h"
#include "message/message_devslot.h"
#include "message/message_pool.h"

static sv_ctrl_header_t send_header(const selvage_request_t *send, sv_ctrl_kind_t kind)
{
    return (sv_ctrl_header_t){.kind = kind,
                              .tag = (uint32_t)send->tag,
                              .number = send->number,
                              .bytes = send->bytes,
                              .attempt = send->attempt,
                              .send_id = sv_message_id(send),
                              .recv_id = send->other_id};
}

/* What goes wrong after the call ends the request, and nothing else: messages after it wait for its number, which is
   announced as that of a long one whose sender never answers. */
static selvage_status_t settle_send(selvage_request_t *send, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS || status == SELVAGE_IN_PROGRESS || send->state == SV_REQUEST_COMPLETE)
        return SELVAGE_SUCCESS;
    sv_message_engine_t *engine = send->engine;
    const sv_ctrl_header_t header = send_header(send, SV_CTRL_RTS);
    const bool is_gap = send->desc && !send->announced && engine->broken == SELVAGE_SUCCESS;
    const int peer = send->peer;
    sv_message_complete(send, status);
    if (is_gap)
        (void)sv_ctrl_send_header(engine, peer, &header);
    return SELVAGE_SUCCESS;
}

/* Where kernels of a send run that are to be after the caller's work. */
static void *stream_for(const selvage_request_t *send, void *stream)
{
    return stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->kernel_stream : stream;
}

/* --- small -------------------------------------------------------------------------------------------------------- */

static uint64_t devslot_of(const selvage_request_t *send)
{
    return send->desc->devslot ? send->desc->devslot_count : 0;
}

/* A message that its stream holds up holds up none after it, which may have other tags: it is announced. */
static selvage_status_t announce_if_deferred(selvage_request_t *send)
{
    enum { LATE_NS = 100000 };
    sv_ctrl_header_t header = send_header(send, SV_CTRL_DEFERRED);
    if (send->announced || sv_clock_ns() - send->began_ns < LATE_NS)
        return SELVAGE_IN_PROGRESS;
    header.value[0] = devslot_of(send);
    send->announced = sv_ctrl_send_header(send->engine, send->peer, &header) == SELVAGE_SUCCESS;
    send->began_ns = sv_clock_ns(); /* for want of memory: later, as nobody needs it, and a kernel is at work */
    return SELVAGE_IN_PROGRESS;
}

/* The descriptor leaves, and the buffer is the caller's again. */
static selvage_status_t post_eager(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_ctrl_desc_t *desc = send->desc;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->desc = NULL;
    if (send->peer != engine->wire->rank && !desc->shm) {
        desc->retained = true;
        sv_list_append(&peer->retained, &desc->retained_link);
    }
    SV_TRY(sv_ctrl_send(engine, desc, send->peer));
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_by_host(selvage_request_t *send)
{
    sv_ctrl_desc_t *desc = send->desc;
    uint64_t sum = 0;
    SV_TRY(sv_message_pack_host(send));
    if (send->bytes)
        memcpy(sv_ctrl_payload(desc), send->place.data, send->bytes);
    if (sv_message_checks(send->engine))
        sum = sv_digest_sum(send->key, 0, sv_ctrl_payload(desc), send->bytes);
    desc->header->record = send->identity;
    desc->header->record.digest = sv_message_checks(send->engine) ? sv_digest_finish(send->key, sum) : 0;
    return post_eager(send);
}

/* The kernel is through. Where it has told the receiver, the place in the shared segment may be another message's by
   now: stamps only grow. */
static selvage_status_t take_filled(selvage_request_t *send, bool *moved)
{
    /* Partner: the digest kernel. */
    if ((int64_t)(__atomic_load_n(send->desc->word, __ATOMIC_ACQUIRE) - send->stamp) < 0)
        return announce_if_deferred(send);
    *moved = true;
    if (!send->desc->shm)
        return post_eager(send);
    send->desc = NULL;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_by_kernel(selvage_request_t *send, void *stream)
{
    sv_ctrl_desc_t *desc = send->desc;
    void *on = stream_for(send, stream);
    send->state = SV_REQUEST_FILLING;
    if (!desc->shm)
        desc->stamp = ++send->engine->stamps;
    send->stamp = desc->stamp;
    sv_ctrl_finalize(send->engine, desc, send->peer); /* the kernel itself may tell the receiver */
    SV_TRY(sv_message_pack_device(send, on));
    sv_prepare_job_t job = {.src = send->place.data,
                            .dst = sv_ctrl_device_ptr(desc, sv_ctrl_payload(desc)),
                            .record = sv_ctrl_device_ptr(desc, &desc->header->record),
                            .word = sv_ctrl_device_ptr(desc, desc->word),
                            .stamp = desc->stamp};
    if (desc->devslot) {
        const sv_devslot_place_t to = sv_devslot_place(send->engine, desc->devslot, desc->devslot_count);
        job.dst = to.payload;
        job.record = to.record;
        job.devslot = to.word;
        job.devslot_value = sv_devslot_value(send->key, send->before);
    }
    return sv_message_prepare(send, &job, on);
}

/* A descriptor in the neighbour's shared segment, with a slot in his device memory: for longer messages, too. */
static bool has_slot(selvage_request_t *send, const sv_message_peer_t *peer)
{
    if (!send->place.on_device || send->bytes == 0 || send->synchronous || send->engine->comm->fault.armed ||
        !peer->out || !peer->out->devslot.base || send->bytes > send->engine->devslot_bytes)
        return false;
    sv_ctrl_desc_t *desc = sv_shm_take_slot(send->engine, peer->out);
    if (desc && sv_devslot_take(send, desc)) {
        send->desc = desc;
        return true;
    }
    if (desc)
        sv_ctrl_free(send->engine, desc);
    return false;
}

/* Where the caller's stream must have come to before the buffer is read; or the engine's, which packs it. */
static selvage_status_t record_gate(selvage_request_t *send, void *stream)
{
    const bool packed = send->place.layout && send->place.on_device;
    if (send->bytes == 0 || (stream == SELVAGE_MESSAGE_NO_STREAM && !packed))
        return SELVAGE_SUCCESS;
    return sv_message_record(send, stream_for(send, stream));
}

static selvage_status_t begin_small(selvage_request_t *send, sv_message_peer_t *peer, void *stream)
{
    /* What a fault has corrupted can be asked for again only if it went by the wire. */
    if (!send->desc && send->engine->comm->fault.armed)
        SV_TRY(sv_ctrl_alloc(send->engine, false, &send->desc));
    else if (!send->desc)
        SV_TRY(sv_ctrl_alloc_to(send->engine, send->peer, false, &send->desc));
    if (!send->desc->shm) {
        send->desc->counted = peer;
        peer->neager++;
    }
    send->began_ns = sv_clock_ns();
    *send->desc->header = send_header(send, SV_CTRL_EAGER);
    send->desc->header->value[0] = devslot_of(send);
    send->desc->header->value[1] = send->before;
    if (send->place.on_device && send->bytes)
        return fill_by_kernel(send, stream);
    send->state = SV_REQUEST_GATE;
    return record_gate(send, stream);
}

/* --- long --------------------------------------------------------------------------------------------------------- */

static selvage_status_t send_rts(selvage_request_t *send, void *stream)
{
    sv_ctrl_header_t header = send_header(send, SV_CTRL_RTS);
    header.value[0] = send->place.on_device;
    if (send->place.on_device)
        SV_TRY(sv_message_pack_device(send, stream_for(send, stream)));
    SV_TRY(record_gate(send, stream)); /* what is told has its number, and nothing fails after it */
    send->state = SV_REQUEST_RTS_SENT;
    return sv_ctrl_send_header(send->engine, send->peer, &header);
}

/* Copies and sums may begin: the caller's stream has come so far. */
static selvage_status_t begin_to_move(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    if (send->route == SV_MESSAGE_STAGED && !sv_message_pieces_begin(send))
        return SELVAGE_IN_PROGRESS;
    if (send->route == SV_MESSAGE_DIRECT)
        SV_TRY(sv_message_direct_start(send));
    send->state = SV_REQUEST_MOVING;
    send->corrupted = engine->comm->fault.armed && send->place.on_device &&
                      sv_fault_packet(&engine->comm->fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    if (send->route == SV_MESSAGE_DIRECT)
        return sv_message_direct_copy(send, stream);
    if (!send->place.on_device)
        return sv_message_pack_host(send);
    if (!sv_message_checks(engine))
        return SELVAGE_SUCCESS;
    send->stamp = ++engine->stamps;
    const sv_prepare_job_t job = {.src = send->place.data, .record = &send->line->record, .word = &send->line->ready,
                                  .stamp = send->stamp};
    return sv_message_prepare(send, &job, engine->kernel_stream);
}

static selvage_status_t move_claimed(selvage_request_t *send, void *stream)
{
    enum { SHORT_BYTES = 2 << 20 }; /* what holds the caller's stream up for microseconds only */
    const bool packed = send->place.layout != NULL;
    SV_TRY(sv_message_pack_device(send, stream_for(send, stream)));
    SV_TRY(record_gate(send, stream));
    if (!send->gated)
        return begin_to_move(send, send->engine->kernel_stream);
    if (sv_message_direct_by_kernel(send) && (packed || send->bytes <= SHORT_BYTES)) {
        send->gated = false; /* the stream itself sees to it */
        return begin_to_move(send, stream_for(send, stream));
    }
    send->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* Its receive is posted, and has said where: the copy begins, and then the receiver hears of it, by a descriptor that
   is there before. */
static selvage_status_t begin_claimed(selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    sv_ctrl_desc_t *desc = NULL;
    sv_ctrl_header_t header = send_header(send, SV_CTRL_RTS);
    header.value[0] = true;
    header.value[1] = send->put_slot;
    header.value[2] = send->put_slot_stamp;
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

/* All bytes have left: the record follows. */
static selvage_status_t send_record(selvage_request_t *send)
{
    sv_ctrl_header_t header = send_header(send, SV_CTRL_FIN);
    if (send->place.on_device) {
        if (!sv_word_is(&send->line->ready, send->stamp)) /* partner: the digest kernel */
            return SELVAGE_IN_PROGRESS;
        header.record = send->line->record;
    } else {
        header.record = send->identity;
        header.record.digest = sv_digest_finish(send->key, send->sum);
    }
    send->state = SV_REQUEST_AWAITS_STATUS;
    return sv_ctrl_send_header(send->engine, send->peer, &header);
}

/* After a copy to the receiver's memory the streams tell him themselves, and his kernel gives the verdict. */
static selvage_status_t move_direct(selvage_request_t *send, bool *moved)
{
    if (sv_message_checks(send->engine) ? !sv_message_direct_is_good(send) : !sv_message_direct_has_left(send))
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t move_pieces(selvage_request_t *send, bool *moved)
{
    if (send->route == SV_MESSAGE_DIRECT)
        return move_direct(send, moved);
    SV_TRY(sv_message_pieces_send(send, moved));
    sv_message_pieces_end(send);
    *moved = true;
    if (sv_message_checks(send->engine))
        send->state = SV_REQUEST_CLOSING;
    else
        sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

/* Whether the receiver says a way that there is, and a place in its shared segment that there is. */
static bool is_route_usable(const selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    sv_message_peer_t *peer;
    if (cts->value[0] != SV_MESSAGE_DIRECT)
        return cts->value[0] == SV_MESSAGE_NONE || cts->value[0] == SV_MESSAGE_STAGED;
    if (cts->value[1] >= SV_SHM_PUT_SLOTS || cts->value[2] == 0)
        return false;
    return sv_message_peer(send->engine, send->peer, &peer) == SELVAGE_SUCCESS &&
           (send->peer == send->engine->wire->rank ? peer->in : peer->out) != NULL;
}

void sv_message_send_cleared(selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    bool again = cts->attempt > send->attempt;
    if (again && send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT)
        sv_message_direct_end(send);
    else if (send->state != SV_REQUEST_RTS_SENT && !(again && send->state == SV_REQUEST_AWAITS_STATUS))
        return;
    if (!is_route_usable(send, cts)) {
        (void)settle_send(send, sv_error(SELVAGE_ERR_MISMATCH, "rank %d wants message %llu by a way that there is not",
                                         send->peer, (unsigned long long)send->number));
        return;
    }
    if (cts->value[0] == SV_MESSAGE_NONE && !send->place.bounce) {
        sv_message_complete(send, SELVAGE_SUCCESS);
        return;
    }
    send->other_id = cts->recv_id;
    send->attempt = cts->attempt;
    send->route = (sv_message_route_t)cts->value[0];
    sv_message_identify(send);
    if (send->route == SV_MESSAGE_DIRECT && sv_message_direct_open(send, cts) != SELVAGE_SUCCESS) {
        sv_ctrl_header_t header = send_header(send, SV_CTRL_CTS_NACK);
        sv_message_direct_end(send);
        send->state = SV_REQUEST_RTS_SENT;
        (void)settle_send(send, sv_ctrl_send_header(send->engine, send->peer, &header));
        return;
    }
    send->state = SV_REQUEST_GATE;
    sv_message_wake(send);
}

/* A copy that has begun is over: its receiver has waited for that. */
static void receiver_abandoned(selvage_request_t *send, const sv_ctrl_header_t *outcome)
{
    if (send->number != outcome->number || send->state == SV_REQUEST_COMPLETE || send->state == SV_REQUEST_FILLING)
        return;
    (void)settle_send(send, sv_error(SELVAGE_ERR_TIMEOUT,
                                     "rank %d has given up its receive of message %llu (tag %d, %llu "
                                     "bytes)",
                                     send->peer, (unsigned long long)send->number, send->tag,
                                     (unsigned long long)send->bytes));
}

/* A kernel on the caller's stream reads the buffer in the order of that stream. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status)
{
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT;
    if (send->state == SV_REQUEST_COMPLETE)
        return true;
    if (send->state == SV_REQUEST_FILLING ||
        (direct && !(sv_message_drain(send->engine) && sv_message_direct_has_left(send))))
        return false;
    (void)settle_send(send, status);
    return true;
}

void sv_message_send_status(selvage_request_t *send, const sv_ctrl_header_t *outcome)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT;
    if (outcome->value[0] == SV_OUTCOME_ABANDONED) {
        receiver_abandoned(send, outcome);
        return;
    }
    if ((send->state != SV_REQUEST_AWAITS_STATUS && !direct) || outcome->attempt != send->attempt)
        return;
    if (outcome->value[0])
        status = sv_error(SELVAGE_ERR_CHECKSUM, "message %llu to rank %d (tag %d, %llu bytes) did not verify there, "
                          "after %u attempts; was its buffer written before it was complete, or freed?",
                          (unsigned long long)send->number, send->peer, send->tag,
                          (unsigned long long)send->bytes, send->attempt + 1);
    sv_message_complete(send, status);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static selvage_status_t pass_gate(selvage_request_t *send, bool *moved)
{
    const bool small = send->desc != NULL;
    selvage_status_t status = sv_message_gate(send);
    if (status == SELVAGE_IN_PROGRESS && small)
        return announce_if_deferred(send);
    SV_TRY(status);
    if (!small && send->route == SV_MESSAGE_NONE) { /* what packs it no longer writes the bounce buffer */
        *moved = true;
        sv_message_complete(send, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    status = small ? fill_by_host(send) : begin_to_move(send, send->engine->kernel_stream);
    *moved |= status == SELVAGE_SUCCESS;
    return status;
}

static selvage_status_t progress_send(selvage_request_t *send, bool *moved)
{
    switch (send->state) {
    case SV_REQUEST_GATE:
        return pass_gate(send, moved);
    case SV_REQUEST_FILLING:
        return take_filled(send, moved);
    case SV_REQUEST_MOVING:
        return move_pieces(send, moved);
    case SV_REQUEST_CLOSING: {
        selvage_status_t status = send_record(send);
        *moved |= status == SELVAGE_SUCCESS;
        return status;
    }
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved)
{
    return settle_send(send, progress_send(send, moved));
}

static bool is_small(const selvage_request_t *send, const sv_message_peer_t *peer)
{
    return send->bytes <= send->engine->eager_bytes && !send->synchronous && peer->neager < SV_CTRL_UNACKED;
}

selvage_status_t sv_message_send(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->number = peer->sent + 1;
    send->before = peer->last[sv_message_tag_class(send->tag)];
    sv_message_identify(send);
    send->refused = send->buffered && !has_slot(send, peer);
    if (send->refused)
        return sv_error_quiet(SELVAGE_ERR_LIMIT, "rank %d has no room for a message of %llu bytes now", send->peer,
                              (unsigned long long)send->bytes);
    if (send->desc || has_slot(send, peer) || is_small(send, peer))
        SV_TRY(begin_small(send, peer, stream));
    else if (sv_message_rtr_claim(send, peer))
        SV_TRY(begin_claimed(send, peer, stream));
    else
        SV_TRY(send_rts(send, stream));
    peer->sent++;
    peer->last[sv_message_tag_class(send->tag)] = send->number;
    sv_list_append(&engine->active, &send->link);
    return SELVAGE_SUCCESS;
}
