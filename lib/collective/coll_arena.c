/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file makes the local half of an arena: memory, counters, FIFO, stream. The first communicator of collectives on
 * a communicator of ranks makes it. The last one frees it if it has all the ranks: only then can they agree that nobody
 * uses the arena. If a split is the last, the arena stays until the next such end, or until that of the communicator of
 * ranks, which owns it. One thread at a time is inside.
 *
 *   exported   malloc_fine (malloc where that cannot be exported, and does as well): flags, lines and slots of all
 *              connections
 *   private    malloc: counters, the table of windows
 *   pinned     words that host and kernels poll; FIFO; scratch for copies of the set-up
 */
#include "collective/coll_cache.h"
#include "collective/coll_nodes.h"
#include "collective/coll_setup.h"

#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"

/* Memory that peers can be given a handle of. */
static selvage_status_t allocate_exported(sv_coll_arena_t *arena, bool fine)
{
    sv_device_t *dev = arena->comm->dev;
    void *memory;
    if (fine)
        SV_TRY(SV_DEVICE_CALL(dev, malloc_fine, arena->bytes, &memory));
    else
        SV_TRY(SV_DEVICE_CALL(dev, malloc, arena->bytes, &memory));
    selvage_status_t status =
        SV_DEVICE_CALL(dev, export_memory, memory, arena->bytes, &arena->handle, &arena->handle_offset);
    if (status == SELVAGE_SUCCESS)
        arena->memory = memory;
    else
        SV_DEVICE_CALL(dev, free, memory);
    return status;
}

/* Flags and lines begin as zero; slots are read only once a flag says that they were written. */
static selvage_status_t clear_memory(sv_coll_arena_t *arena)
{
    sv_device_t *dev = arena->comm->dev;
    const sv_coll_layout_t *layout = &arena->layout;
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, arena->memory, 0, SV_COLL_ARENA_HEAD, arena->stream));
    uint8_t *conn = arena->memory + SV_COLL_ARENA_HEAD;
    for (uint32_t i = 0; i < layout->nchannels * layout->nranks; i++, conn += layout->conn_bytes)
        SV_TRY(SV_DEVICE_CALL(dev, fill_async, conn, 0, layout->slot_at, arena->stream));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_arena_clear(sv_coll_arena_t *arena)
{
    SV_TRY(clear_memory(arena));
    SV_TRY(SV_DEVICE_CALL(arena->comm->dev, fill_async, arena->priv, 0, sizeof *arena->priv, arena->stream));
    memset(arena->pinned, 0, sizeof *arena->pinned);
    arena->launches = arena->completed = arena->pieces = arena->fifo_waits = 0;
    arena->fifo_produced = 0;
    return sv_coll_finish_copies(arena);
}

static selvage_status_t allocate_pinned(sv_coll_arena_t *arena)
{
    sv_device_t *dev = arena->comm->dev;
    void *address, *ptr;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, sizeof *arena->pinned, &ptr));
    arena->pinned = ptr;
    memset(arena->pinned, 0, sizeof *arena->pinned);
    SV_TRY(SV_DEVICE_CALL(dev, host_address, arena->pinned, &address));
    arena->pinned_device = address;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, (size_t)arena->fifo_bytes + SV_COLL_SCRATCH_BYTES, &ptr));
    arena->fifo = ptr;
    arena->scratch = arena->fifo + arena->fifo_bytes;
    memset(arena->fifo, 0, (size_t)arena->fifo_bytes + SV_COLL_SCRATCH_BYTES);
    SV_TRY(SV_DEVICE_CALL(dev, host_address, arena->fifo, &address));
    arena->fifo_device = address;
    return SELVAGE_SUCCESS;
}

static selvage_status_t allocate_all(sv_coll_arena_t *arena)
{
    sv_device_t *dev = arena->comm->dev;
    void *ptr;
    bool begun = sv_topology_memory_begin(&arena->comm->topology);
    selvage_status_t status = allocate_pinned(arena);
    sv_topology_memory_end(&arena->comm->topology, begun);
    SV_TRY(status);
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &arena->stream));
    SV_TRY(SV_DEVICE_CALL(dev, event_create, &arena->last));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, sizeof *arena->priv, &ptr));
    arena->priv = ptr;
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, arena->priv, 0, sizeof *arena->priv, arena->stream));
    if (arena->bytes > 0) {
        status = allocate_exported(arena, true);
        if (status == SELVAGE_ERR_UNSUPPORTED && dev->shows_stores)
            status = allocate_exported(arena, false);
        if (status == SELVAGE_ERR_UNSUPPORTED)
            return sv_error(status, "selvage_coll_create: memory of device %s cannot be exported to the ranks of the "
                            "node, and kernels of collectives move data in no other way", dev->ops->name);
        SV_TRY(status);
        SV_TRY(clear_memory(arena));
    }
    arena->base[arena->me] = arena->memory;
    return SV_DEVICE_CALL(dev, stream_sync, arena->stream);
}

selvage_status_t sv_coll_arena_make(selvage_comm_t *comm, uint32_t nchannels, uint64_t bytes,
                                    sv_coll_arena_t **arena_out)
{
    sv_coll_arena_t *arena;
    SV_TRY(sv_calloc(1, sizeof *arena, &arena));
    arena->comm = comm;
    arena->nranks = (uint32_t)comm->topology.node_size;
    arena->me = (uint32_t)comm->topology.node_index;
    arena->fifo_bytes = (uint32_t)comm->config.work_fifo_bytes;
    arena->windows_used = 1; /* bit 0 is that of no window */
    sv_list_init(&arena->colls);
    sv_list_init(&arena->callbacks);
    sv_list_init(&arena->windows);
    selvage_status_t status = sv_coll_layout(arena->nranks, nchannels, bytes, &arena->layout, &arena->bytes);
    if (status == SELVAGE_SUCCESS)
        status = sv_calloc((size_t)comm->wire->size, sizeof *arena->list, &arena->list);
    if (status == SELVAGE_SUCCESS)
        status = allocate_all(arena);
    if (status != SELVAGE_SUCCESS) {
        sv_coll_arena_free(arena, true);
        return status;
    }
    sv_log(SV_LOG_INFO, "collective", "arena of %llu bytes: %u channels between %u ranks, slots of %u, %u and %u bytes",
           (unsigned long long)arena->bytes, arena->layout.nchannels, arena->nranks, arena->layout.ll_bytes,
           arena->layout.long_bytes, arena->layout.slot_bytes);
    *arena_out = arena;
    return SELVAGE_SUCCESS;
}

void sv_coll_arena_free(sv_coll_arena_t *arena, bool unmapped)
{
    sv_device_t *dev = arena->comm->dev;
    sv_list_t *it, *safe;
    /* What users have forgotten goes with the arena. */
    SV_LIST_FOR_EACH(it, safe, &arena->callbacks) {
        sv_list_remove(it);
        sv_free(SV_CONTAINER_OF(it, sv_coll_callback_t, link));
    }
    SV_LIST_FOR_EACH(it, safe, &arena->colls)
        sv_coll_free(SV_CONTAINER_OF(it, selvage_coll_t, link));
    if (arena->stuck) {
        sv_log(SV_LOG_WARN, "collective", "a kernel has not ended: its arena of %llu bytes is set aside",
               (unsigned long long)arena->bytes);
        return;
    }
    if (arena->stream)
        SV_DEVICE_CALL(dev, stream_destroy, arena->stream);
    if (arena->last)
        SV_DEVICE_CALL(dev, event_destroy, arena->last);
    sv_coll_staging_free(arena);
    sv_coll_cache_free(arena);
    sv_coll_room_free(arena, unmapped);
    if (unmapped)
        SV_DEVICE_CALL(dev, free, arena->memory);
    else if (arena->memory)
        sv_log(SV_LOG_WARN, "collective", "peers may still use the arena of this rank: %llu bytes are set aside",
               (unsigned long long)arena->bytes);
    sv_free(arena->tuning);
    sv_free(arena->list);
    SV_DEVICE_CALL(dev, free, arena->priv);
    SV_DEVICE_CALL(dev, host_free, arena->fifo);
    SV_DEVICE_CALL(dev, host_free, arena->pinned);
    sv_free(arena);
}

void sv_coll_drain_copies(sv_coll_arena_t *arena)
{
    if (arena->copies_open)
        (void)SV_DEVICE_CALL(arena->comm->dev, stream_sync, arena->stream);
    arena->copies_open = false;
}

selvage_status_t sv_coll_finish_copies(sv_coll_arena_t *arena)
{
    selvage_status_t status = SV_DEVICE_CALL(arena->comm->dev, stream_sync, arena->stream);
    arena->copies_open = status != SELVAGE_SUCCESS;
    return status;
}

selvage_status_t sv_coll_upload(sv_coll_arena_t *arena, void *dst, const void *src, size_t bytes)
{
    sv_device_t *dev = arena->comm->dev;
    sv_coll_drain_copies(arena);
    memcpy(arena->scratch, src, bytes);
    SV_TRY(SV_DEVICE_CALL(dev, copy_async, dst, arena->scratch, bytes, SV_COPY_H2D, arena->stream));
    return sv_coll_finish_copies(arena);
}

double sv_coll_unmap_timeout(const selvage_comm_t *comm)
{
    return comm->timeout_s > 0 && comm->timeout_s < SV_COLL_UNMAP_TIMEOUT_S ? comm->timeout_s : SV_COLL_UNMAP_TIMEOUT_S;
}

void sv_coll_arena_drain(sv_coll_arena_t *arena)
{
    if (!arena->stuck && arena->completed < arena->launches)
        (void)sv_coll_drain(arena, arena->comm->timeout_s); /* an error of the work itself was told before */
    if (arena->completed < arena->launches || (!arena->stuck && !sv_coll_queue_release(arena)) ||
        (!arena->stuck && !sv_coll_room_drain(arena, arena->comm->timeout_s)))
        sv_coll_arena_set_stuck(arena);
}

void sv_coll_arena_set_stuck(sv_coll_arena_t *arena)
{
    arena->stuck = true;
    atomic_store_explicit(&arena->comm->device_stuck, true, memory_order_relaxed);
}
