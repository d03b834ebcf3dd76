/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Part of kernel_device.h, which includes it: lines and words that hosts and other devices write while a kernel reads
 * them. A vector access of PTX is as many accesses of one element each, in no order. So the words of a line are whole
 * on NVIDIA too, and no more than that.
 */
#ifndef SV_KERNEL_WORDS_H
#define SV_KERNEL_WORDS_H

#if defined(SV_DEV_CUDA)

SV_DEV_FN void sv_dev_store_line(void *line, uint64_t lo, uint64_t hi)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(line)), "l"(lo),
                 "l"(hi));
}

SV_DEV_FN void sv_dev_load_line(const void *line, uint64_t *lo, uint64_t *hi)
{
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*lo), "=l"(*hi)
                 : "l"(__cvta_generic_to_global(line)));
}

SV_DEV_FN void sv_dev_store_word_system(uint64_t *word, uint64_t value)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

SV_DEV_FN uint64_t sv_dev_load_word_system(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN void sv_dev_store_ahead(uint64_t *word, uint64_t value)
{
    sv_dev_store_word_system(word, value);
}

SV_DEV_FN uint64_t sv_dev_load_ahead(const uint64_t *word)
{
    return sv_dev_load_word_system(word);
}

SV_DEV_FN void sv_dev_store_u32_system(uint32_t *word, uint32_t value)
{
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

SV_DEV_FN uint32_t sv_dev_load_u32_system(const uint32_t *word)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN void sv_dev_store_release_system_u32(uint32_t *word, uint32_t value)
{
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

SV_DEV_FN uint32_t sv_dev_load_acquire_system_u32(const uint32_t *word)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

SV_DEV_FN void sv_dev_fence_system(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

SV_DEV_FN uint32_t sv_dev_exchange_u32(uint32_t *word, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

SV_DEV_FN uint32_t sv_dev_exchange_block_u32(uint32_t *word, uint32_t value)
{
    return atomicExch_block(word, value);
}

#elif defined(SV_DEV_HIP)

/*
 * What a release publishes may be the stores of other waves. They are complete, but in L2, and are written back from
 * there, which takes time as stores do. Compilers (LLVM 19 is one) drop the wait after that where the wave has no
 * access of its own in flight, so that the flag overtakes the data. Hence the wait is written out, and no store or
 * addition here releases by itself.
 */
SV_DEV_FN void sv_dev_wait_written_back(void)
{
#if defined(__GFX9__)
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
}

SV_DEV_FN void sv_dev_release_system(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    sv_dev_wait_written_back();
}

SV_DEV_FN void sv_dev_release_agent(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    sv_dev_wait_written_back();
}

SV_DEV_FN void sv_dev_store_line(void *line, uint64_t lo, uint64_t hi)
{
    uint64_t *half = static_cast<uint64_t *>(line);
    __hip_atomic_store(&half[0], lo, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(&half[1], hi, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_load_line(const void *line, uint64_t *lo, uint64_t *hi)
{
    const uint64_t *half = static_cast<const uint64_t *>(line);
    *lo = __hip_atomic_load(&half[0], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    *hi = __hip_atomic_load(&half[1], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_store_word_system(uint64_t *word, uint64_t value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN uint64_t sv_dev_load_word_system(const uint64_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_store_ahead(uint64_t *word, uint64_t value)
{
    sv_dev_store_word_system(word, value);
}

SV_DEV_FN uint64_t sv_dev_load_ahead(const uint64_t *word)
{
    return sv_dev_load_word_system(word);
}

SV_DEV_FN void sv_dev_store_u32_system(uint32_t *word, uint32_t value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN uint32_t sv_dev_load_u32_system(const uint32_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_store_release_system_u32(uint32_t *word, uint32_t value)
{
    sv_dev_release_system();
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN uint32_t sv_dev_load_acquire_system_u32(const uint32_t *word)
{
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

SV_DEV_FN void sv_dev_fence_system(void)
{
    sv_dev_release_system();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}

SV_DEV_FN uint32_t sv_dev_exchange_u32(uint32_t *word, uint32_t value)
{
    sv_dev_release_agent();
    const uint32_t before = __hip_atomic_exchange(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return before;
}

SV_DEV_FN uint32_t sv_dev_exchange_block_u32(uint32_t *word, uint32_t value)
{
    return __hip_atomic_exchange(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

#else /* soft */

#if defined(SV_SANITIZES_THREAD)
static uint32_t sv_dev_fences; /* the thread sanitizer does not know fences, but accesses to one word it does */
#endif

SV_DEV_FN void sv_dev_store_line(void *line, uint64_t lo, uint64_t hi)
{
    uint64_t *half = static_cast<uint64_t *>(line);
    __atomic_store_n(&half[0], lo, __ATOMIC_RELAXED);
    __atomic_store_n(&half[1], hi, __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_load_line(const void *line, uint64_t *lo, uint64_t *hi)
{
    const uint64_t *half = static_cast<const uint64_t *>(line);
    *lo = __atomic_load_n(&half[0], __ATOMIC_RELAXED);
    *hi = __atomic_load_n(&half[1], __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_store_word_system(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

SV_DEV_FN uint64_t sv_dev_load_word_system(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_store_ahead(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SV_DEV_FN uint64_t sv_dev_load_ahead(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Releases: the start of a kernel comes after all of the one before it on a GPU, but is nothing here. */
SV_DEV_FN void sv_dev_store_u32_system(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SV_DEV_FN uint32_t sv_dev_load_u32_system(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

SV_DEV_FN void sv_dev_store_release_system_u32(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

SV_DEV_FN uint32_t sv_dev_load_acquire_system_u32(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

SV_DEV_FN void sv_dev_fence_system(void)
{
#if defined(SV_SANITIZES_THREAD)
    (void)__atomic_fetch_add(&sv_dev_fences, 1, __ATOMIC_ACQ_REL);
#else
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

SV_DEV_FN uint32_t sv_dev_exchange_u32(uint32_t *word, uint32_t value)
{
    return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
}

SV_DEV_FN uint32_t sv_dev_exchange_block_u32(uint32_t *word, uint32_t value)
{
    return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}

#endif

#endif
