/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who drives the engine: the application's calls (inline), or a thread of the communicator's own.
 *
 *   application thread                         progress thread
 *   ------------------                         ---------------
 *   sv_progress_post(work)   --- SPSC ring ---> work->run(work->arg)
 *   sv_progress_call(fn)     --- SPSC ring ---> fn(arg); done released ... acquired by the caller
 *                                               poll(arg), again and again; spins, yields, sleeps when idle
 *
 * Inline, post and call run the work at once on the calling thread, and sv_progress_poll() drives the engine. So the
 * code above this module is the same for both, and only one thread at a time is ever inside the engine.
 */
#ifndef SV_PROGRESS_H
#define SV_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/base_clock.h"
#include "base/base_ring.h"
#include "base/base_thread.h"
#include "host/topology.h"
#include <selvage/status.h>

/* A piece of work; lives in the object it concerns, so that posting allocates nothing. */
typedef struct sv_work {
    void (*run)(void *arg);
    void *arg;
    _Atomic int done;
} sv_work_t;

/* Advances everything; returns whether anything moved. */
typedef bool (*sv_progress_poll_fn)(void *arg);

typedef struct sv_progress {
    bool threaded;
    sv_progress_poll_fn poll;
    void *arg;
    const sv_topology_t *topology;
    sv_backoff_t backoff;        /* the thread's */
    sv_thread_binding_t binding; /* what the thread says about itself on the log */
    pthread_t thread;
    _Atomic int stop;
    sv_ring_t ring;
} sv_progress_t;

/* In place; starts the thread if threaded, next to the GPU of topology, which outlives it. Partner:
   sv_progress_fini(). */
selvage_status_t sv_progress_init(sv_progress_t *progress, bool threaded, const sv_topology_t *topology,
                                  sv_progress_poll_fn poll, void *arg);
/* Stops and joins the thread; harmless twice and on a zeroed struct. */
void sv_progress_fini(sv_progress_t *progress);

/* Hands work over and returns; it is done when work->done is seen with acquire order. */
void sv_progress_post(sv_progress_t *progress, sv_work_t *work);
/* Runs fn(arg) where the engine lives and returns when it is through. */
void sv_progress_call(sv_progress_t *progress, void (*fn)(void *arg), void *arg);
/* Inline: drives the engine once; returns whether anything moved. With a thread: does nothing, returns false. */
bool sv_progress_poll(sv_progress_t *progress);

#endif
