/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for collective calls that do not block and move blocks, and for MPI_Alltoallw: several
 * under way on two communicators, which each rank starts in another order and ends by another call; and calls on
 * communicators that have no others than those. What comes is known, and each byte of it is looked at.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { RANKS_MAX = 8, LONG = 1500, ROUNDS = 24, OPS = 6 };

typedef enum call {
    ALLTOALL, ALLTOALLV, ALLTOALLW, ALLGATHER, ALLGATHERV, GATHER, GATHERV, SCATTER, SCATTERV, BCAST, ALLREDUCE, REDUCE,
    REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, CALLS
} call_t;

/* One call of a rank, and its memory: a block of room for each rank on either side. */
typedef struct op {
    call_t call;
    MPI_Comm comm;
    int n, me, root, mark;
    bool in_place, on_host;
    int *host_out, *host_in, *out, *in;
    MPI_Request request;
    int ntypes;
    MPI_Datatype types[2 * RANKS_MAX];
} op_t;

static uint64_t state = 99;

/* Alike on all ranks. */
static int pick(int n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

static void bring(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, bytes, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* The numbers of one block. Those with lists have other lengths from rank to rank. */
static int length_of(const op_t *op, int from, int to)
{
    switch (op->call) {
    case ALLTOALLV:
    case ALLTOALLW:
        if (from + to == 1 && (op->n > 2 || op->mark % 2))
            return 200 - (from * 7 + to * 3 + op->mark) % 200;
        return LONG - (from * 7 + to * 3 + op->mark) % 200;
    case ALLGATHERV:
    case GATHERV: return LONG - (from * 5 + op->mark) % 300;
    case SCATTERV: return LONG - (to * 5 + op->mark) % 300;
    default: return LONG;
    }
}

static bool is_reduction(const op_t *op)
{
    return op->call >= ALLREDUCE;
}

static int number_of(const op_t *op, int from, int to, int i)
{
    const bool same = op->call == ALLGATHER || op->call == ALLGATHERV || (op->call >= BCAST && op->call <= REDUCE);
    return (op->mark * 64 + from * 8 + (same ? 0 : to)) * 4096 + i;
}

/* The sum of all ranks' numbers. */
static int sum_of(const op_t *op, int to, int i)
{
    int sum = 0;
    for (int from = 0; from < op->n; from++)
        sum += number_of(op, from, to, i);
    return sum;
}

static bool has_all_out(const op_t *op)
{
    return op->call <= ALLTOALLW || op->call >= REDUCE_SCATTER ||
           ((op->call == SCATTER || op->call == SCATTERV) && op->me == op->root);
}

static bool has_out(const op_t *op)
{
    return (op->call != SCATTER && op->call != SCATTERV && op->call != BCAST) || op->me == op->root;
}

static bool has_in(const op_t *op)
{
    if (op->call == BCAST)
        return op->me != op->root;
    return (op->call != GATHER && op->call != GATHERV && op->call != REDUCE) || op->me == op->root;
}

static bool has_all_in(const op_t *op)
{
    return op->call < SCATTER && has_in(op);
}

/* What this rank sends, and what it had where others' blocks come. In place its own block lies among those. */
static void fill_op(op_t *op)
{
    const size_t bytes = (size_t)op->n * LONG * sizeof(int);
    memset(op->host_out, -1, bytes);
    memset(op->host_in, -1, bytes);
    for (int b = 0; b < (has_all_out(op) ? op->n : has_out(op)); b++) {
        const int to = has_all_out(op) ? b : op->root;
        for (int i = 0; i < length_of(op, op->me, to); i++)
            op->host_out[b * LONG + i] = number_of(op, op->me, to, i);
    }
    if (op->in_place && has_all_in(op))
        for (int i = 0; i < length_of(op, op->me, op->me); i++)
            op->host_in[op->me * LONG + i] = number_of(op, op->me, op->call < GATHER ? op->me : op->root, i);
    if (op->in_place && is_reduction(op))
        memcpy(op->host_in, op->host_out, bytes);
    bring(op->out, op->host_out, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    bring(op->in, op->host_in, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void free_types(op_t *op)
{
    for (int i = 0; i < op->ntypes; i++)
        MPI_Type_free(&op->types[i]);
    op->ntypes = 0;
}

static void check_op(op_t *op)
{
    const size_t bytes = (size_t)op->n * LONG * sizeof(int);
    int bad = 0;
    free_types(op);
    if (!op->on_host)
        bring(op->host_in, op->in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    if (op->in_place && (op->call == SCATTER || op->call == SCATTERV))
        return; /* the root's block stays where it was */
    for (int i = 0; i < LONG && is_reduction(op) && has_in(op); i++)
        bad += op->host_in[i] != sum_of(op, op->me, i);
    for (int b = 0; !is_reduction(op) && b < (has_all_in(op) ? op->n : has_in(op)); b++) {
        const int from = has_all_in(op) ? b : op->root, length = length_of(op, from, op->me);
        for (int i = 0; i < LONG; i++)
            bad += op->host_in[b * LONG + i] != (i < length ? number_of(op, from, op->me, i) : -1);
    }
    CHECK_EQ(bad, 0);
    if (bad)
        printf("rank %d: %d numbers of call %d are wrong, in place %d, host %d, root %d\n", the.rank, bad, op->call,
               op->in_place, op->on_host, op->root);
}

/* Its types are freed at once, but in a call of host memory, which is MPI's own: Open MPI 4.1 reads them later. blocks:
   MPI_Alltoallw. */
static int begin_alltoallw(op_t *op, void *out, void *in, bool blocks)
{
    int ones[RANKS_MAX], at[RANKS_MAX], code;
    MPI_Datatype *sent = op->types, *received = op->types + op->n;
    for (int i = 0; i < op->n; i++) {
        ones[i] = 1;
        at[i] = i * LONG * (int)sizeof(int);
        MPI_Type_contiguous(length_of(op, op->me, i), MPI_INT, &sent[i]);
        MPI_Type_vector(length_of(op, i, op->me), 1, 1, MPI_INT, &received[i]);
        MPI_Type_commit(&sent[i]);
        MPI_Type_commit(&received[i]);
    }
    code = blocks ? MPI_Alltoallw(out, ones, at, sent, in, ones, at, received, op->comm)
                  : MPI_Ialltoallw(out, ones, at, sent, in, ones, at, received, op->comm, &op->request);
    op->ntypes = 2 * op->n;
    if (!op->on_host)
        free_types(op);
    return code;
}

static int begin_reduction(op_t *op, void *out, void *in)
{
    int counts[RANKS_MAX];
    const bool in_place = op->in_place && (op->call != REDUCE || op->me == op->root);
    void *const from = in_place ? MPI_IN_PLACE : out;
    for (int i = 0; i < op->n; i++)
        counts[i] = LONG;
    switch (op->call) {
    case BCAST: return MPI_Ibcast(op->me == op->root ? out : in, LONG, MPI_INT, op->root, op->comm, &op->request);
    case ALLREDUCE: return MPI_Iallreduce(from, in, LONG, MPI_INT, MPI_SUM, op->comm, &op->request);
    case REDUCE: return MPI_Ireduce(from, in, LONG, MPI_INT, MPI_SUM, op->root, op->comm, &op->request);
    case REDUCE_SCATTER: return MPI_Ireduce_scatter(from, in, counts, MPI_INT, MPI_SUM, op->comm, &op->request);
    default: return MPI_Ireduce_scatter_block(from, in, LONG, MPI_INT, MPI_SUM, op->comm, &op->request);
    }
}

static int begin_op(op_t *op)
{
    int out_counts[RANKS_MAX], in_counts[RANKS_MAX], at[RANKS_MAX];
    void *out = op->on_host ? op->host_out : op->out, *in = op->on_host ? op->host_in : op->in;
    const bool at_root = op->me == op->root;
    void *const from = op->in_place && (at_root || op->call < GATHER) ? MPI_IN_PLACE : out;
    void *const to = op->in_place && at_root ? MPI_IN_PLACE : in;
    const int own = length_of(op, op->me, op->root), mine = length_of(op, op->root, op->me);
    for (int i = 0; i < op->n; i++) {
        out_counts[i] = length_of(op, op->me, i);
        in_counts[i] = length_of(op, i, op->me);
        at[i] = i * LONG;
    }
    switch (op->call) {
    case ALLTOALL: return MPI_Ialltoall(out, LONG, MPI_INT, in, LONG, MPI_INT, op->comm, &op->request);
    case ALLTOALLV:
        return MPI_Ialltoallv(out, out_counts, at, MPI_INT, in, in_counts, at, MPI_INT, op->comm, &op->request);
    case ALLTOALLW: return begin_alltoallw(op, out, in, false);
    case ALLGATHER: return MPI_Iallgather(from, LONG, MPI_INT, in, LONG, MPI_INT, op->comm, &op->request);
    case ALLGATHERV:
        return MPI_Iallgatherv(from, own, MPI_INT, in, in_counts, at, MPI_INT, op->comm, &op->request);
    case GATHER: return MPI_Igather(from, LONG, MPI_INT, in, LONG, MPI_INT, op->root, op->comm, &op->request);
    case GATHERV:
        return MPI_Igatherv(from, own, MPI_INT, in, in_counts, at, MPI_INT, op->root, op->comm, &op->request);
    case SCATTERV:
        return MPI_Iscatterv(out, out_counts, at, MPI_INT, to, mine, MPI_INT, op->root, op->comm, &op->request);
    case SCATTER: return MPI_Iscatter(out, LONG, MPI_INT, to, LONG, MPI_INT, op->root, op->comm, &op->request);
    default: return begin_reduction(op, out, in);
    }
}

/* A call of any kind. Two calls of one communicator share nothing. */
static void draw_op(op_t *op, MPI_Comm comm, int mark)
{
    const int where = pick(4) ? 0 : pick(256);
    op->call = (call_t)pick(CALLS);
    op->comm = comm;
    op->mark = mark;
    op->in_place = pick(3) == 0 && op->call >= ALLGATHER && op->call != BCAST;
    op->on_host = where >> the.rank & 1;
    MPI_Comm_size(comm, &op->n);
    MPI_Comm_rank(comm, &op->me);
    op->root = pick(RANKS_MAX) % op->n;
    fill_op(op);
}

/* Ends all of them, each time by another kind of call. */
static void end_ops(op_t *ops, int how)
{
    MPI_Request requests[OPS];
    MPI_Status statuses[OPS];
    int indices[OPS], found = 0, done = 0;
    for (int i = 0; i < OPS; i++)
        requests[i] = ops[(i + the.rank) % OPS].request;
    switch (how) {
    case 0: CHECK_EQ(MPI_Waitall(OPS, requests, statuses), MPI_SUCCESS); break;
    case 1:
        for (int i = 0; i < OPS; i++)
            CHECK_EQ(MPI_Waitany(OPS, requests, &found, MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    case 2:
        while (done < OPS) {
            CHECK_EQ(MPI_Waitsome(OPS, requests, &found, indices, statuses), MPI_SUCCESS);
            done += found;
        }
        break;
    case 3:
        while (!done)
            CHECK_EQ(MPI_Testall(OPS, requests, &done, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        break;
    default:
        for (int i = 0; i < OPS; i++) {
            for (done = 0; !done;)
                CHECK_EQ(MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE), MPI_SUCCESS);
            CHECK_EQ(MPI_Wait(&requests[i], &statuses[i]), MPI_SUCCESS);
        }
    }
    for (int i = 0; i < OPS; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
}

static void make_room(op_t *op)
{
    const size_t bytes = (size_t)the.ranks * LONG * sizeof(int);
    op->host_out = malloc(bytes);
    op->host_in = malloc(bytes);
    op->out = device_bytes(bytes);
    op->in = device_bytes(bytes);
    op->ntypes = 0;
}

static void free_room(op_t *op)
{
    free(op->host_out);
    free(op->host_in);
    selvage_device_free(the.device, op->out);
    selvage_device_free(the.device, op->in);
}

/* Three calls on each of two communicators. Each rank takes turns between these in an order of its own. */
static void make_round(op_t *ops, MPI_Comm first, MPI_Comm second, int round)
{
    int begun[2] = {0, 0};
    for (int i = 0; i < OPS; i++)
        draw_op(&ops[i], i < OPS / 2 ? first : second, round * OPS + i);
    for (int i = 0; i < OPS; i++) {
        int which = (round + the.rank * 3 + i * (the.rank + 1) / 2) % 2;
        which = begun[which] == OPS / 2 ? !which : which;
        CHECK_EQ(begin_op(&ops[which * (OPS / 2) + begun[which]++]), MPI_SUCCESS);
    }
    end_ops(ops, pick(5));
    for (int i = 0; i < OPS; i++)
        check_op(&ops[i]);
}

/* quiet: no other calls are on them. */
static void check_two(op_t *ops, bool quiet)
{
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &second);
    for (int round = 0; round < ROUNDS; round++) {
        make_round(ops, first, second, round);
        if (quiet)
            continue;
        MPI_Barrier(first);
        MPI_Barrier(second);
    }
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
}

static void begin_ops(op_t *ops)
{
    for (int i = 0; i < 8; i++) /* the route is open then */
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < OPS; i++)
        make_room(&ops[i]);
}

/* Communicators with no other calls. */
void run_begun_alone(void)
{
    op_t ops[OPS];
    begin_ops(ops);
    check_two(ops, true);
    for (int i = 0; i < OPS; i++)
        free_room(&ops[i]);
}

void run_begun(void)
{
    op_t ops[OPS];
    begin_ops(ops);
    check_two(ops, false);
    for (int i = 0; i < ROUNDS; i++) {
        op_t *op = &ops[i % OPS];
        draw_op(op, MPI_COMM_WORLD, i);
        op->call = ALLTOALLW;
        op->in_place = false;
        fill_op(op);
        CHECK_EQ(begin_alltoallw(op, op->on_host ? op->host_out : op->out, op->on_host ? op->host_in : op->in, true),
                 MPI_SUCCESS);
        check_op(op);
        MPI_Barrier(MPI_COMM_WORLD); /* it may have a channel then */
    }
    for (int i = 0; i < OPS; i++)
        free_room(&ops[i]);
}
