/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file maps the arenas of a node into each other, and proves the mappings. A handle that opens without an error
 * may still lead elsewhere. So each rank stores a number in its arena; the others read it through their mapping and
 * store an answer there; each rank looks for the answers in its own memory. These words lie in slots, whose contents
 * mean nothing yet: the number in that of the own place, the answer of a peer in that of its connection.
 *
 * What ranks tell each other goes round their node. Every step ends in an agreement of all ranks of the communicator,
 * so all have an arena or none has, and a failure is followed by one more: nobody frees memory that somebody has
 * mapped.
 */
#include "collective/coll_cache.h"
#include "collective/coll_setup.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"

enum { ITEM_OFFSET, ITEM_TOKEN, ITEM_REACH };

/* The word for peer in the arena that begins at base. */
static uint8_t *word_at(const sv_coll_arena_t *arena, void *base, uint32_t peer)
{
    return (uint8_t *)base + SV_COLL_ARENA_HEAD + peer * arena->layout.conn_bytes + arena->layout.slot_at;
}

selvage_status_t sv_coll_tell_node(sv_team_t *all, sv_team_t *node, const char *what, selvage_status_t status)
{
    const double timeout_s = all->comm->timeout_s;
    uint64_t unused = 0;
    const selvage_status_t told = sv_gather(node, what, 0, SELVAGE_SUCCESS, timeout_s);
    return sv_gather_least(all, what, 0, status == SELVAGE_SUCCESS ? told : status, &unused, timeout_s);
}

/* One word per rank of the node between the scratch and arenas, waited for. */
static uint64_t *scratch_words(const sv_coll_arena_t *arena)
{
    return (uint64_t *)(void *)arena->scratch;
}

static selvage_status_t copy_token(sv_coll_arena_t *arena, void *dst, const void *src, sv_copy_kind_t kind)
{
    arena->copies_open = true;
    return SV_DEVICE_CALL(arena->comm->dev, copy_async, dst, src, sizeof(uint64_t), kind, arena->stream);
}

static selvage_status_t check_proofs(sv_coll_arena_t *arena, uint64_t token)
{
    uint64_t *word = scratch_words(arena);
    for (uint32_t peer = 0; peer < arena->nranks && arena->memory; peer++)
        SV_TRY(copy_token(arena, &word[peer], word_at(arena, arena->memory, peer), SV_COPY_D2H));
    SV_TRY(sv_coll_finish_copies(arena));
    for (uint32_t peer = 0; peer < arena->nranks; peer++)
        if (peer != arena->me && word[peer] != sv_transfer_answer(token, peer))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_create: what rank %d stores into its mapping of "
                            "this rank's device memory does not arrive", arena->comm->topology.node_ranks[peer]);
    return SELVAGE_SUCCESS;
}

/* Opens the arenas of the peers, reads their numbers and stores the answers. */
static selvage_status_t map_peers(sv_coll_arena_t *arena, const sv_team_t *node)
{
    selvage_comm_t *comm = arena->comm;
    const int *ranks = comm->topology.node_ranks;
    uint64_t *word = scratch_words(arena);
    if (!arena->memory)
        return SELVAGE_SUCCESS;
    /* 1. Open. */
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        const sv_gather_item_t *item = sv_gather_item_of(node, (int)peer);
        if (peer == arena->me)
            continue;
        const sv_transfer_memory_t place = {.peer = ranks[peer], .handle = &item->handle,
                                            .offset = item->value[ITEM_OFFSET], .bytes = arena->bytes};
        selvage_status_t status = sv_transfer_map(&comm->mappings, comm->dev, &place, &arena->mapping[peer]);
        if (status == SELVAGE_ERR_MEMORY || status == SELVAGE_ERR_MISMATCH)
            return status;
        if (status != SELVAGE_SUCCESS)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_create: device memory of rank %d cannot be mapped "
                            "here (%.300s), and kernels of collectives move data in no other way", ranks[peer],
                            sv_thread_detail());
        arena->base[peer] = (uint8_t *)arena->mapping[peer]->base + item->value[ITEM_OFFSET];
    }
    /* 2. Read the numbers. */
    for (uint32_t peer = 0; peer < arena->nranks; peer++)
        SV_TRY(copy_token(arena, &word[peer], word_at(arena, arena->base[peer], peer), SV_COPY_D2H));
    SV_TRY(sv_coll_finish_copies(arena));
    for (uint32_t peer = 0; peer < arena->nranks; peer++)
        if (word[peer] != sv_gather_item_of(node, (int)peer)->value[ITEM_TOKEN])
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_create: the handle of device memory of rank %d "
                            "leads to other memory", ranks[peer]);
    /* 3. Store the answers. */
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        word[peer] = sv_transfer_answer(sv_gather_item_of(node, (int)peer)->value[ITEM_TOKEN], arena->me);
        if (peer != arena->me)
            SV_TRY(copy_token(arena, word_at(arena, arena->base[peer], arena->me), &word[peer], SV_COPY_H2D));
    }
    return sv_coll_finish_copies(arena);
}

/* Which peers this device reaches at once. One that the process does not see has been mapped, so it is reached. */
static uint16_t find_reach(sv_coll_arena_t *arena, const sv_team_t *node)
{
    sv_device_t *dev = arena->comm->dev;
    unsigned reach = 0;
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        const char *bus_id = (const char *)sv_gather_item_of(node, (int)peer)->handle.bytes;
        int possible;
        bool known = SV_DEVICE_CALL(dev, peer_access, bus_id, &possible) == SELVAGE_SUCCESS;
        if (!known || possible)
            reach |= 1U << peer;
    }
    return (uint16_t)reach;
}

void sv_coll_arena_unmap(sv_coll_arena_t *arena)
{
    sv_coll_drain_copies(arena);
    sv_coll_cache_unmap(arena);
    for (uint32_t peer = 0; peer < arena->nranks; peer++) {
        sv_transfer_unmap(arena->mapping[peer]);
        arena->mapping[peer] = NULL;
    }
}

/* The end of the communicator of ranks, where nobody has asked for that of the arena before. */
static selvage_status_t unmap_users(sv_coll_arena_t *arena)
{
    if (arena->users > 0)
        sv_log(SV_LOG_WARN, "collective", "selvage_comm_destroy: %u communicators of collectives were not destroyed",
               arena->users);
    sv_coll_arena_drain(arena);
    if (arena->stuck)
        return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_comm_destroy: a kernel of collectives does not end");
    sv_coll_withdraw_windows(arena, NULL);
    sv_coll_arena_unmap(arena);
    return SELVAGE_SUCCESS;
}

/* Without an agreement this rank still lets go of what is the peers'. */
static void unmap_and_free(sv_coll_arena_t *arena, bool unmapped)
{
    if (!unmapped && !arena->stuck)
        (void)unmap_users(arena);
    sv_coll_arena_free(arena, unmapped);
}

static const sv_arena_ops_t arena_ops = {.poll = sv_coll_queue_poll,
                                         .is_idle = sv_coll_queue_is_idle,
                                         .end = sv_coll_queue_end,
                                         .unmap = unmap_users,
                                         .release = unmap_and_free};

selvage_status_t sv_coll_arena_create(sv_team_t *all, sv_team_t *node, uint32_t nchannels, uint64_t bytes,
                                      uint64_t cache_bytes)
{
    selvage_comm_t *comm = all->comm;
    sv_coll_arena_t *arena = NULL;
    const uint64_t token = sv_transfer_token(sv_clock_ns() ^ comm->nonce ^ (uint64_t)comm->wire->rank);
    sv_gather_item_t item = {.value = {[ITEM_TOKEN] = token}};
    uint64_t unused = 0;
    bool mapped = false; /* somebody may have got as far as that */
    char detail[SV_DETAIL_BYTES];
    /* 1. Make the arena, store the number in it, and tell the node where it is. */
    memcpy(sv_gather_item_begin(node)->handle.bytes, comm->dev->bus_id, sizeof comm->dev->bus_id);
    selvage_status_t status = sv_coll_tell_node(all, node, "selvage_coll_create: devices", SELVAGE_SUCCESS);
    SV_TRY(status);
    status = sv_coll_arena_make(comm, nchannels, bytes, &arena);
    if (status == SELVAGE_SUCCESS) {
        arena->cache_bytes = cache_bytes;
        arena->reach[arena->me] = find_reach(arena, node); /* the items at hand have the bus ids */
        if (arena->memory)
            status = sv_coll_upload(arena, word_at(arena, arena->memory, arena->me), &token, sizeof token);
        item.handle = arena->handle;
        item.value[ITEM_OFFSET] = arena->handle_offset;
    }
    *sv_gather_item_begin(node) = item;
    SV_TRY_GOTO(status, sv_coll_tell_node(all, node, "selvage_coll_create: arenas", status), fail);
    /* 2. Map the arenas of the peers, and tell them what this device reaches. */
    mapped = true;
    status = map_peers(arena, node);
    sv_gather_item_begin(node)->value[ITEM_REACH] = arena->reach[arena->me];
    SV_TRY_GOTO(status, sv_coll_tell_node(all, node, "selvage_coll_create: mapping", status), fail);
    for (uint32_t peer = 0; peer < arena->nranks; peer++)
        arena->reach[peer] = (uint16_t)sv_gather_item_of(node, (int)peer)->value[ITEM_REACH];
    /* 3. Look for the answers of all. */
    status = check_proofs(arena, token);
    SV_TRY_GOTO(status, sv_gather_least(all, "selvage_coll_create: proof", 0, status, &unused, comm->timeout_s), fail);
    /* 4. Outboxes of the registration cache. */
    SV_TRY_GOTO(status, sv_coll_cache_create(arena, all, node), fail);
    comm->arena = arena;
    comm->arena_ops = &arena_ops;
    return status;
fail:
    if (!arena)
        return status;
    /* Once all have let go of all, the memory goes. The first error stays the one that is told. */
    mapped |= comm->broken != SELVAGE_SUCCESS;
    memcpy(detail, sv_thread_detail(), sizeof detail);
    sv_coll_arena_unmap(arena);
    bool unmapped = !mapped || sv_gather_least(all, "selvage_coll_create: unmapping", 0, SELVAGE_SUCCESS, &unused,
                                               sv_coll_unmap_timeout(comm)) == SELVAGE_SUCCESS;
    sv_coll_arena_free(arena, unmapped);
    memcpy(sv_thread_detail(), detail, sizeof detail);
    return status;
}

void sv_coll_arena_close(sv_team_t *team)
{
    selvage_comm_t *comm = team->comm;
    sv_coll_arena_t *arena = comm->arena;
    uint64_t unused = 0;
    sv_coll_arena_unmap(arena);
    if (sv_gather_least(team, "selvage_coll_destroy: unmapping", 0, SELVAGE_SUCCESS, &unused,
                        sv_coll_unmap_timeout(comm)) != SELVAGE_SUCCESS)
        return; /* the communicator is broken; its end frees what is left */
    comm->arena = NULL;
    sv_coll_arena_free(arena, true);
}
