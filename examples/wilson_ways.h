/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways in which a hop exchanges its half spinors: driven by the host, enqueued on the stream, by one launch, or from
 * inside the kernel that computes. All give the same bits.
 */
#ifndef WILSON_WAYS_H
#define WILSON_WAYS_H

#include "wilson_dirac.h"

extern const char *const wilson_way_names[WILSON_WAYS];

/* Whether a hop can go that way here: kernels must be able to wait for other ranks. Collective, once. */
int wilson_way_is_possible(wilson_t *w, wilson_way_t way);

/* What one kernel needs, made by the first hop that it does. */
void wilson_whole_close(wilson_t *w);

/* As wilson_hop_across(), in one kernel. */
void wilson_hop_in_kernel(wilson_t *w, int parity, int sign, const wilson_spinor_t *in, const wilson_spinor_t *base,
                          double scale, wilson_spinor_t *out);

/* Times hops by every way that is possible and prints a table. Returns how many ways gave other numbers than the first.
   Collective. */
int wilson_time_ways(wilson_t *w, int hops);

#endif
