/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw copy between GPUs: the copy engine into an IPC mapping of the peer's memory, in buffers of its own, with
 * nothing but the copies. It bounds what the route `peer` can do. For GPUs; on the software device it is not ready.
 */
#ifndef SELVAGE_BENCH_PEER_H
#define SELVAGE_BENCH_PEER_H

#include "tools/common/tool_cuda.h"
#include "tools/common/tool_traffic.h"

enum { BENCH_PEER_RANKS_MAX = 64, BENCH_PEER_LANES = 8 };

typedef struct bench_peer {
    bool ready;                    /* on all ranks */
    bool failed;                   /* a copy failed here since the flag was cleared */
    int lanes;                     /* streams that share the packets; set before a copy */
    const tool_traffic_t *traffic; /* packets and peers; borrowed */
    tool_cuda_t cuda;
    unsigned long long send, recv;
    unsigned long long mapped[BENCH_PEER_RANKS_MAX]; /* receive buffer of each rank, as seen here */
    void *stream[BENCH_PEER_LANES];
} bench_peer_t;

/* Allocates and maps, if all ranks can. Collective. Partner: bench_peer_fini(), also where it is not ready. */
void bench_peer_init(bench_peer_t *peer, const tool_traffic_t *traffic);
void bench_peer_fini(bench_peer_t *peer);

/* All packets of the traffic at once; bench_peer_finish() returns when they have arrived. Both are a bench_body_t. */
void bench_peer_copy(void *context);
void bench_peer_finish(void *context);

/* The two one after the other. */
void bench_peer_copy_and_finish(bench_peer_t *peer);

#endif
