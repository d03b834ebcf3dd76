/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's part of the lattice: links on the device, lists of sites, halos. Calls are collective; an error ends the
 * job with the library's own text, for an example has nothing to fall back on.
 */
#ifndef QUENCHED_LATTICE_H
#define QUENCHED_LATTICE_H

#include "device_loop.h"
#include "example_main.h"
#include "quenched_loops.h"
#include "quenched_options.h"

/* The rank's sites of one parity: those whose links a neighbour's halo holds come first. */
typedef struct quenched_sites {
    const quenched_site_t *boundary, *interior; /* on the device */
    size_t boundary_count, interior_count;
} quenched_sites_t;

typedef struct quenched_lattice {
    const example_t *ex;
    selvage_grid_t *grid;
    selvage_grid_info_t block;
    int64_t array[QUENCHED_DIMS]; /* sites of the array, own ones and halo */
    quenched_field_t field;
    quenched_site_t *site_memory;
    quenched_sites_t sites[2]; /* even and odd */
    size_t own_sites;
    selvage_halo_t *halo[QUENCHED_DIMS][2]; /* of each direction and parity */
    uint64_t *results, *parts, *parts_host;
} quenched_lattice_t;

/* Sums over the lattice, brought to their usual scale: plaquettes and link trace up to 1. */
typedef struct quenched_values {
    double space, time, plaquette, trace;
    uint64_t hash; /* of all bits of all links */
} quenched_values_t;

#define RUN(lattice, loop, arg)                                                                                        \
    CHECK(device_loop_run(&(loop), &(arg), sizeof(arg), (lattice)->ex->device, (lattice)->ex->stream))

void quenched_open(quenched_lattice_t *lattice, const example_t *ex, const quenched_options_t *options);
void quenched_close(quenched_lattice_t *lattice);

/* Sums that do not depend on order: whole numbers, so that every grid of ranks has the same ones. */
quenched_values_t quenched_values(quenched_lattice_t *lattice);

/* Makes the eight halos. quenched_close() frees them. */
void quenched_make_halos(quenched_lattice_t *lattice);
/* All links cold or hot, and all halos. */
void quenched_begin(quenched_lattice_t *lattice, bool hot, uint64_t key);
/* Updates every link once: by a heat bath with the numbers of this key and sweep (from 1), or by over-relaxation. */
void quenched_sweep(quenched_lattice_t *lattice, double beta, bool relax, uint64_t key, uint32_t sweep);

#endif
