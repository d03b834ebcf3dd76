/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives with the places and counts of a case. Numbers of types and operations are those of its interface,
   which RCCL has as well. */
#include "tools/bench_coll/bench_coll_nccl.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/common/bench_measure.h"

enum { NONE = -1 };

static const int nccl_types[BENCH_TYPES] = {[SELVAGE_TYPE_DEFAULT] = NONE, [SELVAGE_INT8] = 0,
                                            [SELVAGE_UINT8] = 1,           [SELVAGE_INT32] = 2,
                                            [SELVAGE_UINT32] = 3,          [SELVAGE_INT64] = 4,
                                            [SELVAGE_UINT64] = 5,          [SELVAGE_FLOAT16] = 6,
                                            [SELVAGE_FLOAT32] = 7,         [SELVAGE_FLOAT64] = 8,
                                            [SELVAGE_BFLOAT16] = 9,        [SELVAGE_FLOAT8_E4M3] = 10,
                                            [SELVAGE_FLOAT8_E5M2] = 11};
static const int nccl_ops[BENCH_OPS + 1] = {[BENCH_SUM] = 0, [BENCH_PROD] = 1,      [BENCH_MAX] = 2,
                                            [BENCH_MIN] = 3, [BENCH_AVG] = 4,       [BENCH_PREMUL] = NONE,
                                            [BENCH_OP_NONE] = 0};

static bool load(bench_coll_nccl_t *nccl)
{
    const struct {
        void *slot;
        const char *name;
    } calls[] = {
        {&nccl->all_reduce, "ncclAllReduce"},          {&nccl->reduce_scatter, "ncclReduceScatter"},
        {&nccl->all_gather, "ncclAllGather"},          {&nccl->broadcast, "ncclBroadcast"},
        {&nccl->reduce, "ncclReduce"},                 {&nccl->comm_register, "ncclCommRegister"},
        {&nccl->comm_deregister, "ncclCommDeregister"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(nccl->base.library, calls[i].name);
        memcpy(calls[i].slot, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
    }
    return nccl->all_reduce && nccl->reduce_scatter && nccl->all_gather && nccl->broadcast && nccl->reduce;
}

/* What cannot be registered stays as it is: this is a tuning. */
static void register_buffers(bench_coll_nccl_t *nccl)
{
    const bench_ground_t *ground = nccl->ground;
    unsigned char *const buffers[2] = {ground->send, ground->recv};
    if (!bench_all(ground->job, nccl->comm_register && nccl->comm_deregister))
        return;
    for (int c = 1; c < nccl->base.comm_count; c++) {
        for (int b = 0; b < 2; b++) {
            void **handle = &nccl->handles[c][b];
            if (nccl->comm_register(nccl->base.comms[c].comm, buffers[b], ground->capacity, handle) != 0)
                *handle = NULL;
        }
    }
}

void bench_coll_nccl_init(bench_coll_nccl_t *nccl, const bench_ground_t *ground, const bench_options_t *options)
{
    *nccl = (bench_coll_nccl_t){.ground = ground};
    nccl->traffic = (tool_traffic_t){.job = ground->job, .device = ground->device, .stream = ground->stream};
    bench_nccl_init(&nccl->base, &nccl->traffic, options);
    if (!nccl->base.ready)
        return;
    nccl->base.ready = bench_all(ground->job, load(nccl));
    if (nccl->base.ready)
        register_buffers(nccl);
    else
        snprintf(nccl->base.why_not, sizeof nccl->base.why_not, "the library has no collectives");
}

void bench_coll_nccl_fini(bench_coll_nccl_t *nccl)
{
    for (int c = 1; c < nccl->base.comm_count; c++) {
        for (int b = 0; b < 2; b++) {
            if (nccl->handles[c][b])
                (void)nccl->comm_deregister(nccl->base.comms[c].comm, nccl->handles[c][b]);
        }
    }
    bench_nccl_fini(&nccl->base);
}

/* A packet to each rank and from each, or to the next one and from the one before. */
static int send_and_receive(bench_coll_nccl_t *nccl, const unsigned char *send, unsigned char *recv, void *comm)
{
    const bench_case_t *what = nccl->what;
    const bool all = what->call == BENCH_ALL_TO_ALL;
    const int rank = nccl->ground->job->rank, ranks = nccl->ground->job->size, type = nccl_types[what->type];
    const size_t block = all ? what->count * selvage_type_bytes(what->type) : 0;
    int result = nccl->base.group_start();
    for (int i = all ? 0 : 1; i < (all ? ranks : 2) && result == 0; i++) {
        const int to = (rank + i) % ranks, from = (rank + ranks - i % ranks) % ranks;
        void *stream = nccl->ground->stream;
        result = nccl->base.send(send + (size_t)to * block, what->count, type, to, comm, stream);
        if (result == 0)
            result = nccl->base.recv(recv + (size_t)from * block, what->count, type, from, comm, stream);
    }
    const int ended = nccl->base.group_end();
    return result ? result : ended;
}

static int call_once(bench_coll_nccl_t *nccl, void *comm)
{
    const bench_case_t *what = nccl->what;
    const bench_ground_t *ground = nccl->ground;
    const bench_place_t place = bench_case_place(what, ground->job->rank, ground->job->size);
    const unsigned char *send = (what->in_place ? ground->recv : ground->send) + place.send_at;
    unsigned char *recv = ground->recv + place.recv_at;
    const int type = nccl_types[what->type], op = nccl_ops[what->op];
    void *stream = ground->stream;
    switch (what->call) {
    case BENCH_ALL_REDUCE:
        return nccl->all_reduce(send, recv, what->count, type, op, comm, stream);
    case BENCH_REDUCE_SCATTER:
        return nccl->reduce_scatter(send, recv, what->count, type, op, comm, stream);
    case BENCH_ALL_GATHER:
        return nccl->all_gather(send, recv, what->count, type, comm, stream);
    case BENCH_BROADCAST:
        return nccl->broadcast(send, recv, what->count, type, what->root, comm, stream);
    case BENCH_REDUCE:
        return nccl->reduce(send, recv, what->count, type, op, what->root, comm, stream);
    case BENCH_BARRIER:
        return nccl->all_reduce(ground->send, ground->recv, 1, nccl_types[SELVAGE_INT8], 0, comm, stream);
    default:
        return send_and_receive(nccl, send, recv, comm);
    }
}

void bench_coll_nccl_enqueue(void *context)
{
    bench_coll_nccl_t *nccl = context;
    nccl->base.failed |= call_once(nccl, nccl->base.comms[nccl->base.current].comm) != 0;
}

void bench_coll_nccl_finish(void *context)
{
    const bench_ground_t *ground = ((bench_coll_nccl_t *)context)->ground;
    tool_try(ground->job, "synchronize", selvage_stream_synchronize(ground->device, ground->stream));
}

bool bench_coll_nccl_can(bench_coll_nccl_t *nccl, const bench_case_t *what)
{
    nccl->what = what;
    nccl->base.failed = false;
    nccl->base.current = 0;
    const bool typed = what->call == BENCH_BARRIER || nccl_types[what->type] != NONE;
    if (!nccl->base.ready || nccl_ops[what->op] == NONE || !typed)
        return false;
    bench_coll_nccl_enqueue(nccl);
    if (!bench_all(nccl->ground->job, !nccl->base.failed))
        return false;
    bench_coll_nccl_finish(nccl);
    return true;
}
