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

/* The record of a packet, or that of another one, if a fault wants it. */
SV_DEV_FN sv_record_t push_identity(const sv_push_item_t &item, batch_now now, uint32_t attempt, uint64_t sum,
                                    uint32_t fault, bool unheard)
{
    sv_record_t record = item.identity;

    record.epoch = now.epoch - (fault == SV_EPOCH_REPEATS);
    record.index ^= fault == SV_EPOCH_SWAPS;
    record.attempt = static_cast<uint8_t>(unheard ? batch_unheard(now.epoch) : attempt);
    record.digest = digest_finish(now.key, sum);
    return record;
}

/*
 * Puts the record beside the payload, the word with the epoch last. A kernel of the receiver's that looks ahead takes
 * this word for a hint, and the digest for a proof. All others wait for the release after it.
 */
SV_DEV_FN void push_record(uint8_t *to, const record_words &words)
{
    if ((reinterpret_cast<uintptr_t>(to) & 15) != 0) { /* nobody looks ahead there */
        record_store(to, words);
        return;
    }
    uint64_t *const word = reinterpret_cast<uint64_t *>(to);
#if defined(SV_DEV_GPU)
    SV_DEV_UNROLL
    for (unsigned w = 8; w > 0; w -= 2)
        sv_dev_store_line(word + w - 2, words.word[w - 2], words.word[w - 1]);
#else
    for (unsigned w = 0; w < 8; w++)
        if (w != 1)
            word[w] = words.word[w];
    sv_dev_store_ahead(word + 1, words.word[1]); /* partner: the load in batch_poll() */
#endif
}

template <typename NUMBER>
SV_DEV_FN void push_close(const sv_batch_arg_t &arg, const NUMBER &number, const sv_push_item_t &item, unsigned packet,
                          uint64_t slot, batch_now now, uint64_t sum, bool here)
{
    const uint64_t word = batch_word(now.epoch, arg.attempt, item.count ? static_cast<uint32_t>(item.count) : 1u);
    const uint32_t fault = number.fault(arg, packet);

    if (!here) {
        /* Partners: this rank's kernels that wait; its host. */
        if (arg.flags & SV_BATCH_STICKY)
            sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.abort}, {1}});
        /* Partner: this rank's host, which may free all words after this one. */
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{item.failed}, {now.epoch}});
        return;
    }
    if (!NUMBER::BY_HOST && fault == SV_EPOCH_DROPS)
        return;
    const bool unheard = (arg.flags & SV_BATCH_UNHEARD) != 0;
    if (fault == SV_EPOCH_FLIPS && item.identity.bytes) {
        item.dst[slot * item.dst_stride] ^= 1;
        sv_dev_fence_system(); /* or who looks ahead might see the packet as it was */
    }
    if (!(arg.flags & SV_DIGEST_NONE) && item.record)
        push_record(item.record + slot * item.record_stride,
                    record_words_of(push_identity(item, now, arg.attempt, sum, fault, unheard)));
    uint64_t *near = item.arrived_device;
    if (near)
        near = reinterpret_cast<uint64_t *>(reinterpret_cast<uint8_t *>(near) + slot * item.record_stride);
    const uint64_t near_word = word | (unheard ? uint64_t{SV_WORD_UNHEARD} : 0);
    /* Partners: batch_await() of the receiver's pull; the receiver's host; this rank's host. */
    sv_dev_store_release_system_u64_all(
        sv_dev_words_t{{near, item.arrived, NUMBER::BY_HOST ? item.sent : nullptr}, {near_word, word, word}});
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void push_share(const sv_batch_arg_t &arg, NUMBER &number, unsigned share, sv_dev_block_t block,
                          const batch_first &first)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_push_item_t &item =
        first.push ? *first.push : batch_fetch<sv_push_item_t, true>(arg.items, arg.index[mine.packet], block);
    typename MOVE::held held = {};
    number.ask();
    if (!NUMBER::BY_HOST) /* what is ahead on the stream is complete */
        held = MOVE::fetch(item, mine.at);
    number.begin(block);
    const batch_now now = number.now(arg, mine.packet, item.identity);
    const uint64_t slot = item.nslots > 1 ? now.epoch % item.nslots : 0;
    /* The first share decides for all of a packet, or some might store what others leave out. */
    bool here = mine.at.block == 0 && first.credit && batch_word_is(first.credit, now.epoch, arg.attempt, 1);
    uint64_t sum = 0;

    if (here)
        batch_await_seen(arg, item.scratch, share, mine.at);
    else
        here = batch_await(arg, now.epoch, item.scratch, item.credit, 1, nullptr, nullptr, share, mine.at) == BATCH_GO;
    if (here)
        sum = MOVE::push(arg, item, item.dst + slot * item.dst_stride, now.key, mine.at, held);
    /* The barriers inside also put every thread's stores before one of them counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    if (mine.at.tid != batch_closer(mine.at))
        return;
    sv_dev_stamp(arg.stamps, share, MOVE::STAMP, 0);
    const batch_total total = batch_count_in(item.scratch, sum, mine.at);
    if (!total.last)
        return;
    push_close(arg, number, item, mine.packet, slot, now, total.sum, here);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SIGNALLED, 0);
}

/* first: what is fetched for the block's first share. */
template <typename MOVE, typename NUMBER>
SV_DEV_FN void push_body(const sv_batch_arg_t &arg, NUMBER &&number, sv_dev_block_t at,
                         batch_first first = batch_first{nullptr, nullptr, 0})
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks) {
        sv_dev_stamp_begin(arg.stamps, share, at.tid);
        push_share<MOVE>(arg, number, share, at, first);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_LEFT, at.tid ^ batch_closer(at));
        first.push = nullptr;
        first.credit = 0;
    }
}

/* What a lane has of a short packet that its block has alone. */
struct whole_held {
    enum : unsigned { UNITS = 4 };
    sv_dev_pair_t unit[UNITS];
    bool all; /* of its lanes' */
};

/* A packet that lies in one piece. */
struct whole_push {
    enum : unsigned { STAMP = SV_STAMP_STORED };
    typedef whole_held held;

    /* Reads the packet, if it is short and aligned, while the epoch's number is on its way. */
    SV_DEV_FN whole_held fetch(const sv_push_item_t &item, sv_dev_block_t at)
    {
        const uint64_t bytes = item.identity.bytes;
        const uintptr_t places = reinterpret_cast<uintptr_t>(item.src) | reinterpret_cast<uintptr_t>(item.dst) |
                                 item.dst_stride;
        whole_held held = {};

        held.all = at.nblocks == 1 && bytes % 8 == 0 && places % 16 == 0 &&
                   bytes <= uint64_t{sizeof held.unit} * at.nthreads;
        SV_DEV_UNROLL
        for (unsigned u = 0; u < whole_held::UNITS; u++) {
            const uint64_t offset = uint64_t{16} * (at.tid + u * at.nthreads);
            if (held.all && offset + 16 <= bytes)
                held.unit[u] = pair_access::load(item.src + offset);
            else if (held.all && offset < bytes)
                held.unit[u].word[0] = sv_dev_load_u64_any(item.src + offset);
        }
        return held;
    }

    SV_DEV_FN uint64_t store(const sv_push_item_t &item, uint8_t *dst, uint64_t key, bool sums, sv_dev_block_t at,
                             const whole_held &held)
    {
        const uint64_t bytes = item.identity.bytes;
        uint64_t sum = 0;

        SV_DEV_UNROLL
        for (unsigned u = 0; u < whole_held::UNITS; u++) {
            const uint64_t offset = uint64_t{16} * (at.tid + u * at.nthreads);
            const uint64_t first = key + offset / 8 * SV_DIGEST_STEP;
            if (offset + 16 <= bytes)
                pair_access::store(dst + offset, held.unit[u]);
            else if (offset < bytes)
                sv_dev_store_u64_any(dst + offset, held.unit[u].word[0]);
            if (sums && offset < bytes)
                sum += digest_term(held.unit[u].word[0], first);
            if (sums && offset + 16 <= bytes)
                sum += digest_term(held.unit[u].word[1], first + SV_DIGEST_STEP);
        }
        return sum;
    }

    SV_DEV_FN uint64_t push(const sv_batch_arg_t &arg, const sv_push_item_t &item, uint8_t *dst, uint64_t key,
                            sv_dev_block_t at, const whole_held &held)
    {
        const bool sums = !(arg.flags & SV_DIGEST_NONE);

        return held.all ? store(item, dst, key, sums, at, held)
                        : digest_block<true>(item.src, dst, item.identity.bytes, key, sums, at);
    }
};

} // namespace

#endif
