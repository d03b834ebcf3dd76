/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of a whole epoch in one launch: every block first takes its shares of the push, then those of the pull.
 *
 * A block waits for the blocks of other ranks, and those for this rank's. So all blocks of a launch must be on the
 * device at the same time, and no block may wait for arrivals before it has done all its shares of the push. The host
 * sees to the first with a grid of one block for each multiprocessor at most, which is half of its registers. Ranks
 * that share a device launch push and pull apart. The next kernel of the stream is brought in by the pull alone.
 */
#ifndef SV_KERNEL_RUN_H
#define SV_KERNEL_RUN_H

#include "kernels/kernel_pull.h"
#include "kernels/kernel_push.h"

namespace {

template <typename PUSH, typename PULL>
SV_DEV_FN void run_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    numbered_by_host number;
    const batch_first first = batch_fetch_first(arg, at);

    push_body<PUSH>(arg.push, number, at, first);
    pull_body<PULL>(arg.pull, number, at, first.pull);
}

} // namespace

#endif
