/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pure SU(3) gauge theory by heat bath on a lattice that is spread over all ranks, from a cold and from a hot start.
 * The average plaquette is compared with what is known of it: at beta = 6.0 a published value, at small beta the strong
 * coupling series. Every bit of every link is the same on every grid of ranks; a hash of them is printed.
 *
 *     mpirun -n 4 quenched --extent 8x8x8x8 --sweeps 400 --save beta6.l8888
 *
 * The halos are in quenched_sweep.c. Exit code 0 unless something failed, or both starts differ, or the mean and what
 * is known differ, by more than three standard deviations.
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "quenched_lattice.h"
#include "quenched_save.h"
#include "quenched_statistics.h"

enum { COMPARED_MIN = 32 }; /* measurements from which errors mean anything */
static const double deviations_max = 3;

/* One run from one start. */
typedef struct chain {
    const char *name;
    double *plaquettes; /* of every measurement */
    quenched_estimate_t estimate;
    quenched_values_t last;
    double seconds;
} chain_t;

/* What the plaquette should be. Without a text, nothing is known. */
typedef struct known {
    double value, error, size; /* size: how much a lattice of this size may be off */
    const char *text;
} known_t;

/*
 * A periodic direction of L sites acts as a temperature of 1 / L in lattice units, which raises the plaquette by
 * (e - 3p) / T^4 / (6 L^4 (-a dbeta/da)). The first factor is 2.6 at most, near the critical temperature, which is that
 * of 8 sites at beta = 6.06 (Boyd et al.); at beta = 6, d(ln a)/dbeta is -1.7331 (S. Necco and R. Sommer, Nucl. Phys.
 * B 622 (2002) 328: their interpolation of r0/a).
 */
static double size_effect(const int extent[QUENCHED_DIMS])
{
    double sum = 0;
    for (int d = 0; d < QUENCHED_DIMS; d++)
        sum += 2.6 * 1.7331 / 6 / pow(extent[d], 4);
    return sum;
}

static known_t find_known(const quenched_options_t *options)
{
    int smallest = options->extent[0];
    for (int d = 1; d < QUENCHED_DIMS; d++)
        smallest = options->extent[d] < smallest ? options->extent[d] : smallest;
    double beta = options->beta;
    if (fabs(beta - 6) < 1e-12 && smallest >= 8)
        return (known_t){0.593678, 0.000024, size_effect(options->extent),
                         "G. Boyd et al., Nucl. Phys. B 469 (1996) 419, hep-lat/9602007, on 16^4"};
    if (beta <= 1 && smallest >= 4) /* the next term is of fourth order, and far smaller than statistical errors */
        return (known_t){beta / 18 + beta * beta / 216, 0, 0, "strong coupling: beta / 18 + beta^2 / 216"};
    return (known_t){0};
}

/* Updates of one step: a heat bath and over-relaxations. Steps are counted from 1. */
static void step(quenched_lattice_t *lattice, const quenched_options_t *options, uint64_t key, int number)
{
    quenched_sweep(lattice, options->beta, false, key, (uint32_t)number);
    for (int i = 0; i < options->relax; i++)
        quenched_sweep(lattice, options->beta, true, key, (uint32_t)number);
}

/* Chains draw their own random numbers: the upper half of the key tells them apart. */
static void run_chain(quenched_lattice_t *lattice, const quenched_options_t *options, bool hot, chain_t *chain)
{
    uint64_t key = (uint64_t)hot << 32 | (uint32_t)options->seed;
    int steps = options->thermalise + options->sweeps;
    double begin = MPI_Wtime();
    chain->name = hot ? "hot" : "cold";
    chain->plaquettes = malloc((size_t)options->sweeps * sizeof *chain->plaquettes);
    if (chain->plaquettes == NULL)
        example_fail("no memory for %d plaquettes", options->sweeps);
    quenched_begin(lattice, hot, key);
    for (int i = 1; i <= steps; i++) {
        step(lattice, options, key, i);
        example_progress(lattice->ex, i, steps);
        if (i <= options->thermalise)
            continue;
        chain->last = quenched_values(lattice);
        chain->plaquettes[i - options->thermalise - 1] = chain->last.plaquette;
    }
    chain->estimate = quenched_estimate(chain->plaquettes, (size_t)options->sweeps);
    chain->seconds = MPI_Wtime() - begin;
    free(chain->plaquettes);
}

static void print_setting(const quenched_lattice_t *lattice, const quenched_options_t *options)
{
    const int *e = options->extent, *g = lattice->block.blocks;
    printf("quenched  SU(3), %dx%dx%dx%d, beta %g, seed %d, per step 1 heat bath and %d over-relaxations\n", e[0], e[1],
           e[2], e[3], options->beta, options->seed, options->relax);
    printf("          %d steps to thermalise, %d measured; plaquettes are added as multiples of 2^-32: exactly\n",
           options->thermalise, options->sweeps);
    printf("ranks     %d, grid %dx%dx%dx%d, device %s\n\n", lattice->ex->ranks, g[0], g[1], g[2], g[3],
           selvage_device_name(lattice->ex->device));
    printf("%-9s %-14s %-10s %-5s %-17s %s\n", "start", "plaquette", "error", "bins", "hash of links", "us per link");
    fflush(stdout);
}

static void print_chain(const quenched_options_t *options, const chain_t *chain)
{
    double links = QUENCHED_DIMS, sweeps = (double)(options->thermalise + options->sweeps) * (1 + options->relax);
    for (int d = 0; d < QUENCHED_DIMS; d++)
        links *= options->extent[d];
    printf("%-9s %-14.12f %-10.6f %-5zu %016" PRIx64 "  %.3g\n", chain->name, chain->estimate.mean,
           chain->estimate.error, chain->estimate.bin, chain->last.hash, 1e6 * chain->seconds / links / sweeps);
    fflush(stdout);
}

/* Prints how far two values are apart, of which the lattice's size explains 0 to `size`; true if that is no wonder. */
static bool compare(const char *what, double difference, double error, double size)
{
    double deviations = fmax(fmax(-difference, difference - size), 0) / error;
    bool good = deviations <= deviations_max;
    printf("%s differ by: %+.6f", what, difference);
    if (size > 0)
        printf(", where the size of the lattice makes up to %.6f", size);
    printf("; %.1f standard deviations%s\n", deviations, good ? "" : "  WRONG");
    return good;
}

/* On rank 0 alone. */
static bool judge(const quenched_options_t *options, const chain_t *chains, int count)
{
    known_t known = find_known(options);
    bool good = true, enough = options->sweeps >= COMPARED_MIN;
    double mean = chains[0].estimate.mean, error = chains[0].estimate.error;
    if (count == 2) {
        mean = (mean + chains[1].estimate.mean) / 2;
        error = hypot(error, chains[1].estimate.error) / 2;
        printf("%-9s %-14.12f %-10.6f\n", "mean", mean, error);
    }
    if (known.text != NULL)
        printf("%-9s %-14.6f %-10.6f %s\n", "known", known.value, known.error, known.text);
    printf("\n");
    if (!enough)
        printf("fewer than %d measurements: nothing is compared\n", (int)COMPARED_MIN);
    if (enough && count == 2)
        good = compare("cold and hot start", chains[0].estimate.mean - chains[1].estimate.mean, 2 * error, 0);
    if (enough && known.text != NULL)
        good = compare("mean and known value", mean - known.value, hypot(error, known.error), known.size) && good;
    fflush(stdout);
    return good;
}

static bool save(quenched_lattice_t *lattice, const quenched_options_t *options, const chain_t *chain)
{
    char stamp[64];
    snprintf(stamp, sizeof stamp, "quenched, beta %g, seed %d, %s start, step %d", options->beta, options->seed,
             chain->name, options->thermalise + options->sweeps);
    return quenched_save(lattice, options->save, options->beta, stamp, &chain->last);
}

static bool run(const example_t *ex, const quenched_options_t *options)
{
    chain_t chains[2];
    int count = 0, good = 1;
    quenched_lattice_t lattice;
    quenched_open(&lattice, ex, options);
    if (ex->rank == 0)
        print_setting(&lattice, options);
    for (int hot = 0; hot < 2; hot++) {
        if (hot ? !options->hot : !options->cold)
            continue;
        run_chain(&lattice, options, hot, &chains[count]);
        if (ex->rank == 0)
            print_chain(options, &chains[count]);
        count++;
    }
    if (ex->rank == 0)
        good = judge(options, chains, count);
    if (options->save != NULL && !save(&lattice, options, &chains[count - 1]))
        good = 0;
    quenched_close(&lattice);
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return good;
}

int main(int argc, char **argv)
{
    quenched_options_t options;
    example_t ex;
    int help = 0, code = 2;
    example_init(&argc, &argv, "quenched", &ex);
    if (quenched_options_parse(&ex, argc, argv, &options, &help)) {
        example_open(&ex, options.device);
        code = run(&ex, &options) ? 0 : 1;
        example_close(&ex);
    }
    MPI_Finalize();
    return help ? 0 : code;
}
