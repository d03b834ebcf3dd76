/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_scatter_loops.h"

LOOP_FN ptrdiff_t place_of(const cg_points_t &arg, size_t x, size_t y)
{
    return ((ptrdiff_t)y + 1) * arg.pitch + (ptrdiff_t)x + 1;
}

LOOP_FN double right_side(const cg_points_t &arg, size_t x, size_t y)
{
    double laplace = arg.second[0][x] * arg.value[1][y] + arg.value[0][x] * arg.second[1][y];
    return -(arg.h * arg.h) * laplace;
}

DEVICE_LOOP(cg_begin, cg_points_t)
{
    size_t x = i % arg.extent[0], y = i / arg.extent[0];
    ptrdiff_t at = place_of(arg, x, y);
    arg.r[at] = arg.p[at] = right_side(arg, x, y);
}

DEVICE_LOOP(cg_apply, cg_points_t)
{
    ptrdiff_t at = place_of(arg, i % arg.extent[0], i / arg.extent[0]);
    double sides = (arg.p[at - 1] + arg.p[at + 1]) + (arg.p[at - arg.pitch] + arg.p[at + arg.pitch]);
    arg.q[at] = 4 * arg.p[at] - sides;
}

DEVICE_LOOP(cg_residual, cg_points_t)
{
    size_t x = i % arg.extent[0], y = i / arg.extent[0];
    ptrdiff_t at = place_of(arg, x, y);
    arg.q[at] = right_side(arg, x, y) - arg.q[at];
}

DEVICE_LOOP(cg_compare, cg_points_t)
{
    size_t x = i % arg.extent[0], y = i / arg.extent[0];
    arg.q[i] = arg.u[place_of(arg, x, y)] - arg.value[0][x] * arg.value[1][y];
}

DEVICE_LOOP(cg_step, cg_update_t)
{
    double factor = *arg.over / *arg.under;
    arg.u[i] += factor * arg.p[i];
    arg.r[i] -= factor * arg.q[i];
}

DEVICE_LOOP(cg_turn, cg_update_t)
{
    double factor = *arg.over / *arg.under;
    arg.p[i] = arg.r[i] + factor * arg.p[i];
}
