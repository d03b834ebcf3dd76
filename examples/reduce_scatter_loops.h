/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of reduce_scatter: conjugate gradients for -laplace(u) = f on the unit square, u = 0 at its sides. Fields
 * have their own points in a frame one deep; x varies fastest, rows are `pitch` apart. The frames of r and q stay zero,
 * so that sums of products may run over whole fields.
 */
#ifndef REDUCE_SCATTER_LOOPS_H
#define REDUCE_SCATTER_LOOPS_H

#include "device_loop.h"

/* The solution is a product of one function of x and one of y; these and their second derivatives lie in tables. */
typedef struct cg_points {
    size_t n; /* own points */
    uint32_t extent[2];
    ptrdiff_t pitch;
    double h;
    const double *value[2], *second[2];
    double *u, *r, *p, *q;
} cg_points_t;

typedef struct cg_update {
    size_t n; /* whole fields */
    double *u, *r, *p, *q;
    const double *over, *under; /* the factor is one sum divided by another */
} cg_update_t;

DECLARE_LOOP(cg_begin);    /* cg_points_t: r and p become h^2 f, which is the residual of u = 0 */
DECLARE_LOOP(cg_apply);    /* cg_points_t: q becomes the matrix times p */
DECLARE_LOOP(cg_residual); /* cg_points_t: q, the matrix times u, becomes the residual of u */
DECLARE_LOOP(cg_compare);  /* cg_points_t: q, an array of n, becomes u minus the solution */
DECLARE_LOOP(cg_step);     /* cg_update_t: u and r go one step along p */
DECLARE_LOOP(cg_turn);     /* cg_update_t: p becomes the next direction */

#endif
