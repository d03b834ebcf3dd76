/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of the lattice example, and how a lattice is divided among ranks. */
#ifndef PLAQUETTE_OPTIONS_H
#define PLAQUETTE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "plaquette_halo.h"

enum { PLAQUETTE_ERROR_BYTES = 512 };

typedef struct options {
    const char *lattice, *info; /* info NULL: the lattice's name with .info */
    const char *write;          /* not NULL: write a lattice and do nothing else */
    int grid[GAUGE_DIMS];       /* all 0: choose */
    int extent[GAUGE_DIMS];
    int seed;
    bool help, swapped;
    selvage_route_t route;
} options_t;

/* 0, or -1 with a sentence in error. */
int options_parse(int argc, char **argv, options_t *options, char error[PLAQUETTE_ERROR_BYTES]);
extern const char options_usage[];

/* Chooses the rank grid (unless asked for one) and finds the block of `rank`. Uneven blocks are fine, empty ones not:
   -1 with a sentence in error if every division would leave a rank without sites. */
int placement_find(const int grid[GAUGE_DIMS], const int extent[GAUGE_DIMS], int rank, int ranks, placement_t *place,
                   char error[PLAQUETTE_ERROR_BYTES]);

#endif
