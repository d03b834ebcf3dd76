/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run: buffers of each kind of memory, and the results by benchmark, size and way. Rank 0 has them all; the calls
 * are collective.
 */
#ifndef SELVAGE_BENCH_MPI_RUN_H
#define SELVAGE_BENCH_MPI_RUN_H

#include "tools/bench_mpi/bench_mpi_nccl.h"
#include "tools/bench_mpi/bench_mpi_options.h"

typedef enum bench_mpi_state { BENCH_MPI_NOT_MEASURED, BENCH_MPI_RIGHT, BENCH_MPI_WRONG } bench_mpi_state_t;

typedef struct bench_mpi_result {
    bench_mpi_state_t state;
    double seconds; /* of an iteration, the slowest rank's; median of the repetitions */
    double value;   /* the same in the benchmark's unit */
    int iterations; /* in each repetition */
    bool noisy;     /* the repetitions differ much */
} bench_mpi_result_t;

/* One buffer to send from and one to receive into. */
typedef struct bench_mpi_buffers {
    char *send, *recv;
} bench_mpi_buffers_t;

typedef struct bench_mpi_run {
    bench_mpi_options_t options;
    bench_mpi_job_t job;
    bench_mpi_nccl_t nccl;
    bool ways[BENCH_MPI_WAYS]; /* the columns */
    bool takes_device;         /* device pointers may be given to this MPI */
    size_t buffer_bytes;
    bench_mpi_buffers_t host, device, pinned; /* NULL where no way needs them */
    unsigned char *got, *want;                /* for comparing */
    unsigned seed;
    bench_mpi_result_t results[BENCH_MPI_KINDS][BENCH_MPI_SIZES_MAX][BENCH_MPI_WAYS];
} bench_mpi_run_t;

/* Whether device memory is needed for the options: before MPI_Init. */
bool bench_mpi_run_needs_device(const bench_mpi_options_t *options);

/* After MPI_Init; options and job.device are set. Partner: bench_mpi_run_fini(). */
void bench_mpi_run_init(bench_mpi_run_t *run);
void bench_mpi_run_fini(bench_mpi_run_t *run);

/* The rows of a benchmark; one without data has one, of 0 bytes. */
int bench_mpi_row_count(const bench_mpi_run_t *run, int which);
size_t bench_mpi_row_bytes(const bench_mpi_run_t *run, int which, int row);

/* Measures one row of a benchmark in every way. */
void bench_mpi_run_row(bench_mpi_run_t *run, int which, int row);

#endif
