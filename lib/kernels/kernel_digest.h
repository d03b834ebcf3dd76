/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest's arithmetic for device code: one pass over bytes that copies and sums them, and the record. The kernels
 * that move or check packets share it; each includes it in its own translation unit.
 *
 * Each block has a contiguous range of words, so that the one lane of a soft block streams and the lanes of a GPU block
 * coalesce. The bytes that are stored are the ones that were summed: nothing is read twice.
 */
#ifndef SV_KERNEL_DIGEST_H
#define SV_KERNEL_DIGEST_H

#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/kernel_device.h"

namespace {

enum : unsigned {
    DIGEST_BATCH = 4,        /* units that a lane loads before it uses the first */
    DIGEST_RANGE_WORDS = 64  /* blocks divide a packet in multiples of this, which keeps their alignment equal */
};
#define SV_DIGEST_STEP uint64_t{0x9e3779b97f4a7c15u} /* added to the key from word to word */

/* The product modulo 2^64. On NVIDIA written out: the compiler takes four steps to add up three partial products. */
SV_DEV_FN uint64_t digest_multiply(uint64_t x)
{
    const uint64_t factor = 0xd6e8feb86659fd93u;

#if defined(SV_DEV_CUDA)
    uint64_t product;
    asm("{\n"
        ".reg .u32 low, high, in_low, in_high;\n"
        ".reg .u64 wide;\n"
        "mov.b64 {in_low, in_high}, %1;\n"
        "mul.wide.u32 wide, in_low, %2;\n"
        "mov.b64 {low, high}, wide;\n"
        "mad.lo.u32 high, in_low, %3, high;\n"
        "mad.lo.u32 high, in_high, %2, high;\n"
        "mov.b64 %0, {low, high};\n"
        "}"
        : "=l"(product)
        : "l"(x), "n"(static_cast<uint32_t>(factor)), "n"(static_cast<uint32_t>(factor >> 32)));
    return product;
#else
    return x * factor;
#endif
}

SV_DEV_FN uint64_t digest_mix(uint64_t x)
{
    x = digest_multiply(x ^ x >> 32);
    x = digest_multiply(x ^ x >> 32);
    return x ^ x >> 32;
}

/* Contribution of one word; key contains the word's number, which distinguishes equal words at different places. */
SV_DEV_FN uint64_t digest_term(uint64_t word, uint64_t key)
{
    return digest_mix(word ^ key);
}

SV_DEV_FN uint64_t digest_finish(uint64_t key, uint64_t sum)
{
    uint64_t digest = digest_mix(key ^ sum);
    return digest ? digest : 1;
}

/* How a lane moves a unit: one word at any address, or two at addresses that are multiples of 16. */
struct single_access {
    enum : unsigned { WORDS = 1 };
    struct unit {
        uint64_t word[1];
    };
    SV_DEV_FN unit load(const uint8_t *ptr)
    {
        return unit{{sv_dev_load_u64_any(ptr)}};
    }
    SV_DEV_FN void store(uint8_t *ptr, unit value)
    {
        sv_dev_store_u64_any(ptr, value.word[0]);
    }
};

struct pair_access {
    enum : unsigned { WORDS = 2 };
    typedef sv_dev_pair_t unit;
    SV_DEV_FN unit load(const uint8_t *ptr)
    {
        return *reinterpret_cast<const sv_dev_pair_t *>(ptr);
    }
    SV_DEV_FN void store(uint8_t *ptr, unit value)
    {
        *reinterpret_cast<sv_dev_pair_t *>(ptr) = value;
    }
};

/* The piece of a launch that one block works on. key already contains the number of the first word. */
struct digest_span {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t begin, end; /* words of src */
    uint64_t key;
};

/* Stores (if COPY) one unit at dst and sums it (if SUM); key contains the number of its first word. */
template <typename ACCESS, bool COPY, bool SUM>
SV_DEV_FN uint64_t digest_unit(uint8_t *dst, uint64_t key, typename ACCESS::unit unit)
{
    uint64_t sum = 0;

    if (COPY)
        ACCESS::store(dst, unit);
    if (SUM) {
        SV_DEV_UNROLL
        for (unsigned w = 0; w < ACCESS::WORDS; w++)
            sum += digest_term(unit.word[w], key + w * SV_DIGEST_STEP);
    }
    return sum;
}

/* The whole units of a span, several in flight per lane. The rest begins at span.begin. */
template <typename ACCESS, bool COPY, bool SUM>
SV_DEV_FN uint64_t digest_units(digest_span &span, sv_dev_block_t at)
{
    const uint32_t step = 8 * ACCESS::WORDS * at.nthreads; /* bytes from one unit of a lane to its next */
    const uint64_t key_step = step / 8 * SV_DIGEST_STEP;   /* added, since a product for every word is dear */
    const uint64_t end = span.end - (span.end - span.begin) % ACCESS::WORDS;
    const uint64_t first = span.begin + uint64_t{ACCESS::WORDS} * at.tid;
    const uint8_t *src = span.src + 8 * first;
    uint8_t *dst = span.dst + (COPY ? 8 * first : 0);
    uint64_t key = span.key + first * SV_DIGEST_STEP;
    uint64_t left = first < end ? (8 * (end - first) + step - 1) / step : 0;
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (; left >= DIGEST_BATCH; left -= DIGEST_BATCH) {
        typename ACCESS::unit unit[DIGEST_BATCH];
        SV_DEV_UNROLL
        for (unsigned b = 0; b < DIGEST_BATCH; b++, src += step)
            unit[b] = ACCESS::load(src);
        SV_DEV_UNROLL
        for (unsigned b = 0; b < DIGEST_BATCH; b++, dst += COPY ? step : 0, key += key_step)
            sum += digest_unit<ACCESS, COPY, SUM>(dst, key, unit[b]);
    }
    SV_DEV_ROLLED
    for (; left > 0; left--, src += step, dst += COPY ? step : 0, key += key_step)
        sum += digest_unit<ACCESS, COPY, SUM>(dst, key, ACCESS::load(src));
    span.begin = end;
    return sum;
}

template <bool COPY, bool SUM>
SV_DEV_FN uint64_t digest_span_sum(digest_span span, sv_dev_block_t at)
{
    uint64_t sum = 0;
#if defined(SV_DEV_GPU)
    uintptr_t address = reinterpret_cast<uintptr_t>(span.src) | (COPY ? reinterpret_cast<uintptr_t>(span.dst) : 0);
    if ((address & 15) == 0)
        sum = digest_units<pair_access, COPY, SUM>(span, at);
#endif
    return sum + digest_units<single_access, COPY, SUM>(span, at);
}

/* The last, partial word, byte by byte: no byte past the end is read or written. */
SV_DEV_FN uint64_t digest_tail(const uint8_t *src, uint8_t *dst, uint64_t bytes, uint64_t key)
{
    uint64_t begin = bytes & ~uint64_t{7};
    uint64_t word = 0;

    if (begin == bytes)
        return 0;
    for (uint64_t b = begin; b < bytes; b++) {
        uint8_t byte = src[b];
        word |= static_cast<uint64_t>(byte) << 8 * (b - begin);
        if (dst)
            dst[b] = byte;
    }
    return digest_term(word, key + begin / 8 * SV_DIGEST_STEP);
}

/*
 * Copies (unless dst is NULL) and sums (if sums) what block at.block of at.nblocks has of a piece of bytes bytes. key
 * already contains the number of the piece's first word. The sum is that of the calling thread. COPIES: dst is never
 * NULL.
 */
template <bool COPIES = false>
SV_DEV_FN uint64_t digest_block(const uint8_t *src, uint8_t *dst, uint64_t bytes, uint64_t key, bool sums,
                                sv_dev_block_t at)
{
    const uint64_t words = bytes / 8;
    const uint64_t ranges = (words + DIGEST_RANGE_WORDS - 1) / DIGEST_RANGE_WORDS;
    const uint64_t range_words = (ranges + at.nblocks - 1) / at.nblocks * DIGEST_RANGE_WORDS;
    digest_span span{src, dst, range_words * at.block, range_words * (at.block + uint64_t{1}), key};
    uint64_t sum = 0;

    span.begin = span.begin < words ? span.begin : words;
    span.end = span.end < words ? span.end : words;
    const bool copies = COPIES || dst;
    if (copies && sums)
        sum = digest_span_sum<true, true>(span, at);
    else if (sums)
        sum = digest_span_sum<false, true>(span, at);
    else if (copies)
        sum = digest_span_sum<true, false>(span, at);
    if (at.tid == 0 && at.block == at.nblocks - 1 && (sums || copies))
        sum += digest_tail(src, dst, bytes, span.key);
    return sum;
}

/* The eight words of a record, as they lie in memory. */
struct record_words {
    uint64_t word[8];
};

SV_DEV_FN record_words record_words_of(const sv_record_t &record)
{
    record_words words = {{record.magic | static_cast<uint64_t>(record.version) << 32 |
                               static_cast<uint64_t>(record.kind) << 48 | static_cast<uint64_t>(record.attempt) << 56,
                           record.epoch, record.exchange, record.index | static_cast<uint64_t>(record.tag) << 32,
                           record.source | static_cast<uint64_t>(record.destination) << 32, record.bytes, record.salt,
                           record.digest}};
    return words;
}

SV_DEV_FN void record_store(uint8_t *to, const record_words &words)
{
    SV_DEV_UNROLL
    for (unsigned w = 0; w < 8; w++)
        sv_dev_store_u64_any(to + 8 * w, words.word[w]);
}

SV_DEV_FN record_words record_load(const uint8_t *from)
{
    record_words words;

    SV_DEV_UNROLL
    for (unsigned w = 0; w < 8; w++)
        words.word[w] = sv_dev_load_u64_any(from + 8 * w);
    return words;
}

/* Whether a record says what it must: everything but the digest and the attempt, which nobody reads there. */
SV_DEV_FN bool record_is(const record_words &seen, const record_words &want)
{
    uint64_t other = 0;

    SV_DEV_UNROLL
    for (unsigned w = 0; w < 7; w++)
        other |= (want.word[w] ^ seen.word[w]) & (w == 0 ? ~uint64_t{0} >> 8 : ~uint64_t{0});
    return other == 0;
}

} // namespace

#endif
