/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who drives the engine: the application's calls (inline), or a thread of the communicator's own.
 *
 *   application thread                         progress thread
 *   ------------------                         ---------------
 *   sv_progress_post(work)   --- SPSC ring ---> work->run(work->arg)
 *   sv_progress_call(fn)     --- SPSC ring ---> fn(arg); done released ... acquired by the caller
 *   sv_progress_pause()      <-- futex -------- sv_progress_tell()
 *                                               poll(arg), again and again; spins, yields, sleeps
 *   sv_progress_wake()       --- futex -------> looks again; posting does it, too
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
#include "base/base_sleeper.h"
#include "base/base_thread.h"
#include "host/topology.h"
#include <selvage/status.h>

/* A piece of work; lives in the object it concerns, so that posting allocates nothing. */
typedef struct sv_work {
    void (*run)(void *arg);
    void *arg;
    _Atomic int done;
} sv_work_t;

/* What the engine is asked, where it lives. */
typedef struct sv_progress_ops {
    bool (*poll)(void *arg);    /* advances everything; whether anything moved */
    /* How long the thread may sleep, by what other ranks may send, while nothing is under way that a poll could
       advance. 0 if something is. */
    unsigned (*idle_us)(void *arg);
} sv_progress_ops_t;

/* How a thread waits; inline nothing of it matters. */
typedef struct sv_progress_params {
    bool threaded;
    bool by_timer;    /* it sleeps on the clock alone, and so does who waits for it */
    unsigned idle_turns; /* without work, after which it sleeps if the engine is idle */
    unsigned idle_us; /* its longest sleep while the engine is idle, unless by_timer */
} sv_progress_params_t;

typedef struct sv_progress {
    bool threaded;
    sv_progress_params_t params;
    const sv_progress_ops_t *ops;
    void *arg;
    const sv_topology_t *topology;
    sv_backoff_t backoff;        /* the thread's */
    sv_thread_binding_t binding; /* what the thread says about itself on the log */
    pthread_t thread;
    _Atomic int stop;
    sv_sleeper_t sleeper; /* the thread */
    sv_sleeper_t caller;  /* the application's thread that waits for it */
    sv_ring_t ring;
} sv_progress_t;

/* In place; starts the thread if threaded, next to the GPU of topology, which outlives it. Partner:
   sv_progress_fini(). */
selvage_status_t sv_progress_init(sv_progress_t *progress, const sv_progress_params_t *params,
                                  const sv_topology_t *topology, const sv_progress_ops_t *ops, void *arg);
/* Stops and joins the thread; harmless twice and on a zeroed struct. */
void sv_progress_fini(sv_progress_t *progress);

/* Hands work over and returns; it is done when work->done is seen with acquire order. */
void sv_progress_post(sv_progress_t *progress, sv_work_t *work);
/* Runs fn(arg) where the engine lives and returns when it is through. */
void sv_progress_call(sv_progress_t *progress, void (*fn)(void *arg), void *arg);
/* After something was made that only polls advance: the thread looks now, if it sleeps. Any thread. */
static inline void sv_progress_wake(sv_progress_t *progress)
{
    if (progress->threaded && !progress->params.by_timer)
        sv_sleeper_wake(&progress->sleeper);
}
/* A turn of a loop of the application's thread that waits until is_over(arg), which the engine brings about: backs off,
   at last by a sleep. With a thread the engine calls sv_progress_tell() after it has made it so. */
void sv_progress_pause(sv_progress_t *progress, sv_backoff_t *backoff, bool (*is_over)(const void *arg),
                       const void *arg);
/* The engine. */
static inline void sv_progress_tell(sv_progress_t *progress)
{
    if (progress->threaded && !progress->params.by_timer)
        sv_sleeper_wake(&progress->caller);
}
/* Inline: drives the engine once; returns whether anything moved. With a thread: does nothing, returns false. */
bool sv_progress_poll(sv_progress_t *progress);

#endif
