/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines between blocks: each word carries its round in its upper half and data of that round in its lower one, which
 * change in every bit from round to round, so that a word that is not written or read whole does not fit itself.
 */
#include "kernels/kernel_device.h"
#include "line_kernel.h"

namespace {

SV_DEV_FN uint64_t word_of(uint32_t round, unsigned number)
{
    uint32_t data = round * 2654435761u + number;
    return static_cast<uint64_t>(round) << 32 | (round & 1 ? ~data : data);
}

SV_DEV_FN uint32_t round_of(uint64_t word)
{
    return static_cast<uint32_t>(word >> 32);
}

/* A line says itself that it has come; plain memory beside it is told of by a release, or by a fence and a word. */
SV_DEV_FN void send(const line_arg_t &arg, uint32_t round)
{
    unsigned at = round % LINE_RING, turns = 0;

    while (round > LINE_RING && sv_dev_load_word_system(arg.taken) < round - LINE_RING)
        sv_dev_backoff(&turns);
    sv_dev_fence_system(); /* the partner is the one in take(): the slot was read before it was given back */
    arg.plain[at] = round;
    sv_dev_store_line(arg.line + 2 * at, word_of(round, 2 * at), word_of(round, 2 * at + 1));
    if (round & 1)
        sv_dev_store_release_system_u32(arg.told, round);
    else {
        sv_dev_fence_system();
        sv_dev_store_u32_system(arg.heard, round);
    }
}

SV_DEV_FN void take(const line_arg_t &arg, uint32_t round)
{
    unsigned at = round % LINE_RING, turns = 0;
    uint64_t lo, hi;

    do {
        sv_dev_load_line(arg.line + 2 * at, &lo, &hi);
        sv_dev_backoff(&turns);
    } while (round_of(lo) != round || round_of(hi) != round);
    if (lo != word_of(round, 2 * at) || hi != word_of(round, 2 * at + 1))
        sv_dev_atomic_add_u64(arg.wrong, 1);
    if (round & 1)
        while (sv_dev_load_acquire_system_u32(arg.told) < round)
            sv_dev_backoff(&turns);
    else {
        while (sv_dev_load_u32_system(arg.heard) < round)
            sv_dev_backoff(&turns);
        sv_dev_fence_system();
    }
    if (arg.plain[at] != round)
        sv_dev_atomic_add_u64(arg.wrong, 1);
    sv_dev_fence_system();
    sv_dev_store_word_system(arg.taken, round);
}

SV_DEV_FN void store_on(const line_arg_t &arg)
{
    for (uint32_t round = 1; round <= LINE_STORES; round++)
        sv_dev_store_line(arg.line, word_of(round, 0), word_of(round, 1));
    sv_dev_store_u32_system(arg.done, 1);
}

/* Any word at any time is that of some round. */
SV_DEV_FN void look_on(const line_arg_t &arg)
{
    SV_DEV_SHARED uint64_t looks;
    uint64_t word[2];

    looks = 0;
    while (!sv_dev_load_u32_system(arg.done) || looks == 0) {
        sv_dev_load_line(arg.line, &word[0], &word[1]);
        for (unsigned half = 0; half < 2; half++)
            if (round_of(word[half]) > 0 && word[half] != word_of(round_of(word[half]), half))
                sv_dev_atomic_add_u64(arg.torn, 1);
        looks++;
    }
    sv_dev_atomic_add_u64(arg.looks, looks);
}

/* Each puts tokens of its own, and tells which it got for them. */
SV_DEV_FN void exchange_tokens(const line_arg_t &arg, sv_dev_block_t at)
{
    for (uint32_t i = 0; i < LINE_TAKES; i++)
        sv_dev_atomic_add_u64(arg.given_back + sv_dev_exchange_u32(arg.token, 1 + i * at.nblocks + at.block), 1);
}

SV_DEV_FN void line_body(const line_arg_t &arg, sv_dev_block_t at)
{
    if (at.tid != 0)
        return;
    if (arg.token)
        exchange_tokens(arg, at);
    else if (!arg.taken)
        at.block == 0 ? store_on(arg) : look_on(arg);
    else
        for (uint32_t round = 1; round <= LINE_ROUNDS; round++)
            at.block == 0 ? send(arg, round) : take(arg, round);
}

} // namespace

SV_KERNEL_WIDE(test_lines, line_arg_t, line_body)
