/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that belong in one piece land. */
#include "kernels/kernel_pull.h"

namespace {

struct whole_pull {
    enum : bool { RECORD_EARLY = true };
    SV_DEV_FN uint64_t pull(const sv_batch_arg_t &arg, const sv_pull_item_t &item, const uint8_t *src, uint64_t key,
                            sv_dev_block_t at)
    {
        return digest_block(src, item.dst, item.identity.bytes, key, !(arg.flags & SV_DIGEST_NONE), at);
    }
};

SV_DEV_FN void whole_pull_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    pull_body<whole_pull>(arg, at);
}

} // namespace

SV_KERNEL(sv_pull, sv_batch_arg_t, whole_pull_body)
