/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_collectives SEED CASES: every collective call of the drop-in, blocking and not, in place and not, on
 * intra-communicators, inter-communicators and topologies, with random datatypes and the device's memory or the host's
 * in either argument of every rank, against the same call of MPI's on host buffers. Exit status 0 if they agree.
 */
#include <stdlib.h>

#include "fixtures/dropin_case.h"

enum { BYTES_MAX = 600, SPAN_MAX = 1 << 11, PEERS_MAX = 16, COUNT_MAX = 3, LONGER = 12 };

typedef enum call {
    ALLGATHER, ALLGATHERV, ALLREDUCE, ALLTOALL, ALLTOALLV, ALLTOALLW, BCAST, EXSCAN, GATHER, GATHERV,
    NEIGHBOR_ALLGATHER, NEIGHBOR_ALLGATHERV, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLV, NEIGHBOR_ALLTOALLW, REDUCE,
    REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, SCATTER, SCATTERV, PACK, REDUCE_LOCAL, CALLS
} call_t;

static struct {
    MPI_Comm inter, cart, graph;
} comms;

typedef struct coll_case {
    call_t call;
    bool in_place, waits, longer; /* waits: the non-blocking form; longer: reductions of more */
    int n, count, root;
    MPI_Comm comm;
    MPI_Datatype type, types[PEERS_MAX];
    int even[PEERS_MAX], counts[PEERS_MAX], displs[PEERS_MAX], bytes[PEERS_MAX];
    MPI_Aint far[PEERS_MAX];
    void *out, *in;
} case_t;

#define CALL(NAME, LOWER, ...) \
    (c->waits ? X(I##LOWER, __VA_ARGS__, request) : X(NAME, __VA_ARGS__))

static int call_moving(const case_t *c, MPI_Request *request)
{
    void *out = c->in_place ? MPI_IN_PLACE : c->out, *in = c->in;
    MPI_Datatype t = c->type;
    int n = c->count;
    switch (c->call) {
    case ALLGATHER: return CALL(Allgather, allgather, out, n, t, in, n, t, c->comm);
    case ALLGATHERV:
        return CALL(Allgatherv, allgatherv, out, c->counts[dropin.rank], t, in, c->counts, c->displs, t, c->comm);
    case ALLTOALL: return CALL(Alltoall, alltoall, out, n, t, in, n, t, c->comm);
    case ALLTOALLV:
        return CALL(Alltoallv, alltoallv, out, c->counts, c->displs, t, in, c->counts, c->displs, t, c->comm);
    case ALLTOALLW:
        return CALL(Alltoallw, alltoallw, out, c->counts, c->bytes, c->types, in, c->counts, c->bytes, c->types,
                    c->comm);
    case BCAST: return CALL(Bcast, bcast, in, n, t, c->root, c->comm);
    case GATHER:
        return CALL(Gather, gather, c->in_place && dropin.rank == c->root ? out : c->out, n, t, in, n, t, c->root,
                    c->comm);
    case GATHERV:
        return CALL(Gatherv, gatherv, c->in_place && dropin.rank == c->root ? out : c->out, c->counts[dropin.rank], t,
                    in, c->counts, c->displs, t, c->root, c->comm);
    case SCATTER:
        return CALL(Scatter, scatter, c->out, n, t, c->in_place && dropin.rank == c->root ? MPI_IN_PLACE : in, n, t,
                    c->root, c->comm);
    case SCATTERV:
        return CALL(Scatterv, scatterv, c->out, c->counts, c->displs, t,
                    c->in_place && dropin.rank == c->root ? MPI_IN_PLACE : in, c->counts[dropin.rank], t, c->root,
                    c->comm);
    default: return MPI_ERR_OTHER;
    }
}

static int call_neighbors(const case_t *c, MPI_Request *request)
{
    MPI_Datatype t = c->type;
    int n = c->count;
    switch (c->call) {
    case NEIGHBOR_ALLGATHER: return CALL(Neighbor_allgather, neighbor_allgather, c->out, n, t, c->in, n, t, c->comm);
    case NEIGHBOR_ALLGATHERV:
        return CALL(Neighbor_allgatherv, neighbor_allgatherv, c->out, n, t, c->in, c->even, c->displs, t, c->comm);
    case NEIGHBOR_ALLTOALL: return CALL(Neighbor_alltoall, neighbor_alltoall, c->out, n, t, c->in, n, t, c->comm);
    case NEIGHBOR_ALLTOALLV:
        return CALL(Neighbor_alltoallv, neighbor_alltoallv, c->out, c->even, c->displs, t, c->in, c->even, c->displs, t,
                    c->comm);
    case NEIGHBOR_ALLTOALLW:
        return CALL(Neighbor_alltoallw, neighbor_alltoallw, c->out, c->even, c->far, c->types, c->in, c->even, c->far,
                    c->types, c->comm);
    default: return MPI_ERR_OTHER;
    }
}

static int call_reducing(const case_t *c, MPI_Request *request)
{
    void *out = c->in_place ? MPI_IN_PLACE : c->out, *in = c->in;
    int n = c->longer ? LONGER * c->count : c->count;
    switch (c->call) {
    case ALLREDUCE: return CALL(Allreduce, allreduce, out, in, n, MPI_INT, MPI_SUM, c->comm);
    case EXSCAN: return CALL(Exscan, exscan, out, in, n, MPI_INT, MPI_SUM, c->comm);
    case SCAN: return CALL(Scan, scan, out, in, n, MPI_INT, MPI_MAX, c->comm);
    case REDUCE:
        return CALL(Reduce, reduce, c->in_place && dropin.rank == c->root ? out : c->out, in, n, MPI_INT, MPI_BXOR,
                    c->root, c->comm);
    case REDUCE_SCATTER: return CALL(Reduce_scatter, reduce_scatter, out, in, c->counts, MPI_INT, MPI_SUM, c->comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, reduce_scatter_block, out, in, n, MPI_INT, MPI_SUM, c->comm);
    case REDUCE_LOCAL: return X(Reduce_local, c->out, in, n, MPI_INT, MPI_SUM);
    case PACK: {
        int bytes, position = 0, code;
        n = c->count;
        PMPI_Pack_size(n, c->type, MPI_COMM_WORLD, &bytes);
        code = X(Pack, c->out, n, c->type, c->in, bytes, &position, MPI_COMM_WORLD);
        position = 0;
        return code != MPI_SUCCESS ? code : X(Unpack, c->in, bytes, &position, c->out, n, c->type, MPI_COMM_WORLD);
    }
    default: return MPI_ERR_OTHER;
    }
}

/* A program may free its type while a call goes on. */
static int run(const case_t *given)
{
    MPI_Request own = MPI_REQUEST_NULL, *request = &own;
    case_t freed = *given, *c = &freed;
    bool frees = c->waits && c->type != MPI_DOUBLE && PMPI_Type_dup(given->type, &c->type) == MPI_SUCCESS;
    for (int i = 0; i < PEERS_MAX; i++)
        c->types[i] = c->type;
    int code = c->call >= NEIGHBOR_ALLGATHER && c->call <= NEIGHBOR_ALLTOALLW ? call_neighbors(c, request)
               : c->call == ALLREDUCE || c->call == EXSCAN || c->call >= REDUCE_LOCAL ||
                       (c->call >= REDUCE && c->call <= SCAN) || c->call == PACK
                   ? call_reducing(c, request)
                   : call_moving(c, request);
    if (frees)
        PMPI_Type_free(&c->type);
    return code != MPI_SUCCESS ? code : X(Wait, request, MPI_STATUS_IGNORE);
}

/* Blocks of different lengths, with room between them; alike on all ranks. */
static void make_blocks(case_t *c)
{
    MPI_Aint lb, extent, low, span;
    PMPI_Type_get_extent(c->type, &lb, &extent);
    PMPI_Type_get_true_extent(c->type, &low, &span);
    int at = 0, room = (int)(span / (extent ? extent : 1)) + 2;
    for (int i = 0; i < PEERS_MAX; i++) {
        bool even = c->call == ALLTOALLV || c->call == ALLTOALLW;
        c->even[i] = c->count;
        c->counts[i] = even ? c->count : (int)dropin_pick((unsigned)c->count + 1);
        c->displs[i] = at;
        c->bytes[i] = (int)(at * extent);
        c->far[i] = at * extent;
        c->types[i] = c->type;
        at += c->count + room;
    }
}

static case_t make_case(void)
{
    case_t c = {.call = (call_t)dropin_pick(CALLS), .waits = dropin_pick(2), .comm = MPI_COMM_WORLD,
                .count = 1 + (int)dropin_pick(COUNT_MAX), .n = dropin.size, .longer = dropin_pick(2)};
    bool neighbors = c.call >= NEIGHBOR_ALLGATHER && c.call <= NEIGHBOR_ALLTOALLW;
    c.root = (int)dropin_pick((unsigned)dropin.size);
    c.in_place = dropin_pick(3) == 0 && !neighbors && c.call != BCAST && c.call < PACK;
    if (neighbors)
        c.comm = dropin_pick(2) ? comms.cart : comms.graph;
    int bytes = datatype_pick_bytes(&dropin.random, BYTES_MAX);
    MPI_Aint lb, extent;
    c.type = dropin_pick(2) ? datatype_make(&dropin.random, bytes, SPAN_MAX) : MPI_DOUBLE;
    PMPI_Type_get_extent(c.type, &lb, &extent);
    if (extent <= 0) /* such elements have no order in which blocks could follow each other */
        datatype_drop(&c.type);
    c.type = c.type == MPI_DATATYPE_NULL ? MPI_DOUBLE : c.type;
    make_blocks(&c);
    /* between the groups: those calls whose arguments look the same on both sides */
    if (comms.inter != MPI_COMM_NULL && !c.in_place && dropin_pick(4) == 0 &&
        (c.call == ALLGATHER || c.call == ALLREDUCE || c.call == ALLTOALL || c.call == BCAST || c.call == GATHER ||
         c.call == SCATTER || c.call == REDUCE)) {
        c.comm = comms.inter;
        c.root = dropin.rank == 0 ? MPI_ROOT : dropin.rank % 2 == 0 ? MPI_PROC_NULL : 0;
    }
    return c;
}

/* Enough for every block that any call may touch. */
static dropin_buffer_t make_buffer(const case_t *c, bool device)
{
    MPI_Aint lb, extent, low, span;
    PMPI_Type_get_extent(c->type, &lb, &extent);
    PMPI_Type_get_true_extent(c->type, &low, &span);
    int64_t high = low + span + c->far[PEERS_MAX - 1] + PEERS_MAX * c->count * extent;
    int64_t numbers = (int64_t)sizeof(int) * PEERS_MAX * COUNT_MAX * LONGER;
    return dropin_buffer(low < 0 ? low : 0, high > numbers ? high : numbers, device);
}

static void check_case(int number)
{
    case_t c = make_case();
    unsigned where = dropin_pick(16) >> (dropin.rank % 2) * 2;
    dropin_buffer_t out = make_buffer(&c, where & 1), in = make_buffer(&c, where & 2);
    int code[2];
    for (int plain = 0; plain < 2; plain++) {
        dropin_plain = plain;
        c.out = dropin_argument(&out);
        c.in = dropin_argument(&in);
        code[plain] = dropin_class(run(&c));
    }
    CHECK_EQ(code[0], code[1]);
    bool out_same = dropin_same(&out), in_same = dropin_same(&in);
    CHECK(out_same);
    CHECK(in_same);
    if (!out_same || !in_same || code[0] != code[1])
        fprintf(stderr, "rank %d, case %d: call %d, waits %d, in place %d, device %d %d, root %d, count %d, comm %d\n",
                dropin.rank, number, c.call, c.waits, c.in_place, where & 1, (where & 2) >> 1, c.root, c.count,
                c.comm == comms.inter ? 1 : c.comm == comms.cart ? 2 : c.comm == comms.graph ? 3 : 0);
    datatype_drop(&c.type);
}

/* All ranks with device memory, and enough of it for the fast route where that is open. */
static void check_long(void)
{
    enum { N = 64 };
    int each = N * (int)sizeof(int), counts[PEERS_MAX], at[PEERS_MAX];
    for (int i = 0; i < PEERS_MAX; i++) {
        counts[i] = N;
        at[i] = i * N;
    }
    for (int call = 0; call < 12; call++) {
        dropin_buffer_t out = dropin_buffer(0, (int64_t)each * dropin.size, true);
        dropin_buffer_t in = dropin_buffer(0, (int64_t)each * dropin.size, true);
        for (int plain = 0; plain < 2; plain++) {
            dropin_plain = plain;
            void *from = dropin_argument(&out), *to = dropin_argument(&in);
            int root = dropin.size - 1, code = MPI_ERR_OTHER;
            switch (call) {
            case 0: code = X(Allreduce, from, to, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
            case 1: code = X(Reduce, from, to, N, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD); break;
            case 2: code = X(Bcast, to, N, MPI_INT, root, MPI_COMM_WORLD); break;
            case 3: code = X(Allgather, from, N, MPI_INT, to, N, MPI_INT, MPI_COMM_WORLD); break;
            case 4: code = X(Alltoall, from, N, MPI_INT, to, N, MPI_INT, MPI_COMM_WORLD); break;
            case 5: code = X(Reduce_scatter_block, from, to, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
            case 6: code = X(Gather, from, N, MPI_INT, to, N, MPI_INT, root, MPI_COMM_WORLD); break;
            case 7: code = X(Gatherv, from, N, MPI_INT, to, counts, at, MPI_INT, root, MPI_COMM_WORLD); break;
            case 8: code = X(Scatter, from, N, MPI_INT, to, N, MPI_INT, root, MPI_COMM_WORLD); break;
            case 9: code = X(Scatterv, from, counts, at, MPI_INT, to, N, MPI_INT, root, MPI_COMM_WORLD); break;
            case 10: code = X(Allgatherv, from, N, MPI_INT, to, counts, at, MPI_INT, MPI_COMM_WORLD); break;
            case 11:
                code = X(Alltoallv, from, counts, at, MPI_INT, to, counts, at, MPI_INT, MPI_COMM_WORLD);
                break;
            }
            CHECK_EQ(code, MPI_SUCCESS);
        }
        CHECK(dropin_same(&out));
        CHECK(dropin_same(&in));
    }
}

static void make_comms(void)
{
    int around[2] = {(dropin.rank + 1) % dropin.size, (dropin.rank + dropin.size - 1) % dropin.size};
    int from[2] = {around[1], around[0]}, weights[2] = {1, 1}, periodic = 0, size = dropin.size;
    MPI_Comm half;
    PMPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comms.cart);
    PMPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, weights, 2, around, weights, MPI_INFO_NULL, 0,
                                    &comms.graph);
    comms.inter = MPI_COMM_NULL;
    if (dropin.size < 2)
        return;
    PMPI_Comm_split(MPI_COMM_WORLD, dropin.rank % 2, dropin.rank, &half);
    PMPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - dropin.rank % 2, 5, &comms.inter);
    PMPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    int cases;
    dropin_begin(argc, argv, MPI_THREAD_MULTIPLE, &cases);
    make_comms();
    for (int i = 0; i < cases; i++)
        check_case(i);
    check_long();
    PMPI_Comm_free(&comms.cart);
    PMPI_Comm_free(&comms.graph);
    if (comms.inter != MPI_COMM_NULL)
        PMPI_Comm_free(&comms.inter);
    CHECK_EQ(datatype_alive(), 0);
    return dropin_end("dropin_collectives");
}
