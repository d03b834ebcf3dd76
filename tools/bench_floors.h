/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floors: GB/s that a machine reached once and should reach again, in a JSON file that holds several machines:
 *     {"NVIDIA H200, 2 ranks": {"ring/peer/on/67108864": 270.5, ...}, ...}
 * A key is pattern, route, checksums and bytes per packet. Local; rank 0 calls.
 */
#ifndef SELVAGE_BENCH_FLOORS_H
#define SELVAGE_BENCH_FLOORS_H

#include "bench_run.h"

/* Prints every figure below its floor. Returns their number, or -1, with a message, if the file cannot be read. */
int bench_floors_compare(const bench_run_t *run, const char *path);

/* Writes 80 % of what was measured, in place of what the file says of this machine; other machines stay. */
bool bench_floors_write(const bench_run_t *run, const char *path);

#endif
