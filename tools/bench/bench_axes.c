/* SPDX-License-Identifier: BSD-3-Clause */
/* Axes, grids and lines of the plots of selvage-bench. */
#include "tools/bench/bench_axes.h"

#include <math.h>
#include <time.h>

#include "tools/bench/bench_report.h"

enum {
    PANEL_WIDTH = 460, PANEL_HEIGHT = 370, LEFT = 70, INNER_WIDTH = 370, INNER_HEIGHT = 250, LEGEND = 190,
    SAMPLE_WIDTH = 30
};

void bench_axes_init(bench_axes_t *axes, const char *title_x, const char *title_y)
{
    *axes = (bench_axes_t){.low_x = 1e9, .high_x = -1e9, .low_y = 1e9, .high_y = -1e9};
    axes->title_x = title_x;
    axes->title_y = title_y;
}

/* Text of an element of XML. */
static void write_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        default: fputc(*text, file);
        }
}

void bench_axes_include(bench_axes_t *axes, size_t bytes, double gbs)
{
    axes->low_x = fmin(axes->low_x, log2((double)bytes));
    axes->high_x = fmax(axes->high_x, log2((double)bytes));
    if (gbs > 0) {
        axes->low_y = fmin(axes->low_y, floor(log10(gbs)));
        axes->high_y = fmax(axes->high_y, ceil(log10(gbs)));
    }
}

/* At least one octave and one decade. */
static void settle(bench_axes_t *axes)
{
    if (axes->high_x < axes->low_x)
        axes->low_x = axes->high_x = 0;
    if (axes->high_x < axes->low_x + 1)
        axes->high_x = axes->low_x + 1;
    if (axes->high_y < axes->low_y)
        axes->low_y = axes->high_y = 0;
    if (axes->high_y < axes->low_y + 1)
        axes->high_y = axes->low_y + 1;
}

bool bench_axes_begin(bench_axes_t *axes, const char *path, int panels, const char *caption)
{
    char date[32] = "";
    const time_t now = time(NULL);
    const int width = panels * PANEL_WIDTH + LEGEND;
    axes->file = fopen(path, "w");
    if (!axes->file)
        return false;
    settle(axes);
    fprintf(axes->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, PANEL_HEIGHT, width, PANEL_HEIGHT);
    (void)strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    fprintf(axes->file, "<text x=\"%d\" y=\"%d\">", LEFT, PANEL_HEIGHT - 10);
    write_text(axes->file, caption);
    fprintf(axes->file, ", %s</text>\n", date);
    return true;
}

bool bench_axes_end(bench_axes_t *axes)
{
    fprintf(axes->file, "</svg>\n");
    return bench_report_close(axes->file);
}

static double at_x(const bench_axes_t *axes, double log_size)
{
    return axes->left + LEFT + INNER_WIDTH * (log_size - axes->low_x) / (axes->high_x - axes->low_x);
}

static double at_y(const bench_axes_t *axes, double log_gbs)
{
    return BENCH_AXES_TOP + INNER_HEIGHT * (axes->high_y - log_gbs) / (axes->high_y - axes->low_y);
}

void bench_axes_grid(const bench_axes_t *axes, const char *title)
{
    char size[24];
    const int left = axes->left + LEFT;
    fprintf(axes->file, "<text x=\"%d\" y=\"24\" font-weight=\"bold\">%s</text>\n", left, title);
    for (double decade = axes->low_y; decade <= axes->high_y; decade++) {
        const double y = at_y(axes, decade);
        fprintf(axes->file, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", left, y, INNER_WIDTH);
        fprintf(axes->file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left - 6, y + 4,
                pow(10, decade));
    }
    for (int log_size = (int)ceil(axes->low_x); log_size <= axes->high_x; log_size++) {
        const double x = at_x(axes, log_size);
        if (log_size % 4 != 0 && axes->high_x - axes->low_x > 8)
            continue;
        fprintf(axes->file, "<path d=\"M%.1f %dv%d\" stroke=\"#ddd\"/>\n", x, BENCH_AXES_TOP, INNER_HEIGHT);
        fprintf(axes->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x,
                BENCH_AXES_TOP + INNER_HEIGHT + 16, tool_size_text(size, sizeof size, (size_t)1 << log_size));
    }
    fprintf(axes->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", left + INNER_WIDTH / 2,
            BENCH_AXES_TOP + INNER_HEIGHT + 36, axes->title_x);
    fprintf(axes->file, "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
            axes->left + 16, BENCH_AXES_TOP + INNER_HEIGHT / 2, axes->title_y);
}

void bench_axes_point(bench_axes_t *axes, size_t bytes, double gbs)
{
    fprintf(axes->file, axes->points++ ? " %.1f,%.1f" : "<polyline fill=\"none\" points=\"%.1f,%.1f",
            at_x(axes, log2((double)bytes)), at_y(axes, log10(gbs)));
}

void bench_axes_line(bench_axes_t *axes, const char *style)
{
    if (axes->points)
        fprintf(axes->file, "\" %s/>\n", style);
    axes->points = 0;
}

void bench_axes_next(bench_axes_t *axes)
{
    axes->left += PANEL_WIDTH;
}

void bench_axes_legend(const bench_axes_t *axes, int y, const char *style, const char *text)
{
    fprintf(axes->file, "<path class=\"sample\" d=\"M%d %dh%d\" %s/>\n", axes->left, y - 4, SAMPLE_WIDTH, style);
    fprintf(axes->file, "<text x=\"%d\" y=\"%d\">", axes->left + SAMPLE_WIDTH + 6, y);
    write_text(axes->file, text);
    fputs("</text>\n", axes->file);
}
