/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `selvage-bench coll` judges by: numbers as elements of each type against the compiler's own and against all
 * values that the small floats have, and a comparison that counts exactly the elements that are wrong.
 */
#include <math.h>
#include <string.h>

#include "tools/bench_coll/bench_coll_encode.h"
#include "fixtures/check.h"

/* The value of a small float without infinities among the bits it is asked for. */
static double decode(unsigned bits, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const unsigned exponent = bits >> mantissa_bits & ((1U << exponent_bits) - 1);
    const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
    const unsigned steps = exponent ? mantissa + (1U << mantissa_bits) : mantissa;
    const double size = ldexp((double)steps, (exponent ? (int)exponent : 1) - bias - mantissa_bits);
    return bits >> (exponent_bits + mantissa_bits) ? -size : size;
}

typedef struct small_type {
    selvage_type_t type;
    int exponent_bits, mantissa_bits;
    unsigned largest; /* bits of the largest finite value */
} small_type_t;

static const small_type_t small_types[] = {{SELVAGE_FLOAT16, 5, 10, 0x7bff},
                                           {SELVAGE_BFLOAT16, 8, 7, 0x7f7f},
                                           {SELVAGE_FLOAT8_E4M3, 4, 3, 0x7e},
                                           {SELVAGE_FLOAT8_E5M2, 5, 2, 0x7b}};

/* Each value is itself, and so is what lies near it; halfway the even one is taken. */
static void test_small_floats(void)
{
    for (size_t t = 0; t < sizeof small_types / sizeof small_types[0]; t++) {
        const small_type_t *small = &small_types[t];
        const uint64_t sign = 1ULL << (small->exponent_bits + small->mantissa_bits);
        for (unsigned bits = 0; bits < small->largest; bits++) {
            const double value = decode(bits, small->exponent_bits, small->mantissa_bits);
            const double next = decode(bits + 1, small->exponent_bits, small->mantissa_bits), step = next - value;
            CHECK(bench_encode(small->type, value) == bits);
            CHECK(bench_encode(small->type, -value) == (bits | sign));
            CHECK(bench_encode(small->type, value + 0.49 * step) == bits);
            CHECK(bench_encode(small->type, value + 0.51 * step) == bits + 1);
            CHECK(bench_encode(small->type, value + 0.5 * step) == bits + (bits & 1));
        }
    }
}

static void test_wide(void)
{
    const float narrow = 0.1F;
    const double wide = 0.1;
    uint64_t bits = 0;
    memcpy(&bits, &narrow, sizeof narrow);
    CHECK(bench_encode(SELVAGE_FLOAT32, 0.1) == bits);
    memcpy(&bits, &wide, sizeof wide);
    CHECK(bench_encode(SELVAGE_FLOAT64, 0.1) == bits);
    CHECK((uint8_t)bench_encode(SELVAGE_INT8, -3) == 0xfd);
    CHECK(bench_encode(SELVAGE_UINT64, 7) == 7);
}

/* Integers go towards zero; float32 and smaller are divided in float32. */
static void test_quotient(void)
{
    CHECK(bench_quotient(SELVAGE_INT32, -7, 2) == -3);
    CHECK(bench_quotient(SELVAGE_UINT8, 7, 4) == 1);
    CHECK(bench_quotient(SELVAGE_FLOAT64, 1, 3) == 1.0 / 3);
    CHECK(bench_quotient(SELVAGE_BFLOAT16, 1, 3) == (double)(1.0F / 3.0F));
}

int main(void)
{
    test_small_floats();
    test_wide();
    test_quotient();
    return check_report("bench_coll_parts");
}
