/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saving a configuration: a loop on the device puts the links in the order of files, and each rank writes the rows it
 * owns. The header, which makes a file valid, comes last.
 */
#include "quenched_save.h"

#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "milc_lattice.h"

_Static_assert((int)QUENCHED_SITE_FLOATS == (int)MILC_SITE_FLOATS && (int)QUENCHED_DIMS == (int)MILC_DIMS,
               "one lattice");

/* True if no rank failed; otherwise the lowest that did says why. Collective. */
static bool agree(const example_t *ex, int failed, const char *error)
{
    int mine = failed ? ex->rank : ex->ranks, lowest;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == ex->rank)
        fprintf(stderr, "%s: %s\n", ex->name, error);
    return lowest == ex->ranks;
}

/* This rank's links in pinned memory, 72 floats per site. The caller frees them. */
static float *fetch_links(quenched_lattice_t *lattice)
{
    size_t bytes = lattice->own_sites * MILC_SITE_FLOATS * sizeof(float);
    float *links, *floats;
    CHECK(selvage_device_malloc(lattice->ex->device, bytes, (void **)&floats));
    CHECK(selvage_device_host_malloc(lattice->ex->device, bytes, (void **)&links));
    for (int parity = 0; parity < 2; parity++) {
        const quenched_sites_t *sites = &lattice->sites[parity];
        quenched_export_t arg = {.n = sites->boundary_count + sites->interior_count,
                                 .field = lattice->field,
                                 .sites = sites->boundary,
                                 .parity = parity,
                                 .floats = floats};
        RUN(lattice, quenched_export, arg);
    }
    CHECK(selvage_device_copy(lattice->ex->device, links, floats, bytes, SELVAGE_COPY_DEVICE_TO_HOST,
                              lattice->ex->stream));
    CHECK(selvage_stream_synchronize(lattice->ex->device, lattice->ex->stream));
    selvage_device_free(lattice->ex->device, floats);
    return links;
}

static int write_rows(const quenched_lattice_t *lattice, milc_file_t *file, const float *links,
                      char error[MILC_ERROR_BYTES])
{
    const int64_t *first = lattice->block.local_first, *extent = lattice->block.local_extent;
    int64_t rows = (int64_t)lattice->own_sites / extent[0];
    for (int64_t row = 0; row < rows; row++) {
        const int from[MILC_DIMS] = {(int)first[0], (int)(first[1] + row % extent[1]),
                                     (int)(first[2] + row / extent[1] % extent[2]),
                                     (int)(first[3] + row / extent[1] / extent[2])};
        if (milc_write_row(file, from, (int)extent[0], links + row * extent[0] * MILC_SITE_FLOATS, error) != 0)
            return -1;
    }
    return milc_flush(file, error);
}

/* What was measured, under the names that MILC gives it. Its plaquettes go up to 3. */
static int write_info(const char *path, const quenched_lattice_t *lattice, double beta, const char *time_stamp,
                      const quenched_values_t *values, char error[MILC_ERROR_BYTES])
{
    char name[4096];
    const int64_t *extent = lattice->block.global_extent;
    snprintf(name, sizeof name, "%s.info", path);
    FILE *stream = fopen(name, "w");
    if (stream == NULL) {
        snprintf(error, MILC_ERROR_BYTES, "%.400s: %s", name, strerror(errno));
        return -1;
    }
    fprintf(stream, "magic_number = 20103\ntime_stamp = \"%s\"\n", time_stamp);
    for (int d = 0; d < MILC_DIMS; d++)
        fprintf(stream, "n%c = %" PRId64 "\n", "xyzt"[d], extent[d]);
    fprintf(stream, "action.description = \"Pure gauge\"\ngauge.description = \"One plaquette gauge action.\"\n");
    fprintf(stream, "gauge.beta11 = %.6f\ngauge.ssplaq = %.9f\ngauge.stplaq = %.9f\ngauge.nersc_linktr = %.9f\n", beta,
            3 * values->space, 3 * values->time, values->trace);
    bool bad = ferror(stream) != 0;
    if (fclose(stream) == 0 && !bad)
        return 0;
    snprintf(error, MILC_ERROR_BYTES, "%.400s: cannot be written", name);
    return -1;
}

bool quenched_save(quenched_lattice_t *lattice, const char *path, double beta, const char *time_stamp,
                   const quenched_values_t *values)
{
    const example_t *ex = lattice->ex;
    int extent[MILC_DIMS];
    uint32_t sums[2];
    char error[MILC_ERROR_BYTES] = "";
    milc_file_t file;
    for (int d = 0; d < MILC_DIMS; d++)
        extent[d] = (int)lattice->block.global_extent[d];
    float *links = fetch_links(lattice);
    bool good = agree(ex, milc_create(path, extent, &file, error), error) &&
                agree(ex, write_rows(lattice, &file, links, error), error);
    if (good) {
        MPI_Allreduce(file.sums, sums, 2, MPI_UINT32_T, MPI_BXOR, MPI_COMM_WORLD);
        good = agree(ex, ex->rank == 0 ? milc_seal(&file, time_stamp, sums, error) : 0, error) &&
               agree(ex, ex->rank == 0 ? write_info(path, lattice, beta, time_stamp, values, error) : 0, error);
    }
    milc_close(&file);
    selvage_device_host_free(lattice->ex->device, links);
    return good;
}
