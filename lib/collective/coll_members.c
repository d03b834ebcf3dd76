/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file makes what a communicator of collectives holds for itself, from its list of ranks. Nothing here talks to
 * other ranks. One thread at a time is inside; the handle owns its teams, its tables and its copy in device memory.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_cache.h"
#include "collective/coll_nodes.h"
#include "collective/coll_setup.h"

_Static_assert(sizeof(sv_coll_dev_t) <= SV_COLL_SCRATCH_BYTES, "the device communicator is copied at once");

selvage_status_t sv_coll_alloc(selvage_comm_t *comm, int size, selvage_coll_t **coll_out)
{
    selvage_coll_t *coll;
    selvage_status_t status;
    SV_TRY(sv_calloc(1, sizeof *coll, &coll));
    coll->comm = comm;
    coll->size = size;
    SV_TRY_GOTO(status, sv_team_init_resting(&coll->all, comm, size), fail);
    SV_TRY_GOTO(status, sv_calloc((size_t)size, sizeof *coll->node_of, &coll->node_of), fail);
    SV_TRY_GOTO(status, sv_calloc(SV_COLL_GROUP_CALLS, sizeof *coll->group, &coll->group), fail);
    *coll_out = coll;
    return SELVAGE_SUCCESS;
fail:
    sv_coll_free(coll);
    return status;
}

void sv_coll_detach(selvage_coll_t *coll)
{
    sv_coll_arena_t *arena = coll->arena;
    if (!arena)
        return;
    sv_coll_node_set_free(coll);
    arena->numbers_used &= ~(1U << coll->number);
    arena->users--;
    sv_list_remove(&coll->link);
    sv_coll_drain_copies(arena);
    if (!arena->stuck)
        SV_DEVICE_CALL(coll->comm->dev, free, coll->dev_device);
    coll->arena = NULL;
}

void sv_coll_free(selvage_coll_t *coll)
{
    sv_coll_detach(coll);
    sv_team_fini(&coll->all);
    sv_team_fini(&coll->node);
    sv_free(coll->node_of);
    sv_free(coll->group);
    sv_free(coll);
}

selvage_status_t sv_coll_pick_number(uint64_t used, unsigned *number_out)
{
    for (unsigned number = 0; number < SV_COLL_ALIVE; number++)
        if (!(used >> number & 1)) {
            *number_out = number;
            return SELVAGE_SUCCESS;
        }
    return sv_error(SELVAGE_ERR_LIMIT, "%d communicators of collectives are alive already on this communicator of "
                    "ranks; destroy one first", SV_COLL_ALIVE);
}

/* The members on this node: ranks of dev, in order of rank. */
static void find_members(selvage_coll_t *coll, const sv_coll_arena_t *arena)
{
    sv_coll_dev_t *dev = &coll->dev;
    int own_node = coll->node_of[coll->rank];
    for (int r = 0; r < coll->size; r++) {
        if (coll->node_of[r] != own_node) {
            coll->spans = true;
            continue;
        }
        int at = sv_topology_node_index(&coll->comm->topology, coll->all.ranks[r]);
        if (r == coll->rank)
            dev->me = dev->n;
        dev->member[dev->n] = (uint8_t)at;
        dev->arena[dev->n++] = (uint64_t)(uintptr_t)arena->base[at];
        coll->members |= 1U << at;
    }
}

/* Ways between members that are reached directly. */
static void find_schedules(sv_coll_dev_t *dev, const sv_coll_arena_t *arena)
{
    uint32_t weight[SV_COLL_RANKS * SV_COLL_RANKS] = {0};
    for (uint32_t a = 0; a < dev->n; a++)
        for (uint32_t b = 0; b < dev->n; b++)
            weight[a * dev->n + b] = a != b && (arena->reach[dev->member[a]] >> dev->member[b] & 1);
    dev->nrings = sv_coll_rings(weight, dev->n, dev->ring);
    sv_coll_pat_gather(dev->n, dev->me, &dev->gather);
    sv_coll_pat_scatter(dev->n, dev->me, &dev->scatter);
}

static void find_places(sv_coll_dev_t *dev, const sv_coll_arena_t *arena)
{
    dev->layout = arena->layout;
    dev->state = arena->priv->state;
    dev->stop = &arena->priv->stop;
    dev->error_taken = &arena->priv->error_taken;
    dev->arrivals = &arena->priv->arrivals;
    dev->window = arena->priv->window;
    dev->host_stop = &arena->pinned_device->host_stop;
    dev->error = &arena->pinned_device->error;
    dev->counts = arena->pinned_device->counts;
    dev->consumed = &arena->pinned_device->consumed;
    dev->fifo = arena->fifo_device;
}

static void fill_context(selvage_coll_t *coll)
{
    const sv_coll_dev_t *dev = &coll->dev;
    const sv_coll_layout_t *layout = &dev->layout;
    sv_coll_context_t *context = &coll->context;
    for (uint32_t r = 0; r < dev->n && dev->n > 1; r++) {
        context->mine[r] = dev->arena[dev->me] + SV_COLL_ARENA_HEAD + dev->member[r] * layout->conn_bytes;
        context->theirs[r] = dev->arena[r] + SV_COLL_ARENA_HEAD + dev->member[dev->me] * layout->conn_bytes;
    }
    memcpy(context->member, dev->member, sizeof context->member);
    context->dev = coll->dev_device;
    context->deadline_ns = coll->comm->timeout_s > 0 ? (uint64_t)(coll->comm->timeout_s * 1e9) : 0;
    context->state = dev->state;
    context->counts = dev->counts;
    context->ended = coll->host_waits ? coll->arena->pinned_device->ended : NULL;
    context->stop = dev->stop;
    context->window = dev->window;
    context->arena = dev->arena[dev->me];
    context->channel_bytes = layout->channel_bytes;
    context->n = dev->n;
    context->me = dev->me;
    context->entry_at = layout->entry_at;
    context->ll_clean = dev->ll_clean;
    context->slot_at = layout->slot_at;
    context->slot_bytes = layout->slot_bytes;
}

selvage_status_t sv_coll_init(selvage_coll_t *coll, sv_coll_arena_t *arena)
{
    sv_device_t *dev = coll->comm->dev;
    void *ptr;
    coll->arena = arena;
    sv_list_append(&arena->colls, &coll->link);
    arena->users++;
    arena->numbers_used |= 1U << coll->number;
    coll->rank = coll->all.me;
    find_members(coll, arena);
    sv_coll_cache_begin(coll);
    if (!coll->spans)
        SV_TRY(sv_team_wake(&coll->all)); /* windows are registered among these */
    if (coll->spans) {
        SV_TRY(sv_team_init(&coll->node, coll->comm, (int)coll->dev.n));
        coll->node.me = (int)coll->dev.me;
        for (uint32_t r = 0; r < coll->dev.n; r++)
            coll->node.ranks[r] = coll->comm->topology.node_ranks[coll->dev.member[r]];
    }
    find_schedules(&coll->dev, arena);
    find_places(&coll->dev, arena);
    coll->dev.ll_clean = SV_COLL_LL_CLEAN;
    coll->dev.stores = sv_coll_is_soft(dev) ? (uint32_t)coll->comm->config.soft_stores : SV_COLL_STORES_WHOLE;
    coll->facts = (sv_coll_facts_t){.nranks = coll->dev.n,
                                    .nchannels = arena->layout.nchannels,
                                    .layout = arena->layout,
                                    .soft = sv_coll_is_soft(dev),
                                    .shows_stores = dev->shows_stores,
                                    .has_ll128 = arena->has_ll128,
                                    .config = &coll->comm->config,
                                    .tuning = arena->tuning};
    SV_TRY(SV_DEVICE_CALL(dev, malloc, sizeof coll->dev, &ptr));
    coll->dev_device = ptr;
    SV_TRY(sv_coll_upload(arena, coll->dev_device, &coll->dev, sizeof coll->dev));
    fill_context(coll);
    return coll->spans ? sv_coll_node_set_make(coll) : SELVAGE_SUCCESS;
}
