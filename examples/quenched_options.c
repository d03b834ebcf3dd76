/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of the heat-bath example. Every rank comes to the same answer, so nothing is communicated here. */
#include "quenched_options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: quenched [--extent 8x8x8x8] [--beta 6.0] [--sweeps 400] [--thermalise 100] [--relax 3]\n"
    "                [--start both|cold|hot] [--seed 1] [--grid AxBxCxD] [--device NAME] [--save FILE]\n"
    "\n"
    "Pure SU(3) gauge theory by heat bath and over-relaxation, on any number of ranks, with the same bits on each.\n"
    "From a cold and from a hot start, `thermalise` steps are made and thrown away, and plaquettes are measured "
    "behind\n"
    "each of the `sweeps` steps that follow; a step is a heat bath and `relax` over-relaxations of all links. --save\n"
    "writes the last configuration (MILC version 5) and FILE.info beside it, for the examples plaquette and wilson.\n";

static const double sites_max = 268435456; /* 2^28: sums of plaquettes then fit into 63 bits */

/* Extents are even because the lattice is a periodic checkerboard. NULL, or what is wrong. */
static const char *check(const quenched_options_t *options)
{
    double sites = 1;
    bool even = true;
    for (int d = 0; d < QUENCHED_DIMS; d++) {
        sites *= options->extent[d];
        even = even && options->extent[d] > 0 && options->extent[d] % 2 == 0;
    }
    if (!even)
        return "--extent needs four even numbers";
    if (sites > sites_max)
        return "--extent has more than 2^28 sites";
    if (options->grid[0] != 0 && options->grid[QUENCHED_DIMS - 1] == 0)
        return "--grid needs four numbers";
    return options->cold || options->hot ? NULL : "--start is both, cold or hot";
}

bool quenched_options_parse(const example_t *ex, int argc, char **argv, quenched_options_t *options, int *help_out)
{
    const char *start = "both";
    *options = (quenched_options_t){
        .extent = {8, 8, 8, 8}, .beta = 6, .sweeps = 400, .thermalise = 100, .relax = 3, .seed = 1};
    const option_t known[] = {
        {"--extent", OPTION_NUMBERS, options->extent, 1, 4096},
        {"--beta", OPTION_REAL, &options->beta, 0.1, 1e6}, /* below, hardly a proposal is accepted */
        {"--sweeps", OPTION_INT, &options->sweeps, 1, INT_MAX / 2},
        {"--thermalise", OPTION_INT, &options->thermalise, 0, INT_MAX / 2},
        {"--relax", OPTION_INT, &options->relax, 0, 1000},
        {"--start", OPTION_TEXT, &start, 0, 0},
        {"--seed", OPTION_INT, &options->seed, 0, INT_MAX},
        {"--grid", OPTION_NUMBERS, options->grid, 1, 1 << 20},
        {"--device", OPTION_TEXT, &options->device, 0, 0},
        {"--save", OPTION_TEXT, &options->save, 0, 0},
    };
    if (example_parse(ex, argc, argv, known, (int)(sizeof known / sizeof *known), usage, help_out) != 0)
        return false;
    bool both = strcmp(start, "both") == 0;
    options->cold = both || strcmp(start, "cold") == 0;
    options->hot = both || strcmp(start, "hot") == 0;
    const char *wrong = check(options);
    if (wrong != NULL && ex->rank == 0)
        fprintf(stderr, "%s: %s\n%s", ex->name, wrong, usage);
    return wrong == NULL;
}
