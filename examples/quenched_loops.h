/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of the heat bath over sites, and what they see of the lattice.
 *
 * Links lie in eight fields, one per direction and parity of the site: field 2 mu + parity. A field is nine planes, one
 * per matrix element, so that neighbouring threads read neighbouring numbers. Within a plane a site has a place: x
 * fastest and halved, as sites of the other parity are elsewhere, and a layer of halo sites on every side.
 */
#ifndef QUENCHED_LOOPS_H
#define QUENCHED_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "device_loop.h"
#include "su3.h"

enum {
    QUENCHED_DIMS = 4,
    QUENCHED_ELEMENTS = 9, /* complex numbers of a link */
    QUENCHED_SITE_FLOATS = 72,
    QUENCHED_SUMS = 4,   /* plaquettes in space, plaquettes in time, traces of links, hash of links */
    QUENCHED_PARTS = 256 /* partial sums of each */
};

/* A site of this rank. */
typedef struct quenched_site {
    uint64_t number; /* in the whole lattice, x fastest: the same on every grid of ranks */
    uint32_t place;
    uint32_t own; /* among the rank's sites, x fastest */
    uint32_t odd; /* of the x index in the array: which way the halved places lean */
    uint32_t unused;
} quenched_site_t;

typedef struct quenched_field {
    su3_complex_t *links;
    int64_t plane;                 /* places in a plane */
    int64_t stride[QUENCHED_DIMS]; /* places from site to site, but [0] (see odd) */
} quenched_field_t;

/* A start: unit links (cold), or links at random in the group (hot). */
typedef struct quenched_start {
    size_t n;
    quenched_field_t field;
    const quenched_site_t *sites;
    int parity, hot;
    uint64_t key;
} quenched_start_t;

/* An update of the links of one direction on sites of one parity: none of them is in another one's staple. */
typedef struct quenched_update {
    size_t n;
    quenched_field_t field;
    const quenched_site_t *sites;
    int mu, parity;
    int relax; /* not a heat bath but a reflection, which leaves the action as it is (over-relaxation) */
    uint32_t sweep;
    double beta;
    uint64_t key;
} quenched_update_t;

/* What a site adds to the sums: results[sum * own_sites + own]. */
typedef struct quenched_measure {
    size_t n;
    quenched_field_t field;
    const quenched_site_t *sites;
    int parity, unused;
    size_t own_sites;
    uint64_t *results;
} quenched_measure_t;

/* Partial sums, modulo 2^64: parts[sum * QUENCHED_PARTS + i]. n is QUENCHED_PARTS. */
typedef struct quenched_add {
    size_t n;
    size_t own_sites;
    const uint64_t *results;
    uint64_t *parts;
} quenched_add_t;

/* Links as files have them: 72 floats per site, at own. */
typedef struct quenched_export {
    size_t n;
    quenched_field_t field;
    const quenched_site_t *sites;
    int parity, unused;
    float *floats;
} quenched_export_t;

DECLARE_LOOP(quenched_start);
DECLARE_LOOP(quenched_update);
DECLARE_LOOP(quenched_measure);
DECLARE_LOOP(quenched_add);
DECLARE_LOOP(quenched_export);

/* Traces are counted in units of 2^-32, so that their sums are exact and in whatever order the same. */
#define QUENCHED_UNIT 4294967296.0

#endif
