/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the software device.
 *
 *   caller --ops--> ring of a stream --> worker thread --> progress word of the stream --> events, waiters
 *
 * - A stream is a bounded ring of operations and one worker. Positions in it only grow, also over a reuse of its
 *   progress word. Progress words live in one static table and outlive their streams.
 * - An event is a mark: (progress word, position), packed in 64 bits. Recording stores the stream's present tail, a
 *   query compares, a waiting stream carries the mark by value. So an event may be destroyed or recorded again while
 *   streams still wait for what it said.
 * - All hand-over goes through C11 atomics; sleeping threads park on a futex, and are woken only if they sleep.
 * - Streams lie in one static table, too, so that a handle of one that was destroyed is told from a live one, for as
 *   long as its place is not taken again.
 * - In inline mode there are no threads: an operation is executed by the call that enqueues it, and marks are 0.
 * - A device that adapts does the same with what is brief, where threads outnumber cores, for as long as the stream has
 *   nothing else to do: handing it to the worker would take longer than doing it. Its position is claimed as ever.
 */
#ifndef SV_SOFT_PRIV_H
#define SV_SOFT_PRIV_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_list.h"
#include "device/device.h"

#if defined(SV_NO_THREADS) && SV_NO_THREADS
#define SOFT_THREADS 0
#else
#define SOFT_THREADS 1
#endif

/* A power of two. Tests compile it with two. */
#ifndef SOFT_RING_OPS
#define SOFT_RING_OPS 512
#endif

enum {
    SOFT_STREAMS_MAX = 16384, /* of one process; a mark has 14 bits for it */
    SOFT_BLOCKS_MAX = 1024,   /* of one launch */
    SOFT_MARK_SHIFT = 50
};

/* Where threads sleep until somebody posts. sleepers tells the poster whether a system call is needed at all. */
typedef struct soft_park {
    _Atomic uint32_t word;
    _Atomic uint32_t sleepers;
} soft_park_t;

typedef bool (*soft_ready_t)(const void *arg);

/* Publishes "look again" after the caller changed what the waiters' ready() reads. */
void soft_park_post(soft_park_t *park);
/* Returns once ready(arg): spins shortly, yields, then sleeps on the park. */
void soft_park_wait(soft_park_t *park, soft_ready_t ready, const void *arg);

/* A joinable thread with all signals blocked and a small stack; its body first calls soft_thread_begin(). */
selvage_status_t soft_thread_start(pthread_t *thread_out, void *(*body)(void *), void *arg);
void soft_thread_begin(void);
void soft_thread_join(pthread_t thread);

/* How far a stream has come: operations below `done` are complete. */
typedef struct soft_progress {
    _Alignas(64) _Atomic uint64_t done;
    soft_park_t park;
} soft_progress_t;

/* A serial resource that copies pass through: a direction of a bus. */
typedef struct soft_link {
    bool modelled;
    double ns_per_byte;
    uint64_t latency_ns;
    _Alignas(64) _Atomic uint64_t free_ns; /* when the last reservation ends */
} soft_link_t;

typedef struct soft_stream soft_stream_t;
typedef struct soft_graph soft_graph_t;

typedef struct soft_device {
    sv_device_t base;
    bool inlined;
    bool adapts;
    soft_stream_t *default_stream;
    soft_link_t link[SV_COPY_KINDS];
} soft_device_t;

/* One operation, in place in the ring: filled by the producer, executed there, so that arguments are copied once. */
typedef struct soft_op {
    _Alignas(64) _Atomic uint64_t state; /* twice the lap: free for that lap; one more: filled */
    uint64_t position;
    void (*run)(soft_stream_t *stream, const struct soft_op *op);
    bool brief;                    /* it waits for nobody, and takes no longer than handing it over */
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
            soft_link_t *link;
            uint64_t enqueued_ns;
        } copy;
        struct {
            void *dst;
            size_t bytes;
            int value;
        } fill;
        struct {
            uint64_t *word, value;
        } signal;
        struct {
            uint64_t ns, enqueued_ns;
        } delay;
        struct {
            soft_progress_t *progress;
            uint64_t position;
        } wait;
        struct {
            selvage_soft_kernel_t body;
            unsigned nblocks;
            _Alignas(16) unsigned char arg[SV_KERNEL_ARG_BYTES];
        } kernel;
    } u;
} soft_op_t;

_Static_assert(sizeof(soft_op_t) == 1344, "an operation fills twenty-one cache lines");

/* A thread that runs one block beside the worker; belongs to its stream, so it is free whenever a launch begins. */
typedef struct soft_helper {
    struct soft_helper *next;
    soft_stream_t *stream;
    unsigned block;
    pthread_t thread;
    const soft_op_t *op;             /* handed over by `go` */
    _Alignas(64) _Atomic uint32_t go; /* counts launches */
    _Atomic uint32_t stop;
    uint32_t seen;                   /* of go, by the helper itself */
    soft_park_t park;
} soft_helper_t;

struct soft_stream {
    soft_device_t *dev;
    _Atomic bool alive;              /* it was created and not destroyed yet */
    sv_list_t link;                  /* among streams with workers; dead: among the places to take again */
    bool inlined;
    soft_graph_t *capture;           /* what is enqueued goes there in place of the ring; NULL: it is executed */
    unsigned id;                     /* of its progress word */
    soft_progress_t *progress;
    soft_op_t *ops;                  /* SOFT_RING_OPS, one if inlined; owned */
    uint64_t begin;                  /* position of the first operation */
    _Atomic uint64_t head;           /* stored by who executed the operation before it */
    uint64_t before_ns, over_ns;     /* likewise; when the last modelled operation and this one are over; 0: none */
    pthread_t thread;
    pthread_mutex_t grow;            /* of the list of helpers; taken by launches of several blocks only */
    soft_helper_t *helpers;          /* block 1 first; owned; only appended to */
    unsigned nhelpers;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) soft_park_t work;   /* where the worker sleeps */
    _Atomic uint32_t stop;
    _Alignas(64) _Atomic uint32_t blocks_left;
    soft_park_t finished;            /* where the worker waits for the helpers */
};

/* Stream of a native handle; NULL is the device's default stream. ERR_DEVICE if it was destroyed, or is none. */
selvage_status_t soft_stream_find(sv_device_t *dev, void *handle, soft_stream_t **stream_out);

/* Claims the next operation of the ring, waiting if it is full; the caller fills it and publishes it. */
soft_op_t *soft_op_begin(soft_stream_t *stream);
void soft_op_publish(soft_stream_t *stream, soft_op_t *op);

selvage_status_t soft_stream_create(soft_device_t *dev, soft_stream_t **stream_out);
/* Waits for the stream's work. Accepts NULL, and what is no live stream. */
void soft_stream_destroy(soft_stream_t *stream);
void soft_stream_sync(soft_stream_t *stream);
/* Waits for all streams of the process. Its software devices are one device, as several handles of a GPU are. */
selvage_status_t soft_device_sync(sv_device_t *dev);

/* Whether everything of the stream below the position is complete; then its memory is visible to the caller. */
static inline bool soft_progress_is_done(const soft_progress_t *progress, uint64_t position)
{
    /* Partner: the release in soft_progress_advance(). */
    return atomic_load_explicit(&progress->done, memory_order_acquire) >= position;
}

/* Progress words. The position is where the new owner begins. SELVAGE_ERR_DEVICE if all are taken. */
selvage_status_t soft_progress_acquire(unsigned *id_out, soft_progress_t **progress_out);
void soft_progress_release(unsigned id);
void soft_progress_advance(soft_progress_t *progress, uint64_t done);
void soft_progress_wait(soft_progress_t *progress, uint64_t position);

selvage_status_t soft_event_create(sv_device_t *dev, sv_event_t **event_out);
void soft_event_destroy(sv_device_t *dev, sv_event_t *event);
selvage_status_t soft_event_record(sv_device_t *dev, sv_event_t *event, void *stream);
selvage_status_t soft_event_query(sv_device_t *dev, sv_event_t *event);
selvage_status_t soft_stream_query(sv_device_t *dev, void *handle);
selvage_status_t soft_stream_wait_event(sv_device_t *dev, void *stream, sv_event_t *event);

void soft_link_init(soft_link_t *link, double gbs, double latency_us);
selvage_status_t soft_copy_async(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                 void *stream);
selvage_status_t soft_signal_async(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream);
selvage_status_t soft_fill_async(sv_device_t *dev, void *dst, int value, size_t bytes, void *stream);
selvage_status_t soft_delay_async(sv_device_t *dev, double us, void *stream);

selvage_status_t soft_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                             unsigned nblocks, void *stream);
/* Starts helpers until there are so many. */
selvage_status_t soft_helpers_grow(soft_stream_t *stream, unsigned wanted);
/* Ends and frees the helpers of a stream at rest. */
void soft_helpers_destroy(soft_stream_t *stream);

/* Graphs. An operation of a capture, which the caller fills; and how many blocks a launch in it has. */
soft_op_t *soft_graph_add(soft_graph_t *graph);
void soft_graph_note_blocks(soft_graph_t *graph, unsigned nblocks);
/* ERR_DEVICE for what cannot be captured, as GPUs refuse it. */
selvage_status_t soft_refuse_captured(const soft_stream_t *stream, const char *call);
selvage_status_t soft_graph_begin(sv_device_t *dev, void *stream);
selvage_status_t soft_graph_end(sv_device_t *dev, void *stream, void **graph_out);
selvage_status_t soft_graph_launch(sv_device_t *dev, void *graph, void *stream);
void soft_graph_destroy(sv_device_t *dev, void *graph);
bool soft_stream_is_capturing(sv_device_t *dev, void *stream);

selvage_status_t soft_malloc(sv_device_t *dev, size_t bytes, void **ptr_out);
void soft_free(sv_device_t *dev, void *ptr);
selvage_status_t soft_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out);
void soft_host_free(sv_device_t *dev, void *ptr);
selvage_status_t soft_export_memory(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                    uint64_t *offset_out);
selvage_status_t soft_open_memory(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                  uint64_t *bytes_out);
void soft_close_memory(sv_device_t *dev, void *base);
uint64_t soft_memory_id(sv_device_t *dev, const void *ptr);
sv_memory_kind_t soft_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes);

#endif
