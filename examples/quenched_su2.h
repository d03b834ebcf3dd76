/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SU(2) in rows i and j of SU(3), and its heat bath: A. D. Kennedy and B. J. Pendleton, Phys. Lett. B 156 (1985) 393.
 * Order matters in every sum: the same bits on every device.
 */
#ifndef QUENCHED_SU2_H
#define QUENCHED_SU2_H

#include "quenched_random.h"

/* An element of SU(2), or of what its multiples span: v[0] + i (v[1], v[2], v[3]) . sigma. */
typedef struct su2 {
    double v[4];
} su2_t;

/* More tries than this are hardly ever needed; the old element then stays, which leaves the distribution as it is. */
enum { SU2_TRIES_MAX = 256 };

SU3_CALL su2_t su2_make(double v0, double v1, double v2, double v3)
{
    su2_t a;
    a.v[0] = v0;
    a.v[1] = v1;
    a.v[2] = v2;
    a.v[3] = v3;
    return a;
}

/* The part of rows and columns i and j of w that an SU(2) element feels. */
SU3_CALL su2_t su2_project(const su3_matrix_t *w, int i, int j)
{
    return su2_make(0.5 * (w->e[i][i].re + w->e[j][j].re), 0.5 * (w->e[i][j].im + w->e[j][i].im),
                    0.5 * (w->e[i][j].re - w->e[j][i].re), 0.5 * (w->e[i][i].im - w->e[j][j].im));
}

/* a b^+ for unit b */
SU3_CALL su2_t su2_divide(const su2_t *a, const su2_t *b)
{
    const double *p = a->v, *q = b->v;
    return su2_make(
        p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3], p[1] * q[0] - p[0] * q[1] + p[2] * q[3] - p[3] * q[2],
        p[2] * q[0] - p[0] * q[2] + p[3] * q[1] - p[1] * q[3], p[3] * q[0] - p[0] * q[3] + p[1] * q[2] - p[2] * q[1]);
}

/* Rows i and j of m become what the element makes of them. */
SU3_CALL void su2_rotate(su3_matrix_t *m, const su2_t *a, int i, int j)
{
    const su3_complex_t ii = su3_c(a->v[0], a->v[3]), ij = su3_c(a->v[2], a->v[1]);
    const su3_complex_t ji = su3_c(-a->v[2], a->v[1]), jj = su3_c(a->v[0], -a->v[3]);
    for (int k = 0; k < SU3_COLOURS; k++) {
        su3_complex_t upper = m->e[i][k], lower = m->e[j][k];
        m->e[i][k] = su3_c_mul_add(su3_c_mul(ii, upper), ij, lower);
        m->e[j][k] = su3_c_mul_add(su3_c_mul(ji, upper), jj, lower);
    }
}

/* An element x with the weight exp(alpha x0) on the group; 0 if none was found. */
SU3_CALL int su2_heat_bath(double alpha, quenched_random_t *random, su2_t *x)
{
    for (int tries = 0; tries < SU2_TRIES_MAX; tries++) {
        double u[2], w[2], c, s;
        quenched_draw(random, u);
        quenched_draw(random, w);
        quenched_circle(u[1], &c, &s);
        double square = -(quenched_log(u[0]) + c * c * quenched_log(w[0])) / alpha; /* 1 - x0, if it is taken */
        if (!(w[1] * w[1] <= 1 - 0.5 * square))
            continue;
        quenched_draw(random, u);
        quenched_circle(u[1], &c, &s);
        double x0 = 1 - square, r = __builtin_sqrt(square * (2 - square)), cosine = 2 * u[0] - 1;
        double sine = r * __builtin_sqrt(1 - cosine * cosine);
        *x = su2_make(x0, sine * c, sine * s, r * cosine);
        return 1;
    }
    return 0;
}

#endif
