/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive from its match to its end. What the receiver decides about a long message it says in the control message
 * that clears it; what was damaged is asked for again as the policy says. A small message is asked for in its own
 * descriptor, which the sender keeps; a long one is sent anew from the sender's buffer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_log.h"
#include "message/message_layout.h"
#include "message/message_devslot.h"
#include "message/message_pool.h"

static sv_ctrl_header_t recv_header(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value)
{
    return (sv_ctrl_header_t){.kind = kind,
                              .tag = (uint32_t)recv->tag,
                              .number = recv->number,
                              .attempt = recv->attempt,
                              .bytes = recv->bytes,
                              .send_id = recv->other_id,
                              .recv_id = sv_message_id(recv),
                              .value = {value}};
}

static selvage_status_t send_ctrl(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value)
{
    sv_ctrl_header_t header = recv_header(recv, kind, value);
    return sv_ctrl_send_header(recv->engine, recv->peer, &header);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Its sender hears that nobody takes the message any more, unless it has heard so. */
static void end_with_error(selvage_request_t *recv, selvage_status_t status)
{
    const bool is_told = status == SELVAGE_ERR_TRUNCATED || status == SELVAGE_ERR_CHECKSUM;
    const bool is_matched = recv->state != SV_REQUEST_POSTED && recv->state != SV_REQUEST_LEAVING;
    const bool is_kept = recv->state == SV_REQUEST_NACKED; /* by its sender */
    const sv_ctrl_header_t header = recv_header(recv, SV_CTRL_STATUS, SV_OUTCOME_ABANDONED);
    const int peer = recv->peer;
    sv_message_engine_t *engine = recv->engine;
    sv_ctrl_desc_t *desc = recv->desc;
    recv->desc = NULL;
    sv_message_complete(recv, status);
    if (desc)
        (void)sv_ctrl_consumed(engine, desc);
    else if (is_matched && is_kept)
        (void)sv_ctrl_ack(engine, peer, header.number);
    else if (is_matched && !is_told && engine->broken == SELVAGE_SUCCESS)
        (void)sv_ctrl_send_header(engine, peer, &header);
}

static selvage_status_t settle_receive(selvage_request_t *recv, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS && recv->state != SV_REQUEST_COMPLETE)
        end_with_error(recv, status);
    return SELVAGE_SUCCESS;
}

/* The bytes are here and good: to where they belong, if that is not where they are. */
static selvage_status_t unpack_receive(selvage_request_t *recv)
{
    if (!recv->place.layout && !recv->place.bounce) {
        sv_message_complete(recv, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    if (!recv->place.on_device) {
        SV_TRY(sv_message_unpack_host(recv));
        sv_message_complete(recv, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    recv->state = SV_REQUEST_UNPACKING;
    return sv_message_unpack_device(recv, recv->engine->kernel_stream);
}

static void count_outcome(selvage_request_t *recv, selvage_status_t found)
{
    recv->verified = found == SELVAGE_SUCCESS && sv_message_checks(recv->engine);
    recv->engine->counts.damaged += found != SELVAGE_SUCCESS;
}

/* Not another attempt. The detail is the thread's. */
static selvage_status_t give_up_receive(selvage_request_t *recv)
{
    char text[SV_DETAIL_BYTES];
    recv->engine->counts.failed++;
    memcpy(text, sv_thread_detail(), sizeof text);
    selvage_status_t status = sv_error(SELVAGE_ERR_CHECKSUM, "%s", text);
    if (recv->engine->policy == SV_CONFIG_CHECKSUM_ABORT) {
        sv_trace_flight_write(&recv->engine->comm->trace, "abort on a message that did not verify");
        abort();
    }
    return status;
}

static bool may_retry(const selvage_request_t *recv)
{
    const sv_config_t *config = &recv->engine->comm->config;
    return recv->engine->policy == SV_CONFIG_CHECKSUM_RETRY && recv->attempt < UINT8_MAX &&
           recv->attempt < (unsigned)config->retry_max + recv->losses;
}

/* What the wire brought is asked for again, since its sender keeps it. Another descriptor is all that there is: it lies
   where its sender has put it, and may be whole there, so that it is taken once more. */
static bool may_take_again(const selvage_request_t *recv)
{
    return may_retry(recv) && (recv->desc->from_wire || recv->attempt == 0);
}

static selvage_status_t take_small_again(selvage_request_t *recv)
{
    sv_ctrl_desc_t *desc = recv->desc;
    sv_log(SV_LOG_WARN, "message", "%s; %s", sv_thread_detail(),
           desc->from_wire ? "asked for again" : "taken once more from where it lies");
    recv->engine->counts.repeated++;
    recv->attempt++;
    recv->state = desc->from_wire ? SV_REQUEST_NACKED : SV_REQUEST_GATE;
    if (!desc->from_wire)
        return SELVAGE_SUCCESS;
    recv->desc = NULL;
    sv_ctrl_free(recv->engine, desc);
    return send_ctrl(recv, SV_CTRL_NACK, 0);
}

/* A slot of a size of its own may have more than a piece of pinned memory has room for. */
static bool is_beyond_pinned(const selvage_request_t *recv)
{
    return !recv->place.on_device && recv->desc->devslot && recv->bytes > recv->engine->segment_bytes;
}

/* To the host's memory, in the poll: rare, since senders that can wait hear of it (sv_shm_prefer()). */
static selvage_status_t fetch_from_slot(selvage_request_t *recv)
{
    const sv_message_engine_t *engine = recv->engine;
    if (recv->chunk)
        memcpy(recv->place.data, recv->chunk->pinned, recv->bytes);
    if (!is_beyond_pinned(recv))
        return SELVAGE_SUCCESS;
    const sv_devslot_place_t from = sv_devslot_place(engine, recv->desc->devslot, recv->desc->devslot_count);
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data, from.payload, recv->bytes, SV_COPY_D2H,
                          engine->kernel_stream));
    return SV_DEVICE_CALL(engine->dev, stream_sync, engine->kernel_stream);
}

static selvage_status_t finish_small(selvage_request_t *recv, selvage_status_t found)
{
    sv_ctrl_desc_t *desc = recv->desc;
    count_outcome(recv, found);
    if (found != SELVAGE_SUCCESS && may_take_again(recv))
        return take_small_again(recv);
    selvage_status_t status = found == SELVAGE_SUCCESS ? fetch_from_slot(recv) : give_up_receive(recv);
    recv->desc = NULL;
    selvage_status_t taken = sv_ctrl_consumed(recv->engine, desc);
    SV_TRY(status);
    SV_TRY(taken);
    return unpack_receive(recv);
}

static selvage_status_t clear_to_send(selvage_request_t *recv)
{
    sv_ctrl_header_t header = recv_header(recv, SV_CTRL_CTS, SV_MESSAGE_DIRECT);
    recv->route = SV_MESSAGE_DIRECT;
    if (sv_message_direct_fill_cts(recv, &header)) {
        recv->state = SV_REQUEST_MOVING;
        recv->engine->arrived[SV_WAY_DIRECT]++;
        return sv_ctrl_send_header(recv->engine, recv->peer, &header);
    }
    recv->route = SV_MESSAGE_NONE;
    if (recv->prelaunched) /* for what will not land: begin_receive() has it go */
        return SELVAGE_IN_PROGRESS;
    recv->route = SV_MESSAGE_STAGED;
    if (!sv_message_pieces_begin(recv))
        return SELVAGE_IN_PROGRESS;
    recv->engine->arrived[SV_WAY_STAGED]++;
    recv->state = SV_REQUEST_MOVING;
    recv->record_here = false;
    recv->silent_ns = 0;
    return send_ctrl(recv, SV_CTRL_CTS, SV_MESSAGE_STAGED);
}

static selvage_status_t finish_long(selvage_request_t *recv, selvage_status_t found)
{
    const bool told = recv->route == SV_MESSAGE_DIRECT; /* by the kernel */
    count_outcome(recv, found);
    sv_message_direct_end(recv);
    if (found == SELVAGE_SUCCESS) {
        if (!told)
            SV_TRY(send_ctrl(recv, SV_CTRL_STATUS, SV_OUTCOME_GOOD));
        return unpack_receive(recv);
    }
    if (!may_retry(recv)) {
        selvage_status_t status = give_up_receive(recv);
        (void)send_ctrl(recv, SV_CTRL_STATUS, SV_OUTCOME_BAD);
        return status;
    }
    sv_log(SV_LOG_WARN, "message", "%s; asked for again", sv_thread_detail());
    recv->engine->counts.repeated++;
    recv->attempt++;
    sv_message_identify(recv);
    recv->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* --- the way there ------------------------------------------------------------------------------------------------ */

/* Out of a slot in device memory; to the host's by way of pinned memory, or, verified where it is, after that. */
static selvage_status_t take_from_slot(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    const sv_ctrl_desc_t *desc = recv->desc;
    const sv_devslot_place_t from = sv_devslot_place(engine, desc->devslot, desc->devslot_count);
    uint8_t *to = recv->place.data;
    if (is_beyond_pinned(recv)) {
        to = NULL;
    } else if (!recv->place.on_device) {
        if (!recv->chunk && !(recv->chunk = sv_message_take_chunk(engine, false, true))) {
            recv->lacks = SV_LACKS_CHUNK;
            return SELVAGE_IN_PROGRESS;
        }
        to = recv->chunk->pinned;
    }
    const sv_verify_job_t job = {.src = from.payload, .dst = to, .record = from.record};
    sv_shm_prefer(desc->devslot, !recv->place.on_device);
    engine->arrived[SV_WAY_SHM] += recv->attempt == 0;
    engine->arrived_by_devslot += recv->attempt == 0;
    recv->state = SV_REQUEST_CLOSING;
    return sv_message_verify(recv, &job, engine->kernel_stream);
}

static selvage_status_t take_small(selvage_request_t *recv)
{
    sv_ctrl_desc_t *desc = recv->desc;
    uint64_t sum = 0;
    if (desc->devslot)
        return take_from_slot(recv);
    recv->engine->arrived[desc->from_wire ? SV_WAY_WIRE : SV_WAY_SHM] += recv->attempt == 0;
    if (desc->shm)
        sv_shm_prefer(desc->shm, !recv->place.on_device);
    if (recv->place.on_device && recv->bytes) {
        const sv_verify_job_t job = {.src = sv_ctrl_device_ptr(desc, sv_ctrl_payload(desc)),
                                     .dst = recv->place.data,
                                     .record = sv_ctrl_device_ptr(desc, &desc->header->record)};
        recv->state = SV_REQUEST_CLOSING;
        return sv_message_verify(recv, &job, recv->engine->kernel_stream);
    }
    if (recv->bytes)
        memcpy(recv->place.data, sv_ctrl_payload(desc), recv->bytes);
    if (sv_message_checks(recv->engine))
        sum = sv_digest_sum(recv->key, 0, recv->place.data, recv->bytes);
    return finish_small(recv, sv_message_compare(recv, &desc->header->record, sum));
}

/* The kernel that was there before the message has taken it, or goes now. */
static selvage_status_t begin_prelaunched(selvage_request_t *recv)
{
    if (sv_prelaunch_fits(recv)) {
        recv->state = SV_REQUEST_CLOSING;
        return SELVAGE_SUCCESS;
    }
    sv_prelaunch_stop(recv);
    return sv_prelaunch_has_left(recv) ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* The kernel is there for a message that claims the receive. Where its RTS and the RTR have passed each other, the
   same message comes after a CTS, to the same put slot, and means the same to the kernel. */
static bool awaits_put(const selvage_request_t *recv)
{
    return !recv->desc && recv->put_slot_stamp && recv->key == recv->prelaunch_key && sv_message_direct_by_kernel(recv);
}

static selvage_status_t begin_receive(selvage_request_t *recv)
{
    if (recv->prelaunched && awaits_put(recv))
        return clear_to_send(recv);
    if (recv->prelaunched)
        return begin_prelaunched(recv);
    if (recv->bytes)
        SV_TRY(sv_message_gate(recv));
    return recv->desc ? take_small(recv) : clear_to_send(recv);
}

static void count_prelaunched(selvage_request_t *recv)
{
    const bool by_slot = recv->prelaunched && recv->desc;
    recv->engine->arrived_prelaunched += recv->prelaunched;
    recv->engine->arrived_by_devslot += by_slot;
    recv->engine->arrived[SV_WAY_SHM] += by_slot;
    sv_prelaunch_ended(recv);
}

/* A kernel has verified it; or one that was there before has gone without it, and it begins anew. */
static selvage_status_t take_verified(selvage_request_t *recv, bool *moved)
{
    if (sv_prelaunch_has_left(recv)) {
        *moved = true;
        recv->state = recv->desc ? SV_REQUEST_GATE : SV_REQUEST_MOVING;
        return SELVAGE_SUCCESS;
    }
    if (!sv_word_is(&recv->line->done, recv->stamp)) /* partner: the digest kernel, or the stream after another */
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    count_prelaunched(recv);
    return recv->desc ? finish_small(recv, sv_message_verified(recv)) : finish_long(recv, sv_message_verified(recv));
}

/* What a neighbour on the node has copied straight here. */
static selvage_status_t close_direct(selvage_request_t *recv, bool *moved)
{
    if (recv->prelaunched)
        return take_verified(recv, moved);
    if (!sv_message_direct_has_arrived(recv))
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    if (sv_message_checks(recv->engine)) {
        sv_verify_job_t job = sv_message_direct_job(recv);
        job.await = NULL;
        recv->state = SV_REQUEST_CLOSING;
        return sv_message_verify(recv, &job, recv->engine->kernel_stream);
    }
    sv_message_direct_end(recv);
    return unpack_receive(recv);
}

/* The wire has lost pieces, unless it is in the middle of one: all of them are asked for again. */
static selvage_status_t recover_pieces(selvage_request_t *recv)
{
    if (!sv_message_pieces_take_back(recv))
        return SELVAGE_IN_PROGRESS;
    (void)sv_error_quiet(SELVAGE_ERR_CHECKSUM, "of message %llu from rank %d (tag %d, %llu bytes) %u of %u pieces came",
                         (unsigned long long)recv->number, recv->peer, recv->tag, (unsigned long long)recv->bytes,
                         recv->issued, recv->npieces);
    sv_message_pieces_end(recv);
    recv->losses++; /* how often is bounded by the deadline alone */
    return finish_long(recv, SELVAGE_ERR_CHECKSUM);
}

static selvage_status_t take_late_pieces(selvage_request_t *recv, bool *moved)
{
    bool any = false;
    const selvage_status_t status = sv_message_pieces_recv(recv, &any);
    *moved |= any;
    return status == SELVAGE_IN_PROGRESS && sv_message_pieces_are_lost(recv, any) ? recover_pieces(recv) : status;
}

/* Everything has landed, and what says what it should be. */
static selvage_status_t close_receive(selvage_request_t *recv, bool *moved)
{
    if (recv->route == SV_MESSAGE_DIRECT)
        return close_direct(recv, moved);
    if (recv->finished < recv->npieces || recv->nslots > 0) {
        SV_TRY(take_late_pieces(recv, moved));
        if (recv->state != SV_REQUEST_MOVING) /* once more */
            return SELVAGE_SUCCESS;
        sv_message_pieces_end(recv);
        *moved = true;
    }
    if (!sv_message_checks(recv->engine))
        return unpack_receive(recv);
    recv->awaits_record = !recv->record_here;
    if (recv->awaits_record)
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    if (!recv->place.on_device)
        return finish_long(recv, sv_message_compare(recv, &recv->line->record, recv->sum));
    recv->state = SV_REQUEST_CLOSING;
    const sv_verify_job_t job = {.src = recv->place.data, .record = &recv->line->record};
    return sv_message_verify(recv, &job, recv->engine->in_stream);
}

static selvage_status_t progress_receive(selvage_request_t *recv, bool *moved)
{
    selvage_status_t status;
    switch (recv->state) {
    case SV_REQUEST_GATE:
        status = begin_receive(recv);
        *moved |= status == SELVAGE_SUCCESS;
        if (status != SELVAGE_SUCCESS || !recv->prelaunched)
            return status;
        return take_verified(recv, moved);
    case SV_REQUEST_MOVING:
        return close_receive(recv, moved);
    case SV_REQUEST_CLOSING:
        return take_verified(recv, moved);
    case SV_REQUEST_UNPACKING:
    case SV_REQUEST_LEAVING:
        if (recv->state == SV_REQUEST_LEAVING ? !sv_prelaunch_is_over(recv)
                                              : !sv_word_is(&recv->line->done, recv->stamp)) /* partner: as above */
            return SELVAGE_IN_PROGRESS;
        *moved = true;
        sv_message_complete(recv, recv->error);
        return SELVAGE_SUCCESS;
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

selvage_status_t sv_message_recv_advance(selvage_request_t *recv, bool *moved)
{
    return settle_receive(recv, progress_receive(recv, moved));
}

/* Nothing of it is wanted: its sender need not send it. */
static selvage_status_t refuse_match(selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    const uint32_t kind = desc->header->kind;
    if (kind == SV_CTRL_EAGER)
        return sv_ctrl_consumed(recv->engine, desc);
    sv_ctrl_free(recv->engine, desc);
    if (kind == SV_CTRL_DEFERRED) /* it comes all the same, and meets nobody */
        return SELVAGE_SUCCESS;
    return send_ctrl(recv, SV_CTRL_CTS, SV_MESSAGE_NONE);
}

static selvage_status_t accept_match(selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    const bool too_long = recv->bytes > recv->place.bytes;
    bool claimed;
    selvage_status_t status = sv_message_rtr_match(recv, desc->header, &claimed);
    if (status != SELVAGE_SUCCESS) {
        sv_ctrl_free(recv->engine, desc);
        return status;
    }
    if (too_long || (recv->bytes == 0 && desc->header->kind == SV_CTRL_RTS)) {
        SV_TRY(refuse_match(recv, desc));
        if (too_long)
            return sv_error(SELVAGE_ERR_TRUNCATED, "a message of %llu bytes from rank %d (tag %d) meets a receive of "
                            "%llu bytes", (unsigned long long)recv->bytes, recv->peer, recv->tag,
                            (unsigned long long)recv->place.bytes);
        sv_message_complete(recv, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    if (claimed) {
        recv->route = SV_MESSAGE_DIRECT;
        recv->state = SV_REQUEST_MOVING;
        recv->engine->arrived[SV_WAY_DIRECT]++;
        recv->engine->arrived_claimed++;
        if (recv->key != recv->prelaunch_key)
            sv_prelaunch_stop(recv);
    }
    if (desc->header->kind == SV_CTRL_DEFERRED)
        recv->state = SV_REQUEST_DEFERRED;
    if (desc->header->kind == SV_CTRL_EAGER)
        recv->desc = desc;
    else
        sv_ctrl_free(recv->engine, desc);
    return sv_message_trim(recv);
}

void sv_message_matched(selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    const sv_ctrl_header_t *header = desc->header;
    recv->peer = header->source;
    recv->tag = (int)header->tag;
    recv->bytes = header->bytes;
    recv->number = header->number;
    recv->other_id = header->send_id;
    recv->from_device = header->kind == SV_CTRL_RTS && header->value[0];
    recv->attempt = recv->losses = 0;
    recv->state = SV_REQUEST_GATE;
    if (recv->cancelled) /* too late */
        recv->engine->ncancels--;
    recv->cancelled = false;
    sv_message_identify(recv);
    if (desc->devslot)
        sv_prelaunch_predict(recv, desc);
    sv_list_append(&recv->engine->active, &recv->link);
    settle_receive(recv, accept_match(recv, desc));
}

/* The sender cannot reach this rank's memory: by another way, this message and those after it. */
static void cts_denied(selvage_request_t *recv)
{
    sv_message_peer_t *peer;
    if (recv->route != SV_MESSAGE_DIRECT)
        return;
    sv_message_direct_end(recv);
    recv->state = SV_REQUEST_GATE;
    if (sv_message_peer(recv->engine, recv->peer, &peer) == SELVAGE_SUCCESS)
        peer->no_direct = true;
}

void sv_message_recv_fin(selvage_request_t *recv, const sv_ctrl_header_t *done)
{
    if (recv->state != SV_REQUEST_MOVING || done->attempt != recv->attempt)
        return;
    if (done->kind == SV_CTRL_CTS_NACK) {
        cts_denied(recv);
        return;
    }
    recv->line->record = done->record;
    recv->record_here = true;
    sv_message_wake(recv);
}

/* --- given up ----------------------------------------------------------------------------------------------------- */

/* No message has met it, or one has claimed it, whose RTS is to come. */
static bool withdraw_receive(selvage_request_t *recv)
{
    if (!recv->cancelled && sv_message_rtr_cancel(recv) != SV_RTR_CLAIMED) {
        recv->cancelled = true;
        recv->engine->ncancels += recv->prelaunched; /* a kernel may just be taking its message: it says so */
        sv_prelaunch_stop(recv);
        if (!recv->prelaunched)
            sv_message_complete(recv, SELVAGE_SUCCESS);
    }
    return recv->state == SV_REQUEST_COMPLETE;
}

/* Whether nothing writes the buffer any more but what its end waits for: copies and kernels of the engine's. */
static bool is_released(selvage_request_t *recv)
{
    sv_prelaunch_stop(recv);
    if (recv->state == SV_REQUEST_LEAVING || !sv_prelaunch_is_over(recv))
        return false;
    if (recv->route == SV_MESSAGE_DIRECT && recv->put_slot_stamp)
        return sv_message_direct_revoke(recv) || sv_message_direct_has_arrived(recv);
    if (recv->route == SV_MESSAGE_STAGED)
        sv_message_pieces_withdraw(recv);
    return true;
}

bool sv_message_recv_abandon(selvage_request_t *recv, selvage_status_t status)
{
    if (recv->state == SV_REQUEST_COMPLETE)
        return true;
    if (recv->state == SV_REQUEST_POSTED)
        return withdraw_receive(recv);
    if (!is_released(recv))
        return false;
    end_with_error(recv, status);
    return true;
}
