/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Wilson-Dirac operator M = 1 - kappa D on a 4-D grid of ranks, in even/odd parts:
 *
 *     D psi(x) = sum over mu of (1 - gamma_mu) U_mu(x) psi(x + mu) + (1 + gamma_mu) U_mu(x - mu)^+ psi(x - mu)
 *
 * D takes even sites to odd ones and odd ones to even ones. Everything is on the device; calls are stream-ordered, but
 * for sums, which the host waits for.
 */
#ifndef WILSON_DIRAC_H
#define WILSON_DIRAC_H

#include "example_main.h"
#include "reduce.h"
#include "wilson_loops.h"

/* How half spinors travel: see wilson_ways.h. */
typedef enum wilson_way { WILSON_HOST, WILSON_ENQUEUED, WILSON_RUN, WILSON_KERNEL, WILSON_WAYS } wilson_way_t;

/* What a kernel that does a whole hop needs; made by wilson_ways.c. */
typedef struct wilson_whole {
    selvage_exchange_t *exchange; /* NULL: nothing of it is made yet */
    void *declared, *boxes;
    int possible;
    unsigned blocks;
    uint32_t parts;
} wilson_whole_t;

typedef struct wilson {
    const example_t *ex;
    selvage_grid_t *grid;
    selvage_grid_info_t info;
    wilson_block_t block;
    size_t places;                            /* of a spinor field of one parity */
    wilson_boxes_t faces, interior, boundary; /* own sites: those sent, those that need no halo, the others */
    su3_matrix_t *links;
    wilson_half_t *half;
    selvage_halo_t *halo[2];                  /* of half spinors on even sites, on odd ones */
    reducer_t reducer;
    wilson_way_t way;                         /* of hops */
    wilson_whole_t whole;
} wilson_t;

/* A spinor field on all sites: its even and its odd part. */
typedef struct wilson_field {
    wilson_spinor_t *part[2];
} wilson_field_t;

/* Collective. `blocks`: ranks per direction, or zeros. Links are allocated and not set (wilson_gauge.h). */
void wilson_open(const example_t *ex, const int extent[WILSON_DIMS], const int blocks[WILSON_DIMS], wilson_t *w);
void wilson_close(wilson_t *w);

/* Spinors of one parity, all zero. */
wilson_spinor_t *wilson_spinor_alloc(const wilson_t *w);
wilson_field_t wilson_field_alloc(const wilson_t *w);
void wilson_field_free(const wilson_t *w, wilson_field_t *field);

/* Half spinors travel while the interior is computed: out = base + scale * D in, on sites of `parity`; sign -1: the
   adjoint of D. base may be NULL, or out. Collective. */
void wilson_hop_across(wilson_t *w, int parity, int sign, const wilson_spinor_t *in, const wilson_spinor_t *base,
                       double scale, wilson_spinor_t *out);

/* out = x + factor * y, of one parity. */
void wilson_add(const wilson_t *w, const wilson_spinor_t *x, double factor, const wilson_spinor_t *y,
                wilson_spinor_t *out);

/* Sum of squares over the whole lattice. Collective: every rank gets the same bits. */
double wilson_norm2(wilson_t *w, const wilson_spinor_t *x);

/* The same per time slice of the whole lattice, both parities: info.global_extent[3] numbers, added to sums. */
void wilson_add_slices(wilson_t *w, const wilson_field_t *x, double *sums);

#endif
