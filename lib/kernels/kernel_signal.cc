/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that releases one word at system scope. The release comes after everything that its stream did before,
 * and after a record that it may carry along. One thread does it, whatever the launch. The word lies where its poller
 * can read it.
 */
#include <stdint.h>

#include "kernels/kernel_args.h"
#include "kernels/kernel_device.h"

namespace {

SV_DEV_FN void signal_body(const sv_signal_arg_t &arg, sv_dev_block_t at)
{
    if (at.block != 0 || at.tid != 0)
        return;
    for (unsigned i = 0; arg.record && i < SV_RECORD_BYTES / 8; i++)
        arg.record_to[i] = arg.record[i];
    /* Partners: the acquires of whoever polls the words, a host or a kernel that waits. */
    sv_dev_store_release_system_u64_all(sv_dev_words_t{{arg.second, arg.word, nullptr}, {arg.value, arg.value, 0}});
}

} // namespace

SV_KERNEL(sv_signal, sv_signal_arg_t, signal_body)
