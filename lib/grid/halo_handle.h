/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The halo: an exchange, and the fields that it was made for. All communication is the exchange's; pipe_exchange.h says
 * who may call what when. Base i + 1 of its layouts is where field i lies.
 */
#ifndef SV_HALO_HANDLE_H
#define SV_HALO_HANDLE_H

#include "grid/halo_plan.h"
#include "pipeline/pipe_exchange.h"

enum { SV_HALO_SETS = 4 };

/* Pointers of the caller that were found good, and where the device reaches what they point to. There are nfields
   each. */
typedef struct sv_halo_set {
    void **data, **base;
    uint64_t frees;              /* sv_device_frees() when they were looked at */
} sv_halo_set_t;

struct selvage_halo {
    selvage_grid_t *grid;
    selvage_exchange_t *exchange;
    int nfields;
    sv_halo_field_t *fields;     /* owned */
    int nsets, next_set;         /* remembered; which one the next new one replaces */
    sv_halo_set_t set[SV_HALO_SETS];
    void **fresh;                /* nfields: a set that is not found good yet */
    void **first_data;           /* nfields: what the fields came with */
    void **pointers;             /* owned: memory of the sets and of fresh */
    selvage_halo_info_t info;
};

/*
 * Collective. before is what the caller found wrong with the arguments on this rank. If it is an error, only the other
 * ranks are told. Partner: sv_halo_destroy().
 */
selvage_status_t sv_halo_create(selvage_grid_t *grid, const selvage_halo_params_t *params,
                                const selvage_field_t *fields, int nfields, selvage_status_t before,
                                selvage_halo_t **halo_out);
void sv_halo_destroy(selvage_halo_t *halo);

/*
 * Whether all ranks gave the same grid, directions and fields. ERR_MISMATCH names the first thing that differs. before
 * is an error of this rank, which becomes everybody's. Fields whose memory is ordered differently on two ranks get the
 * order that is the same everywhere.
 */
selvage_status_t sv_halo_agree(selvage_halo_t *halo, const selvage_halo_params_t *params,
                               const sv_halo_directions_t *directions, const selvage_field_t *given,
                               selvage_status_t before);

/* Between epochs: other arrays of the same shape. */
selvage_status_t sv_halo_rebind(selvage_halo_t *halo, void *const *data);

#endif
