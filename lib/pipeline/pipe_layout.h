/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: where the bytes of a packet lie in memory, if not one after the other. A layout is a list of pieces; the
 * packet's stream is the pieces one after the other, in the order in which they were added. Kernels gather and scatter
 * it (kernel_layout.h); the packet has the stream's bytes.
 *
 * Pieces are addressed from a base, which is a number: the exchange has a table of base addresses that can be changed
 * between epochs (sv_exchange_rebind()). Base 0 is the address 0, so that offsets from it are addresses.
 *
 *   stream:   | piece 0 ........ |pad| piece 1 .... | piece 2 ...... |
 *               base 1, a box          base 1, a list   base 2, a box
 *
 * A layout that is ALIGNED begins every piece at a multiple of 16 bytes of the stream and fills up with zero bytes: for
 * streams that only Selvage sees, since such pieces move in whole units. One that is EXACT has no padding: its stream
 * is what MPI_Pack would make of it.
 *
 * Local; owned by whoever made it until an exchange takes it (sv_exchange_add_*_layout()).
 */
#ifndef SV_PIPE_LAYOUT_H
#define SV_PIPE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/pack_plan.h"
#include <selvage/exchange.h>

typedef struct sv_layout sv_layout_t;

typedef enum sv_layout_kind { SV_LAYOUT_ALIGNED, SV_LAYOUT_EXACT } sv_layout_kind_t;

/* What an accumulating receive adds: see kernel_layout.h. NONE: it stores. */
typedef enum sv_layout_number {
    SV_LAYOUT_STORE = 0,
    SV_LAYOUT_ADD_FLOAT32 = SV_ADD_FLOAT32,
    SV_LAYOUT_ADD_FLOAT64 = SV_ADD_FLOAT64,
    SV_LAYOUT_ADD_INT32 = SV_ADD_INT32,
    SV_LAYOUT_ADD_INT64 = SV_ADD_INT64
} sv_layout_number_t;

/* A run of bytes without gaps. */
typedef struct sv_layout_run {
    int64_t offset; /* from the base */
    uint64_t bytes;
} sv_layout_run_t;

selvage_status_t sv_layout_create(sv_layout_kind_t kind, sv_layout_t **layout_out);
void sv_layout_destroy(sv_layout_t *layout); /* accepts NULL */

/* A box: shape->base is the offset of its first element from the base, as a pointer; see pack_plan.h. */
selvage_status_t sv_layout_add_box(sv_layout_t *layout, uint32_t base, const sv_pack_shape_t *shape,
                                   sv_layout_number_t number);

/* count elements of element_bytes each at offsets (in bytes, from the base; copied). Receives: no element twice. */
selvage_status_t sv_layout_add_list(sv_layout_t *layout, uint32_t base, uint64_t element_bytes, const int64_t *offsets,
                                    uint64_t count, sv_layout_number_t number);

/* Runs of any length (copied). */
selvage_status_t sv_layout_add_runs(sv_layout_t *layout, uint32_t base, const sv_layout_run_t *runs, uint64_t count);

/* Whether it is ALIGNED and consists of boxes and lists that are stored: what kernels of applications know. */
bool sv_layout_is_simple(const sv_layout_t *layout);

/* Bytes of the stream, paddings included; and of those of pieces that lie without gaps in memory. */
uint64_t sv_layout_bytes(const sv_layout_t *layout);
uint64_t sv_layout_bytes_contiguous(const sv_layout_t *layout);
/* The highest base that a piece names. */
uint32_t sv_layout_base_max(const sv_layout_t *layout);

/*
 * Packets with layouts, before commit; the exchange owns the layout from here on, also after an error. A send's layout
 * stores nothing, so its numbers must be STORE. Receives that add are added after everything of the epoch was verified,
 * in the order of the receives, on the device; cells that lie in several pieces are added in the order of those.
 */
selvage_status_t sv_exchange_add_send_layout(selvage_exchange_t *x, sv_layout_t *layout, int peer, int tag,
                                             uint32_t *index_out);
selvage_status_t sv_exchange_add_recv_layout(selvage_exchange_t *x, sv_layout_t *layout, int peer, int tag,
                                             uint32_t *index_out);

/*
 * Base addresses 1 to count (bases[0] is base 1; copied). Before commit, or between wait and start. After commit the
 * count must be the same. Addresses given after commit have at least the alignment (up to 16 bytes) that those at
 * commit had, which is checked: units are chosen by it.
 */
selvage_status_t sv_exchange_rebind(selvage_exchange_t *x, void *const *bases, uint32_t count);
/* Whether that may be, after commit: ERR_STATE while an epoch is under way; the first error. */
selvage_status_t sv_exchange_check_idle(selvage_exchange_t *x);

#endif
