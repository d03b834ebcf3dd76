/* SPDX-License-Identifier: BSD-3-Clause */
/* What rank 0 of selvage-bench-mpi prints and writes. */
#ifndef SELVAGE_BENCH_MPI_REPORT_H
#define SELVAGE_BENCH_MPI_REPORT_H

#include "tools/bench_mpi/bench_mpi_run.h"

/* Before the text of a record, wherever on a line the launcher lets it begin. */
#define BENCH_MPI_RECORD "selvage-bench-mpi-record:"

bool bench_mpi_report_writable(const char *path); /* NULL is */

void bench_mpi_report_head(const bench_mpi_run_t *run);
void bench_mpi_report_title(const bench_mpi_run_t *run, int which); /* of a benchmark's table */
void bench_mpi_report_row(const bench_mpi_run_t *run, int which, int row);
void bench_mpi_report_records(const bench_mpi_run_t *run, int which, int row);

/* The last section. Returns the number of cliffs. */
int bench_mpi_report_cliffs(const bench_mpi_run_t *run);

bool bench_mpi_report_json(const bench_mpi_run_t *run, const char *path);
bool bench_mpi_report_csv(const bench_mpi_run_t *run, const char *path);

#endif
