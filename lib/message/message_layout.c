/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts that were met before, and bounce buffers. A layout is found again by its content, because a datatype's handle
 * may have been freed and given to another type. Those that nobody uses go when there are too many.
 */
#include "message/message_layout.h"

#include <string.h>

#include "base/base_memory.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_layout_type.h"

enum { LAYOUTS_MAX = 64, BOUNCE_BYTES_MIN = 65536, ALIGN = 16 };

static bool is_same(const sv_message_layout_t *layout, const sv_type_map_t *map)
{
    const sv_type_map_t *own = &layout->map;
    return own->bytes == map->bytes && own->npieces == map->npieces && own->ndims == map->ndims &&
           (map->npieces == 0 || memcmp(own->pieces, map->pieces, map->npieces * sizeof *map->pieces) == 0) &&
           (map->ndims == 0 || memcmp(own->dims, map->dims, map->ndims * sizeof *map->dims) == 0);
}

/* At the end, a request that is retired may be packed by it still: then its block is set aside as well. */
static void destroy(sv_message_engine_t *engine, sv_message_layout_t *layout)
{
    if (layout->block && layout->users == 0)
        SV_DEVICE_CALL(engine->dev, free, layout->block);
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

/* On a stream of its own, because the engine's may be behind work of the caller's. */
static selvage_status_t upload(sv_device_t *dev, void *there, const void *here, size_t bytes)
{
    void *stream;
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &stream));
    selvage_status_t status = SV_DEVICE_CALL(dev, copy_async, there, here, bytes, SV_COPY_H2D, stream);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, stream);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    return status;
}

static selvage_status_t fill_block(sv_device_t *dev, const sv_layout_t *pieces_of, uint8_t *base, size_t bytes,
                                   void *here, sv_message_layout_t *layout)
{
    sv_piece_t *unused;
    sv_layout_arena_t arena = {.here = here, .there = layout->block};
    memset(here, 0, bytes);
    SV_TRY(sv_layout_make_pieces(pieces_of, &base, &arena, &unused, &layout->pieces, &layout->npieces));
    return upload(dev, layout->block, here, bytes);
}

static selvage_status_t make_block(sv_message_engine_t *engine, const sv_layout_t *pieces_of, uint8_t *base,
                                   sv_message_layout_t *layout)
{
    sv_device_t *dev = engine->dev;
    sv_piece_t *unused;
    sv_layout_arena_t arena = {0};
    void *block, *here;
    SV_TRY(sv_layout_make_pieces(pieces_of, &base, &arena, &unused, &layout->pieces, &layout->npieces));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, arena.used, &block));
    layout->block = block;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, arena.used, &here));
    selvage_status_t status = fill_block(dev, pieces_of, base, arena.used, here, layout);
    SV_DEVICE_CALL(dev, host_free, here);
    return status;
}

static selvage_status_t furnish(sv_message_engine_t *engine, const sv_type_map_t *map, const void *buf,
                                sv_message_layout_t *layout)
{
    sv_layout_t *pieces_of;
    SV_TRY(copy_map(map, &layout->map));
    if (!layout->on_device)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_layout_create_type(map, &pieces_of));
    selvage_status_t status = sv_layout_close(pieces_of);
    if (status == SELVAGE_SUCCESS)
        status = make_block(engine, pieces_of, (uint8_t *)(uintptr_t)buf, layout);
    sv_layout_destroy(pieces_of);
    return status;
}

static void forget_one(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->layouts) {
        sv_message_layout_t *layout = SV_CONTAINER_OF(it, sv_message_layout_t, link);
        if (layout->users)
            continue;
        sv_list_remove(it);
        destroy(engine, layout);
        engine->nlayouts--;
        return;
    }
}

selvage_status_t sv_message_find_layout(sv_message_engine_t *engine, const sv_type_map_t *map, const void *buf,
                                        bool on_device, sv_message_layout_t **layout_out)
{
    sv_list_t *it, *safe;
    sv_message_layout_t *layout;
    const unsigned align = on_device ? (unsigned)((uintptr_t)buf % ALIGN) : 0;
    SV_LIST_FOR_EACH(it, safe, &engine->layouts) {
        layout = SV_CONTAINER_OF(it, sv_message_layout_t, link);
        if (layout->on_device == on_device && layout->align == align && is_same(layout, map)) {
            *layout_out = layout;
            return SELVAGE_SUCCESS;
        }
    }
    if (engine->nlayouts >= LAYOUTS_MAX)
        forget_one(engine);
    SV_TRY(sv_calloc(1, sizeof *layout, &layout));
    layout->on_device = on_device;
    layout->align = align;
    selvage_status_t status = furnish(engine, map, buf, layout);
    if (status != SELVAGE_SUCCESS) {
        destroy(engine, layout);
        return status;
    }
    sv_list_append(&engine->layouts, &layout->link);
    engine->nlayouts++;
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

/* --- bounce buffers ----------------------------------------------------------------------------------------------- */

selvage_status_t sv_message_take_bounce(sv_message_engine_t *engine, size_t bytes, sv_message_bounce_t **bounce_out)
{
    sv_list_t *it, *safe;
    sv_message_bounce_t *best = NULL;
    void *memory;
    SV_LIST_FOR_EACH(it, safe, &engine->bounce_free) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        if (bounce->bytes >= bytes && (!best || bounce->bytes < best->bytes))
            best = bounce;
    }
    if (best) {
        sv_list_remove(&best->link);
        *bounce_out = best;
        return SELVAGE_SUCCESS;
    }
    SV_TRY(sv_calloc(1, sizeof *best, &best));
    /* Powers of two, so that sizes that rise step by step keep no more than twice the last one. */
    best->bytes = BOUNCE_BYTES_MIN;
    while (best->bytes < bytes)
        best->bytes *= 2;
    selvage_status_t status = SV_DEVICE_CALL(engine->dev, malloc, best->bytes, &memory);
    if (status != SELVAGE_SUCCESS) {
        sv_free(best);
        return status;
    }
    best->memory = memory;
    sv_list_init(&best->link);
    *bounce_out = best;
    return SELVAGE_SUCCESS;
}

void sv_message_put_bounce(sv_message_engine_t *engine, sv_message_bounce_t *bounce)
{
    sv_list_append(&engine->bounce_free, &bounce->link);
}

void sv_message_free_layouts(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->layouts)
        destroy(engine, SV_CONTAINER_OF(it, sv_message_layout_t, link));
    SV_LIST_FOR_EACH(it, safe, &engine->bounce_free) {
        sv_message_bounce_t *bounce = SV_CONTAINER_OF(it, sv_message_bounce_t, link);
        SV_DEVICE_CALL(engine->dev, free, bounce->memory);
        sv_free(bounce);
    }
    for (uint32_t i = 0; i < engine->nrequests; i++) /* whose memory is set aside */
        if (engine->table[i]->retired)
            sv_free(engine->table[i]->place.bounce);
}
