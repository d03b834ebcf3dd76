/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cliffs of a finished run: where device pointers are slower than staging by hand, by more than what repeats differ
 * by, also with host memory at the other end, and where a size takes more than twice what the next smaller and the
 * next larger one would let expect.
 */
#ifndef SELVAGE_BENCH_MPI_CLIFFS_H
#define SELVAGE_BENCH_MPI_CLIFFS_H

#include "tools/bench_mpi/bench_mpi_run.h"

typedef struct bench_mpi_cliff {
    int which, row;
    bench_mpi_way_t way;
    bool by_hand;    /* expected from the way `hand` or `hand_mixed`; else from its neighbours */
    double expected; /* in the benchmark's unit */
} bench_mpi_cliff_t;

/* Calls `tell` for each, in the order of the tables, and returns how many there are. */
int bench_mpi_cliffs(const bench_mpi_run_t *run,
                     void (*tell)(const bench_mpi_run_t *run, const bench_mpi_cliff_t *cliff, void *context),
                     void *context);

#endif
