/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of a run as an SVG file: one panel per pattern and mode, GB/s over the size of a packet, both
 * logarithmic. A route has one colour: solid with checksums, thin without, dotted for its bound; rivals are dashed and
 * have one line each.
 */
#include "bench_report.h"

#include <math.h>
#include <stdio.h>

enum {
    PANEL_WIDTH = 460,
    PANEL_HEIGHT = 340,
    LEFT = 60,
    TOP = 40,
    INNER_WIDTH = 380,
    INNER_HEIGHT = 250,
    LEGEND = 130
};

typedef struct plot {
    FILE *file;
    const bench_run_t *run;
    bench_pattern_t pattern;
    bench_mode_t mode;
    int left;             /* of the panel */
    double low_x, high_x; /* log2 of the sizes */
    double low_y, high_y; /* log10 of GB/s */
} plot_t;

/* What a line shows, and where its value comes from; negative where there is none. */
typedef enum quantity { WITH_SUMS, WITHOUT_SUMS, BOUND, NAIVE, AWARE, NCCL, NCCL_TUNED, QUANTITIES } quantity_t;

static const char *const route_colours[BENCH_ROUTES] = {"",        "#7f7f7f", "#1f77b4", "#2ca02c",
                                                        "#d62728", "#17becf", "#bcbd22", "#ff7f0e"};
static const char *const rival_colours[BENCH_RIVALS] = {"#8c564b", "#9467bd", "#000000", "#e377c2"};

static double value_of(const bench_row_t *row, quantity_t quantity)
{
    const double bytes = (double)row->bytes * row->packets * 1e-9;
    if (!row->available)
        return -1;
    if (quantity == WITH_SUMS || quantity == WITHOUT_SUMS)
        return row->checksum == (quantity == WITH_SUMS) ? row->gbs : -1;
    const double seconds = quantity == BOUND ? row->bound_s : row->rival_s[quantity - NAIVE];
    return seconds > 0 ? bytes / seconds : -1;
}

static double at_x(const plot_t *plot, double log_size)
{
    return plot->left + LEFT + INNER_WIDTH * (log_size - plot->low_x) / (plot->high_x - plot->low_x);
}

static double at_y(const plot_t *plot, double log_gbs)
{
    return TOP + INNER_HEIGHT * (plot->high_y - log_gbs) / (plot->high_y - plot->low_y);
}

/* The range of all figures, to whole decades; at least one of each axis. */
static void find_range(plot_t *plot)
{
    plot->low_x = plot->low_y = 1e9;
    plot->high_x = plot->high_y = -1e9;
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_row_t *row = &plot->run->rows[i];
        plot->low_x = fmin(plot->low_x, log2((double)row->bytes));
        plot->high_x = fmax(plot->high_x, log2((double)row->bytes));
        for (int q = 0; q < QUANTITIES; q++) {
            const double value = value_of(row, (quantity_t)q);
            if (value > 0) {
                plot->low_y = fmin(plot->low_y, floor(log10(value)));
                plot->high_y = fmax(plot->high_y, ceil(log10(value)));
            }
        }
    }
    if (plot->high_x < plot->low_x + 1)
        plot->high_x = plot->low_x + 1;
    if (plot->high_y < plot->low_y)
        plot->low_y = plot->high_y = 0;
    if (plot->high_y < plot->low_y + 1)
        plot->high_y = plot->low_y + 1;
}

static void draw_grid(const plot_t *plot)
{
    char size[24];
    fprintf(plot->file, "<text x=\"%d\" y=\"24\" font-weight=\"bold\">%s, %s</text>\n", plot->left + LEFT,
            bench_pattern_name(plot->pattern), bench_mode_name(plot->mode));
    for (double decade = plot->low_y; decade <= plot->high_y; decade++) {
        const double y = at_y(plot, decade);
        fprintf(plot->file, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", plot->left + LEFT, y, INNER_WIDTH);
        fprintf(plot->file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", plot->left + LEFT - 6, y + 4,
                pow(10, decade));
    }
    for (int log_size = (int)ceil(plot->low_x); log_size <= plot->high_x; log_size++) {
        const double x = at_x(plot, log_size);
        if (log_size % 4 != 0 && plot->high_x - plot->low_x > 8)
            continue;
        fprintf(plot->file, "<path d=\"M%.1f %dv%d\" stroke=\"#ddd\"/>\n", x, TOP, INNER_HEIGHT);
        fprintf(plot->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, TOP + INNER_HEIGHT + 16,
                tool_size_text(size, sizeof size, (size_t)1 << log_size));
    }
    fprintf(plot->file, "<text x=\"%d\" y=\"%d\">GB/s</text>\n", plot->left + 10, TOP - 16);
}

/* Rows of one pattern, route and policy follow each other in the order of the sizes given. */
static void draw_line(const plot_t *plot, selvage_route_t route, quantity_t quantity, const char *style)
{
    int points = 0;
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_row_t *row = &plot->run->rows[i];
        const double value = value_of(row, quantity);
        if (row->pattern != plot->pattern || row->mode != plot->mode || row->route != route || value <= 0)
            continue;
        fprintf(plot->file, points++ ? " %.1f,%.1f" : "<polyline fill=\"none\" points=\"%.1f,%.1f",
                at_x(plot, log2((double)row->bytes)), at_y(plot, log10(value)));
    }
    if (points)
        fprintf(plot->file, "\" %s/>\n", style);
}

/* Rivals are the same on every route that leaves the rank: those of the first such route are drawn. */
static void draw_panel(const plot_t *plot)
{
    char style[96];
    selvage_route_t first = SELVAGE_ROUTE_STAGED;
    draw_grid(plot);
    for (int route = BENCH_ROUTES - 1; route >= SELVAGE_ROUTE_SELF; route--) {
        static const char *const shapes[] = {"stroke-width=\"2.5\"", "stroke-width=\"1\"", "stroke-dasharray=\"2 4\""};
        if (!plot->run->options.routes[route])
            continue;
        first = route == SELVAGE_ROUTE_SELF ? first : (selvage_route_t)route;
        for (int q = WITH_SUMS; q <= BOUND; q++) {
            snprintf(style, sizeof style, "stroke=\"%s\" %s", route_colours[route], shapes[q]);
            draw_line(plot, (selvage_route_t)route, (quantity_t)q, style);
        }
    }
    for (int rival = 0; rival < BENCH_RIVALS; rival++) {
        snprintf(style, sizeof style, "stroke=\"%s\" stroke-dasharray=\"8 4\"", rival_colours[rival]);
        draw_line(plot, first, (quantity_t)(NAIVE + rival), style);
    }
}

static void draw_legend(const plot_t *plot, int left)
{
    int y = TOP;
    for (int route = SELVAGE_ROUTE_SELF; route < BENCH_ROUTES; route++) {
        if (!plot->run->options.routes[route])
            continue;
        fprintf(plot->file, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left, y, route_colours[route],
                selvage_route_name((selvage_route_t)route));
        y += 18;
    }
    for (int rival = 0; rival < BENCH_RIVALS; rival++, y += 18)
        fprintf(plot->file, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s (dashed)</text>\n", left, y, rival_colours[rival],
                bench_rival_name((bench_rival_t)rival));
    fprintf(plot->file,
            "<text x=\"%d\" y=\"%d\">thick: checked</text>\n<text x=\"%d\" y=\"%d\">thin: unchecked</text>\n"
            "<text x=\"%d\" y=\"%d\">dotted: bound</text>\n",
            left, y + 8, left, y + 26, left, y + 44);
}

static void draw_panels(plot_t *plot)
{
    const bench_options_t *options = &plot->run->options;
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++) {
        for (int mode = 0; mode < BENCH_MODES; mode++) {
            plot->pattern = (bench_pattern_t)pattern;
            plot->mode = (bench_mode_t)mode;
            if (!options->patterns[pattern] || !options->modes[mode])
                continue;
            draw_panel(plot);
            plot->left += PANEL_WIDTH;
        }
    }
}

bool bench_plot_write(const bench_run_t *run, const char *path)
{
    plot_t plot = {.file = fopen(path, "w"), .run = run};
    int panels = 0;
    if (!plot.file)
        return false;
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++)
        panels += run->options.patterns[pattern] * (run->options.modes[BENCH_WAIT] + run->options.modes[BENCH_STREAM]);
    const int width = panels * PANEL_WIDTH + LEGEND;
    find_range(&plot);
    fprintf(plot.file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, PANEL_HEIGHT, width, PANEL_HEIGHT);
    draw_panels(&plot);
    draw_legend(&plot, plot.left);
    fprintf(plot.file, "</svg>\n");
    return bench_report_close(plot.file);
}
