/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoch of packets that lie in pieces at both ends, as the faces of a halo do. */
#include "kernels/kernel_pieces.h"
#include "kernels/kernel_run.h"

namespace {

SV_DEV_FN void pieces_run_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    run_body<layout_push, layout_pull_wide>(arg, at);
}

} // namespace

SV_KERNEL_WIDE(sv_run_pieces, sv_run_arg_t, pieces_run_body)
