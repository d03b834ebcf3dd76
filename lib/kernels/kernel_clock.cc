/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code by which the host learns what the device's clock says when its own says something, and in which steps
 * that clock goes. One thread.
 */
#include "kernels/kernel_device.h"

namespace {

/* The least step of several. A clock that stands still ends it, too. */
SV_DEV_FN uint64_t clock_step_ns(void)
{
    enum : unsigned { STEPS = 32, LOOKS = 100000 };
    uint64_t least = 0, before = sv_dev_clock_ns();

    for (unsigned steps = 0, looks = 0; steps < STEPS && looks < LOOKS; looks++) {
        const uint64_t now = sv_dev_clock_ns();
        if (now == before)
            continue;
        if (least == 0 || now - before < least)
            least = now - before;
        before = now;
        steps++;
    }
    return least;
}

SV_DEV_FN void clock_body(const sv_clock_arg_t &arg, sv_dev_block_t at)
{
    if (at.block != 0 || at.tid != 0)
        return;
    sv_dev_store_word_system(&arg.answer[2], clock_step_ns());
    for (uint64_t round = 1; round <= arg.rounds; round++) {
        const uint64_t begin = sv_dev_clock_ns();
        unsigned turns = 0;
        /* Partner: the release of the host that asks. It answers at once, so the wait is not slept through at first. */
        for (unsigned looks = 0; sv_dev_load_acquire_system_u64(arg.ask) < round; looks++) {
            if (sv_dev_clock_ns() - begin > arg.wait_ns)
                return;
            if (looks > 1000)
                sv_dev_backoff(&turns);
        }
        sv_dev_store_word_system(&arg.answer[1], sv_dev_clock_ns());
        sv_dev_store_release_system_u64(&arg.answer[0], round); /* partner: the host, which acquires it */
    }
}

} // namespace

SV_KERNEL(sv_clock, sv_clock_arg_t, clock_body)
