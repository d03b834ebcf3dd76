/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums and maxima over an array of doubles on the device. The order of additions depends on the number of values only:
 * not on the device, nor on how a loop is spread over threads. Every call waits for the stream.
 */
#ifndef REDUCE_H
#define REDUCE_H

#include <selvage.h>
#include <stddef.h>

typedef struct reducer {
    selvage_device_t *device;
    void *stream;
    double *part; /* on the device */
    double *last; /* pinned: the last few parts, which the host adds */
} reducer_t;

selvage_status_t reducer_open(selvage_device_t *device, void *stream, reducer_t *reducer);
void reducer_close(reducer_t *reducer);

selvage_status_t reduce_to_sum(reducer_t *reducer, const double *x, size_t count, double *sum_out);
selvage_status_t reduce_to_dot(reducer_t *reducer, const double *x, const double *y, size_t count, double *sum_out);
selvage_status_t reduce_to_max(reducer_t *reducer, const double *x, size_t count, double *max_out); /* of |x| */

#endif
