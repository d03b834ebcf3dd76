/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for the test of the interpreter: arithmetic of many lanes, and, one for each value of `what`, mistakes that
 * must end the run. Compiled for AMD GPUs by the test.
 */
#define SV_FN static inline __attribute__((device, always_inline))
#include "amdgpu/arithmetic.h"

#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 512)))

KERNEL void arithmetic(const uint64_t *in, uint64_t *out, unsigned count)
{
    const unsigned lane = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() +
                          __builtin_amdgcn_workitem_id_x();
    uint64_t result[ARITHMETIC_RESULTS] = {};
    if (lane >= count)
        return;
    arithmetic_all(in[2 * lane], in[2 * lane + 1], result);
#pragma unroll
    for (unsigned r = 0; r < ARITHMETIC_RESULTS; r++)
        out[r * count + lane] = result[r];
}

KERNEL void mistake(uint32_t *word, unsigned what)
{
    static __attribute__((shared)) uint32_t shared[16];
    uint32_t *odd = (uint32_t *)((char *)word + 2);
    switch (what) {
    case 0: asm volatile("v_sin_f32 v1, v0" ::: "v1"); break;
    case 1: __builtin_trap(); break;
    case 2: word[1 << 28] = 1; break;
    case 3: *(volatile uint32_t *)&shared[what << 20] = 1; break;
    case 4: __hip_atomic_fetch_add(odd, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); break;
    case 5: asm volatile("s_mov_b64 s[0:1], 0\ns_setpc_b64 s[0:1]" ::: "s0", "s1"); break;
    case 6: { /* nothing waits for the load, of which the compiler knows nothing */
        uint32_t loaded;
        asm volatile("global_load_dword %0, %1, off" : "=v"(loaded) : "v"(word + 1) : "memory");
        *word = loaded;
        break;
    }
    case 7: {
        uint32_t loaded;
        asm volatile("global_load_dword %0, %1, off\ns_waitcnt vmcnt(0)" : "=v"(loaded) : "v"(word + 1) : "memory");
        *word = loaded;
        break;
    }
    }
}
