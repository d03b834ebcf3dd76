/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spin: spinors of four spins and three colours, and the projectors 1 - gamma_mu and 1 + gamma_mu, whose images have
 * two independent spins only. That is why half a spinor is enough for a neighbour. Euclidean and chiral:
 *
 *     gamma_mu = (   0     B_mu )     B_x, B_y, B_z = -i times the Pauli matrices, B_t = 1;
 *                ( B_mu^+   0   )     gamma_5 = diag(1, 1, -1, -1)
 *
 * With u the upper and l the lower two spins, (1 - s gamma_mu)(u, l) = (h, -s B_mu^+ h) where h = u - s B_mu l.
 */
#ifndef WILSON_SPIN_H
#define WILSON_SPIN_H

#include "su3.h"

typedef struct wilson_half {
    su3_vector_t s[2];
} wilson_half_t;

typedef struct wilson_spinor {
    su3_vector_t s[4];
} wilson_spinor_t;

/* B_mu v */
SU3_CALL wilson_half_t wilson_block_times(int mu, wilson_half_t v)
{
    wilson_half_t r = v;
    switch (mu) {
    case 0:
        r.s[0] = su3_v_scale(-1, su3_v_times_i(v.s[1]));
        r.s[1] = su3_v_scale(-1, su3_v_times_i(v.s[0]));
        break;
    case 1:
        r.s[0] = su3_v_scale(-1, v.s[1]);
        r.s[1] = v.s[0];
        break;
    case 2:
        r.s[0] = su3_v_scale(-1, su3_v_times_i(v.s[0]));
        r.s[1] = su3_v_times_i(v.s[1]);
        break;
    default:
        break;
    }
    return r;
}

/* The upper two spins of (1 - sign gamma_mu) psi; the lower two follow from them. */
SU3_CALL wilson_half_t wilson_project(const wilson_spinor_t *psi, int mu, int sign)
{
    wilson_half_t lower, h;
    lower.s[0] = psi->s[2];
    lower.s[1] = psi->s[3];
    lower = wilson_block_times(mu, lower);
    for (int i = 0; i < 2; i++)
        h.s[i] = su3_v_add(psi->s[i], su3_v_scale(-sign, lower.s[i]));
    return h;
}

/* sum += all four spins of what was projected to h with this mu and sign. */
SU3_CALL void wilson_add_expanded(wilson_spinor_t *sum, wilson_half_t h, int mu, int sign)
{
    wilson_half_t lower = wilson_block_times(mu, h);
    double factor = mu == 3 ? -sign : sign; /* B_mu^+ is -B_mu in space, B_mu in time */
    for (int i = 0; i < 2; i++) {
        sum->s[i] = su3_v_add(sum->s[i], h.s[i]);
        sum->s[2 + i] = su3_v_add(sum->s[2 + i], su3_v_scale(factor, lower.s[i]));
    }
}

/* u h and u^+ h: colour knows nothing of spin. */
SU3_CALL wilson_half_t wilson_transport(const su3_matrix_t *u, wilson_half_t h)
{
    for (int i = 0; i < 2; i++)
        h.s[i] = su3_times_vector(u, h.s[i]);
    return h;
}

SU3_CALL wilson_half_t wilson_transport_back(const su3_matrix_t *u, wilson_half_t h)
{
    for (int i = 0; i < 2; i++)
        h.s[i] = su3_adjoint_times_vector(u, h.s[i]);
    return h;
}

#endif
