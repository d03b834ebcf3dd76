/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This same program under another launcher or another MPI, for a column of its own. It runs before MPI_Init of this
 * job, while all other ranks wait in theirs, because a process of a running job cannot start another one. Variables
 * that a launcher gave this process, and what is preloaded into it, are not the rival's.
 */
#ifndef SELVAGE_BENCH_MPI_RIVAL_H
#define SELVAGE_BENCH_MPI_RIVAL_H

#include "tools/bench_mpi/bench_mpi_run.h"

/* On one rank. The words {} in the command are where the options go; without them the program and its options are put
   at the end. Its results come into the column of the rival; false, and it has said so, if there are none. */
bool bench_mpi_rival(bench_mpi_run_t *run);

#endif
