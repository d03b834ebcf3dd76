/* SPDX-License-Identifier: BSD-3-Clause */
/* Time: one monotonic clock for deadlines, statistics and the timeline, and the back-off of every loop that waits. */
#ifndef SV_BASE_CLOCK_H
#define SV_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC: comparable between the processes of one machine. */
uint64_t sv_clock_ns(void);

/* Sleeps until sv_clock_ns() reaches ns; returns at once if it has. */
void sv_clock_sleep_until_ns(uint64_t ns);

/*
 * The back-off. A caller that finds nothing to do calls sv_backoff(&r) again and again, and sv_backoff_reset(&r) when
 * it found work. The first calls execute the processor's pause instruction, later ones sched_yield(). Then come sleeps
 * that double from 1 to max_sleep_us. With oversubscribed set (more threads than cores) it yields from the first call.
 */
typedef struct sv_backoff {
    unsigned idle;
    unsigned max_sleep_us; /* 0: never sleep, only yield */
    int oversubscribed;
} sv_backoff_t;

/* The processor's pause instruction, for loops that look at memory. */
static inline void sv_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

void sv_backoff(sv_backoff_t *backoff);
/* The same for a caller that sleeps in a way of its own: returns for how many us, or 0 after a pause or a yield. */
unsigned sv_backoff_turn(sv_backoff_t *backoff);
/* The next turn sleeps, as short as sleeps begin. */
void sv_backoff_skip_to_sleep(sv_backoff_t *backoff);
static inline void sv_backoff_reset(sv_backoff_t *backoff)
{
    backoff->idle = 0;
}

#endif
