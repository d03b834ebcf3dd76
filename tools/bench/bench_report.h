/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run has to say, on rank 0: a table as it goes, and JSON, CSV and a plot when it is over. What is unknown is
 * null in JSON, empty in CSV and n/a in the table, never a number that could be averaged by mistake.
 */
#ifndef SELVAGE_BENCH_REPORT_H
#define SELVAGE_BENCH_REPORT_H

#include <stdio.h>

#include "tools/bench/bench_floors.h"
#include "tools/bench/bench_run.h"

/* The first line of every command's table. */
void bench_report_title(const bench_run_t *run);

void bench_report_head(const bench_run_t *run);
void bench_report_row(const bench_run_t *run, const bench_row_t *row);

/* Write a whole file; false if that failed. */
bool bench_report_json(const bench_run_t *run, const char *path);
bool bench_report_csv(const bench_run_t *run, const char *path);
bool bench_plot_write(const bench_run_t *run, const char *path);

/* The rows as floors have them. Partner: free() of the figures. */
void bench_report_figures(const bench_run_t *run, bench_figures_t *figures_out);

/* True if the file can be written, which is asked before the measurements; makes it if it is not there. */
bool bench_report_writable(const char *path);

/* Begins an object with what every command's file says of the run. */
void bench_report_json_head(FILE *file, const bench_run_t *run);

/* Closes a file that was written; false if something of it is not stored. */
bool bench_report_close(FILE *file);

/* Figures of a row; negative if unknown. */
double bench_row_share(const bench_row_t *row);
double bench_row_ratio(const bench_row_t *row, bench_baseline_t baseline);
/* The cost of checksums as a share of the time without, where it is known. */
double bench_row_cost(const bench_row_t *row);

#endif
