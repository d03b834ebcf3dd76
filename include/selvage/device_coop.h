/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_coop.h
 * @brief Part of device_api.h, which includes it: the threads that call together, a block or a warp.
 *
 * All threads of a coop make the same calls with it in the same order. Blocks are one-dimensional and consist of whole
 * warps, at most 1024 threads. On the software device a block is one CPU thread.
 */
#ifndef SELVAGE_DEVICE_COOP_H
#define SELVAGE_DEVICE_COOP_H

#ifdef __cplusplus
#include <selvage/device_words.h>

#if defined(SELVAGE_DEVICE_SOFT)
/** Several blocks of the software device that act as the lanes of one: for finding races. Zero at first. */
typedef struct selvage_soft_lanes {
    uint32_t arrived, turn;
    uint64_t value[64];
} selvage_soft_lanes_t;
#endif

/** The threads that call together, as the calling one sees them. */
typedef struct selvage_coop {
    unsigned lane, lanes;  /**< number of the calling thread, and how many they are */
    unsigned index, count; /**< number of this block or warp among those of the launch */
    bool warp;
#if defined(SELVAGE_DEVICE_SOFT)
    selvage_soft_lanes_t *shared; /* NULL: one lane */
#endif
} selvage_coop_t;

#if defined(__CUDACC__)

/** @brief The block of the calling thread. */
SELVAGE_DEVICE_FN selvage_coop_t selvage_coop_block(void)
{
    return selvage_coop_t{threadIdx.x, blockDim.x, blockIdx.x, gridDim.x, false};
}

#elif defined(__HIP__)

SELVAGE_DEVICE_FN selvage_coop_t selvage_coop_block(void)
{
    const unsigned threads = __builtin_amdgcn_workgroup_size_x();
    return selvage_coop_t{__builtin_amdgcn_workitem_id_x(), threads, __builtin_amdgcn_workgroup_id_x(),
                          __builtin_amdgcn_grid_size_x() / threads, false};
}

#else

/** @brief Block @p block of @p nblocks of the software device, as a selvage_soft_kernel_t is called: one lane. */
SELVAGE_DEVICE_FN selvage_coop_t selvage_coop_soft(unsigned block, unsigned nblocks)
{
    return selvage_coop_t{0, 1, block, nblocks, false, nullptr};
}

/**
 * @brief Blocks of so many lanes each, at most 64: soft block b is lane b % lanes of block b / lanes.
 * @param shared  one for each block, zero before the launch
 */
SELVAGE_DEVICE_FN selvage_coop_t selvage_coop_soft_lanes(unsigned block, unsigned nblocks, unsigned lanes,
                                                         selvage_soft_lanes_t *shared)
{
    return selvage_coop_t{block % lanes, lanes, block / lanes, nblocks / lanes, false, &shared[block / lanes]};
}

#endif

#if !defined(SELVAGE_DEVICE_SOFT)
/** @brief The warp of the calling thread. */
SELVAGE_DEVICE_FN selvage_coop_t selvage_coop_warp(void)
{
    const selvage_coop_t block = selvage_coop_block();
    const unsigned warps = block.lanes / SELVAGE_DEVICE_WARP;
    return selvage_coop_t{block.lane % SELVAGE_DEVICE_WARP, SELVAGE_DEVICE_WARP,
                          block.index * warps + block.lane / SELVAGE_DEVICE_WARP, block.count * warps, true};
}
#endif

namespace selvage_detail {

#if defined(__CUDACC__)

SELVAGE_DEVICE_FN void sync_warp(void)
{
    __syncwarp();
}

SELVAGE_DEVICE_FN void sync_block(void)
{
    __syncthreads();
}

SELVAGE_DEVICE_FN uint64_t sum_warp(uint64_t value)
{
#if __CUDA_ARCH__ >= 800
    /* Two of the three parts of the number cannot overflow, and the last one may. */
    enum : unsigned { BITS = 27, MASK = (1u << BITS) - 1 };
    const uint64_t low = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value) & MASK);
    const uint64_t middle = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value >> BITS) & MASK);
    const uint64_t high = __reduce_add_sync(0xffffffffu, static_cast<unsigned>(value >> 2 * BITS));
    return low + (middle << BITS) + (high << 2 * BITS);
#else
    for (unsigned step = SELVAGE_DEVICE_WARP / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
#endif
}

SELVAGE_DEVICE_FN bool any_warp(bool condition)
{
    const bool any = __any_sync(0xffffffffu, condition);
    __syncwarp(); /* orders memory, which the vote does not */
    return any;
}

#elif defined(__HIP__)

SELVAGE_DEVICE_FN void sync_warp(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}

/* A release by one thread after it must cover the stores of the other waves. But a release waits for its own wave's
   stores only, so that every wave waits first. */
SELVAGE_DEVICE_FN void sync_block(void)
{
#if defined(__GFX9__)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_waitcnt(0);
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

SELVAGE_DEVICE_FN uint64_t sum_warp(uint64_t value)
{
    const int lane = static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));

    for (int step = SELVAGE_DEVICE_WARP / 2; step > 0; step /= 2) {
        const int from = (lane ^ step) << 2;
        const uint32_t low = static_cast<uint32_t>(
            __builtin_amdgcn_ds_bpermute(from, static_cast<int>(static_cast<uint32_t>(value))));
        const uint32_t high = static_cast<uint32_t>(
            __builtin_amdgcn_ds_bpermute(from, static_cast<int>(static_cast<uint32_t>(value >> 32))));
        value += static_cast<uint64_t>(high) << 32 | low;
    }
    return value;
}

SELVAGE_DEVICE_FN bool any_warp(bool condition)
{
    const bool any = __builtin_amdgcn_ballot_w64(condition) != 0;
    sync_warp();
    return any;
}

#endif

} // namespace selvage_detail

#if defined(SELVAGE_DEVICE_SOFT)

/** @brief All threads of the coop come together; what each has stored is seen by the others. */
SELVAGE_DEVICE_FN void selvage_coop_sync(const selvage_coop_t &coop)
{
    unsigned turns = 0;

    if (coop.lanes == 1)
        return;
    const uint32_t turn = selvage_detail::load_acquire_u32(&coop.shared->turn);
    if (selvage_detail::add_u32(&coop.shared->arrived, 1) == coop.lanes - 1) {
        __atomic_store_n(&coop.shared->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&coop.shared->turn, turn + 1, __ATOMIC_RELEASE); /* partner: the acquire below */
        return;
    }
    while (selvage_detail::load_acquire_u32(&coop.shared->turn) == turn)
        selvage_detail::back_off(&turns);
}

/** @brief The sum over the threads of the coop, for each of them. Comes together as sync does. */
SELVAGE_DEVICE_FN uint64_t selvage_coop_sum(const selvage_coop_t &coop, uint64_t value)
{
    uint64_t sum = 0;

    if (coop.lanes == 1)
        return value;
    coop.shared->value[coop.lane] = value;
    selvage_coop_sync(coop);
    for (unsigned l = 0; l < coop.lanes; l++)
        sum += coop.shared->value[l];
    selvage_coop_sync(coop);
    return sum;
}

/** @brief Whether it is so for any thread of the coop. Comes together as sync does. */
SELVAGE_DEVICE_FN bool selvage_coop_any(const selvage_coop_t &coop, bool condition)
{
    return selvage_coop_sum(coop, condition) != 0;
}

#else

SELVAGE_DEVICE_FN void selvage_coop_sync(const selvage_coop_t &coop)
{
    if (coop.warp)
        selvage_detail::sync_warp();
    else
        selvage_detail::sync_block();
}

SELVAGE_DEVICE_FN uint64_t selvage_coop_sum(const selvage_coop_t &coop, uint64_t value)
{
    SELVAGE_DEVICE_SHARED uint64_t partial[1024 / SELVAGE_DEVICE_WARP];
    const unsigned lane = coop.lane % SELVAGE_DEVICE_WARP;

    value = selvage_detail::sum_warp(value);
    if (coop.warp) {
        selvage_detail::sync_warp();
        return value;
    }
    if (lane == 0)
        partial[coop.lane / SELVAGE_DEVICE_WARP] = value;
    selvage_detail::sync_block();
    value = selvage_detail::sum_warp(lane < coop.lanes / SELVAGE_DEVICE_WARP ? partial[lane] : 0);
    selvage_detail::sync_block(); /* so that the next sum may write */
    return value;
}

SELVAGE_DEVICE_FN bool selvage_coop_any(const selvage_coop_t &coop, bool condition)
{
    if (coop.warp)
        return selvage_detail::any_warp(condition);
#if defined(__CUDACC__)
    return __syncthreads_or(condition) != 0;
#else
    return selvage_coop_sum(coop, condition) != 0;
#endif
}

#endif

#endif
#endif
