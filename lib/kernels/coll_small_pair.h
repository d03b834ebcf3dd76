/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One send and one receive, alone in a launch, in lines of LL or LL128, each of which fits into one step. As
 * coll_small.h says, what counts is the length of the chain of memory accesses. To other ranks it looks like the same
 * messages by the kernels of coll_run.h.
 *
 *   step s       a line that says what is sent, and its digest: in lines of LL whatever the protocol
 *   step s + 1   the data and its digest; left out where the channel has none
 *
 * A rank puts both steps, and then takes both of the rank that it receives from. The line and the data are taken beside
 * each other. If the line says that something else was sent, the wait for the data ends by that error.
 */
#ifndef SV_COLL_SMALL_PAIR_H
#define SV_COLL_SMALL_PAIR_H

#define SV_COLL_PAIRS_ALONE 1 /* no wait asks for entries */
#include "kernels/coll_small.h"

/* The channel's part of what is sent, or received; reads nothing. */
template <typename PROTO>
SV_DEV_FN sv_coll_small_t sv_coll_small_pair_part(const sv_coll_at_t &c, const sv_coll_small_arg_t &arg,
                                                  uint64_t all_bytes, uint64_t part_bytes)
{
    const uint64_t begin = (c.at.block - arg.work.channel) * part_bytes;
    const uint64_t left = begin < all_bytes ? all_bytes - begin : 0, bytes = left < part_bytes ? left : part_bytes;
    return sv_coll_small_t{c, arg, begin, bytes, PROTO::units((bytes + 7) / 8), {0, 0}};
}

/* The key of step `step` from member `from` of the arena. */
SV_DEV_FN uint64_t sv_coll_small_pair_key(const sv_coll_small_arg_t &arg, uint32_t from, uint64_t step)
{
    return sv_coll_key_of(arg.work.key, arg.context.member[from], step);
}

/* The slot of LL in which the line of a step is. */
SV_DEV_FN uint64_t sv_coll_small_pair_line_at(const sv_coll_small_pair_arg_t &arg, uint64_t connection, uint64_t step)
{
    return connection + arg.line_at + step % SV_COLL_STEPS * arg.line_bytes;
}

/* The steps of a connection when both of the message are put, of which state.sent counts one. */
SV_DEV_FN uint64_t sv_coll_small_pair_steps(const sv_coll_state_t &state, bool moves)
{
    return state.sent + (moves ? 1 : 0);
}

/* Waits until the last step is one whose slot the receiver has taken. All lanes, each for itself, after the barrier. */
SV_DEV_COLD void sv_coll_small_pair_wait_credit(sv_coll_block_t *block, const sv_coll_context_t *context, bool moves)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    const uint32_t to = c.b.work.root;
    sv_coll_wait_word(c, c.b.mine[to] + SV_COLL_HEAD_AT,
                      sv_coll_small_pair_steps(c.b.state[to], moves) - SV_COLL_STEPS, SV_COLL_AT_CREDIT, to);
}

/* What differs from call to call; state[] counts the step of the line as over. All lanes call, before a barrier. */
SV_DEV_FN void sv_coll_small_pair_enter(const sv_coll_at_t &c, const sv_coll_small_pair_arg_t &arg, bool moves)
{
    sv_coll_block_t &b = c.b;
    for (unsigned w = c.at.tid; w < sizeof(sv_coll_work_t) / sizeof(uint64_t); w += c.at.nthreads)
        reinterpret_cast<uint64_t *>(&b.work)[w] = reinterpret_cast<const uint64_t *>(&arg.small.work)[w];
    sv_coll_come_in(c);
    for (unsigned r = c.at.tid; r < c.context.n; r += c.at.nthreads) { /* the lanes that have brought these words */
        sv_coll_state_t &state = b.state[r];
        if (r == c.context.me)
            sv_coll_tell_begun(c, state, SV_COLL_TELL_EVERY);
        if (r == arg.small.work.root) {
            state.sent++;
            b.slot_out[r] = b.theirs[r] + arg.small.slots_at + state.sent % SV_COLL_STEPS * arg.small.slot_bytes;
            const uint64_t steps = sv_coll_small_pair_steps(state, moves);
            sv_coll_small_note_lack(c, r, steps > SV_COLL_STEPS &&
                                              static_cast<int64_t>(b.head[r] - (steps - SV_COLL_STEPS)) < 0);
        }
        if (r == arg.small.work.peer) {
            state.taken++;
            b.slot_in[r] = b.mine[r] + arg.small.slots_at + state.taken % SV_COLL_STEPS * arg.small.slot_bytes;
        }
    }
}

/* Puts the line that says what is sent, and its digest. One lane. */
SV_DEV_FN void sv_coll_small_pair_put_line(const sv_coll_at_t &c, const sv_coll_small_pair_arg_t &arg)
{
    const sv_coll_work_t &work = arg.small.work;
    const uint64_t step = c.b.state[work.root].sent - 1;
    const uint64_t line = sv_coll_small_pair_line_at(arg, c.b.theirs[work.root], step);
    const uint64_t word = sv_coll_pair_word(work, work.count);
    const uint32_t flag = static_cast<uint32_t>(step + 1);
    sv_coll_line_put(c, line, word, flag);
    if (work.flags & SV_COLL_DIGEST)
        sv_coll_line_put(c, line + SV_COLL_LINE,
                         sv_coll_term(8, word, 0, sv_coll_small_pair_key(arg.small, arg.small.context.me, step)), flag);
}

/* Puts the line, the data, and their digests. All lanes. The line is the affair of the last lane, which has no data of
   a short message. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_pair_put(const sv_coll_small_t &q, const sv_coll_small_pair_arg_t &arg)
{
    const sv_coll_at_t &c = q.c;
    const sv_coll_work_t &work = arg.small.work;
    const uint32_t to = work.root, me = arg.small.context.me;
    const uint64_t step = c.b.state[to].sent;
    const bool signs = work.flags & SV_COLL_DIGEST;
    if (sv_coll_small_has_lack(c, to))
        sv_coll_small_pair_wait_credit(&c.b, &c.context, q.units > 0);
    if (c.at.tid == c.at.nthreads - 1)
        sv_coll_small_pair_put_line(c, arg);
    if (((step - 1) & c.context.ll_clean) == c.context.ll_clean)
        sv_coll_small_clean(&c.b, &c.context, c.at, to, step - 1, signs ? 2 : 1);
    if (q.units == 0)
        return;
    sv_coll_small_put_to<PROTO>(q, to);
    if (!signs)
        return;
    const uint64_t sum = sv_dev_block_sum_u64(
        sv_coll_small_sum_own<PROTO>(q, sv_coll_small_from(arg.small, to), sv_coll_small_pair_key(arg.small, me, step)),
        c.at);
    const uint64_t word[2] = {sum, 0};
    for (uint64_t u = c.at.tid; u < PROTO::units(1); u += c.at.nthreads)
        PROTO::put(c, c.b.slot_out[to], q.units + u, word, step);
}

/* Takes the line, and compares what it says with what is expected. One lane. */
SV_DEV_FN void sv_coll_small_pair_take_line(const sv_coll_at_t &c, const sv_coll_small_pair_arg_t &arg)
{
    const sv_coll_work_t &work = arg.small.work;
    const uint32_t from = work.peer;
    const uint64_t step = c.b.state[from].taken - 1, line = sv_coll_small_pair_line_at(arg, c.b.mine[from], step);
    const uint32_t flag = static_cast<uint32_t>(step + 1);
    const uint64_t word = sv_coll_line_take(c, line, flag, SV_COLL_AT_LINE, from);
    const uint64_t wanted = sv_coll_pair_word(work, work.count_in);
    if (work.flags & SV_COLL_DIGEST) {
        const uint64_t said = sv_coll_line_take(c, line + SV_COLL_LINE, flag, SV_COLL_AT_LINE, from);
        const uint64_t sum = sv_coll_term(8, word, 0, sv_coll_small_pair_key(arg.small, from, step));
        if (said != sum && !sv_coll_has_failed(c))
            sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_LINE, from, said, sum);
    }
    if (word != wanted && !sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_LINE, from, wanted, word);
}

/* Takes the line, the data, and their digests, and verifies. All lanes. */
template <typename PROTO>
SV_DEV_FN void sv_coll_small_pair_take(const sv_coll_small_t &q, const sv_coll_small_pair_arg_t &arg)
{
    const sv_coll_at_t &c = q.c;
    const sv_coll_work_t &work = arg.small.work;
    const uint32_t from = work.peer;
    const uint64_t step = c.b.state[from].taken;
    const bool sums = work.flags & SV_COLL_DIGEST;
    const uint64_t key = sv_coll_small_pair_key(arg.small, from, step);
    const unsigned taker = c.at.nthreads > 1 ? c.at.nthreads - 2 : 0; /* of the digest: has no data if it is short */
    if (c.at.tid == c.at.nthreads - 1)
        sv_coll_small_pair_take_line(c, arg);
    uint64_t taken = 0;
    SV_DEV_ROLLED
    for (uint64_t u = c.at.tid; u < q.units; u += c.at.nthreads) {
        sv_coll_polled_t polled;
        sv_coll_poller<PROTO>::poll_once(c, c.b.slot_in[from], u, polled);
        sv_coll_small_take<PROTO>(c, polled, from, u);
        sv_coll_small_store<PROTO>(q, work.dst, u, polled.word);
        if (sums)
            taken += sv_coll_small_terms<PROTO>(q, u, polled.word, key);
    }
    if (!sums || q.units == 0)
        return;
    if (c.at.tid == taker) {
        uint64_t word[2];
        (void)PROTO::take(c, c.b.slot_in[from], q.units, step, from, word);
        c.b.taken = word[0];
    }
    taken = sv_dev_block_sum_u64(taken, c.at); /* its barrier comes before the look at what was said */
    if (c.at.tid == 0 && taken != c.b.taken && !sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_LINE, from, c.b.taken, taken);
}

/* Keeps the counters. Partner: the next launch, which also gives the slots back (sv_coll_come_in()). */
SV_DEV_FN void sv_coll_small_pair_leave(const sv_coll_at_t &c, const sv_coll_small_pair_arg_t &arg, bool sent,
                                        bool received)
{
    const sv_coll_work_t &work = arg.small.work;
    for (unsigned r = c.at.tid; r < c.context.n; r += c.at.nthreads) {
        sv_coll_state_t state = c.b.state[r];
        if (r == work.root)
            state.sent += sent ? 1 : 0;
        if (r == work.peer)
            state.taken += received ? 1 : 0;
        if (r == c.context.me) { /* whose counters count the channel's work */
            state.sent++;
            state.taken++;
        }
        c.context.state[c.at.block * SV_COLL_RANKS + c.context.member[r]] = state;
    }
}

template <typename PROTO> SV_DEV_FN void sv_coll_small_pair_body(const sv_coll_small_pair_arg_t &arg, sv_dev_block_t at)
{
    SV_DEV_SHARED sv_coll_block_t block;
    const sv_coll_small_arg_t &small = arg.small;
    const sv_coll_at_t c = {block, small.context.dev, small.context, at};
    sv_dev_launch_release();
    sv_dev_launch_wait();
    if (at.block < small.work.channel) {
        sv_coll_tell_ended(small.context, at);
        return;
    }
    sv_dev_stamp_begin(small.context.stamps, at.block, at.tid);
    sv_coll_small_t out = sv_coll_small_pair_part<PROTO>(c, small, small.block_bytes, small.part_bytes);
    const sv_coll_small_t in = sv_coll_small_pair_part<PROTO>(c, small, arg.in_bytes, arg.in_part_bytes);
    if (small.work.src && at.tid < out.units)
        sv_coll_small_load<PROTO>(out, small.work.src, at.tid, out.first);
    sv_coll_small_pair_enter(c, arg, out.units > 0);
    sv_dev_block_sync();
    if (!block.leaves) {
        if (small.work.root != SV_COLL_PLAIN)
            sv_coll_small_pair_put<PROTO>(out, arg);
        sv_dev_stamp(small.context.stamps, at.block, SV_STAMP_SIGNALLED, at.tid);
        if (small.work.peer != SV_COLL_PLAIN)
            sv_coll_small_pair_take<PROTO>(in, arg);
        sv_dev_stamp(small.context.stamps, at.block, SV_STAMP_STORED, at.tid);
    }
    sv_dev_block_sync();
    sv_coll_settle<false>(c);
    sv_coll_small_pair_leave(c, arg, out.units > 0, in.units > 0);
    sv_dev_stamp(small.context.stamps, at.block, SV_STAMP_LEFT, at.tid);
    sv_coll_tell_ended(small.context, at);
}

#endif
