/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the pieces of a map overlap. Pieces whose bounds are apart are; where bounds meet, boxes that have their
 * widest stride and its count in common, and all of whose first steps fit into one such stride, overlap if and only if
 * the first steps do: so that dimension is taken off, and the rest looked at again. What is left when that does not
 * help is sorted run by run, which takes memory for each of them.
 *
 *   two boxes, one stride:   AA.B...AA.B...AA.B...     first steps AA.B are shorter than the stride: compare those
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/base_memory.h"
#include "pipeline/pipe_layout_type.h"

/* Bytes low to high - 1 begin and end a piece; strides are positive here, the widest first. */
typedef struct box {
    int64_t low, high;
    uint64_t run_bytes;
    uint32_t ndims;
    sv_type_dim_t dim[SV_TYPE_DIMS];
} box_t;

/* Bounds of a piece, or a run. First member as box_t has it, so that one comparison serves both. */
typedef struct span {
    int64_t low, high;
    size_t piece;
} span_t;

static int compare_low(const void *a, const void *b)
{
    int64_t low_a = *(const int64_t *)a, low_b = *(const int64_t *)b;
    return low_a < low_b ? -1 : low_a > low_b;
}

/* By their lowest bytes. Most lists are in order already. */
static void sort_by_low(void *array, size_t count, size_t element_bytes)
{
    const char *at = array;
    size_t n = 1;
    while (n < count && compare_low(at + (n - 1) * element_bytes, at + n * element_bytes) <= 0)
        n++;
    if (n < count)
        qsort(array, count, element_bytes, compare_low);
}

static int compare_wider(const void *a, const void *b)
{
    return compare_low(&((const sv_type_dim_t *)b)->stride_bytes, &((const sv_type_dim_t *)a)->stride_bytes);
}

static box_t overlap_box_of(const sv_type_map_t *map, const sv_type_piece_t *piece)
{
    box_t box = {.run_bytes = piece->run_bytes, .ndims = piece->ndims};
    sv_type_piece_bounds(map, piece, &box.low, &box.high);
    for (uint32_t d = 0; d < piece->ndims; d++) {
        box.dim[d] = sv_type_piece_dims(map, piece)[d];
        if (box.dim[d].stride_bytes < 0)
            box.dim[d].stride_bytes = -box.dim[d].stride_bytes;
    }
    qsort(box.dim, box.ndims, sizeof box.dim[0], compare_wider);
    return box;
}

static uint64_t runs_of(const box_t *box)
{
    uint64_t runs = 1;
    for (uint32_t d = 0; d < box->ndims; d++)
        runs *= box->dim[d].count;
    return runs;
}

/* Writes every run of a box after at, almost in their order in memory; returns the end. */
static span_t *write_overlap_runs(const box_t *box, span_t *at)
{
    const uint64_t runs = runs_of(box);
    for (uint64_t r = 0; r < runs; r++) {
        int64_t low = box->low;
        uint64_t left = r;
        for (uint32_t d = box->ndims; d-- > 0; left /= box->dim[d].count)
            low += (int64_t)(left % box->dim[d].count) * box->dim[d].stride_bytes;
        *at++ = (span_t){.low = low, .high = low + (int64_t)box->run_bytes};
    }
    return at;
}

static selvage_status_t compare_runs(const box_t *boxes, size_t count, bool *overlap)
{
    span_t *runs, *end;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += runs_of(&boxes[i]);
    SV_TRY(sv_calloc(total, sizeof *runs, &runs));
    end = runs;
    for (size_t i = 0; i < count; i++)
        end = write_overlap_runs(&boxes[i], end);
    sort_by_low(runs, total, sizeof *runs);
    for (const span_t *run = runs; run + 1 < end && !*overlap; run++)
        *overlap = run->high > run[1].low;
    sv_free(runs);
    return SELVAGE_SUCCESS;
}

/* Takes the widest dimension off all boxes, if they have it in common and it cannot make them overlap. */
static bool peel_dimension(box_t *boxes, size_t count)
{
    const sv_type_dim_t top = boxes[0].dim[0];
    int64_t high = INT64_MIN, reach = (int64_t)(top.count - 1) * top.stride_bytes;
    for (size_t i = 0; i < count; i++) {
        const box_t *box = &boxes[i];
        if (box->ndims == 0 || box->dim[0].count != top.count || box->dim[0].stride_bytes != top.stride_bytes)
            return false;
        high = box->high - reach > high ? box->high - reach : high;
    }
    if (high - boxes[0].low > top.stride_bytes)
        return false;
    for (size_t i = 0; i < count; i++) {
        box_t *box = &boxes[i];
        box->high -= reach;
        box->ndims--;
        for (uint32_t d = 0; d < box->ndims; d++)
            box->dim[d] = box->dim[d + 1];
    }
    return true;
}

static selvage_status_t compare_overlap_boxes(box_t *boxes, size_t count, bool *overlap);

/* Boxes that hang together, in the order of their lowest bytes. */
static selvage_status_t compare_cluster(box_t *boxes, size_t count, bool *overlap)
{
    if (count == 1 && boxes[0].ndims == 0)
        return SELVAGE_SUCCESS;
    return peel_dimension(boxes, count) ? compare_overlap_boxes(boxes, count, overlap)
                                        : compare_runs(boxes, count, overlap);
}

static selvage_status_t compare_overlap_boxes(box_t *boxes, size_t count, bool *overlap)
{
    size_t n;
    sort_by_low(boxes, count, sizeof *boxes);
    for (size_t i = 0; i < count && !*overlap; i += n) {
        int64_t high = boxes[i].high;
        for (n = 1; i + n < count && boxes[i + n].low < high; n++)
            high = boxes[i + n].high > high ? boxes[i + n].high : high;
        SV_TRY(compare_cluster(&boxes[i], n, overlap));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t compare_pieces(const sv_type_map_t *map, const span_t *spans, size_t count, bool *overlap)
{
    box_t *boxes;
    SV_TRY(sv_calloc(count, sizeof *boxes, &boxes));
    for (size_t i = 0; i < count; i++) {
        boxes[i] = overlap_box_of(map, &map->pieces[spans[i].piece]);
        /* A step that is shorter than a run is the usual mistake, and seen without any sorting. */
        const uint32_t ndims = boxes[i].ndims;
        *overlap |= ndims > 0 && (uint64_t)boxes[i].dim[ndims - 1].stride_bytes < boxes[i].run_bytes;
    }
    selvage_status_t status = *overlap ? SELVAGE_SUCCESS : compare_cluster(boxes, count, overlap);
    sv_free(boxes);
    return status;
}

selvage_status_t sv_layout_check_overlap(const char *call, const sv_type_map_t *map)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    bool overlap = false;
    span_t *spans;
    SV_TRY(sv_calloc(map->npieces, sizeof *spans, &spans));
    for (size_t i = 0; i < map->npieces; i++) {
        spans[i].piece = i;
        sv_type_piece_bounds(map, &map->pieces[i], &spans[i].low, &spans[i].high);
    }
    sort_by_low(spans, map->npieces, sizeof *spans);
    /* As compare_overlap_boxes(), with what takes less memory: of most maps no two pieces ever meet. */
    for (size_t i = 0, n; i < map->npieces && !overlap && status == SELVAGE_SUCCESS; i += n) {
        int64_t high = spans[i].high;
        for (n = 1; i + n < map->npieces && spans[i + n].low < high; n++)
            high = spans[i + n].high > high ? spans[i + n].high : high;
        if (n > 1 || map->pieces[spans[i].piece].ndims > 0)
            status = compare_pieces(map, &spans[i], n, &overlap);
    }
    sv_free(spans);
    if (status == SELVAGE_SUCCESS && overlap)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: type: elements overlap; a receive would write there twice", call);
    return status;
}
