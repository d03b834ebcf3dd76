/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One pass over memory: every destination becomes the reduction of all sources, element by element and in the order of
 * the sources. Any of them may lie on another device.
 *
 *   bytes:  | head |  packs of 16 bytes, several in flight per lane  | tail |
 *
 * Packs need addresses that are congruent modulo 16; head and tail, and everything where addresses are not, go by words
 * of up to eight bytes. All loads of an element come before its stores, in the same lane, so a destination may be a
 * source. No byte beside the pass is read or written.
 */
#ifndef SV_COLL_PASS_H
#define SV_COLL_PASS_H

#include <stdint.h>

#include "kernels/coll_args.h"
#include "kernels/coll_types.h"
#include "kernels/coll_words.h"
#include "kernels/kernel_device.h"
#include "kernels/kernel_digest.h"

/* Lies where lanes can index it: in memory of the block or of the launch, not in a lane's own variables. */
typedef struct sv_coll_pass {
    const uint8_t *src[SV_COLL_RANKS];
    uint8_t *dst[SV_COLL_RANKS + 1];
    uint64_t scalar[SV_COLL_RANKS]; /* of the source, in the low bits */
    uint32_t premul;                /* bit s: source s is multiplied by its scalar, and rounded, first */
    uint32_t nsrc, ndst;            /* at least one source */
    uint64_t bytes;                 /* whole elements */
    uint8_t type, op;               /* op: of sv_coll_op_of() */
    uint16_t divisor;               /* of the result; 0 or 1: none */
    uint32_t digest;                /* whether the result is summed */
    uint64_t key, first_word;       /* of the digest, and of the result in it */
    uint32_t taken, given;          /* bits: sources that are summed as they are read, each with a key of its own */
    uint64_t key_of[SV_COLL_RANKS];
    uint32_t stretches;             /* whether nothing is moved: each source is summed by itself (coll_stretches.h), */
    uint64_t bytes_of[SV_COLL_RANKS]; /* and so long is it */
} sv_coll_pass_t;

/* Sums of digests, of a lane: of the result and of the sources `given`; of the sources `taken`. */
typedef struct sv_coll_sums {
    uint64_t given, taken;
} sv_coll_sums_t;

namespace {

enum : unsigned {
#if defined(SV_DEV_CUDA) && __CUDA_ARCH__ < 900 /* whose code for this takes more registers */
    COLL_FEW = 2,
#else
    COLL_FEW = 4,       /* sources that are all loaded before the first two are added */
#endif
    COLL_COPY_UNITS = 8 /* packs that a lane has in flight where it only copies */
};

/* The packs of a lane's turn: how many bytes lie between them, and from the first one to where the packs end. */
struct coll_turn {
    uint32_t step, left;

    SV_DEV_FN bool has(const coll_turn &turn, unsigned unit)
    {
        return turn.left > unit * turn.step;
    }
};

template <unsigned UNITS>
SV_DEV_FN void coll_load_units(sv_dev_pair_t (&value)[UNITS], const uint8_t *from, const coll_turn &turn)
{
    SV_DEV_UNROLL
    for (unsigned u = 0; u < UNITS; u++)
        value[u] = coll_turn::has(turn, u) ? pair_access::load(from + u * turn.step) : sv_dev_pair_t{{0, 0}};
}

/* The terms of a digest; key contains the number of the first word. */
template <unsigned UNITS>
SV_DEV_FN uint64_t coll_sum_units(const sv_dev_pair_t (&value)[UNITS], uint64_t key, const coll_turn &turn)
{
    const uint64_t key_step = turn.step / 8 * SV_DIGEST_STEP;
    uint64_t sum = 0;

    SV_DEV_UNROLL
    for (unsigned u = 0; u < UNITS; u++, key += key_step)
        if (coll_turn::has(turn, u))
            sum += digest_unit<pair_access, false, true>(nullptr, key, value[u]);
    return sum;
}

/* Adds source s, as it was read, to the sums that it belongs to. */
template <unsigned UNITS>
SV_DEV_FN void coll_sum_source(sv_coll_sums_t &sums, const sv_coll_pass_t &pass, unsigned s, uint64_t at,
                               const sv_dev_pair_t (&value)[UNITS], const coll_turn &turn)
{
    const uint32_t taken = pass.taken >> s & 1;
    if (!(taken | (pass.given >> s & 1)))
        return;
    const uint64_t sum = coll_sum_units(value, pass.key_of[s] + at / 8 * SV_DIGEST_STEP, turn);
    sums.taken += taken ? sum : 0;
    sums.given += taken ? 0 : sum;
}

SV_DEV_FN void coll_sum_word(sv_coll_sums_t &sums, const sv_coll_pass_t &pass, unsigned s, uint64_t at, uint64_t value)
{
    const uint32_t taken = pass.taken >> s & 1;
    if (!(taken | (pass.given >> s & 1)))
        return;
    const uint64_t sum = digest_term(value, pass.key_of[s] + at / 8 * SV_DIGEST_STEP);
    sums.taken += taken ? sum : 0;
    sums.given += taken ? 0 : sum;
}

/* What becomes of a lane's turn, and of one word, where there is nothing to compute. */
struct coll_copy {
    enum : unsigned { UNITS = COLL_COPY_UNITS };

    SV_DEV_FN void units(sv_dev_pair_t (&value)[UNITS], const sv_coll_pass_t &pass, uint64_t at, const coll_turn &turn,
                         sv_coll_sums_t &sums)
    {
        coll_load_units(value, pass.src[0] + at, turn);
        coll_sum_source(sums, pass, 0, at, value, turn);
    }
    SV_DEV_FN uint64_t word(const sv_coll_pass_t &pass, uint64_t at, unsigned bytes, sv_coll_sums_t &sums)
    {
        const uint64_t value = sv_coll_word_load_here(pass.src[0] + at, bytes);
        coll_sum_word(sums, pass, 0, at, value);
        return value;
    }
};

/* As above, for a reduction. The numbers are what the registers of a lane allow, and keep the code of all types small:
   each element of 8 bits takes a register when widened. */
template <unsigned TYPE, bool PAIR>
struct coll_reduce {
    typedef sv_coll_word<TYPE> words;
    typedef typename words::acc acc;
    enum : unsigned {
        UNITS = PAIR && words::BITS != 8 ? 4 : 2, /* two sources leave room for more of each */
        FEW = words::BITS == 8 ? 0u : PAIR ? 2u : unsigned{COLL_FEW},
        WORDS = 2 * UNITS,
        GROUP = words::BITS >= 32 ? WORDS : 16 / words::COUNT,   /* words that are wide twice at a time */
        DIVIDED = words::BITS == 64 ? 2 : 8 / words::COUNT       /* words of which the code of a division is for */
    };

    SV_DEV_FN void begin(acc (&b)[GROUP], const sv_dev_pair_t (&value)[UNITS], unsigned first)
    {
        SV_DEV_UNROLL
        for (unsigned w = 0; w < GROUP; w++)
            words::begin(b[w], value[(first + w) / 2].word[(first + w) % 2]);
    }
    /* All loads come before the first addition. */
    SV_DEV_FN void few(acc (&a)[WORDS], const sv_coll_pass_t &pass, uint64_t at, const coll_turn &turn,
                       sv_coll_sums_t &sums)
    {
        sv_dev_pair_t value[FEW > 0 ? FEW : 1u][UNITS] = {};
        const unsigned op = pass.op, nsrc = pass.nsrc;

        SV_DEV_UNROLL
        for (unsigned s = 0; s < FEW; s++)
            if (s < nsrc)
                coll_load_units(value[s], pass.src[s] + at, turn);
        SV_DEV_UNROLL
        for (unsigned s = 0; s < FEW; s++)
            if (s < nsrc)
                coll_sum_source(sums, pass, s, at, value[s], turn);
        SV_DEV_UNROLL
        for (unsigned w = 0; w < WORDS; w++)
            words::begin(a[w], value[0][w / 2].word[w % 2]);
        SV_DEV_UNROLL
        for (unsigned s = 1; s < FEW; s++)
            if (s < nsrc)
                add(a, value[s], op);
    }
    SV_DEV_FN void add(acc (&a)[WORDS], const sv_dev_pair_t (&value)[UNITS], unsigned op)
    {
        SV_DEV_UNROLL
        for (unsigned first = 0; first < WORDS; first += GROUP) {
            acc b[GROUP];
            begin(b, value, first);
            words::combine_all(a + first, b, op);
        }
    }
    /* One source after the other; the next one is on its way while one is added. */
    SV_DEV_FN void many(acc (&a)[WORDS], const sv_coll_pass_t &pass, uint64_t at, const coll_turn &turn,
                        sv_coll_sums_t &sums)
    {
        sv_dev_pair_t value[UNITS], next[UNITS];

        coll_load_units(next, pass.src[0] + at, turn);
        SV_DEV_ROLLED
        for (unsigned s = 0; s < pass.nsrc; s++) {
            SV_DEV_UNROLL
            for (unsigned u = 0; u < UNITS; u++)
                value[u] = next[u];
            if (s + 1 < pass.nsrc)
                coll_load_units(next, pass.src[s + 1] + at, turn);
            coll_sum_source(sums, pass, s, at, value, turn);
            SV_DEV_UNROLL
            for (unsigned first = 0; first < WORDS; first += GROUP) {
                acc b[GROUP];
                begin(b, value, first);
                if (pass.premul >> s & 1)
                    multiply(b, pass.scalar[s]);
                words::combine_all(a + first, b, s == 0 ? 0 : pass.op);
            }
        }
    }
    SV_DEV_FN void multiply(acc (&b)[GROUP], uint64_t scalar)
    {
        SV_DEV_UNROLL
        for (unsigned w = 0; w < GROUP; w++)
            words::multiply(b[w], scalar);
    }
    /* A division is much code, so there is one for a few words, which take turns in the first place. */
    SV_DEV_FN void divide(acc (&a)[WORDS], unsigned divisor, unsigned type)
    {
        SV_DEV_ROLLED
        for (unsigned turns = 0; turns < WORDS; turns += DIVIDED) {
            acc done[DIVIDED];
            SV_DEV_UNROLL
            for (unsigned w = 0; w < DIVIDED; w++) {
                done[w] = a[w];
                words::divide(done[w], divisor, type);
            }
            SV_DEV_UNROLL
            for (unsigned w = 0; w < WORDS; w++)
                a[w] = w + DIVIDED < WORDS ? a[w + DIVIDED] : done[w + DIVIDED - WORDS];
        }
    }
    SV_DEV_FN void units(sv_dev_pair_t (&value)[UNITS], const sv_coll_pass_t &pass, uint64_t at, const coll_turn &turn,
                         sv_coll_sums_t &sums)
    {
        acc a[WORDS] = {};

        if constexpr (PAIR) {
            few(a, pass, at, turn, sums);
        } else if constexpr (FEW > 0) {
            if (pass.nsrc <= FEW && pass.premul == 0)
                few(a, pass, at, turn, sums);
            else
                many(a, pass, at, turn, sums);
        } else {
            many(a, pass, at, turn, sums);
        }
        if (pass.divisor > 1)
            divide(a, pass.divisor, pass.type);
        SV_DEV_UNROLL
        for (unsigned w = 0; w < WORDS; w++)
            value[w / 2].word[w % 2] = words::end(a[w], 0, TYPE);
    }
    SV_DEV_FN uint64_t word(const sv_coll_pass_t &pass, uint64_t at, unsigned bytes, sv_coll_sums_t &sums)
    {
        acc a = {};
        uint64_t result;

        SV_DEV_ROLLED
        for (unsigned s = 0; s < pass.nsrc; s++) {
            uint64_t value = sv_coll_word_load_here(pass.src[s] + at, bytes);
            coll_sum_word(sums, pass, s, at, value);
            if (pass.premul >> s & 1)
                value = words::scale(value, pass.scalar[s]);
            words::add(a, value, s == 0 ? 0 : pass.op);
        }
        result = words::end(a, pass.divisor, pass.type);
        return bytes == 8 ? result : result & ((uint64_t{1} << 8 * bytes) - 1); /* nothing was scaled to no number */
    }
};

/* Where the packs of a pass begin and end; equal where there are none. */
struct coll_range {
    uint64_t begin, end;
};

/* Of so many bytes from the address on; `differs`: bits below 16 in which others are not congruent with it. */
SV_DEV_FN coll_range coll_packs_of(uint64_t address, uint64_t differs, uint64_t bytes)
{
    const uint64_t head = (0 - address) & 15;
    if ((differs & 15) != 0 || bytes < head + 16)
        return coll_range{0, 0};
    return coll_range{head, head + ((bytes - head) & ~uint64_t{15})};
}

/* With a digest packs must also consist of words of the result. */
SV_DEV_FN coll_range coll_packs(const sv_coll_pass_t &pass)
{
    const uint64_t first = reinterpret_cast<uintptr_t>(pass.src[0]);
    uint64_t differs = pass.digest | pass.taken | pass.given ? first & 7 : 0;

    SV_DEV_ROLLED
    for (unsigned s = 1; s < pass.nsrc; s++)
        differs |= first ^ reinterpret_cast<uintptr_t>(pass.src[s]);
    SV_DEV_ROLLED
    for (unsigned d = 0; d < pass.ndst; d++)
        differs |= first ^ reinterpret_cast<uintptr_t>(pass.dst[d]);
    return coll_packs_of(first, differs, pass.bytes);
}

SV_DEV_FN uint64_t coll_key_at(const sv_coll_pass_t &pass, uint64_t at)
{
    return pass.key + (pass.first_word + at / 8) * SV_DIGEST_STEP;
}

template <class WORK>
SV_DEV_FN void coll_pass_packs(const sv_coll_pass_t &pass, coll_range packs, unsigned tid, unsigned nthreads,
                               sv_coll_sums_t &sums)
{
    enum : unsigned { UNITS = WORK::UNITS };
    const uint32_t step = 16 * nthreads;

    SV_DEV_ROLLED
    for (uint64_t at = packs.begin + 16 * tid; at < packs.end; at += UNITS * step) {
        const uint64_t left = packs.end - at;
        const coll_turn turn{step, left < UNITS * step ? static_cast<uint32_t>(left) : UNITS * step};
        sv_dev_pair_t value[UNITS];
        WORK::units(value, pass, at, turn, sums);
        SV_DEV_ROLLED
        for (unsigned d = 0; d < pass.ndst; d++) {
            uint8_t *to = pass.dst[d] + at;
            SV_DEV_UNROLL
            for (unsigned u = 0; u < UNITS; u++)
                if (coll_turn::has(turn, u))
                    pair_access::store(to + u * step, value[u]);
        }
        if (pass.digest)
            sums.given += coll_sum_units(value, coll_key_at(pass, at), turn);
    }
}

/* What lies before and after the packs, and everything if there are none. */
template <class WORK>
SV_DEV_FN void coll_pass_words(const sv_coll_pass_t &pass, coll_range packs, unsigned tid, unsigned nthreads,
                               sv_coll_sums_t &sums)
{
    const uint64_t before = (packs.begin + 7) / 8;
    const uint64_t count = before + (pass.bytes - packs.end + 7) / 8;

    SV_DEV_ROLLED
    for (uint64_t i = tid; i < count; i += nthreads) {
        const uint64_t at = i < before ? 8 * i : packs.end + 8 * (i - before);
        const uint64_t left = (i < before ? packs.begin : pass.bytes) - at;
        const unsigned bytes = left < 8 ? static_cast<unsigned>(left) : 8;
        const uint64_t value = WORK::word(pass, at, bytes, sums);
        SV_DEV_ROLLED
        for (unsigned d = 0; d < pass.ndst; d++)
            sv_coll_word_store_here(pass.dst[d] + at, value, bytes);
        if (pass.digest)
            sums.given += digest_term(value, coll_key_at(pass, at));
    }
}

template <class WORK>
SV_DEV_FN sv_coll_sums_t coll_pass_all(const sv_coll_pass_t &pass, unsigned tid, unsigned nthreads)
{
    const coll_range packs = coll_packs(pass);
    sv_coll_sums_t sums = {0, 0};
    coll_pass_packs<WORK>(pass, packs, tid, nthreads, sums);
    coll_pass_words<WORK>(pass, packs, tid, nthreads, sums);
    return sums;
}

/* What sv_coll_with_type() calls. */
struct coll_pass_runner {
    const sv_coll_pass_t &pass;
    unsigned tid, nthreads;
    sv_coll_sums_t sums;

    template <unsigned TYPE>
    SV_DEV_METHOD void run()
    {
        const coll_range packs = coll_packs(pass);
        coll_pass_words<coll_reduce<TYPE, false>>(pass, packs, tid, nthreads, sums);
#if !defined(SV_DEV_HIP) /* where it is all inlined, and compiled for a minute longer */
        if constexpr (sv_coll_word<TYPE>::BITS != 8)
            if (pass.nsrc <= 2 && pass.premul == 0) {
                coll_pass_packs<coll_reduce<TYPE, true>>(pass, packs, tid, nthreads, sums);
                return;
            }
#endif
        coll_pass_packs<coll_reduce<TYPE, false>>(pass, packs, tid, nthreads, sums);
    }
};

/*
 * What lane tid of nthreads has of a pass. Gives the lane's part of the sums; 0 where there are none. One source that
 * is neither scaled nor divided is copied bit by bit, whatever the type.
 */
SV_DEV_COLD sv_coll_sums_t sv_coll_pass_at(const sv_coll_pass_t *at, unsigned tid, unsigned nthreads)
{
    const sv_coll_pass_t &pass = *at;
    coll_pass_runner runner{pass, tid, nthreads, {0, 0}};

    if (pass.nsrc == 1 && pass.premul == 0 && pass.divisor <= 1)
        return coll_pass_all<coll_copy>(pass, tid, nthreads);
    sv_coll_with_type(pass.type, runner);
    return runner.sums;
}

} // namespace

#endif
