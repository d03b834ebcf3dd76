/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a block that has failed ends: it records the fault that a lane of it has kept, as the first error of this device
 * or not at all, and tells other ranks. Lanes keep faults at dozens of places (coll_block.h). All of them leave through
 * this one, so that no more of it than needed is compiled at each.
 *
 * One lane does it, after the last barrier of the block, when nobody waits any more.
 */
#ifndef SV_COLL_SETTLE_H
#define SV_COLL_SETTLE_H

#include "kernels/coll_block.h"

/* Rank of this communicator that is `member` of the arena; this rank for one that is none of it. */
SV_DEV_FN uint32_t sv_coll_rank_of(const sv_coll_at_t &c, uint32_t member)
{
    SV_DEV_ROLLED
    for (uint32_t r = 0; r < c.b.n; r++)
        if (c.dev->member[r] == member)
            return r;
    return c.b.me;
}

/* Partner: sv_coll_notice(). Kind, who says so, and who is to blame: ranks of the arena. */
SV_DEV_FN void sv_coll_notify_failure(const sv_coll_at_t &c, uint32_t kind, uint32_t blamed)
{
    const uint32_t ranks = static_cast<uint32_t>(c.dev->member[c.b.me]) << 8 | c.dev->member[blamed];
    uint64_t word = static_cast<uint64_t>(kind) << 32 | ranks;
    SV_DEV_ROLLED
    for (uint32_t r = 0; r < c.b.n; r++)
        if (r != c.b.me)
            sv_dev_store_word_system(sv_coll_pointer<uint64_t>(c.dev->arena[r]), word);
}

/* Records the first error of this device. A fault that another rank has told is not passed on. */
SV_DEV_FN void sv_coll_record(const sv_coll_at_t &c, const sv_coll_fault_t &fault, bool from_peer)
{
    if (sv_dev_exchange_u32(c.dev->error_taken, 1) == 0) {
        sv_coll_error_t *error = c.dev->error;
        error->place = fault.place_of_peer >> 16;
        error->sequence = c.b.work.sequence;
        error->peer = fault.place_of_peer & 0xffff;
        error->channel = c.b.channel;
        error->call = c.b.work.call;
        error->wanted = fault.wanted;
        error->seen = fault.seen;
        sv_dev_store_release_system_u32(&error->kind, fault.kind); /* partner: sv_coll_check() */
        if (!from_peer)
            sv_coll_notify_failure(c, fault.kind, fault.place_of_peer & 0xffff);
    }
    sv_dev_store_release_u32(c.dev->stop, 1); /* partner: sv_coll_ended() */
}

/*
 * Data of a rank do not verify. Keys differ from call to call, so another call may be the reason while entry lines are
 * unread. So these are waited for first.
 */
SV_DEV_FN void sv_coll_hear_entries(const sv_coll_at_t &c)
{
    sv_coll_fault_t fault = c.b.fault;
    sv_coll_spin_t spin = {};
    uint64_t signature, flag;
    c.b.failed = c.b.fault_taken = 0; /* this wait has ends of its own */
    SV_DEV_ROLLED
    for (uint32_t r = 0; r < c.b.n; r++)
        while (r != c.b.me && !sv_coll_peek(c, r, &signature, &flag))
            if (!sv_coll_wait_more(c, spin, SV_COLL_AT_ENTRY, r, static_cast<uint32_t>(c.b.state[r].entries + 1), flag))
                return;
    sv_coll_look_at_entries(c, fault);
    c.b.fault = fault;
}

/* HEARS: data are compared before entry lines are read. */
template <bool HEARS> SV_DEV_COLD void sv_coll_settle_fault(sv_coll_block_t *block, const sv_coll_context_t *context)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    if (HEARS && block->fault.kind == SV_COLL_DAMAGED &&
        sv_coll_is_entry_missing(c, block->fault.place_of_peer >> 16))
        sv_coll_hear_entries(c);
    sv_coll_fault_t fault = block->fault;
    bool from_peer = false;
    if (fault.kind == SV_COLL_ENDED) {
        if (sv_dev_load_acquire_u32(c.dev->stop)) /* another block has recorded why */
            return;
        const uint64_t word = sv_coll_notice(c);
        from_peer = word != 0;
        fault = from_peer ? sv_coll_fault_t{0, sv_coll_rank_of(c, word >> 8 & 0xff), static_cast<uint32_t>(word >> 32),
                                            sv_coll_rank_of(c, word & 0xff)}
                          : sv_coll_fault_t{0, 0, SV_COLL_ABORTED, c.b.me};
    }
    sv_coll_record(c, fault, from_peer);
}

/* All lanes, after a barrier that comes after all waits and comparisons but those of lane 0. */
template <bool HEARS> SV_DEV_FN void sv_coll_settle(const sv_coll_at_t &c)
{
    if (c.at.tid == 0 && sv_dev_load_u32_system(&c.b.failed))
        sv_coll_settle_fault<HEARS>(&c.b, &c.context);
}

#endif
