/* SPDX-License-Identifier: BSD-3-Clause */
/* Epochs in graphs, of packets that lie in one piece. */
#include "kernels/kernel_replay.h"

namespace {

SV_DEV_FN void whole_replay_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    replay_body<whole_push, whole_pull_wide>(arg, at);
}

} // namespace

SV_KERNEL_WIDE(sv_replay, sv_run_arg_t, whole_replay_body)
