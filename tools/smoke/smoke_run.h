/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A smoke run: every route and size in turn, each measured and checked, and the sums over all of it. Every rank holds
 * the same rows, because all figures are reduced over the ranks before they are stored.
 */
#ifndef SELVAGE_SMOKE_RUN_H
#define SELVAGE_SMOKE_RUN_H

#include "tools/common/smoke_legs.h"
#include "tools/smoke/smoke_memory.h"
#include "tools/smoke/smoke_options.h"
#include "tools/smoke/smoke_suite.h"
#include "tools/smoke/smoke_verdict.h"
#include "tools/smoke/smoke_wire.h"

typedef struct smoke_row {
    selvage_route_t route;
    size_t bytes;
    bool available;
    char reason[160]; /* why it is not */
    int packets;      /* per rank and direction */
    int epochs;       /* timed ones */
    double seconds;   /* of one exchange: median over epochs of the slowest rank */
    double gbs;       /* payload a rank sends, per second */
    smoke_legs_t legs;
    double share_of_leg;  /* of the slowest; 1 is 100 %; negative: not measured */
    double bound_s, share_of_bound; /* what the legs allow, see smoke_verdict.h; 0 and negative: not measured */
    double share_of_wire; /* negative: unknown, or no wire in use */
    bool uses_wire;
    uint64_t checked, bad; /* packets, over all ranks and epochs */
    smoke_verdict_t verdict;
} smoke_row_t;

typedef struct smoke_totals {
    uint64_t checked, bad; /* as counted by this program */
    uint64_t resends, bad_digests, bad_records, stale_discarded, asked_again, faults_injected; /* as Selvage counts */
    uint64_t results, bad_results; /* of collectives */
} smoke_totals_t;

static inline bool smoke_totals_right(const smoke_totals_t *totals)
{
    return totals->bad == 0 && totals->bad_results == 0;
}

struct smoke_report;

typedef struct smoke_run {
    tool_job_t job;
    smoke_options_t options;
    struct smoke_report *report;
    selvage_device_t *device;
    selvage_comm_t *comm;
    tool_traffic_t traffic;
    bench_peer_t peer; /* raw copies between GPUs, where they can be made */
    tool_ring_t world, node;
    smoke_wire_t wire;
    bool soft, speed_judges;
    size_t segment_bytes; /* pieces in which staged packets go; those of shared are four times as long */
    int sizes_dropped; /* default sizes left out for want of memory */
    int row_count;
    smoke_row_t rows[SMOKE_ROUTES * SMOKE_SIZES_MAX];
    smoke_memory_t memory, memory_max, memory_mean;
    smoke_totals_t totals;
    smoke_suite_t suite;
} smoke_run_t;

/* Makes the communicator and the buffers; job and options are set. Collective; errors end the job. */
void smoke_run_init(smoke_run_t *run);
/* Fills rows and totals, reporting each row as it is done. Collective. */
void smoke_run_all(smoke_run_t *run);
void smoke_run_fini(smoke_run_t *run);

#endif
