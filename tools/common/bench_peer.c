/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank exports one receive buffer and maps those of all others. Mapping may fail (containers, old drivers): then
 * all ranks do without. Half-built objects are torn down alike: an address or a stream of 0 is one that is not there.
 */
#include "tools/common/bench_peer.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/bench_measure.h"

enum { LAZY_PEER_ACCESS = 1, NON_BLOCKING = 1 };

static bool make_local(bench_peer_t *peer, size_t bytes, tool_cuda_ipc_t *handle_out)
{
    if (peer->cuda.mem_alloc(&peer->send, bytes) != 0) {
        peer->send = 0;
        return false;
    }
    if (peer->cuda.mem_alloc(&peer->recv, bytes) != 0) {
        peer->recv = 0;
        return false;
    }
    for (int i = 0; i < BENCH_PEER_LANES; i++) {
        if (peer->cuda.stream_create(&peer->stream[i], NON_BLOCKING) != 0) {
            peer->stream[i] = NULL;
            return false;
        }
    }
    return peer->cuda.ipc_get(handle_out, peer->recv) == 0;
}

static bool map_others(bench_peer_t *peer, const tool_cuda_ipc_t *handles)
{
    const tool_job_t *job = peer->traffic->job;
    for (int rank = 0; rank < job->size; rank++) {
        if (rank == job->rank) {
            peer->mapped[rank] = peer->recv;
        } else if (peer->cuda.ipc_open(&peer->mapped[rank], handles[rank], LAZY_PEER_ACCESS) != 0) {
            peer->mapped[rank] = 0;
            return false;
        }
    }
    return true;
}

static bool gather_and_map(bench_peer_t *peer, tool_cuda_ipc_t *mine)
{
    const tool_job_t *job = peer->traffic->job;
    MPI_Request request;
    tool_cuda_ipc_t *handles = tool_malloc(job, (size_t)job->size * sizeof *handles);
    MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, handles, (int)sizeof *mine, MPI_BYTE, job->comm, &request);
    tool_poll(job, &request, 1);
    const bool mapped = map_others(peer, handles);
    free(handles);
    return bench_all(job, mapped);
}

void bench_peer_init(bench_peer_t *peer, const tool_traffic_t *traffic)
{
    const tool_job_t *job = traffic->job;
    tool_cuda_ipc_t mine;
    memset(&mine, 0, sizeof mine);
    *peer = (bench_peer_t){.traffic = traffic, .lanes = 1};
    const bool fits = job->hosts == 1 && job->size <= BENCH_PEER_RANKS_MAX && job->gpu.index >= 0;
    if (!bench_all(job, fits && tool_cuda_load(job->gpu.kind, &peer->cuda)))
        return;
    if (!bench_all(job, make_local(peer, traffic->capacity, &mine)))
        return;
    peer->ready = gather_and_map(peer, &mine);
}

/* A mapping is closed before the rank that exports it frees the memory. */
void bench_peer_fini(bench_peer_t *peer)
{
    const tool_job_t *job = peer->traffic->job;
    for (int rank = 0; rank < BENCH_PEER_RANKS_MAX; rank++) {
        if (peer->mapped[rank] && rank != job->rank)
            (void)peer->cuda.ipc_close(peer->mapped[rank]);
    }
    tool_barrier(job);
    for (int i = 0; i < BENCH_PEER_LANES; i++) {
        if (peer->stream[i])
            (void)peer->cuda.stream_destroy(peer->stream[i]);
    }
    if (peer->recv)
        (void)peer->cuda.mem_free(peer->recv);
    if (peer->send)
        (void)peer->cuda.mem_free(peer->send);
}

void bench_peer_copy(void *context)
{
    bench_peer_t *peer = context;
    const tool_traffic_t *traffic = peer->traffic;
    for (int p = 0; p < traffic->packets; p++) {
        const size_t at = (size_t)p * traffic->bytes;
        peer->failed |= peer->cuda.copy(peer->mapped[traffic->send_peer[p]] + at, peer->send + at, traffic->bytes,
                                        peer->stream[p % peer->lanes]) != 0;
    }
}

void bench_peer_finish(void *context)
{
    bench_peer_t *peer = context;
    for (int lane = 0; lane < peer->lanes; lane++)
        peer->failed |= peer->cuda.stream_sync(peer->stream[lane]) != 0;
}

void bench_peer_copy_and_finish(bench_peer_t *peer)
{
    bench_peer_copy(peer);
    bench_peer_finish(peer);
}
