/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to one cell of the square, on any device: jacobi_cuda.cu and jacobi_soft.c deal the cells out. */
#ifndef JACOBI_CELL_H
#define JACOBI_CELL_H

#include <math.h>

#include "jacobi_device.h"

#if defined(__CUDACC__) || defined(__HIPCC__)
#define JACOBI_CELL __device__ static inline
#else
#define JACOBI_CELL static inline
#endif

#define PI 3.14159265358979323846

/* Row y of a block with its frame, cell x. */
JACOBI_CELL void jacobi_fill_cell(double *u, const jacobi_block_t *b, int x, int y)
{
    int at = b->first + y - 1, inside = x > 0 && x <= b->nx && at > 0 && at <= b->ny;
    u[(size_t)y * (size_t)(b->nx + 2) + (size_t)x] =
        inside ? sin(PI * x / (b->nx + 1)) * sin(PI * at / (b->ny + 1)) : 0;
}

/* Returns the square of what the step changed. */
JACOBI_CELL double jacobi_step_cell(const double *u, double *next, const jacobi_block_t *b, int x, int y)
{
    size_t pitch = (size_t)b->nx + 2, at = (size_t)y * pitch + (size_t)x;
    double mean = 0.25 * (u[at - 1] + u[at + 1] + u[at - pitch] + u[at + pitch]);
    next[at] = mean;
    return (mean - u[at]) * (mean - u[at]);
}

#endif
