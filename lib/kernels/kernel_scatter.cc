/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that belong in pieces are verified and unpacked in one pass. A packet that is added must be verified before
 * it touches anything. The same kernel unpacks it later, out of memory of the receiver's own.
 */
#include "kernels/kernel_pieces.h"

namespace {

/* Whether a failure after an enqueued wait was found, whose packets must not be unpacked. All threads get one
   answer. */
SV_DEV_FN bool is_failed(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    uint32_t failed = 0;

    if (!(arg.flags & SV_BATCH_UNLESS_FAILED))
        return false;
    sv_dev_launch_wait();
    if (at.tid == 0) /* partner: the release in pull_close() of an earlier launch */
        failed = sv_dev_load_acquire_system_u64(arg.abort) != 0;
    return sv_dev_block_broadcast_u32(failed, at) != 0;
}

SV_DEV_FN void scatter_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    if (!is_failed(arg, at))
        pull_body<layout_pull>(arg, numbered_by_host{}, at);
}

} // namespace

SV_KERNEL(sv_scatter, sv_batch_arg_t, scatter_body)
