/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smaller tables of selvage-bench: when packets within the node start, what an exchange costs the host, what it
 * costs to make objects, and messages. All work with what a run has opened, print on rank 0, write JSON if wanted, and
 * return false if a packet was bad or a file not written. Collective.
 */
#ifndef SELVAGE_BENCH_TABLES_H
#define SELVAGE_BENCH_TABLES_H

#include "tools/bench/bench_run.h"

/* Ranks in nodes of two, half of each rank's packets to its neighbour there and half to another node: the policies of
   SELVAGE_INTRANODE beside each half alone. */
bool bench_policies(bench_run_t *run);

/* Time spent in start and in polls of six packets to other GPUs of the node, while the host does something else. */
bool bench_host(bench_run_t *run);

/* Making communicators, exchanges and collectives, and using them for the first time. */
bool bench_create(bench_run_t *run);

/* Messages of every size round the ring of all ranks, beside exchanges of the same packets. */
bool bench_message(bench_run_t *run);

/* GB/s of the copies from device to host of one rank in one epoch, first begin to last end: the median over ranks and
   epochs after the first `skip` of a timeline that Selvage wrote. 0 if it shows none. Local. */
double bench_trace_d2h_gbs(const tool_job_t *job, const char *path, int skip);

#endif
