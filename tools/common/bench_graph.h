/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work in a graph: what is enqueued once is captured some times over, and replayed as one. Mode GRAPH of
 * bench_measure.h. One thread.
 */
#ifndef SELVAGE_BENCH_GRAPH_H
#define SELVAGE_BENCH_GRAPH_H

#include <selvage/device.h>

#include "tools/common/bench_measure.h"

typedef struct bench_graph {
    const tool_job_t *job;
    selvage_device_t *device;
    void *stream;
    selvage_graph_t *graph;
    bench_work_t of;           /* the work that was captured */
} bench_graph_t;

/* Enqueues one of what is to be captured; false if it cannot be. */
typedef bool (*bench_capture_t)(void *context);

/* Captures on the stream what `capture` enqueues with of.context, or, if it is NULL, what of.enqueue does, which cannot
   fail. *work_out replays it, and finishes as `of` does.
   False, and nothing to close, if some rank cannot. Collective. */
bool bench_graph_open(bench_graph_t *graph, bench_capture_t capture, const bench_work_t *of, bench_work_t *work_out);
void bench_graph_close(bench_graph_t *graph);

#endif
