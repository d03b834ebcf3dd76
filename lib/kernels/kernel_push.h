/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the sender: one launch moves a batch of packets. Each is copied to where the receiver finds it and
 * summed in the same pass. Then its record is stored there and the words are released, after one fence. MOVE reads the
 * packet: as it lies, or gathered from its pieces (kernel_push.cc, kernel_gather.cc).
 *
 * If the launch waits for credit, no byte leaves before the receiver's word of this epoch is there.
 */
#ifndef SV_KERNEL_PUSH_H
#define SV_KERNEL_PUSH_H

#include "kernels/kernel_batch.h"

namespace {

SV_DEV_FN void push_close(const sv_batch_arg_t &arg, const sv_push_item_t &item, unsigned packet, uint64_t slot,
                          uint64_t sum, bool here)
{
    const uint64_t word = batch_word(arg.epoch, arg.attempt, item.count ? static_cast<uint32_t>(item.count) : 1u);

    if (!here) {
        /* Partners: this rank's kernels that wait; its host. */
        if (arg.flags & SV_BATCH_STICKY)
            sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.abort}, {1}});
        /* Partner: this rank's host, which may free all words after this one. */
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{item.failed}, {arg.epoch}});
        return;
    }
    if (arg.corrupted == packet + 1 && item.identity.bytes)
        item.dst[slot * item.dst_stride] ^= 1;
    if (!(arg.flags & SV_DIGEST_NONE) && item.record) {
        sv_record_t identity = item.identity;
        identity.epoch = arg.epoch;
        identity.attempt = static_cast<uint8_t>(arg.attempt);
        identity.digest = digest_finish(arg.key[packet], sum);
        record_store(item.record + slot * item.record_stride, record_words_of(identity));
    }
    uint64_t *near = item.arrived_device;
    if (near)
        near = reinterpret_cast<uint64_t *>(reinterpret_cast<uint8_t *>(near) + slot * item.record_stride);
    /* Partners: batch_await() of the receiver's pull; the receiver's host; this rank's host. */
    sv_dev_store_release_system_u64_all(sv_dev_words_t{{near, item.arrived, item.sent}, {word, word, word}});
}

template <typename MOVE>
SV_DEV_FN void push_share(const sv_batch_arg_t &arg, unsigned share, sv_dev_block_t block)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_push_item_t &item = static_cast<const sv_push_item_t *>(arg.items)[arg.index[mine.packet]];
    const uint64_t slot = item.nslots > 1 ? arg.epoch % item.nslots : 0;
    const bool here = batch_await(arg, item.scratch, item.credit, 1, nullptr, share, mine.at);
    uint64_t sum = 0;

    if (here)
        sum = MOVE::push(arg, item, item.dst + slot * item.dst_stride, arg.key[mine.packet], mine.at);
    /* The barriers inside also put every thread's stores before thread 0 counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    if (mine.at.tid != 0)
        return;
    sv_dev_stamp(arg.stamps, share, MOVE::STAMP, 0);
    const batch_total total = batch_count_in(item.scratch, sum, mine.at);
    if (!total.last)
        return;
    push_close(arg, item, mine.packet, slot, total.sum, here);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SIGNALLED, 0);
}

template <typename MOVE>
SV_DEV_FN void push_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks) {
        sv_dev_stamp_begin(arg.stamps, share, at.tid);
        push_share<MOVE>(arg, share, at);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_LEFT, at.tid);
    }
}

/* A packet that lies in one piece. */
struct whole_push {
    enum : unsigned { STAMP = SV_STAMP_STORED };
    SV_DEV_FN uint64_t push(const sv_batch_arg_t &arg, const sv_push_item_t &item, uint8_t *dst, uint64_t key,
                            sv_dev_block_t at)
    {
        return digest_block(item.src, dst, item.identity.bytes, key, !(arg.flags & SV_DIGEST_NONE), at);
    }
};

} // namespace

#endif
