/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums over the threads of a block, and what one thread tells all others. All threads of the block call, between the
 * same barriers. What is of the block ends with a barrier, and what is of a wave with a wave's, so that each may be
 * called again at once. On soft a block has one thread, and its value is the sum.
 */
#ifndef SV_KERNEL_BLOCK_H
#define SV_KERNEL_BLOCK_H

#include "kernels/kernel_device.h"

/* Waves that a block may have. */
#if defined(SV_DEV_SOFT)
enum : unsigned { SV_DEV_WAVES_MAX = 1 };
#else
enum : unsigned { SV_DEV_WAVES_MAX = SV_KERNEL_LANES_MAX / SV_DEV_WAVE };
#endif

/* Sum over the lanes of a wave, given to each of them. The waves of the block are whole. No barrier. */
SV_DEV_FN uint64_t sv_dev_wave_sum_u64(uint64_t value, sv_dev_block_t at)
{
#if defined(SV_DEV_CUDA) && __CUDA_ARCH__ >= 800
    /* A warp adds numbers of 32 bits in one instruction. Two of the three parts of the number cannot overflow, and the
       last one may. */
    enum : unsigned { BITS = 27, MASK = (1u << BITS) - 1 };
    const uint64_t low = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value) & MASK);
    const uint64_t middle = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value >> BITS) & MASK);
    const uint64_t high = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value >> 2 * BITS));
    (void)at;
    return low + (middle << BITS) + (high << 2 * BITS);
#elif defined(SV_DEV_CUDA)
    SV_DEV_UNROLL
    for (unsigned step = SV_DEV_WAVE / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    (void)at;
    return value;
#elif defined(SV_DEV_HIP)
    SV_DEV_SHARED uint64_t partial[SV_KERNEL_LANES_MAX];
    const unsigned first = at.tid - at.tid % SV_DEV_WAVE;
    partial[at.tid] = value;
    sv_dev_wave_sync();
    value = 0;
    SV_DEV_ROLLED
    for (unsigned l = 0; l < SV_DEV_WAVE; l++)
        value += partial[first + l];
    sv_dev_wave_sync(); /* so that the next sum may write */
    return value;
#else
    (void)at;
    return value;
#endif
}

/* Sum over the threads of the block, given to every thread. Any number of threads. */
SV_DEV_FN uint64_t sv_dev_block_sum_u64(uint64_t value, sv_dev_block_t at)
{
#if defined(SV_DEV_SOFT)
    (void)at;
#else
    SV_DEV_SHARED uint64_t partial[SV_KERNEL_LANES_MAX];
    unsigned width = at.nthreads;
#if defined(SV_DEV_CUDA)
    if (at.nthreads % SV_DEV_WAVE == 0) { /* whole warps: each sums by itself first, and one entry per warp is left */
        const unsigned lane = at.tid % SV_DEV_WAVE;
        value = sv_dev_wave_sum_u64(value, at);
        if (lane == 0)
            partial[at.tid / SV_DEV_WAVE] = value;
        sv_dev_block_sync();
        value = sv_dev_wave_sum_u64(lane < at.nthreads / SV_DEV_WAVE ? partial[lane] : 0, at);
        sv_dev_block_sync(); /* so that the next sum may write */
        return value;
    }
#endif
    partial[at.tid] = value;
    sv_dev_block_sync();
    while (width > 1) {
        unsigned half = (width + 1) / 2;
        if (at.tid + half < width)
            partial[at.tid] += partial[at.tid + half];
        sv_dev_block_sync();
        width = half;
    }
    value = partial[0];
    sv_dev_block_sync(); /* so that the next sum may write */
#endif
    return value;
}

/*
 * Sums over groups of waves. Wave w is of group w modulo ngroups, and thread k gets the sum of group k; threads from
 * ngroups on get 0. The block's waves are whole, and there are as many as groups, or more.
 */
SV_DEV_FN uint64_t sv_dev_block_sum_groups_u64(uint64_t value, unsigned ngroups, sv_dev_block_t at)
{
    SV_DEV_SHARED uint64_t partial[SV_DEV_WAVES_MAX];
    value = sv_dev_wave_sum_u64(value, at);
    if (at.tid % SV_DEV_WAVE == 0)
        partial[at.tid / SV_DEV_WAVE] = value;
    sv_dev_block_sync();
    value = 0;
    if (at.tid < ngroups)
        SV_DEV_ROLLED
        for (unsigned w = at.tid; w < at.nthreads / SV_DEV_WAVE; w += ngroups)
            value += partial[w];
    sv_dev_block_sync(); /* so that the next sum may write */
    return value;
}

/* The value of thread 0, for every thread. */
SV_DEV_FN uint32_t sv_dev_block_broadcast_u32(uint32_t value, sv_dev_block_t at)
{
#if defined(SV_DEV_SOFT)
    (void)at;
#else
    SV_DEV_SHARED uint32_t shared;
    if (at.tid == 0)
        shared = value;
    sv_dev_block_sync();
    value = shared;
    sv_dev_block_sync(); /* so that the next one may write */
#endif
    return value;
}

#endif
