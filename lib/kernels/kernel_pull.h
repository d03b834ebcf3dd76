/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the receiver. One launch verifies a batch of packets, and in the same pass brings those that arrived
 * in slots to where they belong. A good packet releases everything that its sender waits for, the verdict and the
 * credit for the slot, and the word that this rank's host polls. So nobody else has to. MOVE writes the packet: as it
 * lies, or scattered to its pieces (kernel_pull.cc, kernel_scatter.cc). Where MOVE is ROOMY, in registers, it finds out
 * whether the sender's host wants to know.
 */
#ifndef SV_KERNEL_PULL_H
#define SV_KERNEL_PULL_H

#include "kernels/kernel_batch.h"

namespace {

/* The payload, and the record if it comes apart. */
SV_DEV_FN bool pull_await(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t epoch, uint64_t slot,
                          unsigned share, sv_dev_block_t at)
{
    const uint8_t *arrived = reinterpret_cast<const uint8_t *>(item.arrived) + slot * item.arrived_stride;

    return batch_await(arg, epoch, item.scratch, reinterpret_cast<const uint64_t *>(arrived), item.count,
                       arg.flags & SV_DIGEST_NONE ? nullptr : item.recorded, share, at);
}

/* In the first word of a record that was looked at, in place of the attempt, which nobody reads there: no host of the
   sender's waits for the verdict, or for credit. */
#define PULL_UNHEARD (uint64_t{1} << 63)

/* What came beside the payload: one thread, after that has come. Only a word in device memory is looked at again:
   others are far, and do not say. */
template <typename MOVE>
SV_DEV_FN record_words pull_look(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t slot)
{
    record_words seen = {};

    if (!(arg.flags & SV_DIGEST_NONE))
        seen = record_load(item.record + slot * item.record_stride);
    if (!MOVE::ROOMY)
        return seen;
    seen.word[0] &= ~PULL_UNHEARD;
    if (item.record_seen) {
        const uint8_t *word = reinterpret_cast<const uint8_t *>(item.arrived) + slot * item.arrived_stride;
        if (sv_dev_load_u64(reinterpret_cast<const uint64_t *>(word)) & SV_WORD_UNHEARD)
            seen.word[0] |= PULL_UNHEARD;
    }
    return seen;
}

struct pull_outcome {
    record_words seen;
    uint64_t digest;
    bool record_ok, good;
};

SV_DEV_FN pull_outcome pull_judge(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now, uint64_t sum,
                                  const record_words &seen)
{
    pull_outcome outcome = {};
    sv_record_t identity = item.identity;

    outcome.good = outcome.record_ok = true;
    if (arg.flags & SV_DIGEST_NONE)
        return outcome;
    identity.epoch = now.epoch;
    outcome.seen = seen;
    outcome.digest = digest_finish(now.key, sum);
    outcome.record_ok = record_is(outcome.seen, record_words_of(identity));
    outcome.good = outcome.record_ok && outcome.seen.word[7] == outcome.digest;
    return outcome;
}

/* The first failure is kept until the host has taken it. */
template <typename MOVE>
SV_DEV_FN void pull_explain(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t epoch,
                            const pull_outcome &outcome, bool absent)
{
    if ((arg.flags & SV_BATCH_STICKY) && item.result->epoch)
        return;
    for (unsigned w = 0; item.record_seen && !absent && w < 8; w++)
        item.record_seen[w] = outcome.seen.word[w] & (w == 0 && MOVE::ROOMY ? ~PULL_UNHEARD : ~uint64_t{0});
    item.result->expected = outcome.seen.word[7];
    item.result->found = outcome.digest;
    item.result->record_ok = absent ? uint32_t{SV_RESULT_ABSENT} : uint32_t{outcome.record_ok};
    item.result->verified = 0;
    /* Partner: the acquire in find_failure(): another packet's failure may have sent the host here. */
    sv_dev_store_release_system_u64(&item.result->epoch, epoch);
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_close(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now, unsigned share,
                          uint64_t sum, bool here, const record_words &seen)
{
    const uint64_t done = batch_word(now.epoch, arg.attempt, SV_PULL_GOOD);
    const bool sticky = (arg.flags & SV_BATCH_STICKY) != 0;
    const pull_outcome outcome = here ? pull_judge(arg, item, now, sum, seen) : pull_outcome{};

    sv_dev_stamp(arg.stamps, share, SV_STAMP_VERIFIED, 0);
    if (outcome.good) {
        const uint64_t leave = batch_word(now.epoch + item.nslots, 0, 1);
        const bool unheard = MOVE::ROOMY && (seen.word[0] & PULL_UNHEARD) != 0;
        uint64_t *const credit = unheard && item.credit_device ? nullptr : item.credit;
        /* Partners: batch_await() of the sender's push; its host, or that push again; its host; this rank's host. */
        sv_dev_store_release_system_u64_all(
            sv_dev_words_t{{item.credit_device, credit, unheard ? nullptr : item.verdict,
                            NUMBER::BY_HOST ? item.done : nullptr},
                           {leave, leave, batch_word(now.epoch, 0, 1), done}});
        return;
    }
    if (here || sticky)
        pull_explain<MOVE>(arg, item, now.epoch, outcome, !here);
    /* Partners: this rank's kernels that wait for what will not come; its host. */
    if (sticky)
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.abort}, {1}});
    /* Partner: this rank's host, which may free all words after this one. */
    if (NUMBER::BY_HOST)
        sv_dev_store_release_system_u64(item.done, done - SV_PULL_GOOD + (here ? SV_PULL_BAD : SV_PULL_ABSENT));
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_share(const sv_batch_arg_t &arg, NUMBER &number, unsigned share, sv_dev_block_t block)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_pull_item_t &item = batch_fetch<sv_pull_item_t, MOVE::ROOMY>(arg.items, arg.index[mine.packet], block);
    number.begin(block);
    const batch_now now = number.now(arg, mine.packet, item.identity);
    const uint64_t slot = item.nslots > 1 ? now.epoch % item.nslots : 0;
    const bool here = pull_await(arg, item, now.epoch, slot, share, mine.at);
    record_words seen = {};
    uint64_t sum = 0;

    const bool early = MOVE::RECORD_EARLY && mine.at.nblocks == 1;
    if (here && early && mine.at.tid == 0) /* on its way while the payload is read */
        seen = pull_look<MOVE>(arg, item, slot);
    if (here)
        sum = MOVE::pull(arg, item, item.src + slot * item.src_stride, now.key, mine.at);
    /* The barriers inside also put every thread's stores before thread 0 counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    if (mine.at.tid != 0)
        return;
    sv_dev_stamp(arg.stamps, share, SV_STAMP_STORED, 0);
    const batch_total total = batch_count_in(item.scratch, sum, mine.at);
    if (!total.last)
        return;
    if (!early && here)
        seen = pull_look<MOVE>(arg, item, slot);
    pull_close<MOVE, NUMBER>(arg, item, now, share, total.sum, here, seen);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SIGNALLED, 0);
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_body(const sv_batch_arg_t &arg, NUMBER &&number, sv_dev_block_t at)
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks) {
        sv_dev_stamp_begin(arg.stamps, share, at.tid);
        pull_share<MOVE>(arg, number, share, at);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_LEFT, at.tid);
    }
}

/* A packet that belongs in one piece. */
template <bool WIDE> struct whole_pull_as {
    enum : bool { RECORD_EARLY = true, ROOMY = WIDE };
    SV_DEV_FN uint64_t pull(const sv_batch_arg_t &arg, const sv_pull_item_t &item, const uint8_t *src, uint64_t key,
                            sv_dev_block_t at)
    {
        return digest_block(src, item.dst, item.identity.bytes, key, !(arg.flags & SV_DIGEST_NONE), at);
    }
};
typedef whole_pull_as<false> whole_pull;
typedef whole_pull_as<true> whole_pull_wide;

} // namespace

#endif
