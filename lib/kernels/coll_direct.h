/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct algorithms: every rank reads and writes the users' buffers of all, whose addresses came with the entry lines.
 * It is one pass over the channel's whole part, without slots, and everybody's fin ends it. The first lanes prepare it,
 * one for each rank. Lane r writes and reads the entry of rank r, and fills in source r and destination r of the pass.
 *
 *   one   all-reduce: read everything from everybody. Reduce-scatter: read the own block. All-gather, all-to-all: push
 *         the own blocks. Broadcast: read from root. Reduce: root reads.
 *   two   all-reduce: read the own shard from all, reduce, push the result to all. Broadcast: read the own shard from
 *         root, push it to the others. Reduce: read the own shard from all, push the result to root. Of these two root
 *         has no shard: what crosses its link is the vector once.
 *
 * Only its owner reads and writes a shard, so "two" works in place. One-shot all-reduce does not, because others still
 * read what would be written. A long call that is not in place only pushes (coll_push.h).
 *
 * With digests there are phases that move nothing (coll_stretches.h). Before the others a rank sums what is read from
 * it and what it does not read itself. After them it sums what was stored in its memory.
 *
 *   sum what others will read -> (in place: fin) -> passes -> what was given, as a line; fin -> sum what was stored
 *   -> everybody's line read
 *
 * In two passes, and pushed, a rank makes results of what others gave, and passes them on. These would verify whatever
 * they were made of. So what was given for that is told in a line before, ahead of the pass that makes results. While
 * everybody waits for everybody's fin, a rank compares what it has made its results of. If that is wrong it records the
 * error, and does not say what it has given: nobody's call ends well.
 */
#ifndef SV_COLL_DIRECT_H
#define SV_COLL_DIRECT_H

#include "kernels/coll_entry_lines.h"
#include "kernels/coll_plan.h"
#include "kernels/coll_push.h"
#include "kernels/coll_slots.h"
#include "kernels/coll_stretches.h"

enum { SV_COLL_WINDOW_SHIFT = 48 };

/* The address of what rank r says lies in a window of its own; 0 for none. */
SV_DEV_FN uint64_t sv_coll_window_address(const sv_coll_at_t &c, uint32_t r, uint64_t said)
{
    uint64_t number = said >> SV_COLL_WINDOW_SHIFT;
    uint64_t base = number && number < SV_COLL_WINDOW_NUMBERS
                        ? c.context.window[c.context.member[r] * SV_COLL_WINDOW_NUMBERS + number] : 0;
    return base ? base + (said & ((1ull << SV_COLL_WINDOW_SHIFT) - 1)) : 0;
}

/* Whether others read rank r's input in this call, or write its output. */
SV_DEV_FN bool sv_coll_reads(const sv_coll_work_t &work, uint32_t r)
{
    return work.call == SV_COLL_ALL_REDUCE || work.call == SV_COLL_REDUCE_SCATTER || work.call == SV_COLL_REDUCE ||
           (work.call == SV_COLL_BROADCAST && r == work.root);
}

SV_DEV_FN bool sv_coll_writes(const sv_coll_work_t &work, uint32_t r, bool two)
{
    return work.call == SV_COLL_ALL_GATHER || work.call == SV_COLL_ALL_TO_ALL ||
           (work.call == SV_COLL_ALL_REDUCE && two) ||
           (work.call == SV_COLL_BROADCAST && two && r != work.root) ||
           (work.call == SV_COLL_REDUCE && two && r == work.root);
}

SV_DEV_FN bool sv_coll_is_direct(uint32_t algo)
{
    return algo == SV_COLL_DIRECT_ONE || algo == SV_COLL_DIRECT_TWO;
}

/* What rank r's buffers allow: bits. */
enum { SV_COLL_CAN_ONE = 1, SV_COLL_CAN_TWO = 2, SV_COLL_IN_PLACE = 4 };

SV_DEV_FN uint32_t sv_coll_direct_capabilities(const sv_coll_work_t &work, uint32_t r, uint64_t in, uint64_t out)
{
    const bool read = in >> SV_COLL_WINDOW_SHIFT || !sv_coll_reads(work, r);
    const bool one = read && (out >> SV_COLL_WINDOW_SHIFT || !sv_coll_writes(work, r, false));
    const bool two = read && (out >> SV_COLL_WINDOW_SHIFT || !sv_coll_writes(work, r, true));
    return (one ? SV_COLL_CAN_ONE : 0) | (two ? SV_COLL_CAN_TWO : 0) | (in != 0 && in == out ? SV_COLL_IN_PLACE : 0);
}

/* Lane r: reads rank r, and finds its buffers. */
SV_DEV_FN void sv_coll_direct_read_entry(const sv_coll_at_t &c, sv_coll_plan_t &p, uint32_t r)
{
    const sv_coll_work_t &work = c.b.work;
    const bool own = r == c.b.me;
    uint64_t word[SV_COLL_ENTRY] = {work.signature, work.src_window, work.dst_window, work.scalar};
    if (!own)
        sv_coll_entry_read_all(c, r, word);
    if (word[0] != work.signature && !sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DIFFERS, SV_COLL_AT_ENTRY, r, work.signature, word[0]);
    p.in_of[r] = own ? work.src : sv_coll_window_address(c, r, word[1]);
    p.out_of[r] = own ? work.dst : sv_coll_window_address(c, r, word[2]);
    p.capabilities[r] = static_cast<uint8_t>(sv_coll_direct_capabilities(work, r, word[1], word[2]));
    c.b.entry[SV_COLL_ENTRY - 1][r] = word[SV_COLL_ENTRY - 1];
    c.b.state[r].entries++;
}

/* Whether this rank stores into the memory of others. */
SV_DEV_FN bool sv_coll_direct_pushes(const sv_coll_work_t &work, uint32_t algo)
{
    return algo == SV_COLL_DIRECT_TWO || work.call == SV_COLL_ALL_GATHER || work.call == SV_COLL_ALL_TO_ALL;
}

/*
 * Chooses between direct and slots by what everybody has read of everybody, so that all ranks decide alike. One-shot
 * all-reduce in place becomes two-shot. Gives the algorithm, and whether it is to push alone.
 */
SV_DEV_FN uint32_t sv_coll_direct_negotiate(const sv_coll_at_t &c, const sv_coll_plan_t &p, bool *pushed)
{
    uint32_t all = SV_COLL_CAN_ONE | SV_COLL_CAN_TWO, any = 0;
    for (uint32_t r = 0; r < c.b.n; r++) {
        all &= p.capabilities[r];
        any |= p.capabilities[r];
    }
    const bool reduces = SV_COLL_DIRECT_REDUCES && c.b.work.call == SV_COLL_ALL_REDUCE;
    const bool in_place = reduces && any & SV_COLL_IN_PLACE;
    const bool two = c.b.work.algo == SV_COLL_DIRECT_TWO || in_place;
    *pushed = two && reduces && !in_place && c.b.work.peer != SV_COLL_PLAIN;
    const bool unseen = !SV_COLL_SEES_STORES && sv_coll_has_digest(c) &&
                        sv_coll_direct_pushes(c.b.work, two ? SV_COLL_DIRECT_TWO : SV_COLL_DIRECT_ONE);
    if (!(all & (two ? SV_COLL_CAN_TWO : SV_COLL_CAN_ONE)) || unseen)
        return two || reduces ? SV_COLL_TWOSHOT : SV_COLL_ONESHOT;
    return two ? SV_COLL_DIRECT_TWO : SV_COLL_DIRECT_ONE;
}

/* Whole: not rank r's shard alone. */
SV_DEV_FN sv_coll_stretch_t sv_coll_direct_stretch(const sv_coll_at_t &c, bool whole, uint32_t r)
{
    const sv_coll_work_t &work = c.b.work;
    const uint64_t all = work.count * sv_coll_type_bytes(work.type);
    const bool root_has_none = work.call == SV_COLL_BROADCAST || work.call == SV_COLL_REDUCE;
    const uint32_t after_root = root_has_none && r > work.root ? 1 : 0;
    if (whole)
        return sv_coll_stretch_of(c, 0, all, work.part_bytes);
    const uint64_t from = (r - after_root) * work.shard_bytes;
    return sv_coll_stretch_of(c, from, from + work.shard_bytes < all ? from + work.shard_bytes : all,
                              work.shard_part_bytes);
}

/* The pass as lane r fills it in: its source r, and its destination r, which is for rank me + r. */
typedef struct sv_coll_direct {
    const sv_coll_at_t &c;
    const sv_coll_plan_t &p;
    bool two;
    uint32_t phase;            /* of an all-to-all */
    sv_coll_stretch_t at;
    uint32_t nsrc, ndst;
} sv_coll_direct_t;

SV_DEV_FN uint64_t sv_coll_direct_source(const sv_coll_direct_t &d, uint32_t r)
{
    const sv_coll_block_t &b = d.c.b;
    const uint64_t block = b.work.count * sv_coll_type_bytes(b.work.type);
    switch (b.work.call) {
    case SV_COLL_REDUCE_SCATTER: return d.p.in_of[r] + b.me * block;
    case SV_COLL_BROADCAST: return d.p.in_of[b.work.root];
    case SV_COLL_ALL_GATHER: return d.p.in_of[b.me];
    case SV_COLL_ALL_TO_ALL: return d.p.in_of[b.me] + sv_coll_around(d.c, d.phase) * block;
    default: return d.p.in_of[r];
    }
}

/* Destinations that are left out come last: the own one of a gathering in place, whose data is there, and root of a
   broadcast. */
SV_DEV_FN uint64_t sv_coll_direct_target(const sv_coll_direct_t &d, uint32_t k)
{
    const sv_coll_block_t &b = d.c.b;
    const uint64_t block = b.work.count * sv_coll_type_bytes(b.work.type);
    switch (b.work.call) {
    case SV_COLL_ALL_GATHER: return d.p.out_of[sv_coll_around(d.c, (k + 1) % b.n)] + b.me * block;
    case SV_COLL_ALL_TO_ALL: return d.p.out_of[sv_coll_around(d.c, d.phase)] + b.me * block;
    case SV_COLL_REDUCE: return d.p.out_of[b.work.root];
    case SV_COLL_BROADCAST: {
        const uint32_t to_root = b.work.root >= b.me ? b.work.root - b.me : b.work.root + b.n - b.me;
        return d.p.out_of[sv_coll_around(d.c, k < to_root || to_root == 0 ? k : k + 1)];
    }
    default: return d.p.out_of[sv_coll_around(d.c, k)];
    }
}

/* Counts sources and destinations. Without a destination this rank has nothing to do. */
SV_DEV_FN void sv_coll_direct_count(sv_coll_direct_t &d)
{
    const sv_coll_block_t &b = d.c.b;
    const bool root = b.me == b.work.root;
    d.nsrc = b.work.op ? b.n : 1;
    d.ndst = 1;
    if (b.work.call == SV_COLL_ALL_REDUCE && d.two)
        d.ndst = b.n;
    else if (b.work.call == SV_COLL_ALL_GATHER)
        d.ndst = d.p.in_of[b.me] == d.p.out_of[b.me] + b.me * b.work.count * sv_coll_type_bytes(b.work.type)
                     ? b.n - 1 : b.n;
    else if (b.work.call == SV_COLL_BROADCAST)
        d.ndst = root ? (d.p.in_of[b.me] == d.p.out_of[b.me] ? 0 : 1) : d.two ? b.n - 1 : 1;
    else if (b.work.call == SV_COLL_REDUCE && d.two == root)
        d.ndst = 0;
}

/* What the pass that moves data sums; it is filled in. Calls that store into others' memory get here only where that is
   seen, as sv_coll_direct_negotiate() has settled. One lane. */
SV_DEV_FN void sv_coll_direct_pass_sums(const sv_coll_direct_t &d)
{
    const sv_coll_at_t &c = d.c;
    const sv_coll_block_t &b = c.b;
    sv_coll_pass_t &pass = c.b.pass;
    const bool two = SV_COLL_SEES_STORES && d.two;
    const uint32_t call = b.work.call, root = b.work.root, own = 1u << b.me, all = (1u << b.n) - 1;
    const bool reduces = SV_COLL_DIRECT_REDUCES && b.work.op;
    const uint32_t to = sv_coll_around(c, d.phase), at_root = 1u << root;
    if (two && d.ndst == 0)
        return;
    if (reduces && d.ndst == 0) { /* a root reads what lies here */
        pass.src[0] = sv_coll_pointer<const uint8_t>(d.p.in_of[b.me] + d.at.begin);
        pass.nsrc = 1;
        pass.premul = pass.divisor = 0;
        pass.bytes = d.at.bytes;
        sv_coll_direct_sum(c, 0, 1, false, at_root);
        pass.key_of[0] = sv_coll_direct_key(c, b.me, false, 0, d.at.begin);
        return;
    }
    for (uint32_t r = 0; r < pass.nsrc; r++)
        pass.key_of[r] = sv_coll_direct_key(c, reduces ? r : call == SV_COLL_BROADCAST ? root : b.me, false,
                                            call == SV_COLL_REDUCE_SCATTER ? b.me : 0, d.at.begin);
    pass.key = sv_coll_direct_key(c, b.me, two,
                                  SV_COLL_SEES_STORES && call == SV_COLL_ALL_TO_ALL ? to : 0, d.at.begin);
    if (SV_COLL_SEES_STORES && call == SV_COLL_ALL_GATHER)
        sv_coll_direct_sum(c, 0, 0, true, all & ~own);
    else if (SV_COLL_SEES_STORES && call == SV_COLL_ALL_TO_ALL)
        sv_coll_direct_sum(c, 0, 0, to != b.me, 1u << to);
    else if (reduces)
        sv_coll_direct_sum(c, all & ~own, call == SV_COLL_ALL_REDUCE && !two ? own : 0, two,
                           (call == SV_COLL_REDUCE ? at_root : all) & ~own);
    else if (b.me != root)
        sv_coll_direct_sum(c, 1, 0, two, all & ~own & ~at_root);
    else if (!two)
        sv_coll_direct_sum(c, 0, 1, false, all & ~own);
    if (call == SV_COLL_BROADCAST && b.me == root && !two)
        pass.bytes = d.at.bytes; /* also where root keeps it in place */
}

/* The pass, or that of a phase. The first lanes. */
SV_DEV_FN void sv_coll_direct_pass(const sv_coll_direct_t &d)
{
    const sv_coll_at_t &c = d.c;
    sv_coll_pass_t &pass = c.b.pass;
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads) {
        pass.src[r] = sv_coll_pointer<const uint8_t>(sv_coll_direct_source(d, r) + d.at.begin);
        pass.dst[r] = sv_coll_pointer<uint8_t>(sv_coll_direct_target(d, r) + d.at.begin);
        pass.scalar[r] = c.b.entry[SV_COLL_ENTRY - 1][r];
    }
    if (c.at.tid != 0)
        return;
    pass.stretches = 0;
    pass.nsrc = d.nsrc;
    pass.ndst = d.ndst;
    pass.premul = SV_COLL_DIRECT_REDUCES && c.b.work.flags & SV_COLL_PREMUL ? (1u << c.b.n) - 1 : 0;
    pass.divisor = static_cast<uint16_t>(SV_COLL_DIRECT_REDUCES && c.b.work.flags & SV_COLL_DIVIDE ? c.b.n : 0);
    pass.bytes = d.ndst > 0 ? d.at.bytes : 0;
    pass.type = c.b.work.type;
    pass.op = static_cast<uint8_t>(sv_coll_op_of(c.b.work.type, c.b.work.op));
    sv_coll_direct_sum(c, 0, 0, false, 0);
    if (sv_coll_has_digest(c))
        sv_coll_direct_pass_sums(d);
}

/* Whether rank r reads what lies on this rank, which does not read it itself. */
SV_DEV_FN bool sv_coll_direct_is_asked(const sv_coll_at_t &c, bool two, uint32_t r)
{
    const sv_coll_work_t &work = c.b.work;
    if (work.call == SV_COLL_BROADCAST)
        return two && c.b.me == work.root && r != work.root;
    return work.call == SV_COLL_REDUCE_SCATTER ||
           (two && (work.call == SV_COLL_ALL_REDUCE || (work.call == SV_COLL_REDUCE && r != work.root)));
}

/* Stretch k: what the rank that comes k + 1 after this one will read. One lane for each. */
SV_DEV_FN void sv_coll_direct_give(const sv_coll_at_t &c, const sv_coll_plan_t &p, bool two, uint32_t k)
{
    const uint32_t r = sv_coll_around(c, k + 1);
    const bool blocks = c.b.work.call == SV_COLL_REDUCE_SCATTER;
    const uint64_t block = c.b.work.count * sv_coll_type_bytes(c.b.work.type);
    sv_coll_stretch_t at = sv_coll_direct_stretch(c, !two, r);
    if (!sv_coll_direct_is_asked(c, two, r))
        at.bytes = 0;
    sv_coll_set_stretch(c, k, p.in_of[c.b.me] + (blocks ? r * block : 0), at,
                        sv_coll_direct_key(c, c.b.me, false, blocks ? r : 0, at.begin));
}

/* Stretch k: what the rank that comes k + 1 after this one has stored here. One lane for each. */
SV_DEV_FN void sv_coll_direct_poll(const sv_coll_at_t &c, const sv_coll_plan_t &p, bool two, uint32_t k)
{
    const sv_coll_work_t &work = c.b.work;
    const uint32_t r = sv_coll_around(c, k + 1);
    const bool blocks = work.call == SV_COLL_ALL_GATHER || work.call == SV_COLL_ALL_TO_ALL;
    const uint64_t block = work.count * sv_coll_type_bytes(work.type);
    const bool is_root = c.b.me == work.root;
    sv_coll_stretch_t at = sv_coll_direct_stretch(c, blocks, r);
    if ((work.call == SV_COLL_REDUCE && !is_root) || (work.call == SV_COLL_BROADCAST && (is_root || r == work.root)))
        at.bytes = 0;
    sv_coll_set_stretch(c, k, p.out_of[c.b.me] + (blocks ? r * block : 0), at,
                        sv_coll_direct_key(c, r, two, work.call == SV_COLL_ALL_TO_ALL ? c.b.me : 0, at.begin));
}

/* How many phases come before those that move data, and after them. */
SV_DEV_FN uint32_t sv_coll_direct_before(const sv_coll_at_t &c, uint32_t algo)
{
    const uint32_t call = c.b.work.call;
    return (SV_COLL_DIRECT_REDUCES && call == SV_COLL_REDUCE_SCATTER && sv_coll_has_digest(c)) ||
                   (algo == SV_COLL_DIRECT_TWO && sv_coll_direct_signs_stores(c)) ? 1 : 0;
}

SV_DEV_FN uint32_t sv_coll_direct_after(const sv_coll_at_t &c, uint32_t algo)
{
    return sv_coll_direct_signs_stores(c) && sv_coll_direct_pushes(c.b.work, algo) ? 1 : 0;
}

/* What has to be done in that phase. The first lanes; how is settled, and it is not to push. */
SV_DEV_FN void sv_coll_direct_prepare(const sv_coll_at_t &c, const sv_coll_plan_t &p, uint32_t algo, uint32_t phase)
{
    const bool two = algo == SV_COLL_DIRECT_TWO;
    const bool root = c.b.work.call == SV_COLL_BROADCAST && c.b.me == c.b.work.root;
    const uint32_t before = sv_coll_direct_before(c, algo);
    const uint32_t moving = c.b.work.call == SV_COLL_ALL_TO_ALL ? c.b.n : 1;
    if (!SV_COLL_DIRECT_SUMS || (phase >= before && phase < before + moving)) {
        sv_coll_direct_t d = {c, p, two, phase - before, sv_coll_direct_stretch(c, !two || root, c.b.me), 0, 0};
        sv_coll_direct_count(d);
        sv_coll_direct_pass(d);
        return;
    }
    for (uint32_t k = c.at.tid; k + 1 < c.b.n; k += c.at.nthreads) {
        if (!SV_COLL_SEES_STORES || phase < before)
            sv_coll_direct_give(c, p, two, k);
        else
            sv_coll_direct_poll(c, p, two, k);
    }
    if (c.at.tid == 0)
        sv_coll_stretches_pass(c, phase >= before);
}

/* Entry lines, buffers and the first pass. All lanes call, before a barrier. Then p.algo says how the call is done. */
SV_DEV_FN void sv_coll_direct_begin(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    if (c.at.tid >= SV_DEV_WAVE)
        return;
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        sv_coll_entry_send_all(c, r);
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        sv_coll_direct_read_entry(c, p, r);
    sv_dev_wave_sync();
    bool pushed;
    const uint32_t algo = sv_coll_direct_negotiate(c, p, &pushed);
    if (sv_coll_is_direct(algo) && !pushed)
        sv_coll_direct_prepare(c, p, algo, 0);
    if (c.at.tid == 0) {
        p.algo = algo;
        p.direct = sv_coll_is_direct(algo);
        p.pushed = pushed;
        p.proto = SV_COLL_SIMPLE;
        p.before = sv_coll_direct_before(c, algo);
        p.until = p.before + (c.b.work.call == SV_COLL_ALL_TO_ALL ? c.b.n : 1);
        p.phases = p.until + sv_coll_direct_after(c, algo);
        p.in_place = 0;
        for (uint32_t r = 0; r < c.b.n; r++)
            p.in_place |= p.capabilities[r] & SV_COLL_IN_PLACE;
        if (SV_COLL_DIRECT_REDUCES && pushed)
            sv_coll_push_begin(c, p);
        c.b.taken = 0;
    }
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        c.b.given[r] = c.b.lent[r] = 0;
}

/* The scalar of rank r counts as given by it, where inputs are multiplied: others multiply by it. */
SV_DEV_FN uint64_t sv_coll_direct_scalar(const sv_coll_at_t &c, uint32_t r)
{
    if (!(c.b.work.flags & SV_COLL_PREMUL))
        return 0;
    return digest_term(c.b.entry[SV_COLL_ENTRY - 1][r], sv_coll_direct_key(c, r, false, 1ull << 32, 0));
}

/* Tells rank r a sum that it is given, in a line of the entry, of which the lines of the call are read by now or are
   others. */
SV_DEV_FN void sv_coll_direct_tell(const sv_coll_at_t &c, uint32_t r, unsigned line, uint64_t sum)
{
    if (r != c.b.me)
        sv_coll_line_put(c, sv_coll_entry_at(c, c.b.theirs[r], c.b.state[r].entries - 1, line),
                         sum + sv_coll_direct_scalar(c, c.b.me), static_cast<uint32_t>(c.b.state[r].entries));
}

/* What rank r says so. */
SV_DEV_FN uint64_t sv_coll_direct_told(const sv_coll_at_t &c, uint32_t r, unsigned line)
{
    if (r == c.b.me)
        return 0;
    return sv_coll_line_take(c, sv_coll_entry_at(c, c.b.mine[r], c.b.state[r].entries - 1, line),
                             static_cast<uint32_t>(c.b.state[r].entries), SV_COLL_AT_FIN, r) -
           sv_coll_direct_scalar(c, r);
}

/* What was taken is not what all ranks say that they gave. Of several ranks it may be any. One lane. */
SV_DEV_FN void sv_coll_direct_fail(const sv_coll_at_t &c, uint64_t said)
{
    if (!sv_coll_has_failed(c))
        sv_coll_fail(c, SV_COLL_DAMAGED, SV_COLL_AT_FIN, c.b.n == 2 ? 1 - c.b.me : c.b.me, said, c.b.taken);
}

/*
 * Helpers, while others wait for everybody's fin: tell what was given to each rank. Where results are passed on they
 * first compare what these were made of, of which all that was taken is this far.
 */
typedef struct sv_coll_direct_sums {
    const sv_coll_at_t &c;
    bool compares, tells;

    SV_DEV_METHOD void run() const
    {
        if (!tells || !sv_coll_is_helper(c))
            return;
        const unsigned first = c.at.tid - SV_COLL_HELPER;
        if (compares) {
            uint64_t said = 0;
            for (unsigned r = first; r < c.b.n; r += SV_DEV_WAVE)
                said += sv_coll_direct_told(c, r, SV_COLL_ENTRY_LENT);
            said = sv_dev_wave_sum_u64(said, c.at);
            if (said != c.b.taken) {
                if (first == 0)
                    sv_coll_direct_fail(c, said);
                return;
            }
        }
        for (unsigned r = first; r < c.b.n; r += SV_DEV_WAVE) {
            sv_coll_direct_tell(c, r, SV_COLL_ENTRY, c.b.given[r]);
            if (!compares && ((c.b.state[r].entries - 1) & c.context.ll_clean) == c.context.ll_clean)
                sv_coll_direct_tell(c, r, SV_COLL_ENTRY_LENT, 0); /* so that it keeps no old flag */
        }
    }
} sv_coll_direct_sums_t;

/* Tells each rank the sum of what it makes results of. All lanes, after the barrier that ends the last pass that gives
   such. */
SV_DEV_FN void sv_coll_direct_tell_lent(const sv_coll_at_t &c, bool pushed)
{
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        sv_coll_direct_tell(c, r, SV_COLL_ENTRY_LENT, pushed ? c.b.lent[r] : c.b.given[r]);
}

/* Compares what was taken with what all ranks say that they gave. All lanes. */
SV_DEV_FN void sv_coll_direct_verify(const sv_coll_at_t &c)
{
    uint64_t said = 0;
    for (unsigned r = c.at.tid; r < c.b.n; r += c.at.nthreads)
        said += sv_coll_direct_told(c, r, SV_COLL_ENTRY);
    said = sv_dev_block_sum_u64(said, c.at);
    if (c.at.tid == 0 && said != c.b.taken)
        sv_coll_direct_fail(c, said);
}

/* Whether everybody waits for everybody before the pass of that phase. */
SV_DEV_FN bool sv_coll_direct_ends(const sv_coll_plan_t &p, uint32_t turn)
{
    if (SV_COLL_DIRECT_REDUCES && p.pushed)
        return turn > 0 && turn <= p.until && turn % p.stage_phases == 0;
    return turn == p.until || (turn > 0 && turn == p.before && p.algo == SV_COLL_DIRECT_TWO && p.in_place);
}

/*
 * The pass of phase `turn`. The first one is prepared already, unless it is to push. All lanes call, after a barrier,
 * and it ends with one. False: there is no pass, and everybody has ended.
 */
SV_DEV_FN bool sv_coll_direct_turn(const sv_coll_at_t &c, sv_coll_plan_t &p, uint32_t turn)
{
    const bool pushed = SV_COLL_DIRECT_REDUCES && p.pushed, prepared = turn == 0 && !pushed;
    const bool ends = sv_coll_direct_ends(p, turn), sums = sv_coll_has_digest(c);
    const bool passes_on = sv_coll_direct_signs_stores(c) && p.algo == SV_COLL_DIRECT_TWO;
    if (passes_on && turn == (pushed ? p.until - 2 * p.stage_phases : p.before))
        sv_coll_direct_tell_lent(c, pushed);
    if (ends)
        sv_coll_fin(c, sv_coll_direct_pushes(c.b.work, p.algo),
                    sv_coll_direct_sums_t{c, passes_on, sums && turn == p.until});
    /* After the barrier that ends a fin nobody fails before the next one. A block that failed must not say again that
       it has ended: others would take what is there for the result. */
    if (ends && sv_coll_has_failed(c))
        return false;
    if (turn == p.phases) {
        if (sums)
            sv_coll_direct_verify(c);
        return false;
    }
    if (pushed && c.at.tid == 0)
        sv_coll_push_prepare(&c.b, &c.context, &p, turn);
    else if (!pushed && !prepared && c.at.tid < SV_COLL_RANKS)
        sv_coll_direct_prepare(c, p, p.algo, turn);
    if (!prepared)
        sv_dev_block_sync();
    return true;
}

#endif
