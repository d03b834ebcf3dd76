/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned memory, and pools of it. See transfer_pool.h for the rules, threads and ownership. */
#include "transfer/transfer_pool.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "base/base_thread.h"

#define RETRY_NS UINT64_C(1000000000) /* after a failure the runtime is not asked for so long */

/* Drivers make the pages here, where the topology says; those of the software device are made when they are touched. */
selvage_status_t sv_pinned_alloc(sv_device_t *dev, const sv_topology_t *topology, size_t bytes, void *out)
{
    void *memory;
    const bool begun = sv_topology_memory_begin(topology);
    selvage_status_t status = SV_DEVICE_CALL(dev, host_malloc, bytes, &memory);
    if (status == SELVAGE_SUCCESS)
        memcpy(out, &memory, sizeof memory);
    sv_topology_memory_end(topology, begun);
    return status;
}

selvage_status_t sv_pinned_calloc(sv_device_t *dev, const sv_topology_t *topology, size_t bytes, void *out)
{
    void *memory;
    SV_TRY(sv_pinned_alloc(dev, topology, bytes, &memory));
    memset(memory, 0, bytes);
    memcpy(out, &memory, sizeof memory);
    return SELVAGE_SUCCESS;
}

void sv_pinned_pool_init(sv_pinned_pool_t *pool, sv_device_t *dev, const sv_topology_t *topology, size_t buffer_bytes,
                         uint32_t buffers_max)
{
    *pool = (sv_pinned_pool_t){
        .dev = dev, .topology = topology, .buffer_bytes = buffer_bytes, .buffers_max = buffers_max};
    sv_list_init(&pool->free);
    sv_list_init(&pool->retired);
}

/* Others have buffers that will come back, and asking for more memory has just been in vain, or would be too much. */
static bool is_growth_put_off(const sv_pinned_pool_t *pool)
{
    if (!sv_list_is_empty(&pool->free) || pool->used == 0)
        return false;
    return pool->used + pool->nretired >= pool->buffers_max ||
           (pool->failed_ns && sv_clock_ns() - pool->failed_ns < RETRY_NS);
}

uint32_t sv_pinned_left(const sv_pinned_pool_t *pool, uint32_t most)
{
    return pool->used >= most || is_growth_put_off(pool) ? 0 : most - pool->used;
}

static selvage_status_t allocate_buffer(const sv_pinned_pool_t *pool, sv_pinned_t **buffer_out)
{
    sv_pinned_t *buffer;
    if (pool->used + pool->nretired >= pool->buffers_max)
        return sv_error_quiet(SELVAGE_ERR_LIMIT, "all %u of them may still be written after errors", pool->nretired);
    SV_TRY(sv_calloc(1, sizeof *buffer, &buffer));
    selvage_status_t status = sv_pinned_alloc(pool->dev, pool->topology, pool->buffer_bytes, &buffer->bytes);
    if (status != SELVAGE_SUCCESS) {
        sv_free(buffer);
        return status;
    }
    sv_list_init(&buffer->link);
    *buffer_out = buffer;
    return SELVAGE_SUCCESS;
}

/* A pool that has buffers makes do with those, which is said once. */
static selvage_status_t report_failed_growth(sv_pinned_pool_t *pool, selvage_status_t status)
{
    char text[SV_DETAIL_BYTES];
    const bool again = pool->failed_ns != 0;
    memcpy(text, sv_thread_detail(), sizeof text);
    pool->failed_ns = sv_clock_ns();
    if (pool->used == 0)
        return sv_error(status, "no staging buffer of %zu bytes: %.*s", pool->buffer_bytes, SV_DETAIL_BYTES / 2, text);
    if (!again)
        sv_log(SV_LOG_INFO, "transfer", "no more than %u staging buffers of %zu bytes: %s", pool->used,
               pool->buffer_bytes, text);
    return SELVAGE_IN_PROGRESS;
}

selvage_status_t sv_pinned_take(sv_pinned_pool_t *pool, uint32_t most, sv_pinned_t **buffer_out)
{
    sv_pinned_t *buffer = NULL;
    if (sv_pinned_left(pool, most) == 0)
        return SELVAGE_IN_PROGRESS;
    if (!sv_list_is_empty(&pool->free)) {
        buffer = SV_CONTAINER_OF(pool->free.next, sv_pinned_t, link);
        sv_list_remove(&buffer->link);
    } else {
        /* What fails may be no error: whether it is, is said afterwards. */
        const int level = sv_thread_binding()->log_level;
        sv_thread_binding()->log_level = 0;
        const selvage_status_t status = allocate_buffer(pool, &buffer);
        sv_thread_binding()->log_level = level;
        if (status != SELVAGE_SUCCESS)
            return report_failed_growth(pool, status);
        pool->failed_ns = 0;
    }
    pool->used++;
    if (pool->used > pool->most_used)
        pool->most_used = pool->used;
    *buffer_out = buffer;
    return SELVAGE_SUCCESS;
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
    pool->nretired++;
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
    if (pool->used > 0)
        sv_log(SV_LOG_WARN, "transfer", "%u staging buffers of %zu bytes were not given back to their pool", pool->used,
               pool->buffer_bytes);
    free_buffers(pool, &pool->free, still_written);
    free_buffers(pool, &pool->retired, still_written);
}
