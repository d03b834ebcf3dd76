/* SPDX-License-Identifier: BSD-3-Clause */
/* Epochs in graphs, of packets that lie in pieces. */
#include "kernels/kernel_pieces.h"
#include "kernels/kernel_replay.h"

namespace {

SV_DEV_FN void pieces_replay_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    replay_body<layout_push, layout_pull_wide>(arg, at);
}

} // namespace

SV_KERNEL_WIDE(sv_replay_pieces, sv_run_arg_t, pieces_replay_body)
