/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optional progress thread. It owns the engine while it lives: everything that touches the wire or an exchange's
 * state runs on it. With nothing to do it pauses, yields, and then sleeps, longer and longer:
 *
 *   something is under way    BUSY_SLEEP_US at most, since nothing wakes it when a message arrives
 *   the engine is idle        idle_us at most, the engine's or the user's: what other ranks want of this one then are
 *                             rare words that may wait, or messages, which they would send again
 *
 * Work that is handed over wakes it, and it wakes the application's thread that waits for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for a thread's name */
#endif
#include "host/progress.h"

#include <signal.h>
#include <string.h>

#include "base/base_status.h"

enum {
    BUSY_SLEEP_US = 200,
    CALLER_SLEEP_US = 10000, /* of who waits and is woken: so often it looks at its deadline */
    CALLER_TIMER_US = 50     /* of who waits for a call and is not woken */
};

/* Work may lie on the stack of who waits for it, and is gone once it is done. */
static void run_work(sv_progress_t *progress, sv_work_t *work)
{
    work->run(work->arg);
    /* Partner: the acquire in is_work_done(). */
    atomic_store_explicit(&work->done, 1, memory_order_release);
    sv_progress_tell(progress);
}

static bool drain_ring(sv_progress_t *progress)
{
    bool moved = false;
    for (sv_work_t *work; (work = sv_ring_pop(&progress->ring)) != NULL; moved = true)
        run_work(progress, work);
    return moved;
}

/* Whether the engine is idle is asked after announcing the sleep: who begins something then wakes the thread. Asked
   before, it only ends the turns early. */
static void wait_for_work(sv_progress_t *progress)
{
    const sv_progress_params_t *params = &progress->params;
    sv_backoff_t *backoff = &progress->backoff;
    if (params->by_timer) {
        sv_backoff(backoff);
        return;
    }
    const unsigned us = sv_backoff_turn(backoff);
    if (us == 0) {
        if (backoff->idle == params->idle_turns && progress->ops->idle_us(progress->arg) > 0)
            sv_backoff_skip_to_sleep(backoff);
        return;
    }
    sv_sleeper_announce(&progress->sleeper);
    const unsigned idle_us = progress->ops->idle_us(progress->arg);
    const unsigned most_us = idle_us == 0 ? BUSY_SLEEP_US : idle_us < params->idle_us ? idle_us : params->idle_us;
    /* Partner: the release in sv_progress_fini(). */
    if (!sv_ring_is_empty(&progress->ring) || atomic_load_explicit(&progress->stop, memory_order_acquire))
        sv_sleeper_cancel(&progress->sleeper);
    else if (sv_sleeper_sleep(&progress->sleeper, us < most_us ? us : most_us))
        sv_backoff_reset(backoff);
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
        if (progress->ops->poll(progress->arg) || moved)
            sv_backoff_reset(&progress->backoff);
        else
            wait_for_work(progress);
    }
    drain_ring(progress);
    return NULL;
}

selvage_status_t sv_progress_init(sv_progress_t *progress, const sv_progress_params_t *params,
                                  const sv_topology_t *topology, const sv_progress_ops_t *ops, void *arg)
{
    memset(progress, 0, sizeof *progress);
    progress->params = *params;
    progress->ops = ops;
    progress->arg = arg;
    progress->backoff.oversubscribed = topology->oversubscribed;
    progress->backoff.max_sleep_us = params->by_timer ? BUSY_SLEEP_US : params->idle_us;
    progress->topology = topology;
    progress->binding = *sv_thread_binding();
    atomic_init(&progress->stop, 0);
    sv_ring_init(&progress->ring);
    sv_sleeper_init(&progress->sleeper);
    sv_sleeper_init(&progress->caller);
    if (!params->threaded)
        return SELVAGE_SUCCESS;
    sigset_t all, old; /* signals belong to the application's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(&progress->thread, NULL, thread_main, progress);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
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
    sv_progress_wake(progress);
    pthread_join(progress->thread, NULL);
    progress->threaded = false;
}

void sv_progress_post(sv_progress_t *progress, sv_work_t *work)
{
    atomic_store_explicit(&work->done, 0, memory_order_relaxed);
    if (!progress->threaded) {
        run_work(progress, work);
        return;
    }
    sv_backoff_t backoff = {.oversubscribed = 1};
    while (!sv_ring_push(&progress->ring, work))
        sv_backoff(&backoff);
    sv_progress_wake(progress);
}

void sv_progress_pause(sv_progress_t *progress, sv_backoff_t *backoff, bool (*is_over)(const void *arg),
                       const void *arg)
{
    if (!progress->threaded || progress->params.by_timer) {
        sv_backoff(backoff);
        return;
    }
    backoff->max_sleep_us = CALLER_SLEEP_US;
    const unsigned us = sv_backoff_turn(backoff);
    if (us == 0)
        return;
    sv_sleeper_announce(&progress->caller);
    if (is_over(arg))
        sv_sleeper_cancel(&progress->caller);
    else
        (void)sv_sleeper_sleep(&progress->caller, us);
}

static bool is_work_done(const void *arg)
{
    const sv_work_t *work = arg;
    /* Partner: the release in run_work(). */
    return atomic_load_explicit(&work->done, memory_order_acquire);
}

void sv_progress_call(sv_progress_t *progress, void (*fn)(void *arg), void *arg)
{
    sv_work_t work = {.run = fn, .arg = arg};
    sv_backoff_t backoff = {.max_sleep_us = CALLER_TIMER_US, .oversubscribed = progress->topology->oversubscribed};
    sv_progress_post(progress, &work);
    while (!is_work_done(&work))
        sv_progress_pause(progress, &backoff, is_work_done, &work);
}

bool sv_progress_poll(sv_progress_t *progress)
{
    return progress->threaded ? false : progress->ops->poll(progress->arg);
}
