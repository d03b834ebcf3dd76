/* SPDX-License-Identifier: BSD-3-Clause */
/* How packets that lie in pieces are moved: MOVE of kernel_push.h and of kernel_pull.h. */
#ifndef SV_KERNEL_PIECES_H
#define SV_KERNEL_PIECES_H

#include "kernels/kernel_layout.h"
#include "kernels/kernel_pull.h"
#include "kernels/kernel_push.h"

namespace {

struct layout_push {
    enum : unsigned { STAMP = SV_STAMP_PACKED };
    struct held {
    };

    SV_DEV_FN held fetch(const sv_push_item_t &, sv_dev_block_t)
    {
        return held{};
    }

    SV_DEV_FN uint64_t push(const sv_batch_arg_t &arg, const sv_push_item_t &item, uint8_t *dst, uint64_t key,
                            sv_dev_block_t at, held)
    {
        return layout_block<true, false>(arg, item.pieces, item.npieces, dst, item.identity.bytes, key, at);
    }
};

template <bool WIDE> struct layout_pull_as {
    /* Registers are needed for more than an early record; and lanes meet while they move pieces. */
    enum : bool { RECORD_EARLY = false, ROOMY = true, AHEAD = WIDE, APART = false };
    SV_DEV_FN uint64_t pull(const sv_batch_arg_t &arg, const sv_pull_item_t &item, const uint8_t *src, uint64_t key,
                            sv_dev_block_t at)
    {
        /* A gathering pass stores to the stream; this one only reads it. What is added is not pulled by a kernel that
           may read a packet twice, but by sv_scatter, when it is verified. */
        return layout_block<false, !WIDE>(arg, item.pieces, item.npieces, const_cast<uint8_t *>(src),
                                          item.identity.bytes, key, at);
    }
};

typedef layout_pull_as<false> layout_pull;
typedef layout_pull_as<true> layout_pull_wide;

} // namespace

#endif
