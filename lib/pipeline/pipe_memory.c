/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices buffers of packets that were freed after they were declared. To ask the device where an address leads takes
 * locks, so that it is asked only after the application has freed something by selvage_device_free(): else a start
 * compares two numbers. What is freed by calls of the GPU's own runtime is not noticed here. The engine's thread, or
 * the one that starts.
 */
#include "base/base_status.h"
#include "host/memory_kind.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_exchange.h"

/* Where the packet's bytes lie, or some of them; false if it has none. */
static bool find_bytes(const sv_packet_t *p, const void *buf, const void **ptr_out, size_t *bytes_out)
{
    uint32_t base;
    int64_t offset;
    *ptr_out = buf;
    *bytes_out = p->bytes;
    if (p->bytes == 0)
        return false;
    if (p->layout) {
        sv_layout_first(p->layout, &base, &offset);
        *ptr_out = (const void *)((uintptr_t)p->x->layouts.bases[base] + (uintptr_t)offset);
        *bytes_out = 1;
    }
    return true;
}

static selvage_status_t check_packet(const selvage_exchange_t *x, uint32_t number)
{
    const bool sends = number < x->nsends;
    const sv_packet_t *p = sends ? &x->sends[number].p : &x->recvs[number - x->nsends].p;
    const void *ptr;
    size_t bytes;
    if (!find_bytes(p, sends ? (const void *)x->sends[number].buf : x->recvs[number - x->nsends].buf, &ptr, &bytes))
        return SELVAGE_SUCCESS;
    const sv_memory_kind_t kind = sv_memory_kind(x->comm->dev, ptr, bytes);
    if (sv_memory_kind_is_usable(kind))
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_ARGUMENT, "%s %u (tag %d, %s rank %d): its memory at %p has gone since it was "
                    "declared: it is %s", sends ? "send" : "receive", p->own_index, p->tag, sends ? "to" : "from",
                    p->peer_rank, ptr, sv_memory_kind_text(kind));
}

selvage_status_t sv_exchange_check_memory(selvage_exchange_t *x)
{
    const uint64_t frees = sv_device_frees();
    if (x->frees_seen == frees)
        return SELVAGE_SUCCESS;
    for (uint32_t i = 0; i < x->nsends + x->nrecvs; i++)
        SV_TRY(check_packet(x, i));
    x->frees_seen = frees;
    return SELVAGE_SUCCESS;
}
