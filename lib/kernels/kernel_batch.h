/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two kernels of a batch have in common: which packet a block works on, waiting for a word, and how the blocks
 * of one packet find out which of them is the last.
 *
 * Blocks never wait for each other, only for words of other ranks, and then not for ever: a block whose word does not
 * come counts itself absent, and the last block of the packet says so.
 */
#ifndef SV_KERNEL_BATCH_H
#define SV_KERNEL_BATCH_H

#include "kernels/kernel_digest.h"

namespace {

/* Packet of a share, and the share's place among the shares of that packet. */
struct batch_share {
    unsigned packet;
    sv_dev_block_t at;
};

SV_DEV_FN batch_share batch_share_of(const sv_batch_arg_t &arg, unsigned share, sv_dev_block_t at)
{
    unsigned packet = 0;

    while (share >= arg.first_block[packet + 1])
        packet++;
    return batch_share{packet, sv_dev_block_t{at.tid, at.nthreads, share - arg.first_block[packet],
                                              arg.first_block[packet + 1] - arg.first_block[packet]}};
}

SV_DEV_FN uint64_t batch_word(uint64_t epoch, uint32_t attempt, uint32_t count)
{
    return (epoch & 0xffffffffu) << 32 | static_cast<uint64_t>(attempt & 0xff) << 24 | count;
}

/* Whether a word says what epoch and attempt wait for: at least so many segments, at least one. */
SV_DEV_FN bool batch_word_is(uint64_t word, uint64_t epoch, uint32_t attempt, uint64_t count)
{
    const int32_t ahead = static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - static_cast<uint32_t>(epoch));
    const uint64_t there = word & 0xffffff;

    return ahead > 0 || (ahead == 0 && ((word >> 24) & 0xff) == attempt && there != 0 && there >= count);
}

/* Thread 0 waits, all threads learn the outcome; what was released before the word is theirs to read. */
SV_DEV_FN bool batch_await(const sv_batch_arg_t &arg, const uint64_t *word, uint64_t count, sv_dev_block_t at)
{
    enum : unsigned { LOOK_AT_ABORT = 63 };
    uint32_t here = 1;

    if (arg.wait_ns == 0)
        return true;
    if (at.tid == 0) {
        const uint64_t begin = sv_dev_clock_ns();
        unsigned turns = 0, looks = 0;
        /* Partner: the release of the other rank's push (arrival) or pull, host or stream (credit). */
        while (!batch_word_is(sv_dev_load_acquire_system_u64(word), arg.epoch, arg.attempt, count)) {
            const bool look = (++looks & LOOK_AT_ABORT) == 0;
            if (sv_dev_clock_ns() - begin > arg.wait_ns ||
                (look && arg.abort && sv_dev_load_acquire_system_u64(arg.abort))) {
                here = 0;
                break;
            }
            if (looks > LOOK_AT_ABORT) /* what comes soon is not slept through */
                sv_dev_relax(&turns);
        }
    }
    return sv_dev_block_broadcast_u32(here, at) != 0;
}

/* The total over the shares of a packet, for its last one. */
struct batch_total {
    bool last;
    uint64_t sum;
    uint32_t absent;
};

/* Counts a share in; thread 0 only, behind a barrier. The scratch is zero again afterwards. */
SV_DEV_FN batch_total batch_count_in(sv_digest_scratch_t *scratch, uint64_t sum, bool here, sv_dev_block_t at)
{
    batch_total total = {at.nblocks == 1, sum, here ? 0u : 1u};

    if (total.last)
        return total;
    sv_dev_atomic_add_u64(&scratch->sum, sum);
    if (!here)
        sv_dev_atomic_add_u32(&scratch->absent, 1);
    /* Partner: itself in the other shares. Whoever counts last has seen the sums and stores of all. */
    if (sv_dev_atomic_add_u32_acq_rel(&scratch->blocks_done, 1) != at.nblocks - 1)
        return total;
    total.last = true;
    total.sum = sv_dev_load_u64(&scratch->sum);
    total.absent = sv_dev_load_u32(&scratch->absent);
    scratch->sum = 0;
    scratch->absent = scratch->blocks_done = 0;
    return total;
}

} // namespace

#endif
