/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links on their way from a file to the device; see wilson_gauge.h. Files have 32-bit numbers, the operator has 64. The
 * halo of the links is needed by the plaquettes only: the operator multiplies with a link where the link is.
 */
#include "wilson_gauge.h"

#include <stdlib.h>

#include "gauge_field.h"

/* The block's own sites without the halo, x fastest. */
static int next_site(const wilson_t *w, int x[WILSON_DIMS])
{
    const int size[WILSON_DIMS] = {w->block.size[0], w->block.size[1], w->block.size[2], w->block.size[3]};
    return gauge_next_site(x, size);
}

/* Reads row by row, each rank what it owns, and checks the sums of all. */
static void read_links(const wilson_t *w, milc_file_t *file, su3_matrix_t *links)
{
    const int rows[WILSON_DIMS] = {1, w->block.size[1], w->block.size[2], w->block.size[3]};
    int x[WILSON_DIMS] = {0}, from[WILSON_DIMS];
    char error[MILC_ERROR_BYTES];
    uint32_t sums[2];
    float *row = malloc((size_t)w->block.size[0] * MILC_SITE_FLOATS * sizeof *row);
    if (row == NULL)
        example_fail("no memory for a row of %d sites", (int)w->block.size[0]);
    do {
        for (int d = 0; d < WILSON_DIMS; d++)
            from[d] = (int)w->info.local_first[d] + x[d];
        if (milc_read_row(file, from, w->block.size[0], row, error) != 0)
            example_fail("%s", error);
        su3_matrix_t *to = links + wilson_link(&w->block, x);
        for (int i = 0; i < WILSON_DIMS * w->block.size[0]; i++)
            to[i] = su3_from_floats(row + (size_t)i * GAUGE_LINK_FLOATS);
    } while (gauge_next_site(x, rows));
    free(row);
    MPI_Allreduce(file->sums, sums, 2, MPI_UINT32_T, MPI_BXOR, MPI_COMM_WORLD);
    if (milc_check_sums(file, sums, error) != 0)
        example_fail("%s", error);
}

static void set_unit(const wilson_t *w, su3_matrix_t *links)
{
    int x[WILSON_DIMS] = {0};
    do {
        for (int mu = 0; mu < WILSON_DIMS; mu++)
            links[wilson_link(&w->block, x) + (size_t)mu] = su3_unit();
    } while (next_site(w, x));
}

/* A random matrix that depends on the seed and on the site in the whole lattice only. */
static su3_matrix_t random_at(const wilson_t *w, int seed, const int x[WILSON_DIMS])
{
    float numbers[GAUGE_LINK_FLOATS];
    uint64_t site = (uint64_t)seed;
    for (int d = WILSON_DIMS - 1; d >= 0; d--) {
        int64_t extent = w->info.global_extent[d];
        site = site * (uint64_t)extent + (uint64_t)((w->info.local_first[d] + x[d]) % extent);
    }
    gauge_random_links(numbers, 1, site);
    su3_matrix_t g = su3_from_floats(numbers);
    su3_reunitarise(&g);
    return g;
}

/* U_mu(x) becomes g(x) U_mu(x) g(x + mu)^+. */
static void transform(const wilson_t *w, int seed, su3_matrix_t *links)
{
    int x[WILSON_DIMS] = {0};
    do {
        su3_matrix_t here = random_at(w, seed, x);
        for (int mu = 0; mu < WILSON_DIMS; mu++) {
            su3_matrix_t *link = links + wilson_link(&w->block, x) + mu;
            int ahead[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
            ahead[mu]++;
            su3_matrix_t there = random_at(w, seed, ahead), product = su3_mul(&here, link);
            *link = su3_mul_adjoint(&product, &there);
        }
    } while (next_site(w, x));
}

/* Links from the last time slice to the first one change their sign, if they are in this block. */
static void make_antiperiodic(const wilson_t *w, su3_matrix_t *links)
{
    const su3_matrix_t zero = su3_zero();
    int x[WILSON_DIMS] = {0};
    do {
        su3_matrix_t *link = links + wilson_link(&w->block, x) + 3;
        if (w->info.local_first[3] + x[3] == w->info.global_extent[3] - 1)
            *link = su3_sub(&zero, link);
    } while (next_site(w, x));
}

/* One layer above the block, once: links never change. */
static void exchange_links(wilson_t *w)
{
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = w->links, .width_hi = {1, 1, 1, 1},
                             .element_bytes = WILSON_DIMS * sizeof(su3_matrix_t), .order = SELVAGE_ORDER_FIRST};
    selvage_halo_t *halo;
    CHECK(selvage_halo_create(w->grid, NULL, &field, 1, &halo));
    CHECK(selvage_halo_exchange(halo, w->ex->stream));
    selvage_halo_destroy(halo);
}

void wilson_gauge_set(wilson_t *w, milc_file_t *file, int seed)
{
    const int end[WILSON_DIMS] = {0, 0, 0, w->block.size[3] + 1};
    size_t bytes = wilson_link(&w->block, end) * sizeof(su3_matrix_t);
    void *links;
    CHECK(selvage_device_host_malloc(w->ex->device, bytes, &links));
    if (file != NULL)
        read_links(w, file, links);
    else
        set_unit(w, links);
    if (seed != 0)
        transform(w, seed, links);
    make_antiperiodic(w, links);
    CHECK(selvage_device_copy(w->ex->device, w->links, links, bytes, SELVAGE_COPY_HOST_TO_DEVICE, w->ex->stream));
    exchange_links(w);
    CHECK(selvage_stream_synchronize(w->ex->device, w->ex->stream));
    selvage_device_host_free(w->ex->device, links);
}

wilson_averages_t wilson_gauge_plaquettes(wilson_t *w)
{
    wilson_plaquette_t arg = {.n = 1, .block = w->block, .links = w->links};
    double mine[2], all[2], planes = 3;
    for (int d = 0; d < WILSON_DIMS; d++) {
        arg.n *= (size_t)w->block.size[d];
        planes *= (double)w->info.global_extent[d];
    }
    CHECK(selvage_device_malloc(w->ex->device, 2 * arg.n * sizeof(double), (void **)&arg.space));
    arg.time = arg.space + arg.n;
    CHECK(device_loop_run(&wilson_plaquette, &arg, sizeof arg, w->ex->device, w->ex->stream));
    CHECK(reduce_to_sum(&w->reducer, arg.space, arg.n, &mine[0]));
    CHECK(reduce_to_sum(&w->reducer, arg.time, arg.n, &mine[1]));
    selvage_device_free(w->ex->device, arg.space);
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (wilson_averages_t){all[0] / planes, all[1] / planes};
}
