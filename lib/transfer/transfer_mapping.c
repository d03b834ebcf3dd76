/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mapping cache, and the words that prove a mapping. See transfer_mapping.h for its rules, threads and ownership.
 */
#include "transfer/transfer_mapping.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

enum { KEPT_MAX = 32 };

#define IDLE_BYTES_MAX (UINT64_C(256) << 20) /* of kept mappings that nobody uses, together; beyond ... */
#define IDLE_SHORT_NS UINT64_C(100000000)    /* ... they stay this long, for who uses many in turn ... */
#define IDLE_LONG_NS UINT64_C(10000000000)   /* ... and else so long */

/* --- the cache ---------------------------------------------------------------------------------------------------- */

void sv_transfer_cache_init(sv_transfer_cache_t *cache)
{
    *cache = (sv_transfer_cache_t){0};
    sv_list_init(&cache->mappings);
}

static void close_mapping(sv_transfer_mapping_t *mapping)
{
    SV_DEVICE_CALL(mapping->dev, close_memory, mapping->base);
    mapping->cache->nkept -= mapping->kept;
    sv_list_remove(&mapping->link);
    sv_free(mapping);
}

void sv_transfer_cache_close(sv_transfer_cache_t *cache)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        close_mapping(SV_CONTAINER_OF(it, sv_transfer_mapping_t, link));
    }
}

/* remote_base 0: wherever its owner has it. */
static sv_transfer_mapping_t *find_mapping(const sv_transfer_cache_t *cache, const sv_device_t *dev, int peer,
                                           const sv_device_handle_t *handle, uint64_t remote_base)
{
    for (const sv_list_t *it = cache->mappings.next; it != &cache->mappings; it = it->next) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        if (mapping->dev == dev && mapping->peer == peer && memcmp(&mapping->handle, handle, sizeof *handle) == 0 &&
            (!remote_base || !mapping->remote_base || mapping->remote_base == remote_base))
            return mapping;
    }
    return NULL;
}

static selvage_status_t open_mapping(sv_transfer_cache_t *cache, sv_device_t *dev, int peer,
                                     const sv_device_handle_t *handle, sv_transfer_mapping_t **mapping_out)
{
    sv_transfer_mapping_t *mapping;
    if (sv_fault_call_fails(SV_FAULT_CALL_IPC))
        return sv_error(SELVAGE_ERR_DEVICE, "injected fault: opening of device memory");
    SV_TRY(sv_calloc(1, sizeof *mapping, &mapping));
    *mapping = (sv_transfer_mapping_t){.cache = cache, .dev = dev, .peer = peer, .handle = *handle};
    selvage_status_t status = SV_DEVICE_CALL(dev, open_memory, handle, &mapping->base, &mapping->bytes);
    if (status != SELVAGE_SUCCESS) {
        sv_free(mapping);
        return status;
    }
    sv_list_append(&cache->mappings, &mapping->link);
    *mapping_out = mapping;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_transfer_map(sv_transfer_cache_t *cache, sv_device_t *dev, int peer,
                                 const sv_device_handle_t *handle, sv_transfer_mapping_t **mapping_out)
{
    sv_transfer_mapping_t *mapping = find_mapping(cache, dev, peer, handle, 0);
    if (!mapping)
        SV_TRY(open_mapping(cache, dev, peer, handle, &mapping));
    mapping->users++;
    *mapping_out = mapping;
    return SELVAGE_SUCCESS;
}

/* Closes what may go: another allocation is there now, so that what was mapped of that place is stale; or there are
   many, or it has been idle for long. */
static void evict_mappings(sv_transfer_cache_t *cache, int peer, uint64_t remote_base)
{
    const uint64_t now_ns = sv_clock_ns();
    uint64_t idle_bytes = 0;
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        const sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        idle_bytes += mapping->users == 0 ? mapping->reached_bytes : 0;
    }
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        const uint64_t since_ns = now_ns > mapping->left_ns ? now_ns - mapping->left_ns : 0;
        const bool may_go = (mapping->peer == peer && mapping->remote_base == remote_base) ||
                            cache->nkept >= KEPT_MAX || since_ns >= IDLE_LONG_NS ||
                            (idle_bytes > IDLE_BYTES_MAX && since_ns >= IDLE_SHORT_NS);
        if (mapping->users > 0 || !may_go)
            continue;
        idle_bytes -= mapping->reached_bytes;
        close_mapping(mapping);
    }
}

selvage_status_t sv_transfer_map_kept(sv_transfer_cache_t *cache, sv_device_t *dev, int peer,
                                      const sv_device_handle_t *handle, uint64_t remote_base, uint64_t reached_bytes,
                                      bool kept, sv_transfer_mapping_t **mapping_out)
{
    sv_transfer_mapping_t *mapping = find_mapping(cache, dev, peer, handle, remote_base);
    if (!mapping) {
        evict_mappings(cache, peer, remote_base);
        SV_TRY(open_mapping(cache, dev, peer, handle, &mapping));
    }
    mapping->remote_base = remote_base;
    cache->nkept += kept && !mapping->kept;
    mapping->kept |= kept;
    if (mapping->reached_bytes < reached_bytes)
        mapping->reached_bytes = reached_bytes;
    mapping->users++;
    *mapping_out = mapping;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_transfer_mapping_bound(const sv_transfer_mapping_t *mapping, uint64_t offset, uint64_t bytes)
{
    if (bytes <= mapping->bytes && offset <= mapping->bytes - bytes)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_MISMATCH, "%llu bytes at offset %llu lie outside of the %llu bytes of device memory "
                    "that rank %d has announced", (unsigned long long)bytes, (unsigned long long)offset,
                    (unsigned long long)mapping->bytes, mapping->peer);
}

void sv_transfer_unmap(sv_transfer_mapping_t *mapping)
{
    if (!mapping || --mapping->users > 0)
        return;
    if (mapping->kept)
        mapping->left_ns = sv_clock_ns();
    else
        close_mapping(mapping);
}

/* --- the proof ---------------------------------------------------------------------------------------------------- */

uint64_t sv_transfer_token(uint64_t seed)
{
    return sv_digest_mix(seed) | 1;
}

uint64_t sv_transfer_answer(uint64_t token, uint32_t rank)
{
    return sv_digest_mix(token + rank);
}
