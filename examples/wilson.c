/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quarks on a lattice: solves the Wilson-Dirac equation for point sources on a gauge configuration, on any number of
 * ranks, and prints the pion's correlator. Half spinors travel between ranks while the interior is computed.
 *
 *     mpirun -n 4 wilson --lattice lat.sample.l8888 --kappa 0.15
 *     mpirun -n 4 wilson --extent 8x8x8x16 --kappa 0.12
 *     mpirun -n 2 wilson --way kernel --hops 100      half spinors sent from inside the kernel; what a hop takes
 *
 * Without a lattice quarks are free, and each number stands beside the one that sums over momenta give. Read
 * make_halo() and wilson_hop_across() in wilson_dirac.c; the operator is in wilson_loops.cc, the solver in
 * wilson_solve.c.
 *
 * Exit code 0 only if every solution's residual, computed anew from the full system, is small enough, and numbers with
 * a reference agree with it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wilson_free.h"
#include "wilson_gauge.h"
#include "wilson_solve.h"
#include "wilson_ways.h"

enum { SOURCES = 4 * SU3_COLOURS, MAX_ITERATIONS = 10000 };

static const double free_tolerance = 1e-10, plaquette_tolerance = 1e-6; /* .info files have six digits */

typedef struct job {
    example_t ex;
    const char *lattice, *device, *way;
    int extent[WILSON_DIMS], blocks[WILSON_DIMS], sources, seed, hops;
    double kappa, tolerance;
    milc_file_t file;
    wilson_t w;
    double *correlator;
    int wrong; /* results that are not what they should be */
} job_t;

static const char usage[] =
    "usage: wilson [--lattice FILE | --extent 8x8x8x8] [--kappa K] [--sources 12] [--tolerance 1e-13]\n"
    "              [--grid AxBxCxD] [--gauge-transform SEED] [--device soft|nvidia|amd]\n"
    "              [--way host|enqueued|run|kernel] [--hops COUNT]\n"
    "\n"
    "Solves (1 - kappa D) x = b for the first of the 12 point sources (4 spins, 3 colours) at the origin and prints\n"
    "the pion correlator, on a gauge configuration (MILC version 5) or, without --lattice, on unit links. Boundaries\n"
    "are periodic in space and antiperiodic in time; extents are even. --gauge-transform turns every link by random\n"
    "matrices, which must change no result, if the sources are complete in colour (3, 6, 9 or 12). --way says how\n"
    "half spinors travel; --hops times so many applications of D by each way first.\n";

/* Reads the arguments; 0, or the exit code of a run that ends here (-1: with success). */
static int parse(job_t *job, int argc, char **argv)
{
    int help = 0;
    const option_t options[] = {
        {"--lattice", OPTION_TEXT, &job->lattice, 0, 0},      {"--device", OPTION_TEXT, &job->device, 0, 0},
        {"--extent", OPTION_NUMBERS, job->extent, 2, 1024},   {"--grid", OPTION_NUMBERS, job->blocks, 1, 1024},
        {"--kappa", OPTION_REAL, &job->kappa, 0, 1},          {"--tolerance", OPTION_REAL, &job->tolerance, 1e-15, 1},
        {"--sources", OPTION_INT, &job->sources, 1, SOURCES}, {"--gauge-transform", OPTION_INT, &job->seed, 0, 1e9},
        {"--way", OPTION_TEXT, &job->way, 0, 0},              {"--hops", OPTION_INT, &job->hops, 2, 1e6},
    };
    if (example_parse(&job->ex, argc, argv, options, sizeof options / sizeof *options, usage, &help) == 0)
        return 0;
    return help ? -1 : 2;
}

/* True if a rank failed; the lowest that did says why. Collective. */
static int refused(const job_t *job, int failed, const char *why)
{
    int mine = failed ? job->ex.rank : job->ex.ranks, lowest;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == job->ex.rank)
        fprintf(stderr, "wilson: %s\n", why);
    return lowest < job->ex.ranks;
}

/* Opens the file, if there is one, and finds the extents. Returns 0 or an exit code. */
static int open_lattice(job_t *job)
{
    char why[MILC_ERROR_BYTES] = "";
    int failed = job->lattice != NULL && milc_open(job->lattice, &job->file, why) != 0;
    if (refused(job, failed, why))
        return 1;
    for (int d = 0; d < WILSON_DIMS; d++) {
        if (job->lattice != NULL)
            job->extent[d] = job->file.extent[d];
        failed |= job->extent[d] % 2 != 0;
    }
    return refused(job, failed, "an extent is odd: across the boundary, even sites would have even neighbours");
}

static void print_setting(const job_t *job)
{
    const int *e = job->extent, *b = job->w.info.blocks;
    selvage_halo_info_t halo = {SELVAGE_HALO_INFO_INIT};
    CHECK(selvage_halo_describe(job->w.halo[0], &halo));
    if (job->ex.rank != 0)
        return;
    printf("lattice    %dx%dx%dx%d, %s, kappa %g\n", e[0], e[1], e[2], e[3],
           job->lattice != NULL ? job->lattice : "unit links", job->kappa);
    printf("ranks      %d, grid %dx%dx%dx%d, device %s\n", job->ex.ranks, b[0], b[1], b[2], b[3],
           selvage_device_name(job->ex.device));
    printf("halo       half spinors: %d packets, %zu bytes from each rank\n", halo.packets, halo.bytes_sent);
}

/* Plaquettes tell whether links and halo are right; a file's .info has them from whoever made it. */
static void check_plaquettes(job_t *job)
{
    wilson_averages_t here = wilson_gauge_plaquettes(&job->w);
    milc_info_t info = {3, 3, 1};
    char path[4096], error[MILC_ERROR_BYTES];
    if (job->ex.rank != 0)
        return;
    printf("plaquettes in space %.9f, in time %.9f", here.space, here.time);
    if (job->lattice != NULL) {
        snprintf(path, sizeof path, "%s.info", job->lattice);
        if (milc_read_info(path, &info, error) != 0) {
            printf("\n");
            return;
        }
    }
    int good = fabs(here.space - info.space_plaquette) <= plaquette_tolerance &&
               fabs(here.time - info.time_plaquette) <= plaquette_tolerance;
    printf("; %s %.6f, %.6f%s\n", job->lattice != NULL ? "recorded" : "exact", info.space_plaquette,
           info.time_plaquette, good ? "" : "  WRONG");
    job->wrong += !good;
}

/* b = 1 in one component at the origin, which is an even site of the rank that owns it. */
static void set_source(const job_t *job, int source, wilson_field_t *b)
{
    const int64_t *first = job->w.info.local_first;
    void *spinor;
    CHECK(selvage_device_fill(job->ex.device, b->part[0], 0, job->w.places * sizeof(wilson_spinor_t), job->ex.stream));
    if (first[0] != 0 || first[1] != 0 || first[2] != 0 || first[3] != 0)
        return;
    CHECK(selvage_device_host_malloc(job->ex.device, sizeof(wilson_spinor_t), &spinor));
    *(wilson_spinor_t *)spinor = (wilson_spinor_t){0};
    ((wilson_spinor_t *)spinor)->s[source / SU3_COLOURS].c[source % SU3_COLOURS].re = 1;
    CHECK(selvage_device_copy(job->ex.device, b->part[0], spinor, sizeof(wilson_spinor_t), SELVAGE_COPY_HOST_TO_DEVICE,
                              job->ex.stream));
    CHECK(selvage_stream_synchronize(job->ex.device, job->ex.stream));
    selvage_device_host_free(job->ex.device, spinor);
}

static void solve_all(job_t *job)
{
    wilson_solver_t solver;
    wilson_field_t b = wilson_field_alloc(&job->w), x = wilson_field_alloc(&job->w);
    wilson_solver_open(&job->w, job->kappa, job->tolerance, MAX_ITERATIONS, &solver);
    if (job->ex.rank == 0)
        printf("\nsource  iterations   |b - M x| / |b|   seconds\n");
    for (int source = 0; source < job->sources; source++) {
        double begin = MPI_Wtime();
        set_source(job, source, &b);
        int iterations = wilson_solve(&solver, &b, &x);
        double residual = wilson_true_residual(&solver, &b, &x), seconds = MPI_Wtime() - begin;
        int good = iterations > 0 && residual <= 2 * job->tolerance; /* rounding has its share */
        wilson_add_slices(&job->w, &x, job->correlator);
        if (job->ex.rank == 0)
            printf("%6d  %10d   %15.3e   %7.3f%s\n", source, iterations, residual, seconds, good ? "" : "  WRONG");
        job->wrong += !good;
    }
    wilson_solver_close(&solver);
    wilson_field_free(&job->w, &x);
    wilson_field_free(&job->w, &b);
}

/* On rank 0: the correlator, beside the exact one where quarks are free. */
static void print_correlator(job_t *job)
{
    int nt = job->extent[3], is_free = job->lattice == NULL;
    double *exact = malloc((size_t)nt * sizeof *exact);
    if (exact == NULL || (is_free && wilson_free_pion(job->extent, job->kappa, exact) != 0))
        example_fail("no memory for the free correlator");
    printf("\n   t   pion correlator%s\n", is_free ? "          sum over momenta         difference" : "");
    for (int t = 0; t < nt; t++) {
        printf("%4d   %.15e", t, job->correlator[t]);
        if (is_free) {
            double difference = job->correlator[t] / (job->sources * exact[t]) - 1;
            int good = fabs(difference) <= free_tolerance;
            printf("   %.15e   %+.1e%s", job->sources * exact[t], difference, good ? "" : "  WRONG");
            job->wrong += !good;
        }
        printf("\n");
    }
    free(exact);
}

/* The way that was asked for, if there is one of that name, and it can be gone here. Returns 0 or -1. */
static int choose_way(job_t *job)
{
    wilson_way_t way = WILSON_HOST;
    if (job->way == NULL)
        return 0;
    while (way < WILSON_WAYS && strcmp(job->way, wilson_way_names[way]) != 0)
        way++;
    if (way == WILSON_WAYS || !wilson_way_is_possible(&job->w, way)) {
        if (job->ex.rank == 0)
            fprintf(stderr, "wilson: --way %s: %s\n", job->way,
                    way == WILSON_WAYS ? "no such way" : "kernels cannot wait for other ranks here");
        wilson_close(&job->w);
        example_close(&job->ex);
        return -1;
    }
    job->w.way = way;
    return 0;
}

static int run(job_t *job)
{
    if (open_lattice(job) != 0)
        return 1;
    job->correlator = calloc((size_t)job->extent[3], sizeof *job->correlator);
    if (job->correlator == NULL)
        example_fail("no memory for the correlator");
    example_open(&job->ex, job->device);
    wilson_open(&job->ex, job->extent, job->blocks, &job->w);
    wilson_gauge_set(&job->w, job->lattice != NULL ? &job->file : NULL, job->seed);
    if (choose_way(job) != 0)
        return 2;
    print_setting(job);
    check_plaquettes(job);
    if (job->hops > 0)
        job->wrong += wilson_time_ways(&job->w, job->hops);
    solve_all(job);
    if (job->ex.rank == 0)
        print_correlator(job);
    MPI_Bcast(&job->wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    wilson_close(&job->w);
    example_close(&job->ex);
    free(job->correlator);
    return job->wrong != 0;
}

int main(int argc, char **argv)
{
    job_t job = {.extent = {8, 8, 8, 8}, .sources = SOURCES, .kappa = 0.12, .tolerance = 1e-13, .file = {.fd = -1}};
    example_init(&argc, &argv, "wilson", &job.ex);
    int code = parse(&job, argc, argv);
    if (code == 0)
        code = run(&job);
    if (job.ex.rank == 0 && job.wrong != 0)
        printf("wilson: %d results are WRONG\n", job.wrong);
    milc_close(&job.file);
    MPI_Finalize();
    return code < 0 ? 0 : code;
}
