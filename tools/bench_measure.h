/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timing of something that all ranks do together, again and again. In each repetition all start from a barrier and the
 * slowest rank counts; first touches of memory and the connections of MPI are left out by two runs that are not timed.
 */
#ifndef SELVAGE_BENCH_MEASURE_H
#define SELVAGE_BENCH_MEASURE_H

#include "tool_job.h"

typedef struct bench_times {
    double median_s, p99_s; /* 0: not measured */
    int repetitions;
} bench_times_t;

/* What is timed returns only when its work is complete on this rank. */
typedef void (*bench_body_t)(void *context);

/* Collective. As many repetitions as fit into the seconds, 5 at least, unless a number is given. */
bench_times_t bench_measure(const tool_job_t *job, double seconds, int repetitions, bench_body_t body, void *context);

/* True if it is true on all ranks. Collective. */
bool bench_all(const tool_job_t *job, bool here);

#endif
