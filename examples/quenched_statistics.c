/* SPDX-License-Identifier: BSD-3-Clause */
/* Mean and error of a series; see quenched_statistics.h. */
#include "quenched_statistics.h"

#include <math.h>

static double mean_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/* Leaves out one bin after the other, and sees how far the mean moves. What does not fill a bin is left out at the
   front, where the series may still remember its start. */
static double jackknife(const double *values, size_t count, size_t bin)
{
    size_t bins = count / bin;
    double squares = 0;
    values += count - bins * bin;
    double mean = mean_of(values, bins * bin);
    for (size_t b = 0; b < bins; b++) {
        double without = (mean * (double)bins - mean_of(values + b * bin, bin)) / (double)(bins - 1);
        squares += (without - mean) * (without - mean);
    }
    return sqrt(squares * (double)(bins - 1) / (double)bins);
}

quenched_estimate_t quenched_estimate(const double *values, size_t count)
{
    quenched_estimate_t result = {mean_of(values, count), 0, 1};
    for (size_t bin = 1; count >= 2 && (bin == 1 || count / bin >= QUENCHED_BINS_MIN); bin *= 2) {
        double error = jackknife(values, count, bin);
        if (error > result.error) {
            result.error = error;
            result.bin = bin;
        }
    }
    return result;
}
