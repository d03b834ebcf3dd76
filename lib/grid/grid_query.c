/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers where blocks lie, which are neighbours, and how much surface there is. A grid does not change once it is
 * made, so any thread may ask. Blocks are numbered like their coordinates, dimension 0 varying fastest.
 */
#include "grid/grid_parts.h"

static void coords_of_block(const selvage_grid_t *grid, int block, int *coords)
{
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        coords[d] = block % grid->blocks[d];
        block /= grid->blocks[d];
    }
}

/* -1 if it lies outside of an open dimension. */
static int block_at(const selvage_grid_t *grid, const int *coords)
{
    int block = 0;
    for (int d = grid->ndims - 1; d >= 0; d--) {
        int c = coords[d], blocks = grid->blocks[d];
        if (c < 0 || c >= blocks) {
            if (!grid->periodic[d])
                return -1;
            c = (c % blocks + blocks) % blocks;
        }
        block = block * blocks + c;
    }
    return block;
}

void sv_grid_coords(const selvage_grid_t *grid, int rank, int *coords)
{
    coords_of_block(grid, grid->block_of_rank ? grid->block_of_rank[rank] : rank, coords);
}

int sv_grid_rank(const selvage_grid_t *grid, const int *coords)
{
    int block = block_at(grid, coords);
    return block >= 0 && grid->rank_of_block ? grid->rank_of_block[block] : block;
}

int sv_grid_faces(const selvage_grid_t *grid, const int *width, int block, sv_grid_face_t *face_out)
{
    int coords[SELVAGE_DIMS_MAX], count = 0;
    coords_of_block(grid, block, coords);
    for (int d = 0; d < grid->ndims; d++) {
        int own = coords[d];
        int64_t cells = 2 * (int64_t)width[d]; /* times the block's cross-section perpendicular to dimension d */
        for (int e = 0; e < grid->ndims; e++)
            if (e != d)
                cells *= sv_grid_extent(grid, e, coords[e]);
        for (int side = -1; side <= 1; side += 2) {
            coords[d] = own + side;
            int other = block_at(grid, coords);
            if (other >= 0 && other != block)
                face_out[count++] = (sv_grid_face_t){other, cells};
        }
        coords[d] = own;
    }
    return count;
}

int64_t sv_grid_surface(const selvage_grid_t *grid, const int *width, const int *group_of_block)
{
    sv_grid_face_t face[2 * SELVAGE_DIMS_MAX];
    int64_t nblocks = 1, cells = 0;
    for (int d = 0; d < grid->ndims; d++)
        nblocks *= grid->blocks[d];
    for (int b = 0; b < nblocks; b++)
        for (int n = sv_grid_faces(grid, width, b, face) - 1; n >= 0; n--)
            if (group_of_block[b] != group_of_block[face[n].block])
                cells += face[n].cells / 2; /* each face is met from both its blocks */
    return cells;
}

/* Whether anything lies beyond the block's lower (side 0) or upper end: a block, maybe itself around a period. */
static bool has_neighbour(const selvage_grid_t *grid, int d, int side)
{
    int c = grid->coords[d] + (side ? 1 : -1);
    return grid->periodic[d] || (c >= 0 && c < grid->blocks[d]);
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

void sv_grid_interior(const selvage_grid_t *grid, const int *width_lo, const int *width_hi, selvage_box_t *box_out)
{
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        int64_t cells = grid->local[d], lo = 0, hi = 0;
        if (d < grid->ndims) {
            lo = has_neighbour(grid, d, 0) ? at_most(width_lo[d], cells) : 0;
            hi = has_neighbour(grid, d, 1) ? at_most(width_hi[d], cells - lo) : 0;
        }
        box_out->first[d] = lo;
        box_out->end[d] = cells - hi;
    }
}

void sv_grid_boundary(const selvage_grid_t *grid, const int *width_lo, const int *width_hi, selvage_box_t *slab_out)
{
    selvage_box_t inner, rest = {.end = {1, 1, 1, 1}};
    sv_grid_interior(grid, width_lo, width_hi, &inner);
    for (int d = 0; d < grid->ndims; d++)
        rest.end[d] = grid->local[d];
    for (int d = 0; d < grid->ndims; d++) {
        slab_out[2 * d] = slab_out[2 * d + 1] = rest;
        slab_out[2 * d].end[d] = inner.first[d];
        slab_out[2 * d + 1].first[d] = inner.end[d];
        rest.first[d] = inner.first[d];
        rest.end[d] = inner.end[d];
    }
}
