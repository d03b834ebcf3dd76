/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for the order of collective calls that become messages, where ranks differ in it: one
 * is far ahead of the others, MPI refuses a call on one of two communicators, a communicator is freed while a call on
 * it is under way, and calls are made while MPI_Finalize runs. And blocks that interleave in one buffer on one rank.
 */
#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { RANKS_MAX = 8, LONG = 500, AHEAD = 32, ENDING_CALLS = 16 };

static MPI_Comm kept;
static int calls_at_end;

static void bring(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, bytes, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static void open_collectives(void)
{
    for (int i = 0; i < 8; i++)
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 0 has begun them all before the others begin the first. */
void run_channels_ahead(void)
{
    int out[RANKS_MAX], in[AHEAD][RANKS_MAX], bad = 0;
    MPI_Request requests[AHEAD];
    MPI_Comm comm;
    open_collectives();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < RANKS_MAX; i++)
        out[i] = the.rank * RANKS_MAX + i;
    if (the.rank > 0)
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < AHEAD; i++)
        MPI_Ialltoall(out, 1, MPI_INT, in[i], 1, MPI_INT, comm, &requests[i]);
    for (int i = 1; i < the.ranks && the.rank == 0; i++)
        MPI_Send(NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD);
    MPI_Waitall(AHEAD, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < AHEAD; i++)
        for (int j = 0; j < the.ranks; j++)
            bad += in[i][j] != j * RANKS_MAX + the.rank;
    CHECK_EQ(bad, 0);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
}

/* An edge from rank 0 to rank 1. */
static MPI_Comm make_edge(void)
{
    const int other = the.rank == 0, weight = 1, out = the.rank == 0, in = the.rank == 1;
    MPI_Comm comm;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, &other, &weight, out, &other, &weight, MPI_INFO_NULL, 0, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Sends the mark along the edge. Returns what came, or -1: MPI has refused the call. */
static int send_mark(MPI_Comm comm, int mark, int count)
{
    int host[LONG], zero = 0;
    for (int i = 0; i < LONG; i++)
        host[i] = mark;
    bring(the.out, host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE);
    if (MPI_Neighbor_alltoallv(the.out, &count, &zero, MPI_INT, the.in, &count, &zero, MPI_INT, comm) != MPI_SUCCESS)
        return -1;
    bring(host, the.in, sizeof host, SELVAGE_COPY_DEVICE_TO_HOST);
    return host[LONG - 1];
}

/* What a refused call was to get comes to the next call on the same communicator, and to none on another one. */
void run_channels_refused(void)
{
    MPI_Comm comms[2] = {make_edge(), make_edge()};
    open_collectives();
    for (int i = 0; i < 2; i++) {
        const int came = send_mark(comms[i], 5, LONG);
        MPI_Barrier(comms[i]);
        CHECK(the.rank != 1 || came == 5);
    }
    if (the.rank == 0) {
        (void)send_mark(comms[0], 1, LONG);
        (void)send_mark(comms[1], 2, LONG);
    } else if (the.rank == 1) {
        CHECK_EQ(send_mark(comms[0], 0, -1), -1);
        CHECK_EQ(send_mark(comms[1], 0, LONG), 2);
        CHECK_EQ(send_mark(comms[0], 0, LONG), 1);
    }
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
}

/* With a channel and without one. */
void run_channels_freed(void)
{
    enum { TURNS = 6 };
    int host[RANKS_MAX * LONG], bad = 0;
    const size_t bytes = (size_t)the.ranks * LONG * sizeof *host;
    void *out = device_bytes(bytes), *in = device_bytes(bytes);
    open_collectives();
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Comm comm;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int call = 0; call < AHEAD; call++) {
            for (int i = 0; i < the.ranks * LONG; i++)
                host[i] = (call * RANKS_MAX + the.rank) * RANKS_MAX + i / LONG;
            bring(out, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
            MPI_Ialltoall(out, LONG, MPI_INT, in, LONG, MPI_INT, comm, &request);
            if (call == AHEAD - 1)
                MPI_Comm_free(&comm);
            else if (turn % 2)
                MPI_Barrier(comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            bring(host, in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
            for (int i = 0; i < the.ranks * LONG; i++)
                bad += host[i] != (call * RANKS_MAX + i / LONG) * RANKS_MAX + the.rank;
        }
    }
    CHECK_EQ(bad, 0);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}

static int call_at_end(MPI_Comm comm, int key, void *value, void *extra)
{
    int out[RANKS_MAX] = {0}, in[RANKS_MAX];
    MPI_Request request;
    (void)comm, (void)key, (void)value, (void)extra;
    MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, kept, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    calls_at_end += MPI_Barrier(kept) == MPI_SUCCESS;
    return MPI_SUCCESS;
}

static void check_calls_at_end(void)
{
    CHECK_EQ(calls_at_end, 1);
}

void run_channels_ending(void)
{
    int key, out[RANKS_MAX] = {0}, in[RANKS_MAX];
    open_collectives();
    MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    for (int i = 0; i < ENDING_CALLS; i++) {
        MPI_Request request;
        MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, kept, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(kept);
    MPI_Barrier(kept);
    the.after = check_calls_at_end;
}

/* Even numbers are sent, and odd ones are received. On rank 0 all of them lie in one buffer in the end. Open MPI 4.1
   takes that for a call in place, so that it is right only as messages. */
void run_channels_interleaved(void)
{
    enum { TURNS = 8 };
    int host[2 * RANKS_MAX * LONG], bad = 0, one = 1;
    const int n = the.ranks * LONG;
    const size_t bytes = 2 * (size_t)n * sizeof *host;
    void *out = device_bytes(bytes), *in = device_bytes(bytes);
    MPI_Datatype second, even, odd;
    MPI_Comm comm;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof *host, &even);
    MPI_Type_indexed(1, &one, &one, MPI_INT, &second);
    MPI_Type_create_resized(second, 0, 2 * sizeof *host, &odd);
    MPI_Type_commit(&even);
    MPI_Type_commit(&odd);
    open_collectives();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int turn = 0; turn < TURNS; turn++) {
        const int same = turn >= TURNS / 2 && the.rank == 0;
        MPI_Request request;
        for (int i = 0; i < n; i++) {
            host[2 * i] = (turn * RANKS_MAX + the.rank) * RANKS_MAX + i / LONG;
            host[2 * i + 1] = -1;
        }
        bring(out, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
        MPI_Ialltoall(out, LONG, even, same ? out : in, LONG, odd, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        bring(host, same ? out : in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < n; i++)
            bad += host[2 * i + 1] != (turn * RANKS_MAX + i / LONG) * RANKS_MAX + the.rank;
        MPI_Barrier(comm);
    }
    CHECK_EQ(bad, 0);
    MPI_Comm_free(&comm);
    MPI_Type_free(&second);
    MPI_Type_free(&even);
    MPI_Type_free(&odd);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}
