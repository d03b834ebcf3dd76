/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of neighbours' allocations are kept, because opening one costs milliseconds, although memory that its owner
 * frees is not free before they are closed. So one goes when its owner has another allocation at the same address, and
 * the oldest when there are many. An allocation is known by its owner, the address that it has there, and its handle.
 */
#include "message/message_mapping.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_memory.h"

enum { MAPPINGS_MAX = 32 };

#define IDLE_BYTES_MAX (UINT64_C(256) << 20) /* of mappings that nobody uses, together; beyond ... */
#define IDLE_SHORT_NS UINT64_C(100000000)    /* ... they stay this long, for who uses many in turn ... */
#define IDLE_LONG_NS UINT64_C(10000000000)   /* ... and else so long */

static void forget_mapping(sv_message_engine_t *engine, sv_message_mapping_t *mapping)
{
    sv_list_remove(&mapping->link);
    sv_opened_put(mapping->opened);
    sv_free(mapping);
    engine->memory.nmappings--;
}

void sv_message_close_mappings(sv_message_engine_t *engine)
{
    while (!sv_list_is_empty(&engine->memory.mappings))
        forget_mapping(engine, SV_CONTAINER_OF(engine->memory.mappings.next, sv_message_mapping_t, link));
}

static bool is_at(const sv_message_mapping_t *mapping, int peer, uint64_t remote_base)
{
    return mapping->opened->peer == peer && mapping->remote_base == remote_base;
}

/* Closes what may go: another allocation is there now, so that what was mapped of that place is stale; or there are
   many, or it has been idle for long. */
static void evict_mappings(sv_message_engine_t *engine, int peer, uint64_t remote_base)
{
    const uint64_t now_ns = sv_clock_ns();
    uint64_t idle_bytes = 0;
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->memory.mappings) {
        const sv_message_mapping_t *mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        idle_bytes += mapping->users == 0 ? mapping->bytes : 0;
    }
    SV_LIST_FOR_EACH(it, safe, &engine->memory.mappings) {
        sv_message_mapping_t *mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        const uint64_t since_ns = now_ns > mapping->used_ns ? now_ns - mapping->used_ns : 0;
        const bool may_go = is_at(mapping, peer, remote_base) || engine->memory.nmappings >= MAPPINGS_MAX ||
                            since_ns >= IDLE_LONG_NS || (idle_bytes > IDLE_BYTES_MAX && since_ns >= IDLE_SHORT_NS);
        if (mapping->users > 0 || !may_go)
            continue;
        idle_bytes -= mapping->bytes;
        forget_mapping(engine, mapping);
    }
}

void sv_message_mapping_leave(sv_message_engine_t *engine, sv_message_mapping_t *mapping)
{
    if (--mapping->users > 0)
        return;
    mapping->used_ns = sv_clock_ns();
    if (!mapping->retained)
        forget_mapping(engine, mapping);
}

selvage_status_t sv_message_mapping_enter(selvage_request_t *send, uint64_t remote_base,
                                          const sv_device_handle_t *handle)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_mapping_t *mapping = NULL;
    for (sv_list_t *it = engine->memory.mappings.next; it != &engine->memory.mappings && !mapping; it = it->next) {
        mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        if (!is_at(mapping, send->peer, remote_base) || memcmp(&mapping->opened->handle, handle, sizeof *handle) != 0)
            mapping = NULL;
    }
    if (!mapping) {
        evict_mappings(engine, send->peer, remote_base);
        SV_TRY(sv_calloc(1, sizeof *mapping, &mapping));
        selvage_status_t status =
            sv_opened_get(&engine->memory.opened, engine->dev, send->peer, handle, &mapping->opened);
        if (status != SELVAGE_SUCCESS) {
            sv_free(mapping);
            return status;
        }
        mapping->remote_base = remote_base;
        /* Neighbours' devices are of one kind with this one, or could not be mapped. */
        mapping->retained = SV_DEVICE_CALL(engine->dev, memory_id, send->place.data) != 0;
        sv_list_append(&engine->memory.mappings, &mapping->link);
        engine->memory.nmappings++;
    }
    mapping->users++;
    if (mapping->bytes < send->put.offset + send->bytes)
        mapping->bytes = send->put.offset + send->bytes;
    send->put.mapping = mapping;
    return SELVAGE_SUCCESS;
}
