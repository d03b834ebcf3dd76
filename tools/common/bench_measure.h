/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timing of something that all ranks do together, again and again, in two ways. WAIT: each repetition starts from a
 * barrier and ends when the host knows that the work is complete. STREAM: many are enqueued back to back and the host
 * waits once at the end; the time of one is that of the batch by their number. The slowest rank counts. First touches
 * of memory and the connections of MPI are left out by runs that are not timed.
 */
#ifndef SELVAGE_BENCH_MEASURE_H
#define SELVAGE_BENCH_MEASURE_H

#include "tools/common/tool_job.h"

/* RUN and GRAPH are measured as STREAM is: of epochs that are one call each; and of graphs, which are so many of them
   (bench_graph.h). */
enum { BENCH_GRAPH_EPOCHS = 20 };
typedef enum bench_mode { BENCH_WAIT, BENCH_STREAM, BENCH_RUN, BENCH_GRAPH, BENCH_MODES } bench_mode_t;

typedef struct bench_times {
    double median_s, p99_s; /* 0: not measured. STREAM: of batches, the slowest of which is the p99 */
    int repetitions;
    tool_interval_t interval; /* of the median */
} bench_times_t;

/* Whether tables mark the median as noisy. */
bool bench_times_noisy(const bench_times_t *times);

typedef void (*bench_body_t)(void *context);

/* What is timed. `finish` returns when everything enqueued is complete on this rank; NULL where `enqueue` itself does
   not return before that, which can be measured in the mode WAIT only. */
typedef struct bench_work {
    bench_body_t enqueue, finish;
    void *context;
} bench_work_t;

/* Collective. As many repetitions as fit into the seconds, 5 at least, unless a number is given. */
bench_times_t bench_measure(const tool_job_t *job, bench_mode_t mode, double seconds, int repetitions,
                            const bench_work_t *work);

const char *bench_mode_name(bench_mode_t mode);

/* True if it is true on all ranks. Collective. */
bool bench_all(const tool_job_t *job, bool here);

#endif
