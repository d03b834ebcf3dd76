/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for the fast route: what must not wait for it, and what an announcement must be
   expected in. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { MANY = 7, LONG_BYTES = 1 << 18, RUN = 64 };

/* A long message, all of whose bytes are value. */
static void show(void *memory, int value)
{
    selvage_device_fill(the.device, memory, value, LONG_BYTES, the.stream);
}

static void see(const void *memory, int value)
{
    const uint8_t *seen = the.pinned;
    for (size_t at = 0; at < LONG_BYTES; at += LONG_BYTES - BYTES) {
        selvage_device_copy(the.device, the.pinned, (const char *)memory + at, BYTES, SELVAGE_COPY_DEVICE_TO_HOST,
                            the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        CHECK(seen[0] == value && seen[BYTES - 1] == value);
    }
}

/* Nobody drives this one. */
static void block(void)
{
    MPI_Comm twin;
    if (!mpi_bears_mixed_levels() && the.rank == 0)
        printf("skipped: this MPI waits for ever where ranks have different levels of threads, so all have the same\n");
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_free(&twin);
}

static void owe_to_right(void *out, int value)
{
    MPI_Request request;
    show(out, value);
    MPI_Isend(out, LONG_BYTES, MPI_BYTE, the.right, 1, MPI_COMM_WORLD, &request);
    block();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    show(out, value + 1);
    MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 2, MPI_COMM_WORLD);
    block();
}

static void take_from_left(void *in, int value)
{
    MPI_Request request;
    MPI_Recv(in, LONG_BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    see(in, value);
    block();
    MPI_Irecv(in, LONG_BYTES, MPI_BYTE, the.left, 2, MPI_COMM_WORLD, &request);
    block();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    see(in, value + 1);
}

/* More than slots, and the last one is received first. */
static void begin_many(void *const *out, void *in, int value)
{
    MPI_Request request[MANY];
    for (int i = 0; i < MANY; i++) {
        show(out[i], value + i);
        MPI_Isend(out[i], LONG_BYTES, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &request[i]);
    }
    block();
    for (int i = MANY; i-- > 0;) {
        MPI_Recv(in, LONG_BYTES, MPI_BYTE, the.left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        see(in, value + i);
    }
    MPI_Waitall(MANY, request, MPI_STATUSES_IGNORE);
}

/* By a request, which an announcement might come to. */
void run_early(void)
{
    MPI_Request request;
    uint8_t *host_in = malloc(LONG_BYTES), *host_out = malloc(LONG_BYTES);
    void *out = device_bytes(LONG_BYTES), *in = device_bytes(LONG_BYTES);
    memset(host_out, 3, LONG_BYTES);
    MPI_Irecv(host_in, LONG_BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, &request);
    open_fast_route();
    show(out, 5);
    MPI_Sendrecv(out, LONG_BYTES, MPI_BYTE, the.right, 2, in, LONG_BYTES, MPI_BYTE, the.left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    see(in, 5);
    MPI_Send(host_out, LONG_BYTES, MPI_BYTE, the.right, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(memcmp(host_in, host_out, LONG_BYTES) == 0);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(host_out);
    free(host_in);
}

/* Ranks 0 and 1 exchange device memory, all others that of the host, and nobody makes a collective call. */
void run_pairs(void)
{
    enum { TURNS = 60 };
    const int other = the.rank ^ 1;
    const bool device = the.rank < 2;
    uint8_t *host_in = calloc(1, LONG_BYTES), *host_out = calloc(1, LONG_BYTES);
    void *out = device_bytes(LONG_BYTES), *in = device_bytes(LONG_BYTES);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request request[2];
        if (device)
            show(out, turn + 1);
        else
            memset(host_out, turn + 1, LONG_BYTES);
        MPI_Irecv(device ? in : host_in, LONG_BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(device ? out : host_out, LONG_BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        if (device)
            see(in, turn + 1);
        else
            CHECK(host_in[0] == turn + 1 && host_in[LONG_BYTES - 1] == turn + 1);
        if (device) /* and where calls block */
            MPI_Sendrecv(out, LONG_BYTES, MPI_BYTE, other, 2, in, LONG_BYTES, MPI_BYTE, other, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    }
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(host_out);
    free(host_in);
}

/* Every second rank begins. */
void run_owed(void)
{
    void *out[MANY], *in = device_bytes(LONG_BYTES);
    for (int i = 0; i < MANY; i++)
        out[i] = device_bytes(LONG_BYTES);
    open_fast_pairs();
    for (int turn = 0; turn < 5; turn++) {
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (the.rank % 2 == 0)
            owe_to_right(out[0], 10 * turn + 1);
        else
            take_from_left(in, 10 * turn + 1);
        begin_many(out, in, 10 * turn + 1);
    }
    for (int i = 0; i < MANY; i++)
        selvage_device_free(the.device, out[i]);
    selvage_device_free(the.device, in);
}

static int shift_fails(void)
{
    return MPI_Sendrecv(the.out, BYTES, MPI_BYTE, the.right, 1, the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE) != MPI_SUCCESS;
}

void run_damaged(void)
{
    enum { TURNS = 3 };
    int failures = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(!shift_fails()); /* staged: the route opens when every rank has shown device memory */
    MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < TURNS; i++)
        failures += shift_fails();
    printf("%d of %d calls failed\n", failures, TURNS);
}

static void *probe_one(void *to)
{
    MPI_Status status;
    int bytes = 0;
    MPI_Probe(the.left, 9, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, LONG_BYTES);
    MPI_Recv(to, LONG_BYTES, MPI_BYTE, the.left, 9, MPI_COMM_WORLD, &status);
    return NULL;
}

void run_probes(void)
{
    pthread_t thread;
    uint8_t *host = calloc(1, LONG_BYTES);
    void *out = device_bytes(LONG_BYTES);
    pthread_create(&thread, NULL, probe_one, host);
    usleep(100000); /* it is in the call then */
    open_fast_route();
    show(out, 4);
    MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 9, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    CHECK(host[0] == 4 && host[LONG_BYTES - 1] == 4);
    selvage_device_free(the.device, out);
    free(host);
}

/* Into more host memory than an int counts the bytes of, none of which is touched but what comes. */
static void meet_huge(void *out)
{
    enum { COUNT = 300000000 };
    uint8_t *in = mmap(NULL, sizeof(double) * COUNT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MPI_Request request;
    MPI_Status status;
    int bytes = 0;
    CHECK(in != MAP_FAILED);
    MPI_Irecv(in, COUNT, MPI_DOUBLE, the.left, 1, MPI_COMM_WORLD, &request);
    show(out, 6);
    MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, LONG_BYTES);
    CHECK(in[0] == 6 && in[LONG_BYTES - 1] == 6);
    munmap(in, sizeof(double) * COUNT);
}

/* Into a type that Selvage does not take apart: every second run of 64 bytes, of the device's memory or the host's. */
static void meet_darray(void *out)
{
    int length = 2 * LONG_BYTES, how = MPI_DISTRIBUTE_CYCLIC, run = RUN, n = 2;
    MPI_Datatype type;
    uint8_t *in = calloc(1, 2 * LONG_BYTES), *on_device = device_bytes(2 * LONG_BYTES);
    MPI_Type_create_darray(2, 1, 1, &length, &how, &run, &n, MPI_ORDER_C, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Request request;
        selvage_device_fill(the.device, on_device, 1, 2 * LONG_BYTES, the.stream);
        MPI_Irecv(turn ? on_device : in, 1, type, the.left, 2, MPI_COMM_WORLD, &request);
        show(out, 8);
        MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 2, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (turn) {
            selvage_device_copy(the.device, in, on_device, 2 * LONG_BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
            selvage_stream_synchronize(the.device, the.stream);
        }
        for (int i = 0; i < 2 * LONG_BYTES; i += RUN)
            CHECK_EQ(in[i], i / RUN % 2 ? 8 : turn);
    }
    MPI_Type_free(&type);
    selvage_device_free(the.device, on_device);
    free(in);
}

/* Into what is sent meanwhile. */
static void meet_replaced(void *out)
{
    (void)out; /* before MPI 4 */
#if MPI_VERSION >= 4
    uint8_t *both = malloc(LONG_BYTES), *in = calloc(1, LONG_BYTES);
    MPI_Request request;
    memset(both, 3, LONG_BYTES);
    MPI_Isendrecv_replace(both, LONG_BYTES, MPI_BYTE, the.right, 4, the.left, 3, MPI_COMM_WORLD, &request);
    show(out, 7);
    MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 3, MPI_COMM_WORLD);
    MPI_Recv(in, LONG_BYTES, MPI_BYTE, the.left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in[0] == 3 && in[LONG_BYTES - 1] == 3);
    CHECK(both[0] == 7 && both[LONG_BYTES - 1] == 7);
    MPI_Isendrecv(out, BYTES, MPI_BYTE, the.right, 5, the.in, BYTES, MPI_BYTE, the.left, 5, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    selvage_device_copy(the.device, the.pinned, the.in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    CHECK_EQ(((uint8_t *)the.pinned)[BYTES - 1], 7);
    free(both);
    free(in);
#endif
}

void run_meets(void)
{
    void *out = device_bytes(LONG_BYTES);
    open_fast_route();
    meet_huge(out);
    meet_darray(out);
    meet_replaced(out);
    selvage_device_free(the.device, out);
}

/* On two communicators, as ranks without threads may. */
void run_levels(void)
{
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    for (int turn = 1; turn < 10; turn++) {
        int own[2] = {turn, turn * turn}, all[2] = {0};
        MPI_Allreduce(&own[0], &all[0], 1, MPI_INT, MPI_SUM, twin);
        MPI_Allreduce(&own[1], &all[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQ(all[0], turn * the.ranks);
        CHECK_EQ(all[1], turn * turn * the.ranks);
    }
    open_fast_route();
    MPI_Comm_free(&twin);
}

/* One pair calls, whose ranks are one of each job's, and the others do not. */
static void run_pair(MPI_Comm others, bool first)
{
    MPI_Comm all, pair;
    MPI_Intercomm_merge(others, !first, &all);
    MPI_Comm_split(all, the.rank, 0, &pair);
    for (int turn = 0; turn < 4 && the.rank == 0; turn++) {
        int own = turn, sum = 0;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, pair);
        CHECK_EQ(sum, 2 * turn);
    }
    if (the.rank == 0)
        MPI_Send(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    else if (the.rank == 1)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&all);
}

void run_spawn(void)
{
    char *arguments[] = {"spawn", NULL};
    MPI_Comm others;
    MPI_Comm_get_parent(&others);
    const bool are_parents = others == MPI_COMM_NULL;
    if (are_parents)
        MPI_Comm_spawn(the.program, arguments, the.ranks, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others,
                       MPI_ERRCODES_IGNORE);
    run_pair(others, are_parents);
    MPI_Comm_disconnect(&others);
}
