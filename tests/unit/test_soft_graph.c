/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs of the software device: what is captured does not run, and runs in order whenever it is launched, on any
 * stream, more often than a ring has room for, with several blocks; what cannot be captured is refused, and the stream
 * goes on. With threads and inline.
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "device/device.h"
#include <selvage/device.h>

enum { REPLAYS = 700, BLOCKS = 3, CELLS = 5 };

typedef struct place {
    uint64_t *cell;
    uint64_t *sum;
} place_t;

/* Each block adds to its own cell what all were before, so that order and number of launches show. */
static void add_cells(const void *arg, unsigned block, unsigned nblocks)
{
    const place_t *place = arg;
    (void)nblocks;
    place->cell[block] = place->cell[block] * 3 + block + 1;
}

static void sum_cells(const void *arg, unsigned block, unsigned nblocks)
{
    const place_t *place = arg;
    (void)block, (void)nblocks;
    for (int i = 0; i < CELLS; i++)
        *place->sum += place->cell[i];
}

/* What one replay does, here and captured. */
static void enqueue_step(selvage_device_t *dev, const place_t *place, void *stream)
{
    CHECK_STATUS(selvage_device_launch_soft(dev, add_cells, place, sizeof *place, BLOCKS, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, &place->cell[BLOCKS], &place->cell[0], 8, SELVAGE_COPY_DEVICE_TO_DEVICE,
                                     stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(dev, &place->cell[BLOCKS + 1], 1, 8, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_delay_us(dev, 0, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, sum_cells, place, sizeof *place, 1, stream), SELVAGE_SUCCESS);
}

static uint64_t sum_after(unsigned steps)
{
    uint64_t cell[CELLS] = {0}, sum = 0;
    const place_t place = {cell, &sum};
    for (unsigned s = 0; s < steps; s++) {
        for (unsigned block = 0; block < BLOCKS; block++)
            add_cells(&place, block, BLOCKS);
        cell[BLOCKS] = cell[0];
        cell[BLOCKS + 1] = UINT64_C(0x0101010101010101);
        sum_cells(&place, 0, 1);
    }
    return sum;
}

static void test_replays(selvage_device_t *dev)
{
    void *stream[2], *memory;
    selvage_graph_t *graph = NULL;
    CHECK_STATUS(selvage_device_malloc(dev, (CELLS + 1) * 8, &memory), SELVAGE_SUCCESS);
    memset(memory, 0, (CELLS + 1) * 8);
    const place_t place = {memory, (uint64_t *)memory + CELLS};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_stream_create(dev, &stream[i]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(dev, stream[0]), SELVAGE_SUCCESS);
    enqueue_step(dev, &place, stream[0]);
    CHECK_STATUS(selvage_graph_end(dev, stream[0], &graph), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, stream[0]), SELVAGE_SUCCESS);
    CHECK_EQ(*place.sum, 0);
    enqueue_step(dev, &place, stream[1]);
    for (int i = 0; i < REPLAYS; i++)
        CHECK_STATUS(selvage_graph_launch(dev, graph, stream[1]), SELVAGE_SUCCESS);
    enqueue_step(dev, &place, stream[1]);
    selvage_graph_destroy(dev, graph); /* launches under way go on */
    CHECK_STATUS(selvage_stream_synchronize(dev, stream[1]), SELVAGE_SUCCESS);
    CHECK_EQ(*place.sum, sum_after(REPLAYS + 2));
    for (int i = 0; i < 2; i++)
        selvage_stream_destroy(dev, stream[i]);
    selvage_device_free(dev, memory);
}

static void test_refused(selvage_device_t *dev)
{
    void *stream;
    selvage_graph_t *graph = NULL, *none = NULL;
    selvage_event_t *event;
    CHECK_STATUS(selvage_stream_create(dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_event_create(dev, &event), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(dev, stream, &none), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(selvage_graph_begin(dev, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_graph_begin(NULL, stream), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_graph_end(dev, NULL, &none), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_graph_end(NULL, stream, &none), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_graph_launch(dev, NULL, stream), SELVAGE_ERR_ARGUMENT);
    CHECK(!SV_DEVICE_CALL(dev, stream_is_capturing, stream));
    CHECK_STATUS(selvage_graph_begin(dev, stream), SELVAGE_SUCCESS);
    CHECK(SV_DEVICE_CALL(dev, stream_is_capturing, stream));
    CHECK_STATUS(selvage_graph_begin(dev, stream), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(selvage_graph_end(dev, stream, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_stream_synchronize(dev, stream), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_query, stream), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(selvage_event_record(dev, event, stream), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_wait_event, stream, event), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(selvage_graph_end(dev, stream, &graph), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_launch(dev, graph, stream), SELVAGE_ERR_DEVICE);
    CHECK_STATUS(selvage_device_delay_us(dev, 1, stream), SELVAGE_SUCCESS);
    selvage_graph_destroy(dev, graph);
    selvage_graph_destroy(dev, NULL);
    selvage_event_destroy(dev, event);
    selvage_stream_destroy(dev, stream); /* with the capture that nobody ended */
}

int main(void)
{
    for (int inlined = 0; inlined < 2; inlined++) {
        selvage_device_t *dev = NULL;
        setenv("SELVAGE_SOFT_MODE", inlined ? "inline" : "threads", 1);
        CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
        test_replays(dev);
        test_refused(dev);
        selvage_device_close(dev);
    }
    return check_report("test_soft_graph");
}
