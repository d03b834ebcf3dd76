/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. The exchange and its legs run in the same process over the same buffers within seconds of each
 * other, so that their ratio means something on a busy machine. Filling and checking are outside of the timed part.
 * The first epoch of a row is checked like the others and not timed.
 */
#include "tools/smoke/smoke_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool_options.h"
#include "tools/smoke/smoke_report.h"

enum { LEG_REPEATS = 7, LEG_REPEATS_FEW = 3, FEW_RANKS = 64, START_BYTES_MAX = 64 << 10 };
/* Memory of a run per byte of packets: four buffers of this program's, the rest Selvage's staging, on the safe side. */
static const double memory_factor = 8, memory_share = 0.6;

static void take_segment(void *arg, const selvage_setting_t *setting)
{
    smoke_run_t *run = arg;
    if (strcmp(setting->name, "SELVAGE_SEGMENT_BYTES") == 0 && !tool_option_size(setting->value, &run->segment_bytes))
        run->segment_bytes = 1 << 20;
}

/* Leaves out default sizes that this many ranks could not hold; what the user asks for is tried. */
static void fit_sizes(smoke_run_t *run)
{
    smoke_options_t *options = &run->options;
    const double available = smoke_memory_available(&run->job) * memory_share;
    while (!options->sizes_given && available > 0 && options->size_count > 1) {
        const double largest = (double)options->sizes[options->size_count - 1];
        if (largest * options->packets * memory_factor <= available)
            return;
        options->size_count--;
        run->sizes_dropped++;
    }
}

static size_t largest_size(const smoke_options_t *options)
{
    size_t largest = 0;
    for (int i = 0; i < options->size_count; i++) {
        if (options->sizes[i] > largest)
            largest = options->sizes[i];
    }
    return largest;
}

void smoke_run_init(smoke_run_t *run)
{
    tool_job_t *job = &run->job;
    tool_try(job, "device_open_local", selvage_device_open_local(NULL, &run->device));
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = run->device};
    tool_try(job, "comm_create", selvage_comm_create(job->comm, &params, &run->comm));
    tool_try(job, "config_visit", selvage_config_visit(take_segment, run));
    run->soft = strcmp(selvage_device_name(run->device), "soft") == 0;
    run->speed_judges = !run->soft && !job->oversubscribed;
    fit_sizes(run);
    tool_traffic_init(&run->traffic, job, run->comm, largest_size(&run->options) * (size_t)run->options.packets);
    if (strcmp(selvage_device_name(run->device), job->gpu.kind) != 0)
        job->gpu.index = -1; /* a GPU that the library does not use */
    bench_peer_init(&run->peer, &run->traffic);
    tool_ring_world(job, &run->world);
    tool_ring_node(job, &run->node);
    smoke_wire_find(job, run->options.wire_gbs, &run->wire);
}

void smoke_run_fini(smoke_run_t *run)
{
    tool_ring_fini(&run->node);
    bench_peer_fini(&run->peer);
    tool_traffic_fini(&run->traffic);
    selvage_comm_destroy(run->comm);
    selvage_device_close(run->device);
}

/* Chooses peers for a route; false, with the reason, where no rank has any. */
static bool shape_row(smoke_run_t *run, smoke_row_t *row)
{
    const bool self = row->route == SELVAGE_ROUTE_SELF, staged = row->route == SELVAGE_ROUTE_STAGED;
    const bool anywhere = self || staged || row->route == SELVAGE_ROUTE_DIRECT;
    tool_traffic_shape(&run->traffic, anywhere ? &run->world : &run->node, run->options.packets, row->bytes, self,
                       staged);
    row->packets = run->traffic.packets;
    tool_reduce(&run->job, run->job.comm, &row->packets, 1, MPI_INT, MPI_MAX);
    if (row->packets == 0)
        snprintf(row->reason, sizeof row->reason, "no rank has a neighbour on its node");
    return row->packets > 0;
}

/* An exchange that is not on the forced route would measure something else: that is an error of the library. */
static void insist_on_route(smoke_run_t *run, selvage_exchange_t *ex, selvage_route_t wanted)
{
    for (int p = 0; p < run->traffic.packets; p++) {
        const bool alone = run->traffic.send_peer[p] == run->job.rank;
        selvage_route_t route;
        tool_try(&run->job, "send_route", selvage_exchange_send_route(ex, (uint32_t)p, &route));
        if (route != wanted && !(alone && route == SELVAGE_ROUTE_SELF))
            tool_die_text(&run->job, "commit did not settle on the route that was asked for");
    }
}

static bool commit_row(smoke_run_t *run, smoke_row_t *row, selvage_exchange_t **ex_out)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = row->route};
    if (run->options.no_checksum)
        params.checksum = SELVAGE_CHECKSUM_OFF;
    if (tool_traffic_commit(&run->traffic, &params, ex_out) == SELVAGE_ERR_UNSUPPORTED) {
        snprintf(row->reason, sizeof row->reason, "%s", selvage_error_detail());
        return false;
    }
    insist_on_route(run, *ex_out, row->route);
    return true;
}

static void run_epochs(smoke_run_t *run, smoke_row_t *row, selvage_exchange_t *ex)
{
    double *seconds = tool_malloc(&run->job, (size_t)row->epochs * sizeof(double));
    for (int epoch = -1; epoch < row->epochs; epoch++) {
        smoke_report_progress(run->report, row, epoch + 1);
        tool_traffic_fill(&run->traffic);
        const double taken = tool_traffic_epoch(&run->traffic, ex);
        row->bad += (uint64_t)tool_traffic_check(&run->traffic);
        row->checked += (uint64_t)run->traffic.packets;
        if (epoch >= 0)
            seconds[epoch] = taken;
    }
    row->seconds = tool_median_of_slowest(&run->job, seconds, row->epochs);
    free(seconds);
    uint64_t counts[2] = {row->checked, row->bad};
    tool_reduce(&run->job, run->job.comm, counts, 2, MPI_UINT64_T, MPI_SUM);
    row->checked = counts[0];
    row->bad = counts[1];
}

/* Bytes that leave the busiest host in one epoch; on one host those of one rank, if the user gave the wire's peak. */
static double wire_bytes(smoke_run_t *run, const smoke_row_t *row)
{
    double bytes = 0;
    for (int p = 0; p < run->traffic.packets; p++)
        bytes += tool_job_on_host(&run->job, run->traffic.send_peer[p]) ? 0 : (double)row->bytes;
    tool_reduce(&run->job, run->job.host_comm, &bytes, 1, MPI_DOUBLE, MPI_SUM);
    tool_reduce(&run->job, run->job.comm, &bytes, 1, MPI_DOUBLE, MPI_MAX);
    if (bytes <= 0 && run->wire.told)
        bytes = (double)row->bytes * row->packets;
    return bytes;
}

/* What the smallest exchange of the route took, if it was small; 0 if none was. */
static double start_of_route(const smoke_run_t *run, const smoke_row_t *row)
{
    const smoke_row_t *smallest = NULL;
    for (int i = 0; i < run->row_count; i++) {
        const smoke_row_t *other = &run->rows[i];
        if (other->route == row->route && other->available && other->bytes <= START_BYTES_MAX &&
            other->bytes < row->bytes && (!smallest || other->bytes < smallest->bytes))
            smallest = other;
    }
    return smallest ? smallest->seconds : 0;
}

static double bound_row(const smoke_run_t *run, const smoke_row_t *row)
{
    const size_t piece = run->segment_bytes * (row->route == SELVAGE_ROUTE_SHARED ? 4 : 1);
    double seconds[SMOKE_LEGS_MAX];
    for (int i = 0; i < row->legs.count; i++)
        seconds[i] = row->legs.leg[i].seconds;
    return smoke_bound_s(seconds, row->legs.count, piece ? (row->bytes + piece - 1) / piece : 1,
                         start_of_route(run, row));
}

static void judge_row(smoke_run_t *run, smoke_row_t *row)
{
    const smoke_leg_t *slowest = smoke_legs_slowest(&row->legs);
    const bool measured = row->bytes > 0 && row->seconds > 0;
    row->gbs = measured ? (double)row->bytes * row->packets / row->seconds * 1e-9 : 0;
    row->share_of_leg = measured && slowest ? slowest->seconds / row->seconds : -1;
    row->bound_s = measured && slowest ? bound_row(run, row) : 0;
    row->share_of_bound = row->bound_s > 0 ? row->bound_s / row->seconds : -1;
    row->uses_wire = row->route == SELVAGE_ROUTE_STAGED || row->route == SELVAGE_ROUTE_DIRECT;
    row->share_of_wire = -1;
    if (row->uses_wire && measured) {
        const double bytes = wire_bytes(run, row);
        if (bytes > 0 && run->wire.gbs > 0)
            row->share_of_wire = bytes / row->seconds * 1e-9 / run->wire.gbs;
    }
    row->verdict = smoke_verdict(&(smoke_figures_t){.bad_packets = row->bad,
                                                    .speed_judges = run->speed_judges,
                                                    .leg_s = slowest ? slowest->seconds : 0,
                                                    .share_of_bound = row->share_of_bound,
                                                    .uses_wire = row->uses_wire,
                                                    .share_of_wire = row->share_of_wire});
}

/* The receive buffer is registered for peer, as an application would, so that packets land in it directly. */
static selvage_buffer_t *register_landing(smoke_run_t *run, selvage_route_t route)
{
    selvage_buffer_t *buffer = NULL;
    tool_traffic_t *traffic = &run->traffic;
    if (route != SELVAGE_ROUTE_PEER || traffic->capacity == 0)
        return NULL;
    selvage_status_t status = selvage_buffer_register(run->comm, traffic->device_recv, traffic->capacity, &buffer);
    if (status != SELVAGE_ERR_UNSUPPORTED)
        tool_try(&run->job, "buffer_register", status);
    return buffer;
}

static void measure_row(smoke_run_t *run, smoke_row_t *row)
{
    const bool few = run->options.quick || run->job.size > FEW_RANKS;
    selvage_exchange_t *ex = NULL;
    selvage_buffer_t *buffer = register_landing(run, row->route);
    row->available = shape_row(run, row) && commit_row(run, row, &ex);
    if (row->available) {
        row->epochs = smoke_options_epochs(&run->options, row->bytes, run->job.size);
        smoke_legs_measure(&run->traffic, &run->peer, row->route, few ? LEG_REPEATS_FEW : LEG_REPEATS, &row->legs);
        run_epochs(run, row, ex);
        judge_row(run, row);
        if (run->options.memory)
            smoke_memory_sample(run->comm, &run->memory);
    }
    selvage_exchange_destroy(ex);
    tool_try(&run->job, "buffer_unregister", selvage_buffer_unregister(buffer));
}

static void sum_up(smoke_run_t *run)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    tool_try(&run->job, "comm_stats", selvage_comm_stats(run->comm, &stats));
    uint64_t sums[] = {stats.resends,         stats.bad_digests, stats.bad_records,
                       stats.stale_discarded, stats.asked_again, stats.faults_injected};
    tool_reduce(&run->job, run->job.comm, sums, 6, MPI_UINT64_T, MPI_SUM);
    run->totals = (smoke_totals_t){.resends = sums[0],
                                   .bad_digests = sums[1],
                                   .bad_records = sums[2],
                                   .stale_discarded = sums[3],
                                   .asked_again = sums[4],
                                   .faults_injected = sums[5]};
    for (int i = 0; i < run->suite.row_count; i++) {
        run->totals.results += run->suite.rows[i].cases;
        run->totals.bad_results += run->suite.rows[i].bad;
    }
    for (int i = 0; i < run->row_count; i++) {
        run->totals.checked += run->rows[i].checked;
        run->totals.bad += run->rows[i].bad;
    }
    if (run->options.memory)
        smoke_memory_reduce(&run->job, &run->memory, &run->memory_max, &run->memory_mean);
}

/* After the exchanges; what cannot be here is said and is no failure. */
static void run_suite(smoke_run_t *run)
{
    smoke_suite_init(&run->suite, &run->job, run->comm, run->options.quick);
    smoke_report_suite(run->report, run);
    for (int call = 0; call < SMOKE_CALLS && run->suite.coll; call++)
        smoke_report_call(run->report, smoke_suite_run(&run->suite, (smoke_call_t)call));
    smoke_suite_fini(&run->suite);
}

void smoke_run_all(smoke_run_t *run)
{
    for (int route = SELVAGE_ROUTE_SELF; route < SMOKE_ROUTES; route++) {
        bool available = run->options.routes[route];
        for (int i = 0; i < run->options.size_count && available; i++) {
            smoke_row_t *row = &run->rows[run->row_count++];
            *row = (smoke_row_t){.route = (selvage_route_t)route, .bytes = run->options.sizes[i]};
            measure_row(run, row);
            smoke_report_row(run->report, row);
            available = row->available;
        }
    }
    if (run->options.suite)
        run_suite(run);
    sum_up(run);
}
