/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic for a comparison of machine code for AMD GPUs with the host: functions of two words, as the compilers of
 * both make instructions of them. SV_FN is what the compiler of the device wants before a function.
 */
#ifndef SELVAGE_TESTS_AMDGPU_ARITHMETIC_H
#define SELVAGE_TESTS_AMDGPU_ARITHMETIC_H

#include <stdint.h>

enum { ARITHMETIC_RESULTS = 40 };

SV_FN float float_of(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

SV_FN double double_of(uint64_t bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

SV_FN uint64_t bits_of(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : 0x7fc00000; /* what is no number has no bits of its own */
}

SV_FN uint64_t bits_of(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : 0x7ff8000000000000;
}

SV_FN void arithmetic_integers(uint64_t a, uint64_t b, uint64_t *out)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    const uint32_t part = (uint32_t)(a >> 32);
    *out++ = a + b;
    *out++ = a - b;
    *out++ = a * b;
    *out++ = a / (b | 1);
    *out++ = a % (b | 1);
    *out++ = (uint64_t)((int64_t)a / -(int64_t)(b >> 1 | 3)); /* never of the smallest number by -1 */
    *out++ = a << (b & 63);
    *out++ = a >> (b & 63);
    *out++ = (uint64_t)((int64_t)a >> (b & 63));
    *out++ = (uint64_t)x * y;
    *out++ = (uint64_t)x * y + a;
    *out++ = x / (y | 1);
    *out++ = x % (y | 1);
    *out++ = (uint32_t)((int32_t)x / -(int32_t)(y >> 1 | 3));
    *out++ = x << (y & 31) | x >> ((32 - (y & 31)) & 31);
    *out++ = (uint32_t)((int32_t)x >> (y & 31));
    *out++ = (uint16_t)((uint16_t)x + (uint16_t)y);
    *out++ = (uint16_t)(((uint8_t)x & 1) << (y & 15));
    *out++ = (uint64_t)(x < y) | (uint64_t)((int32_t)x < (int32_t)y) << 1 | (uint64_t)(a < b) << 2 |
             (uint64_t)((int64_t)a < (int64_t)b) << 3 | (uint64_t)((uint16_t)x < (uint16_t)y) << 4 |
             (uint64_t)((int16_t)x < (int16_t)y) << 5 | (uint64_t)((uint8_t)x == (uint8_t)y) << 6;
    *out++ = x < y ? x : y;
    *out++ = (uint32_t)((int32_t)x > (int32_t)y ? x : y);
    *out++ = (x & 0xff) << 24 | (part >> 8 & 0xff) << 8 | (y >> 16 & 0xff);
    *out++ = (x ^ y) + part;
    *out++ = (uint32_t)((int32_t)(x << 11) >> 21);
    *out++ = (x >> 5 & 0x7ff) | (part & ~0xfffu);
}

SV_FN void arithmetic_floats(uint64_t a, uint64_t b, uint64_t *out)
{
    const float f = float_of((uint32_t)a), g = float_of((uint32_t)b), h = float_of((uint32_t)(a >> 32));
    const double p = double_of(a), q = double_of(b);
    *out++ = bits_of(f + g);
    *out++ = bits_of(f * g);
    *out++ = bits_of(f / g);
    *out++ = bits_of(1.0f / g);
    *out++ = bits_of(__builtin_fmaf(f, g, h));
    *out++ = bits_of((float)(uint32_t)a);
    *out++ = (uint64_t)(f < g) | (uint64_t)(f == g) << 1 | (uint64_t)(f >= g) << 2 | (uint64_t)(f != g) << 3;
    *out++ = bits_of(p + q);
    *out++ = bits_of(p * q);
    *out++ = bits_of(p / q);
    *out++ = bits_of(__builtin_fma(p, q, p));
    *out++ = bits_of((double)(uint32_t)a);
    *out++ = (uint64_t)(p < q) | (uint64_t)(p == q) << 1 | (uint64_t)(p >= q) << 2 | (uint64_t)(p != q) << 3;
    *out++ = (uint32_t)a ? (uint64_t)__builtin_clz((uint32_t)a) : 32;
}

SV_FN void arithmetic_all(uint64_t a, uint64_t b, uint64_t *out)
{
    arithmetic_integers(a, b, out);
    arithmetic_floats(a, b, out + 25);
}

#endif
