/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Panels of an SVG file side by side, with GB/s over bytes, both axes logarithmic and the same in all panels. First
 * the ranges are found, by bench_axes_include(), then the file is begun. One thread.
 */
#ifndef SELVAGE_BENCH_AXES_H
#define SELVAGE_BENCH_AXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { BENCH_AXES_TOP = 40, BENCH_AXES_STEP = 18 /* from one line of the legend to the next */ };

typedef struct bench_axes {
    FILE *file;
    int left;             /* of the panel */
    double low_x, high_x; /* log2 of the sizes */
    double low_y, high_y; /* log10 of GB/s */
    int points;           /* of the line being drawn */
    const char *title_x, *title_y;
} bench_axes_t;

/* With what the axes are titled. */
void bench_axes_init(bench_axes_t *axes, const char *title_x, const char *title_y);
/* Values that are not above 0 widen nothing but the range of the sizes. */
void bench_axes_include(bench_axes_t *axes, size_t bytes, double gbs);

/* The caption stands under the panels: what was measured, and where; the date is added. False if the file cannot be
   opened. Partner: bench_axes_end(), false if something is not stored. */
bool bench_axes_begin(bench_axes_t *axes, const char *path, int panels, const char *caption);
bool bench_axes_end(bench_axes_t *axes);

/* Draws the grid of the next panel; then lines, each of points and an end; then goes one panel further. */
void bench_axes_grid(const bench_axes_t *axes, const char *title);
void bench_axes_point(bench_axes_t *axes, size_t bytes, double gbs);
void bench_axes_line(bench_axes_t *axes, const char *style);
void bench_axes_next(bench_axes_t *axes);

/* A line of the legend, which stands right of the last panel: a sample of the line, and what it is. */
void bench_axes_legend(const bench_axes_t *axes, int y, const char *style, const char *text);

#endif
