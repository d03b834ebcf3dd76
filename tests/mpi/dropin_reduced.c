/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* RTLD_NEXT */
/*
 * Programs of dropin_unmodified for reductions and broadcasts that do not block: of every length, on communicators of
 * every size, with host memory on some ranks; several under way, which ranks end in other orders; calls that MPI
 * refuses on one rank; calls that end right before MPI_Finalize; and damage.
 * All ranks must have the same bits, whatever the order of the sum.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { RANKS_MAX = 8, MOST = 40000, OPEN = 5, LAST = 3000 };

/* One call and its memory. */
typedef struct sum {
    double *host_out, *host_in, *out, *in;
    int count, which;
    bool out_on_host, in_on_host;
    MPI_Request request;
} sum_t;

static void bring(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, bytes, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static void make_sum(sum_t *s)
{
    const size_t bytes = MOST * sizeof(double);
    *s = (sum_t){malloc(bytes), malloc(bytes), device_bytes(bytes), device_bytes(bytes), 0, 0, false, false,
                 MPI_REQUEST_NULL};
}

static void free_sum(sum_t *s)
{
    free(s->host_out);
    free(s->host_in);
    selvage_device_free(the.device, s->out);
    selvage_device_free(the.device, s->in);
}

static void open_collectives(void)
{
    for (int i = 0; i < 8; i++)
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Numbers whose sum depends on the order, and a few that are none. */
static double number_of(int which, int rank, int i)
{
    const double special[] = {NAN, INFINITY, -INFINITY, -0.0};
    const unsigned mixed = (unsigned)(which * 7919 + rank * 104729 + i) * 2654435761u >> 8;
    return mixed % 97 == 0 ? special[mixed / 97 % 4] : ldexp(1.0 + mixed % 1021 / 7.0, (int)(mixed % 40) - 20);
}

/* On the device, but for either buffer on some ranks in some calls; what comes is filled with something else. */
static void begin_sum(sum_t *s, int which, int count, MPI_Comm comm)
{
    const size_t bytes = (size_t)count * sizeof(double);
    s->which = which;
    s->count = count;
    s->out_on_host = which % 2 == 1 && (the.rank + which / 2) % 2 == 0;
    s->in_on_host = which % 3 == 2 && (the.rank + which / 3) % 2 == 0;
    for (int i = 0; i < count; i++)
        s->host_out[i] = number_of(which, the.rank, i);
    memset(s->host_in, 0x77, bytes);
    bring(s->out, s->host_out, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    bring(s->in, s->host_in, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    CHECK_EQ(MPI_Iallreduce(s->out_on_host ? s->host_out : s->out, s->in_on_host ? s->host_in : s->in, count,
                            MPI_DOUBLE, MPI_SUM, comm, &s->request), MPI_SUCCESS);
}

/* The bits are those of rank 0, and the numbers are near those of MPI's own sum. */
static void check_sum(sum_t *s, MPI_Comm comm)
{
    const size_t bytes = (size_t)s->count * sizeof(double);
    double *first = malloc(bytes + 1), *own = malloc(bytes + 1), *scale = malloc(bytes + 1);
    int bad = 0;
    if (!s->in_on_host)
        bring(s->host_in, s->in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    memcpy(first, s->host_in, bytes);
    PMPI_Bcast(first, s->count, MPI_DOUBLE, 0, comm);
    PMPI_Allreduce(s->host_out, own, s->count, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < s->count; i++)
        s->host_out[i] = fabs(s->host_out[i]);
    PMPI_Allreduce(s->host_out, scale, s->count, MPI_DOUBLE, MPI_SUM, comm);
    CHECK_EQ(memcmp(first, s->host_in, bytes), 0);
    for (int i = 0; i < s->count; i++)
        bad += isfinite(own[i]) ? !(fabs(own[i] - first[i]) <= 1e-13 * scale[i])
                                : isnan(own[i]) ? !isnan(first[i]) : own[i] != first[i];
    CHECK_EQ(bad, 0);
    free(first);
    free(own);
    free(scale);
}

/* Each rank ends them in an order of its own. */
static void add_up_open(sum_t *sums, MPI_Comm comm, int round)
{
    const int counts[] = {0, 1, 5, 333, 1000, 1003, 4096, 40000, 777};
    for (int i = 0; i < OPEN; i++)
        begin_sum(&sums[i], round * OPEN + i, counts[(round * OPEN + i) % 9], comm);
    for (int i = 0; i < OPEN; i++)
        CHECK_EQ(MPI_Wait(&sums[(i * (1 + the.rank % 4) + the.rank) % OPEN].request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    for (int i = 0; i < OPEN; i++)
        check_sum(&sums[i], comm);
    MPI_Barrier(comm);
}

void run_reduced(void)
{
    enum { ROUNDS = 12 };
    sum_t sums[OPEN];
    MPI_Comm comms[3];
    open_collectives();
    for (int i = 0; i < OPEN; i++)
        make_sum(&sums[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, the.rank / 2, -the.rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, the.rank > 0, 0, &comms[2]);
    for (int round = 0; round < ROUNDS; round++)
        for (int c = 0; c < 3; c++)
            add_up_open(sums, comms[c], round);
    for (int c = 0; c < 3; c++)
        MPI_Comm_free(&comms[c]);
    for (int i = 0; i < OPEN; i++)
        free_sum(&sums[i]);
}

/* Rank 0 makes calls that MPI refuses there, and then the one that the others are in. */
void run_reduced_refused(void)
{
    enum { TURNS = 10, COUNT = 3000 };
    sum_t s;
    MPI_Comm comm;
    MPI_Request request = MPI_REQUEST_NULL;
    int counts[RANKS_MAX] = {-1};
    open_collectives();
    make_sum(&s);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* Open MPI 4.1 tells this one of some errors */
    for (int turn = 0; turn < TURNS; turn++) {
        if (the.rank == 0) {
            CHECK(MPI_Iallreduce(s.out, s.in, COUNT, MPI_DOUBLE, MPI_OP_NULL, comm, &request) != MPI_SUCCESS);
            CHECK(MPI_Iallreduce(s.out, s.in, COUNT, MPI_DOUBLE, MPI_BXOR, comm, &request) != MPI_SUCCESS);
#if !defined(MPICH_VERSION) && !defined(MPI_ABI_VERSION) /* MPICH 4.0 and 5.0 wait forever in the next call */
            CHECK(MPI_Iallreduce(s.out, s.in, -1, MPI_DOUBLE, MPI_SUM, comm, &request) != MPI_SUCCESS);
#endif
            CHECK(MPI_Iallreduce(s.out, MPI_IN_PLACE, COUNT, MPI_DOUBLE, MPI_SUM, comm, &request) != MPI_SUCCESS);
            CHECK(MPI_Ireduce(s.out, s.in, COUNT, MPI_DOUBLE, MPI_SUM, the.ranks, comm, &request) != MPI_SUCCESS);
            CHECK(MPI_Ireduce_scatter(s.out, s.in, counts, MPI_DOUBLE, MPI_SUM, comm, &request) != MPI_SUCCESS);
            CHECK(MPI_Ibcast(s.out, COUNT, MPI_DATATYPE_NULL, 0, comm, &request) != MPI_SUCCESS);
            CHECK(MPI_Ibcast(s.out, COUNT, MPI_DOUBLE, -5, comm, &request) != MPI_SUCCESS);
        }
        begin_sum(&s, turn, COUNT, comm);
        CHECK_EQ(MPI_Wait(&s.request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        check_sum(&s, comm);
        MPI_Barrier(comm);
    }
    MPI_Comm_free(&comm);
    free_sum(&s);
}

/* --- ranks that wait elsewhere, and the device ------------------------------------------------------------------- */

static void enter_other_call(int kind)
{
    double one = 1, sum = 0;
    MPI_Comm other;
    if (kind == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (kind == 1) {
        CHECK_EQ(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK(sum == the.ranks);
    } else {
        CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &other), MPI_SUCCESS);
        MPI_Comm_free(&other);
    }
}

/* Rank 0 waits for its sum, and then enters another call, in which the others are already: nobody has to come back for
   it. Each kind of call, by each kind of reduction, and a broadcast. */
void run_reduced_apart(void)
{
    enum { TURNS = 36 };
    int host[LAST], *out = device_bytes(LAST * RANKS_MAX * sizeof *out), *in = device_bytes(sizeof host), bad = 0;
    MPI_Request request;
    MPI_Comm comm;
    open_collectives();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    selvage_device_fill(the.device, out, 1, LAST * RANKS_MAX * sizeof *out, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    for (int turn = 0; turn < TURNS; turn++) {
        const int call = turn / 3 % 4;
        selvage_device_fill(the.device, in, call == 3 && the.rank == 0, sizeof host, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        if (call == 0)
            MPI_Iallreduce(out, in, LAST, MPI_INT, MPI_SUM, comm, &request);
        else if (call == 1)
            MPI_Ireduce(out, in, LAST, MPI_INT, MPI_SUM, 0, comm, &request);
        else if (call == 2)
            MPI_Ireduce_scatter_block(out, in, LAST, MPI_INT, MPI_SUM, comm, &request);
        else
            MPI_Ibcast(in, LAST, MPI_INT, 0, comm, &request);
        if (the.rank > 0)
            enter_other_call(turn % 3);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (the.rank == 0)
            enter_other_call(turn % 3);
        bring(host, in, sizeof host, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < LAST && (call != 1 || the.rank == 0); i++)
            bad += host[i] != (call == 3 ? 0x01010101 : the.ranks * 0x01010101);
        MPI_Barrier(comm);
    }
    CHECK_EQ(bad, 0);
    MPI_Comm_free(&comm);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}

/* The default stream of a software device is that device's, where a GPU's is the process's. So work that the drop-in is
   to wait for is that of its own device there, which this finds: it stands before the library's. */
static selvage_device_t *of_others;

selvage_status_t selvage_device_open(const char *name, selvage_device_t **dev_out)
{
    union {
        void *found;
        selvage_status_t (*call)(const char *, selvage_device_t **);
    } next = {dlsym(RTLD_NEXT, "selvage_device_open")};
    const selvage_status_t status = next.call(name, dev_out);
    if (status == SELVAGE_SUCCESS && dev_out != &the.device && strcmp(selvage_device_name(*dev_out), "soft") == 0)
        of_others = *dev_out;
    return status;
}

/* What is sent is written late, and what comes was to be written before. Either buffer is on the host, or none. */
void run_reduced_after_work(void)
{
    enum { TURNS = 18, DELAY_US = 20000 };
    const int bytes = LAST * (int)sizeof(int);
    int host_out[LAST], host_in[LAST], bad = 0;
    void *out = device_bytes((size_t)bytes), *in = device_bytes((size_t)bytes);
    MPI_Request request;
    MPI_Comm comm;
    open_collectives();
    const bool soft = strcmp(selvage_device_name(the.device), "soft") == 0;
    selvage_device_t *dev = soft ? of_others : the.device; /* beside a GPU the drop-in's first one may be soft, too */
    CHECK(dev != NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int turn = 0; turn < TURNS; turn++) {
        const bool out_on_host = turn % 3 == 1, in_on_host = turn % 3 == 2;
        selvage_device_fill(the.device, out, 0, (size_t)bytes, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        memset(host_out, 1, sizeof host_out);
        MPI_Barrier(comm);
        selvage_device_delay_us(dev, DELAY_US, NULL);
        selvage_device_fill(dev, in, 0x33, (size_t)bytes, NULL);
        selvage_device_fill(dev, out, 1, (size_t)bytes, NULL);
        if (turn / 3 % 2)
            MPI_Iallreduce(out_on_host ? host_out : out, in_on_host ? host_in : in, LAST, MPI_INT, MPI_SUM, comm,
                           &request);
        else
            MPI_Ireduce(out_on_host ? host_out : out, in_on_host ? host_in : in, LAST, MPI_INT, MPI_SUM, 0, comm,
                        &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        selvage_stream_synchronize(dev, NULL);
        if (!in_on_host)
            bring(host_in, in, (size_t)bytes, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < LAST && (turn / 3 % 2 || the.rank == 0); i++)
            bad += host_in[i] != the.ranks * 0x01010101;
    }
    CHECK_EQ(bad, 0);
    MPI_Comm_free(&comm);
    selvage_device_free(the.device, in);
    selvage_device_free(the.device, out);
}

/* More calls than may have device memory, ended from the last one on. */
void run_reduced_many(void)
{
    enum { MANY = 50, TURNS = 3 };
    int host[LAST], bad = 0, *out = device_bytes(sizeof host), *in[MANY];
    MPI_Request requests[MANY];
    MPI_Comm comm;
    open_collectives();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < LAST; i++)
        host[i] = i + the.rank;
    bring(out, host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE);
    for (int call = 0; call < MANY; call++)
        in[call] = device_bytes(sizeof host);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int call = 0; call < MANY; call++)
            MPI_Iallreduce(out, in[call], LAST, MPI_INT, call % 2 ? MPI_MAX : MPI_SUM, comm, &requests[call]);
        for (int call = MANY - 1; call >= 0; call--)
            MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
        for (int call = 0; call < MANY; call++) {
            bring(host, in[call], sizeof host, SELVAGE_COPY_DEVICE_TO_HOST);
            for (int i = 0; i < LAST; i++)
                bad += host[i] != (call % 2 ? i + the.ranks - 1 : the.ranks * i + the.ranks * (the.ranks - 1) / 2);
            selvage_device_fill(the.device, in[call], 0, sizeof host, the.stream);
        }
        selvage_stream_synchronize(the.device, the.stream);
        MPI_Barrier(comm);
    }
    CHECK_EQ(bad, 0);
    for (int call = 0; call < MANY; call++)
        selvage_device_free(the.device, in[call]);
    selvage_device_free(the.device, out);
    MPI_Comm_free(&comm);
}

/* --- at the end --------------------------------------------------------------------------------------------------- */

static int *last_in[3];

static void check_last(void)
{
    int host[LAST], bad = 0;
    for (int call = 0; call < 3; call++) {
        bring(host, last_in[call], sizeof host, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < LAST && (call != 1 || the.rank == 0); i++)
            bad += host[i] != (call == 2 ? 7 * i : the.ranks * i);
        selvage_device_free(the.device, last_in[call]);
    }
    CHECK_EQ(bad, 0);
}

/* Three calls are ended at once, by one rank later than by the others, and MPI_Finalize comes next. */
void run_reduced_ending(void)
{
    int host[LAST], *out = device_bytes(sizeof host);
    MPI_Request requests[3], opener;
    MPI_Comm comm;
    open_collectives();
    for (int i = 0; i < LAST; i++)
        host[i] = i;
    bring(out, host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE);
    for (int call = 0; call < 3; call++)
        last_in[call] = device_bytes(sizeof host);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 2; i++) { /* it has its channel then */
        MPI_Iallreduce(out, last_in[0], LAST, MPI_INT, MPI_SUM, comm, &opener);
        MPI_Wait(&opener, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
    }
    selvage_device_fill(the.device, last_in[0], 0, sizeof host, the.stream);
    for (int i = 0; i < LAST; i++)
        host[i] = the.rank == 0 ? 7 * i : -1;
    bring(last_in[2], host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE);
    MPI_Iallreduce(out, last_in[0], LAST, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Ireduce(out, last_in[1], LAST, MPI_INT, MPI_SUM, 0, comm, &requests[1]);
    MPI_Ibcast(last_in[2], LAST, MPI_INT, 0, comm, &requests[2]);
    if (the.rank == 1)
        usleep(50000);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&comm);
    the.after = check_last;
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static int handled;

static void count_failure(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

/* What a call does not say to be wrong is right, on each rank. */
void run_reduced_damaged(void)
{
    enum { TURNS = 8, COUNT = 2000 };
    int failures = 0, wrong = 0, host[COUNT], *out = device_bytes(sizeof host), *in = device_bytes(sizeof host);
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Comm_create_errhandler(count_failure, &handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    open_collectives();
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request request;
        for (int i = 0; i < COUNT; i++)
            host[i] = turn * COUNT + i;
        bring(out, host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE);
        CHECK_EQ(MPI_Iallreduce(out, in, COUNT, MPI_INT, MPI_SUM, comm, &request), MPI_SUCCESS);
        const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
        bring(host, in, sizeof host, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < COUNT && code == MPI_SUCCESS; i++)
            wrong += host[i] != the.ranks * (turn * COUNT + i);
        failures += code != MPI_SUCCESS;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(handled, failures);
    printf("rank %d: %d of %d calls failed\n", the.rank, failures, TURNS);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}
