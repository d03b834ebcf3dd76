/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector instructions on integers and pairs of 64 bits. */
#include "amdgpu/amdgpu_lanes.h"

namespace {

/* How far is a source of 32 bits, which comes first. */
template <class F> void shift(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space;
    amdgpu_lanes64_t b;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space);
    amdgpu_fetch64(wave, inst.operand[2], b);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        b[l] = f(b[l], a[l] & 63);
    amdgpu_keep64(wave, inst.operand[0].index, b);
}

void run_lshlrev(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    shift(wave, inst, [](uint64_t b, uint32_t a) -> uint64_t { return b << a; });
}

void run_lshrrev(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    shift(wave, inst, [](uint64_t b, uint32_t a) -> uint64_t { return b >> a; });
}

void run_ashrrev(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    shift(wave, inst, [](uint64_t b, uint32_t a) -> uint64_t { return (uint64_t)((int64_t)b >> a); });
}

void run_mov(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_unary64(wave, inst, [](uint64_t a) { return a; });
}

void run_lshl_add(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t a, c;
    amdgpu_lanes32_t space;
    amdgpu_fetch64(wave, inst.operand[1], a);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space);
    amdgpu_fetch64(wave, inst.operand[3], c);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = (a[l] << (b[l] & 7)) + c[l];
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

/* A product of 64 bits and a sum; operand 1 takes the carries. */
void run_mad_u64_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space[2];
    amdgpu_lanes64_t c;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[2], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[3], space[1]);
    amdgpu_fetch64(wave, inst.operand[4], c);
    uint64_t out = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const uint64_t product = (uint64_t)a[l] * b[l], sum = product + c[l];
        out |= (uint64_t)(sum < product) << l;
        c[l] = sum;
    }
    amdgpu_keep64(wave, inst.operand[0].index, c);
    amdgpu_set_pair(wave, inst.operand[1].index, out & amdgpu_exec(wave));
}

/* The lower result is the first source's half that op_sel names, the upper one the second source's. */
void run_pk_mov(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t a, b;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = (uint32_t)(a[l] >> (inst.op_sel & 1 ? 32 : 0)) | b[l] >> (inst.op_sel & 2 ? 32 : 0) << 32;
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

} // namespace

const amdgpu_row_t amdgpu_wide_rows[] = {
    {"v_mov_b64", run_mov},
    {"v_pk_mov_b32", run_pk_mov},
    {"v_lshlrev_b64", run_lshlrev},
    {"v_lshrrev_b64", run_lshrrev},
    {"v_ashrrev_i64", run_ashrrev},
    {"v_lshl_add_u64", run_lshl_add},
    {"v_mad_u64_u32", run_mad_u64_u32},
    {nullptr, nullptr},
};
