/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that takes time and does nothing else: a modelled kernel. The software device can sleep in a stream and
 * does not need it. One thread watches the clock, and yields between polls.
 */
#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/kernel_device.h"

namespace {

SV_DEV_FN void delay_body(const sv_delay_arg_t &arg, sv_dev_block_t at)
{
    if (at.block != 0 || at.tid != 0)
        return;
    uint64_t until_ns = sv_dev_clock_ns() + arg.ns;
    for (unsigned turns = 0; sv_dev_clock_ns() < until_ns;)
        sv_dev_backoff(&turns);
}

} // namespace

SV_KERNEL(sv_delay, sv_delay_arg_t, delay_body)
