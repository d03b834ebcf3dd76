/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One- and two-shot algorithms through slots: every rank sends to every other at once. One-shot: everybody sends all,
 * and reduces all itself. Two-shot: everybody sends shard j to rank j, which reduces it and sends the result to all.
 * Sums are in rank order.
 */
#ifndef SV_COLL_ONESHOT_H
#define SV_COLL_ONESHOT_H

#include "kernels/coll_plan.h"

SV_DEV_FN void sv_coll_oneshot_all_reduce(const sv_coll_maker_t &m)
{
    sv_coll_slice_begin(m, m.p.piece, m.p.at);
    if (m.p.phase == 0) {
        sv_coll_from_input(m, m.p.in + m.p.at, m.c.b.me);
        sv_coll_to_others(m, m.c.b.me);
    } else {
        sv_coll_from_all(m, m.p.in + m.p.at);
        sv_coll_to_memory(m, m.p.out + m.p.at);
        sv_coll_result(m);
    }
}

/* Phases 0 to n-2 send shards. Phase n-1 reduces the own one, and sends it on or keeps it. Later ones take the others'
   results. */
SV_DEV_FN void sv_coll_two_all_reduce(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, me = m.c.b.me, phase = m.p.phase;
    const uint32_t j = (me + phase + 1) % n; /* phase n - 1: me; after that, again all others */
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), sv_coll_shard_at(m.p, j));
    if (phase < n - 1) {
        sv_coll_from_input(m, m.p.in + sv_coll_shard_at(m.p, j), me);
        sv_coll_to_rank(m, j);
    } else if (phase == n - 1) {
        sv_coll_from_all(m, m.p.in + sv_coll_shard_at(m.p, j));
        sv_coll_to_memory(m, m.p.out + sv_coll_shard_at(m.p, j));
        sv_coll_to_others(m, me);
        sv_coll_result(m);
    } else {
        sv_coll_from_rank(m, j);
        sv_coll_to_memory(m, m.p.out + sv_coll_shard_at(m.p, j));
        m.s.id_in |= 1ull << SV_COLL_ID_DONE;
    }
}

SV_DEV_FN void sv_coll_oneshot_reduce_scatter(const sv_coll_maker_t &m)
{
    const uint32_t j = (m.c.b.me + m.p.phase + 1) % m.c.b.n; /* the last phase: me */
    const uint64_t at = j * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, at);
    if (j != m.c.b.me) {
        sv_coll_from_input(m, m.p.in + at, m.c.b.me);
        sv_coll_to_rank(m, j);
    } else {
        sv_coll_from_all(m, m.p.in + at);
        sv_coll_to_memory(m, m.p.out + m.p.at);
        sv_coll_result(m);
    }
}

SV_DEV_FN void sv_coll_oneshot_all_gather(const sv_coll_maker_t &m)
{
    const uint32_t r = (m.c.b.me + m.p.phase) % m.c.b.n;
    const uint64_t at = r * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, at);
    if (r == m.c.b.me) {
        sv_coll_from_memory(m, m.p.in + m.p.at);
        if (m.p.out + at != m.p.in + m.p.at)
            sv_coll_to_memory(m, m.p.out + at);
        sv_coll_to_others(m, r);
    } else {
        sv_coll_from_rank(m, r);
        sv_coll_to_memory(m, m.p.out + at);
    }
}

SV_DEV_FN void sv_coll_oneshot_broadcast(const sv_coll_maker_t &m)
{
    sv_coll_slice_begin(m, m.p.piece, m.p.at);
    if (m.c.b.me == m.c.b.work.root) {
        sv_coll_from_memory(m, m.p.in + m.p.at);
        if (m.p.out != m.p.in)
            sv_coll_to_memory(m, m.p.out + m.p.at);
        sv_coll_to_others(m, m.c.b.me);
    } else {
        sv_coll_from_rank(m, m.c.b.work.root);
        sv_coll_to_memory(m, m.p.out + m.p.at);
    }
}

/* Which of the ranks but root holds shard j, and which shard rank r holds. */
SV_DEV_FN uint32_t sv_coll_holder(uint32_t root, uint32_t j)
{
    return j < root ? j : j + 1;
}

SV_DEV_FN uint32_t sv_coll_held(uint32_t root, uint32_t r)
{
    return r < root ? r : r - 1;
}

/* Root sends one shard to each of the others, phase by phase, then copies for itself. The others pass the own shard on
   to those that are not root, then take theirs. */
SV_DEV_FN void sv_coll_two_broadcast(const sv_coll_maker_t &m)
{
    const uint32_t shards = m.c.b.n - 1, root = m.c.b.work.root, phase = m.p.phase;
    if (m.c.b.me == root) {
        const uint32_t j = (root + phase) % shards;
        sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), sv_coll_shard_at(m.p, j));
        sv_coll_from_memory(m, m.p.in + sv_coll_shard_at(m.p, j));
        if (m.p.out != m.p.in)
            sv_coll_to_memory(m, m.p.out + sv_coll_shard_at(m.p, j));
        sv_coll_to_rank(m, sv_coll_holder(root, j));
        return;
    }
    const uint32_t j = (sv_coll_held(root, m.c.b.me) + phase) % shards, holder = sv_coll_holder(root, j);
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), sv_coll_shard_at(m.p, j));
    sv_coll_from_rank(m, holder == m.c.b.me ? root : holder);
    sv_coll_to_memory(m, m.p.out + sv_coll_shard_at(m.p, j));
    if (holder == m.c.b.me)
        sv_coll_to_others(m, root);
    if (holder != m.c.b.me)
        m.s.id_in |= 1ull << SV_COLL_ID_DONE;
    m.s.id_out |= 1ull << SV_COLL_ID_DONE;
}

SV_DEV_FN void sv_coll_oneshot_reduce(const sv_coll_maker_t &m)
{
    sv_coll_slice_begin(m, m.p.piece, m.p.at);
    if (m.c.b.me != m.c.b.work.root) {
        sv_coll_from_input(m, m.p.in + m.p.at, m.c.b.me);
        sv_coll_to_rank(m, m.c.b.work.root);
    } else {
        sv_coll_from_all(m, m.p.in + m.p.at);
        sv_coll_to_memory(m, m.p.out + m.p.at);
        sv_coll_result(m);
    }
}

/* As two-shot all-reduce, but results go to root alone. */
SV_DEV_FN void sv_coll_two_reduce(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, me = m.c.b.me, root = m.c.b.work.root, phase = m.p.phase;
    const uint32_t j = (me + phase + 1) % n;
    const uint64_t at = sv_coll_shard_at(m.p, j);
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), at);
    if (phase < n - 1) {
        sv_coll_from_input(m, m.p.in + at, me);
        sv_coll_to_rank(m, j);
    } else if (phase == n - 1) {
        sv_coll_from_all(m, m.p.in + at);
        if (me == root)
            sv_coll_to_memory(m, m.p.out + at);
        else
            sv_coll_to_rank(m, root);
        sv_coll_result(m);
    } else if (me == root) {
        sv_coll_from_rank(m, j);
        sv_coll_to_memory(m, m.p.out + at);
        m.s.id_in |= 1ull << SV_COLL_ID_DONE;
    }
}

/* Phases 0 to n-1 send to rank me + phase, which at first is this rank itself. Later ones take from rank me - phase. */
SV_DEV_FN void sv_coll_oneshot_all_to_all(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, me = m.c.b.me;
    if (m.p.phase < n) {
        const uint32_t j = (me + m.p.phase) % n;
        sv_coll_slice_begin(m, m.p.piece, j * m.p.block_bytes + m.p.at);
        sv_coll_from_memory(m, m.p.in + j * m.p.block_bytes + m.p.at);
        if (j == me)
            sv_coll_to_memory(m, m.p.out + j * m.p.block_bytes + m.p.at);
        else
            sv_coll_to_rank(m, j);
    } else {
        const uint32_t r = (2 * n + me - 1 - m.p.phase) % n; /* phase n: the rank before this one */
        sv_coll_slice_begin(m, m.p.piece, me * m.p.block_bytes + m.p.at);
        sv_coll_from_rank(m, r);
        sv_coll_to_memory(m, m.p.out + r * m.p.block_bytes + m.p.at);
    }
}

/* A send and a receive that proceed together, each through its own range of bytes. */
SV_DEV_FN void sv_coll_pair(const sv_coll_maker_t &m)
{
    const sv_coll_work_t &work = m.c.b.work;
    const bool sends = m.p.phase == 0, self = work.root == m.c.b.me && work.peer == m.c.b.me;
    const uint64_t at = sends ? m.p.at : m.p.at_in, end = sends ? m.p.end : m.p.end_in;
    const uint64_t left = at < end ? end - at : 0;
    sv_coll_slice_begin(m, left < m.p.capacity ? left : m.p.capacity, 0);
    if (self && sends) {
        sv_coll_from_memory(m, m.p.in + at);
        sv_coll_to_memory(m, m.p.out + at);
    } else if (sends && left) {
        sv_coll_from_memory(m, m.p.in + at);
        m.s.id_out = m.c.b.state[work.root].sent;
        sv_coll_to_rank(m, work.root);
    } else if (!self && !sends && left) {
        m.s.id_in = m.c.b.state[work.peer].taken;
        sv_coll_from_rank(m, work.peer);
        sv_coll_to_memory(m, m.p.out + at);
    }
    if (sends)
        m.p.at += m.s.bytes;
    else
        m.p.at_in += m.s.bytes;
}

#endif
