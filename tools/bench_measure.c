/* SPDX-License-Identifier: BSD-3-Clause */
/* Repetitions, their number agreed on by all ranks, and the order statistics of the slowest rank's times. */
#include "bench_measure.h"

#include <math.h>
#include <stdlib.h>

#include "bench_options.h"

enum { WARM_UPS = 2, REPETITIONS_MIN = 5 };

static double once(const tool_job_t *job, bench_body_t body, void *context)
{
    tool_barrier(job);
    const double start = tool_seconds();
    body(context);
    return tool_seconds() - start;
}

/* The last warm-up tells how many repetitions fit. */
static int warm_up(const tool_job_t *job, double seconds, bench_body_t body, void *context)
{
    double taken = 0;
    for (int i = 0; i < WARM_UPS; i++)
        taken = once(job, body, context);
    tool_reduce(job, job->comm, &taken, 1, MPI_DOUBLE, MPI_MAX);
    const double fit = taken > 0 ? seconds / taken : BENCH_REPETITIONS_MAX;
    if (fit >= BENCH_REPETITIONS_MAX)
        return BENCH_REPETITIONS_MAX;
    return fit > REPETITIONS_MIN ? (int)fit : REPETITIONS_MIN;
}

bench_times_t bench_measure(const tool_job_t *job, double seconds, int repetitions, bench_body_t body, void *context)
{
    double taken[BENCH_REPETITIONS_MAX];
    const int fit = warm_up(job, seconds, body, context), count = repetitions ? repetitions : fit;
    for (int i = 0; i < count; i++)
        taken[i] = once(job, body, context);
    bench_times_t times = {.repetitions = count};
    times.median_s = tool_median_of_slowest(job, taken, count); /* sorts them */
    times.p99_s = taken[(int)ceil(0.99 * count) - 1];
    return times;
}

bool bench_all(const tool_job_t *job, bool here)
{
    int all = here;
    tool_reduce(job, job->comm, &all, 1, MPI_INT, MPI_MIN);
    return all != 0;
}
