/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of communicators that span nodes: who drives them, and what their streams wait for.
 *
 *   application's thread                                the engine's, if that is the progress thread
 *   --------------------                                --------------------------------------------
 *   flight: the calls, an event on their streams
 *   gate: a kernel that holds the streams
 *   submitted + 1                  --- release -->      drives the oldest flight, by turns (coll_nodes_run.c)
 *   who wants its place, or sets    <-- release ---     through + 1; the word of the gates says so
 *   something up, waits for this
 *
 * Where there is no progress thread nobody would drive a call that was only enqueued, while the program waits for its
 * stream: the caller drives it until it is through. So it is where a kernel that waits may keep others from running.
 *
 * While flights are under way the engine launches kernels. A call of one node's ranks that is made then joins them, so
 * that one thread at a time launches, and kernels are in the order of the calls.
 *
 * A failure ends all flights: the gates open, and the error is told to whoever asks, as on a node.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_nodes_run.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"

static sv_coll_queue_t *queue_of(const sv_coll_arena_t *arena)
{
    return arena->staging ? arena->staging->queue : NULL;
}

static bool is_queue_through(const void *arg)
{
    const sv_coll_queue_t *queue = arg;
    /* Partner: the release in end_flight(). */
    return atomic_load_explicit(&queue->through, memory_order_acquire) ==
           atomic_load_explicit(&queue->submitted, memory_order_acquire);
}

bool sv_coll_queue_is_idle(const sv_coll_arena_t *arena)
{
    const sv_coll_queue_t *queue = queue_of(arena);
    return !queue || is_queue_through(queue);
}

/* --- the engine --------------------------------------------------------------------------------------------------- */

/* The streams of all flights up to this one go on. */
static void end_flight(sv_coll_arena_t *arena, uint64_t number)
{
    sv_coll_queue_t *queue = queue_of(arena);
    if (queue->ended) /* partner: the kernel's wait, in await_body() */
        __atomic_store_n(&arena->pinned->gate.ended, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&arena->pinned->gate.through, number, __ATOMIC_RELEASE); /* partner: the same */
    /* Partner: the acquire in is_queue_through() and is_place_free(). */
    atomic_store_explicit(&queue->through, number, memory_order_release);
    sv_progress_tell(&arena->comm->progress);
}

/* Whether a flight after a failure ends without a word: of one node, whose ranks hear by their kernels; where all ranks
   have failed at the same call; or where the failure was told to everybody. Others begin, fail and tell that. */
static bool ends_silently(const sv_coll_queue_t *queue, const sv_coll_flight_t *flight)
{
    return !flight->coll->spans || flight->coll == queue->agreed || flight->coll->comm->broken != SELVAGE_SUCCESS;
}

/* A turn of the oldest flight, which is over with SUCCESS. */
static selvage_status_t step_flight(sv_coll_queue_t *queue, uint64_t number)
{
    sv_coll_run_t *run = &queue->run;
    const sv_coll_flight_t *flight = &queue->flight[number % SV_COLL_FLIGHTS];
    if (queue->ended && ends_silently(queue, flight))
        return SELVAGE_SUCCESS;
    if (run->flight != flight)
        sv_coll_run_begin(run, flight);
    const selvage_status_t status = sv_coll_run_step(run);
    if (status == SELVAGE_IN_PROGRESS) {
        if (!run->moved)
            run->is_over = sv_deadline_check(&run->deadline) == SELVAGE_ERR_TIMEOUT; /* the next turn says so */
        return status;
    }
    run->flight = NULL;
    return SELVAGE_SUCCESS; /* what failed is in the arena */
}

bool sv_coll_queue_poll(sv_coll_arena_t *arena)
{
    sv_coll_queue_t *queue = queue_of(arena);
    bool moved = false;
    if (!queue || queue->inside)
        return false;
    uint64_t through = atomic_load_explicit(&queue->through, memory_order_relaxed);
    queue->inside = true;
    /* As long as something moves, but others have their turn. Partner: the release in publish_flight(). */
    for (unsigned turn = 0; turn < SV_COLL_TURNS; turn++) {
        if (through == atomic_load_explicit(&queue->submitted, memory_order_acquire))
            break;
        const selvage_status_t status = step_flight(queue, through);
        if (status == SELVAGE_SUCCESS)
            end_flight(arena, ++through);
        else if (!queue->run.moved)
            break;
        moved = true;
    }
    queue->inside = false;
    return moved;
}

void sv_coll_queue_end(sv_coll_arena_t *arena, selvage_status_t status)
{
    sv_coll_queue_t *queue = queue_of(arena);
    if (!queue || is_queue_through(queue))
        return;
    sv_coll_note_failure(arena, sv_error(status, "collective calls between nodes were under way when their "
                                         "communicator ended"));
    /* The wire may still read and write what the flight has. */
    arena->staging->set_aside = true;
    if (queue->run.flight)
        queue->run.flight->coll->all.set_aside = true;
    sv_coll_pairs_run_end(&queue->run.pairs);
    queue->ended = true;
    end_flight(arena, atomic_load_explicit(&queue->submitted, memory_order_acquire));
}

/* --- who waits for the result ------------------------------------------------------------------------------------- */

/* Drives one flight that was never enqueued. */
static selvage_status_t run_blocking(void *arg)
{
    sv_coll_queue_t *queue = arg;
    sv_coll_run_t *run = &queue->run;
    selvage_comm_t *comm = queue->blocking.coll->comm;
    selvage_status_t status;
    queue->inside = true;
    sv_coll_run_begin(run, &queue->blocking);
    sv_deadline_begin(&run->deadline, comm, comm->timeout_s);
    while ((status = sv_coll_run_step(run)) == SELVAGE_IN_PROGRESS)
        if (run->may_pause)
            run->is_over = sv_deadline_poll(&run->deadline) == SELVAGE_ERR_TIMEOUT; /* the next turn says so */
    run->flight = NULL;
    queue->inside = false;
    return status;
}

/* --- the application's thread ------------------------------------------------------------------------------------- */

/* Whether calls are enqueued, and no more: there is somebody who drives them, a kernel that waits holds nobody else up,
   and no call waits for the whole device (as the cache does, to close a mapping). */
static bool may_enqueue(const selvage_comm_t *comm)
{
    return comm->progress.threaded && comm->dev->kernels_wait && !comm->topology.shares_gpu &&
           comm->arena->cache_bytes == 0;
}

/* The node's ranks are a communicator of their own, with the same number: all but the ranks and the sequence is as it
   is in the whole one, which does not change from here on as far as launches are concerned. */
static void fill_part(selvage_coll_t *coll)
{
    selvage_coll_t *part = coll->node_set->part;
    if (coll->node_set->has_part)
        return;
    *part = *coll;
    part->sequence = 0;
    part->rank = (int)coll->dev.me;
    part->size = (int)coll->dev.n;
    part->spans = false;
    coll->node_set->has_part = true;
}

/* Puts an event after what is on the streams of all calls. The first of these streams waits for the others, which it
   would do for the sake of the calls anyway. */
static selvage_status_t record_begin(const sv_coll_queue_t *queue, const sv_coll_flight_t *flight)
{
    sv_device_t *dev = flight->coll->comm->dev;
    const sv_coll_call_t *calls = flight->calls;
    for (unsigned i = 1; i < flight->ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        SV_TRY(SV_DEVICE_CALL(dev, event_record, queue->cross, calls[i].stream));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[0].stream, queue->cross));
    }
    return SV_DEVICE_CALL(dev, event_record, flight->begun, calls[0].stream);
}

/* Copies the calls, for later; those of one node's ranks will be launched on the arena's stream. */
static selvage_status_t fill_flight(sv_coll_flight_t *flight, selvage_coll_t *coll, const sv_coll_call_t *calls,
                                    unsigned ncalls)
{
    sv_coll_call_t *copy = &flight->one;
    flight->coll = coll;
    flight->ncalls = 0;
    if (ncalls > 1) {
        if (ncalls > flight->room_calls) {
            sv_free(flight->room);
            flight->room = NULL;
            flight->room_calls = 0;
            SV_TRY(sv_calloc(ncalls, sizeof *flight->room, &flight->room));
            flight->room_calls = ncalls;
        }
        copy = flight->room;
    }
    for (unsigned i = 0; i < ncalls; i++)
        copy[i] = calls[i];
    flight->calls = copy;
    flight->ncalls = ncalls;
    return SELVAGE_SUCCESS;
}

static void move_to_arena(sv_coll_flight_t *flight)
{
    sv_coll_call_t *calls = flight->ncalls > 1 ? flight->room : &flight->one;
    for (unsigned i = 0; i < flight->ncalls; i++)
        calls[i].stream = flight->coll->arena->stream;
}

/* Holds the first stream until the flight is through. */
static selvage_status_t launch_gate(sv_coll_flight_t *flight, uint64_t number, void *stream)
{
    const sv_coll_arena_t *arena = flight->coll->arena;
    sv_coll_gate_t *gate = &arena->pinned_device->gate;
    const sv_await_arg_t arg = {.word = &gate->through, .abort = &gate->ended, .late = &gate->late, .epoch = number,
                                .wait_ns = UINT64_MAX}; /* the engine has the deadline */
    return SV_DEVICE_CALL(arena->comm->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream);
}

/* And with it the other streams of a group. */
static selvage_status_t hold_others(sv_coll_flight_t *flight, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_device_t *dev = flight->coll->comm->dev;
    const selvage_status_t status = SV_DEVICE_CALL(dev, event_record, flight->gated, calls[0].stream);
    if (status != SELVAGE_SUCCESS) /* nobody can tell when the gate looks at nothing any more */
        sv_coll_arena_set_stuck(flight->coll->arena);
    SV_TRY(status);
    flight->has_gate = true;
    for (unsigned i = 1; i < ncalls; i++)
        if (sv_coll_is_new_stream(calls, i))
            SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[i].stream, flight->gated));
    return SELVAGE_SUCCESS;
}

/* Whether the gate of an earlier flight looks at nothing any more. */
static bool is_gate_over(sv_device_t *dev, sv_coll_flight_t *flight)
{
    if (flight->has_gate && SV_DEVICE_CALL(dev, event_query, flight->gated) != SELVAGE_IN_PROGRESS)
        flight->has_gate = false;
    return !flight->has_gate;
}

static bool is_place_free(const void *arg)
{
    const sv_coll_queue_t *queue = arg;
    /* Partner: the release in end_flight(). */
    return atomic_load_explicit(&queue->submitted, memory_order_relaxed) -
               atomic_load_explicit(&queue->through, memory_order_acquire) <
           SV_COLL_FLIGHTS;
}

/* From here on it is the engine's. */
static void publish_flight(selvage_coll_t *coll, sv_coll_queue_t *queue, uint64_t number)
{
    /* Partner: the acquire in sv_coll_queue_poll(). */
    atomic_store_explicit(&queue->submitted, number, memory_order_release);
    sv_progress_wake(&coll->comm->progress);
}

static selvage_status_t prepare_flight(const sv_coll_queue_t *queue, sv_coll_flight_t *flight, selvage_coll_t *coll,
                                       const sv_coll_call_t *calls, unsigned ncalls, uint64_t number)
{
    SV_TRY(fill_flight(flight, coll, calls, ncalls));
    SV_TRY(record_begin(queue, flight));
    if (!coll->spans)
        move_to_arena(flight);
    return launch_gate(flight, number, calls[0].stream);
}

/* A call that cannot be enqueued is a failure that the engine has to tell other ranks. */
static selvage_status_t enqueue_flight(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_coll_queue_t *queue = queue_of(coll->arena);
    sv_backoff_t backoff = {.oversubscribed = coll->comm->topology.oversubscribed};
    const uint64_t before = atomic_load_explicit(&queue->submitted, memory_order_relaxed);
    while (!is_place_free(queue))
        sv_progress_pause(&coll->comm->progress, &backoff, is_place_free, queue);
    SV_TRY(sv_coll_check(coll));
    sv_coll_flight_t *flight = &queue->flight[before % SV_COLL_FLIGHTS];
    const uint64_t begin_ns = sv_clock_ns();
    const double timeout_s = coll->comm->timeout_s;
    while (!is_gate_over(coll->comm->dev, flight)) { /* its word has come, and its stream is about to come to it */
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_coll: the stream of the eighth call before this one has not "
                            "come to that for %g s", timeout_s);
        sv_backoff(&backoff);
    }
    selvage_status_t status = prepare_flight(queue, flight, coll, calls, ncalls, before + 1);
    if (status != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, status);
    publish_flight(coll, queue, before + 1);
    if (status == SELVAGE_SUCCESS && (status = hold_others(flight, calls, ncalls)) != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, status);
    return status;
}

static selvage_status_t wait_for_flight(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_coll_queue_t *queue = queue_of(coll->arena);
    queue->blocking.coll = coll;
    queue->blocking.calls = calls;
    queue->blocking.ncalls = ncalls;
    const selvage_status_t status = record_begin(queue, &queue->blocking);
    if (status != SELVAGE_SUCCESS) /* is to be told as any other */
        sv_coll_note_failure(coll->arena, status);
    return sv_comm_run(coll->comm, run_blocking, queue);
}

selvage_status_t sv_coll_nodes(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    if (ncalls == 0)
        return SELVAGE_SUCCESS;
    if (coll->spans)
        fill_part(coll);
    return may_enqueue(coll->comm) ? enqueue_flight(coll, calls, ncalls) : wait_for_flight(coll, calls, ncalls);
}

void sv_coll_queue_wait(sv_coll_arena_t *arena)
{
    const double timeout_s = arena->comm->timeout_s;
    const sv_coll_queue_t *queue = queue_of(arena);
    sv_backoff_t backoff = {.oversubscribed = arena->comm->topology.oversubscribed};
    uint64_t begin_ns = sv_clock_ns(), through = 0;
    while (queue && !is_queue_through(queue)) {
        const uint64_t now = atomic_load_explicit(&queue->through, memory_order_relaxed);
        if (now != through)
            begin_ns = sv_clock_ns();
        through = now;
        /* Partner: is_stopped() of the engine's turns. */
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE);
        sv_progress_pause(&arena->comm->progress, &backoff, is_queue_through, queue);
    }
}

bool sv_coll_queue_release(sv_coll_arena_t *arena)
{
    sv_coll_queue_t *queue = queue_of(arena);
    const double timeout_s = arena->comm->timeout_s;
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = arena->comm->topology.oversubscribed};
    const uint64_t begin_ns = sv_clock_ns();
    for (unsigned i = 0; queue && i < SV_COLL_FLIGHTS; i++)
        while (!is_gate_over(arena->comm->dev, &queue->flight[i])) {
            if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s) {
                (void)sv_error(SELVAGE_ERR_TIMEOUT, "a stream has not come for %g s to where a collective call, which "
                               "is over, held it", timeout_s);
                return false;
            }
            sv_backoff(&backoff);
        }
    return true;
}
