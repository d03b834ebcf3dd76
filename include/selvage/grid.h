/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file grid.h
 * @brief Grids: a Cartesian domain of 1 to 4 dimensions, cut into blocks, one per rank.
 *
 * Dimension 0 is the first one that the application names; nothing is implied about memory. Extents and indices are in
 * cells. Local indices count from the rank's first own cell, so halo cells have negative indices, or such as are not
 * less than the local extent:
 *
 *       global   0 1 2 3 4 5 6 7 8 9        10 cells in 3 blocks: the first 10 mod 3 blocks have one cell more
 *       rank 0  [0 1 2 3]
 *       rank 1          [0 1 2]
 *       rank 2                [0 1 2]
 */
#ifndef SELVAGE_GRID_H
#define SELVAGE_GRID_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Most dimensions that a grid has. */
enum { SELVAGE_DIMS_MAX = 4 };

/** A decomposed grid (opaque). */
typedef struct selvage_grid selvage_grid_t;

/** A box of cells: from `first` (included) to `end` (excluded) in every dimension; local indices. Empty if any
 *  `end[d] <= first[d]`. Dimensions above the grid's have first 0 and end 1. */
typedef struct selvage_box {
    int64_t first[SELVAGE_DIMS_MAX];
    int64_t end[SELVAGE_DIMS_MAX];
} selvage_box_t;

/** Parameters of selvage_grid_create(). */
typedef struct selvage_grid_params {
    size_t struct_size;                         /**< set by SELVAGE_GRID_PARAMS_INIT */
    int ndims;                                  /**< 1 to 4 */
    int64_t global_extent[SELVAGE_DIMS_MAX];    /**< cells of the whole domain, at least 1 each */
    int periodic[SELVAGE_DIMS_MAX];             /**< not 0: the last cell's neighbour is the first */
    int blocks[SELVAGE_DIMS_MAX];               /**< blocks per dimension; 0: chosen so that surfaces are smallest */
    const int64_t *split[SELVAGE_DIMS_MAX];     /**< blocks[d] extents that sum up to global_extent[d] (then blocks[d]
                                                     must be given); NULL: as even as possible */
    const int *ranks;                           /**< rank of every block, dimension 0 varying fastest, blocks[] given;
                                                     each rank once; NULL: the grid decides. Read during the call */
    int reorder;                                /**< not 0: blocks that are neighbours go to ranks of one node where
                                                     that lets fewer bytes cross nodes. Not with ranks */
    int width[SELVAGE_DIMS_MAX];                /**< halo widths for which surfaces are counted; 0 is 1 */
} selvage_grid_params_t;

/** Initialiser: `selvage_grid_params_t p = {SELVAGE_GRID_PARAMS_INIT, .ndims = 3};` */
#define SELVAGE_GRID_PARAMS_INIT .struct_size = sizeof(selvage_grid_params_t)

/** @brief The same as a function, which serves in any C++: parameters that are all default. Local. */
static inline selvage_grid_params_t selvage_grid_params_init(void)
{
    selvage_grid_params_t started = SELVAGE_ZEROED_(selvage_grid_params_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Cuts a domain into one block per rank of @p comm.
 *
 * Collective; blocks up to the deadline; not stream-ordered. All ranks give the same parameters, which is checked.
 * Members above `ndims` are not looked at.
 *
 * Without `blocks` the number of ranks is factorised so that the fewest cells are cut, weighted with `width`. An open
 * dimension has no cut at its ends. Ties go to the factorisation with more blocks in the later dimensions. A factor
 * that would leave a block without cells is not considered. With `reorder` all ranks work out one placement, which is
 * never worse than rank order (virtual nodes are nodes); selvage_grid_describe() has the figures for both.
 *
 * @param[out] grid_out  owned by the caller; freed by selvage_grid_destroy() before the communicator
 * @return ERR_ARGUMENT with the argument named (a grid that does not cover the ranks: `blocks`; more blocks than cells;
 *         splits that do not add up; a map in which a rank is missing; more cells than 63 bits count), on the other
 *         ranks too; ERR_MISMATCH (ranks differ; the first argument that does is named), ERR_MEMORY, ERR_MPI,
 *         ERR_LIMIT, ERR_PEER, ERR_TIMEOUT
 */
selvage_status_t selvage_grid_create(selvage_comm_t *comm, const selvage_grid_params_t *params,
                                     selvage_grid_t **grid_out);

/**
 * @brief Makes a grid from an MPI communicator with a Cartesian topology: blocks, periods and places are MPI's.
 *
 * @p cart has the ranks of @p comm in the same order (it is the communicator that was wrapped, or one like it).
 * Of @p params, `ndims` is 0 or MPI's, and `periodic`, `blocks`, `ranks` and `reorder` stay zero.
 *
 * @param[in] cart  read during the call
 * @return as selvage_grid_create(); ERR_ARGUMENT also for a communicator without a Cartesian topology, with more than
 *         4 dimensions or with other ranks
 */
selvage_status_t selvage_grid_create_cart(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t *params,
                                          selvage_grid_t **grid_out);

/** @brief Frees a grid. Local; its halos must have been destroyed. Accepts NULL. */
void selvage_grid_destroy(selvage_grid_t *grid);

/** What a grid is like, for this rank. */
typedef struct selvage_grid_info {
    size_t struct_size;                         /**< set by SELVAGE_GRID_INFO_INIT; tells how much is filled */
    int ndims;
    int64_t global_extent[SELVAGE_DIMS_MAX];    /**< 1 above ndims, as the other extents */
    int periodic[SELVAGE_DIMS_MAX];
    int blocks[SELVAGE_DIMS_MAX];
    int coords[SELVAGE_DIMS_MAX];               /**< of this rank's block */
    int64_t local_extent[SELVAGE_DIMS_MAX];     /**< own cells */
    int64_t local_first[SELVAGE_DIMS_MAX];      /**< global index of the first own cell */
    int64_t surface_cells;                      /**< of the whole grid: cells that cross faces from block to block, both
                                                     ways, weighted with `width` */
    int64_t surface_cells_between_nodes;        /**< those of them that cross nodes */
    int64_t surface_cells_in_rank_order;        /**< the same had ranks been placed in order */
} selvage_grid_info_t;

/** Initialiser: `selvage_grid_info_t i = {SELVAGE_GRID_INFO_INIT};` */
#define SELVAGE_GRID_INFO_INIT .struct_size = sizeof(selvage_grid_info_t)

/** @brief The same as a function, which serves in any C++: an empty struct to be filled. Local. */
static inline selvage_grid_info_t selvage_grid_info_init(void)
{
    selvage_grid_info_t started = SELVAGE_ZEROED_(selvage_grid_info_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Tells what a grid is like. Local.
 * @param[in,out] info  struct_size says how much is written
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_describe(const selvage_grid_t *grid, selvage_grid_info_t *info);

/** @brief Coordinates of any rank's block. Local. @param[out] coords_out ndims numbers. @return ERR_ARGUMENT */
selvage_status_t selvage_grid_coords(const selvage_grid_t *grid, int rank, int *coords_out);

/**
 * @brief Rank of the block at @p coords; periodic dimensions wrap. Local.
 * @param[in]  coords    ndims numbers
 * @param[out] rank_out  -1 if it lies outside in an open dimension
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_rank(const selvage_grid_t *grid, const int *coords, int *rank_out);

/**
 * @brief Rank of the neighbour that lies @p offset away; as selvage_grid_rank().
 * @param[in] offset  ndims numbers, each -1, 0 or 1
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_neighbour(const selvage_grid_t *grid, const int *offset, int *rank_out);

/**
 * @brief Extent and first global index of any rank's block. Local.
 * @param[out] extent_out  ndims numbers of cells; may be NULL
 * @param[out] first_out   ndims global indices; may be NULL
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_block(const selvage_grid_t *grid, int rank, int64_t *extent_out, int64_t *first_out);

/**
 * @brief The own cells whose stencil of these widths stays within own cells: to be computed while halos travel.
 *
 * At an open end of the domain nothing comes from a neighbour, so cells there belong to the interior. Local.
 *
 * @param[in]  width_lo,width_hi  ndims halo widths of either side
 * @param[out] box_out            empty if the block has no such cells
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_interior(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                       selvage_box_t *box_out);

/**
 * @brief The other own cells, as one slab per side: disjoint, and with the interior all own cells.
 *
 * Slabs 2d and 2d+1 are the lower and the upper one of dimension d; they span what slabs of earlier dimensions left.
 *
 * @param[in]  width_lo,width_hi  as for selvage_grid_interior()
 * @param[out] slab_out           2 * ndims boxes, some maybe empty
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_grid_boundary(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                       selvage_box_t *slab_out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
