/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the digest: one pass over a packet (or a segment of it) that copies it, sums it, and in the end writes
 * or checks its record.
 *
 * Blocks never wait for each other: each adds its sum and counts itself in, and the last one finishes. The scratch is
 * the packet's own; launches that share it are ordered by their stream.
 */
#include "kernels/kernel_digest.h"

namespace {

SV_DEV_FN void digest_prepare(const sv_digest_arg_t &arg, uint64_t digest)
{
    record_words words = record_words_of(arg.identity);

    words.word[7] = digest;
    record_store(arg.record, words);
}

SV_DEV_FN void digest_verify(const sv_digest_arg_t &arg, uint64_t digest)
{
    const record_words seen = record_load(arg.record);
    const uint64_t expected = arg.mode & SV_DIGEST_NONE ? 0 : seen.word[7];
    const uint32_t record_ok = record_is(seen, record_words_of(arg.identity));

    arg.result->expected = expected;
    arg.result->found = digest;
    arg.result->record_ok = record_ok;
    arg.result->verified = record_ok && expected == digest;
    arg.result->epoch = arg.result->verified ? 0 : arg.identity.epoch;
}

/* Done by one thread, once, when every block is through. total is the sum of all launches on the scratch. */
SV_DEV_FN void digest_close(const sv_digest_arg_t &arg, uint64_t total)
{
    const uint64_t digest = arg.mode & SV_DIGEST_NONE ? 0 : digest_finish(arg.key, total);

    arg.scratch->blocks_done = 0;
    if ((arg.mode & SV_DIGEST_FINISH) == SV_DIGEST_ADD)
        return;
    if ((arg.mode & SV_DIGEST_FINISH) == SV_DIGEST_PREPARE)
        digest_prepare(arg, digest);
    else
        digest_verify(arg, digest);
    arg.scratch->sum = 0;
    if (arg.signal) /* partner: the acquire of whoever polls the word, a host or a kernel of another rank */
        sv_dev_store_release_system_u64(arg.signal, arg.signal_value);
}

SV_DEV_FN void digest_body(const sv_digest_arg_t &arg, sv_dev_block_t at)
{
    const bool sums = !(arg.mode & SV_DIGEST_NONE);
    uint64_t sum = digest_block(arg.src, arg.dst, arg.bytes, arg.key + arg.first_word * SV_DIGEST_STEP, sums, at);

    /* The barriers inside also put every thread's stores before thread 0 counts the block in or releases. */
    sum = sv_dev_block_sum_u64(sum, at);
    if (at.tid != 0)
        return;
    if (at.nblocks == 1) {
        sum += arg.scratch->sum;
        arg.scratch->sum = sum;
        digest_close(arg, sum);
        return;
    }
    sv_dev_atomic_add_u64(&arg.scratch->sum, sum);
    /* Partner: itself in the other blocks. Whoever counts last has seen the sums and stores of all. */
    if (sv_dev_atomic_add_u32_acq_rel(&arg.scratch->blocks_done, 1) == at.nblocks - 1)
        digest_close(arg, sv_dev_load_u64(&arg.scratch->sum));
}

} // namespace

SV_KERNEL(sv_digest, sv_digest_arg_t, digest_body)
