/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The body of the kernels of collectives. A launch carries pieces of work, in its argument or in the FIFO; block c does
 * channel c's share of each of them, one after the other, with the blocks c of the other ranks.
 *
 *   hello (who calls what, where) -> slices of the schedule -> everybody's hello heard, or everybody's fin
 *
 * There is one loop, and one place in it where a slice is done, so that the arithmetic of each type is compiled once in
 * a kernel, whatever the number of calls and algorithms. There is a kernel for each protocol, which reduces in that one
 * alone; all of them copy in all.
 */
#ifndef SV_COLL_RUN_H
#define SV_COLL_RUN_H

#include "kernels/coll_hello.h"
#include "kernels/coll_lines.h"
#include "kernels/coll_next.h"

SV_DEV_FN void sv_coll_enter(const sv_coll_at_t &c, const sv_coll_arg_t &arg)
{
    const sv_coll_layout_t &layout = c.dev->layout;
    sv_coll_block_t &b = c.b;
    if (c.at.tid == 0) {
        b.n = c.dev->n;
        b.me = c.dev->me;
        b.channel = c.at.block;
        b.arena = c.dev->arena[c.dev->me];
        b.deadline_ns = arg.deadline_ns;
        b.random = c.at.block + 16 * c.dev->me;
        b.failed = sv_dev_load_acquire_u32(c.dev->stop); /* partner: sv_coll_fail() of an earlier launch */
        b.leaves = 0;
        b.work.sequence = b.work.call = 0;
        if (!b.failed) /* what another rank has said meanwhile, while nothing waited here */
            (void)sv_coll_told(c);
    }
    for (unsigned r = c.at.tid; r < c.dev->n; r += c.at.nthreads) {
        uint64_t channel = SV_COLL_ARENA_HEAD + c.at.block * layout.channel_bytes;
        b.mine[r] = c.dev->arena[c.dev->me] + channel + c.dev->member[r] * layout.conn_bytes;
        b.theirs[r] = c.dev->arena[r] + channel + c.dev->member[c.dev->me] * layout.conn_bytes;
        b.state[r] = c.dev->state[c.at.block * SV_COLL_RANKS + c.dev->member[r]];
    }
    sv_dev_block_sync();
}

SV_DEV_FN void sv_coll_leave(const sv_coll_at_t &c, const sv_coll_arg_t &arg)
{
    sv_dev_block_sync();
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        c.dev->state[c.at.block * SV_COLL_RANKS + c.dev->member[r]] = c.b.state[r];
    sv_dev_block_sync();
    if (c.at.tid != 0)
        return;
    if (sv_dev_atomic_add_u32_acq_rel(c.dev->arrivals, 1) + 1 < c.at.nblocks)
        return;
    sv_dev_store_u32_system(c.dev->arrivals, 0);
    if (arg.from_fifo) /* partner: the host that waits for room */
        sv_dev_store_release_system_u32(c.dev->consumed, arg.position + arg.nwork * SV_COLL_FIFO_STRIDE);
}

/* Work i of the launch. */
SV_DEV_FN void sv_coll_fetch(const sv_coll_at_t &c, const sv_coll_arg_t &arg, uint32_t i)
{
    sv_dev_block_sync(); /* nobody looks at the work before any more */
    if (c.at.tid == 0) {
        if (arg.from_fifo) {
            const uint8_t *place = c.dev->fifo + ((arg.position + i * SV_COLL_FIFO_STRIDE) & arg.fifo_mask);
            c.b.work = *reinterpret_cast<const sv_coll_work_t *>(place);
        } else {
            SV_DEV_UNROLL
            for (uint32_t k = 0; k < SV_COLL_ARG_WORKS; k++)
                if (k == i)
                    c.b.work = arg.work[k];
        }
        if (c.b.work.flags & SV_COLL_SCALAR_AT)
            c.b.work.scalar = sv_coll_word_load(sv_coll_pointer<const uint8_t>(c.b.work.scalar),
                                                sv_coll_type_bytes(c.b.work.type));
        c.b.hello[SV_COLL_HELLO - 1][c.b.me] = c.b.work.scalar;
    }
    sv_dev_block_sync();
}

/* The counters of the connection with itself count the channel's work. Partner: the host, which only looks. */
SV_DEV_FN void sv_coll_count(const sv_coll_at_t &c, bool begins)
{
    if (c.at.tid != 0)
        return;
    sv_coll_state_t &own = c.b.state[c.b.me];
    if (begins)
        sv_dev_store_u32_system(&c.dev->counts[c.b.channel].started, static_cast<uint32_t>(++own.sent));
    else
        sv_dev_store_release_system_u32(&c.dev->counts[c.b.channel].completed, static_cast<uint32_t>(++own.taken));
}

template <unsigned PROTO> SV_DEV_FN void sv_coll_run_slice(const sv_coll_at_t &c, uint32_t proto)
{
    if (proto == SV_COLL_LL)
        sv_coll_lines_run<sv_coll_ll, PROTO == SV_COLL_LL>(c);
    else if (proto == SV_COLL_LL128)
        sv_coll_lines_run<sv_coll_long, PROTO == SV_COLL_LL128>(c);
    else
        sv_coll_slots_run<PROTO == SV_COLL_SIMPLE>(c);
}

/* The word that opens a PAIR, in place of a hello: nobody waits for a receiver that is late. */
SV_DEV_FN uint64_t sv_coll_pair_word(const sv_coll_work_t &work, uint64_t elements)
{
    sv_coll_work_t pair = work;
    pair.sequence = 0;
    pair.op = pair.root = 0;
    pair.count = elements;
    return sv_coll_signature(&pair, work.communicator);
}

typedef struct sv_coll_pair {
    uint64_t said, heard, wanted;
} sv_coll_pair_t;

/*
 * The plan as a sequence over all that a piece of work does: for a PAIR two slices of one word each come first, through
 * lines whatever the protocol.
 */
SV_DEV_FN bool sv_coll_next_of(const sv_coll_at_t &c, sv_coll_plan_t &p, sv_coll_pair_t &words, uint32_t turn)
{
    const sv_coll_work_t &work = c.b.work;
    const sv_coll_maker_t m = {c, p, c.b.slice};
    if (work.call != SV_COLL_PAIR || turn > 1 || (work.root == c.b.me && work.peer == c.b.me))
        return sv_coll_next(c, p, c.b.slice);
    sv_coll_slice_begin(m, 0, 0);
    if (turn == 0 && work.root != SV_COLL_PLAIN) {
        words.said = sv_coll_pair_word(work, work.count);
        m.s.bytes = sizeof words.said;
        m.s.id_out = c.b.state[work.root].sent;
        sv_coll_from_memory(m, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&words.said)));
        sv_coll_to_rank(m, work.root);
    } else if (turn == 1 && work.peer != SV_COLL_PLAIN) {
        words.wanted = sv_coll_pair_word(work, work.count_in);
        m.s.bytes = sizeof words.heard;
        m.s.id_in = c.b.state[work.peer].taken;
        sv_coll_from_rank(m, work.peer);
        sv_coll_to_memory(m, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&words.heard)));
    }
    return true;
}

SV_DEV_FN void sv_coll_compare_pair(const sv_coll_at_t &c, const sv_coll_pair_t &words)
{
    const sv_coll_work_t &work = c.b.work;
    if (c.at.tid == 0 && work.peer != SV_COLL_PLAIN && work.peer != c.b.me && words.heard != words.wanted &&
        !sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_LINE, work.peer, words.wanted, words.heard, false);
}

/* All slices of the work. False, for all lanes: something has failed. */
template <unsigned PROTO> SV_DEV_FN bool sv_coll_run_plan(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    SV_DEV_SHARED sv_coll_pair_t words;
    const bool pair = c.b.work.call == SV_COLL_PAIR;
    for (uint32_t turn = 0;; turn++) {
        if (pair && turn == 2)
            sv_coll_compare_pair(c, words);
        if (c.at.tid == 0) {
            if (sv_coll_has_failed(c))
                c.b.more = SV_COLL_MORE_FAILED;
            else
                c.b.more = sv_coll_next_of(c, p, words, turn) ? SV_COLL_MORE_SLICE : SV_COLL_MORE_NONE;
        }
        sv_dev_block_sync();
        if (c.b.more != SV_COLL_MORE_SLICE)
            return c.b.more == SV_COLL_MORE_NONE;
        if (c.b.slice.bytes > 0)
            sv_coll_run_slice<PROTO>(c, pair && turn < 2 ? static_cast<uint32_t>(SV_COLL_LL) : p.proto);
        sv_dev_block_sync();
    }
}

/* Settles whether a direct algorithm can be used. All lanes; hellos are heard. */
SV_DEV_FN void sv_coll_settle(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    if (c.at.tid == 0) {
        sv_coll_direct_settle(c, p);
        p.proto = SV_COLL_SIMPLE;
    }
    sv_dev_block_sync();
}

template <unsigned PROTO> SV_DEV_FN void sv_coll_run_work(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    const sv_coll_work_t &work = c.b.work;
    const bool greets = work.call != SV_COLL_PAIR && c.b.n > 1;
    const bool direct = greets && sv_coll_is_direct(work.algo);
    if (c.at.tid == 0) {
        p.algo = sv_coll_algo_for(c);
        p.proto = c.b.n == 1 ? static_cast<uint32_t>(SV_COLL_SIMPLE) : work.proto;
    }
    if (greets)
        sv_coll_hello_say(c, direct ? SV_COLL_HELLO : 1);
    if (direct) {
        sv_coll_hello_hear(c, SV_COLL_HELLO);
        if (sv_coll_has_failed(c))
            return;
        sv_coll_settle(c, p);
    }
    if (c.at.tid == 0)
        sv_coll_plan_begin(c, p);
    sv_dev_block_sync();
    if (!sv_coll_run_plan<PROTO>(c, p))
        return;
    if (greets && !direct)
        sv_coll_hello_hear(c, 1);
    else if (direct && sv_coll_is_direct(p.algo))
        sv_coll_fin(c);
}

template <unsigned PROTO> SV_DEV_FN void sv_coll_body(const sv_coll_arg_t &arg, sv_dev_block_t at)
{
    SV_DEV_SHARED sv_coll_block_t block;
    SV_DEV_SHARED sv_coll_plan_t plan;
    const sv_coll_at_t c = {block, arg.dev, at};
    sv_coll_enter(c, arg);
    for (uint32_t i = 0; i < arg.nwork && !sv_coll_has_failed(c); i++) {
        sv_coll_fetch(c, arg, i);
        const sv_coll_work_t &work = block.work;
        if (at.block < work.channel || at.block >= work.channel + work.nchannels)
            continue;
        sv_coll_count(c, true);
        sv_coll_run_work<PROTO>(c, plan);
        sv_dev_block_sync();
        sv_coll_count(c, false);
    }
    sv_coll_leave(c, arg);
}

#endif
