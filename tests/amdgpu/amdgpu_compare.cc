/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector comparisons. A bit of the destination says what holds in a lane, 0 for lanes that EXEC has not. Of floats, eq,
 * lt, le, gt, ge and o are false if one is not a number; neq, nlt, nle, ngt, nge and u are their opposites.
 */
#include "amdgpu/amdgpu_half.h"
#include "amdgpu/amdgpu_lanes.h"

namespace {

void give_mask(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t mask)
{
    amdgpu_set_pair(wave, inst.operand[0].index, mask & amdgpu_exec(wave));
}

template <class T> T narrow(uint32_t bits)
{
    return (T)bits;
}

template <> float narrow<float>(uint32_t bits)
{
    return amdgpu_float(bits);
}

template <class T, class F> void compare32(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[2];
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    uint64_t mask = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        mask |= (uint64_t)f(narrow<T>(a[l]), narrow<T>(b[l])) << l;
    give_mask(wave, inst, mask);
}

template <class F> void compare_half(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[2];
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    uint64_t mask = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        mask |= (uint64_t)f(amdgpu_half_widen((uint16_t)a[l]), amdgpu_half_widen((uint16_t)b[l])) << l;
    give_mask(wave, inst, mask);
}

template <class T> T wide(uint64_t bits)
{
    return (T)bits;
}

template <> double wide<double>(uint64_t bits)
{
    return amdgpu_double(bits);
}

template <class T, class F> void compare64(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t a, b;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    uint64_t mask = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        mask |= (uint64_t)f(wide<T>(a[l]), wide<T>(b[l])) << l;
    give_mask(wave, inst, mask);
}

} // namespace

#define RUN [](amdgpu_wave & wave, const amdgpu_inst &inst)
#define ROW(name, run, type, expression)                                                  \
    {                                                                                     \
        name, RUN {                                                                       \
            run(wave, inst, [](type a, type b) -> bool { return expression; });           \
        }                                                                                 \
    }
#define INTEGERS(suffix, run, type)                                                       \
    ROW("v_cmp_lt_" suffix, run, type, a < b), ROW("v_cmp_eq_" suffix, run, type, a == b), \
        ROW("v_cmp_le_" suffix, run, type, a <= b), ROW("v_cmp_gt_" suffix, run, type, a > b), \
        ROW("v_cmp_ne_" suffix, run, type, a != b), ROW("v_cmp_ge_" suffix, run, type, a >= b)
#define FLOATS(suffix, run, type)                                                         \
    ROW("v_cmp_lt_" suffix, run, type, a < b), ROW("v_cmp_eq_" suffix, run, type, a == b), \
        ROW("v_cmp_le_" suffix, run, type, a <= b), ROW("v_cmp_gt_" suffix, run, type, a > b), \
        ROW("v_cmp_ge_" suffix, run, type, a >= b), ROW("v_cmp_neq_" suffix, run, type, !(a == b)), \
        ROW("v_cmp_nlt_" suffix, run, type, !(a < b)), ROW("v_cmp_nle_" suffix, run, type, !(a <= b)), \
        ROW("v_cmp_ngt_" suffix, run, type, !(a > b)), ROW("v_cmp_nge_" suffix, run, type, !(a >= b)), \
        ROW("v_cmp_o_" suffix, run, type, a == a && b == b), ROW("v_cmp_u_" suffix, run, type, !(a == a && b == b))

const amdgpu_row_t amdgpu_compare_rows[] = {
    INTEGERS("u16", compare32<uint16_t>, uint16_t),
    INTEGERS("i16", compare32<int16_t>, int16_t),
    INTEGERS("u32", compare32<uint32_t>, uint32_t),
    INTEGERS("i32", compare32<int32_t>, int32_t),
    INTEGERS("u64", compare64<uint64_t>, uint64_t),
    INTEGERS("i64", compare64<int64_t>, int64_t),
    FLOATS("f16", compare_half, float),
    FLOATS("f32", compare32<float>, float),
    FLOATS("f64", compare64<double>, double),
    {nullptr, nullptr},
};
