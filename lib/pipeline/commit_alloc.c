/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, last step: everything that start, test and wait will need, so that they never allocate. One block of pinned
 * memory holds records, results and staging slots; one block of device memory the scratch of the digest kernel.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_epoch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"
#include "transfer/transfer_pool.h"

/* Hands out pieces of a block; with a NULL base it only measures. */
typedef struct suballocator {
    uint8_t *base;
    size_t used;
} suballocator_t;

static void *suballocate(suballocator_t *suballocator, size_t bytes, size_t align)
{
    suballocator->used = (suballocator->used + align - 1) / align * align;
    void *piece = suballocator->base ? suballocator->base + suballocator->used : NULL;
    suballocator->used += bytes;
    return piece;
}

static void suballocate_slots(suballocator_t *suballocator, sv_packet_t *p)
{
    for (uint32_t s = 0; p->ops->own_slots && s < p->nslots; s++) {
        uint8_t *stage = suballocate(suballocator, sv_commit_slot_bytes(p), 256);
        if (p->slots)
            p->slots[s].stage = stage;
    }
    uint64_t *word = p->slots ? suballocate(suballocator, p->nslots * sizeof *word, 64) : NULL;
    for (uint32_t s = 0; word && s < p->nslots; s++)
        p->slots[s].word = word + s;
}

enum { NUMBERS_WORD = 4 }; /* in the line of x->abort */

/* One walk for measuring and for handing out, so that the two cannot differ. Words of one packet share a line: one
   device writes them, and one host looks. */
static void suballocate_pinned(selvage_exchange_t *x, suballocator_t *suballocator)
{
    x->abort = suballocate(suballocator, 64, 64);
    x->numbers.words = x->abort ? x->abort + NUMBERS_WORD : NULL;
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        send->record = suballocate(suballocator, sizeof(sv_record_t), 64);
        uint64_t *line = suballocate(suballocator, 64, 64);
        if (line) {
            send->ready = line;
            send->sent = line + 1;
            send->failed = line + 2;
        }
        suballocate_slots(suballocator, &send->p);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        recv->record = suballocate(suballocator, sizeof(sv_record_t), 64);
        recv->result = suballocate(suballocator, sizeof(sv_verify_result_t), 64);
        recv->done = suballocate(suballocator, 64, 64);         /* the device writes it ... */
        recv->arrived_word = suballocate(suballocator, 64, 64); /* ... and the host this one */
        suballocate_slots(suballocator, &recv->p);
        /* In fault tests doubled messages may be left over, and must be received somewhere before the exchange goes. */
        if (recv->p.ops->from_user_memory && x->comm->config.fault[0])
            recv->discard_buffer = suballocate(suballocator, sv_commit_slot_bytes(&recv->p), 256);
        if (!recv->p.ops->messaged && recv->words)
            recv->record = &recv->words->record;
    }
}

static selvage_status_t make_pinned(selvage_exchange_t *x)
{
    suballocator_t measure = {NULL, 0};
    suballocate_pinned(x, &measure);
    SV_TRY(sv_pinned_calloc(x->comm->dev, &x->comm->topology, measure.used + 1, &x->memory.pinned));
    x->memory.pinned_bytes += measure.used;
    suballocator_t hand_out = {x->memory.pinned, 0};
    suballocate_pinned(x, &hand_out);
    /* Slots of one-sided receives lie in the segment or the slab, in the order that the handshake told. */
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_packet_t *p = &x->recvs[i].p;
        for (uint32_t s = 0; p->slots && !p->ops->messaged && s < p->nslots; s++)
            p->slots[s].stage = x->recvs[i].recv_slots + s * sv_commit_slot_bytes(p);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t make_slots(sv_packet_t *p, bool with_events)
{
    SV_TRY(sv_calloc(p->nslots, sizeof *p->slots, &p->slots));
    for (uint32_t s = 0; with_events && s < p->nslots; s++)
        SV_TRY(p->x->comm->dev->ops->event_create(p->x->comm->dev, &p->slots[s].event));
    return SELVAGE_SUCCESS;
}

static selvage_status_t make_packets(selvage_exchange_t *x)
{
    const sv_fault_t *fault = &x->comm->fault;
    x->batch.reach = SV_KERNELS_PULL_ALL;
    x->messaged = false;
    x->send_bytes = 0;
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        if (fault->armed || fault->never_epoch)
            send->p.ops = sv_fault_route_ops(send->p.route);
        if (send->p.ops->messaged)
            SV_TRY(make_slots(&send->p, false));
        if (fault->armed)
            SV_TRY(sv_fault_send_create(send));
        x->send_bytes += send->p.bytes;
        x->messaged |= send->p.ops->messaged;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        sv_packet_t *p = &recv->p;
        const bool copied_out = !p->in_place && !p->kernel_copy;
        if (p->ops->messaged || copied_out)
            SV_TRY(make_slots(p, copied_out));
        SV_TRY(sv_calloc((p->nsegments + 63) / 64, sizeof *recv->arrived_segments, &recv->arrived_segments));
        if (!p->pulled)
            x->batch.reach = SV_KERNELS_MOVE_SOME;
        x->messaged |= p->ops->messaged;
        if (p->ops->messaged)
            p->peer->nstaged_recvs++;
    }
    SV_TRY(sv_calloc(x->nsends, sizeof *x->active_sends, &x->active_sends));
    return sv_calloc(x->nrecvs, sizeof *x->active_recvs, &x->active_recvs);
}

static selvage_status_t make_scratch(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    size_t bytes = sizeof(sv_epoch_state_t) + ((size_t)x->nsends + x->nrecvs) * sizeof(sv_digest_scratch_t);
    void *block;
    SV_TRY(SV_DEVICE_CALL(dev, malloc, bytes, &block));
    x->memory.scratch = block;
    x->memory.device_bytes += bytes;
    x->numbers.state = block;
    sv_digest_scratch_t *scratch = (sv_digest_scratch_t *)(x->numbers.state + 1);
    for (uint32_t i = 0; i < x->nsends; i++)
        x->sends[i].p.scratch = scratch++;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        x->recvs[i].p.scratch = scratch++;
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, block, 0, bytes, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(dev, signal_async, &x->numbers.state->epoch, SV_EPOCH_UNTOLD, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(dev, signal_async, (uint64_t *)(void *)&x->numbers.state->words,
                          (uint64_t)(uintptr_t)x->numbers.words, x->streams.kernel));
    /* Words lie in the slab too: what an earlier owner of the memory left must not look like an arrival. */
    if (x->memory.slab)
        SV_TRY(SV_DEVICE_CALL(dev, fill_async, x->memory.slab, 0, x->memory.slab_bytes, x->streams.kernel));
    /* Credit for the first epochs, as the receiver's host gives it in the segment. */
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].credit_device)
            SV_TRY(SV_DEVICE_CALL(dev, signal_async, x->sends[i].credit_device, sv_word(x->sends[i].p.nslots, 0, 1),
                                  x->streams.kernel));
    return SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
}

/* Only the streams that some packet needs: hardware queues are few. */
static selvage_status_t make_streams(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    bool out = false, in = false, peer = false, signal = false;
    for (uint32_t i = 0; i < x->nsends; i++) {
        const sv_packet_t *p = &x->sends[i].p;
        if (p->kernel_copy && !x->comm->fault.armed) /* a corrupted packet goes the long way */
            continue;
        out |= p->ops->through_host;
        peer |= sv_packet_stays_on_device(p);
        signal |= p->nsegments > 1 && !p->ops->from_user_memory;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_packet_t *p = &x->recvs[i].p;
        in |= !p->in_place && !p->kernel_copy;
        signal |= !p->in_place && p->nsegments > 1;
    }
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &x->streams.kernel));
    if (out)
        SV_TRY(SV_DEVICE_CALL(dev, stream_create, &x->streams.out));
    if (in)
        SV_TRY(SV_DEVICE_CALL(dev, stream_create, &x->streams.in));
    if (peer)
        SV_TRY(SV_DEVICE_CALL(dev, stream_create, &x->streams.peer));
    if (signal)
        SV_TRY(SV_DEVICE_CALL(dev, stream_create, &x->streams.signal));
    SV_TRY(dev->ops->event_create(dev, &x->streams.start_event));
    SV_TRY(dev->ops->event_create(dev, &x->streams.cross_event));
    SV_TRY(dev->ops->event_create(dev, &x->enqueued.gate_event));
    return dev->ops->event_create(dev, &x->streams.last_out_event);
}

selvage_status_t sv_commit_alloc(selvage_exchange_t *x)
{
    SV_TRY(sv_layouts_place_sends(x));
    SV_TRY(make_packets(x));
    SV_TRY(make_streams(x));
    SV_TRY(make_pinned(x));
    sv_prelaunch_decide(x);
    SV_TRY(make_scratch(x));
    SV_TRY(sv_epoch_arm_fault(x));
    SV_TRY(sv_layouts_upload(x));
    return sv_batch_make_items(x);
}
