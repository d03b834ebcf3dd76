/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between nodes. Nothing here waits: whoever has a message under way drives it. What is left open by an error
 * is withdrawn once, at the end of the call. The caller owns the memory of messages, and all of this runs where the
 * engine lives.
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

static int data_tag(unsigned slot)
{
    return SV_COLL_DATA_TAG + 2 * (int)slot;
}

static int answer_tag(unsigned slot)
{
    return data_tag(slot) + 1;
}

static selvage_status_t post_answer(const selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, &sending->answer, sizeof sending->answer,
                        coll->all.ranks[sending->rank], answer_tag(sending->slot), &sending->answering);
}

static selvage_status_t send_data(const selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    sending->attempts++;
    SV_TRY(post_answer(coll, sending));
    return sv_wire_send(coll->comm->wire, SV_WIRE_SETUP, sending->message, sending->bytes,
                        coll->all.ranks[sending->rank], data_tag(sending->slot), &sending->request);
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

selvage_status_t sv_coll_sending_start(selvage_coll_t *coll, sv_coll_sending_t *sending, const void *message, int rank,
                                       unsigned slot)
{
    const sv_coll_head_t *head = message;
    *sending = (sv_coll_sending_t){.message = message, .bytes = sizeof *head + head->bytes, .rank = rank, .slot = slot};
    return send_data(coll, sending);
}

selvage_status_t sv_coll_sending_drive(selvage_coll_t *coll, sv_coll_sending_t *sending)
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
    SV_TRY(send_data(coll, sending));
    return SELVAGE_IN_PROGRESS;
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

selvage_status_t sv_coll_message_verify(const selvage_coll_t *coll, const sv_coll_call_t *call, const uint8_t *message,
                                        uint64_t at, uint64_t bytes, int rank)
{
    const sv_coll_head_t wanted = make_head(coll, call, at, bytes);
    const selvage_status_t status = verify_message(coll, message, &wanted, sizeof wanted + bytes, rank);
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    return sv_error(SELVAGE_ERR_CHECKSUM, "what rank %d broadcast by MPI's collective does not verify in call %u (%s)",
                    rank, wanted.sequence, sv_coll_call_name(wanted.call));
}

/* There is room for a whole chunk, so that another message than the one that is wanted can be told from it. */
static selvage_status_t post_data(const selvage_coll_t *coll, sv_coll_taking_t *taking)
{
    const uint64_t room_bytes = coll->arena->staging->chunk_bytes;
    return sv_wire_recv(coll->comm->wire, SV_WIRE_SETUP, taking->message, SV_COLL_HEAD_BYTES + room_bytes,
                        coll->all.ranks[taking->rank], data_tag(taking->slot), &taking->request);
}

selvage_status_t sv_coll_taking_start(selvage_coll_t *coll, sv_coll_taking_t *taking, const sv_coll_call_t *call,
                                      uint8_t *message, uint64_t at, uint64_t bytes, int rank, unsigned slot)
{
    *taking = (sv_coll_taking_t){.message = message, .wanted = make_head(coll, call, at, bytes), .rank = rank,
                                 .slot = slot, .verdict = SELVAGE_IN_PROGRESS};
    return post_data(coll, taking);
}

/* What has come; the verdict is in the taking, and is due to be told. Other errors end the call. */
static selvage_status_t judge_data(selvage_coll_t *coll, sv_coll_taking_t *taking, size_t arrived)
{
    const sv_coll_head_t *wanted = &taking->wanted;
    selvage_status_t status = verify_message(coll, taking->message, wanted, arrived, taking->rank);
    taking->attempts++;
    if (status == SELVAGE_IN_PROGRESS && taking->attempts == ATTEMPTS)
        return sv_error(SELVAGE_ERR_CHECKSUM, "rank %d sent what does not verify in call %u (%s), %d times",
                        taking->rank, wanted->sequence, sv_coll_call_name(wanted->call), ATTEMPTS);
    if (status == SELVAGE_IN_PROGRESS) { /* the receive is there before the sender hears that it is wanted */
        coll->arena->staging->repaired++;
        SV_TRY(post_data(coll, taking));
    }
    if (status != SELVAGE_IN_PROGRESS && status != SELVAGE_SUCCESS && status != SELVAGE_ERR_MISMATCH)
        return status;
    taking->verdict = status;
    taking->due = true;
    return SELVAGE_SUCCESS;
}

/* Tells the sender what its message was; the answer before this one must have gone. */
static selvage_status_t send_answer(const selvage_coll_t *coll, sv_coll_taking_t *taking)
{
    sv_coll_head_t answer = taking->wanted;
    SV_TRY(test_request(coll, &taking->answering, NULL));
    answer.status = taking->verdict;
    write_word(coll, &taking->answer, answer);
    taking->due = false;
    return sv_wire_send(coll->comm->wire, SV_WIRE_SETUP, &taking->answer, sizeof taking->answer,
                        coll->all.ranks[taking->rank], answer_tag(taking->slot), &taking->answering);
}

selvage_status_t sv_coll_taking_drive(selvage_coll_t *coll, sv_coll_taking_t *taking)
{
    if (!taking->due && is_request_open(&taking->request)) {
        size_t arrived = 0;
        SV_TRY(test_request(coll, &taking->request, &arrived));
        if (is_head_of_another(coll, taking->message, arrived, taking->rank)) {
            SV_TRY(post_data(coll, taking));
            return SELVAGE_IN_PROGRESS;
        }
        SV_TRY(judge_data(coll, taking, arrived));
    }
    if (taking->due)
        SV_TRY(send_answer(coll, taking));
    return taking->verdict;
}

selvage_status_t sv_coll_taking_drain(selvage_coll_t *coll, sv_coll_taking_t *taking)
{
    return test_request(coll, &taking->answering, NULL);
}

/* To those who may wait for a message of this rank, whichever it is: in rows a rank's own rail, of pairs any rank.
   Returns whether the wire is done with the word. */
static bool send_abort(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_word_t *word = &coll->arena->staging->word;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_wire_t *wire = coll->comm->wire;
    bool drained = true;
    write_word(coll, word, (sv_coll_head_t){.communicator = coll->number, .status = status});
    for (int r = 0; r < coll->size; r++) {
        const bool on_rail = (node_set->inner[r] - node_set->inner[coll->rank]) % node_set->rails == 0;
        const int tags = on_rail || coll->arena->staging->pairs ? 2 * SV_COLL_TAG_SLOTS : 0;
        for (int i = 0; i < tags && r != coll->rank; i++) {
            sv_wire_request_t request;
            if (sv_wire_send(wire, SV_WIRE_SETUP, word, sizeof *word, coll->all.ranks[r], SV_COLL_DATA_TAG + i,
                             &request) == SELVAGE_SUCCESS)
                drained &= sv_wire_test(wire, &request, NULL) == SELVAGE_SUCCESS;
        }
    }
    return drained;
}

static bool cancel_request(sv_wire_t *wire, sv_wire_request_t *request)
{
    bool drained = !is_request_open(request) || sv_wire_cancel(wire, request) == SELVAGE_SUCCESS;
    *request = (sv_wire_request_t){0};
    return drained;
}

static bool withdraw_sending(selvage_coll_t *coll, sv_coll_sending_t *sending)
{
    const bool sent = test_request(coll, &sending->request, NULL) == SELVAGE_SUCCESS;
    return cancel_request(coll->comm->wire, &sending->answering) && sent;
}

static bool withdraw_taking(selvage_coll_t *coll, sv_coll_taking_t *taking)
{
    const bool answered = test_request(coll, &taking->answering, NULL) == SELVAGE_SUCCESS;
    return cancel_request(coll->comm->wire, &taking->request) && answered;
}

static bool withdraw_slot(selvage_coll_t *coll, sv_coll_rail_slot_t *slot)
{
    bool drained = withdraw_taking(coll, &slot->taking);
    for (unsigned i = 0; i < slot->nsendings; i++)
        drained &= withdraw_sending(coll, &slot->sending[i]);
    return drained;
}

void sv_coll_message_give_up(selvage_coll_t *coll, selvage_status_t status)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    bool drained = true;
    for (unsigned s = 0; s < SV_COLL_RAIL_SLOTS; s++) {
        drained &= withdraw_slot(coll, &staging->up[s]);
        drained &= withdraw_slot(coll, &staging->down[s]);
    }
    drained &= sv_coll_handed_withdraw(coll);
    drained &= send_abort(coll, status);
    staging->set_aside |= !drained;
}
