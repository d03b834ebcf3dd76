/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls through the FIFO of work: groups, which go through it where they have more calls than a launch's argument
 * holds, again and again without a synchronisation, so that it fills. A launch may wait for room in it and for nothing
 * else; how often it did is what the library counted.
 */
#include <stdio.h>

#include "tools/bench_coll/bench_coll_report.h"
#include "tools/bench_coll/bench_coll_run.h"
#include "tools/bench/bench_report.h"

enum { GROUPS = 3, FIFOS = 2, COUNT = 32 };

typedef struct fifo_row {
    uint64_t fifo_bytes, launches, waits;
    int group, calls;
    double elapsed_s, enqueued_s; /* of the slowest rank */
    long wrong;
} fifo_row_t;

static selvage_coll_stats_t read_stats(const bench_setting_t *setting)
{
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    tool_try(setting->ground->job, "coll_stats", selvage_coll_stats(setting->coll, &stats));
    return stats;
}

static void fill_fifo(bench_coll_run_t *run, bench_made_t *made, fifo_row_t *row)
{
    const selvage_coll_stats_t before = read_stats(made->setting);
    const int groups = (run->options.fifo_calls + row->group - 1) / row->group;
    row->calls = groups * row->group;
    tool_barrier(&run->job);
    const double start = tool_seconds();
    for (int i = 0; i < groups; i++)
        bench_made_enqueue(made);
    double taken[2] = {tool_seconds() - start};
    bench_made_finish(made);
    taken[1] = tool_seconds() - start;
    tool_reduce(&run->job, run->job.comm, taken, 2, MPI_DOUBLE, MPI_MAX);
    const selvage_coll_stats_t after = read_stats(made->setting);
    long counts[2] = {(long)(after.fifo_waits - before.fifo_waits), (long)(after.launches - before.launches)};
    tool_reduce(&run->job, run->job.comm, counts, 2, MPI_LONG, MPI_MAX);
    row->enqueued_s = taken[0];
    row->elapsed_s = taken[1];
    row->waits = (uint64_t)counts[0];
    row->launches = (uint64_t)counts[1];
    row->fifo_bytes = after.fifo_bytes;
}

static void print_row(const bench_coll_run_t *run, const fifo_row_t *row)
{
    if (run->job.rank != 0)
        return;
    printf("%10llu %6d %8d %9llu %9llu %12.3f %12.3f %6ld%s\n", (unsigned long long)row->fifo_bytes, row->group,
           row->calls, (unsigned long long)row->launches, (unsigned long long)row->waits,
           row->enqueued_s * 1e6 / row->calls, row->elapsed_s * 1e6 / row->calls, row->wrong,
           row->wrong ? "  WRONG ELEMENTS" : "");
    fflush(stdout);
}

/* All groups on one communicator with a FIFO of that size, 0: its own choice. */
static void measure_fifo(bench_coll_run_t *run, size_t fifo_bytes, fifo_row_t rows[GROUPS])
{
    static const int groups[GROUPS] = {1, 8, 64};
    const bench_wish_t wish = {.fifo_bytes = fifo_bytes};
    const bench_case_t what = bench_case_of(BENCH_ALL_REDUCE, SELVAGE_FLOAT32, BENCH_SUM, 0, COUNT * sizeof(float),
                                            run->job.size);
    bench_setting_t setting;
    bench_setting_open(&setting, &run->ground, &wish);
    for (int g = 0; g < GROUPS; g++) {
        bench_made_t made;
        rows[g] = (fifo_row_t){.group = groups[g]};
        if (!setting.ready || !bench_made_init(&made, &setting, &what, groups[g]))
            tool_die_text(&run->job, setting.reason);
        rows[g].wrong = bench_coll_verify(run, &made);
        fill_fifo(run, &made, &rows[g]);
        bench_made_fini(&made);
        print_row(run, &rows[g]);
    }
    bench_setting_close(&setting);
}

static bool write_json(const bench_coll_run_t *run, const fifo_row_t *rows, int count)
{
    FILE *file = fopen(run->options.json, "w");
    if (!file)
        return false;
    bench_coll_report_json_head(file, run);
    fprintf(file, "  \"rows\": [\n");
    for (int i = 0; i < count; i++) {
        const fifo_row_t *row = &rows[i];
        fprintf(file,
                "    {\"fifo_bytes\": %llu, \"group\": %d, \"calls\": %d, \"launches\": %llu, \"fifo_waits\": %llu, "
                "\"host_s\": %.6g, \"elapsed_s\": %.6g, \"wrong\": %ld}%s\n",
                (unsigned long long)row->fifo_bytes, row->group, row->calls, (unsigned long long)row->launches,
                (unsigned long long)row->waits, row->enqueued_s / row->calls, row->elapsed_s / row->calls, row->wrong,
                i + 1 < count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

bool bench_coll_fifo(bench_coll_run_t *run)
{
    fifo_row_t rows[FIFOS * GROUPS];
    const size_t fifos[FIFOS] = {run->options.fifo_bytes, 0};
    bool good = true;
    if (run->job.rank == 0) {
        bench_coll_report_title(run);
        printf("all-reduces of %d floats, enqueued without a pause; waits: launches that waited for room in the FIFO;\n"
               "host and all: time of a call until it is enqueued, and until it is complete; slowest rank\n\n"
               "%10s %6s %8s %9s %9s %12s %12s %6s\n",
               COUNT, "FIFO", "group", "calls", "launches", "waits", "host us", "all us", "wrong");
    }
    for (int f = 0; f < FIFOS; f++)
        measure_fifo(run, fifos[f], rows + f * GROUPS);
    for (int i = 0; i < FIFOS * GROUPS; i++)
        good &= rows[i].wrong == 0;
    if (run->job.rank != 0 || !run->options.json || write_json(run, rows, FIFOS * GROUPS))
        return good;
    fprintf(stderr, "selvage-bench: %s could not be written\n", run->options.json);
    return false;
}
