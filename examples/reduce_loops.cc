/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_loops.h"

DEVICE_LOOP(reduce_sum, reduce_part_t)
{
    double sum = 0;
    for (size_t k = i; k < arg.count; k += arg.n)
        sum += arg.x[k];
    arg.part[i] = sum;
}

DEVICE_LOOP(reduce_dot, reduce_part_t)
{
    double sum = 0;
    for (size_t k = i; k < arg.count; k += arg.n)
        sum += arg.x[k] * arg.y[k];
    arg.part[i] = sum;
}

/* Of absolute values. A comparison that keeps what is not a number, so that it is seen. */
DEVICE_LOOP(reduce_max, reduce_part_t)
{
    double max = 0;
    for (size_t k = i; k < arg.count; k += arg.n) {
        double value = arg.x[k] < 0 ? -arg.x[k] : arg.x[k];
        if (!(value <= max))
            max = value;
    }
    arg.part[i] = max;
}
