/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grids from Cartesian communicators of MPI, in one to four dimensions: each rank's neighbours and place are those that
 * MPI says. Refusals: no topology, other ranks, another order, too many dimensions, what MPI decides asked for as well.
 * Then a grid that is reordered: its cells that cross nodes are printed, and with two virtual nodes fewer than in rank
 * order. Run by tests/mpi/test_grid_cart.sh.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include <selvage.h>

enum { DIMS = SELVAGE_DIMS_MAX };

/* The detail of the last error must contain the text. */
#define CHECK_DETAIL(text) check_detail((text), __LINE__)

static void check_detail(const char *text, int line)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    CHECK(found);
    if (!found)
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, text, selvage_error_detail());
}

static selvage_grid_params_t extents(int ndims)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = ndims};
    for (int d = 0; d < DIMS; d++)
        params.global_extent[d] = 9 + d;
    return params;
}

static void check_place(const selvage_grid_t *grid, MPI_Comm cart, int ndims, const int *dims, const int *periods)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    int own;
    MPI_Comm_rank(cart, &own);
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.ndims, ndims);
    for (int d = 0; d < ndims; d++) {
        int below, above, rank = -7, offset[DIMS] = {0}, coords[DIMS];
        MPI_Cart_coords(cart, own, ndims, coords);
        CHECK_EQ(info.blocks[d], dims[d]);
        CHECK_EQ(info.periodic[d], periods[d]);
        CHECK_EQ(info.coords[d], coords[d]);
        MPI_Cart_shift(cart, d, 1, &below, &above);
        offset[d] = -1;
        CHECK_STATUS(selvage_grid_neighbour(grid, offset, &rank), SELVAGE_SUCCESS);
        CHECK_EQ(rank, below == MPI_PROC_NULL ? -1 : below);
        offset[d] = 1;
        CHECK_STATUS(selvage_grid_neighbour(grid, offset, &rank), SELVAGE_SUCCESS);
        CHECK_EQ(rank, above == MPI_PROC_NULL ? -1 : above);
    }
}

static void test_shape(int ndims, int reorder)
{
    int size, dims[DIMS] = {0}, periods[DIMS] = {0, 1, 0, 1};
    selvage_comm_t *comm = NULL;
    selvage_grid_t *grid = NULL;
    MPI_Comm cart;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, ndims, dims);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, reorder, &cart);
    selvage_grid_params_t params = extents(reorder ? ndims : 0);
    CHECK_STATUS(selvage_comm_create(cart, NULL, &comm), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_create_cart(comm, cart, &params, &grid), SELVAGE_SUCCESS);
    if (grid)
        check_place(grid, cart, ndims, dims, periods);
    selvage_grid_destroy(grid);
    selvage_comm_destroy(comm);
    MPI_Comm_free(&cart);
}

static void refuse(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t *params, const char *text)
{
    selvage_grid_t *grid = NULL;
    CHECK_STATUS(selvage_grid_create_cart(comm, cart, params, &grid), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(text);
    CHECK(!grid);
}

static void refuse_params(selvage_comm_t *comm, MPI_Comm cart)
{
    static const int nobody[] = {0};
    selvage_grid_params_t params = extents(3);
    refuse(comm, cart, &params, "ndims is 3, but cart has 2 dimensions");
    params = extents(0);
    params.blocks[1] = 1;
    refuse(comm, cart, &params, "blocks[1] is 1; wanted 0, because cart decides it");
    params = extents(0);
    params.periodic[0] = 1;
    refuse(comm, cart, &params, "periodic[0] is 1");
    params = extents(2);
    params.reorder = 1;
    refuse(comm, cart, &params, "reorder is given");
    params = extents(2);
    params.ranks = nobody;
    refuse(comm, cart, &params, "ranks is given");
    params = extents(2);
    params.global_extent[1] = 0;
    refuse(comm, cart, &params, "selvage_grid_create_cart: global_extent[1] is 0");
}

/* Other ranks than those of comm, and the same ones in another order. */
static void refuse_groups(selvage_comm_t *comm, int rank, int size)
{
    selvage_grid_params_t params = extents(0);
    MPI_Comm other, cart;
    int periods[DIMS] = {0};
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
    MPI_Cart_create(other, 1, &size, periods, 0, &cart);
    refuse(comm, cart, &params, "cart has the ranks of comm, but in another order");
    MPI_Comm_free(&cart);
    MPI_Comm_free(&other);
    int fewer = size - 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &fewer, periods, 0, &cart);
    refuse(comm, cart, &params, cart == MPI_COMM_NULL ? "cart is MPI_COMM_NULL" : "cart has other ranks than comm");
    if (cart != MPI_COMM_NULL)
        MPI_Comm_free(&cart);
}

static void test_refusals(selvage_comm_t *comm, int rank, int size)
{
    int dims[] = {size, 1}, five[] = {1, size, 1, 1, 1}, periods[5] = {0};
    selvage_grid_params_t params = extents(0);
    selvage_grid_t *grid = NULL;
    MPI_Comm cart;
    refuse(comm, MPI_COMM_WORLD, &params, "cart has no Cartesian topology");
    refuse(comm, MPI_COMM_NULL, &params, "cart is MPI_COMM_NULL");
    MPI_Cart_create(MPI_COMM_WORLD, 5, five, periods, 0, &cart);
    refuse(comm, cart, &params, "cart has 5 dimensions; wanted 1..4");
    MPI_Comm_free(&cart);
    if (size > 1)
        refuse_groups(comm, rank, size);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    refuse_params(comm, cart);
    /* One rank gives something else than a Cartesian communicator: the others learn it. */
    selvage_status_t status = selvage_grid_create_cart(comm, rank == size - 1 ? MPI_COMM_SELF : cart, &params, &grid);
    CHECK_STATUS(status, SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(rank == size - 1 ? "cart has no" : "selvage_grid_create_cart failed on rank");
    /* Ranks that call different functions are told. */
    if (size > 1) {
        selvage_grid_params_t plain = extents(2);
        status = rank ? selvage_grid_create_cart(comm, cart, &params, &grid) : selvage_grid_create(comm, &plain, &grid);
        CHECK_STATUS(status, SELVAGE_ERR_MISMATCH);
    }
    CHECK_STATUS(selvage_grid_create_cart(comm, cart, &params, &grid), SELVAGE_SUCCESS);
    selvage_grid_destroy(grid);
    MPI_Comm_free(&cart);
}

static void test_reorder(selvage_comm_t *comm, int rank, int size)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {100, 90}, .reorder = 1};
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    selvage_grid_t *grid = NULL;
    bool nodes = selvage_comm_node_size(comm) < size;
    if (nodes) {
        params.blocks[0] = 1; /* eight in a row, and two nodes: rank order is the best there is */
        CHECK_STATUS(selvage_grid_create(comm, &params, &grid), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
        CHECK_EQ(info.surface_cells_between_nodes, 2 * 100);
        CHECK_EQ(info.surface_cells_in_rank_order, 2 * 100);
        selvage_grid_destroy(grid);
        params.blocks[0] = 4; /* four by two, the shorter cut is through dimension 0 */
        params.global_extent[0] = 400;
    }
    CHECK_STATUS(selvage_grid_create(comm, &params, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.surface_cells_between_nodes, nodes ? 2 * 90 : 0);
    CHECK_EQ(info.surface_cells_in_rank_order, nodes ? 2 * 400 : 0);
    if (rank == 0)
        printf("%d x %d blocks: %lld bytes of a field of doubles cross blocks, %lld of them cross nodes; %lld in rank "
               "order\n", info.blocks[0], info.blocks[1], 8 * (long long)info.surface_cells,
               8 * (long long)info.surface_cells_between_nodes, 8 * (long long)info.surface_cells_in_rank_order);
    selvage_grid_destroy(grid);
}

int main(int argc, char **argv)
{
    int rank, size;
    selvage_comm_t *comm = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int ndims = 1; ndims <= DIMS; ndims++)
        for (int reorder = 0; reorder < 2; reorder++)
            test_shape(ndims, reorder);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    test_reorder(comm, rank, size);
    setenv("SELVAGE_LOG", "none", 1); /* refusals are told there */
    selvage_comm_destroy(comm);
    comm = NULL;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    test_refusals(comm, rank, size);
    selvage_comm_destroy(comm);
    int failed = check_report("grid_cart");
    MPI_Finalize();
    return failed;
}
