/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock and the back-off; no state but the caller's.
 *
 * The back-off begins with pauses, while the other side is about to answer. It goes on with yields, since somebody else
 * may need this core, and ends with sleeps. Where ranks outnumber cores, a pause would only steal the time of the rank
 * that is waited for, so there are none.
 */
#include "base/base_clock.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <time.h>

enum {
    NS_PER_S = 1000000000,
    PAUSES = 200,          /* calls that only pause, on a free core */
    YIELDS = 1000,         /* calls that yield after them */
    YIELDS_OVERSUBSCRIBED = 50, /* calls that yield before the first sleep, on a shared core */
    DOUBLINGS_MAX = 20     /* 1 us doubled this often is a second: more than any max_sleep_us */
};

uint64_t sv_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void sv_clock_sleep_until_ns(uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

unsigned sv_backoff_turn(sv_backoff_t *backoff)
{
    const unsigned pauses = backoff->oversubscribed ? 0 : PAUSES;
    const unsigned yields = backoff->oversubscribed ? YIELDS_OVERSUBSCRIBED : YIELDS;
    const unsigned idle = backoff->idle;
    if (idle < UINT_MAX)
        backoff->idle = idle + 1;
    if (idle < pauses) {
        sv_pause();
        return 0;
    }
    if (idle < pauses + yields || backoff->max_sleep_us == 0) {
        sched_yield();
        return 0;
    }
    /* Each sleep is twice as long as the one before, up to the limit. */
    const unsigned doublings = idle - pauses - yields;
    const unsigned us = 1u << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
    return us < backoff->max_sleep_us ? us : backoff->max_sleep_us;
}

void sv_backoff_skip_to_sleep(sv_backoff_t *backoff)
{
    const unsigned turns = backoff->oversubscribed ? YIELDS_OVERSUBSCRIBED : PAUSES + YIELDS;
    if (backoff->idle < turns)
        backoff->idle = turns;
}

void sv_backoff(sv_backoff_t *backoff)
{
    const unsigned us = sv_backoff_turn(backoff);
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    if (us > 0)
        nanosleep(&pause, NULL); /* a signal may end it early, which does no harm: the caller looks again */
}
