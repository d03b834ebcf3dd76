/* SPDX-License-Identifier: BSD-3-Clause */
/* The links of the operator: from a file or all 1, with the sign that makes fermions antiperiodic in time. */
#ifndef WILSON_GAUGE_H
#define WILSON_GAUGE_H

#include "milc_lattice.h"
#include "wilson_dirac.h"

/* Average plaquettes, up to 3. */
typedef struct wilson_averages {
    double space, time;
} wilson_averages_t;

/*
 * Sets this rank's links and brings their halo. `file` is open, or NULL for unit links. With a seed that is not 0 a
 * random gauge transformation follows, which changes every link and nothing that can be observed. Collective; ends the
 * job if the file cannot be read or its checksums are wrong.
 */
void wilson_gauge_set(wilson_t *w, milc_file_t *file, int seed);

/* Over the whole lattice. Collective. */
wilson_averages_t wilson_gauge_plaquettes(wilson_t *w);

#endif
