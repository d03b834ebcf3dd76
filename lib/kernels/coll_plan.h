/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules. Lane 0 of a block makes one slice after the other from the numbers of the call, the chunk and the phase.
 * All lanes then do it. Nothing of a schedule is stored, but for the logarithmic one, which the host has computed.
 *
 *   channel's part of the bytes:  | chunk | chunk | chunk ... |
 *   phases of one chunk:          send, receive and reduce, ... as the algorithm says
 *
 * A chunk of an algorithm that divides its data among the ranks is as many shards as there are ranks. All ranks compute
 * the same sizes, so that a slice that is empty is empty at both ends, and left out.
 */
#ifndef SV_COLL_PLAN_H
#define SV_COLL_PLAN_H

#include "kernels/coll_block.h"

typedef struct sv_coll_plan {
    uint64_t in, out;          /* addresses of this rank's buffers */
    uint64_t block_bytes;      /* of one rank's block in the larger buffer, where a call has one */
    uint64_t at, end;          /* the channel's part: next byte of it, and where it ends */
    uint64_t at_in, end_in;    /* the same for what a PAIR receives */
    uint64_t piece, covered;   /* of the chunk: bytes of one slice, and of all of it */
    uint64_t capacity;         /* of a slot */
    uint64_t stride;           /* from one part of a slot to the next */
    uint64_t in_of[SV_COLL_RANKS], out_of[SV_COLL_RANKS]; /* buffers of all ranks, for the direct algorithms, */
    uint8_t capabilities[SV_COLL_RANKS];                  /* and which of these they allow */
    uint32_t phase, phases;
    uint32_t stage_phases;     /* direct and pushed: after so many everybody waits for everybody */
    uint32_t before, until;    /* direct: the phases below `before` only sum what others will read, those from there to
                                  `until` move data, and later ones sum what others have stored */
    uint32_t in_place;         /* direct: on some rank */
    uint32_t entries_unread;   /* entry lines were said, but none was read yet */
    uint32_t direct, pushed;   /* whether it is a direct algorithm, and then, whether as coll_push.h has it */
    uint32_t algo, proto;
    uint32_t shards;           /* into which a chunk is divided; 1: not */
    uint32_t multiplies, divisor;
    uint32_t pos, next, prev;  /* of this rank in the channel's ring */
} sv_coll_plan_t;

/* What a slice is called with: the block, and the plan in its shared memory. */
typedef struct sv_coll_maker {
    const sv_coll_at_t &c;
    sv_coll_plan_t &p;
    sv_coll_slice_t &s;
} sv_coll_maker_t;

enum { SV_COLL_ID_DONE = 62 }; /* bit of an id: what travels is a result, not a contribution */

SV_DEV_FN void sv_coll_slice_begin(const sv_coll_maker_t &m, uint64_t bytes, uint64_t id)
{
    m.s.nsrc = m.s.ndst = m.s.premul = m.s.post = m.s.take = m.s.divisor = m.s.part = 0;
    m.s.id_in = m.s.id_out = id;
    m.s.bytes = bytes;
}

SV_DEV_FN void sv_coll_from_memory(const sv_coll_maker_t &m, uint64_t address)
{
    m.s.from[m.s.nsrc] = SV_COLL_PLAIN;
    m.s.scale_of[m.s.nsrc] = 0;
    m.s.src[m.s.nsrc++] = address;
}

/* Memory that holds the input of rank r, which is multiplied by that rank's scalar if the call says so. */
SV_DEV_FN void sv_coll_from_input(const sv_coll_maker_t &m, uint64_t address, uint32_t r)
{
    m.s.premul |= m.p.multiplies << m.s.nsrc;
    sv_coll_from_memory(m, address);
    m.s.scale_of[m.s.nsrc - 1] = static_cast<uint8_t>(r);
}

/* A part of the slot of rank r, which stays taken. */
SV_DEV_FN void sv_coll_from_part(const sv_coll_maker_t &m, uint32_t r, uint32_t part)
{
    m.s.from[m.s.nsrc] = static_cast<uint8_t>(r);
    m.s.part_of[m.s.nsrc] = static_cast<uint8_t>(part);
    m.s.scale_of[m.s.nsrc] = 0;
    m.s.src[m.s.nsrc++] = part * m.p.stride;
}

/* All of the slot of rank r, which is then given back. */
SV_DEV_FN void sv_coll_from_rank(const sv_coll_maker_t &m, uint32_t r)
{
    sv_coll_from_part(m, r, 0);
    m.s.take |= 1u << r;
}

SV_DEV_FN void sv_coll_to_memory(const sv_coll_maker_t &m, uint64_t address)
{
    m.s.to[m.s.ndst] = SV_COLL_PLAIN;
    m.s.dst[m.s.ndst++] = address;
}

SV_DEV_FN void sv_coll_to_part(const sv_coll_maker_t &m, uint32_t r, uint32_t part, bool last)
{
    m.s.to[m.s.ndst] = static_cast<uint8_t>(r);
    m.s.dst[m.s.ndst++] = part * m.p.stride;
    m.s.part = part;
    m.s.post |= (last ? 1u : 0u) << r;
}

SV_DEV_FN void sv_coll_to_rank(const sv_coll_maker_t &m, uint32_t r)
{
    sv_coll_to_part(m, r, 0, true);
}

/* To all other ranks, beginning with the next, so that not everybody stores to the same one first. */
SV_DEV_FN void sv_coll_to_others(const sv_coll_maker_t &m, uint32_t but)
{
    for (uint32_t k = 1; k < m.c.b.n; k++) {
        uint32_t r = (m.c.b.me + k) % m.c.b.n;
        if (r != but)
            sv_coll_to_rank(m, r);
    }
}

/* The contributions of all ranks, in their order: own from memory, others from their slots. */
SV_DEV_FN void sv_coll_from_all(const sv_coll_maker_t &m, uint64_t own)
{
    for (uint32_t r = 0; r < m.c.b.n; r++) {
        if (r == m.c.b.me)
            sv_coll_from_input(m, own, r);
        else
            sv_coll_from_rank(m, r);
    }
}

SV_DEV_FN void sv_coll_result(const sv_coll_maker_t &m)
{
    m.s.divisor = m.p.divisor;
    m.s.id_out |= 1ull << SV_COLL_ID_DONE;
}

/* Where shard j of the chunk begins, and how long it is. */
SV_DEV_FN uint64_t sv_coll_shard_at(const sv_coll_plan_t &p, uint32_t j)
{
    return p.at + j * p.piece;
}

SV_DEV_FN uint64_t sv_coll_shard_bytes(const sv_coll_plan_t &p, uint32_t j)
{
    uint64_t begin = j * p.piece;
    return begin >= p.covered ? 0 : p.covered - begin < p.piece ? p.covered - begin : p.piece;
}

#endif
