/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread without an engine: work that is posted to a thread in a long sleep is run at once, and so is what
 * somebody made and woke it for; while something is under way it looks again and again; who waits for it is woken.
 * Of many wake-ups none is lost. With sleeps on the clock alone the same work is done. The last two are also built with
 * a ring of two entries, which is full all the time.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "host/progress.h"

enum {
    LONG_US = 2000000, /* of a sleep; a wake-up that is lost costs as much */
    SOON_MS = 1500,    /* and this is generous for one that is not, on a machine that is busy otherwise */
    POSTS = 20000
};

typedef struct engine {
    sv_progress_t progress;
    _Atomic bool busy;
    _Atomic long polls, made, taken;
} engine_t;

static sv_topology_t topology = {.near.node = -1};

static bool poll_engine(void *arg)
{
    engine_t *engine = arg;
    atomic_fetch_add(&engine->polls, 1);
    const long made = atomic_load(&engine->made);
    const bool moved = atomic_exchange(&engine->taken, made) != made;
    if (moved)
        atomic_store(&engine->busy, false);
    return moved;
}

static bool is_engine_idle(void *arg)
{
    engine_t *engine = arg;
    return !atomic_load(&engine->busy);
}

static const sv_progress_ops_t ops = {.poll = poll_engine, .is_idle = is_engine_idle};

static void begin(engine_t *engine, bool by_timer)
{
    const sv_progress_params_t params = {.threaded = true, .by_timer = by_timer, .idle_turns = 300,
                                         .idle_us = LONG_US};
    *engine = (engine_t){.busy = false};
    CHECK_STATUS(sv_progress_init(&engine->progress, &params, &topology, &ops, engine), SELVAGE_SUCCESS);
}

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/* Sleeps double, so that by then the thread is in one that would last until long after the end of the test. */
static void let_it_sleep(engine_t *engine)
{
    long before;
    int turns = 0;
    do {
        before = atomic_load(&engine->polls);
        pause_ms(100);
    } while (atomic_load(&engine->polls) != before && ++turns < 200);
    CHECK_EQ(atomic_load(&engine->polls), before);
}

static void count_call(void *arg)
{
    ++*(long *)arg;
}

static void check_woken(void)
{
    engine_t engine;
    long calls = 0;
    begin(&engine, false);
    /* 1. By work. */
    let_it_sleep(&engine);
    uint64_t began = sv_clock_ns();
    sv_progress_call(&engine.progress, count_call, &calls);
    CHECK((sv_clock_ns() - began) / 1000000 < SOON_MS);
    CHECK_EQ(calls, 1);
    /* 2. By somebody who made something that polls advance. */
    let_it_sleep(&engine);
    atomic_store(&engine.busy, true);
    atomic_store(&engine.made, 1);
    began = sv_clock_ns();
    sv_progress_wake(&engine.progress);
    while (atomic_load(&engine.taken) != 1 && (sv_clock_ns() - began) / 1000000 < SOON_MS)
        sched_yield();
    CHECK_EQ(atomic_load(&engine.taken), 1);
    /* 3. While that is under way it looks by itself. */
    atomic_store(&engine.busy, true);
    sv_progress_wake(&engine.progress);
    const long before = atomic_load(&engine.polls);
    pause_ms(300);
    CHECK(atomic_load(&engine.polls) - before > 10);
    atomic_store(&engine.busy, false);
    /* 4. By the end. */
    let_it_sleep(&engine);
    began = sv_clock_ns();
    sv_progress_fini(&engine.progress);
    CHECK((sv_clock_ns() - began) / 1000000 < SOON_MS);
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

typedef struct slow {
    engine_t *engine;
    _Atomic bool over;
} slow_t;

static void end_late(void *arg)
{
    slow_t *slow = arg;
    pause_ms(30);
    atomic_store(&slow->over, true);
    sv_progress_tell(&slow->engine->progress);
}

static bool is_over(const void *arg)
{
    const slow_t *slow = arg;
    return atomic_load(&slow->over);
}

static void check_waiter(bool by_timer)
{
    engine_t engine;
    begin(&engine, by_timer);
    for (int i = 0; i < 5; i++) {
        slow_t slow = {.engine = &engine};
        sv_work_t work = {.run = end_late, .arg = &slow};
        sv_backoff_t backoff = {.max_sleep_us = 100};
        sv_progress_post(&engine.progress, &work);
        while (!is_over(&slow))
            sv_progress_pause(&engine.progress, &backoff, is_over, &slow);
        long calls = 0;
        sv_progress_call(&engine.progress, count_call, &calls); /* and the work is through before it goes */
        CHECK_EQ(calls, 1);
    }
    sv_progress_fini(&engine.progress);
}

/* --- many wake-ups ------------------------------------------------------------------------------------------------ */

static void check_posts(bool by_timer)
{
    static sv_work_t works[POSTS];
    engine_t engine;
    long runs = 0, undone = 0;
    unsigned seed = 1;
    begin(&engine, by_timer);
    for (int i = 0; i < POSTS; i++) {
        works[i] = (sv_work_t){.run = count_call, .arg = &runs};
        sv_progress_post(&engine.progress, &works[i]);
        seed = seed * 1103515245u + 12345u;
        if (seed >> 16 & 1)
            continue;
        /* As long as the thread may take to fall asleep, so that posts meet it there. */
        for (unsigned turns = seed >> 17 & 0xff; turns > 0; turns--)
            sv_pause();
        if (i % 64 == 0)
            sched_yield();
    }
    sv_progress_call(&engine.progress, count_call, &runs);
    for (int i = 0; i < POSTS; i++)
        undone += !atomic_load(&works[i].done);
    CHECK_EQ(undone, 0);
    CHECK_EQ(runs, POSTS + 1);
    CHECK(engine.progress.ring.most >= 1 && engine.progress.ring.most <= SV_RING_SLOTS);
    sv_progress_fini(&engine.progress);
}

/* Calls one after another, where threads outnumber cores: both sides sleep almost at once, and wake each other. */
static void check_calls(void)
{
    enum { CALLS = 2000 };
    engine_t engine;
    long runs = 0;
    topology.oversubscribed = true;
    begin(&engine, false);
    const uint64_t began = sv_clock_ns();
    for (int i = 0; i < CALLS; i++) {
        if (i % 64 == 0)
            pause_ms(1);
        sv_progress_call(&engine.progress, count_call, &runs);
    }
    CHECK_EQ(runs, CALLS);
    CHECK((sv_clock_ns() - began) / 1000000000 < 60); /* a wake-up lost in each would take more than an hour */
    sv_progress_fini(&engine.progress);
    topology.oversubscribed = false;
}

int main(void)
{
    if (SV_RING_SLOTS > 2) { /* where the ring is full makes no difference to these */
        check_woken();
        check_waiter(false);
        check_waiter(true);
    }
    check_posts(false);
    check_posts(true);
    check_calls();
    return check_report("progress");
}
