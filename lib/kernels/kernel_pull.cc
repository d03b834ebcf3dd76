/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the receiver: one launch verifies a batch of packets and copies those that landed in slots to where
 * they belong, in the same pass. A packet that is good releases everything that its sender waits for, the verdict and
 * the leave to use the slot again, and the word that this rank's host polls, so that nobody else has to.
 */
#include "kernels/kernel_batch.h"

namespace {

/* The payload, and the record if it comes apart. */
SV_DEV_FN bool pull_await(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t slot, sv_dev_block_t at)
{
    const uint8_t *arrived = reinterpret_cast<const uint8_t *>(item.arrived) + slot * item.arrived_stride;

    return batch_await(arg, reinterpret_cast<const uint64_t *>(arrived), item.count, at) &&
           (!item.recorded || (arg.flags & SV_DIGEST_NONE) || batch_await(arg, item.recorded, 1, at));
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
    for (unsigned w = 0; item.record_seen && w < 8; w++)
        item.record_seen[w] = outcome.seen.word[w];
    item.result->expected = outcome.seen.word[7];
    item.result->found = outcome.digest;
    item.result->record_ok = absent ? uint32_t{SV_RESULT_ABSENT} : uint32_t{outcome.record_ok};
    item.result->verified = 0;
    item.result->epoch = arg.epoch;
}

SV_DEV_FN void pull_close(const sv_batch_arg_t &arg, const sv_pull_item_t &item, unsigned packet,
                          const batch_total &total, const record_words &seen)
{
    const uint64_t done = batch_word(arg.epoch, arg.attempt, SV_PULL_GOOD);
    const bool sticky = (arg.flags & SV_BATCH_STICKY) != 0;
    const pull_outcome outcome = total.absent ? pull_outcome{} : pull_judge(arg, item, packet, total.sum, seen);

    if (outcome.good) {
        /* Partners: the sender's host, or batch_await() of its push; its host again; this rank's host. */
        sv_dev_store_release_system_u64_all(
            sv_dev_words_t{{item.credit, item.verdict, item.done},
                           {batch_word(arg.epoch + item.nslots, 0, 1), batch_word(arg.epoch, 0, 1), done}});
        return;
    }
    if (!total.absent || sticky)
        pull_explain(arg, item, outcome, total.absent != 0);
    /* Partners: this rank's host, and its kernels that wait for what will not come. */
    sv_dev_store_release_system_u64_all(
        sv_dev_words_t{{item.done, sticky ? arg.abort : nullptr, nullptr},
                       {done - SV_PULL_GOOD + (total.absent ? SV_PULL_ABSENT : SV_PULL_BAD), 1, 0}});
}

SV_DEV_FN void pull_share(const sv_batch_arg_t &arg, unsigned share, sv_dev_block_t block)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_pull_item_t &item = static_cast<const sv_pull_item_t *>(arg.items)[arg.index[mine.packet]];
    const uint64_t slot = item.nslots > 1 ? arg.epoch % item.nslots : 0;
    const bool here = pull_await(arg, item, slot, mine.at);
    record_words seen = {};
    uint64_t sum = 0;

    const bool checks = !(arg.flags & SV_DIGEST_NONE);
    if (here && checks && mine.at.nblocks == 1 && mine.at.tid == 0) /* on its way while the payload is read */
        seen = record_load(item.record + slot * item.record_stride);
    if (here)
        sum = digest_block(item.src + slot * item.src_stride, item.dst, item.identity.bytes, arg.key[mine.packet],
                           checks, mine.at);
    /* The barriers inside also put every thread's stores before thread 0 counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    if (mine.at.tid != 0)
        return;
    const batch_total total = batch_count_in(item.scratch, sum, here, mine.at);
    if (!total.last)
        return;
    if (checks && mine.at.nblocks > 1 && !total.absent)
        seen = record_load(item.record + slot * item.record_stride);
    pull_close(arg, item, mine.packet, total, seen);
}

SV_DEV_FN void pull_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks)
        pull_share(arg, share, at);
}

} // namespace

SV_KERNEL(sv_pull, sv_batch_arg_t, pull_body)
