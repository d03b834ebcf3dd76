/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, medians and sizes. Without Selvage's headers, for programs that are plain MPI. */
#ifndef SELVAGE_TOOL_FIGURES_H
#define SELVAGE_TOOL_FIGURES_H

#include <stddef.h>

double tool_seconds(void);
/* Median; sorts the values. 0 for none. */
double tool_median(double *values, int count);

/* "4 KiB", "13 B"; returns text. */
char *tool_size_text(char *text, size_t text_bytes, size_t bytes);

#endif
