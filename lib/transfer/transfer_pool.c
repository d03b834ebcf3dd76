/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned memory, and pools of it. See transfer_pool.h for the rules, threads and ownership. */
#include "transfer/transfer_pool.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"

selvage_status_t sv_pinned_alloc(sv_device_t *dev, const sv_topology_t *topology, size_t bytes, void *out)
{
    void *memory;
    const bool begun = sv_topology_memory_begin(topology);
    selvage_status_t status = SV_DEVICE_CALL(dev, host_malloc, bytes, &memory);
    if (status == SELVAGE_SUCCESS) {
        memset(memory, 0, bytes); /* the pages are made here */
        memcpy(out, &memory, sizeof memory);
    }
    sv_topology_memory_end(topology, begun);
    return status;
}

void sv_pinned_pool_init(sv_pinned_pool_t *pool, sv_device_t *dev, const sv_topology_t *topology, size_t buffer_bytes)
{
    *pool = (sv_pinned_pool_t){.dev = dev, .topology = topology, .buffer_bytes = buffer_bytes};
    sv_list_init(&pool->free);
    sv_list_init(&pool->retired);
}

sv_pinned_t *sv_pinned_take(sv_pinned_pool_t *pool, uint32_t most)
{
    sv_pinned_t *buffer;
    if (pool->used >= most)
        return NULL;
    if (!sv_list_is_empty(&pool->free)) {
        buffer = SV_CONTAINER_OF(pool->free.next, sv_pinned_t, link);
        sv_list_remove(&buffer->link);
    } else {
        if (sv_calloc(1, sizeof *buffer, &buffer) != SELVAGE_SUCCESS)
            return NULL;
        if (sv_pinned_alloc(pool->dev, pool->topology, pool->buffer_bytes, &buffer->bytes) != SELVAGE_SUCCESS) {
            sv_free(buffer);
            return NULL;
        }
        sv_list_init(&buffer->link);
    }
    pool->used++;
    return buffer;
}

void sv_pinned_put(sv_pinned_pool_t *pool, sv_pinned_t *buffer)
{
    sv_list_append(&pool->free, &buffer->link);
    pool->used--;
}

void sv_pinned_retire(sv_pinned_pool_t *pool, sv_pinned_t *buffer)
{
    sv_list_append(&pool->retired, &buffer->link);
    pool->used--;
}

static void free_buffers(const sv_pinned_pool_t *pool, sv_list_t *list, bool still_written)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, list) {
        sv_pinned_t *buffer = SV_CONTAINER_OF(it, sv_pinned_t, link);
        if (!still_written)
            SV_DEVICE_CALL(pool->dev, host_free, buffer->bytes);
        sv_free(buffer);
    }
}

void sv_pinned_pool_close(sv_pinned_pool_t *pool, bool still_written)
{
    free_buffers(pool, &pool->free, still_written);
    free_buffers(pool, &pool->retired, still_written);
}
