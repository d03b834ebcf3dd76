/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grouped send and receive of NCCL, or RCCL on AMD, as a rival, if the library is found at run time; one process per
 * GPU. The buffers and the stream are those of the traffic. Beside a communicator as the library makes it there are
 * tuned ones, with a given number of channels. Errors of NCCL end the comparison, not the run.
 */
#ifndef SELVAGE_BENCH_NCCL_H
#define SELVAGE_BENCH_NCCL_H

#include "tools/bench/bench_options.h"
#include "tools/common/tool_traffic.h"

typedef struct bench_nccl_id {
    char opaque[128];
} bench_nccl_id_t;

struct bench_nccl_config;

/* 0: as the library chooses; the others have a number of channels each. */
typedef struct bench_nccl_comm {
    void *comm; /* NULL: could not be made */
    int channels;
} bench_nccl_comm_t;

typedef struct bench_nccl {
    bool ready;  /* on all ranks */
    bool failed; /* a call failed here since the flag was cleared */
    char why_not[160];
    int version;
    void *library;
    bench_nccl_comm_t comms[BENCH_NCCL_TUNED_MAX + 1];
    int comm_count, current; /* which one the next exchange uses */
    const tool_traffic_t *traffic;
    int (*get_version)(int *version);
    int (*get_id)(bench_nccl_id_t *id);
    int (*comm_init)(void **comm, int size, bench_nccl_id_t id, int rank);
    int (*comm_init_config)(void **comm, int size, bench_nccl_id_t id, int rank, struct bench_nccl_config *config);
    int (*comm_destroy)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *buf, size_t count, int type, int peer, void *comm, void *stream);
    int (*recv)(void *buf, size_t count, int type, int peer, void *comm, void *stream);
    const char *(*error_string)(int result);
} bench_nccl_t;

/* Collective. Partner: bench_nccl_fini(), also where it is not ready. */
void bench_nccl_init(bench_nccl_t *nccl, const tool_traffic_t *traffic, const bench_options_t *options);
void bench_nccl_fini(bench_nccl_t *nccl);

/* All packets of the traffic in one group; bench_nccl_finish() returns when they have arrived. Both are a
   bench_body_t. */
void bench_nccl_exchange(void *context);
void bench_nccl_finish(void *context);

#endif
