/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the digest: one pass over a packet, or a segment of it, that copies and sums it. In the end it writes
 * or checks the record.
 *
 * A launch may wait for its packet, and may read it ahead of the word that says that all of it is there, as pulls do
 * (kernel_pull.h): when its record is there, and for good if the digest is right.
 */
#include "kernels/kernel_finish.h"

namespace {

/* On AMD the launch would need more scalar registers than there are. */
#if defined(SV_DEV_HIP)
constexpr bool DIGEST_LOOKS = false;
#else
constexpr bool DIGEST_LOOKS = true;
#endif

/* Only the first block looks at the word, so that all come to one answer. Its block comes before theirs. */
SV_DEV_FN digest_found digest_await(const sv_digest_arg_t &arg, digest_wait wait, sv_dev_block_t at)
{
    uint32_t found = DIGEST_NOT_YET;

    if (at.tid == 0 && at.block == 0) {
        found = digest_poll<false>(arg, wait);
        if (at.nblocks > 1) /* partner: the acquire below, in the other blocks */
            sv_dev_store_release_u32(&arg.scratch->go, found);
    } else if (at.tid == 0) {
        unsigned turns = 0;
        while ((found = sv_dev_load_acquire_u32(&arg.scratch->go)) == DIGEST_NOT_YET) /* partner: the release above */
            sv_dev_backoff(&turns);
    }
    /* The barriers inside bring what thread 0 saw to all. */
    return static_cast<digest_found>(sv_dev_block_broadcast_u32(found, at));
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

/* The end of a packet that was read ahead of its word, by all threads of a block. True in the last block if the digest
   does not prove it, so that all is to be done again after the word. */
SV_DEV_FN bool digest_end_ahead(const sv_digest_arg_t &arg, uint64_t sum, sv_dev_block_t at)
{
    uint32_t again = 0;

    /* The barriers inside also put every thread's stores before thread 0 counts the block in or releases. */
    sum = sv_dev_block_sum_u64(sum, at);
    bool last = at.tid == 0;
    if (last && at.nblocks > 1) {
        sv_dev_atomic_add_u64(&arg.scratch->sum, sum);
        /* Partner: itself in the other blocks. Whoever counts last has seen the sums and stores of all. */
        last = sv_dev_atomic_add_u32_acq_rel(&arg.scratch->blocks_done, 1) == at.nblocks - 1;
        sum = last ? sv_dev_load_u64(&arg.scratch->sum) : 0;
    }
    if (last && digest_finish(arg.key, sum) == record_load(arg.record).word[7]) {
        finish_packet(arg, sum);
    } else if (last) {
        arg.scratch->sum = arg.scratch->go = arg.scratch->blocks_done = 0;
        again = 1;
    }
    return sv_dev_block_broadcast_u32(again, at) != 0;
}

SV_DEV_FN void digest_body(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    const uint64_t key = arg.key + arg.first_word * SV_DIGEST_STEP;
    sv_dev_block_t part = at;
    digest_found found = DIGEST_GO;

    if (arg.await && !(arg.mode & SV_DIGEST_LATE))
        found = digest_await(arg, DIGEST_LOOKS && (arg.mode & SV_DIGEST_AHEAD) ? DIGEST_RECORDED : DIGEST_WHOLE, at);
    for (;;) {
        if (found == DIGEST_STAY) {
            digest_stay_away(arg, part);
            return;
        }
        const uint64_t sum = digest_block(arg.src, arg.dst, arg.bytes, key, !(arg.mode & SV_DIGEST_NONE), part);
        if (!DIGEST_LOOKS || found == DIGEST_GO) {
            finish_block(arg, sum, arg.dst != nullptr && !(arg.mode & SV_DIGEST_NEAR), part);
            return;
        }
        if (!digest_end_ahead(arg, sum, part))
            return;
        part = sv_dev_block_t{at.tid, at.nthreads, 0, 1};
        found = digest_await(arg, DIGEST_UNDER_WAY, part);
    }
}

} // namespace

SV_KERNEL(sv_digest, sv_digest_arg_t, digest_body)
