/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread that sleeps, and others that wake it.
 *
 *   sleeper                               waker
 *   -------                               -----
 *   sv_sleeper_announce()                 makes its work visible
 *   looks once more whether there is work sv_sleeper_wake()
 *   sv_sleeper_sleep(), or _cancel()
 *
 * Both sides exchange one word, so one of them comes second and sees what the other did before. Either the sleeper
 * finds the work, or the waker finds the sleeper and makes the system call. Whoever wakes a thread that is awake, or
 * that another one has woken already, makes none: wake-ups of many pieces of work are one.
 *
 * Any number of wakers; one sleeper at a time. No allocation, no state but the word.
 */
#ifndef SV_BASE_SLEEPER_H
#define SV_BASE_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct sv_sleeper {
    _Alignas(64) _Atomic uint32_t asleep;
} sv_sleeper_t;

static inline void sv_sleeper_init(sv_sleeper_t *sleeper)
{
    atomic_init(&sleeper->asleep, 0);
}

/* From here on a wake is not lost. Partner: the exchange in sv_sleeper_wake(). */
static inline void sv_sleeper_announce(sv_sleeper_t *sleeper)
{
    atomic_exchange_explicit(&sleeper->asleep, 1, memory_order_acq_rel);
}

/* There is work after all. Partner: the exchange in sv_sleeper_wake(). */
static inline void sv_sleeper_cancel(sv_sleeper_t *sleeper)
{
    atomic_exchange_explicit(&sleeper->asleep, 0, memory_order_acq_rel);
}

/* After announcing. Sleeps until it is woken, us microseconds at most, or shorter; returns whether it was woken. */
bool sv_sleeper_sleep(sv_sleeper_t *sleeper, unsigned us);

void sv_sleeper_wake_asleep_(sv_sleeper_t *sleeper);

/* Any thread, after its work is visible. Partner: the exchanges in sv_sleeper_announce() and sv_sleeper_sleep(). */
static inline void sv_sleeper_wake(sv_sleeper_t *sleeper)
{
    if (atomic_exchange_explicit(&sleeper->asleep, 0, memory_order_acq_rel))
        sv_sleeper_wake_asleep_(sleeper);
}

#endif
