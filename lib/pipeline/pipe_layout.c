/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts as they are declared: parts in the order of the stream. Until commit nothing is known of the addresses that
 * bases stand for, so units are chosen there (layout_pieces.c).
 */
#include "pipeline/pipe_layout.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/layout_parts.h"

#define UNITS_LIMIT (UINT64_C(1) << 31)

selvage_status_t sv_layout_create(sv_layout_kind_t kind, sv_layout_t **layout_out)
{
    sv_layout_t *layout;
    SV_TRY(sv_calloc(1, sizeof *layout, &layout));
    layout->kind = kind;
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

void sv_layout_destroy(sv_layout_t *layout)
{
    if (!layout)
        return;
    for (uint32_t i = 0; i < layout->nparts; i++)
        sv_free(layout->part[i].runs);
    sv_free(layout->part);
    sv_free(layout);
}

static selvage_status_t grow_parts(sv_layout_t *layout)
{
    sv_layout_part_t *larger;
    if (layout->nparts < layout->capacity)
        return SELVAGE_SUCCESS;
    uint32_t wanted = layout->capacity ? 2 * layout->capacity : 4;
    SV_TRY(sv_calloc(wanted, sizeof *larger, &larger));
    if (layout->nparts)
        memcpy(larger, layout->part, layout->nparts * sizeof *larger);
    sv_free(layout->part);
    layout->part = larger;
    layout->capacity = wanted;
    return SELVAGE_SUCCESS;
}

/* Takes the part's tables over, also after an error. Parts without bytes leave no trace. */
static selvage_status_t append_part(sv_layout_t *layout, sv_layout_part_t part)
{
    const uint64_t padded = layout->kind == SV_LAYOUT_ALIGNED ? (part.bytes + 15) / 16 * 16 : part.bytes;
    uint64_t end_bytes = 0;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (padded < part.bytes || __builtin_add_overflow(layout->bytes, padded, &end_bytes) || end_bytes > INT64_MAX)
        status = sv_error(SELVAGE_ERR_LIMIT, "a packet of more than 2^63 bytes");
    else if (part.bytes > 0)
        status = grow_parts(layout);
    if (status != SELVAGE_SUCCESS || part.bytes == 0) {
        sv_free(part.runs);
        return status;
    }
    part.first_byte = layout->bytes;
    layout->part[layout->nparts++] = part;
    layout->bytes = end_bytes;
    layout->base_max = part.base > layout->base_max ? part.base : layout->base_max;
    layout->adds |= part.number != SV_LAYOUT_STORE;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layout_add_box(sv_layout_t *layout, uint32_t base, const sv_pack_shape_t *shape,
                                   sv_layout_number_t number)
{
    sv_layout_part_t part = {.kind = SV_LAYOUT_PART_BOX, .base = base, .number = number, .shape = *shape};
    SV_TRY(sv_pack_bytes(shape, &part.bytes));
    return append_part(layout, part);
}

selvage_status_t sv_layout_add_list(sv_layout_t *layout, uint32_t base, uint64_t element_bytes, const int64_t *offsets,
                                    uint64_t count, sv_layout_number_t number)
{
    sv_layout_part_t part = {.kind = SV_LAYOUT_PART_LIST, .base = base, .number = number, .nruns = count,
                             .shape = {.element_bytes = element_bytes}};
    if (__builtin_mul_overflow(element_bytes, count, &part.bytes) || count >= UNITS_LIMIT)
        return sv_error(SELVAGE_ERR_LIMIT, "a list of %llu elements is too long for one packet",
                        (unsigned long long)count);
    SV_TRY(sv_calloc(count ? count : 1, sizeof *part.runs, &part.runs));
    for (uint64_t i = 0; i < count; i++)
        part.runs[i] = (sv_layout_run_t){offsets[i], element_bytes};
    return append_part(layout, part);
}

/* Copies runs; those that continue each other become one, empty ones none. */
static uint64_t merge_runs(sv_layout_run_t *to, uint64_t filled, const sv_layout_run_t *runs, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        sv_layout_run_t *last = filled ? &to[filled - 1] : NULL;
        if (last && runs[i].bytes && last->offset + (int64_t)last->bytes == runs[i].offset)
            last->bytes += runs[i].bytes;
        else if (runs[i].bytes)
            to[filled++] = runs[i];
    }
    return filled;
}

selvage_status_t sv_layout_add_runs(sv_layout_t *layout, uint32_t base, const sv_layout_run_t *runs, uint64_t count)
{
    sv_layout_part_t part = {.kind = SV_LAYOUT_PART_RUNS, .base = base};
    for (uint64_t i = 0; i < count; i++)
        if (__builtin_add_overflow(part.bytes, runs[i].bytes, &part.bytes))
            return sv_error(SELVAGE_ERR_LIMIT, "runs of more than 2^64 bytes");
    SV_TRY(sv_calloc(count ? count : 1, sizeof *part.runs, &part.runs));
    part.nruns = merge_runs(part.runs, 0, runs, count);
    return append_part(layout, part);
}

/* --- an exact stream whose parts begin within a word ----------------------------------------------------- */

static uint64_t count_box_runs(const sv_pack_shape_t *shape)
{
    uint64_t count = 1;
    for (unsigned d = 0; d < shape->ndims; d++)
        count *= shape->dim[d].count;
    return count;
}

/* Writes a part as runs after those that are filled; returns how many there are then. */
static uint64_t expand_part(const sv_layout_part_t *part, sv_layout_run_t *to, uint64_t filled)
{
    const sv_pack_shape_t *shape = &part->shape;
    if (part->kind != SV_LAYOUT_PART_BOX)
        return merge_runs(to, filled, part->runs, part->nruns);
    for (uint64_t e = 0, count = count_box_runs(shape); e < count; e++) {
        uint64_t left = e;
        sv_layout_run_t run = {(int64_t)(uintptr_t)shape->base, shape->element_bytes};
        for (unsigned d = 0; d < shape->ndims; d++) {
            run.offset += (int64_t)(left % shape->dim[d].count) * shape->dim[d].stride_bytes;
            left /= shape->dim[d].count;
        }
        filled = merge_runs(to, filled, &run, 1);
    }
    return filled;
}

/* One part of count parts that follow each other; theirs are left as they are. */
static selvage_status_t join_parts(const sv_layout_part_t *part, uint32_t count, sv_layout_part_t *joined_out)
{
    sv_layout_part_t joined = {.kind = SV_LAYOUT_PART_RUNS, .base = part[0].base, .first_byte = part[0].first_byte};
    uint64_t runs = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (part[i].base != part[0].base || part[i].number != SV_LAYOUT_STORE)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "an exact stream of several bases");
        runs += part[i].kind == SV_LAYOUT_PART_BOX ? count_box_runs(&part[i].shape) : part[i].nruns;
        joined.bytes += part[i].bytes;
    }
    if (runs >= UNITS_LIMIT)
        return sv_error(SELVAGE_ERR_LIMIT, "a packet of %llu runs has too many", (unsigned long long)runs);
    SV_TRY(sv_calloc(runs, sizeof *joined.runs, &joined.runs));
    for (uint32_t i = 0; i < count; i++)
        joined.nruns = expand_part(&part[i], joined.runs, joined.nruns);
    *joined_out = joined;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layout_close(sv_layout_t *layout)
{
    uint32_t kept = 0;
    for (uint32_t first = 0, next; first < layout->nparts; first = next) {
        sv_layout_part_t part = layout->part[first];
        /* Up to the part after those that share a word of the stream with each other. */
        for (next = first + 1; next < layout->nparts && layout->part[next].first_byte % 8 != 0; next++)
            ;
        if (next - first > 1) {
            SV_TRY(join_parts(&layout->part[first], next - first, &part));
            for (uint32_t i = first; i < next; i++)
                sv_free(layout->part[i].runs);
        }
        for (uint32_t i = first; i < next; i++)
            layout->part[i].runs = NULL; /* freed, or the kept part's: what is left behind here owns nothing */
        layout->part[kept++] = part;
    }
    layout->nparts = kept;
    return SELVAGE_SUCCESS;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* Whether a part lies without gaps, and then from where. */
static bool is_one_run(const sv_layout_part_t *part, int64_t *offset)
{
    uint64_t run = part->shape.element_bytes;
    if (part->kind != SV_LAYOUT_PART_BOX) {
        *offset = part->runs[0].offset;
        return part->nruns == 1;
    }
    *offset = (int64_t)(uintptr_t)part->shape.base;
    for (unsigned d = 0; d < part->shape.ndims; d++) {
        const sv_pack_dim_t *dim = &part->shape.dim[d];
        if (dim->count > 1 && (uint64_t)dim->stride_bytes != run)
            return false;
        run *= dim->count;
    }
    return true;
}

bool sv_layout_is_plain(const sv_layout_t *layout, uint32_t *base, int64_t *offset)
{
    int64_t next;
    if (layout->nparts == 0 || layout->adds || !is_one_run(&layout->part[0], offset))
        return false;
    *base = layout->part[0].base;
    uint64_t bytes = layout->part[0].bytes;
    for (uint32_t i = 1; i < layout->nparts; bytes += layout->part[i++].bytes) {
        const sv_layout_part_t *part = &layout->part[i];
        if (part->base != *base || !is_one_run(part, &next) || next != *offset + (int64_t)bytes)
            return false;
    }
    return layout->bytes == bytes;
}

void sv_layout_first(const sv_layout_t *layout, uint32_t *base, int64_t *offset)
{
    *base = layout->part[0].base;
    (void)is_one_run(&layout->part[0], offset);
}

bool sv_layout_is_simple(const sv_layout_t *layout)
{
    bool simple = layout->kind == SV_LAYOUT_ALIGNED;
    for (uint32_t i = 0; i < layout->nparts; i++)
        simple &= layout->part[i].kind != SV_LAYOUT_PART_RUNS && layout->part[i].number == SV_LAYOUT_STORE;
    return simple;
}

uint64_t sv_layout_bytes(const sv_layout_t *layout)
{
    return layout->bytes;
}

uint64_t sv_layout_bytes_contiguous(const sv_layout_t *layout)
{
    uint64_t bytes = 0;
    int64_t offset;
    for (uint32_t i = 0; i < layout->nparts; i++)
        bytes += is_one_run(&layout->part[i], &offset) ? layout->part[i].bytes : 0;
    return bytes;
}

uint32_t sv_layout_base_max(const sv_layout_t *layout)
{
    return layout->base_max;
}
