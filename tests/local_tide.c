/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See local_tide.h. The pattern of key k, read eight bytes further on, is the pattern of key k + 1: so one buffer per
 * packet holds the data of every epoch, and a copy on the stream makes each.
 */
#include "local_tide.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"

enum { STALE = 0x5a };

static uint64_t key_of(const tide_t *tide, unsigned number)
{
    return tide->flow.plan->seed * 1000003 + (uint64_t)(number + 1) * UINT64_C(0x100000000);
}

typedef struct inspect_arg {
    const uint8_t *data;
    size_t bytes;
    uint64_t key, epoch;
    tide_mark_t *mark;
} inspect_arg_t;

static void inspect(const void *argument, unsigned block, unsigned nblocks)
{
    const inspect_arg_t *arg = argument;
    uint64_t none = 0;
    (void)block;
    (void)nblocks;
    if (local_ranks_wrong(arg->data, arg->bytes, arg->key + arg->epoch) >= 0)
        atomic_compare_exchange_strong(&arg->mark->first_wrong, &none, arg->epoch);
    atomic_fetch_add(&arg->mark->checked, 1);
}

static bool make_source(tide_t *tide, unsigned number)
{
    size_t bytes = tide->flow.plan->packet[number].bytes + 8 * (size_t)(tide->epochs_max + 1);
    void *block;
    if (!tide->flow.send[number].data)
        return true;
    if (selvage_device_malloc(tide->flow.self->dev, bytes, &block) != SELVAGE_SUCCESS)
        return false;
    tide->source[number] = block;
    local_ranks_fill(block, bytes, key_of(tide, number));
    return true;
}

bool tide_open(tide_t *tide, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params,
               unsigned epochs_max)
{
    *tide = (tide_t){.epochs_max = epochs_max};
    bool good = flow_open(&tide->flow, self, plan, params);
    tide->source = calloc(plan->count + 1, sizeof *tide->source);
    tide->mark = calloc(plan->count + 1, sizeof *tide->mark);
    if (!tide->source || !tide->mark)
        abort();
    for (unsigned i = 0; good && i < plan->count; i++)
        good = make_source(tide, i);
    for (int s = 0; s < 2; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &tide->stream[s]), SELVAGE_SUCCESS);
    selvage_status_t status = selvage_exchange_commit(tide->flow.ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return good && status == SELVAGE_SUCCESS;
}

void tide_close(tide_t *tide)
{
    local_rank_t *self = tide->flow.self;
    unsigned count = tide->flow.plan->count;
    selvage_exchange_destroy(tide->flow.ex);
    tide->flow.ex = NULL;
    tide_settle(tide); /* checks still read the buffers */
    flow_close(&tide->flow);
    for (int s = 0; s < 2; s++)
        selvage_stream_destroy(self->dev, tide->stream[s]);
    for (unsigned i = 0; i < count; i++)
        selvage_device_free(self->dev, tide->source[i]);
    free(tide->source);
    free(tide->mark);
}

selvage_status_t tide_start(tide_t *tide, int stream)
{
    flow_t *flow = &tide->flow;
    selvage_device_t *dev = flow->self->dev;
    uint64_t epoch = flow->epoch + 1;
    for (unsigned i = 0; i < flow->plan->count; i++) {
        size_t bytes = flow->plan->packet[i].bytes;
        if (bytes > 0 && flow->send[i].data)
            CHECK_STATUS(selvage_device_copy(dev, flow->send[i].data, tide->source[i] + 8 * epoch, bytes,
                                             SELVAGE_COPY_DEVICE_TO_DEVICE, tide->stream[stream]), SELVAGE_SUCCESS);
        if (bytes > 0 && flow->recv[i].data)
            CHECK_STATUS(selvage_device_fill(dev, flow->recv[i].data, STALE, bytes, tide->stream[stream]),
                         SELVAGE_SUCCESS);
    }
    selvage_status_t status = selvage_exchange_start(flow->ex, tide->stream[stream]);
    flow->epoch += status == SELVAGE_SUCCESS;
    return status;
}

static selvage_status_t end_epoch(tide_t *tide, void *stream, tide_end_t end)
{
    selvage_exchange_t *ex = tide->flow.ex;
    selvage_status_t status;
    switch (end) {
    case TIDE_ENQUEUE: return selvage_exchange_enqueue_wait(ex, stream);
    case TIDE_WAIT: return selvage_exchange_wait(ex, stream);
    case TIDE_TEST: break;
    }
    while ((status = selvage_exchange_test(ex, stream)) == SELVAGE_IN_PROGRESS)
        sched_yield();
    return status;
}

selvage_status_t tide_finish(tide_t *tide, int stream, tide_end_t end)
{
    flow_t *flow = &tide->flow;
    selvage_status_t status = end_epoch(tide, tide->stream[stream], end);
    for (unsigned i = 0; status == SELVAGE_SUCCESS && i < flow->plan->count; i++) {
        const inspect_arg_t arg = {.data = flow->recv[i].data,
                                   .bytes = flow->plan->packet[i].bytes,
                                   .key = key_of(tide, i),
                                   .epoch = flow->epoch,
                                   .mark = &tide->mark[i]};
        if (arg.data)
            CHECK_STATUS(selvage_device_launch_soft(flow->self->dev, inspect, &arg, sizeof arg, 1,
                                                    tide->stream[stream]), SELVAGE_SUCCESS);
    }
    return status;
}

typedef struct baton {
    _Atomic uint64_t *handed;
    uint64_t epoch;
} baton_t;

static void give(const void *argument, unsigned block, unsigned nblocks)
{
    const baton_t *baton = argument;
    (void)block;
    (void)nblocks;
    atomic_store(baton->handed, baton->epoch);
}

static void take(const void *argument, unsigned block, unsigned nblocks)
{
    const baton_t *baton = argument;
    (void)block;
    (void)nblocks;
    while (atomic_load(baton->handed) < baton->epoch)
        sched_yield();
}

void tide_hand_over(tide_t *tide, int from, int to)
{
    selvage_device_t *dev = tide->flow.self->dev;
    const baton_t baton = {&tide->handed, tide->flow.epoch};
    CHECK_STATUS(selvage_device_launch_soft(dev, give, &baton, sizeof baton, 1, tide->stream[from]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, take, &baton, sizeof baton, 1, tide->stream[to]), SELVAGE_SUCCESS);
}

void tide_settle(tide_t *tide)
{
    for (int s = 0; s < 2; s++)
        CHECK_STATUS(selvage_stream_synchronize(tide->flow.self->dev, tide->stream[s]), SELVAGE_SUCCESS);
}

void tide_check(tide_t *tide)
{
    const flow_t *flow = &tide->flow;
    for (unsigned i = 0; i < flow->plan->count; i++) {
        uint64_t wrong = atomic_load(&tide->mark[i].first_wrong);
        if (!flow->recv[i].data)
            continue;
        CHECK_EQ(atomic_load(&tide->mark[i].checked), flow->epoch);
        CHECK_EQ(wrong, 0);
        if (wrong)
            fprintf(stderr, "rank %d: packet %u of the plan (from %d, %zu bytes) was wrong first in epoch %llu\n",
                    flow->self->rank, i, flow->plan->packet[i].source, flow->plan->packet[i].bytes,
                    (unsigned long long)wrong);
    }
}

uint64_t tide_first_wrong(const tide_t *tide)
{
    uint64_t first = 0;
    for (unsigned i = 0; i < tide->flow.plan->count; i++) {
        uint64_t wrong = atomic_load(&tide->mark[i].first_wrong);
        if (wrong && (!first || wrong < first))
            first = wrong;
    }
    return first;
}
