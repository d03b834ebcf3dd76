/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns a field as the caller describes it into one with every number filled in, and refuses what can be wrong with a
 * single field. Numbers stay below 2^62, so that sums of two offsets cannot overflow anywhere after this file.
 */
#include "grid/halo_plan.h"

#include <stdlib.h>

#include "base/base_status.h"

#define OFFSET_LIMIT (INT64_C(1) << 62)
/* Refuses a field of the caller's, named by its number. */
#define REFUSE(index, format, ...) \
    sv_error(SELVAGE_ERR_ARGUMENT, "fields[%d]: " format, index, __VA_ARGS__)

static selvage_status_t check_field_numbers(const selvage_field_t *given, int index, int ndims)
{
    if (!given->data)
        return REFUSE(index, "%s", "data is NULL");
    if (given->element_bytes == 0 || given->element_bytes >= OFFSET_LIMIT)
        return REFUSE(index, "element_bytes is %zu", given->element_bytes);
    if ((int)given->order < SELVAGE_ORDER_DEFAULT || given->order > SELVAGE_ORDER_FIRST)
        return REFUSE(index, "order is %d; wanted a selvage_order_t", (int)given->order);
    if ((int)given->parity < SELVAGE_PARITY_ALL || given->parity > SELVAGE_PARITY_ODD)
        return REFUSE(index, "parity is %d; wanted a selvage_parity_t", (int)given->parity);
    if ((int)given->number < SELVAGE_NUMBER_NONE || given->number > SELVAGE_NUMBER_INT64)
        return REFUSE(index, "number is %d; wanted a selvage_number_t", (int)given->number);
    if (given->components < 0)
        return REFUSE(index, "components is %d", given->components);
    for (int d = 0; d < ndims; d++) {
        if (given->width_lo[d] < 0)
            return REFUSE(index, "width_lo[%d] is %d", d, given->width_lo[d]);
        if (given->width_hi[d] < 0)
            return REFUSE(index, "width_hi[%d] is %d", d, given->width_hi[d]);
        if (given->stagger[d] != 0 && given->stagger[d] != 1)
            return REFUSE(index, "stagger[%d] is %d; wanted 0 or 1", d, given->stagger[d]);
        if (given->array_extent[d] < 0 || given->array_extent[d] >= OFFSET_LIMIT)
            return REFUSE(index, "array_extent[%d] is %lld", d, (long long)given->array_extent[d]);
    }
    return SELVAGE_SUCCESS;
}

/* The uppermost face of an open dimension belongs to the last block. */
static int64_t own_extent(const selvage_grid_t *grid, int d, int coord, int stagger)
{
    bool has_top = stagger && !grid->periodic[d] && coord == grid->blocks[d] - 1;
    return sv_grid_extent(grid, d, coord) + has_top;
}

/* Where the own cells lie in the array, and that there is room for the halo around them. */
static selvage_status_t place_cells(const selvage_grid_t *grid, const selvage_field_t *given, int index,
                                    sv_halo_field_t *out, int64_t *extent)
{
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        out->own[d] = extent[d] = 1;
        if (d >= grid->ndims)
            continue;
        out->own[d] = own_extent(grid, d, grid->coords[d], given->stagger[d]);
        out->global_first[d] = grid->first[d];
        out->width_lo[d] = given->width_lo[d];
        out->width_hi[d] = given->width_hi[d];
        out->first[d] = given->has_first ? given->first[d] : given->width_lo[d];
        extent[d] = given->array_extent[d] ? given->array_extent[d]
                                           : out->width_lo[d] + out->own[d] + out->width_hi[d];
        if (out->first[d] < out->width_lo[d])
            return REFUSE(index, "first[%d] is %lld, which leaves no room for width_lo[%d], %d cells", d,
                          (long long)out->first[d], d, given->width_lo[d]);
        if (out->first[d] > extent[d] || extent[d] - out->first[d] < out->own[d] + out->width_hi[d])
            return REFUSE(index, "array_extent[%d] is %lld; %lld cells before the first own one, %lld own cells and "
                          "width_hi[%d], %d cells, do not fit", d, (long long)extent[d], (long long)out->first[d],
                          (long long)out->own[d], d, given->width_hi[d]);
    }
    return SELVAGE_SUCCESS;
}

static int fastest_dim(const selvage_field_t *given, int ndims)
{
    return given->order == SELVAGE_ORDER_FIRST ? 0 : ndims - 1;
}

static bool has_strides(const selvage_field_t *given, int ndims)
{
    for (int d = 0; d < ndims; d++)
        if (given->stride_bytes[d] != 0)
            return true;
    return false;
}

/* A field of one parity has half as many places in one dimension: places[] is what extents are in memory. */
static selvage_status_t pack_parity(const selvage_field_t *given, int index, int ndims, sv_halo_field_t *out,
                                    int64_t *places)
{
    int p = given->packed_dim;
    out->packed_dim = -1;
    if (given->parity == SELVAGE_PARITY_ALL)
        return SELVAGE_SUCCESS;
    if (p < 0 || p >= ndims)
        return REFUSE(index, "packed_dim is %d; wanted 0..%d", p, ndims - 1);
    if (!has_strides(given, ndims) && p != fastest_dim(given, ndims))
        return REFUSE(index, "packed_dim is %d; wanted %d, the fastest dimension", p, fastest_dim(given, ndims));
    if (places[p] % 2 != 0)
        return REFUSE(index, "array_extent[%d] is %lld; wanted an even number in packed_dim of a field of one parity",
                      p, (long long)places[p]);
    places[p] /= 2;
    out->packed_dim = p;
    return SELVAGE_SUCCESS;
}

/* The strides of all axes: the caller's, or those of an array without gaps. Refuses what no memory can hold. */
static selvage_status_t find_strides(const selvage_field_t *given, int index, int ndims, const int64_t *places,
                                     sv_halo_field_t *out)
{
    const bool is_given = has_strides(given, ndims);
    /* Bytes of the whole array without gaps; with the caller's strides, what the slowest dimension spans. */
    int64_t array_bytes = (int64_t)given->element_bytes, all_bytes;
    bool fits = true;
    for (int i = 0; i < ndims && fits; i++) {
        const int d = is_given || given->order == SELVAGE_ORDER_FIRST ? i : ndims - 1 - i;
        int64_t bytes = 0;
        out->stride[d] = is_given ? given->stride_bytes[d] : array_bytes;
        fits = out->stride[d] > -OFFSET_LIMIT && !__builtin_mul_overflow(llabs(out->stride[d]), places[d], &bytes) &&
               bytes < (is_given ? OFFSET_LIMIT / SV_HALO_AXES_MAX : OFFSET_LIMIT);
        if (fits && (!is_given || bytes > array_bytes))
            array_bytes = bytes;
    }
    if (!fits)
        return REFUSE(index, "%s: an array of more bytes than memory can have",
                      is_given ? "stride_bytes" : "array_extent");
    out->components = given->components ? given->components : 1;
    out->component_stride = given->component_stride_bytes ? given->component_stride_bytes : array_bytes;
    if (out->component_stride <= -OFFSET_LIMIT ||
        __builtin_mul_overflow(llabs(out->component_stride), out->components, &all_bytes) ||
        all_bytes >= OFFSET_LIMIT)
        return REFUSE(index, "component_stride_bytes is %lld, with %lld components more than memory can have",
                      (long long)out->component_stride, (long long)out->components);
    return SELVAGE_SUCCESS;
}

int64_t sv_halo_places(const sv_halo_field_t *field, int axis, int64_t *first_out)
{
    *first_out = 0;
    if (axis == field->ndims)
        return field->components;
    int64_t from = field->first[axis] - field->width_lo[axis];
    int64_t end = field->first[axis] + field->own[axis] + field->width_hi[axis];
    bool packed = axis == field->packed_dim;
    *first_out = packed ? from / 2 : from;
    return packed ? (end - 1) / 2 - from / 2 + 1 : end - from;
}

static bool is_single(const sv_halo_field_t *field, int axis)
{
    int64_t first;
    return sv_halo_places(field, axis, &first) == 1;
}

static int64_t stride_of(const sv_halo_field_t *f, int axis)
{
    return llabs(axis == f->ndims ? f->component_stride : f->stride[axis]);
}

/* By which axes are ordered. The packed dimension stays before the others also where it has no stride to speak of. */
static int64_t slowness_of(const sv_halo_field_t *f, int axis)
{
    return axis == f->packed_dim && is_single(f, axis) ? 0 : stride_of(f, axis);
}

/* Whether axis a is slower than b. Equal ones, of which one has a single place, are ordered as the array is, so that
   ranks with thin blocks come to the same as the others. */
static bool is_slower(const sv_halo_field_t *f, int a, int b)
{
    if (slowness_of(f, a) != slowness_of(f, b))
        return slowness_of(f, a) > slowness_of(f, b);
    if (a == f->ndims || b == f->ndims)
        return a == f->ndims;
    return f->first_is_fastest ? a > b : a < b;
}

void sv_halo_axes_by_stride(sv_halo_field_t *field)
{
    for (int i = 0; i <= field->ndims; i++) {
        int at = i;
        for (; at > 0 && is_slower(field, field->axis[at - 1], i); at--)
            field->axis[at] = field->axis[at - 1];
        field->axis[at] = (uint8_t)i;
    }
}

void sv_halo_axes_by_number(sv_halo_field_t *field)
{
    int at = 0;
    if (field->packed_dim >= 0)
        field->axis[at++] = (uint8_t)field->packed_dim;
    for (int d = field->ndims - 1; d >= 0; d--)
        if (d != field->packed_dim)
            field->axis[at++] = (uint8_t)d;
    field->axis[at] = (uint8_t)field->ndims;
}

/* Every step of an axis must leave what the faster ones span. Needs axes by stride. */
static selvage_status_t check_strides(const sv_halo_field_t *f, int index)
{
    int64_t span = (int64_t)f->element_bytes;
    for (int i = 0; i <= f->ndims; i++) {
        int axis = f->axis[i];
        int64_t first, places = sv_halo_places(f, axis, &first), stride = stride_of(f, axis);
        if (places == 1)
            continue;
        if (stride < span && axis == f->ndims)
            return REFUSE(index, "component_stride_bytes is %lld: elements would overlap, faster ones span %lld bytes",
                          (long long)f->component_stride, (long long)span);
        if (stride < span)
            return REFUSE(index, "stride_bytes[%d] is %lld: elements would overlap, faster ones span %lld bytes", axis,
                          (long long)f->stride[axis], (long long)span);
        span += (places - 1) * stride;
    }
    for (int d = 0; d < f->ndims && f->packed_dim >= 0; d++)
        if (stride_of(f, d) < slowness_of(f, f->packed_dim) && !is_single(f, d))
            return REFUSE(index, "packed_dim is %d, but stride_bytes[%d] is smaller: wanted the fastest dimension",
                          f->packed_dim, d);
    return SELVAGE_SUCCESS;
}

/* Numbers to be added lie where the device can load them. */
static selvage_status_t check_number(const sv_halo_field_t *f, int index)
{
    uint64_t bytes = f->number == SELVAGE_NUMBER_FLOAT64 || f->number == SELVAGE_NUMBER_INT64 ? 8 : 4;
    uint64_t bits = (uintptr_t)f->data | (uint64_t)f->component_stride;
    if (f->number == SELVAGE_NUMBER_NONE)
        return SELVAGE_SUCCESS;
    for (int d = 0; d < f->ndims; d++)
        bits |= (uint64_t)f->stride[d];
    if (f->element_bytes % bytes != 0)
        return REFUSE(index, "element_bytes is %llu, no multiple of its numbers' %llu",
                      (unsigned long long)f->element_bytes, (unsigned long long)bytes);
    if (bits % bytes != 0)
        return REFUSE(index, "data or a stride is no multiple of its numbers' %llu bytes", (unsigned long long)bytes);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_halo_resolve(const selvage_grid_t *grid, const selvage_field_t *given, int index,
                                 sv_halo_field_t *out)
{
    sv_halo_field_t field = {.data = given->data, .element_bytes = given->element_bytes, .ndims = grid->ndims,
                             .parity = given->parity, .number = given->number,
                             .first_is_fastest = given->order == SELVAGE_ORDER_FIRST};
    int64_t places[SELVAGE_DIMS_MAX];
    SV_TRY(check_field_numbers(given, index, grid->ndims));
    SV_TRY(place_cells(grid, given, index, &field, places));
    SV_TRY(pack_parity(given, index, grid->ndims, &field, places));
    SV_TRY(find_strides(given, index, grid->ndims, places, &field));
    sv_halo_axes_by_stride(&field);
    SV_TRY(check_strides(&field, index));
    SV_TRY(check_number(&field, index));
    *out = field;
    return SELVAGE_SUCCESS;
}

/* Block c of dimension d fills one side of a neighbour's halo, which is width cells wide. */
static selvage_status_t check_block(const selvage_grid_t *grid, int index, int d, int c, int stagger, int64_t width,
                                    const char *member)
{
    int64_t own = own_extent(grid, d, c, stagger);
    if (width > own)
        return REFUSE(index, "%s[%d] is %lld, wider than the %lld cells of block %d of dimension %d, its owner", member,
                      d, (long long)width, (long long)own, c, d);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_halo_check_widths(const selvage_grid_t *grid, const sv_halo_field_t *field, int index,
                                      const int *stagger, const sv_halo_directions_t *directions)
{
    for (int d = 0; d < grid->ndims; d++) {
        bool moves = false, wraps = grid->periodic[d];
        for (int i = 0; i < directions->count; i++)
            moves = moves || directions->step[i][d] != 0;
        for (int c = 0; moves && c < grid->blocks[d]; c++) {
            if (wraps || c + 1 < grid->blocks[d])
                SV_TRY(check_block(grid, index, d, c, stagger[d], field->width_lo[d], "width_lo"));
            if (wraps || c > 0)
                SV_TRY(check_block(grid, index, d, c, stagger[d], field->width_hi[d], "width_hi"));
        }
        if (moves && wraps && field->parity != SELVAGE_PARITY_ALL && grid->global[d] % 2 != 0 &&
            field->width_lo[d] + field->width_hi[d] > 0)
            return REFUSE(index, "parity: the grid has %lld cells in dimension %d, which is periodic: across its end "
                          "parities would not alternate; wanted an even number", (long long)grid->global[d], d);
    }
    return SELVAGE_SUCCESS;
}
