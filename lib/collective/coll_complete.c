/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file finds which launches are complete. Launches of an arena run one after another. So a launch is complete, and
 * others can see what it stored, once a later launch has begun. Channels count the pieces of work that they begin: if
 * all counts together exceed what this launch and those before it brought, a later one has begun. Counts lag by some
 * short calls. An event after the last launch says the same of all launches, also where an error has kept blocks from
 * counting, and where graphs have made channels count what was not launched here.
 *
 * Where the host waits for its calls, the blocks of a launch store its number when they are through. That is seen
 * before the device says that the launch is complete, and all that they have stored comes before it.
 *
 * One thread at a time is inside, and only sv_coll_drain() and sv_coll_wait() wait. The arena owns a callback until it
 * has run.
 */
#include "base/base_clock.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_parts.h"

static uint32_t pieces_started(const sv_coll_arena_t *arena)
{
    uint32_t sum = 0;
    for (uint32_t c = 0; c < arena->layout.nchannels; c++) /* partner: the release by the block of each channel */
        sum += __atomic_load_n(&arena->pinned->counts[c].started, __ATOMIC_ACQUIRE);
    return sum;
}

static selvage_status_t query_last(sv_coll_arena_t *arena)
{
    if (arena->completed == arena->launches)
        return SELVAGE_SUCCESS;
    selvage_status_t status = SV_DEVICE_CALL(arena->comm->dev, event_query, arena->last);
    if (status == SELVAGE_SUCCESS)
        arena->completed = arena->launches;
    return status;
}

void sv_coll_note_completed(sv_coll_arena_t *arena)
{
    (void)query_last(arena);
}

void sv_coll_poll(sv_coll_arena_t *arena)
{
    while (!sv_list_is_empty(&arena->callbacks)) {
        sv_coll_callback_t *callback = SV_CONTAINER_OF(arena->callbacks.next, sv_coll_callback_t, link);
        /* 1. Is its launch complete? The event takes a microsecond: it is asked only where the counts do not say. */
        bool is_complete = callback->launch <= arena->completed;
        if (!is_complete && callback->launch < arena->launches && !arena->captured)
            is_complete = (int32_t)(pieces_started(arena) - (uint32_t)callback->pieces) > 0;
        if (!is_complete) {
            (void)query_last(arena);
            if (callback->launch > arena->completed)
                return;
        }
        /* 2. Hand it back; it may add another one, so it is out of the list before. */
        sv_list_remove(&callback->link);
        arena->ncallbacks++;
        if (callback->launch > arena->completed)
            arena->completed = callback->launch;
        callback->fn(callback->arg);
        sv_free(callback);
    }
}

selvage_status_t sv_coll_when_complete(sv_coll_arena_t *arena, void (*fn)(void *arg), void *arg)
{
    sv_coll_callback_t *callback;
    SV_TRY(sv_calloc(1, sizeof *callback, &callback));
    callback->launch = arena->launches;
    callback->pieces = arena->pieces;
    callback->fn = fn;
    callback->arg = arg;
    sv_list_append(&arena->callbacks, &callback->link);
    sv_coll_poll(arena);
    return SELVAGE_SUCCESS;
}

/* Waits for the event after the last launch; ERR_TIMEOUT, unlogged, if that takes longer. */
static selvage_status_t wait_last(sv_coll_arena_t *arena, double timeout_s)
{
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = arena->comm->topology.oversubscribed};
    uint64_t begin_ns = sv_clock_ns();
    for (;;) {
        selvage_status_t status = query_last(arena);
        sv_coll_poll(arena);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            return SELVAGE_ERR_TIMEOUT;
        sv_backoff(&backoff);
    }
}

selvage_status_t sv_coll_drain(sv_coll_arena_t *arena, double timeout_s)
{
    const double grace_s = 5; /* blocks look at the word every few microseconds */
    uint64_t done = arena->completed, launches = arena->launches;
    selvage_status_t status = wait_last(arena, timeout_s);
    if (status != SELVAGE_ERR_TIMEOUT)
        return status;
    __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE); /* partner: the kernel's waits */
    status = wait_last(arena, grace_s);
    return sv_error(SELVAGE_ERR_TIMEOUT, "collectives were not complete after %g s (%llu launches, %llu of them seen "
                    "complete before) and were told to stop, which %s", timeout_s, (unsigned long long)launches,
                    (unsigned long long)done, status == SELVAGE_SUCCESS ? "they did" : "they did not");
}

/* Waits until the blocks of a launch, the last one, are through. The device is asked as well now and then, because a
   kernel that it has ended says nothing any more. */
static selvage_status_t wait_for_blocks(sv_coll_arena_t *arena, uint64_t launch)
{
    enum { LOOKS_PER_QUESTION = 4096 };
    sv_backoff_t backoff = {.oversubscribed = arena->comm->topology.oversubscribed};
    unsigned looks = 0;
    for (uint32_t block = 0; block < arena->last_blocks;) {
        /* Partner: the release in sv_coll_tell_ended(). */
        if (__atomic_load_n(&arena->pinned->ended[block], __ATOMIC_ACQUIRE) == launch) {
            block++;
            continue;
        }
        sv_backoff(&backoff);
        if (++looks % LOOKS_PER_QUESTION == 0) {
            const selvage_status_t status = query_last(arena);
            if (status != SELVAGE_IN_PROGRESS)
                return status;
        }
    }
    arena->completed = launch;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_wait(selvage_coll_t *coll)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = coll->comm->dev;
    selvage_status_t status = SELVAGE_SUCCESS;
    /* The calls of the last group stand there until the next one begins. */
    if (coll->many_streams && coll->group_depth > 0)
        status = dev->ops->device_sync(dev);
    else if (coll->many_streams)
        for (unsigned i = 0; i < coll->ngroup && status == SELVAGE_SUCCESS; i++)
            status = i == 0 || sv_coll_is_new_stream(coll->group, i)
                         ? SV_DEVICE_CALL(dev, stream_sync, coll->group[i].stream) : SELVAGE_SUCCESS;
    else if (coll->last_launch > 0 && sv_coll_queue_is_idle(arena) && coll->last_launch == arena->launches)
        status = wait_for_blocks(arena, coll->last_launch);
    else if (coll->calls > 0)
        status = SV_DEVICE_CALL(dev, stream_sync, coll->stream);
    SV_TRY(status);
    return sv_coll_check(coll);
}

/* The kernel's counts, which wrap, are made long: they are not 2^31 away from what was launched, and exceed it where
   graphs were. */
static uint64_t extend_count(uint64_t known, uint32_t count)
{
    return known + (uint64_t)(int64_t)(int32_t)(count - (uint32_t)known);
}

static void fill_coll_stats(selvage_coll_t *coll, selvage_coll_stats_t *stats_out)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_coll_poll(arena);
    /* Kernels count the last pieces later. All are over once the last launch is complete, but what graphs have launched
       has no event. */
    const bool all = !arena->captured && query_last(arena) == SELVAGE_SUCCESS;
    uint32_t completed = 0; /* modulo 2^32, like the counts */
    for (uint32_t c = 0; c < arena->layout.nchannels; c++)
        completed += __atomic_load_n(&arena->pinned->counts[c].completed, __ATOMIC_RELAXED);
    *stats_out = (selvage_coll_stats_t){
        .arena_bytes = arena->bytes,
        .calls = coll->calls,
        .launches = arena->launches,
        .fifo_bytes = arena->fifo_bytes,
        .fifo_waits = arena->fifo_waits,
        .channels = arena->layout.nchannels,
        .started = all ? arena->pieces : extend_count(arena->pieces, pieces_started(arena)),
        .completed = all ? arena->pieces : extend_count(arena->pieces, completed),
        .callbacks = arena->ncallbacks,
    };
}

typedef struct stats_task {
    selvage_coll_t *coll;
    selvage_coll_stats_t *stats_out;
} stats_task_t;

static selvage_status_t run_coll_stats(void *arg)
{
    const stats_task_t *task = arg;
    fill_coll_stats(task->coll, task->stats_out);
    return SELVAGE_SUCCESS;
}

/* While the engine launches, the counters are its own. */
void sv_coll_stats(selvage_coll_t *coll, selvage_coll_stats_t *stats_out)
{
    stats_task_t task = {.coll = coll, .stats_out = stats_out};
    if (sv_coll_queue_is_idle(coll->arena))
        fill_coll_stats(coll, stats_out);
    else
        (void)sv_comm_run(coll->comm, run_coll_stats, &task);
}
