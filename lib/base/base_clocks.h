/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far another clock is ahead of this one: a device's, or another machine's. A question that is answered at once
 * says it best: somewhere between asking and hearing, the other clock said what it said. Two clocks that cannot be told
 * apart are taken for one, as those of processes of a machine are.
 *
 * Clocks are compared at the beginning and at the end, and taken to go evenly in between.
 */
#ifndef SV_BASE_CLOCKS_H
#define SV_BASE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* The best of several comparisons. */
typedef struct sv_clock_sample {
    bool taken;
    uint64_t at_ns;      /* by the own clock */
    int64_t ahead_ns;    /* the other clock, then */
    uint64_t error_ns;   /* by how much that may be wrong, either way */
} sv_clock_sample_t;

/* Of a question at asked_ns whose answer other_ns was heard at heard_ns. Keeps the better of the two. */
void sv_clocks_compare(sv_clock_sample_t *sample, uint64_t asked_ns, uint64_t other_ns, uint64_t heard_ns);

/* How far the other clock is ahead at own_ns. The first sample is taken; the last one need not be. */
int64_t sv_clocks_ahead_ns(const sv_clock_sample_t *first, const sv_clock_sample_t *last, uint64_t own_ns);

#endif
