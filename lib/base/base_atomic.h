/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A compare-exchange that may fail without a reason, as it does on processors that link a load and a store. Those of
 * this kind stand in loops. A loop that took the value it found for a reason would be wrong there and right elsewhere.
 * Tests compile such code with SV_EXCHANGE_FAILS=n: every nth of a thread's then fails, and finds what it expected.
 *
 *   SV_EXCHANGE_WEAK(object, expected, desired, success, failure)   as atomic_compare_exchange_weak_explicit()
 */
#ifndef SV_BASE_ATOMIC_H
#define SV_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>

#ifdef SV_EXCHANGE_FAILS
static _Thread_local unsigned sv_exchanges_of_thread_;

static inline bool sv_exchange_fails_(void)
{
    return ++sv_exchanges_of_thread_ % SV_EXCHANGE_FAILS == 0;
}

#define SV_EXCHANGE_WEAK(object, expected, desired, success, failure)          \
    (sv_exchange_fails_()                                                      \
         ? (*(expected) = atomic_load_explicit((object), (failure)), false)    \
         : atomic_compare_exchange_weak_explicit((object), (expected), (desired), (success), (failure)))
#else
#define SV_EXCHANGE_WEAK atomic_compare_exchange_weak_explicit
#endif

#endif
