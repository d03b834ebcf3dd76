/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a box is cut into units for the kernels. Dimensions that continue each other are merged, so that a box whose rows
 * touch becomes one long row. The unit is the largest power of two, up to 16, that divides every address.
 *
 * The kernels find the place of a unit without a division. For numbers n below 2^31 and a divisor d with 2^(l-1) < d <=
 * 2^l, n / d is exactly the upper word of n * ceil(2^(31+l) / d), shifted right by l - 1.
 */
#include "kernels/pack_plan.h"

#include <stdbool.h>

#include "base/base_status.h"

enum { GRANULE_MAX = 16, DIMS_MAX = SV_PACK_DIMS + 1 };
#define UNITS_LIMIT (UINT64_C(1) << 31)

/* A box after merging: runs of bytes without gaps, and the dimensions above, none of which has one step only. */
typedef struct box {
    uint64_t run_bytes;
    unsigned ndims;
    sv_pack_dim_t dim[DIMS_MAX];
} box_t;

selvage_status_t sv_pack_bytes(const sv_pack_shape_t *shape, uint64_t *bytes_out)
{
    uint64_t bytes = shape->element_bytes;
    bool empty = bytes == 0, overflow = false;

    if (shape->ndims > SV_PACK_DIMS)
        return sv_error(SELVAGE_ERR_ARGUMENT, "a box of %u dimensions; at most %d", shape->ndims, SV_PACK_DIMS);
    for (unsigned d = 0; d < shape->ndims; d++) {
        empty = empty || shape->dim[d].count == 0;
        overflow = __builtin_mul_overflow(bytes, shape->dim[d].count, &bytes) || overflow;
    }
    if (overflow && !empty)
        return sv_error(SELVAGE_ERR_ARGUMENT, "a box of more than 2^64 bytes");
    *bytes_out = empty ? 0 : bytes;
    return SELVAGE_SUCCESS;
}

/* Whether dimension next goes on where the box, as far as it is merged, ends. */
static bool continues_box(const box_t *box, const sv_pack_dim_t *next)
{
    if (next->stride_bytes == 0)
        return false;
    if (box->ndims == 0)
        return (uint64_t)next->stride_bytes == box->run_bytes;
    const sv_pack_dim_t *last = &box->dim[box->ndims - 1];
    return (uint64_t)next->stride_bytes == (uint64_t)last->stride_bytes * last->count;
}

static box_t merge_dims(const sv_pack_shape_t *shape)
{
    box_t box = {.run_bytes = shape->element_bytes};

    for (unsigned d = 0; d < shape->ndims; d++) {
        const sv_pack_dim_t *dim = &shape->dim[d];
        if (dim->count == 1)
            continue;
        if (!continues_box(&box, dim))
            box.dim[box.ndims++] = *dim;
        else if (box.ndims == 0)
            box.run_bytes *= dim->count;
        else
            box.dim[box.ndims - 1].count *= dim->count;
    }
    return box;
}

static uint32_t choose_granule(const box_t *box, const sv_pack_shape_t *shape, const uint8_t *packed, uint64_t offset,
                               uint64_t bytes)
{
    uint64_t bits = GRANULE_MAX | box->run_bytes | (uintptr_t)shape->base;

    for (unsigned d = 0; d < box->ndims; d++)
        bits |= (uint64_t)box->dim[d].stride_bytes;
    uint32_t granule = (uint32_t)(bits & -bits);
    /* Only units of 16 bytes have to be aligned in the stream as well: smaller ones are put together to words. */
    bool pairs = (((uintptr_t)packed | offset | bytes) & 15) == 0;
    return granule == GRANULE_MAX && !pairs ? GRANULE_MAX / 2 : granule;
}

sv_pack_level_t sv_pack_level(const sv_pack_dim_t *dim, uint8_t *shift_out)
{
    uint32_t log = 1;

    while (UINT64_C(1) << log < dim->count)
        log++;
    uint64_t power = UINT64_C(1) << (31 + log);
    *shift_out = (uint8_t)(log - 1);
    return (sv_pack_level_t){.stride = dim->stride_bytes, .count = (uint32_t)dim->count,
                             .magic = (uint32_t)((power + dim->count - 1) / dim->count)};
}

/*
 * All dimensions but the highest become levels. Whole steps of the highest before the part are taken by the base, so
 * that numbers stay small in large boxes. False if they do not.
 */
static bool fill_levels(sv_pack_arg_t *arg, const box_t *box, uint64_t first, uint64_t units)
{
    const sv_pack_dim_t none = {1, 0}, *top = box->ndims > 0 ? &box->dim[box->ndims - 1] : &none;
    uint64_t slab = 1;

    arg->levels = box->ndims > 0 ? box->ndims - 1 : 0;
    for (unsigned l = 0; l < arg->levels; l++) {
        if (box->dim[l].count >= UNITS_LIMIT)
            return false;
        arg->level[l] = sv_pack_level(&box->dim[l], &arg->shift[l]);
        slab *= box->dim[l].count;
    }
    const uint64_t steps = first / slab;
    arg->top_stride = top->stride_bytes;
    if (arg->box)
        arg->box = (uint8_t *)((uintptr_t)arg->box + steps * (uint64_t)top->stride_bytes);
    if (first % slab + units > UNITS_LIMIT)
        return false;
    arg->first_unit = (uint32_t)(first % slab);
    return true;
}

selvage_status_t sv_pack_plan(const sv_pack_shape_t *shape, uint8_t *packed, uint64_t offset, uint64_t bytes,
                              sv_pack_arg_t *arg)
{
    uint64_t total;
    SV_TRY(sv_pack_bytes(shape, &total));
    if (offset % 8 != 0 || offset > total || bytes > total - offset || (bytes % 8 != 0 && bytes != total - offset))
        return sv_error(SELVAGE_ERR_ARGUMENT, "bytes %llu to %llu of %llu are no part of a packed box",
                        (unsigned long long)offset, (unsigned long long)(offset + bytes), (unsigned long long)total);
    box_t box = bytes > 0 ? merge_dims(shape) : (box_t){.run_bytes = 1};
    uint32_t granule = bytes > 0 ? choose_granule(&box, shape, packed, offset, bytes) : 1;
    sv_pack_arg_t filled = *arg;

    if (box.run_bytes != granule) { /* runs of several units become the lowest dimension */
        for (unsigned d = box.ndims++; d > 0; d--)
            box.dim[d] = box.dim[d - 1];
        box.dim[0] = (sv_pack_dim_t){box.run_bytes / granule, granule};
    }
    filled.box = shape->base;
    filled.packed = packed;
    filled.bytes = bytes;
    filled.granule = granule;
    filled.first_word = offset / 8;
    if (!fill_levels(&filled, &box, offset / granule, bytes / granule))
        return sv_error(SELVAGE_ERR_LIMIT, "a box of %llu bytes in units of %u has too many of them for one pass",
                        (unsigned long long)bytes, granule);
    /* A single row is as long as the part: the base has moved to its beginning. */
    bool in_runs = box.ndims > 0 && box.dim[0].stride_bytes == (int64_t)granule;
    uint64_t run = !in_runs ? 0 : filled.levels == 0 ? UNITS_LIMIT - 1 : box.dim[0].count;
    filled.run_units = (uint32_t)run;
    *arg = filled;
    return SELVAGE_SUCCESS;
}
