/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified for calls that MPI refuses: it prints of each which class of error it ended with, and
 * how often error handlers were called. The script runs it without the drop-in, where all memory is the host's, and
 * with it, and compares what it prints. No call of these leaves a rank waiting where MPI lets it pass. And one for
 * receives that are too short for what comes, or for what announces it: none keeps its sender.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { ROOM = 1 << 20, LONG = 100 * 1000, NUMBERS = 40 * 1000, NOBODY = 99 };

static int handled, handled_code; /* calls of handlers, and what the last one was told */

static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_code = *code;
}

static void print_error(const char *memory, const char *call, int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    if (the.rank == 0) /* lines of several ranks may get mixed up */
        printf("refused: %s: class %d, %d times handled: %s\n", memory, class, handled, call);
    handled = 0;
}

#define TRY(...) (handled = 0, print_error(memory, #__VA_ARGS__, __VA_ARGS__))

/* A request that MPI has given all the same. */
static void give_up(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    handled = 0;
}

static void try_nobody(const char *memory, char *a, char *b)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int counts[2] = {1, 1}, at[2] = {0, 1};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    TRY(MPI_Send(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL));
    TRY(MPI_Isend(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, &r));
    TRY(MPI_Send_init(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, &r));
    TRY(MPI_Recv(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, MPI_STATUS_IGNORE));
    TRY(MPI_Irecv(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, &r));
    TRY(MPI_Recv_init(a, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, &r));
    TRY(MPI_Sendrecv(a, LONG, MPI_BYTE, 0, 1, b, LONG, MPI_BYTE, 0, 1, MPI_COMM_NULL, MPI_STATUS_IGNORE));
    TRY(MPI_Sendrecv_replace(a, LONG, MPI_BYTE, 0, 1, 0, 1, MPI_COMM_NULL, MPI_STATUS_IGNORE));
    TRY(MPI_Barrier(MPI_COMM_NULL));
    TRY(MPI_Bcast(a, LONG, MPI_BYTE, 0, MPI_COMM_NULL));
    TRY(MPI_Ibcast(a, LONG, MPI_BYTE, 0, MPI_COMM_NULL, &r));
    TRY(MPI_Reduce(a, b, NUMBERS, MPI_INT, MPI_SUM, 0, MPI_COMM_NULL));
    TRY(MPI_Allreduce(a, b, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    TRY(MPI_Iallreduce(a, b, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_NULL, &r));
    TRY(MPI_Scan(a, b, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    TRY(MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    TRY(MPI_Reduce_scatter_block(a, b, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    TRY(MPI_Gather(a, NUMBERS, MPI_INT, b, NUMBERS, MPI_INT, 0, MPI_COMM_NULL));
    TRY(MPI_Gatherv(a, 1, MPI_INT, b, counts, at, MPI_INT, 0, MPI_COMM_NULL));
    TRY(MPI_Scatter(a, NUMBERS, MPI_INT, b, NUMBERS, MPI_INT, 0, MPI_COMM_NULL));
    TRY(MPI_Allgatherv(a, 1, MPI_INT, b, counts, at, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Alltoall(a, NUMBERS, MPI_INT, b, NUMBERS, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Alltoallv(a, counts, at, MPI_INT, b, counts, at, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Alltoallw(a, counts, at, types, b, counts, at, types, MPI_COMM_NULL));
}

/* What the arguments say is wrong, of ranks, tags, counts, types and operations. */
static void try_arguments(const char *memory, char *a, char *b)
{
    MPI_Request r = MPI_REQUEST_NULL;
    const MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
    const int counts[2] = {NUMBERS, NUMBERS}, wrong[2] = {NUMBERS, -1}, at[2] = {0, NUMBERS};
    int flag, position = 0;
    TRY(MPI_Send(a, LONG, MPI_BYTE, NOBODY, 1, world));
    TRY(MPI_Send(a, -1, MPI_BYTE, 0, 1, world));
    TRY(MPI_Send(a, LONG, MPI_BYTE, 0, -5, world));
    TRY(MPI_Send(a, LONG, MPI_DATATYPE_NULL, 0, 1, world));
    TRY(MPI_Isend(a, LONG, MPI_BYTE, NOBODY, 1, world, &r));
    TRY(MPI_Irecv(a, LONG, MPI_BYTE, NOBODY, 1, world, &r));
    TRY(MPI_Recv(a, LONG, MPI_BYTE, 0, -9, world, MPI_STATUS_IGNORE));
    TRY(MPI_Recv_init(a, LONG, MPI_BYTE, NOBODY, 1, world, &r));
    TRY(MPI_Sendrecv(a, LONG, MPI_BYTE, NOBODY, 1, b, 1, MPI_BYTE, 0, 1, world, MPI_STATUS_IGNORE));
    TRY(MPI_Sendrecv(a, LONG, MPI_BYTE, 0, 1, b, -1, MPI_BYTE, 0, 1, world, MPI_STATUS_IGNORE));
    TRY(MPI_Sendrecv_replace(a, LONG, MPI_BYTE, NOBODY, 1, 0, 1, world, MPI_STATUS_IGNORE));
    TRY(MPI_Iprobe(NOBODY, 1, world, &flag, MPI_STATUS_IGNORE));
    TRY(MPI_Bcast(a, LONG, MPI_BYTE, NOBODY, self));
    TRY(MPI_Ibcast(a, LONG, MPI_BYTE, NOBODY, self, &r));
    TRY(MPI_Allreduce(a, b, NUMBERS, MPI_BYTE, MPI_OP_NULL, self));
    TRY(MPI_Gather(a, 100, MPI_INT, b, 100, MPI_INT, -3, self));
    /* All ranks are refused. */
    TRY(MPI_Gather(a, NUMBERS, MPI_INT, b, NUMBERS, MPI_INT, NOBODY, world));
    TRY(MPI_Scatter(a, NUMBERS, MPI_DATATYPE_NULL, b, NUMBERS, MPI_DATATYPE_NULL, 0, world));
    TRY(MPI_Gatherv(a, -1, MPI_INT, b, counts, at, MPI_INT, 0, world));
    TRY(MPI_Gatherv(a, NUMBERS, MPI_INT, b, counts, at, MPI_INT, NOBODY, world));
    TRY(MPI_Scatterv(a, counts, at, MPI_INT, b, -1, MPI_INT, 0, world));
    TRY(MPI_Allgatherv(a, -1, MPI_INT, b, counts, at, MPI_INT, world));
    TRY(MPI_Alltoallv(a, wrong, at, MPI_INT, b, counts, at, MPI_INT, world));
    TRY(MPI_Alltoallv(a, counts, at, MPI_INT, b, wrong, at, MPI_INT, world));
    TRY(MPI_Pack(a, 10, MPI_INT, b, 3, &position, self));
    TRY(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* A type that was not committed, of as many bytes as go from device to device, and of few. */
static void try_uncommitted(const char *memory, char *a, char *b, int blocks)
{
    MPI_Request r = MPI_REQUEST_NULL;
    const MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
    MPI_Datatype type;
    int position = 0;
    MPI_Type_vector(blocks, 8, 16, MPI_DOUBLE, &type);
    for (int twice = 0; twice < 2; twice++) {
        TRY(MPI_Isend(a, 1, type, the.rank, 2, world, &r));
        give_up(&r);
        TRY(MPI_Issend(a, 1, type, the.rank, 2, world, &r));
        give_up(&r);
        TRY(MPI_Irecv(a, 1, type, the.rank, 3, world, &r));
        give_up(&r);
    }
    TRY(MPI_Send(a, 1, type, MPI_PROC_NULL, 1, world));
    TRY(MPI_Recv(a, 1, type, MPI_PROC_NULL, 1, world, MPI_STATUS_IGNORE));
    TRY(MPI_Send_init(a, 1, type, the.rank, 1, world, &r));
    if (r != MPI_REQUEST_NULL)
        MPI_Request_free(&r);
    TRY(MPI_Recv_init(a, 1, type, the.rank, 1, world, &r));
    if (r != MPI_REQUEST_NULL)
        MPI_Request_free(&r);
    TRY(MPI_Sendrecv(a, 1, type, the.rank, 4, b, 1, type, the.rank, 4, world, MPI_STATUS_IGNORE));
    TRY(MPI_Sendrecv_replace(a, 1, type, the.rank, 5, the.rank, 5, world, MPI_STATUS_IGNORE));
    TRY(MPI_Pack(a, 1, type, b, ROOM, &position, self));
    TRY(MPI_Bcast(a, 1, type, 0, self));
    TRY(MPI_Allgather(a, 1, type, b, 1, type, self));
    MPI_Type_commit(&type);
    TRY(MPI_Sendrecv(a, 1, type, the.rank, 4, b, 1, type, the.rank, 4, world, MPI_STATUS_IGNORE));
    MPI_Type_free(&type);
}

/* One buffer given twice: here every rank is refused, or none. */
static void try_same(const char *memory, char *a, int n, MPI_Comm comm)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int counts[2] = {n / 2, n / 2}, at[2] = {0, n / 2}, bytes[2] = {0, n / 2 * (int)sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    TRY(MPI_Allreduce(a, a, n, MPI_INT, MPI_SUM, comm));
    TRY(MPI_Scan(a, a, n, MPI_INT, MPI_SUM, comm));
    TRY(MPI_Exscan(a, a, n, MPI_INT, MPI_SUM, comm));
    TRY(MPI_Reduce_scatter_block(a, a, n / 2, MPI_INT, MPI_SUM, comm));
    TRY(MPI_Reduce_scatter(a, a, counts, MPI_INT, MPI_SUM, comm));
    TRY(MPI_Alltoall(a, n, MPI_INT, a, n, MPI_INT, comm));
    TRY(MPI_Alltoallv(a, counts, at, MPI_INT, a, counts, at, MPI_INT, comm));
    TRY(MPI_Alltoallw(a, counts, bytes, types, a, counts, bytes, types, comm));
    TRY(MPI_Iallreduce(a, a, n, MPI_INT, MPI_SUM, comm, &r));
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    TRY(MPI_Ialltoall(a, n, MPI_INT, a, n, MPI_INT, comm, &r));
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* These refuse some ranks only. */
static void try_same_alone(const char *memory, char *a, int n)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int counts[1] = {n / 2}, at[1] = {0};
    const MPI_Comm self = MPI_COMM_SELF;
    TRY(MPI_Reduce(a, a, n, MPI_INT, MPI_SUM, 0, self));
    TRY(MPI_Allgather(a, n, MPI_INT, a, n, MPI_INT, self));
    TRY(MPI_Allgatherv(a, n / 2, MPI_INT, a, counts, at, MPI_INT, self));
    TRY(MPI_Gather(a, n, MPI_INT, a, n, MPI_INT, 0, self));
    TRY(MPI_Scatter(a, n, MPI_INT, a, n, MPI_INT, 0, self));
    TRY(MPI_Ireduce(a, a, n, MPI_INT, MPI_SUM, 0, self, &r));
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    TRY(MPI_Iallgather(a, n, MPI_INT, a, n, MPI_INT, self, &r));
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    TRY(MPI_Reduce_local(a, a, n, MPI_INT, MPI_SUM));
}

static char *take_memory(bool host)
{
    char *made = host ? calloc(1, ROOM) : device_bytes(ROOM);
    if (!host) {
        selvage_device_fill(the.device, made, 0, ROOM, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
    }
    return made;
}

void run_errors(void)
{
    const bool has_dropin = getenv("SELVAGE_JOB") != NULL;
    MPI_Errhandler handler;
    MPI_Comm copy;
    if (!mpi_returns_what_it_handled()) { /* nor does the drop-in learn that a call was refused */
        if (the.rank == 0)
            printf("skipped: this MPI returns success after a handler of the program's was called\n");
        return;
    }
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (has_dropin)
        MPI_Sendrecv(the.out, 1, MPI_BYTE, the.right, 1, the.in, 1, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++) /* the route is open then */
        MPI_Barrier(MPI_COMM_WORLD);
    for (int device = 0; device < 2; device++) {
        const char *memory = device ? "device" : "host";
        char *a = take_memory(!device || !has_dropin), *b = take_memory(!device || !has_dropin);
        try_nobody(memory, a, b);
        try_arguments(memory, a, b);
        try_uncommitted(memory, a, b, 10);
        try_uncommitted(memory, a, b, 4000);
        try_same_alone(memory, a, 100);
        try_same(memory, a, 100, MPI_COMM_SELF);
        try_same(memory, a, 100, MPI_COMM_WORLD);
        try_same(memory, a, NUMBERS, MPI_COMM_WORLD);
        try_same(memory, a, NUMBERS, copy);
    }
    MPI_Comm_free(&copy);
    MPI_Errhandler_free(&handler);
}

/* --- short receives ----------------------------------------------------------------------------------------------- */

enum { SENT_MOST = 1 << 20, HOWS = 6 };

/* Receives in one of the ways; returns MPI's code. */
static int receive_short(int how, char *in, int room, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Message message;
    int code = MPI_SUCCESS, done = 0;
    switch (how) {
    case 0: return MPI_Recv(in, room, type, the.left, 6, MPI_COMM_WORLD, status);
    case 1: MPI_Irecv(in, room, type, the.left, 6, MPI_COMM_WORLD, &r); return MPI_Wait(&r, status);
    case 2:
        return MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, in, room, type, the.left, 6, MPI_COMM_WORLD, status);
    case 3:
        MPI_Recv_init(in, room, type, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &r);
        MPI_Start(&r);
        code = MPI_Wait(&r, status);
        if (r != MPI_REQUEST_NULL)
            MPI_Request_free(&r);
        return code;
    case 4:
        MPI_Mprobe(the.left, 6, MPI_COMM_WORLD, &message, status);
        return MPI_Mrecv(in, room, type, &message, status);
    default:
        MPI_Irecv(in, room, type, the.left, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
        while (code == MPI_SUCCESS && !done)
            code = MPI_Test(&r, &done, status);
        return code;
    }
}

static void receive_one(int how, char *in, int sent, int room, MPI_Datatype type, int size)
{
    char seen[BYTES];
    MPI_Status status;
    int class = MPI_SUCCESS, count = -1, good = 0;
    handled = 0;
    const int code = receive_short(how, in, room / size, type, &status);
    MPI_Error_class(handled > 0 && !mpi_returns_what_it_handled() ? handled_code : code, &class);
    if (class != (sent > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
        printf("rank %d: way %d, %d bytes sent, room for %d\n", the.rank, how, sent, room);
    CHECK_EQ(class, sent > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    CHECK_EQ(handled, sent > room);
    if (sent > room)
        return;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQ(count, sent);
    CHECK_EQ(status.MPI_SOURCE, the.left);
    CHECK_EQ(status.MPI_TAG, 6);
    if (size > 1) /* with gaps */
        return;
    if (in != the.in)
        memcpy(seen, in, BYTES);
    else
        selvage_device_copy(the.device, seen, in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    while (good < sent && seen[good] == 5)
        good++;
    CHECK_EQ(good, sent);
}

/* The first rank sends, and its sends end; the second one receives. */
void run_short(void)
{
    static const int rooms[] = {0, 8, 40, 104, 248}, sends[] = {8, 40, 248, SENT_MOST};
    static char host[SENT_MOST]; /* MPI itself may write so much where less was asked for */
    void *const out = device_bytes(SENT_MOST);
    MPI_Errhandler handler;
    MPI_Datatype gaps;
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    selvage_device_fill(the.device, out, 5, SENT_MOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    MPI_Sendrecv(the.out, 1, MPI_BYTE, the.right, 1, the.in, 1, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++) /* the route is open then */
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 5 * 4 * HOWS * 4; i++) {
        const int room = rooms[i % 5], sent = sends[i / 5 % 4], how = i / 20 % HOWS, memory = i / 20 / HOWS;
        char *in = memory & 1 ? the.in : host;
        if (room == 0 && !mpi_sees_no_room())
            continue;
        if (the.rank == 0)
            MPI_Send(out, sent, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
        else if (the.rank == 1)
            receive_one(how, in, sent, room, memory & 2 ? gaps : MPI_BYTE, memory & 2 ? 8 : 1);
    }
    MPI_Type_free(&gaps);
    MPI_Errhandler_free(&handler);
}
