/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of epochs in graphs: push, pull, or both, of the epoch that comes next on the device (kernel_epoch.h).
 *
 * A launch of both is as in kernel_run.h. One of a push alone belongs to a start, and one of a pull alone to the
 * enqueued wait after it. What comes straight to its place needs the leave of its receiver in each epoch, and here no
 * host can give it: the launch with the push does, before it waits for anybody.
 */
#ifndef SV_KERNEL_REPLAY_H
#define SV_KERNEL_REPLAY_H

#include "kernels/kernel_pull.h"
#include "kernels/kernel_push.h"

namespace {

/* The first block of the launch, each thread for itself. */
SV_DEV_FN void replay_grant(const sv_batch_arg_t &arg, uint64_t epoch, sv_dev_block_t at)
{
    for (unsigned i = at.tid; at.block == 0 && i < arg.npackets; i += at.nthreads) {
        const sv_pull_item_t &item = static_cast<const sv_pull_item_t *>(arg.items)[arg.index[i]];
        if (item.grant) /* partners: batch_await() of the sender's push; its host */
            sv_dev_store_release_system_u64(item.grant,
                                            batch_word(epoch, 0, static_cast<uint32_t>(item.grant_count)));
    }
}

template <typename PUSH, typename PULL>
SV_DEV_FN void replay_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    const uint32_t word = arg.pull.flags & SV_BATCH_ENDS_EPOCH ? uint32_t{SV_EPOCH_ENDING} : uint32_t{SV_EPOCH_BEGUN};
    const batch_first first = batch_fetch_first(arg, at);
    numbered_by_device number = {arg.pull.state, word, 0, 0, 0, false};

    if (arg.pull.flags & SV_BATCH_GRANTS) {
        number.begin(at);
        replay_grant(arg.pull, number.epoch, at);
    }
    push_body<PUSH>(arg.push, number, at, first);
    pull_body<PULL>(arg.pull, number, at, first.pull);
    if (arg.pull.flags & SV_BATCH_ENDS_EPOCH) {
        number.begin(at); /* where there are no packets */
        epoch_end(arg.pull.state, number.epoch, at);
    }
}

} // namespace

#endif
