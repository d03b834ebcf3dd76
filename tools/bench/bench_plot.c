/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of a run of exchanges as an SVG file: one panel per pattern and mode. A route has one colour: solid with
 * checksums, thin without, dotted for its bound; rivals are dashed and have one line each.
 */
#include "tools/bench/bench_axes.h"
#include "tools/bench/bench_report.h"

typedef struct plot {
    bench_axes_t axes;
    const bench_run_t *run;
    bench_pattern_t pattern;
    bench_mode_t mode;
} plot_t;

/* What a line shows, and where its value comes from; negative where there is none. */
typedef enum quantity { WITH_SUMS, WITHOUT_SUMS, BOUND, NAIVE, AWARE, NCCL, NCCL_TUNED, QUANTITIES } quantity_t;

static const char *const route_colours[BENCH_ROUTES] = {"",        "#7f7f7f", "#1f77b4", "#2ca02c",
                                                        "#d62728", "#17becf", "#bcbd22", "#ff7f0e"};
static const char *const baseline_colours[BENCH_BASELINES] = {"#8c564b", "#9467bd", "#000000", "#e377c2"};

/* Of a route: with checksums, without, its bound. Of a rival. */
static const char *const shapes[] = {"stroke-width=\"2.5\"", "stroke-width=\"1\"", "stroke-dasharray=\"2 4\""};
static const char dashed[] = "stroke-dasharray=\"8 4\"";

static double value_of(const bench_row_t *row, quantity_t quantity)
{
    const double bytes = (double)row->bytes * row->packets * 1e-9;
    if (!row->available)
        return -1;
    if (quantity == WITH_SUMS || quantity == WITHOUT_SUMS)
        return row->checksum == (quantity == WITH_SUMS) ? row->gbs : -1;
    const double seconds = quantity == BOUND ? row->bound_s : row->baseline_s[quantity - NAIVE];
    return seconds > 0 ? bytes / seconds : -1;
}

static void find_range(plot_t *plot)
{
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_row_t *row = &plot->run->rows[i];
        for (int q = 0; q < QUANTITIES; q++)
            bench_axes_include(&plot->axes, row->bytes, value_of(row, (quantity_t)q));
    }
}

/* Rows of one pattern, route and policy follow each other in the order of the sizes given. */
static void draw_line(plot_t *plot, selvage_route_t route, quantity_t quantity, const char *style)
{
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_row_t *row = &plot->run->rows[i];
        const double value = value_of(row, quantity);
        if (row->pattern == plot->pattern && row->mode == plot->mode && row->route == route && value > 0)
            bench_axes_point(&plot->axes, row->bytes, value);
    }
    bench_axes_line(&plot->axes, style);
}

/* Rivals are the same on every route that leaves the rank: those of the first such route are drawn. */
static void draw_panel(plot_t *plot)
{
    char style[96], title[64];
    selvage_route_t first = SELVAGE_ROUTE_STAGED;
    snprintf(title, sizeof title, "%s, %s", bench_pattern_name(plot->pattern), bench_mode_name(plot->mode));
    bench_axes_grid(&plot->axes, title);
    for (int route = BENCH_ROUTES - 1; route >= SELVAGE_ROUTE_SELF; route--) {
        if (!plot->run->options.routes[route])
            continue;
        first = route == SELVAGE_ROUTE_SELF ? first : (selvage_route_t)route;
        for (int q = WITH_SUMS; q <= BOUND; q++) {
            snprintf(style, sizeof style, "stroke=\"%s\" %s", route_colours[route], shapes[q]);
            draw_line(plot, (selvage_route_t)route, (quantity_t)q, style);
        }
    }
    for (int baseline = 0; baseline < BENCH_BASELINES; baseline++) {
        snprintf(style, sizeof style, "stroke=\"%s\" %s", baseline_colours[baseline], dashed);
        draw_line(plot, first, (quantity_t)(NAIVE + baseline), style);
    }
}

static void draw_legend(const plot_t *plot)
{
    static const char *const meanings[] = {"with checksums", "without", "bound"};
    char style[96];
    int y = BENCH_AXES_TOP;
    for (int route = SELVAGE_ROUTE_SELF; route < BENCH_ROUTES; route++) {
        if (!plot->run->options.routes[route])
            continue;
        snprintf(style, sizeof style, "stroke=\"%s\" %s", route_colours[route], shapes[WITH_SUMS]);
        bench_axes_legend(&plot->axes, y, style, selvage_route_name((selvage_route_t)route));
        y += BENCH_AXES_STEP;
    }
    for (int baseline = 0; baseline < BENCH_BASELINES; baseline++, y += BENCH_AXES_STEP) {
        snprintf(style, sizeof style, "stroke=\"%s\" %s", baseline_colours[baseline], dashed);
        bench_axes_legend(&plot->axes, y, style, bench_baseline_name((bench_baseline_t)baseline));
    }
    y += BENCH_AXES_STEP / 2;
    for (int shape = WITH_SUMS; shape <= BOUND; shape++, y += BENCH_AXES_STEP) {
        snprintf(style, sizeof style, "stroke=\"black\" %s", shapes[shape]);
        bench_axes_legend(&plot->axes, y, style, meanings[shape]);
    }
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
            bench_axes_next(&plot->axes);
        }
    }
}

bool bench_plot_write(const bench_run_t *run, const char *path)
{
    plot_t plot = {.run = run};
    char caption[512], mpi[256];
    int panels = 0;
    bench_axes_init(&plot.axes, "size of a packet", "GB/s sent by each rank");
    find_range(&plot);
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++)
        for (int mode = 0; mode < BENCH_MODES; mode++)
            panels += run->options.patterns[pattern] * run->options.modes[mode];
    tool_mpi_name(mpi, sizeof mpi);
    snprintf(caption, sizeof caption, "selvage-bench %s, exchange: %s, %s", selvage_version(NULL, NULL, NULL),
             run->machine, mpi);
    if (!bench_axes_begin(&plot.axes, path, panels, caption))
        return false;
    draw_panels(&plot);
    draw_legend(&plot);
    return bench_axes_end(&plot.axes);
}
