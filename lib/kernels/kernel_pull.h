/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the receiver. One launch verifies a batch of packets, and in the same pass brings those that arrived
 * in slots to where they belong. A good packet releases everything that its sender waits for, the verdict and the
 * credit for the slot, and the word that this rank's host polls. So nobody else has to. MOVE writes the packet: as it
 * lies, or scattered to its pieces (kernel_pull.cc, kernel_scatter.cc). Where MOVE is ROOMY, in registers, it finds out
 * whether the sender's host wants to know.
 *
 * Ahead of the word. The sender's fence takes as long as the way over the link, and the word comes after it. Where MOVE
 * looks AHEAD and the item allows it, the payload is read as soon as the record is there, whatever the order in which
 * stores arrive. If the digest of what was read is the record's, it was the packet, and the word says nothing more. If
 * not, the block waits for the word and reads all of the packet once more, and only that says that it is damaged. So a
 * packet is never taken or refused on other grounds than after the word. Bytes may be stored twice at their place. Each
 * is loaded once and stored before it is summed, so that no compiler may load it again in between: for all that it
 * knows, the store has changed it.
 *
 *   sender    payload --> record --> fence --> word
 *   receiver               `-> read, sum: right --> leave      wrong --> word --> read, sum: the verdict
 */
#ifndef SV_KERNEL_PULL_H
#define SV_KERNEL_PULL_H

#include "kernels/kernel_batch.h"

namespace {

/* Whether the launch may read the packet ahead of its word: one with a record that proves it, sent for the first
   time. */
template <typename MOVE> SV_DEV_FN bool pull_looks_ahead(const sv_batch_arg_t &arg, const sv_pull_item_t &item)
{
    return MOVE::AHEAD && item.looks && arg.wait_ns != 0 && arg.attempt == 0 && !(arg.flags & SV_DIGEST_NONE);
}

/* The word of a slot that says that all is there. */
SV_DEV_FN const uint64_t *pull_word(const sv_pull_item_t &item, uint64_t slot)
{
    return reinterpret_cast<const uint64_t *>(reinterpret_cast<const uint8_t *>(item.arrived) +
                                              slot * item.arrived_stride);
}

/* The word of its record that is stored last. */
SV_DEV_FN const uint64_t *pull_number(const sv_pull_item_t &item, uint64_t slot)
{
    return reinterpret_cast<const uint64_t *>(item.record + slot * item.record_stride) + 1;
}

/* The payload, and the record if it comes apart. */
SV_DEV_FN batch_found pull_await(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t epoch, uint64_t slot,
                                 bool ahead, unsigned share, sv_dev_block_t at)
{
    return batch_await(arg, epoch, item.scratch, pull_word(item, slot), item.count,
                       arg.flags & SV_DIGEST_NONE ? nullptr : item.recorded,
                       ahead ? pull_number(item, slot) : nullptr, share, at);
}

/*
 * The same for a packet that this block has alone, without a barrier: each wave looks for itself, and reads as soon as
 * it sees something. They may see different things, but only the first thread's verdict counts. No wave but the
 * closer's waits for the push of this block, so the closer's does not look.
 */
SV_DEV_FN batch_found pull_await_apart(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t epoch,
                                       uint64_t slot, unsigned share, sv_dev_block_t at)
{
    const batch_found found =
        batch_poll(arg, epoch, pull_word(item, slot), item.count, pull_number(item, slot));

    sv_dev_stamp(arg.stamps, share, SV_STAMP_SAW, at.tid);
    sv_dev_launch_wait();
    batch_bring_next(arg);
    return found;
}

/* In the first word of a record that was looked at, where the attempt has SV_ATTEMPT_UNHEARD: no host of the sender's
   waits for the verdict, or for credit. */
#define PULL_UNHEARD (uint64_t{SV_ATTEMPT_UNHEARD} << 56)

/* What came beside the payload: one thread, after that has come. Only a word in device memory is looked at again:
   others are far, and do not say. */
template <typename MOVE>
SV_DEV_FN record_words pull_look(const sv_batch_arg_t &arg, const sv_pull_item_t &item, uint64_t epoch, uint64_t slot,
                                 bool ahead)
{
    record_words seen = {};

    if (!(arg.flags & SV_DIGEST_NONE))
        seen = record_load(item.record + slot * item.record_stride);
    if (!MOVE::ROOMY)
        return seen;
    /* Looking ahead there is no word yet. The record says it, with its epoch: this word of it may be an older one's. */
    const bool unheard = ahead ? seen.word[0] >> 56 == batch_unheard(epoch)
                               : item.record_seen && (sv_dev_load_u64(pull_word(item, slot)) & SV_WORD_UNHEARD);
    if (seen.word[0] & PULL_UNHEARD)
        seen.word[0] &= ~(uint64_t{0xff} << 56);
    if (unheard)
        seen.word[0] |= PULL_UNHEARD;
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

/* A good packet: its slot is free, and all who wait are told. */
template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_accept(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now,
                           const record_words &seen)
{
    const uint64_t leave = batch_word(now.epoch + item.nslots, 0, 1);
    const bool unheard = MOVE::ROOMY && (seen.word[0] & PULL_UNHEARD) != 0;

    if (!NUMBER::BY_HOST && unheard && item.credit_device && !(arg.flags & SV_DIGEST_NONE)) {
        /* Nobody hears of what was stored here, so nothing is fenced. All loads from the slot are complete: their sum
           was compared. Partner: batch_await() of the sender's push, whose stores come after it. */
        sv_dev_store_ahead(item.credit_device, leave);
        return;
    }
    uint64_t *const credit = unheard && item.credit_device ? nullptr : item.credit;
    /* Partners: batch_await() of the sender's push; its host, or that push again; its host; this rank's host. */
    sv_dev_store_release_system_u64_all(
        sv_dev_words_t{{item.credit_device, credit, unheard ? nullptr : item.verdict,
                        NUMBER::BY_HOST ? item.done : nullptr},
                       {leave, leave, batch_word(now.epoch, 0, 1), batch_word(now.epoch, arg.attempt, SV_PULL_GOOD)}});
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_refuse(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now,
                           const pull_outcome &outcome, bool here)
{
    const bool sticky = (arg.flags & SV_BATCH_STICKY) != 0;

    if (here || sticky)
        pull_explain<MOVE>(arg, item, now.epoch, outcome, !here);
    /* Partners: this rank's kernels that wait for what will not come; its host. */
    if (sticky)
        sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.abort}, {1}});
    /* Partner: this rank's host, which may free all words after this one. */
    if (NUMBER::BY_HOST)
        sv_dev_store_release_system_u64(item.done,
                                        batch_word(now.epoch, arg.attempt, here ? SV_PULL_BAD : SV_PULL_ABSENT));
}

/*
 * The end of a share, by its first thread. looked: seen is the record. ahead: the payload may have been read too early.
 * True: it does not verify and was, so that all is to be done again after the word.
 */
template <typename MOVE, typename NUMBER>
SV_DEV_FN bool pull_end(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now, unsigned share,
                        uint64_t slot, uint64_t sum, batch_found found, bool looked, bool ahead, record_words seen,
                        sv_dev_block_t at)
{
    const bool here = found != BATCH_STAY;

    sv_dev_stamp(arg.stamps, share, SV_STAMP_STORED, 0);
    const batch_total total = batch_count_in(item.scratch, sum, at);
    if (!total.last)
        return false;
    if (!looked && here)
        seen = pull_look<MOVE>(arg, item, now.epoch, slot, found == BATCH_AHEAD);
    const pull_outcome outcome = here ? pull_judge(arg, item, now, total.sum, seen) : pull_outcome{};
    if (here && ahead && !outcome.good)
        return true;
    sv_dev_stamp(arg.stamps, share, SV_STAMP_VERIFIED, 0);
    if (outcome.good)
        pull_accept<MOVE, NUMBER>(arg, item, now, seen);
    else
        pull_refuse<MOVE, NUMBER>(arg, item, now, outcome, here);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SIGNALLED, 0);
    return false;
}

/* All of a packet by one block, after its word: it was read too early, or it is damaged. All threads call. */
template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_again(const sv_batch_arg_t &arg, const sv_pull_item_t &item, batch_now now, unsigned share,
                          uint64_t slot, sv_dev_block_t block)
{
    const sv_dev_block_t at = {block.tid, block.nthreads, 0, 1};
    const batch_found found = pull_await(arg, item, now.epoch, slot, false, share, at);
    uint64_t sum = 0;

    if (found == BATCH_GO)
        sum = MOVE::pull(arg, item, item.src + slot * item.src_stride, now.key, at);
    sum = sv_dev_block_sum_u64(sum, at);
    if (at.tid == 0)
        (void)pull_end<MOVE, NUMBER>(arg, item, now, share, slot, sum, found, false, false, record_words{}, at);
}

template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_share(const sv_batch_arg_t &arg, NUMBER &number, unsigned share, sv_dev_block_t block,
                          const sv_pull_item_t *fetched)
{
    const batch_share mine = batch_share_of(arg, share, block);
    const sv_pull_item_t &item =
        fetched ? *fetched : batch_fetch<sv_pull_item_t, MOVE::ROOMY>(arg.items, arg.index[mine.packet], block);
    number.begin(block);
    const batch_now now = number.now(arg, mine.packet, item.identity);
    const uint64_t slot = item.nslots > 1 ? now.epoch % item.nslots : 0;
    const bool ahead = pull_looks_ahead<MOVE>(arg, item);
    const bool apart = MOVE::APART && ahead && mine.at.nblocks == 1;
    const bool looked = MOVE::RECORD_EARLY && mine.at.nblocks == 1;
    sv_dev_block_t lanes = mine.at; /* those that have a part of the packet */
    batch_found found = BATCH_STAY;
    record_words seen = {};
    uint64_t sum = 0;

    if (apart && batch_closer(lanes) > 0)
        lanes.nthreads = batch_closer(lanes);
    if (!apart)
        found = pull_await(arg, item, now.epoch, slot, ahead, share, mine.at);
    else if (lanes.tid < lanes.nthreads)
        found = pull_await_apart(arg, item, now.epoch, slot, share, lanes);
    if (found != BATCH_STAY && looked && mine.at.tid == 0) /* on its way while the payload is read */
        seen = pull_look<MOVE>(arg, item, now.epoch, slot, found == BATCH_AHEAD);
    if (found != BATCH_STAY)
        sum = MOVE::pull(arg, item, item.src + slot * item.src_stride, now.key, lanes);
    /* The barriers inside also put every thread's stores before thread 0 counts the share in or releases. */
    sum = sv_dev_block_sum_u64(sum, mine.at);
    bool again = false;
    if (mine.at.tid == 0)
        again = pull_end<MOVE, NUMBER>(arg, item, now, share, slot, sum, found, looked, apart || found == BATCH_AHEAD,
                                       seen, mine.at);
    if (ahead && sv_dev_block_broadcast_u32(again, mine.at))
        pull_again<MOVE, NUMBER>(arg, item, now, share, slot, mine.at);
}

/* first: the item of the block's first share, if it is fetched. */
template <typename MOVE, typename NUMBER>
SV_DEV_FN void pull_body(const sv_batch_arg_t &arg, NUMBER &&number, sv_dev_block_t at,
                         const sv_pull_item_t *first = nullptr)
{
    for (unsigned share = at.block; share < arg.first_block[arg.npackets]; share += at.nblocks, first = nullptr) {
        sv_dev_stamp_begin(arg.stamps, share, at.tid);
        pull_share<MOVE>(arg, number, share, at, first);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_LEFT, at.tid);
    }
}

/* A packet that belongs in one piece. */
template <bool WIDE> struct whole_pull_as {
    enum : bool { RECORD_EARLY = true, ROOMY = WIDE, AHEAD = WIDE, APART = WIDE };
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
