/* SPDX-License-Identifier: BSD-3-Clause */
/* Set-up of a rank's part of the lattice, and the sums over all of it; see quenched_lattice.h. */
#include "quenched_lattice.h"

#include <mpi.h>

static void open_grid(quenched_lattice_t *lattice, const quenched_options_t *options)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = QUENCHED_DIMS};
    for (int d = 0; d < QUENCHED_DIMS; d++) {
        params.global_extent[d] = options->extent[d];
        params.periodic[d] = 1;
        params.blocks[d] = options->grid[d];
    }
    CHECK(selvage_grid_create(lattice->ex->comm, &params, &lattice->grid));
    lattice->block = (selvage_grid_info_t){SELVAGE_GRID_INFO_INIT};
    CHECK(selvage_grid_describe(lattice->grid, &lattice->block));
}

/* Arrays are as large as the largest block needs, so that they are alike on all ranks. */
static void allocate_links(quenched_lattice_t *lattice)
{
    quenched_field_t *field = &lattice->field;
    int64_t places = 1;
    for (int d = 0; d < QUENCHED_DIMS; d++) {
        int64_t blocks = lattice->block.blocks[d];
        lattice->array[d] = (lattice->block.global_extent[d] + blocks - 1) / blocks + 2;
        if (d == 0)
            lattice->array[d] += lattice->array[d] % 2; /* two places make one */
        field->stride[d] = places;
        places *= d == 0 ? lattice->array[d] / 2 : lattice->array[d];
    }
    field->plane = places;
    if (places > UINT32_MAX)
        example_fail("%lld places are too many for one rank", (long long)places);
    size_t bytes = 2 * QUENCHED_DIMS * QUENCHED_ELEMENTS * (size_t)places * sizeof(su3_complex_t);
    CHECK(selvage_device_malloc(lattice->ex->device, bytes, (void **)&field->links));
    CHECK(selvage_device_fill(lattice->ex->device, field->links, 0, bytes, lattice->ex->stream));
}

static quenched_site_t make_site(const quenched_lattice_t *lattice, const int64_t x[QUENCHED_DIMS])
{
    const selvage_grid_info_t *block = &lattice->block;
    int64_t number = 0, own = 0, place = (x[0] + 1) / 2;
    for (int d = QUENCHED_DIMS - 1; d >= 0; d--) {
        number = number * block->global_extent[d] + block->local_first[d] + x[d];
        own = own * block->local_extent[d] + x[d];
        place += d > 0 ? (x[d] + 1) * lattice->field.stride[d] : 0;
    }
    return (quenched_site_t){
        .number = (uint64_t)number, .place = (uint32_t)place, .own = (uint32_t)own, .odd = (uint32_t)((x[0] + 1) % 2)};
}

/* Steps through the rank's own sites, x fastest; false after the last. */
static bool next_site(const selvage_grid_info_t *block, int64_t x[QUENCHED_DIMS])
{
    for (int d = 0; d < QUENCHED_DIMS; d++) {
        if (++x[d] < block->local_extent[d])
            return true;
        x[d] = 0;
    }
    return false;
}

/* Writes the sites of one parity that lie inside the box, or outside; returns how many. */
static size_t list_sites(const quenched_lattice_t *lattice, const selvage_box_t *box, int parity, bool inside,
                         quenched_site_t *list)
{
    int64_t x[QUENCHED_DIMS] = {0};
    size_t count = 0;
    do {
        int64_t sum = 0;
        bool in = true;
        for (int d = 0; d < QUENCHED_DIMS; d++) {
            sum += lattice->block.local_first[d] + x[d];
            in = in && x[d] >= box->first[d] && x[d] < box->end[d];
        }
        if (sum % 2 == parity && in == inside)
            list[count++] = make_site(lattice, x);
    } while (next_site(&lattice->block, x));
    return count;
}

static void make_lists(quenched_lattice_t *lattice)
{
    static const int width[QUENCHED_DIMS] = {1, 1, 1, 1};
    selvage_box_t interior;
    quenched_site_t *host;
    size_t at = 0, bytes;
    CHECK(selvage_grid_interior(lattice->grid, width, width, &interior));
    lattice->own_sites = 1;
    for (int d = 0; d < QUENCHED_DIMS; d++)
        lattice->own_sites *= (size_t)lattice->block.local_extent[d];
    bytes = lattice->own_sites * sizeof *host;
    CHECK(selvage_device_malloc(lattice->ex->device, bytes, (void **)&lattice->site_memory));
    CHECK(selvage_device_host_malloc(lattice->ex->device, bytes, (void **)&host));
    for (int parity = 0; parity < 2; parity++) {
        quenched_sites_t *sites = &lattice->sites[parity];
        sites->boundary = lattice->site_memory + at;
        at += sites->boundary_count = list_sites(lattice, &interior, parity, false, host + at);
        sites->interior = lattice->site_memory + at;
        at += sites->interior_count = list_sites(lattice, &interior, parity, true, host + at);
    }
    CHECK(selvage_device_copy(lattice->ex->device, lattice->site_memory, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE,
                              lattice->ex->stream));
    CHECK(selvage_stream_synchronize(lattice->ex->device, lattice->ex->stream));
    selvage_device_host_free(lattice->ex->device, host);
}

static void allocate_sums(quenched_lattice_t *lattice)
{
    size_t results = QUENCHED_SUMS * lattice->own_sites * sizeof(uint64_t);
    size_t parts = QUENCHED_SUMS * QUENCHED_PARTS * sizeof(uint64_t);
    CHECK(selvage_device_malloc(lattice->ex->device, results, (void **)&lattice->results));
    CHECK(selvage_device_malloc(lattice->ex->device, parts, (void **)&lattice->parts));
    CHECK(selvage_device_host_malloc(lattice->ex->device, parts, (void **)&lattice->parts_host));
}

void quenched_open(quenched_lattice_t *lattice, const example_t *ex, const quenched_options_t *options)
{
    *lattice = (quenched_lattice_t){.ex = ex};
    open_grid(lattice, options);
    allocate_links(lattice);
    make_lists(lattice);
    allocate_sums(lattice);
    quenched_make_halos(lattice);
}

void quenched_close(quenched_lattice_t *lattice)
{
    selvage_device_t *device = lattice->ex->device;
    for (int i = 0; i < 2 * QUENCHED_DIMS; i++)
        selvage_halo_destroy(lattice->halo[i / 2][i % 2]);
    selvage_grid_destroy(lattice->grid);
    selvage_device_host_free(device, lattice->parts_host);
    selvage_device_free(device, lattice->parts);
    selvage_device_free(device, lattice->results);
    selvage_device_free(device, lattice->site_memory);
    selvage_device_free(device, lattice->field.links);
}

/* The whole lattice's sums: added as numbers modulo 2^64, in which order does not matter. */
static void add_up(quenched_lattice_t *lattice, uint64_t all[QUENCHED_SUMS])
{
    uint64_t mine[QUENCHED_SUMS] = {0};
    quenched_add_t add = {QUENCHED_PARTS, lattice->own_sites, lattice->results, lattice->parts};
    RUN(lattice, quenched_add, add);
    CHECK(selvage_device_copy(lattice->ex->device, lattice->parts_host, lattice->parts,
                              QUENCHED_SUMS * QUENCHED_PARTS * sizeof(uint64_t), SELVAGE_COPY_DEVICE_TO_HOST,
                              lattice->ex->stream));
    CHECK(selvage_stream_synchronize(lattice->ex->device, lattice->ex->stream));
    for (int i = 0; i < QUENCHED_SUMS * QUENCHED_PARTS; i++)
        mine[i / QUENCHED_PARTS] += lattice->parts_host[i];
    MPI_Allreduce(mine, all, QUENCHED_SUMS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static double per(uint64_t sum, double count)
{
    return (double)(int64_t)sum / QUENCHED_UNIT / count;
}

quenched_values_t quenched_values(quenched_lattice_t *lattice)
{
    uint64_t sums[QUENCHED_SUMS];
    double sites = 1;
    for (int d = 0; d < QUENCHED_DIMS; d++)
        sites *= (double)lattice->block.global_extent[d];
    for (int parity = 0; parity < 2; parity++) {
        const quenched_sites_t *lists = &lattice->sites[parity];
        quenched_measure_t measure = {.n = lists->boundary_count + lists->interior_count,
                                      .field = lattice->field,
                                      .sites = lists->boundary,
                                      .parity = parity,
                                      .own_sites = lattice->own_sites,
                                      .results = lattice->results};
        RUN(lattice, quenched_measure, measure);
    }
    add_up(lattice, sums);
    return (quenched_values_t){.space = per(sums[0], 3 * sites),
                               .time = per(sums[1], 3 * sites),
                               .plaquette = per(sums[0] + sums[1], 6 * sites),
                               .trace = per(sums[2], QUENCHED_DIMS * sites),
                               .hash = sums[3]};
}
