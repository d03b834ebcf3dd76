/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing of faces as it is written by hand: one loop over the cells of all six faces of some fields of doubles, each
 * found by divisions, into buffers that another library sends; and the same back into the halo. What selvage-halos
 * compares the library with.
 */
#ifndef HAND_PACKED_LOOPS_H
#define HAND_PACKED_LOOPS_H

#include "device_loop.h"

enum { HAND_FIELDS_MAX = 16, HAND_FACES = 6 };

/* Fields of edge^3 own cells in a frame of width cells, dimension 0 fastest. Face 2d is the lower one of dimension d.
   buffer holds face after face, in it field after field. */
typedef struct hand_faces {
    size_t n;                /* 6 * fields * width * edge * edge */
    size_t edge, width, fields;
    double *field[HAND_FIELDS_MAX];
    double *buffer;
} hand_faces_t;

DECLARE_LOOP(hand_pack);
DECLARE_LOOP(hand_unpack);

#endif
