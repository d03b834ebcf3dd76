/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of several digests in one launch, as of messages that came together: a launch costs the host as much as
 * all else that it does for a message. Each packet has blocks of its own. They wait for nobody, so any number of blocks
 * will do.
 */
#include "kernels/kernel_finish.h"

namespace {

SV_DEV_FN void digests_body(const sv_digests_arg_t &arg, sv_dev_block_t at)
{
    unsigned i = 0;
    while (i + 1 < arg.njobs && at.block >= arg.first_block[i + 1])
        i++;
    const sv_digest_job_t &job = arg.job[i];
    sv_dev_block_t own = at;
    own.block = at.block - arg.first_block[i];
    own.nblocks = arg.first_block[i + 1] - arg.first_block[i];

    const uint64_t sum = digest_block(job.src, job.dst, job.bytes, job.key, !(job.mode & SV_DIGEST_NONE), own);

    sv_digest_arg_t one = {};
    one.key = job.key;
    one.scratch = job.scratch;
    one.record = job.record;
    one.copy = job.copy;
    one.result = job.result;
    one.signal = job.signal;
    one.signal_value = job.signal_value;
    one.second = job.second;
    one.second_value = job.second_value;
    one.mode = job.mode;
    one.identity.magic = SV_RECORD_MAGIC;
    one.identity.version = SV_RECORD_VERSION;
    one.identity.kind = SV_RECORD_PACKET;
    one.identity.attempt = job.attempt;
    one.identity.epoch = job.epoch;
    one.identity.exchange = arg.exchange;
    one.identity.index = static_cast<uint32_t>(job.epoch);
    one.identity.tag = job.tag;
    one.identity.source = job.source;
    one.identity.destination = job.destination;
    one.identity.bytes = job.bytes;
    one.identity.salt = one.identity.index + uint64_t{1000} * job.tag;
    finish_block(one, sum, job.dst != nullptr && !(job.mode & SV_DIGEST_NEAR), own);
}

} // namespace

SV_KERNEL(sv_digests, sv_digests_arg_t, digests_body)
