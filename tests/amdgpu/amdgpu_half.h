/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats of 16 bits, as floats of 32 bits and back, to the nearest and to even, denormal ones among them. */
#ifndef SELVAGE_TESTS_AMDGPU_HALF_H
#define SELVAGE_TESTS_AMDGPU_HALF_H

#include <math.h>

#include "amdgpu/amdgpu_lanes.h"

static inline float amdgpu_half_widen(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31)
        return amdgpu_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0)
        return sign ? -ldexpf((float)fraction, -24) : ldexpf((float)fraction, -24);
    return amdgpu_float(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Of a wider number, so that one rounding is all: doubles hold every product and sum that is asked for here. */
static inline uint16_t amdgpu_half_round(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (value != value)
        return (uint16_t)(sign | 0x7e00);
    const double size = fabs(value);
    if (size >= 65520) /* halfway from the largest to the next */
        return (uint16_t)(sign | 0x7c00);
    if (size < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)nearbyint(ldexp(size, 24)));
    int exponent;
    const double fraction = frexp(size, &exponent); /* from one half on */
    const unsigned rounded = (unsigned)nearbyint(ldexp(fraction, 11)); /* 1024 to 2048 */
    return (uint16_t)(sign | (((unsigned)(exponent + 13) << 10) + rounded));
}

#endif
