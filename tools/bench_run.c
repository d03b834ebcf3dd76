/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. All figures of a pattern and size are taken one after the other, so that what disturbs the machine
 * disturbs rivals alike. Nothing is filled between repetitions; each exchange is checked once, after its timing, where
 * the packets are not so large that looking at them would take longer than moving them.
 */
#define _GNU_SOURCE

#include "bench_run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFERS = 4, CHECK_MAX_BYTES = 64 << 20 };

const char *bench_rival_name(bench_rival_t rival)
{
    static const char *const names[BENCH_RIVALS] = {"naive", "aware", "nccl"};
    return names[rival];
}

/* Bytes each of the traffic's buffers may have, so that half of the fullest host's memory stays free. */
static size_t affordable_bytes(const tool_job_t *job)
{
    const double pages = (double)sysconf(_SC_PHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    double bytes = pages * page / 2 / job->host_count / BUFFERS;
    tool_reduce(job, job->comm, &bytes, 1, MPI_DOUBLE, MPI_MIN);
    return (size_t)bytes;
}

/* The largest pattern and size that can be afforded; larger ones are left out. */
static size_t wanted_capacity(const bench_run_t *run)
{
    const size_t limit = affordable_bytes(&run->job);
    size_t wanted = 1;
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++) {
        for (int i = 0; run->options.patterns[pattern] && i < run->options.size_count; i++) {
            const size_t bytes = run->options.sizes[i] * (size_t)bench_pattern_packets((bench_pattern_t)pattern);
            if (bytes > wanted && bytes <= limit)
                wanted = bytes;
        }
    }
    return wanted;
}

/* What the MPI says of itself. Open MPI and its kin have such a call; where there is none, the answer is no. */
static bool mpi_says_aware(void)
{
    static const char *const names[] = {"MPIX_Query_cuda_support", "MPIX_Query_hip_support"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int (*query)(void);
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        memcpy(&query, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
        if (found && query() == 1)
            return true;
    }
    return false;
}

static bool choose_aware(const bench_run_t *run)
{
    if (run->options.aware == BENCH_AWARE_ASK)
        return bench_all(&run->job, mpi_says_aware());
    return run->options.aware == BENCH_AWARE_YES;
}

static void open_traffic(bench_run_t *run)
{
    tool_try(&run->job, "comm_create", selvage_comm_create(run->job.comm, NULL, &run->comm));
    if (strcmp(selvage_device_name(selvage_comm_device(run->comm)), "nvidia") != 0)
        run->job.gpu.index = -1; /* a GPU that the library does not use: no plug-in for it was found */
    tool_traffic_init(&run->traffic, &run->job, run->comm, wanted_capacity(run));
    tool_try(&run->job, "stream", selvage_stream_create(run->traffic.device, &run->second_stream));
}

void bench_run_init(bench_run_t *run)
{
    tool_traffic_t *traffic = &run->traffic;
    open_traffic(run);
    if (selvage_buffer_register(run->comm, traffic->device_recv, traffic->capacity, &run->registered) !=
        SELVAGE_SUCCESS)
        run->registered = NULL;
    run->aware = choose_aware(run);
    snprintf(run->machine, sizeof run->machine, "%s, %d rank%s",
             run->job.gpu.index >= 0 ? run->job.gpu.name : selvage_device_name(traffic->device), run->job.size,
             run->job.size == 1 ? "" : "s");
    bench_peer_init(&run->peer, traffic);
    bench_nccl_init(&run->nccl, traffic, run->options.nccl, run->options.nccl_channels);
}

void bench_run_fini(bench_run_t *run)
{
    bench_nccl_fini(&run->nccl);
    bench_peer_fini(&run->peer);
    (void)selvage_buffer_unregister(run->registered);
    selvage_stream_destroy(run->traffic.device, run->second_stream);
    tool_traffic_fini(&run->traffic);
    selvage_comm_destroy(run->comm);
}

static bench_times_t measure(bench_run_t *run, bench_body_t body, void *context)
{
    return bench_measure(&run->job, run->options.seconds, run->options.repetitions, body, context);
}

static void self_copy(void *context)
{
    tool_traffic_t *traffic = context;
    tool_traffic_copy(traffic, traffic->device_recv, traffic->device_send, SELVAGE_COPY_DEVICE_TO_DEVICE);
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

/* Down and up at once, as a pipeline has them at its best. What stays on the rank is copied on the device, but for
   `staged`, which takes it through the host. */
static void both_copies(void *context)
{
    bench_run_t *run = context;
    tool_traffic_t *traffic = &run->traffic;
    for (int p = 0; p < traffic->packets; p++) {
        const size_t at = (size_t)p * traffic->bytes;
        if (traffic->send_peer[p] == run->job.rank && run->bound_route != SELVAGE_ROUTE_STAGED) {
            tool_try(&run->job, "copy",
                     selvage_device_copy(traffic->device, traffic->device_recv + at, traffic->device_send + at,
                                         traffic->bytes, SELVAGE_COPY_DEVICE_TO_DEVICE, traffic->stream));
            continue;
        }
        tool_try(&run->job, "copy",
                 selvage_device_copy(traffic->device, traffic->host_send + at, traffic->device_send + at,
                                     traffic->bytes, SELVAGE_COPY_DEVICE_TO_HOST, traffic->stream));
        tool_try(&run->job, "copy",
                 selvage_device_copy(traffic->device, traffic->device_recv + at, traffic->host_recv + at,
                                     traffic->bytes, SELVAGE_COPY_HOST_TO_DEVICE, run->second_stream));
    }
    tool_try(&run->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
    tool_try(&run->job, "synchronize", selvage_stream_synchronize(traffic->device, run->second_stream));
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
static double peer_bound(bench_run_t *run)
{
    bench_peer_t *peer = &run->peer;
    double best = 0;
    peer->failed = false;
    for (int lanes = 1; peer->ready && lanes <= run->traffic.packets; lanes += run->traffic.packets - 1) {
        peer->lanes = lanes;
        const double median = measure(run, bench_peer_copy, peer).median_s;
        best = best > 0 && best < median ? best : median;
        if (run->traffic.packets == 1)
            break;
    }
    return bench_all(&run->job, !peer->failed) ? best : 0;
}

static double bound_of(bench_run_t *run, selvage_route_t route)
{
    if (route == SELVAGE_ROUTE_SELF)
        return measure(run, self_copy, &run->traffic).median_s;
    if (route == SELVAGE_ROUTE_PEER)
        return peer_bound(run);
    run->bound_route = route;
    const double copies = measure(run, both_copies, run).median_s;
    if (route == SELVAGE_ROUTE_SHARED)
        return copies;
    const double message = measure(run, host_message, &run->traffic).median_s;
    return message > copies ? message : copies;
}

static void measure_rivals(bench_run_t *run, double seconds[BENCH_RIVALS])
{
    memset(seconds, 0, BENCH_RIVALS * sizeof *seconds);
    seconds[BENCH_NAIVE] = measure(run, naive_staging, &run->traffic).median_s;
    if (run->aware)
        seconds[BENCH_AWARE] = measure(run, aware_message, &run->traffic).median_s;
    if (!run->nccl.ready)
        return;
    run->nccl.failed = false;
    const double median = measure(run, bench_nccl_exchange, &run->nccl).median_s;
    run->nccl.ready = bench_all(&run->job, !run->nccl.failed);
    seconds[BENCH_NCCL] = run->nccl.ready ? median : 0;
}

typedef struct exchange_body {
    bench_run_t *run;
    selvage_exchange_t *ex;
} exchange_body_t;

static void start_and_wait(void *context)
{
    const exchange_body_t *body = context;
    tool_traffic_t *traffic = &body->run->traffic;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(body->ex, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(body->ex, traffic->stream));
}

static void check_packets(bench_run_t *run, bench_row_t *row, selvage_exchange_t *ex)
{
    if ((size_t)row->packets * row->bytes > CHECK_MAX_BYTES)
        return;
    tool_traffic_fill(&run->traffic);
    (void)tool_traffic_epoch(&run->traffic, ex);
    long counts[2] = {row->packets, tool_traffic_check(&run->traffic)};
    tool_reduce(&run->job, run->job.comm, counts, 2, MPI_LONG, MPI_SUM);
    row->checked = counts[0];
    row->bad = counts[1];
}

/* A packet on another route would be another measurement; only what stays on the rank may go by `self`. */
static bool route_is(bench_run_t *run, selvage_exchange_t *ex, selvage_route_t wanted)
{
    bool right = true;
    for (int p = 0; p < run->traffic.packets; p++) {
        selvage_route_t route;
        tool_try(&run->job, "send_route", selvage_exchange_send_route(ex, (uint32_t)p, &route));
        right &= route == wanted || (route == SELVAGE_ROUTE_SELF && run->traffic.send_peer[p] == run->job.rank);
    }
    return bench_all(&run->job, right);
}

/* True if some packet leaves its rank, or none has to. */
static bool has_neighbours(bench_run_t *run, selvage_route_t route)
{
    bool alone = route != SELVAGE_ROUTE_SELF && route != SELVAGE_ROUTE_STAGED;
    for (int p = 0; p < run->traffic.packets; p++)
        alone &= run->traffic.send_peer[p] == run->job.rank;
    return !bench_all(&run->job, alone);
}

static void measure_exchange(bench_run_t *run, bench_row_t *row)
{
    exchange_body_t body = {.run = run};
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = row->route,
                                              .checksum =
                                                  row->checksum ? SELVAGE_CHECKSUM_RETRY : SELVAGE_CHECKSUM_OFF};
    if (tool_traffic_commit(&run->traffic, &params, &body.ex) == SELVAGE_ERR_UNSUPPORTED) {
        snprintf(row->reason, sizeof row->reason, "%s", selvage_error_detail());
        return;
    }
    row->available = route_is(run, body.ex, row->route);
    if (row->available) {
        row->times = measure(run, start_and_wait, &body);
        row->gbs = (double)row->bytes * row->packets / row->times.median_s * 1e-9;
        check_packets(run, row, body.ex);
    } else {
        snprintf(row->reason, sizeof row->reason, "commit settled on another route");
    }
    selvage_exchange_destroy(body.ex);
}

/* Both policies of one route, with what they are compared with. */
static void measure_route(bench_run_t *run, const bench_row_t *like,
                          void (*show)(const bench_run_t *run, const bench_row_t *row))
{
    const bool to_self = like->route == SELVAGE_ROUTE_SELF;
    double bound = -1;
    bench_shape(&run->traffic, like->pattern, like->bytes, to_self);
    for (int on = 1; on >= 0; on--) {
        if (!run->options.checksums[on])
            continue;
        bench_row_t *row = &run->rows[run->row_count++];
        *row = *like;
        row->checksum = on;
        if (row->reason[0] == '\0' && !has_neighbours(run, row->route))
            snprintf(row->reason, sizeof row->reason, "no rank has a neighbour");
        if (row->reason[0] == '\0')
            measure_exchange(run, row);
        if (row->available && bound < 0)
            bound = bound_of(run, row->route);
        row->bound_s = row->available ? bound : 0;
        show(run, row);
    }
}

static void measure_size(bench_run_t *run, bench_pattern_t pattern, size_t bytes,
                         void (*show)(const bench_run_t *run, const bench_row_t *row))
{
    bench_row_t like = {.pattern = pattern, .bytes = bytes, .packets = bench_pattern_packets(pattern)};
    bench_row_t alone;
    if ((size_t)like.packets * bytes > run->traffic.capacity)
        snprintf(like.reason, sizeof like.reason, "more memory than half of this host's");
    alone = like;
    bench_shape(&run->traffic, pattern, bytes, false);
    const bool leaves = like.reason[0] == '\0' && has_neighbours(run, SELVAGE_ROUTE_PEER);
    if (leaves && (run->options.routes[SELVAGE_ROUTE_PEER] || run->options.routes[SELVAGE_ROUTE_SHARED] ||
                   run->options.routes[SELVAGE_ROUTE_STAGED]))
        measure_rivals(run, like.rival_s);
    for (int route = SELVAGE_ROUTE_SELF; route < BENCH_ROUTES; route++) {
        bench_row_t *model = route == SELVAGE_ROUTE_SELF ? &alone : &like;
        model->route = (selvage_route_t)route;
        if (run->options.routes[route])
            measure_route(run, model, show);
    }
}

void bench_run_all(bench_run_t *run, void (*show)(const bench_run_t *run, const bench_row_t *row))
{
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++) {
        for (int i = 0; run->options.patterns[pattern] && i < run->options.size_count; i++)
            measure_size(run, (bench_pattern_t)pattern, run->options.sizes[i], show);
    }
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
