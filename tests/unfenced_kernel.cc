/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code for AMD as it must not be: a release whose flag does not wait for the write-back of the data, and an
 * acquire that invalidates caches before the flag has come. Beside them both as they should be.
 * scripts/check-device-code has to find the two; none is ever run.
 */
#include <stdint.h>

#if defined(__gfx90a__)
#define WRITE_BACK "buffer_wbl2\n"
#define INVALIDATE "buffer_wbinvl1_vol\n"
#else
#define WRITE_BACK "buffer_wbl2 sc0 sc1\n"
#define INVALIDATE "buffer_inv sc0 sc1\n"
#endif
#define WAIT "s_waitcnt vmcnt(0)\n"
#define ENTRY extern "C" __attribute__((global)) void

ENTRY release_hasty(uint64_t *flag)
{
    asm volatile(WRITE_BACK ::: "memory");
    __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

ENTRY release_patient(uint64_t *flag)
{
    asm volatile(WRITE_BACK WAIT ::: "memory");
    __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

ENTRY acquire_hasty(uint64_t *flag, uint64_t *data)
{
    const uint64_t seen = __hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    asm volatile(INVALIDATE ::: "memory");
    data[1] = data[0] + seen;
}

ENTRY acquire_patient(uint64_t *flag, uint64_t *data)
{
    const uint64_t seen = __hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
    data[1] = data[0] + seen;
}
