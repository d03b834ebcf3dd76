/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pion correlator is without a gauge field, known from sums over momenta. */
#ifndef WILSON_FREE_H
#define WILSON_FREE_H

/* C(t) of one of the twelve point sources (they are all equal) on a lattice of these extents, periodic in space and
   antiperiodic in time; extent[3] numbers. Returns 0, or -1 without memory. */
int wilson_free_pion(const int extent[4], double kappa, double *correlator);

#endif
