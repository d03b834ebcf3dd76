/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file finds who is on which node, and makes the memory for what goes between nodes. A communicator owns tables.
 * An arena owns two messages in pinned memory and a chunk on the device: calls block and so take turns. One thread at a
 * time is inside.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_nodes.h"
#include "transfer/transfer_pool.h"

enum { HEAD_ROOM = 2 * SV_COLL_HEAD_BYTES };

/* Of each rank its node, of each node its leader; nodes are numbered as their first ranks come. */
static selvage_status_t find_nodes(const selvage_coll_t *coll, sv_coll_node_set_t *node_set)
{
    int *number, *count; /* by the lowest rank of comm on a node: 1 + the node's number; ranks of the node so far */
    int total = coll->comm->wire->size;
    SV_TRY(sv_calloc((size_t)total * 2, sizeof *number, &number));
    count = number + total;
    for (int r = 0; r < coll->size; r++) {
        int at = coll->node_of[r];
        if (number[at] == 0) {
            node_set->leader[node_set->nnodes] = r;
            number[at] = ++node_set->nnodes;
        }
        node_set->node[r] = number[at] - 1;
        node_set->inner[r] = count[at]++;
    }
    node_set->mine = node_set->node[coll->rank];
    sv_free(number);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_staging(sv_coll_arena_t *arena, sv_coll_staging_t *staging)
{
    sv_device_t *dev = arena->comm->dev;
    size_t ranks = (size_t)arena->comm->wire->size;
    size_t message_bytes = SV_COLL_CHUNK_BYTES + (ranks + 1) * HEAD_ROOM;
    void *ptr;
    SV_TRY(sv_calloc(ranks, sizeof *staging->sends, &staging->sends));
    SV_TRY(sv_pinned_alloc(dev, &arena->comm->topology, message_bytes, &staging->out));
    SV_TRY(sv_pinned_alloc(dev, &arena->comm->topology, message_bytes, &staging->in));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, SV_COLL_CHUNK_BYTES, &ptr));
    staging->device = ptr;
    return SV_DEVICE_CALL(dev, event_create, &staging->event);
}

void sv_coll_staging_free(sv_coll_arena_t *arena)
{
    sv_coll_staging_t *staging = arena->staging;
    sv_device_t *dev = arena->comm->dev;
    if (!staging || staging->set_aside)
        return;
    if (staging->event)
        SV_DEVICE_CALL(dev, event_destroy, staging->event);
    SV_DEVICE_CALL(dev, free, staging->device);
    SV_DEVICE_CALL(dev, host_free, staging->in);
    SV_DEVICE_CALL(dev, host_free, staging->out);
    sv_free(staging->sends);
    sv_free(staging);
    arena->staging = NULL;
}

selvage_status_t sv_coll_node_set_make(selvage_coll_t *coll)
{
    if (coll->size > UINT16_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "a communicator of collectives has %d ranks; at most %d can be served",
                        coll->size, UINT16_MAX);
    SV_TRY(sv_calloc(1, sizeof *coll->node_set, &coll->node_set));
    size_t size = (size_t)coll->size;
    sv_coll_node_set_t *node_set = coll->node_set;
    SV_TRY(sv_calloc(size, sizeof *node_set->leader, &node_set->leader));
    SV_TRY(sv_calloc(size, sizeof *node_set->node, &node_set->node));
    SV_TRY(sv_calloc(size, sizeof *node_set->inner, &node_set->inner));
    SV_TRY(sv_calloc(1, sizeof *node_set->part, &node_set->part));
    SV_TRY(find_nodes(coll, node_set));
    sv_coll_arena_t *arena = coll->arena;
    if (arena->staging)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(1, sizeof *arena->staging, &arena->staging));
    arena->staging->chunk_bytes = SV_COLL_CHUNK_BYTES;
    selvage_status_t status = fill_staging(arena, arena->staging);
    if (status != SELVAGE_SUCCESS)
        sv_coll_staging_free(arena);
    return status;
}

void sv_coll_node_set_free(selvage_coll_t *coll)
{
    sv_coll_node_set_t *node_set = coll->node_set;
    if (!node_set)
        return;
    sv_free(node_set->leader);
    sv_free(node_set->node);
    sv_free(node_set->inner);
    sv_free(node_set->part);
    sv_free(node_set);
    coll->node_set = NULL;
}
