/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as elements of any type: exact where the type has them, else rounded to nearest even. */
#include "tools/bench_coll/bench_coll_encode.h"

#include <math.h>
#include <string.h>

/* Sign, exponent and mantissa of a small float; the values here are far below its largest. */
static uint64_t encode_small(double value, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t sign = signbit(value) ? 1ULL << (exponent_bits + mantissa_bits) : 0;
    int exponent;
    if (value == 0)
        return sign;
    (void)frexp(fabs(value), &exponent); /* value is below 2^exponent */
    const int unit = (exponent - 1 < 1 - bias ? 1 - bias : exponent - 1) - mantissa_bits;
    const uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(value), -unit));
    if (steps < 1ULL << mantissa_bits)
        return sign | steps; /* subnormal */
    return sign | (((uint64_t)(unit + mantissa_bits + bias - 1) << mantissa_bits) + steps); /* a carry counts it up */
}

static uint64_t encode_float(selvage_type_t type, double value)
{
    const float narrow = (float)value;
    uint64_t bits = 0;
    switch (type) {
    case SELVAGE_FLOAT16:
        return encode_small(value, 5, 10);
    case SELVAGE_BFLOAT16:
        return encode_small(value, 8, 7);
    case SELVAGE_FLOAT8_E4M3:
        return encode_small(value, 4, 3);
    case SELVAGE_FLOAT8_E5M2:
        return encode_small(value, 5, 2);
    case SELVAGE_FLOAT32:
        memcpy(&bits, &narrow, sizeof narrow);
        return bits;
    default:
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
}

bool bench_type_is_float(selvage_type_t type)
{
    return type >= SELVAGE_FLOAT16;
}

uint64_t bench_encode(selvage_type_t type, double value)
{
    if (bench_type_is_float(type))
        return encode_float(type, value);
    return (uint64_t)(int64_t)value;
}

double bench_quotient(selvage_type_t type, double sum, int divisor)
{
    if (!bench_type_is_float(type))
        return trunc(sum / divisor);
    return type == SELVAGE_FLOAT64 ? sum / divisor : (double)((float)sum / (float)divisor);
}
