/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds maps of datatypes. Bounds are kept and checked at every step. So no address and no stride within them can
 * overflow, and no later code needs to look again. Pieces share dimensions: a copy of a piece in the same map points at
 * the dimensions of the first.
 */
#include "wire/wire_type_map.h"

#include <stdbool.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"

/* From how many on runs in a row become a dimension, if others are there besides. */
enum { PROGRESSION_MIN = 8 };
#define PIECES_MAX ((size_t)1 << 30)
/* Bounds stay within 2^62 either way, so that the distance of two offsets is a number as well. */
#define FAR (INT64_C(1) << 62)

void sv_type_map_fini(sv_type_map_t *map)
{
    sv_free(map->pieces);
    sv_free(map->dims);
    *map = (sv_type_map_t){0};
}

void sv_type_map_clear(sv_type_map_t *map)
{
    map->npieces = map->ndims = 0;
    map->bytes = 0;
    map->low = map->high = 0;
}

static selvage_status_t too_far(void)
{
    return sv_error_quiet(SELVAGE_ERR_ARGUMENT, "a displacement or size is beyond 2^62 bytes");
}

static selvage_status_t too_many(void)
{
    return sv_error_quiet(SELVAGE_ERR_LIMIT, "more than %zu pieces that nothing regular describes", PIECES_MAX);
}

/* Grows an array by doubling, to more elements than there are. */
static selvage_status_t grow_array(void *array_ptr, size_t count, size_t *capacity, size_t more, size_t element_bytes)
{
    void **array = array_ptr, *larger;
    if (more <= *capacity - count)
        return SELVAGE_SUCCESS;
    if (more > PIECES_MAX - count)
        return too_many();
    size_t wanted = *capacity * 2 > count + more ? *capacity * 2 : count + more;
    wanted = wanted < 4 ? 4 : wanted;
    SV_TRY(sv_calloc(wanted, element_bytes, &larger));
    if (count)
        memcpy(larger, *array, count * element_bytes);
    sv_free(*array);
    *array = larger;
    *capacity = wanted;
    return SELVAGE_SUCCESS;
}

static selvage_status_t grow_pieces(sv_type_map_t *map, size_t more)
{
    return grow_array(&map->pieces, map->npieces, &map->pieces_room, more, sizeof *map->pieces);
}

static selvage_status_t grow_dims(sv_type_map_t *map, size_t more)
{
    return grow_array(&map->dims, map->ndims, &map->dims_room, more, sizeof *map->dims);
}

/* Sets the sums of a map; nothing is changed on error. */
static selvage_status_t set_bounds(sv_type_map_t *map, uint64_t bytes, int64_t low, int64_t high)
{
    if (bytes > (uint64_t)FAR || low < -FAR || high > FAR)
        return too_far();
    map->bytes = bytes;
    map->low = low;
    map->high = high;
    return SELVAGE_SUCCESS;
}

/* Takes more bytes, between low and high, into the sums. */
static selvage_status_t take_bounds(sv_type_map_t *map, uint64_t bytes, int64_t low, int64_t high)
{
    bool empty = map->bytes == 0;
    return set_bounds(map, map->bytes + bytes, empty || low < map->low ? low : map->low,
                      empty || high > map->high ? high : map->high);
}

/* A piece whose dimensions are in the map already; one that goes on where a run ended makes the run longer. */
static void append_piece(sv_type_map_t *map, const sv_type_piece_t *piece)
{
    sv_type_piece_t *last = map->npieces ? &map->pieces[map->npieces - 1] : NULL;
    if (last && last->ndims == 0 && piece->ndims == 0 && last->offset + (int64_t)last->run_bytes == piece->offset)
        last->run_bytes += piece->run_bytes;
    else
        map->pieces[map->npieces++] = *piece;
}

selvage_status_t sv_type_map_add_run(sv_type_map_t *map, int64_t offset, uint64_t bytes)
{
    int64_t high;
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    if (bytes > (uint64_t)FAR || __builtin_add_overflow(offset, bytes, &high))
        return too_far();
    SV_TRY(grow_pieces(map, 1));
    SV_TRY(take_bounds(map, bytes, offset, high));
    append_piece(map, &(sv_type_piece_t){.offset = offset, .run_bytes = bytes});
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_type_map_add_map(sv_type_map_t *map, const sv_type_map_t *other, int64_t shift)
{
    int64_t low, high;
    if (other->npieces == 0)
        return SELVAGE_SUCCESS;
    if (__builtin_add_overflow(other->low, shift, &low) || __builtin_add_overflow(other->high, shift, &high))
        return too_far();
    SV_TRY(grow_pieces(map, other->npieces));
    SV_TRY(grow_dims(map, other->ndims));
    SV_TRY(take_bounds(map, other->bytes, low, high));
    for (size_t i = 0; i < other->npieces; i++) {
        sv_type_piece_t piece = other->pieces[i];
        piece.offset += shift;
        piece.first_dim += (uint32_t)map->ndims;
        append_piece(map, &piece);
    }
    if (other->ndims)
        memcpy(map->dims + map->ndims, other->dims, other->ndims * sizeof *map->dims);
    map->ndims += other->ndims;
    return SELVAGE_SUCCESS;
}

/* Makes a dimension of count steps around a piece, or lengthens what goes on there. Its dimensions get a new place. */
static selvage_status_t add_dim(sv_type_map_t *map, sv_type_piece_t *piece, uint64_t count, int64_t stride_bytes)
{
    SV_TRY(grow_dims(map, SV_TYPE_DIMS));
    sv_type_dim_t *own = map->dims + map->ndims;
    uint32_t n = piece->ndims;
    if (n == 0 && stride_bytes > 0 && (uint64_t)stride_bytes == piece->run_bytes) {
        piece->run_bytes *= count;
        return SELVAGE_SUCCESS;
    }
    if (n)
        memcpy(own, sv_type_piece_dims(map, piece), n * sizeof *own);
    /* Compared without a sign: the product can pass the end of the numbers, equal it cannot without being right. */
    if (n > 0 && (uint64_t)stride_bytes == (uint64_t)own[n - 1].stride_bytes * own[n - 1].count)
        own[n - 1].count *= count;
    else
        own[n++] = (sv_type_dim_t){count, stride_bytes};
    piece->first_dim = (uint32_t)map->ndims;
    piece->ndims = n;
    map->ndims += n;
    return SELVAGE_SUCCESS;
}

static bool takes_dim(const sv_type_map_t *map, const sv_type_piece_t *piece, int64_t stride_bytes)
{
    if (piece->ndims < SV_TYPE_DIMS)
        return true;
    const sv_type_dim_t *last = sv_type_piece_dims(map, piece) + SV_TYPE_DIMS - 1;
    return (uint64_t)stride_bytes == (uint64_t)last->stride_bytes * last->count;
}

selvage_status_t sv_type_map_repeat(sv_type_map_t *map, uint64_t count, int64_t stride_bytes)
{
    if (count == 0)
        sv_type_map_clear(map);
    if (count <= 1 || map->npieces == 0)
        return SELVAGE_SUCCESS;

    /* The sums of a map that is there count times. */
    int64_t reach, low = map->low, high = map->high;
    uint64_t bytes;
    if (__builtin_mul_overflow(count - 1, stride_bytes, &reach) || __builtin_mul_overflow(map->bytes, count, &bytes) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
        return too_far();
    SV_TRY(set_bounds(map, bytes, low, high));

    /* A single piece gets a dimension more, if it can take one; otherwise the pieces are there count times. */
    if (map->npieces == 1 && takes_dim(map, map->pieces, stride_bytes))
        return add_dim(map, map->pieces, count, stride_bytes);
    const size_t own = map->npieces;
    if (count - 1 > PIECES_MAX / own)
        return too_many();
    SV_TRY(grow_pieces(map, (count - 1) * own));
    sv_type_piece_t *first = map->pieces;
    /* The first copy stays as it is while the others are made: its last run may grow at the seam. */
    sv_type_piece_t last = first[own - 1];
    for (uint64_t step = 1; step < count; step++) {
        for (size_t i = 0; i < own; i++) {
            sv_type_piece_t piece = i == own - 1 ? last : first[i];
            piece.offset += (int64_t)step * stride_bytes;
            append_piece(map, &piece);
        }
    }
    return SELVAGE_SUCCESS;
}

/* How many pieces from this one on are alike and come at one distance. */
static size_t count_progression(const sv_type_map_t *map, size_t first)
{
    const sv_type_piece_t *a = &map->pieces[first];
    size_t n = 1;
    for (; first + n < map->npieces; n++) {
        const sv_type_piece_t *b = a + n;
        if (a->run_bytes != b->run_bytes || a->ndims != b->ndims || b->offset - b[-1].offset != a[1].offset - a->offset)
            break;
        if (a->first_dim != b->first_dim && a->ndims != 0 &&
            memcmp(sv_type_piece_dims(map, a), sv_type_piece_dims(map, b), a->ndims * sizeof *map->dims) != 0)
            break;
    }
    return n;
}

selvage_status_t sv_type_map_compress(sv_type_map_t *map)
{
    size_t kept = 0, n;
    for (size_t i = 0; i < map->npieces; i += n) {
        sv_type_piece_t piece = map->pieces[i];
        n = count_progression(map, i);
        int64_t stride = n > 1 ? map->pieces[i + 1].offset - piece.offset : 0;
        if ((n < PROGRESSION_MIN && n < map->npieces) || n == 1 || !takes_dim(map, &piece, stride))
            n = 1;
        else
            SV_TRY(add_dim(map, &piece, n, stride));
        map->pieces[kept++] = piece;
    }
    map->npieces = kept;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_type_map_shift(sv_type_map_t *map, int64_t shift)
{
    int64_t low, high;
    if (map->npieces == 0)
        return SELVAGE_SUCCESS;
    if (__builtin_add_overflow(map->low, shift, &low) || __builtin_add_overflow(map->high, shift, &high))
        return too_far();
    SV_TRY(set_bounds(map, map->bytes, low, high));
    for (size_t i = 0; i < map->npieces; i++)
        map->pieces[i].offset += shift;
    return SELVAGE_SUCCESS;
}

uint64_t sv_type_piece_runs(const sv_type_map_t *map, const sv_type_piece_t *piece)
{
    uint64_t runs = 1;
    for (uint32_t d = 0; d < piece->ndims; d++)
        runs *= sv_type_piece_dims(map, piece)[d].count;
    return runs;
}

void sv_type_piece_bounds(const sv_type_map_t *map, const sv_type_piece_t *piece, int64_t *low_out, int64_t *high_out)
{
    int64_t low = piece->offset, high = piece->offset + (int64_t)piece->run_bytes;
    for (uint32_t d = 0; d < piece->ndims; d++) {
        const sv_type_dim_t *dim = sv_type_piece_dims(map, piece) + d;
        int64_t reach = (int64_t)(dim->count - 1) * dim->stride_bytes;
        *(reach < 0 ? &low : &high) += reach;
    }
    *low_out = low;
    *high_out = high;
}

int64_t sv_type_piece_run_offset(const sv_type_map_t *map, const sv_type_piece_t *piece, uint64_t run)
{
    int64_t offset = piece->offset;
    for (uint32_t d = 0; d < piece->ndims; d++) {
        const sv_type_dim_t *dim = sv_type_piece_dims(map, piece) + d;
        offset += (int64_t)(run % dim->count) * dim->stride_bytes;
        run /= dim->count;
    }
    return offset;
}
