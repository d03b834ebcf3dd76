/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of selvage-bench-mpi. Parsing is local and prints nothing: all ranks parse, and one speaks. */
#ifndef SELVAGE_BENCH_MPI_OPTIONS_H
#define SELVAGE_BENCH_MPI_OPTIONS_H

#include <stdio.h>

#include "tools/bench_mpi/bench_mpi_kind.h"

enum { BENCH_MPI_SIZES_MAX = 64, BENCH_MPI_REPETITIONS_MAX = 1000 };

typedef struct bench_mpi_options {
    bool benchmarks[BENCH_MPI_KINDS];
    bool ways[BENCH_MPI_WAYS]; /* none: those that this MPI can do */
    size_t min, max, memory;
    size_t sizes[BENCH_MPI_SIZES_MAX]; /* from min to max */
    int size_count, factor;
    int window, iterations, repetitions;
    double seconds;
    int corrupt; /* a bench_mpi_which_t, or -1 */
    const char *nccl, *rival, *json, *csv; /* NULL if not wanted; they point into argv */
    bool cliffs, records, help, version;
} bench_mpi_options_t;

/* False if a word is not understood: error_text then says which. May permute argv. */
bool bench_mpi_options_parse(int argc, char **argv, bench_mpi_options_t *options_out, char *error_text,
                             size_t error_bytes);

void bench_mpi_options_usage(FILE *stream);

#endif
