/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective once with each of a few types, sizes and operations, every element of every result compared with
 * what it must be. Values are small whole numbers, whose sums are exact in every type and order.
 */
#ifndef SELVAGE_SMOKE_SUITE_H
#define SELVAGE_SMOKE_SUITE_H

#include <selvage/collective.h>

#include "tools/common/tool_job.h"

typedef enum smoke_call {
    SMOKE_ALL_REDUCE,
    SMOKE_REDUCE_SCATTER,
    SMOKE_ALL_GATHER,
    SMOKE_BROADCAST,
    SMOKE_REDUCE,
    SMOKE_ALL_TO_ALL,
    SMOKE_SEND_RECEIVE, /* round the ring of all ranks, in a group */
    SMOKE_BARRIER,
    SMOKE_CALLS
} smoke_call_t;

/* The same on all ranks. */
typedef struct smoke_call_row {
    smoke_call_t call;
    uint64_t cases, bad; /* results, over all ranks */
    size_t bytes;        /* of the largest, in a rank's larger buffer */
    double seconds;      /* of one call of that size: median of the slowest rank */
} smoke_call_row_t;

typedef struct smoke_suite {
    const tool_job_t *job;
    selvage_device_t *device;
    selvage_coll_t *coll; /* NULL: not available, and why: */
    char reason[160];
    void *stream;
    size_t capacity; /* of each buffer, in bytes */
    unsigned char *device_send, *device_recv, *host;
    size_t count_max;
    int complaints; /* wrong results still to be printed */
    int row_count;
    smoke_call_row_t rows[SMOKE_CALLS];
} smoke_suite_t;

const char *smoke_call_name(smoke_call_t call);

/* Collective; errors end the job, but for what is not possible here. */
void smoke_suite_init(smoke_suite_t *suite, const tool_job_t *job, selvage_comm_t *comm, bool quick);
void smoke_suite_fini(smoke_suite_t *suite);
/* All cases of a call, appended as a row. Collective. */
const smoke_call_row_t *smoke_suite_run(smoke_suite_t *suite, smoke_call_t call);

#endif
