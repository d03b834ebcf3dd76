/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of selvage-bench exchange: what it works with, and its rows. A row is one pattern, route, size and checksum
 * policy, with the times of the exchange, of the raw copies that bound it, and of its rivals. Times of 0 are unknown.
 * One thread; a large object, meant to be static.
 */
#ifndef SELVAGE_BENCH_RUN_H
#define SELVAGE_BENCH_RUN_H

#include "bench_measure.h"
#include "bench_nccl.h"
#include "bench_options.h"
#include "bench_peer.h"
#include "tool_traffic.h"

enum { BENCH_ROWS_MAX = BENCH_PATTERNS * BENCH_SIZES_MAX * (BENCH_ROUTES - 1) * 2, BENCH_REASON_BYTES = 120 };

typedef enum bench_rival { BENCH_NAIVE, BENCH_AWARE, BENCH_NCCL, BENCH_RIVALS } bench_rival_t;

typedef struct bench_row {
    bench_pattern_t pattern;
    selvage_route_t route;
    size_t bytes; /* of each packet */
    int packets;  /* per rank and direction */
    bool checksum, available;
    char reason[BENCH_REASON_BYTES]; /* why it is not available */
    bench_times_t times;
    double gbs; /* payload sent per rank */
    double bound_s, rival_s[BENCH_RIVALS];
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

/* Opens what the run needs. Collective, after tool_job_init(). Partner: bench_run_fini(). */
void bench_run_init(bench_run_t *run);
void bench_run_fini(bench_run_t *run);

/* Measures every row and hands it to `show`, on all ranks. Collective. */
void bench_run_all(bench_run_t *run, void (*show)(const bench_run_t *run, const bench_row_t *row));

/* Gives device pointers to the MPI and checks what arrives; the number of bad packets of all ranks. Collective. */
int bench_run_probe(bench_run_t *run);

const char *bench_rival_name(bench_rival_t rival);

/* Sets packets and peers of the traffic: a periodic grid over all ranks, both ways in each of its dimensions, or one
   packet to the next rank; to_self: as many packets as that, each to the rank itself. Returns the number of packets. */
int bench_shape(tool_traffic_t *traffic, bench_pattern_t pattern, size_t bytes, bool to_self);
int bench_pattern_packets(bench_pattern_t pattern);

#endif
