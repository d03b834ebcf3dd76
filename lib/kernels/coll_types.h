/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of collectives on one little-endian word of eight bytes, which is as many elements as fit. An
 * accumulator holds them widened, in registers: small integers as 32 bits, floats of 8 and 16 bits as float. So a
 * result is rounded once however many are added. All results are the same on every device.
 *
 *   integers    wrap, also before they are divided; the division is towards zero. Signed and unsigned ones share their
 *               code, but for the order and the division, which are chosen at run time. On NVIDIA they do not: that
 *               takes registers which there are not
 *   floats      NaN is canonical; the lesser or greater of two is NaN if one is, and -0 is less than +0
 */
#ifndef SV_COLL_TYPES_H
#define SV_COLL_TYPES_H

#include <stdint.h>

#include "kernels/coll_args.h"
#include "kernels/coll_float.h"
#include "kernels/kernel_device.h"

namespace {

#if defined(SV_DEV_CUDA)
#define SV_COLL_SHARES_CODE 0
#else
#define SV_COLL_SHARES_CODE 1
#endif

/* What the code of signed integers makes of an operation on unsigned ones. */
enum : unsigned { COLL_UNSIGNED_MIN = SV_COLL_OPS, COLL_UNSIGNED_MAX };

SV_DEV_FN bool coll_is_unsigned(unsigned type)
{
    return type == SV_COLL_UINT8 || type == SV_COLL_UINT32 || type == SV_COLL_UINT64;
}

/* The operation that combine_all() is to be given. */
SV_DEV_FN unsigned sv_coll_op_of(unsigned type, unsigned op)
{
    const bool orders = op == SV_COLL_MIN || op == SV_COLL_MAX;
    return SV_COLL_SHARES_CODE && orders && coll_is_unsigned(type) ? op - SV_COLL_MIN + COLL_UNSIGNED_MIN : op;
}

/* Integers are computed as unsigned, which wraps. Where code is shared those of 8 bits are kept with their sign, which
   leaves the order of unsigned ones as it is. */
template <unsigned BITS_, bool UNSIGNED>
struct coll_integer {
    enum : unsigned { BITS = BITS_, COUNT = 64 / BITS, TWO_ORDERS = SV_COLL_SHARES_CODE };
    typedef uint32_t wide;

    SV_DEV_FN wide wrap(uint32_t bits)
    {
        const uint32_t top = bits << (32 - BITS);
        return UNSIGNED ? top >> (32 - BITS) : static_cast<uint32_t>(static_cast<int32_t>(top) >> (32 - BITS));
    }
    SV_DEV_FN void unpack(wide (&value)[COUNT], uint64_t word)
    {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e++)
            value[e] = wrap(static_cast<uint32_t>(word >> BITS * e));
    }
    SV_DEV_FN uint64_t pack(const wide (&value)[COUNT])
    {
        uint64_t word = 0;

        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e++)
            word |= static_cast<uint64_t>(BITS == 32 ? value[e] : value[e] & 0xff) << BITS * e;
        return word;
    }
    SV_DEV_FN wide lesser(wide a, wide b)
    {
        return (UNSIGNED ? a < b : static_cast<int32_t>(a) < static_cast<int32_t>(b)) ? a : b;
    }
    SV_DEV_FN wide greater(wide a, wide b)
    {
        return (UNSIGNED ? a < b : static_cast<int32_t>(a) < static_cast<int32_t>(b)) ? b : a;
    }
    /* Divides 8 bits by multiplication. It is exact, because 255 times the factor's excess stays below one part of the
       divisor. */
    SV_DEV_FN wide divide(wide a, unsigned divisor, unsigned type)
    {
        const bool is_unsigned = SV_COLL_SHARES_CODE ? coll_is_unsigned(type) : UNSIGNED;
        const uint32_t bits = is_unsigned && BITS == 8 && !UNSIGNED ? a & 0xff : wrap(a);
        const bool negative = !is_unsigned && static_cast<int32_t>(bits) < 0;
        const uint32_t size = negative ? 0 - bits : bits;
        const uint32_t part = BITS == 8 ? size * (0xffffffu / divisor + 1) >> 24 : size / divisor;
        return negative ? 0 - part : part;
    }
};

template <bool UNSIGNED>
struct coll_integer<64, UNSIGNED> {
    enum : unsigned { BITS = 64, COUNT = 1, TWO_ORDERS = SV_COLL_SHARES_CODE };
    typedef uint64_t wide;

    SV_DEV_FN void unpack(wide (&value)[1], uint64_t word)
    {
        value[0] = word;
    }
    SV_DEV_FN uint64_t pack(const wide (&value)[1])
    {
        return value[0];
    }
    SV_DEV_FN wide lesser(wide a, wide b)
    {
        return (UNSIGNED ? a < b : static_cast<int64_t>(a) < static_cast<int64_t>(b)) ? a : b;
    }
    SV_DEV_FN wide greater(wide a, wide b)
    {
        return (UNSIGNED ? a < b : static_cast<int64_t>(a) < static_cast<int64_t>(b)) ? b : a;
    }
    SV_DEV_FN wide divide(wide a, unsigned divisor, unsigned type)
    {
        const bool is_unsigned = SV_COLL_SHARES_CODE ? coll_is_unsigned(type) : UNSIGNED;
        const bool negative = !is_unsigned && static_cast<int64_t>(a) < 0;
        const uint64_t part = (negative ? 0 - a : a) / divisor;
        return negative ? 0 - part : part;
    }
};

/* Integers in the order of the numbers, -0 below +0, and back. */
SV_DEV_FN int32_t coll_order(int32_t bits)
{
    return bits ^ static_cast<int32_t>(static_cast<uint32_t>(bits >> 31) >> 1);
}

SV_DEV_FN int64_t coll_order(int64_t bits)
{
    return bits ^ static_cast<int64_t>(static_cast<uint64_t>(bits >> 63) >> 1);
}

SV_DEV_FN int32_t coll_ordered(float value)
{
    return coll_order(static_cast<int32_t>(coll_bits_of(value)));
}

SV_DEV_FN int64_t coll_ordered(double value)
{
    return coll_order(static_cast<int64_t>(coll_bits_of(value)));
}

SV_DEV_FN float coll_number(int32_t ordered)
{
    return coll_float_of(static_cast<uint32_t>(coll_order(ordered)));
}

SV_DEV_FN double coll_number(int64_t ordered)
{
    return coll_double_of(static_cast<uint64_t>(coll_order(ordered)));
}

/* Few comparisons of floats: on AMD each takes two scalar registers, and elements are compared many at a time. */
template <typename WIDE>
SV_DEV_FN WIDE coll_lesser(WIDE a, WIDE b)
{
    const auto first = coll_ordered(a), second = coll_ordered(b);
    const WIDE number = coll_number(first < second ? first : second);
    return a != a || b != b ? static_cast<WIDE>(coll_float_of(0x7fc00000)) : number;
}

template <typename WIDE>
SV_DEV_FN WIDE coll_greater(WIDE a, WIDE b)
{
    const auto first = coll_ordered(a), second = coll_ordered(b);
    const WIDE number = coll_number(first < second ? second : first);
    return a != a || b != b ? static_cast<WIDE>(coll_float_of(0x7fc00000)) : number;
}

#if defined(SV_DEV_CUDA)

SV_DEV_FN float coll_lesser(float a, float b)
{
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

SV_DEV_FN float coll_greater(float a, float b)
{
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

#endif

/* What all floats have in common. */
template <typename WIDE>
struct coll_float {
    enum : unsigned { TWO_ORDERS = 0 };
    typedef WIDE wide;

    SV_DEV_FN wide lesser(wide a, wide b)
    {
        return coll_lesser(a, b);
    }
    SV_DEV_FN wide greater(wide a, wide b)
    {
        return coll_greater(a, b);
    }
    SV_DEV_FN wide divide(wide a, unsigned divisor, unsigned)
    {
        return a / static_cast<wide>(divisor);
    }
};

template <unsigned TYPE>
struct coll_small : coll_float<float> {
    enum : unsigned { BITS = coll_format<TYPE>::BITS, COUNT = 64 / BITS };

    SV_DEV_FN void unpack(float (&value)[COUNT], uint64_t word)
    {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e += 2)
            coll_pair<TYPE>::widen(static_cast<uint32_t>(word >> BITS * e), value[e], value[e + 1]);
    }
    SV_DEV_FN uint64_t pack(const float (&value)[COUNT])
    {
        uint64_t word = 0;

        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e += 2)
            word |= static_cast<uint64_t>(coll_pair<TYPE>::narrow(value[e], value[e + 1])) << BITS * e;
        return word;
    }
};

template <unsigned TYPE>
struct coll_element;
template <>
struct coll_element<SV_COLL_INT8> : coll_integer<8, false> {};
template <>
struct coll_element<SV_COLL_INT32> : coll_integer<32, false> {};
template <>
struct coll_element<SV_COLL_INT64> : coll_integer<64, false> {};
template <>
struct coll_element<SV_COLL_UINT8> : coll_integer<8, true> {};
template <>
struct coll_element<SV_COLL_UINT32> : coll_integer<32, true> {};
template <>
struct coll_element<SV_COLL_UINT64> : coll_integer<64, true> {};
template <>
struct coll_element<SV_COLL_FLOAT16> : coll_small<SV_COLL_FLOAT16> {};
template <>
struct coll_element<SV_COLL_BFLOAT16> : coll_small<SV_COLL_BFLOAT16> {};
template <>
struct coll_element<SV_COLL_E4M3> : coll_small<SV_COLL_E4M3> {};
template <>
struct coll_element<SV_COLL_E5M2> : coll_small<SV_COLL_E5M2> {};

template <>
struct coll_element<SV_COLL_FLOAT32> : coll_float<float> {
    enum : unsigned { BITS = 32, COUNT = 2 };

    SV_DEV_FN void unpack(float (&value)[2], uint64_t word)
    {
        value[0] = coll_float_of(static_cast<uint32_t>(word));
        value[1] = coll_float_of(static_cast<uint32_t>(word >> 32));
    }
    SV_DEV_FN uint32_t bits(float value)
    {
        return value != value ? 0x7fc00000 : coll_bits_of(value);
    }
    SV_DEV_FN uint64_t pack(const float (&value)[2])
    {
        return bits(value[0]) | static_cast<uint64_t>(bits(value[1])) << 32;
    }
};

template <>
struct coll_element<SV_COLL_FLOAT64> : coll_float<double> {
    enum : unsigned { BITS = 64, COUNT = 1 };

    SV_DEV_FN void unpack(double (&value)[1], uint64_t word)
    {
        value[0] = coll_double_of(word);
    }
    SV_DEV_FN uint64_t pack(const double (&value)[1])
    {
        return value[0] != value[0] ? 0x7ff8000000000000u : coll_bits_of(value[0]);
    }
};

template <unsigned TYPE>
struct sv_coll_word {
    typedef coll_element<TYPE> element;
    typedef typename element::wide wide;
    enum : unsigned { BITS = element::BITS, COUNT = element::COUNT };

    struct acc {
        wide value[COUNT];
    };

    SV_DEV_FN void begin(acc &a, uint64_t word)
    {
        element::unpack(a.value, word);
    }

    template <unsigned OP>
    SV_DEV_FN void combine(acc &a, const acc &b)
    {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e++) {
            if (OP == SV_COLL_SUM)
                a.value[e] = a.value[e] + b.value[e];
            else if (OP == SV_COLL_PROD)
                a.value[e] = a.value[e] * b.value[e];
            else if (OP == SV_COLL_MIN)
                a.value[e] = element::lesser(a.value[e], b.value[e]);
            else if (OP == COLL_UNSIGNED_MIN)
                a.value[e] = a.value[e] < b.value[e] ? a.value[e] : b.value[e];
            else if (OP == COLL_UNSIGNED_MAX)
                a.value[e] = a.value[e] < b.value[e] ? b.value[e] : a.value[e];
            else
                a.value[e] = element::greater(a.value[e], b.value[e]);
        }
    }

    /* a = a op b for N words, which are begun already; without op, a = b. The operation is the same for all lanes, and
       what sv_coll_op_of() gives. */
    template <unsigned N>
    SV_DEV_FN void combine_all(acc *a, const acc (&b)[N], unsigned op)
    {
#define SV_COLL_EACH(WHAT)               \
    {                                    \
        SV_DEV_UNROLL                    \
        for (unsigned w = 0; w < N; w++) \
            WHAT;                        \
        break;                           \
    }
        switch (op) {
        case 0:
            SV_COLL_EACH(a[w] = b[w]);
        case SV_COLL_SUM:
            SV_COLL_EACH(combine<SV_COLL_SUM>(a[w], b[w]));
        case SV_COLL_PROD:
            SV_COLL_EACH(combine<SV_COLL_PROD>(a[w], b[w]));
        case SV_COLL_MIN:
            SV_COLL_EACH(combine<SV_COLL_MIN>(a[w], b[w]));
#if SV_COLL_SHARES_CODE
        case COLL_UNSIGNED_MIN:
            if constexpr (element::TWO_ORDERS != 0)
                SV_COLL_EACH(combine<COLL_UNSIGNED_MIN>(a[w], b[w]));
            break;
        case COLL_UNSIGNED_MAX:
            if constexpr (element::TWO_ORDERS != 0)
                SV_COLL_EACH(combine<COLL_UNSIGNED_MAX>(a[w], b[w]));
            break;
#endif
        default:
            SV_COLL_EACH(combine<SV_COLL_MAX>(a[w], b[w]));
        }
#undef SV_COLL_EACH
    }

    /* a = a op word. */
    SV_DEV_FN void add(acc &a, uint64_t word, unsigned op)
    {
        acc b[1];

        begin(b[0], word);
        combine_all(&a, b, op);
    }

    /* type: of the elements, because this one may be the signed kin of it. */
    SV_DEV_FN void divide(acc &a, unsigned divisor, unsigned type)
    {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e++)
            a.value[e] = element::divide(a.value[e], divisor, type);
    }

    /* The result. divisor is below 2^16; 0 or 1: none. type: as above. */
    SV_DEV_FN uint64_t end(const acc &a, unsigned divisor, unsigned type)
    {
        acc quotient = a;

        if (divisor > 1)
            divide(quotient, divisor, type);
        return element::pack(quotient.value);
    }

    /* Each element times the scalar, which is the low bits of its word, and rounded to the type. */
    SV_DEV_FN void multiply(acc &a, uint64_t scalar_bits)
    {
        acc factor;

        begin(factor, scalar_bits);
        SV_DEV_UNROLL
        for (unsigned e = 0; e < COUNT; e++)
            a.value[e] = a.value[e] * factor.value[0];
        begin(a, element::pack(a.value));
    }

    SV_DEV_FN uint64_t scale(uint64_t word, uint64_t scalar_bits)
    {
        acc a;

        begin(a, word);
        multiply(a, scalar_bits);
        return element::pack(a.value);
    }
};

/* Calls f.run<TYPE>(), whatever the type, where code is shared with the signed one of unsigned integers; nothing for
   none. */
template <class F>
SV_DEV_FN void sv_coll_with_type(unsigned type, F &&f)
{
    switch (type) {
#define SV_COLL_CASE(TYPE)          \
    case TYPE:                      \
        f.template run<TYPE>();     \
        break
#if SV_COLL_SHARES_CODE
    case SV_COLL_UINT8:
        SV_COLL_CASE(SV_COLL_INT8);
    case SV_COLL_UINT32:
        SV_COLL_CASE(SV_COLL_INT32);
    case SV_COLL_UINT64:
        SV_COLL_CASE(SV_COLL_INT64);
#else
        SV_COLL_CASE(SV_COLL_INT8);
        SV_COLL_CASE(SV_COLL_UINT8);
        SV_COLL_CASE(SV_COLL_INT32);
        SV_COLL_CASE(SV_COLL_UINT32);
        SV_COLL_CASE(SV_COLL_INT64);
        SV_COLL_CASE(SV_COLL_UINT64);
#endif
        SV_COLL_CASE(SV_COLL_FLOAT16);
        SV_COLL_CASE(SV_COLL_BFLOAT16);
        SV_COLL_CASE(SV_COLL_FLOAT32);
        SV_COLL_CASE(SV_COLL_FLOAT64);
        SV_COLL_CASE(SV_COLL_E4M3);
        SV_COLL_CASE(SV_COLL_E5M2);
#undef SV_COLL_CASE
    default:
        break;
    }
}

/* Of an element; 0 for none. */
SV_DEV_FN unsigned sv_coll_type_bytes(unsigned type)
{
    switch (type) {
    case SV_COLL_INT8:
    case SV_COLL_UINT8:
    case SV_COLL_E4M3:
    case SV_COLL_E5M2:
        return 1;
    case SV_COLL_FLOAT16:
    case SV_COLL_BFLOAT16:
        return 2;
    case SV_COLL_INT32:
    case SV_COLL_UINT32:
    case SV_COLL_FLOAT32:
        return 4;
    case SV_COLL_INT64:
    case SV_COLL_UINT64:
    case SV_COLL_FLOAT64:
        return 8;
    default:
        return 0;
    }
}

} // namespace

#endif
