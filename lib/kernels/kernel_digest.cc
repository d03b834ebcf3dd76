/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the digest: one pass over a packet, or a segment of it, that copies and sums it. In the end it writes
 * or checks the record.
 */
#include "kernels/kernel_finish.h"

namespace {

/* Only the first block looks at the word, so that all come to one answer. Its block comes before theirs. */
SV_DEV_FN bool digest_await(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    enum : uint32_t { NOT_YET = 0, GO = 1, STAY = 2 };
    uint32_t found = NOT_YET;

    if (at.tid == 0 && at.block == 0) {
        found = digest_poll<false>(arg) ? GO : STAY;
        if (at.nblocks > 1) /* partner: the acquire below, in the other blocks */
            sv_dev_store_release_u32(&arg.scratch->go, found);
    } else if (at.tid == 0) {
        unsigned turns = 0;
        while ((found = sv_dev_load_acquire_u32(&arg.scratch->go)) == NOT_YET) /* partner: the release above */
            sv_dev_backoff(&turns);
    }
    return sv_dev_block_broadcast_u32(found, at) == GO; /* the barriers inside bring what thread 0 saw to all */
}

/* The last block leaves the scratch as it was, and says that nothing was done. */
SV_DEV_FN void digest_stay_away(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    if (at.tid != 0)
        return;
    /* Partner: itself in the other blocks, which then have all looked at go. */
    if (at.nblocks > 1 && sv_dev_atomic_add_u32_acq_rel(&arg.scratch->blocks_done, 1) != at.nblocks - 1)
        return;
    arg.scratch->go = arg.scratch->blocks_done = 0;
    sv_dev_store_release_system_u64(arg.signal, arg.away_value); /* partner: the host that polls it */
}

SV_DEV_FN void digest_body(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    const uint64_t key = arg.key + arg.first_word * SV_DIGEST_STEP;

    if (arg.await && !(arg.mode & SV_DIGEST_LATE) && !digest_await(arg, at)) {
        digest_stay_away(arg, at);
        return;
    }
    finish_block(arg, digest_block(arg.src, arg.dst, arg.bytes, key, !(arg.mode & SV_DIGEST_NONE), at),
                 arg.dst != nullptr && !(arg.mode & SV_DIGEST_NEAR), at);
}

} // namespace

SV_KERNEL(sv_digest, sv_digest_arg_t, digest_body)
