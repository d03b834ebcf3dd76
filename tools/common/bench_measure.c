/* SPDX-License-Identifier: BSD-3-Clause */
/* Repetitions, their number agreed on by all ranks, and the order statistics of the slowest rank's times. */
#include "tools/common/bench_measure.h"

#include <math.h>

#include "tools/bench/bench_options.h"

/* A queue of a device holds some hundred launches; a longer batch would measure the host that waits for room. */
enum { WARM_UPS = 2, REPETITIONS_MIN = 5, BATCHES = 7, BATCHES_FEW = 3, BATCH_MIN = 4, BATCH_MAX = 200 };

const char *bench_mode_name(bench_mode_t mode)
{
    static const char *const names[BENCH_MODES] = {"wait", "stream", "run", "graph"};
    return names[mode];
}

bool bench_times_noisy(const bench_times_t *times)
{
    return tool_is_noisy(times->median_s, times->interval);
}

/* Seconds for so many at once, from a common start. */
static double once(const tool_job_t *job, const bench_work_t *work, int count)
{
    tool_barrier(job);
    const double start = tool_seconds();
    for (int i = 0; i < count; i++)
        work->enqueue(work->context);
    if (work->finish)
        work->finish(work->context);
    return tool_seconds() - start;
}

/* The last warm-up tells how many fit. */
static int warm_up(const tool_job_t *job, double seconds, const bench_work_t *work, int at_once, int low, int high)
{
    double taken = 0;
    for (int i = 0; i < WARM_UPS; i++)
        taken = once(job, work, at_once) / at_once;
    tool_reduce(job, job->comm, &taken, 1, MPI_DOUBLE, MPI_MAX);
    const double fit = taken > 0 ? seconds / taken : high;
    if (fit >= high)
        return high;
    return fit > low ? (int)fit : low;
}

static bench_times_t measure_wait(const tool_job_t *job, double seconds, int repetitions, const bench_work_t *work)
{
    double taken[BENCH_REPETITIONS_MAX];
    const int fit = warm_up(job, seconds, work, 1, REPETITIONS_MIN, BENCH_REPETITIONS_MAX);
    const int count = repetitions ? repetitions : fit;
    for (int i = 0; i < count; i++)
        taken[i] = once(job, work, 1);
    bench_times_t times = {.repetitions = count};
    times.median_s = tool_median_of_slowest(job, taken, count); /* sorts them */
    times.p99_s = taken[(int)ceil(0.99 * count) - 1];
    times.interval = tool_median_interval(taken, count);
    return times;
}

/* each: how many the work is at once. */
static bench_times_t measure_stream(const tool_job_t *job, double seconds, int repetitions, int each,
                                    const bench_work_t *work)
{
    double taken[BATCHES];
    const int batches = repetitions ? BATCHES_FEW : BATCHES;
    const int fit = warm_up(job, seconds / BATCHES, work, BATCH_MIN, BATCH_MIN, BATCH_MAX);
    const int length = repetitions ? repetitions : fit;
    for (int i = 0; i < batches; i++)
        taken[i] = once(job, work, length) / (length * each);
    bench_times_t times = {.repetitions = batches * length * each};
    times.median_s = tool_median_of_slowest(job, taken, batches);
    times.p99_s = taken[batches - 1];
    times.interval = tool_median_interval(taken, batches);
    return times;
}

bench_times_t bench_measure(const tool_job_t *job, bench_mode_t mode, double seconds, int repetitions,
                            const bench_work_t *work)
{
    if (mode != BENCH_WAIT)
        return measure_stream(job, seconds, repetitions, mode == BENCH_GRAPH ? BENCH_GRAPH_EPOCHS : 1, work);
    return measure_wait(job, seconds, repetitions, work);
}

bool bench_all(const tool_job_t *job, bool here)
{
    int all = here;
    tool_reduce(job, job->comm, &all, 1, MPI_INT, MPI_MIN);
    return all != 0;
}
