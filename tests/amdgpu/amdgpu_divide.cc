/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The three instructions that divisions of floats are made of, beside reciprocals and multiplications: scaling, so that
 * no step of them is out of range, the last step, which takes the scale back, and what is put in the place of results
 * that no step can give.
 *
 * AMD's text for gfx90a and gfx942 is not followed where no quotient would be right with it, though divisions there
 * are correctly rounded. It scales a result back by 2^32 whatever was done to the operands; here it is 2^64 or 2^-64
 * (2^128 or 2^-128), by the quotient's exponent. It scales a denominator up whose reciprocal is too small already. And
 * it does not say what becomes of steps that were out of range, which are infinite quotients.
 */
#include <math.h>

#include "amdgpu/amdgpu_lanes.h"

namespace {

/* What is different for floats of 32 and of 64 bits. */
template <class T> struct limits;
template <> struct limits<float> {
    enum { FAR = 96, SCALE = 64, TINY = 23, BIAS = 127, UNDER = -150 };
};
template <> struct limits<double> {
    enum { FAR = 768, SCALE = 128, TINY = 53, BIAS = 1023, UNDER = -1075 };
};

/* The exponent as it is written, 0 for denormal numbers. */
int exponent(float value)
{
    return (int)(amdgpu_bits(value) >> 23 & 255);
}

int exponent(double value)
{
    return (int)(amdgpu_bits(value) >> 52 & 2047);
}

float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}

double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

template <class T> bool is_denormal(T value)
{
    return fpclassify(value) == FP_SUBNORMAL;
}

/* The value is the denominator or the numerator. The flag says that the last step has to scale the result. */
template <class T> T scale(T value, T denominator, T numerator, bool *flag_out)
{
    typedef limits<T> is;
    const bool own_denominator = value == denominator, own_numerator = value == numerator;
    *flag_out = false;
    if (numerator == 0 || denominator == 0)
        return (T)NAN;
    if (exponent(numerator) - exponent(denominator) >= is::FAR) {
        *flag_out = true;
        return own_denominator ? (T)ldexp(value, is::SCALE) : value;
    }
    if (is_denormal(denominator))
        return (T)ldexp(value, is::SCALE);
    const bool tiny_reciprocal = is_denormal((T)1 / denominator), tiny_result = is_denormal(numerator / denominator);
    if (tiny_reciprocal && tiny_result) {
        *flag_out = true;
        return own_denominator ? (T)ldexp(value, -is::SCALE) : value;
    }
    if (tiny_reciprocal)
        return (T)ldexp(value, -is::SCALE);
    if (tiny_result) {
        *flag_out = true;
        return own_numerator ? (T)ldexp(value, is::SCALE) : value;
    }
    return exponent(numerator) <= is::TINY ? (T)ldexp(value, is::SCALE) : value;
}

template <class T> T fixup(T quotient, T denominator, T numerator)
{
    typedef limits<T> is;
    const bool negative = signbit(denominator) != signbit(numerator);
    T size = (T)fabs(quotient);
    if (isnan(numerator))
        return numerator;
    if (isnan(denominator))
        return denominator;
    if ((denominator == 0 && numerator == 0) || (isinf(denominator) && isinf(numerator)))
        return (T)-NAN;
    if (denominator == 0 || isinf(numerator))
        size = (T)INFINITY;
    else if (isinf(denominator) || numerator == 0)
        size = 0;
    else if (exponent(numerator) - exponent(denominator) < is::UNDER)
        size = 0; /* rounded to the nearest */
    else if (isnan(quotient)) /* of steps that were out of range */
        size = (T)INFINITY;
    return negative ? -size : size;
}

/* The last step: a sum, from which the scale is taken back before it is rounded, once. */
template <class T> T add_unscaled(T a, T b, T c, bool flag)
{
    typedef limits<T> is;
    const __float128 sum = (__float128)a * b + c;
    if (!flag || isnan(a) || isnan(b) || isnan(c) || isinf(a) || isinf(b) || isinf(c))
        return fused(a, b, c);
    const __float128 scale = ldexp(1, exponent(c) > is::BIAS ? is::SCALE : -is::SCALE);
    return (T)(sum * scale);
}

/* Operand 1 takes the flags. */
void run_scale_f32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space[3], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[2], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[3], space[1]);
    const uint32_t *c = amdgpu_fetch(wave, inst.operand[4], space[2]);
    uint64_t flags = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        bool flag;
        result[l] = amdgpu_bits(scale(amdgpu_float(a[l]), amdgpu_float(b[l]), amdgpu_float(c[l]), &flag));
        flags |= (uint64_t)flag << l;
    }
    amdgpu_give(wave, inst, result);
    amdgpu_set_pair(wave, inst.operand[1].index, flags & amdgpu_exec(wave));
}

void run_scale_f64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t a, b, c;
    amdgpu_fetch64(wave, inst.operand[2], a);
    amdgpu_fetch64(wave, inst.operand[3], b);
    amdgpu_fetch64(wave, inst.operand[4], c);
    uint64_t flags = 0;
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        bool flag;
        a[l] = amdgpu_bits(scale(amdgpu_double(a[l]), amdgpu_double(b[l]), amdgpu_double(c[l]), &flag));
        flags |= (uint64_t)flag << l;
    }
    amdgpu_keep64(wave, inst.operand[0].index, a);
    amdgpu_set_pair(wave, inst.operand[1].index, flags & amdgpu_exec(wave));
}

/* The flags are in VCC. */
void run_fmas_f32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes32_t space[3], result;
    const uint32_t *a = amdgpu_fetch(wave, inst.operand[1], space[0]);
    const uint32_t *b = amdgpu_fetch(wave, inst.operand[2], space[1]);
    const uint32_t *c = amdgpu_fetch(wave, inst.operand[3], space[2]);
    const uint64_t flags = amdgpu_pair(wave, AMDGPU_VCC);
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        result[l] =
            amdgpu_bits(add_unscaled(amdgpu_float(a[l]), amdgpu_float(b[l]), amdgpu_float(c[l]), flags >> l & 1));
    }
    amdgpu_give(wave, inst, result);
}

void run_fmas_f64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_lanes64_t a, b, c;
    amdgpu_fetch64(wave, inst.operand[1], a);
    amdgpu_fetch64(wave, inst.operand[2], b);
    amdgpu_fetch64(wave, inst.operand[3], c);
    const uint64_t flags = amdgpu_pair(wave, AMDGPU_VCC);
    for (unsigned l = 0; l < AMDGPU_LANES; l++) {
        a[l] = amdgpu_bits(add_unscaled(amdgpu_double(a[l]), amdgpu_double(b[l]), amdgpu_double(c[l]), flags >> l & 1));
    }
    amdgpu_keep64(wave, inst.operand[0].index, a);
}

void run_fixup_f32(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_ternary(wave, inst, [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t {
        return amdgpu_bits(fixup(amdgpu_float(a), amdgpu_float(b), amdgpu_float(c)));
    });
}

void run_fixup_f64(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_ternary64(wave, inst, [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
        return amdgpu_bits(fixup(amdgpu_double(a), amdgpu_double(b), amdgpu_double(c)));
    });
}

} // namespace

const amdgpu_row_t amdgpu_divide_rows[] = {
    {"v_div_scale_f32", run_scale_f32},
    {"v_div_scale_f64", run_scale_f64},
    {"v_div_fmas_f32", run_fmas_f32},
    {"v_div_fmas_f64", run_fmas_f64},
    {"v_div_fixup_f32", run_fixup_f32},
    {"v_div_fixup_f64", run_fixup_f64},
    {nullptr, nullptr},
};
