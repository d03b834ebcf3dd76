/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress words and events.
 *
 * The table of progress words is part of the process-wide device registry. Events of one device may be recorded in
 * streams of another, and a mark may be asked about after its stream is gone. Words are handed out under a mutex. A
 * word's count never goes back, so that an old mark stays complete under a new owner.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

struct selvage_event {
    _Atomic uint64_t mark; /* id << SOFT_MARK_SHIFT | position; 0, never recorded, is always complete */
};

static soft_progress_t progress_table[SOFT_STREAMS_MAX];
static bool progress_taken[SOFT_STREAMS_MAX];
static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;

selvage_status_t soft_progress_acquire(unsigned *id_out, soft_progress_t **progress_out)
{
    unsigned id = 0;
    pthread_mutex_lock(&progress_lock);
    while (id < SOFT_STREAMS_MAX && progress_taken[id])
        id++;
    if (id < SOFT_STREAMS_MAX)
        progress_taken[id] = true;
    pthread_mutex_unlock(&progress_lock);
    if (id == SOFT_STREAMS_MAX)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: more than %d streams in one process", SOFT_STREAMS_MAX);
    *id_out = id;
    *progress_out = &progress_table[id];
    return SELVAGE_SUCCESS;
}

void soft_progress_release(unsigned id)
{
    pthread_mutex_lock(&progress_lock);
    progress_taken[id] = false;
    pthread_mutex_unlock(&progress_lock);
}

void soft_progress_advance(soft_progress_t *progress, uint64_t done)
{
    /* Everything the operation wrote, to whoever sees it complete. Partner: the acquire in soft_progress_is_done(). */
    atomic_store_explicit(&progress->done, done, memory_order_release);
    soft_park_post(&progress->park);
}

typedef struct progress_wait {
    const soft_progress_t *progress;
    uint64_t position;
} progress_wait_t;

static bool progress_ready(const void *arg)
{
    const progress_wait_t *wait = arg;
    return soft_progress_is_done(wait->progress, wait->position);
}

void soft_progress_wait(soft_progress_t *progress, uint64_t position)
{
    progress_wait_t wait = {progress, position};
    soft_park_wait(&progress->park, progress_ready, &wait);
}

static soft_progress_t *mark_progress(uint64_t mark)
{
    return &progress_table[mark >> SOFT_MARK_SHIFT];
}

static uint64_t mark_position(uint64_t mark)
{
    return mark & ((UINT64_C(1) << SOFT_MARK_SHIFT) - 1);
}

selvage_status_t soft_event_create(sv_device_t *dev, sv_event_t **event_out)
{
    (void)dev;
    return sv_calloc(1, sizeof **event_out, event_out);
}

void soft_event_destroy(sv_device_t *dev, sv_event_t *event)
{
    (void)dev;
    sv_free(event);
}

selvage_status_t soft_event_record(sv_device_t *dev, sv_event_t *event, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    uint64_t mark = 0;
    SV_TRY(soft_refuse_captured(stream, "an event"));
    /* The caller's own operations precede this load in his program, so that relaxed is enough for them. */
    if (!stream->inlined)
        mark = (uint64_t)stream->id << SOFT_MARK_SHIFT | atomic_load_explicit(&stream->tail, memory_order_relaxed);
    /* Relaxed: what the mark stands for is ordered by the progress word. */
    atomic_store_explicit(&event->mark, mark, memory_order_relaxed);
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_event_query(sv_device_t *dev, sv_event_t *event)
{
    (void)dev;
    uint64_t mark = atomic_load_explicit(&event->mark, memory_order_relaxed);
    return soft_progress_is_done(mark_progress(mark), mark_position(mark)) ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

selvage_status_t soft_stream_query(sv_device_t *dev, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    SV_TRY(soft_refuse_captured(stream, "a query"));
    /* As in soft_event_record(). */
    if (stream->inlined)
        return SELVAGE_SUCCESS;
    const uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    return soft_progress_is_done(stream->progress, tail) ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

static void run_wait(soft_stream_t *stream, const soft_op_t *op)
{
    (void)stream;
    soft_progress_wait(op->u.wait.progress, op->u.wait.position);
}

selvage_status_t soft_stream_wait_event(sv_device_t *dev, void *handle, sv_event_t *event)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    uint64_t mark = atomic_load_explicit(&event->mark, memory_order_relaxed);
    soft_progress_t *progress = mark_progress(mark);
    SV_TRY(soft_refuse_captured(stream, "a wait"));
    /* What is complete already, or comes earlier in the same stream, needs no waiting. */
    if (soft_progress_is_done(progress, mark_position(mark)) || progress == stream->progress)
        return SELVAGE_SUCCESS;
    if (stream->inlined) {
        soft_progress_wait(progress, mark_position(mark));
        return SELVAGE_SUCCESS;
    }
    soft_op_t *op = soft_op_begin(stream);
    op->run = run_wait;
    op->brief = false;
    op->u.wait.progress = progress;
    op->u.wait.position = mark_position(mark);
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}
