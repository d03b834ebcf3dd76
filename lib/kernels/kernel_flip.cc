/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that damages one byte, for fault injection: the bits of the mask change. A plain access, ordered by the
 * stream like any other work on the packet.
 */
#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/kernel_device.h"

namespace {

SV_DEV_FN void flip_body(const sv_flip_arg_t &arg, sv_dev_block_t at)
{
    if (at.block == 0 && at.tid == 0)
        *arg.byte = static_cast<uint8_t>(*arg.byte ^ arg.mask);
}

} // namespace

SV_KERNEL(sv_flip, sv_flip_arg_t, flip_body)
