/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all receives have in common from call to end: meeting the message, kernels that were there before it,
 * unpacking, errors, and giving it up. message_eager.c and message_rendezvous.c are the protocols, with tables of their
 * states. The calls take the engine's lock, and all else is under it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_calls.h"
#include "message/message_get.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_prelaunch.h"
#include "message/message_protocols.h"
#include "message/message_put.h"

sv_ctrl_header_t sv_message_recv_header(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value)
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

selvage_status_t sv_message_reply(const selvage_request_t *recv, sv_ctrl_kind_t kind, uint64_t value)
{
    sv_ctrl_header_t header = sv_message_recv_header(recv, kind, value);
    return sv_ctrl_send_header(recv->engine, recv->peer, &header);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Its sender hears that nobody takes the message any more, unless it has heard so. */
static void end_with_error(selvage_request_t *recv, selvage_status_t status)
{
    const bool is_told = status == SELVAGE_ERR_TRUNCATED || status == SELVAGE_ERR_CHECKSUM;
    const bool is_matched = recv->state != SV_REQUEST_POSTED && recv->state != SV_REQUEST_LEAVING;
    const bool is_kept = recv->state == SV_REQUEST_NACKED; /* by its sender */
    const sv_ctrl_header_t header = sv_message_recv_header(recv, SV_CTRL_STATUS, SV_OUTCOME_ABANDONED);
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
selvage_status_t sv_message_unpack(selvage_request_t *recv)
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
    return sv_message_unpack_device(recv, recv->engine->streams.kernel);
}

void sv_message_count_outcome(selvage_request_t *recv, selvage_status_t found)
{
    recv->verified = found == SELVAGE_SUCCESS && sv_message_checks(recv->engine);
    recv->engine->counts.damaged += found != SELVAGE_SUCCESS;
}

/* Not another attempt. The detail is the thread's. */
selvage_status_t sv_message_give_up(selvage_request_t *recv)
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

bool sv_message_may_retry(const selvage_request_t *recv)
{
    const sv_config_t *config = &recv->engine->comm->config;
    return recv->engine->policy == SV_CONFIG_CHECKSUM_RETRY && recv->attempt < UINT8_MAX &&
           recv->attempt < (unsigned)config->retry_max + recv->staged.losses;
}

selvage_status_t sv_message_recv_finish(selvage_request_t *recv, selvage_status_t found)
{
    const bool told = recv->route == SV_MESSAGE_PUT; /* by the kernel */
    sv_message_count_outcome(recv, found);
    sv_put_end(recv);
    const bool again = found != SELVAGE_SUCCESS && sv_get_again(recv);
    if (found == SELVAGE_SUCCESS)
        SV_TRY(sv_get_to_host(recv));
    if (!again)
        sv_get_end(recv);
    if (recv->route == SV_MESSAGE_GET)
        recv->route = SV_MESSAGE_NONE;
    if (found == SELVAGE_SUCCESS) {
        if (!told)
            SV_TRY(sv_message_reply(recv, SV_CTRL_STATUS, SV_OUTCOME_GOOD));
        return sv_message_unpack(recv);
    }
    if (!again && !sv_message_may_retry(recv)) {
        selvage_status_t status = sv_message_give_up(recv);
        (void)sv_message_reply(recv, SV_CTRL_STATUS, SV_OUTCOME_BAD);
        return status;
    }
    sv_log(SV_LOG_WARN, "message", "%s; %s", sv_thread_detail(),
           again ? "taken once more from where it lies" : "asked for again");
    recv->engine->counts.repeated++;
    recv->attempt++;
    sv_message_identify(recv);
    recv->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* --- the way there ------------------------------------------------------------------------------------------------ */

/* A kernel is there already, which waits for the message. */
static selvage_status_t meet_early_kernel(selvage_request_t *recv)
{
    /* It is there for a message that claims the receive. If its RTS and the RTR have crossed, that message comes after
       a CTS, to the same put slot, which the kernel cannot tell apart. But the sender of a buffered one may answer no
       CTS. */
    if (!recv->desc && !recv->get.buffered && recv->put.stamp && recv->key == recv->early.key && sv_put_by_kernel(recv))
        return sv_rendezvous_receive(recv);
    /* It has taken the message, or goes now. */
    if (sv_prelaunch_fits(recv)) {
        recv->state = SV_REQUEST_CLOSING;
        return SELVAGE_SUCCESS;
    }
    sv_prelaunch_stop(recv);
    return sv_prelaunch_has_left(recv) ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* A kernel has verified it. If a pre-launched one has gone without it, the receive begins anew. */
static selvage_status_t take_verified(selvage_request_t *recv, bool *moved)
{
    sv_message_engine_t *engine = recv->engine;
    if (sv_prelaunch_has_left(recv)) {
        *moved = true;
        recv->state = recv->desc ? SV_REQUEST_GATE : SV_REQUEST_MOVING;
        return SELVAGE_SUCCESS;
    }
    if (!sv_word_is(&recv->line->done, recv->stamp)) /* partner: the digest kernel, or the stream after another */
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    const bool by_slot = recv->early.launched && recv->desc;
    engine->arrived.prelaunched += recv->early.launched;
    engine->arrived.by_devslot += by_slot;
    engine->arrived.by[SV_WAY_SHM] += by_slot;
    sv_prelaunch_ended(recv);
    return recv->desc ? sv_eager_finish(recv, sv_message_verified(recv))
                      : sv_message_recv_finish(recv, sv_message_verified(recv));
}

selvage_status_t sv_message_recv_advance(selvage_request_t *recv, bool *moved)
{
    bool got = false;
    selvage_status_t status = sv_message_group_error(recv);
    if (status != SELVAGE_SUCCESS)
        return settle_receive(recv, status);
    status = SELVAGE_IN_PROGRESS;
    switch (recv->state) {
    case SV_REQUEST_GATE: /* it begins once the caller's stream has come to it */
        if (recv->early.launched) {
            status = meet_early_kernel(recv);
        } else if (recv->bytes && (status = sv_message_gate(recv)) != SELVAGE_SUCCESS) {
            ; /* not yet, or the stream has failed */
        } else if (recv->desc) {
            status = sv_eager_receive(recv);
        } else {
            status = sv_get_begin(recv, &got);
            if (status == SELVAGE_SUCCESS && !got)
                status = sv_rendezvous_receive(recv);
        }
        *moved |= status == SELVAGE_SUCCESS;
        if (status == SELVAGE_SUCCESS && recv->early.launched)
            status = take_verified(recv, moved);
        break;
    case SV_REQUEST_MOVING:
        status = recv->route == SV_MESSAGE_PUT && recv->early.launched ? take_verified(recv, moved)
                                                                       : sv_rendezvous_take(recv, moved);
        break;
    case SV_REQUEST_CLOSING:
        status = take_verified(recv, moved);
        break;
    case SV_REQUEST_UNPACKING:
    case SV_REQUEST_LEAVING:
        if (recv->state == SV_REQUEST_LEAVING ? !sv_prelaunch_is_over(recv)
                                              : !sv_word_is(&recv->line->done, recv->stamp)) /* partner: as above */
            break;
        *moved = true;
        sv_message_complete(recv, recv->error);
        break;
    default:
        break;
    }
    return settle_receive(recv, status);
}

/* --- the match ---------------------------------------------------------------------------------------------------- */

/* Nothing of it is wanted: its sender need not send it. A deferred one comes all the same, and meets nobody. */
static selvage_status_t decline_message(selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    const uint32_t kind = desc->header->kind;
    if (kind == SV_CTRL_EAGER)
        SV_TRY(sv_ctrl_consumed(recv->engine, desc));
    else
        sv_ctrl_free(recv->engine, desc);
    if (kind == SV_CTRL_RTS)
        SV_TRY(sv_message_reply(recv, SV_CTRL_CTS, SV_MESSAGE_NONE));
    if (recv->bytes > recv->place.bytes)
        return sv_error(SELVAGE_ERR_TRUNCATED, "a message of %llu bytes from rank %d (tag %d) meets a receive of "
                        "%llu bytes", (unsigned long long)recv->bytes, recv->peer, recv->tag,
                        (unsigned long long)recv->place.bytes);
    sv_message_complete(recv, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

void sv_message_matched(selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    sv_message_engine_t *engine = recv->engine;
    const sv_ctrl_header_t *header = desc->header;
    bool claimed = false;
    /* 1. It is the message's from here on. */
    recv->peer = header->source;
    recv->tag = (int)header->tag;
    recv->bytes = header->bytes;
    recv->number = header->number;
    recv->other_id = header->send_id;
    recv->from_device = header->kind == SV_CTRL_RTS && header->value[0];
    recv->attempt = recv->staged.losses = 0;
    recv->state = SV_REQUEST_GATE;
    if (recv->cancelled) /* too late */
        engine->ncancels--;
    recv->cancelled = false;
    sv_message_identify(recv);
    if (desc->devslot)
        sv_prelaunch_predict(recv, desc);
    sv_list_append(&engine->active, &recv->link);
    /* 2. What has become of its RTR, and what the sender offers. */
    selvage_status_t status = sv_message_rtr_match(recv, header, &claimed);
    if (status == SELVAGE_SUCCESS &&
        (recv->bytes > recv->place.bytes || (recv->bytes == 0 && header->kind == SV_CTRL_RTS))) {
        settle_receive(recv, decline_message(recv, desc));
        return;
    }
    if (status == SELVAGE_SUCCESS && !claimed)
        status = sv_get_match(recv, header);
    if (status != SELVAGE_SUCCESS) {
        sv_ctrl_free(engine, desc);
        settle_receive(recv, status);
        return;
    }
    /* 3. Where it goes on. */
    if (claimed) {
        recv->route = SV_MESSAGE_PUT;
        recv->state = SV_REQUEST_MOVING;
        engine->arrived.by[SV_WAY_DIRECT]++;
        engine->arrived.claimed++;
        if (recv->key != recv->early.key)
            sv_prelaunch_stop(recv);
    }
    if (header->kind == SV_CTRL_DEFERRED)
        recv->state = SV_REQUEST_DEFERRED;
    if (header->kind == SV_CTRL_EAGER)
        recv->desc = desc;
    else
        sv_ctrl_free(engine, desc);
    settle_receive(recv, sv_message_trim(recv));
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

selvage_status_t sv_message_irecv(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, selvage_message_t **taken, void *stream, selvage_request_t **request_out)
{
    selvage_request_t *recv;
    bool moved = false;
    SV_TRY(sv_message_begin_request(comm, call, buffer, stream, &recv));
    sv_message_engine_t *engine = recv->engine;
    recv->peer = peer;
    recv->tag = tag;
    if (!taken)
        sv_message_poll_if_many(engine);
    selvage_status_t status = taken ? SELVAGE_SUCCESS : engine->broken;
    if (status == SELVAGE_SUCCESS && peer == SV_MESSAGE_NOBODY) {
        recv->tag = SV_MESSAGE_ANY;
        sv_message_complete(recv, SELVAGE_SUCCESS);
        return sv_message_conclude(recv, SELVAGE_SUCCESS, request_out);
    }
    if (status == SELVAGE_SUCCESS && stream != SELVAGE_MESSAGE_NO_STREAM && recv->place.bytes > 0)
        status = sv_message_record(recv, stream);
    if (status != SELVAGE_SUCCESS)
        return sv_message_conclude(recv, status, request_out);
    /* It meets its message, or is posted for it. */
    sv_ctrl_desc_t *desc = taken ? (*taken)->desc : sv_message_unexpected(engine, peer, tag);
    if (desc) {
        sv_list_remove(&desc->link);
        sv_message_matched(recv, desc);
    } else {
        sv_list_append(&engine->posted, &recv->link);
        sv_message_rtr_post(recv);
    }
    if (taken) {
        sv_free(*taken);
        *taken = NULL;
    }
    /* Its message is there, or may be there, announced by a sender that saw no RTR: it begins now. */
    if (recv->put.advertised)
        (void)sv_message_poll_lazily(engine, 1);
    if (recv->state == SV_REQUEST_GATE)
        status = sv_message_recv_advance(recv, &moved);
    return sv_message_conclude(recv, status, request_out);
}

/* What has come by now is found first. */
void sv_message_expect(selvage_request_t *recv, uint64_t bytes)
{
    sv_message_engine_t *engine = recv->engine;
    bool moved = false;
    pthread_mutex_lock(&engine->lock);
    recv->expected = true;
    if (recv->state == SV_REQUEST_POSTED && !recv->is_send)
        sv_message_poll_control(engine);
    if (recv->state == SV_REQUEST_POSTED && !recv->is_send)
        sv_prelaunch_expect(recv, bytes);
    else if ((recv->state == SV_REQUEST_GATE || recv->state == SV_REQUEST_MOVING) && !recv->is_send)
        (void)sv_message_recv_advance(recv, &moved); /* it has an error itself */
    pthread_mutex_unlock(&engine->lock);
}

void sv_message_cancel(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    pthread_mutex_lock(&engine->lock);
    if (!recv->is_send && recv->state == SV_REQUEST_POSTED && !recv->cancelled &&
        sv_message_rtr_cancel(recv) != SV_RTR_CLAIMED) {
        recv->cancelled = true;
        sv_prelaunch_stop(recv);
        if (recv->early.launched) /* a kernel may just be taking its message: it says so */
            engine->ncancels++;
        else
            sv_message_complete(recv, SELVAGE_SUCCESS);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* --- given up ----------------------------------------------------------------------------------------------------- */

/* No message has met it, or one has claimed it, whose RTS is to come. */
static bool withdraw_receive(selvage_request_t *recv)
{
    if (!recv->cancelled && sv_message_rtr_cancel(recv) != SV_RTR_CLAIMED) {
        recv->cancelled = true;
        recv->engine->ncancels += recv->early.launched; /* a kernel may just be taking its message: it says so */
        sv_prelaunch_stop(recv);
        if (!recv->early.launched)
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
    if (recv->route == SV_MESSAGE_PUT && recv->put.stamp)
        return sv_put_revoke(recv) || sv_put_has_arrived(recv);
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
