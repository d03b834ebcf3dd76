/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between nodes, copies, and waiting for both. Whatever is waited for, the engine goes on, an abort ends the
 * wait, and for other ranks the deadline does. What is left open by an error is withdrawn once, at the end of the call.
 */
#include "collective/coll_nodes.h"

#include <string.h>

#include "base/base_status.h"
#include "collective/coll_names.h"
#include "pipeline/pipe_control.h"

enum { DATA, ANSWER };

static bool is_stopped(const selvage_coll_t *coll)
{
    /* Partner: sv_coll_abort(). */
    return __atomic_load_n(&coll->arena->pinned->host_stop, __ATOMIC_ACQUIRE) != 0;
}

static selvage_status_t tell_stopped(void)
{
    return sv_error_quiet(SELVAGE_ERR_ABORTED, "collectives of this communicator have ended: %s",
                          selvage_status_string(SELVAGE_ERR_ABORTED));
}

static selvage_status_t tell_broken(const selvage_coll_t *coll)
{
    return sv_error_quiet(coll->comm->broken, "an earlier collective call failed on this communicator: %s",
                          selvage_status_string(coll->comm->broken));
}

selvage_status_t sv_coll_stage_wait_stream(selvage_coll_t *coll, void *stream)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *event = coll->arena->staging->event;
    sv_patience_t patience;
    sv_patience_begin(&patience, coll->comm, 0); /* kernels have deadlines of their own */
    SV_TRY(SV_DEVICE_CALL(dev, event_record, event, stream));
    for (;;) {
        selvage_status_t status = SV_DEVICE_CALL(dev, event_query, event);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (is_stopped(coll))
            return tell_stopped();
        if (sv_patience_poll(&patience) != SELVAGE_SUCCESS)
            return tell_broken(coll);
    }
}

selvage_status_t sv_coll_stage_wait(selvage_coll_t *coll)
{
    SV_TRY(sv_coll_stage_wait_stream(coll, coll->arena->stream));
    return sv_coll_check(coll);
}

selvage_status_t sv_coll_stage_copy(selvage_coll_t *coll, void *dst, const void *src, uint64_t bytes,
                                    sv_copy_kind_t kind)
{
    if (bytes == 0 || dst == src)
        return SELVAGE_SUCCESS;
    return SV_DEVICE_CALL(coll->comm->dev, copy_async, dst, src, bytes, kind, coll->arena->stream);
}

/* Waits for a request of a message with this rank. */
static selvage_status_t await(selvage_coll_t *coll, sv_wire_request_t *request, size_t *bytes_out, int rank)
{
    selvage_comm_t *comm = coll->comm;
    sv_patience_t patience;
    sv_patience_begin(&patience, comm, comm->timeout_s);
    for (;;) {
        selvage_status_t status = sv_wire_test(comm->wire, request, bytes_out);
        if (status == SELVAGE_SUCCESS)
            *request = (sv_wire_request_t){0};
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (is_stopped(coll))
            return tell_stopped();
        if (sv_agree_is_lost(comm))
            return sv_error(sv_agree_loss(comm), "another rank has failed: %s",
                            selvage_status_string(sv_agree_loss(comm)));
        status = sv_patience_poll(&patience);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "rank %d (on another node) did not do its part of a collective call for %g s", rank,
                            comm->timeout_s);
        if (status != SELVAGE_SUCCESS)
            return tell_broken(coll);
    }
}

static uint64_t digest_of(const selvage_coll_t *coll, const sv_coll_head_t *head, int source)
{
    uint64_t key = sv_digest_mix(coll->comm->nonce ^ ((uint64_t)head->communicator << 32 | head->sequence));
    key = sv_digest_mix(key + head->at) + (uint64_t)source;
    return sv_digest_finish(key, sv_digest_sum(key, 0, (const uint8_t *)head + sizeof *head, head->bytes));
}

static sv_coll_head_t make_head(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t at, uint64_t bytes)
{
    return (sv_coll_head_t){.communicator = coll->number,
                            .sequence = call->call == SV_COLL_PAIR ? 0 : coll->span->sequence,
                            .call = call->call, .type = call->type, .count = call->count, .at = at, .bytes = bytes};
}

void sv_coll_message_write(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                           uint64_t bytes)
{
    sv_coll_head_t *head = (sv_coll_head_t *)(void *)message;
    *head = make_head(coll, call, at, bytes);
    if (coll->comm->config.coll_checksum)
        head->digest = digest_of(coll, head, coll->rank);
}

selvage_status_t sv_coll_message_send(selvage_coll_t *coll, const void *message, int rank, int tag)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    const sv_coll_head_t *head = message;
    size_t bytes = sizeof *head + (tag == SV_COLL_DATA_TAG ? head->bytes : 0);
    sv_coll_sending_t *sending = &staging->sends[staging->nsends];
    SV_TRY(sv_wire_send(coll->comm->wire, SV_WIRE_SETUP, message, bytes, coll->all.ranks[rank], tag,
                        &sending->request));
    sending->rank = rank;
    staging->nsends++;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_message_sent(selvage_coll_t *coll)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    for (; staging->nsends > 0; staging->nsends--) {
        sv_coll_sending_t *sending = &staging->sends[staging->nsends - 1];
        SV_TRY(await(coll, &sending->request, NULL, sending->rank));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_message_post(selvage_coll_t *coll, uint8_t *message, int rank)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, message, SV_COLL_HEAD_BYTES + staging->chunk_bytes,
                        coll->all.ranks[rank], SV_COLL_DATA_TAG, &staging->taking[DATA]);
}

/* Who sent something else than this rank is waiting for. */
static selvage_status_t tell_mismatch(const sv_coll_head_t *found, const sv_coll_head_t *wanted, int rank)
{
    return sv_error(SELVAGE_ERR_MISMATCH, "rank %d called %s of %llu %s (call %u of communicator %u) where this rank "
                    "called %s of %llu %s (call %u of communicator %u)", rank, sv_coll_call_name(found->call),
                    (unsigned long long)found->count, selvage_type_name(found->type), found->sequence,
                    found->communicator, sv_coll_call_name(wanted->call), (unsigned long long)wanted->count,
                    selvage_type_name(wanted->type), wanted->sequence, wanted->communicator);
}

static selvage_status_t judge(const selvage_coll_t *coll, const sv_coll_head_t *found, const sv_coll_head_t *wanted,
                              size_t arrived, int rank)
{
    if (arrived < sizeof *found)
        return sv_error(SELVAGE_ERR_MPI, "rank %d sent %zu bytes, less than the head of a message", rank, arrived);
    if (found->status != SELVAGE_SUCCESS)
        return sv_error((selvage_status_t)found->status, "rank %d gave up: %s", rank,
                        selvage_status_string((selvage_status_t)found->status));
    if (found->communicator != wanted->communicator || found->sequence != wanted->sequence ||
        found->call != wanted->call || found->type != wanted->type || found->count != wanted->count)
        return tell_mismatch(found, wanted, rank);
    if (found->at != wanted->at || found->bytes != wanted->bytes || arrived != sizeof *found + found->bytes)
        return sv_error(SELVAGE_ERR_MPI, "rank %d sent %zu bytes for %llu at %llu, wanted %llu at %llu", rank, arrived,
                        (unsigned long long)found->bytes, (unsigned long long)found->at,
                        (unsigned long long)wanted->bytes, (unsigned long long)wanted->at);
    uint64_t digest = coll->comm->config.coll_checksum ? digest_of(coll, found, rank) : 0;
    if (found->digest != digest)
        return sv_error(SELVAGE_ERR_CHECKSUM, "rank %d sent what does not verify in call %u (%s): digest %016llx, "
                        "wanted %016llx", rank, wanted->sequence, sv_coll_call_name(wanted->call),
                        (unsigned long long)digest, (unsigned long long)found->digest);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_message_await(selvage_coll_t *coll, const sv_coll_call_t *call, const uint8_t *message,
                                       uint64_t at, uint64_t bytes, int rank)
{
    size_t arrived = 0;
    const sv_coll_head_t wanted = make_head(coll, call, at, bytes);
    SV_TRY(await(coll, &coll->arena->staging->taking[DATA], &arrived, rank));
    return judge(coll, (const sv_coll_head_t *)(const void *)message, &wanted, arrived, rank);
}

selvage_status_t sv_coll_message_take(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                                      uint64_t bytes, int rank)
{
    SV_TRY(sv_coll_message_post(coll, message, rank));
    return sv_coll_message_await(coll, call, message, at, bytes, rank);
}

selvage_status_t sv_coll_answer_post(selvage_coll_t *coll, sv_coll_head_t *answer, int rank)
{
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, answer, sizeof *answer, coll->all.ranks[rank],
                        SV_COLL_ANSWER_TAG, &coll->arena->staging->taking[ANSWER]);
}

selvage_status_t sv_coll_answer_await(selvage_coll_t *coll, int rank)
{
    return await(coll, &coll->arena->staging->taking[ANSWER], NULL, rank);
}

static bool is_open(const sv_wire_request_t *request)
{
    return (request->word[0] | request->word[1] | request->word[2] | request->word[3]) != 0;
}

/* Says it on both tags, whichever a rank is waiting on. Returns whether the wire is done with the word. */
static bool say_last_words(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_head_t *word = &coll->arena->staging->word;
    sv_wire_t *wire = coll->comm->wire;
    bool quiet = true;
    *word = (sv_coll_head_t){.communicator = coll->number, .status = status};
    for (int r = 0; r < coll->size; r++)
        for (int tag = SV_COLL_DATA_TAG; tag <= SV_COLL_ANSWER_TAG && r != coll->rank; tag++) {
            sv_wire_request_t request;
            if (sv_wire_send(wire, SV_WIRE_SETUP, word, sizeof *word, coll->all.ranks[r], tag, &request) ==
                SELVAGE_SUCCESS)
                quiet &= sv_wire_test(wire, &request, NULL) == SELVAGE_SUCCESS;
        }
    return quiet;
}

void sv_coll_message_give_up(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    sv_wire_t *wire = coll->comm->wire;
    bool quiet = true;
    for (int which = DATA; which <= ANSWER; which++) {
        if (is_open(&staging->taking[which]))
            quiet &= sv_wire_cancel(wire, &staging->taking[which]) == SELVAGE_SUCCESS;
        staging->taking[which] = (sv_wire_request_t){0};
    }
    for (; staging->nsends > 0; staging->nsends--)
        quiet &= sv_wire_test(wire, &staging->sends[staging->nsends - 1].request, NULL) == SELVAGE_SUCCESS;
    quiet &= say_last_words(coll, status);
    staging->set_aside |= !quiet;
}
