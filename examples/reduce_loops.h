/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of reduce.c. */
#ifndef REDUCE_LOOPS_H
#define REDUCE_LOOPS_H

#include "device_loop.h"

/* Part i of n takes the values i, i + n, i + 2 n, ...: neighbouring threads read neighbouring values. */
typedef struct reduce_part {
    size_t n, count;
    const double *x, *y;
    double *part;
} reduce_part_t;

DECLARE_LOOP(reduce_sum);
DECLARE_LOOP(reduce_dot);
DECLARE_LOOP(reduce_max);

#endif
