/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that lie in one piece leave. */
#include "kernels/kernel_push.h"

namespace {

struct whole_push {
    SV_DEV_FN uint64_t push(const sv_batch_arg_t &arg, const sv_push_item_t &item, uint8_t *dst, uint64_t key,
                            sv_dev_block_t at)
    {
        return digest_block(item.src, dst, item.identity.bytes, key, !(arg.flags & SV_DIGEST_NONE), at);
    }
};

SV_DEV_FN void whole_push_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    push_body<whole_push>(arg, at);
}

} // namespace

SV_KERNEL(sv_push, sv_batch_arg_t, whole_push_body)
