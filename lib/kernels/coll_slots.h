/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives over whole slots (protocol SIMPLE), and over users' memory. A slice is done as one pass: it waits for
 * the sources' data and the destinations' credit, moves the data, and releases both. Send, receive and their
 * combinations with copy and reduce differ in the lists of the slice alone; direct variants have no slot.
 *
 *   helper warps: wait for ranks, fill in the pass  |  others: the pass            |  helper warps: give slots back
 *                                             |  helper warps: tell of the last    |
 *                                             |    slice, make the next one  |
 *                                          barrier                        barrier
 *
 * A flag says that data is in a slot, after a fence at system scope. The fence takes as long as all that was stored
 * takes to get there. So one wave of the block, its helper warps, moves no data: it fences and posts flags while the
 * others are at the next slice already. It posts its flags for other ranks before it waits for theirs, so that nobody
 * waits in vain.
 */
#ifndef SV_COLL_SLOTS_H
#define SV_COLL_SLOTS_H

#include "kernels/coll_block.h"
#include "kernels/coll_stretches.h"
#include "kernels/coll_words.h"
#include "kernels/kernel_digest.h"


SV_DEV_FN uint64_t sv_coll_slot_at(const sv_coll_at_t &c, uint64_t connection, uint64_t step)
{
    return connection + c.context.slot_at +
           step % SV_COLL_SLOTS * (c.context.slot_bytes + static_cast<uint64_t>(SV_COLL_SLOT_RECORD));
}

/* Where the digest of a part of a slot lies. */
SV_DEV_FN uint64_t *sv_coll_slot_record(const sv_coll_at_t &c, uint64_t slot, uint32_t part)
{
    return sv_coll_pointer<uint64_t>(slot + c.context.slot_bytes) + part;
}

/* Key of what member `from` of the arena puts into a slot: which call, which data, whose. */
SV_DEV_FN uint64_t sv_coll_key_of(uint64_t key, uint32_t from, uint64_t id)
{
    return digest_mix(key + digest_mix(id + digest_mix(from)));
}

SV_DEV_FN uint64_t sv_coll_key(const sv_coll_at_t &c, uint32_t from, uint64_t id)
{
    return sv_coll_key_of(c.b.work.key, from, id);
}

/* The helper warps of a block are a wave of their own. Soft has one lane for everything. */
#if defined(SV_DEV_SOFT)
enum : unsigned { SV_COLL_HELPER = 0, SV_COLL_MOVERS_LESS = 0 };
#else
enum : unsigned { SV_COLL_HELPER = SV_DEV_WAVE, SV_COLL_MOVERS_LESS = SV_DEV_WAVE };
#endif

SV_DEV_FN bool sv_coll_is_helper(const sv_coll_at_t &c)
{
    return c.at.tid >= SV_COLL_HELPER && c.at.tid < SV_COLL_HELPER + SV_DEV_WAVE;
}

/* Tells all ranks of the steps that lie in their slots. Helpers, after the barrier that ends the slice. Partner:
   sv_coll_await_ranks(), on the other ranks. */
SV_DEV_FN void sv_coll_post_flags(const sv_coll_at_t &c)
{
    for (unsigned r = c.at.tid - SV_COLL_HELPER; r < c.b.n; r += SV_DEV_WAVE)
        if (c.b.unposted[r]) {
            c.b.unposted[r] = 0;
            sv_dev_store_release_system_u64(sv_coll_pointer<uint64_t>(c.b.theirs[r] + SV_COLL_TAIL_AT),
                                            c.b.state[r].sent);
        }
}

/* What destination or source i of the slice waits for. */
typedef struct sv_coll_want {
    uint64_t address, count;   /* a counter and what it must reach; 0: nothing */
    uint32_t place, peer;
} sv_coll_want_t;

SV_DEV_FN sv_coll_want_t sv_coll_want_credit(const sv_coll_at_t &c, unsigned i, bool data)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint32_t r = i < s.ndst ? s.to[i] : static_cast<uint32_t>(SV_COLL_PLAIN);
    const uint64_t slots = data ? SV_COLL_SLOTS : SV_COLL_STEPS;
    if (r == SV_COLL_PLAIN || c.b.state[r].sent < slots)
        return sv_coll_want_t{0, 0, 0, 0};
    return sv_coll_want_t{c.b.mine[r] + SV_COLL_HEAD_AT, c.b.state[r].sent - slots + 1, SV_COLL_AT_CREDIT, r};
}

SV_DEV_FN sv_coll_want_t sv_coll_want_data(const sv_coll_at_t &c, unsigned i, bool data)
{
    const sv_coll_slice_t &s = c.b.slice;
    const uint32_t r = data && i < s.nsrc ? s.from[i] : static_cast<uint32_t>(SV_COLL_PLAIN);
    if (r == SV_COLL_PLAIN)
        return sv_coll_want_t{0, 0, 0, 0};
    return sv_coll_want_t{c.b.mine[r] + SV_COLL_TAIL_AT, c.b.state[r].taken + 1, SV_COLL_AT_SLOT, r};
}

/* One look; what came before the counter is acquired. */
SV_DEV_FN bool sv_coll_has_come(const sv_coll_want_t &want)
{
    return want.address == 0 || static_cast<int64_t>(sv_dev_load_acquire_system_u64(
                                    sv_coll_pointer<const uint64_t>(want.address)) - want.count) >= 0;
}

SV_DEV_FN void sv_coll_wait_for(const sv_coll_at_t &c, const sv_coll_want_t &want)
{
    if (want.address)
        sv_coll_wait_word(c, want.address, want.count, want.place, want.peer);
}

/* Waits for credit for the slots that the slice writes; in SIMPLE also for the data that it reads. Helpers call. */
SV_DEV_FN void sv_coll_await_as_helper(const sv_coll_at_t &c, bool data)
{
    const unsigned first = c.at.tid - SV_COLL_HELPER, last = SV_COLL_RANKS + 1;
    for (unsigned i = first; i < last; i += SV_DEV_WAVE) {
        const bool credit = sv_coll_has_come(sv_coll_want_credit(c, i, data));
        if (!sv_coll_has_come(sv_coll_want_data(c, i, data)) || !credit)
            sv_dev_store_u32_system(&c.b.blocked, 1);
    }
    sv_dev_wave_sync();
    if (!sv_dev_load_u32_system(&c.b.blocked))
        return;
    sv_coll_post_flags(c);
    sv_dev_wave_sync();
    if (first == 0)
        c.b.blocked = 0;
    for (unsigned i = first; i < last; i += SV_DEV_WAVE) {
        sv_coll_wait_for(c, sv_coll_want_credit(c, i, data));
        sv_coll_wait_for(c, sv_coll_want_data(c, i, data));
    }
}

SV_DEV_FN bool sv_coll_has_digest(const sv_coll_at_t &c)
{
    return c.b.work.flags & SV_COLL_DIGEST;
}

/* Whether the slice puts something into slots, and bits: the sources of it that are slots. */
SV_DEV_FN bool sv_coll_slots_written(const sv_coll_slice_t &s)
{
    bool any = false;
    SV_DEV_ROLLED
    for (unsigned d = 0; d < s.ndst; d++)
        any |= s.to[d] != SV_COLL_PLAIN;
    return any;
}

SV_DEV_FN uint32_t sv_coll_slots_read(const sv_coll_slice_t &s)
{
    uint32_t slots = 0;
    SV_DEV_ROLLED
    for (unsigned k = 0; k < s.nsrc; k++)
        if (s.from[k] != SV_COLL_PLAIN)
            slots |= 1u << k;
    return slots;
}

/* The slice as a pass over memory. Helpers. */
SV_DEV_FN void sv_coll_pass_of(const sv_coll_at_t &c)
{
    sv_coll_pass_t &pass = c.b.pass;
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned k = c.at.tid - SV_COLL_HELPER; k < s.nsrc; k += SV_DEV_WAVE) {
        uint64_t base = s.from[k] == SV_COLL_PLAIN
                            ? 0 : sv_coll_slot_at(c, c.b.mine[s.from[k]], c.b.state[s.from[k]].taken);
        pass.src[k] = sv_coll_pointer<const uint8_t>(base + s.src[k]);
        pass.scalar[k] = c.b.entry[SV_COLL_ENTRY - 1][s.scale_of[k]];
        if (sv_coll_has_digest(c) && s.from[k] != SV_COLL_PLAIN)
            pass.key_of[k] = sv_coll_key(c, c.context.member[s.from[k]], s.id_in);
    }
    for (unsigned d = c.at.tid - SV_COLL_HELPER; d < s.ndst; d += SV_DEV_WAVE) {
        uint64_t base = s.to[d] == SV_COLL_PLAIN
                            ? 0 : sv_coll_slot_at(c, c.b.theirs[s.to[d]], c.b.state[s.to[d]].sent);
        pass.dst[d] = sv_coll_pointer<uint8_t>(base + s.dst[d]);
    }
    if (c.at.tid == SV_COLL_HELPER) {
        pass.nsrc = s.nsrc;
        pass.ndst = s.ndst;
        pass.premul = s.premul;
        pass.divisor = static_cast<uint16_t>(s.divisor);
        pass.bytes = s.bytes;
        pass.type = c.b.work.type;
        pass.op = static_cast<uint8_t>(sv_coll_op_of(c.b.work.type, c.b.work.op));
        pass.digest = sv_coll_has_digest(c) && sv_coll_slots_written(s);
        pass.key = pass.digest ? sv_coll_key(c, c.context.member[c.b.me], s.id_out) : 0;
        pass.first_word = 0;
        pass.given = 0;
        pass.taken = sv_coll_has_digest(c) ? sv_coll_slots_read(s) : 0;
    }
}

/* False, for all lanes: leave. */
SV_DEV_FN bool sv_coll_await_ranks(const sv_coll_at_t &c, bool data)
{
    if (sv_coll_is_helper(c)) {
        sv_coll_await_as_helper(c, data);
        if (data)
            sv_coll_pass_of(c);
    }
    if (sv_coll_has_failed(c))
        sv_dev_store_u32_system(&c.b.leaves, 1);
    sv_dev_block_sync(); /* and there is another before the next slice's waits */
    return !sv_dev_load_u32_system(&c.b.leaves);
}

/* Ends the steps of the slice. What was put into slots is to be posted (lines carry their own flags), and what was read
   is given back. After a failure nothing is posted: what came may be damaged, and so what is made of it. The rank that
   it is for waits until it hears of the error. */
SV_DEV_FN void sv_coll_end_steps(const sv_coll_at_t &c, bool data)
{
    const sv_coll_slice_t &s = c.b.slice;
    sv_dev_block_sync();
    if (!sv_coll_is_helper(c))
        return;
    for (unsigned r = c.at.tid - SV_COLL_HELPER; r < c.b.n; r += SV_DEV_WAVE) {
        if (s.post >> r & 1) {
            c.b.state[r].sent++;
            c.b.unposted[r] = data && !sv_coll_has_failed(c);
#if defined(SV_DEV_SOFT)
            (void)sv_coll_jitter(c);
#endif
        }
        if (s.take >> r & 1)
            sv_coll_release_credit(c, r, ++c.b.state[r].taken);
    }
}

/* Whether the step that is next for rank r is one in which its slot of LL is written as a whole. */
SV_DEV_FN bool sv_coll_is_clean_step(const sv_coll_at_t &c, uint32_t r)
{
    return (c.b.state[r].sent & c.context.ll_clean) == c.context.ll_clean;
}

/* Writes the lines from `from` on of the slot of LL of a step for rank r. */
SV_DEV_FN void sv_coll_clean_slot(const sv_coll_at_t &c, uint32_t r, uint64_t step, uint64_t from)
{
    const uint64_t slot = c.b.theirs[r] + c.dev->layout.ll_at + step % SV_COLL_STEPS * c.dev->layout.ll_bytes;
    for (uint64_t u = from + c.at.tid; u < c.dev->layout.ll_bytes / SV_COLL_LINE; u += c.at.nthreads)
        sv_coll_line_put(c, slot + u * SV_COLL_LINE, 0, static_cast<uint32_t>(step + 1));
}

/*
 * Writes the lines of the step's slot of LL after the `used` ones of the slice (0: it used none). It does so in the
 * steps that the mask ll_clean selects, whatever the protocol, so that no line keeps a flag until it comes round again
 * (coll_lines.h).
 */
SV_DEV_FN void sv_coll_clean_lines(const sv_coll_at_t &c, uint64_t used)
{
    const sv_coll_slice_t &s = c.b.slice;
    for (unsigned d = 0; d < s.ndst; d++)
        if (s.to[d] != SV_COLL_PLAIN && s.post >> s.to[d] & 1 && sv_coll_is_clean_step(c, s.to[d]))
            sv_coll_clean_slot(c, s.to[d], c.b.state[s.to[d]].sent, used ? s.dst[d] / 8 + used : 0);
}

/* The digest that the sender of source k wrote. */
SV_DEV_FN uint64_t sv_coll_slot_said(const sv_coll_at_t &c, unsigned k)
{
    const sv_coll_slice_t &s = c.b.slice;
    return *sv_coll_slot_record(c, sv_coll_slot_at(c, c.b.mine[s.from[k]], c.b.state[s.from[k]].taken), s.part_of[k]);
}

/* Something is wrong: reads each slot once more to find out whose. If none is wrong any more, any rank is named, with a
   sum that is off by `difference`. One lane. */
SV_DEV_COLD void sv_coll_blame_slots(sv_coll_block_t *block, const sv_coll_context_t *context, uint64_t difference)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    const sv_coll_pass_t &pass = c.b.pass;
    uint64_t sum = 0, said = 0;
    uint32_t peer = c.b.me;
    for (unsigned k = 0; k < pass.nsrc && sum == said; k++) {
        if (!(pass.taken >> k & 1))
            continue;
        uint64_t key = pass.key_of[k];
        peer = c.b.slice.from[k];
        said = sv_coll_slot_said(c, k);
        sum = 0;
        SV_DEV_ROLLED
        for (uint64_t at = 0; at < pass.bytes; at += 8, key += SV_DIGEST_STEP)
            sum += digest_term(sv_coll_word_load_odd(pass.src[k] + at, pass.bytes - at), key);
    }
    sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_SLOT, peer, said, sum != said ? sum : said + difference);
}

/*
 * Compares the sum of what the pass has read from all slots, as it was used, with the sum that their senders say. It is
 * one sum for all, because a lane has no room for one per rank. Each sender's is read by another lane. All lanes call,
 * after the pass.
 */
SV_DEV_FN void sv_coll_verify_slots(const sv_coll_at_t &c, uint64_t sum)
{
    const sv_coll_pass_t &pass = c.b.pass;
    SV_DEV_ROLLED
    for (unsigned k = c.at.tid; k < pass.nsrc; k += c.at.nthreads)
        if (pass.taken >> k & 1)
            sum -= sv_coll_slot_said(c, k);
    const uint64_t difference = sv_dev_block_sum_u64(sum, c.at);
    if (c.at.tid == 0 && difference != 0 && !sv_coll_has_failed(c))
        sv_coll_blame_slots(&c.b, &c.context, difference);
}

/* The digest of what was just put into the slots of the destinations goes after it. All lanes call. */
SV_DEV_FN void sv_coll_sign_slots(const sv_coll_at_t &c, uint64_t sum)
{
    const sv_coll_slice_t &s = c.b.slice;
    sum = sv_dev_block_sum_u64(sum, c.at);
    for (unsigned d = c.at.tid; d < s.ndst; d += c.at.nthreads)
        if (s.to[d] != SV_COLL_PLAIN)
            *sv_coll_slot_record(c, sv_coll_slot_at(c, c.b.theirs[s.to[d]], c.b.state[s.to[d]].sent), s.part) = sum;
}

/* Adds what a pass of a direct algorithm has summed to what was given and taken. All lanes. */
SV_DEV_FN void sv_coll_direct_count_sums(const sv_coll_at_t &c, const sv_coll_sums_t &sums)
{
    const bool gave = c.b.pass.digest | c.b.pass.given, took = c.b.pass.taken;
    if (gave) {
        const uint64_t sum = sv_dev_block_sum_u64(sums.given, c.at);
        for (uint32_t r = 0; r < c.b.n && c.at.tid == 0; r++) {
            c.b.given[r] += c.b.given_to >> r & 1 ? sum : 0;
            c.b.lent[r] += c.b.lent_to >> r & 1 ? sum : 0;
        }
    }
    if (took) {
        const uint64_t sum = sv_dev_block_sum_u64(sums.taken, c.at);
        if (c.at.tid == 0)
            c.b.taken += sum;
    }
}

/* A slice or a pass that computes nothing. */
template <class PASS> SV_DEV_FN bool sv_coll_is_copy(const PASS &pass)
{
    return pass.nsrc == 1 && pass.premul == 0 && pass.divisor <= 1;
}

/* The pass. All lanes do that of a direct algorithm. Otherwise all but the helper warps do it, which meanwhile post
   flags, and one of whose lanes does what else there is to do. */
template <bool REDUCES, class MEANWHILE>
SV_DEV_FN sv_coll_sums_t sv_coll_slots_pass(const sv_coll_at_t &c, bool direct, const MEANWHILE &meanwhile)
{
    const sv_coll_pass_t &pass = c.b.pass;
    const unsigned less = direct ? 0u : unsigned{SV_COLL_MOVERS_LESS};
    const unsigned lane = c.at.tid < SV_COLL_HELPER ? c.at.tid : c.at.tid - less;
    if (!direct && sv_coll_is_helper(c)) {
        sv_coll_post_flags(c);
        if (c.at.tid == SV_COLL_HELPER)
            meanwhile.run();
        if (less > 0)
            return sv_coll_sums_t{0, 0};
    }
    if constexpr (REDUCES)
        return sv_coll_pass_at(&pass, lane, c.at.nthreads - less);
    else if (sv_coll_is_copy(pass))
        return coll_pass_all<coll_copy>(pass, lane, c.at.nthreads - less);
    return sv_coll_sums_t{0, 0};
}

/* Does one slice, or one pass of a direct algorithm, which is prepared. REDUCES: also one with something to compute.
   All lanes call. It ends without a barrier. Returns whether `meanwhile` was done, which it is not without a pass. */
template <bool REDUCES, class MEANWHILE>
SV_DEV_FN bool sv_coll_slots_run(const sv_coll_at_t &c, bool direct, const MEANWHILE &meanwhile)
{
    if (!direct && !sv_coll_await_ranks(c, true))
        return false;
    if (SV_COLL_DIRECT_SUMS && direct && c.b.pass.stretches) {
        sv_coll_sum_stretches(c);
        return false;
    }
    const sv_coll_sums_t sums = sv_coll_slots_pass<REDUCES>(c, direct, meanwhile);
    if (direct) {
        sv_coll_direct_count_sums(c, sums);
        return false;
    }
    if (c.b.pass.digest)
        sv_coll_sign_slots(c, sums.given);
    if (c.b.pass.taken)
        sv_coll_verify_slots(c, sums.taken);
    sv_coll_clean_lines(c, 0);
    sv_coll_end_steps(c, true);
    return true;
}

#endif
