/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts that were met before, and bounce buffers. A layout is found again by its content, because a datatype's handle
 * may have been freed and given to another type. When there are too many, the least recently used layout without users
 * goes.
 *
 * The memory of layouts is kept until the engine's end, and bounce buffers until nobody has used them for long. Some
 * runtimes wait for all work of the device before they release device or pinned memory, also for work that waits for a
 * message of this engine. So that is done where a call may wait (message_idle.h).
 */
#include "message/message_layout.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_layout_type.h"

enum {
    LAYOUTS_MAX = 256,
    LAYOUT_BYTES_MAX = 1 << 26,
    BLOCK_BYTES_MIN = 4096,
    BOUNCE_BYTES_MIN = 65536,
    ALIGN = 16,
};

/* --- buffers that are kept ---------------------------------------------------------------------------------------- */

static size_t buffer_bytes_for(size_t bytes, size_t least_bytes)
{
    size_t rounded = least_bytes;
    while (rounded < bytes)
        rounded *= 2;
    return rounded;
}

/* Takes the smallest free buffer that is large enough, of those the one that was used last, or a new one. So what is
   more than enough grows old. Sizes are powers of two, so that sizes that rise step by step keep no more than twice the
   last one. Partner: put_buffer(). */
static selvage_status_t take_buffer(sv_message_engine_t *engine, sv_list_t *free_ones, size_t least_bytes, size_t bytes,
                                    sv_message_bounce_t **bounce_out)
{
    sv_list_t *it, *safe;
    sv_message_bounce_t *best = NULL;
    void *memory;
    SV_LIST_FOR_EACH(it, safe, free_ones) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        if (bounce->bytes >= bytes && (!best || bounce->bytes <= best->bytes))
            best = bounce;
    }
    if (best) {
        sv_list_remove(&best->link);
        *bounce_out = best;
        return SELVAGE_SUCCESS;
    }
    SV_TRY(sv_calloc(1, sizeof *best, &best));
    best->bytes = buffer_bytes_for(bytes, least_bytes);
    selvage_status_t status = free_ones == &engine->layouts.upload_free
                                  ? SV_DEVICE_CALL(engine->dev, host_malloc, best->bytes, &memory)
                                  : SV_DEVICE_CALL(engine->dev, malloc, best->bytes, &memory);
    if (status != SELVAGE_SUCCESS) {
        sv_free(best);
        return status;
    }
    best->memory = memory;
    sv_list_init(&best->link);
    *bounce_out = best;
    return SELVAGE_SUCCESS;
}

static void put_buffer(sv_list_t *free_ones, sv_message_bounce_t *bounce)
{
    sv_list_append(free_ones, &bounce->link);
}

static bool is_idle_bounce(const sv_message_engine_t *engine, const sv_message_bounce_t *bounce, uint64_t now_ns)
{
    const uint64_t idle_ns = engine->memory.mappings.limits.idle_ns;
    return !bounce->stays && now_ns > bounce->left_ns && now_ns - bounce->left_ns >= idle_ns;
}

/* There may be thousands, which are looked at some times in the time that they may be idle. */
static void put_off_look(sv_message_engine_t *engine, uint64_t now_ns)
{
    enum { LOOKS = 16 };
    engine->layouts.look_ns = now_ns + engine->memory.mappings.limits.idle_ns / LOOKS;
}

bool sv_message_has_idle_bounce(sv_message_engine_t *engine, uint64_t now_ns)
{
    const sv_list_t *all = &engine->layouts.bounce_free;
    if (now_ns < engine->layouts.look_ns)
        return false;
    for (const sv_list_t *it = all->next; it != all; it = it->next)
        if (is_idle_bounce(engine, SV_CONTAINER_OF(it, const sv_message_bounce_t, link), now_ns))
            return true;
    put_off_look(engine, now_ns);
    return false;
}

void sv_message_trim_bounces(sv_message_engine_t *engine, uint64_t now_ns, sv_list_t *trimmed)
{
    sv_list_t *it, *safe;
    if (now_ns < engine->layouts.look_ns)
        return;
    put_off_look(engine, now_ns);
    SV_LIST_FOR_EACH(it, safe, &engine->layouts.bounce_free) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        if (!is_idle_bounce(engine, bounce, now_ns))
            continue;
        engine->buffers_made_bytes -= bounce->counted ? bounce->bytes : 0;
        sv_list_remove(it);
        sv_list_append(trimmed, it);
    }
}

void sv_message_free_bounces(sv_message_engine_t *engine, sv_list_t *trimmed)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, trimmed) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        SV_DEVICE_CALL(engine->dev, free, bounce->memory);
        sv_free(bounce);
    }
    sv_list_init(trimmed);
}

static void free_kept_buffers(sv_message_engine_t *engine, sv_list_t *free_ones)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, free_ones) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        if (free_ones == &engine->layouts.upload_free)
            SV_DEVICE_CALL(engine->dev, host_free, bounce->memory);
        else
            SV_DEVICE_CALL(engine->dev, free, bounce->memory);
        sv_free(bounce);
    }
}

size_t sv_message_bounce_bytes(size_t bytes)
{
    return buffer_bytes_for(bytes, BOUNCE_BYTES_MIN);
}

bool sv_message_has_bounce(const sv_message_engine_t *engine, size_t bytes)
{
    const sv_list_t *all = &engine->layouts.bounce_free;
    for (const sv_list_t *it = all->next; it != all; it = it->next)
        if (SV_CONTAINER_OF(it, const sv_message_bounce_t, link)->bytes >= bytes)
            return true;
    return false;
}

selvage_status_t sv_message_take_bounce(sv_message_engine_t *engine, size_t bytes, sv_message_bounce_t **bounce_out)
{
    return take_buffer(engine, &engine->layouts.bounce_free, BOUNCE_BYTES_MIN, bytes, bounce_out);
}

selvage_status_t sv_message_take_bounce_quietly(sv_message_engine_t *engine, size_t bytes,
                                                sv_message_bounce_t **bounce_out)
{
    const int level = sv_thread_binding()->log_level;
    sv_thread_binding()->log_level = 0;
    const selvage_status_t status = sv_message_take_bounce(engine, bytes, bounce_out);
    sv_thread_binding()->log_level = level;
    return status;
}

/* As much as there may be is in use, or is kept in shorter buffers, which stay until they were idle for long; or there
   is none, which is said once. The caller has another way. */
sv_message_bounce_t *sv_message_take_buffer(sv_message_engine_t *engine, size_t bytes)
{
    const uint64_t retry_ns = 1000000000;
    const uint64_t left_bytes =
        engine->buffered_bytes < engine->buffer_bytes ? engine->buffer_bytes - engine->buffered_bytes : 0;
    sv_message_bounce_t *bounce;
    const size_t rounded_bytes = sv_message_bounce_bytes(bytes);
    const bool is_new = !sv_message_has_bounce(engine, bytes);
    if (rounded_bytes > left_bytes || (is_new && engine->buffers_made_bytes + rounded_bytes > engine->buffer_bytes) ||
        (engine->buffer_failed_ns && sv_clock_ns() - engine->buffer_failed_ns < retry_ns))
        return NULL;
    const selvage_status_t status = sv_message_take_bounce_quietly(engine, bytes, &bounce);
    if (status != SELVAGE_SUCCESS) {
        if (engine->buffer_failed_ns == 0)
            sv_log(SV_LOG_INFO, "message", "no device memory for a buffered send of %llu bytes: %s",
                   (unsigned long long)bytes, sv_thread_detail());
        engine->buffer_failed_ns = sv_clock_ns();
        return NULL;
    }
    engine->buffers_made_bytes += is_new ? bounce->bytes : 0;
    bounce->counted |= is_new;
    if (bounce->bytes <= left_bytes) {
        engine->buffered_bytes += bounce->bytes;
        return bounce;
    }
    sv_message_put_bounce(engine, bounce);
    return NULL;
}

void sv_message_put_bounce(sv_message_engine_t *engine, sv_message_bounce_t *bounce)
{
    bounce->left_ns = sv_clock_ns();
    put_buffer(&engine->layouts.bounce_free, bounce);
}

/* --- layouts ------------------------------------------------------------------------------------------------------ */

static bool is_same(const sv_message_layout_t *layout, const sv_type_map_t *map)
{
    const sv_type_map_t *own = &layout->map;
    return own->bytes == map->bytes && own->npieces == map->npieces && own->ndims == map->ndims &&
           (map->npieces == 0 || memcmp(own->pieces, map->pieces, map->npieces * sizeof *map->pieces) == 0) &&
           (map->ndims == 0 || memcmp(own->dims, map->dims, map->ndims * sizeof *map->dims) == 0);
}

/* A retired request may still be packed by it. That request is one of its users, so the block is set aside. */
static void destroy_layout(sv_message_engine_t *engine, sv_message_layout_t *layout)
{
    if (layout->block && layout->users == 0)
        put_buffer(&engine->layouts.block_free, layout->block);
    else
        sv_free(layout->block);
    sv_type_map_fini(&layout->map);
    sv_free(layout);
}

static selvage_status_t copy_map(const sv_type_map_t *map, sv_type_map_t *out)
{
    *out = (sv_type_map_t){.npieces = map->npieces, .pieces_room = map->npieces, .ndims = map->ndims,
                           .dims_room = map->ndims, .bytes = map->bytes, .low = map->low, .high = map->high};
    SV_TRY(sv_calloc(map->npieces, sizeof *out->pieces, &out->pieces));
    memcpy(out->pieces, map->pieces, map->npieces * sizeof *map->pieces);
    if (map->ndims == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(map->ndims, sizeof *out->dims, &out->dims));
    memcpy(out->dims, map->dims, map->ndims * sizeof *map->dims);
    return SELVAGE_SUCCESS;
}

/* On a stream of its own, because the engine's may be after work of the caller's. */
static selvage_status_t upload_pieces(sv_message_engine_t *engine, void *there, const void *here, size_t bytes)
{
    sv_device_t *dev = engine->dev;
    void *stream;
    if (!engine->streams.upload) {
        SV_TRY(SV_DEVICE_CALL(dev, stream_create, &stream));
        engine->streams.upload = stream;
    }
    SV_TRY(SV_DEVICE_CALL(dev, copy_async, there, here, bytes, SV_COPY_H2D, engine->streams.upload));
    return SV_DEVICE_CALL(dev, stream_sync, engine->streams.upload);
}

static selvage_status_t create_layout_block(sv_message_engine_t *engine, const sv_layout_t *pieces_of, uint8_t *base,
                                            sv_message_layout_t *layout)
{
    sv_piece_t *unused;
    sv_message_bounce_t *here;
    sv_layout_bump_t arena = {0};
    SV_TRY(sv_layout_make_pieces(pieces_of, &base, &arena, &unused, &layout->pieces, &layout->npieces));
    const size_t bytes = arena.used;
    SV_TRY(take_buffer(engine, &engine->layouts.block_free, BLOCK_BYTES_MIN, bytes, &layout->block));
    SV_TRY(take_buffer(engine, &engine->layouts.upload_free, BLOCK_BYTES_MIN, bytes, &here));
    memset(here->memory, 0, bytes);
    arena = (sv_layout_bump_t){.here = here->memory, .there = layout->block->memory};
    selvage_status_t status =
        sv_layout_make_pieces(pieces_of, &base, &arena, &unused, &layout->pieces, &layout->npieces);
    if (status == SELVAGE_SUCCESS)
        status = upload_pieces(engine, layout->block->memory, here->memory, bytes);
    put_buffer(&engine->layouts.upload_free, here);
    return status;
}

static selvage_status_t create_layout(sv_message_engine_t *engine, const sv_type_map_t *map, const void *buf,
                                      sv_message_layout_t *layout)
{
    sv_layout_t *pieces_of;
    SV_TRY(copy_map(map, &layout->map));
    if (!layout->on_device)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_layout_create_type(map, 0, &pieces_of));
    selvage_status_t status = sv_layout_close(pieces_of);
    if (status == SELVAGE_SUCCESS)
        status = create_layout_block(engine, pieces_of, (uint8_t *)(uintptr_t)buf, layout);
    sv_layout_destroy(pieces_of);
    return status;
}

/* Of those that nobody uses, from the least recently used one on. */
static void forget_layouts(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->layouts.all) {
        sv_message_layout_t *layout = SV_CONTAINER_OF(it, sv_message_layout_t, link);
        if (engine->layouts.count < LAYOUTS_MAX && engine->layouts.bytes <= LAYOUT_BYTES_MAX)
            return;
        if (layout->users)
            continue;
        sv_list_remove(it);
        engine->layouts.count--;
        engine->layouts.bytes -= layout->block ? layout->block->bytes : 0;
        destroy_layout(engine, layout);
    }
}

selvage_status_t sv_message_find_layout(sv_message_engine_t *engine, const sv_type_map_t *map, const void *buf,
                                        bool on_device, sv_message_layout_t **layout_out)
{
    sv_message_layout_t *layout;
    const unsigned align = on_device ? (unsigned)((uintptr_t)buf % ALIGN) : 0;
    for (sv_list_t *it = engine->layouts.all.prev; it != &engine->layouts.all; it = it->prev) {
        layout = SV_CONTAINER_OF(it, sv_message_layout_t, link);
        if (layout->on_device == on_device && layout->align == align && is_same(layout, map)) {
            sv_list_remove(&layout->link);
            sv_list_append(&engine->layouts.all, &layout->link);
            *layout_out = layout;
            return SELVAGE_SUCCESS;
        }
    }
    forget_layouts(engine);
    SV_TRY(sv_calloc(1, sizeof *layout, &layout));
    layout->on_device = on_device;
    layout->align = align;
    selvage_status_t status = create_layout(engine, map, buf, layout);
    if (status != SELVAGE_SUCCESS) {
        destroy_layout(engine, layout);
        return status;
    }
    sv_list_append(&engine->layouts.all, &layout->link);
    engine->layouts.count++;
    engine->layouts.bytes += layout->block ? layout->block->bytes : 0;
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

void sv_message_free_layouts(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->layouts.all)
    destroy_layout(engine, SV_CONTAINER_OF(it, sv_message_layout_t, link));
    free_kept_buffers(engine, &engine->layouts.block_free);
    free_kept_buffers(engine, &engine->layouts.bounce_free);
    free_kept_buffers(engine, &engine->layouts.upload_free);
    if (engine->streams.upload)
        SV_DEVICE_CALL(engine->dev, stream_destroy, engine->streams.upload);
    for (uint32_t i = 0; i < engine->nrequests; i++) /* whose memory is set aside */
        if (engine->table[i]->retired)
            sv_free(engine->table[i]->place.bounce);
}
