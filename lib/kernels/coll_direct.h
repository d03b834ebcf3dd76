/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct algorithms: every rank reads and writes the users' buffers of all, whose addresses came with the hellos. One
 * slice for the channel's whole part, no slots; everybody's fin ends it.
 *
 *   one   all-reduce: read everything from everybody. Reduce-scatter: read the own block. All-gather, all-to-all: push
 *         the own blocks. Broadcast: read from root. Reduce: root reads.
 *   two   all-reduce: read the own shard from all, reduce, push the result to all. Broadcast: read the own shard from
 *         root, push it to the others. Reduce: read the own shard from all, push the result to root.
 *
 * Only its owner reads and writes a shard, so "two" works in place; one-shot all-reduce does not, because others still
 * read what would be written.
 */
#ifndef SV_COLL_DIRECT_H
#define SV_COLL_DIRECT_H

#include "kernels/coll_plan.h"

enum { SV_COLL_WINDOW_SHIFT = 48 };

/* Address of what a rank said lies in a window of its; 0 for none. */
SV_DEV_FN uint64_t sv_coll_window_address(const sv_coll_at_t &c, uint32_t r, uint64_t said)
{
    uint64_t number = said >> SV_COLL_WINDOW_SHIFT;
    uint64_t base = number && number < SV_COLL_WINDOWS
                        ? c.dev->window[c.dev->member[r] * SV_COLL_WINDOWS + number] : 0;
    return base ? base + (said & ((1ull << SV_COLL_WINDOW_SHIFT) - 1)) : 0;
}

/* Whether others read this call's inputs, or write its outputs; of rooted calls also whose. */
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

/*
 * Finds everybody's buffers, and settles between direct and slots by what everybody has heard of everybody, so that all
 * ranks decide alike. One-shot all-reduce in place becomes two-shot. Lane 0.
 */
SV_DEV_FN void sv_coll_direct_settle(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    const sv_coll_work_t &work = c.b.work;
    bool two = p.algo == SV_COLL_DIRECT_TWO, reads = true, writes = true, in_place = false;
    for (uint32_t r = 0; r < c.b.n; r++) {
        uint64_t in = c.b.hello[1][r], out = c.b.hello[2][r];
        in_place |= in != 0 && in == out;
        p.in_of[r] = r == c.b.me ? work.src : sv_coll_window_address(c, r, in);
        p.out_of[r] = r == c.b.me ? work.dst : sv_coll_window_address(c, r, out);
    }
    if (work.call == SV_COLL_ALL_REDUCE && in_place)
        two = true;
    for (uint32_t r = 0; r < c.b.n; r++) {
        reads = reads && (c.b.hello[1][r] >> SV_COLL_WINDOW_SHIFT || !sv_coll_reads(work, r));
        writes = writes && (c.b.hello[2][r] >> SV_COLL_WINDOW_SHIFT || !sv_coll_writes(work, r, two));
    }
    p.algo = two ? SV_COLL_DIRECT_TWO : SV_COLL_DIRECT_ONE;
    if (!reads || !writes)
        p.algo = two || work.call == SV_COLL_ALL_REDUCE ? SV_COLL_TWOSHOT : SV_COLL_ONESHOT;
}

SV_DEV_FN void sv_coll_direct_from_all(const sv_coll_maker_t &m, uint64_t at)
{
    for (uint32_t r = 0; r < m.c.b.n; r++)
        sv_coll_from_input(m, m.p.in_of[r] + at, r);
}

SV_DEV_FN void sv_coll_direct_to_others(const sv_coll_maker_t &m, uint64_t at, uint32_t but)
{
    for (uint32_t k = 1; k < m.c.b.n; k++) {
        uint32_t r = (m.c.b.me + k) % m.c.b.n;
        if (r != but)
            sv_coll_to_memory(m, m.p.out_of[r] + at);
    }
}

SV_DEV_FN void sv_coll_direct_all_reduce(const sv_coll_maker_t &m)
{
    const uint64_t at = sv_coll_shard_at(m.p, m.p.shards > 1 ? m.c.b.me : 0);
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, m.p.shards > 1 ? m.c.b.me : 0), 0);
    sv_coll_direct_from_all(m, at);
    sv_coll_to_memory(m, m.p.out + at);
    if (m.p.shards > 1)
        sv_coll_direct_to_others(m, at, m.c.b.me);
    sv_coll_result(m);
}

SV_DEV_FN void sv_coll_direct_reduce_scatter(const sv_coll_maker_t &m)
{
    sv_coll_slice_begin(m, m.p.piece, 0);
    sv_coll_direct_from_all(m, m.c.b.me * m.p.block_bytes + m.p.at);
    sv_coll_to_memory(m, m.p.out + m.p.at);
    sv_coll_result(m);
}

SV_DEV_FN void sv_coll_direct_all_gather(const sv_coll_maker_t &m)
{
    const uint64_t at = m.c.b.me * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, 0);
    sv_coll_from_memory(m, m.p.in + m.p.at);
    if (m.p.out + at != m.p.in + m.p.at)
        sv_coll_to_memory(m, m.p.out + at);
    sv_coll_direct_to_others(m, at, m.c.b.me);
}

SV_DEV_FN void sv_coll_direct_broadcast(const sv_coll_maker_t &m)
{
    const uint32_t root = m.c.b.work.root, me = m.c.b.me;
    if (me == root) { /* its own copy; the others read */
        sv_coll_slice_begin(m, m.p.covered, 0);
        sv_coll_from_memory(m, m.p.in + m.p.at);
        if (m.p.out != m.p.in)
            sv_coll_to_memory(m, m.p.out + m.p.at);
        return;
    }
    const uint32_t j = m.p.shards > 1 ? (me < root ? me : me - 1) : 0;
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), 0);
    sv_coll_from_memory(m, m.p.in_of[root] + sv_coll_shard_at(m.p, j));
    sv_coll_to_memory(m, m.p.out + sv_coll_shard_at(m.p, j));
    if (m.p.algo == SV_COLL_DIRECT_TWO)
        sv_coll_direct_to_others(m, sv_coll_shard_at(m.p, j), root);
}

SV_DEV_FN void sv_coll_direct_reduce(const sv_coll_maker_t &m)
{
    const uint32_t root = m.c.b.work.root, j = m.p.shards > 1 ? m.c.b.me : 0;
    const bool two = m.p.algo == SV_COLL_DIRECT_TWO;
    sv_coll_slice_begin(m, two || m.c.b.me == root ? sv_coll_shard_bytes(m.p, j) : 0, 0);
    sv_coll_direct_from_all(m, sv_coll_shard_at(m.p, j));
    sv_coll_to_memory(m, (m.c.b.me == root ? m.p.out : m.p.out_of[root]) + sv_coll_shard_at(m.p, j));
    sv_coll_result(m);
}

/* Phase by phase to another rank, the first of them this one. */
SV_DEV_FN void sv_coll_direct_all_to_all(const sv_coll_maker_t &m)
{
    const uint32_t j = (m.c.b.me + m.p.phase) % m.c.b.n;
    sv_coll_slice_begin(m, m.p.piece, 0);
    sv_coll_from_memory(m, m.p.in + j * m.p.block_bytes + m.p.at);
    sv_coll_to_memory(m, (j == m.c.b.me ? m.p.out : m.p.out_of[j]) + m.c.b.me * m.p.block_bytes + m.p.at);
}

#endif
