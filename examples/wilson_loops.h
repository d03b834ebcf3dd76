/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of the Wilson-Dirac operator, and where things lie in memory. Local coordinates x, y, z, t count from the
 * block's first own site; x runs fastest everywhere.
 *
 *   spinors        one array per parity of the (global) site. A place is a pair of sites along x, of which one has the
 *                  parity
 *   half spinors   eight arrays, face 2 mu + up: what comes from the neighbour below (0) or above (1) along mu. Like
 *                  spinors, but with room for the one layer of halo sites
 *   links          four matrices per site, with one layer of halo sites at the upper end of every direction
 */
#ifndef WILSON_LOOPS_H
#define WILSON_LOOPS_H

#include "device_kernel.h"
#include "wilson_spin.h"

enum { WILSON_DIMS = 4, WILSON_FACES = 2 * WILSON_DIMS, WILSON_SPINOR_DOUBLES = 24 };

typedef struct wilson_block {
    int32_t size[WILSON_DIMS];
    int32_t odd; /* parity of the first own site in the whole lattice */
} wilson_block_t;

/* Boxes of own sites that one loop runs over, place by place: box b has the places start[b] to start[b + 1] - 1. */
typedef struct wilson_boxes {
    int32_t count;
    uint32_t start[WILSON_FACES + 1];
    int16_t first[WILSON_FACES][WILSON_DIMS], size[WILSON_FACES][WILSON_DIMS];
} wilson_boxes_t;

/* out = base + scale * D in on the sites of one parity; in has the other one. base NULL: nothing is added. */
typedef struct wilson_hop {
    size_t n; /* places in the boxes */
    wilson_boxes_t boxes;
    wilson_block_t block;
    int32_t parity; /* of the sites that are written */
    int32_t sign;   /* 1: D, -1: its adjoint, in which gamma_mu has the other sign */
    double scale;
    const su3_matrix_t *links;
    wilson_half_t *half;
    const wilson_spinor_t *in, *base;
    wilson_spinor_t *out;
} wilson_hop_t;

/* What a kernel of one hop runs over, in device memory: faces that are sent and where they land, and sites. */
typedef struct wilson_hop_boxes {
    wilson_boxes_t faces, halos, interior, boundary;
} wilson_hop_boxes_t;

/* The same in one kernel, which exchanges the half spinors itself: packet f has the places of face f. */
typedef struct wilson_whole_hop {
    selvage_device_exchange_t ex;
    const wilson_hop_boxes_t *boxes;
    wilson_block_t block;
    int32_t parity, sign;
    uint32_t parts; /* of each packet */
    double scale;
    const su3_matrix_t *links;
    wilson_half_t *half;
    const wilson_spinor_t *in, *base;
    wilson_spinor_t *out;
} wilson_whole_hop_t;

/* out = x + factor * y, n doubles. */
typedef struct wilson_combine {
    size_t n;
    double factor;
    const double *x, *y;
    double *out;
} wilson_combine_t;

/* Real traces of the three plaquettes in space and of the three in time, per own site. */
typedef struct wilson_plaquette {
    size_t n;
    wilson_block_t block;
    const su3_matrix_t *links;
    double *space, *time;
} wilson_plaquette_t;

DECLARE_LOOP(wilson_project_faces);
DECLARE_LOOP(wilson_hop);
DECLARE_KERNEL(wilson_whole_hop);
DECLARE_LOOP(wilson_combine);
DECLARE_LOOP(wilson_plaquette);

/* Index of an own site in a spinor field of its parity. */
SU3_CALL size_t wilson_place(const wilson_block_t *b, const int *x)
{
    size_t row = ((size_t)x[3] * (size_t)b->size[2] + (size_t)x[2]) * (size_t)b->size[1] + (size_t)x[1];
    return row * (size_t)((b->size[0] + 1) / 2) + (size_t)(x[0] / 2);
}

/* Extents of a half spinor array in sites, and the array index of the first own one: halo sites below need a layer
   more. Along x it is two of them, so that pairs of sites stay pairs. */
SU3_CALL int wilson_half_extent(const wilson_block_t *b, int d)
{
    return d == 0 ? (b->size[0] + 3) / 2 * 2 : b->size[d] + 1;
}

SU3_CALL int wilson_half_first(int face, int d)
{
    return face != 2 * d ? 0 : d == 0 ? 2 : 1;
}

SU3_CALL size_t wilson_half_places(const wilson_block_t *b)
{
    size_t places = (size_t)(wilson_half_extent(b, 0) / 2);
    for (int d = 1; d < WILSON_DIMS; d++)
        places *= (size_t)wilson_half_extent(b, d);
    return places;
}

/* Index of an own site, or of a halo site of this face, in the half spinors. */
SU3_CALL size_t wilson_half_place(const wilson_block_t *b, int face, const int *x)
{
    size_t place = 0;
    for (int d = WILSON_DIMS - 1; d > 0; d--)
        place = place * (size_t)wilson_half_extent(b, d) + (size_t)(x[d] + wilson_half_first(face, d));
    place = place * (size_t)(wilson_half_extent(b, 0) / 2) + (size_t)((x[0] + wilson_half_first(face, 0)) / 2);
    return (size_t)face * wilson_half_places(b) + place;
}

/* Index of a site's first link; coordinates may be the block's size, the halo. */
SU3_CALL size_t wilson_link(const wilson_block_t *b, const int *x)
{
    size_t site = 0;
    for (int d = WILSON_DIMS - 1; d >= 0; d--)
        site = site * (size_t)(b->size[d] + 1) + (size_t)x[d];
    return site * WILSON_DIMS;
}

#endif
