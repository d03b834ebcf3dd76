/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets with layouts while an exchange runs: packing what is bounced before an epoch, unpacking it after, and the
 * base addresses. Everything here happens on the caller's streams, in the caller's thread, while the exchange is idle.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_batch.h"

void sv_layouts_give_bases(const selvage_exchange_t *x, sv_batch_arg_t *arg)
{
    arg->bases = x->layouts.bases_there;
    arg->nbases_here = x->layouts.nbases < SV_BATCH_BASES ? x->layouts.nbases : SV_BATCH_BASES;
    for (uint32_t i = 0; i < arg->nbases_here; i++)
        arg->base[i] = x->layouts.bases[i];
}

static sv_batch_arg_t begin_layout_launch(const selvage_exchange_t *x, const void *items, uint32_t flags)
{
    sv_batch_arg_t arg = {.items = items, .abort = x->abort, .epoch = 1, .flags = SV_DIGEST_NONE | flags};
    sv_layouts_give_bases(x, &arg);
    return arg;
}

static selvage_status_t launch_layouts(const selvage_exchange_t *x, const sv_kernel_t *kernel, sv_batch_arg_t *arg,
                                       void *stream)
{
    sv_device_t *dev = x->comm->dev;
    uint32_t shares = arg->first_block[arg->npackets];
    if (arg->npackets == 0)
        return SELVAGE_SUCCESS;
    uint32_t blocks = shares < dev->launch_blocks ? shares : dev->launch_blocks;
    SV_TRY(SV_DEVICE_CALL(dev, launch, kernel, arg, sizeof *arg, blocks, stream));
    arg->npackets = 0;
    return SELVAGE_SUCCESS;
}

/* One launch for as many entries as fit, and one at least for every wave. */
static selvage_status_t launch_all_layouts(const selvage_exchange_t *x, const sv_kernel_t *kernel, sv_batch_arg_t *arg,
                                           const sv_layout_entry_t *entry, uint32_t count, void *stream)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += entry[i].bytes;
    const uint64_t share_bytes = sv_batch_share_bytes(bytes, count, x->comm->dev->launch_blocks);
    for (uint32_t i = 0; i < count; i++) {
        if (arg->npackets == SV_BATCH_PACKETS || (i > 0 && entry[i].wave != entry[i - 1].wave))
            SV_TRY(launch_layouts(x, kernel, arg, stream));
        uint32_t n = arg->npackets++;
        arg->index[n] = entry[i].item;
        arg->first_block[n + 1] = arg->first_block[n] + sv_kernel_shares(x->comm->dev, entry[i].bytes, share_bytes);
    }
    return launch_layouts(x, kernel, arg, stream);
}

/* The event comes after what was launched even where not all of it was: memory must not be freed before it. */
static selvage_status_t record_layout_event(selvage_exchange_t *x, void *stream, selvage_status_t launched)
{
    selvage_status_t status = launched;
    x->layouts.launched = true;
    if (launched == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(x->comm->dev, event_record, x->layouts.event, stream);
    if (status != SELVAGE_SUCCESS) /* no injected fault may keep this from happening */
        (void)SV_DEVICE_CALL(x->comm->dev_under, event_record, x->layouts.event, stream);
    return status;
}

selvage_status_t sv_layouts_pack(selvage_exchange_t *x, void *stream)
{
    sv_layout_state_t *layouts = &x->layouts;
    /* Nobody may have waited for the epoch before, but it is complete. And what comes now must not meet what is still
       read on another stream. */
    SV_TRY(sv_layouts_finish(x, stream));
    layouts->due = layouts->nunpacks > 0;
    sv_batch_arg_t arg = begin_layout_launch(x, layouts->pack_items, 0);
    if (layouts->npacks == 0)
        return SELVAGE_SUCCESS;
    return record_layout_event(x, stream,
                               launch_all_layouts(x, &sv_kernel_gather, &arg, layouts->packs, layouts->npacks, stream));
}

selvage_status_t sv_layouts_unpack(selvage_exchange_t *x, void *stream, bool unless_failed)
{
    sv_layout_state_t *layouts = &x->layouts;
    if (!layouts->due)
        return SELVAGE_SUCCESS;
    layouts->due = false;
    sv_batch_arg_t arg = begin_layout_launch(x, layouts->unpack_items, unless_failed ? SV_BATCH_UNLESS_FAILED : 0);
    return record_layout_event(
        x, stream, launch_all_layouts(x, &sv_kernel_scatter, &arg, layouts->unpacks, layouts->nunpacks, stream));
}

selvage_status_t sv_layouts_finish(selvage_exchange_t *x, void *stream)
{
    if (x->layouts.due)
        return sv_layouts_unpack(x, stream, false);
    if (!x->layouts.launched || x->layouts.nunpacks == 0)
        return SELVAGE_SUCCESS;
    return SV_DEVICE_CALL(x->comm->dev, stream_wait_event, stream, x->layouts.event);
}

selvage_status_t sv_layouts_capture_pack(selvage_exchange_t *x, void *stream)
{
    sv_batch_arg_t arg = begin_layout_launch(x, x->layouts.pack_items, 0);
    return launch_all_layouts(x, &sv_kernel_gather, &arg, x->layouts.packs, x->layouts.npacks, stream);
}

selvage_status_t sv_layouts_capture_unpack(selvage_exchange_t *x, void *stream)
{
    sv_batch_arg_t arg = begin_layout_launch(x, x->layouts.unpack_items, SV_BATCH_UNLESS_FAILED);
    return launch_all_layouts(x, &sv_kernel_scatter, &arg, x->layouts.unpacks, x->layouts.nunpacks, stream);
}

bool sv_layouts_under_way(const selvage_exchange_t *x)
{
    return x->layouts.launched &&
           SV_DEVICE_CALL(x->comm->dev_under, event_query, x->layouts.event) == SELVAGE_IN_PROGRESS;
}

/* --- base addresses ----------------------------------------------------------------------------------------------- */

/* A push may be ahead of the copy of a table, whose receiver waits for another exchange of this rank. Not so at commit,
   where nobody else may advance the communicator. */
static selvage_status_t wait_for_copy(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = x->comm->topology.oversubscribed};
    selvage_status_t status;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
    SV_TRY(SV_DEVICE_CALL(dev, event_record, x->streams.cross_event, x->streams.kernel));
    while ((status = SV_DEVICE_CALL(dev, event_query, x->streams.cross_event)) == SELVAGE_IN_PROGRESS)
        if (!sv_progress_poll(&x->comm->progress))
            sv_backoff(&backoff);
    return status;
}

static selvage_status_t send_set(selvage_exchange_t *x, uint32_t set)
{
    sv_layout_state_t *layouts = &x->layouts;
    sv_device_t *dev = x->comm->dev;
    size_t bytes = layouts->nbases * sizeof *layouts->bases;
    memset(layouts->set + (size_t)set * layouts->nbases, 0xff, bytes); /* no table, should the copy fail half-way */
    memcpy(layouts->upload_table, layouts->bases, bytes);
    SV_TRY(SV_DEVICE_CALL(dev, copy_async, layouts->sets_there + (size_t)set * layouts->nbases, layouts->upload_table,
                          bytes, SV_COPY_H2D, x->streams.kernel));
    SV_TRY(wait_for_copy(x));
    memcpy(layouts->set + (size_t)set * layouts->nbases, layouts->bases, bytes);
    return SELVAGE_SUCCESS;
}

static selvage_status_t use_bases(selvage_exchange_t *x)
{
    sv_layout_state_t *layouts = &x->layouts;
    const size_t set_bytes = layouts->nbases * sizeof *layouts->bases;
    uint32_t set = 0;
    while (set < layouts->nsets &&
           memcmp(layouts->set + (size_t)set * layouts->nbases, layouts->bases, set_bytes) != 0)
        set++;
    if (set == layouts->nsets) {
        set = layouts->next_set;
        if (layouts->sets_there + (size_t)set * layouts->nbases == layouts->bases_there) /* stays, should this fail */
            set = (set + 1) % SV_LAYOUT_SETS;
        /* Kernels on the caller's streams may still read a table that is to be overwritten. Whom they wait for may wait
           for another exchange of this rank. */
        sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = x->comm->topology.oversubscribed};
        if (layouts->nsets == SV_LAYOUT_SETS)
            while (sv_layouts_under_way(x) || sv_batch_query(x) == SELVAGE_IN_PROGRESS)
                if (!sv_progress_poll(&x->comm->progress))
                    sv_backoff(&backoff);
        SV_TRY(send_set(x, set));
        layouts->next_set = (set + 1) % SV_LAYOUT_SETS;
        layouts->nsets += layouts->nsets < SV_LAYOUT_SETS;
    }
    layouts->bases_there = layouts->sets_there + (size_t)set * layouts->nbases;
    return SELVAGE_SUCCESS;
}

/* Packets that lie without gaps are moved by their address. */
static void follow_bases(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.plain)
            x->sends[i].buf = sv_layouts_plain_address(&x->sends[i].p);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.plain)
            x->recvs[i].buf = sv_layouts_plain_address(&x->recvs[i].p);
}

uint8_t *sv_layouts_plain_address(const sv_packet_t *p)
{
    uint32_t base = 0;
    int64_t offset = 0;
    (void)sv_layout_is_plain(p->layout, &base, &offset);
    return (uint8_t *)((uintptr_t)p->x->layouts.bases[base] + (uintptr_t)offset);
}

static selvage_status_t check_bases(const selvage_exchange_t *x, void *const *bases, uint32_t count)
{
    const sv_layout_state_t *layouts = &x->layouts;
    if (count + 1 != layouts->nbases)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%u addresses in place of %u", count, layouts->nbases - 1);
    for (uint32_t i = 0; i < count; i++) {
        if ((uintptr_t)bases[i] % layouts->aligned[i + 1] != 0)
            return sv_error(SELVAGE_ERR_ARGUMENT, "address %u is not a multiple of %u, as that at commit was", i,
                            layouts->aligned[i + 1]);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t first_bases(selvage_exchange_t *x, void *const *bases, uint32_t count)
{
    uint8_t **table, *aligned;
    SV_TRY(sv_calloc((size_t)count + 1, sizeof *table + sizeof *aligned, &table));
    aligned = (uint8_t *)(table + count + 1);
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t bits = (uintptr_t)bases[i] | 16;
        table[i + 1] = bases[i];
        aligned[i + 1] = (uint8_t)(bits & -bits);
    }
    sv_free(x->layouts.bases);
    x->layouts.bases = table;
    x->layouts.aligned = aligned;
    x->layouts.nbases = count + 1;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_check_idle(selvage_exchange_t *x)
{
    sv_exchange_finish_gated(x);
    const sv_exchange_state_t state = sv_exchange_state(x);
    if (state == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    if (state == SV_EXCHANGE_RUNNING || x->layouts.due)
        return sv_error(SELVAGE_ERR_STATE, "epoch %llu is not complete; wait for it first",
                        (unsigned long long)x->started);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_rebind(selvage_exchange_t *x, void *const *bases, uint32_t count)
{
    if (sv_exchange_state(x) == SV_EXCHANGE_BUILDING)
        return first_bases(x, bases, count);
    SV_TRY(sv_exchange_check_idle(x));
    if (!x->layouts.bases_there) /* nothing here has a layout */
        return first_bases(x, bases, count);
    SV_TRY(check_bases(x, bases, count));
    /* What was captured has few addresses in its launches, but of many the table, which would be overwritten. */
    if (x->numbers.shared && x->layouts.nbases > SV_BATCH_BASES)
        return sv_error(SELVAGE_ERR_STATE, "more than %d addresses cannot be changed after a capture",
                        SV_BATCH_BASES - 1);
    uint8_t *const *before = x->layouts.bases_there;
    for (uint32_t i = 0; i < count; i++)
        x->layouts.bases[i + 1] = bases[i];
    selvage_status_t status = use_bases(x);
    if (status != SELVAGE_SUCCESS) {
        const uint8_t *const *old = (const uint8_t *const *)(x->layouts.set + (before - x->layouts.sets_there));
        memcpy(x->layouts.bases, old, x->layouts.nbases * sizeof *x->layouts.bases);
        return status;
    }
    follow_bases(x);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layouts_first_set(selvage_exchange_t *x)
{
    SV_TRY(use_bases(x));
    follow_bases(x);
    return SELVAGE_SUCCESS;
}
