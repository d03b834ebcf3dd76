/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. All figures of a pattern and size are taken one after the other, so that what disturbs the machine
 * disturbs rivals alike. Nothing is filled between repetitions; each exchange is checked once, after its timing, where
 * the packets are not so large that looking at them would take longer than moving them.
 */
#define _GNU_SOURCE

#include "tools/bench/bench_run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFERS = 4, CHECK_MAX_BYTES = 64 << 20 };

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
    if (strcmp(selvage_device_name(selvage_comm_device(run->comm)), run->job.gpu.kind) != 0)
        run->job.gpu.index = -1; /* a GPU that the library does not use: no plug-in for it was found */
    tool_traffic_init(&run->traffic, &run->job, run->comm, wanted_capacity(run));
    tool_try(&run->job, "stream", selvage_stream_create(run->traffic.device, &run->second_stream));
}

void bench_run_init(bench_run_t *run)
{
    tool_traffic_t *traffic = &run->traffic;
    char device[96];
    open_traffic(run);
    if (selvage_buffer_register(run->comm, traffic->device_recv, traffic->capacity, &run->registered) !=
        SELVAGE_SUCCESS)
        run->registered = NULL;
    run->aware = choose_aware(run);
    (void)tool_device_words(traffic->device, device, sizeof device);
    snprintf(run->machine, sizeof run->machine, "%s, %d rank%s",
             run->job.gpu.index >= 0 ? run->job.gpu.name : device, run->job.size,
             run->job.size == 1 ? "" : "s");
    if (run->options.command != BENCH_EXCHANGE)
        return;
    bench_peer_init(&run->peer, traffic);
    bench_nccl_init(&run->nccl, traffic, &run->options);
}

void bench_run_fini(bench_run_t *run)
{
    if (run->options.command == BENCH_EXCHANGE) {
        bench_nccl_fini(&run->nccl);
        bench_peer_fini(&run->peer);
    }
    (void)selvage_buffer_unregister(run->registered);
    selvage_stream_destroy(run->traffic.device, run->second_stream);
    tool_traffic_fini(&run->traffic);
    selvage_comm_destroy(run->comm);
}

bench_times_t bench_run_measure(bench_run_t *run, bench_mode_t mode, bench_work_t work)
{
    return bench_measure(&run->job, mode, run->options.seconds, run->options.repetitions, &work);
}

/* --- the exchange ------------------------------------------------------------------------------------------------- */

typedef struct exchange_context {
    const tool_traffic_t *traffic;
    selvage_exchange_t *ex;
} exchange_context_t;

static void start_and_wait(void *context)
{
    const exchange_context_t *own = context;
    const tool_traffic_t *traffic = own->traffic;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(own->ex, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(own->ex, traffic->stream));
}

static void start_and_enqueue(void *context)
{
    const exchange_context_t *own = context;
    const tool_traffic_t *traffic = own->traffic;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(own->ex, traffic->stream));
    tool_try(traffic->job, "enqueue_wait", selvage_exchange_enqueue_wait(own->ex, traffic->stream));
}

static void run_whole(void *context)
{
    const exchange_context_t *own = context;
    tool_try(own->traffic->job, "exchange_run", selvage_exchange_run(own->ex, own->traffic->stream));
}

static bool capture_run(void *context)
{
    const exchange_context_t *own = context;
    return selvage_exchange_run(own->ex, own->traffic->stream) == SELVAGE_SUCCESS;
}

/* What went wrong on the stream is told by the wait, which else returns at once. */
static void finish_enqueued(void *context)
{
    const exchange_context_t *own = context;
    const tool_traffic_t *traffic = own->traffic;
    tool_try(traffic->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(own->ex, traffic->stream));
}

static void find_thread(void *arg, const selvage_setting_t *setting)
{
    if (strcmp(setting->name, "SELVAGE_PROGRESS") == 0)
        *(bool *)arg = strcmp(setting->value, "thread") == 0;
}

/* Routes that need the host are not asked, because the library writes what it refuses on the log. A progress thread is
   such a host. */
static bool may_enqueue(const bench_run_t *run, selvage_route_t route)
{
    bool thread = false;
    (void)selvage_config_visit(find_thread, &thread);
    return bench_all(&run->job, thread || route == SELVAGE_ROUTE_SELF || route == SELVAGE_ROUTE_PEER);
}

/* Whether this exchange can be waited for on the stream; one epoch tells. */
static bool can_enqueue(const bench_run_t *run, selvage_route_t route, exchange_context_t *own)
{
    const tool_traffic_t *traffic = own->traffic;
    if (!may_enqueue(run, route))
        return false;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(own->ex, traffic->stream));
    const selvage_status_t status = selvage_exchange_enqueue_wait(own->ex, traffic->stream);
    if (status != SELVAGE_ERR_UNSUPPORTED)
        tool_try(traffic->job, "enqueue_wait", status);
    finish_enqueued(own);
    return bench_all(traffic->job, status == SELVAGE_SUCCESS);
}

static void check_packets(bench_run_t *run, bench_row_t *row, const bench_work_t *work)
{
    if ((size_t)row->packets * row->bytes > CHECK_MAX_BYTES)
        return;
    tool_traffic_fill(&run->traffic);
    tool_barrier(&run->job);
    work->enqueue(work->context);
    if (work->finish)
        work->finish(work->context);
    long counts[2] = {row->packets, tool_traffic_check(&run->traffic)};
    tool_reduce(&run->job, run->job.comm, counts, 2, MPI_LONG, MPI_SUM);
    row->checked = counts[0];
    row->bad = counts[1];
}

bool bench_route_is(const tool_traffic_t *traffic, const selvage_exchange_t *ex, selvage_route_t wanted)
{
    bool right = true;
    for (int p = 0; p < traffic->packets; p++) {
        selvage_route_t route;
        tool_try(traffic->job, "send_route", selvage_exchange_send_route(ex, (uint32_t)p, &route));
        right &= route == wanted || (route == SELVAGE_ROUTE_SELF && traffic->send_peer[p] == traffic->job->rank);
    }
    return bench_all(traffic->job, right);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The figures that both policies of a route share, measured when the first of them is there; below 0: not yet. And the
   times without checksums, to know what they cost. */
typedef struct route_figures {
    double bound_s[BENCH_MODES], unchecked_s[BENCH_MODES];
} route_figures_t;

static void finish_row(bench_run_t *run, bench_row_t *row, route_figures_t *figures)
{
    if (figures->bound_s[row->mode] < 0)
        figures->bound_s[row->mode] = bench_bound(run, row->route, row->mode);
    row->bound_s = figures->bound_s[row->mode];
    row->gbs = (double)row->bytes * row->packets / row->times.median_s * 1e-9;
    if (!row->checksum) {
        figures->unchecked_s[row->mode] = row->times.median_s;
    } else if (figures->unchecked_s[row->mode] > 0) {
        row->cost_known = true;
        row->cost_s = row->times.median_s - figures->unchecked_s[row->mode];
    }
}

/* A new row like another, in a mode, with the rivals of that mode. */
static bench_row_t *add_row(bench_run_t *run, const bench_row_t *like, bench_mode_t mode)
{
    bench_row_t *row = &run->rows[run->row_count++];
    *row = *like;
    row->mode = mode;
    return row;
}

static void measure_modes(bench_run_t *run, const bench_row_t *likes, bool checksum, selvage_exchange_t *ex,
                          route_figures_t *figures, bench_show_t show)
{
    exchange_context_t own = {&run->traffic, ex};
    const bench_work_t works[BENCH_MODES] = {
        [BENCH_WAIT] = {start_and_wait, NULL, &own},
        [BENCH_STREAM] = {start_and_enqueue, finish_enqueued, &own},
        [BENCH_RUN] = {run_whole, finish_enqueued, &own},
        [BENCH_GRAPH] = {run_whole, finish_enqueued, &own}};
    for (int mode = 0; mode < BENCH_MODES; mode++) {
        bench_work_t work = works[mode];
        bench_graph_t graph = {&run->job, run->traffic.device, run->traffic.stream, NULL, {0}};
        if (!run->options.modes[mode])
            continue;
        bool possible = mode == BENCH_WAIT || can_enqueue(run, likes[mode].route, &own);
        if (mode == BENCH_GRAPH)
            possible = possible && likes[mode].route <= SELVAGE_ROUTE_PEER &&
                       bench_graph_open(&graph, capture_run, &works[mode], &work);
        if (!possible && run->options.modes[BENCH_WAIT])
            continue;
        bench_row_t *row = add_row(run, &likes[mode], (bench_mode_t)mode);
        row->checksum = checksum;
        row->available = possible;
        if (possible) {
            row->times = bench_run_measure(run, row->mode, work);
            check_packets(run, row, &work);
            finish_row(run, row, figures);
        } else {
            snprintf(row->reason, sizeof row->reason, "this route needs the host, which would have to wait");
        }
        show(run, row);
        bench_graph_close(&graph);
    }
}

/* True if some packet leaves its rank, or none has to. */
static bool has_neighbours(bench_run_t *run, selvage_route_t route)
{
    bool alone = route != SELVAGE_ROUTE_SELF && route != SELVAGE_ROUTE_STAGED;
    for (int p = 0; p < run->traffic.packets; p++)
        alone &= run->traffic.send_peer[p] == run->job.rank;
    return !bench_all(&run->job, alone);
}

/* NULL, and why, where the route is not there. */
static selvage_exchange_t *commit(bench_run_t *run, selvage_route_t route, bool checksum,
                                  char reason[BENCH_REASON_BYTES])
{
    selvage_exchange_t *ex;
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route,
                                              .checksum = checksum ? SELVAGE_CHECKSUM_RETRY : SELVAGE_CHECKSUM_OFF};
    if (!has_neighbours(run, route)) {
        snprintf(reason, BENCH_REASON_BYTES, "no rank has a neighbour");
        return NULL;
    }
    if (tool_traffic_commit(&run->traffic, &params, &ex) == SELVAGE_ERR_UNSUPPORTED) {
        snprintf(reason, BENCH_REASON_BYTES, "%s", selvage_error_detail());
        return NULL;
    }
    if (bench_route_is(&run->traffic, ex, route))
        return ex;
    snprintf(reason, BENCH_REASON_BYTES, "commit settled on another route");
    selvage_exchange_destroy(ex);
    return NULL;
}

static bench_mode_t first_mode(const bench_run_t *run)
{
    int mode = BENCH_WAIT;
    while (mode < BENCH_GRAPH && !run->options.modes[mode])
        mode++;
    return (bench_mode_t)mode;
}

/* Both policies of one route, with what they are compared with; likes: what rows of each mode begin with. */
static void measure_route(bench_run_t *run, const bench_row_t *likes, bench_show_t show)
{
    const bench_row_t *like = &likes[BENCH_WAIT];
    route_figures_t figures = {.bound_s = {-1, -1, -1, -1}};
    bench_shape(&run->traffic, like->pattern, like->bytes, like->route == SELVAGE_ROUTE_SELF);
    for (int on = 0; on < 2; on++) {
        char reason[BENCH_REASON_BYTES] = "more memory than half of this host's";
        selvage_exchange_t *ex = NULL;
        if (!run->options.checksums[on])
            continue;
        if ((size_t)like->packets * like->bytes <= run->traffic.capacity)
            ex = commit(run, like->route, on, reason);
        if (ex) {
            measure_modes(run, likes, on, ex, &figures, show);
            selvage_exchange_destroy(ex);
            continue;
        }
        bench_row_t *row = add_row(run, like, first_mode(run));
        row->checksum = on;
        memcpy(row->reason, reason, sizeof row->reason);
        show(run, row);
    }
}

/* Rivals move what leaves the rank, and are the same for every route that does. */
static void measure_baselines(bench_run_t *run, bench_row_t *likes)
{
    bool wanted = false;
    for (int route = SELVAGE_ROUTE_PEER; route < BENCH_ROUTES; route++)
        wanted |= run->options.routes[route];
    bench_shape(&run->traffic, likes->pattern, likes->bytes, false);
    if (!wanted || (size_t)likes->packets * likes->bytes > run->traffic.capacity ||
        !has_neighbours(run, SELVAGE_ROUTE_PEER))
        return;
    for (int mode = 0; mode < BENCH_MODES; mode++) {
        if (run->options.modes[mode])
            bench_baselines(run, (bench_mode_t)mode, &likes[mode]);
    }
}

static void measure_size(bench_run_t *run, bench_pattern_t pattern, size_t bytes, bench_show_t show)
{
    const bench_row_t plain = {.pattern = pattern, .bytes = bytes, .packets = bench_pattern_packets(pattern)};
    const bench_row_t alone[BENCH_MODES] = {plain, plain, plain, plain};
    bench_row_t compared[BENCH_MODES] = {plain, plain, plain, plain};
    measure_baselines(run, compared);
    for (int route = SELVAGE_ROUTE_SELF; route < BENCH_ROUTES; route++) {
        bench_row_t likes[BENCH_MODES];
        memcpy(likes, route == SELVAGE_ROUTE_SELF ? alone : compared, sizeof likes);
        for (int mode = 0; mode < BENCH_MODES; mode++)
            likes[mode].route = (selvage_route_t)route;
        if (run->options.routes[route])
            measure_route(run, likes, show);
    }
}

void bench_run_all(bench_run_t *run, bench_show_t show)
{
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++) {
        for (int i = 0; run->options.patterns[pattern] && i < run->options.size_count; i++)
            measure_size(run, (bench_pattern_t)pattern, run->options.sizes[i], show);
    }
}
