/* SPDX-License-Identifier: BSD-3-Clause */
/* The system calls of base_sleeper.h: a futex, which is this process's alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for syscall() */
#endif
#include "base/base_sleeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { US_PER_S = 1000000, NS_PER_US = 1000, WITHOUT_US = 200 };
_Static_assert(sizeof(time_t) == sizeof(long), "the call takes the kernel's own struct timespec");

bool sv_sleeper_sleep(sv_sleeper_t *sleeper, unsigned us)
{
    const struct timespec limit = {.tv_sec = us / US_PER_S, .tv_nsec = (long)(us % US_PER_S) * NS_PER_US};
    /* It returns at once if the word is 0 by now. A signal may end it early, which does no harm. Where the system knows
       no such call, or forbids it, the thread sleeps on the clock. */
    if (syscall(SYS_futex, &sleeper->asleep, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0) != 0 && errno != EAGAIN &&
        errno != EINTR && errno != ETIMEDOUT)
        nanosleep(&(struct timespec){.tv_nsec = (us < WITHOUT_US ? (long)us : WITHOUT_US) * NS_PER_US}, NULL);
    /* Partner: the exchange in sv_sleeper_wake(). */
    return atomic_exchange_explicit(&sleeper->asleep, 0, memory_order_acq_rel) == 0;
}

void sv_sleeper_wake_asleep_(sv_sleeper_t *sleeper)
{
    syscall(SYS_futex, &sleeper->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
