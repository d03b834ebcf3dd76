/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PAT: the logarithmic schedules for all-gather and reduce-scatter, shifted binomial trees that run together (arXiv
 * 2506.20252). The host has computed peers and blocks of each step (sv_coll_pat_t), which keeps no lane from work.
 * Channels are the groups that work at once.
 *
 * All blocks that go to one peer in a step share a slot. In reduce-scatter nothing is copied on the way. Partial sums
 * stay in the slots in which they came, until all of them are added at once to what is sent on.
 */
#ifndef SV_COLL_PAT_STEPS_H
#define SV_COLL_PAT_STEPS_H

#include "kernels/coll_plan.h"

enum { SV_COLL_PAT_PHASES = 2 * SV_COLL_RANKS }; /* of a step: a send for each block, then a receive for each */

SV_DEV_FN uint32_t sv_coll_count_below(uint32_t mask, uint32_t bit)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < bit; b++)
        count += mask >> b & 1;
    return count;
}

SV_DEV_FN bool sv_coll_is_last(uint32_t mask, uint32_t bit)
{
    return mask >> bit == 1;
}

/* Phase 0: the own block to its place. Then step by step: sends, receives. */
SV_DEV_FN void sv_coll_pat_all_gather(const sv_coll_maker_t &m)
{
    const uint32_t me = m.c.b.me;
    if (m.p.phase == 0) {
        sv_coll_slice_begin(m, m.p.piece, 0);
        sv_coll_from_memory(m, m.p.in + m.p.at);
        if (m.p.out + me * m.p.block_bytes != m.p.in)
            sv_coll_to_memory(m, m.p.out + me * m.p.block_bytes + m.p.at);
        return;
    }
    const uint32_t k = (m.p.phase - 1) / SV_COLL_PAT_PHASES, i = (m.p.phase - 1) % SV_COLL_PAT_PHASES;
    const sv_coll_pat_step_t &step = m.c.dev->gather.step[k];
    const uint32_t q = i % SV_COLL_RANKS;
    const uint64_t at = q * m.p.block_bytes + m.p.at;
    sv_coll_slice_begin(m, m.p.piece, at);
    if (i < SV_COLL_RANKS && step.send_mask >> q & 1) {
        sv_coll_from_memory(m, m.p.out + at);
        sv_coll_to_part(m, step.to, sv_coll_count_below(step.send_mask, q), sv_coll_is_last(step.send_mask, q));
    } else if (i >= SV_COLL_RANKS && step.recv_mask >> q & 1) {
        sv_coll_from_part(m, step.from, sv_coll_count_below(step.recv_mask, q));
        sv_coll_to_memory(m, m.p.out + at);
        m.s.take = (sv_coll_is_last(step.recv_mask, q) ? 1u : 0u) << step.from;
    }
}

/* Own contribution to block q, and what came for it in the steps before `until`. */
SV_DEV_FN void sv_coll_pat_sum(const sv_coll_maker_t &m, uint32_t q, uint32_t until)
{
    sv_coll_from_input(m, m.p.in + q * m.p.block_bytes + m.p.at, m.c.b.me);
    for (uint32_t k = 0; k < until; k++) {
        const sv_coll_pat_step_t &step = m.c.dev->scatter.step[k];
        if (step.recv_mask >> q & 1)
            sv_coll_from_part(m, step.from, sv_coll_count_below(step.recv_mask, q));
    }
}

/* Sends, step by step. The last phase reduces the own block and gives all slots back. */
SV_DEV_FN void sv_coll_pat_reduce_scatter(const sv_coll_maker_t &m)
{
    const uint32_t k = m.p.phase / SV_COLL_RANKS, q = m.p.phase % SV_COLL_RANKS, nsteps = m.c.dev->scatter.nsteps;
    if (k == nsteps) {
        sv_coll_slice_begin(m, m.p.piece, m.c.b.me * m.p.block_bytes + m.p.at);
        sv_coll_pat_sum(m, m.c.b.me, nsteps);
        sv_coll_to_memory(m, m.p.out + m.p.at);
        sv_coll_result(m);
        for (uint32_t i = 0; i < nsteps; i++)
            if (m.c.dev->scatter.step[i].recv_mask)
                m.s.take |= 1u << m.c.dev->scatter.step[i].from;
        return;
    }
    const sv_coll_pat_step_t &step = m.c.dev->scatter.step[k];
    sv_coll_slice_begin(m, m.p.piece, q * m.p.block_bytes + m.p.at);
    if (step.send_mask >> q & 1) {
        sv_coll_pat_sum(m, q, k);
        sv_coll_to_part(m, step.to, sv_coll_count_below(step.send_mask, q), sv_coll_is_last(step.send_mask, q));
    }
}

#endif
