/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See coll_reference.h. A float of any type is a double here, which holds all of them; what an accumulator of 32 bits
 * would hold is rounded to float after each operation. A double has more than twice the digits of a float and two, so
 * rounding twice gives what rounding once does.
 */
#include "coll_reference.h"

#include <math.h>
#include <string.h>

typedef struct format {
    uint8_t bytes, is_float, is_signed;
    uint8_t exponent_bits, mantissa_bits;
} format_t;

static const format_t formats[] = {
    [SELVAGE_INT8] = {1, 0, 1, 0, 0},          [SELVAGE_UINT8] = {1, 0, 0, 0, 0},
    [SELVAGE_INT32] = {4, 0, 1, 0, 0},         [SELVAGE_UINT32] = {4, 0, 0, 0, 0},
    [SELVAGE_INT64] = {8, 0, 1, 0, 0},         [SELVAGE_UINT64] = {8, 0, 0, 0, 0},
    [SELVAGE_FLOAT16] = {2, 1, 1, 5, 10},      [SELVAGE_BFLOAT16] = {2, 1, 1, 8, 7},
    [SELVAGE_FLOAT32] = {4, 1, 1, 8, 23},      [SELVAGE_FLOAT64] = {8, 1, 1, 11, 52},
    [SELVAGE_FLOAT8_E4M3] = {1, 1, 1, 4, 3},   [SELVAGE_FLOAT8_E5M2] = {1, 1, 1, 5, 2},
};

size_t coll_type_bytes(selvage_type_t type)
{
    return formats[type].bytes;
}

bool coll_type_is_float(selvage_type_t type)
{
    return formats[type].is_float;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t coll_random(uint64_t *state, uint64_t bound)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return bound ? mix(*state) % bound : 0;
}

static uint64_t load_bits(selvage_type_t type, const void *element)
{
    uint64_t bits = 0;
    memcpy(&bits, element, formats[type].bytes); /* little-endian, as all of Selvage */
    return bits;
}

static void store_bits(selvage_type_t type, uint64_t bits, void *element)
{
    memcpy(element, &bits, formats[type].bytes);
}

/* The integer that these bits are, as 64 bits: the sign is extended. */
static uint64_t widen(selvage_type_t type, uint64_t bits)
{
    int unused = 64 - 8 * formats[type].bytes;
    bits <<= unused;
    return formats[type].is_signed ? (uint64_t)((int64_t)bits >> unused) : bits >> unused;
}

static int bias_of(const format_t *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

/* A float of at most 16 bits. The one without infinities uses its largest exponent for numbers, too. */
static double decode(selvage_type_t type, uint64_t bits)
{
    const format_t *f = &formats[type];
    uint64_t mantissa = bits & ((UINT64_C(1) << f->mantissa_bits) - 1);
    uint64_t top = (UINT64_C(1) << f->exponent_bits) - 1, exponent = bits >> f->mantissa_bits & top;
    double sign = bits >> (8 * f->bytes - 1) & 1 ? -1.0 : 1.0;
    if (type == SELVAGE_FLOAT8_E4M3 && exponent == top && mantissa == 7)
        return NAN;
    if (type != SELVAGE_FLOAT8_E4M3 && exponent == top)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)mantissa, 1 - bias_of(f) - f->mantissa_bits);
    mantissa |= UINT64_C(1) << f->mantissa_bits;
    return sign * ldexp((double)mantissa, (int)exponent - bias_of(f) - f->mantissa_bits);
}

static uint64_t quiet_nan(selvage_type_t type)
{
    const format_t *f = &formats[type];
    if (f->bytes == 1)
        return 0x7f;
    return ((UINT64_C(2) << f->exponent_bits) - 1) << (f->mantissa_bits - 1);
}

static uint64_t infinity_of(selvage_type_t type)
{
    return ((UINT64_C(1) << formats[type].exponent_bits) - 1) << formats[type].mantissa_bits;
}

static uint64_t largest_of(selvage_type_t type)
{
    return type == SELVAGE_FLOAT8_E4M3 ? 0x7e : infinity_of(type) - 1;
}

/* Round to nearest, ties to even. 8-bit floats end at the largest number, the others in infinity. */
static uint64_t encode(selvage_type_t type, double value)
{
    const format_t *f = &formats[type];
    uint64_t sign = signbit(value) ? UINT64_C(1) << (8 * f->bytes - 1) : 0;
    uint64_t limit = f->bytes == 1 ? largest_of(type) : infinity_of(type), bits;
    int exponent;
    if (isnan(value))
        return quiet_nan(type);
    if (isinf(value))
        return sign | limit;
    if (value == 0)
        return sign;
    (void)frexp(value, &exponent);
    exponent--; /* 2^exponent <= |value| */
    if (exponent < 1 - bias_of(f))
        exponent = 1 - bias_of(f);
    if (exponent > bias_of(f) + 1)
        return sign | limit;
    bits = (uint64_t)rint(ldexp(fabs(value), f->mantissa_bits - exponent)) +
           ((uint64_t)(exponent + bias_of(f) - 1) << f->mantissa_bits);
    return sign | (bits > limit ? limit : bits);
}

static double load_float(selvage_type_t type, const void *element)
{
    float single;
    double value;
    if (type == SELVAGE_FLOAT64) {
        memcpy(&value, element, sizeof value);
        return value;
    }
    if (type == SELVAGE_FLOAT32) {
        memcpy(&single, element, sizeof single);
        return single;
    }
    return decode(type, load_bits(type, element));
}

static void store_float(selvage_type_t type, double value, void *element)
{
    float single = (float)value;
    if (isnan(value))
        store_bits(type, quiet_nan(type), element);
    else if (type == SELVAGE_FLOAT64)
        memcpy(element, &value, sizeof value);
    else if (type == SELVAGE_FLOAT32)
        memcpy(element, &single, sizeof single);
    else
        store_bits(type, encode(type, value), element);
}

double coll_number(selvage_type_t type, const void *element)
{
    if (formats[type].is_float)
        return load_float(type, element);
    uint64_t bits = widen(type, load_bits(type, element));
    return formats[type].is_signed ? (double)(int64_t)bits : (double)bits;
}

/* What the accumulator holds of a value. */
static double kept(selvage_type_t type, double value)
{
    return type == SELVAGE_FLOAT64 ? value : (double)(float)value;
}

static uint64_t hash(const coll_terms_t *terms, int rank, uint64_t index)
{
    return mix(mix(terms->seed * 31 + (uint64_t)rank + 1) + index * UINT64_C(0x9e3779b97f4a7c15));
}

/* Exact in any order: of the ranks, those with even numbers double products, those with odd numbers halve them. */
static double small_float(const coll_terms_t *terms, int rank, uint64_t random)
{
    static const double factor[2][4] = {{1, -1, 2, -2}, {1, -1, 0.5, -0.5}};
    if (terms->op == SELVAGE_OP_PROD)
        return factor[rank & 1][random & 3];
    return formats[terms->type].bytes == 1 ? (double)(random % 3) - 1 : (double)(random % 17) - 8;
}

/* All digits random; products neither grow nor vanish. */
static double ordered_float(const coll_terms_t *terms, int rank, uint64_t random)
{
    double value = 1 + ldexp((double)(random >> 12), -52);
    int range = formats[terms->type].bytes == 1 ? 6 : formats[terms->type].bytes == 2 ? 12 : 40;
    if (terms->op == SELVAGE_OP_PROD)
        value = rank & 1 ? value / 2 : value;
    else
        value = ldexp(value, (int)(random >> 1 & 0x7ff) % range - range / 2);
    return random & 1 ? -value : value;
}

/* Some of the numbers where arithmetic has corners. Infinity is not given to a type that does not keep it. */
static uint64_t special_float(selvage_type_t type, uint64_t random)
{
    const uint64_t sign = UINT64_C(1) << (8 * formats[type].bytes - 1);
    const uint64_t corner[] = {0,
                               formats[type].bytes == 1 ? 1 : infinity_of(type),
                               quiet_nan(type) ^ (type == SELVAGE_FLOAT8_E4M3 ? 0 : 1),
                               1,
                               largest_of(type),
                               UINT64_C(1) << formats[type].mantissa_bits,
                               (UINT64_C(1) << formats[type].mantissa_bits) - 1};
    return corner[(random >> 8) % 7] | (random >> 7 & 1 ? sign : 0);
}

static uint64_t integer_value(const coll_terms_t *terms, uint64_t random)
{
    static const int factor[4] = {1, -1, 2, 3};
    const uint64_t top = UINT64_C(1) << (8 * formats[terms->type].bytes - 1);
    const uint64_t corner[] = {0, top, top - 1, ~UINT64_C(0)};
    if (terms->values == COLL_SMALL && terms->op == SELVAGE_OP_PROD)
        return (uint64_t)(int64_t)factor[random & 3];
    if (terms->values == COLL_SMALL)
        return random % 17 - 8;
    return terms->values == COLL_SPECIAL && (random & 3) == 0 ? corner[random >> 2 & 3] : random;
}

void coll_terms_value(const coll_terms_t *terms, int rank, uint64_t index, void *element_out)
{
    uint64_t random = hash(terms, rank, index);
    if (!formats[terms->type].is_float)
        store_bits(terms->type, integer_value(terms, random), element_out);
    else if (terms->values == COLL_SPECIAL && (random >> 40 & 3) == 0)
        store_bits(terms->type, special_float(terms->type, random), element_out);
    else if (terms->values == COLL_SMALL)
        store_float(terms->type, small_float(terms, rank, random), element_out);
    else
        store_float(terms->type, ordered_float(terms, rank, random), element_out);
}

void coll_terms_scalar(const coll_terms_t *terms, int rank, void *element_out)
{
    static const double factor[4] = {1, -1, 2, -0.5};
    uint64_t random = hash(terms, rank, ~UINT64_C(0));
    if (!formats[terms->type].is_float)
        store_bits(terms->type, integer_value(terms, random), element_out);
    else if (terms->values == COLL_SMALL)
        store_float(terms->type, factor[random & (formats[terms->type].bytes == 1 ? 1 : 3)], element_out);
    else
        store_float(terms->type, 0.5 + ldexp((double)(random >> 12), -52), element_out);
}

/* What a rank gives to the sum: its input, multiplied and rounded to the type where that is asked for. */
static double term_float(const coll_terms_t *terms, int rank, uint64_t index)
{
    uint8_t value[8], scalar[8];
    coll_terms_value(terms, rank, index, value);
    if (terms->scaled) {
        coll_terms_scalar(terms, rank, scalar);
        double product = load_float(terms->type, value) * load_float(terms->type, scalar);
        store_float(terms->type, kept(terms->type, product), value);
    }
    return load_float(terms->type, value);
}

static uint64_t term_integer(const coll_terms_t *terms, int rank, uint64_t index)
{
    uint8_t value[8], scalar[8];
    coll_terms_value(terms, rank, index, value);
    coll_terms_scalar(terms, rank, scalar);
    uint64_t bits = load_bits(terms->type, value);
    return widen(terms->type, terms->scaled ? bits * load_bits(terms->type, scalar) : bits);
}

/* -0 is less than +0; a NaN on either side is the result. */
static bool less(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static double combine_float(selvage_op_t op, double a, double b)
{
    switch (op) {
    case SELVAGE_OP_PROD: return a * b;
    case SELVAGE_OP_MIN: return isnan(a) || isnan(b) ? NAN : less(b, a) ? b : a;
    case SELVAGE_OP_MAX: return isnan(a) || isnan(b) ? NAN : less(a, b) ? b : a;
    default: return a + b;
    }
}

static uint64_t combine_integer(const coll_terms_t *terms, uint64_t a, uint64_t b)
{
    bool smaller = formats[terms->type].is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (terms->op) {
    case SELVAGE_OP_PROD: return widen(terms->type, a * b);
    case SELVAGE_OP_MIN: return smaller ? a : b;
    case SELVAGE_OP_MAX: return smaller ? b : a;
    default: return widen(terms->type, a + b);
    }
}

static void integer_result(const coll_terms_t *terms, uint64_t index, void *element_out)
{
    uint64_t sum = term_integer(terms, 0, index);
    for (int rank = 1; rank < terms->nranks; rank++)
        sum = combine_integer(terms, sum, term_integer(terms, rank, index));
    if (terms->op == SELVAGE_OP_AVG)
        sum = formats[terms->type].is_signed ? (uint64_t)((int64_t)sum / terms->nranks) : sum / (uint64_t)terms->nranks;
    store_bits(terms->type, sum, element_out);
}

void coll_terms_result(const coll_terms_t *terms, uint64_t index, void *element_out)
{
    if (!formats[terms->type].is_float) {
        integer_result(terms, index, element_out);
        return;
    }
    double sum = term_float(terms, 0, index);
    for (int rank = 1; rank < terms->nranks; rank++)
        sum = kept(terms->type, combine_float(terms->op, sum, term_float(terms, rank, index)));
    if (terms->op == SELVAGE_OP_AVG)
        sum = kept(terms->type, sum / terms->nranks);
    store_float(terms->type, sum, element_out);
}

bool coll_terms_exact(const coll_terms_t *terms, uint64_t index, const void *found)
{
    uint8_t wanted[8];
    coll_terms_result(terms, index, wanted);
    if (memcmp(wanted, found, formats[terms->type].bytes) == 0)
        return true;
    return terms->nranks == 1 && formats[terms->type].is_float && isnan(load_float(terms->type, wanted)) &&
           isnan(load_float(terms->type, found));
}

/* The exact value, and the sum of magnitudes (of a product: its magnitude). */
static long double true_value(const coll_terms_t *terms, uint64_t index, long double *magnitude_out)
{
    bool product = terms->op == SELVAGE_OP_PROD;
    long double value = product, magnitude = product;
    for (int rank = 0; rank < terms->nranks; rank++) {
        long double term = term_float(terms, rank, index);
        value = product ? value * term : value + term;
        magnitude = product ? magnitude * fabsl(term) : magnitude + fabsl(term);
    }
    if (terms->op == SELVAGE_OP_AVG) {
        value /= terms->nranks;
        magnitude /= terms->nranks;
    }
    *magnitude_out = magnitude;
    return value;
}

bool coll_terms_near(const coll_terms_t *terms, uint64_t index, const void *found)
{
    const format_t *f = &formats[terms->type];
    bool any_order = terms->op == SELVAGE_OP_MIN || terms->op == SELVAGE_OP_MAX || terms->values == COLL_SMALL;
    if (!f->is_float || any_order)
        return coll_terms_exact(terms, index, found);
    long double magnitude, value = true_value(terms, index, &magnitude);
    long double unit = ldexpl(1, -f->mantissa_bits - 1), smallest = ldexpl(1, 1 - bias_of(f) - f->mantissa_bits);
    /* What underflows in a product is multiplied by what comes after it: less than 2^(n/2), as inputs are. */
    long double underflow = smallest * terms->nranks;
    if (terms->op == SELVAGE_OP_PROD)
        underflow = ldexpl(underflow, terms->nranks / 2 + 1);
    long double bound = magnitude * (powl(1 + unit, terms->nranks + 1) - 1) + underflow;
    return fabsl((long double)load_float(terms->type, found) - value) <= bound;
}
