/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several right-hand sides in one halo, in the three ways that doc/guide.md describes: arrays of their own, planes of
 * one array, and side by side in each cell. Each way sends as many packets as one side alone does, every halo cell of
 * every side is that of its owner, and no other byte changes. Run by tests/mpi/test_halo_mpi.sh.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include <selvage.h>

enum { SIDES = 3, EXTENT_X = 14, EXTENT_Y = 11, CELLS_MAX = (EXTENT_X + 2) * (EXTENT_Y + 2) };

typedef enum way { ONE_SIDE, OWN_ARRAYS, PLANES, IN_CELLS, WAYS } way_t;

typedef struct block {
    int64_t first[2], wide, high; /* global indices of the first own cell; own cells */
} block_t;

static selvage_comm_t *comm;
static selvage_device_t *device;
static selvage_grid_t *grid;

/* Place of a side's cell in an array of all sides; x and y count from the lower halo. */
static size_t place(way_t way, const block_t *block, int side, int64_t x, int64_t y)
{
    const size_t width = (size_t)block->wide + 2, height = (size_t)block->high + 2;
    const size_t cell = (size_t)y * width + (size_t)x;
    return way == IN_CELLS ? cell * SIDES + (size_t)side : (size_t)side * width * height + cell;
}

static double value(const block_t *block, int side, int64_t x, int64_t y)
{
    const int64_t global_x = (block->first[0] + x - 1 + EXTENT_X) % EXTENT_X;
    const int64_t global_y = (block->first[1] + y - 1 + EXTENT_Y) % EXTENT_Y;
    return (double)(10000 * side + 100 * global_x + global_y);
}

/* What the array holds: own cells, and, if whole, the faces of the halo; -1 elsewhere. */
static void fill(double *array, way_t way, const block_t *block, bool whole)
{
    for (int i = 0; i < SIDES * CELLS_MAX; i++)
        array[i] = -1;
    for (int side = 0; side < (way == ONE_SIDE ? 1 : SIDES); side++)
        for (int64_t y = 0; y < block->high + 2; y++)
            for (int64_t x = 0; x < block->wide + 2; x++) {
                const bool in_x = x >= 1 && x <= block->wide, in_y = y >= 1 && y <= block->high;
                if ((in_x && in_y) || (whole && (in_x || in_y)))
                    array[place(way, block, side, x, y)] = value(block, side, x, y);
            }
}

static int make_fields(selvage_field_t field[SIDES], way_t way, const block_t *block, double *array)
{
    const ptrdiff_t bytes = way == IN_CELLS ? SIDES * sizeof *array : sizeof *array;
    const int count = way == OWN_ARRAYS ? SIDES : 1;
    for (int i = 0; i < count; i++)
        field[i] = (selvage_field_t){SELVAGE_FIELD_INIT,
                                     .data = array + place(way, block, i, 0, 0),
                                     .element_bytes = (size_t)bytes,
                                     .width_lo = {1, 1},
                                     .width_hi = {1, 1},
                                     .stride_bytes = {bytes, bytes * (block->wide + 2)}};
    if (way == PLANES) {
        field->components = SIDES;
        field->component_stride_bytes = bytes * (block->wide + 2) * (block->high + 2);
    }
    return count;
}

static selvage_halo_info_t run_way(way_t way, const block_t *block)
{
    static double before[SIDES * CELLS_MAX], wanted[SIDES * CELLS_MAX], came[SIDES * CELLS_MAX];
    void *array;
    selvage_field_t field[SIDES];
    selvage_halo_t *halo;
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    CHECK_STATUS(selvage_device_malloc(device, sizeof before, &array), SELVAGE_SUCCESS);
    fill(before, way, block, false);
    fill(wanted, way, block, true);
    CHECK_STATUS(selvage_device_copy(device, array, before, sizeof before, SELVAGE_COPY_HOST_TO_DEVICE, NULL),
                 SELVAGE_SUCCESS);
    const int count = make_fields(field, way, block, array);
    CHECK_STATUS(selvage_halo_create(grid, NULL, field, count, &halo), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_describe(halo, &info), SELVAGE_SUCCESS);
    for (int epoch = 0; epoch < 2; epoch++) {
        CHECK_STATUS(selvage_halo_start(halo, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_wait(halo, NULL), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_device_copy(device, came, array, sizeof came, SELVAGE_COPY_DEVICE_TO_HOST, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(device, NULL), SELVAGE_SUCCESS);
    CHECK(memcmp(came, wanted, sizeof wanted) == 0);
    selvage_halo_destroy(halo);
    selvage_device_free(device, array);
    return info;
}

int main(int argc, char **argv)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {EXTENT_X, EXTENT_Y},
                                    .periodic = {1, 1}};
    selvage_halo_info_t info[WAYS];
    int64_t extent[2];
    block_t block;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    device = selvage_comm_device(comm);
    CHECK_STATUS(selvage_grid_create(comm, &params, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_block(grid, rank, extent, block.first), SELVAGE_SUCCESS);
    block.wide = extent[0];
    block.high = extent[1];
    for (way_t way = ONE_SIDE; way < WAYS; way++) {
        info[way] = run_way(way, &block);
        CHECK_EQ(info[way].packets, info[ONE_SIDE].packets);
        const int64_t sides = way == ONE_SIDE ? 1 : SIDES, faces = 2 * (block.wide + block.high);
        CHECK(info[way].bytes_sent >= (size_t)(sides * faces) * sizeof(double));
    }
    selvage_grid_destroy(grid);
    selvage_comm_destroy(comm);
    int failed = check_report("halo_sides");
    MPI_Finalize();
    return failed;
}
