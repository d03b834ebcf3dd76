/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that lie in pieces are packed on the way, straight to where the receiver finds them. The same kernel packs
 * what a copy engine or MPI moves, into memory of the sender's own.
 */
#include "kernels/kernel_pieces.h"

namespace {

SV_DEV_FN void gather_body(const sv_batch_arg_t &arg, sv_dev_block_t at)
{
    push_body<layout_push>(arg, numbered_by_host{}, at);
}

} // namespace

SV_KERNEL(sv_gather, sv_batch_arg_t, gather_body)
