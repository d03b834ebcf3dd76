/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call alone in a launch, one-shot, in lines of LL or LL128, that fits into one step. What counts there is not
 * bandwidth, but the length of the chain of memory accesses from the kernel's start to its end. So there is no schedule
 * and no slice: every lane knows from the launch's argument what to do with its units.
 *
 *   load   own data || counters, credit, words that say of errors        one look into memory, all at once
 *   put    entry and data to all ranks                                    one way over the link
 *   take   the data of all ranks, in their order; combine; store
 *   hear   everybody's entry; verify the digests; keep the counters
 *
 * To other ranks it looks like the same call by the kernels of coll_run.h, so each rank may take either. Nothing is
 * fenced: data travels with flags. The next launch gives slots back, when no load is left that a writer could overtake.
 */
#ifndef SV_COLL_SMALL_H
#define SV_COLL_SMALL_H

#include "kernels/coll_entry_lines.h"
#include "kernels/coll_lines.h"
#include "kernels/coll_settle.h"
#include "kernels/coll_small_credit.h"
#include "kernels/kernel_stamps.h"

typedef struct sv_coll_small {
    const sv_coll_at_t &c;
    const sv_coll_small_arg_t &arg;
    uint64_t begin, bytes;     /* the channel's part of every block of the call */
    uint64_t units;            /* of it */
    uint64_t first[2];         /* the lane's first unit of the block at work.src */
} sv_coll_small_t;

enum { SV_COLL_AHEAD = 4 };    /* ranks whose lines a lane looks at before it waits for the first */

/* A look at a unit of a slot: its words, and whether they are those of the step. */
typedef struct sv_coll_polled {
    uint64_t word[2];
    uint32_t flag[2];
} sv_coll_polled_t;

template <typename PROTO> struct sv_coll_poller;

template <> struct sv_coll_poller<sv_coll_ll> {
    SV_DEV_FN void poll_once(const sv_coll_at_t &, uint64_t slot, uint64_t u, sv_coll_polled_t &polled)
    {
        uint64_t low, high;
        sv_coll_line_poll(slot + u * SV_COLL_LINE, &low, &high);
        polled.word[0] = (low & 0xffffffffu) | high << 32;
        polled.flag[0] = static_cast<uint32_t>(low >> 32);
        polled.flag[1] = static_cast<uint32_t>(high >> 32);
    }

    SV_DEV_FN bool is_there(const sv_coll_at_t &, const sv_coll_polled_t &polled, uint64_t, uint64_t step)
    {
        return polled.flag[0] == static_cast<uint32_t>(step + 1) && polled.flag[1] == static_cast<uint32_t>(step + 1);
    }

    SV_DEV_FN bool go_on(const sv_coll_at_t &, bool more)
    {
        return more;
    }
};

/* The eight lanes of a long line look at it in one access, as it was stored, and go on together. The one that looks at
   the flag may have had something else to do before: if it looked later than the others, it would see a flag that their
   words do not have yet. */
template <> struct sv_coll_poller<sv_coll_ll128> {
    SV_DEV_FN void poll_once(const sv_coll_at_t &c, uint64_t slot, uint64_t u, sv_coll_polled_t &polled)
    {
        const uint64_t *at = sv_coll_pointer<const uint64_t>(slot) + 2 * u;
        sv_dev_eight_sync(c.at);
#if defined(SV_DEV_SOFT)
        const uint64_t *line = at - 2 * (u % sv_coll_ll128::PAIRS); /* one lane: flag first; partner: put() */
        polled.flag[0] = static_cast<uint32_t>(sv_dev_load_acquire_system_u64(line + sv_coll_ll128::DATA));
#endif
        sv_dev_load_line(at, &polled.word[0], &polled.word[1]);
    }

    SV_DEV_FN bool is_there(const sv_coll_at_t &c, const sv_coll_polled_t &polled, uint64_t u, uint64_t step)
    {
#if defined(SV_DEV_SOFT)
        (void)c, (void)u;
        return polled.flag[0] == static_cast<uint32_t>(step + 1);
#else
        const bool flag = u % sv_coll_ll128::PAIRS == sv_coll_ll128::PAIRS - 1;
        return sv_dev_eight_all(c.at, !flag || polled.word[1] == step + 1);
#endif
    }

    SV_DEV_FN bool go_on(const sv_coll_at_t &c, bool more)
    {
        return sv_dev_eight_all(c.at, more);
    }
};

/* The words of a unit from rank r, of which `polled` was a first look. Zeros if the wait for it failed. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_take(const sv_coll_at_t &c, sv_coll_polled_t &polled, uint32_t r, uint64_t u)
{
    const uint64_t step = c.b.state[r].taken;
    sv_coll_spin_t spin = {};
    while (!sv_coll_poller<PROTO>::is_there(c, polled, u, step)) {
        if (!sv_coll_poller<PROTO>::go_on(c,
                                          sv_coll_wait_more(c, spin, SV_COLL_AT_LINE, r, step + 1, polled.flag[0]))) {
            polled.word[0] = polled.word[1] = 0;
            return;
        }
        sv_coll_poller<PROTO>::poll_once(c, c.b.slot_in[r], u, polled);
    }
}

/* Unit u of the channel's part of the block at `address`. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_load(const sv_coll_small_t &q, uint64_t address, uint64_t u, uint64_t *word)
{
    SV_DEV_UNROLL
    for (unsigned w = 0; w < PROTO::WORDS; w++) {
        const uint64_t at = 8 * (PROTO::first(u) + w);
        word[w] = w < PROTO::words(u) && at < q.bytes
                      ? sv_coll_word_load(sv_coll_pointer<const uint8_t>(address + q.begin) + at, q.bytes - at) : 0;
    }
}

template <typename PROTO>
SV_DEV_FN void sv_coll_small_store(const sv_coll_small_t &q, uint64_t address, uint64_t u, const uint64_t *word)
{
    SV_DEV_UNROLL
    for (unsigned w = 0; w < PROTO::WORDS; w++) {
        const uint64_t at = 8 * (PROTO::first(u) + w);
        if (w < PROTO::words(u) && at < q.bytes)
            sv_coll_word_store(sv_coll_pointer<uint8_t>(address + q.begin) + at, word[w], q.bytes - at);
    }
}

/* As above, for this rank's input, of which one unit is here already. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_own(const sv_coll_small_t &q, uint64_t address, uint64_t u, uint64_t *word)
{
    word[0] = q.first[0];
    word[1] = q.first[1];
    if (u != q.c.at.tid || address != q.arg.work.src)
        sv_coll_small_load<PROTO>(q, address, u, word);
}

/* Whether what a rank sends differs from one receiver to the next. */
SV_DEV_FN bool sv_coll_small_blocks(const sv_coll_small_arg_t &arg)
{
    return arg.work.call == SV_COLL_REDUCE_SCATTER || arg.work.call == SV_COLL_ALL_TO_ALL;
}

/* What the calls differ in. Blocks: the ranks' own places in the larger buffer of a call that has one. */
SV_DEV_FN bool sv_coll_small_sends(const sv_coll_small_arg_t &arg, uint32_t r)
{
    return r != arg.context.me && (arg.work.call != SV_COLL_REDUCE || r == arg.work.root) &&
           (arg.work.call != SV_COLL_BROADCAST || arg.context.me == arg.work.root);
}

SV_DEV_FN bool sv_coll_small_takes(const sv_coll_small_arg_t &arg, uint32_t r)
{
    return r != arg.context.me && (arg.work.call != SV_COLL_REDUCE || arg.context.me == arg.work.root) &&
           (arg.work.call != SV_COLL_BROADCAST || r == arg.work.root);
}

/* Where what goes to rank r lies; r may be this rank. */
SV_DEV_FN uint64_t sv_coll_small_from(const sv_coll_small_arg_t &arg, uint32_t r)
{
    return arg.work.src + (sv_coll_small_blocks(arg) ? r * arg.block_bytes : 0);
}

/* Where what comes from rank r goes; r may be this rank. */
SV_DEV_FN uint64_t sv_coll_small_into(const sv_coll_small_arg_t &arg, uint32_t r)
{
    const bool blocks = arg.work.call == SV_COLL_ALL_GATHER || arg.work.call == SV_COLL_ALL_TO_ALL;
    return arg.work.dst + (blocks ? r * arg.block_bytes : 0);
}

/* Key of what goes from one rank to another; as coll_oneshot.h has it. */
SV_DEV_FN uint64_t sv_coll_small_key(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg, uint32_t from, uint32_t to)
{
    const uint32_t block = sv_coll_small_blocks(arg) ? to : arg.work.call == SV_COLL_ALL_GATHER ? from : 0;
    const uint64_t id = block * arg.block_bytes + c.at.block * arg.part_bytes;
    return sv_coll_key_of(arg.work.key, arg.context.member[from], id);
}

/* The terms of unit u of the channel's part of a block. */
template <typename PROTO>
SV_DEV_FN uint64_t sv_coll_small_terms(const sv_coll_small_t &q, uint64_t u, const uint64_t *word, uint64_t key)
{
    uint64_t sum = 0;
    SV_DEV_UNROLL
    for (unsigned w = 0; w < PROTO::WORDS; w++) {
        const uint64_t at = 8 * (PROTO::first(u) + w);
        if (w < PROTO::words(u) && at < q.bytes)
            sum += sv_coll_term(q.bytes, word[w], at, key);
    }
    return sum;
}

/* Keys of what comes from each rank, and of what goes to each, by lanes of their own. They follow from the launch's
   argument alone and take 0.2 us, so that they are made before the launch before this one is through. All lanes call,
   before a barrier. */
SV_DEV_FN void sv_coll_small_make_keys(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg)
{
    const uint32_t n = arg.context.n, me = arg.context.me;
    if (!(arg.work.flags & SV_COLL_DIGEST))
        return;
    SV_DEV_ROLLED
    for (uint32_t i = c.at.tid; i < 2 * n; i += c.at.nthreads)
        if (i < n)
            c.b.key_of[i] = sv_coll_small_key(c, arg, i, me);
        else
            c.b.key_to[i - n] = sv_coll_small_key(c, arg, me, i - n);
}

/* What differs from call to call. All lanes call, before a barrier. */
SV_DEV_FN void sv_coll_small_enter(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg, bool moves)
{
    sv_coll_block_t &b = c.b;
    for (unsigned w = c.at.tid; w < sizeof(sv_coll_work_t) / sizeof(uint64_t); w += c.at.nthreads)
        reinterpret_cast<uint64_t *>(&b.work)[w] = reinterpret_cast<const uint64_t *>(&arg.work)[w];
    sv_coll_come_in(c);
    for (unsigned r = c.at.tid; r < c.context.n; r += c.at.nthreads) { /* the lanes that have brought these words */
        const sv_coll_state_t &state = b.state[r];
        b.slot_in[r] = b.mine[r] + arg.slots_at + state.taken % SV_COLL_STEPS * arg.slot_bytes;
        b.slot_out[r] = b.theirs[r] + arg.slots_at + state.sent % SV_COLL_STEPS * arg.slot_bytes;
        if (r == c.context.me)
            sv_coll_tell_begun(c, state, SV_COLL_TELL_EVERY);
    }
    for (unsigned r = c.at.tid; r < SV_COLL_RANKS; r += c.at.nthreads)
        sv_coll_small_note_lack(c, r, moves && r < c.context.n && sv_coll_small_sends(arg, r) &&
                                          sv_coll_small_lacks(c, r));
}

/* Entry lines are the last lanes' affair, because the first ones have data even of short messages. */
SV_DEV_FN void sv_coll_small_send_entry(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg)
{
    for (unsigned r = c.at.nthreads - 1 - c.at.tid; r < arg.context.n; r += c.at.nthreads) {
        const uint64_t entries = c.b.state[r].entries;
        if (r == arg.context.me)
            continue;
        sv_coll_line_put(c, c.b.theirs[r] + arg.context.entry_at + (entries & 1) * SV_COLL_ENTRIES * SV_COLL_LINE,
                         arg.work.signature, static_cast<uint32_t>(entries + 1));
        sv_coll_entry_clean(c, r, 1, SV_COLL_ENTRIES);
    }
}

SV_DEV_FN void sv_coll_small_check_entry(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg)
{
    for (unsigned r = c.at.nthreads - 1 - c.at.tid; r < arg.context.n; r += c.at.nthreads) {
        const uint64_t entries = c.b.state[r].entries;
        if (r == arg.context.me)
            continue;
        const uint64_t at = c.b.mine[r] + arg.context.entry_at + (entries & 1) * SV_COLL_ENTRIES * SV_COLL_LINE;
        uint64_t word = sv_coll_line_take(c, at, static_cast<uint32_t>(entries + 1), SV_COLL_AT_ENTRY, r);
        if (word != arg.work.signature && !sv_coll_has_failed(c))
            sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_ENTRY, r, arg.work.signature, word);
    }
}

SV_DEV_COLD void sv_coll_small_clean(sv_coll_block_t *block, const sv_coll_context_t *context, sv_dev_block_t at,
                                     uint32_t r, uint64_t step, uint64_t used)
{
    const sv_coll_at_t c = {*block, context->dev, *context, at};
    sv_coll_clean_slot(c, r, step, used);
}

/* The rank that is k after this one. */
SV_DEV_FN uint32_t sv_coll_small_around(const sv_coll_small_arg_t &arg, uint32_t k)
{
    return arg.context.me + k < arg.context.n ? arg.context.me + k : arg.context.me + k - arg.context.n;
}

/* Puts all units of this lane to rank r. Where it is due, writes the whole slot of LL after the lines that the call
   uses. */
template <typename PROTO> SV_DEV_FN void sv_coll_small_put_to(const sv_coll_small_t &q, uint32_t r)
{
    const sv_coll_at_t &c = q.c;
    const sv_coll_small_arg_t &arg = q.arg;
    const uint64_t from = sv_coll_small_from(arg, r), slot = c.b.slot_out[r], step = c.b.state[r].sent;
    const uint64_t more = arg.work.flags & SV_COLL_DIGEST ? 1 : 0;
    SV_DEV_ROLLED
    for (uint64_t u = c.at.tid; u < q.units; u += c.at.nthreads) {
        uint64_t word[2];
        sv_coll_small_own<PROTO>(q, from, u, word);
        PROTO::put(c, slot, u, word, step);
    }
    if ((step & c.context.ll_clean) == c.context.ll_clean && q.units > 0)
        sv_coll_small_clean(&c.b, &c.context, c.at, r, step, PROTO::WORDS == 1 ? q.units + more : 0);
}

/* The sum of the terms of this lane's units at `from`. */
template <typename PROTO>
SV_DEV_FN uint64_t sv_coll_small_sum_own(const sv_coll_small_t &q, uint64_t from, uint64_t key)
{
    uint64_t sum = 0;
    SV_DEV_ROLLED
    for (uint64_t u = q.c.at.tid; u < q.units; u += q.c.at.nthreads) {
        uint64_t word[2];
        sv_coll_small_own<PROTO>(q, from, u, word);
        sum += sv_coll_small_terms<PROTO>(q, u, word, key);
    }
    return sum;
}

/* Sums by the waves of a block, of what each rank is sent: by how many it comes after this one, less one. */
typedef uint64_t sv_coll_small_sums_t[SV_COLL_RANKS][SV_DEV_WAVES_MAX];

/* The digests after the units. Each rank's has lanes of its own. Whole waves of so many lanes, after a barrier. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_sign(const sv_coll_small_t &q, const sv_coll_small_sums_t &sums, unsigned lanes)
{
    const sv_coll_small_arg_t &arg = q.arg;
    const unsigned width = static_cast<unsigned>(PROTO::units(1)), waves = lanes / SV_DEV_WAVE;
    SV_DEV_ROLLED
    for (unsigned i = q.c.at.tid; i < (arg.context.n - 1) * width; i += lanes) {
        const uint32_t k = i / width, r = sv_coll_small_around(arg, k + 1);
        if (!sv_coll_small_sends(arg, r))
            continue;
        uint64_t word[2] = {0, 0};
        SV_DEV_ROLLED
        for (unsigned w = 0; w < waves; w++)
            word[0] += sums[sv_coll_small_blocks(arg) ? k : 0][w];
        PROTO::put(q.c, q.c.b.slot_out[r], q.units + i % width, word, q.c.b.state[r].sent);
    }
}

/* To all ranks that are to have something, the next rank first. All lanes. Sums and digests come after the data of all.
   Of the same data for all ranks one sum is enough. If the first wave has all of the data, others need not wait. */
template <typename PROTO> SV_DEV_FN void sv_coll_small_put(const sv_coll_small_t &q)
{
    SV_DEV_SHARED sv_coll_small_sums_t sums;
    const sv_coll_small_arg_t &arg = q.arg;
    const sv_dev_block_t &at = q.c.at;
    const bool each = sv_coll_small_blocks(arg), narrow = q.units <= SV_DEV_WAVE;
    const unsigned lanes = narrow ? unsigned{SV_DEV_WAVE} : at.nthreads;
    bool sends = false;
    SV_DEV_ROLLED
    for (uint32_t k = 1; k < arg.context.n; k++) {
        const uint32_t r = sv_coll_small_around(arg, k);
        if (!sv_coll_small_sends(arg, r))
            continue;
        sv_coll_small_put_to<PROTO>(q, r);
        sends = true;
    }
    if (!sends || !(arg.work.flags & SV_COLL_DIGEST) || q.units == 0 || at.tid >= lanes)
        return;
    SV_DEV_ROLLED
    for (uint32_t k = 1; k < (each ? arg.context.n : 2); k++) {
        const uint32_t r = sv_coll_small_around(arg, k);
        const uint64_t own = sv_coll_small_sum_own<PROTO>(q, sv_coll_small_from(arg, r), q.c.b.key_to[r]);
        const uint64_t sum = sv_dev_wave_sum_u64(own, at);
        if (at.tid % SV_DEV_WAVE == 0)
            sums[k - 1][at.tid / SV_DEV_WAVE] = sum;
    }
    if (narrow)
        sv_dev_wave_sync();
    else
        sv_dev_block_sync();
    sv_coll_small_sign<PROTO>(q, sums, lanes);
}

/* Looks at unit u from ranks base to base + AHEAD - 1, so many as data comes from. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_poll_once(const sv_coll_small_t &q, uint64_t u, uint32_t base,
                                       sv_coll_polled_t (&polled)[SV_COLL_AHEAD])
{
    SV_DEV_UNROLL
    for (uint32_t a = 0; a < SV_COLL_AHEAD; a++)
        if (base + a < q.arg.context.n && sv_coll_small_takes(q.arg, base + a))
            sv_coll_poller<PROTO>::poll_once(q.c, q.c.b.slot_in[base + a], u, polled[a]);
}

/* The words of unit u from rank r, which lie in this rank's memory or have been looked at. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_get(const sv_coll_small_t &q, sv_coll_polled_t &polled, uint32_t r, uint64_t u)
{
    if (r == q.arg.context.me)
        sv_coll_small_own<PROTO>(q, sv_coll_small_from(q.arg, r), u, polled.word);
    else
        sv_coll_small_take<PROTO>(q.c, polled, r, u);
}

/* The terms of what was taken from rank r; 0 of what is this rank's own. */
template <typename PROTO>
SV_DEV_FN uint64_t sv_coll_small_taken(const sv_coll_small_t &q, const sv_coll_polled_t &polled, uint32_t r, uint64_t u)
{
    if (!(q.arg.work.flags & SV_COLL_DIGEST) || r == q.arg.context.me)
        return 0;
    return sv_coll_small_terms<PROTO>(q, u, polled.word, q.c.b.key_of[r]);
}

/* All units from all ranks, combined as TYPE says. Gives the lane's part of the digest of what was taken. */
template <typename PROTO, unsigned TYPE> SV_DEV_FN uint64_t sv_coll_small_reduce(const sv_coll_small_t &q)
{
    const sv_coll_at_t &c = q.c;
    uint64_t taken = 0;
    const uint32_t n = q.arg.context.n, divisor = q.arg.work.flags & SV_COLL_DIVIDE ? n : 0;
    SV_DEV_ROLLED
    for (uint64_t u = c.at.tid; u < q.units; u += c.at.nthreads) {
        typename sv_coll_word<TYPE>::acc acc[PROTO::WORDS] = {};
        SV_DEV_ROLLED
        for (uint32_t base = 0; base < n; base += SV_COLL_AHEAD) {
            sv_coll_polled_t polled[SV_COLL_AHEAD];
            sv_coll_small_poll_once<PROTO>(q, u, base, polled);
            SV_DEV_UNROLL
            for (uint32_t a = 0; a < SV_COLL_AHEAD; a++) {
                const uint32_t r = base + a;
                if (r >= n)
                    continue;
                sv_coll_small_get<PROTO>(q, polled[a], r, u);
                taken += sv_coll_small_taken<PROTO>(q, polled[a], r, u);
                SV_DEV_UNROLL
                for (unsigned w = 0; w < PROTO::WORDS; w++)
                    sv_coll_word<TYPE>::add(acc[w], polled[a].word[w],
                                            r == 0 ? 0 : sv_coll_op_of(q.arg.work.type, q.arg.work.op));
            }
        }
        uint64_t word[2];
        SV_DEV_UNROLL
        for (unsigned w = 0; w < PROTO::WORDS; w++)
            word[w] = sv_coll_word<TYPE>::end(acc[w], divisor, q.arg.work.type);
        sv_coll_small_store<PROTO>(q, q.arg.work.dst, u, word);
    }
    return taken;
}

/* All units from all ranks to their places, and the own ones to theirs. */
template <typename PROTO> SV_DEV_FN uint64_t sv_coll_small_copy(const sv_coll_small_t &q)
{
    const sv_coll_at_t &c = q.c;
    uint64_t taken = 0;
    const uint32_t n = q.arg.context.n, me = q.arg.context.me;
    const bool own = sv_coll_small_from(q.arg, me) != sv_coll_small_into(q.arg, me) &&
                     (q.arg.work.call != SV_COLL_BROADCAST || me == q.arg.work.root);
    SV_DEV_ROLLED
    for (uint64_t u = c.at.tid; u < q.units; u += c.at.nthreads)
        SV_DEV_ROLLED
        for (uint32_t base = 0; base < n; base += SV_COLL_AHEAD) {
            sv_coll_polled_t polled[SV_COLL_AHEAD];
            sv_coll_small_poll_once<PROTO>(q, u, base, polled);
            SV_DEV_UNROLL
            for (uint32_t a = 0; a < SV_COLL_AHEAD; a++) {
                const uint32_t r = base + a;
                if (r >= n || !(r == me ? own : sv_coll_small_takes(q.arg, r)))
                    continue;
                sv_coll_small_get<PROTO>(q, polled[a], r, u);
                taken += sv_coll_small_taken<PROTO>(q, polled[a], r, u);
                sv_coll_small_store<PROTO>(q, sv_coll_small_into(q.arg, r), u, polled[a].word);
            }
        }
    return taken;
}

template <typename PROTO> struct sv_coll_small_run {
    const sv_coll_small_t &q;
    uint64_t taken;
    template <unsigned TYPE> SV_DEV_METHOD void run()
    {
        taken = sv_coll_small_reduce<PROTO, TYPE>(q);
    }
};

/* The channel's part of the call; reads nothing. */
template <typename PROTO>
SV_DEV_FN sv_coll_small_t sv_coll_small_part(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg)
{
    const uint64_t begin = c.at.block * arg.part_bytes, left = arg.block_bytes - begin;
    const uint64_t bytes = begin >= arg.block_bytes ? 0 : left < arg.part_bytes ? left : arg.part_bytes;
    return sv_coll_small_t{c, arg, begin, bytes, PROTO::units((bytes + 7) / 8), {0, 0}};
}

/* Something is wrong: reads each slot once more to find out whose. If none is wrong any more, any rank is named, with a
   sum that is off by `difference`. One lane. */
template <typename PROTO>
SV_DEV_COLD void sv_coll_small_report(sv_coll_block_t *block, const sv_coll_small_arg_t *arg, uint64_t difference)
{
    const sv_coll_at_t c = sv_coll_at_of(block, &arg->context);
    const sv_coll_small_t q = sv_coll_small_part<PROTO>(c, *arg);
    uint64_t sum = 0, word[2] = {0, 0};
    uint32_t peer = c.b.me;
    for (uint32_t r = 0; r < arg->context.n && sum == word[0]; r++) {
        if (!sv_coll_small_takes(*arg, r))
            continue;
        sum = 0;
        peer = r;
        SV_DEV_ROLLED
        for (uint64_t u = 0; u < q.units; u++) {
            PROTO::look(c, c.b.slot_in[r], u, word);
            sum += sv_coll_small_terms<PROTO>(q, u, word, c.b.key_of[r]);
        }
        PROTO::look(c, c.b.slot_in[r], q.units, word);
    }
    sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_LINE, peer, word[0], sum != word[0] ? sum : sum + difference);
}

/* Sums by the waves of a block: of what was taken, less what its senders say. */
typedef uint64_t sv_coll_small_rest_t[SV_DEV_WAVES_MAX];

/* Sums up what was taken, as it was used, and takes the sums that the senders say. Each sender's is taken by another
   lane, of those before the ones that read entry lines, since these too have no data of short messages. All lanes,
   before a barrier. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_sum_taken(const sv_coll_small_t &q, uint64_t taken, sv_coll_small_rest_t &rest)
{
    const sv_coll_at_t &c = q.c;
    const uint32_t n = q.arg.context.n;
    const unsigned skipped = c.at.nthreads > 2 * SV_COLL_RANKS ? unsigned{SV_COLL_RANKS} : 0;
    SV_DEV_ROLLED
    for (unsigned i = c.at.nthreads - 1 - c.at.tid; i < skipped + n; i += c.at.nthreads) {
        uint64_t word[2];
        if (i < skipped || !sv_coll_small_takes(q.arg, i - skipped))
            continue;
        (void)PROTO::take(c, c.b.slot_in[i - skipped], q.units, c.b.state[i - skipped].taken, i - skipped, word);
        taken -= word[0];
    }
    taken = sv_dev_wave_sum_u64(taken, c.at);
    if (c.at.tid % SV_DEV_WAVE == 0)
        rest[c.at.tid / SV_DEV_WAVE] = taken;
}

/* Compares the two. All lanes, after the barrier, when entry lines are read: of another call the keys would be
   others. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_verify(const sv_coll_small_t &q, const sv_coll_small_rest_t &rest)
{
    const sv_coll_at_t &c = q.c;
    if (!(q.arg.work.flags & SV_COLL_DIGEST) || q.units == 0 || c.at.tid >= SV_DEV_WAVE)
        return;
    uint64_t difference = 0;
    SV_DEV_ROLLED
    for (unsigned w = c.at.tid; w < c.at.nthreads / SV_DEV_WAVE; w += SV_DEV_WAVE)
        difference += rest[w];
    difference = sv_dev_wave_sum_u64(difference, c.at);
    if (c.at.tid == 0 && difference != 0 && !sv_coll_has_failed(c))
        sv_coll_small_report<PROTO>(&c.b, &q.arg, difference);
    sv_dev_stamp(c.context.stamps, c.at.block, SV_STAMP_VERIFIED, c.at.tid);
}

/* Keeps the counters. Partner: the next launch, which also gives the slots back (sv_coll_come_in()). */
SV_DEV_FN void sv_coll_small_leave(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg, bool moved)
{
    for (unsigned r = c.at.tid; r < arg.context.n; r += c.at.nthreads) {
        const bool own = r == arg.context.me; /* whose counters count the channel's work */
        sv_coll_state_t state = c.b.state[r];
        state.entries++;
        state.sent += own || (moved && sv_coll_small_sends(arg, r)) ? 1 : 0;
        state.taken += own || (moved && sv_coll_small_takes(arg, r)) ? 1 : 0;
        arg.context.state[c.at.block * SV_COLL_RANKS + arg.context.member[r]] = state;
    }
}

template <typename PROTO> SV_DEV_FN void sv_coll_small_work(const sv_coll_small_t &q, sv_coll_small_rest_t &rest)
{
    sv_coll_small_run<PROTO> run = {q, 0};
    sv_coll_small_send_entry(q.c, q.arg);
    if (q.c.b.lacks[0] | q.c.b.lacks[1])
        sv_coll_small_wait_credit(&q.c.b, &q.arg.context);
    sv_coll_small_put<PROTO>(q);
    sv_dev_stamp(q.c.context.stamps, q.c.at.block, SV_STAMP_SIGNALLED, q.c.at.tid);
    if (q.arg.work.op == 0)
        run.taken = sv_coll_small_copy<PROTO>(q);
    else if (q.arg.work.call != SV_COLL_REDUCE || q.arg.context.me == q.arg.work.root)
        sv_coll_with_type(q.arg.work.type, run);
    sv_dev_stamp(q.c.context.stamps, q.c.at.block, SV_STAMP_STORED, q.c.at.tid);
    sv_coll_small_check_entry(q.c, q.arg);
    if (q.arg.work.flags & SV_COLL_DIGEST && q.units > 0)
        sv_coll_small_sum_taken<PROTO>(q, run.taken, rest);
}

template <typename PROTO> SV_DEV_FN void sv_coll_small_body(const sv_coll_small_arg_t &arg, sv_dev_block_t at)
{
    SV_DEV_SHARED sv_coll_block_t block;
    SV_DEV_SHARED sv_coll_small_rest_t rest;
    const sv_coll_at_t c = {block, arg.context.dev, arg.context, at};
    sv_dev_launch_release();
    sv_coll_small_make_keys(c, arg);
    sv_dev_launch_wait();
    sv_dev_stamp_begin(arg.context.stamps, at.block, at.tid);
    sv_coll_small_t q = sv_coll_small_part<PROTO>(c, arg);
    if (arg.work.src && at.tid < q.units)
        sv_coll_small_load<PROTO>(q, arg.work.src, at.tid, q.first);
    sv_coll_small_enter(c, arg, q.units > 0);
    sv_dev_block_sync();
    const bool works = !block.leaves;
    if (works)
        sv_coll_small_work<PROTO>(q, rest);
    sv_dev_block_sync();
    if (works)
        sv_coll_small_verify<PROTO>(q, rest);
    sv_coll_settle<false>(c);
    sv_coll_small_leave(c, arg, q.units > 0);
    sv_dev_stamp(arg.context.stamps, at.block, SV_STAMP_LEFT, at.tid);
    sv_coll_tell_ended(arg.context, at);
}

#endif
