/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code as it must not be: one kernel keeps an array in scratch memory, one more values alive than it may have
 * registers, and one takes more shared memory than its part. scripts/check-device-code has to find all; none is ever
 * run.
 */
#include <stdint.h>

#if defined(__CUDACC__)
#define ENTRY extern "C" __global__ void
#define FEW_REGISTERS __launch_bounds__(1024, 2)
#define LANE threadIdx.x
#define SHARED __shared__
#else
#define ENTRY extern "C" __attribute__((global)) void
#define FEW_REGISTERS __attribute__((amdgpu_flat_work_group_size(1, 256), amdgpu_num_vgpr(24)))
#define LANE __builtin_amdgcn_workitem_id_x()
#define SHARED static __attribute__((shared))
#endif

ENTRY spill_array(uint64_t *data, const unsigned *order)
{
    uint64_t kept[64];

    for (unsigned i = 0; i < 64; i++)
        kept[order[i] & 63] = data[i + LANE];
    for (unsigned i = 0; i < 64; i++)
        data[i + LANE] = kept[order[i + 64] & 63];
}

ENTRY FEW_REGISTERS spill_registers(uint64_t *data)
{
    uint64_t kept[48];

#pragma unroll
    for (unsigned i = 0; i < 48; i++)
        kept[i] = *static_cast<volatile uint64_t *>(data + i + LANE);
#pragma unroll
    for (unsigned i = 48; i-- > 0;)
        *static_cast<volatile uint64_t *>(data + i + LANE) = kept[i] * kept[47 - i] + kept[(i + 7) % 48];
}

ENTRY much_shared(uint64_t *data, const unsigned *order)
{
    SHARED uint64_t kept[2048];

    kept[order[LANE] & 2047] = data[LANE];
    data[LANE] = kept[order[LANE + 1] & 2047];
}
