/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decomposed grid inside the library. Blocks are numbered like their coordinates with dimension 0 varying fastest.
 * Immutable once made, so any thread may read. O(P) only in the two maps, which are NULL where block b is rank b.
 */
#ifndef SV_GRID_BLOCKS_H
#define SV_GRID_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include <selvage/grid.h>

struct selvage_grid {
    selvage_comm_t *comm;
    int ndims;
    int64_t global[SELVAGE_DIMS_MAX];    /* 1 above ndims, as blocks, local and coords 0 */
    bool periodic[SELVAGE_DIMS_MAX];
    int blocks[SELVAGE_DIMS_MAX];
    int64_t *start[SELVAGE_DIMS_MAX];    /* blocks[d] + 1 numbers: first cell of every block, and the end; owned */
    int *rank_of_block, *block_of_rank;  /* or NULL; owned */
    int coords[SELVAGE_DIMS_MAX];        /* of this rank */
    int64_t local[SELVAGE_DIMS_MAX], first[SELVAGE_DIMS_MAX];
    int64_t surface_cells, surface_cells_between_nodes, surface_cells_in_rank_order;
    int nhalos;                          /* halos that use it */
};

selvage_status_t sv_grid_create(selvage_comm_t *comm, const selvage_grid_params_t *params, selvage_grid_t **grid_out);
selvage_status_t sv_grid_create_cart(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t *params,
                                     selvage_grid_t **grid_out);
/* For a rank whose arguments were refused before either of the two. It takes part in call so far that the others learn
   of it. Returns status, or why that failed. */
selvage_status_t sv_grid_refuse(const char *call, selvage_comm_t *comm, selvage_status_t status);
void sv_grid_destroy(selvage_grid_t *grid);

/* Coordinates of a rank's block: SELVAGE_DIMS_MAX numbers, 0 above ndims. */
void sv_grid_coords(const selvage_grid_t *grid, int rank, int *coords);

/* Rank of the block at coords, periodic dimensions wrapped; -1 outside of an open dimension. */
int sv_grid_rank(const selvage_grid_t *grid, const int *coords);

/* The boxes of the public calls of these names: 1 and 2 * ndims of them. */
void sv_grid_interior(const selvage_grid_t *grid, const int *width_lo, const int *width_hi, selvage_box_t *box_out);
void sv_grid_boundary(const selvage_grid_t *grid, const int *width_lo, const int *width_hi, selvage_box_t *slab_out);

/* Own extent of block coordinate c in dimension d. */
static inline int64_t sv_grid_extent(const selvage_grid_t *grid, int d, int c)
{
    return grid->start[d][c + 1] - grid->start[d][c];
}

#endif
