/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floors: GB/s that a machine reached once and should reach again, in a JSON file that holds several machines:
 *     {"NVIDIA H200, 2 ranks": {"ring/peer/on/67108864": 270.5, ...}, ...}
 * A key says what was measured: of exchanges pattern, route, checksums and bytes per packet. Local; rank 0 calls.
 */
#ifndef SELVAGE_BENCH_FLOORS_H
#define SELVAGE_BENCH_FLOORS_H

#include "tools/common/tool_job.h"

enum { BENCH_KEY_BYTES = 128 };

typedef struct bench_figure {
    char key[BENCH_KEY_BYTES]; /* without what JSON would escape */
    double gbs;
    bool available;
} bench_figure_t;

/* What a run measured on a machine; borrowed but for the figures, which who made them frees. */
typedef struct bench_figures {
    const tool_job_t *job;
    const char *machine;
    bench_figure_t *figure;
    int count;
} bench_figures_t;

/* Prints every figure below its floor. Returns their number, or -1, with a message, if the file cannot be read. */
int bench_floors_compare(const bench_figures_t *figures, const char *path);

/* Writes 80 % of what was measured, in place of what the file says of this machine; other machines stay. */
bool bench_floors_write(const bench_figures_t *figures, const char *path);

#endif
