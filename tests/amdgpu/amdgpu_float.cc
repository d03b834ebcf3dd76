/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector instructions on floats. Kernels run with rounding to the nearest and denormal numbers (the loader refuses
 * others), which is what the host does. Multiply-add without fusing, of gfx90a, has no denormal numbers. Reciprocals
 * are correctly rounded here; on a GPU they may be off in the last bit, and the code that uses them bears it.
 */
#include <math.h>

#include "amdgpu/amdgpu_half.h"
#include "amdgpu/amdgpu_lanes.h"

namespace {

float flush(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

float multiply_add(float a, float b, float c)
{
    const float product = flush(flush(a) * flush(b));
    return flush(product + flush(c));
}

/* Towards 0; what does not fit becomes the nearest that does, and what is no number 0. */
uint32_t to_unsigned(float value)
{
    if (!(value > 0))
        return 0;
    return value >= 4294967296.0f ? ~0u : (uint32_t)value;
}

/* The destination is the third source. */
template <class F> void accumulate(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes32_t space[2], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    const uint32_t *c = amdgpu_vector(wave, inst.operand[0].index);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = amdgpu_bits(f(amdgpu_float(a[l]), amdgpu_float(b[l]), amdgpu_float(c[l])));
    amdgpu_give(wave, inst, result);
}

void run_fmac_f64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t a, b, c;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    amdgpu_fetch64(wave, inst.operand[0], c);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        a[l] = amdgpu_bits(fma(amdgpu_double(a[l]), amdgpu_double(b[l]), amdgpu_double(c[l])));
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

/* One of the two floats of a source. */
float packed_source(uint64_t bits, unsigned source, unsigned upper, unsigned negated)
{
    const float value = amdgpu_float((uint32_t)(bits >> (upper >> source & 1 ? 32 : 0)));
    return negated >> source & 1 ? -value : value;
}

/* Two floats in a pair of registers; op_sel and op_sel_hi say which half of a source each result takes. */
template <class F> void packed(amdgpu_wave &wave, const amdgpu_inst &inst, F f)
{
    amdgpu_lanes64_t a, b;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const float low = f(packed_source(a[l], 0, inst.op_sel, inst.neg_lo),
                            packed_source(b[l], 1, inst.op_sel, inst.neg_lo));
        const float high = f(packed_source(a[l], 0, inst.op_sel_hi, inst.neg_hi),
                             packed_source(b[l], 1, inst.op_sel_hi, inst.neg_hi));
        a[l] = amdgpu_bits(low) | (uint64_t)amdgpu_bits(high) << 32;
    }
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

void run_pk_add_f32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    packed(wave, inst, [](float a, float b) { return a + b; });
}

void run_pk_mul_f32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    packed(wave, inst, [](float a, float b) { return a * b; });
}

/* A source is a float, or, where op_sel_hi has its bit, one of 16 bits: the half that op_sel names. */
double mix_source(const amdgpu_inst &inst, unsigned source, uint32_t bits)
{
    if (!(inst.op_sel_hi >> source & 1))
        return amdgpu_float(bits);
    return amdgpu_half_widen((uint16_t)(bits >> (inst.op_sel >> source & 1 ? 16 : 0)));
}

/* Fused; what is above the 16 bits of the result stays. */
void run_fma_mixlo_f16(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space[3], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    const uint32_t *c = amdgpu_fetch(wave, inst.operand[3], space[2]);
    const uint32_t *before = amdgpu_vector(wave, inst.operand[0].index);
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        const float sum = fmaf((float)mix_source(inst, 0, a[l]), (float)mix_source(inst, 1, b[l]),
                               (float)mix_source(inst, 2, c[l]));
        result[l] = (before[l] & 0xffff0000) | amdgpu_half_round(sum);
    }
    amdgpu_give(wave, inst, result);
}

void run_cvt_f64_u32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space;
    amdgpu_lanes64_t result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space);
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        result[l] = amdgpu_bits((double)a[l]);
    amdgpu_keep64(wave, inst.operand[0].index, result);
}

} // namespace

#define RUN [](amdgpu_wave & wave, const amdgpu_inst &inst)
#define ONE(expression)                                                                              \
    RUN {                                                                                            \
        amdgpu_unary(wave, inst, [](uint32_t bits) -> uint32_t {                                     \
            const float a = amdgpu_float(bits);                                                      \
            (void)a;                                                                                 \
            return expression;                                                                       \
        });                                                                                          \
    }
#define TWO(expression)                                                                              \
    RUN {                                                                                            \
        amdgpu_binary(wave, inst, [](uint32_t x, uint32_t y) -> uint32_t {                           \
            const float a = amdgpu_float(x), b = amdgpu_float(y);                                    \
            return amdgpu_bits(expression);                                                          \
        });                                                                                          \
    }
#define THREE(expression)                                                                            \
    RUN {                                                                                            \
        amdgpu_ternary(wave, inst, [](uint32_t x, uint32_t y, uint32_t z) -> uint32_t {              \
            const float a = amdgpu_float(x), b = amdgpu_float(y), c = amdgpu_float(z);               \
            return amdgpu_bits(expression);                                                          \
        });                                                                                          \
    }
#define ACCUMULATE(expression)                                                                       \
    RUN {                                                                                            \
        accumulate(wave, inst, [](float a, float b, float c) { return expression; });                \
    }
#define ONE64(expression)                                                                            \
    RUN {                                                                                            \
        amdgpu_unary64(wave, inst, [](uint64_t x) -> uint64_t {                                      \
            const double a = amdgpu_double(x);                                                       \
            return amdgpu_bits(expression);                                                          \
        });                                                                                          \
    }
#define TWO64(expression)                                                                            \
    RUN {                                                                                            \
        amdgpu_binary64(wave, inst, [](uint64_t x, uint64_t y) -> uint64_t {                         \
            const double a = amdgpu_double(x), b = amdgpu_double(y);                                 \
            return amdgpu_bits(expression);                                                          \
        });                                                                                          \
    }
#define THREE64(expression)                                                                          \
    RUN {                                                                                            \
        amdgpu_ternary64(wave, inst, [](uint64_t x, uint64_t y, uint64_t z) -> uint64_t {            \
            const double a = amdgpu_double(x), b = amdgpu_double(y), c = amdgpu_double(z);           \
            return amdgpu_bits(expression);                                                          \
        });                                                                                          \
    }

const amdgpu_row_t amdgpu_float_rows[] = {
    {"v_add_f32", TWO(a + b)},
    {"v_mul_f32", TWO(a * b)},
    {"v_fma_f32", THREE(fmaf(a, b, c))},
    {"v_fmamk_f32", THREE(fmaf(a, b, c))},
    {"v_fmac_f32", ACCUMULATE(fmaf(a, b, c))},
    {"v_mad_f32", THREE(multiply_add(a, b, c))},
    {"v_madmk_f32", THREE(multiply_add(a, b, c))},
    {"v_mac_f32", ACCUMULATE(multiply_add(a, b, c))},
    {"v_rcp_f32", ONE(amdgpu_bits(1.0f / a))},
    {"v_rcp_iflag_f32", ONE(amdgpu_bits(1.0f / a))},
    {"v_trunc_f32", ONE(amdgpu_bits(truncf(a)))},
    {"v_cvt_u32_f32", ONE(to_unsigned(a))},
    {"v_cvt_f32_u32", ONE(amdgpu_bits((float)bits))},
    {"v_cvt_f32_ubyte0", ONE(amdgpu_bits((float)(bits & 0xff)))},
    {"v_cvt_f16_f32", ONE(amdgpu_half_round(a))},
    {"v_cvt_f32_f16", ONE(amdgpu_bits(amdgpu_half_widen((uint16_t)bits)))},
    {"v_fma_mixlo_f16", run_fma_mixlo_f16},
    {"v_pk_add_f32", run_pk_add_f32},
    {"v_pk_mul_f32", run_pk_mul_f32},
    {"v_add_f64", TWO64(a + b)},
    {"v_mul_f64", TWO64(a * b)},
    {"v_fma_f64", THREE64(fma(a, b, c))},
    {"v_fmac_f64", run_fmac_f64},
    {"v_rcp_f64", ONE64(1.0 / a)},
    {"v_cvt_f64_u32", run_cvt_f64_u32},
    {nullptr, nullptr},
};
