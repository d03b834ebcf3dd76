/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a sweep: which way was the fastest at which size, as a tuning file for SELVAGE_COLL_TUNE. The first of the
 * types and operations counts, out of place unless only in place was measured, and registered buffers unless only
 * others were.
 */
#include <string.h>

#include "tools/bench_coll/bench_coll_run.h"
#include "tools/bench/bench_report.h"

/* Channels that were not forced are left to the library. */
static const char *row_channels(const bench_coll_row_t *row)
{
    return row->channels ? row->channels : "0";
}

static const char *row_algo(const bench_coll_row_t *row)
{
    return row->way.algo[0] ? row->way.algo : row->algo;
}

static const char *row_proto(const bench_coll_row_t *row)
{
    return row->way.proto[0] ? row->way.proto : row->proto;
}

static bool same_way(const bench_coll_row_t *left, const bench_coll_row_t *right)
{
    return strcmp(row_algo(left), row_algo(right)) == 0 && strcmp(row_proto(left), row_proto(right)) == 0 &&
           strcmp(row_channels(left), row_channels(right)) == 0;
}

static bool counts(const bench_coll_run_t *run, const bench_case_t *what)
{
    const bench_coll_options_t *options = &run->options;
    return bench_call_moves(what->call) && what->type == options->types[0] &&
           (!bench_call_reduces(what->call) || what->op == options->ops[0]) &&
           what->in_place == !options->in_place[0];
}

/* NULL if no row of the case is right. */
static const bench_coll_row_t *fastest(const bench_coll_run_t *run, const bench_case_t *what)
{
    const bench_coll_row_t *best = NULL;
    for (int r = 0; r < run->row_count; r++) {
        const bench_coll_row_t *row = &run->rows[r];
        const bool fits = row->available && row->wrong == 0 && row->checksum == run->options.checksum[1] &&
                          row->registered == run->options.registered[1] &&
                          bench_case_same(&row->what, what);
        if (fits && (!best || row->times.median_s < best->times.median_s))
            best = row;
    }
    return best;
}

static void print_winner(const bench_coll_row_t *row)
{
    const double theirs = row->baselines.times[0].median_s;
    printf("%-14s %9zu %-10s %-6s %3s %10.2f %8.3f", bench_call_name(row->what.call), row->what.bytes, row_algo(row),
           row_proto(row), row_channels(row), row->times.median_s * 1e6, row->busbw_gbs);
    if (theirs > 0)
        printf(" %10.2f %6.2f\n", theirs * 1e6, theirs / row->times.median_s);
    else
        printf(" %10s %6s\n", "n/a", "n/a");
}

static void write_line(FILE *file, const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    const bool pair = row->what.call == BENCH_SENDRECV; /* as the library calls it */
    fprintf(file, "%s %d %zu %s %s %s\n", pair ? "pair" : bench_call_name(row->what.call), run->job.size,
            row->what.bytes, row_algo(row), row_proto(row), row_channels(row));
}

/* A line holds up to its size: of sizes that follow each other with the same winner, the last has it. */
static void write_lines(FILE *file, const bench_coll_run_t *run)
{
    const bench_coll_row_t *open = NULL;
    for (int i = 0; i < run->case_count; i++) {
        const bench_coll_row_t *row = counts(run, &run->cases[i]) ? fastest(run, &run->cases[i]) : NULL;
        if (!row)
            continue;
        print_winner(row);
        if (open && (open->what.call != row->what.call || !same_way(open, row)))
            write_line(file, run, open);
        open = row;
    }
    if (open)
        write_line(file, run, open);
}

bool bench_coll_winners(const bench_coll_run_t *run)
{
    FILE *file = fopen(run->options.sweep, "w");
    if (!file)
        return false;
    printf("\nfastest\n%-14s %9s %-10s %-6s %3s %10s %8s %10s %6s\n", "call", "size", "algo", "proto", "ch",
           "median us", "busbw", "nccl us", "times");
    fprintf(file, "# For SELVAGE_COLL_TUNE, measured by selvage-bench coll --sweep on %s, with %s.\n"
                  "# call ranks bytes-max algorithm protocol channels (0: as suits the size)\n",
            run->machine, selvage_type_name(run->options.types[0]));
    write_lines(file, run);
    return bench_report_close(file);
}
