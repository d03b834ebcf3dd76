/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges whose packets may be bound to other memory between two epochs. Each packet with bytes has a layout of its
 * own, and its buffer is the base of that layout (pipe_layout.h). So nothing that commit made has an address of the
 * application's in it but the table of bases: no peer writes into its memory, and a new table is all that another set
 * of buffers needs.
 *
 * The sets that were seen last are remembered with what was found good about them, because codes swap a few.
 *
 * Local. The exchange owns all of it. Application thread; while the exchange is idle.
 */
#ifndef SV_PIPE_REBIND_H
#define SV_PIPE_REBIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/exchange.h>

enum { SV_REBIND_SETS = 4 };

/* A buffer as it was declared: the caller's pointer, the device's, and which of its bytes the packet has. */
typedef struct sv_bound {
    const void *data;
    void *base;
    int64_t low, high;           /* from either pointer */
} sv_bound_t;

/* Pointers that were found good, and where the device reaches them: count each. */
typedef struct sv_rebind_set {
    const void **data;
    void **base;
    uint64_t frees;              /* sv_device_frees() when they were looked at */
} sv_rebind_set_t;

typedef struct sv_rebind_state {
    bool allowed;
    uint32_t count, room;        /* packets that may be bound: base i + 1 of the layouts is that of the i-th */
    sv_bound_t *bound;           /* as they were declared; owned */
    uint32_t nsets, next_set;
    sv_rebind_set_t set[SV_REBIND_SETS];
    const sv_rebind_set_t *now;  /* the one that they are bound to; NULL before commit */
    sv_rebind_set_t fresh;       /* one that is not found good yet */
    void **pointers;             /* memory of all sets; owned */
} sv_rebind_state_t;

struct sv_layout;

/* Before commit: a packet whose bytes lie one after the other in what is declared. */
selvage_status_t sv_rebind_add_send(selvage_exchange_t *x, const sv_bound_t *bound, int peer, int tag,
                                    uint32_t *index_out);
selvage_status_t sv_rebind_add_recv(selvage_exchange_t *x, const sv_bound_t *bound, int peer, int tag,
                                    uint32_t *index_out);
/* One that has a layout already, whose base is the number that the first call gave. The layout is the exchange's from
   the second call on, also after an error. */
selvage_status_t sv_rebind_declare(selvage_exchange_t *x, const sv_bound_t *bound, uint32_t *base_out);
selvage_status_t sv_rebind_add_send_layout(selvage_exchange_t *x, struct sv_layout *layout, uint32_t base, int peer,
                                           int tag, uint32_t *index_out);
selvage_status_t sv_rebind_add_recv_layout(selvage_exchange_t *x, struct sv_layout *layout, uint32_t base, int peer,
                                           int tag, uint32_t *index_out);

/* At commit, as often as it is tried: what was declared is the first set, and the exchange's bases are its. */
selvage_status_t sv_rebind_prepare(selvage_exchange_t *x);

/* Between epochs: sends and receives in their order, NULL for those that stay as they are. */
selvage_status_t sv_rebind_bind(selvage_exchange_t *x, const void *const *sends, void *const *recvs);

void sv_rebind_forget(selvage_exchange_t *x);

#endif
