/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's grouped send and receive as a rival, if its library is found at run time; one process per GPU. The buffers and
 * the stream are those of the traffic. Errors of NCCL end the comparison, not the run.
 */
#ifndef SELVAGE_BENCH_NCCL_H
#define SELVAGE_BENCH_NCCL_H

#include "tool_traffic.h"

typedef struct bench_nccl_id {
    char opaque[128];
} bench_nccl_id_t;

typedef struct bench_nccl {
    bool ready;  /* on all ranks */
    bool failed; /* a call failed here since the flag was cleared */
    char why_not[160];
    int version;
    void *library, *comm;
    const tool_traffic_t *traffic;
    int (*get_version)(int *version);
    int (*get_id)(bench_nccl_id_t *id);
    int (*comm_init)(void **comm, int size, bench_nccl_id_t id, int rank);
    int (*comm_destroy)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *buf, size_t count, int type, int peer, void *comm, void *stream);
    int (*recv)(void *buf, size_t count, int type, int peer, void *comm, void *stream);
    const char *(*error_string)(int result);
} bench_nccl_t;

/* Collective. channels: 0 for NCCL's own choice. Partner: bench_nccl_fini(), also where it is not ready. */
void bench_nccl_init(bench_nccl_t *nccl, const tool_traffic_t *traffic, const char *library, int channels);
void bench_nccl_fini(bench_nccl_t *nccl);

/* All packets of the traffic in one group; returns when they have arrived. A bench_body_t. */
void bench_nccl_exchange(void *context);

#endif
