/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer under all device code: one source for NVIDIA (nvcc), AMD (clang, without any HIP header) and soft (g++).
 *
 * A kernel is a function of its argument struct and a sv_dev_block_t. SV_KERNEL makes the entry point of each device.
 * SV_KERNEL_WIDE makes that of a kernel whose lanes need many registers, so that fewer of its blocks fit on a device at
 * once. Blocks have 1 to SV_KERNEL_LANES_MAX threads, on soft always one. So between two sv_dev_block_sync() the
 * threads of a block must terminate when run one after another. `SV_DEV_SHARED type name;` in a function is one for the
 * block. Loops run from tid in steps of nthreads. Memory that others can see is touched only through the functions
 * here, and every release has its partner named where it is used.
 *
 * Freestanding: stdint.h and the argument structs only; no exceptions, RTTI, static initialisers or device globals.
 */
#ifndef SV_KERNEL_DEVICE_H
#define SV_KERNEL_DEVICE_H

#include <stdint.h>

#include "kernels/kernel_args.h"

#if defined(__CUDACC__)
#define SV_DEV_CUDA 1
#define SV_DEV_GPU 1
#define SV_DEV_FN static SV_DEV_METHOD
#define SV_DEV_METHOD __device__ __forceinline__ /* of an object */
#define SV_DEV_COLD static __device__ __noinline__ /* rarely called: out of the way of what is in a hurry */
#define SV_DEV_WAVE 32
#define SV_DEV_SHARED __shared__
#define SV_DEV_UNROLL _Pragma("unroll")
#define SV_DEV_ROLLED _Pragma("unroll 1")
#elif defined(__HIP__)
#define SV_DEV_HIP 1
#define SV_DEV_GPU 1
#define SV_DEV_FN static SV_DEV_METHOD
#define SV_DEV_METHOD inline __attribute__((device, always_inline))
#define SV_DEV_COLD SV_DEV_FN /* a call there needs a stack */
#define SV_DEV_WAVE 64
#define SV_DEV_SHARED static __attribute__((shared))
#define SV_DEV_UNROLL _Pragma("unroll")
#define SV_DEV_ROLLED _Pragma("unroll 1")
#else
#define SV_DEV_SOFT 1
#define SV_DEV_FN static SV_DEV_METHOD
#define SV_DEV_METHOD inline
#define SV_DEV_COLD SV_DEV_FN
#define SV_DEV_WAVE 1
#define SV_DEV_SHARED
#define SV_DEV_UNROLL
#define SV_DEV_ROLLED
#endif

#include "kernels/kernel_words.h"

/* Where the calling thread is. A launch is one-dimensional. */
typedef struct sv_dev_block {
    unsigned tid, nthreads;
    unsigned block, nblocks;
} sv_dev_block_t;

/* Two words that move in one access where the address is a multiple of 16. */
typedef struct __attribute__((aligned(16))) sv_dev_pair {
    uint64_t word[2];
} sv_dev_pair_t;

/* Up to four words that are released together: everything before comes before each of them. NULL: no word. */
enum { SV_DEV_WORDS = 4 };
typedef struct sv_dev_words {
    uint64_t *word[SV_DEV_WORDS];
    uint64_t value[SV_DEV_WORDS];
} sv_dev_words_t;

#if defined(SV_DEV_CUDA)

/* Few enough registers for 1024 lanes on each multiprocessor at once, which launch_blocks of the device counts on. */
#define SV_KERNEL(name, arg_type, body)                                                                        \
    extern "C" __global__ void __launch_bounds__(SV_KERNEL_LANES_MAX, 1024 / SV_KERNEL_LANES_MAX)              \
        name(const __grid_constant__ arg_type arg)                                                             \
    {                                                                                                          \
        body(arg, sv_dev_block_here());                                                                        \
    }

/* One block on a multiprocessor: 128 registers for each of its lanes. */
#define SV_KERNEL_WIDE(name, arg_type, body)                                                                   \
    extern "C" __global__ void __launch_bounds__(SV_KERNEL_LANES_MAX, 1)                                      \
        name(const __grid_constant__ arg_type arg)                                                             \
    {                                                                                                          \
        body(arg, sv_dev_block_here());                                                                        \
    }

SV_DEV_FN sv_dev_block_t sv_dev_block_here(void)
{
    return sv_dev_block_t{threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
}

SV_DEV_FN void sv_dev_store_release_system_u64(uint64_t *word, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

SV_DEV_FN void sv_dev_store_release_system_u64_all(const sv_dev_words_t &words)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    SV_DEV_UNROLL
    for (unsigned w = 0; w < SV_DEV_WORDS; w++)
        if (words.word[w])
            asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(words.word[w]), "l"(words.value[w]) : "memory");
}

SV_DEV_FN uint64_t sv_dev_load_acquire_system_u64(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN uint64_t sv_dev_load_u64(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN void sv_dev_atomic_add_u64(uint64_t *word, uint64_t value)
{
    asm volatile("red.relaxed.gpu.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

SV_DEV_FN void sv_dev_store_release_u32(uint32_t *word, uint32_t value)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

SV_DEV_FN uint32_t sv_dev_load_acquire_u32(const uint32_t *word)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel(uint32_t *word, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel_system(uint32_t *word, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

SV_DEV_FN void sv_dev_block_sync(void)
{
    __syncthreads();
}

SV_DEV_FN void sv_dev_eight_sync(sv_dev_block_t at)
{
    __syncwarp(0xffu << (at.tid & 24));
}

SV_DEV_FN void sv_dev_wave_sync(void)
{
    __syncwarp();
}

SV_DEV_FN bool sv_dev_eight_all(sv_dev_block_t at, bool condition)
{
    return __all_sync(0xffu << (at.tid & 24), condition);
}

SV_DEV_FN void sv_dev_launch_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

SV_DEV_FN void sv_dev_launch_release(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

SV_DEV_FN uint64_t sv_dev_clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

SV_DEV_FN void sv_dev_backoff(unsigned *turns)
{
    *turns += 1;
    __nanosleep(*turns < 64 ? 32 : 256);
}

#elif defined(SV_DEV_HIP)

#define SV_KERNEL(name, arg_type, body)                                                             \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, SV_KERNEL_LANES_MAX))) void name(arg_type arg) \
    {                                                                                               \
        body(arg, sv_dev_block_here());                                                             \
    }

#define SV_KERNEL_WIDE(name, arg_type, body)                                                        \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, SV_KERNEL_LANES_MAX))) void name(arg_type arg) \
    {                                                                                               \
        body(arg, sv_dev_block_here());                                                             \
    }

SV_DEV_FN sv_dev_block_t sv_dev_block_here(void)
{
    unsigned nthreads = __builtin_amdgcn_workgroup_size_x();
    return sv_dev_block_t{__builtin_amdgcn_workitem_id_x(), nthreads, __builtin_amdgcn_workgroup_id_x(),
                          __builtin_amdgcn_grid_size_x() / nthreads};
}

SV_DEV_FN void sv_dev_store_release_system_u64(uint64_t *word, uint64_t value)
{
    sv_dev_release_system();
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_store_release_system_u64_all(const sv_dev_words_t &words)
{
    sv_dev_release_system();
    SV_DEV_UNROLL
    for (unsigned w = 0; w < SV_DEV_WORDS; w++)
        if (words.word[w])
            __hip_atomic_store(words.word[w], words.value[w], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN uint64_t sv_dev_load_acquire_system_u64(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN uint64_t sv_dev_load_u64(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SV_DEV_FN void sv_dev_atomic_add_u64(uint64_t *word, uint64_t value)
{
    (void)__hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SV_DEV_FN void sv_dev_store_release_u32(uint32_t *word, uint32_t value)
{
    sv_dev_release_agent();
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SV_DEV_FN uint32_t sv_dev_load_acquire_u32(const uint32_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel(uint32_t *word, uint32_t value)
{
    sv_dev_release_system();
    const uint32_t before = __hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
    return before;
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel_system(uint32_t *word, uint32_t value)
{
    return sv_dev_atomic_add_u32_acq_rel(word, value);
}

/*
 * A release by one thread after the barrier must cover the stores of the other waves of its block. But a release waits
 * for its own wave's stores only, and one of workgroup scope need not wait for memory at all. So every wave waits
 * first.
 */
SV_DEV_FN void sv_dev_block_sync(void)
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

/* The lanes of a wave come together wherever their ways do. */
SV_DEV_FN void sv_dev_eight_sync(sv_dev_block_t)
{
    __builtin_amdgcn_wave_barrier();
}

SV_DEV_FN void sv_dev_wave_sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}

SV_DEV_FN bool sv_dev_eight_all(sv_dev_block_t at, bool condition)
{
    return (__builtin_amdgcn_ballot_w64(!condition) >> (at.tid & 56) & 0xff) == 0;
}

/* On AMD a kernel starts when those before it on the stream are complete. */
SV_DEV_FN void sv_dev_launch_wait(void)
{
}

SV_DEV_FN void sv_dev_launch_release(void)
{
}

/* The constant clock of AMD GPUs runs at 100 MHz. */
SV_DEV_FN uint64_t sv_dev_clock_ns(void)
{
    return __builtin_amdgcn_s_memrealtime() * 10;
}

SV_DEV_FN void sv_dev_backoff(unsigned *turns)
{
    *turns += 1;
    __builtin_amdgcn_s_sleep(1);
}

#else /* soft */

extern "C" uint64_t sv_kernel_clock_ns(void);
extern "C" void sv_kernel_backoff(unsigned *turns);

#define SV_KERNEL(name, arg_type, body)                                                    \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks);        \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks)         \
    {                                                                                      \
        body(*static_cast<const arg_type *>(arg), sv_dev_block_t{0, 1, block, nblocks});   \
    }
#define SV_KERNEL_WIDE SV_KERNEL

SV_DEV_FN void sv_dev_store_release_system_u64(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SV_DEV_FN void sv_dev_store_release_system_u64_all(const sv_dev_words_t &words)
{
    for (unsigned w = 0; w < SV_DEV_WORDS; w++)
        if (words.word[w])
            __atomic_store_n(words.word[w], words.value[w], __ATOMIC_RELEASE);
}

SV_DEV_FN uint64_t sv_dev_load_acquire_system_u64(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

SV_DEV_FN uint64_t sv_dev_load_u64(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_atomic_add_u64(uint64_t *word, uint64_t value)
{
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_store_release_u32(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SV_DEV_FN uint32_t sv_dev_load_acquire_u32(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel(uint32_t *word, uint32_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

SV_DEV_FN uint32_t sv_dev_atomic_add_u32_acq_rel_system(uint32_t *word, uint32_t value)
{
    return sv_dev_atomic_add_u32_acq_rel(word, value);
}

SV_DEV_FN void sv_dev_block_sync(void)
{
}

SV_DEV_FN void sv_dev_eight_sync(sv_dev_block_t)
{
}

SV_DEV_FN void sv_dev_wave_sync(void)
{
}

SV_DEV_FN bool sv_dev_eight_all(sv_dev_block_t, bool condition)
{
    return condition;
}

SV_DEV_FN void sv_dev_launch_wait(void)
{
}

SV_DEV_FN void sv_dev_launch_release(void)
{
}

SV_DEV_FN uint64_t sv_dev_clock_ns(void)
{
    return sv_kernel_clock_ns();
}

SV_DEV_FN void sv_dev_backoff(unsigned *turns)
{
    sv_kernel_backoff(turns);
}

#endif

/*
 * What is where, for all three:
 *   sv_dev_store_release_system_u64, sv_dev_load_acquire_system_u64   words that hosts and other devices poll or write
 *   sv_dev_store_release_system_u64_all                               several of them after one fence
 *   sv_dev_store_release_u32, sv_dev_load_acquire_u32                 from one block of a device to the others
 *   sv_dev_load_u64, sv_dev_atomic_add_u64                            relaxed, among the blocks of one device
 *   sv_dev_atomic_add_u32_acq_rel     arrival of a block; gives the value before. Where blocks store into host memory
 *                                     or another device, the last one releases what all have stored, after a fence at
 *                                     system scope; on AMD each releases its own that far
 *   sv_dev_atomic_add_u32_acq_rel_system  the same where the last one may have no such fence
 *   sv_dev_store_line, sv_dev_load_line   16 bytes of device or pinned memory, aligned to 16, whose two words are each
 *                                     written and read whole, past what a multiprocessor caches, for hosts and other
 *                                     devices; the two may come apart. They order nothing, not for the compiler
 *                                     either: what says that a word has come lies in the word
 *   sv_dev_store_word_system, sv_dev_load_word_system, sv_dev_store_u32_system, sv_dev_load_u32_system
 *                                     one word the same way; in order for the compiler
 *   sv_dev_store_ahead, sv_dev_load_ahead   one word that orders nothing on a GPU: what it seems to say is proved by
 *                                     other means, or comes after accesses that are complete. On soft they release and
 *                                     acquire, as threads of a process may not touch ordinary memory unordered
 *   sv_dev_store_release_system_u32, sv_dev_load_acquire_system_u32   as those of 64 bits
 *   sv_dev_fence_system               between such words and plain accesses: release before a store, acquire after
 *                                     a load
 *   sv_dev_exchange_u32               among the blocks of one device, acquires and releases; gives the value before
 *   sv_dev_exchange_block_u32         among the lanes of a block, in memory that they share; orders nothing
 *   sv_dev_block_sync                 all threads of the block; all their memory accesses before it come first
 *   sv_dev_eight_sync                 lanes 8 k to 8 k + 7 of the block, all of them: their next stores are issued
 *                                     together, as one of 128 bytes if they lie so
 *   sv_dev_wave_sync                  the SV_DEV_WAVE lanes of a wave, all of them: what they have stored in memory of
 *                                     the block comes before
 *   sv_dev_eight_all                  whether it is so for all of them, which come together
 *   sv_dev_launch_wait     a kernel whose launch overlaps the one before it on its stream (early_start in kernels.h)
 *                          touches nothing that others change, but words that it polls, before this returns: then
 *                          everything before it on the stream is complete and visible
 *   sv_dev_launch_release  from here on, in all blocks, the next such kernel may be brought in
 */

#if defined(SV_DEV_GPU)

/* Eight bytes at any address, little-endian, in the largest pieces that the address allows. Reads no byte beside them:
   aligned words around them could reach past the end of an allocation. */
SV_DEV_FN uint64_t sv_dev_load_u64_any(const uint8_t *ptr)
{
    uintptr_t address = reinterpret_cast<uintptr_t>(ptr);
    uint64_t value = 0;

    if ((address & 7) == 0)
        return *reinterpret_cast<const uint64_t *>(ptr);
    if ((address & 3) == 0)
        return reinterpret_cast<const uint32_t *>(ptr)[0] |
               static_cast<uint64_t>(reinterpret_cast<const uint32_t *>(ptr)[1]) << 32;
    SV_DEV_UNROLL
    for (unsigned b = 0; b < 8; b++)
        value |= static_cast<uint64_t>(ptr[b]) << 8 * b;
    return value;
}

/* Stores eight bytes at any address, in the largest pieces that the address allows. */
SV_DEV_FN void sv_dev_store_u64_any(uint8_t *ptr, uint64_t value)
{
    uintptr_t address = reinterpret_cast<uintptr_t>(ptr);

    if ((address & 7) == 0) {
        *reinterpret_cast<uint64_t *>(ptr) = value;
    } else if ((address & 3) == 0) {
        reinterpret_cast<uint32_t *>(ptr)[0] = static_cast<uint32_t>(value);
        reinterpret_cast<uint32_t *>(ptr)[1] = static_cast<uint32_t>(value >> 32);
    } else {
        SV_DEV_UNROLL
        for (unsigned b = 0; b < 8; b++)
            ptr[b] = static_cast<uint8_t>(value >> 8 * b);
    }
}

#else

SV_DEV_FN uint64_t sv_dev_load_u64_any(const uint8_t *ptr)
{
    uint64_t value;
    __builtin_memcpy(&value, ptr, sizeof value);
    return value;
}

SV_DEV_FN void sv_dev_store_u64_any(uint8_t *ptr, uint64_t value)
{
    __builtin_memcpy(ptr, &value, sizeof value);
}

#endif

#endif
