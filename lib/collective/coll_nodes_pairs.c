/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between nodes, all together. Those with ranks of the own node are one launch; it comes first, so
 * that no kernel waits for a host that waits for a message. The others go in rounds, as in coll_pairs.c: the j-th send
 * to rank me + k with the j-th receive from rank me - k, by j, then k. Of a round, chunk i of both is under way at the
 * same time; a rank waits in round (j, k), chunk i, only for ranks that have nothing to do before it, so it all ends.
 *
 * A receiver answers each chunk, so that both ends hear of it if they do not match.
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

static void append_round(const selvage_coll_t *coll, rounds_t *rounds, unsigned number)
{
    const sv_coll_call_t *call = &rounds->calls[number - 1];
    const int way = call->is_send ? call->root - coll->rank : coll->rank - call->root;
    const int distance = way < 0 ? way + coll->size : way, direction = call->is_send;
    if (rounds->head[direction][distance] == 0)
        rounds->head[direction][distance] = number;
    else
        rounds->next[rounds->tail[direction][distance] - 1] = number;
    rounds->tail[direction][distance] = number;
    rounds->left++;
}

static bool is_far(const selvage_coll_t *coll, const sv_coll_call_t *call)
{
    return call->call == SV_COLL_PAIR && !sv_coll_is_near(coll, call->root);
}

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
        if (is_far(coll, &calls[i]))
            append_round(coll, rounds, i + 1);
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

static selvage_status_t start_piece(selvage_coll_t *coll, const piece_t *piece)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    const uint8_t *from = (const uint8_t *)piece->call->send + piece->at;
    SV_TRY(copy_piece_memory(coll, piece, staging->out + SV_COLL_HEAD_BYTES, from, SV_COPY_D2H));
    sv_coll_message_write(coll, piece->call, staging->out, piece->at, piece->bytes);
    return sv_coll_message_send(coll, staging->out, piece->call->root);
}

static selvage_status_t end_receiving(selvage_coll_t *coll, const piece_t *piece)
{
    sv_coll_staging_t *staging = coll->arena->staging;
    const sv_coll_call_t *call = piece->call;
    uint8_t *to = (uint8_t *)call->recv + piece->at;
    SV_TRY(sv_coll_message_await(coll, call, staging->in, piece->at, piece->bytes, call->root));
    return copy_piece_memory(coll, piece, to, staging->in + SV_COLL_HEAD_BYTES, SV_COPY_H2D);
}

static selvage_status_t do_round(selvage_coll_t *coll, const sv_coll_call_t *send, const sv_coll_call_t *recv)
{
    piece_t out, in;
    for (uint64_t i = 0;; i++) {
        const bool sends = find_piece(coll, send, i, &out), receives = find_piece(coll, recv, i, &in);
        if (!sends && !receives)
            return SELVAGE_SUCCESS;
        if (receives)
            SV_TRY(sv_coll_message_post(coll, coll->arena->staging->in, in.call->root));
        if (sends)
            SV_TRY(start_piece(coll, &out));
        if (receives)
            SV_TRY(end_receiving(coll, &in));
        SV_TRY(sv_coll_message_sent(coll));
    }
}

static selvage_status_t do_rounds(selvage_coll_t *coll, rounds_t *rounds)
{
    while (rounds->left > 0)
        for (int distance = 1; distance < coll->size && rounds->left > 0; distance++) {
            const sv_coll_call_t *send = take_call(rounds, true, distance);
            const sv_coll_call_t *recv = take_call(rounds, false, distance);
            SV_TRY(do_round(coll, send, recv));
        }
    return SELVAGE_SUCCESS;
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
    selvage_status_t status = do_rounds(coll, &rounds);
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
