/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Halos over MPI, on whatever device there is: a reordered grid of three dimensions with uneven blocks; a field of
 * doubles and one of small structs, faces, edges and corners in one exchange, with two sets of arrays that take turns;
 * and, in flight at the same time, sums that go back to their owners. Run by tests/mpi/test_halo_mpi.sh.
 */
#include <mpi.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include <selvage.h>

enum { DIMS = 3, SETS = 2, EPOCHS = 6 };

static const int64_t cells[DIMS] = {11, 10, 9};
static const int periodic[DIMS] = {1, 0, 1};

typedef struct small {
    float value[3];
} small_t;

/* An array on the device with its halo, and its like on the host. */
typedef struct array {
    int width;
    int64_t own[DIMS], first[DIMS]; /* cells, and where the first own one is in the domain */
    size_t element_bytes, bytes;
    uint8_t *there, *here;
} array_t;

static int64_t extent(const array_t *a, int d)
{
    return a->own[d] + 2 * a->width;
}

static void open_array(array_t *a, selvage_device_t *dev, const selvage_grid_info_t *info, int width, size_t bytes)
{
    void *there;
    *a = (array_t){.width = width, .element_bytes = bytes, .bytes = bytes};
    for (int d = 0; d < DIMS; d++) {
        a->own[d] = info->local_extent[d];
        a->first[d] = info->local_first[d];
        a->bytes *= (size_t)extent(a, d);
    }
    CHECK_STATUS(selvage_device_malloc(dev, a->bytes, &there), SELVAGE_SUCCESS);
    a->there = there;
    a->here = malloc(a->bytes);
}

static void close_array(array_t *a, selvage_device_t *dev)
{
    selvage_device_free(dev, a->there);
    free(a->here);
}

/* Local indices, -width to own + width - 1. */
static uint8_t *element(const array_t *a, const int64_t *i)
{
    int64_t at = 0;
    for (int d = 0; d < DIMS; d++)
        at = at * extent(a, d) + i[d] + a->width;
    return a->here + (size_t)at * a->element_bytes;
}

static void first_cell(const array_t *a, int64_t *i)
{
    for (int d = 0; d < DIMS; d++)
        i[d] = -a->width;
}

static int next_cell(const array_t *a, int64_t *i)
{
    for (int d = 0; d < DIMS; d++) {
        if (++i[d] < a->own[d] + a->width)
            return 1;
        i[d] = -a->width;
    }
    return 0;
}

static int is_own(const array_t *a, const int64_t *i)
{
    for (int d = 0; d < DIMS; d++)
        if (i[d] < 0 || i[d] >= a->own[d])
            return 0;
    return 1;
}

/* A cell's number in the domain, from 1; 0 beyond an open end. */
static int number_of(const array_t *a, const int64_t *i)
{
    int number = 0;
    for (int d = 0; d < DIMS; d++) {
        int64_t cell = a->first[d] + i[d];
        if (!periodic[d] && (cell < 0 || cell >= cells[d]))
            return 0;
        number = number * (int)cells[d] + (int)((cell + cells[d]) % cells[d]);
    }
    return number + 1;
}

static void copy(selvage_device_t *dev, array_t *a, int to_device, void *stream)
{
    CHECK_STATUS(to_device ? selvage_device_copy(dev, a->there, a->here, a->bytes, SELVAGE_COPY_HOST_TO_DEVICE, stream)
                           : selvage_device_copy(dev, a->here, a->there, a->bytes, SELVAGE_COPY_DEVICE_TO_HOST, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, stream), SELVAGE_SUCCESS);
}

/* What an own cell has in an epoch; halo cells have -1 before. */
static void put(const array_t *a, uint8_t *at, int number, int epoch)
{
    double value = number < 0 ? -1.0 : number + 10000.0 * epoch;
    small_t small = {{(float)value, (float)(2 * value), (float)(3 * value)}};
    memcpy(at, a->element_bytes == sizeof value ? (const void *)&value : (const void *)&small, a->element_bytes);
}

static void fill(array_t *a, int epoch)
{
    int64_t i[DIMS];
    first_cell(a, i);
    do
        put(a, element(a, i), is_own(a, i) ? number_of(a, i) : -1, epoch);
    while (next_cell(a, i));
}

static void check_filled(const array_t *a, int epoch)
{
    int64_t i[DIMS];
    long wrong = 0;
    first_cell(a, i);
    do {
        uint8_t wanted[sizeof(small_t) + sizeof(double)];
        int number = number_of(a, i);
        put(a, wanted, number ? number : -1, epoch);
        wrong += memcmp(element(a, i), wanted, a->element_bytes) != 0;
    } while (next_cell(a, i));
    CHECK_EQ(wrong, 0);
}

/* Ones everywhere: then an own cell becomes 1 and one for every halo cell of anybody that stands for it. */
static void fill_ones(array_t *a)
{
    const double one = 1.0;
    int64_t i[DIMS];
    first_cell(a, i);
    do
        memcpy(element(a, i), &one, sizeof one);
    while (next_cell(a, i));
}

/* Sum over all ranks: own cells and all halo cells that are no cells beyond an open end. */
static void check_ones(const array_t *a)
{
    double sum[2] = {0, 0}, all[2];
    int64_t i[DIMS];
    first_cell(a, i);
    do {
        double value;
        memcpy(&value, element(a, i), sizeof value);
        sum[0] += is_own(a, i) ? value : 0;
        sum[1] += number_of(a, i) > 0;
    } while (next_cell(a, i));
    MPI_Allreduce(sum, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] == all[1]);
}

static selvage_field_t field_of(const array_t *a)
{
    return (selvage_field_t){SELVAGE_FIELD_INIT, .data = a->there, .element_bytes = a->element_bytes,
                             .width_lo = {a->width, a->width, a->width}, .width_hi = {a->width, a->width, a->width}};
}

/* Both halos are in flight together. */
static void step(selvage_device_t *dev, selvage_halo_t *forward, selvage_halo_t *back, array_t *doubles,
                 array_t *smalls, array_t *ones, int epoch, void *stream)
{
    void *data[2] = {doubles->there, smalls->there};
    fill(doubles, epoch);
    fill(smalls, epoch);
    fill_ones(ones);
    copy(dev, doubles, 1, stream);
    copy(dev, smalls, 1, stream);
    copy(dev, ones, 1, stream);
    CHECK_STATUS(selvage_halo_rebind(forward, data), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_start(forward, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_start(back, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_wait(back, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_wait(forward, stream), SELVAGE_SUCCESS);
    copy(dev, doubles, 0, stream);
    copy(dev, smalls, 0, stream);
    copy(dev, ones, 0, stream);
    check_filled(doubles, epoch);
    check_filled(smalls, epoch);
    check_ones(ones);
}

static void run(selvage_comm_t *comm, selvage_grid_t *grid)
{
    selvage_device_t *dev = selvage_comm_device(comm);
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    array_t doubles[SETS], smalls[SETS], ones;
    void *stream;
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(dev, &stream), SELVAGE_SUCCESS);
    for (int s = 0; s < SETS; s++) {
        open_array(&doubles[s], dev, &info, 2, sizeof(double));
        open_array(&smalls[s], dev, &info, 1, sizeof(small_t));
    }
    open_array(&ones, dev, &info, 1, sizeof(double));
    selvage_field_t fields[2] = {field_of(&doubles[0]), field_of(&smalls[0])}, added = field_of(&ones);
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_FULL};
    selvage_halo_t *forward = NULL, *back = NULL;
    CHECK_STATUS(selvage_halo_create(grid, &params, fields, 2, &forward), SELVAGE_SUCCESS);
    added.number = SELVAGE_NUMBER_FLOAT64;
    params.reverse = 1;
    CHECK_STATUS(selvage_halo_create(grid, &params, &added, 1, &back), SELVAGE_SUCCESS);
    for (int epoch = 1; epoch <= EPOCHS && forward && back; epoch++)
        step(dev, forward, back, &doubles[epoch % SETS], &smalls[epoch % SETS], &ones, epoch, stream);
    selvage_halo_destroy(back);
    selvage_halo_destroy(forward);
    for (int s = 0; s < SETS; s++) {
        close_array(&doubles[s], dev);
        close_array(&smalls[s], dev);
    }
    close_array(&ones, dev);
    selvage_stream_destroy(dev, stream);
}

int main(int argc, char **argv)
{
    int threads;
    selvage_comm_t *comm = NULL;
    selvage_grid_t *grid = NULL;
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = DIMS, .reorder = 1, .width = {2, 2, 2}};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    memcpy(params.global_extent, cells, sizeof cells);
    memcpy(params.periodic, periodic, sizeof periodic);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    if (comm)
        CHECK_STATUS(selvage_grid_create(comm, &params, &grid), SELVAGE_SUCCESS);
    if (grid)
        run(comm, grid);
    selvage_grid_destroy(grid);
    selvage_comm_destroy(comm);
    int status = check_report("halo_mpi");
    MPI_Finalize();
    return status;
}
