/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the cavity computes on the device: a step of the D2Q9 lattice-Boltzmann method, and the flow that the
 * populations stand for.
 *
 * Population (cx, cy), cx and cy from -1 to 1, moves by that many cells in a step. It is number cx + 1 + 3 (cy + 1) of
 * nine planes, so that the opposite one of number i is 8 - i. The planes hold what a population has more than at rest,
 * after collision; each is an array of the rank's own cells in a frame of one cell:
 *
 *     6 7 8       (-1, 1)  (0, 1)  (1, 1)
 *     3 4 5       (-1, 0)  (0, 0)  (1, 0)
 *     0 1 2       (-1,-1)  (0,-1)  (1,-1)
 */
#ifndef CAVITY_LOOPS_H
#define CAVITY_LOOPS_H

#include "device_loop.h"

enum { CAVITY_POPULATIONS = 9, CAVITY_REST = 4, CAVITY_BOXES = 4, CAVITY_PLANES = 3 };

/* Cells of this rank: the lowest corner, counted from its first own cell, and the size. */
typedef struct cavity_box {
    int x, y, width, height;
} cavity_box_t;

/* One step of the cells in some boxes. */
typedef struct cavity_step {
    size_t n;           /* cells of all boxes */
    const double *from; /* the first own cell in plane 0 */
    double *to;
    ptrdiff_t plane, pitch; /* numbers from plane to plane, from row to row */
    int x0, y0, cells;      /* this rank's first cell in the cavity, which has cells x cells */
    int boxes;
    cavity_box_t box[CAVITY_BOXES];
    double lid;                 /* its velocity, in cells per step */
    double rate_even, rate_odd; /* at which the two parts of the populations relax */
} cavity_step_t;

/* The flow in all own cells, in CAVITY_PLANES planes without a frame: velocity along x, along y, and pressure. */
typedef struct cavity_flow {
    size_t n; /* own cells */
    const double *from;
    ptrdiff_t plane, pitch;
    int width;
    double lid;
    double *flow;   /* in units of the lid's velocity, and of its square */
    double *change; /* since the last time, of the velocity that changed more */
} cavity_flow_t;

DECLARE_LOOP(cavity_step);
DECLARE_LOOP(cavity_flow);

#endif
