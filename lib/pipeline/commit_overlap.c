/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit: no byte of a receive belongs to another packet of the exchange. Which of two packets would be stored last, or
 * what a send would read, would depend on the route and the moment. Of packets whose bytes lie one after the other;
 * where those of types, lists and halos lie is their makers' business (pipe_layout_overlap.c, grid/halo_overlap.c).
 * Local; O(n log n) once per commit, and when packets are bound to memory that they were not bound to lately.
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_commit.h"

typedef struct extent {
    uintptr_t low, high;
    const sv_packet_t *packet;
    bool receives;
} extent_t;

static int compare_extents(const void *a, const void *b)
{
    uintptr_t low_a = ((const extent_t *)a)->low, low_b = ((const extent_t *)b)->low;
    return low_a < low_b ? -1 : low_a > low_b;
}

static selvage_status_t refuse_overlap(const extent_t *a, const extent_t *b)
{
    const extent_t *recv = a->receives ? a : b, *other = a->receives ? b : a;
    const uintptr_t low = a->low > b->low ? a->low : b->low, high = a->high < b->high ? a->high : b->high;
    return sv_error(SELVAGE_ERR_ARGUMENT, "receive %u (tag %d, %zu bytes at %p, from rank %d) and %s %u (tag %d, %zu "
                    "bytes at %p, %s rank %d) overlap in %zu bytes", recv->packet->own_index, recv->packet->tag,
                    recv->packet->bytes, (const void *)recv->low, recv->packet->peer_rank,
                    other->receives ? "receive" : "send", other->packet->own_index, other->packet->tag,
                    other->packet->bytes, (const void *)other->low, other->receives ? "from" : "to",
                    other->packet->peer_rank, (size_t)(high - low));
}

/* In order of their first bytes: one that begins before the furthest end so far overlaps the packet that ends there. */
static selvage_status_t find_overlap(const extent_t *extents, size_t count)
{
    const extent_t *recv = NULL, *any = NULL; /* those that end furthest */
    for (size_t i = 0; i < count; i++) {
        const extent_t *e = &extents[i];
        const extent_t *before = e->receives ? any : recv;
        if (before && e->low < before->high)
            return refuse_overlap(before, e);
        any = !any || e->high > any->high ? e : any;
        recv = e->receives && (!recv || e->high > recv->high) ? e : recv;
    }
    return SELVAGE_SUCCESS;
}

/* Where a packet begins whose bytes lie one after the other; NULL for others, which nobody looks at here. */
static const uint8_t *find_first_byte(const sv_packet_t *p, const void *buf, void *const *bases)
{
    uint32_t base;
    int64_t offset;
    if (!p->layout)
        return buf;
    return p->base && sv_layout_is_plain(p->layout, &base, &offset)
               ? (const uint8_t *)((uintptr_t)bases[p->base - 1] + (uintptr_t)offset)
               : NULL;
}

selvage_status_t sv_commit_check_overlap(const selvage_exchange_t *x, void *const *bases)
{
    const size_t room = (size_t)x->nsends + x->nrecvs;
    extent_t *extents;
    if (x->nrecvs == 0 || room < 2)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(room, sizeof *extents, &extents));
    size_t count = 0;
    for (uint32_t i = 0; i < x->nsends + x->nrecvs; i++) {
        const bool receives = i >= x->nsends;
        const sv_packet_t *p = receives ? &x->recvs[i - x->nsends].p : &x->sends[i].p;
        const uintptr_t low =
            (uintptr_t)find_first_byte(p, receives ? x->recvs[i - x->nsends].buf : x->sends[i].buf, bases);
        if (p->bytes > 0 && low)
            extents[count++] = (extent_t){low, low + p->bytes, p, receives};
    }
    qsort(extents, count, sizeof *extents, compare_extents);
    selvage_status_t status = find_overlap(extents, count);
    sv_free(extents);
    return status;
}
