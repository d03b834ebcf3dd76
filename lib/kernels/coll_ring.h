/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring algorithms. In its channel's ring every rank receives from the rank before it and sends to the rank after it, in
 * n - 1 steps for each half. A shard that starts at rank p is reduced by the ranks after it, in the order of the ring.
 * It is complete at the rank whose shard it is. Chunks follow each other through the slots, so that all links are busy.
 * One lane of a block calls these functions; the plan and the slice belong to the block.
 */
#ifndef SV_COLL_RING_H
#define SV_COLL_RING_H

#include "kernels/coll_plan.h"

/* Rank that is `back` places before this one in its ring. */
SV_DEV_FN uint32_t sv_coll_ring_back(const sv_coll_maker_t &m, uint32_t back)
{
    return (m.p.pos + m.c.b.n - back) % m.c.b.n;
}

/*
 * The verbs of a ring, as NCCL's primitives have them. Each makes one slice. It receives from the rank before, sends to
 * the rank after, reduces with this rank's contribution at `in`, and copies to `out`.
 */
SV_DEV_FN void sv_coll_ring_send(const sv_coll_maker_t &m, uint64_t in)
{
    sv_coll_from_input(m, in, m.c.b.me);
    sv_coll_to_rank(m, m.p.next);
}

SV_DEV_FN void sv_coll_ring_recv_reduce_send(const sv_coll_maker_t &m, uint64_t in)
{
    sv_coll_from_rank(m, m.p.prev);
    sv_coll_from_input(m, in, m.c.b.me);
    sv_coll_to_rank(m, m.p.next);
}

/* The sum is complete: it is a result. */
SV_DEV_FN void sv_coll_ring_recv_reduce_copy(const sv_coll_maker_t &m, uint64_t in, uint64_t out)
{
    sv_coll_from_rank(m, m.p.prev);
    sv_coll_from_input(m, in, m.c.b.me);
    sv_coll_to_memory(m, out);
    sv_coll_result(m);
}

SV_DEV_FN void sv_coll_ring_recv_reduce_copy_send(const sv_coll_maker_t &m, uint64_t in, uint64_t out)
{
    sv_coll_ring_recv_reduce_copy(m, in, out);
    sv_coll_to_rank(m, m.p.next);
}

SV_DEV_FN void sv_coll_ring_recv_copy(const sv_coll_maker_t &m, uint64_t out)
{
    sv_coll_from_rank(m, m.p.prev);
    sv_coll_to_memory(m, out);
}

/* Phase 0 sends the own shard, phases 1 to n - 1 reduce what comes, phases n to 2n - 2 pass results on. */
SV_DEV_FN void sv_coll_ring_all_reduce(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, phase = m.p.phase;
    const uint32_t j = sv_coll_ring_back(m, phase < n ? phase + 1 : phase - n + 1);
    const uint64_t at = sv_coll_shard_at(m.p, j), in = m.p.in + at, out = m.p.out + at;
    sv_coll_slice_begin(m, sv_coll_shard_bytes(m.p, j), at);
    if (phase == 0) {
        sv_coll_ring_send(m, in);
    } else if (phase < n - 1) {
        sv_coll_ring_recv_reduce_send(m, in);
    } else if (phase == n - 1) {
        sv_coll_ring_recv_reduce_copy_send(m, in, out);
    } else {
        sv_coll_ring_recv_copy(m, out);
        if (phase < 2 * n - 2)
            sv_coll_to_rank(m, m.p.next);
        m.s.id_in = m.s.id_out = at | 1ull << SV_COLL_ID_DONE;
    }
}

SV_DEV_FN void sv_coll_ring_reduce_scatter(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, phase = m.p.phase;
    const uint8_t *ring = m.c.dev->ring[m.c.b.channel % m.c.dev->nrings];
    const uint64_t at = ring[sv_coll_ring_back(m, phase + 1)] * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, at);
    if (phase == 0)
        sv_coll_ring_send(m, m.p.in + at);
    else if (phase < n - 1)
        sv_coll_ring_recv_reduce_send(m, m.p.in + at);
    else
        sv_coll_ring_recv_reduce_copy(m, m.p.in + at, m.p.out + m.p.at);
}

SV_DEV_FN void sv_coll_ring_all_gather(const sv_coll_maker_t &m)
{
    const uint32_t n = m.c.b.n, phase = m.p.phase;
    const uint8_t *ring = m.c.dev->ring[m.c.b.channel % m.c.dev->nrings];
    const uint64_t at = ring[sv_coll_ring_back(m, phase)] * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, at);
    if (phase == 0) {
        sv_coll_from_memory(m, m.p.in + m.p.at);
        if (m.p.out + at != m.p.in + m.p.at)
            sv_coll_to_memory(m, m.p.out + at);
    } else {
        sv_coll_ring_recv_copy(m, m.p.out + at);
    }
    if (phase < n - 1)
        sv_coll_to_rank(m, m.p.next);
}

/* How far after root this rank is. */
SV_DEV_FN uint32_t sv_coll_ring_distance(const sv_coll_maker_t &m)
{
    const uint8_t *ring = m.c.dev->ring[m.c.b.channel % m.c.dev->nrings];
    uint32_t pos = 0;
    while (ring[pos] != m.c.b.work.root)
        pos++;
    return (m.p.pos + m.c.b.n - pos) % m.c.b.n;
}

SV_DEV_FN void sv_coll_ring_broadcast(const sv_coll_maker_t &m)
{
    const uint32_t distance = sv_coll_ring_distance(m);
    sv_coll_slice_begin(m, m.p.piece, m.p.at);
    if (distance == 0)
        sv_coll_from_memory(m, m.p.in + m.p.at);
    else
        sv_coll_from_rank(m, m.p.prev);
    if (distance > 0 || m.p.out != m.p.in)
        sv_coll_to_memory(m, m.p.out + m.p.at);
    if (distance < m.c.b.n - 1)
        sv_coll_to_rank(m, m.p.next);
}

SV_DEV_FN void sv_coll_ring_reduce(const sv_coll_maker_t &m)
{
    const uint32_t distance = sv_coll_ring_distance(m);
    sv_coll_slice_begin(m, m.p.piece, m.p.at);
    if (distance == 1)
        sv_coll_ring_send(m, m.p.in + m.p.at);
    else if (distance > 0)
        sv_coll_ring_recv_reduce_send(m, m.p.in + m.p.at);
    else
        sv_coll_ring_recv_reduce_copy(m, m.p.in + m.p.at, m.p.out + m.p.at);
}

#endif
