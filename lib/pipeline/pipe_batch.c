/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of packets that kernels move. Items are written at commit, and again only if lengths vary; a launch carries
 * the epoch, the keys and the shares that blocks take. Packets of different attempts go in launches of their own.
 */
#include "pipeline/pipe_batch.h"

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"

/* A launch takes no more than this part of the device, so that one that waits is resident as a whole, and one that
   moves much leaves room for the application's kernels beside it; what links carry keeps no more busy. */
enum { DEVICE_SHARE = 2 };

/* The kernels of runs have twice as many registers. */
enum { RUN_SHARE = 2 * DEVICE_SHARE };

unsigned sv_batch_run_blocks(const selvage_exchange_t *x)
{
    return (x->comm->dev->launch_blocks + RUN_SHARE - 1) / RUN_SHARE;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static void *own_address(const selvage_exchange_t *x, void *ptr)
{
    return x->memory.segment_open ? sv_shared_device_address(&x->memory.segment, ptr) : ptr;
}

static sv_push_item_t push_item(const sv_send_t *send)
{
    const sv_packet_t *p = &send->p;
    sv_push_item_t item = {.src = send->buf, .scratch = p->scratch, .identity = p->identity, .nslots = 1,
                           .failed = send->failed, .pieces = p->pieces, .npieces = p->npieces};
    if (p->ops->messaged) {
        item.dst = p->slots[0].stage;
        item.record = item.dst + p->bytes;
        item.arrived = send->ready;
        return item;
    }
    item.dst = send->target;
    item.record = (uint8_t *)&send->remote->record;
    item.arrived = &send->remote->arrived;
    item.sent = send->sent;
    item.credit = own_address(p->x, &send->words->credit);
    item.count = p->nsegments;
    if (send->device_line) {
        item.record = send->device_line;
        item.arrived_device = (uint64_t *)(void *)(send->device_line + sizeof(sv_record_t));
        return item;
    }
    if (p->in_place) { /* a host that receives looks for the record apart from the payload */
        item.arrived_device = &send->remote->recorded;
        return item;
    }
    item.nslots = p->nslots;
    item.dst_stride = send->target_stride;
    if (sv_batch_has_device_record(p)) {
        item.record = send->target + sv_commit_trailer(p);
        item.record_stride = send->target_stride;
        item.arrived_device = (uint64_t *)(void *)(item.record + sizeof(sv_record_t));
        item.credit = send->credit_device ? send->credit_device : item.credit;
        item.credit_near = send->credit_device != NULL;
    }
    return item;
}

/* The host gets to see the record only if it does not verify. */
static void place_record(sv_pull_item_t *item, const uint8_t *record)
{
    item->record_seen = (uint64_t *)(void *)item->record;
    item->record = record;
    item->arrived = (const uint64_t *)(const void *)(record + sizeof(sv_record_t));
}

static sv_pull_item_t pull_item(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    sv_pull_item_t item = {.record = own_address(p->x, recv->record), .result = recv->result, .done = recv->done,
                           .scratch = p->scratch, .nslots = 1, .identity = p->identity, .pieces = p->pieces,
                           .npieces = p->npieces};
    if (p->ops->messaged) {
        item.dst = recv->buf;
        item.src = p->slots[0].stage;
        item.arrived = recv->arrived_word;
        return item;
    }
    item.arrived = own_address(p->x, &recv->words->arrived);
    item.verdict = sv_shared_device_address(&p->peer->segment, &recv->remote->verdict);
    if (p->in_place) {
        item.grant = sv_shared_device_address(&p->peer->segment, &recv->remote->credit);
        item.grant_count = p->nslots;
        item.src = recv->buf;
        item.count = p->nsegments;
        item.recorded = recv->device_line ? NULL : own_address(p->x, &recv->words->recorded);
        if (recv->device_line)
            place_record(&item, recv->device_line);
        return item;
    }
    item.dst = recv->buf;
    item.src = own_address(p->x, recv->recv_slots);
    item.nslots = p->nslots;
    item.src_stride = sv_commit_slot_bytes(p);
    item.credit = sv_shared_device_address(&p->peer->segment, &recv->remote->credit);
    if (sv_batch_has_device_record(p)) {
        place_record(&item, recv->recv_slots + sv_commit_trailer(p));
        item.record_stride = item.arrived_stride = item.src_stride;
        item.credit_device = recv->credit_device;
        item.looks = sv_batch_looks_ahead(p);
    }
    return item;
}

static size_t item_bytes(const selvage_exchange_t *x)
{
    return x->nsends * sizeof(sv_push_item_t) + x->nrecvs * sizeof(sv_pull_item_t);
}

/* To pinned memory, and from there to the device, for which the host waits. */
static selvage_status_t write_items(selvage_exchange_t *x, void *pinned)
{
    sv_device_t *dev = x->comm->dev;
    sv_push_item_t *push = pinned;
    sv_pull_item_t *pull = (sv_pull_item_t *)(void *)(push + x->nsends);
    for (uint32_t i = 0; i < x->nsends; i++)
        if (sv_batch_has_item(&x->sends[i].p))
            push[i] = push_item(&x->sends[i]);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (sv_batch_has_item(&x->recvs[i].p))
            pull[i] = pull_item(&x->recvs[i]);
    selvage_status_t status = SV_DEVICE_CALL(dev, copy_async, x->batch.push_items, pinned, item_bytes(x), SV_COPY_H2D,
                                             x->streams.kernel);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
    if (status != SELVAGE_SUCCESS) /* the copy may be under way; no injected fault may keep this from waiting for it */
        (void)SV_DEVICE_CALL(x->comm->dev_under, stream_sync, x->streams.kernel);
    return status;
}

selvage_status_t sv_batch_make_items(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    const size_t bytes = item_bytes(x);
    void *device, *pinned;
    SV_TRY(sv_calloc(x->nsends, sizeof *x->batch.push_due, &x->batch.push_due));
    SV_TRY(sv_calloc(x->nrecvs, sizeof *x->batch.pull_due, &x->batch.pull_due));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, bytes, &device));
    x->batch.push_items = device;
    x->batch.pull_items = (sv_pull_item_t *)(void *)(x->batch.push_items + x->nsends);
    x->memory.device_bytes += bytes;
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, bytes, &pinned));
    const selvage_status_t status = write_items(x, pinned);
    if (x->varying)
        x->batch.pinned_items = pinned;
    else
        SV_DEVICE_CALL(dev, host_free, pinned);
    return status;
}

selvage_status_t sv_batch_update_items(selvage_exchange_t *x)
{
    return write_items(x, x->batch.pinned_items);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

void sv_batch_begin(const selvage_exchange_t *x, const sv_batch_how_t *how, const void *items, sv_batch_arg_t *arg)
{
    arg->items = items;
    arg->abort = x->abort;
    arg->wait_ns = how->wait_ns;
    arg->epoch = x->epoch;
    if (x->layouts.packets)
        sv_layouts_give_bases(x, arg);
    arg->flags = (x->policy == SV_CONFIG_CHECKSUM_OFF ? SV_DIGEST_NONE : 0) | (how->sticky ? SV_BATCH_STICKY : 0);
    arg->npackets = 0;
    arg->first_block[0] = 0;
}

void sv_batch_add(sv_batch_arg_t *arg, const sv_packet_t *p, uint64_t share_bytes)
{
    const sv_device_t *dev = p->x->comm->dev;
    const uint32_t n = arg->npackets++;
    /* To tell of what several blocks did costs more than they save where one block does not have much to do. */
    const bool alone = !p->fused && p->bytes <= dev->kernel_alone_bytes;
    arg->attempt = p->attempt;
    arg->key[n] = p->key;
    arg->index[n] = p->own_index;
    arg->first_block[n + 1] = arg->first_block[n] + (alone ? 1 : sv_kernel_shares(dev, p->bytes, share_bytes));
}

/* One launch has one attempt, and one kernel: that for packets in pieces is another. */
static bool is_full_for(const sv_batch_arg_t *arg, const sv_packet_t *p, const sv_packet_t *last)
{
    return arg->npackets == SV_BATCH_PACKETS ||
           (arg->npackets > 0 && (arg->attempt != p->attempt || last->fused != p->fused));
}

static unsigned blocks_at_most(const selvage_exchange_t *x)
{
    return (x->comm->dev->launch_blocks + DEVICE_SHARE - 1) / DEVICE_SHARE;
}

static selvage_status_t launch_batch(const selvage_exchange_t *x, const sv_kernel_t *kernel, sv_batch_arg_t *arg,
                                     void *stream)
{
    uint32_t shares = arg->first_block[arg->npackets], most = blocks_at_most(x);
    return SV_DEVICE_CALL(x->comm->dev, launch, kernel, arg, sizeof *arg, shares < most ? shares : most, stream);
}

static void note_pushed(selvage_exchange_t *x, const sv_batch_arg_t *arg)
{
    for (uint32_t i = 0; i < arg->npackets; i++) {
        sv_send_t *send = &x->sends[arg->index[i]];
        send->pushed = sv_word(x->epoch, arg->attempt, send->p.nsegments);
    }
}

/* Before the launch, whose end the words of these packets tell. */
static void expect_pulls(const selvage_exchange_t *x, const sv_batch_arg_t *arg)
{
    for (uint32_t i = 0; i < arg->npackets; i++) {
        sv_recv_t *recv = &x->recvs[arg->index[i]];
        recv->launched = 0;
        __atomic_store_n(recv->done, 0, __ATOMIC_RELAXED); /* an absent packet is looked for again in this attempt */
    }
}

static void note_pulled(const selvage_exchange_t *x, const sv_batch_arg_t *arg)
{
    for (uint32_t i = 0; i < arg->npackets; i++)
        x->recvs[arg->index[i]].launched = sv_word(x->epoch, arg->attempt, SV_PULL_GOOD);
}

/* last is the packet that was added last, NULL if there is none. */
static selvage_status_t launch_push(selvage_exchange_t *x, sv_batch_arg_t *arg, const sv_packet_t *last,
                                    void *stream)
{
    if (arg->npackets == 0)
        return SELVAGE_SUCCESS;
    sv_batch_stamp_push(x, arg, last->fused, sv_batch_number_launch(x));
    SV_TRY(launch_batch(x, last->fused ? &sv_kernel_gather : &sv_kernel_push, arg, stream));
    note_pushed(x, arg);
    if (x->in_start && stream == x->streams.caller)
        x->batch.first_push = &x->sends[arg->index[0]];
    arg->npackets = arg->corrupted = 0;
    return SELVAGE_SUCCESS;
}

static selvage_status_t launch_pull(const selvage_exchange_t *x, sv_batch_arg_t *arg, const sv_packet_t *last,
                                    void *stream)
{
    if (arg->npackets == 0)
        return SELVAGE_SUCCESS;
    expect_pulls(x, arg);
    sv_batch_stamp_pull(x, arg, last->fused, sv_batch_number_launch(x));
    SV_TRY(launch_batch(x, last->fused ? &sv_kernel_scatter : &sv_kernel_pull, arg, stream));
    note_pulled(x, arg);
    arg->npackets = 0;
    return SELVAGE_SUCCESS;
}

static bool is_being_pushed(const sv_send_t *send)
{
    const uint64_t *word = send->p.ops->messaged ? send->ready : send->sent;
    /* Partners: the releases of the push kernel, at its end or where its leave did not come. Words grow, and a copy
       engine may have sent a later epoch since. */
    return send->pushed && (int64_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - send->pushed) < 0 &&
           (uint32_t)__atomic_load_n(send->failed, __ATOMIC_ACQUIRE) != sv_word_epoch(send->pushed);
}

bool sv_batch_start_is_passed(const selvage_exchange_t *x)
{
    return x->batch.first_push && !is_being_pushed(x->batch.first_push);
}

/* The word of a pull is 0 from its launch to its end. */
static bool is_batch_under_way(const selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (is_being_pushed(&x->sends[i]))
            return true;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_recv_t *recv = &x->recvs[i];
        /* Partner: the release of the pull kernel, good or bad. */
        const uint64_t done = __atomic_load_n(recv->done, __ATOMIC_ACQUIRE);
        if (recv->launched && (done == 0 || (int64_t)(done - recv->launched) < 0))
            return true;
    }
    return false;
}

selvage_status_t sv_batch_query(const selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev_under; /* whoever asks must not go on because of an injected fault */
    if (x->enqueued.joined)
        SV_TRY(SV_DEVICE_CALL(dev, event_query, x->enqueued.gate_event));
    if (!is_batch_under_way(x))
        return SELVAGE_SUCCESS;
    /* A device that is lost says nothing by words any more, but every query fails there. */
    SV_TRY(SV_DEVICE_CALL(dev, event_query, x->streams.start_event));
    return SELVAGE_IN_PROGRESS;
}

static size_t due_push_bytes(const selvage_exchange_t *x)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < x->batch.npush_due; i++)
        bytes += x->sends[x->batch.push_due[i]].p.bytes;
    return bytes;
}

static size_t due_pull_bytes(const selvage_exchange_t *x)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < x->batch.npull_due; i++)
        bytes += x->recvs[x->batch.pull_due[i]].p.bytes;
    return bytes;
}

selvage_status_t sv_batch_push_how(selvage_exchange_t *x, const sv_batch_how_t *how)
{
    sv_batch_arg_t arg = {0};
    const sv_packet_t *last = NULL;
    const uint64_t share_bytes = sv_batch_share_bytes(due_push_bytes(x), x->batch.npush_due, blocks_at_most(x));
    sv_batch_begin(x, how, x->batch.push_items, &arg);
    for (uint32_t i = 0; i < x->batch.npush_due; i++) {
        const sv_packet_t *p = &x->sends[x->batch.push_due[i]].p;
        if (is_full_for(&arg, p, last))
            SV_TRY(launch_push(x, &arg, last, how->stream));
        sv_batch_add(&arg, p, share_bytes);
        last = p;
        if (how->corrupted == p->own_index + 1)
            arg.corrupted = arg.npackets;
    }
    x->batch.npush_due = 0;
    return launch_push(x, &arg, last, how->stream);
}

selvage_status_t sv_batch_pull_how(selvage_exchange_t *x, const sv_batch_how_t *how)
{
    sv_batch_arg_t arg = {0};
    const sv_packet_t *last = NULL;
    const uint64_t share_bytes = sv_batch_share_bytes(due_pull_bytes(x), x->batch.npull_due, blocks_at_most(x));
    sv_batch_begin(x, how, x->batch.pull_items, &arg);
    for (uint32_t i = 0; i < x->batch.npull_due; i++) {
        sv_recv_t *recv = &x->recvs[x->batch.pull_due[i]];
        if (is_full_for(&arg, &recv->p, last))
            SV_TRY(launch_pull(x, &arg, last, how->stream));
        sv_batch_add(&arg, &recv->p, share_bytes);
        last = &recv->p;
    }
    x->batch.npull_due = 0;
    return launch_pull(x, &arg, last, how->stream);
}

/* Whether one launch takes all that is due. Packets in pieces have a kernel of their own, and may be so at one end
   only; attempts differ only after an epoch that was repaired. */
static bool is_one_launch(const selvage_exchange_t *x)
{
    if (x->batch.npush_due == 0 || x->batch.npull_due == 0 || x->batch.npush_due > SV_BATCH_PACKETS ||
        x->batch.npull_due > SV_BATCH_PACKETS)
        return false;
    const bool in_pieces = x->sends[x->batch.push_due[0]].p.fused;
    for (uint32_t i = 0; i < x->batch.npush_due; i++) {
        const sv_packet_t *p = &x->sends[x->batch.push_due[i]].p;
        if (p->fused != in_pieces || p->attempt != 0)
            return false;
    }
    for (uint32_t i = 0; i < x->batch.npull_due; i++) {
        const sv_packet_t *p = &x->recvs[x->batch.pull_due[i]].p;
        if (p->fused != in_pieces || p->attempt != 0)
            return false;
    }
    return true;
}

selvage_status_t sv_batch_run_how(selvage_exchange_t *x, const sv_batch_how_t *how)
{
    sv_run_arg_t arg = {.push = {0}};
    const unsigned most = sv_batch_run_blocks(x);
    if (!is_one_launch(x)) {
        SV_TRY(sv_batch_push_how(x, how));
        return sv_batch_pull_how(x, how);
    }
    const bool in_pieces = x->sends[x->batch.push_due[0]].p.fused;
    const uint64_t push_bytes = sv_batch_share_bytes(due_push_bytes(x), x->batch.npush_due, most);
    const uint64_t pull_bytes = sv_batch_share_bytes(due_pull_bytes(x), x->batch.npull_due, most);
    sv_batch_begin(x, how, x->batch.push_items, &arg.push);
    sv_batch_begin(x, how, x->batch.pull_items, &arg.pull);
    arg.push.flags |= SV_BATCH_HOLDS_NEXT | SV_BATCH_UNHEARD;
    for (uint32_t i = 0; i < x->batch.npush_due; i++)
        sv_batch_add(&arg.push, &x->sends[x->batch.push_due[i]].p, push_bytes);
    for (uint32_t i = 0; i < x->batch.npull_due; i++)
        sv_batch_add(&arg.pull, &x->recvs[x->batch.pull_due[i]].p, pull_bytes);
    x->batch.npush_due = x->batch.npull_due = 0;
    const uint32_t push_shares = arg.push.first_block[arg.push.npackets];
    const uint32_t pull_shares = arg.pull.first_block[arg.pull.npackets];
    const uint32_t shares = push_shares > pull_shares ? push_shares : pull_shares;
    const uint32_t number = sv_batch_number_launch(x);
    sv_batch_stamp_push(x, &arg.push, in_pieces, number);
    sv_batch_stamp_pull(x, &arg.pull, in_pieces, number);
    expect_pulls(x, &arg.pull);
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, launch, in_pieces ? &sv_kernel_run_pieces : &sv_kernel_run, &arg, sizeof arg,
                          shares < most ? shares : most, how->stream));
    note_pushed(x, &arg.push);
    note_pulled(x, &arg.pull);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_batch_flush(selvage_exchange_t *x)
{
    if (x->batch.npush_due) {
        void *stream = sv_batch_goes_first(x, due_push_bytes(x)) ? x->streams.caller : x->streams.kernel;
        if (stream == x->streams.kernel)
            SV_TRY(sv_exchange_order(x));
        x->enqueued.kernel_stream_busy |= stream == x->streams.kernel;
        SV_TRY(sv_batch_push_how(x, &(sv_batch_how_t){.stream = stream}));
    }
    if (!x->batch.npull_due || !sv_batch_is_after_start(x)) /* else with a later flush */
        return SELVAGE_SUCCESS;
    x->enqueued.kernel_stream_busy = true;
    SV_TRY(sv_exchange_order(x));
    return sv_batch_pull_how(x, &(sv_batch_how_t){.stream = x->streams.kernel});
}
