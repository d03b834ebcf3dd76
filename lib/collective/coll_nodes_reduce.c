/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does reductions between nodes. The vector (of a reduce-scatter, the blocks of all ranks one after the
 * other) goes chunk by chunk:
 *
 *   device     all ranks of a node  ->  leader                    in the order of ranks
 *   messages   leader of node 0 -> leader of node 1 -> ...        each adds its node's sum after what it is sent
 *   messages   leader of the last node  ->  leaders, root, or the ranks whose blocks these are
 *   device     leader -> all ranks of its node                    of an all-reduce
 *
 * So results are the same on all ranks and from run to run, but rounded once on each node. The last leader divides.
 * The caller waits for all of it; the arena owns the messages.
 */
#include <string.h>

#include "base/base_status.h"
#include "collective/coll_nodes.h"
#include "kernels/coll_pass_host.h"

enum { PART_UNIT = SV_COLL_HEAD_BYTES };

/* A piece of the vector. */
typedef struct chunk {
    selvage_coll_t *coll;
    const sv_coll_call_t *call;
    uint64_t at, bytes, element_bytes;
} chunk_t;

static int last_leader(const selvage_coll_t *coll)
{
    return coll->node_set->leader[coll->node_set->nnodes - 1];
}

/* A leader's place in the chain. Afterwards that of the last node has the result, as a message in staging->out. */
static selvage_status_t add_to_chain(const chunk_t *chunk)
{
    selvage_coll_t *coll = chunk->coll;
    const sv_coll_call_t *call = chunk->call;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_staging_t *staging = coll->arena->staging;
    uint8_t *own = staging->out + SV_COLL_HEAD_BYTES;
    const bool is_last = node_set->mine == node_set->nnodes - 1;
    const unsigned divisor = is_last && (call->flags & SV_COLL_DIVIDE) ? (unsigned)coll->size : 0;
    SV_TRY(sv_coll_stage_copy(coll, own, staging->device, chunk->bytes, SV_COPY_D2H));
    SV_TRY(sv_coll_stage_wait(coll));
    if (node_set->mine > 0) {
        int before = node_set->leader[node_set->mine - 1];
        SV_TRY(sv_coll_message_take(coll, call, staging->in, chunk->at, chunk->bytes, before));
        sv_coll_pass_host(own, staging->in + SV_COLL_HEAD_BYTES, chunk->bytes, call->type, call->op, divisor);
    }
    sv_coll_message_write(coll, call, staging->out, chunk->at, chunk->bytes);
    if (is_last)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_message_send(coll, staging->out, node_set->leader[node_set->mine + 1]));
    return sv_coll_message_sent(coll);
}

/* Takes the result from the last leader, and puts it where it belongs. */
static selvage_status_t take_result(const chunk_t *chunk, uint8_t *to, uint64_t at, uint64_t bytes)
{
    selvage_coll_t *coll = chunk->coll;
    uint8_t *message = coll->arena->staging->in;
    SV_TRY(sv_coll_message_take(coll, chunk->call, message, at, bytes, last_leader(coll)));
    return sv_coll_stage_copy(coll, to, message + SV_COLL_HEAD_BYTES, bytes, SV_COPY_H2D);
}

/* Puts the result where it belongs on the last leader, which has it already. */
static selvage_status_t keep_result(const chunk_t *chunk, uint8_t *to, uint64_t at, uint64_t bytes)
{
    const uint8_t *result = chunk->coll->arena->staging->out + SV_COLL_HEAD_BYTES;
    return sv_coll_stage_copy(chunk->coll, to, result + (at - chunk->at), bytes, SV_COPY_H2D);
}

/* The part of the chunk that is in the block of a rank: where it begins, how long it is. */
static uint64_t chunk_part_of(const chunk_t *chunk, int rank, uint64_t *at_out)
{
    const uint64_t block = chunk->call->count * chunk->element_bytes, begin = (uint64_t)rank * block;
    const uint64_t low = chunk->at > begin ? chunk->at : begin, end = chunk->at + chunk->bytes;
    const uint64_t high = end < begin + block ? end : begin + block;
    *at_out = low;
    return low < high ? high - low : 0;
}

/* The result, from the last leader to whom it belongs. */
static selvage_status_t send_result(const chunk_t *chunk)
{
    selvage_coll_t *coll = chunk->coll;
    const sv_coll_call_t *call = chunk->call;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_staging_t *staging = coll->arena->staging;
    const int last = last_leader(coll);
    const bool is_last = coll->rank == last;
    uint64_t at, bytes;
    /* An all-reduce: to all leaders, and from each to its node. */
    if (call->call == SV_COLL_ALL_REDUCE) {
        uint8_t *to = (uint8_t *)call->recv + chunk->at;
        for (int node = 0; is_last && node < node_set->mine; node++)
            SV_TRY(sv_coll_message_send(coll, staging->out, node_set->leader[node]));
        if (is_last)
            SV_TRY(keep_result(chunk, to, chunk->at, chunk->bytes));
        else if (sv_coll_leads(coll))
            SV_TRY(take_result(chunk, to, chunk->at, chunk->bytes));
        const sv_coll_call_t inner = {.call = SV_COLL_BROADCAST, .type = call->type, .root = 0, .send = to, .recv = to,
                                      .count = chunk->bytes / chunk->element_bytes, .stream = coll->arena->stream};
        return coll->dev.n > 1 ? sv_coll_launch(node_set->part, &inner, 1) : SELVAGE_SUCCESS;
    }
    /* A reduce: to the root. */
    if (call->call == SV_COLL_REDUCE) {
        if (is_last && call->root != last)
            return sv_coll_message_send(coll, staging->out, call->root);
        if (coll->rank != call->root)
            return SELVAGE_SUCCESS;
        uint8_t *to = (uint8_t *)call->recv + chunk->at;
        return is_last ? keep_result(chunk, to, chunk->at, chunk->bytes)
                       : take_result(chunk, to, chunk->at, chunk->bytes);
    }
    /* A reduce-scatter: to each rank whose block has a part of the chunk. Each part gets a head of its own, in the
       memory of the other message. */
    const uint64_t block = call->count * chunk->element_bytes;
    uint8_t *message = staging->in;
    int rank = (int)(chunk->at / block);
    for (; is_last && rank < coll->size && (bytes = chunk_part_of(chunk, rank, &at)) > 0; rank++) {
        if (rank == coll->rank)
            continue;
        memcpy(message + SV_COLL_HEAD_BYTES, staging->out + SV_COLL_HEAD_BYTES + (at - chunk->at), bytes);
        sv_coll_message_write(coll, call, message, at, bytes);
        SV_TRY(sv_coll_message_send(coll, message, rank));
        message += SV_COLL_HEAD_BYTES + (bytes + PART_UNIT - 1) / PART_UNIT * PART_UNIT;
    }
    bytes = chunk_part_of(chunk, coll->rank, &at);
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    uint8_t *to = (uint8_t *)call->recv + (at - block * (uint64_t)coll->rank);
    return is_last ? keep_result(chunk, to, at, bytes) : take_result(chunk, to, at, bytes);
}

selvage_status_t sv_coll_nodes_reduce(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const uint64_t element_bytes = selvage_type_bytes(call->type), most = coll->arena->staging->chunk_bytes;
    uint64_t all = call->count * element_bytes;
    if (call->call == SV_COLL_REDUCE_SCATTER)
        all *= (uint64_t)coll->size;
    for (uint64_t at = 0; at < all; at += most) {
        const chunk_t chunk = {.coll = coll, .call = call, .at = at, .bytes = all - at < most ? all - at : most,
                               .element_bytes = element_bytes};
        /* 1. On the node, to its leader. */
        const sv_coll_call_t inner = {
            .call = SV_COLL_REDUCE, .type = call->type, .op = call->op, .root = 0,
            .flags = call->flags & (uint8_t)~SV_COLL_DIVIDE, .send = (const uint8_t *)call->send + at,
            .recv = coll->arena->staging->device, .count = chunk.bytes / element_bytes, .scalar = call->scalar,
            .stream = coll->arena->stream};
        SV_TRY(sv_coll_launch(coll->node_set->part, &inner, 1));
        /* 2. From leader to leader. */
        if (sv_coll_leads(coll))
            SV_TRY(add_to_chain(&chunk));
        /* 3. The result, from the last leader to whom it belongs. */
        SV_TRY(send_result(&chunk));
        /* 4. The messages are used again. */
        SV_TRY(sv_coll_message_sent(coll));
        SV_TRY(sv_coll_stage_wait(coll));
    }
    return SELVAGE_SUCCESS;
}
