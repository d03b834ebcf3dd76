/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that packs a box. It reads the box once in the order of its stream, stores the stream, sums it, and ends
 * as the digest does. Without a stream to store, it is the digest of a box that is sent as it lies.
 */
#include "kernels/kernel_box.h"
#include "kernels/kernel_finish.h"

namespace {

SV_DEV_FN uint64_t pack_block(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    switch (arg.granule) {
    case 16:
        return box_to_stream<16>(arg, at);
    case 8:
        return box_to_stream<8>(arg, at);
    case 4:
        return box_to_stream<4>(arg, at);
    case 2:
        return box_to_stream<2>(arg, at);
    default:
        return box_to_stream<1>(arg, at);
    }
}

SV_DEV_FN void pack_body(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    finish_block(arg, pack_block(arg, at), true, at);
}

} // namespace

SV_KERNEL(sv_pack, sv_pack_arg_t, pack_body)
