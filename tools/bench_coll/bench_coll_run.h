/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of `selvage-bench coll`: what it works with, and its rows. A row is one case under one setting, timed back to
 * back on the stream, with the times of NCCL beside it. Times of 0 are unknown. One thread.
 */
#ifndef SELVAGE_BENCH_COLL_RUN_H
#define SELVAGE_BENCH_COLL_RUN_H

#include "tools/common/bench_graph.h"
#include "tools/bench_coll/bench_coll_data.h"
#include "tools/bench_coll/bench_coll_nccl.h"
#include "tools/bench_coll/bench_coll_options.h"
#include "tools/bench_coll/bench_coll_setting.h"

enum { BENCH_SETTINGS_MAX = 4, BENCH_COLL_BASELINES = 2 };

/* The host's time in enqueuing alone, of the slowest rank. */
typedef struct bench_host_times {
    double p50_s, p99_s;
} bench_host_times_t;

typedef struct bench_coll_baselines {
    bool known;                             /* was measured */
    bench_times_t times[BENCH_COLL_BASELINES]; /* NCCL as it is, and the fastest tuned one */
    int tuned_channels;
} bench_coll_baselines_t;

typedef struct bench_coll_row {
    bench_case_t what;
    bool registered, checksum;
    const char *algo, *proto, *channels; /* forced; NULL: not */
    bench_way_t way;                     /* as the library told */
    bool available;
    char reason[BENCH_REASON_BYTES];
    bench_times_t times;
    long wrong; /* elements, of all ranks; counted before the timing */
    double algbw_gbs, busbw_gbs;
    bench_coll_baselines_t baselines;
    bool cost_known; /* what checksums cost: on minus off */
    double cost_s;
    bench_host_times_t host; /* if it is wanted */
} bench_coll_row_t;

typedef struct bench_coll_run {
    bench_coll_options_t options;
    tool_job_t job;
    char machine[128]; /* GPU or device and ranks; names the floors */
    selvage_comm_t *comm;
    bench_ground_t ground;
    bench_data_t data;
    bench_coll_nccl_t nccl;
    bench_host_times_t launch; /* of a kernel that does nothing, if host times are wanted */
    bench_case_t *cases;
    bench_coll_baselines_t *baselines; /* of each case, kept from its first setting on */
    int case_count;
    bench_coll_row_t *rows;
    int row_count, row_room;
} bench_coll_run_t;

typedef void (*bench_coll_show_t)(const bench_coll_run_t *run, const bench_coll_row_t *row);

/* Opens what the run needs. Collective, after tool_job_init(). Partner: bench_coll_run_fini(). */
void bench_coll_run_init(bench_coll_run_t *run);
void bench_coll_run_fini(bench_coll_run_t *run);

/* Measures every case under every setting and hands the rows to `show`, on all ranks. Collective. */
void bench_coll_run_all(bench_coll_run_t *run, bench_coll_show_t show);

/* Fills the buffers, makes the call, and counts wrong elements of all ranks. Collective. */
long bench_coll_verify(bench_coll_run_t *run, bench_made_t *made);

/* Times of `enqueue` alone, the queue never full. Collective. */
bench_host_times_t bench_coll_host(const bench_coll_run_t *run, const bench_work_t *work);
bench_host_times_t bench_coll_launch(const bench_coll_run_t *run);

/* Through the FIFO of work: prints a table, writes JSON if wanted; false if something was wrong. Collective. */
bool bench_coll_fifo(bench_coll_run_t *run);

/* The fastest rows of each case, on rank 0: prints them and writes the tuning file; false if that failed. */
bool bench_coll_winners(const bench_coll_run_t *run);

#endif
