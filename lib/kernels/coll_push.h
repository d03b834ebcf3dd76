/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct all-reduce in which nobody reads another rank's memory. With traffic both ways, a link carries more bytes that
 * are pushed than bytes that are asked for. What is sent to the owner of a shard waits in the owner's result. Nothing
 * is there yet, and the place is where the sender's own shard will be:
 *
 *   rank r's result:  | shard 0: from rank 0 | ... | shard r: own | ... | shard n-1: from rank n-1 |
 *
 * A channel's part of a shard is cut into pieces, and everything is done in stages, after each of which all ranks wait
 * for all. In stage t a rank
 *
 *   sends    piece t of each shard to its owner,
 *   reduces  piece t - 1 of its own shard,
 *   shares   piece t - 2 of that with everybody.
 *
 * So a result replaces what was sent there only when that was reduced. Steps of a stage touch different pieces, and may
 * come in any order. Channels use different orders, so that not all of them reduce at once and leave the links idle.
 * The first channel takes the end of the vector that cannot be divided into equal shards, and reads it.
 */
#ifndef SV_COLL_PUSH_H
#define SV_COLL_PUSH_H

#include "kernels/coll_plan.h"
#include "kernels/coll_slots.h"
#include "kernels/coll_stretches.h"
#include "kernels/coll_types.h"

/*
 * Digests of direct calls. Each rank sums what it gives to every other, as it stores it or as it lies there to be read.
 * It also sums what it takes from others, as it reads it or as it was stored here. At the end all tell all what they
 * gave. Terms are bound to their places in the vector, or in the block, which `index` numbers.
 */
enum { SV_COLL_ID_DIRECT = 61 };

SV_DEV_FN bool sv_coll_direct_signs_stores(const sv_coll_at_t &c)
{
    return SV_COLL_SEES_STORES && sv_coll_has_digest(c);
}

SV_DEV_FN uint64_t sv_coll_direct_key(const sv_coll_at_t &c, uint32_t source, bool done, uint64_t index, uint64_t at)
{
    const uint64_t id = 1ull << SV_COLL_ID_DIRECT | (done ? 1ull : 0ull) << SV_COLL_ID_DONE | index;
    return sv_coll_key(c, c.context.member[source], id) + at / 8 * SV_DIGEST_STEP;
}

/* What the pass sums: sources, bits, and, if `to` is not 0, its result. One lane; the keys are filled in apart. */
SV_DEV_FN void sv_coll_direct_sum(const sv_coll_at_t &c, uint32_t taken, uint32_t given, bool result, uint32_t to)
{
    c.b.lent_to = 0;
    const bool sums = sv_coll_has_digest(c);
    c.b.pass.taken = sums ? taken : 0;
    c.b.pass.given = sums ? given : 0;
    c.b.pass.digest = sums && result;
    c.b.pass.first_word = 0;
    c.b.given_to = to;
}

/* One lane. */
SV_DEV_FN void sv_coll_push_begin(const sv_coll_at_t &c, sv_coll_plan_t &p)
{
    p.stage_phases = c.b.n + 1;
    p.until = ((1u << c.b.work.peer) + 2) * p.stage_phases;
    p.phases = p.until + (sv_coll_direct_signs_stores(c) ? 1 : 0);
}

/* A stage, and the equal shards. */
typedef struct sv_coll_push {
    const sv_coll_at_t &c;
    const sv_coll_plan_t &p;
    uint64_t bytes, shard_bytes;
    uint32_t stage;
} sv_coll_push_t;

SV_DEV_FN sv_coll_push_t sv_coll_push_of(const sv_coll_at_t &c, const sv_coll_plan_t &p, uint32_t stage)
{
    const sv_coll_work_t &work = c.b.work;
    const uint64_t bytes = work.count * sv_coll_type_bytes(work.type), shard = work.shard_bytes;
    const uint64_t less = shard < SV_COLL_UNIT ? 0 : shard - SV_COLL_UNIT; /* as the host rounded up */
    return sv_coll_push_t{c, p, bytes, shard * c.b.n > bytes ? less : shard, stage};
}

/* This channel's piece of rank r's shard; empty if there is none of that number, which may be below 0. */
SV_DEV_FN sv_coll_stretch_t sv_coll_push_piece(const sv_coll_push_t &push, uint32_t r, uint32_t piece)
{
    const sv_coll_work_t &work = push.c.b.work;
    const uint64_t from = r * push.shard_bytes;
    const sv_coll_stretch_t part = sv_coll_stretch_of(push.c, from, from + push.shard_bytes, work.shard_part_bytes);
    const uint64_t each = ((work.shard_part_bytes >> work.peer) + SV_COLL_PART - 1) / SV_COLL_PART * SV_COLL_PART;
    const uint64_t skip = static_cast<uint64_t>(piece) * each;
    if (piece >> work.peer || skip >= part.bytes)
        return sv_coll_stretch_t{0, 0};
    return sv_coll_stretch_t{part.begin + skip, part.bytes - skip < each ? part.bytes - skip : each};
}

SV_DEV_FN void sv_coll_push_from(const sv_coll_push_t &push, uint32_t i, uint64_t address)
{
    push.c.b.pass.src[i] = sv_coll_pointer<const uint8_t>(address);
    push.c.b.pass.scalar[i] = push.c.b.entry[SV_COLL_ENTRY - 1][i];
}

SV_DEV_FN void sv_coll_push_to(const sv_coll_push_t &push, uint32_t i, uint64_t address)
{
    push.c.b.pass.dst[i] = sv_coll_pointer<uint8_t>(address);
}

/* The rest of the pass. */
SV_DEV_FN void sv_coll_push_pass(const sv_coll_push_t &push, uint32_t nsrc, uint32_t ndst, uint64_t bytes)
{
    const sv_coll_work_t &work = push.c.b.work;
    sv_coll_pass_t &pass = push.c.b.pass;
    const bool reduces = nsrc > 1;
    pass.stretches = 0;
    pass.nsrc = nsrc;
    pass.ndst = ndst;
    pass.premul = reduces && work.flags & SV_COLL_PREMUL ? (1u << nsrc) - 1 : 0;
    pass.divisor = static_cast<uint16_t>(reduces && work.flags & SV_COLL_DIVIDE ? nsrc : 0);
    pass.bytes = bytes;
    pass.type = work.type;
    pass.op = static_cast<uint8_t>(sv_coll_op_of(work.type, work.op));
}

/* To the owner of a shard. */
SV_DEV_FN void sv_coll_push_send(const sv_coll_push_t &push, uint32_t r)
{
    const sv_coll_block_t &b = push.c.b;
    const sv_coll_stretch_t at = sv_coll_push_piece(push, r, push.stage);
    sv_coll_push_from(push, 0, push.p.in_of[b.me] + at.begin);
    sv_coll_push_to(push, 0, push.p.out_of[r] + at.begin + b.me * push.shard_bytes - r * push.shard_bytes);
    sv_coll_push_pass(push, 1, 1, at.bytes);
    sv_coll_direct_sum(push.c, 0, 0, true, 1u << r);
    push.c.b.lent_to = 1u << r;
    push.c.b.pass.key = sv_coll_direct_key(push.c, b.me, false, 0, at.begin);
}

/* Reduces the own shard from what was sent here. The stage that has no piece yet takes what is in no shard. */
SV_DEV_FN void sv_coll_push_reduce(const sv_coll_push_t &push)
{
    const sv_coll_block_t &b = push.c.b;
    const uint64_t shard = push.shard_bytes, rest = shard * b.n;
    const sv_coll_stretch_t piece = sv_coll_push_piece(push, b.me, push.stage - 1);
    const bool last = push.stage == 0;
    const uint64_t begin = last ? rest : piece.begin;
    const uint64_t bytes = !last ? piece.bytes : b.channel == b.work.channel ? push.bytes - rest : 0;
    for (uint32_t r = 0; r < b.n; r++)
        sv_coll_push_from(push, r, begin + (last || r == b.me ? push.p.in_of[r]
                                                              : push.p.out_of[b.me] + r * shard - b.me * shard));
    sv_coll_push_to(push, 0, push.p.out_of[b.me] + begin);
    sv_coll_push_pass(push, b.n, 1, bytes);
    const uint32_t own = 1u << b.me, others = ((1u << b.n) - 1) & ~own;
    sv_coll_direct_sum(push.c, others, last ? own : 0, false, others);
    push.c.b.lent_to = others;
    for (uint32_t r = 0; r < b.n; r++)
        push.c.b.pass.key_of[r] = sv_coll_direct_key(push.c, r, false, 0, begin);
}

/* The own shard to everybody. */
SV_DEV_FN void sv_coll_push_share(const sv_coll_push_t &push)
{
    const sv_coll_block_t &b = push.c.b;
    const sv_coll_stretch_t at = sv_coll_push_piece(push, b.me, push.stage - 2);
    sv_coll_push_from(push, 0, push.p.out_of[b.me] + at.begin);
    for (uint32_t k = 1; k < b.n; k++)
        sv_coll_push_to(push, k - 1, push.p.out_of[sv_coll_around(push.c, k)] + at.begin);
    sv_coll_push_pass(push, 1, b.n - 1, at.bytes);
    sv_coll_direct_sum(push.c, 0, 0, true, ((1u << b.n) - 1) & ~(1u << b.me));
    push.c.b.pass.key = sv_coll_direct_key(push.c, b.me, true, 0, at.begin);
}

/* What the others shared is summed where it lies. */
SV_DEV_FN void sv_coll_push_poll(const sv_coll_push_t &push)
{
    const sv_coll_block_t &b = push.c.b;
    for (uint32_t k = 0; k + 1 < b.n; k++) {
        const uint32_t r = sv_coll_around(push.c, k + 1);
        const uint64_t from = r * push.shard_bytes;
        const sv_coll_stretch_t at =
            sv_coll_stretch_of(push.c, from, from + push.shard_bytes, b.work.shard_part_bytes);
        sv_coll_set_stretch(push.c, k, push.p.out_of[b.me], at, sv_coll_direct_key(push.c, r, true, 0, at.begin));
    }
    sv_coll_stretches_pass(push.c, true);
}

/* The pass of a phase. One lane. */
SV_DEV_COLD void sv_coll_push_prepare(sv_coll_block_t *block, const sv_coll_context_t *context, const sv_coll_plan_t *p,
                                      uint32_t phase)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    const sv_coll_push_t push = sv_coll_push_of(c, *p, phase / p->stage_phases);
    const uint32_t step = (phase + c.b.channel) % p->stage_phases;
    if (SV_COLL_SEES_STORES && phase >= p->until)
        sv_coll_push_poll(push);
    else if (step + 1 < c.b.n)
        sv_coll_push_send(push, sv_coll_around(c, step + 1));
    else if (step + 1 == c.b.n)
        sv_coll_push_reduce(push);
    else
        sv_coll_push_share(push);
}

#endif
