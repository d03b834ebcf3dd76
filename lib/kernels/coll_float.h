/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floats of 8 and 16 bits to and from 32, one source for all devices. It is integer arithmetic, or the device's own
 * conversion where that gives the same bits. Rounding is to nearest even, nothing is flushed to zero, and every NaN
 * becomes the positive quiet one of the type. fp8 saturates, infinities too; the others overflow to infinity.
 */
#ifndef SV_COLL_FLOAT_H
#define SV_COLL_FLOAT_H

#include <stdint.h>

#include "kernels/coll_args.h"
#include "kernels/kernel_device.h"

namespace {

SV_DEV_FN float coll_float_of(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

SV_DEV_FN uint32_t coll_bits_of(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

SV_DEV_FN double coll_double_of(uint64_t bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

SV_DEV_FN uint64_t coll_bits_of(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A format: bias and width of what it stores, its NaN, and TOP, which is what larger values become. */
template <unsigned TYPE>
struct coll_format;
template <>
struct coll_format<SV_COLL_FLOAT16> {
    enum : uint32_t { BITS = 16, BIAS = 15, MANTISSA = 10, TOP = 0x7c00, QUIET = 0x7e00 };
};
template <>
struct coll_format<SV_COLL_BFLOAT16> {
    enum : uint32_t { BITS = 16, BIAS = 127, MANTISSA = 7, TOP = 0x7f80, QUIET = 0x7fc0 };
};
template <>
struct coll_format<SV_COLL_E4M3> {
    enum : uint32_t { BITS = 8, BIAS = 7, MANTISSA = 3, TOP = 0x7e, QUIET = 0x7f };
};
template <>
struct coll_format<SV_COLL_E5M2> {
    enum : uint32_t { BITS = 8, BIAS = 15, MANTISSA = 2, TOP = 0x7b, QUIET = 0x7f };
};

#if defined(SV_DEV_GPU)
/* A denormal times a power of two is exact there. On a host a program may have had denormals flushed, which no float of
   8 bits must feel. */
SV_DEV_FN float coll_widen_e4m3(uint32_t bits)
{
    const uint32_t sign = (bits & 0x80) << 24;
    const uint32_t size = bits & 0x7f;
    const float value = coll_float_of(sign | size << 20) * coll_float_of(247u << 23);

    return size == 0x7f ? coll_float_of(0x7fc00000) : value;
}
#endif

/* Bits above the element are ignored. */
template <unsigned TYPE>
SV_DEV_FN float coll_widen_bits(uint32_t bits)
{
    typedef coll_format<TYPE> format;
    const uint32_t sign = (bits >> (format::BITS - 1) & 1) << 31;
    const uint32_t size = bits & ((1u << (format::BITS - 1)) - 1);
    const uint32_t moved = size << (23 - format::MANTISSA);

#if defined(SV_DEV_GPU)
    if (TYPE == SV_COLL_E4M3)
        return coll_widen_e4m3(bits);
#endif
    /* A denormal is normal there: what stands for its leading bit is subtracted again. */
    const uint32_t least = (128 - format::BIAS) << 23;
    const uint32_t small = coll_bits_of(coll_float_of(least + moved) - coll_float_of(least));
    const bool special = TYPE == SV_COLL_E4M3 ? size == format::QUIET : size >> format::MANTISSA == 31;
    uint32_t wide = moved + ((127 - format::BIAS) << 23);

    if (TYPE == SV_COLL_BFLOAT16)
        return coll_float_of(sign | moved);
    wide = size >> format::MANTISSA == 0 ? small : wide;
    wide = special ? moved | 0x7f800000 : wide;
    return coll_float_of(sign | wide);
}

template <unsigned TYPE>
SV_DEV_FN uint32_t coll_narrow_bits(float value)
{
    typedef coll_format<TYPE> format;
    enum : uint32_t { SHIFT = 23 - format::MANTISSA, LEAST = (128 - format::BIAS) << 23 };
    const uint32_t bits = coll_bits_of(value);
    const uint32_t size = bits & 0x7fffffff;
    uint32_t result = (size + (size >> SHIFT & 1) + (1u << (SHIFT - 1)) - 1 - ((127 - format::BIAS) << 23)) >> SHIFT;

    if (TYPE != SV_COLL_BFLOAT16 && size < LEAST) { /* the sum has the denormal's last place for its own, and rounds */
        const uint32_t place = (151 - format::BIAS - format::MANTISSA) << 23;
        result = coll_bits_of(coll_float_of(size) + coll_float_of(place)) - place;
    }
    result = (result > format::TOP ? uint32_t{format::TOP} : result) | bits >> 31 << (format::BITS - 1);
    return size > 0x7f800000 ? uint32_t{format::QUIET} : result;
}

/* Two elements at once, the lower one first, which is how NVIDIA converts them. */
template <unsigned TYPE>
struct coll_pair_bits {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        low = coll_widen_bits<TYPE>(bits);
        high = coll_widen_bits<TYPE>(bits >> coll_format<TYPE>::BITS);
    }
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        return coll_narrow_bits<TYPE>(low) | coll_narrow_bits<TYPE>(high) << coll_format<TYPE>::BITS;
    }
};

template <unsigned TYPE>
struct coll_pair : coll_pair_bits<TYPE> {};

#if defined(SV_DEV_CUDA)

/* The device's NaN of 16 bits has every bit set, so the type's is put in its place. */
template <unsigned TYPE>
SV_DEV_FN uint32_t coll_quiet_pair(uint32_t bits, float low, float high)
{
    if (low != low)
        bits = (bits & 0xffff0000) | coll_format<TYPE>::QUIET;
    if (high != high)
        bits = (bits & 0xffff) | static_cast<uint32_t>(coll_format<TYPE>::QUIET) << 16;
    return bits;
}

template <>
struct coll_pair<SV_COLL_FLOAT16> {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        asm("{\n"
            ".reg .b16 first, second;\n"
            "mov.b32 {first, second}, %2;\n"
            "cvt.f32.f16 %0, first;\n"
            "cvt.f32.f16 %1, second;\n"
            "}"
            : "=f"(low), "=f"(high)
            : "r"(bits));
    }
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        uint32_t bits;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return coll_quiet_pair<SV_COLL_FLOAT16>(bits, low, high);
    }
};

template <>
struct coll_pair<SV_COLL_BFLOAT16> : coll_pair_bits<SV_COLL_BFLOAT16> {
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        uint32_t bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return coll_quiet_pair<SV_COLL_BFLOAT16>(bits, low, high);
    }
};

/* The format is the upper half of a float of 16 bits. */
template <>
struct coll_pair<SV_COLL_E5M2> : coll_pair_bits<SV_COLL_E5M2> {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        coll_pair<SV_COLL_FLOAT16>::widen((bits << 8 & 0xff00) | (bits << 16 & 0xff000000), low, high);
    }
#if __CUDA_ARCH__ >= 890
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        uint16_t bits;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
        return bits;
    }
#endif
};

#if __CUDA_ARCH__ >= 890
template <>
struct coll_pair<SV_COLL_E4M3> {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        uint32_t halves;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
        coll_pair<SV_COLL_FLOAT16>::widen(halves, low, high);
    }
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        uint16_t bits;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
        return bits;
    }
};
#endif

#elif defined(SV_DEV_HIP)

SV_DEV_FN float coll_half_of(uint32_t bits)
{
    const uint16_t low = static_cast<uint16_t>(bits);
    _Float16 half;
    __builtin_memcpy(&half, &low, sizeof half);
    return half;
}

/* The compiler would make one instruction of a product and its rounding, v_fma_mixlo_f16, which adds +0: so -0 would
   become +0, but only where it does so. The product is to be a number by itself. */
SV_DEV_FN uint32_t coll_half_bits(float value)
{
    asm("" : "+v"(value));
    const _Float16 half = static_cast<_Float16>(value);
    uint16_t bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return value != value ? uint32_t{coll_format<SV_COLL_FLOAT16>::QUIET} : bits;
}

template <>
struct coll_pair<SV_COLL_FLOAT16> {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        low = coll_half_of(bits);
        high = coll_half_of(bits >> 16);
    }
    SV_DEV_FN uint32_t narrow(float low, float high)
    {
        return coll_half_bits(low) | coll_half_bits(high) << 16;
    }
};

/* The format is the upper half of a float of 16 bits. */
template <>
struct coll_pair<SV_COLL_E5M2> : coll_pair_bits<SV_COLL_E5M2> {
    SV_DEV_FN void widen(uint32_t bits, float &low, float &high)
    {
        low = coll_half_of(bits << 8);
        high = coll_half_of(bits & 0xff00);
    }
};

#endif

} // namespace

#endif
