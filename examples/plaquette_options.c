/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options and rank grids of the lattice example. Every rank comes to the same answer from the same arguments, so
 * nothing is communicated here.
 */
#include "plaquette_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_usage[] =
    "usage: plaquette [--lattice FILE] [--grid AxBxCxD] [--info FILE] [--route self|peer|shared|staged|direct]\n"
    "       plaquette --write FILE [--extent 8x8x8x8] [--seed N] [--other-byte-order]\n"
    "\n"
    "The first form reads a gauge configuration (MILC version 5), spreads it over all ranks, exchanges the links at\n"
    "the faces with Selvage and prints plaquettes and link trace next to the values in FILE.info; without that file,\n"
    "next to those of a serial computation. FILE defaults to the variable SELVAGE_LATTICE. The second form writes a\n"
    "configuration of random SU(3) links.\n";

static int parse_int(const char *text, const char **end, int low, int *value)
{
    char *stop;
    errno = 0;
    long number = strtol(text, &stop, 10);
    if (stop == text || errno != 0 || number < low || number > INT_MAX)
        return -1;
    *value = (int)number;
    *end = stop;
    return 0;
}

/* "8x8x8x8", every number at least 1. */
static int parse_dims(const char *text, int dims[GAUGE_DIMS])
{
    for (int d = 0; d < GAUGE_DIMS; d++) {
        if (parse_int(text, &text, 1, &dims[d]) != 0 || *text != (d < GAUGE_DIMS - 1 ? 'x' : '\0'))
            return -1;
        text++;
    }
    return 0;
}

static int parse_route(const char *text, selvage_route_t *route)
{
    for (selvage_route_t r = SELVAGE_ROUTE_SELF; r <= SELVAGE_ROUTE_DIRECT; r++) {
        if (strcmp(text, selvage_route_name(r)) == 0) {
            *route = r;
            return 0;
        }
    }
    return -1;
}

/* Takes one option with a value. 0: taken; -1: bad value; 1: no such option. */
static int parse_option(const char *name, const char *value, options_t *options)
{
    if (strcmp(name, "--lattice") == 0)
        return options->lattice = value, 0;
    if (strcmp(name, "--info") == 0)
        return options->info = value, 0;
    if (strcmp(name, "--write") == 0)
        return options->write = value, 0;
    if (strcmp(name, "--grid") == 0)
        return parse_dims(value, options->grid);
    if (strcmp(name, "--extent") == 0)
        return parse_dims(value, options->extent);
    if (strcmp(name, "--route") == 0)
        return parse_route(value, &options->route);
    if (strcmp(name, "--seed") == 0)
        return parse_int(value, &value, 0, &options->seed) != 0 || *value != '\0' ? -1 : 0;
    return 1;
}

int options_parse(int argc, char **argv, options_t *options, char error[PLAQUETTE_ERROR_BYTES])
{
    *options = (options_t){.lattice = getenv("SELVAGE_LATTICE"), .extent = {8, 8, 8, 8}, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            options->help = true;
            return 0;
        }
        if (strcmp(argv[i], "--other-byte-order") == 0) {
            options->swapped = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int result = parse_option(argv[i], value != NULL ? value : "", options);
        if (result == 1)
            snprintf(error, PLAQUETTE_ERROR_BYTES, "no such option: %s", argv[i]);
        else if (value == NULL)
            snprintf(error, PLAQUETTE_ERROR_BYTES, "%s needs a value", argv[i]);
        else if (result != 0)
            snprintf(error, PLAQUETTE_ERROR_BYTES, "%s cannot be %s", argv[i], value);
        if (result != 0 || value == NULL)
            return -1;
        i++;
    }
    if (options->write == NULL && (options->lattice == NULL || options->lattice[0] == '\0')) {
        snprintf(error, PLAQUETTE_ERROR_BYTES, "no lattice: give --lattice FILE or set SELVAGE_LATTICE");
        return -1;
    }
    return 0;
}

/* What a grid costs the busiest rank: its sites, then the links it must receive. Smaller is better. */
static void grid_cost(const int grid[GAUGE_DIMS], const int extent[GAUGE_DIMS], double cost[2])
{
    cost[0] = 1;
    cost[1] = 0;
    for (int d = 0; d < GAUGE_DIMS; d++)
        cost[0] *= (extent[d] + grid[d] - 1) / grid[d];
    for (int d = 0; d < GAUGE_DIMS; d++)
        if (grid[d] > 1)
            cost[1] += cost[0] / ((extent[d] + grid[d] - 1) / grid[d]);
}

/* Tries every division of `left` ranks over the directions from d on; keeps the cheapest in best. */
static void try_grids(const int extent[GAUGE_DIMS], int d, int left, int grid[GAUGE_DIMS], int best[GAUGE_DIMS],
                      double best_cost[2])
{
    if (d == GAUGE_DIMS - 1) {
        double cost[2];
        grid[d] = left;
        grid_cost(grid, extent, cost);
        if (left > extent[d] || cost[0] > best_cost[0] || (cost[0] == best_cost[0] && cost[1] >= best_cost[1]))
            return;
        memcpy(best, grid, GAUGE_DIMS * sizeof *best);
        memcpy(best_cost, cost, sizeof cost);
        return;
    }
    /* Ascending, so that among equals the slow directions are divided: a rank's rows in the file stay long. */
    for (grid[d] = 1; grid[d] <= left && grid[d] <= extent[d]; grid[d]++)
        if (left % grid[d] == 0)
            try_grids(extent, d + 1, left / grid[d], grid, best, best_cost);
}

/* The grid that was asked for must fit both the ranks and the lattice. */
static int check_grid(const int grid[GAUGE_DIMS], const int extent[GAUGE_DIMS], int ranks,
                      char error[PLAQUETTE_ERROR_BYTES])
{
    double product = 1;
    for (int d = 0; d < GAUGE_DIMS; d++) {
        product *= grid[d];
        if (grid[d] > extent[d]) {
            snprintf(error, PLAQUETTE_ERROR_BYTES, "--grid: %d ranks cannot share %d sites in direction %c", grid[d],
                     extent[d], "xyzt"[d]);
            return -1;
        }
    }
    if (product == ranks)
        return 0;
    snprintf(error, PLAQUETTE_ERROR_BYTES, "--grid: %dx%dx%dx%d is %.0f ranks, but there are %d", grid[0], grid[1],
             grid[2], grid[3], product, ranks);
    return -1;
}

int placement_find(const int grid[GAUGE_DIMS], const int extent[GAUGE_DIMS], int rank, int ranks, placement_t *place,
                   char error[PLAQUETTE_ERROR_BYTES])
{
    int trial[GAUGE_DIMS];
    double cost[2] = {1e300, 1e300};
    *place = (placement_t){.grid = {grid[0], grid[1], grid[2], grid[3]}};
    if (grid[0] == 0)
        try_grids(extent, 0, ranks, trial, place->grid, cost);
    else if (check_grid(grid, extent, ranks, error) != 0)
        return -1;
    if (place->grid[0] == 0) {
        snprintf(error, PLAQUETTE_ERROR_BYTES, "a lattice of %dx%dx%dx%d cannot be divided among %d ranks", extent[0],
                 extent[1], extent[2], extent[3], ranks);
        return -1;
    }
    for (int d = 0; d < GAUGE_DIMS; d++) {
        int parts = place->grid[d], coord = rank % parts;
        rank /= parts;
        place->coord[d] = coord;
        place->extent[d] = extent[d];
        place->low[d] = (int)((int64_t)coord * extent[d] / parts);
        place->size[d] = (int)((int64_t)(coord + 1) * extent[d] / parts) - place->low[d];
    }
    return 0;
}
