/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that make a grid share. A grid is made in four steps:
 *
 *   arguments are checked                grid_check.c
 *   open numbers of blocks are chosen    grid_factor.c
 *   ranks agree on all of it             grid_agree.c
 *   blocks get their ranks               grid_place.c
 */
#ifndef SV_GRID_PARTS_H
#define SV_GRID_PARTS_H

#include "comm/comm_gather.h"
#include "grid/grid_blocks.h"

/* Refuses what makes no sense whatever the other ranks say. Local. call: the public call, for the detail. */
selvage_status_t sv_grid_check(const char *call, const selvage_grid_params_t *params, int nranks);

/* A number to be factorised, one factor per dimension, so that the cuts between them are small. */
typedef struct sv_grid_factor {
    int ndims;
    bool periodic[SELVAGE_DIMS_MAX];
    int64_t plane_cells[SELVAGE_DIMS_MAX];  /* what one cut through this dimension costs */
    int64_t most[SELVAGE_DIMS_MAX];         /* largest factor allowed */
    int fixed[SELVAGE_DIMS_MAX];            /* 0: free */
    int divisor_of[SELVAGE_DIMS_MAX];       /* the factor must divide it; 0: any */
} sv_grid_factor_t;

/* Cuts through a dimension of so many blocks: the ends of an open one, and one that only meets itself, are none. */
static inline int64_t sv_grid_cuts(bool periodic, int64_t blocks)
{
    return periodic && blocks > 1 ? blocks : blocks - 1;
}

/* The factors of n with the smallest sum of cuts. Of equals it takes those with more in the later dimensions. False:
   none. */
bool sv_grid_factor(const sv_grid_factor_t *wanted, int n, int *factor_out);

/* Cells of one plane across dimension d of so many cells, weighted with its width. */
int64_t sv_grid_plane_cells(int ndims, const int64_t *extent, const int *width, int d);

/* The hash of a list of numbers, one number further. */
uint64_t sv_grid_hash_next(uint64_t hash, uint64_t number);

/*
 * Says whether all ranks gave the same number, in two agreements under the key what. Collective. before: whether this
 * rank's part has worked so far.
 */
selvage_status_t sv_grid_compare(const char *call, selvage_comm_t *comm, uint64_t what, uint64_t number,
                                 selvage_status_t before, bool *equal_out);

/*
 * Given that not all ranks gave the same number: the lowest rank that gave another one than this rank, and that number,
 * which is the least of all, or the greatest where this rank's is the least. Collective, four agreements.
 */
typedef struct sv_grid_other {
    uint64_t number;
    int rank;
} sv_grid_other_t;
selvage_status_t sv_grid_find_other(const char *call, selvage_comm_t *comm, uint64_t what, uint64_t number,
                                    sv_grid_other_t *other_out);

/* Keys of the agreements within one call, so that ranks cannot mix them up. */
typedef enum sv_grid_agreement {
    SV_GRID_AGREE_ALL,
    SV_GRID_AGREE_NODES,
    SV_GRID_AGREE_PLACES,
    SV_GRID_AGREE_ARGUMENT /* and one for each argument */
} sv_grid_agreement_t;

/*
 * All ranks give the same grid, or all get an error that names what differs. Collective. built is whether this rank's
 * part has worked so far. If not, the others learn it here and do not wait (grid and params may be NULL then).
 */
selvage_status_t sv_grid_agree(const char *call, selvage_comm_t *comm, const selvage_grid_t *grid,
                               const selvage_grid_params_t *params, selvage_status_t built);

/*
 * Numbers nodes from 0 in the order of their lowest ranks; team is of all ranks. Collective, and agreed on. A failure
 * ends the collective use of the communicator, because messages may still be under way.
 */
selvage_status_t sv_grid_gather_nodes(const char *call, sv_team_t *team, int *node_of_rank);

/* What lies between a block and one beside it. */
typedef struct sv_grid_face {
    int block;
    int64_t cells;  /* that cross, both ways, weighted with the width */
} sv_grid_face_t;

/* The faces of a block to other blocks, at most 2 * ndims; a neighbour met twice is there twice. Returns how many. */
int sv_grid_faces(const selvage_grid_t *grid, const int *width, int block, sv_grid_face_t *face_out);

/* Cells that cross between blocks of different groups. */
int64_t sv_grid_surface(const selvage_grid_t *grid, const int *width, const int *group_of_block);

/*
 * Chooses ranks for the blocks, so that few cells cross nodes, and writes them to rank_of_block. The result is never
 * worse than rank order, which is kept where nothing better is found. All ranks come to the same result. Local.
 */
selvage_status_t sv_grid_place(const selvage_grid_t *grid, const int *width, const int *node_of_rank,
                               int *rank_of_block);

#endif
