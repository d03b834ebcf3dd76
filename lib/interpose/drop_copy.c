/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between the program's device memory and staging memory (drop_pool.c), packing among them. The device whose
 * memory it is makes the copy. Copies of one flow are waited for together, as far as they are one device's. Where the
 * staging memory is not pinned, a copy goes by pieces, two of them at a time, and is over when the call returns.
 *
 * Any thread may copy, but a flow belongs to one thread; it owns its stream until sv_drop_flow_end().
 */
#include "interpose/drop_plan.h"
#include "interpose/drop_pool.h"
#include "interpose/drop_strip.h"

#include <string.h>

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void check_copy(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
}

void *sv_drop_flow_stream(sv_drop_flow_t *flow, selvage_device_t *dev, size_t bytes)
{
    if (flow->device && flow->device != dev)
        sv_drop_flow_end(flow);
    if (!flow->device && !flow->theirs)
        flow->stream = sv_drop_stream_take(dev);
    flow->device = dev;
    flow->begin_ns = flow->begin_ns ? flow->begin_ns : sv_drop_trace_now();
    flow->bytes += (int64_t)bytes;
    return flow->stream;
}

void sv_drop_flow_end(sv_drop_flow_t *flow)
{
    selvage_device_t *dev = flow->theirs && !flow->device ? sv_drop_device() : flow->device;
    if (!dev)
        return;
    /* Work that the program has enqueued since the event may take long. So after that, copies are made on another
       stream than its own. */
    if (flow->event)
        check_copy(selvage_event_synchronize(dev, flow->event));
    if (!flow->event || flow->nruns > 0) {
        void *stream = flow->event ? sv_drop_stream_take(dev) : flow->stream;
        sv_drop_strip_copy_rest(flow, stream);
        check_copy(selvage_stream_synchronize(dev, stream));
        if (flow->event)
            sv_drop_stream_give(dev, stream);
    }
    sv_drop_trace_span("copy", flow->begin_ns, flow->bytes);
    flow->begin_ns = flow->bytes = 0;
    if (!flow->theirs)
        sv_drop_stream_give(dev, flow->stream);
    flow->device = NULL;
}

/* --- by pieces ---------------------------------------------------------------------------------------------------- */

/* A copy by pieces: of a run of bytes or, with a plan, of packed bytes. */
typedef struct cargo {
    selvage_device_t *device;
    const sv_drop_plan_t *plan;
    char *user, *host;
    size_t bytes;
    bool down;
} cargo_t;

static void copy_piece(const cargo_t *cargo, size_t at, size_t bytes, char *piece, void *stream)
{
    if (cargo->plan && cargo->down)
        check_copy(selvage_pack_gather_part(cargo->plan->pack, cargo->user, at, bytes, piece, stream));
    else if (cargo->plan)
        check_copy(selvage_pack_scatter_part(cargo->plan->pack, piece, at, bytes, cargo->user, stream));
    else if (cargo->down)
        check_copy(
            selvage_device_copy(cargo->device, piece, cargo->user + at, bytes, SELVAGE_COPY_DEVICE_TO_HOST, stream));
    else
        check_copy(
            selvage_device_copy(cargo->device, cargo->user + at, piece, bytes, SELVAGE_COPY_HOST_TO_DEVICE, stream));
}

/* False: the memory is pinned, and the device reaches it. */
static bool copy_through_pieces(const sv_drop_flow_t *flow, const cargo_t *cargo)
{
    const int64_t begin_ns = sv_drop_trace_now();
    if (!sv_drop_is_plain(cargo->host))
        return false;
    if (flow->theirs)
        check_copy(selvage_stream_synchronize(cargo->device, NULL));
    /* Each of the two pieces has a stream of its own, so that one is on its way while the host copies the other. */
    sv_drop_pieces_t *pieces = sv_drop_pieces_take();
    void *stream[2] = {sv_drop_stream_take(cargo->device), sv_drop_stream_take(cargo->device)};
    size_t begun[2] = {0, 0}, under_way[2] = {0, 0}; /* where each piece begins, and its bytes */
    size_t at = 0;
    for (int i = 0; at < cargo->bytes || under_way[0] + under_way[1] > 0; i = !i) {
        char *piece = pieces->memory[i];
        if (under_way[i] > 0) {
            check_copy(selvage_stream_synchronize(cargo->device, stream[i]));
            if (cargo->down)
                memcpy(cargo->host + begun[i], piece, under_way[i]);
        }
        const size_t left = cargo->bytes - at, bytes = left < pieces->bytes ? left : pieces->bytes;
        begun[i] = at;
        under_way[i] = bytes;
        if (bytes > 0 && !cargo->down)
            memcpy(piece, cargo->host + at, bytes);
        if (bytes > 0)
            copy_piece(cargo, at, bytes, piece, stream[i]);
        at += bytes;
    }
    for (int i = 0; i < 2; i++)
        sv_drop_stream_give(cargo->device, stream[i]);
    sv_drop_pieces_give(pieces);
    sv_drop_trace_span("copy", begin_ns, (int64_t)cargo->bytes);
    return true;
}

/* --- as a whole --------------------------------------------------------------------------------------------------- */

void sv_drop_copy(sv_drop_flow_t *flow, void *dst, const void *src, size_t bytes, selvage_copy_t direction)
{
    const bool down = direction != SELVAGE_COPY_HOST_TO_DEVICE;
    char *from = (char *)(uintptr_t)src;
    if (bytes == 0)
        return;
    selvage_device_t *dev = sv_drop_device_of(down ? src : dst);
    sv_drop_count_copy(down);
    if (copy_through_pieces(flow, &(cargo_t){dev, NULL, down ? from : dst, down ? dst : from, bytes, down}))
        return;
    check_copy(selvage_device_copy(dev, dst, src, bytes, direction, sv_drop_flow_stream(flow, dev, bytes)));
}

void sv_drop_gather(sv_drop_flow_t *flow, const sv_drop_plan_t *plan, const void *buf, void *packed)
{
    const size_t bytes = selvage_pack_bytes(plan->pack);
    sv_drop_count_copy(true);
    if (!copy_through_pieces(flow, &(cargo_t){plan->device, plan, (char *)(uintptr_t)buf, packed, bytes, true}))
        check_copy(selvage_pack_gather(plan->pack, buf, packed, sv_drop_flow_stream(flow, plan->device, bytes)));
}

void sv_drop_scatter(sv_drop_flow_t *flow, const sv_drop_plan_t *plan, const void *packed, size_t bytes, void *buf)
{
    sv_drop_count_copy(false);
    if (!copy_through_pieces(flow, &(cargo_t){plan->device, plan, buf, (char *)(uintptr_t)packed, bytes, false}))
        check_copy(
            selvage_pack_scatter(plan->pack, packed, bytes, buf, sv_drop_flow_stream(flow, plan->device, bytes)));
}
