/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file launches kernels. A call, or all calls of a group, are one launch on the stream of the first of them. More
 * work than the FIFO holds goes in several launches. So do reductions in different protocols, because each protocol has
 * a kernel of its own. A few pieces of work travel in the argument, more of them in the FIFO. All functions run on the
 * application's one thread; a batch lives on its stack.
 *
 * Launches of an arena run one after another, because two grids that wait for other ranks must not share the device.
 * On one stream they do. For the next stream an event is recorded after every launch, at once: recorded only when
 * another stream asks, it would also stand for what the user has enqueued since, which may itself wait for that other
 * stream's collective, and the stream might be gone by then.
 *
 * What is captured into a graph has no event, and nothing here counts it: the user orders replays and other launches.
 * All that changes from one replay to the next, steps and rounds, the kernels keep in device memory anyway. The FIFO's
 * content does not last, so that a captured launch has as much work as its argument holds.
 */
#include "base/base_status.h"
#include "collective/coll_cache.h"
#include "collective/coll_parts.h"

typedef struct batch {
    selvage_coll_t *coll;
    void *stream;
    bool fifo_always, captured;
    unsigned first, reduces;   /* protocol of the first piece; that in which pieces reduce, 0: none does */
    unsigned blocks, limit;    /* highest channel used + 1; pieces of work at most */
    uint32_t pieces;           /* one for each channel */
    sv_coll_arg_t arg;
} batch_t;

static selvage_status_t batch_launch(batch_t *batch)
{
    selvage_coll_t *coll = batch->coll;
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = arena->comm->dev;
    if (batch->arg.nwork == 0)
        return SELVAGE_SUCCESS;
    bool alone = batch->arg.nwork == 1 && !batch->arg.from_fifo;
    batch->arg.context.launch = arena->launches + 1;
    size_t small_bytes = 0;
    const sv_kernel_t *small = alone ? sv_coll_small_kernel(coll, &batch->arg.work[0], &small_bytes) : NULL;
    batch->arg.position = arena->fifo_produced;
    if (small) { /* of which the context is the communicator's */
        coll->alone.small.context.ended = batch->arg.context.ended;
        coll->alone.small.context.launch = batch->arg.context.launch;
    }
    sv_coll_take_stamps(coll, &batch->arg, batch->blocks, small ? &coll->alone.small.context : &batch->arg.context);
    if (small) {
        SV_TRY(SV_DEVICE_CALL(dev, launch, small, &coll->alone, small_bytes, batch->blocks, batch->stream));
    } else {
        /* Each kernel reduces in one protocol; they all copy in all of them. */
        unsigned proto = batch->reduces ? batch->reduces : batch->first;
        const sv_kernel_t *kernel = proto == SV_COLL_LL      ? &sv_kernel_coll_ll
                                    : proto == SV_COLL_LL128 ? &sv_kernel_coll_ll128
                                                             : &sv_kernel_coll;
        SV_TRY(SV_DEVICE_CALL(dev, launch, kernel, &batch->arg, sizeof batch->arg, batch->blocks, batch->stream));
    }
    const uint32_t from_fifo = batch->arg.from_fifo ? batch->arg.nwork : 0, pieces = batch->pieces;
    const uint32_t blocks = batch->blocks;
    batch->arg.nwork = batch->reduces = batch->blocks = batch->pieces = 0;
    batch->arg.from_fifo = batch->fifo_always;
    if (batch->captured) {
        arena->captured = true;
        return SELVAGE_SUCCESS;
    }
    arena->fifo_produced += from_fifo * SV_COLL_FIFO_STRIDE;
    arena->last_stream = batch->stream;
    arena->last_blocks = blocks;
    arena->launches++;
    arena->pieces += pieces;
    return SV_DEVICE_CALL(dev, event_record, arena->last, batch->stream);
}

static selvage_status_t batch_add(batch_t *batch, const sv_coll_work_t *work)
{
    sv_coll_arg_t *arg = &batch->arg;
    /* In which protocol the piece reduces; 0: it only copies. One rank alone uses no lines. */
    unsigned proto = batch->coll->dev.n == 1 ? (unsigned)SV_COLL_SIMPLE : work->proto;
    unsigned reduces = work->op ? proto : 0;
    if (arg->nwork == batch->limit || (reduces && batch->reduces && reduces != batch->reduces))
        SV_TRY(batch_launch(batch));
    if (arg->nwork == 0)
        batch->first = work->proto;
    batch->reduces = reduces ? reduces : batch->reduces;
    if (!arg->from_fifo && arg->nwork == SV_COLL_ARG_WORKS) { /* it is full: its pieces move into the FIFO */
        for (unsigned i = 0; i < arg->nwork; i++)
            SV_TRY(sv_coll_fifo_put(batch->coll, i, &arg->work[i]));
        arg->from_fifo = 1;
    }
    if (arg->from_fifo)
        SV_TRY(sv_coll_fifo_put(batch->coll, arg->nwork, work));
    else
        arg->work[arg->nwork] = *work;
    unsigned end = (unsigned)work->channel + work->nchannels;
    arg->nwork++;
    batch->pieces += work->nchannels;
    batch->blocks = end > batch->blocks ? end : batch->blocks;
    return SELVAGE_SUCCESS;
}

bool sv_coll_is_new_stream(const sv_coll_call_t *calls, unsigned i)
{
    if (calls[i].stream == calls[0].stream)
        return false;
    for (unsigned k = i; k > 0 && k + 16 > i; k--)
        if (calls[k - 1].stream == calls[i].stream)
            return false;
    return true;
}

/* Enqueues all of it on the stream of the first call. */
static selvage_status_t launch_joined(batch_t *batch, const sv_coll_call_t *calls, unsigned ncalls,
                                      sv_coll_pairs_t *pairs)
{
    selvage_coll_t *coll = batch->coll;
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = arena->comm->dev;
    sv_coll_work_t work, round[2];
    const sv_coll_call_t *send, *recv;
    /* 1. The launch waits for the last one, and for the streams of all calls. A wait is for what was recorded when it
       was enqueued, so that one event serves them all; the launch records it anew. */
    if (arena->launches > 0 && batch->stream != arena->last_stream && !batch->captured)
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, batch->stream, arena->last));
    for (unsigned i = 1; i < ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        SV_TRY(SV_DEVICE_CALL(dev, event_record, arena->last, calls[i].stream));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, batch->stream, arena->last));
    }
    /* 2. All calls of all ranks come first, in their order; sends and receives follow. */
    for (unsigned i = 0; i < ncalls; i++) {
        if (calls[i].call == SV_COLL_PAIR)
            continue;
        sv_coll_work_of_call(coll, &calls[i], &work);
        SV_TRY(batch_add(batch, &work));
    }
    while (sv_coll_pairs_next(pairs, &send, &recv)) {
        unsigned count = sv_coll_works_of_round(coll, send, recv, round);
        for (unsigned i = 0; i < count; i++)
            SV_TRY(batch_add(batch, &round[i]));
    }
    return batch_launch(batch);
}

selvage_status_t sv_coll_refuse_captured_group(const sv_coll_call_t *calls, unsigned ncalls)
{
    for (unsigned i = 1; i < ncalls; i++)
        if (calls[i].captured != calls[0].captured || (calls[0].captured && calls[i].stream != calls[0].stream))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_group_end: call %u of the group is on another "
                            "stream than the first, and one of them is being captured into a graph", i);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_launch(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = arena->comm->dev;
    sv_coll_pairs_t pairs;
    batch_t batch; /* not cleared: the argument is large, and most of it is not used */
    if (ncalls == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_refuse_captured_group(calls, ncalls));
    sv_coll_cache_poll(arena, calls[0].stream);
    SV_TRY(sv_coll_pairs_begin(&pairs, calls, ncalls, coll->dev.n, coll->dev.me));
    batch.coll = coll;
    batch.stream = calls[0].stream;
    batch.captured = calls[0].captured;
    batch.fifo_always = coll->comm->config.coll_work_fifo == SV_CONFIG_COLL_WORK_FIFO_ALWAYS && !batch.captured;
    batch.limit = batch.captured ? SV_COLL_ARG_WORKS : sv_coll_fifo_pieces(arena);
    batch.first = batch.reduces = batch.blocks = 0;
    batch.pieces = 0;
    batch.arg.context = coll->context;
    if (batch.captured) /* its replays are no launches of here */
        batch.arg.context.ended = NULL;
    batch.arg.nwork = 0;
    batch.arg.from_fifo = batch.fifo_always;
    batch.arg.fifo_mask = arena->fifo_bytes - 1;
    selvage_status_t status = launch_joined(&batch, calls, ncalls, &pairs);
    if (status != SELVAGE_SUCCESS && batch.captured)
        return status;
    if (status != SELVAGE_SUCCESS) {
        /* The event may stand for a user's stream now; this one comes after the last launch as well. */
        (void)SV_DEVICE_CALL(dev, event_record, arena->last, calls[0].stream);
        arena->last_stream = calls[0].stream;
        return status;
    }
    /* The other streams of the group go on after the launch. */
    for (unsigned i = 1; i < ncalls; i++)
        if (sv_coll_is_new_stream(calls, i))
            SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[i].stream, arena->last));
    return SELVAGE_SUCCESS;
}
