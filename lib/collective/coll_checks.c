/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See coll_checks.h. The weights of element i are taken from the bits of (i + 1) times an odd number, and made odd.
 *
 * Of floats, with u the unit of rounding and A the sum of all magnitudes of k vectors: the elements of the sum, and the
 * sum of the k checks, are each off by (k - 1) u A at most, and each check by u A. The factor of 4 is for other ways to
 * round, and what is added to it for numbers so small that somebody flushes them to zero. Nothing is said of sums in
 * which A overflows, or that have infinities and NaNs among their terms.
 */
#include "collective/coll_checks.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/coll_args.h"

#define WEIGHT UINT64_C(0x9e3779b97f4a7c15)

enum { FIRST_SHIFT = 20, SECOND_SHIFT = 41, FLOAT_BLOCK = 512, SAFETY = 4 };

unsigned sv_coll_checks_bytes(unsigned type, unsigned op)
{
    switch (type) {
    case SV_COLL_FLOAT16: case SV_COLL_BFLOAT16: case SV_COLL_E4M3: case SV_COLL_E5M2: return 0;
    default: return op == SV_COLL_SUM ? SV_COLL_CHECK_BYTES : 0;
    }
}

/* Two weighted sums of integers of one width. */
#define WEIGH(NAME, TYPE)                                                                                              \
    static void NAME(uint8_t *checks, const uint8_t *vector, uint64_t bytes)                                           \
    {                                                                                                                  \
        const TYPE *const element = (const void *)vector;                                                              \
        TYPE sum[2] = {0, 0};                                                                                          \
        uint64_t weights = 0;                                                                                          \
        for (uint64_t i = 0; i < bytes / sizeof *element; i++) {                                                       \
            weights += WEIGHT;                                                                                         \
            sum[0] = (TYPE)(sum[0] + element[i] * (uint64_t)(TYPE)(weights >> FIRST_SHIFT | 1));                       \
            sum[1] = (TYPE)(sum[1] + element[i] * (uint64_t)(TYPE)(weights >> SECOND_SHIFT | 1));                      \
        }                                                                                                              \
        memset(checks, 0, SV_COLL_CHECK_BYTES);                                                                        \
        memcpy(checks, sum, sizeof sum);                                                                               \
    }

WEIGH(weigh_bytes, uint8_t)
WEIGH(weigh_words, uint32_t)
WEIGH(weigh_long_words, uint64_t)

/* The sum, and that of magnitudes, in more digits than the elements have; blocks keep the error of long ones small. */
#define ADD_UP(NAME, TYPE, WIDE, MAGNITUDE)                                                                            \
    static void NAME(const uint8_t *vector, uint64_t bytes, long double sums[2])                                       \
    {                                                                                                                  \
        const TYPE *const element = (const void *)vector;                                                              \
        const uint64_t count = bytes / sizeof *element;                                                                \
        sums[0] = sums[1] = 0;                                                                                         \
        for (uint64_t begin = 0; begin < count; begin += FLOAT_BLOCK) {                                                \
            const uint64_t end = count - begin < FLOAT_BLOCK ? count : begin + FLOAT_BLOCK;                            \
            WIDE sum = 0, magnitudes = 0;                                                                              \
            for (uint64_t i = begin; i < end; i++) {                                                                   \
                sum += (WIDE)element[i];                                                                               \
                magnitudes += MAGNITUDE((WIDE)element[i]);                                                             \
            }                                                                                                          \
            sums[0] += (long double)sum;                                                                               \
            sums[1] += (long double)magnitudes;                                                                        \
        }                                                                                                              \
    }

ADD_UP(add_up_floats, float, double, fabs)
ADD_UP(add_up_doubles, double, long double, fabsl)

void sv_coll_checks_write(uint8_t *checks, const uint8_t *vector, uint64_t bytes, unsigned type)
{
    long double sums[2];
    switch (type) {
    case SV_COLL_INT8: case SV_COLL_UINT8: weigh_bytes(checks, vector, bytes); return;
    case SV_COLL_INT32: case SV_COLL_UINT32: weigh_words(checks, vector, bytes); return;
    case SV_COLL_INT64: case SV_COLL_UINT64: weigh_long_words(checks, vector, bytes); return;
    default: break;
    }
    memset(checks, 0, SV_COLL_CHECK_BYTES);
    if (type == SV_COLL_FLOAT64) {
        add_up_doubles(vector, bytes, sums);
        const double rounded[2] = {(double)sums[0], (double)sums[1]};
        memcpy(checks, rounded, sizeof rounded);
    } else {
        add_up_floats(vector, bytes, sums);
        const float rounded[2] = {(float)sums[0], (float)sums[1]};
        memcpy(checks, rounded, sizeof rounded);
    }
}

/* told: the sum that the checks tell, and that of magnitudes. */
static bool is_near(const long double found[2], const long double told[2], unsigned terms, long double unit,
                    long double slack)
{
    if (!isfinite(told[1]))
        return true;
    return fabsl(found[0] - told[0]) <= SAFETY * ((long double)terms + 1) * unit * told[1] + slack; /* not of a NaN */
}

bool sv_coll_checks_agree(const uint8_t *checks, const uint8_t *vector, uint64_t bytes, unsigned type, unsigned terms)
{
    uint8_t own[SV_COLL_CHECK_BYTES];
    long double found[2], told[2];
    double doubles[2];
    float floats[2];
    switch (type) {
    case SV_COLL_FLOAT32:
        memcpy(floats, checks, sizeof floats);
        add_up_floats(vector, bytes, found);
        told[0] = (long double)floats[0];
        told[1] = (long double)floats[1];
        return is_near(found, told, terms, FLT_EPSILON / 2, (long double)FLT_MIN * (bytes + 1) * terms);
    case SV_COLL_FLOAT64:
        memcpy(doubles, checks, sizeof doubles);
        add_up_doubles(vector, bytes, found);
        told[0] = (long double)doubles[0];
        told[1] = (long double)doubles[1];
        return is_near(found, told, terms, DBL_EPSILON / 2, (long double)DBL_MIN * (bytes + 1) * terms);
    default:
        sv_coll_checks_write(own, vector, bytes, type);
        return memcmp(own, checks, sizeof own) == 0;
    }
}
