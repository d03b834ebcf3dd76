/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Even/odd preconditioning: with D taken apart into its parts D_eo (odd to even) and D_oe (even to odd),
 *
 *     (1 - kappa^2 D_eo D_oe) x_e = b_e + kappa D_eo b_o,     x_o = b_o + kappa D_oe x_e.
 *
 * The matrix S on the left is not Hermitian, so conjugate gradients solve S^+ S x_e = S^+ b, in the form of Hestenes
 * and Stiefel (1952) that keeps the residual of S itself: on even sites it is that of the full system,
 * whose odd part is zero.
 */
#include "wilson_solve.h"

#include <math.h>

void wilson_solver_open(wilson_t *w, double kappa, double tolerance, int max_iterations, wilson_solver_t *solver)
{
    *solver = (wilson_solver_t){w, kappa, tolerance, max_iterations, wilson_spinor_alloc(w), wilson_spinor_alloc(w),
                                wilson_spinor_alloc(w), wilson_spinor_alloc(w), wilson_spinor_alloc(w)};
}

void wilson_solver_close(wilson_solver_t *solver)
{
    wilson_spinor_t *const all[] = {solver->residual, solver->search, solver->gradient, solver->image, solver->odd};
    for (int i = 0; i < 5; i++)
        selvage_device_free(solver->w->ex->device, all[i]);
}

/* out = S in, or with sign -1 S^+ in */
static void apply(wilson_solver_t *s, int sign, const wilson_spinor_t *in, wilson_spinor_t *out)
{
    wilson_hop_across(s->w, 1, sign, in, NULL, 1, s->odd);
    wilson_hop_across(s->w, 0, sign, s->odd, in, -s->kappa * s->kappa, out);
}

/* Conjugate gradients from x_e = 0, where `residual` is the right-hand side. */
static int iterate(wilson_solver_t *s, double target2, wilson_spinor_t *x)
{
    wilson_t *w = s->w;
    double gradient2, before;
    CHECK(selvage_device_fill(w->ex->device, x, 0, w->places * sizeof *x, w->ex->stream));
    apply(s, -1, s->residual, s->gradient);
    CHECK(selvage_device_copy(w->ex->device, s->search, s->gradient, w->places * sizeof *x,
                              SELVAGE_COPY_DEVICE_TO_DEVICE, w->ex->stream));
    gradient2 = wilson_norm2(w, s->gradient);
    for (int i = 1; i <= s->max_iterations; i++) {
        apply(s, 1, s->search, s->image);
        double step = gradient2 / wilson_norm2(w, s->image);
        wilson_add(w, x, step, s->search, x);
        wilson_add(w, s->residual, -step, s->image, s->residual);
        if (wilson_norm2(w, s->residual) <= target2)
            return i;
        apply(s, -1, s->residual, s->gradient);
        before = gradient2;
        gradient2 = wilson_norm2(w, s->gradient);
        if (!(gradient2 > 0)) /* nowhere to go, or not a number */
            return -1;
        wilson_add(w, s->gradient, gradient2 / before, s->search, s->search);
    }
    return -1;
}

int wilson_solve(wilson_solver_t *s, const wilson_field_t *b, wilson_field_t *x)
{
    double norm2 = wilson_norm2(s->w, b->part[0]) + wilson_norm2(s->w, b->part[1]);
    wilson_hop_across(s->w, 0, 1, b->part[1], b->part[0], s->kappa, s->residual);
    int iterations = iterate(s, s->tolerance * s->tolerance * norm2, x->part[0]);
    wilson_hop_across(s->w, 1, 1, x->part[0], b->part[1], s->kappa, x->part[1]);
    return iterations;
}

double wilson_true_residual(wilson_solver_t *s, const wilson_field_t *b, const wilson_field_t *x)
{
    double norm2 = 0, residual2 = 0;
    for (int parity = 0; parity < 2; parity++) { /* b - x + kappa D x */
        wilson_hop_across(s->w, parity, 1, x->part[1 - parity], b->part[parity], s->kappa, s->residual);
        wilson_add(s->w, s->residual, -1, x->part[parity], s->residual);
        norm2 += wilson_norm2(s->w, b->part[parity]);
        residual2 += wilson_norm2(s->w, s->residual);
    }
    return sqrt(residual2 / norm2);
}
