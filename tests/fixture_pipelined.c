/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fixture_pipelined.h. The pattern of key k, read eight bytes further on, is the pattern of key k + 1: so one
 * buffer per packet holds the data of every epoch, and a copy on the stream makes each.
 */
#include "fixture_pipelined.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"

enum { STALE = 0x5a };

static uint64_t key_of(const pipelined_t *pipelined, unsigned number)
{
    return pipelined->fixture.plan->seed * 1000003 + (uint64_t)(number + 1) * UINT64_C(0x100000000);
}

typedef struct inspect_arg {
    const uint8_t *data;
    size_t bytes;
    uint64_t key, epoch;
    pipelined_mark_t *mark;
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

static bool make_source(pipelined_t *pipelined, unsigned number)
{
    size_t bytes = pipelined->fixture.plan->packet[number].bytes + 8 * (size_t)(pipelined->epochs_max + 1);
    void *block;
    if (!pipelined->fixture.send[number].data)
        return true;
    if (selvage_device_malloc(pipelined->fixture.self->dev, bytes, &block) != SELVAGE_SUCCESS)
        return false;
    pipelined->source[number] = block;
    local_ranks_fill(block, bytes, key_of(pipelined, number));
    return true;
}

bool pipelined_open(pipelined_t *pipelined, local_rank_t *self, const plan_t *plan,
                    const selvage_exchange_params_t *params, unsigned epochs_max)
{
    *pipelined = (pipelined_t){.epochs_max = epochs_max};
    bool good = fixture_open(&pipelined->fixture, self, plan, params);
    pipelined->source = calloc(plan->count + 1, sizeof *pipelined->source);
    pipelined->mark = calloc(plan->count + 1, sizeof *pipelined->mark);
    if (!pipelined->source || !pipelined->mark)
        abort();
    for (unsigned i = 0; good && i < plan->count; i++)
        good = make_source(pipelined, i);
    for (int s = 0; s < 2; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &pipelined->stream[s]), SELVAGE_SUCCESS);
    selvage_status_t status = selvage_exchange_commit(pipelined->fixture.ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return good && status == SELVAGE_SUCCESS;
}

void pipelined_close(pipelined_t *pipelined)
{
    local_rank_t *self = pipelined->fixture.self;
    unsigned count = pipelined->fixture.plan->count;
    selvage_exchange_destroy(pipelined->fixture.ex);
    pipelined->fixture.ex = NULL;
    pipelined_settle(pipelined); /* checks still read the buffers */
    fixture_close(&pipelined->fixture);
    for (int s = 0; s < 2; s++)
        selvage_stream_destroy(self->dev, pipelined->stream[s]);
    for (unsigned i = 0; i < count; i++)
        selvage_device_free(self->dev, pipelined->source[i]);
    free(pipelined->source);
    free(pipelined->mark);
}

selvage_status_t pipelined_start(pipelined_t *pipelined, int stream)
{
    fixture_t *fixture = &pipelined->fixture;
    selvage_device_t *dev = fixture->self->dev;
    uint64_t epoch = fixture->epoch + 1;
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        size_t bytes = fixture->plan->packet[i].bytes;
        if (bytes > 0 && fixture->send[i].data)
            CHECK_STATUS(selvage_device_copy(dev, fixture->send[i].data, pipelined->source[i] + 8 * epoch, bytes,
                                             SELVAGE_COPY_DEVICE_TO_DEVICE, pipelined->stream[stream]),
                         SELVAGE_SUCCESS);
        if (bytes > 0 && fixture->recv[i].data)
            CHECK_STATUS(selvage_device_fill(dev, fixture->recv[i].data, STALE, bytes, pipelined->stream[stream]),
                         SELVAGE_SUCCESS);
    }
    selvage_status_t status = selvage_exchange_start(fixture->ex, pipelined->stream[stream]);
    fixture->epoch += status == SELVAGE_SUCCESS;
    return status;
}

static selvage_status_t end_epoch(pipelined_t *pipelined, void *stream, pipelined_end_t end)
{
    selvage_exchange_t *ex = pipelined->fixture.ex;
    selvage_status_t status;
    switch (end) {
    case PIPELINED_ENQUEUE:
        return selvage_exchange_enqueue_wait(ex, stream);
    case PIPELINED_WAIT:
        return selvage_exchange_wait(ex, stream);
    case PIPELINED_TEST:
        break;
    }
    while ((status = selvage_exchange_test(ex, stream)) == SELVAGE_IN_PROGRESS)
        sched_yield();
    return status;
}

selvage_status_t pipelined_finish(pipelined_t *pipelined, int stream, pipelined_end_t end)
{
    fixture_t *fixture = &pipelined->fixture;
    selvage_status_t status = end_epoch(pipelined, pipelined->stream[stream], end);
    for (unsigned i = 0; status == SELVAGE_SUCCESS && i < fixture->plan->count; i++) {
        const inspect_arg_t arg = {.data = fixture->recv[i].data,
                                   .bytes = fixture->plan->packet[i].bytes,
                                   .key = key_of(pipelined, i),
                                   .epoch = fixture->epoch,
                                   .mark = &pipelined->mark[i]};
        if (arg.data)
            CHECK_STATUS(
                selvage_device_launch_soft(fixture->self->dev, inspect, &arg, sizeof arg, 1, pipelined->stream[stream]),
                SELVAGE_SUCCESS);
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

void pipelined_hand_over(pipelined_t *pipelined, int from, int to)
{
    selvage_device_t *dev = pipelined->fixture.self->dev;
    const baton_t baton = {&pipelined->handed, pipelined->fixture.epoch};
    CHECK_STATUS(selvage_device_launch_soft(dev, give, &baton, sizeof baton, 1, pipelined->stream[from]),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, take, &baton, sizeof baton, 1, pipelined->stream[to]),
                 SELVAGE_SUCCESS);
}

void pipelined_settle(pipelined_t *pipelined)
{
    for (int s = 0; s < 2; s++)
        CHECK_STATUS(selvage_stream_synchronize(pipelined->fixture.self->dev, pipelined->stream[s]), SELVAGE_SUCCESS);
}

void pipelined_check(pipelined_t *pipelined)
{
    const fixture_t *fixture = &pipelined->fixture;
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        uint64_t wrong = atomic_load(&pipelined->mark[i].first_wrong);
        if (!fixture->recv[i].data)
            continue;
        CHECK_EQ(atomic_load(&pipelined->mark[i].checked), fixture->epoch);
        CHECK_EQ(wrong, 0);
        if (wrong)
            fprintf(stderr, "rank %d: packet %u of the plan (from %d, %zu bytes) was wrong first in epoch %llu\n",
                    fixture->self->rank, i, fixture->plan->packet[i].source, fixture->plan->packet[i].bytes,
                    (unsigned long long)wrong);
    }
}

uint64_t pipelined_first_wrong(const pipelined_t *pipelined)
{
    uint64_t first = 0;
    for (unsigned i = 0; i < pipelined->fixture.plan->count; i++) {
        uint64_t wrong = atomic_load(&pipelined->mark[i].first_wrong);
        if (wrong && (!first || wrong < first))
            first = wrong;
    }
    return first;
}
