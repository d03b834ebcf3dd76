/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of the heat-bath example. */
#ifndef QUENCHED_OPTIONS_H
#define QUENCHED_OPTIONS_H

#include <stdbool.h>

#include "example_main.h"
#include "quenched_loops.h"

typedef struct quenched_options {
    int extent[QUENCHED_DIMS];
    int grid[QUENCHED_DIMS]; /* all 0: the library chooses */
    double beta;
    int sweeps, thermalise, relax, seed; /* relax: over-relaxations per heat bath */
    bool cold, hot;                      /* starts */
    const char *device, *save;           /* NULL: what SELVAGE_DEVICE says; nothing is saved */
} quenched_options_t;

/* True, or false where something is wrong, which rank 0 has said, or where only help was wanted. */
bool quenched_options_parse(const example_t *ex, int argc, char **argv, quenched_options_t *options, int *help_out);

#endif
