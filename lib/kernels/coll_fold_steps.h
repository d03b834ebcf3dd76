/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of sv_fold; coll_fold.h says what it does. A lane takes 16 bytes of each block, one block after the
 * other, and stores once. Nothing waits for anything. An element here is a struct without constructors, or a number.
 */
#ifndef SV_COLL_FOLD_STEPS_H
#define SV_COLL_FOLD_STEPS_H

#include <stdint.h>

#include "kernels/coll_float.h"
#include "kernels/coll_fold.h"
#include "kernels/coll_types.h"
#include "kernels/kernel_device.h"

namespace {

/* --- operations --------------------------------------------------------------------------------------------------- */

/* a = a op b for all elements of a unit; the operation is the same for all lanes. */
#define SV_FOLD_EACH(RESULT)             \
    {                                    \
        SV_DEV_UNROLL                    \
        for (unsigned e = 0; e < N; e++) \
            a[e] = RESULT;               \
        break;                           \
    }

/* Integers of any width, as bits. MASK: the bits that make it true if one is set; ONE: what is true as a result. */
template <typename BITS, BITS MASK, BITS ONE>
struct fold_bits {
    typedef BITS element;

    SV_DEV_FN bool truth(BITS value)
    {
        return (value & MASK) != 0;
    }
    SV_DEV_FN BITS of_truth(bool value)
    {
        return value ? ONE : static_cast<BITS>(0);
    }
    template <unsigned N>
    SV_DEV_FN void combine(BITS (&a)[N], const BITS (&b)[N], unsigned op)
    {
        switch (op) {
        case SV_FOLD_BAND:
            SV_FOLD_EACH(static_cast<BITS>(a[e] & b[e]));
        case SV_FOLD_BOR:
            SV_FOLD_EACH(static_cast<BITS>(a[e] | b[e]));
        case SV_FOLD_BXOR:
            SV_FOLD_EACH(static_cast<BITS>(a[e] ^ b[e]));
        case SV_FOLD_LAND:
            SV_FOLD_EACH(of_truth(truth(a[e]) && truth(b[e])));
        case SV_FOLD_LOR:
            SV_FOLD_EACH(of_truth(truth(a[e]) || truth(b[e])));
        default:
            SV_FOLD_EACH(of_truth(truth(a[e]) != truth(b[e])));
        }
    }
    template <unsigned N>
    SV_DEV_FN void end(BITS (&)[N], unsigned)
    {
    }
};

template <typename BITS>
struct fold_wide {
    typedef uint32_t type;
};
template <>
struct fold_wide<uint64_t> {
    typedef uint64_t type;
};

/* Integers, computed in 32 or 64 bits, which wrap. NUMBER: the same bits with or without a sign, for the order. */
template <typename BITS, typename NUMBER>
struct fold_integer : fold_bits<BITS, static_cast<BITS>(~UINT64_C(0)), 1> {
    typedef fold_bits<BITS, static_cast<BITS>(~UINT64_C(0)), 1> bits;
    typedef typename fold_wide<BITS>::type wide;

    template <unsigned N>
    SV_DEV_FN void combine(BITS (&a)[N], const BITS (&b)[N], unsigned op)
    {
        switch (op) {
        case SV_COLL_SUM:
            SV_FOLD_EACH(static_cast<BITS>(static_cast<wide>(a[e]) + b[e]));
        case SV_COLL_PROD:
            SV_FOLD_EACH(static_cast<BITS>(static_cast<wide>(a[e]) * b[e]));
        case SV_COLL_MIN:
            SV_FOLD_EACH(static_cast<NUMBER>(a[e]) < static_cast<NUMBER>(b[e]) ? a[e] : b[e]);
        case SV_COLL_MAX:
            SV_FOLD_EACH(static_cast<NUMBER>(a[e]) < static_cast<NUMBER>(b[e]) ? b[e] : a[e]);
        default:
            bits::combine(a, b, op);
        }
    }
};

/* Of 16 bits they may be divided. */
template <typename NUMBER>
struct fold_short : fold_integer<uint16_t, NUMBER> {
    template <unsigned N>
    SV_DEV_FN void end(uint16_t (&a)[N], unsigned divisor)
    {
        if (divisor <= 1)
            return;
        SV_DEV_UNROLL
        for (unsigned e = 0; e < N; e++) {
            const int32_t value = static_cast<NUMBER>(a[e]);
            const uint32_t size = static_cast<uint32_t>(value < 0 ? -value : value) / divisor;
            a[e] = static_cast<uint16_t>(value < 0 ? 0 - size : size);
        }
    }
};

template <typename REAL>
SV_DEV_FN REAL canonical_number(REAL value)
{
    return value != value ? static_cast<REAL>(coll_float_of(0x7fc00000)) : value;
}

SV_DEV_FN float fold_number(uint32_t bits)
{
    return coll_float_of(bits);
}

SV_DEV_FN double fold_number(uint64_t bits)
{
    return coll_double_of(bits);
}

/* Floats, as bits. MASK: all but the sign; ONE: 1. */
template <typename BITS, BITS MASK, BITS ONE>
struct fold_real : fold_bits<BITS, MASK, ONE> {
    template <unsigned N>
    SV_DEV_FN void combine(BITS (&a)[N], const BITS (&b)[N], unsigned op)
    {
        switch (op) {
        case SV_COLL_SUM:
            SV_FOLD_EACH(coll_bits_of(canonical_number(fold_number(a[e]) + fold_number(b[e]))));
        case SV_COLL_PROD:
            SV_FOLD_EACH(coll_bits_of(canonical_number(fold_number(a[e]) * fold_number(b[e]))));
        case SV_COLL_MIN:
            SV_FOLD_EACH(coll_bits_of(canonical_number(coll_lesser(fold_number(a[e]), fold_number(b[e])))));
        case SV_COLL_MAX:
            SV_FOLD_EACH(coll_bits_of(canonical_number(coll_greater(fold_number(a[e]), fold_number(b[e])))));
        default:
            (fold_bits<BITS, MASK, ONE>::combine(a, b, op));
        }
    }
};

template <typename REAL>
struct fold_complex_number {
    REAL real, imaginary;
};

template <typename REAL>
struct fold_complex {
    typedef fold_complex_number<REAL> element;

    template <unsigned N>
    SV_DEV_FN void combine(element (&a)[N], const element (&b)[N], unsigned op)
    {
        const bool adds = op == SV_COLL_SUM;
        SV_DEV_UNROLL
        for (unsigned e = 0; e < N; e++) {
            const REAL real =
                adds ? a[e].real + b[e].real : a[e].real * b[e].real - a[e].imaginary * b[e].imaginary;
            const REAL imaginary =
                adds ? a[e].imaginary + b[e].imaginary : a[e].real * b[e].imaginary + a[e].imaginary * b[e].real;
            a[e].real = canonical_number(real);
            a[e].imaginary = canonical_number(imaginary);
        }
    }
    template <unsigned N>
    SV_DEV_FN void end(element (&)[N], unsigned)
    {
    }
};

template <typename VALUE, typename INDEX>
struct fold_located_value {
    VALUE value;
    INDEX index;
};

template <typename VALUE, typename INDEX>
struct fold_located {
    typedef fold_located_value<VALUE, INDEX> element;

    template <unsigned N>
    SV_DEV_FN void combine(element (&a)[N], const element (&b)[N], unsigned op)
    {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < N; e++) {
            const bool takes = op == SV_FOLD_MINLOC ? b[e].value < a[e].value : b[e].value > a[e].value;
            const bool lowers = b[e].value == a[e].value && b[e].index < a[e].index;
            a[e].index = takes || lowers ? b[e].index : a[e].index;
            a[e].value = takes ? b[e].value : a[e].value;
        }
    }
    template <unsigned N>
    SV_DEV_FN void end(element (&)[N], unsigned)
    {
    }
};

/* --- units -------------------------------------------------------------------------------------------------------- */

template <typename ELEMENT>
SV_DEV_FN void store_element(ELEMENT *to, const ELEMENT &from)
{
    *to = from;
}

/* Member by member: there may be a gap. */
template <typename VALUE, typename INDEX>
SV_DEV_FN void store_element(fold_located_value<VALUE, INDEX> *to, const fold_located_value<VALUE, INDEX> &from)
{
    to->value = from.value;
    to->index = from.index;
}

template <typename ELEMENT>
struct fold_has_gap {
    enum : unsigned { VALUE = 0 };
};

template <typename FIRST, typename INDEX>
struct fold_has_gap<fold_located_value<FIRST, INDEX>> {
    enum : unsigned { VALUE = sizeof(FIRST) + sizeof(INDEX) < sizeof(fold_located_value<FIRST, INDEX>) };
};

/* The first `left` of N elements; moved as one where `whole` says that addresses allow it. On soft the compiler sees to
   that, and what is not whole is copied as bytes (coll_exact_steps.h says why). */
template <typename ELEMENT, unsigned N>
SV_DEV_FN void load_unit(ELEMENT (&to)[N], const ELEMENT *from, uint64_t left, bool whole)
{
    static_assert(sizeof to == SV_FOLD_UNIT, "a unit is whole elements");
    if (whole && left >= N) {
#if defined(SV_DEV_SOFT)
        __builtin_memcpy(to, from, sizeof to);
#else
        const sv_dev_pair_t pair = *reinterpret_cast<const sv_dev_pair_t *>(from);
        __builtin_memcpy(to, &pair, sizeof to);
#endif
        return;
    }
    SV_DEV_UNROLL
    for (unsigned e = 0; e < N; e++)
        if (e < left)
            to[e] = from[e];
}

template <typename ELEMENT, unsigned N>
SV_DEV_FN void store_unit(ELEMENT *to, const ELEMENT (&from)[N], uint64_t left, bool whole)
{
    if (!fold_has_gap<ELEMENT>::VALUE && whole && left >= N) {
#if defined(SV_DEV_SOFT)
        __builtin_memcpy(to, from, sizeof from);
#else
        sv_dev_pair_t pair;
        __builtin_memcpy(&pair, from, sizeof pair);
        *reinterpret_cast<sv_dev_pair_t *>(to) = pair;
#endif
        return;
    }
    SV_DEV_UNROLL
    for (unsigned e = 0; e < N; e++)
        if (e < left)
            store_element(to + e, from[e]);
}

/* One unit of a part. */
template <class FOLD>
SV_DEV_FN void fold_unit(const sv_fold_arg_t &arg, uint64_t part, uint64_t first, bool whole)
{
    typedef typename FOLD::element element;
    enum : unsigned { N = SV_FOLD_UNIT / sizeof(element) };
    const uint64_t at = arg.src + part * arg.src_stride + first * sizeof(element), left = arg.count - first;
    element sum[N] = {}, next[N] = {};

    load_unit(sum, reinterpret_cast<const element *>(at), left, whole);
    SV_DEV_ROLLED
    for (unsigned r = 1; r < arg.blocks; r++) {
        load_unit(next, reinterpret_cast<const element *>(at + r * arg.block_stride), left, whole);
        FOLD::combine(sum, next, arg.op);
    }
    if (arg.blocks > 1)
        FOLD::end(sum, arg.divisor);
    store_unit(reinterpret_cast<element *>(arg.dst + part * arg.dst_stride) + first, sum, left, whole);
}

/* Every lane takes the next unit until none is left. */
template <class FOLD>
SV_DEV_FN void fold_units(const sv_fold_arg_t &arg, sv_dev_block_t at)
{
    enum : unsigned { N = SV_FOLD_UNIT / sizeof(typename FOLD::element) };
    const bool whole =
        ((arg.src | arg.dst | arg.block_stride | arg.src_stride | arg.dst_stride) & (SV_FOLD_UNIT - 1)) == 0;
    const uint64_t units = (arg.count + N - 1) / N, stride = static_cast<uint64_t>(at.nblocks) * at.nthreads;

    SV_DEV_ROLLED
    for (unsigned part = 0; part < arg.parts; part++) {
        SV_DEV_ROLLED
        for (uint64_t u = static_cast<uint64_t>(at.block) * at.nthreads + at.tid; u < units; u += stride)
            fold_unit<FOLD>(arg, part, u * N, whole);
    }
}

SV_DEV_FN void fold_body(const sv_fold_arg_t &arg, sv_dev_block_t at)
{
    switch (arg.type) {
    case SV_COLL_INT8:
        return fold_units<fold_integer<uint8_t, int8_t>>(arg, at);
    case SV_COLL_UINT8:
        return fold_units<fold_integer<uint8_t, uint8_t>>(arg, at);
    case SV_FOLD_INT16:
        return fold_units<fold_short<int16_t>>(arg, at);
    case SV_FOLD_UINT16:
        return fold_units<fold_short<uint16_t>>(arg, at);
    case SV_COLL_INT32:
        return fold_units<fold_integer<uint32_t, int32_t>>(arg, at);
    case SV_COLL_UINT32:
        return fold_units<fold_integer<uint32_t, uint32_t>>(arg, at);
    case SV_COLL_INT64:
        return fold_units<fold_integer<uint64_t, int64_t>>(arg, at);
    case SV_COLL_UINT64:
        return fold_units<fold_integer<uint64_t, uint64_t>>(arg, at);
    case SV_COLL_FLOAT32:
        return fold_units<fold_real<uint32_t, 0x7fffffffu, 0x3f800000u>>(arg, at);
    case SV_COLL_FLOAT64:
        return fold_units<fold_real<uint64_t, UINT64_C(0x7fffffffffffffff), UINT64_C(0x3ff0000000000000)>>(arg, at);
    case SV_FOLD_COMPLEX64:
        return fold_units<fold_complex<float>>(arg, at);
    case SV_FOLD_COMPLEX128:
        return fold_units<fold_complex<double>>(arg, at);
    case SV_FOLD_FLOAT32_INT32:
        return fold_units<fold_located<float, int32_t>>(arg, at);
    case SV_FOLD_FLOAT64_INT32:
        return fold_units<fold_located<double, int32_t>>(arg, at);
    case SV_FOLD_INT64_INT32:
        return fold_units<fold_located<int64_t, int32_t>>(arg, at);
    case SV_FOLD_INT32_INT32:
        return fold_units<fold_located<int32_t, int32_t>>(arg, at);
    case SV_FOLD_INT16_INT32:
        return fold_units<fold_located<int16_t, int32_t>>(arg, at);
    case SV_FOLD_FLOAT32_FLOAT32:
        return fold_units<fold_located<float, float>>(arg, at);
    case SV_FOLD_FLOAT64_FLOAT64:
        return fold_units<fold_located<double, double>>(arg, at);
    default:
        return;
    }
}

} // namespace

#endif
