/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file says which calls are short enough for kernels of their own, and fills the argument of these kernels, most
 * of which is the same in every launch. Only this rank is concerned: others may do the same call by the other kernels.
 * The handle owns the argument; the application's one thread fills it.
 */
#include "collective/coll_parts.h"

const sv_kernel_t *sv_coll_small_kernel(selvage_coll_t *coll, const sv_coll_work_t *work)
{
    const sv_coll_layout_t *layout = &coll->dev.layout;
    sv_coll_small_arg_t *arg = &coll->small;
    const bool lines = work->proto == SV_COLL_LL;
    const bool is_small = coll->dev.n > 1 && work->algo == SV_COLL_ONESHOT && work->proto != SV_COLL_SIMPLE &&
                          work->call != SV_COLL_PAIR && !(work->flags & SV_COLL_PREMUL);
    if (!is_small || !coll->comm->config.coll_quick)
        return NULL;
    arg->block_bytes = work->count * selvage_type_bytes((selvage_type_t)work->type);
    arg->part_bytes = work->part_bytes;
    if (arg->part_bytes > sv_coll_slot_capacity(layout, work, work->proto))
        return NULL;
    arg->context = coll->context;
    arg->slots_at = lines ? layout->ll_at : layout->long_at;
    arg->slot_bytes = lines ? layout->ll_bytes : layout->long_bytes;
    arg->work = *work;
    return lines ? &sv_kernel_coll_small : &sv_kernel_coll_small_ll128;
}
