/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the receiver. One launch verifies a batch of packets, and in the same pass brings those that arrived
 * in slots to where they belong. A good packet releases everything that its sender waits for, the verdict and the
 * credit for the slot, and the word that this rank's host polls. So nobody else has to. MOVE writes the packet: as it
 * lies, or scattered to its pieces (kernel_pull.cc, kernel_scatter.cc).
 */
#ifndef SV_KERNEL_PULL_H
#define SV_KERNEL_PULL_H

#include "kernels/kernel_batch.h"

namespace {

/* The payload, and the record if it comes apart. */
SV_DEV_FN bool pull_await(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t slot, unsigned share,
                          sv_dev_block_t at)
{
    const uint8_t *arrived = reinterpret_cast<const uint8_t *>(item.arrived) + slot * item.arrived_stride;

    return batch_await(arg, item.scratch, reinterpret_cast<const uint64_t *>(arrived), item.count,
                       arg.flags & SV_DIGEST_NONE ? nullptr : item.recorded, share, at);
}

struct pull_outcome {
    record_words seen;
    uint64_t digest;
    bool record_ok, good;
};

SV_DEV_FN pull_outcome pull_judge(const sv_batch_arg_t &arg, const sv_pull_item_t &item, unsigned packet, uint64_t sum,
                                  const record_words &seen)
{
    pull_outcome outcome = {};
    sv_record_t identity = item.identity;

    outcome.good = outcome.record_ok = true;
    if (arg.flags & SV_DIGEST_NONE)
        return outcome;
    identity.epoch = arg.epoch;
    outcome.seen = seen;
    outcome.digest = digest_finish(arg.key[packet], sum);
    outcome.record_ok = record_is(outcome.seen, record_words_of(identity));
    outcome.good = outcome.record_ok && outcome.seen.word[7] == outcome.digest;
    return outcome;
}

/* The first failure is kept until the host has taken it. */
SV_DEV_FN void pull_explain(const sv_batch_arg_t &arg, const sv_pull_item_t &item, const pull_outcome &outcome,
                            bool absent)
{
    if ((arg.flags & SV_BATCH_STICKY) && item.result->epoch)
        return;
    for (unsigned w = 0; item.record_seen && !absent && w < 8; w++)
        item.record_seen[w] = outcome.seen.word[w];
    item.result->expected = outcome.seen.word[7];
    item.result->found = outcome.digest;
    item.result->record_ok = absent ? uint32_t{SV_RESULT_ABSENT} : uint32_t{outcome.record_ok};
    item.result->verified = 0;
    /* Partner: the acquire in find_failure(): another packet's failure may have sent the host here. */
    sv_dev_store_release_system_u64(&item.result->epoch, arg.epoch);
}

SV_DEV_FN void pull_close(const sv_batch_arg_t &arg, const sv_pull_item_t &item, unsigned packet, unsigned share,
                          uint64_t sum, bool here, const record_words &seen)
{
    const uint64_t done = batch_word(arg.epoch, arg.attempt, SV_PULL_GOOD);
    const bool sticky = (arg.flags & SV_BATCH_STICKY) != 0;
    const pull_outcome outcome = here ? pull_judge(arg, item, packet, sum, seen) : pull_outcome{};

    sv_dev_stamp(arg.stamps, share, SV_STAMP_VERIFIED, 0);
    if (outcome.good) {
        const uint64_t leave = batch_word(arg.epoch + item.nslots, 0, 1);
        /* Partners: batch_await() of the sender's push; its host, or that push again; its host; this rank's host. */
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{item.credit_device, item.credit, item.verdict, item.done},
                                                           {leave, leave, batch_word(arg.epoch, 0, 1), done}});
        return;
    }
    if (here || sticky)
        pull_explain(arg, item, outcome, !here);
    /* Partners: this rank's kernels that wait for what will not come; its host. */
    if (sticky)
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.abort}, {1}});
    /* Partner: this rank's host, which may free all words after this one. */
    sv_dev_store_release_system_u64(item.done, done - SV_PULL_GOOD + (here ? SV_PULL_BAD : SV_PULL_ABSENT));
}

template <typename MOVE>
SV_DEV_FN void pull_share(const sv_batch_arg_t &arg, unsigned share, sv_dev_block_t block)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_pull_item_t &item = static_cast<const sv_pull_item_t *>(arg.items)[arg.index[mine.packet]];
    const uint64_t slot = item.nslots > 1 ? arg.epoch % item.nslots : 0;
    const bool here = pull_await(arg, item, slot, share, mine.at);
    record_words seen = {};
    uint64_t sum = 0;

    const bool checks = !(arg.flags & SV_DIGEST_NONE);
    const bool early = MOVE::RECORD_EARLY && mine.at.nblocks == 1;
    if (here && checks && early && mine.at.tid == 0) /* on its way while the payload is read */
        seen = record_load(item.record + slot * item.record_stride);
    if (here)
        sum = MOVE::pull(arg, item, item.src + slot * item.src_stride, arg.key[mine.packet], mine.at);
    /* The barriers inside also put every thread's stores before thread 0 counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    if (mine.at.tid != 0)
        return;
    sv_dev_stamp(arg.stamps, share, SV_STAMP_STORED, 0);
    const batch_total total = batch_count_in(item.scratch, sum, mine.at);
    if (!total.last)
        return;
    if (checks && !early && here)
        seen = record_load(item.record + slot * item.record_stride);
    pull_close(arg, item, mine.packet, share, total.sum, here, seen);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SIGNALLED, 0);
}

template <typename MOVE>
SV_DEV_FN void pull_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks) {
        sv_dev_stamp_begin(arg.stamps, share, at.tid);
        pull_share<MOVE>(arg, share, at);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_LEFT, at.tid);
    }
}

/* A packet that belongs in one piece. */
struct whole_pull {
    enum : bool { RECORD_EARLY = true };
    SV_DEV_FN uint64_t pull(const sv_batch_arg_t &arg, const sv_pull_item_t &item, const uint8_t *src, uint64_t key,
                            sv_dev_block_t at)
    {
        return digest_block(src, item.dst, item.identity.bytes, key, !(arg.flags & SV_DIGEST_NONE), at);
    }
};

} // namespace

#endif
