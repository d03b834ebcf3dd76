/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file lays out the bytes of an arena. Every (channel, rank) has a connection, the own rank too: its place is not
 * used, but lets everybody find a connection by two products. Lines (LL and LL128) are for short messages. They take at
 * most half of a connection, unless they are at their least already; slots get the rest. The functions are pure.
 */
#include "base/base_status.h"
#include "collective/coll_handle.h"

enum { ALIGN = 128, LL_BEST = 8 << 10, LONG_BEST = 144 * 128, HALVINGS = 3, SLOT_MIN = 4 << 10, SLOT_MAX = 512 << 10 };

/* Lays out one connection of at most this many bytes; false if its slots would be too small. */
static bool fit_connection(uint64_t bytes, sv_coll_layout_t *layout)
{
    const uint32_t entry_bytes = 2 * SV_COLL_ENTRIES * SV_COLL_LINE;
    unsigned halvings = 0;
    while (halvings < HALVINGS &&
           SV_COLL_STEPS * (uint64_t)((LL_BEST >> halvings) + (LONG_BEST >> halvings)) > bytes / 2)
        halvings++;
    layout->entry_at = SV_COLL_FIN_AT + ALIGN;
    layout->ll_at = (layout->entry_at + entry_bytes + ALIGN - 1) / ALIGN * ALIGN;
    layout->ll_bytes = LL_BEST >> halvings;
    layout->long_at = layout->ll_at + SV_COLL_STEPS * layout->ll_bytes;
    layout->long_bytes = LONG_BEST >> halvings;
    layout->slot_at = layout->long_at + SV_COLL_STEPS * layout->long_bytes;
    uint64_t left = bytes > layout->slot_at ? (bytes - layout->slot_at) / SV_COLL_SLOTS / ALIGN * ALIGN : 0;
    if (left < SLOT_MIN + SV_COLL_SLOT_RECORD)
        return false;
    left -= SV_COLL_SLOT_RECORD;
    layout->slot_bytes = left < SLOT_MAX ? (uint32_t)left : SLOT_MAX;
    layout->conn_bytes = layout->slot_at + (uint64_t)SV_COLL_SLOTS * (layout->slot_bytes + SV_COLL_SLOT_RECORD);
    return true;
}

selvage_status_t sv_coll_layout(uint32_t nranks, uint32_t nchannels, uint64_t bytes, sv_coll_layout_t *layout_out,
                                uint64_t *bytes_out)
{
    uint64_t left = bytes > SV_COLL_ARENA_HEAD ? bytes - SV_COLL_ARENA_HEAD : 0;
    sv_coll_layout_t layout = {.nranks = nranks, .nchannels = nchannels};
    while (layout.nchannels > 0 && !fit_connection(left / nranks / layout.nchannels, &layout))
        layout.nchannels--;
    if (layout.nchannels == 0)
        return sv_error(SELVAGE_ERR_LIMIT, "SELVAGE_COLL_ARENA_BYTES (or params.arena_bytes) is %llu, which is too "
                        "little for one channel between %u ranks", (unsigned long long)bytes, nranks);
    layout.channel_bytes = nranks * layout.conn_bytes;
    *layout_out = layout;
    *bytes_out = nranks > 1 ? SV_COLL_ARENA_HEAD + layout.nchannels * layout.channel_bytes : 0;
    return SELVAGE_SUCCESS;
}
