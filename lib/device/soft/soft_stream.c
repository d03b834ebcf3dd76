/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: a bounded ring of operations and the worker that executes them in order.
 *
 * Each slot has a state. If it is twice a lap of the ring, the slot is free for the producer who claims its position in
 * that lap. If it is one more, the slot is filled. The worker sets it to twice the next lap when the operation is done.
 * So a ring of zeros is empty, and a short-lived stream touches few of its pages. Several producers claim positions by
 * compare-and-swap. Nothing here allocates, locks or logs between create and destroy. A full ring makes the producer
 * wait, as on a GPU.
 *
 * On a device that adapts and is oversubscribed, a producer executes its operation itself, if that is brief and
 * everything before it is complete. Its slot then is never filled, so that the worker leaves it alone; who comes after
 * it waits for the head, which the producer moves on.
 */
#include <string.h>

#include "base/base_atomic.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

/* A place is taken again only after so many others were given back, so that stale handles are noticed for a while. */
enum { PLACES_RESTING = 16 };

/* Every stream that has a worker, for whoever waits for the device as a whole; and where streams lie. */
static soft_stream_t places[SOFT_STREAMS_MAX];
static struct {
    pthread_mutex_t lock;
    sv_list_t streams;
    sv_list_t resting;  /* places that were given back, the one of longest ago first */
    unsigned nresting;
    unsigned ntouched;  /* of places that were ever taken */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .streams = {&table.streams, &table.streams},
           .resting = {&table.resting, &table.resting}};

static selvage_status_t take_place(soft_stream_t **stream_out)
{
    soft_stream_t *stream = NULL;
    pthread_mutex_lock(&table.lock);
    if (table.ntouched < SOFT_STREAMS_MAX && table.nresting < PLACES_RESTING) {
        stream = &places[table.ntouched++];
    } else if (table.nresting > 0) {
        stream = SV_CONTAINER_OF(table.resting.next, soft_stream_t, link);
        sv_list_remove(&stream->link);
        table.nresting--;
        memset(stream, 0, sizeof *stream);
    }
    pthread_mutex_unlock(&table.lock);
    if (!stream)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: more than %d streams in one process", SOFT_STREAMS_MAX);
    *stream_out = stream;
    return SELVAGE_SUCCESS;
}

static void give_place_back(soft_stream_t *stream)
{
    pthread_mutex_lock(&table.lock);
    sv_list_append(&table.resting, &stream->link);
    table.nresting++;
    pthread_mutex_unlock(&table.lock);
}

static bool is_alive(const soft_stream_t *stream)
{
    const uintptr_t at = (uintptr_t)stream - (uintptr_t)places;
    /* Partner: the release in soft_stream_create(). */
    return at < sizeof places && at % sizeof *places == 0 &&
           atomic_load_explicit(&stream->alive, memory_order_acquire);
}

selvage_status_t soft_stream_find(sv_device_t *dev, void *handle, soft_stream_t **stream_out)
{
    if (!handle)
        handle = ((soft_device_t *)dev)->default_stream;
    else if (!is_alive(handle))
        return sv_error(SELVAGE_ERR_DEVICE, "soft: stream %p was destroyed, or is none", handle);
    *stream_out = handle;
    return SELVAGE_SUCCESS;
}

static soft_op_t *slot_of(const soft_stream_t *stream, uint64_t position)
{
    return &stream->ops[(position - stream->begin) % SOFT_RING_OPS];
}

static size_t ring_bytes(const soft_stream_t *stream)
{
    return (stream->inlined ? 1 : SOFT_RING_OPS) * sizeof *stream->ops;
}

/* The state of a slot that is free for this position. */
static uint64_t free_state(const soft_stream_t *stream, uint64_t position)
{
    return (position - stream->begin) / SOFT_RING_OPS * 2;
}

/* A producer that waits for its slot. */
typedef struct slot_wait {
    const soft_op_t *op;
    uint64_t state;
} slot_wait_t;

static bool slot_free(const void *arg)
{
    const slot_wait_t *wait = arg;
    /* Partner: the release in execute(). Anything but the old lap ends the wait; the caller looks again. */
    return atomic_load_explicit(&wait->op->state, memory_order_acquire) >= wait->state;
}

soft_op_t *soft_op_begin(soft_stream_t *stream)
{
    if (stream->capture)
        return soft_graph_add(stream->capture);
    if (stream->inlined)
        return stream->ops;
    uint64_t position = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    for (;;) {
        soft_op_t *op = slot_of(stream, position);
        const uint64_t wanted = free_state(stream, position);
        /* Partner: the release in execute(): the last lap's operation is through with this slot. */
        const uint64_t state = atomic_load_explicit(&op->state, memory_order_acquire);
        if (state < wanted) {
            slot_wait_t wait = {op, wanted};
            soft_park_wait(&stream->progress->park, slot_free, &wait);
        } else if (state > wanted) {
            position = atomic_load_explicit(&stream->tail, memory_order_relaxed);
        } else if (SV_EXCHANGE_WEAK(&stream->tail, &position, position + 1, memory_order_relaxed,
                                    memory_order_relaxed)) {
            op->position = position;
            return op;
        }
    }
}

/* Head and state are in one order of sequentially consistent accesses with those of soft_op_publish() and run_here():
   either the worker sees that an operation is next, or who moved the head sees that one is filled, and wakes it. */
static bool slot_filled(const soft_stream_t *stream)
{
    const uint64_t head = atomic_load_explicit(&stream->head, memory_order_seq_cst);
    return atomic_load_explicit(&slot_of(stream, head)->state, memory_order_seq_cst) == free_state(stream, head) + 1;
}

/* Executes the operation at the head, by whoever has it: the worker, or its producer. */
static void execute(soft_stream_t *stream, soft_op_t *op)
{
    const uint64_t next = op->position + 1;
    stream->before_ns = stream->over_ns;
    stream->over_ns = 0;
    op->run(stream, op);
    /* Partner: the acquire in soft_op_begin(). */
    atomic_store_explicit(&op->state, free_state(stream, op->position + SOFT_RING_OPS), memory_order_release);
    /* Partner: the load in slot_filled(). */
    atomic_store_explicit(&stream->head, next, memory_order_seq_cst);
    soft_progress_advance(stream->progress, next);
}

static bool may_run_here(const soft_stream_t *stream, const soft_op_t *op)
{
    return op->brief && stream->dev->adapts && __atomic_load_n(&stream->dev->base.oversubscribed, __ATOMIC_RELAXED) &&
           soft_progress_is_done(stream->progress, op->position);
}

/* Others may have filled slots after this one meanwhile, and the worker slept on. */
static void run_here(soft_stream_t *stream, soft_op_t *op)
{
    execute(stream, op);
    if (slot_filled(stream))
        soft_park_post(&stream->work);
}

void soft_op_publish(soft_stream_t *stream, soft_op_t *op)
{
    if (stream->capture)
        return;
    if (stream->inlined) {
        op->run(stream, op);
        return;
    }
    if (may_run_here(stream, op)) {
        run_here(stream, op);
        return;
    }
    /* Partner: the load in slot_filled(). */
    atomic_store_explicit(&op->state, free_state(stream, op->position) + 1, memory_order_seq_cst);
    soft_park_post(&stream->work);
}

static bool worker_ready(const void *arg)
{
    const soft_stream_t *stream = arg;
    /* Partner: the release in soft_stream_destroy(). */
    return slot_filled(stream) || atomic_load_explicit(&stream->stop, memory_order_acquire);
}

static void *stream_worker(void *arg)
{
    soft_stream_t *stream = arg;
    soft_thread_begin();
    for (;;) {
        soft_park_wait(&stream->work, worker_ready, stream);
        if (!slot_filled(stream))
            return NULL;
        execute(stream, slot_of(stream, atomic_load_explicit(&stream->head, memory_order_relaxed)));
    }
}

/* Positions continue where the last owner of the progress word stopped, so that his marks stay true. */
static selvage_status_t stream_start(soft_stream_t *stream)
{
    SV_TRY(soft_progress_acquire(&stream->id, &stream->progress));
    stream->begin = atomic_load_explicit(&stream->progress->done, memory_order_relaxed);
    atomic_init(&stream->head, stream->begin);
    atomic_init(&stream->tail, stream->begin);
    selvage_status_t status = soft_thread_start(&stream->thread, stream_worker, stream);
    if (status != SELVAGE_SUCCESS) {
        soft_progress_release(stream->id);
        return status;
    }
    pthread_mutex_lock(&table.lock);
    sv_list_append(&table.streams, &stream->link);
    pthread_mutex_unlock(&table.lock);
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_stream_create(soft_device_t *dev, soft_stream_t **stream_out)
{
    soft_stream_t *stream = NULL;
    selvage_status_t status;
    SV_TRY(take_place(&stream));
    stream->dev = dev;
    stream->inlined = dev->inlined;
    pthread_mutex_init(&stream->grow, NULL);
    SV_TRY_GOTO(status, sv_pages_alloc(ring_bytes(stream), &stream->ops), fail);
    if (!stream->inlined)
        SV_TRY_GOTO(status, stream_start(stream), fail);
    /* Partner: the acquire in is_alive(). */
    atomic_store_explicit(&stream->alive, true, memory_order_release);
    *stream_out = stream;
    return SELVAGE_SUCCESS;
fail:
    sv_pages_free(stream->ops, ring_bytes(stream));
    pthread_mutex_destroy(&stream->grow);
    give_place_back(stream);
    return status;
}

void soft_stream_sync(soft_stream_t *stream)
{
    if (!stream->inlined)
        soft_progress_wait(stream->progress, atomic_load_explicit(&stream->tail, memory_order_relaxed));
}

/* How far a stream has to come. */
typedef struct goal {
    soft_progress_t *progress; /* lives as long as the process */
    uint64_t position;
} goal_t;

/* The lock is not held meanwhile: kernels may run for long, and other threads make and destroy streams. A stream that
   is destroyed has come as far as it had to. */
selvage_status_t soft_device_sync(sv_device_t *dev)
{
    goal_t goals[SOFT_STREAMS_MAX];
    size_t n = 0;
    sv_list_t *it, *safe;
    (void)dev;
    pthread_mutex_lock(&table.lock);
    SV_LIST_FOR_EACH(it, safe, &table.streams) {
        const soft_stream_t *stream = SV_CONTAINER_OF(it, soft_stream_t, link);
        goals[n++] = (goal_t){stream->progress, atomic_load_explicit(&stream->tail, memory_order_relaxed)};
    }
    pthread_mutex_unlock(&table.lock);
    for (size_t i = 0; i < n; i++)
        soft_progress_wait(goals[i].progress, goals[i].position);
    return SELVAGE_SUCCESS;
}

void soft_stream_destroy(soft_stream_t *stream)
{
    if (!stream || !is_alive(stream))
        return;
    atomic_store_explicit(&stream->alive, false, memory_order_relaxed); /* who calls it meanwhile is wrong anyway */
    if (stream->capture)
        soft_graph_destroy(&stream->dev->base, stream->capture);
    if (!stream->inlined) {
        pthread_mutex_lock(&table.lock);
        sv_list_remove(&stream->link);
        pthread_mutex_unlock(&table.lock);
        soft_stream_sync(stream);
        /* Partner: the acquire in worker_ready(). */
        atomic_store_explicit(&stream->stop, 1, memory_order_release);
        soft_park_post(&stream->work);
        soft_thread_join(stream->thread);
        soft_helpers_destroy(stream);
        soft_progress_release(stream->id);
    }
    pthread_mutex_destroy(&stream->grow);
    sv_pages_free(stream->ops, ring_bytes(stream));
    give_place_back(stream);
}
