/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of a run of collectives as an SVG file: a panel for each call, bus bandwidth over size, of the first type
 * and operation, out of place if that was measured. Registered buffers are thick lines, others thin, checksums dotted;
 * each forced way has a colour; NCCL is dashed.
 */
#include <string.h>

#include "tools/bench/bench_axes.h"
#include "tools/bench_coll/bench_coll_report.h"

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b",
                                      "#17becf", "#bcbd22", "#7f7f7f", "#e377c2", "#393b79", "#637939"};
enum { COLOURS = sizeof colours / sizeof colours[0], WAYS_MAX = BENCH_FORCED_MAX * BENCH_FORCED_MAX };

typedef struct plot {
    bench_axes_t axes;
    const bench_coll_run_t *run;
    const bench_coll_row_t *ways[WAYS_MAX]; /* a row of each forced way */
    int way_count;
} plot_t;

static bool same_text(const char *left, const char *right)
{
    return left == right || (left && right && strcmp(left, right) == 0);
}

static bool same_way(const bench_coll_row_t *left, const bench_coll_row_t *right)
{
    return same_text(left->algo, right->algo) && same_text(left->proto, right->proto) &&
           same_text(left->channels, right->channels);
}

static bool is_drawn(const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    const bench_coll_options_t *options = &run->options;
    const bench_case_t *what = &row->what;
    return row->available && bench_call_moves(what->call) && what->type == options->types[0] &&
           (!bench_call_reduces(what->call) || what->op == options->ops[0]) && what->in_place == !options->in_place[0];
}

static double baseline_gbs(const plot_t *plot, const bench_coll_row_t *row, int baseline)
{
    const double seconds = row->baselines.times[baseline].median_s;
    if (seconds <= 0)
        return 0;
    return (double)row->what.bytes / seconds * 1e-9 * bench_call_bus(row->what.call, plot->run->job.size);
}

/* Ranges, and the ways that there are. */
static void look_around(plot_t *plot)
{
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_coll_row_t *row = &plot->run->rows[i];
        bool known = false;
        if (!is_drawn(plot->run, row))
            continue;
        bench_axes_include(&plot->axes, row->what.bytes, row->busbw_gbs);
        for (int baseline = 0; baseline < BENCH_COLL_BASELINES; baseline++)
            bench_axes_include(&plot->axes, row->what.bytes, baseline_gbs(plot, row, baseline));
        for (int w = 0; w < plot->way_count; w++)
            known |= same_way(plot->ways[w], row);
        if (!known && plot->way_count < WAYS_MAX)
            plot->ways[plot->way_count++] = row;
    }
}

static const char *const baseline_styles[BENCH_COLL_BASELINES] = {"stroke=\"black\" stroke-dasharray=\"8 4\"",
                                                                 "stroke=\"#e377c2\" stroke-dasharray=\"8 4\""};

static void own_style(char *style, size_t bytes, const char *colour, bool registered, bool checksum)
{
    snprintf(style, bytes, "stroke=\"%s\" stroke-width=\"%s\"%s", colour, registered ? "2.5" : "1",
             checksum ? " stroke-dasharray=\"2 4\"" : "");
}

static void draw_own(plot_t *plot, bench_call_t call, int way, bool registered, bool checksum)
{
    char style[96];
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_coll_row_t *row = &plot->run->rows[i];
        if (is_drawn(plot->run, row) && row->what.call == call && same_way(row, plot->ways[way]) &&
            row->registered == registered && row->checksum == checksum && row->busbw_gbs > 0)
            bench_axes_point(&plot->axes, row->what.bytes, row->busbw_gbs);
    }
    own_style(style, sizeof style, colours[way % COLOURS], registered, checksum);
    bench_axes_line(&plot->axes, style);
}

/* The same in every row of a case: those of one setting are taken. */
static void draw_baseline(plot_t *plot, bench_call_t call, int baseline)
{
    const bench_coll_row_t *first = NULL;
    for (int i = 0; i < plot->run->row_count; i++) {
        const bench_coll_row_t *row = &plot->run->rows[i];
        const double gbs = baseline_gbs(plot, row, baseline);
        if (!is_drawn(plot->run, row) || row->what.call != call || gbs <= 0)
            continue;
        first = first ? first : row;
        if (same_way(row, first) && row->registered == first->registered && row->checksum == first->checksum)
            bench_axes_point(&plot->axes, row->what.bytes, gbs);
    }
    bench_axes_line(&plot->axes, baseline_styles[baseline]);
}

static void draw_panel(plot_t *plot, bench_call_t call)
{
    bench_axes_grid(&plot->axes, bench_call_name(call));
    for (int way = 0; way < plot->way_count; way++) {
        for (int kind = 0; kind < 4; kind++)
            draw_own(plot, call, way, kind & 1, kind & 2);
    }
    for (int baseline = 0; baseline < BENCH_COLL_BASELINES; baseline++)
        draw_baseline(plot, call, baseline);
    bench_axes_next(&plot->axes);
}

static void draw_legend(const plot_t *plot)
{
    char text[64], style[96];
    int y = BENCH_AXES_TOP;
    for (int way = 0; way < plot->way_count; way++, y += BENCH_AXES_STEP) {
        const bench_coll_row_t *row = plot->ways[way];
        snprintf(text, sizeof text, "%s %s %s", row->algo ? row->algo : "auto", row->proto ? row->proto : "",
                 row->channels ? row->channels : "");
        snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"2.5\"", colours[way % COLOURS]);
        bench_axes_legend(&plot->axes, y, style, text);
    }
    bench_axes_legend(&plot->axes, y, baseline_styles[0], "nccl");
    bench_axes_legend(&plot->axes, y + BENCH_AXES_STEP, baseline_styles[1], "nccl, tuned");
    y += 5 * BENCH_AXES_STEP / 2;
    for (int kind = 0; kind < 4; kind++, y += BENCH_AXES_STEP) {
        snprintf(text, sizeof text, "%s, %s", kind & 1 ? "registered" : "not registered", kind & 2 ? "checked" : "not");
        own_style(style, sizeof style, "black", kind & 1, kind & 2);
        bench_axes_legend(&plot->axes, y, style, text);
    }
}

bool bench_coll_plot_write(const bench_coll_run_t *run, const char *path)
{
    plot_t plot = {.run = run};
    char caption[512], mpi[256];
    int panels = 0;
    bench_axes_init(&plot.axes, "size", "GB/s (bus bandwidth)");
    look_around(&plot);
    for (int call = 0; call < BENCH_CALLS; call++)
        panels += run->options.calls[call] && bench_call_moves((bench_call_t)call);
    tool_mpi_name(mpi, sizeof mpi);
    snprintf(caption, sizeof caption, "selvage-bench %s, coll: %s, %s, %s", selvage_version(NULL, NULL, NULL),
             run->machine, selvage_type_name(run->options.types[0]), mpi);
    if (!bench_axes_begin(&plot.axes, path, panels, caption))
        return false;
    for (int call = 0; call < BENCH_CALLS; call++) {
        if (run->options.calls[call] && bench_call_moves((bench_call_t)call))
            draw_panel(&plot, (bench_call_t)call);
    }
    draw_legend(&plot);
    return bench_axes_end(&plot.axes);
}
