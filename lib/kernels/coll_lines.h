/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives over lines with flags: protocols LL and LL128. Data and flag travel in one store, so nothing is fenced
 * and nobody waits for a tail. A receiver looks at the line itself, in its own memory, until the flag of the step is
 * there.
 *
 *   LL      16 bytes: data 0-3, flag, data 4-7, flag; right wherever 8-byte stores are whole
 *   LL128   SV_COLL_LONG_WORDS words, the last is the flag; right only where a line is stored whole and in order,
 *           which a test at creation shows. A line is stored by as many lanes as it has pairs of words, at once.
 *
 * The flag is the number of the step plus one. Lines of a slot that a short message does not use keep flags of old
 * steps, and 32 bits of flag would come round again. So whole slots are written in the steps that the mask ll_clean
 * selects.
 *
 * A protocol says how many words a unit has, where unit u of a slot lies, and how it is put and taken. The loop over
 * units is common to both. Words after the data of a part carry its digest.
 */
#ifndef SV_COLL_LINES_H
#define SV_COLL_LINES_H

#include "kernels/coll_slots.h"
#include "kernels/coll_types.h"
#include "kernels/coll_words.h"

/* A unit is one line; unit u carries word u of the stream. */
struct sv_coll_ll {
    enum { WORDS = 1 };

    SV_DEV_FN uint64_t slot(const sv_coll_at_t &c, uint64_t connection, uint64_t step)
    {
        return connection + c.dev->layout.ll_at + step % SV_COLL_STEPS * c.dev->layout.ll_bytes;
    }

    /* The stream's first word of unit u. */
    SV_DEV_FN uint64_t first(uint64_t u)
    {
        return u;
    }

    SV_DEV_FN uint64_t units(uint64_t nwords)
    {
        return nwords;
    }

    SV_DEV_FN unsigned words(uint64_t)
    {
        return 1;
    }

    SV_DEV_FN void put(const sv_coll_at_t &c, uint64_t slot, uint64_t u, const uint64_t *word, uint64_t step)
    {
        sv_coll_line_put(c, slot + u * SV_COLL_LINE, word[0], static_cast<uint32_t>(step + 1));
    }

    SV_DEV_FN void put_if(const sv_coll_at_t &c, uint64_t slot, uint64_t u, const uint64_t *word, uint64_t step,
                          bool whole)
    {
        if (whole)
            put(c, slot, u, word, step);
    }

    SV_DEV_FN bool take(const sv_coll_at_t &c, uint64_t slot, uint64_t u, uint64_t step, uint32_t peer, uint64_t *word)
    {
        return sv_coll_line_come(c, slot + u * SV_COLL_LINE, static_cast<uint32_t>(step + 1), SV_COLL_AT_LINE, peer,
                                 word);
    }

    /* A unit that has come before. */
    SV_DEV_FN void look(const sv_coll_at_t &, uint64_t slot, uint64_t u, uint64_t *word)
    {
        uint64_t low, high;
        sv_coll_line_poll(slot + u * SV_COLL_LINE, &low, &high);
        word[0] = (low & 0xffffffffu) | high << 32;
    }

    /* Lines that a slice writes into a slot of LL. */
    SV_DEV_FN uint64_t used(const sv_coll_at_t &c)
    {
        return (c.b.slice.bytes + 7) / 8 + (sv_coll_has_digest(c) ? 1 : 0);
    }
};

/* A unit is a pair of words of a long line. The second word of its last pair is the flag. */
struct sv_coll_ll128 {
    enum { WORDS = 2, PAIRS = SV_COLL_LONG_WORDS / 2, DATA = SV_COLL_LONG_WORDS - 1 };

    SV_DEV_FN uint64_t slot(const sv_coll_at_t &c, uint64_t connection, uint64_t step)
    {
        return connection + c.dev->layout.long_at + step % SV_COLL_STEPS * c.dev->layout.long_bytes;
    }

    SV_DEV_FN uint64_t first(uint64_t u)
    {
        return u / PAIRS * DATA + u % PAIRS * 2;
    }

    /* Whole lines: those who take one need its flag. */
    SV_DEV_FN uint64_t units(uint64_t nwords)
    {
        return (nwords + DATA - 1) / DATA * PAIRS;
    }

    SV_DEV_FN unsigned words(uint64_t u)
    {
        return u % PAIRS == PAIRS - 1 ? 1 : 2;
    }

    SV_DEV_FN void put(const sv_coll_at_t &c, uint64_t slot, uint64_t u, const uint64_t *word, uint64_t step)
    {
        uint64_t *at = sv_coll_pointer<uint64_t>(slot) + 2 * u;
        bool flag = u % PAIRS == PAIRS - 1;
#if defined(SV_DEV_SOFT)
        if (u % PAIRS == 0 && c.dev->stores == SV_COLL_STORES_TORN) { /* the flag overtakes the line */
            sv_dev_store_release_system_u64(at + DATA, step + 1);
            unsigned turns = 64; /* so that every second rank sleeps, and its neighbours are ahead of it and look */
            if (c.dev->me & 1)
                sv_dev_backoff(&turns);
        }
        (void)sv_coll_jitter(c);
        sv_dev_store_word_system(at, word[0]);
        if (flag) /* one lane stores the line in order; partner: take() */
            sv_dev_store_release_system_u64(at + 1, step + 1);
        else
            sv_dev_store_word_system(at + 1, word[1]);
#else
        sv_dev_eight_sync(c.at); /* the lanes of a line have waited for theirs apart: none stores the flag ahead */
        sv_dev_store_line(at, word[0], flag ? step + 1 : word[1]);
#endif
    }

    /* All or none of a line: its lanes come together, and one of them stores the flag of all. */
    SV_DEV_FN void put_if(const sv_coll_at_t &c, uint64_t slot, uint64_t u, const uint64_t *word, uint64_t step,
                          bool whole)
    {
        if (sv_dev_eight_all(c.at, whole))
            put(c, slot, u, word, step);
    }

    SV_DEV_FN bool take(const sv_coll_at_t &c, uint64_t slot, uint64_t u, uint64_t step, uint32_t peer, uint64_t *word)
    {
        const uint64_t *line = sv_coll_pointer<const uint64_t>(slot) + u / PAIRS * SV_COLL_LONG_WORDS;
        sv_coll_spin_t spin = {};
        for (;;) {
            uint64_t flag = sv_dev_load_acquire_system_u64(line + DATA); /* partner: put() */
            if (flag == step + 1)
                break;
            if (!sv_coll_wait_more(c, spin, SV_COLL_AT_LINE, peer, step + 1, flag)) {
                word[0] = word[1] = 0;
                return false;
            }
        }
        sv_dev_load_line(line + u % PAIRS * 2, &word[0], &word[1]);
        return true;
    }

    SV_DEV_FN void look(const sv_coll_at_t &, uint64_t slot, uint64_t u, uint64_t *word)
    {
        sv_dev_load_line(sv_coll_pointer<const uint64_t>(slot) + 2 * u, &word[0], &word[1]);
    }

    SV_DEV_FN uint64_t used(const sv_coll_at_t &)
    {
        return 0;
    }
};

/* Units of a slot before the part that begins at byte `offset` of it: parts begin where a unit does. */
template <typename PROTO> SV_DEV_FN uint64_t sv_coll_unit_of(uint64_t offset)
{
    return PROTO::units(offset / 8);
}

/* Word 0 to WORDS-1 of unit u from source k. False: they did not come, and the fault is kept. */
template <typename PROTO>
SV_DEV_FN bool sv_coll_unit_take(const sv_coll_at_t &c, unsigned k, uint64_t u, uint64_t *word)
{
    const sv_coll_slice_t &s = c.b.slice;
    if (s.from[k] != SV_COLL_PLAIN) {
        uint64_t step = c.b.state[s.from[k]].taken;
        return PROTO::take(c, PROTO::slot(c, c.b.mine[s.from[k]], step), sv_coll_unit_of<PROTO>(s.src[k]) + u, step,
                           s.from[k], word);
    }
    SV_DEV_UNROLL
    for (unsigned w = 0; w < PROTO::WORDS; w++) {
        uint64_t at = 8 * (PROTO::first(u) + w);
        word[w] = w < PROTO::words(u) && at < s.bytes
                      ? sv_coll_word_load(sv_coll_pointer<const uint8_t>(s.src[k]) + at, s.bytes - at) : 0;
    }
    return true;
}

/* whole: all came that the words are made of. If not, no other rank may take them. */
template <typename PROTO>
SV_DEV_FN void sv_coll_unit_put(const sv_coll_at_t &c, uint64_t u, const uint64_t *word, bool whole)
{
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned d = 0; d < s.ndst; d++) {
        if (s.to[d] != SV_COLL_PLAIN) {
            uint64_t step = c.b.state[s.to[d]].sent;
            PROTO::put_if(c, PROTO::slot(c, c.b.theirs[s.to[d]], step), sv_coll_unit_of<PROTO>(s.dst[d]) + u, word,
                          step, whole);
            continue;
        }
        SV_DEV_UNROLL
        for (unsigned w = 0; w < PROTO::WORDS; w++) {
            uint64_t at = 8 * (PROTO::first(u) + w);
            if (w < PROTO::words(u) && at < s.bytes)
                sv_coll_word_store(sv_coll_pointer<uint8_t>(s.dst[d]) + at, word[w], s.bytes - at);
        }
    }
}

/* The term of word `at` / 8 of a part, in a digest with this key. Only bytes of the part count. */
SV_DEV_FN uint64_t sv_coll_term(uint64_t bytes, uint64_t word, uint64_t at, uint64_t key)
{
    const uint64_t left = bytes - at;
    return digest_term(left >= 8 ? word : word & ((1ull << 8 * left) - 1), key + at / 8 * SV_DIGEST_STEP);
}

/* The terms of unit u. */
template <typename PROTO>
SV_DEV_FN uint64_t sv_coll_unit_terms(const sv_coll_slice_t &s, uint64_t u, const uint64_t *word, uint64_t key)
{
    uint64_t sum = 0;
    SV_DEV_UNROLL
    for (unsigned w = 0; w < PROTO::WORDS; w++) {
        uint64_t at = 8 * (PROTO::first(u) + w);
        if (w < PROTO::words(u) && at < s.bytes)
            sum += sv_coll_term(s.bytes, word[w], at, key);
    }
    return sum;
}

/* The keys of all slots that the slice reads. */
SV_DEV_FN void sv_coll_find_keys(const sv_coll_at_t &c)
{
    for (unsigned k = c.at.tid; k < c.b.slice.nsrc; k += c.at.nthreads)
        if (c.b.slice.from[k] != SV_COLL_PLAIN)
            c.b.key_of[k] = sv_coll_key(c, c.dev->member[c.b.slice.from[k]], c.b.slice.id_in);
    sv_dev_block_sync();
}

/* Runs over all units, combined as TYPE says (0: copied). Returns this lane's part of the digest of the result, and
   adds those of the slots to *taken. */
template <typename PROTO, unsigned TYPE>
SV_DEV_FN uint64_t sv_coll_units_run(const sv_coll_at_t &c, uint64_t key, uint64_t *taken)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint64_t units = PROTO::units((s.bytes + 7) / 8);
    const bool sums = sv_coll_has_digest(c);
    uint64_t sum = 0;
    bool whole = true;
    SV_DEV_ROLLED
    for (uint64_t u = c.at.tid; u < units; u += c.at.nthreads) {
        uint64_t word[2] = {0, 0};
        if constexpr (TYPE == 0) {
            whole = sv_coll_unit_take<PROTO>(c, 0, u, word) && whole;
            if (sums && s.from[0] != SV_COLL_PLAIN)
                *taken += sv_coll_unit_terms<PROTO>(s, u, word, c.b.key_of[0]);
        } else {
            typename sv_coll_word<TYPE>::acc acc[PROTO::WORDS] = {};
            SV_DEV_ROLLED
            for (unsigned k = 0; k < s.nsrc; k++) {
                whole = sv_coll_unit_take<PROTO>(c, k, u, word) && whole;
                if (sums && s.from[k] != SV_COLL_PLAIN)
                    *taken += sv_coll_unit_terms<PROTO>(s, u, word, c.b.key_of[k]);
                SV_DEV_UNROLL
                for (unsigned w = 0; w < PROTO::WORDS; w++) {
                    if (s.premul >> k & 1)
                        word[w] = sv_coll_word<TYPE>::scale(word[w], c.b.entry[SV_COLL_ENTRY - 1][s.scale_of[k]]);
                    if (k == 0)
                        sv_coll_word<TYPE>::begin(acc[w], word[w]);
                    else
                        sv_coll_word<TYPE>::add(acc[w], word[w], sv_coll_op_of(c.b.work.type, c.b.work.op));
                }
            }
            SV_DEV_UNROLL
            for (unsigned w = 0; w < PROTO::WORDS; w++)
                word[w] = sv_coll_word<TYPE>::end(acc[w], s.divisor, c.b.work.type);
        }
        sv_coll_unit_put<PROTO>(c, u, word, whole);
        if (sums)
            sum += sv_coll_unit_terms<PROTO>(s, u, word, key);
    }
    return sum;
}

template <typename PROTO> struct sv_coll_units {
    const sv_coll_at_t &c;
    uint64_t key, sum, taken;
    template <unsigned TYPE> SV_DEV_METHOD void run()
    {
        sum = sv_coll_units_run<PROTO, TYPE>(c, key, &taken);
    }
};

/* The units of a slot from u on that carry one word of this block's: the digest of the part before it. */
template <typename PROTO> SV_DEV_FN uint64_t sv_coll_digest_unit(const sv_coll_at_t &c)
{
    return PROTO::units((c.b.slice.bytes + 7) / 8);
}

/* The same of a slot, of which all lines have come. */
template <typename PROTO>
SV_DEV_FN void sv_coll_unit_look(const sv_coll_at_t &c, unsigned k, uint64_t u, uint64_t *word)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint64_t step = c.b.state[s.from[k]].taken;
    PROTO::look(c, PROTO::slot(c, c.b.mine[s.from[k]], step), sv_coll_unit_of<PROTO>(s.src[k]) + u, word);
}

/* Something is wrong: reads each slot once more to find out whose. If none is wrong any more, a line was used before it
   was whole; any rank is named then, with a sum that is off by `difference`. All lanes call. */
template <typename PROTO> SV_DEV_FN void sv_coll_blame(const sv_coll_at_t &c, uint64_t difference)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint64_t units = PROTO::units((s.bytes + 7) / 8);
    uint64_t said = 0, found = 0;
    uint32_t peer = c.b.me;
    for (unsigned k = 0; k < s.nsrc; k++) {
        if (s.from[k] == SV_COLL_PLAIN)
            continue;
        uint64_t sum = 0, word[2];
        SV_DEV_ROLLED
        for (uint64_t u = c.at.tid; u < units; u += c.at.nthreads) {
            sv_coll_unit_look<PROTO>(c, k, u, word);
            sum += sv_coll_unit_terms<PROTO>(s, u, word, c.b.key_of[k]);
        }
        sum = sv_dev_block_sum_u64(sum, c.at);
        sv_coll_unit_look<PROTO>(c, k, units, word);
        if (said == found) {
            peer = s.from[k];
            said = word[0];
            found = sum;
        }
    }
    if (c.at.tid == 0)
        sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_LINE, peer, said, found != said ? found : said + difference);
}

/*
 * Compares the sum of what was taken from all slots, as it was used, with the sum that their senders say. It is one sum
 * for all, because a lane has no room for one per rank. Each sender's is taken by another lane. All lanes call. False,
 * for all lanes: it is not verified, and the fault is kept.
 */
template <typename PROTO> SV_DEV_FN bool sv_coll_verify_lines(const sv_coll_at_t &c, uint64_t sum)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint64_t units = PROTO::units((s.bytes + 7) / 8);
    SV_DEV_ROLLED
    for (unsigned k = c.at.tid; k < s.nsrc; k += c.at.nthreads) {
        if (s.from[k] == SV_COLL_PLAIN)
            continue;
        uint64_t word[2];
        (void)sv_coll_unit_take<PROTO>(c, k, units, word);
        sum -= word[0];
    }
    const uint64_t difference = sv_dev_block_sum_u64(sum, c.at); /* for all lanes the same */
    if (difference != 0 && sv_dev_block_broadcast_u32(!sv_coll_has_failed(c), c.at))
        sv_coll_blame<PROTO>(c, difference);
    return difference == 0;
}

/* Puts the digest after the data: in a unit of its own, and what else belongs to its line. All lanes call. */
template <typename PROTO> SV_DEV_FN void sv_coll_sign_lines(const sv_coll_at_t &c, uint64_t sum)
{
    const sv_coll_slice_t &s = c.b.slice;
    uint64_t word[2] = {sv_dev_block_sum_u64(sum, c.at), 0};
    const uint64_t from = sv_coll_digest_unit<PROTO>(c), until = from + PROTO::units(1);
    for (uint64_t u = from + c.at.tid; u < until; u += c.at.nthreads)
        for (unsigned d = 0; d < s.ndst; d++)
            if (s.to[d] != SV_COLL_PLAIN) {
                uint64_t step = c.b.state[s.to[d]].sent, slot = PROTO::slot(c, c.b.theirs[s.to[d]], step);
                PROTO::put(c, slot, sv_coll_unit_of<PROTO>(s.dst[d]) + u, word, step);
            }
}

/* Does one slice. REDUCES: also one with something to compute. All lanes call. It ends without a barrier. */
template <typename PROTO, bool REDUCES> SV_DEV_FN void sv_coll_lines_run(const sv_coll_at_t &c)
{
    const sv_coll_slice_t &s = c.b.slice;
    if (!sv_coll_await_ranks(c, false))
        return;
    if (sv_coll_has_digest(c))
        sv_coll_find_keys(c);
    sv_coll_units<PROTO> units = {c, sv_coll_key(c, c.dev->member[c.b.me], s.id_out), 0, 0};
    if (sv_coll_is_copy(s))
        units.template run<0>();
    else if constexpr (REDUCES)
        sv_coll_with_type(c.b.work.type, units);
    if (sv_coll_has_digest(c)) {
        /* What was sent on already is not signed until that of which it is made is verified: nobody takes it for
           right. */
        const bool verified = !sv_coll_slots_read(s) || sv_coll_verify_lines<PROTO>(c, units.taken);
        if (sv_coll_slots_written(s) && verified)
            sv_coll_sign_lines<PROTO>(c, units.sum);
    }
    sv_coll_clean_lines(c, PROTO::used(c));
    sv_coll_end_steps(c, false);
}

#endif
