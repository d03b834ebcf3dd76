/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the digest: one pass over a packet (or a segment of it) that copies it, sums it, and in the end writes
 * or checks its record.
 */
#include "kernels/kernel_finish.h"

namespace {

SV_DEV_FN void digest_body(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    const uint64_t key = arg.key + arg.first_word * SV_DIGEST_STEP;

    finish_block(arg, digest_block(arg.src, arg.dst, arg.bytes, key, !(arg.mode & SV_DIGEST_NONE), at),
                 arg.dst != nullptr, at);
}

} // namespace

SV_KERNEL(sv_digest, sv_digest_arg_t, digest_body)
