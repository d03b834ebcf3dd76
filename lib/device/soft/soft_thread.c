/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the software device, and how they sleep and wake.
 *
 * A waiter counts itself in `sleepers`, reads the park's word, looks once more whether it is ready, and sleeps only if
 * the word is still the same. A poster changes the word and then reads `sleepers`. Both sides are sequentially
 * consistent, so one of them sees the other. Either the waiter sees the new word, or the poster wakes it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

enum { PARK_SPINS = 64, PARK_YIELDS = 4, THREAD_STACK_BYTES = 256 * 1024 };

void soft_park_post(soft_park_t *park)
{
    /* Releases what the poster changed to soft_park_wait(), which loads the word. */
    atomic_fetch_add_explicit(&park->word, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&park->sleepers, memory_order_seq_cst))
        syscall(SYS_futex, &park->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void park_sleep(soft_park_t *park, soft_ready_t ready, const void *arg)
{
    atomic_fetch_add_explicit(&park->sleepers, 1, memory_order_seq_cst);
    for (;;) {
        /* Acquires what soft_park_post() released. */
        uint32_t seen = atomic_load_explicit(&park->word, memory_order_seq_cst);
        if (ready(arg))
            break;
        syscall(SYS_futex, &park->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    atomic_fetch_sub_explicit(&park->sleepers, 1, memory_order_relaxed);
}

void soft_park_wait(soft_park_t *park, soft_ready_t ready, const void *arg)
{
    for (int i = 0; i < PARK_SPINS + PARK_YIELDS; i++) {
        if (ready(arg))
            return;
        if (i < PARK_SPINS)
            sv_pause();
        else
            sched_yield();
    }
    park_sleep(park, ready, arg);
}

#if SOFT_THREADS
static int create_unlogged(pthread_t *thread_out, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int failure = pthread_attr_init(&attr);
    if (failure)
        return failure;
    pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    /* The mask is inherited: signals stay with the application's threads from the first instruction on. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = pthread_create(thread_out, &attr, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return failure;
}

selvage_status_t soft_thread_start(pthread_t *thread_out, void *(*body)(void *), void *arg)
{
    int failure = create_unlogged(thread_out, body, arg);
    if (failure)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: a thread could not be started: %s", strerror(failure));
    return SELVAGE_SUCCESS;
}

void soft_thread_begin(void)
{
    /* Without this a modelled link would be 50 us late at every copy. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    pthread_setname_np(pthread_self(), "selvage-soft");
}

void soft_thread_join(pthread_t thread)
{
    pthread_join(thread, NULL);
}
#else
selvage_status_t soft_thread_start(pthread_t *thread_out, void *(*body)(void *), void *arg)
{
    (void)thread_out, (void)body, (void)arg;
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "soft: this build has no threads");
}

void soft_thread_begin(void)
{
}

void soft_thread_join(pthread_t thread)
{
    (void)thread;
}
#endif
