/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does all sends and receives of a group between nodes. Those with ranks of the own node are one launch. It
 * comes first, so that no kernel waits for a host that waits for a message. The others go in rounds, as in
 * coll_pairs.c: the j-th send to rank me + k with the j-th receive from rank me - k, by j, then k. Of a round, chunk i
 * of both is in flight at the same time. In round (j, k), chunk i, a rank waits only for ranks that have nothing to do
 * before it, so it all ends.
 *
 * A receiver answers each chunk, so that both ends learn of it if they do not match. The caller waits; the lists of
 * rounds live as long as the call.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_nodes.h"

/* Calls by direction and distance, each list in the order of the calls; numbers are 1 + index, 0 is the end. */
typedef struct rounds {
    const sv_coll_call_t *calls;
    unsigned *next, *head[2], *tail[2];
    unsigned left;
} rounds_t;

static selvage_status_t sort_rounds(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls,
                                    rounds_t *rounds)
{
    const size_t size = (size_t)coll->size;
    *rounds = (rounds_t){.calls = calls};
    SV_TRY(sv_calloc(ncalls + 4 * size, sizeof *rounds->next, &rounds->next));
    for (int direction = 0; direction < 2; direction++) {
        rounds->head[direction] = rounds->next + ncalls + (size_t)direction * 2 * size;
        rounds->tail[direction] = rounds->head[direction] + size;
    }
    for (unsigned i = 0; i < ncalls; i++)
        if (calls[i].call == SV_COLL_PAIR && !sv_coll_is_near(coll, calls[i].root)) {
            const int direction = calls[i].is_send, other = calls[i].root;
            const int way = direction ? other - coll->rank : coll->rank - other;
            const int distance = way < 0 ? way + coll->size : way;
            if (rounds->head[direction][distance] == 0)
                rounds->head[direction][distance] = i + 1;
            else
                rounds->next[rounds->tail[direction][distance] - 1] = i + 1;
            rounds->tail[direction][distance] = i + 1;
            rounds->left++;
        }
    return SELVAGE_SUCCESS;
}

static const sv_coll_call_t *take_call(rounds_t *rounds, int direction, int distance)
{
    const unsigned number = rounds->head[direction][distance];
    if (number == 0)
        return NULL;
    rounds->head[direction][distance] = rounds->next[number - 1];
    rounds->left--;
    return &rounds->calls[number - 1];
}

/* Chunk i of a message; of nothing there is one, too. */
typedef struct piece {
    const sv_coll_call_t *call;
    uint64_t at, bytes;
} piece_t;

static bool find_piece(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t i, piece_t *piece)
{
    if (!call)
        return false;
    const uint64_t most = coll->arena->staging->chunk_bytes, all = call->count * selvage_type_bytes(call->type);
    *piece = (piece_t){.call = call, .at = i * most};
    if (i > 0 && piece->at >= all)
        return false;
    piece->bytes = all - piece->at < most ? all - piece->at : most;
    return true;
}

/* On the call's own stream, which is idle: on the arena's a launch may wait for ranks that come late. */
static selvage_status_t copy_piece_memory(selvage_coll_t *coll, const piece_t *piece, void *to, const void *from,
                                          sv_copy_kind_t kind)
{
    if (piece->bytes == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(coll->comm->dev, copy_async, to, from, piece->bytes, kind, piece->call->stream));
    return sv_coll_stage_wait_stream(coll, piece->call->stream);
}

/* Both messages, either of which may be NULL: taken, right, and answered. */
static selvage_status_t await_messages(selvage_coll_t *coll, sv_coll_sending_t *sending, sv_coll_taking_t *taking)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, coll->comm, coll->comm->timeout_s);
    for (;;) {
        selvage_status_t sent = sending ? sv_coll_sending_drive(coll, sending) : SELVAGE_SUCCESS;
        if (sent != SELVAGE_SUCCESS && sent != SELVAGE_IN_PROGRESS)
            return sent;
        selvage_status_t taken = taking ? sv_coll_taking_drive(coll, taking) : SELVAGE_SUCCESS;
        if (taken == SELVAGE_SUCCESS && taking)
            taken = sv_coll_taking_drain(coll, taking);
        if (taken != SELVAGE_SUCCESS && taken != SELVAGE_IN_PROGRESS)
            return taken;
        if (sent == SELVAGE_SUCCESS && taken == SELVAGE_SUCCESS)
            return SELVAGE_SUCCESS;
        SV_TRY(sv_coll_stage_turn(coll, &deadline, taken == SELVAGE_IN_PROGRESS ? taking->rank : sending->rank));
    }
}

static selvage_status_t do_round(selvage_coll_t *coll, const sv_coll_call_t *send, const sv_coll_call_t *recv)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    piece_t out, in;
    for (uint64_t i = 0;; i++) {
        const bool sends = find_piece(coll, send, i, &out), receives = find_piece(coll, recv, i, &in);
        if (!sends && !receives)
            return SELVAGE_SUCCESS;
        if (receives)
            SV_TRY(sv_coll_taking_start(coll, &staging->taking, recv, staging->in, in.at, in.bytes, recv->root,
                                        SV_COLL_PAIR_SLOT));
        if (sends) {
            const uint8_t *from = (const uint8_t *)send->send + out.at;
            SV_TRY(copy_piece_memory(coll, &out, staging->out + SV_COLL_HEAD_BYTES, from, SV_COPY_D2H));
            sv_coll_message_write(coll, send, staging->out, out.at, out.bytes);
            SV_TRY(sv_coll_sending_start(coll, &staging->sending, staging->out, send->root, SV_COLL_PAIR_SLOT));
        }
        SV_TRY(await_messages(coll, sends ? &staging->sending : NULL, receives ? &staging->taking : NULL));
        if (receives) {
            uint8_t *to = (uint8_t *)recv->recv + in.at;
            SV_TRY(copy_piece_memory(coll, &in, to, staging->in + SV_COLL_HEAD_BYTES, SV_COPY_H2D));
        }
    }
}

/* Those with ranks of this node. */
static selvage_status_t launch_within_node(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_coll_call_t *near;
    unsigned count = 0;
    SV_TRY(sv_calloc(ncalls, sizeof *near, &near));
    for (unsigned i = 0; i < ncalls; i++)
        if (calls[i].call == SV_COLL_PAIR && sv_coll_is_near(coll, calls[i].root)) {
            near[count] = calls[i];
            near[count].root = coll->node_set->inner[calls[i].root];
            near[count++].stream = coll->arena->stream;
        }
    selvage_status_t status = sv_coll_launch(coll->node_set->part, near, count);
    sv_free(near);
    return status;
}

selvage_status_t sv_coll_nodes_pairs(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    rounds_t rounds;
    SV_TRY(launch_within_node(coll, calls, ncalls));
    SV_TRY(sort_rounds(coll, calls, ncalls, &rounds));
    selvage_status_t status = SELVAGE_SUCCESS;
    while (rounds.left > 0 && status == SELVAGE_SUCCESS)
        for (int k = 1; k < coll->size && rounds.left > 0 && status == SELVAGE_SUCCESS; k++) {
            const sv_coll_call_t *send = take_call(&rounds, true, k), *recv = take_call(&rounds, false, k);
            status = do_round(coll, send, recv);
        }
    sv_free(rounds.next);
    SV_TRY(status);
    return sv_coll_stage_wait(coll);
}

selvage_status_t sv_coll_nodes_all_to_all(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const uint64_t block = call->count * selvage_type_bytes(call->type);
    const unsigned size = (unsigned)coll->size;
    sv_coll_call_t *pairs;
    if (call->count == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc((size_t)size * 2, sizeof *pairs, &pairs));
    for (unsigned r = 0; r < size; r++) {
        sv_coll_call_t pair = {.call = SV_COLL_PAIR, .type = call->type, .root = (int)r, .count = call->count,
                               .stream = call->stream};
        pair.recv = (uint8_t *)call->recv + r * block;
        pairs[2 * r] = pair;
        pair.recv = NULL;
        pair.send = (const uint8_t *)call->send + r * block;
        pair.is_send = true;
        pairs[2 * r + 1] = pair;
    }
    selvage_status_t status = sv_coll_nodes_pairs(coll, pairs, 2 * size);
    sv_free(pairs);
    return status;
}
