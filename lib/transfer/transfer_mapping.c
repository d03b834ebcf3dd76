/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mapping cache, and the words that prove a mapping. See transfer_mapping.h for its rules, threads and ownership.
 */
#include "transfer/transfer_mapping.h"

#include <assert.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

/* How many times the limits of idle mappings an open may find, and by what part of their time those go sooner that hold
   much: who uses many in turn opens a few in that time. */
enum { EXCESS = 4, SOONER = 10 };

#define LOOK_NS UINT64_C(100000000) /* how often times are looked at */

/* --- the cache ---------------------------------------------------------------------------------------------------- */

static void empty_cache(sv_transfer_cache_t *cache)
{
    cache->nidle = 0;
    cache->idle_bytes = 0;
    cache->trim_ns = UINT64_MAX;
    sv_list_init(&cache->mappings);
}

void sv_transfer_cache_init(sv_transfer_cache_t *cache, const sv_config_t *config)
{
    *cache = (sv_transfer_cache_t){.closes_later = config != NULL};
    if (config) {
        cache->limits.idle_most = (uint32_t)config->idle_mappings;
        cache->limits.idle_bytes = config->idle_bytes;
        cache->limits.idle_ns = (uint64_t)(config->idle_s * 1e9);
    }
    empty_cache(cache);
}

static void unset_idle(sv_transfer_mapping_t *mapping)
{
    mapping->cache->nidle--;
    mapping->cache->idle_bytes -= mapping->bytes;
}

static void close_mapping(sv_transfer_mapping_t *mapping)
{
    SV_DEVICE_CALL(mapping->dev, close_memory, mapping->base);
    sv_list_remove(&mapping->link);
    sv_free(mapping);
}

void sv_transfer_cache_close(sv_transfer_cache_t *cache)
{
    sv_transfer_close_trimmed(&cache->mappings);
    empty_cache(cache);
}

void sv_transfer_cache_abandon(sv_transfer_cache_t *cache)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        sv_free(SV_CONTAINER_OF(it, sv_transfer_mapping_t, link));
    }
    empty_cache(cache);
}

static bool is_mapping_of(const sv_transfer_mapping_t *mapping, const sv_device_t *dev,
                          const sv_transfer_memory_t *memory)
{
    return mapping->dev == dev && mapping->peer == memory->peer &&
           memcmp(&mapping->handle, memory->handle, sizeof *memory->handle) == 0;
}

static sv_transfer_mapping_t *find_mapping(const sv_transfer_cache_t *cache, const sv_device_t *dev,
                                           const sv_transfer_memory_t *memory)
{
    for (const sv_list_t *it = cache->mappings.next; it != &cache->mappings; it = it->next) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        if (!mapping->stale && is_mapping_of(mapping, dev, memory) &&
            (!memory->base || !mapping->remote_base || mapping->remote_base == memory->base))
            return mapping;
    }
    return NULL;
}

static uint64_t idle_ns(const sv_transfer_mapping_t *mapping, uint64_t now_ns)
{
    return now_ns > mapping->left_ns ? now_ns - mapping->left_ns : 0;
}

/* An open is no place to close anything. But no handle is open twice, and what nobody waits for does not grow for ever.
   Idle mappings that hold much stay their short time here, too, else a program with large ones would open each time. */
static void make_room_for(sv_transfer_cache_t *cache, const sv_device_t *dev, const sv_transfer_memory_t *memory)
{
    const uint64_t now_ns = sv_clock_ns();
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        const bool passed = mapping->stale || idle_ns(mapping, now_ns) >= cache->limits.idle_ns / SOONER;
        const bool goes = is_mapping_of(mapping, dev, memory) || cache->nidle >= EXCESS * cache->limits.idle_most ||
                          (passed && cache->idle_bytes / EXCESS > cache->limits.idle_bytes);
        if (mapping->users > 0 || !goes)
            continue;
        unset_idle(mapping);
        close_mapping(mapping);
    }
}

/* The new mapping has a user. */
static selvage_status_t open_mapping(sv_transfer_cache_t *cache, sv_device_t *dev, const sv_transfer_memory_t *memory,
                                     sv_transfer_mapping_t **mapping_out)
{
    sv_transfer_mapping_t *mapping;
    if (sv_fault_call_fails(SV_FAULT_CALL_IPC))
        return sv_error(SELVAGE_ERR_DEVICE, "injected fault: opening of device memory");
    SV_TRY(sv_calloc(1, sizeof *mapping, &mapping));
    *mapping = (sv_transfer_mapping_t){
        .cache = cache, .dev = dev, .peer = memory->peer, .users = 1, .handle = *memory->handle};
    selvage_status_t status = SV_DEVICE_CALL(dev, open_memory, memory->handle, &mapping->base, &mapping->bytes);
    if (status != SELVAGE_SUCCESS) {
        sv_free(mapping);
        return status;
    }
    sv_list_append(&cache->mappings, &mapping->link);
    *mapping_out = mapping;
    return SELVAGE_SUCCESS;
}

/* The numbers are another rank's, so that no sum of them is to wrap. */
static selvage_status_t check_bound(const sv_transfer_mapping_t *mapping, const sv_transfer_memory_t *memory)
{
    if (memory->bytes <= mapping->bytes && memory->offset <= mapping->bytes - memory->bytes)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_MISMATCH, "%llu bytes at offset %llu lie outside of the %llu bytes of device memory "
                    "that rank %d has announced", (unsigned long long)memory->bytes,
                    (unsigned long long)memory->offset, (unsigned long long)mapping->bytes, mapping->peer);
}

/* Its owner has this allocation now, so that what was mapped at the same addresses is freed. */
static void mark_superseded(const sv_transfer_mapping_t *by)
{
    sv_transfer_cache_t *cache = by->cache;
    for (const sv_list_t *it = cache->mappings.next; by->remote_base && it != &cache->mappings; it = it->next) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        if (mapping == by || mapping->dev != by->dev || mapping->peer != by->peer || !mapping->remote_base ||
            (by->remote_base - mapping->remote_base >= mapping->bytes &&
             mapping->remote_base - by->remote_base >= by->bytes))
            continue;
        mapping->stale = true;
        if (mapping->users == 0)
            cache->trim_ns = 0;
    }
}

selvage_status_t sv_transfer_map(sv_transfer_cache_t *cache, sv_device_t *dev, const sv_transfer_memory_t *memory,
                                 sv_transfer_mapping_t **mapping_out)
{
    sv_transfer_mapping_t *mapping = find_mapping(cache, dev, memory);
    const bool found = mapping != NULL;
    if (!found) {
        make_room_for(cache, dev, memory);
        SV_TRY(open_mapping(cache, dev, memory, &mapping));
    } else if (mapping->users++ == 0) {
        unset_idle(mapping);
    }
    selvage_status_t status = check_bound(mapping, memory);
    if (status != SELVAGE_SUCCESS) {
        sv_transfer_unmap(mapping);
        return status;
    }
    if (!mapping->remote_base)
        mapping->remote_base = memory->base;
    mapping->kept |= memory->kept;
    if (!found)
        mark_superseded(mapping);
    *mapping_out = mapping;
    return SELVAGE_SUCCESS;
}

void sv_transfer_unmap(sv_transfer_mapping_t *mapping)
{
    if (!mapping)
        return;
    assert(mapping->users > 0);
    if (--mapping->users > 0)
        return;
    sv_transfer_cache_t *cache = mapping->cache;
    if (!cache->closes_later) {
        close_mapping(mapping);
        return;
    }
    mapping->left_ns = sv_clock_ns();
    mapping->stale |= !mapping->kept;
    cache->nidle++;
    cache->idle_bytes += mapping->bytes;
    sv_list_remove(&mapping->link);
    sv_list_append(&cache->mappings, &mapping->link);
    const bool at_once = mapping->stale || cache->nidle > cache->limits.idle_most;
    const uint64_t trim_ns = at_once ? 0 : mapping->left_ns + LOOK_NS;
    if (cache->trim_ns > trim_ns)
        cache->trim_ns = trim_ns;
}

/* Whether a wait is to close it. */
static bool is_mapping_due(const sv_transfer_mapping_t *mapping, uint64_t now_ns)
{
    const sv_transfer_cache_t *cache = mapping->cache;
    const sv_transfer_limits_t *limits = &cache->limits;
    const uint64_t since_ns = idle_ns(mapping, now_ns);
    return mapping->users == 0 &&
           (mapping->stale || cache->nidle > limits->idle_most || since_ns >= limits->idle_ns ||
            (cache->idle_bytes > limits->idle_bytes && since_ns >= limits->idle_ns / SOONER));
}

bool sv_transfer_cache_is_due(sv_transfer_cache_t *cache, uint64_t now_ns)
{
    if (now_ns < cache->trim_ns)
        return false;
    for (const sv_list_t *it = cache->mappings.next; it != &cache->mappings; it = it->next)
        if (is_mapping_due(SV_CONTAINER_OF(it, const sv_transfer_mapping_t, link), now_ns))
            return true;
    cache->trim_ns = cache->nidle > 0 ? now_ns + LOOK_NS : UINT64_MAX;
    return false;
}

void sv_transfer_cache_trim(sv_transfer_cache_t *cache, uint64_t now_ns, sv_list_t *trimmed)
{
    sv_list_t *it, *safe;
    if (now_ns < cache->trim_ns)
        return;
    SV_LIST_FOR_EACH(it, safe, &cache->mappings) {
        sv_transfer_mapping_t *mapping = SV_CONTAINER_OF(it, sv_transfer_mapping_t, link);
        if (!is_mapping_due(mapping, now_ns))
            continue;
        unset_idle(mapping);
        sv_list_remove(&mapping->link);
        sv_list_append(trimmed, &mapping->link);
    }
    cache->trim_ns = cache->nidle > 0 ? now_ns + LOOK_NS : UINT64_MAX;
}

void sv_transfer_close_trimmed(sv_list_t *trimmed)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, trimmed) {
        close_mapping(SV_CONTAINER_OF(it, sv_transfer_mapping_t, link));
    }
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
