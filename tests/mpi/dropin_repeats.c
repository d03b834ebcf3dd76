/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collective requests of the programs in dropin_persistent.c: their memory, the calls that make them and
 * their twins, and what is compared after a start. A request owns its memory, lists and types.
 */
#include "dropin_repeats.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

#ifdef INIT
/* By the name that the drop-in has; or past it, by the call that does not block. */
#define MAKE(NAME, FORM, ...) \
    (plain ? PMPI_##FORM(__VA_ARGS__, request) : INIT(MPI, NAME)(__VA_ARGS__, MPI_INFO_NULL, request))

static uint64_t state = 5;

int pick(int n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

void bring_repeat(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, bytes, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static bool is_set(const char *variable, const char *value)
{
    const char *set = getenv(variable);
    return set && strcmp(set, value) == 0;
}

bool is_staged(void)
{
    return is_set("SELVAGE_DROPIN_FAST", "off") || is_set("SELVAGE_DROPIN_PAIRS", "off");
}

bool is_mode(const char *mode)
{
    return is_set("SELVAGE_DROPIN_FAST", mode);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int make_to_neighbors(const repeat_t *r, bool plain, void *out, void *in, MPI_Comm comm, MPI_Request *request)
{
    switch (r->kind) {
    case NEIGHBOR_ALLGATHER:
        return MAKE(Neighbor_allgather, Ineighbor_allgather, out, LONG, MPI_INT, in, LONG, MPI_INT, comm);
    case NEIGHBOR_ALLGATHERV:
        return MAKE(Neighbor_allgatherv, Ineighbor_allgatherv, out, LONG, MPI_INT, in, r->in_counts, r->at, MPI_INT,
                    comm);
    case NEIGHBOR_ALLTOALL:
        return MAKE(Neighbor_alltoall, Ineighbor_alltoall, out, LONG, MPI_INT, in, LONG, MPI_INT, comm);
    case NEIGHBOR_ALLTOALLV:
        return MAKE(Neighbor_alltoallv, Ineighbor_alltoallv, out, r->out_counts, r->at, MPI_INT, in, r->in_counts,
                    r->at, MPI_INT, comm);
    default:
        return MAKE(Neighbor_alltoallw, Ineighbor_alltoallw, out, r->out_counts, r->far,
                    plain ? r->twin_out_types : r->out_types, in, r->in_counts, r->far,
                    plain ? r->twin_in_types : r->in_types, comm);
    }
}

static int make_reduction(const repeat_t *r, bool plain, void *out, void *in, MPI_Comm comm, MPI_Request *request)
{
    void *const from = r->in_place && (r->kind != REDUCE || r->me == r->root) ? MPI_IN_PLACE : out;
#if MPI_VERSION >= 4
    if (r->kind == ALLREDUCE && r->mark % 4 == 1 && !plain)
        return MPI_Allreduce_init_c(from, in, LONG, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, request);
#endif
    switch (r->kind) {
    case BCAST: return MAKE(Bcast, Ibcast, r->me == r->root ? out : in, LONG, MPI_INT, r->root, comm);
    case ALLREDUCE: return MAKE(Allreduce, Iallreduce, from, in, LONG, MPI_INT, MPI_SUM, comm);
    case REDUCE: return MAKE(Reduce, Ireduce, from, in, LONG, MPI_INT, MPI_MAX, r->root, comm);
    case REDUCE_SCATTER: return MAKE(Reduce_scatter, Ireduce_scatter, from, in, r->in_counts, MPI_INT, MPI_SUM, comm);
    case REDUCE_SCATTER_BLOCK:
        return MAKE(Reduce_scatter_block, Ireduce_scatter_block, from, in, LONG, MPI_INT, MPI_SUM, comm);
    default: return MAKE(Exscan, Iexscan, from, in, LONG, MPI_INT, MPI_SUM, comm);
    }
}

static int make(const repeat_t *r, bool plain, void *out, void *in, MPI_Comm comm, MPI_Request *request)
{
    const bool at_root = r->me == r->root;
    void *const from = r->in_place && (at_root || r->kind < GATHER) ? MPI_IN_PLACE : out;
    void *const to = r->in_place && at_root ? MPI_IN_PLACE : in;
    switch (r->kind) {
    case ALLGATHER: return MAKE(Allgather, Iallgather, from, LONG, MPI_INT, in, LONG, MPI_INT, comm);
    case ALLGATHERV:
        return MAKE(Allgatherv, Iallgatherv, from, r->in_counts[r->me], MPI_INT, in, r->in_counts, r->at, MPI_INT,
                    comm);
    case ALLTOALL: return MAKE(Alltoall, Ialltoall, out, LONG, MPI_INT, in, LONG, MPI_INT, comm);
    case ALLTOALLV:
        return MAKE(Alltoallv, Ialltoallv, out, r->out_counts, r->at, MPI_INT, in, r->in_counts, r->at, MPI_INT, comm);
    case ALLTOALLW:
        return MAKE(Alltoallw, Ialltoallw, out, r->out_counts, r->bytes, plain ? r->twin_out_types : r->out_types, in,
                    r->in_counts, r->bytes, plain ? r->twin_in_types : r->in_types, comm);
    case GATHER: return MAKE(Gather, Igather, from, LONG, MPI_INT, in, LONG, MPI_INT, r->root, comm);
    case GATHERV:
        return MAKE(Gatherv, Igatherv, from, r->in_counts[r->me], MPI_INT, in, r->in_counts, r->at, MPI_INT, r->root,
                    comm);
    case SCATTER: return MAKE(Scatter, Iscatter, out, LONG, MPI_INT, to, LONG, MPI_INT, r->root, comm);
    case SCATTERV:
        return MAKE(Scatterv, Iscatterv, out, r->in_counts, r->at, MPI_INT, to, r->in_counts[r->me], MPI_INT, r->root,
                    comm);
    default:
        return (r->kind < TO_NEIGHBORS ? make_reduction : make_to_neighbors)(r, plain, out, in, comm, request);
    }
}

static void make_types(MPI_Datatype *out, MPI_Datatype *in)
{
    MPI_Type_contiguous(LONG / 2, MPI_INT, out);
    MPI_Type_vector(LONG / 2, 1, 2, MPI_INT, in);
    MPI_Type_commit(out);
    MPI_Type_commit(in);
}

/* How long blocks are: of lists from rank to rank otherwise, of neighbours by the call. Elements of calls with a type
   for each block come into every second place. */
static void fill_lists(repeat_t *r)
{
    const bool typed = r->kind == ALLTOALLW || r->kind == NEIGHBOR_ALLTOALLW, near = r->kind >= TO_NEIGHBORS;
    for (int i = 0; i < RANKS_MAX; i++) {
        r->in_counts[i] = LONG - (near ? r->mark : i * 5 + r->mark) % 90;
        if (r->kind == NEIGHBOR_ALLGATHERV)
            r->in_counts[i] = LONG;
        if (r->kind == ALLTOALLV)
            r->in_counts[i] = LONG - (i * 7 + r->me * 3 + r->mark) % 90;
        r->out_counts[i] = r->kind == ALLTOALLV ? LONG - (r->me * 7 + i * 3 + r->mark) % 90 : r->in_counts[i];
        r->out_types[i] = r->in_types[i] = r->twin_out_types[i] = r->twin_in_types[i] = MPI_DATATYPE_NULL;
        r->at[i] = i * LONG;
        r->bytes[i] = i * LONG * (int)sizeof(int);
        r->far[i] = r->bytes[i];
        if (typed) {
            r->in_counts[i] = r->out_counts[i] = 1;
            make_types(&r->out_types[i], &r->in_types[i]);
            make_types(&r->twin_out_types[i], &r->twin_in_types[i]);
        }
    }
}

void free_types(MPI_Datatype *types)
{
    for (int i = 0; i < RANKS_MAX; i++)
        if (types[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(&types[i]);
}

void make_repeat(repeat_t *r, kind_t kind, MPI_Comm comm, MPI_Comm twins, int mark, bool in_place, int hosts)
{
    const size_t bytes = ROOM * sizeof(int);
    *r = (repeat_t){.kind = kind, .comm = comm, .twins = twins, .mark = mark, .on_host = hosts >> the.rank & 1,
                    .host_out = malloc(bytes), .host_in = malloc(bytes), .plain_out = malloc(bytes),
                    .plain_in = malloc(bytes), .out = device_bytes(bytes), .in = device_bytes(bytes)};
    MPI_Comm_size(comm, &r->n);
    MPI_Comm_rank(comm, &r->me);
    r->root = mark % r->n;
    r->is_mpis = is_staged() || kind == EXSCAN || (~hosts & ((1 << the.ranks) - 1)) == 0;
    r->in_place = in_place && kind != ALLTOALL && kind != ALLTOALLV && kind != ALLTOALLW && kind != BCAST &&
                  kind < TO_NEIGHBORS;
    fill_lists(r);
    CHECK_EQ(make(r, false, r->on_host ? r->host_out : r->out, r->on_host ? r->host_in : r->in, comm, &r->request),
             MPI_SUCCESS);
}

void free_memory(repeat_t *r)
{
    free_types(r->out_types);
    free_types(r->in_types);
    free_types(r->twin_out_types);
    free_types(r->twin_in_types);
    free(r->host_out);
    free(r->host_in);
    free(r->plain_out);
    free(r->plain_in);
    selvage_device_free(the.device, r->out);
    selvage_device_free(the.device, r->in);
}

void free_repeat(repeat_t *r)
{
    CHECK_EQ(MPI_Request_free(&r->request), MPI_SUCCESS);
    CHECK(r->request == MPI_REQUEST_NULL);
    free_memory(r);
}

void fill_repeat(repeat_t *r)
{
    const size_t bytes = ROOM * sizeof(int);
    r->starts++;
    for (int i = 0; i < ROOM; i++) {
        r->host_out[i] = (r->mark * 1000 + r->starts * 10 + r->me) * 4096 + i;
        r->host_in[i] = -(r->mark + r->me * 100 + r->starts * 1000 + i % 7);
    }
    memcpy(r->plain_out, r->host_out, bytes);
    memcpy(r->plain_in, r->host_in, bytes);
    bring_repeat(r->out, r->host_out, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    bring_repeat(r->in, r->host_in, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    r->active = true;
}

void check_started(repeat_t *r, bool succeeded)
{
    MPI_Request twin;
    int bad = 0;
    CHECK_EQ(make(r, true, r->plain_out, r->plain_in, r->twins, &twin), MPI_SUCCESS);
    CHECK_EQ(PMPI_Wait(&twin, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (!r->on_host)
        bring_repeat(r->host_in, r->in, ROOM * sizeof(int), SELVAGE_COPY_DEVICE_TO_HOST);
    for (int i = 0; i < ROOM && succeeded; i++)
        bad += r->host_in[i] != r->plain_in[i];
    CHECK_EQ(bad, 0);
    if (bad)
        printf("rank %d: %d numbers of kind %d are wrong in start %d, in place %d, host %d, root %d\n", the.rank, bad,
               r->kind, r->starts, r->in_place, r->on_host, r->root);
    r->active = false;
}

void check_repeat(repeat_t *r)
{
    check_started(r, true);
}

bool is_left_alone(const repeat_t *r)
{
    return r->is_mpis && !MPI_IS_RIGHT;
}
#endif
