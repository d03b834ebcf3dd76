/* SPDX-License-Identifier: BSD-3-Clause */
/* See tool_figures.h. */
#define _GNU_SOURCE

#include "tools/common/tool_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double tool_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_double(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double tool_median(double *values, int count)
{
    if (count < 1)
        return 0;
    qsort(values, (size_t)count, sizeof(double), compare_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Of how many values lie below the median the binomial distribution says; a normal one is close to that. */
tool_interval_t tool_median_interval(const double *sorted, int count)
{
    if (count < 1)
        return (tool_interval_t){0, 0};
    const int rank = (int)floor(0.5 * count - 0.98 * sqrt(count)); /* from 1 */
    const int low = rank > 1 ? rank - 1 : 0;
    return (tool_interval_t){sorted[low], sorted[count - 1 - low]};
}

bool tool_is_noisy(double median, tool_interval_t interval)
{
    static const double widest = 0.1; /* as a share of the median */
    return interval.high - interval.low > widest * median;
}

char *tool_figure_text(char *text, size_t text_bytes, int decimals, double value, bool noisy)
{
    snprintf(text, text_bytes, "%s%.*f", noisy ? "~" : "", decimals, value);
    return text;
}

char *tool_size_text(char *text, size_t text_bytes, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, text_bytes, "%zu %s", bytes, units[unit]);
    return text;
}
