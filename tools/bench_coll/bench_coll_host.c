/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's time in a call, which includes the launch of a kernel, and that of a bare launch: a pause of no length. A
 * few are enqueued at once and waited for, so that no call waits for room in a queue.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/bench_coll/bench_coll_run.h"

enum { BATCHES = 40, BATCHES_FEW = 4, BATCH = 25, WARM_UPS = 10 };

static void fill_batch(const bench_coll_run_t *run, const bench_work_t *work, double *taken, int count)
{
    tool_barrier(&run->job);
    for (int i = 0; i < count; i++) {
        const double start = tool_seconds();
        work->enqueue(work->context);
        taken[i] = tool_seconds() - start;
    }
    work->finish(work->context);
}

bench_host_times_t bench_coll_host(const bench_coll_run_t *run, const bench_work_t *work)
{
    const tool_job_t *job = &run->job;
    const int batches = job->oversubscribed || run->options.repetitions ? BATCHES_FEW : BATCHES,
              count = batches * BATCH;
    double *taken = tool_malloc(job, (size_t)count * sizeof *taken);
    fill_batch(run, work, taken, WARM_UPS);
    for (int b = 0; b < batches; b++)
        fill_batch(run, work, taken + b * BATCH, BATCH);
    double figures[2] = {tool_median(taken, count)}; /* sorts them */
    figures[1] = taken[(int)ceil(0.99 * count) - 1];
    free(taken);
    tool_reduce(job, job->comm, figures, 2, MPI_DOUBLE, MPI_MAX);
    return (bench_host_times_t){figures[0], figures[1]};
}

static void launch(void *context)
{
    const bench_ground_t *ground = context;
    tool_try(ground->job, "delay_us", selvage_device_delay_us(ground->device, 0, ground->stream));
}

static void finish(void *context)
{
    const bench_ground_t *ground = context;
    tool_try(ground->job, "synchronize", selvage_stream_synchronize(ground->device, ground->stream));
}

bench_host_times_t bench_coll_launch(const bench_coll_run_t *run)
{
    bench_ground_t ground = run->ground;
    const bench_work_t work = {launch, finish, &ground};
    return bench_coll_host(run, &work);
}
