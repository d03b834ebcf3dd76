/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of selvage-bench exchange: what it works with, and its rows. A row is one pattern, route, size, checksum policy
 * and mode, with the times of the exchange, of the raw copies that bound it, and of its rivals, all measured in that
 * mode. Times of 0 are unknown. One thread; a large object, meant to be static.
 */
#ifndef SELVAGE_BENCH_RUN_H
#define SELVAGE_BENCH_RUN_H

#include "tools/common/bench_graph.h"
#include "tools/common/bench_measure.h"
#include "tools/bench/bench_nccl.h"
#include "tools/bench/bench_options.h"
#include "tools/common/bench_peer.h"
#include "tools/common/tool_traffic.h"

enum { BENCH_ROWS_MAX = BENCH_PATTERNS * BENCH_SIZES_MAX * (BENCH_ROUTES - 1) * 2 * BENCH_MODES };
enum { BENCH_REASON_BYTES = 120 };

typedef enum bench_baseline {
    BENCH_NAIVE,
    BENCH_AWARE,
    BENCH_NCCL,
    BENCH_NCCL_TUNED,
    BENCH_BASELINES
} bench_baseline_t;

typedef struct bench_row {
    bench_pattern_t pattern;
    selvage_route_t route;
    bench_mode_t mode;
    size_t bytes; /* of each packet */
    int packets;  /* per rank and direction */
    bool checksum, available;
    char reason[BENCH_REASON_BYTES]; /* why it is not available */
    bench_times_t times;
    double gbs; /* payload sent per rank */
    double bound_s, baseline_s[BENCH_BASELINES];
    int tuned_channels; /* of the fastest tuned NCCL */
    bool cost_known;    /* what checksums cost: on minus off */
    double cost_s;
    long checked, bad; /* packets compared with what was sent, of all ranks */
} bench_row_t;

typedef struct bench_run {
    bench_options_t options;
    tool_job_t job;
    char machine[128]; /* GPU or device and ranks; names the floors */
    selvage_comm_t *comm;
    tool_traffic_t traffic;
    selvage_buffer_t *registered; /* the receive buffer; NULL if it cannot be */
    void *second_stream;
    selvage_route_t bound_route; /* whose raw copies are being measured */
    bool aware;
    bench_peer_t peer;
    bench_nccl_t nccl;
    bench_row_t rows[BENCH_ROWS_MAX];
    int row_count;
} bench_run_t;

typedef void (*bench_show_t)(const bench_run_t *run, const bench_row_t *row);

/* Opens what the run needs. Collective, after tool_job_init(). Partner: bench_run_fini(). */
void bench_run_init(bench_run_t *run);
void bench_run_fini(bench_run_t *run);

/* Measures every row and hands it to `show`, on all ranks. Collective. */
void bench_run_all(bench_run_t *run, bench_show_t show);

/* Gives device pointers to the MPI and checks what arrives; the number of bad packets of all ranks. Collective. */
int bench_run_probe(bench_run_t *run);

const char *bench_baseline_name(bench_baseline_t baseline);

/* Sets packets and peers of the traffic: a periodic grid over all ranks, both ways in each of its dimensions, or one
   packet to the next rank; to_self: as many packets as that, each to the rank itself. Returns the number of packets. */
int bench_shape(tool_traffic_t *traffic, bench_pattern_t pattern, size_t bytes, bool to_self);
int bench_pattern_packets(bench_pattern_t pattern);

/* True if every packet goes by the route that is wanted, those that stay on the rank by `self` or by it. Collective. */
bool bench_route_is(const tool_traffic_t *traffic, const selvage_exchange_t *ex, selvage_route_t wanted);

/* Median of the raw copies of a route, with the packets as shaped; 0 if unknown in this mode. Collective. */
double bench_bound(bench_run_t *run, selvage_route_t route, bench_mode_t mode);

/* The rivals' times in this mode, into the row. Collective. */
void bench_baselines(bench_run_t *run, bench_mode_t mode, bench_row_t *row);

/* bench_measure() as the options say. */
bench_times_t bench_run_measure(bench_run_t *run, bench_mode_t mode, bench_work_t work);

#endif
