/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of epochs that no host numbers: those of graphs, and of kernels that communicate. Their number is in the
 * device's memory (sv_epoch_state_t). So a launch that is replayed does the next epoch each time.
 *
 *   every block:   sv_dev_launch_wait(); last = state->epoch; epoch = epoch_begin(state, last, word, at);
 *                  key = epoch_key(identity, epoch); ...
 *   at the end:    epoch_end(state, epoch, at)      in the launch that ends the epoch, and in none else
 *
 * An epoch may be several launches on one stream: all but the last leave the number as it is. Kernels of two epochs
 * never run at the same time. A block reads the number before it counts itself out, and it changes when all blocks of
 * the launch are out; so no block reads that of the epoch after its own. The attempt of such an epoch is always 0.
 */
#ifndef SV_KERNEL_EPOCH_H
#define SV_KERNEL_EPOCH_H

#include "kernels/kernel_digest.h"

namespace {

/* sv_digest_key() with an epoch in the place of the identity's; it was written from this chain's specification. */
SV_DEV_FN uint64_t epoch_key(const sv_record_t &identity, uint64_t epoch)
{
    const uint64_t chain[] = {identity.bytes, epoch, identity.destination, identity.source, identity.tag,
                              identity.index};
    uint64_t key = digest_mix(identity.exchange);

    SV_DEV_UNROLL
    for (uint64_t link : chain)
        key = digest_mix(link + key);
    return digest_mix(identity.index + uint64_t{1000} * identity.tag + key);
}

/* The epoch that a launch is of. Every thread calls, once what is ahead on the stream is complete. last is what
   state->epoch was then. word is SV_EPOCH_ENDING if the launch ends the epoch, else SV_EPOCH_BEGUN. */
SV_DEV_FN uint64_t epoch_begin(const sv_epoch_state_t *state, uint64_t last, uint32_t word, sv_dev_block_t at)
{
    /* The host stored that word before it gave anybody a kernel that asks. */
    const uint64_t epoch = 1 + (last == SV_EPOCH_UNTOLD ? sv_dev_load_word_system(state->words + SV_EPOCH_TOLD) : last);
    if (at.tid == 0 && at.block == 0) /* the host reads it when it knows that the kernel is complete */
        sv_dev_store_word_system(state->words + word, epoch);
    return epoch;
}

/* The fault that is injected into a send, in the epoch that has one. */
SV_DEV_FN uint32_t epoch_fault(const sv_epoch_state_t *state, uint32_t packet)
{
    return state->fault_packet == packet ? state->fault_kind : uint32_t{SV_EPOCH_SOUND};
}

/* All threads of all blocks of a launch call it as the last thing: the epoch is over. Nobody is told of it by this
   word, which only counts: that packets are good, or not, was released before, each by itself. */
SV_DEV_FN void epoch_end(sv_epoch_state_t *state, uint64_t epoch, sv_dev_block_t at)
{
    sv_dev_block_sync(); /* every thread has read the number */
    if (at.tid != 0)
        return;
    if (at.nblocks > 1) {
        /* Partner: itself in the other blocks. Whoever counts last comes after what all of them read. */
        if (sv_dev_atomic_add_u32_acq_rel(&state->blocks_out, 1) != at.nblocks - 1)
            return;
        state->blocks_out = 0;
    }
    state->epoch = epoch;
}

} // namespace

#endif
