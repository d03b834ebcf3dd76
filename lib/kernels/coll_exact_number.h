/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of one element of an exact sum: its scale, its limbs, and the element that limbs are after the sum.
 * coll_exact.h says what these are. All of it is arithmetic of integers.
 */
#ifndef SV_COLL_EXACT_NUMBER_H
#define SV_COLL_EXACT_NUMBER_H

#include <stdint.h>

#include "kernels/coll_exact.h"
#include "kernels/coll_float.h"
#include "kernels/kernel_device.h"

namespace {

/*
 * A format. The smallest number above 0 is the unit of this file: a finite element is m 2^(e - 1) of it, with m below
 * 2^(MANTISSA + 1), and e the exponent as it is stored, or 1 of a denormal one. Numbers of a scale are below 2^top().
 */
template <unsigned TYPE>
struct exact_format;

template <>
struct exact_format<SV_COLL_FLOAT32> {
    typedef uint32_t bits;
    typedef float number;
    enum : unsigned { WIDTH = 32, MANTISSA = 23, TOP_EXPONENT = 255, LIMBS = 1 };

    SV_DEV_FN unsigned scale_of(unsigned exponent)
    {
        return exponent > 1 ? exponent : 1;
    }
    SV_DEV_FN unsigned top(unsigned scale)
    {
        return MANTISSA + scale;
    }
    SV_DEV_FN float number_of(uint32_t from)
    {
        return coll_float_of(from);
    }
};

/* Eight exponents have a scale together, and the lowest 24 have one: 254 are left, as of the other format. */
template <>
struct exact_format<SV_COLL_FLOAT64> {
    typedef uint64_t bits;
    typedef double number;
    enum : unsigned { WIDTH = 64, MANTISSA = 52, TOP_EXPONENT = 2047, LIMBS = 2 };

    SV_DEV_FN unsigned scale_of(unsigned exponent)
    {
        return exponent >= 24 ? exponent / 8 - 1 : 1;
    }
    SV_DEV_FN unsigned top(unsigned scale)
    {
        return MANTISSA + 8 * scale + 15;
    }
    SV_DEV_FN double number_of(uint64_t from)
    {
        return coll_double_of(from);
    }
};

/* 128 bits. */
typedef struct exact_wide {
    uint64_t low, high;
} exact_wide_t;

/* distance: below 128. */
SV_DEV_FN exact_wide_t shift_up(exact_wide_t value, unsigned distance)
{
    if (distance >= 64)
        return exact_wide_t{0, value.low << (distance - 64)};
    if (distance == 0)
        return value;
    return exact_wide_t{value.low << distance, value.high << distance | value.low >> (64 - distance)};
}

SV_DEV_FN exact_wide_t shift_down(exact_wide_t value, unsigned distance)
{
    if (distance >= 64)
        return exact_wide_t{value.high >> (distance - 64), 0};
    if (distance == 0)
        return value;
    return exact_wide_t{value.low >> distance | value.high << (64 - distance), value.high >> distance};
}

/* Of what is not 0: the number of its highest bit. */
SV_DEV_FN unsigned highest_bit(uint64_t value)
{
#if defined(SV_DEV_CUDA)
    return 63u - static_cast<unsigned>(__clzll(static_cast<long long>(value)));
#else
    return 63u - static_cast<unsigned>(__builtin_clzll(value));
#endif
}

SV_DEV_FN unsigned highest_bit(exact_wide_t value)
{
    return value.high ? 64 + highest_bit(value.high) : highest_bit(value.low);
}

/* How many bits an addend of a scale loses at its lower end, of numbers of so many bits. */
SV_DEV_FN unsigned lost_bits(unsigned top, unsigned width)
{
    return top > width ? top - width : 0;
}

/* How many bits an addend may have. */
template <unsigned TYPE>
SV_DEV_FN unsigned addend_bits(unsigned spare_bits)
{
    return exact_format<TYPE>::LIMBS * (63 - spare_bits);
}

template <unsigned TYPE>
SV_DEV_FN unsigned exponent_of(typename exact_format<TYPE>::bits element)
{
    return static_cast<unsigned>(element >> exact_format<TYPE>::MANTISSA) & exact_format<TYPE>::TOP_EXPONENT;
}

template <unsigned TYPE>
SV_DEV_FN unsigned scale_of(typename exact_format<TYPE>::bits element)
{
    typedef exact_format<TYPE> format;
    const unsigned exponent = exponent_of<TYPE>(element);
    const typename format::bits sign = typename format::bits{1} << (format::WIDTH - 1);

    if (exponent == format::TOP_EXPONENT)
        return SV_EXACT_SPECIAL;
    return element == sign ? static_cast<unsigned>(SV_EXACT_MINUS_ZERO) : format::scale_of(exponent);
}

/* What an element adds to a sum that has an infinity or a NaN. */
template <unsigned TYPE>
SV_DEV_FN uint64_t count_special(typename exact_format<TYPE>::bits element)
{
    typedef exact_format<TYPE> format;
    const typename format::bits fraction = element & ((typename format::bits{1} << format::MANTISSA) - 1);

    if (exponent_of<TYPE>(element) != format::TOP_EXPONENT)
        return 0;
    if (fraction != 0)
        return uint64_t{1} << 2 * SV_EXACT_COUNT_BITS;
    return element >> (format::WIDTH - 1) ? uint64_t{1} << SV_EXACT_COUNT_BITS : 1;
}

/* The size of a finite element as a number of units, each 2^lost of this file's. What is below one is cut off. */
template <unsigned TYPE>
SV_DEV_FN exact_wide_t size_of(typename exact_format<TYPE>::bits element, unsigned lost)
{
    typedef exact_format<TYPE> format;
    const unsigned exponent = exponent_of<TYPE>(element);
    const uint64_t fraction = element & ((typename format::bits{1} << format::MANTISSA) - 1);
    const uint64_t whole = fraction | static_cast<uint64_t>(exponent > 0) << format::MANTISSA;
    const unsigned up = exponent > 1 ? exponent - 1 : 0;

    if (up >= lost)
        return shift_up(exact_wide_t{whole, 0}, up - lost);
    return exact_wide_t{lost - up < 64 ? whole >> (lost - up) : 0, 0};
}

SV_DEV_FN exact_wide_t negate(exact_wide_t value)
{
    const uint64_t low = 0 - value.low;

    return exact_wide_t{low, ~value.high + (low == 0)};
}

/* The limbs of an element, of which the largest has this scale. */
template <unsigned TYPE>
SV_DEV_FN void split_element(typename exact_format<TYPE>::bits element, unsigned scale, unsigned spare_bits,
                             uint64_t (&limb)[exact_format<TYPE>::LIMBS])
{
    typedef exact_format<TYPE> format;
    const unsigned low_bits = 63 - spare_bits;

    if (scale == SV_EXACT_SPECIAL) {
        limb[0] = count_special<TYPE>(element);
        if (format::LIMBS == 2)
            limb[format::LIMBS - 1] = 0;
        return;
    }
    exact_wide_t value = size_of<TYPE>(element, lost_bits(format::top(scale), addend_bits<TYPE>(spare_bits)));
    if (element >> (format::WIDTH - 1))
        value = negate(value);
    limb[0] = value.low;
    if (format::LIMBS == 2) {
        limb[0] = value.low & ((uint64_t{1} << low_bits) - 1);
        limb[format::LIMBS - 1] = value.low >> low_bits | value.high << (64 - low_bits);
    }
}

/* Of limbs that were added: the size of the sum, and whether it is below 0. */
template <unsigned TYPE>
SV_DEV_FN exact_wide_t join_limbs(const uint64_t (&limb)[exact_format<TYPE>::LIMBS], unsigned spare_bits,
                                  bool *negative_out)
{
    typedef exact_format<TYPE> format;
    const unsigned low_bits = 63 - spare_bits;
    exact_wide_t value = {limb[0], 0 - (limb[0] >> 63)};

    if (format::LIMBS == 2) {
        const uint64_t high = limb[format::LIMBS - 1] + (limb[0] >> low_bits);
        value.low = (limb[0] & ((uint64_t{1} << low_bits) - 1)) | high << low_bits;
        value.high = static_cast<uint64_t>(static_cast<int64_t>(high) >> (64 - low_bits));
    }
    *negative_out = value.high >> 63;
    return *negative_out ? negate(value) : value;
}

/* The element nearest to a number of units, each 2^lost of this file's; of two the even one. No sign. */
template <unsigned TYPE>
SV_DEV_FN typename exact_format<TYPE>::bits round_size(exact_wide_t size, unsigned lost)
{
    typedef exact_format<TYPE> format;
    typedef typename format::bits bits;
    const bits infinity = static_cast<bits>(format::TOP_EXPONENT) << format::MANTISSA;

    if ((size.low | size.high) == 0)
        return 0;
    const unsigned highest = highest_bit(size);
    if (highest + lost <= format::MANTISSA) /* a denormal one, or the lowest exponent: no rounding */
        return static_cast<bits>(size.low << lost);
    const unsigned exponent = highest + lost - format::MANTISSA + 1;
    if (exponent >= format::TOP_EXPONENT)
        return infinity;
    uint64_t whole = 0;
    if (highest <= format::MANTISSA) {
        whole = size.low << (format::MANTISSA - highest);
    } else {
        const unsigned drop = highest - format::MANTISSA;
        const exact_wide_t kept = shift_down(size, drop), below = shift_down(size, drop - 1);
        const exact_wide_t half = shift_up(below, drop - 1);
        const bool is_more = half.low != size.low || half.high != size.high;
        whole = kept.low + ((below.low & 1) & (static_cast<uint64_t>(is_more) | (kept.low & 1)));
    }
    /* What was rounded up to the next power of two counts in the exponent, up to that of infinity. */
    return (static_cast<bits>(exponent - 1) << format::MANTISSA) + static_cast<bits>(whole);
}

template <unsigned TYPE>
SV_DEV_FN typename exact_format<TYPE>::bits join_special(uint64_t counts)
{
    typedef exact_format<TYPE> format;
    typedef typename format::bits bits;
    const uint64_t mask = (uint64_t{1} << SV_EXACT_COUNT_BITS) - 1;
    const bool has_plus = (counts & mask) != 0;
    const bool has_minus = (counts >> SV_EXACT_COUNT_BITS & mask) != 0;
    const bits infinity = static_cast<bits>(format::TOP_EXPONENT) << format::MANTISSA;

    if (counts >> 2 * SV_EXACT_COUNT_BITS || (has_plus && has_minus))
        return infinity | bits{1} << (format::MANTISSA - 1);
    return infinity | static_cast<bits>(has_minus) << (format::WIDTH - 1);
}

template <unsigned TYPE>
SV_DEV_FN typename exact_format<TYPE>::bits join_element(const uint64_t (&limb)[exact_format<TYPE>::LIMBS],
                                                         unsigned scale, unsigned spare_bits)
{
    typedef exact_format<TYPE> format;
    typedef typename format::bits bits;
    bool negative = false;

    if (scale == SV_EXACT_SPECIAL)
        return join_special<TYPE>(limb[0]);
    if (scale == SV_EXACT_MINUS_ZERO)
        return bits{1} << (format::WIDTH - 1);
    const exact_wide_t size = join_limbs<TYPE>(limb, spare_bits, &negative);
    return round_size<TYPE>(size, lost_bits(format::top(scale), addend_bits<TYPE>(spare_bits))) |
           static_cast<bits>(negative) << (format::WIDTH - 1);
}

/* A result of arithmetic: every NaN is the same. */
template <unsigned TYPE>
SV_DEV_FN typename exact_format<TYPE>::bits bits_of(typename exact_format<TYPE>::number value)
{
    typedef exact_format<TYPE> format;
    typedef typename format::bits bits;
    const bits quiet = (static_cast<bits>(2 * format::TOP_EXPONENT + 1)) << (format::MANTISSA - 1);

    return value != value ? quiet : coll_bits_of(value);
}

} // namespace

#endif
