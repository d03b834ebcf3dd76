/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of a packet that a copy engine has brought most of: some blocks sum that where it landed, while the
 * others copy and sum the rest, which comes over a link that would stand still otherwise. So the digest takes hardly
 * any time of its own. Blocks wait for nobody but the last one, for the record.
 */
#include "kernels/kernel_finish.h"

namespace {

SV_DEV_FN void rest_body(const sv_rest_arg_t &arg, sv_dev_block_t at)
{
    const sv_digest_arg_t &pass = arg.pass;
    const bool landed = at.block < arg.landed_blocks;
    const uint64_t begin = landed ? 0 : arg.landed_bytes, end = landed ? arg.landed_bytes : pass.bytes;
    const uint64_t key = pass.key + begin / 8 * SV_DIGEST_STEP;
    sv_dev_block_t own = at;

    own.block = landed ? at.block : at.block - arg.landed_blocks;
    own.nblocks = landed ? arg.landed_blocks : at.nblocks - arg.landed_blocks;
    const uint64_t sum = digest_block(landed ? pass.dst : pass.src + begin, landed ? nullptr : pass.dst + begin,
                                      end - begin, key, !(pass.mode & SV_DIGEST_NONE), own);
    finish_block(pass, sum, !(pass.mode & SV_DIGEST_NEAR), at);
}

} // namespace

SV_KERNEL(sv_rest, sv_rest_arg_t, rest_body)
