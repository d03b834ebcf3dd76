/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plaquettes of a real gauge configuration, on any number of ranks. Each rank reads its own sites, the forward halos
 * travel in verified packets, and the averages are compared with published values: a wrong link anywhere shows.
 *
 *     mpirun -n 4 plaquette --lattice lat.sample.l8888
 *
 * Exit code 0 only if the file's checksums are right, every packet verified and every difference is at most 1e-6. What
 * is wrong on one rank is agreed on by all before the next step, so that none is left waiting.
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "gauge_field.h"
#include "milc_lattice.h"
#include "plaquette_halo.h"
#include "plaquette_options.h"

_Static_assert((int)GAUGE_SITE_FLOATS == (int)MILC_SITE_FLOATS && (int)GAUGE_DIMS == (int)MILC_DIMS, "one lattice");

#define CHECK(call) halo_check((call), #call)

static const double tolerance = 1e-6; /* the reference has six digits */

typedef struct job {
    int rank, ranks;
    options_t options;
    placement_t place;
    milc_file_t file;
    gauge_field_t field;
    selvage_device_t *device;
    selvage_comm_t *comm;
    uint64_t packets, bytes, resends, bad, by_route[8]; /* over all ranks, on rank 0 */
    char error[MILC_ERROR_BYTES];
} job_t;

/* True if no rank failed; otherwise the lowest that did says why and all return false. Collective. */
static bool agree(job_t *job, int failed)
{
    int mine = failed ? job->rank : job->ranks, lowest;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == job->rank)
        fprintf(stderr, "plaquette: %s\n", job->error);
    return lowest == job->ranks;
}

/* Reads the block that starts at low into field, row by row. */
static int read_block(job_t *job, const int low[GAUGE_DIMS], gauge_field_t *field)
{
    const int rows[GAUGE_DIMS] = {1, field->size[1], field->size[2], field->size[3]};
    int x[GAUGE_DIMS] = {0};
    do {
        int from[GAUGE_DIMS] = {low[0], low[1] + x[1], low[2] + x[2], low[3] + x[3]};
        if (milc_read_row(&job->file, from, field->size[0], gauge_field_site(field, x), job->error) != 0)
            return -1;
    } while (gauge_next_site(x, rows));
    return 0;
}

static int make_field(job_t *job, const int size[GAUGE_DIMS], bool periodic, gauge_field_t *field)
{
    if (gauge_field_init(field, size, periodic))
        return 0;
    snprintf(job->error, sizeof job->error, "no memory for a block of %dx%dx%dx%d sites", size[0], size[1], size[2],
             size[3]);
    return -1;
}

/* Opens the file, finds this rank's block, reads it, and verifies the checksums of the whole. */
static bool read_lattice(job_t *job)
{
    uint32_t sums[2];
    if (!agree(job, milc_open(job->options.lattice, &job->file, job->error)) ||
        !agree(job, placement_find(job->options.grid, job->file.extent, job->rank, job->ranks, &job->place,
                                   job->error)) ||
        !agree(job, make_field(job, job->place.size, false, &job->field)) ||
        !agree(job, read_block(job, job->place.low, &job->field)))
        return false;
    MPI_Allreduce(job->file.sums, sums, 2, MPI_UINT32_T, MPI_BXOR, MPI_COMM_WORLD);
    return agree(job, milc_check_sums(&job->file, sums, job->error));
}

/* Collects the communicator's counters on rank 0. */
static void collect_statistics(job_t *job)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    CHECK(selvage_comm_stats(job->comm, &stats));
    uint64_t mine[12] = {stats.packets_received, stats.bytes_received, stats.resends,
                         stats.bad_digests + stats.bad_records};
    uint64_t all[12] = {0};
    memcpy(mine + 4, stats.packets_by_route, sizeof stats.packets_by_route);
    MPI_Reduce(mine, all, 12, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    job->packets = all[0];
    job->bytes = all[1];
    job->resends = all[2];
    job->bad = all[3];
    memcpy(job->by_route, all + 4, sizeof job->by_route);
}

/* Brings sums over the lattice to the usual scale: plaquettes up to 3, the link trace up to 1. */
static gauge_sums_t normalise(const job_t *job, const double sums[3])
{
    const int *extent = job->file.extent;
    double sites = (double)extent[0] * extent[1] * extent[2] * extent[3];
    return (gauge_sums_t){sums[0] / (3 * sites), sums[1] / (3 * sites), sums[2] / (3 * 4 * sites)};
}

/* The computation: halos travel while the link trace, which needs none, is taken. The result is on rank 0. */
static gauge_sums_t compute(job_t *job)
{
    halo_t halo;
    double mine[3], all[3] = {0, 0, 0};
    CHECK(selvage_device_open_local(NULL, &job->device)); /* each rank of a host its own GPU */
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = job->device};
    CHECK(selvage_comm_create(MPI_COMM_WORLD, &params, &job->comm));
    halo_open(&halo, job->comm, job->options.route, &job->place, &job->field);
    halo_start(&halo, &job->field);
    mine[2] = gauge_link_trace(&job->field);
    halo_finish(&halo, &job->field);
    gauge_plaquettes(&job->field, &mine[0], &mine[1]);
    MPI_Reduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    collect_statistics(job);
    halo_close(&halo);
    return normalise(job, all);
}

/* The whole lattice on this rank alone, with neighbours found by arithmetic: no halo, no packet. */
static int compute_serially(job_t *job, gauge_sums_t *result)
{
    static const int origin[GAUGE_DIMS] = {0, 0, 0, 0};
    gauge_field_t whole;
    double sums[3];
    int failed = make_field(job, job->file.extent, true, &whole);
    if (failed == 0)
        failed = read_block(job, origin, &whole);
    if (failed == 0) {
        gauge_plaquettes(&whole, &sums[0], &sums[1]);
        sums[2] = gauge_link_trace(&whole);
        *result = normalise(job, sums);
    }
    gauge_field_fini(&whole);
    return failed;
}

/* Published values if there are any, else our own serial ones. */
static int find_reference(job_t *job, gauge_sums_t *reference, const char **label)
{
    char path[4096];
    milc_info_t info;
    const char *asked = job->options.info;
    snprintf(path, sizeof path, "%s%s", asked != NULL ? asked : job->options.lattice, asked != NULL ? "" : ".info");
    int result = milc_read_info(path, &info, job->error);
    if (result == 0) {
        *reference = (gauge_sums_t){info.space_plaquette, info.time_plaquette, info.link_trace};
        *label = "reference";
        return 0;
    }
    if (asked != NULL) {
        if (result == 1)
            snprintf(job->error, sizeof job->error, "%.400s: no such file", path);
        return -1;
    }
    if (result < 0)
        fprintf(stderr, "plaquette: %s; comparing with a serial computation instead\n", job->error);
    *label = "serial";
    return compute_serially(job, reference);
}

static void print_setting(const job_t *job)
{
    const int *e = job->file.extent, *g = job->place.grid;
    const char *checks = getenv("SELVAGE_CHECKSUM");
    bool checked = checks == NULL || strcmp(checks, "off") != 0;
    printf("lattice  %s: %dx%dx%dx%d, \"%s\"\n", job->options.lattice, e[0], e[1], e[2], e[3], job->file.time_stamp);
    printf("         checksums %08" PRIx32 " %08" PRIx32 " agree with the links%s\n", job->file.wanted[0],
           job->file.wanted[1], job->file.swapped ? " (other byte order)" : "");
    printf("ranks    %d, grid %dx%dx%dx%d, device %s\n", job->ranks, g[0], g[1], g[2], g[3],
           selvage_device_name(selvage_comm_device(job->comm)));
    printf("halo     %" PRIu64 " packets %s, %" PRIu64 " bytes, %" PRIu64 " bad, %" PRIu64 " sent again\n",
           job->packets, checked ? "verified" : "landed unchecked", job->bytes, job->bad, job->resends);
    printf("routes  ");
    for (int r = SELVAGE_ROUTE_SELF; r <= SELVAGE_ROUTE_DIRECT; r++)
        if (job->by_route[r] != 0)
            printf(" %s %" PRIu64, selvage_route_name((selvage_route_t)r), job->by_route[r]);
    printf("\n\n");
}

/* Prints the table; returns how many rows differ too much (a value that is no number does). */
static int print_table(const gauge_sums_t *computed, const gauge_sums_t *reference, const char *label)
{
    static const char *const names[3] = {"space-space plaquette", "space-time plaquette", "link trace"};
    const double a[3] = {computed->space_plaquette, computed->time_plaquette, computed->link_trace};
    const double b[3] = {reference->space_plaquette, reference->time_plaquette, reference->link_trace};
    int wrong = 0;
    printf("%-22s %12s %12s %12s\n", "", "computed", label, "difference");
    for (int i = 0; i < 3; i++) {
        bool good = fabs(a[i] - b[i]) <= tolerance;
        printf("%-22s %12.6f %12.6f %+12.1e%s\n", names[i], a[i], b[i], a[i] - b[i], good ? "" : "  WRONG");
        wrong += !good;
    }
    return wrong;
}

/* Compares and reports, on rank 0 alone. */
static int report(job_t *job, const gauge_sums_t *computed)
{
    gauge_sums_t reference;
    const char *label;
    print_setting(job);
    if (find_reference(job, &reference, &label) != 0)
        return -1;
    int wrong = print_table(computed, &reference, label);
    fflush(stdout);
    if (wrong != 0)
        snprintf(job->error, sizeof job->error, "%d of 3 values differ from the %s ones by more than %.0e", wrong,
                 label, tolerance);
    else if (job->packets != (uint64_t)GAUGE_DIMS * (uint64_t)job->ranks)
        snprintf(job->error, sizeof job->error, "%" PRIu64 " packets were counted, not %d for each of %d ranks",
                 job->packets, (int)GAUGE_DIMS, job->ranks);
    else
        return 0;
    return -1;
}

static int measure(job_t *job)
{
    int code = 1;
    if (read_lattice(job)) {
        gauge_sums_t computed = compute(job);
        int failed = job->rank == 0 ? report(job, &computed) : 0;
        code = agree(job, failed) ? 0 : 1;
    }
    selvage_comm_destroy(job->comm);
    selvage_device_close(job->device);
    gauge_field_fini(&job->field);
    milc_close(&job->file);
    return code;
}

/* Makes a configuration of random links; on rank 0 alone. */
static int write_lattice(job_t *job)
{
    const int *e = job->options.extent;
    char stamp[MILC_STAMP_BYTES];
    size_t links = (size_t)e[0] * (size_t)e[1] * (size_t)e[2] * (size_t)e[3] * GAUGE_DIMS;
    float *data = calloc(links, GAUGE_LINK_FLOATS * sizeof *data);
    if (data == NULL) {
        snprintf(job->error, sizeof job->error, "no memory for a lattice of %dx%dx%dx%d", e[0], e[1], e[2], e[3]);
        return -1;
    }
    gauge_random_links(data, links, (uint64_t)job->options.seed);
    snprintf(stamp, sizeof stamp, "random SU(3) links, seed %d", job->options.seed);
    int failed = milc_write(job->options.write, e, stamp, data, job->options.swapped, job->error);
    if (failed == 0)
        printf("wrote %s: %dx%dx%dx%d, %s\n", job->options.write, e[0], e[1], e[2], e[3], stamp);
    free(data);
    return failed;
}

int main(int argc, char **argv)
{
    job_t job = {.file = {.fd = -1}};
    int provided, code = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided); /* all of it only for SELVAGE_PROGRESS=thread */
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (!agree(&job, options_parse(argc, argv, &job.options, job.error))) {
        if (job.rank == 0)
            fputs(options_usage, stderr);
        code = 2;
    } else if (job.options.help) {
        if (job.rank == 0)
            fputs(options_usage, stdout);
    } else if (job.options.write != NULL) {
        code = agree(&job, job.rank == 0 ? write_lattice(&job) : 0) ? 0 : 1;
    } else {
        code = measure(&job);
    }
    MPI_Finalize();
    return code;
}
