/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mixed exchanges under each policy. The policy is a variable that is read when a communicator is created, so each
 * figure has a communicator of its own, with a timeline out of which the bandwidth of the copies down is read. Nodes
 * of two ranks are made of one host by SELVAGE_RANKS_PER_NODE, which stands in for the interconnect that it lacks.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench_report.h"
#include "tools/bench/bench_tables.h"
#include "tools/common/tool_json.h"

enum { PACKETS = 8, NODE = 2, SETTLING_EPOCHS = 12, EPOCHS_MAX = 100, EPOCHS_MIN = 5 };

/* What a row moves, and under which policy. The first is what the others' copies down are compared with. */
typedef enum what { STAGED_ONLY, PEER_ONLY, DEFERRED, IMMEDIATE, MEASURED, WHATS } what_t;

static const char *const what_names[WHATS] = {"staged only", "peer only", "deferred", "immediate", "measured"};
static const char *const policies[WHATS] = {"deferred", "deferred", "deferred", "immediate", "measured"};

typedef struct policy_row {
    size_t bytes;
    what_t what;
    bool available;
    bench_times_t times;
    double gbs, d2h_gbs, d2h_share; /* payload and copies down of a rank; 0: unknown */
    long checked, bad;
} policy_row_t;

typedef struct policies_run {
    bench_run_t *run;
    char path[300]; /* of the timeline, the same on all ranks; only rank 0 writes it */
    policy_row_t rows[BENCH_SIZES_MAX * WHATS];
    int count;
} policies_run_t;

/* Even packets stay on the node, odd ones go to a rank of the next; both ways alike, so every pair is a pair. */
static void shape(tool_traffic_t *traffic, what_t what, size_t bytes)
{
    const int rank = traffic->job->rank, size = traffic->job->size, on = rank ^ 1;
    const int off = (rank % NODE == 0 ? rank + size - 1 : rank + 1) % size;
    traffic->bytes = bytes;
    traffic->packets = what <= PEER_ONLY ? PACKETS / 2 : PACKETS;
    for (int p = 0; p < traffic->packets; p++) {
        const bool stays = what == PEER_ONLY || (what != STAGED_ONLY && p % 2 == 0);
        traffic->send_peer[p] = traffic->recv_peer[p] = stays ? on : off;
    }
}

/* The half that leaves the node is staged and the other is not, or there is nothing to compare. */
static bool routes_as_meant(const tool_traffic_t *traffic, const selvage_exchange_t *ex)
{
    bool right = true;
    for (int p = 0; p < traffic->packets; p++) {
        selvage_route_t route;
        tool_try(traffic->job, "send_route", selvage_exchange_send_route(ex, (uint32_t)p, &route));
        right &=
            route == (traffic->send_peer[p] == (traffic->job->rank ^ 1) ? SELVAGE_ROUTE_PEER : SELVAGE_ROUTE_STAGED);
    }
    return bench_all(traffic->job, right);
}

/* The number of epochs is that which fits the time, agreed on by all ranks. */
static int count_epochs(const bench_run_t *run, double seconds_each)
{
    tool_reduce(&run->job, run->job.comm, &seconds_each, 1, MPI_DOUBLE, MPI_MAX);
    if (run->options.repetitions)
        return run->options.repetitions < EPOCHS_MAX ? run->options.repetitions : EPOCHS_MAX;
    const double fit = run->options.seconds / seconds_each;
    return fit > EPOCHS_MAX ? EPOCHS_MAX : fit < EPOCHS_MIN ? EPOCHS_MIN : (int)fit;
}

/* The policy that measures has made up its mind when the epochs that are not counted are over. */
static void measure_epochs(bench_run_t *run, selvage_exchange_t *ex, policy_row_t *row)
{
    tool_traffic_t *traffic = &run->traffic;
    double seconds[EPOCHS_MAX], last = 0;
    tool_traffic_fill(traffic);
    for (int i = 0; i < SETTLING_EPOCHS; i++)
        last = tool_traffic_epoch(traffic, ex);
    const int epochs = count_epochs(run, last);
    for (int i = 0; i < epochs; i++)
        seconds[i] = tool_traffic_epoch(traffic, ex);
    row->times = (bench_times_t){.repetitions = epochs};
    row->times.median_s = tool_median_of_slowest(&run->job, seconds, epochs); /* sorts them */
    row->times.p99_s = seconds[(99 * epochs + 99) / 100 - 1];
    row->times.interval = tool_median_interval(seconds, epochs);
    row->gbs = (double)row->bytes * traffic->packets / row->times.median_s * 1e-9;
    long counts[2] = {traffic->packets, tool_traffic_check(traffic)};
    tool_reduce(&run->job, run->job.comm, counts, 2, MPI_LONG, MPI_SUM);
    row->checked = counts[0];
    row->bad = counts[1];
}

static void measure_figure(policies_run_t *all, policy_row_t *row)
{
    bench_run_t *run = all->run;
    tool_traffic_t *traffic = &run->traffic;
    const selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = traffic->device};
    selvage_comm_t *comm, *own = traffic->comm;
    selvage_buffer_t *registered;
    selvage_exchange_t *ex = NULL;
    setenv("SELVAGE_INTRANODE", policies[row->what], 1);
    tool_try(&run->job, "comm_create", selvage_comm_create(run->job.comm, &params, &comm));
    if (selvage_buffer_register(comm, traffic->device_recv, traffic->capacity, &registered) != SELVAGE_SUCCESS)
        registered = NULL;
    traffic->comm = comm;
    shape(traffic, row->what, row->bytes);
    row->available = tool_traffic_commit(traffic, NULL, &ex) == SELVAGE_SUCCESS && routes_as_meant(traffic, ex);
    if (row->available)
        measure_epochs(run, ex, row);
    traffic->comm = own;
    selvage_exchange_destroy(ex);
    tool_try(&run->job, "buffer_unregister", selvage_buffer_unregister(registered));
    selvage_comm_destroy(comm);
    if (row->available && run->job.rank == 0)
        row->d2h_gbs = bench_trace_d2h_gbs(&run->job, all->path, SETTLING_EPOCHS);
}

static void print_row(const policies_run_t *all, const policy_row_t *row)
{
    char size[24], median[24];
    if (all->run->job.rank != 0)
        return;
    printf("%8s %-12s ", tool_size_text(size, sizeof size, row->bytes), what_names[row->what]);
    if (!row->available) {
        printf("n/a: the packets do not go by peer and staged here\n");
        return;
    }
    tool_figure_text(median, sizeof median, 1, row->times.median_s * 1e6, bench_times_noisy(&row->times));
    printf("%6d %10s %10.1f %9.3f", row->times.repetitions, median, row->times.p99_s * 1e6, row->gbs);
    if (row->d2h_gbs > 0)
        printf(" %9.3f", row->d2h_gbs);
    else
        printf(" %9s", row->what == PEER_ONLY ? "" : "n/a");
    if (row->d2h_share > 0)
        printf(" %9.0f%%", 100 * row->d2h_share);
    printf("%s\n", row->bad ? "  WRONG PACKETS" : "");
    fflush(stdout);
}

static void measure_all(policies_run_t *all)
{
    const bench_options_t *options = &all->run->options;
    for (int i = 0; i < options->size_count; i++) {
        const policy_row_t *alone = &all->rows[all->count];
        if (options->sizes[i] * PACKETS > all->run->traffic.capacity)
            continue;
        for (int what = 0; what < WHATS; what++) {
            policy_row_t *row = &all->rows[all->count++];
            *row = (policy_row_t){.bytes = options->sizes[i], .what = (what_t)what};
            measure_figure(all, row);
            if (row->d2h_gbs > 0 && alone->d2h_gbs > 0)
                row->d2h_share = row->d2h_gbs / alone->d2h_gbs;
            print_row(all, row);
        }
    }
}

static bool write_json(const policies_run_t *all)
{
    FILE *file = fopen(all->run->options.json, "w");
    if (!file)
        return false;
    bench_report_json_head(file, all->run);
    fprintf(file, "  \"ranks_per_node\": %d,\n  \"rows\": [\n", NODE);
    for (int i = 0; i < all->count; i++) {
        const policy_row_t *row = &all->rows[i];
        fprintf(file,
                "    {\"size\": %zu, \"what\": \"%s\", \"available\": %s, \"repetitions\": %d, \"median_s\": %.6g, "
                "\"p99_s\": %.6g, \"gbs\": %.6g, \"d2h_gbs\": %.6g, \"d2h_share\": %.6g, \"packets_checked\": %ld, "
                "\"bad_packets\": %ld}%s\n",
                row->bytes, what_names[row->what], row->available ? "true" : "false", row->times.repetitions,
                row->times.median_s, row->times.p99_s, row->gbs, row->d2h_gbs, row->d2h_share, row->checked, row->bad,
                i + 1 < all->count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

/* Rank 0 chooses the file of the timelines. */
static bool choose_path(policies_run_t *all)
{
    const tool_job_t *job = &all->run->job;
    const char *folder = getenv("TMPDIR");
    snprintf(all->path, sizeof all->path, "%.200s/selvage-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    int file = job->rank == 0 ? mkstemp(all->path) : 0;
    if (job->rank == 0 && file >= 0)
        close(file);
    tool_bcast(job, &file, 1, MPI_INT);
    tool_bcast(job, all->path, (int)sizeof all->path, MPI_CHAR);
    return file >= 0;
}

static void print_head(const bench_run_t *run)
{
    bench_report_title(run);
    printf("nodes of %d ranks, %d packets from each rank, half of them on its node (peer), half to another (staged);\n"
           "down: GB/s of a rank's copies from device to host, and the share of what they reach alone\n\n"
           "%8s %-12s %6s %10s %10s %9s %9s %10s\n",
           NODE, PACKETS, "size", "policy", "times", "median us", "p99 us", "GB/s", "down GB/s", "of alone");
    fflush(stdout);
}

bool bench_policies(bench_run_t *run)
{
    static policies_run_t all;
    long bad = 0;
    all.run = run;
    if (run->job.size < 2 * NODE || run->job.size % NODE != 0 || run->job.hosts != 1) {
        if (run->job.rank == 0)
            printf("policies: n/a, wants an even number of ranks on one host, %d at least\n", 2 * NODE);
        return true;
    }
    if (!choose_path(&all))
        tool_die_text(&run->job, "no temporary file can be made");
    setenv("SELVAGE_RANKS_PER_NODE", "2", 1);
    setenv("SELVAGE_TRACE", all.path, 1);
    setenv("SELVAGE_TRACE_EVENTS", "1048576", 0);
    if (run->job.rank == 0)
        print_head(run);
    measure_all(&all);
    for (int i = 0; i < all.count; i++)
        bad += all.rows[i].bad;
    if (run->job.rank != 0)
        return bad == 0;
    (void)unlink(all.path);
    if (run->options.json && !write_json(&all)) {
        fprintf(stderr, "selvage-bench: %s could not be written\n", run->options.json);
        return false;
    }
    return bad == 0;
}
