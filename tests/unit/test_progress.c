/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleeper by itself: of many wake-ups none is lost. The progress thread without an engine: work that is posted
 * wakes a thread that sleeps, and so does who made something; while something is under way it looks again and again;
 * who waits for it is woken. With sleeps on the clock alone the same work is done. Posts and calls are also built with
 * a ring of two entries, which is full all the time.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "host/progress.h"

enum {
    LONG_US = 2000000, /* of a sleep of the progress thread */
    NEVER_US = 20000000, /* of a sleeper's: a wake-up that is lost costs as much */
    LIMIT_S = 60,      /* of many that are not, on a machine that is busy otherwise */
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

static unsigned engine_idle_us(void *arg)
{
    engine_t *engine = arg;
    return atomic_load(&engine->busy) ? 0 : LONG_US;
}

static const sv_progress_ops_t ops = {.poll = poll_engine, .idle_us = engine_idle_us};

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

/* --- the sleeper -------------------------------------------------------------------------------------------------- */

typedef struct rounds {
    sv_sleeper_t sleeper;
    _Atomic long made, taken;
    long woken; /* the sleeper's */
} rounds_t;

enum { ROUNDS = 3000 };

static void *sleep_and_take(void *arg)
{
    rounds_t *rounds = arg;
    for (long round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&rounds->made) < round) {
            sv_sleeper_announce(&rounds->sleeper);
            /* It may end early, by the system call of the wake before, if that one's caller stood still meanwhile. */
            const uint64_t began_ns = sv_clock_ns();
            if (atomic_load(&rounds->made) < round)
                rounds->woken += sv_sleeper_sleep(&rounds->sleeper, NEVER_US);
            else
                sv_sleeper_cancel(&rounds->sleeper);
            CHECK((sv_clock_ns() - began_ns) / 1000 < NEVER_US); /* else a wake was lost */
        }
        atomic_store(&rounds->taken, round);
    }
    return NULL;
}

/* At random times, so that some come just before the other one sleeps. */
static void check_sleeper(void)
{
    rounds_t rounds = {.made = 0};
    pthread_t thread;
    unsigned seed = 7;
    const uint64_t began_ns = sv_clock_ns();
    sv_sleeper_init(&rounds.sleeper);
    CHECK_EQ(pthread_create(&thread, NULL, sleep_and_take, &rounds), 0);
    for (long round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&rounds.taken) != round - 1)
            sched_yield();
        seed = seed * 1103515245u + 12345u;
        for (unsigned turns = seed >> 16 & 0x3ff; turns > 0; turns--)
            sv_pause();
        atomic_store(&rounds.made, round);
        sv_sleeper_wake(&rounds.sleeper);
    }
    pthread_join(thread, NULL);
    CHECK((sv_clock_ns() - began_ns) / 1000000000 < LIMIT_S);
    CHECK(rounds.woken > 0);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static bool is_asleep(engine_t *engine)
{
    return atomic_load(&engine->progress.sleeper.asleep) == 1;
}

/* Sleeps double, so that by then the thread is in one of a tenth of a second at least. */
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
    sv_work_t work = {.run = count_call, .arg = &calls};
    begin(&engine, false);
    /* 1. By work: it is told, or has done it and may sleep again. */
    let_it_sleep(&engine);
    sv_progress_post(&engine.progress, &work);
    CHECK(!is_asleep(&engine) || atomic_load(&work.done));
    while (!atomic_load(&work.done))
        sched_yield();
    CHECK_EQ(calls, 1);
    /* 2. By somebody who made something that polls advance. */
    let_it_sleep(&engine);
    atomic_store(&engine.busy, true);
    atomic_store(&engine.made, 1);
    sv_progress_wake(&engine.progress);
    CHECK(!is_asleep(&engine) || atomic_load(&engine.taken) == 1);
    while (atomic_load(&engine.taken) != 1)
        sched_yield();
    /* 3. While that is under way it looks by itself. */
    atomic_store(&engine.busy, true);
    sv_progress_wake(&engine.progress);
    const long before = atomic_load(&engine.polls);
    for (int turn = 0; turn < 100 && atomic_load(&engine.polls) - before <= 10; turn++) /* it may stand still */
        pause_ms(100);
    CHECK(atomic_load(&engine.polls) - before > 10); /* by sleeps of LONG_US it would be five */
    atomic_store(&engine.busy, false);
    /* 4. By the end. */
    let_it_sleep(&engine);
    sv_progress_fini(&engine.progress);
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
    CHECK((sv_clock_ns() - began) / 1000000000 < LIMIT_S);
    sv_progress_fini(&engine.progress);
    topology.oversubscribed = false;
}

int main(void)
{
    if (SV_RING_SLOTS > 2) { /* where the ring is full makes no difference to these */
        check_sleeper();
        check_woken();
        check_waiter(false);
        check_waiter(true);
    }
    check_posts(false);
    check_posts(true);
    check_calls();
    return check_report("progress");
}
