/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The body of the kernels of collectives. A launch carries pieces of work, in its argument or in the FIFO. Block c does
 * channel c's share of each of them, one after the other, with the blocks c of the other ranks.
 *
 *   entry (who calls what, where) -> slices of the schedule -> everybody's entry read, or everybody's fin
 *
 * One loop has one place where a slice is done. So the arithmetic of each type is compiled once in a kernel, whatever
 * the number of calls and algorithms. Each protocol has its kernel, which reduces in that protocol alone. All kernels
 * copy in all protocols.
 */
#ifndef SV_COLL_RUN_H
#define SV_COLL_RUN_H

#include "kernels/coll_entry_lines.h"
#include "kernels/coll_lines.h"
#include "kernels/coll_next.h"
#include "kernels/coll_settle.h"
#include "kernels/kernel_stamps.h"

SV_DEV_FN void sv_coll_leave(const sv_coll_at_t &c, const sv_coll_arg_t &arg)
{
    sv_dev_block_sync();
    sv_coll_settle<true>(c);
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        c.context.state[c.at.block * SV_COLL_RANKS + c.context.member[r]] = c.b.state[r];
    if (!arg.from_fifo)
        return;
    sv_dev_block_sync();
    if (c.at.tid != 0)
        return;
    if (sv_dev_atomic_add_u32_acq_rel(c.dev->arrivals, 1) + 1 < c.at.nblocks)
        return;
    sv_dev_store_u32_system(c.dev->arrivals, 0);
    /* Partner: the host that waits for room. */
    sv_dev_store_release_system_u32(c.dev->consumed, arg.position + arg.nwork * SV_COLL_FIFO_STRIDE);
}

/* Takes work i of the launch into the block's memory, a word by each lane, because what lies in the FIFO crosses the
   bus. All lanes call, between two barriers. The first lanes have something else to do before the first one. */
SV_DEV_FN void sv_coll_fetch(const sv_coll_at_t &c, const sv_coll_arg_t &arg, uint32_t i)
{
    enum : unsigned { WORDS = sizeof(sv_coll_work_t) / sizeof(uint64_t) };
    uint64_t *into = reinterpret_cast<uint64_t *>(&c.b.work);
    const unsigned first = c.at.nthreads > 2 * SV_COLL_RANKS ? 2 * SV_COLL_RANKS : 0;
    if (c.at.tid == 0)
        c.b.begun = i + 1;
    if (c.at.tid < first)
        return;
    if (arg.from_fifo) {
        const uint8_t *place = c.dev->fifo + ((arg.position + i * SV_COLL_FIFO_STRIDE) & arg.fifo_mask);
        for (unsigned w = c.at.tid - first; w < WORDS; w += c.at.nthreads - first)
            into[w] = reinterpret_cast<const uint64_t *>(place)[w];
    } else {
        for (unsigned w = c.at.tid - first; w < WORDS; w += c.at.nthreads - first)
            into[w] = reinterpret_cast<const uint64_t *>(&arg.work[i])[w];
    }
}

/* The scalar of this rank, which may lie in device memory. All lanes; ends with a barrier. */
SV_DEV_FN void sv_coll_find_scalar(const sv_coll_at_t &c)
{
    if (c.at.tid == 0) {
        if (c.b.work.flags & SV_COLL_SCALAR_AT)
            c.b.work.scalar = sv_coll_word_load(sv_coll_pointer<const uint8_t>(c.b.work.scalar),
                                                sv_coll_type_bytes(c.b.work.type));
        c.b.entry[SV_COLL_ENTRY - 1][c.b.me] = c.b.work.scalar;
    }
    sv_dev_block_sync();
}

/* The counters of the connection with itself count the channel's work. The host only looks: they order nothing. */
SV_DEV_FN void sv_coll_count(const sv_coll_at_t &c, bool begins)
{
    if (c.at.tid != 0)
        return;
    sv_coll_state_t &own = c.b.state[c.b.me];
    if (begins) {
        sv_coll_tell_begun(c, own, 1);
        own.sent++;
    } else
        own.taken++;
}

typedef struct sv_coll_pair {
    uint64_t said, received, wanted;
} sv_coll_pair_t;

/*
 * The plan as a sequence over all that a piece of work does. In a PAIR two slices of one word each come first, through
 * lines whatever the protocol.
 */
SV_DEV_FN bool sv_coll_next_of(const sv_coll_at_t &c, sv_coll_plan_t &p, sv_coll_pair_t &words, uint32_t turn)
{
    const sv_coll_work_t &work = c.b.work;
    const sv_coll_maker_t m = {c, p, c.b.ahead};
    if (work.call != SV_COLL_PAIR || turn > 1 || (work.root == c.b.me && work.peer == c.b.me))
        return sv_coll_next(c, p, c.b.ahead);
    sv_coll_slice_begin(m, 0, 0);
    if (turn == 0 && work.root != SV_COLL_PLAIN) {
        words.said = sv_coll_pair_word(work, work.count);
        m.s.bytes = sizeof words.said;
        m.s.id_out = c.b.state[work.root].sent;
        sv_coll_from_memory(m, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&words.said)));
        sv_coll_to_rank(m, work.root);
    } else if (turn == 1 && work.peer != SV_COLL_PLAIN) {
        words.wanted = sv_coll_pair_word(work, work.count_in);
        m.s.bytes = sizeof words.received;
        m.s.id_in = c.b.state[work.peer].taken;
        sv_coll_from_rank(m, work.peer);
        sv_coll_to_memory(m, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&words.received)));
    }
    return true;
}

SV_DEV_FN void sv_coll_compare_pair(const sv_coll_at_t &c, const sv_coll_pair_t &words)
{
    const sv_coll_work_t &work = c.b.work;
    if (c.at.tid == 0 && work.peer != SV_COLL_PLAIN && work.peer != c.b.me && words.received != words.wanted &&
        !sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_LINE, work.peer, words.wanted, words.received);
}

/* Makes the next slice, and says whether there is one. */
SV_DEV_COLD void sv_coll_make_ahead(sv_coll_block_t *block, const sv_coll_context_t *context, sv_coll_plan_t *p,
                                    sv_coll_pair_t *words, uint32_t turn)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    block->more = sv_coll_next_of(c, *p, *words, turn) ? SV_COLL_MORE_SLICE : SV_COLL_MORE_NONE;
}

/* Whether slices in slots are made ahead. On AMD GPUs that compiles all schedules once more, which the kernels of lines
   do without: of slots they have copies alone. */
#if defined(SV_DEV_HIP) && defined(SV_COLL_LINES_REDUCE)
enum { SV_COLL_MAKES_AHEAD = 0 };
#else
enum { SV_COLL_MAKES_AHEAD = 1 };
#endif

/* Makes the next slice while the other lanes are at the one before. A PAIR cannot do this, because its slices tell
   their steps. One lane. */
typedef struct sv_coll_prefetch {
    const sv_coll_at_t &c;
    sv_coll_plan_t &p;
    sv_coll_pair_t &words;
    uint32_t turn;

    SV_DEV_METHOD void run() const
    {
        if (SV_COLL_MAKES_AHEAD && c.b.work.call != SV_COLL_PAIR)
            sv_coll_make_ahead(&c.b, &c.context, &p, &words, turn);
    }
} sv_coll_prefetch_t;

/* What was made ahead is the slice. All lanes. */
SV_DEV_FN void sv_coll_turn_to_slice(const sv_coll_at_t &c)
{
    static_assert(sizeof(sv_coll_slice_t) % sizeof(uint64_t) == 0, "whole words");
    const uint64_t *from = reinterpret_cast<const uint64_t *>(&c.b.ahead);
    uint64_t *into = reinterpret_cast<uint64_t *>(&c.b.slice);
    for (unsigned w = c.at.tid; w < sizeof(sv_coll_slice_t) / sizeof(uint64_t); w += c.at.nthreads)
        into[w] = from[w];
    sv_dev_block_sync();
}

/*
 * Whether passes of direct algorithms share the loop of slices, and the place in it where a pass is done. Where
 * everything is inlined, a loop of their own would compile that twice. Where it is a function, they start sooner in a
 * loop of their own.
 */
#if defined(SV_DEV_CUDA)
enum { SV_COLL_ONE_LOOP = 0 };
#else
enum { SV_COLL_ONE_LOOP = 1 };
#endif

/* Whether long lines are ever used: on AMD GPUs none is stored as a whole (coll_litmus.c), and what is never executed
   would be a fifth of the code. */
#if defined(SV_DEV_HIP)
enum { SV_COLL_LONG_LINES = 0 };
#else
enum { SV_COLL_LONG_LINES = 1 };
#endif

/* One slice, or a pass of a direct algorithm. Gives whether the next slice is made, too. */
template <unsigned PROTO>
SV_DEV_FN bool sv_coll_run_slice(const sv_coll_at_t &c, uint32_t proto, const sv_coll_prefetch_t &prefetch)
{
    if (proto == SV_COLL_LL)
        sv_coll_lines_run<sv_coll_ll, PROTO == SV_COLL_LL>(c);
    else if (SV_COLL_LONG_LINES && proto == SV_COLL_LL128)
        sv_coll_lines_run<sv_coll_ll128, PROTO == SV_COLL_LL128>(c);
    else
        return sv_coll_slots_run<PROTO == SV_COLL_SIMPLE>(c, SV_COLL_ONE_LOOP && prefetch.p.direct, prefetch) &&
               SV_COLL_MAKES_AHEAD && c.b.work.call != SV_COLL_PAIR;
    return false;
}

/* Turns to the next slice, which may have been made. All lanes. False: there is none, block.more says why. */
SV_DEV_FN bool sv_coll_slice_turn(const sv_coll_at_t &c, const sv_coll_prefetch_t &prefetch, bool made)
{
    if (c.b.work.call == SV_COLL_PAIR && prefetch.turn == 2)
        sv_coll_compare_pair(c, prefetch.words);
    if (c.at.tid == SV_COLL_HELPER) {
        if (sv_coll_has_failed(c))
            c.b.more = SV_COLL_MORE_FAILED;
        else if (!made)
            sv_coll_make_ahead(&c.b, &c.context, &prefetch.p, &prefetch.words, prefetch.turn);
    }
    sv_dev_block_sync();
    if (c.b.more != SV_COLL_MORE_SLICE)
        return false;
    sv_coll_turn_to_slice(c);
    return true;
}

/* The words of a PAIR go by lines. */
SV_DEV_FN uint32_t sv_coll_proto_of(const sv_coll_at_t &c, const sv_coll_plan_t &p, uint32_t turn)
{
    return turn < 2 && c.b.work.call == SV_COLL_PAIR ? static_cast<uint32_t>(SV_COLL_LL) : p.proto;
}

/* All passes of a direct algorithm. */
template <unsigned PROTO> SV_DEV_FN void sv_coll_run_direct(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    SV_DEV_ROLLED
    for (uint32_t turn = 0; sv_coll_direct_turn(c, p, turn); turn++) {
        sv_coll_sums_t sums = {0, 0};
        if (SV_COLL_DIRECT_SUMS && c.b.pass.stretches) {
            sv_coll_sum_stretches(c);
        } else {
            if constexpr (PROTO == SV_COLL_SIMPLE)
                sums = sv_coll_pass_at(&c.b.pass, c.at.tid, c.at.nthreads);
            else if (sv_coll_is_copy(c.b.pass))
                sums = coll_pass_all<coll_copy>(c.b.pass, c.at.tid, c.at.nthreads);
            sv_coll_direct_count_sums(c, sums);
        }
        sv_dev_block_sync();
    }
}

/* All slices of the work, or all passes of a direct algorithm. False, for all lanes: something has failed, or there is
   nothing to be read any more. */
template <unsigned PROTO> SV_DEV_FN bool sv_coll_run_plan(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    SV_DEV_SHARED sv_coll_pair_t words;
    bool made = false;
    for (uint32_t turn = 0;; turn++) {
        const bool direct = SV_COLL_ONE_LOOP && p.direct;
        if (direct ? !sv_coll_direct_turn(c, p, turn)
                   : !sv_coll_slice_turn(c, sv_coll_prefetch_t{c, p, words, turn}, made))
            break;
        made = false;
        if (direct || c.b.slice.bytes > 0)
            made = sv_coll_run_slice<PROTO>(c, sv_coll_proto_of(c, p, turn), sv_coll_prefetch_t{c, p, words, turn + 1});
        sv_dev_block_sync();
    }
    if (SV_COLL_ONE_LOOP && p.direct)
        return false;
    if (sv_coll_is_helper(c))
        sv_coll_post_flags(c);
    return c.b.more == SV_COLL_MORE_NONE;
}

/* Begins a piece of work. False, for all lanes: something has failed. */
SV_DEV_FN bool sv_coll_run_begin(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    const sv_coll_work_t &work = c.b.work;
    const bool others = work.call != SV_COLL_PAIR && c.b.n > 1, told = others && sv_coll_is_direct(work.algo);
    if (told) {
        sv_coll_direct_begin(c, p);
        sv_dev_block_sync();
        if (sv_coll_has_failed(c))
            return false;
        if (p.direct)
            return true;
    } else if (c.at.tid == 0) {
        p.direct = 0;
        p.algo = sv_coll_algo_for(c);
        p.proto = c.b.n == 1 ? static_cast<uint32_t>(SV_COLL_SIMPLE) : work.proto;
    }
    if (others && !told)
        sv_coll_entry_send(c);
    if (c.at.tid == 0) {
        p.entries_unread = others && !told;
        sv_coll_plan_begin(c, p);
    }
    sv_dev_block_sync();
    return true;
}

/* line is that of the stamps. */
template <unsigned PROTO> SV_DEV_FN void sv_coll_run_work(const sv_coll_at_t &c, sv_coll_plan_t &p, unsigned line)
{
    if (!sv_coll_run_begin(c, p))
        return;
    if (p.direct) /* the entries of all are read */
        sv_dev_stamp(c.context.stamps, line, SV_STAMP_SAW, c.at.tid);
    if (!SV_COLL_ONE_LOOP && p.direct) {
        sv_coll_run_direct<PROTO>(c, p);
        sv_dev_stamp(c.context.stamps, line, SV_STAMP_STORED, c.at.tid);
        return;
    }
    const bool reads = sv_coll_run_plan<PROTO>(c, p);
    sv_dev_stamp(c.context.stamps, line, SV_STAMP_STORED, c.at.tid);
    if (reads && p.entries_unread) {
        sv_coll_entry_check(c);
        sv_dev_stamp(c.context.stamps, line, SV_STAMP_VERIFIED, c.at.tid);
    }
}

template <unsigned PROTO> SV_DEV_FN void sv_coll_body(const sv_coll_arg_t &arg, sv_dev_block_t at)
{
    SV_DEV_SHARED sv_coll_block_t block;
    SV_DEV_SHARED sv_coll_plan_t plan;
    const sv_coll_at_t c = {block, arg.context.dev, arg.context, at};
    sv_dev_launch_release();
    sv_dev_launch_wait();
    sv_coll_come_in(c);
    for (uint32_t i = 0; i < arg.nwork; i++) {
        const unsigned line = i * at.nblocks + at.block;
        sv_dev_stamp_begin(arg.context.stamps, line, at.tid);
        if (i > 0) {
            sv_dev_block_sync(); /* nobody looks at the work before any more, and nobody fails before the next one */
            if (sv_coll_has_failed(c))
                break;
        }
        sv_coll_fetch(c, arg, i);
        sv_dev_block_sync();
        if (block.leaves)
            break;
        const sv_coll_work_t &work = block.work;
        if (at.block < work.channel || at.block >= work.channel + work.nchannels)
            continue;
        if (work.flags & SV_COLL_PREMUL)
            sv_coll_find_scalar(c);
        sv_coll_count(c, true);
        sv_coll_run_work<PROTO>(c, plan, line);
        sv_dev_block_sync();
        sv_coll_count(c, false);
        sv_dev_stamp(arg.context.stamps, line, SV_STAMP_LEFT, at.tid);
    }
    sv_coll_leave(c, arg);
    sv_coll_tell_ended(arg.context, at);
}

#endif
