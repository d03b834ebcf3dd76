/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers of the heat bath, and the functions of them that it needs. Philox4x32-10 is a function of a counter
 * and a key and has no state (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11,
 * 2011): the counter holds site, sweep, direction and draw, so that a link gets the same numbers on any grid of ranks.
 *
 * Logarithm and circle are sums and products in a fixed order: mathematical libraries differ between a host and a GPU
 * in the last bit, and one bit is enough for other links some sweeps later.
 */
#ifndef QUENCHED_RANDOM_H
#define QUENCHED_RANDOM_H

#include <stdint.h>

#include "su3.h"

typedef struct quenched_random {
    uint32_t key[2];
    uint32_t counter[4]; /* site, site, sweep, (number of the draw) * 16 + the stream's own four bits */
} quenched_random_t;

SU3_CALL void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)0xd2511f53u * c0, odd = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(odd >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)odd;
        c2 = (uint32_t)(even >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)even;
        k0 += 0x9e3779b9u; /* the golden ratio, and below the square root of 3 less 1 */
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* A stream of draws: `own` is below 16. */
SU3_CALL quenched_random_t quenched_random_start(uint64_t key, uint64_t site, uint32_t sweep, uint32_t own)
{
    quenched_random_t r;
    r.key[0] = (uint32_t)key;
    r.key[1] = (uint32_t)(key >> 32);
    r.counter[0] = (uint32_t)site;
    r.counter[1] = (uint32_t)(site >> 32);
    r.counter[2] = sweep;
    r.counter[3] = own;
    return r;
}

/* 52 bits and a half: strictly between 0 and 1, and exact. */
SU3_CALL double quenched_uniform(uint32_t high, uint32_t low)
{
    return ((double)(((uint64_t)high << 32 | low) >> 12) + 0.5) / 4503599627370496.0;
}

/* One draw: two uniform numbers. */
SU3_CALL void quenched_draw(quenched_random_t *r, double u[2])
{
    uint32_t words[4];
    philox4x32(r->counter, r->key, words);
    r->counter[3] += 16;
    u[0] = quenched_uniform(words[0], words[1]);
    u[1] = quenched_uniform(words[2], words[3]);
}

/* Natural logarithm of a normal positive number: 2 artanh((m - 1) / (m + 1)) for m within sqrt(2) of 1. */
SU3_CALL double quenched_log(double x)
{
    uint64_t bits;
    double m, sum = 0;
    __builtin_memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    __builtin_memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m = m / 2;
        exponent++;
    }
    double s = (m - 1) / (m + 1), square = s * s;
    for (int k = 21; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * square;
    sum = 2 * (s + s * sum);
    /* ln 2 in two parts, the first with so few bits that its product with the exponent is exact. */
    return exponent * 0.693147180369123816490 + (sum + exponent * 1.90821492927058770002e-10);
}

/* Cosine and sine of u turns, 0 <= u <= 1: Taylor series within an eighth of a turn of the nearest quarter. */
SU3_CALL void quenched_circle(double u, double *cosine, double *sine)
{
    int quarter = (int)(4 * u + 0.5);
    double a = 6.283185307179586 * (u - 0.25 * quarter), square = a * a, c = 1, s = 1;
    for (int k = 18; k >= 2; k -= 2) {
        c = 1 - c * square / (k * (k - 1));
        s = 1 - s * square / (k * (k + 1));
    }
    s = a * s;
    double x = quarter % 2 == 0 ? c : -s, y = quarter % 2 == 0 ? s : c;
    *cosine = quarter % 4 < 2 ? x : -x;
    *sine = quarter % 4 < 2 ? y : -y;
}

/* Two independent Gaussian numbers of variance 1/2 (Box and Muller). */
SU3_CALL su3_complex_t quenched_gauss(quenched_random_t *r)
{
    double u[2], c, s;
    quenched_draw(r, u);
    double radius = __builtin_sqrt(-quenched_log(u[0]));
    quenched_circle(u[1], &c, &s);
    return su3_c(radius * c, radius * s);
}

#endif
