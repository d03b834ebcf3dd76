/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: grids. Dimensions, cells and boxes count from 1 there and from 0 here; coordinates of
 * blocks and ranks count from 0 on both sides. See selvage_fortran.h.
 */
#include "selvage_fortran.h"

#include <stdlib.h>

_Static_assert(SELVAGE_DIMS_MAX == 4, "selvage.F90 has this number");

/* As type(selvage_box): both ends included. */
struct fortran_box { int first[SELVAGE_DIMS_MAX], last[SELVAGE_DIMS_MAX]; };

/* Copies of what Fortran gives with gaps, or as another kind of integer; freed when the grid has read them. */
struct grid_arrays {
    int64_t *split[SELVAGE_DIMS_MAX];
    int *ranks;
};

static selvage_status_t get_ndims(const selvage_grid_t *grid, int *ndims_out)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    selvage_status_t status = selvage_grid_describe(grid, &info);
    if (status == SELVAGE_SUCCESS)
        *ndims_out = info.ndims;
    return status;
}

/* One integer per dimension of the grid. */
static selvage_status_t read_dims(const selvage_grid_t *grid, const CFI_cdesc_t *array, const char *name, int *out)
{
    int ndims;
    selvage_status_t status = get_ndims(grid, &ndims);
    if (status == SELVAGE_SUCCESS && sf_elements(array) == 0)
        status = sf_refuse("%s: has no elements, and %d are needed", name, ndims);
    if (status == SELVAGE_SUCCESS)
        status = sf_read(array, name, ndims, out);
    return status;
}

static selvage_status_t read_split(const CFI_cdesc_t *array, int dim, struct grid_arrays *arrays,
                                   selvage_grid_params_t *params)
{
    int count = sf_elements(array);
    if (!array)
        return SELVAGE_SUCCESS;
    if (dim >= params->ndims)
        return sf_refuse("split%d: the grid has %d dimensions", dim + 1, params->ndims);
    if (params->blocks[dim] != count)
        return sf_refuse("split%d: has %d elements, and blocks(%d) is %d", dim + 1, count, dim + 1,
                         params->blocks[dim]);
    arrays->split[dim] = malloc((size_t)count * sizeof(int64_t) + 1);
    if (!arrays->split[dim])
        return SELVAGE_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        arrays->split[dim][i] = *(int *)sf_element(array, i);
    params->split[dim] = arrays->split[dim];
    return SELVAGE_SUCCESS;
}

/* The map of all blocks to ranks must have as many elements as the caller says there are blocks. */
static selvage_status_t read_ranks(const CFI_cdesc_t *array, struct grid_arrays *arrays, selvage_grid_params_t *params)
{
    int64_t blocks = 1;
    if (!array)
        return SELVAGE_SUCCESS;
    for (int d = 0; d < params->ndims; d++)
        blocks *= params->blocks[d];
    if (blocks < 1 || blocks != sf_elements(array))
        return sf_refuse("ranks: has %d elements, and blocks(:) says %lld", sf_elements(array), (long long)blocks);
    arrays->ranks = malloc((size_t)blocks * sizeof(int));
    if (!arrays->ranks)
        return SELVAGE_ERR_MEMORY;
    params->ranks = arrays->ranks;
    return sf_read(array, "ranks", (int)blocks, arrays->ranks);
}

static selvage_status_t read_extents(const CFI_cdesc_t *array, selvage_grid_params_t *params)
{
    params->ndims = sf_elements(array);
    if (params->ndims < 1 || params->ndims > SELVAGE_DIMS_MAX)
        return sf_refuse("global_extent: has %d elements; grids have 1 to %d dimensions", params->ndims,
                         SELVAGE_DIMS_MAX);
    for (int d = 0; d < params->ndims; d++)
        params->global_extent[d] = *(int64_t *)sf_element(array, d);
    return SELVAGE_SUCCESS;
}

static void free_arrays(struct grid_arrays *arrays)
{
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
        free(arrays->split[d]);
    free(arrays->ranks);
}

void selvage_fortran_grid_create(selvage_comm_t **comm, const CFI_cdesc_t *extent, selvage_grid_t **grid,
                                 const CFI_cdesc_t *periodic, const CFI_cdesc_t *blocks, const CFI_cdesc_t *split1,
                                 const CFI_cdesc_t *split2, const CFI_cdesc_t *split3, const CFI_cdesc_t *split4,
                                 const CFI_cdesc_t *ranks, int reorder, const CFI_cdesc_t *width, int *error)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .reorder = reorder};
    const CFI_cdesc_t *split[SELVAGE_DIMS_MAX] = {split1, split2, split3, split4};
    struct grid_arrays arrays = {0};
    selvage_status_t status = read_extents(extent, &params);
    *grid = NULL;
    if (status == SELVAGE_SUCCESS)
        status = sf_read(periodic, "periodic", params.ndims, params.periodic);
    if (status == SELVAGE_SUCCESS)
        status = sf_read(blocks, "blocks", params.ndims, params.blocks);
    if (status == SELVAGE_SUCCESS)
        status = sf_read(width, "width", params.ndims, params.width);
    for (int d = 0; d < SELVAGE_DIMS_MAX && status == SELVAGE_SUCCESS; d++)
        status = read_split(split[d], d, &arrays, &params);
    if (status == SELVAGE_SUCCESS)
        status = read_ranks(ranks, &arrays, &params);
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_create(*comm, &params, grid);
    free_arrays(&arrays);
    sf_settle(status, error);
}

/* The blocks, which splits are held against here, are MPI's; the library is given none. */
static selvage_status_t read_cart_splits(MPI_Comm cart, const CFI_cdesc_t *const *split, struct grid_arrays *arrays,
                                         selvage_grid_params_t *params)
{
    int kind = MPI_UNDEFINED, ndims = 0, periods[SELVAGE_DIMS_MAX], coords[SELVAGE_DIMS_MAX];
    selvage_status_t status = SELVAGE_SUCCESS;
    if (!split[0] && !split[1] && !split[2] && !split[3])
        return SELVAGE_SUCCESS;
    if (cart != MPI_COMM_NULL)
        MPI_Topo_test(cart, &kind);
    if (kind == MPI_CART)
        MPI_Cartdim_get(cart, &ndims);
    if (kind != MPI_CART || ndims != params->ndims)
        return sf_refuse("cart: has no Cartesian topology of %d dimensions", params->ndims);
    MPI_Cart_get(cart, ndims, params->blocks, periods, coords);
    for (int d = 0; d < SELVAGE_DIMS_MAX && status == SELVAGE_SUCCESS; d++)
        status = read_split(split[d], d, arrays, params);
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
        params->blocks[d] = 0;
    return status;
}

void selvage_fortran_grid_create_cart(selvage_comm_t **comm, const MPI_Fint *cart, const CFI_cdesc_t *extent,
                                      selvage_grid_t **grid, const CFI_cdesc_t *split1, const CFI_cdesc_t *split2,
                                      const CFI_cdesc_t *split3, const CFI_cdesc_t *split4, const CFI_cdesc_t *width,
                                      int *error)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT};
    const CFI_cdesc_t *const split[SELVAGE_DIMS_MAX] = {split1, split2, split3, split4};
    struct grid_arrays arrays = {0};
    MPI_Comm mpi_cart = MPI_Comm_f2c(*cart);
    selvage_status_t status = read_extents(extent, &params);
    *grid = NULL;
    if (status == SELVAGE_SUCCESS)
        status = sf_read(width, "width", params.ndims, params.width);
    if (status == SELVAGE_SUCCESS)
        status = read_cart_splits(mpi_cart, split, &arrays, &params);
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_create_cart(*comm, mpi_cart, &params, grid);
    free_arrays(&arrays);
    sf_settle(status, error);
}

void selvage_fortran_grid_destroy(selvage_grid_t **grid)
{
    selvage_grid_destroy(*grid);
    *grid = NULL;
}

void selvage_fortran_grid_describe(selvage_grid_t **grid, int *ndims, int *blocks, int *coords, int *local_extent,
                                   int *periodic, int64_t *global_extent, int64_t *local_first, int64_t *surfaces,
                                   int *error)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    selvage_status_t status = selvage_grid_describe(*grid, &info);
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        if (info.local_extent[d] > INT_MAX)
            status = sf_refuse("grid: a block has %lld cells in dimension %d, more than a default integer counts",
                               (long long)info.local_extent[d], d + 1);
        blocks[d] = info.blocks[d];
        coords[d] = info.coords[d];
        local_extent[d] = (int)info.local_extent[d];
        periodic[d] = info.periodic[d];
        global_extent[d] = info.global_extent[d];
        local_first[d] = info.local_first[d] + 1;
    }
    *ndims = info.ndims;
    surfaces[0] = info.surface_cells;
    surfaces[1] = info.surface_cells_between_nodes;
    surfaces[2] = info.surface_cells_in_rank_order;
    sf_settle(status, error);
}

void selvage_fortran_grid_coords(selvage_grid_t **grid, const int *rank, CFI_cdesc_t *coords, int *error)
{
    int found[SELVAGE_DIMS_MAX], ndims = 0;
    selvage_status_t status = get_ndims(*grid, &ndims);
    if (status == SELVAGE_SUCCESS && sf_elements(coords) < ndims)
        status = sf_refuse("coords: has %d elements, and %d are needed", sf_elements(coords), ndims);
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_coords(*grid, *rank, found);
    for (int d = 0; d < ndims && status == SELVAGE_SUCCESS; d++)
        *(int *)sf_element(coords, d) = found[d];
    sf_settle(status, error);
}

void selvage_fortran_grid_rank(selvage_grid_t **grid, const CFI_cdesc_t *coords, int *rank, int *error)
{
    int given[SELVAGE_DIMS_MAX];
    selvage_status_t status = read_dims(*grid, coords, "coords", given);
    *rank = -1;
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_rank(*grid, given, rank);
    sf_settle(status, error);
}

void selvage_fortran_grid_neighbour(selvage_grid_t **grid, const CFI_cdesc_t *offset, int *rank, int *error)
{
    int given[SELVAGE_DIMS_MAX];
    selvage_status_t status = read_dims(*grid, offset, "offset", given);
    *rank = -1;
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_neighbour(*grid, given, rank);
    sf_settle(status, error);
}

void selvage_fortran_grid_block(selvage_grid_t **grid, const int *rank, CFI_cdesc_t *extent, CFI_cdesc_t *first,
                                int *error)
{
    int64_t extents[SELVAGE_DIMS_MAX], firsts[SELVAGE_DIMS_MAX];
    int ndims = 0;
    selvage_status_t status = get_ndims(*grid, &ndims);
    if (status == SELVAGE_SUCCESS && (sf_elements(extent) < ndims || sf_elements(first) < ndims))
        status = sf_refuse("extent and first: have %d and %d elements, and %d are needed", sf_elements(extent),
                           sf_elements(first), ndims);
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_block(*grid, *rank, extents, firsts);
    for (int d = 0; d < ndims && status == SELVAGE_SUCCESS; d++) {
        *(int64_t *)sf_element(extent, d) = extents[d];
        *(int64_t *)sf_element(first, d) = firsts[d] + 1;
    }
    sf_settle(status, error);
}

/* From 0 and without its end to from 1 and with it: only `first` changes. */
static struct fortran_box to_fortran(const selvage_box_t *box)
{
    struct fortran_box made;
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        made.first[d] = (int)box->first[d] + 1;
        made.last[d] = (int)box->end[d];
    }
    return made;
}

static selvage_status_t interior(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                 struct fortran_box *box)
{
    selvage_box_t found;
    selvage_status_t status = selvage_grid_interior(grid, width_lo, width_hi, &found);
    if (status == SELVAGE_SUCCESS)
        *box = to_fortran(&found);
    return status;
}

void selvage_fortran_grid_interior(selvage_grid_t **grid, const CFI_cdesc_t *width_lo, const CFI_cdesc_t *width_hi,
                                   struct fortran_box *box, int *error)
{
    int lo[SELVAGE_DIMS_MAX], hi[SELVAGE_DIMS_MAX];
    selvage_status_t status = read_dims(*grid, width_lo, "width_lo", lo);
    if (status == SELVAGE_SUCCESS)
        status = read_dims(*grid, width_hi, "width_hi", hi);
    if (status == SELVAGE_SUCCESS)
        status = interior(*grid, lo, hi, box);
    sf_settle(status, error);
}

void selvage_fortran_grid_interior_width(selvage_grid_t **grid, const int *width, struct fortran_box *box, int *error)
{
    const int widths[SELVAGE_DIMS_MAX] = {*width, *width, *width, *width};
    sf_settle(interior(*grid, widths, widths, box), error);
}

static selvage_status_t boundary(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                 const CFI_cdesc_t *slab)
{
    selvage_box_t found[2 * SELVAGE_DIMS_MAX];
    int ndims = 0;
    selvage_status_t status = get_ndims(grid, &ndims);
    if (status == SELVAGE_SUCCESS && sf_elements(slab) < 2 * ndims)
        status = sf_refuse("slab: has %d elements, and %d are needed", sf_elements(slab), 2 * ndims);
    if (status == SELVAGE_SUCCESS)
        status = selvage_grid_boundary(grid, width_lo, width_hi, found);
    for (int i = 0; i < 2 * ndims && status == SELVAGE_SUCCESS; i++)
        *(struct fortran_box *)sf_element(slab, i) = to_fortran(&found[i]);
    return status;
}

void selvage_fortran_grid_boundary(selvage_grid_t **grid, const CFI_cdesc_t *width_lo, const CFI_cdesc_t *width_hi,
                                   const CFI_cdesc_t *slab, int *error)
{
    int lo[SELVAGE_DIMS_MAX], hi[SELVAGE_DIMS_MAX];
    selvage_status_t status = read_dims(*grid, width_lo, "width_lo", lo);
    if (status == SELVAGE_SUCCESS)
        status = read_dims(*grid, width_hi, "width_hi", hi);
    if (status == SELVAGE_SUCCESS)
        status = boundary(*grid, lo, hi, slab);
    sf_settle(status, error);
}

void selvage_fortran_grid_boundary_width(selvage_grid_t **grid, const int *width, const CFI_cdesc_t *slab, int *error)
{
    const int widths[SELVAGE_DIMS_MAX] = {*width, *width, *width, *width};
    sf_settle(boundary(*grid, widths, widths, slab), error);
}
