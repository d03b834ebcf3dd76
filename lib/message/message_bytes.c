/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a request's bytes lie, and moving those with gaps to and from one piece. See message_layout.h. */
#include <string.h>

#include "base/base_memory.h"
#include "host/memory_kind.h"
#include "message/message_layout.h"
#include "pipeline/pipe_batch.h"

/* --- where they lie ----------------------------------------------------------------------------------------------- */

static selvage_status_t refuse_memory(const sv_message_engine_t *engine, const char *call, const void *ptr,
                                      size_t bytes, const char *what)
{
    return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf: %zu bytes at %p on device %s: %s", call, bytes, ptr,
                    engine->dev->ops->name, what);
}

/* Asking for the kind of memory takes several queries. That of an allocation has an answer that stays. */
static bool is_known_range(const sv_message_engine_t *engine, uint64_t id, uintptr_t begin, size_t bytes)
{
    for (unsigned i = 0; i < SV_MESSAGE_KNOWN && id; i++)
        if (engine->memory.known[i].id == id)
            return begin >= engine->memory.known[i].begin && begin + bytes <= engine->memory.known[i].end;
    return false;
}

/* It lies in one allocation, so what lies between two parts that do does so, too. */
static void remember_range(sv_message_engine_t *engine, uint64_t id, uintptr_t begin, size_t bytes)
{
    sv_message_known_t *known = NULL;
    for (unsigned i = 0; i < SV_MESSAGE_KNOWN && id; i++)
        known = engine->memory.known[i].id == id ? &engine->memory.known[i] : known;
    if (!known) {
        known = &engine->memory.known[engine->memory.next_known++ % SV_MESSAGE_KNOWN];
        *known = (sv_message_known_t){.id = id, .begin = begin, .end = begin + bytes};
    }
    known->begin = begin < known->begin ? begin : known->begin;
    known->end = begin + bytes > known->end ? begin + bytes : known->end;
}

/* Whether kernels and copy engines move it. This thread moves what it can reach itself. */
static selvage_status_t query_kind(sv_message_engine_t *engine, const char *call, const void *ptr, size_t bytes,
                                   uint64_t *id_out, bool *on_device_out)
{
    const uint64_t id = SV_DEVICE_CALL(engine->dev, memory_id, ptr);
    *id_out = id;
    *on_device_out = is_known_range(engine, id, (uintptr_t)ptr, bytes);
    if (*on_device_out)
        return SELVAGE_SUCCESS;
    const sv_memory_kind_t kind = SV_DEVICE_CALL(engine->dev, memory_kind, ptr, bytes);
    const bool on_host = kind == SV_MEMORY_PINNED || kind == SV_MEMORY_HOST || kind == SV_MEMORY_PAGEABLE;
    if (!on_host && !sv_memory_kind_is_usable(kind))
        return refuse_memory(engine, call, ptr, bytes, sv_memory_kind_text(kind));
    *on_device_out = !on_host;
    if (kind == SV_MEMORY_DEVICE && id)
        remember_range(engine, id, (uintptr_t)ptr, bytes);
    return SELVAGE_SUCCESS;
}

/* Members of a struct may be allocations of their own: then each piece is asked about. */
static selvage_status_t query_pieces(sv_message_engine_t *engine, const char *call, const uint8_t *buf,
                                     const sv_type_map_t *map, bool *on_device_out)
{
    const uint8_t *begin = buf + map->low;
    uint64_t unused;
    *on_device_out = is_known_range(engine, SV_DEVICE_CALL(engine->dev, memory_id, begin), (uintptr_t)begin,
                              (size_t)(map->high - map->low));
    if (*on_device_out)
        return SELVAGE_SUCCESS;
    const sv_memory_kind_t whole =
        SV_DEVICE_CALL(engine->dev, memory_kind, buf + map->low, (size_t)(map->high - map->low));
    if (whole != SV_MEMORY_SPLIT && whole != SV_MEMORY_FREED)
        return query_kind(engine, call, buf + map->low, (size_t)(map->high - map->low), &unused, on_device_out);
    for (size_t i = 0; i < map->npieces; i++) {
        int64_t low, high;
        bool here;
        sv_type_piece_bounds(map, &map->pieces[i], &low, &high);
        SV_TRY(query_kind(engine, call, buf + low, (size_t)(high - low), &unused, &here));
        if (i > 0 && here != *on_device_out)
            return refuse_memory(engine, call, buf + low, (size_t)(high - low),
                                 "the elements before it lie in memory of "
                                 "another kind, and one message has to lie in device memory or in the host's");
        *on_device_out = here;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t place_with_gaps(selvage_request_t *request, uint8_t *buf, const sv_type_map_t *map)
{
    sv_message_place_t *place = &request->place;
    place->user = buf;
    SV_TRY(sv_message_find_layout(request->engine, map, buf, place->on_device, &place->layout));
    place->layout->users++;
    if (!place->on_device)
        return sv_calloc(map->bytes, 1, &place->data);
    SV_TRY(sv_message_take_bounce(request->engine, map->bytes, &place->bounce));
    place->data = place->bounce->memory;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_place(selvage_request_t *request, const char *call, void *buf, const sv_type_map_t *map)
{
    sv_message_place_t *place = &request->place;
    *place = (sv_message_place_t){.bytes = map->bytes};
    if (map->bytes == 0)
        return SELVAGE_SUCCESS;
    if (map->npieces == 1 && map->pieces[0].ndims == 0) {
        place->data = (uint8_t *)buf + map->pieces[0].offset;
        return query_kind(request->engine, call, place->data, map->bytes, &place->id, &place->on_device);
    }
    SV_TRY(query_pieces(request->engine, call, buf, map, &place->on_device));
    selvage_status_t status = place_with_gaps(request, buf, map);
    if (status != SELVAGE_SUCCESS)
        sv_message_leave_place(request);
    return status;
}

void sv_message_leave_place(selvage_request_t *request)
{
    sv_message_place_t *place = &request->place;
    if (request->retired && place->on_device)
        return;
    if (place->bounce)
        sv_message_put_bounce(request->engine, place->bounce);
    else if (place->layout && !place->on_device)
        sv_free(place->data);
    if (place->layout)
        place->layout->users--;
    place->layout = NULL;
    place->bounce = NULL;
    place->data = NULL;
}

/* --- a message that ends early ------------------------------------------------------------------------------------ */

static selvage_status_t cut_map(const sv_type_map_t *map, uint64_t bytes, sv_type_map_t *out)
{
    for (size_t i = 0; i < map->npieces && bytes > 0; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        for (uint64_t r = 0, n = sv_type_piece_runs(map, piece); r < n && bytes > 0; r++) {
            const uint64_t here = piece->run_bytes < bytes ? piece->run_bytes : bytes;
            SV_TRY(sv_type_map_add_run(out, sv_type_piece_run_offset(map, piece, r), here));
            bytes -= here;
        }
    }
    return sv_type_map_compress(out);
}

selvage_status_t sv_message_trim(selvage_request_t *recv)
{
    sv_message_place_t *place = &recv->place;
    sv_type_map_t map = {0};
    sv_message_layout_t *layout;
    if (!place->layout || !place->on_device || recv->bytes == place->bytes || recv->bytes == 0)
        return SELVAGE_SUCCESS;
    selvage_status_t status = cut_map(&place->layout->map, recv->bytes, &map);
    if (status == SELVAGE_SUCCESS)
        status = sv_message_find_layout(recv->engine, &map, place->user, true, &layout);
    if (status == SELVAGE_SUCCESS) {
        place->layout->users--;
        place->layout = layout;
        layout->users++;
    }
    sv_type_map_fini(&map);
    return status;
}

/* --- by this thread ----------------------------------------------------------------------------------------------- */

static void move_runs(const selvage_request_t *request, bool pack)
{
    const sv_type_map_t *map = &request->place.layout->map;
    uint8_t *at = request->place.data, *user = request->place.user;
    uint64_t left = request->bytes;
    for (size_t i = 0; i < map->npieces; i++) {
        const sv_type_piece_t *piece = &map->pieces[i];
        for (uint64_t r = 0, n = sv_type_piece_runs(map, piece); r < n && left > 0; r++) {
            const uint64_t bytes = piece->run_bytes < left ? piece->run_bytes : left;
            uint8_t *run = user + sv_type_piece_run_offset(map, piece, r);
            memcpy(pack ? at : run, pack ? run : at, bytes);
            at += bytes;
            left -= bytes;
        }
    }
}

selvage_status_t sv_message_pack_host(selvage_request_t *send)
{
    if (send->place.layout && !send->place.on_device)
        move_runs(send, true);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_unpack_host(selvage_request_t *recv)
{
    move_runs(recv, false);
    return SELVAGE_SUCCESS;
}

/* --- by kernels --------------------------------------------------------------------------------------------------- */

static selvage_status_t launch_packing(const selvage_request_t *request, const sv_kernel_t *kernel, const void *item,
                                       void *stream)
{
    sv_device_t *dev = request->engine->dev;
    sv_batch_arg_t arg = {.items = item, .epoch = 1, .flags = SV_DIGEST_NONE, .npackets = 1, .nbases_here = 1};
    const uint64_t share_bytes = sv_batch_share_bytes(request->bytes, 1, dev->launch_blocks);
    const uint32_t shares = sv_kernel_shares(dev, request->bytes, share_bytes);
    arg.base[0] = request->place.user;
    arg.first_block[1] = shares;
    return SV_DEVICE_CALL(dev, launch, kernel, &arg, sizeof arg,
                          shares < dev->launch_blocks ? shares : dev->launch_blocks, stream);
}

selvage_status_t sv_message_pack_device(selvage_request_t *send, void *stream)
{
    const sv_message_layout_t *layout = send->place.layout;
    if (!layout)
        return SELVAGE_SUCCESS;
    send->line->gather = (sv_push_item_t){.dst = send->place.data, .scratch = send->scratch, .nslots = 1,
                                          .pieces = layout->pieces, .npieces = layout->npieces,
                                          .identity = {.bytes = send->bytes}};
    return launch_packing(send, &sv_kernel_gather, &send->line->gather, stream);
}

selvage_status_t sv_message_unpack_device(selvage_request_t *recv, void *stream)
{
    const sv_message_layout_t *layout = recv->place.layout;
    recv->stamp = ++recv->engine->stamps;
    if (!layout) { /* memory that cannot be shared with a neighbour */
        SV_TRY(SV_DEVICE_CALL(recv->engine->dev, copy_async, recv->place.user, recv->place.data, recv->bytes,
                              SV_COPY_D2D, stream));
        return SV_DEVICE_CALL(recv->engine->dev, signal_async, &recv->line->done, recv->stamp, stream);
    }
    recv->line->scatter = (sv_pull_item_t){.src = recv->place.data, .scratch = recv->scratch, .nslots = 1,
                                           .pieces = layout->pieces, .npieces = layout->npieces,
                                           .identity = {.bytes = recv->bytes}};
    SV_TRY(launch_packing(recv, &sv_kernel_scatter, &recv->line->scatter, stream));
    return SV_DEVICE_CALL(recv->engine->dev, signal_async, &recv->line->done, recv->stamp, stream);
}
