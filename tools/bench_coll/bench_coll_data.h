/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs of collectives and the answers that they must have. Each rank's input is a table of its own, again and again
 * from the start of its send buffer; the length of the table is a prime, so that no block or chunk that went astray
 * finds the same values. All are small integers, of which every order of additions gives the same bits in every type.
 * One thread.
 */
#ifndef SELVAGE_BENCH_COLL_DATA_H
#define SELVAGE_BENCH_COLL_DATA_H

#include "tools/bench_coll/bench_coll_case.h"
#include "tools/common/tool_job.h"

typedef struct bench_data {
    const tool_job_t *job;
    selvage_device_t *device;
    void *stream;
    unsigned char *staging; /* pinned */
    unsigned char *table;
} bench_data_t;

void bench_data_init(bench_data_t *data, const tool_job_t *job, selvage_device_t *device, void *stream);
void bench_data_fini(bench_data_t *data);

/* This rank's input, as many elements of it as fit into bytes; complete on return. */
void bench_data_fill(const bench_data_t *data, const bench_case_t *what, void *device_ptr, size_t bytes);

/* Overwrites with what is no answer; complete on return. */
void bench_data_spoil(const bench_data_t *data, void *device_ptr, size_t bytes);

/* Number of wrong elements of what this rank received there. */
long bench_data_check(const bench_data_t *data, const bench_case_t *what, const void *device_ptr);

/* The scalar of BENCH_PREMUL as one element. */
uint64_t bench_data_scalar(selvage_type_t type);

#endif
