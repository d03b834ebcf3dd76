/* SPDX-License-Identifier: BSD-3-Clause */
/* From a piece of work to its slices, one after the other. Lane 0 of a block alone; see coll_plan.h. */
#ifndef SV_COLL_NEXT_H
#define SV_COLL_NEXT_H

#include "kernels/coll_direct.h"
#include "kernels/coll_pat_steps.h"
#include "kernels/coll_ring.h"
#include "kernels/coll_oneshot.h"
#include "kernels/coll_types.h"

enum { SV_COLL_SHARD = 16 }; /* bytes of which shards are multiples */

SV_DEV_FN uint64_t sv_coll_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The part of `bytes` that falls to this channel. */
SV_DEV_FN void sv_coll_part(const sv_coll_at_t &c, uint64_t bytes, uint64_t *begin, uint64_t *end)
{
    const sv_coll_work_t &work = c.b.work;
    uint64_t each = sv_coll_part_bytes(bytes, work.nchannels);
    *begin = (c.b.channel - work.channel) * each;
    *begin = *begin < bytes ? *begin : bytes;
    *end = bytes - *begin < each ? bytes : *begin + each;
}

/* For slots of which each is shared by `parts` blocks: whole lines, and a digest after each part. */
SV_DEV_FN void sv_coll_share_slots(const sv_coll_at_t &c, sv_coll_plan_t &p, uint32_t parts)
{
    const uint64_t line = p.proto == SV_COLL_LL128 ? 8 * (SV_COLL_LONG_WORDS - 1) : p.proto == SV_COLL_LL ? 8 : 16;
    uint64_t digest = p.proto != SV_COLL_SIMPLE && c.b.work.flags & SV_COLL_DIGEST ? line : 0;
    p.stride = (p.capacity + digest) / parts / line * line;
    p.capacity = p.stride - digest;
}

/* Into how many shards a chunk is divided, and in how many phases it is done. */
SV_DEV_FN uint32_t sv_coll_count_shards(const sv_coll_at_t &c, uint32_t algo)
{
    const uint32_t call = c.b.work.call, n = c.b.n;
    if (algo != SV_COLL_TWOSHOT && !(algo == SV_COLL_RING && call == SV_COLL_ALL_REDUCE))
        return 1;
    return call == SV_COLL_BROADCAST ? n - 1 : n;
}

SV_DEV_FN uint32_t sv_coll_count_phases(const sv_coll_at_t &c, uint32_t algo)
{
    const uint32_t call = c.b.work.call, n = c.b.n;
    if (call == SV_COLL_PAIR)
        return 2;
    if (algo == SV_COLL_PAT)
        return call == SV_COLL_ALL_GATHER ? 1 + c.dev->gather.nsteps * SV_COLL_PAT_PHASES
                                          : 1 + c.dev->scatter.nsteps * SV_COLL_RANKS;
    if (call == SV_COLL_ALL_REDUCE)
        return algo == SV_COLL_ONESHOT ? 2 : 2 * n - 1;
    if (call == SV_COLL_ALL_TO_ALL)
        return 2 * n - 1;
    if (call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_GATHER)
        return n;
    if (algo != SV_COLL_TWOSHOT)
        return 1;
    return call == SV_COLL_BROADCAST ? n - 1 : 2 * n - 1;
}

SV_DEV_FN void sv_coll_find_place(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    const uint8_t *ring = c.dev->ring[c.b.channel % c.dev->nrings];
    p.pos = 0;
    while (ring[p.pos] != c.b.me)
        p.pos++;
    p.next = ring[(p.pos + 1) % c.b.n];
    p.prev = ring[(p.pos + c.b.n - 1) % c.b.n];
}

/* One rank alone has nobody to send to: everything is one-shot, which is a local pass then. */
SV_DEV_FN uint32_t sv_coll_algo_for(const sv_coll_at_t &c)
{
    return c.b.n == 1 ? static_cast<uint32_t>(SV_COLL_ONESHOT) : c.b.work.algo;
}

/* Begins a piece of work with the algorithm that p.algo says. */
SV_DEV_FN void sv_coll_plan_begin(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    const sv_coll_work_t &work = c.b.work;
    const uint64_t bytes = work.count * sv_coll_type_bytes(work.type);
    p.in = work.src;
    p.out = work.dst;
    p.block_bytes = bytes;
    p.multiplies = work.flags & SV_COLL_PREMUL ? 1 : 0;
    p.divisor = work.flags & SV_COLL_DIVIDE ? c.b.n : 0;
    p.phases = sv_coll_count_phases(c, p.algo);
    p.phase = p.phases; /* the first chunk begins with the first slice */
    p.shards = sv_coll_count_shards(c, p.algo);
    p.capacity = sv_coll_slot_capacity(&c.dev->layout, &work, p.proto);
    p.stride = p.covered = 0;
    sv_coll_part(c, bytes, &p.at, &p.end);
    if (work.call == SV_COLL_PAIR) {
        sv_coll_part(c, work.count_in * sv_coll_type_bytes(work.type), &p.at_in, &p.end_in);
        if (work.root == SV_COLL_PLAIN)
            p.at = p.end;
        if (work.peer == SV_COLL_PLAIN)
            p.at_in = p.end_in;
    }
    if (p.algo == SV_COLL_PAT)
        sv_coll_share_slots(c, p, (c.b.n + 1) / 2);
    if (p.algo == SV_COLL_RING)
        sv_coll_find_place(c, p);
}

SV_DEV_FN bool sv_coll_next_chunk(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    p.phase = 0;
    if (c.b.work.call == SV_COLL_PAIR) /* which goes on by itself */
        return p.at < p.end || p.at_in < p.end_in;
    p.at += p.covered;
    if (p.at >= p.end)
        return false;
    const uint64_t left = p.end - p.at;
    p.piece = p.shards > 1 ? sv_coll_round_up((left + p.shards - 1) / p.shards, SV_COLL_SHARD) : left;
    if (p.piece > p.capacity)
        p.piece = p.capacity;
    p.covered = p.piece * p.shards < left ? p.piece * p.shards : left;
    if (p.shards == 1)
        p.piece = p.covered;
    return true;
}

SV_DEV_FN void sv_coll_make_oneshot(const sv_coll_maker_t &m)
{
    const bool two = m.p.algo == SV_COLL_TWOSHOT;
    switch (m.c.b.work.call) {
    case SV_COLL_ALL_REDUCE:
        return two ? sv_coll_two_all_reduce(m) : sv_coll_oneshot_all_reduce(m);
    case SV_COLL_REDUCE_SCATTER:
        return sv_coll_oneshot_reduce_scatter(m);
    case SV_COLL_ALL_GATHER:
        return sv_coll_oneshot_all_gather(m);
    case SV_COLL_BROADCAST:
        return two ? sv_coll_two_broadcast(m) : sv_coll_oneshot_broadcast(m);
    case SV_COLL_REDUCE:
        return two ? sv_coll_two_reduce(m) : sv_coll_oneshot_reduce(m);
    case SV_COLL_ALL_TO_ALL:
        return sv_coll_oneshot_all_to_all(m);
    default: return sv_coll_pair(m);
    }
}

SV_DEV_FN void sv_coll_make_ring(const sv_coll_maker_t &m)
{
    switch (m.c.b.work.call) {
    case SV_COLL_ALL_REDUCE: return sv_coll_ring_all_reduce(m);
    case SV_COLL_REDUCE_SCATTER: return sv_coll_ring_reduce_scatter(m);
    case SV_COLL_ALL_GATHER: return sv_coll_ring_all_gather(m);
    case SV_COLL_BROADCAST: return sv_coll_ring_broadcast(m);
    default: return sv_coll_ring_reduce(m);
    }
}

SV_DEV_FN void sv_coll_make(const sv_coll_maker_t &m)
{
    m.s.bytes = m.s.ndst = 0;
    if (m.p.algo == SV_COLL_RING)
        sv_coll_make_ring(m);
    else if (m.p.algo == SV_COLL_PAT && m.c.b.work.call == SV_COLL_ALL_GATHER)
        sv_coll_pat_all_gather(m);
    else if (m.p.algo == SV_COLL_PAT)
        sv_coll_pat_reduce_scatter(m);
    else
        sv_coll_make_oneshot(m);
}

/* Makes the next slice that has something to do. False: the work is done. */
SV_DEV_FN bool sv_coll_next(const sv_coll_at_t &c, sv_coll_plan_t &p, sv_coll_slice_t &s)
{
    const sv_coll_maker_t m = {c, p, s};
    for (;;) {
        if (p.phase >= p.phases && !sv_coll_next_chunk(c, p))
            return false;
        sv_coll_make(m);
        p.phase++;
        if (s.bytes > 0 && s.ndst > 0)
            return true;
    }
}

#endif
