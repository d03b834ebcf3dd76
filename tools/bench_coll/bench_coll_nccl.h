/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of NCCL, or RCCL on AMD, on the communicators of bench_nccl.h: the first as the library makes it, the
 * others tuned, with a number of channels each and, where the library can, with both buffers registered.
 */
#ifndef SELVAGE_BENCH_COLL_NCCL_H
#define SELVAGE_BENCH_COLL_NCCL_H

#include "tools/bench_coll/bench_coll_case.h"
#include "tools/bench_coll/bench_coll_setting.h"
#include "tools/bench/bench_nccl.h"

typedef struct bench_coll_nccl {
    const bench_ground_t *ground;
    bench_nccl_t base;
    tool_traffic_t traffic; /* device and stream, for the base */
    void *handles[BENCH_NCCL_TUNED_MAX + 1][2];
    const bench_case_t *what; /* the next call */
    int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
    int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm, void *stream);
    int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream);
    int (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream);
    int (*comm_register)(void *comm, void *buf, size_t bytes, void **handle);
    int (*comm_deregister)(void *comm, void *handle);
} bench_coll_nccl_t;

/* Collective. Partner: bench_coll_nccl_fini(), also where it is not ready (base.ready). */
void bench_coll_nccl_init(bench_coll_nccl_t *nccl, const bench_ground_t *ground, const bench_options_t *options);
void bench_coll_nccl_fini(bench_coll_nccl_t *nccl);

/* Whether the library does this; one call tells. Collective. */
bool bench_coll_nccl_can(bench_coll_nccl_t *nccl, const bench_case_t *what);

/* A bench_body_t each, on the communicator base.current: the call that bench_coll_nccl_can() was asked about. A barrier
   is the smallest all-reduce, an all-to-all a group of sends and receives. */
void bench_coll_nccl_enqueue(void *context);
void bench_coll_nccl_finish(void *context);

#endif
