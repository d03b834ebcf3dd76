/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a pass over a packet ends on the device. The sums of the blocks meet in the packet's scratch. The last block
 * writes or checks the record, and signals. Blocks never wait for each other. The scratch is the packet's own; launches
 * that share it are ordered by their stream.
 *
 * Any argument struct will do that has the members mode, key, scratch, record, result, signal, signal_value and
 * identity of sv_digest_arg_t.
 */
#ifndef SV_KERNEL_FINISH_H
#define SV_KERNEL_FINISH_H

#include "kernels/kernel_block.h"
#include "kernels/kernel_digest.h"

namespace {

/* How a wait ends. NOT_YET is what the scratch says before. AHEAD: the record is there, but its word is not. */
enum digest_found : uint32_t { DIGEST_NOT_YET = 0, DIGEST_GO = 1, DIGEST_STAY = 2, DIGEST_AHEAD = 3 };

/* Whether the record is there. Only a right digest proves that the bytes are, too. */
SV_DEV_FN bool digest_is_recorded(const sv_digest_arg_t &arg)
{
    /* Partner: finish_hint() of the sender. */
    return sv_dev_load_ahead(arg.await + 1) == arg.await_value &&
           record_is(record_load(arg.record), record_words_of(arg.identity));
}

/* What ends a wait besides the word: nothing; or the record, if that will do. Or the record is there already, so that
   the packet is under way, and what the host wants does not matter. */
enum digest_wait : unsigned { DIGEST_WHOLE = 0, DIGEST_RECORDED = 1, DIGEST_UNDER_WAY = 2 };

/* Polls the word until it is there: GO. LATE: any other value is waited through. STAY: time is over, the host wants no
   more of it, or the word says that it will not be. The host's word is far, and looked at seldom. */
template <bool LATE>
SV_DEV_FN digest_found digest_poll(const sv_digest_arg_t &arg, digest_wait wait)
{
    enum : unsigned { LOOK_AT_STOP = 7, LOOK_ONLY = 63 };
    const uint64_t begin = sv_dev_clock_ns();
    unsigned turns = 0, looks = 0;

    for (;;) {
        /* Partner: the release of the kernel or stream that stored what is waited for. */
        const uint64_t word = sv_dev_load_acquire_system_u64(arg.await);
        const bool look = (++looks & LOOK_AT_STOP) == 0;
        if (word == arg.await_value)
            return DIGEST_GO;
        if (!LATE && wait == DIGEST_RECORDED && digest_is_recorded(arg))
            return DIGEST_AHEAD;
        if ((!LATE && (arg.mode & SV_DIGEST_ONLY) && word != arg.await_before) ||
            sv_dev_clock_ns() - begin > arg.await_ns ||
            (look && wait != DIGEST_UNDER_WAY && sv_dev_load_acquire_system_u64(arg.stop) == arg.signal_value))
            return DIGEST_STAY;
        if (looks > LOOK_ONLY) /* what comes soon is not slept through */
            sv_dev_backoff(&turns);
    }
}

/* Waits for the record, if it comes apart from the bytes. */
template <typename ARG>
SV_DEV_FN bool finish_await(const ARG &)
{
    return true;
}

SV_DEV_FN bool finish_await(const sv_digest_arg_t &arg)
{
    if (!arg.await || !(arg.mode & SV_DIGEST_LATE) || digest_poll<true>(arg, DIGEST_WHOLE) == DIGEST_GO)
        return true;
    sv_dev_store_release_system_u64(arg.signal, arg.away_value); /* partner: the host that polls it */
    return false;
}

/* Where the record goes, too, for a reader that has that place nearer than the other one. */
template <typename ARG>
SV_DEV_FN uint8_t *finish_copy(const ARG &)
{
    return nullptr;
}

SV_DEV_FN uint8_t *finish_copy(const sv_digest_arg_t &arg)
{
    return arg.copy;
}

/* Says that the record is under way, to a reader that reads ahead of the word. */
template <typename ARG>
SV_DEV_FN void finish_hint(const ARG &)
{
}

SV_DEV_FN void finish_hint(const sv_digest_arg_t &arg)
{
    if (arg.second && (arg.mode & SV_DIGEST_AHEAD))
        sv_dev_store_ahead(arg.second + 1, arg.second_value); /* partner: the load in digest_is_recorded() */
}

template <typename ARG>
SV_DEV_FN void finish_prepare(const ARG &arg, uint64_t digest)
{
    record_words words = record_words_of(arg.identity);
    uint8_t *copy = finish_copy(arg);

    words.word[7] = digest;
    record_store(arg.record, words);
    if (copy)
        record_store(copy, words);
    finish_hint(arg);
}

template <typename ARG>
SV_DEV_FN bool finish_verify(const ARG &arg, uint64_t digest)
{
    const record_words seen = record_load(arg.record);
    const uint64_t expected = arg.mode & SV_DIGEST_NONE ? 0 : seen.word[7];
    const uint32_t record_ok = record_is(seen, record_words_of(arg.identity));
    const bool verified = record_ok && expected == digest;

    /* Stores to the host's memory make the release that follows them wait for a trip there and back. */
    if (verified && (arg.mode & SV_DIGEST_PRESET))
        return true;
    arg.result->expected = expected;
    arg.result->found = digest;
    arg.result->record_ok = record_ok;
    arg.result->verified = verified;
    if (verified)
        arg.result->epoch = 0;
    else /* partner: the acquire in find_failure(): another packet's failure may have sent the host here */
        sv_dev_store_release_system_u64(&arg.result->epoch, arg.identity.epoch);
    return verified;
}

template <typename ARG>
SV_DEV_FN void finish_signal(const ARG &arg, bool)
{
    if (arg.signal) /* partner: the acquire of whoever polls the word, a host or a kernel of another rank */
        sv_dev_store_release_system_u64(arg.signal, arg.signal_value);
}

SV_DEV_FN void finish_signal(const sv_digest_arg_t &arg, bool good)
{
    uint64_t *second = good ? arg.second : nullptr;

    if (arg.signal || second) /* partners: as above */
        sv_dev_store_release_system_u64_all(
            sv_dev_words_t{{second, arg.signal}, {arg.second_value, arg.signal_value}});
}

/* Done by one thread, once, when every block is through. total is the sum of all launches on the scratch. */
template <typename ARG>
SV_DEV_FN void finish_packet(const ARG &arg, uint64_t total)
{
    const uint64_t digest = arg.mode & SV_DIGEST_NONE ? 0 : digest_finish(arg.key, total);

    bool good = true;
    arg.scratch->go = arg.scratch->blocks_done = 0;
    if ((arg.mode & SV_DIGEST_FINISH) == SV_DIGEST_ADD)
        return;
    arg.scratch->sum = 0;
    if ((arg.mode & SV_DIGEST_FINISH) == SV_DIGEST_PREPARE)
        finish_prepare(arg, digest);
    else if (finish_await(arg))
        good = finish_verify(arg, digest);
    else
        return;
    finish_signal(arg, good);
}

/* All threads of the block call it when they are through; sum is what the calling thread found. far: the block may have
   stored into another device's memory. Without a scratch nobody wants the sum, or to be told of the end. */
template <typename ARG>
SV_DEV_FN void finish_block(const ARG &arg, uint64_t sum, bool far, sv_dev_block_t at)
{
    if (!arg.scratch)
        return;
    /* The barriers inside also put every thread's stores before thread 0 counts the block in or releases. */
    sum = sv_dev_block_sum_u64(sum, at);
    if (at.tid != 0)
        return;
    if (at.nblocks == 1) {
        sum += arg.scratch->sum;
        arg.scratch->sum = sum;
        finish_packet(arg, sum);
        return;
    }
    sv_dev_atomic_add_u64(&arg.scratch->sum, sum);
    /* Partner: itself in the other blocks. Whoever counts last has seen the sums and stores of all. */
    const uint32_t before = far ? sv_dev_atomic_add_u32_acq_rel_system(&arg.scratch->blocks_done, 1)
                                : sv_dev_atomic_add_u32_acq_rel(&arg.scratch->blocks_done, 1);
    if (before == at.nblocks - 1)
        finish_packet(arg, sv_dev_load_u64(&arg.scratch->sum));
}

} // namespace

#endif
