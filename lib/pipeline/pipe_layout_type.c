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

/* One piece as a box; several, which follow each other, as one list: of elements if all runs are of one size. */
static selvage_status_t add_group(const sv_type_map_t *map, const sv_type_piece_t *pieces, size_t npieces,
                                  uint32_t base, sv_layout_t *layout)
{
    uint64_t count = 0, filled = 0;
    bool alike = true;
    if (npieces == 1) {
        sv_pack_shape_t shape = {.base = (uint8_t *)(uintptr_t)pieces->offset, .element_bytes = pieces->run_bytes,
                                 .ndims = pieces->ndims};
        for (uint32_t d = 0; d < pieces->ndims; d++) {
            const sv_type_dim_t *dim = sv_type_piece_dims(map, pieces) + d;
            shape.dim[d] = (sv_pack_dim_t){dim->count, dim->stride_bytes};
        }
        return sv_layout_add_box(layout, base, &shape, SV_LAYOUT_STORE);
    }
    for (size_t i = 0; i < npieces; i++) {
        count += sv_type_piece_runs(map, &pieces[i]);
        alike = alike && pieces[i].run_bytes == pieces[0].run_bytes;
    }
    int64_t *offsets = NULL;
    sv_layout_run_t *runs = NULL;
    if (alike)
        SV_TRY(sv_calloc(count, sizeof *offsets, &offsets));
    else
        SV_TRY(sv_calloc(count, sizeof *runs, &runs));
    for (size_t i = 0; i < npieces; i++)
        for (uint64_t r = 0, n = sv_type_piece_runs(map, &pieces[i]); r < n; r++, filled++) {
            const int64_t offset = sv_type_piece_run_offset(map, &pieces[i], r);
            if (alike)
                offsets[filled] = offset;
            else
                runs[filled] = (sv_layout_run_t){offset, pieces[i].run_bytes};
        }
    selvage_status_t status = alike ? sv_layout_add_list(layout, base, pieces[0].run_bytes, offsets, count,
                                                         SV_LAYOUT_STORE)
                                    : sv_layout_add_runs(layout, base, runs, count);
    sv_free(offsets);
    sv_free(runs);
    return status;
}

selvage_status_t sv_layout_create_type(const sv_type_map_t *map, uint32_t base, sv_layout_t **layout_out)
{
    sv_layout_t *layout;
    SV_TRY(sv_layout_create(SV_LAYOUT_EXACT, &layout));
    const uint64_t box_bytes = choose_box_bytes(map);
    selvage_status_t status = SELVAGE_SUCCESS;
    for (size_t i = 0, n; i < map->npieces && status == SELVAGE_SUCCESS; i += n) {
        const bool is_box = type_piece_bytes(map, &map->pieces[i]) >= box_bytes;
        for (n = 1; !is_box && i + n < map->npieces && type_piece_bytes(map, &map->pieces[i + n]) < box_bytes; n++)
            ;
        status = add_group(map, &map->pieces[i], n, base, layout);
    }
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

/* From offsets to addresses, as the caller has them. */
static selvage_status_t shift_to_addresses(const char *call, const void *buf, sv_type_map_t *map)
{
    if (sv_type_map_shift(map, (int64_t)(intptr_t)buf) != SELVAGE_SUCCESS || map->low < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf: %p and the offsets in type give no addresses", call, buf);
    return SELVAGE_SUCCESS;
}

/* And from there to addresses of the device. Members of a struct may be allocations of their own: then each piece is
   asked about. */
static selvage_status_t admit_type(sv_device_t *dev, const char *call, sv_type_map_t *map)
{
    const size_t bytes = (size_t)(map->high - map->low);
    void *address;
    if (map->npieces <= 1 || sv_memory_kind_is_usable(sv_memory_kind(dev, address_of(map->low), bytes))) {
        SV_TRY(sv_memory_admit(dev, call, address_of(map->low), bytes, &address));
        return sv_type_map_shift(map, (int64_t)(intptr_t)address - map->low);
    }
    for (size_t i = 0; i < map->npieces; i++) {
        int64_t low, high;
        sv_type_piece_bounds(map, &map->pieces[i], &low, &high);
        SV_TRY(sv_memory_admit(dev, call, address_of(low), (size_t)(high - low), &address));
        map->pieces[i].offset += (int64_t)(intptr_t)address - low;
    }
    return SELVAGE_SUCCESS;
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

/*
 * Whether a packet can be bound to other memory: buf says where it lies, and all of it is in one allocation. The
 * map has addresses of the caller's; afterwards, if so, offsets from buf.
 */
static selvage_status_t declare_type(selvage_exchange_t *x, const char *call, const void *buf, sv_type_map_t *map,
                                     uint32_t *base_out)
{
    const int64_t at = (int64_t)(intptr_t)buf;
    const size_t bytes = (size_t)(map->high - map->low);
    void *address;
    *base_out = 0;
    if (!x->rebind.allowed || !buf || map->bytes == 0 ||
        !sv_memory_kind_is_usable(sv_memory_kind(x->comm->dev, address_of(map->low), bytes)))
        return SELVAGE_SUCCESS;
    SV_TRY(sv_memory_admit(x->comm->dev, call, address_of(map->low), bytes, &address));
    const sv_bound_t bound = {.data = buf, .base = (uint8_t *)address - (map->low - at), .low = map->low - at,
                              .high = map->high - at};
    SV_TRY(sv_rebind_declare(x, &bound, base_out));
    return sv_type_map_shift(map, -at);
}

selvage_status_t sv_exchange_add_send_type(selvage_exchange_t *x, const char *call, const void *buf,
                                           sv_type_map_t *map, int peer, int tag, uint32_t *index_out)
{
    sv_layout_t *layout;
    uint32_t base;
    void *first;
    SV_TRY(shift_to_addresses(call, buf, map));
    SV_TRY(declare_type(x, call, buf, map, &base));
    if (base) {
        SV_TRY(sv_layout_create_type(map, base, &layout));
        return sv_rebind_add_send_layout(x, layout, base, peer, tag, index_out);
    }
    if (is_contiguous(map) && (map->bytes == 0 || !x->rebind.allowed)) {
        SV_TRY(admit_contiguous(x->comm->dev, call, map, &first));
        return sv_exchange_add_send(x, first, map->bytes, peer, tag, index_out);
    }
    SV_TRY(admit_type(x->comm->dev, call, map));
    SV_TRY(sv_layout_create_type(map, 0, &layout));
    return sv_exchange_add_send_layout(x, layout, peer, tag, index_out);
}

selvage_status_t sv_exchange_add_recv_type(selvage_exchange_t *x, const char *call, void *buf, sv_type_map_t *map,
                                           int peer, int tag, uint32_t *index_out)
{
    sv_layout_t *layout;
    uint32_t base;
    void *first;
    SV_TRY(shift_to_addresses(call, buf, map));
    if (!is_contiguous(map))
        SV_TRY(sv_layout_check_overlap(call, map));
    SV_TRY(declare_type(x, call, buf, map, &base));
    if (base) {
        SV_TRY(sv_layout_create_type(map, base, &layout));
        return sv_rebind_add_recv_layout(x, layout, base, peer, tag, index_out);
    }
    if (is_contiguous(map) && (map->bytes == 0 || !x->rebind.allowed)) {
        SV_TRY(admit_contiguous(x->comm->dev, call, map, &first));
        return sv_exchange_add_recv(x, first, map->bytes, peer, tag, index_out);
    }
    SV_TRY(admit_type(x->comm->dev, call, map));
    SV_TRY(sv_layout_create_type(map, 0, &layout));
    return sv_exchange_add_recv_layout(x, layout, peer, tag, index_out);
}
