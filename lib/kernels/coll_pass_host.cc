/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See coll_pass_host.h. Compiled for the host alone: a pass with one lane. That takes a word of many types at a time
 * (0.7 GB/s on one core). Plain sums of numbers that the processor has itself go by whole lines of 64 bytes before, and
 * give the same bits: 3 GB/s with the registers that all processors of this make have, 30 GB/s where one register takes
 * a line.
 */
#include "kernels/coll_pass_host.h"

#include <cfenv>
#include <cstring>

#include "kernels/coll_pass.h"

namespace {

enum : unsigned { LINE_BYTES = 64 };
const uint32_t NAN_32 = 0x7fc00000; /* as coll_types.h has it */
const uint64_t NAN_64 = 0x7ff8000000000000u;

/* Lines lie anywhere in memory. A template would forget that of its arguments. */
typedef float float_line __attribute__((vector_size(LINE_BYTES), aligned(1), may_alias));
typedef double double_line __attribute__((vector_size(LINE_BYTES), aligned(1), may_alias));
typedef uint32_t word_line __attribute__((vector_size(LINE_BYTES), aligned(1), may_alias));
typedef uint64_t long_line __attribute__((vector_size(LINE_BYTES), aligned(1), may_alias));

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_WIDE_LINES 1
#define WIDE __attribute__((target("avx512f,avx512dq")))
#endif
#define PLAIN

/* Whole lines of sum, beginning at its first byte; how many bytes these are. Integers wrap. */
#define ADD_INTEGERS(NAME, TARGET, LINE)                                                                               \
    TARGET uint64_t NAME(uint8_t *sum, const uint8_t *first, uint64_t bytes)                                           \
    {                                                                                                                  \
        const uint64_t whole = bytes / LINE_BYTES * LINE_BYTES;                                                        \
        for (uint64_t at = 0; at < whole; at += LINE_BYTES) {                                                          \
            LINE *const to = reinterpret_cast<LINE *>(sum + at);                                                       \
            *to = *reinterpret_cast<const LINE *>(first + at) + *to;                                                   \
        }                                                                                                              \
        return whole;                                                                                                  \
    }

/* The same. A NaN is the one of coll_types.h, whatever the processor makes of two. */
#define ADD_FLOATS(NAME, TARGET, LINE, BITS, NAN_BITS)                                                                 \
    TARGET uint64_t NAME(uint8_t *sum, const uint8_t *first, uint64_t bytes)                                           \
    {                                                                                                                  \
        const uint64_t whole = bytes / LINE_BYTES * LINE_BYTES;                                                        \
        const BITS nan = BITS{} + (NAN_BITS);                                                                          \
        for (uint64_t at = 0; at < whole; at += LINE_BYTES) {                                                          \
            const LINE value =                                                                                         \
                *reinterpret_cast<const LINE *>(first + at) + *reinterpret_cast<const LINE *>(sum + at);               \
            const BITS numbers = reinterpret_cast<BITS>(value == value);                                               \
            *reinterpret_cast<BITS *>(sum + at) = (reinterpret_cast<BITS>(value) & numbers) | (nan & ~numbers);        \
        }                                                                                                              \
        return whole;                                                                                                  \
    }

ADD_INTEGERS(add_words, PLAIN, word_line)
ADD_INTEGERS(add_long_words, PLAIN, long_line)
ADD_FLOATS(add_floats, PLAIN, float_line, word_line, NAN_32)
ADD_FLOATS(add_doubles, PLAIN, double_line, long_line, NAN_64)

struct adders {
    uint64_t (*words)(uint8_t *, const uint8_t *, uint64_t);
    uint64_t (*long_words)(uint8_t *, const uint8_t *, uint64_t);
    uint64_t (*floats)(uint8_t *, const uint8_t *, uint64_t);
    uint64_t (*doubles)(uint8_t *, const uint8_t *, uint64_t);
};

const adders plain = {add_words, add_long_words, add_floats, add_doubles};

#if defined(HAS_WIDE_LINES)
ADD_INTEGERS(add_wide_words, WIDE, word_line)
ADD_INTEGERS(add_wide_long_words, WIDE, long_line)
ADD_FLOATS(add_wide_floats, WIDE, float_line, word_line, NAN_32)
ADD_FLOATS(add_wide_doubles, WIDE, double_line, long_line, NAN_64)

const adders wide = {add_wide_words, add_wide_long_words, add_wide_floats, add_wide_doubles};

const adders &choose_adders()
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? wide : plain;
}
#else
const adders &choose_adders()
{
    return plain;
}
#endif

uint64_t add_lines(const adders &by, uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type)
{
    switch (type) {
    case SV_COLL_FLOAT32: return by.floats(sum, first, bytes);
    case SV_COLL_FLOAT64: return by.doubles(sum, first, bytes);
    case SV_COLL_INT32: case SV_COLL_UINT32: return by.words(sum, first, bytes);
    case SV_COLL_INT64: case SV_COLL_UINT64: return by.long_words(sum, first, bytes);
    default: return 0;
    }
}

/* dst = first op second, divided; dst may be either. */
void pass_words(uint8_t *dst, const uint8_t *first, const uint8_t *second, uint64_t bytes, unsigned type, unsigned op,
                unsigned divisor)
{
    sv_coll_pass_t pass = {};

    pass.src[0] = first;
    pass.src[1] = second;
    pass.dst[0] = dst;
    pass.nsrc = 2;
    pass.ndst = 1;
    pass.bytes = bytes;
    pass.type = static_cast<uint8_t>(type);
    pass.op = static_cast<uint8_t>(sv_coll_op_of(type, op));
    pass.divisor = static_cast<uint16_t>(divisor);
    (void)sv_coll_pass_at(&pass, 0, 1);
}

void pass_by(const adders &by, uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
             unsigned divisor)
{
    const uint64_t added = op == SV_COLL_SUM && divisor == 0 ? add_lines(by, sum, first, bytes, type) : 0;

    if (added < bytes)
        pass_words(sum + added, first + added, sum + added, bytes - added, type, op, divisor);
}

bool has_lines(unsigned type)
{
    return type == SV_COLL_FLOAT32 || type == SV_COLL_FLOAT64 || type == SV_COLL_INT32 || type == SV_COLL_UINT32 ||
           type == SV_COLL_INT64 || type == SV_COLL_UINT64;
}

/* A row of such a type that comes after a sum, by lines; the last one is filled up with zeros, whose sum is not used.
   Adding two numbers gives the same bits in either order. */
void add_row(const adders &by, uint8_t *sum, const uint8_t *row, uint64_t bytes, unsigned type)
{
    const uint64_t added = add_lines(by, sum, row, bytes, type);
    uint8_t line[2][LINE_BYTES] = {};

    if (added == bytes)
        return;
    std::memcpy(line[0], sum + added, bytes - added);
    std::memcpy(line[1], row + added, bytes - added);
    (void)add_lines(by, line[0], line[1], LINE_BYTES, type);
    std::memcpy(sum + added, line[0], bytes - added);
}

void pass_rows(const adders &by, uint8_t *sum, const uint8_t *rows, uint64_t bytes, unsigned nrows, unsigned first,
               unsigned type, unsigned op, unsigned divisor)
{
    std::memcpy(sum, rows + first * bytes, bytes);
    for (unsigned i = 1; i < nrows; i++) {
        const uint8_t *const row = rows + (first + i < nrows ? first + i : first + i - nrows) * bytes;
        const unsigned by_now = i == nrows - 1 ? divisor : 0;
        if (op == SV_COLL_SUM && by_now == 0 && has_lines(type))
            add_row(by, sum, row, bytes, type);
        else
            pass_words(sum, sum, row, bytes, type, op, by_now);
    }
}

} // namespace

extern "C" void sv_coll_pass_host(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                                  unsigned divisor)
{
    /* The same bits on all ranks, whatever a program has set for its own sums: how they are rounded, and whether small
       numbers are flushed to zero. */
    std::fenv_t theirs;
    (void)std::fegetenv(&theirs);
    (void)std::fesetenv(FE_DFL_ENV);
    pass_by(choose_adders(), sum, first, bytes, type, op, divisor);
    (void)std::fesetenv(&theirs);
}

extern "C" void sv_coll_pass_host_rows(uint8_t *sum, const uint8_t *rows, uint64_t bytes, unsigned nrows,
                                       unsigned first, unsigned type, unsigned op, unsigned divisor)
{
    std::fenv_t theirs;
    (void)std::fegetenv(&theirs);
    (void)std::fesetenv(FE_DFL_ENV);
    pass_rows(choose_adders(), sum, rows, bytes, nrows, first, type, op, divisor);
    (void)std::fesetenv(&theirs);
}

extern "C" void sv_coll_pass_host_plain(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                                        unsigned divisor)
{
    pass_by(plain, sum, first, bytes, type, op, divisor);
}
