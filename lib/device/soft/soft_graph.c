/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs of the software device: what a GPU's runtime captures of a stream, and replays.
 *
 * While a stream is captured, soft_op_begin() hands out operations of a list in place of those of the ring, and nothing
 * is executed. A launch copies the list into the ring of whatever stream it is for, so that a graph may be launched
 * again while it is still running, and destroyed after its last launch. Events are not captured: a graph is one stream.
 * The list grows, so that a capture allocates; a launch does only if its stream has too few helpers.
 *
 * The thread that enqueues to the stream owns the capture. A graph is read by launches, from any thread.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

typedef struct soft_node {
    struct soft_node *next;
    soft_op_t op;
} soft_node_t;

struct soft_graph {
    soft_device_t *dev;
    soft_node_t *first, **end;
    unsigned blocks_max;             /* of its launches */
    bool lost;                       /* there was no memory for an operation */
    soft_op_t nowhere;               /* what is written then */
};

soft_op_t *soft_graph_add(soft_graph_t *graph)
{
    soft_node_t *node = NULL;
    void *block = NULL;
    /* Operations are aligned to a line, which the allocator of the library does not promise. */
    if (sv_pages_alloc(sizeof *node, &block) != SELVAGE_SUCCESS) {
        graph->lost = true;
        return &graph->nowhere;
    }
    node = block;
    *graph->end = node;
    graph->end = &node->next;
    return &node->op;
}

void soft_graph_note_blocks(soft_graph_t *graph, unsigned nblocks)
{
    graph->blocks_max = graph->blocks_max > nblocks ? graph->blocks_max : nblocks;
}

selvage_status_t soft_refuse_captured(const soft_stream_t *stream, const char *call)
{
    return stream->capture ? sv_error(SELVAGE_ERR_DEVICE, "soft: %s of a stream that is being captured", call)
                           : SELVAGE_SUCCESS;
}

selvage_status_t soft_graph_begin(sv_device_t *dev, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    void *block = NULL;
    if (stream->capture)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: the stream is being captured already");
    SV_TRY(sv_pages_alloc(sizeof *stream->capture, &block));
    stream->capture = block;
    stream->capture->dev = (soft_device_t *)dev;
    stream->capture->end = &stream->capture->first;
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_graph_end(sv_device_t *dev, void *handle, void **graph_out)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    soft_graph_t *graph = stream->capture;
    if (!graph)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: the stream is not being captured");
    stream->capture = NULL;
    if (graph->lost) {
        soft_graph_destroy(dev, graph);
        return sv_error(SELVAGE_ERR_MEMORY, "soft: no memory for what was captured");
    }
    *graph_out = graph;
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_graph_launch(sv_device_t *dev, void *graph_handle, void *handle)
{
    const soft_graph_t *graph = graph_handle;
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    SV_TRY(soft_refuse_captured(stream, "a graph launch"));
    if (graph->blocks_max > 1 && !stream->inlined)
        SV_TRY(soft_helpers_grow(stream, graph->blocks_max - 1));
    for (const soft_node_t *node = graph->first; node; node = node->next) {
        soft_op_t *op = soft_op_begin(stream);
        op->run = node->op.run;
        op->brief = node->op.brief;
        memcpy(&op->u, &node->op.u, sizeof op->u);
        soft_op_publish(stream, op);
    }
    return SELVAGE_SUCCESS;
}

void soft_graph_destroy(sv_device_t *dev, void *graph_handle)
{
    soft_graph_t *graph = graph_handle;
    (void)dev;
    while (graph->first) {
        soft_node_t *node = graph->first;
        graph->first = node->next;
        sv_pages_free(node, sizeof *node);
    }
    sv_pages_free(graph, sizeof *graph);
}

bool soft_stream_is_capturing(sv_device_t *dev, void *handle)
{
    soft_stream_t *stream;
    return soft_stream_find(dev, handle, &stream) == SELVAGE_SUCCESS && stream->capture != NULL;
}
