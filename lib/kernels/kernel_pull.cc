/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that belong in one piece land. */
#include "kernels/kernel_pull.h"

namespace {

SV_DEV_FN void whole_pull_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    pull_body<whole_pull>(arg, numbered_by_host{}, at);
}

} // namespace

SV_KERNEL(sv_pull, sv_batch_arg_t, whole_pull_body)
