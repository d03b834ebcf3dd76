/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run of `selvage-bench coll` has to say, on rank 0: a table as it goes, and files when it is over. What is
 * unknown is null in JSON, empty in CSV and n/a in the table.
 */
#ifndef SELVAGE_BENCH_COLL_REPORT_H
#define SELVAGE_BENCH_COLL_REPORT_H

#include <stdio.h>

#include "tools/bench_coll/bench_coll_run.h"
#include "tools/bench/bench_floors.h"

void bench_coll_report_head(const bench_coll_run_t *run);
void bench_coll_report_row(const bench_coll_run_t *run, const bench_coll_row_t *row);

/* The first line of every table. */
void bench_coll_report_title(const bench_coll_run_t *run);

/* Write a whole file; false if that failed. */
bool bench_coll_report_json(const bench_coll_run_t *run, const char *path);
bool bench_coll_report_csv(const bench_coll_run_t *run, const char *path);
bool bench_coll_plot_write(const bench_coll_run_t *run, const char *path);

/* Begins an object with what every file says of the run. */
void bench_coll_report_json_head(FILE *file, const bench_coll_run_t *run);

/* The rows as floors have them: size by time; barriers have none. Partner: free() of the figures. */
void bench_coll_figures(const bench_coll_run_t *run, bench_figures_t *figures_out);

/* How many times faster than NCCL, as it is or tuned; negative if unknown. */
double bench_coll_ratio(const bench_coll_row_t *row, int baseline);

/* Which way the row took: as told, else as forced, else "auto"; channels 0 if unknown. As forced if not available. */
const char *bench_coll_algo(const bench_coll_row_t *row);
const char *bench_coll_proto(const bench_coll_row_t *row);
int bench_coll_channels(const bench_coll_row_t *row);

#endif
