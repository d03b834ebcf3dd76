/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that lie in one piece leave. */
#include "kernels/kernel_push.h"

namespace {

SV_DEV_FN void whole_push_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    push_body<whole_push>(arg, numbered_by_host{}, at);
}

} // namespace

SV_KERNEL(sv_push, sv_batch_arg_t, whole_push_body)
