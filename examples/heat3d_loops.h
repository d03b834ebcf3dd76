/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of heat3d. A field has its own cells in a frame of halo cells, one deep; x varies fastest, rows are pitch_y
 * and planes pitch_z apart.
 */
#ifndef HEAT3D_LOOPS_H
#define HEAT3D_LOOPS_H

#include "device_kernel.h"

enum { HEAT_BOXES_MAX = 6, HEAT_COLUMN = 8 };

/*
 * A box of cells to be updated. Bodies come in tiles of LOOP_THREADS, 2^log_tile of them along x and the others along
 * y, so that threads share what they read; each body updates a column of HEAT_COLUMN cells along z.
 */
typedef struct heat_box {
    size_t first_body;  /* of the loop */
    ptrdiff_t origin;   /* of the box's first cell in the field */
    uint32_t extent[3]; /* x, y, z */
    uint32_t log_tile;
} heat_box_t;

typedef struct heat_step {
    size_t n;
    const double *u;
    double *next;
    double r; /* dt / h^2 */
    ptrdiff_t pitch_y, pitch_z;
    size_t nboxes;
    heat_box_t box[HEAT_BOXES_MAX];
} heat_step_t;

/* Steps that one kernel takes: a session of the halo. Field u[0] is the first that is read, u[1] the first written. */
typedef struct heat_block {
    selvage_device_exchange_t halo;
    double *u[2];
    double r;
    ptrdiff_t pitch_y, pitch_z;
    uint32_t parts;           /* in which packets are gathered and scattered */
    uint32_t nslabs;
    size_t interior_bodies, slab_bodies;
    heat_box_t interior, slab[HEAT_BOXES_MAX];
} heat_block_t;

/* The Fourier mode: a product of one factor per dimension, which lie in tables. */
typedef struct heat_mode {
    size_t n; /* own cells */
    double *u, *scratch;
    double amplitude;
    const double *factor[3];
    ptrdiff_t origin, pitch_y, pitch_z;
    uint32_t extent[3];
} heat_mode_t;

DECLARE_LOOP(heat_update);  /* heat_step_t: next is one time step after u */
DECLARE_KERNEL(heat_block); /* heat_block_t: as many steps as the session has epochs */
DECLARE_LOOP(heat_fill);    /* heat_mode_t: u becomes amplitude times the mode */
DECLARE_LOOP(heat_compare); /* heat_mode_t: scratch, an array of n, becomes u minus that */

#endif
