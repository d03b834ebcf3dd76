/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See bench_mpi_nccl.h. What NCCL has no call for is a group of sends and receives. Its multicast over NVLink is off
 * unless the user says otherwise, because setting it up needs rights that containers do not always have.
 */
#include "tools/bench_mpi/bench_mpi_nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INT8 = 0, FLOAT32 = 7, SUM = 0, ROOT = 0, WORDS = 2 };

static bool load(bench_mpi_nccl_t *nccl, const char *file)
{
    const struct {
        void *slot;
        const char *name;
    } calls[] = {
        {&nccl->get_id, "ncclGetUniqueId"},
        {&nccl->comm_init, "ncclCommInitRank"},
        {&nccl->comm_destroy, "ncclCommDestroy"},
        {&nccl->group_start, "ncclGroupStart"},
        {&nccl->group_end, "ncclGroupEnd"},
        {&nccl->send, "ncclSend"},
        {&nccl->recv, "ncclRecv"},
        {&nccl->all_reduce, "ncclAllReduce"},
        {&nccl->reduce, "ncclReduce"},
        {&nccl->broadcast, "ncclBroadcast"},
        {&nccl->all_gather, "ncclAllGather"},
        {&nccl->reduce_scatter, "ncclReduceScatter"},
    };
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(library, calls[i].name);
        if (!found) {
            snprintf(nccl->why_not, sizeof nccl->why_not, "%s has no %s", file, calls[i].name);
            return false;
        }
        memcpy(calls[i].slot, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
    }
    return true;
}

static bool all(bool here)
{
    int every = here;
    MPI_Allreduce(MPI_IN_PLACE, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return every != 0;
}

/* Two ranks on one GPU would each spin for the other. A GPU is a host's name and a PCI address. */
static bool one_gpu_each(const bench_mpi_job_t *job)
{
    enum { BYTES = MPI_MAX_PROCESSOR_NAME + sizeof job->device.gpu.bus };
    char own[BYTES];
    int length, same = 0;
    if (!all(job->device.gpu.index >= 0))
        return false;
    memset(own, 0, sizeof own);
    MPI_Get_processor_name(own, &length);
    memcpy(own + MPI_MAX_PROCESSOR_NAME, job->device.gpu.bus, sizeof job->device.gpu.bus);
    char *every = bench_mpi_host_malloc((size_t)job->size * BYTES);
    MPI_Allgather(own, BYTES, MPI_BYTE, every, BYTES, MPI_BYTE, MPI_COMM_WORLD);
    for (int rank = 0; rank < job->size; rank++)
        same += memcmp(every + (size_t)rank * BYTES, own, BYTES) == 0;
    free(every);
    return all(same == 1);
}

static bool join(bench_mpi_nccl_t *nccl, const bench_mpi_job_t *job)
{
    bench_mpi_nccl_id_t id;
    memset(&id, 0, sizeof id);
    if (!all(job->rank != 0 || nccl->get_id(&id) == 0))
        return false;
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return all(nccl->comm_init(&nccl->comm, job->size, id, job->rank) == 0);
}

void bench_mpi_nccl_open(bench_mpi_nccl_t *nccl, const bench_mpi_job_t *job, const char *file)
{
    *nccl = (bench_mpi_nccl_t){.ready = false};
    if (!file)
        file = strcmp(job->device.gpu.kind, "amd") == 0 ? "librccl.so.1" : "libnccl.so.2";
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (strcmp(file, "no") == 0) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "not wanted");
    } else if (!one_gpu_each(job)) {
        snprintf(nccl->why_not, sizeof nccl->why_not, "not every rank has a GPU of its own");
    } else if (!all(load(nccl, file)) || !join(nccl, job)) {
        if (!nccl->why_not[0])
            snprintf(nccl->why_not, sizeof nccl->why_not, "some rank could not");
    } else {
        nccl->words = bench_mpi_device_malloc(&job->device, WORDS);
        nccl->ready = true;
    }
}

void bench_mpi_nccl_close(bench_mpi_nccl_t *nccl, const bench_mpi_job_t *job)
{
    if (!nccl->ready)
        return;
    bench_mpi_device_free(&job->device, nccl->words);
    (void)nccl->comm_destroy(nccl->comm);
}

/* Those of messages, and those calls on all ranks that collective() has a case for. */
bool bench_mpi_nccl_has(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell)
{
    const char *const with[] = {"latency", "bandwidth", "bidirectional", "rate", "allreduce", "reduce", "bcast",
                                "allgather", "alltoall", "gather", "scatter", "reduce_scatter", "reduce_scatter_block",
                                "barrier", "iallreduce", "ialltoall"};
    bool has = false;
    for (size_t i = 0; i < sizeof with / sizeof with[0] && !has; i++)
        has = strcmp(cell->kind->name, with[i]) == 0;
    /* Its reduce-scatter is that of blocks. */
    const bool even = cell->bytes / sizeof(float) % (size_t)cell->job->size == 0;
    return nccl->ready && has && (strcmp(cell->kind->name, "reduce_scatter") != 0 || even);
}

static int send_to(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell, const char *from, size_t bytes, int to)
{
    return nccl->send(from, bytes, INT8, to, nccl->comm, cell->job->device.stream);
}

static int recv_from(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell, char *to, size_t bytes, int from)
{
    return nccl->recv(to, bytes, INT8, from, nccl->comm, cell->job->device.stream);
}

static int ping_pong(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell)
{
    int bad = cell->first ? send_to(nccl, cell, cell->send, cell->bytes, cell->peer) : 0;
    bad |= recv_from(nccl, cell, cell->recv, cell->bytes, cell->peer);
    return bad | (cell->first ? 0 : send_to(nccl, cell, cell->send, cell->bytes, cell->peer));
}

/* Windows, in one direction or in both, and the word that answers. */
static int windows(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell)
{
    const bool sends = cell->first || cell->kind->parts == 2, receives = !cell->first || cell->kind->parts == 2;
    int bad = nccl->group_start();
    for (int i = 0; i < cell->window; i++) {
        const size_t at = (size_t)i * cell->bytes;
        if (sends)
            bad |= send_to(nccl, cell, cell->send + at, cell->bytes, cell->peer);
        if (receives)
            bad |= recv_from(nccl, cell, cell->recv + at, cell->bytes, cell->peer);
    }
    bad |= nccl->group_end();
    bad |= nccl->group_start();
    if (receives)
        bad |= send_to(nccl, cell, nccl->words, 1, cell->peer);
    if (sends)
        bad |= recv_from(nccl, cell, nccl->words + 1, 1, cell->peer);
    return bad | nccl->group_end();
}

/* Blocks from some ranks to some: who sends to whom is a property of the call. */
static int blocks(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell, bool to_all, bool from_all)
{
    const bool root = cell->job->rank == ROOT;
    int bad = nccl->group_start();
    for (int rank = 0; rank < cell->job->size; rank++) {
        const size_t at = (size_t)rank * cell->bytes;
        if (to_all && from_all) { /* all-to-all */
            bad |= send_to(nccl, cell, cell->send + at, cell->bytes, rank);
            bad |= recv_from(nccl, cell, cell->recv + at, cell->bytes, rank);
        } else if (to_all) { /* scatter */
            bad |= root ? send_to(nccl, cell, cell->send + at, cell->bytes, rank) : 0;
            bad |= rank == ROOT ? recv_from(nccl, cell, cell->recv, cell->bytes, ROOT) : 0;
        } else { /* gather */
            bad |= rank == ROOT ? send_to(nccl, cell, cell->send, cell->bytes, ROOT) : 0;
            bad |= root ? recv_from(nccl, cell, cell->recv + at, cell->bytes, rank) : 0;
        }
    }
    return bad | nccl->group_end();
}

static int collective(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell)
{
    const size_t count = cell->bytes / sizeof(float), part = count / (size_t)cell->job->size;
    void *comm = nccl->comm, *stream = cell->job->device.stream;
    switch (bench_mpi_kind_which(cell->kind)) {
    case BENCH_MPI_ALLREDUCE:
    case BENCH_MPI_IALLREDUCE:
        return nccl->all_reduce(cell->send, cell->recv, count, FLOAT32, SUM, comm, stream);
    case BENCH_MPI_REDUCE:
        return nccl->reduce(cell->send, cell->recv, count, FLOAT32, SUM, ROOT, comm, stream);
    case BENCH_MPI_BCAST:
        return nccl->broadcast(cell->send, cell->job->rank == ROOT ? cell->send : cell->recv, cell->bytes, INT8, ROOT,
                               comm, stream);
    case BENCH_MPI_ALLGATHER:
        return nccl->all_gather(cell->send, cell->recv, cell->bytes, INT8, comm, stream);
    case BENCH_MPI_ALLTOALL:
    case BENCH_MPI_IALLTOALL:
        return blocks(nccl, cell, true, true);
    case BENCH_MPI_GATHER:
        return blocks(nccl, cell, false, true);
    case BENCH_MPI_SCATTER:
        return blocks(nccl, cell, true, false);
    case BENCH_MPI_REDUCE_SCATTER:
    case BENCH_MPI_REDUCE_SCATTER_BLOCK:
        return nccl->reduce_scatter(cell->send, cell->recv, part, FLOAT32, SUM, comm, stream);
    default:
        return nccl->all_reduce(nccl->words, nccl->words + 1, 1, INT8, SUM, comm, stream);
    }
}

void bench_mpi_nccl_step(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell)
{
    const tool_cuda_t *cuda = &cell->job->device.cuda;
    int bad = 0;
    if (!cell->kind->pair)
        bad = collective(nccl, cell);
    else if (cell->kind->window)
        bad = windows(nccl, cell);
    else
        bad = ping_pong(nccl, cell);
    if (bad || cuda->stream_sync(cell->job->device.stream) != 0)
        bench_mpi_die("NCCL", "a call failed");
}
