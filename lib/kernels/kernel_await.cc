/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that holds a stream until a word says that what comes next may run. The word of this rank's host says
 * that an epoch is over, for exchanges that a progress thread drives. The word of another rank says that a packet is in
 * the user's memory, which only a kernel that begins then sees. One thread; it has a deadline and looks at the abort
 * word.
 */
#include "kernels/kernel_args.h"
#include "kernels/kernel_device.h"

namespace {

SV_DEV_FN void await_body(const sv_await_arg_t &arg, sv_dev_block_t at)
{
    unsigned turns = 0;

    if (at.block != 0 || at.tid != 0)
        return;
    const uint64_t begin = sv_dev_clock_ns();
    /* Partners: sv_exchange_join(), or the push of the other rank; and sv_exchange_poison(). */
    while (sv_dev_load_acquire_system_u64(arg.word) < arg.epoch && !sv_dev_load_acquire_system_u64(arg.abort)) {
        if (sv_dev_clock_ns() - begin >= arg.wait_ns) { /* partners: sv_enqueued_check(), and kernels after this one */
            sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.late, arg.abort, nullptr}, {arg.epoch, 1, 0}});
            return;
        }
        sv_dev_backoff(&turns);
    }
}

} // namespace

SV_KERNEL(sv_await, sv_await_arg_t, await_body)
