/* SPDX-License-Identifier: BSD-3-Clause */
/* What exchanges are compared with: the raw copies of their route, and what else could move the packets. */
#include <string.h>

#include "tools/bench/bench_run.h"

const char *bench_baseline_name(bench_baseline_t baseline)
{
    static const char *const names[BENCH_BASELINES] = {"naive", "aware", "nccl", "nccl_tuned"};
    return names[baseline];
}

static void enqueue_copy(const tool_traffic_t *traffic, void *to, const void *from, int packet,
                         selvage_copy_t direction, void *stream)
{
    const size_t at = (size_t)packet * traffic->bytes;
    tool_try(traffic->job, "copy",
             selvage_device_copy(traffic->device, (char *)to + at, (const char *)from + at, traffic->bytes, direction,
                                 stream));
}

static void finish_stream(void *context)
{
    const tool_traffic_t *traffic = context;
    tool_try(traffic->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
}

static void self_copy(void *context)
{
    const tool_traffic_t *traffic = context;
    for (int p = 0; p < traffic->packets; p++)
        enqueue_copy(traffic, traffic->device_recv, traffic->device_send, p, SELVAGE_COPY_DEVICE_TO_DEVICE,
                     traffic->stream);
}

/* Down and up at once, as a pipeline has them at its best. What stays on the rank is copied on the device, but for
   `staged`, which takes it through the host. */
static void both_copies(void *context)
{
    const bench_run_t *run = context;
    const tool_traffic_t *traffic = &run->traffic;
    for (int p = 0; p < traffic->packets; p++) {
        if (traffic->send_peer[p] == run->job.rank && run->bound_route != SELVAGE_ROUTE_STAGED) {
            enqueue_copy(traffic, traffic->device_recv, traffic->device_send, p, SELVAGE_COPY_DEVICE_TO_DEVICE,
                         traffic->stream);
            continue;
        }
        enqueue_copy(traffic, traffic->host_send, traffic->device_send, p, SELVAGE_COPY_DEVICE_TO_HOST,
                     traffic->stream);
        enqueue_copy(traffic, traffic->device_recv, traffic->host_recv, p, SELVAGE_COPY_HOST_TO_DEVICE,
                     run->second_stream);
    }
}

static void finish_both(void *context)
{
    bench_run_t *run = context;
    finish_stream(&run->traffic);
    tool_try(&run->job, "synchronize", selvage_stream_synchronize(run->traffic.device, run->second_stream));
}

static void naive_staging(void *context)
{
    tool_traffic_t *traffic = context;
    tool_traffic_copy(traffic, traffic->host_send, traffic->device_send, SELVAGE_COPY_DEVICE_TO_HOST);
    tool_traffic_message(traffic);
    tool_traffic_copy(traffic, traffic->device_recv, traffic->host_recv, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void host_message(void *context)
{
    tool_traffic_message(context);
}

/* The MPI reads and writes device memory: the host buffers of the traffic change places with the device's. */
static void aware_message(void *context)
{
    tool_traffic_t swapped = *(tool_traffic_t *)context;
    swapped.host_send = swapped.device_send;
    swapped.host_recv = swapped.device_recv;
    tool_traffic_message(&swapped);
}

/* One queue for all packets, or one for each: the better of the two is the bound. */
static double peer_bound(bench_run_t *run, bench_mode_t mode)
{
    bench_peer_t *peer = &run->peer;
    const bench_work_t work = {bench_peer_copy, bench_peer_finish, peer};
    const int packets = run->traffic.packets, most = packets < BENCH_PEER_LANES ? packets : BENCH_PEER_LANES;
    double best = 0;
    peer->failed = false;
    for (int lanes = 1; peer->ready && lanes <= most; lanes += most > 1 ? most - 1 : 1) {
        peer->lanes = lanes;
        const double median = bench_run_measure(run, mode, work).median_s;
        best = best > 0 && best < median ? best : median;
    }
    return bench_all(&run->job, !peer->failed) ? best : 0;
}

double bench_bound(bench_run_t *run, selvage_route_t route, bench_mode_t mode)
{
    tool_traffic_t *traffic = &run->traffic;
    run->bound_route = route;
    if (mode == BENCH_GRAPH) /* copies are not captured */
        mode = BENCH_STREAM;
    if (route == SELVAGE_ROUTE_SELF)
        return bench_run_measure(run, mode, (bench_work_t){self_copy, finish_stream, traffic}).median_s;
    if (route == SELVAGE_ROUTE_PEER)
        return peer_bound(run, mode);
    if (route != SELVAGE_ROUTE_SHARED && mode != BENCH_WAIT)
        return 0; /* messages are the host's */
    if (route == SELVAGE_ROUTE_DIRECT) /* it was committed, so this MPI takes device pointers */
        return bench_run_measure(run, mode, (bench_work_t){aware_message, NULL, traffic}).median_s;
    const double copies = bench_run_measure(run, mode, (bench_work_t){both_copies, finish_both, run}).median_s;
    if (route == SELVAGE_ROUTE_SHARED)
        return copies;
    const double sent = bench_run_measure(run, mode, (bench_work_t){host_message, NULL, traffic}).median_s;
    return sent > copies ? sent : copies;
}

static bool capture_nccl(void *context)
{
    bench_nccl_t *nccl = context;
    bench_nccl_exchange(nccl);
    return !nccl->failed;
}

/* The communicator of the library's own choice first; of the tuned ones the fastest counts. */
static void measure_nccl(bench_run_t *run, bench_mode_t mode, bench_row_t *row)
{
    bench_nccl_t *nccl = &run->nccl;
    const bench_work_t plain = {bench_nccl_exchange, bench_nccl_finish, nccl};
    for (nccl->current = 0; nccl->ready && nccl->current < nccl->comm_count; nccl->current++) {
        double *seconds = &row->baseline_s[nccl->current == 0 ? BENCH_NCCL : BENCH_NCCL_TUNED];
        bench_work_t work = plain;
        bench_graph_t graph = {&run->job, run->traffic.device, run->traffic.stream, NULL, {0}};
        nccl->failed = false;
        if (mode == BENCH_GRAPH && !bench_graph_open(&graph, capture_nccl, &plain, &work))
            continue; /* such a version cannot be captured */
        const double median = bench_run_measure(run, mode, work).median_s;
        bench_graph_close(&graph);
        nccl->ready = bench_all(&run->job, !nccl->failed);
        if (!nccl->ready || (*seconds > 0 && *seconds <= median))
            continue;
        *seconds = median;
        row->tuned_channels = nccl->comms[nccl->current].channels;
    }
}

void bench_baselines(bench_run_t *run, bench_mode_t mode, bench_row_t *row)
{
    tool_traffic_t *traffic = &run->traffic;
    if (mode == BENCH_WAIT)
        row->baseline_s[BENCH_NAIVE] =
            bench_run_measure(run, mode, (bench_work_t){naive_staging, NULL, traffic}).median_s;
    if (mode == BENCH_WAIT && run->aware)
        row->baseline_s[BENCH_AWARE] =
            bench_run_measure(run, mode, (bench_work_t){aware_message, NULL, traffic}).median_s;
    measure_nccl(run, mode, row);
}

int bench_run_probe(bench_run_t *run)
{
    static const size_t sizes[] = {8, 4096, 100001, 1 << 20};
    int bad = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] * 2 > run->traffic.capacity)
            continue;
        bench_shape(&run->traffic, BENCH_RING, sizes[i], false);
        tool_traffic_fill(&run->traffic);
        tool_barrier(&run->job);
        aware_message(&run->traffic);
        bad += tool_traffic_check(&run->traffic);
    }
    tool_reduce(&run->job, run->job.comm, &bad, 1, MPI_INT, MPI_SUM);
    return bad;
}
