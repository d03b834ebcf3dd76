/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credit of the kernels of one short call: whether each rank has taken what the slots held before. A lane that has
 * brought a rank's words notes before the block's first barrier whether credit for it is missing. Then nobody may wait,
 * because what waits need is not there yet (sv_coll_come_in()). After the barrier all lanes see the notes, and each of
 * them waits for itself, so that no barrier has to come after that. Calls in a row seldom wait at all.
 */
#ifndef SV_COLL_SMALL_CREDIT_H
#define SV_COLL_SMALL_CREDIT_H

#include "kernels/coll_block.h"

/* Whether rank r still has to take what the slot held before the call. Lane r, which has brought these words. */
SV_DEV_FN bool sv_coll_small_lacks(const sv_coll_at_t &c, uint32_t r)
{
    const uint64_t sent = c.b.state[r].sent;
    return sent >= SV_COLL_STEPS && static_cast<int64_t>(c.b.head[r] - (sent - SV_COLL_STEPS + 1)) < 0;
}

/* Notes whether credit for rank r suffices, 0 for ranks that there are not. Lanes that have this rank's words. */
SV_DEV_FN void sv_coll_small_note_lack(const sv_coll_at_t &c, uint32_t r, bool lacks)
{
    reinterpret_cast<uint8_t *>(c.b.lacks)[r] = lacks;
}

SV_DEV_FN bool sv_coll_small_has_lack(const sv_coll_at_t &c, uint32_t r)
{
    return reinterpret_cast<const uint8_t *>(c.b.lacks)[r] != 0;
}

/* Waits for all credit that was missing at the beginning. All lanes, each for itself: so no barrier comes after it. */
SV_DEV_COLD void sv_coll_small_wait_credit(sv_coll_block_t *block, const sv_coll_context_t *context)
{
    const sv_coll_at_t c = sv_coll_at_of(block, context);
    SV_DEV_ROLLED
    for (uint32_t r = 0; r < c.b.n; r++)
        if (sv_coll_small_has_lack(c, r))
            sv_coll_wait_word(c, c.b.mine[r] + SV_COLL_HEAD_AT, c.b.state[r].sent - SV_COLL_STEPS + 1,
                              SV_COLL_AT_CREDIT, r);
}

#endif
