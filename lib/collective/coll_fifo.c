/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work FIFO is a ring in pinned memory. Positions in it are counted in bytes, modulo 2^32 and never back. The host
 * writes after fifo_produced; the last block of a launch stores how far its launch has read. Pieces that are put in
 * before their launch take space like everything else, but nobody reads them before the launch. So one launch takes
 * half of the ring at most, and while it is filled the one before it runs. The arena owns the ring; the application's
 * one thread writes it, kernels read it.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "collective/coll_parts.h"

unsigned sv_coll_fifo_pieces(const sv_coll_arena_t *arena)
{
    unsigned pieces = arena->fifo_bytes / 2 / SV_COLL_FIFO_STRIDE;
    return pieces > 0 ? pieces : 1;
}

/* Whether everything before this position fits beside what is not read yet. Positions wrap, their difference not. */
static bool has_room(const sv_coll_arena_t *arena, uint32_t end)
{
    /* Partner: the release by the last block of a launch. */
    uint32_t consumed = __atomic_load_n(&arena->pinned->consumed, __ATOMIC_ACQUIRE);
    return end - consumed <= arena->fifo_bytes;
}

bool sv_coll_fifo_has_room(const sv_coll_arena_t *arena, unsigned pieces)
{
    const unsigned most = sv_coll_fifo_pieces(arena);
    return has_room(arena, arena->fifo_produced + (pieces < most ? pieces : most) * SV_COLL_FIFO_STRIDE);
}

static selvage_status_t wait_for_room(selvage_coll_t *coll, uint32_t end)
{
    sv_coll_arena_t *arena = coll->arena;
    double timeout_s = coll->comm->timeout_s;
    uint64_t begin_ns = sv_clock_ns();
    sv_backoff_t backoff = {.oversubscribed = coll->comm->topology.oversubscribed};
    arena->fifo_waits++;
    while (!has_room(arena, end)) {
        sv_coll_poll(arena);
        SV_TRY(sv_coll_check(coll));
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            return sv_error(SELVAGE_ERR_TIMEOUT, "the work FIFO (%u bytes) was full for %g s: position %u, read up to "
                            "%u", arena->fifo_bytes, timeout_s, end,
                            __atomic_load_n(&arena->pinned->consumed, __ATOMIC_RELAXED));
        sv_backoff(&backoff);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_fifo_put(selvage_coll_t *coll, unsigned index, const sv_coll_work_t *work)
{
    sv_coll_arena_t *arena = coll->arena;
    uint32_t position = arena->fifo_produced + index * SV_COLL_FIFO_STRIDE;
    if (!has_room(arena, position + SV_COLL_FIFO_STRIDE))
        SV_TRY(wait_for_room(coll, position + SV_COLL_FIFO_STRIDE));
    memcpy(arena->fifo + (position & (arena->fifo_bytes - 1)), work, sizeof *work);
    return SELVAGE_SUCCESS;
}
