/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass that moves nothing. For the digests of direct calls a rank sums stretches of its own memory: what every other
 * rank will read there, or what every other rank has stored there. A stretch is short, often shorter than the lanes of
 * a block could load at once, and each sum waits for memory once. So all stretches are summed beside each other, by
 * groups of waves.
 */
#ifndef SV_COLL_STRETCHES_H
#define SV_COLL_STRETCHES_H

#include "kernels/coll_block.h"
#include "kernels/coll_pass.h"

/* Whether a running kernel sees in users' memory what others store there. Where it does not, calls that store there
   have no digests (sv_coll_direct_negotiate()). */
#if defined(SV_DEV_HIP)
enum { SV_COLL_SEES_STORES = 0 };
#else
enum { SV_COLL_SEES_STORES = 1 };
#endif

/* Whether the kernel reduces in users' memory. Those of lines copy there only, and nothing of the rest is compiled. */
#if defined(SV_COLL_LINES_REDUCE)
enum { SV_COLL_DIRECT_REDUCES = 0 };
#else
enum { SV_COLL_DIRECT_REDUCES = 1 };
#endif

/* Whether there are phases that move nothing: copies have them where they are seen to be stored. */
enum { SV_COLL_DIRECT_SUMS = SV_COLL_DIRECT_REDUCES | SV_COLL_SEES_STORES };

/* What this channel does of the call on this rank: which bytes of a block, or of all that is divided into shards. */
typedef struct sv_coll_stretch {
    uint64_t begin, bytes;
} sv_coll_stretch_t;

SV_DEV_FN sv_coll_stretch_t sv_coll_stretch_of(const sv_coll_at_t &c, uint64_t from, uint64_t until, uint64_t part)
{
    const uint64_t begin = from + (c.b.channel - c.b.work.channel) * part;
    if (begin >= until)
        return sv_coll_stretch_t{0, 0};
    return sv_coll_stretch_t{begin, until - begin < part ? until - begin : part};
}

/* The rank that comes so many after this one. */
SV_DEV_FN uint32_t sv_coll_around(const sv_coll_at_t &c, uint32_t steps)
{
    return c.b.me + steps < c.b.n ? c.b.me + steps : c.b.me + steps - c.b.n;
}

/* Stretch k of a pass that moves nothing: what lies at `from`, or is to lie there, of the rank that comes k + 1 after
   this one. */
SV_DEV_FN void sv_coll_set_stretch(const sv_coll_at_t &c, uint32_t k, uint64_t from, const sv_coll_stretch_t &at,
                                   uint64_t key)
{
    sv_coll_pass_t &pass = c.b.pass;
    pass.src[k] = sv_coll_pointer<const uint8_t>(from + at.begin);
    pass.bytes_of[k] = at.bytes;
    pass.key_of[k] = key;
}

/* The rest of such a pass. One lane. */
SV_DEV_FN void sv_coll_stretches_pass(const sv_coll_at_t &c, bool taken)
{
    c.b.pass.stretches = 1;
    c.b.pass.nsrc = c.b.n - 1;
    c.b.pass.taken = taken;
}

/* The terms of what lane `lane` of nlanes has of a stretch. A function of its own, whose registers are free again. */
SV_DEV_COLD uint64_t sv_coll_stretch_terms(const uint8_t *src, uint64_t bytes, uint64_t key, unsigned lane,
                                           unsigned nlanes)
{
    enum : unsigned { UNITS = COLL_COPY_UNITS };
    const uint64_t address = reinterpret_cast<uintptr_t>(src);
    const coll_range packs = coll_packs_of(address, address & 7, bytes);
    const uint64_t before = (packs.begin + 7) / 8, count = before + (bytes - packs.end + 7) / 8;
    const uint32_t step = 16 * nlanes;
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (uint64_t at = packs.begin + 16 * lane; at < packs.end; at += UNITS * step) {
        const uint64_t left = packs.end - at;
        const coll_turn turn{step, left < UNITS * step ? static_cast<uint32_t>(left) : UNITS * step};
        sv_dev_pair_t value[UNITS];
        coll_load_units(value, src + at, turn);
        sum += coll_sum_units(value, key + at / 8 * SV_DIGEST_STEP, turn);
    }
    SV_DEV_ROLLED
    for (uint64_t i = lane; i < count; i += nlanes) {
        const uint64_t at = i < before ? 8 * i : packs.end + 8 * (i - before);
        const uint64_t left = (i < before ? packs.begin : bytes) - at;
        sum += digest_term(sv_coll_word_load_here(src + at, left < 8 ? left : 8), key + at / 8 * SV_DIGEST_STEP);
    }
    return sum;
}

/* Source k of the pass is of the rank that comes k + 1 after this one. Adds its sum to what that rank was given, or, if
   pass.taken says so, all sums to what was taken. All lanes, which are whole waves; between two barriers. */
SV_DEV_FN void sv_coll_sum_stretches(const sv_coll_at_t &c)
{
    const sv_coll_pass_t &pass = c.b.pass;
    const unsigned waves = c.at.nthreads / SV_DEV_WAVE, wave = c.at.tid / SV_DEV_WAVE;

    SV_DEV_ROLLED
    for (unsigned first = 0; first < pass.nsrc; first += waves) {
        const unsigned many = pass.nsrc - first < waves ? pass.nsrc - first : waves;
        const unsigned group = wave % many, source = first + group;
        const unsigned shares = (waves - group + many - 1) / many, share = wave / many; /* waves of the group */
        uint64_t sum = sv_coll_stretch_terms(pass.src[source], pass.bytes_of[source], pass.key_of[source],
                                             share * SV_DEV_WAVE + c.at.tid % SV_DEV_WAVE, shares * SV_DEV_WAVE);
        if (pass.taken) {
            sum = sv_dev_block_sum_u64(sum, c.at);
            if (c.at.tid == 0)
                c.b.taken += sum;
        } else {
            sum = sv_dev_block_sum_groups_u64(sum, many, c.at);
            if (c.at.tid < many)
                c.b.given[sv_coll_around(c, first + c.at.tid + 1)] += sum;
        }
    }
}

#endif
