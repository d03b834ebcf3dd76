/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an exchange costs a host that has other work: the clock is read around start and around each test, and what
 * lies between is not counted. Packets go to other GPUs of the node, both ways in turn.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/bench_report.h"
#include "tools/bench/bench_tables.h"
#include "tools/common/tool_json.h"

enum { PACKETS = 6, WARM_UPS = 5, EPOCHS = 200 };
static const double target_us = 30;

typedef struct host_row {
    size_t bytes;
    bool checksum, available;
    char reason[BENCH_REASON_BYTES];
    double start_s, polls_s, inside_s, elapsed_s, polls; /* of an epoch, medians of the slowest rank */
    int epochs;
} host_row_t;

typedef struct host_run {
    bench_run_t *run;
    host_row_t rows[2 * BENCH_SIZES_MAX];
    int count;
} host_run_t;

static void other_work(int us)
{
    const double end = tool_seconds() + 1e-6 * us;
    do
        sched_yield();
    while (tool_seconds() < end);
}

static void run_epoch(const tool_traffic_t *traffic, selvage_exchange_t *ex, int interval_us, host_row_t *out)
{
    tool_barrier(traffic->job);
    *out = (host_row_t){.polls = 0};
    const double begin = tool_seconds();
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(ex, traffic->stream));
    out->start_s = tool_seconds() - begin;
    for (;;) {
        const double before = tool_seconds();
        const selvage_status_t status = selvage_exchange_test(ex, traffic->stream);
        out->polls_s += tool_seconds() - before;
        out->polls++;
        if (status == SELVAGE_SUCCESS)
            break;
        if (status != SELVAGE_IN_PROGRESS)
            tool_die(traffic->job, "exchange_test", status);
        if (interval_us > 0)
            other_work(interval_us);
    }
    out->elapsed_s = tool_seconds() - begin;
    out->inside_s = out->start_s + out->polls_s;
}

static void measure_row(bench_run_t *run, selvage_exchange_t *ex, host_row_t *row)
{
    const tool_job_t *job = &run->job;
    const int epochs = run->options.repetitions ? run->options.repetitions : EPOCHS;
    enum { FIGURES = 5 };
    double *all = tool_malloc(job, (size_t)epochs * FIGURES * sizeof *all);
    for (int i = -WARM_UPS; i < epochs; i++) {
        host_row_t one;
        run_epoch(&run->traffic, ex, run->options.poll_us, &one);
        const double figures[FIGURES] = {one.start_s, one.polls_s, one.inside_s, one.elapsed_s, one.polls};
        for (int f = 0; i >= 0 && f < FIGURES; f++)
            all[f * epochs + i] = figures[f];
    }
    double *const slots[FIGURES] = {&row->start_s, &row->polls_s, &row->inside_s, &row->elapsed_s, &row->polls};
    for (int f = 0; f < FIGURES; f++)
        *slots[f] = tool_median_of_slowest(job, all + f * epochs, epochs);
    row->epochs = epochs;
    free(all);
}

static void print_row(const bench_run_t *run, const host_row_t *row)
{
    char size[24];
    if (run->job.rank != 0)
        return;
    printf("%8s %-4s ", tool_size_text(size, sizeof size, row->bytes), row->checksum ? "on" : "off");
    if (row->available)
        printf("%6d %9.1f %6.0f %9.1f %9.1f %10.1f   %s\n", row->epochs, row->start_s * 1e6, row->polls,
               row->polls_s * 1e6, row->inside_s * 1e6, row->elapsed_s * 1e6,
               row->inside_s * 1e6 < target_us ? "yes" : "no");
    else
        printf("n/a: %s\n", row->reason);
    fflush(stdout);
}

static void measure_policy(host_run_t *all, size_t bytes, bool checksum)
{
    bench_run_t *run = all->run;
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_PEER,
                                              .checksum = checksum ? SELVAGE_CHECKSUM_RETRY : SELVAGE_CHECKSUM_OFF};
    host_row_t *row = &all->rows[all->count++];
    tool_ring_t ring;
    selvage_exchange_t *ex = NULL;
    *row = (host_row_t){.bytes = bytes, .checksum = checksum};
    tool_ring_world(&run->job, &ring);
    tool_traffic_shape(&run->traffic, &ring, PACKETS, bytes, false, false);
    if (run->traffic.packets == 0)
        snprintf(row->reason, sizeof row->reason, "no rank has a neighbour");
    else if (bytes * PACKETS > run->traffic.capacity)
        snprintf(row->reason, sizeof row->reason, "more memory than half of this host's");
    else if (tool_traffic_commit(&run->traffic, &params, &ex) == SELVAGE_ERR_UNSUPPORTED)
        snprintf(row->reason, sizeof row->reason, "%s", selvage_error_detail());
    row->available = ex != NULL;
    if (ex)
        measure_row(run, ex, row);
    selvage_exchange_destroy(ex);
    print_row(run, row);
}

static bool write_json(const host_run_t *all)
{
    FILE *file = fopen(all->run->options.json, "w");
    if (!file)
        return false;
    bench_report_json_head(file, all->run);
    fprintf(file, "  \"packets\": %d,\n  \"poll_interval_us\": %d,\n  \"target_us\": %g,\n  \"rows\": [\n", PACKETS,
            all->run->options.poll_us, target_us);
    for (int i = 0; i < all->count; i++) {
        const host_row_t *row = &all->rows[i];
        fprintf(file, "    {\"size\": %zu, \"checksum\": %s, \"available\": %s, \"reason\": ", row->bytes,
                row->checksum ? "true" : "false", row->available ? "true" : "false");
        tool_json_text(file, row->reason);
        fprintf(file,
                ", \"start_s\": %.6g, \"polls\": %.6g, \"polls_s\": %.6g, \"inside_s\": %.6g, \"elapsed_s\": %.6g, "
                "\"repetitions\": %d}%s\n",
                row->start_s, row->polls, row->polls_s, row->inside_s, row->elapsed_s, row->epochs,
                i + 1 < all->count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

bool bench_host(bench_run_t *run)
{
    static host_run_t all;
    const bench_options_t *options = &run->options;
    all.run = run;
    if (run->job.rank == 0) {
        bench_report_title(run);
        printf("%d packets to other devices of the node, a poll every %d us; inside: time of the host in start and\n"
               "polls; elapsed: from start until a poll says complete; medians of the slowest rank\n\n"
               "%8s %-4s %6s %9s %6s %9s %9s %10s   under %g us\n",
               PACKETS, options->poll_us, "size", "sums", "times", "start us", "polls", "polls us", "inside us",
               "elapsed us", target_us);
        fflush(stdout);
    }
    for (int i = 0; i < options->size_count; i++) {
        for (int on = 1; on >= 0; on--) {
            if (options->checksums[on])
                measure_policy(&all, options->sizes[i], on);
        }
    }
    if (run->job.rank != 0 || !options->json || write_json(&all))
        return true;
    fprintf(stderr, "selvage-bench: %s could not be written\n", options->json);
    return false;
}
