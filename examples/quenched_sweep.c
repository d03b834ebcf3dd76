/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sweep and its halos: all there is of communication in the heat bath. The links of one direction on sites of one
 * parity are updated together, since none of them is in another one's staple; then they, and only they, travel. Sites
 * at the boundary go first, and the interior is updated while their links are under way.
 */
#include "quenched_lattice.h"

enum { WAYS = 3 * QUENCHED_DIMS - 2 };

/* Where links U_mu travel. A staple needs U_mu at x + nu and x - nu (as the far side of a plaquette), at x - mu, and at
   x + nu - mu (as one of its other sides): no more. Data for the upper halo travel down. */
static int ways_of(int mu, int ways[WAYS][QUENCHED_DIMS])
{
    int n = 0;
    ways[n++][mu] = 1;
    for (int nu = 0; nu < QUENCHED_DIMS; nu++) {
        if (nu == mu)
            continue;
        ways[n++][nu] = 1;
        ways[n++][nu] = -1;
        ways[n][nu] = -1;
        ways[n++][mu] = 1;
    }
    return n;
}

static selvage_halo_t *make_halo(const quenched_lattice_t *lattice, int mu, int parity)
{
    int ways[WAYS][QUENCHED_DIMS] = {{0}};
    const quenched_field_t *f = &lattice->field;
    selvage_field_t field = {SELVAGE_FIELD_INIT, .width_lo = {1, 1, 1, 1}, .width_hi = {1, 1, 1, 1}};
    field.data = f->links + (2 * mu + parity) * QUENCHED_ELEMENTS * f->plane;
    field.element_bytes = sizeof(su3_complex_t);
    field.components = QUENCHED_ELEMENTS;
    field.component_stride_bytes = f->plane * (ptrdiff_t)sizeof(su3_complex_t);
    field.order = SELVAGE_ORDER_FIRST;
    field.parity = parity == 0 ? SELVAGE_PARITY_EVEN : SELVAGE_PARITY_ODD;
    field.packed_dim = 0;
    for (int d = 0; d < QUENCHED_DIMS; d++)
        field.array_extent[d] = lattice->array[d];
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_DIRECTIONS};
    params.ndirections = ways_of(mu, ways);
    params.directions = &ways[0][0];
    selvage_halo_t *halo;
    CHECK(selvage_halo_create(lattice->grid, &params, &field, 1, &halo));
    return halo;
}

void quenched_make_halos(quenched_lattice_t *lattice)
{
    for (int mu = 0; mu < QUENCHED_DIMS; mu++)
        for (int parity = 0; parity < 2; parity++)
            lattice->halo[mu][parity] = make_halo(lattice, mu, parity);
}

/* Half a sweep in one direction: boundary, then the interior under the exchange. */
static void half_sweep(quenched_lattice_t *lattice, quenched_update_t *update)
{
    const quenched_sites_t *sites = &lattice->sites[update->parity];
    selvage_halo_t *halo = lattice->halo[update->mu][update->parity];
    update->n = sites->boundary_count;
    update->sites = sites->boundary;
    RUN(lattice, quenched_update, *update);
    CHECK(selvage_halo_start(halo, lattice->ex->stream)); /* returns at once; reads after the boundary */
    update->n = sites->interior_count;
    update->sites = sites->interior;
    RUN(lattice, quenched_update, *update);
    CHECK(selvage_halo_wait(halo, lattice->ex->stream)); /* later work on the stream sees the halo */
}

void quenched_sweep(quenched_lattice_t *lattice, double beta, bool relax, uint64_t key, uint32_t sweep)
{
    quenched_update_t update = {.field = lattice->field, .relax = relax, .sweep = sweep, .beta = beta, .key = key};
    for (update.mu = 0; update.mu < QUENCHED_DIMS; update.mu++)
        for (update.parity = 0; update.parity < 2; update.parity++)
            half_sweep(lattice, &update);
}

void quenched_begin(quenched_lattice_t *lattice, bool hot, uint64_t key)
{
    for (int parity = 0; parity < 2; parity++) {
        const quenched_sites_t *sites = &lattice->sites[parity];
        quenched_start_t start = {.n = sites->boundary_count + sites->interior_count,
                                  .field = lattice->field,
                                  .sites = sites->boundary,
                                  .parity = parity,
                                  .hot = hot,
                                  .key = key};
        RUN(lattice, quenched_start, start);
    }
    for (int i = 0; i < 2 * QUENCHED_DIMS; i++)
        CHECK(selvage_halo_start(lattice->halo[i / 2][i % 2], lattice->ex->stream)); /* eight exchanges at once */
    for (int i = 0; i < 2 * QUENCHED_DIMS; i++)
        CHECK(selvage_halo_wait(lattice->halo[i / 2][i % 2], lattice->ex->stream));
}
