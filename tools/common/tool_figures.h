/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, medians and sizes. Without Selvage's headers, for programs that are plain MPI. */
#ifndef SELVAGE_TOOL_FIGURES_H
#define SELVAGE_TOOL_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

double tool_seconds(void);
/* Median; sorts the values. 0 for none. */
double tool_median(double *values, int count);

/* Between which of the sorted values the median of all such values lies, in 95 of 100 cases where there are enough; of
   few values the least and the greatest. */
typedef struct tool_interval {
    double low, high;
} tool_interval_t;
tool_interval_t tool_median_interval(const double *sorted, int count);

/* Whether the interval is so wide that differences of some per cent say nothing: tables mark such a median with "~". */
bool tool_is_noisy(double median, tool_interval_t interval);
/* "12.3", or "~12.3" of a noisy one; returns text. */
char *tool_figure_text(char *text, size_t text_bytes, int decimals, double value, bool noisy);

/* "4 KiB", "13 B"; returns text. */
char *tool_size_text(char *text, size_t text_bytes, size_t bytes);

#endif
