/* SPDX-License-Identifier: BSD-3-Clause */
/* Mean and error of a series whose neighbours are correlated. */
#ifndef QUENCHED_STATISTICS_H
#define QUENCHED_STATISTICS_H

#include <stddef.h>

enum { QUENCHED_BINS_MIN = 16 }; /* fewer do not tell their own spread */

typedef struct quenched_estimate {
    double mean, error;
    size_t bin; /* measurements per bin, where the error is largest */
} quenched_estimate_t;

/* Jackknife over bins of 1, 2, 4, ... neighbours, as long as there are QUENCHED_BINS_MIN of them. Bins that are longer
   than the memory of the series are independent, and their error is the series'; it is the largest, and it is taken.
   With fewer than 2 values the error is 0. */
quenched_estimate_t quenched_estimate(const double *values, size_t count);

#endif
