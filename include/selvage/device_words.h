/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_words.h
 * @brief Part of device_api.h, which includes it: memory that other devices and hosts see, for each compiler.
 *
 * Nothing here is for applications. On AMD a release publishes stores of other waves, which are in L2; compilers leave
 * the wait for their write-back away where the wave itself has stored nothing. So it is written out.
 */
#ifndef SELVAGE_DEVICE_WORDS_H
#define SELVAGE_DEVICE_WORDS_H

#ifdef __cplusplus
#include <stdint.h>

#if defined(__CUDACC__)
/** Marks a function of an application's that kernels call. */
#define SELVAGE_DEVICE_FN static SELVAGE_DEVICE_METHOD
#define SELVAGE_DEVICE_METHOD __device__ __forceinline__ /* of an object */
#define SELVAGE_DEVICE_COLD static __device__ __noinline__
#define SELVAGE_DEVICE_SHARED __shared__
#define SELVAGE_DEVICE_UNROLL _Pragma("unroll")
#define SELVAGE_DEVICE_WARP 32
#elif defined(__HIP__)
#define SELVAGE_DEVICE_FN static SELVAGE_DEVICE_METHOD
#define SELVAGE_DEVICE_METHOD inline __attribute__((device, always_inline))
#define SELVAGE_DEVICE_COLD SELVAGE_DEVICE_FN
#define SELVAGE_DEVICE_SHARED static __attribute__((shared))
#define SELVAGE_DEVICE_UNROLL _Pragma("unroll")
#define SELVAGE_DEVICE_WARP 64
#else
#define SELVAGE_DEVICE_SOFT 1
#define SELVAGE_DEVICE_FN static SELVAGE_DEVICE_METHOD
#define SELVAGE_DEVICE_METHOD inline
#define SELVAGE_DEVICE_COLD static __attribute__((noinline, unused))
#define SELVAGE_DEVICE_UNROLL
#define SELVAGE_DEVICE_WARP 1
#include <sched.h>
#include <time.h>
#endif

namespace selvage_detail {

/* Two words that move at once where the address is a multiple of 16. */
struct alignas(16) pair {
    uint64_t word[2];
};

/*
 * store_system after release_system: a release of everything before, at system scope. load_acquire_system is its
 * partner. store_system alone, and load_system, order nothing on a GPU; load_line_system loads two words so. The
 * others are among the blocks of one device.
 */
#if defined(__CUDACC__)

SELVAGE_DEVICE_FN void release_system(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

SELVAGE_DEVICE_FN void store_system(uint64_t *word, uint64_t value)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

SELVAGE_DEVICE_FN uint64_t load_acquire_system(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SELVAGE_DEVICE_FN uint64_t load_system(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SELVAGE_DEVICE_FN pair load_line_system(const uint64_t *line)
{
    pair value;
    asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];" : "=l"(value.word[0]), "=l"(value.word[1])
                 : "l"(line) : "memory");
    return value;
}

SELVAGE_DEVICE_FN uint64_t load(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SELVAGE_DEVICE_FN void add(uint64_t *word, uint64_t value)
{
    asm volatile("red.relaxed.gpu.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

SELVAGE_DEVICE_FN uint32_t load_u32(const uint32_t *word)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

SELVAGE_DEVICE_FN uint32_t load_acquire_u32(const uint32_t *word)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

SELVAGE_DEVICE_FN uint32_t add_u32(uint32_t *word, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

SELVAGE_DEVICE_FN uint32_t exchange_u32(uint32_t *word, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

SELVAGE_DEVICE_FN uint64_t clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

SELVAGE_DEVICE_FN void back_off(unsigned *turns)
{
    *turns += 1;
    __nanosleep(*turns < 64 ? 32 : 256);
}

#elif defined(__HIP__)

SELVAGE_DEVICE_FN void wait_written_back(void)
{
#if defined(__GFX9__)
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
}

SELVAGE_DEVICE_FN void release_system(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    wait_written_back();
}

SELVAGE_DEVICE_FN void store_system(uint64_t *word, uint64_t value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SELVAGE_DEVICE_FN uint64_t load_acquire_system(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

SELVAGE_DEVICE_FN uint64_t load_system(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SELVAGE_DEVICE_FN pair load_line_system(const uint64_t *line)
{
    return pair{{load_system(line), load_system(line + 1)}};
}

SELVAGE_DEVICE_FN uint64_t load(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SELVAGE_DEVICE_FN void add(uint64_t *word, uint64_t value)
{
    (void)__hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SELVAGE_DEVICE_FN uint32_t load_u32(const uint32_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

SELVAGE_DEVICE_FN uint32_t load_acquire_u32(const uint32_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
}

/* At system scope: a GPU may have several L2 caches, and a write-back is of one of them. */
SELVAGE_DEVICE_FN uint32_t add_u32(uint32_t *word, uint32_t value)
{
    release_system();
    const uint32_t before = __hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
    return before;
}

SELVAGE_DEVICE_FN uint32_t exchange_u32(uint32_t *word, uint32_t value)
{
    release_system();
    const uint32_t before = __hip_atomic_exchange(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return before;
}

/* The constant clock of AMD GPUs runs at 100 MHz. */
SELVAGE_DEVICE_FN uint64_t clock_ns(void)
{
    return __builtin_amdgcn_s_memrealtime() * 10;
}

SELVAGE_DEVICE_FN void back_off(unsigned *turns)
{
    *turns += 1;
    __builtin_amdgcn_s_sleep(1);
}

#else /* the software device */

/* Every store after it releases by itself: the thread sanitizer does not know fences. */
SELVAGE_DEVICE_FN void release_system(void)
{
}

SELVAGE_DEVICE_FN void store_system(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SELVAGE_DEVICE_FN uint64_t load_acquire_system(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Acquires: threads of a process may not touch ordinary memory unordered. */
SELVAGE_DEVICE_FN uint64_t load_system(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

SELVAGE_DEVICE_FN pair load_line_system(const uint64_t *line)
{
    return pair{{load_system(line), load_system(line + 1)}};
}

SELVAGE_DEVICE_FN uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

SELVAGE_DEVICE_FN void add(uint64_t *word, uint64_t value)
{
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

SELVAGE_DEVICE_FN uint32_t load_u32(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

SELVAGE_DEVICE_FN uint32_t load_acquire_u32(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

SELVAGE_DEVICE_FN uint32_t add_u32(uint32_t *word, uint32_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

SELVAGE_DEVICE_FN uint32_t exchange_u32(uint32_t *word, uint32_t value)
{
    return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
}

SELVAGE_DEVICE_FN uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

/* Threads are more than cores, as a rule; and who waits for long looks less and less often. */
SELVAGE_DEVICE_FN void back_off(unsigned *turns)
{
    const unsigned yields = 64, sleeps = 16, doublings = 5;
    struct timespec pause = {0, 50000};

    if (++*turns <= yields) {
        (void)sched_yield();
        return;
    }
    const unsigned doubled = (*turns - yields) / sleeps;
    pause.tv_nsec <<= doubled < doublings ? doubled : doublings;
    (void)nanosleep(&pause, nullptr);
}

#endif

/* Eight bytes at any address. Reads no byte beside them. */
SELVAGE_DEVICE_FN uint64_t load_any(const uint8_t *from)
{
    uint64_t value = 0;

    if ((reinterpret_cast<uintptr_t>(from) & 7) == 0)
        return *reinterpret_cast<const uint64_t *>(from);
    SELVAGE_DEVICE_UNROLL
    for (unsigned b = 0; b < 8; b++)
        value |= static_cast<uint64_t>(from[b]) << 8 * b;
    return value;
}

SELVAGE_DEVICE_FN void store_any(uint8_t *to, uint64_t value)
{
    if ((reinterpret_cast<uintptr_t>(to) & 7) == 0) {
        *reinterpret_cast<uint64_t *>(to) = value;
        return;
    }
    for (unsigned b = 0; b < 8; b++)
        to[b] = static_cast<uint8_t>(value >> 8 * b);
}

/* --- the digest (doc/protocol.md) --------------------------------------------------------------------------------- */

SELVAGE_DEVICE_FN uint64_t mix(uint64_t x)
{
    const uint64_t factor = 0xd6e8feb86659fd93u;

    x = (x ^ x >> 32) * factor;
    x = (x ^ x >> 32) * factor;
    return x ^ x >> 32;
}

/* What a word of a packet adds; at is its number there. */
SELVAGE_DEVICE_FN uint64_t term(uint64_t word, uint64_t key, uint64_t at)
{
    return mix(word ^ (key + at * 0x9e3779b97f4a7c15u));
}

SELVAGE_DEVICE_FN uint64_t finish(uint64_t key, uint64_t sum)
{
    const uint64_t digest = mix(key ^ sum);
    return digest ? digest : 1;
}

/* A word that tells of an epoch: see doc/protocol.md. Whoever waits for it takes that of a later epoch, too. */
SELVAGE_DEVICE_FN uint64_t word_of(uint64_t epoch, uint32_t count)
{
    return (epoch & 0xffffffffu) << 32 | count;
}

SELVAGE_DEVICE_FN bool word_tells(uint64_t word, uint64_t epoch)
{
    const int32_t ahead = static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - static_cast<uint32_t>(epoch));
    return ahead > 0 || (ahead == 0 && (word & 0xffffff) != 0);
}

} // namespace selvage_detail

#endif
#endif
