/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file finds who is on which node, and makes the memory for what goes between nodes. A communicator owns tables.
 * An arena owns the slots of rails, with messages in pinned memory and chunks on the device, and the queue of calls,
 * which take turns with them. One thread at a time is inside.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_nodes_run.h"
#include "kernels/coll_pass_host.h"
#include "transfer/transfer_pool.h"

enum {
    UNIT = 256,
    MESSAGE_BYTES = UNIT + SV_COLL_CHUNK_BYTES, /* its head is at the end of the first unit ... */
    HEAD_AT = UNIT - SV_COLL_HEAD_BYTES,        /* ... so that its bytes are aligned */
    SLOT_MESSAGES = 4                           /* up has three */
};

/* Of each rank its node, and its place there; nodes are numbered as their first ranks come. */
static selvage_status_t find_nodes(const selvage_coll_t *coll, sv_coll_node_set_t *node_set)
{
    int *number, *count; /* by the lowest rank of comm on a node: 1 + the node's number; ranks of the node so far */
    int total = coll->comm->wire->size;
    SV_TRY(sv_calloc((size_t)total * 2, sizeof *number, &number));
    count = number + total;
    for (int r = 0; r < coll->size; r++) {
        int at = coll->node_of[r];
        if (number[at] == 0)
            number[at] = ++node_set->nnodes;
        node_set->node[r] = number[at] - 1;
        node_set->inner[r] = count[at]++;
    }
    node_set->mine = node_set->node[coll->rank];
    sv_free(number);
    return SELVAGE_SUCCESS;
}

/* The same by node; and how many rails there are. */
static void list_by_node(const selvage_coll_t *coll, sv_coll_node_set_t *node_set)
{
    int *first = node_set->first;
    for (int r = 0; r < coll->size; r++)
        first[node_set->node[r] + 1]++;
    node_set->rails = coll->size;
    for (int k = 0; k < node_set->nnodes; k++) {
        if (first[k + 1] < node_set->rails)
            node_set->rails = first[k + 1];
        first[k + 1] += first[k];
    }
    for (int r = 0; r < coll->size; r++)
        node_set->rank_at[first[node_set->node[r]] + node_set->inner[r]] = r;
}

static selvage_status_t fill_slot(sv_device_t *dev, sv_coll_rail_slot_t *slot, uint8_t *memory, uint8_t *device)
{
    slot->in = memory + HEAD_AT;
    slot->device = device;
    return SV_DEVICE_CALL(dev, event_create, &slot->copied);
}

static selvage_status_t make_queue(sv_device_t *dev, sv_coll_queue_t **queue_out)
{
    sv_coll_queue_t *queue;
    SV_TRY(sv_calloc(1, sizeof *queue, queue_out));
    queue = *queue_out;
    for (unsigned i = 0; i < SV_COLL_FLIGHTS; i++) {
        SV_TRY(SV_DEVICE_CALL(dev, event_create, &queue->flight[i].begun));
        SV_TRY(SV_DEVICE_CALL(dev, event_create, &queue->flight[i].gated));
    }
    SV_TRY(SV_DEVICE_CALL(dev, event_create, &queue->blocking.begun));
    return SV_DEVICE_CALL(dev, event_create, &queue->cross);
}

static selvage_status_t fill_staging(sv_coll_arena_t *arena, sv_coll_staging_t *staging)
{
    enum { SLOTS = SV_COLL_RAIL_SLOTS };
    sv_device_t *dev = arena->comm->dev;
    void *ptr;
    SV_TRY(sv_pinned_alloc(dev, &arena->comm->topology, SLOT_MESSAGES * SLOTS * MESSAGE_BYTES, &staging->memory));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, 2 * SLOTS * SV_COLL_CHUNK_BYTES, &ptr));
    staging->device = ptr;
    for (unsigned s = 0; s < SLOTS; s++) {
        uint8_t *memory = staging->memory + (size_t)SLOT_MESSAGES * s * MESSAGE_BYTES;
        uint8_t *device = staging->device + (size_t)2 * s * SV_COLL_CHUNK_BYTES;
        SV_TRY(fill_slot(dev, &staging->up[s], memory, device));
        SV_TRY(fill_slot(dev, &staging->down[s], memory + MESSAGE_BYTES, device + SV_COLL_CHUNK_BYTES));
        staging->up[s].out = memory + 2 * MESSAGE_BYTES + HEAD_AT;
        staging->up[s].other = memory + 3 * MESSAGE_BYTES + HEAD_AT;
        SV_TRY(SV_DEVICE_CALL(dev, event_create, &staging->spread[s]));
    }
    for (unsigned i = 0; i < SV_COLL_RAIL_AHEAD; i++)
        SV_TRY(SV_DEVICE_CALL(dev, event_create, &staging->collected[i]));
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &staging->up_stream));
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &staging->down_stream));
    SV_TRY(make_queue(dev, &staging->queue));
    return SV_DEVICE_CALL(dev, event_create, &staging->event);
}

static void destroy_event(sv_device_t *dev, sv_event_t *event)
{
    if (event)
        SV_DEVICE_CALL(dev, event_destroy, event);
}

static void free_queue(sv_device_t *dev, sv_coll_queue_t *queue)
{
    if (!queue)
        return;
    for (unsigned i = 0; i < SV_COLL_FLIGHTS; i++) {
        destroy_event(dev, queue->flight[i].begun);
        destroy_event(dev, queue->flight[i].gated);
        sv_free(queue->flight[i].room);
    }
    destroy_event(dev, queue->blocking.begun);
    destroy_event(dev, queue->cross);
    sv_free(queue);
}

void sv_coll_staging_free(sv_coll_arena_t *arena)
{
    sv_coll_staging_t *staging = arena->staging;
    sv_device_t *dev = arena->comm->dev;
    if (!staging)
        return;
    if (staging->up_stream) /* it waits for what is there, which uses all that follows */
        SV_DEVICE_CALL(dev, stream_destroy, staging->up_stream);
    if (staging->down_stream)
        SV_DEVICE_CALL(dev, stream_destroy, staging->down_stream);
    destroy_event(dev, staging->event);
    free_queue(dev, staging->queue);
    staging->queue = NULL;
    for (unsigned s = 0; s < SV_COLL_RAIL_SLOTS; s++) {
        destroy_event(dev, staging->up[s].copied);
        destroy_event(dev, staging->down[s].copied);
        destroy_event(dev, staging->spread[s]);
    }
    for (unsigned i = 0; i < SV_COLL_RAIL_AHEAD; i++)
        destroy_event(dev, staging->collected[i]);
    SV_DEVICE_CALL(dev, free, staging->device);
    arena->staging = NULL;
    if (staging->set_aside) /* the wire may still read and write messages, answers and words */
        return;
    SV_DEVICE_CALL(dev, host_free, staging->memory);
    sv_free(staging);
}

selvage_status_t sv_coll_node_set_make(selvage_coll_t *coll)
{
    if (coll->size > UINT16_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "a communicator of collectives has %d ranks; at most %d can be served",
                        coll->size, UINT16_MAX);
    SV_TRY(sv_calloc(1, sizeof *coll->node_set, &coll->node_set));
    size_t size = (size_t)coll->size;
    sv_coll_node_set_t *node_set = coll->node_set;
    SV_TRY(sv_calloc(size, sizeof *node_set->node, &node_set->node));
    SV_TRY(sv_calloc(size, sizeof *node_set->inner, &node_set->inner));
    SV_TRY(sv_calloc(1, sizeof *node_set->part, &node_set->part));
    SV_TRY(sv_calloc(size, sizeof *node_set->rank_at, &node_set->rank_at));
    SV_TRY(sv_calloc(size + 1, sizeof *node_set->first, &node_set->first));
    SV_TRY(sv_calloc(size, sizeof *node_set->sent, &node_set->sent));
    SV_TRY(sv_calloc(size, sizeof *node_set->received, &node_set->received));
    SV_TRY(find_nodes(coll, node_set));
    list_by_node(coll, node_set);
    if (coll->comm->config.coll_internode == SV_CONFIG_COLL_INTERNODE_MPI &&
        node_set->inner[coll->rank] < node_set->rails) {
        SV_TRY(sv_calloc((size_t)node_set->nnodes, sizeof *node_set->rail_ranks, &node_set->rail_ranks));
        SV_TRY(sv_wire_group_create(coll->comm->wire, sv_coll_pass_host, &node_set->group));
    }
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
    const selvage_comm_t *comm = coll->comm;
    if (!node_set)
        return;
    sv_wire_group_close(node_set->group, comm->detached || comm->broken != SELVAGE_SUCCESS ||
                                             (coll->arena && coll->arena->broken != SELVAGE_SUCCESS));
    sv_free(node_set->node);
    sv_free(node_set->inner);
    sv_free(node_set->rank_at);
    sv_free(node_set->first);
    sv_free(node_set->sent);
    sv_free(node_set->received);
    sv_free(node_set->rail_ranks);
    sv_free(node_set->part);
    sv_free(node_set);
    coll->node_set = NULL;
}
