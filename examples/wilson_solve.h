/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves M x = b for the Wilson-Dirac operator, on even sites first; odd ones follow. */
#ifndef WILSON_SOLVE_H
#define WILSON_SOLVE_H

#include "wilson_dirac.h"

typedef struct wilson_solver {
    wilson_t *w;
    double kappa, tolerance; /* ends at |b - M x| <= tolerance |b| */
    int max_iterations;
    wilson_spinor_t *residual, *search, *gradient, *image, *odd; /* even sites; odd: the other ones */
} wilson_solver_t;

void wilson_solver_open(wilson_t *w, double kappa, double tolerance, int max_iterations, wilson_solver_t *solver);
void wilson_solver_close(wilson_solver_t *solver);

/* Collective. x is overwritten. Returns the iterations taken, or -1 if max_iterations were not enough. */
int wilson_solve(wilson_solver_t *solver, const wilson_field_t *b, wilson_field_t *x);

/* |b - M x| / |b| of the full system, computed from x and nothing else. Collective. */
double wilson_true_residual(wilson_solver_t *solver, const wilson_field_t *b, const wilson_field_t *x);

#endif
