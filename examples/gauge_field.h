/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's block of a gauge field and the sums taken over it. The block has one more layer of sites at the upper end of
 * every direction, the forward halo: a plaquette needs U_nu(x + mu), never a link after x, and no corner.
 *
 * Plain host memory and arithmetic; knows neither MPI nor Selvage. The owner of a field frees it.
 */
#ifndef GAUGE_FIELD_H
#define GAUGE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GAUGE_DIMS = 4,
    GAUGE_LINK_FLOATS = 18,                              /* a 3x3 complex matrix */
    GAUGE_SITE_FLOATS = GAUGE_DIMS * GAUGE_LINK_FLOATS,
    GAUGE_FACE_FLOATS = (GAUGE_DIMS - 1) * GAUGE_LINK_FLOATS /* a face needs no link along its own normal */
};

typedef struct gauge_field {
    int size[GAUGE_DIMS]; /* sites of the block, without the halo */
    bool periodic;        /* the block is the whole lattice: x + mu wraps around and the halo is not used */
    float *links;         /* (size + 1) sites in each direction, x fastest */
} gauge_field_t;

/* Sums over sites and directions, not yet normalised. */
typedef struct gauge_sums {
    double space_plaquette, time_plaquette, link_trace;
} gauge_sums_t;

/* False: no memory. Partner: gauge_field_fini(). */
bool gauge_field_init(gauge_field_t *field, const int size[GAUGE_DIMS], bool periodic);
void gauge_field_fini(gauge_field_t *field);

/* The four links of a site; coordinates run from 0 to size, the last being the halo. */
float *gauge_field_site(const gauge_field_t *field, const int x[GAUGE_DIMS]);

/* Steps to the next site of the box, x fastest; false after the last. Start from {0, 0, 0, 0}. */
bool gauge_next_site(int x[GAUGE_DIMS], const int size[GAUGE_DIMS]);

/* Floats in the face whose normal is mu: what pack writes and unpack reads. */
size_t gauge_face_floats(const gauge_field_t *field, int mu);
/* Copies the low face, which the neighbour after needs, to `face`. */
void gauge_face_pack(const gauge_field_t *field, int mu, float *face);
/* Puts the low face of the neighbour ahead into the halo. */
void gauge_face_unpack(gauge_field_t *field, int mu, const float *face);

double gauge_link_trace(const gauge_field_t *field);
/* Needs the halo, unless the field is periodic. */
void gauge_plaquettes(const gauge_field_t *field, double *space, double *time);

/* Fills `count` links with random SU(3) matrices: the same ones for the same seed. */
void gauge_random_links(float *links, size_t count, uint64_t seed);

#endif
