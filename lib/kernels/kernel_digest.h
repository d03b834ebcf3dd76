/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest's arithmetic for device code: one pass over bytes that copies and sums them, and the record. What the
 * kernels that move or check packets have in common; each includes it in its own translation unit.
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

SV_DEV_FN uint64_t digest_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

/* Contribution of one word; the product distinguishes equal words at different places. */
SV_DEV_FN uint64_t digest_term(uint64_t word, uint64_t key, uint64_t index)
{
    return digest_mix(word ^ (key + index * SV_DIGEST_STEP));
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

/* Stores (if COPY) and sums (if SUM) one unit that was loaded from word index on. */
template <typename ACCESS, bool COPY, bool SUM>
SV_DEV_FN uint64_t digest_unit(const digest_span &span, uint64_t index, typename ACCESS::unit unit)
{
    uint64_t sum = 0;

    if (COPY)
        ACCESS::store(span.dst + 8 * index, unit);
    if (SUM) {
        SV_DEV_UNROLL
        for (unsigned w = 0; w < ACCESS::WORDS; w++)
            sum += digest_term(unit.word[w], span.key, index + w);
    }
    return sum;
}

/* The whole units of a span, several in flight per lane; what is left behind begins at span.begin. */
template <typename ACCESS, bool COPY, bool SUM>
SV_DEV_FN uint64_t digest_units(digest_span &span, sv_dev_block_t at)
{
    const uint64_t step = uint64_t{ACCESS::WORDS} * at.nthreads;
    const uint64_t end = span.end - (span.end - span.begin) % ACCESS::WORDS;
    uint64_t index = span.begin + uint64_t{ACCESS::WORDS} * at.tid;
    uint64_t sum = 0;

    for (; index + (DIGEST_BATCH - 1) * step < end; index += DIGEST_BATCH * step) {
        typename ACCESS::unit unit[DIGEST_BATCH];
        SV_DEV_UNROLL
        for (unsigned b = 0; b < DIGEST_BATCH; b++)
            unit[b] = ACCESS::load(span.src + 8 * (index + b * step));
        SV_DEV_UNROLL
        for (unsigned b = 0; b < DIGEST_BATCH; b++)
            sum += digest_unit<ACCESS, COPY, SUM>(span, index + b * step, unit[b]);
    }
    for (; index < end; index += step)
        sum += digest_unit<ACCESS, COPY, SUM>(span, index, ACCESS::load(span.src + 8 * index));
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
    return digest_term(word, key, begin / 8);
}

/*
 * Copies (unless dst is NULL) and sums (if sums) what block at.block of at.nblocks has of a piece of bytes bytes. key
 * already contains the number of the piece's first word. The sum is that of the calling thread.
 */
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
    if (dst && sums)
        sum = digest_span_sum<true, true>(span, at);
    else if (sums)
        sum = digest_span_sum<false, true>(span, at);
    else if (dst)
        sum = digest_span_sum<true, false>(span, at);
    if (at.tid == 0 && at.block == at.nblocks - 1 && (sums || dst))
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
