/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On plane waves exp(i p x) the Wilson-Dirac operator is a matrix in spin,
 *
 *     M(p) = a + i sum over mu of b_mu gamma_mu,   a = 1 - 2 kappa sum of cos p_mu,   b_mu = 2 kappa sin p_mu,
 *
 * whose inverse is (a - i b gamma) / (a^2 + b^2). Summed over p_t this is the quark's propagator S(p, t), and because
 * sums over space become sums over momenta (Parseval), and products of different gamma matrices have no trace,
 *
 *     sum over x of Tr S(x, t)^+ S(x, t) = 3 colours * 4 spins / space * sum over p of |a(p, t)|^2 + |b(p, t)|^2.
 *
 * Momenta are 2 pi n / extent, in time 2 pi (n + 1/2) / extent for the sign that fermions take around the lattice.
 */
#include "wilson_free.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

enum { PARTS = 5 }; /* a and the four b */

/* The five parts of S(p, t) at these three momenta, for each t. */
static void propagate(const double p[3], int nt, double kappa, double complex *at)
{
    for (int n = 0; n < nt; n++) {
        double energy = 2 * acos(-1) * (n + 0.5) / nt;
        const double q[4] = {p[0], p[1], p[2], energy};
        double part[PARTS] = {1}, norm = 0;
        for (int mu = 0; mu < 4; mu++) {
            part[0] -= 2 * kappa * cos(q[mu]);
            part[1 + mu] = 2 * kappa * sin(q[mu]);
        }
        for (int k = 0; k < PARTS; k++)
            norm += part[k] * part[k];
        for (int t = 0; t < nt; t++)
            for (int k = 0; k < PARTS; k++)
                at[t * PARTS + k] += cexp(I * energy * t) * part[k] / norm / nt;
    }
}

int wilson_free_pion(const int extent[4], double kappa, double *correlator)
{
    int nt = extent[3], volume = extent[0] * extent[1] * extent[2];
    double complex *at = malloc((size_t)nt * PARTS * sizeof *at);
    if (at == NULL)
        return -1;
    for (int t = 0; t < nt; t++)
        correlator[t] = 0;
    for (int site = 0; site < volume; site++) {
        const int n[3] = {site % extent[0], site / extent[0] % extent[1], site / extent[0] / extent[1]};
        double p[3];
        for (int d = 0; d < 3; d++)
            p[d] = 2 * acos(-1) * n[d] / extent[d];
        for (int i = 0; i < nt * PARTS; i++)
            at[i] = 0;
        propagate(p, nt, kappa, at);
        for (int i = 0; i < nt * PARTS; i++)
            correlator[i / PARTS] += (creal(at[i]) * creal(at[i]) + cimag(at[i]) * cimag(at[i])) / volume;
    }
    free(at);
    return 0;
}
