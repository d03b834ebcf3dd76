/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between nodes, copies, and waiting for both. Whatever is waited for, the engine goes on, an abort ends the
 * wait, and for other ranks the deadline does. What is left open by an error is withdrawn once, at the end of the call.
 *
 * Every message of data is answered: it was right, or came damaged and is wanted again, or is of another call. So each
 * message has one answer, and its memory is its sender's again when that says that it was right. Damage is found by the
 * check word of the head, which is always there, and by the digest of the bytes, unless SELVAGE_COLL_CHECKSUM is off.
 * Answers and abort messages are there thrice; one that cannot be read, and a message that is lost, end the call.
 */
#include "collective/coll_nodes.h"

#include <string.h>

#include "base/base_status.h"
#include "collective/coll_names.h"
#include "comm/comm_control.h"

enum { ATTEMPTS = 8 }; /* of a message that comes damaged each time */

static bool is_stopped(const selvage_coll_t *coll)
{
    /* Partner: sv_coll_abort(). */
    return __atomic_load_n(&coll->arena->pinned->host_stop, __ATOMIC_ACQUIRE) != 0;
}

static selvage_status_t report_stopped(void)
{
    return sv_error_quiet(SELVAGE_ERR_ABORTED, "collectives of this communicator have ended: %s",
                          selvage_status_string(SELVAGE_ERR_ABORTED));
}

static selvage_status_t report_broken(const selvage_coll_t *coll)
{
    return sv_error_quiet(coll->comm->broken, "an earlier collective call failed on this communicator: %s",
                          selvage_status_string(coll->comm->broken));
}

selvage_status_t sv_coll_stage_wait_stream(selvage_coll_t *coll, void *stream)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *event = coll->arena->staging->event;
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, coll->comm, 0); /* kernels have deadlines of their own */
    SV_TRY(SV_DEVICE_CALL(dev, event_record, event, stream));
    for (;;) {
        selvage_status_t status = SV_DEVICE_CALL(dev, event_query, event);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (is_stopped(coll))
            return report_stopped();
        if (sv_deadline_poll(&deadline) != SELVAGE_SUCCESS)
            return report_broken(coll);
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

static uint64_t digest_of(const selvage_coll_t *coll, const sv_coll_head_t *head, const uint8_t *bytes, int source)
{
    uint64_t key = sv_digest_mix(coll->comm->nonce ^ ((uint64_t)head->communicator << 32 | head->sequence));
    key = sv_digest_mix(key + head->at) + (uint64_t)source;
    return sv_digest_finish(key, sv_digest_sum(key, 0, bytes, head->bytes));
}

static uint64_t check_answer_head(const sv_coll_head_t *head, int source)
{
    const uint64_t key = sv_digest_mix(~head->nonce + (uint64_t)source);
    return sv_digest_finish(key, sv_digest_sum(key, 0, head, offsetof(sv_coll_head_t, check)));
}

static bool is_request_open(const sv_wire_request_t *request)
{
    return (request->word[0] | request->word[1] | request->word[2] | request->word[3]) != 0;
}

/* Whether a request is complete, or was none; then it is none. */
static selvage_status_t test_request(const selvage_coll_t *coll, sv_wire_request_t *request, size_t *bytes_out)
{
    if (!is_request_open(request))
        return SELVAGE_SUCCESS;
    selvage_status_t status = sv_wire_test(coll->comm->wire, request, bytes_out);
    if (status == SELVAGE_SUCCESS)
        *request = (sv_wire_request_t){0};
    return status;
}

/* Makes what has no bytes. */
static void write_word(const selvage_coll_t *coll, sv_coll_word_t *word, sv_coll_head_t head)
{
    head.nonce = coll->comm->nonce;
    head.check = check_answer_head(&head, coll->rank);
    for (int i = 0; i < SV_COLL_WORD_COPIES; i++)
        word->copy[i] = head;
}

/* The first copy of the head that is there and verifies, or NULL. Of data there is one; a last word in its place has
   as many as a word, and so is looked for where bytes would be: none of these could pass for one. */
static const sv_coll_head_t *find_head(const selvage_coll_t *coll, const void *message, size_t arrived, int rank)
{
    const sv_coll_head_t *head = message;
    for (size_t i = 0; i < SV_COLL_WORD_COPIES && (i + 1) * sizeof *head <= arrived; i++)
        if (head[i].nonce == coll->comm->nonce && head[i].check == check_answer_head(&head[i], rank))
            return &head[i];
    return NULL;
}

/* Of a communicator that failed before this one was made, whose messages nobody has received: MPI may give the new one
   the old one's context. */
static bool is_head_of_another(const selvage_coll_t *coll, const void *message, size_t arrived, int rank)
{
    const sv_coll_head_t *head = message;
    return arrived >= sizeof *head && head->nonce != coll->comm->nonce && head->check == check_answer_head(head, rank);
}

static selvage_status_t report_given_up(int rank, int32_t status)
{
    const selvage_status_t theirs = sv_status_of_error(status);
    return sv_error(theirs, "rank %d gave up: %s", rank, selvage_status_string(theirs));
}

static selvage_status_t post_answer(const selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, &sending->answer, sizeof sending->answer,
                        coll->all.ranks[sending->rank], SV_COLL_ANSWER_TAG, &sending->answering);
}

static selvage_status_t start_sending(const selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    const int peer = coll->all.ranks[sending->rank];
    sending->attempts++;
    SV_TRY(post_answer(coll, sending));
    return sv_wire_send(coll->comm->wire, SV_WIRE_SETUP, sending->message, sending->bytes, peer, SV_COLL_DATA_TAG,
                        &sending->request);
}

static selvage_status_t poll_answer(selvage_coll_t *coll, sv_coll_sending_t *sending, size_t arrived)
{
    const sv_coll_head_t *answer = find_head(coll, &sending->answer, arrived, sending->rank), *sent = sending->message;
    if (!answer)
        return sv_error(SELVAGE_ERR_CHECKSUM, "rank %d sent an answer that does not verify", sending->rank);
    if (answer->call == 0)
        return report_given_up(sending->rank, answer->status);
    if (answer->status == SELVAGE_ERR_MISMATCH)
        return sv_error(SELVAGE_ERR_MISMATCH, "rank %d called for a message of %llu %s from rank %d where this rank "
                        "sent %llu %s", sending->rank, (unsigned long long)answer->count,
                        selvage_type_name(answer->type), coll->rank, (unsigned long long)sent->count,
                        selvage_type_name(sent->type));
    if (answer->status == SELVAGE_SUCCESS || answer->status == SELVAGE_IN_PROGRESS) /* it wants it once more */
        return (selvage_status_t)answer->status;
    return report_given_up(sending->rank, answer->status);
}

/* SUCCESS: it was taken, and was right. */
static selvage_status_t drive_sending(selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    size_t arrived = 0;
    SV_TRY(test_request(coll, &sending->request, NULL));
    if (!is_request_open(&sending->answering))
        return SELVAGE_SUCCESS;
    SV_TRY(test_request(coll, &sending->answering, &arrived));
    if (is_head_of_another(coll, &sending->answer, arrived, sending->rank)) {
        SV_TRY(post_answer(coll, sending));
        return SELVAGE_IN_PROGRESS;
    }
    selvage_status_t status = poll_answer(coll, sending, arrived);
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    if (sending->attempts == ATTEMPTS)
        return sv_error(SELVAGE_ERR_CHECKSUM, "what this rank sent to rank %d came damaged %d times", sending->rank,
                        ATTEMPTS);
    SV_TRY(start_sending(coll, sending));
    return SELVAGE_IN_PROGRESS;
}

/* All that is on its way; of those that were not taken yet, the rank of one. */
static selvage_status_t drive_sendings(selvage_coll_t *coll, int *rank_out)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    selvage_status_t all = SELVAGE_SUCCESS;
    for (unsigned i = 0; i < staging->nsends; i++) {
        selvage_status_t status = drive_sending(coll, &staging->sends[i]);
        if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS)
            return status;
        if (status == SELVAGE_IN_PROGRESS) {
            *rank_out = staging->sends[i].rank;
            all = status;
        }
    }
    return all;
}

/* A turn of a wait for a rank; SUCCESS: go on waiting. */
static selvage_status_t wait_turn(selvage_coll_t *coll, sv_deadline_t *deadline, int rank)
{
    selvage_comm_t *comm = coll->comm;
    if (is_stopped(coll))
        return report_stopped();
    int failed = -1;
    const selvage_status_t loss = sv_agree_loss(comm, &failed);
    if (loss != SELVAGE_SUCCESS)
        return sv_error(loss, "rank %d has failed: %s", failed, selvage_status_string(loss));
    selvage_status_t status = sv_deadline_poll(deadline);
    if (status == SELVAGE_ERR_TIMEOUT)
        return sv_error(status, "rank %d (on another node) did not do its part of a collective call for %g s", rank,
                        comm->timeout_s);
    return status == SELVAGE_SUCCESS ? status : report_broken(coll);
}

/* Waits for a request of a message with this rank. Others may wait for what this one sent to be sent again. */
static selvage_status_t await_nodes_request(selvage_coll_t *coll, sv_wire_request_t *request, size_t *bytes_out,
                                            int rank)
{
    sv_deadline_t deadline;
    int other;
    sv_deadline_begin(&deadline, coll->comm, coll->comm->timeout_s);
    for (;;) {
        selvage_status_t status = test_request(coll, request, bytes_out);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        status = drive_sendings(coll, &other);
        if (status != SELVAGE_IN_PROGRESS)
            SV_TRY(status);
        SV_TRY(wait_turn(coll, &deadline, rank));
    }
}

static sv_coll_head_t make_head(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t at, uint64_t bytes)
{
    return (sv_coll_head_t){.nonce = coll->comm->nonce,
                            .communicator = coll->number,
                            .sequence = call->call == SV_COLL_PAIR ? 0 : coll->node_set->sequence,
                            .call = call->call,
                            .type = call->type,
                            .count = call->count,
                            .at = at,
                            .bytes = bytes};
}

void sv_coll_message_write(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                           uint64_t bytes)
{
    sv_coll_head_t *head = (sv_coll_head_t *)(void *)message;
    *head = make_head(coll, call, at, bytes);
    if (coll->comm->config.coll_checksum)
        head->digest = digest_of(coll, head, message + sizeof *head, coll->rank);
    head->check = check_answer_head(head, coll->rank);
}

selvage_status_t sv_coll_message_send(selvage_coll_t *coll, const void *message, int rank)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    const sv_coll_head_t *head = message;
    sv_coll_sending_t *sending = &staging->sends[staging->nsends++];
    *sending = (sv_coll_sending_t){.message = message, .bytes = sizeof *head + head->bytes, .rank = rank};
    return start_sending(coll, sending);
}

selvage_status_t sv_coll_message_sent(selvage_coll_t *coll)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    sv_deadline_t deadline;
    int rank = 0;
    sv_deadline_begin(&deadline, coll->comm, coll->comm->timeout_s);
    for (;;) {
        selvage_status_t status = drive_sendings(coll, &rank);
        if (status == SELVAGE_SUCCESS)
            break;
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        SV_TRY(wait_turn(coll, &deadline, rank));
    }
    staging->nsends = 0;
    return await_nodes_request(coll, &staging->answering, NULL, coll->rank);
}

selvage_status_t sv_coll_message_post(selvage_coll_t *coll, uint8_t *message, int rank)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, message, SV_COLL_HEAD_BYTES + staging->chunk_bytes,
                        coll->all.ranks[rank], SV_COLL_DATA_TAG, &staging->taking);
}

/* Who sent something else than this rank is waiting for. */
static selvage_status_t report_head_mismatch(const sv_coll_head_t *found, const sv_coll_head_t *wanted, int rank)
{
    return sv_error(SELVAGE_ERR_MISMATCH, "rank %d called %s of %llu %s (call %u of communicator %u) where this rank "
                    "called %s of %llu %s (call %u of communicator %u)", rank, sv_coll_call_name(found->call),
                    (unsigned long long)found->count, selvage_type_name(found->type), found->sequence,
                    found->communicator, sv_coll_call_name(wanted->call), (unsigned long long)wanted->count,
                    selvage_type_name(wanted->type), wanted->sequence, wanted->communicator);
}

/* IN_PROGRESS: it is damaged, and worth asking for again. */
static selvage_status_t verify_message(const selvage_coll_t *coll, const uint8_t *message, const sv_coll_head_t *wanted,
                                       size_t arrived, int rank)
{
    const sv_coll_head_t *found = find_head(coll, message, arrived, rank);
    if (!found || (found->call != 0 && (const void *)found != message))
        return SELVAGE_IN_PROGRESS;
    if (found->call == 0)
        return report_given_up(rank, found->status);
    if (found->communicator != wanted->communicator || found->sequence != wanted->sequence ||
        found->call != wanted->call || found->type != wanted->type || found->count != wanted->count)
        return report_head_mismatch(found, wanted, rank);
    if (found->at != wanted->at || found->bytes != wanted->bytes)
        return sv_error(SELVAGE_ERR_MPI, "rank %d sent %llu bytes at %llu, wanted %llu at %llu", rank,
                        (unsigned long long)found->bytes, (unsigned long long)found->at,
                        (unsigned long long)wanted->bytes, (unsigned long long)wanted->at);
    if (arrived != sizeof *found + found->bytes)
        return SELVAGE_IN_PROGRESS;
    const bool sums = coll->comm->config.coll_checksum;
    return !sums || found->digest == digest_of(coll, found, message + sizeof *found, rank) ? SELVAGE_SUCCESS
                                                                                          : SELVAGE_IN_PROGRESS;
}

/* Tells a rank what its message was. The answer before this one must have gone. */
static selvage_status_t send_answer(selvage_coll_t *coll, const sv_coll_head_t *wanted, selvage_status_t status,
                                    int rank)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    sv_coll_head_t answer = *wanted;
    SV_TRY(await_nodes_request(coll, &staging->answering, NULL, rank));
    answer.status = status;
    write_word(coll, &staging->answer, answer);
    return sv_wire_send(coll->comm->wire, SV_WIRE_SETUP, &staging->answer, sizeof staging->answer,
                        coll->all.ranks[rank], SV_COLL_ANSWER_TAG, &staging->answering);
}

selvage_status_t sv_coll_message_await(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                                       uint64_t bytes, int rank)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    const sv_coll_head_t wanted = make_head(coll, call, at, bytes);
    for (unsigned attempt = 1;; attempt++) {
        size_t arrived = 0;
        SV_TRY(await_nodes_request(coll, &staging->taking, &arrived, rank));
        while (is_head_of_another(coll, message, arrived, rank)) {
            SV_TRY(sv_coll_message_post(coll, message, rank));
            SV_TRY(await_nodes_request(coll, &staging->taking, &arrived, rank));
        }
        selvage_status_t status = verify_message(coll, message, &wanted, arrived, rank);
        if (status == SELVAGE_IN_PROGRESS && attempt == ATTEMPTS)
            return sv_error(SELVAGE_ERR_CHECKSUM, "rank %d sent what does not verify in call %u (%s), %d times", rank,
                            wanted.sequence, sv_coll_call_name(wanted.call), ATTEMPTS);
        if (status == SELVAGE_IN_PROGRESS) {
            staging->repaired++;
            SV_TRY(sv_coll_message_post(coll, message, rank));
        }
        if (status == SELVAGE_IN_PROGRESS || status == SELVAGE_SUCCESS || status == SELVAGE_ERR_MISMATCH)
            SV_TRY(send_answer(coll, &wanted, status, rank));
        if (status != SELVAGE_IN_PROGRESS)
            return status;
    }
}

selvage_status_t sv_coll_message_take(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                                      uint64_t bytes, int rank)
{
    SV_TRY(sv_coll_message_post(coll, message, rank));
    return sv_coll_message_await(coll, call, message, at, bytes, rank);
}

/* Says it on both tags, whichever a rank is waiting on. Returns whether the wire is done with the word. */
static bool send_abort(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_word_t *word = &coll->arena->staging->word;
    sv_wire_t *wire = coll->comm->wire;
    bool drained = true;
    write_word(coll, word, (sv_coll_head_t){.communicator = coll->number, .status = status});
    for (int r = 0; r < coll->size; r++)
        for (int tag = SV_COLL_DATA_TAG; tag <= SV_COLL_ANSWER_TAG && r != coll->rank; tag++) {
            sv_wire_request_t request;
            if (sv_wire_send(wire, SV_WIRE_SETUP, word, sizeof *word, coll->all.ranks[r], tag, &request) ==
                SELVAGE_SUCCESS)
                drained &= sv_wire_test(wire, &request, NULL) == SELVAGE_SUCCESS;
        }
    return drained;
}

static bool cancel_request(sv_wire_t *wire, sv_wire_request_t *request)
{
    bool drained = !is_request_open(request) || sv_wire_cancel(wire, request) == SELVAGE_SUCCESS;
    *request = (sv_wire_request_t){0};
    return drained;
}

void sv_coll_message_give_up(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    sv_wire_t *wire = coll->comm->wire;
    bool drained = cancel_request(wire, &staging->taking);
    drained &= test_request(coll, &staging->answering, NULL) == SELVAGE_SUCCESS;
    for (; staging->nsends > 0; staging->nsends--) {
        sv_coll_sending_t *sending = &staging->sends[staging->nsends - 1];
        drained &= test_request(coll, &sending->request, NULL) == SELVAGE_SUCCESS;
        drained &= cancel_request(wire, &sending->answering);
    }
    drained &= send_abort(coll, status);
    staging->set_aside |= !drained;
}
