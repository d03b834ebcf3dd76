/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the map of a datatype to pieces of a layout. Large pieces of the map become boxes; what lies between two of them
 * becomes one list, of elements if all runs are of one size, so that there are never many pieces: kernels look at each.
 */
#include "pipeline/pipe_layout_type.h"

#include <stdbool.h>

#include "base/base_memory.h"
#include "host/memory_kind.h"

/* Pieces of so many bytes are boxes of their own, unless there are more than so many of them. */
enum { BOX_BYTES = 4096, BOXES_MAX = 64 };

static uint64_t type_piece_bytes(const sv_type_map_t *map, const sv_type_piece_t *piece)
{
    return piece->run_bytes * sv_type_piece_runs(map, piece);
}

/* From how many bytes on pieces are boxes, so that not too many are. */
static uint64_t choose_box_bytes(const sv_type_map_t *map)
{
    uint64_t bytes = BOX_BYTES;
    size_t boxes = BOXES_MAX + 1;
    while (boxes > BOXES_MAX) {
        boxes = 0;
        for (size_t i = 0; i < map->npieces; i++)
            boxes += type_piece_bytes(map, &map->pieces[i]) >= bytes;
        bytes *= boxes > BOXES_MAX ? 4 : 1;
    }
    return bytes;
}

static selvage_status_t add_type_box(const sv_type_map_t *map, const sv_type_piece_t *piece, sv_layout_t *layout)
{
    sv_pack_shape_t shape = {.base = (uint8_t *)(uintptr_t)piece->offset, .element_bytes = piece->run_bytes,
                             .ndims = piece->ndims};
    for (uint32_t d = 0; d < piece->ndims; d++) {
        const sv_type_dim_t *dim = sv_type_piece_dims(map, piece) + d;
        shape.dim[d] = (sv_pack_dim_t){dim->count, dim->stride_bytes};
    }
    return sv_layout_add_box(layout, 0, &shape, SV_LAYOUT_STORE);
}

static selvage_status_t add_elements(const sv_type_map_t *map, const sv_type_piece_t *pieces, size_t npieces,
                                     uint64_t runs, sv_layout_t *layout)
{
    int64_t *offsets, *at;
    SV_TRY(sv_calloc(runs, sizeof *offsets, &offsets));
    at = offsets;
    for (size_t i = 0; i < npieces; i++)
        for (uint64_t r = 0, n = sv_type_piece_runs(map, &pieces[i]); r < n; r++)
            *at++ = sv_type_piece_run_offset(map, &pieces[i], r);
    selvage_status_t status = sv_layout_add_list(layout, 0, pieces[0].run_bytes, offsets, runs, SV_LAYOUT_STORE);
    sv_free(offsets);
    return status;
}

static selvage_status_t add_runs(const sv_type_map_t *map, const sv_type_piece_t *pieces, size_t npieces, uint64_t runs,
                                 sv_layout_t *layout)
{
    sv_layout_run_t *all, *at;
    SV_TRY(sv_calloc(runs, sizeof *all, &all));
    at = all;
    for (size_t i = 0; i < npieces; i++)
        for (uint64_t r = 0, n = sv_type_piece_runs(map, &pieces[i]); r < n; r++)
            *at++ = (sv_layout_run_t){sv_type_piece_run_offset(map, &pieces[i], r), pieces[i].run_bytes};
    selvage_status_t status = sv_layout_add_runs(layout, 0, all, runs);
    sv_free(all);
    return status;
}

static selvage_status_t add_group(const sv_type_map_t *map, const sv_type_piece_t *pieces, size_t npieces,
                                  sv_layout_t *layout)
{
    uint64_t runs = 0;
    bool alike = true;
    if (npieces == 1)
        return add_type_box(map, pieces, layout);
    for (size_t i = 0; i < npieces; i++) {
        runs += sv_type_piece_runs(map, &pieces[i]);
        alike = alike && pieces[i].run_bytes == pieces[0].run_bytes;
    }
    return alike ? add_elements(map, pieces, npieces, runs, layout) : add_runs(map, pieces, npieces, runs, layout);
}

static selvage_status_t add_type_pieces(const sv_type_map_t *map, sv_layout_t *layout)
{
    const uint64_t box_bytes = choose_box_bytes(map);
    size_t n;
    for (size_t i = 0; i < map->npieces; i += n) {
        bool is_box = type_piece_bytes(map, &map->pieces[i]) >= box_bytes;
        for (n = 1; !is_box && i + n < map->npieces && type_piece_bytes(map, &map->pieces[i + n]) < box_bytes; n++)
            ;
        SV_TRY(add_group(map, &map->pieces[i], n, layout));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layout_create_type(const sv_type_map_t *map, sv_layout_t **layout_out)
{
    sv_layout_t *layout;
    SV_TRY(sv_layout_create(SV_LAYOUT_EXACT, &layout));
    selvage_status_t status = add_type_pieces(map, layout);
    if (status != SELVAGE_SUCCESS) {
        sv_layout_destroy(layout);
        return status;
    }
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

static void *address_of(int64_t offset)
{
    return (void *)(uintptr_t)offset;
}

/* Members of a struct may be allocations of their own: each piece is asked about. */
static selvage_status_t admit_pieces(sv_device_t *dev, const char *call, sv_type_map_t *map)
{
    for (size_t i = 0; i < map->npieces; i++) {
        int64_t low, high;
        void *address;
        sv_type_piece_bounds(map, &map->pieces[i], &low, &high);
        SV_TRY(sv_memory_admit(dev, call, address_of(low), (size_t)(high - low), &address));
        map->pieces[i].offset += (int64_t)(intptr_t)address - low;
    }
    return SELVAGE_SUCCESS;
}

/* From offsets to addresses, as the caller has them. */
static selvage_status_t shift_to_addresses(const char *call, const void *buf, sv_type_map_t *map)
{
    if (sv_type_map_shift(map, (int64_t)(intptr_t)buf) != SELVAGE_SUCCESS || map->low < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf: %p and the offsets in type give no addresses", call, buf);
    return SELVAGE_SUCCESS;
}

/* And from there to addresses of the device. */
static selvage_status_t admit_type(sv_device_t *dev, const char *call, sv_type_map_t *map)
{
    const size_t bytes = (size_t)(map->high - map->low);
    void *address;
    if (map->npieces > 1 && !sv_memory_kind_is_usable(sv_memory_kind(dev, address_of(map->low), bytes)))
        return admit_pieces(dev, call, map);
    SV_TRY(sv_memory_admit(dev, call, address_of(map->low), bytes, &address));
    return sv_type_map_shift(map, (int64_t)(intptr_t)address - map->low);
}

/* A packet without gaps, which is admitted where it is added; here only so that the refusal names this call. */
static bool is_contiguous(const sv_type_map_t *map)
{
    return map->npieces == 0 || (map->npieces == 1 && map->pieces[0].ndims == 0);
}

static selvage_status_t admit_contiguous(sv_device_t *dev, const char *call, const sv_type_map_t *map, void **first_out)
{
    void *address;
    *first_out = map->npieces ? address_of(map->pieces[0].offset) : NULL;
    return sv_memory_admit(dev, call, *first_out, map->bytes, &address);
}

selvage_status_t sv_exchange_add_send_type(selvage_exchange_t *x, const char *call, const void *buf,
                                           sv_type_map_t *map, int peer, int tag, uint32_t *index_out)
{
    sv_layout_t *layout;
    void *first;
    SV_TRY(shift_to_addresses(call, buf, map));
    if (is_contiguous(map)) {
        SV_TRY(admit_contiguous(x->comm->dev, call, map, &first));
        return sv_exchange_add_send(x, first, map->bytes, peer, tag, index_out);
    }
    SV_TRY(admit_type(x->comm->dev, call, map));
    SV_TRY(sv_layout_create_type(map, &layout));
    return sv_exchange_add_send_layout(x, layout, peer, tag, index_out);
}

selvage_status_t sv_exchange_add_recv_type(selvage_exchange_t *x, const char *call, void *buf, sv_type_map_t *map,
                                           int peer, int tag, uint32_t *index_out)
{
    sv_layout_t *layout;
    void *first;
    SV_TRY(shift_to_addresses(call, buf, map));
    if (is_contiguous(map)) {
        SV_TRY(admit_contiguous(x->comm->dev, call, map, &first));
        return sv_exchange_add_recv(x, first, map->bytes, peer, tag, index_out);
    }
    SV_TRY(sv_layout_check_overlap(call, map));
    SV_TRY(admit_type(x->comm->dev, call, map));
    SV_TRY(sv_layout_create_type(map, &layout));
    return sv_exchange_add_recv_layout(x, layout, peer, tag, index_out);
}
