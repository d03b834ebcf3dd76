/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing work that is measured, and replaying it. */
#include "tools/common/bench_graph.h"

static void replay(void *context)
{
    const bench_graph_t *graph = context;
    tool_try(graph->job, "graph_launch", selvage_graph_launch(graph->device, graph->graph, graph->stream));
}

static void finish_replays(void *context)
{
    const bench_graph_t *graph = context;
    graph->of.finish(graph->of.context);
}

static bool capture_one(bench_capture_t capture, const bench_work_t *of)
{
    if (capture)
        return capture(of->context);
    of->enqueue(of->context);
    return true;
}

bool bench_graph_open(bench_graph_t *graph, bench_capture_t capture, const bench_work_t *of, bench_work_t *work_out)
{
    bool good = selvage_graph_begin(graph->device, graph->stream) == SELVAGE_SUCCESS;
    if (good) {
        for (int i = 0; i < BENCH_GRAPH_EPOCHS && good; i++)
            good = capture_one(capture, of);
        good &= selvage_graph_end(graph->device, graph->stream, &graph->graph) == SELVAGE_SUCCESS;
    }
    if (!bench_all(graph->job, good)) {
        bench_graph_close(graph);
        return false;
    }
    graph->of = *of;
    *work_out = (bench_work_t){replay, finish_replays, graph};
    return true;
}

void bench_graph_close(bench_graph_t *graph)
{
    selvage_graph_destroy(graph->device, graph->graph);
    graph->graph = NULL;
}
