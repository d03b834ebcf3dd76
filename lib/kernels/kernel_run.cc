/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoch of packets that lie in one piece at both ends. */
#include "kernels/kernel_run.h"

namespace {

SV_DEV_FN void whole_run_body(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    run_body<whole_push, whole_pull_wide>(arg, at);
}

} // namespace

SV_KERNEL_WIDE(sv_run, sv_run_arg_t, whole_run_body)
