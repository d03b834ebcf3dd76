/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does broadcasts and all-gathers between nodes. The root of a broadcast sends to the leaders of the other
 * nodes, who pass it on; its own node is served by the device alone. An all-gather goes through the vector of all
 * ranks' blocks in chunks: leaders collect what of a chunk their node has, exchange that, and pass the whole chunk on.
 * The caller waits for all of it; the arena owns the messages.
 */
#include "base/base_status.h"
#include "collective/coll_nodes.h"

typedef struct chunk {
    selvage_coll_t *coll;
    const sv_coll_call_t *call;
    uint64_t at, bytes, element_bytes;
} chunk_t;

static uint8_t *copy_recv_at(const chunk_t *chunk, uint64_t at)
{
    return (uint8_t *)chunk->call->recv + at;
}

static selvage_status_t broadcast_copy_on_node(const chunk_t *chunk, const void *from, int root)
{
    selvage_coll_t *coll = chunk->coll;
    const sv_coll_call_t inner = {.call = SV_COLL_BROADCAST,
                                  .type = chunk->call->type,
                                  .root = root,
                                  .send = from,
                                  .recv = copy_recv_at(chunk, chunk->at),
                                  .count = chunk->bytes / chunk->element_bytes,
                                  .stream = coll->arena->stream};
    if (coll->dev.n == 1)
        return sv_coll_stage_copy(coll, inner.recv, from, chunk->bytes, SV_COPY_D2D);
    return sv_coll_launch(coll->node_set->part, &inner, 1);
}

/* Sends staging->out to the leaders of all other nodes. */
static selvage_status_t send_to_leaders(selvage_coll_t *coll)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    for (int k = 1; k < node_set->nnodes; k++) {
        int leader = node_set->leader[(node_set->mine + k) % node_set->nnodes];
        SV_TRY(sv_coll_message_send(coll, coll->arena->staging->out, leader));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_nodes_broadcast(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const uint64_t element_bytes = selvage_type_bytes(call->type), most = coll->arena->staging->chunk_bytes;
    const uint64_t all = call->count * element_bytes;
    sv_coll_staging_t *staging = coll->arena->staging;
    const bool near = sv_coll_is_near(coll, call->root);
    /* The root's own node is served by the device alone. */
    if (near && all > 0) {
        const chunk_t whole = {coll, call, 0, all, element_bytes};
        SV_TRY(broadcast_copy_on_node(&whole, call->send, coll->node_set->inner[call->root]));
    }
    for (uint64_t at = 0; at < all; at += most) {
        const chunk_t chunk = {coll, call, at, all - at < most ? all - at : most, element_bytes};
        uint8_t *to = copy_recv_at(&chunk, at);
        if (!near && sv_coll_leads(coll)) { /* the leader of another node: takes the root's message */
            SV_TRY(sv_coll_message_take(coll, call, staging->in, at, chunk.bytes, call->root));
            SV_TRY(sv_coll_stage_copy(coll, to, staging->in + SV_COLL_HEAD_BYTES, chunk.bytes, SV_COPY_H2D));
        }
        if (!near) { /* passes it on to all ranks of its node */
            SV_TRY(broadcast_copy_on_node(&chunk, to, 0));
            SV_TRY(sv_coll_stage_wait(coll));
        } else if (coll->rank == call->root) {
            const uint8_t *from = (const uint8_t *)call->send + at;
            SV_TRY(sv_coll_stage_copy(coll, staging->out + SV_COLL_HEAD_BYTES, from, chunk.bytes, SV_COPY_D2H));
            SV_TRY(sv_coll_stage_wait(coll));
            sv_coll_message_write(coll, call, staging->out, at, chunk.bytes);
            SV_TRY(send_to_leaders(coll));
            SV_TRY(sv_coll_message_sent(coll));
        }
    }
    return sv_coll_stage_wait(coll);
}

/* What of a chunk is in the block of a rank. */
typedef struct part {
    int rank;
    uint64_t at, bytes;        /* in the vector of all blocks */
} part_t;

/* The next part of a chunk that a rank of this node has; part->rank is -1 before the first. */
static bool next_part(const chunk_t *chunk, int node, part_t *part)
{
    const uint64_t block = chunk->call->count * chunk->element_bytes, end = chunk->at + chunk->bytes;
    int rank = part->rank < 0 ? (int)(chunk->at / block) : part->rank + 1;
    while (rank < chunk->coll->size && chunk->coll->node_set->node[rank] != node)
        rank++;
    const uint64_t begin = (uint64_t)rank * block;
    if (rank == chunk->coll->size || begin >= end)
        return false;
    part->rank = rank;
    part->at = begin > chunk->at ? begin : chunk->at;
    part->bytes = (begin + block < end ? begin + block : end) - part->at;
    return true;
}

/* On each node, all parts go where they belong in the leader's output. */
static selvage_status_t collect_on_node(const chunk_t *chunk)
{
    selvage_coll_t *coll = chunk->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    const bool leads = sv_coll_leads(coll);
    sv_coll_call_t pair[SV_COLL_RANKS];
    unsigned npairs = 0;
    for (part_t part = {.rank = -1}; next_part(chunk, node_set->mine, &part);) {
        const uint64_t skip = part.at - (uint64_t)part.rank * chunk->call->count * chunk->element_bytes;
        const uint8_t *from = (const uint8_t *)chunk->call->send + skip;
        sv_coll_call_t inner = {.call = SV_COLL_PAIR, .type = chunk->call->type,
                                .count = part.bytes / chunk->element_bytes, .stream = coll->arena->stream};
        if (leads && part.rank == coll->rank) {
            SV_TRY(sv_coll_stage_copy(coll, copy_recv_at(chunk, part.at), from, part.bytes, SV_COPY_D2D));
        } else if (leads) {
            inner.root = node_set->inner[part.rank];
            inner.recv = copy_recv_at(chunk, part.at);
            pair[npairs++] = inner;
        } else if (part.rank == coll->rank) {
            inner.is_send = true;
            inner.send = from;
            pair[npairs++] = inner;
        }
    }
    return sv_coll_launch(node_set->part, pair, npairs);
}

/* Copies a node's parts from output into a message, where they lie one after the other, or back. */
static selvage_status_t copy_parts(const chunk_t *chunk, int node, uint8_t *message, sv_copy_kind_t kind)
{
    uint8_t *at = message + SV_COLL_HEAD_BYTES;
    for (part_t part = {.rank = -1}; next_part(chunk, node, &part); at += part.bytes) {
        uint8_t *place = copy_recv_at(chunk, part.at);
        bool out = kind == SV_COPY_D2H;
        SV_TRY(sv_coll_stage_copy(chunk->coll, out ? at : place, out ? place : at, part.bytes, kind));
    }
    return SELVAGE_SUCCESS;
}

static uint64_t bytes_of_node(const chunk_t *chunk, int node)
{
    uint64_t bytes = 0;
    for (part_t part = {.rank = -1}; next_part(chunk, node, &part);)
        bytes += part.bytes;
    return bytes;
}

static selvage_status_t exchange_parts(const chunk_t *chunk)
{
    selvage_coll_t *coll = chunk->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_staging_t *staging = coll->arena->staging;
    uint64_t bytes = bytes_of_node(chunk, node_set->mine);
    SV_TRY(copy_parts(chunk, node_set->mine, staging->out, SV_COPY_D2H));
    SV_TRY(sv_coll_stage_wait(coll));
    sv_coll_message_write(coll, chunk->call, staging->out, chunk->at, bytes);
    if (bytes > 0)
        SV_TRY(send_to_leaders(coll));
    for (int node = 0; node < node_set->nnodes; node++) {
        bytes = bytes_of_node(chunk, node);
        if (node == node_set->mine || bytes == 0)
            continue;
        SV_TRY(sv_coll_message_take(coll, chunk->call, staging->in, chunk->at, bytes, node_set->leader[node]));
        SV_TRY(copy_parts(chunk, node, staging->in, SV_COPY_H2D));
        SV_TRY(sv_coll_stage_wait(coll));
    }
    return sv_coll_message_sent(coll);
}

selvage_status_t sv_coll_nodes_all_gather(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const uint64_t element_bytes = selvage_type_bytes(call->type), most = coll->arena->staging->chunk_bytes;
    const uint64_t all = call->count * element_bytes * (uint64_t)coll->size;
    for (uint64_t at = 0; at < all; at += most) {
        const chunk_t chunk = {coll, call, at, all - at < most ? all - at : most, element_bytes};
        SV_TRY(collect_on_node(&chunk));
        if (sv_coll_leads(coll))
            SV_TRY(exchange_parts(&chunk));
        if (coll->dev.n > 1)
            SV_TRY(broadcast_copy_on_node(&chunk, copy_recv_at(&chunk, at), 0));
        SV_TRY(sv_coll_stage_wait(coll));
    }
    return SELVAGE_SUCCESS;
}
