/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers are computed without bounds and wrapped, floats of 8 and 16 bits as real numbers, with each sum rounded to
 * 24 bits of mantissa by the compiler's conversion and the result by rounding a multiple of its last place.
 */
#include "coll_numbers.h"

#include <math.h>
#include <selvage/collective.h>
#include <stdbool.h>
#include <string.h>

typedef __int128 integer_t;

/* Digits after the point, the exponent of the least normal number, and what is larger than all finite ones. */
typedef struct format {
    int bits, mantissa, least;
    double largest;
    uint64_t nan;
} format_t;

static format_t format_of(unsigned type)
{
    switch (type) {
    case SELVAGE_FLOAT16:
        return (format_t){16, 10, -14, 65504, 0x7e00};
    case SELVAGE_BFLOAT16:
        return (format_t){16, 7, -126, 0x1.fep127, 0x7fc0};
    case SELVAGE_FLOAT8_E4M3:
        return (format_t){8, 3, -6, 448, 0x7f};
    default:
        return (format_t){8, 2, -14, 57344, 0x7f};
    }
}

unsigned coll_numbers_bytes(unsigned type)
{
    static const unsigned bytes[] = {0, 1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
    return bytes[type];
}

static bool is_integer(unsigned type)
{
    return type <= SELVAGE_UINT64;
}

static integer_t wrap(unsigned type, integer_t value)
{
    const integer_t range = (integer_t)1 << 8 * coll_numbers_bytes(type);
    const bool is_signed = type == SELVAGE_INT8 || type == SELVAGE_INT32 || type == SELVAGE_INT64;

    value %= range;
    if (value < 0)
        value += range;
    return is_signed && value >= range / 2 ? value - range : value;
}

static integer_t combine_integers(unsigned op, integer_t a, integer_t b)
{
    switch (op) {
    case SELVAGE_OP_SUM:
        return a + b;
    case SELVAGE_OP_PROD:
        return (integer_t)((unsigned __int128)a * (unsigned __int128)b);
    case SELVAGE_OP_MIN:
        return a < b ? a : b;
    default:
        return a < b ? b : a;
    }
}

static uint64_t reduce_integers(const coll_case_t *c, const uint64_t *bits)
{
    integer_t result = 0;

    for (unsigned s = 0; s < c->nsrc; s++) {
        integer_t value = wrap(c->type, bits[s]);
        if (c->premul >> s & 1)
            value = wrap(c->type, (integer_t)((unsigned __int128)value * c->scalar[s]));
        result = s == 0 ? value : wrap(c->type, combine_integers(c->op, result, value));
    }
    if (c->divisor > 1)
        result /= (int)c->divisor;
    return (uint64_t)result & (~UINT64_C(0) >> (64 - 8 * coll_numbers_bytes(c->type)));
}

static double value_of(unsigned type, uint64_t bits)
{
    if (type == SELVAGE_FLOAT64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (type == SELVAGE_FLOAT32) {
        const uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        return value;
    }
    const format_t f = format_of(type);
    const int exponents = 1 << (f.bits - 1 - f.mantissa), size = (int)(bits & ((1u << (f.bits - 1)) - 1));
    const int exponent = size >> f.mantissa, digits = size & ((1 << f.mantissa) - 1);
    double value = exponent == 0 ? ldexp(digits, f.least - f.mantissa)
                                 : ldexp(digits + (1 << f.mantissa), exponent - 1 + f.least - f.mantissa);

    if (type == SELVAGE_FLOAT8_E4M3)
        value = size == 0x7f ? (double)NAN : value;
    else if (exponent == exponents - 1)
        value = digits == 0 ? (double)INFINITY : (double)NAN;
    return bits >> (f.bits - 1) & 1 ? -value : value;
}

static uint64_t small_bits(unsigned type, double value)
{
    const format_t f = format_of(type);
    const uint64_t sign = (uint64_t)(signbit(value) != 0) << (f.bits - 1);
    double size = fabs(value);
    int exponent = f.least;

    if (isnan(value))
        return f.nan;
    if (isfinite(size) && size != 0)
        exponent = ilogb(size) > f.least ? ilogb(size) : f.least;
    size = nearbyint(ldexp(size, f.mantissa - exponent));
    if (ldexp(size, exponent - f.mantissa) > f.largest) {
        if (f.bits == 16)
            return sign | (f.nan & ~(UINT64_C(1) << (f.mantissa - 1)));
        size = ldexp(f.largest, f.mantissa - (exponent = ilogb(f.largest)));
    }
    /* Digits beyond the mantissa carry into the exponent, as they must. */
    return sign | ((uint64_t)size + ((uint64_t)(exponent - f.least) << f.mantissa));
}

static uint64_t bits_of(unsigned type, double value)
{
    const float narrow = (float)value;
    uint64_t bits = 0;

    if (type != SELVAGE_FLOAT64 && type != SELVAGE_FLOAT32)
        return small_bits(type, value);
    if (isnan(value))
        return type == SELVAGE_FLOAT64 ? UINT64_C(0x7ff8) << 48 : 0x7fc00000;
    if (type == SELVAGE_FLOAT64)
        memcpy(&bits, &value, sizeof value);
    else
        memcpy(&bits, &narrow, sizeof narrow);
    return bits;
}

static double combine_floats(unsigned op, double a, double b)
{
    if (op == SELVAGE_OP_SUM)
        return a + b;
    if (op == SELVAGE_OP_PROD)
        return a * b;
    if (isnan(a) || isnan(b))
        return (double)NAN;
    if (a == b)
        return (op == SELVAGE_OP_MIN) == (signbit(a) != 0) ? a : b;
    return (op == SELVAGE_OP_MIN) == (a < b) ? a : b;
}

/* A double holds sums and products of floats so exactly that rounding it once more is as good as rounding once. */
static double rounded(unsigned type, double value)
{
    return type == SELVAGE_FLOAT64 ? value : (double)(float)value;
}

static uint64_t reduce_floats(const coll_case_t *c, const uint64_t *bits)
{
    double result = 0;

    for (unsigned s = 0; s < c->nsrc; s++) {
        double value = value_of(c->type, bits[s]);
        if (c->premul >> s & 1) {
            value = rounded(c->type, value * value_of(c->type, c->scalar[s]));
            value = value_of(c->type, bits_of(c->type, value));
        }
        result = s == 0 ? value : rounded(c->type, combine_floats(c->op, result, value));
    }
    if (c->divisor > 1)
        result = rounded(c->type, result / c->divisor);
    return bits_of(c->type, result);
}

uint64_t coll_numbers(const coll_case_t *c, const uint64_t *bits)
{
    return is_integer(c->type) ? reduce_integers(c, bits) : reduce_floats(c, bits);
}
