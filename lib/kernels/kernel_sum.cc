/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that reads memory and adds up its words, and nothing else. The kernels that also compute are measured
 * against it. It gets all that they get, and more: 16 bytes at a time, eight in flight in every lane, a contiguous
 * range and one addition to memory per block.
 */
#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/kernel_block.h"
#include "kernels/kernel_device.h"

namespace {

enum : unsigned { SUM_BATCH = 8 };

SV_DEV_FN uint64_t sum_pair(const sv_dev_pair_t &pair)
{
    return pair.word[0] + pair.word[1];
}

SV_DEV_FN uint64_t sum_range(const sv_dev_pair_t *src, uint64_t pairs, sv_dev_block_t at)
{
    uint64_t index = at.tid, sum = 0;

    SV_DEV_ROLLED
    for (; index + (SUM_BATCH - 1) * at.nthreads < pairs; index += SUM_BATCH * at.nthreads) {
        sv_dev_pair_t pair[SUM_BATCH];
        SV_DEV_UNROLL
        for (unsigned b = 0; b < SUM_BATCH; b++)
            pair[b] = src[index + b * at.nthreads];
        SV_DEV_UNROLL
        for (unsigned b = 0; b < SUM_BATCH; b++)
            sum += sum_pair(pair[b]);
    }
    SV_DEV_ROLLED
    for (; index < pairs; index += at.nthreads)
        sum += sum_pair(src[index]);
    return sum;
}

SV_DEV_FN void sum_body(const sv_sum_arg_t &arg, sv_dev_block_t at)
{
    const sv_dev_pair_t *src = reinterpret_cast<const sv_dev_pair_t *>(arg.src);
    const uint64_t pairs = arg.words / 2;
    const uint64_t each = ((pairs + at.nblocks - 1) / at.nblocks + 31) & ~uint64_t{31};
    const uint64_t begin = each * at.block < pairs ? each * at.block : pairs;
    const uint64_t count = each < pairs - begin ? each : pairs - begin;
    const uint64_t sum = sv_dev_block_sum_u64(sum_range(src + begin, count, at), at);

    if (at.tid == 0)
        sv_dev_atomic_add_u64(arg.sum, sum);
}

} // namespace

SV_KERNEL(sv_sum, sv_sum_arg_t, sum_body)
