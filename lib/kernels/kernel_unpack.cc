/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that unpacks: reads a packed stream once, sums it, stores the box, and ends as the digest does. The box
 * has been written by then; whether that was right is what the result says.
 */
#include "kernels/kernel_box.h"
#include "kernels/kernel_finish.h"

namespace {

SV_DEV_FN uint64_t unpack_block(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    switch (arg.granule) {
    case 16:
        return stream_to_box<16>(arg, at);
    case 8:
        return stream_to_box<8>(arg, at);
    case 4:
        return stream_to_box<4>(arg, at);
    case 2:
        return stream_to_box<2>(arg, at);
    default:
        return stream_to_box<1>(arg, at);
    }
}

SV_DEV_FN void unpack_body(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    finish_block(arg, unpack_block(arg, at), true, at);
}

} // namespace

SV_KERNEL(sv_unpack, sv_pack_arg_t, unpack_body)
