/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file says which calls, and which sends and receives, are short enough for kernels of their own, and fills the
 * arguments of these kernels, most of which is the same in every launch. Only this rank is concerned: others may do the
 * same call by the other kernels. The handle owns the arguments; the application's one thread fills them.
 */
#include "collective/coll_parts.h"

/* What all calls alone have in common. Whether the part of a channel that is sent fits into one step. */
static bool fill_small_arg(selvage_coll_t *coll, const sv_coll_work_t *work, uint64_t part_bytes)
{
    const sv_coll_layout_t *layout = &coll->dev.layout;
    sv_coll_small_arg_t *arg = &coll->alone.small;
    const bool lines = work->proto == SV_COLL_LL;
    if (part_bytes > sv_coll_slot_capacity(layout, work, work->proto))
        return false;
    arg->block_bytes = work->count * selvage_type_bytes((selvage_type_t)work->type);
    arg->part_bytes = part_bytes;
    arg->context = coll->context;
    arg->slots_at = lines ? layout->ll_at : layout->long_at;
    arg->slot_bytes = lines ? layout->ll_bytes : layout->long_bytes;
    arg->work = *work;
    return true;
}

/* A send, a receive, or both, but no message to the rank itself. */
static const sv_kernel_t *choose_pair_kernel(selvage_coll_t *coll, const sv_coll_work_t *work)
{
    const sv_coll_layout_t *layout = &coll->dev.layout;
    sv_coll_small_pair_arg_t *arg = &coll->alone;
    const uint64_t element_bytes = selvage_type_bytes((selvage_type_t)work->type);
    if (work->root == coll->dev.me || work->peer == coll->dev.me)
        return NULL;
    arg->in_bytes = work->count_in * element_bytes;
    arg->in_part_bytes = sv_coll_part_bytes(arg->in_bytes, work->nchannels);
    arg->line_at = layout->ll_at;
    arg->line_bytes = layout->ll_bytes;
    if (arg->in_part_bytes > sv_coll_slot_capacity(layout, work, work->proto) ||
        !fill_small_arg(coll, work, sv_coll_part_bytes(work->count * element_bytes, work->nchannels)))
        return NULL;
    return work->proto == SV_COLL_LL ? &sv_kernel_coll_small_pair : &sv_kernel_coll_small_pair_ll128;
}

const sv_kernel_t *sv_coll_small_kernel(selvage_coll_t *coll, const sv_coll_work_t *work, size_t *arg_bytes_out)
{
    const bool may_be_small = coll->dev.n > 1 && work->algo == SV_COLL_ONESHOT && work->proto != SV_COLL_SIMPLE &&
                              !(work->flags & SV_COLL_PREMUL) && coll->comm->config.coll_quick;
    if (!may_be_small)
        return NULL;
    const sv_kernel_t *kernel = NULL;
    if (work->call == SV_COLL_PAIR)
        kernel = choose_pair_kernel(coll, work);
    else if (fill_small_arg(coll, work, work->part_bytes))
        kernel = work->proto == SV_COLL_LL ? &sv_kernel_coll_small : &sv_kernel_coll_small_ll128;
    if (kernel)
        *arg_bytes_out = work->call == SV_COLL_PAIR ? sizeof coll->alone : sizeof coll->alone.small;
    return kernel;
}
