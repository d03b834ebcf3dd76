/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call waits for before it touches device memory. A program may have forgotten to wait for any of the process's
 * work. But a kernel among that work may itself wait for what the host does after this very call. Such a program is
 * right with an MPI that knows device memory. So the default policy waits for a limited time:
 *
 *   call     asks for a turn ---- waits until it is over, or for the limit ---- goes on
 *   waiter             a thread: takes all that was asked for, waits for the devices, says so
 *
 * What the drop-in gives back (drop_idle.c) asks for a turn as well, with the other policies too.
 *
 * Only a wait can find out whether all of a device is idle: an event that is enqueued to find out may itself come after
 * that kernel. Hence the thread, which is made at the first wait, calls no MPI, and sleeps while nobody asks. While it
 * is stuck nobody waits for it. After a few times nobody ever does. Any thread may call. The waiter's lock guards its
 * structure but for the atomic members, and the thread ends with the drop-in.
 */
#include "interpose/drop_idle.h"
#include "interpose/drop_order.h"

#include <sched.h>
#include <time.h>

/* How long the waiter looks for work before it sleeps, and a call for the end of its turn. Being woken takes as long as
   a short kernel, and devices' own waits spin, too. */
enum { IDLE_SPIN_NS = 1000000, CALL_SPIN_NS = 5000000, EXPIRED_MAX = 8 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread;
    bool has_thread, no_thread, stop;
    _Atomic uint64_t asked, over; /* turns */
    uint64_t expired;             /* the newest turn that was given up: nobody waits before it is over */
    _Atomic int times;            /* that a turn was given up */
    _Atomic bool failed;          /* a device did */
} waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

int64_t sv_drop_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static selvage_status_t wait_for_all(void)
{
    selvage_device_t *dev;
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int i = 0; status == SELVAGE_SUCCESS && sv_drop_device_at(i, &dev); i++)
        status = selvage_device_synchronize(dev);
    return status;
}

static void must_settle(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("the device failed", selvage_error_detail());
}

/* --- the waiter --------------------------------------------------------------------------------------------------- */

/* Relaxed: nothing hangs on the order, as what was asked is read again with the lock. */
static bool is_idle_waiter(void)
{
    return atomic_load_explicit(&waiter.asked, memory_order_relaxed) ==
           atomic_load_explicit(&waiter.over, memory_order_relaxed);
}

static void *run_waiter(void *arg)
{
    selvage_device_t *first = sv_drop_device();
    (void)arg;
    if (first)
        (void)selvage_device_make_current(first); /* that it cannot be is said by the wait, too */
    pthread_mutex_lock(&waiter.lock);
    while (!waiter.stop) {
        /* For a moment it looks without sleeping, and without the lock, because calls come in groups. */
        const int64_t until = sv_drop_now_ns() + IDLE_SPIN_NS;
        pthread_mutex_unlock(&waiter.lock);
        while (is_idle_waiter() && sv_drop_now_ns() < until)
            sched_yield();
        pthread_mutex_lock(&waiter.lock);
        while (!waiter.stop && is_idle_waiter())
            pthread_cond_wait(&waiter.work, &waiter.lock);
        if (is_idle_waiter()) /* the end: a wait that nobody asked for might never be over */
            break;
        /* One wait is for all that have asked until now. */
        const uint64_t asked = atomic_load_explicit(&waiter.asked, memory_order_relaxed);
        pthread_mutex_unlock(&waiter.lock);
        selvage_status_t status = wait_for_all();
        if (status != SELVAGE_SUCCESS) {
            sv_drop_warn("the device failed: %s", selvage_error_detail());
            atomic_store_explicit(&waiter.failed, true, memory_order_relaxed);
        }
        pthread_mutex_lock(&waiter.lock);
        /* Partner: the acquire in is_turn_over(). */
        atomic_store_explicit(&waiter.over, asked, memory_order_release);
        pthread_cond_broadcast(&waiter.done);
    }
    pthread_mutex_unlock(&waiter.lock);
    return NULL;
}

static bool is_turn_over(uint64_t turn)
{
    /* Partner: the release in run_waiter(). */
    return atomic_load_explicit(&waiter.over, memory_order_acquire) >= turn;
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

/* False: the turn was not over in time. */
static bool await_turn(uint64_t turn, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    const int64_t spin_until = sv_drop_now_ns() + CALL_SPIN_NS;
    while (!is_turn_over(turn) && sv_drop_now_ns() < spin_until && sv_drop_now_ns() < until_ns)
        sched_yield();
    if (is_turn_over(turn))
        return true;
    pthread_mutex_lock(&waiter.lock);
    while (!is_turn_over(turn) && sv_drop_now_ns() < until_ns)
        pthread_cond_timedwait(&waiter.done, &waiter.lock, &until);
    pthread_mutex_unlock(&waiter.lock);
    return is_turn_over(turn);
}

/* A turn of the waiter's; 0: it is stuck. *alone_out: there is no waiter. */
static uint64_t ask_for_turn(bool *alone_out)
{
    uint64_t turn = 0;
    pthread_mutex_lock(&waiter.lock);
    /* The first call makes the thread. */
    if (!waiter.has_thread && !waiter.no_thread) {
        pthread_condattr_t attr;
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&waiter.done, &attr);
        pthread_condattr_destroy(&attr);
        waiter.has_thread = sv_drop_make_thread(&waiter.thread, run_waiter);
        waiter.no_thread = !waiter.has_thread;
    }
    *alone_out = !waiter.has_thread;
    if (waiter.has_thread && is_turn_over(waiter.expired) && !waiter.stop) {
        turn = atomic_fetch_add_explicit(&waiter.asked, 1, memory_order_relaxed) + 1;
        pthread_cond_signal(&waiter.work);
    }
    pthread_mutex_unlock(&waiter.lock);
    return turn;
}

/* Until it is over nobody waits for the waiter. */
static void give_turn_up(uint64_t turn)
{
    pthread_mutex_lock(&waiter.lock);
    if (!is_turn_over(turn) && waiter.expired < turn)
        waiter.expired = turn;
    pthread_mutex_unlock(&waiter.lock);
}

static void settle_for_limited_time(void)
{
    if (atomic_load_explicit(&waiter.times, memory_order_relaxed) >= EXPIRED_MAX)
        return;
    const int64_t until_ns = sv_drop_now_ns() + (int64_t)sv_drop_settings()->sync_ms * 1000000;
    bool alone;
    const uint64_t turn = ask_for_turn(&alone);
    if (alone)
        must_settle(wait_for_all());
    else if (turn > 0 && !await_turn(turn, until_ns)) {
        give_turn_up(turn);
        const int times = atomic_fetch_add_explicit(&waiter.times, 1, memory_order_relaxed) + 1;
        if (times == 1)
            sv_drop_warn("the device was still at work after %d ms of waiting for it in an MPI call, which has gone "
                         "on: right for a program that waits itself for what writes the memory it gives to MPI "
                         "(SELVAGE_DROPIN_SYNC)", sv_drop_settings()->sync_ms);
        if (times == EXPIRED_MAX)
            sv_drop_warn("for the %dth time: nothing more is waited for", times);
    }
    if (atomic_load_explicit(&waiter.failed, memory_order_relaxed))
        sv_drop_fatal("the device failed", "while a call waited for it");
}

/* This thread moves what needs no waiting (drop_order.h). */
static _Thread_local bool is_own;

void sv_drop_own(bool own)
{
    is_own = own;
}

bool sv_drop_is_own(void)
{
    return is_own;
}

void sv_drop_settle(void)
{
    if (is_own)
        return;
    const int64_t begin_ns = sv_drop_trace_now();
    selvage_device_t *dev;
    switch (sv_drop_settings()->sync) {
    case SV_DROP_SYNC_AUTO: settle_for_limited_time(); break;
    case SV_DROP_SYNC_DEVICE:
    case SV_DROP_SYNC_CHECK: must_settle(wait_for_all()); break;
    case SV_DROP_SYNC_DEFAULT:
        for (int i = 0; sv_drop_device_at(i, &dev); i++)
            must_settle(selvage_stream_synchronize(dev, NULL));
        break;
    case SV_DROP_SYNC_NONE: break;
    }
    sv_drop_give_back();
    sv_drop_trace_span("wait for the device", begin_ns, 0);
}

/* A turn that is not over in time stays with the waiter, and nobody asks here before it is. No call goes on sooner for
   that: theirs come after it. */
bool sv_drop_comes_to_rest(int64_t limit_ns)
{
    bool alone;
    if (sv_drop_settings()->sync == SV_DROP_SYNC_DEVICE || sv_drop_settings()->sync == SV_DROP_SYNC_CHECK)
        return wait_for_all() == SELVAGE_SUCCESS; /* as each call does */
    const uint64_t turn = sv_drop_is_stuck() || !is_idle_waiter() ? 0 : ask_for_turn(&alone);
    return turn > 0 && await_turn(turn, sv_drop_now_ns() + limit_ns) &&
           !atomic_load_explicit(&waiter.failed, memory_order_relaxed);
}

bool sv_drop_is_stuck(void)
{
    if (atomic_load_explicit(&waiter.times, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&waiter.lock);
    const bool stuck = !is_turn_over(waiter.expired);
    pthread_mutex_unlock(&waiter.lock);
    return stuck || atomic_load_explicit(&waiter.times, memory_order_relaxed) >= EXPIRED_MAX;
}

/* A waiter that is stuck stays until the process ends, and so do the devices. */
bool sv_drop_settle_end(void)
{
    pthread_mutex_lock(&waiter.lock);
    const bool had = waiter.has_thread;
    const uint64_t asked = atomic_load_explicit(&waiter.asked, memory_order_relaxed);
    waiter.stop = true;
    pthread_cond_signal(&waiter.work);
    pthread_mutex_unlock(&waiter.lock);
    if (!had)
        return true;
    if (!await_turn(asked, sv_drop_now_ns() + (int64_t)sv_drop_settings()->sync_ms * 1000000)) {
        pthread_detach(waiter.thread);
        return false;
    }
    pthread_join(waiter.thread, NULL);
    return true;
}
