/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two kernels of a batch have in common: which packet a block works on, waiting for a word, and which block of
 * a packet is the last.
 *
 * Blocks wait for words of other ranks, until a deadline, and for the first block of their packet, which comes before
 * them. The block of a packet that is through last says what has become of it.
 */
#ifndef SV_KERNEL_BATCH_H
#define SV_KERNEL_BATCH_H

#include "kernels/kernel_block.h"
#include "kernels/kernel_digest.h"
#include "kernels/kernel_epoch.h"
#include "kernels/kernel_stamps.h"

namespace {

/* Who numbers the epoch of a launch, and what follows from it for one of its packets. */
struct batch_now {
    uint64_t epoch, key;
};

/* The host: numbers and keys are in the launch. */
struct numbered_by_host {
    enum : bool { BY_HOST = true };
    SV_DEV_METHOD void ask(void)
    {
    }
    SV_DEV_METHOD void begin(sv_dev_block_t)
    {
    }
    SV_DEV_METHOD batch_now now(const sv_batch_arg_t &arg, unsigned packet, const sv_record_t &) const
    {
        return batch_now{arg.epoch, arg.key[packet]};
    }
    SV_DEV_METHOD uint32_t fault(const sv_batch_arg_t &arg, unsigned packet) const
    {
        return arg.corrupted == packet + 1 ? uint32_t{SV_EPOCH_FLIPS} : uint32_t{SV_EPOCH_SOUND};
    }
};

/* The device, when what is ahead on the stream is complete. Nobody on the host waits for a word of such an epoch. block
   is that of the launch. */
struct numbered_by_device {
    enum : bool { BY_HOST = false };
    const sv_epoch_state_t *state;
    uint32_t word;  /* that tells the host of the launch: SV_EPOCH_BEGUN or SV_EPOCH_ENDING */
    uint64_t epoch; /* 0: not known yet */
    uint64_t last, fault_epoch;
    bool asked;
    /* The number is on its way; what else is needed soon may follow it before begin(). */
    SV_DEV_METHOD void ask(void)
    {
        if (asked)
            return;
        asked = true;
        sv_dev_launch_wait();
        last = sv_dev_load_u64(&state->epoch);
        fault_epoch = sv_dev_load_u64(&state->fault_epoch);
    }
    SV_DEV_METHOD void begin(sv_dev_block_t block)
    {
        if (epoch)
            return;
        ask();
        epoch = epoch_begin(state, last, word, block);
    }
    SV_DEV_METHOD batch_now now(const sv_batch_arg_t &, unsigned, const sv_record_t &identity) const
    {
        return batch_now{epoch, epoch_key(identity, epoch)};
    }
    SV_DEV_METHOD uint32_t fault(const sv_batch_arg_t &arg, unsigned packet) const
    {
        return fault_epoch == epoch ? epoch_fault(state, arg.index[packet]) : uint32_t{SV_EPOCH_SOUND};
    }
};

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

/* What a record has in the place of an attempt if no host of its sender waits for verdict or credit. A slot's last
   record has another epoch, so that its byte is not taken for this one's. */
SV_DEV_FN uint32_t batch_unheard(uint64_t epoch)
{
    return SV_ATTEMPT_UNHEARD | static_cast<uint32_t>(epoch & (SV_ATTEMPT_UNHEARD - 1));
}

/*
 * Whether a word says what epoch and attempt wait for: at least so many segments, and at least one. A later attempt
 * counts, too. The receiver asked again while the push waited for its credit, and the request has overwritten that.
 */
SV_DEV_FN bool batch_word_is(uint64_t word, uint64_t epoch, uint32_t attempt, uint64_t count)
{
    const int32_t ahead = static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - static_cast<uint32_t>(epoch));
    const uint64_t there = word & 0xffffff;

    return ahead > 0 || (ahead == 0 && ((word >> 24) & 0xff) >= attempt && there != 0 && there >= count);
}

/* How a wait ends. NOT_YET is what the scratch says before. AHEAD: the record is there, but its word is not. */
enum batch_found : uint32_t { BATCH_NOT_YET = 0, BATCH_GO = 1, BATCH_STAY = 2, BATCH_AHEAD = 3 };

/*
 * Looks at a word until it is there: GO, or STAY if time is over or the exchange is given up. AHEAD if the other word
 * is the epoch before that: it is that of a record, which nothing has put after its payload. It is looked at first,
 * since the acquire after it lets go of whatever is cached of the payload.
 */
SV_DEV_FN batch_found batch_poll(const sv_batch_arg_t &arg, uint64_t epoch, const uint64_t *word, uint64_t count,
                                 const uint64_t *ahead)
{
    enum : unsigned { LOOK_AT_ABORT = 63, LOOK_AT_CLOCK = 7 };
    uint64_t begin = 0;
    unsigned turns = 0, looks = 0;

    for (;;) {
        /* Partner: push_record() of the sender; only a right digest proves what it says. */
        const bool recorded = ahead && sv_dev_load_ahead(ahead) == epoch;
        /* Partner: the release of the other rank's push (arrival) or pull, host or stream (credit). */
        if (batch_word_is(sv_dev_load_acquire_system_u64(word), epoch, arg.attempt, count))
            return BATCH_GO;
        if (recorded)
            return BATCH_AHEAD;
        const bool look = (++looks & LOOK_AT_ABORT) == 0;
        /* The clock takes as long as the word. */
        const uint64_t now = (looks & LOOK_AT_CLOCK) == 0 ? sv_dev_clock_ns() : begin;
        begin = begin ? begin : now;
        if (now - begin > arg.wait_ns || (look && arg.abort && sv_dev_load_acquire_system_u64(arg.abort)))
            return BATCH_STAY;
        if (looks > LOOK_AT_ABORT) /* what comes soon is not slept through */
            sv_dev_backoff(&turns);
    }
}

/*
 * An item where all lanes find it soon: what is waited for with an acquire makes a multiprocessor forget what it has of
 * device memory, and items would be fetched once more at the worst time. All threads of the block call it. Unless ROOMY
 * the kernel has no registers for it.
 */
template <typename ITEM, bool ROOMY>
SV_DEV_FN const ITEM &batch_fetch(const void *items, uint32_t index, sv_dev_block_t at)
{
    const ITEM &there = static_cast<const ITEM *>(items)[index];
#if defined(SV_DEV_GPU)
    if (!ROOMY)
        return there;
    enum : unsigned { WORDS = sizeof(ITEM) / 8 };
    SV_DEV_SHARED uint64_t fetched[WORDS];
    sv_dev_block_sync(); /* the last share's may still be read */
    for (unsigned w = at.tid; w < WORDS; w += at.nthreads)
        fetched[w] = reinterpret_cast<const uint64_t *>(&there)[w];
    sv_dev_block_sync();
    return *reinterpret_cast<const ITEM *>(fetched);
#else
    (void)at;
    return there;
#endif
}

/* What a block of a launch of pushes and pulls has fetched ahead of all that waits: the items of its first shares
   (NULL: it has none), and the word of the first push's credit as it was then. */
struct batch_first {
    const sv_push_item_t *push;
    const sv_pull_item_t *pull;
    uint64_t credit;
};

/*
 * Items never change, and credit may be looked at any time. So all of this overlaps the kernel before, if the launch
 * does. All threads of the block call, and see the same.
 */
SV_DEV_FN batch_first batch_fetch_first(const sv_run_arg_t &arg, sv_dev_block_t at)
{
    const bool pushes = at.block < arg.push.first_block[arg.push.npackets];
    const bool pulls = at.block < arg.pull.first_block[arg.pull.npackets];
    const unsigned out = pushes ? batch_share_of(arg.push, at.block, at).packet : 0;
    const unsigned in = pulls ? batch_share_of(arg.pull, at.block, at).packet : 0;
    const sv_push_item_t *push = static_cast<const sv_push_item_t *>(arg.push.items) + arg.push.index[out];
    const sv_pull_item_t *pull = static_cast<const sv_pull_item_t *>(arg.pull.items) + arg.pull.index[in];
    uint64_t credit = 0;
#if defined(SV_DEV_GPU)
    enum : unsigned { PUSH_WORDS = sizeof(sv_push_item_t) / 8, PULL_WORDS = sizeof(sv_pull_item_t) / 8 };
    SV_DEV_SHARED uint64_t fetched[PUSH_WORDS + PULL_WORDS + 1];
    const unsigned words = PUSH_WORDS + (pulls ? unsigned{PULL_WORDS} : 0u);
    for (unsigned w = at.tid + (pushes ? 0 : unsigned{PUSH_WORDS}); w < words; w += at.nthreads)
        fetched[w] = w < PUSH_WORDS ? reinterpret_cast<const uint64_t *>(push)[w]
                                    : reinterpret_cast<const uint64_t *>(pull)[w - PUSH_WORDS];
    sv_dev_block_sync();
    push = reinterpret_cast<const sv_push_item_t *>(fetched);
    pull = reinterpret_cast<const sv_pull_item_t *>(fetched + PUSH_WORDS);
#endif
    if (at.tid == 0 && pushes && push->credit_near && arg.push.wait_ns != 0)
        credit = sv_dev_load_acquire_system_u64(push->credit); /* partner: as in batch_poll() */
#if defined(SV_DEV_GPU)
    if (at.tid == 0)
        fetched[PUSH_WORDS + PULL_WORDS] = credit;
    sv_dev_block_sync();
    credit = fetched[PUSH_WORDS + PULL_WORDS];
#endif
    return batch_first{pushes ? push : nullptr, pulls ? pull : nullptr, credit};
}

/*
 * The thread that counts a block's push in and closes it: the first of the last wave. What it waits for then, the fence
 * above all, holds up no other wave before the next barrier.
 */
SV_DEV_FN unsigned batch_closer(sv_dev_block_t at)
{
    return (at.nthreads - 1) / SV_DEV_WAVE * SV_DEV_WAVE;
}

/* The push of a run is not the last that waits: a second grid would be on the device as long as other ranks are late,
   and kernels that those ranks need might have no place. */
SV_DEV_FN void batch_bring_next(const sv_batch_arg_t &arg)
{
    if (!(arg.flags & SV_BATCH_HOLDS_NEXT))
        sv_dev_launch_release();
}

/*
 * Waits for one or two words (second may be NULL, and ahead: see batch_poll()) on behalf of all shares of a packet.
 * Only the first share looks at them: they may lie in host memory, and many readers would hold up the very store that
 * they wait for. The others wait for what the first one says in the scratch. Its deadline is theirs, and its block
 * comes before theirs. All threads call, and may read what was released before the words. share is that of the launch,
 * for its stamps.
 *
 * The launch may have overlapped the kernel before it on the stream, which may work on the same packet. So nothing but
 * the words is looked at before that kernel is complete, the scratch included.
 */
SV_DEV_FN batch_found batch_await(const sv_batch_arg_t &arg, uint64_t epoch, sv_digest_scratch_t *scratch,
                                  const uint64_t *word, uint64_t count, const uint64_t *second, const uint64_t *ahead,
                                  unsigned share, sv_dev_block_t at)
{
    uint32_t found = BATCH_GO;

    if (arg.wait_ns == 0) {
        sv_dev_launch_wait();
        batch_bring_next(arg);
        return BATCH_GO;
    }
    if (at.tid == 0 && at.block == 0) {
        found = batch_poll(arg, epoch, word, count, ahead);
        if (found == BATCH_GO && second)
            found = batch_poll(arg, epoch, second, 1, nullptr);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_SAW, 0);
        sv_dev_launch_wait();
        if (at.nblocks > 1) /* partner: the acquire below, in the other shares */
            sv_dev_store_release_u32(&scratch->go, found);
    } else if (at.tid == 0) {
        unsigned turns = 0;
        sv_dev_launch_wait();
        while ((found = sv_dev_load_acquire_u32(&scratch->go)) == BATCH_NOT_YET) /* partner: the release above */
            sv_dev_backoff(&turns);
        sv_dev_stamp(arg.stamps, share, SV_STAMP_SAW, 0);
    }
    found = sv_dev_block_broadcast_u32(found, at); /* the barriers inside bring thread 0's wait to all */
    batch_bring_next(arg);
    return static_cast<batch_found>(found);
}

/* batch_await() where the word was seen before, by all threads alike: no barrier. */
SV_DEV_FN void batch_await_seen(const sv_batch_arg_t &arg, sv_digest_scratch_t *scratch, unsigned share,
                                sv_dev_block_t at)
{
    sv_dev_launch_wait();
    if (at.tid == 0 && at.block == 0 && at.nblocks > 1) /* partner: the acquire in batch_await(), in other shares */
        sv_dev_store_release_u32(&scratch->go, BATCH_GO);
    sv_dev_stamp(arg.stamps, share, SV_STAMP_SAW, at.tid);
    batch_bring_next(arg);
}

/* The total over the shares of a packet, for its last one. */
struct batch_total {
    bool last;
    uint64_t sum;
};

/*
 * Counts a share in; thread 0 only, after a barrier. The scratch is zero again afterwards. Shares may have stored into
 * another device's memory. Those stores happen before the share's arrival, which happens before that of the last share.
 * That in turn happens before the fence at system scope after which the last share releases its words.
 */
SV_DEV_FN batch_total batch_count_in(sv_digest_scratch_t *scratch, uint64_t sum, sv_dev_block_t at)
{
    batch_total total = {at.nblocks == 1, sum};

    if (total.last)
        return total;
    sv_dev_atomic_add_u64(&scratch->sum, sum);
    /* Partner: itself in the other shares. Whoever counts last has seen the sums and stores of all. */
    const uint32_t before = sv_dev_atomic_add_u32_acq_rel(&scratch->blocks_done, 1);
    if (before != at.nblocks - 1)
        return total;
    total.last = true;
    total.sum = sv_dev_load_u64(&scratch->sum);
    scratch->sum = 0;
    scratch->go = scratch->blocks_done = 0;
    return total;
}

} // namespace

#endif
