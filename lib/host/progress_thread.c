/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optional progress thread. It owns the engine while it lives: everything that touches the wire or an exchange's
 * state runs on it. It sleeps THREAD_MAX_SLEEP_US at most, so work that arrives while it sleeps waits no longer than
 * that.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for a thread's name */
#endif
#include "host/progress.h"

#include <signal.h>
#include <string.h>

#include "base/base_status.h"

enum { THREAD_MAX_SLEEP_US = 200 };

static void run_work(sv_work_t *work)
{
    work->run(work->arg);
    /* Partner: the acquire in wait_for(). */
    atomic_store_explicit(&work->done, 1, memory_order_release);
}

static bool drain_ring(sv_progress_t *progress)
{
    bool moved = false;
    for (sv_work_t *work; (work = sv_ring_pop(&progress->ring)) != NULL; moved = true)
        run_work(work);
    return moved;
}

static void *thread_main(void *arg)
{
    sv_progress_t *progress = arg;
    *sv_thread_binding() = progress->binding;
    pthread_setname_np(pthread_self(), "selvage-prog"); /* for those who look at a process's threads */
    sv_topology_bind_thread(progress->topology);
    /* Partner: the release in sv_progress_fini(). */
    while (!atomic_load_explicit(&progress->stop, memory_order_acquire)) {
        bool moved = drain_ring(progress);
        if (progress->poll(progress->arg) || moved)
            sv_backoff_reset(&progress->backoff);
        else
            sv_backoff(&progress->backoff);
    }
    drain_ring(progress);
    return NULL;
}

/* Signals belong to the application's threads. */
static int create_thread_without_signals(sv_progress_t *progress)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(&progress->thread, NULL, thread_main, progress);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

selvage_status_t sv_progress_init(sv_progress_t *progress, bool threaded, const sv_topology_t *topology,
                                  sv_progress_poll_fn poll, void *arg)
{
    memset(progress, 0, sizeof *progress);
    progress->poll = poll;
    progress->arg = arg;
    progress->backoff.max_sleep_us = THREAD_MAX_SLEEP_US;
    progress->backoff.oversubscribed = topology->oversubscribed;
    progress->topology = topology;
    progress->binding = *sv_thread_binding();
    atomic_init(&progress->stop, 0);
    sv_ring_init(&progress->ring);
    if (!threaded)
        return SELVAGE_SUCCESS;
    int error = create_thread_without_signals(progress);
    if (error)
        return sv_error(SELVAGE_ERR_SYSTEM, "the progress thread could not be started: %s", strerror(error));
    progress->threaded = true;
    return SELVAGE_SUCCESS;
}

void sv_progress_fini(sv_progress_t *progress)
{
    if (!progress->threaded)
        return;
    /* Partner: the acquire in thread_main(). */
    atomic_store_explicit(&progress->stop, 1, memory_order_release);
    pthread_join(progress->thread, NULL);
    progress->threaded = false;
}

void sv_progress_post(sv_progress_t *progress, sv_work_t *work)
{
    atomic_store_explicit(&work->done, 0, memory_order_relaxed);
    if (!progress->threaded) {
        run_work(work);
        return;
    }
    sv_backoff_t backoff = {.oversubscribed = 1};
    while (!sv_ring_push(&progress->ring, work))
        sv_backoff(&backoff);
}

static void wait_for(sv_work_t *work)
{
    sv_backoff_t backoff = {.max_sleep_us = 50};
    /* Partner: the release in run_work(). */
    while (!atomic_load_explicit(&work->done, memory_order_acquire))
        sv_backoff(&backoff);
}

void sv_progress_call(sv_progress_t *progress, void (*fn)(void *arg), void *arg)
{
    sv_work_t work = {.run = fn, .arg = arg};
    sv_progress_post(progress, &work);
    wait_for(&work);
}

bool sv_progress_poll(sv_progress_t *progress)
{
    return progress->threaded ? false : progress->poll(progress->arg);
}
