/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for reductions by Selvage's collectives: of each type and operation that they have for
 * it, beside MPI's own on host memory, and calls that MPI refuses on one rank only. Numbers are small, so that they add
 * up alike in any order, and no sum is too large for its type: there Open MPI's own is the largest number.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { COUNT = 3000, ROOM = COUNT * 16 };

typedef struct sums {
    uint8_t *given, *wanted, *seen; /* host */
    void *out, *in;                 /* device */
} sums_t;

static void bring(void *to, const void *from, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, ROOM, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* Numbers of a type: bytes are numbers of every integer type, but not of the others. */
static void give(const sums_t *s, MPI_Datatype type)
{
    for (int i = 0; i < ROOM; i++)
        s->given[i] = (uint8_t)(i % 7 + the.rank + (i % 5 == 0 ? 230 : 0));
    for (int i = 0; i < ROOM / 8 && (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX); i++)
        ((double *)(void *)s->given)[i] = i % 13 - the.rank;
    for (int i = 0; i < ROOM / 4 && type == MPI_C_FLOAT_COMPLEX; i++)
        ((float *)(void *)s->given)[i] = (float)(i % 11 + the.rank);
    bring(s->out, s->given, SELVAGE_COPY_HOST_TO_DEVICE);
    memset(s->wanted, 0xcc, ROOM);
    bring(s->in, s->wanted, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void compare_first(const sums_t *s, int bytes)
{
    bring(s->seen, s->in, SELVAGE_COPY_DEVICE_TO_HOST);
    int at = 0;
    while (at < bytes && s->seen[at] == s->wanted[at])
        at++;
    if (at < bytes)
        printf("rank %d: byte %d is %d, not %d\n", the.rank, at, s->seen[at], s->wanted[at]);
    CHECK_EQ(at, bytes);
}

static void compare(const sums_t *s)
{
    compare_first(s, ROOM);
}

/* Equal blocks, some of no elements, and blocks that grow with the rank; as many in all. */
static void split(int how, int *counts)
{
    int left = COUNT;
    for (int i = 0; i < the.ranks; i++) {
        counts[i] = how == 0 ? COUNT / the.ranks : how == 1 ? (i == 1 ? COUNT : 0) : 100 + 50 * i;
        left -= counts[i];
    }
    counts[0] += how == 0 ? 0 : left;
}

static void reduce_scatter(const sums_t *s, MPI_Datatype type, MPI_Op op)
{
    int counts[64] = {0};
    for (int how = 0; how < 3; how++) {
        split(how, counts);
        give(s, type);
        CHECK_EQ(MPI_Reduce_scatter(s->out, s->in, counts, type, op, MPI_COMM_WORLD), MPI_SUCCESS);
        PMPI_Reduce_scatter(s->given, s->wanted, counts, type, op, MPI_COMM_WORLD);
        compare(s);
    }
}

static void open_route(const sums_t *s)
{
    for (int i = 0; i < 8; i++)
        MPI_Allreduce(s->out, s->in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* By one rank with a large count, which is the same call. */
static int call_allreduce(const sums_t *s, MPI_Datatype type, MPI_Op op)
{
#if MPI_VERSION >= 4
    if (the.rank == 0)
        return MPI_Allreduce_c(s->out, s->in, COUNT, type, op, MPI_COMM_WORLD);
#endif
    return MPI_Allreduce(s->out, s->in, COUNT, type, op, MPI_COMM_WORLD);
}

static void begin_alone(sums_t *s)
{
    s->given = malloc(ROOM);
    s->wanted = malloc(ROOM);
    s->seen = malloc(ROOM);
    s->out = device_bytes(ROOM);
    s->in = device_bytes(ROOM);
    give(s, MPI_INT);
}

static void begin(sums_t *s)
{
    begin_alone(s);
    open_route(s);
}

static void end(sums_t *s)
{
    free(s->given);
    free(s->wanted);
    free(s->seen);
    selvage_device_free(the.device, s->out);
    selvage_device_free(the.device, s->in);
}

void run_sums(void)
{
    const struct { MPI_Datatype type; MPI_Op op; } cases[] = {
        {MPI_CHAR, MPI_SUM}, {MPI_CHAR, MPI_MIN}, {MPI_CHAR, MPI_MAX}, {MPI_SIGNED_CHAR, MPI_MAX},
        {MPI_UNSIGNED_CHAR, MPI_MAX}, {MPI_UINT8_T, MPI_MIN}, {MPI_INT8_T, MPI_SUM}, {MPI_INT, MPI_SUM},
        {MPI_OFFSET, MPI_MIN}, {MPI_DOUBLE, MPI_SUM}, {MPI_C_DOUBLE_COMPLEX, MPI_SUM}, {MPI_C_FLOAT_COMPLEX, MPI_SUM},
        {MPI_C_DOUBLE_COMPLEX, MPI_PROD}, {MPI_SHORT, MPI_SUM}, {MPI_UINT64_T, MPI_BXOR}};
    sums_t s;
    begin(&s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        give(&s, cases[i].type);
        CHECK_EQ(call_allreduce(&s, cases[i].type, cases[i].op), MPI_SUCCESS);
        PMPI_Allreduce(s.given, s.wanted, COUNT, cases[i].type, cases[i].op, MPI_COMM_WORLD);
        compare(&s);
    }
    reduce_scatter(&s, MPI_CHAR, MPI_SUM);
    reduce_scatter(&s, MPI_C_DOUBLE_COMPLEX, MPI_SUM);
    reduce_scatter(&s, MPI_INT, MPI_MAX);
    end(&s);
}

/* --- some of the ranks -------------------------------------------------------------------------------------------- */

/* Each of the calls on a communicator, beside MPI's own on host memory. */
static void add_up_among(const sums_t *s, MPI_Comm comm)
{
    int counts[64] = {0}, n = 0, rank = 0, all = COUNT;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < n; i++)
        all -= counts[i] = 100 + 50 * i;
    counts[0] += all;
    give(s, MPI_INT);
    CHECK_EQ(MPI_Allreduce(s->out, s->in, COUNT, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    PMPI_Allreduce(s->given, s->wanted, COUNT, MPI_INT, MPI_SUM, comm);
    compare(s);
    give(s, MPI_INT);
    CHECK_EQ(MPI_Reduce(s->out, s->in, COUNT, MPI_INT, MPI_MAX, n - 1, comm), MPI_SUCCESS);
    PMPI_Reduce(s->given, s->wanted, COUNT, MPI_INT, MPI_MAX, n - 1, comm);
    compare(s);
    give(s, MPI_INT);
    CHECK_EQ(MPI_Reduce_scatter_block(s->out, s->in, COUNT / n, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    PMPI_Reduce_scatter_block(s->given, s->wanted, COUNT / n, MPI_INT, MPI_SUM, comm);
    compare(s);
    give(s, MPI_INT);
    CHECK_EQ(MPI_Reduce_scatter(s->out, s->in, counts, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    PMPI_Reduce_scatter(s->given, s->wanted, counts, MPI_INT, MPI_SUM, comm);
    compare(s);
    give(s, MPI_INT);
    CHECK_EQ(MPI_Allgather(s->out, COUNT, MPI_INT, s->in, COUNT, MPI_INT, comm), MPI_SUCCESS);
    PMPI_Allgather(s->given, COUNT, MPI_INT, s->wanted, COUNT, MPI_INT, comm);
    compare(s);
    give(s, MPI_INT);
    CHECK_EQ(MPI_Alltoall(s->out, COUNT, MPI_INT, s->in, COUNT, MPI_INT, comm), MPI_SUCCESS);
    PMPI_Alltoall(s->given, COUNT, MPI_INT, s->wanted, COUNT, MPI_INT, comm);
    compare(s);
    give(s, MPI_INT);
    memcpy(s->wanted, s->given, ROOM);
    CHECK_EQ(MPI_Bcast(s->out, COUNT, MPI_INT, n - 1, comm), MPI_SUCCESS);
    PMPI_Bcast(s->wanted, COUNT, MPI_INT, n - 1, comm);
    bring(s->seen, s->out, SELVAGE_COPY_DEVICE_TO_HOST);
    CHECK_EQ(memcmp(s->seen, s->wanted, ROOM), 0);
}

/* The calls that write where they read, beside MPI's own on host memory. What is after a rank's own block is then for
   MPI to choose. */
static void add_up_in_place(const sums_t *s, MPI_Comm comm)
{
    enum { ALLTOALL, BLOCKS, UNEQUAL, SHORTS, CALLS };
    int counts[64] = {COUNT}, n = 0, rank = 0;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &rank);
    for (int i = 1; i < n; i++)
        counts[0] -= counts[i] = 100 + 50 * i;
    for (int call = 0; call < CALLS; call++) {
        const int own[CALLS] = {n * COUNT * 4, COUNT / n * 4, counts[rank] * 4, counts[rank] * 2};
        give(s, MPI_INT);
        memcpy(s->wanted, s->given, ROOM);
        bring(s->in, s->given, SELVAGE_COPY_HOST_TO_DEVICE);
        for (int on_host = 0; on_host < 2; on_host++) {
            void *buf = on_host ? s->wanted : s->in;
            const int code =
                call == ALLTOALL ? MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buf, COUNT, MPI_INT, comm)
                : call == BLOCKS ? MPI_Reduce_scatter_block(MPI_IN_PLACE, buf, COUNT / n, MPI_INT, MPI_SUM, comm)
                                 : MPI_Reduce_scatter(MPI_IN_PLACE, buf, counts, call == SHORTS ? MPI_SHORT : MPI_INT,
                                                      MPI_MAX, comm);
            CHECK_EQ(code, MPI_SUCCESS);
        }
        compare_first(s, own[call]);
    }
}

/* Communicators of all ranks in another order, of some, of one; a new one each time, and one that is used beside
   others. Host memory makes no collective communicator, and four ranks have more orders than there can be. */
void run_sums_among(void)
{
    sums_t s;
    MPI_Comm turned, part, again, pair;
    MPI_Group world, some;
    begin(&s);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &turned);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Comm_split(MPI_COMM_WORLD, the.rank / 2, 0, &part);
        MPI_Allreduce(s.given, s.wanted, COUNT, MPI_INT, MPI_SUM, part);
        add_up_among(&s, part);
        add_up_among(&s, turned);
        MPI_Comm_dup(part, &again);
        MPI_Comm_free(&part);
        add_up_among(&s, again);
        MPI_Comm_free(&again);
    }
    for (int a = 0; a < the.ranks; a++)
        for (int b = 0; b < the.ranks; b++) {
            if (a == b)
                continue;
            MPI_Group_incl(world, 2, (int[]){a, b}, &some);
            MPI_Comm_create(MPI_COMM_WORLD, some, &pair);
            MPI_Group_free(&some);
            if (pair == MPI_COMM_NULL)
                continue;
            add_up_among(&s, pair);
            MPI_Comm_free(&pair);
        }
    for (int key = 0; key < 24; key++) { /* orders of the ranks, and of all but one */
        MPI_Comm_split(MPI_COMM_WORLD, key % 2 && the.rank == key % the.ranks,
                       (the.rank * (key % 5 + 1) + key) % the.ranks, &part);
        add_up_among(&s, part);
        MPI_Comm_free(&part);
    }
    add_up_among(&s, MPI_COMM_WORLD);
    add_up_in_place(&s, MPI_COMM_WORLD);
    add_up_in_place(&s, turned);
    MPI_Group_free(&world);
    MPI_Comm_free(&turned);
    end(&s);
}

/* --- some of the ranks alone -------------------------------------------------------------------------------------- */

/* Calls on a communicator until its ranks have opened the route for themselves, and each of the calls then. */
static void open_among(const sums_t *s, MPI_Comm comm)
{
    for (int i = 0; i < 8; i++)
        MPI_Allreduce(s->out, s->in, 1, MPI_INT, MPI_SUM, comm);
    add_up_among(s, comm);
}

/* A sum of all ranks and one of each with the last, which has host memory. */
static void add_up_with_writer(const sums_t *s)
{
    const int writer = the.ranks - 1;
    MPI_Comm pair;
    give(s, MPI_INT);
    CHECK_EQ(the.rank == writer ? MPI_Reduce(s->given, s->seen, COUNT, MPI_INT, MPI_SUM, writer, MPI_COMM_WORLD)
                                : MPI_Reduce(s->out, s->in, COUNT, MPI_INT, MPI_SUM, writer, MPI_COMM_WORLD),
             MPI_SUCCESS);
    PMPI_Reduce(s->given, s->wanted, COUNT, MPI_INT, MPI_SUM, writer, MPI_COMM_WORLD);
    CHECK(the.rank != writer || memcmp(s->seen, s->wanted, COUNT * sizeof(int)) == 0);
    MPI_Comm_split(MPI_COMM_WORLD, the.rank == 0 || the.rank == writer, 0, &pair);
    give(s, MPI_INT);
    CHECK_EQ(the.rank == writer ? MPI_Allreduce(s->given, s->seen, COUNT, MPI_INT, MPI_SUM, pair)
                                : MPI_Allreduce(s->out, s->in, COUNT, MPI_INT, MPI_SUM, pair), MPI_SUCCESS);
    PMPI_Allreduce(s->given, s->wanted, COUNT, MPI_INT, MPI_SUM, pair);
    if (the.rank == writer)
        CHECK_EQ(memcmp(s->seen, s->wanted, COUNT * sizeof(int)), 0);
    else
        compare(s);
    MPI_Comm_free(&pair);
}

/* The last rank gives MPI host memory only. */
void run_sums_beside_writer(void)
{
    const bool writes = the.rank == the.ranks - 1;
    sums_t s;
    MPI_Comm part, pair;
    begin_alone(&s);
    MPI_Comm_split(MPI_COMM_WORLD, writes, -the.rank, &part);
    for (int turn = 0; turn < 3; turn++) {
        if (!writes)
            open_among(&s, part);
        add_up_with_writer(&s);
    }
    MPI_Comm_split(part, the.rank / 2, 0, &pair);
    if (!writes)
        add_up_among(&s, pair);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&part);
    end(&s);
}

/* Ranks open the route by pairs of four, in more ways than they can, and then all of them do. */
void run_sums_by_parts(void)
{
    const int colors[4][4] = {{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 0, 0, 1}};
    sums_t s;
    MPI_Comm part[4];
    begin_alone(&s);
    for (int how = 0; how < 4; how++) {
        MPI_Comm_split(MPI_COMM_WORLD, colors[how][the.rank], 0, &part[how]);
        open_among(&s, part[how]);
    }
    for (int how = 3; how >= 0; how--)
        add_up_among(&s, part[how]);
    open_route(&s);
    for (int how = 0; how < 4; how++) {
        add_up_among(&s, MPI_COMM_WORLD);
        add_up_among(&s, part[how]);
        MPI_Comm_free(&part[how]);
    }
    end(&s);
}

/* --- what MPI refuses --------------------------------------------------------------------------------------------- */

/* Rank 0 makes a call that MPI refuses there on a communicator that is used for the first time, while the others are in
   another call. */
static void refuse_among(const sums_t *s)
{
    enum { EACH = 500 };
    MPI_Comm turned;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &turned);
    MPI_Comm_set_errhandler(turned, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 3; turn++) {
        if (the.rank == 0)
            CHECK(MPI_Allreduce(s->given, s->given, COUNT, MPI_INT, MPI_SUM, turned) != MPI_SUCCESS);
        give(s, MPI_INT);
        CHECK_EQ(MPI_Gather(s->out, EACH, MPI_INT, s->in, EACH, MPI_INT, 0, turned), MPI_SUCCESS);
        PMPI_Gather(s->given, EACH, MPI_INT, s->wanted, EACH, MPI_INT, 0, turned);
        compare(s);
        if (turn > 0)
            add_up_among(s, turned);
    }
    MPI_Comm_free(&turned);
}

/* Rank 0 makes calls that MPI refuses there, and then the one that the others are in. */
void run_unheard(void)
{
    MPI_Datatype type, both;
    sums_t s;
    int counts[64] = {0};
    const int lengths[2] = {ROOM, ROOM};
    begin(&s);
    const MPI_Aint places[2] = {(MPI_Aint)s.given, (MPI_Aint)s.out};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(COUNT, MPI_INT, &type); /* not committed */
    MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &both);
    MPI_Type_commit(&both);
    split(0, counts);
    for (int turn = 0; turn < 3; turn++) {
        if (the.rank == 0) {
            CHECK(MPI_Allreduce(s.out, s.in, COUNT, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Allreduce(s.out, s.in, COUNT, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Reduce(s.out, s.in, COUNT, MPI_INT, MPI_SUM, the.ranks, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Bcast(s.in, COUNT, MPI_INT, -5, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Bcast(s.in, 1, type, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Reduce_scatter(s.out, s.in, counts, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) != MPI_SUCCESS);
            /* Whether this one is refused is for MPI to say: the buffers are one. And all ranks have agreed on it. So
               they have on the next, which the drop-in refuses: its memory is of both kinds. */
            for (int i = 0; i <= turn; i++)
                CHECK(MPI_Allreduce(s.given, s.given, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
            CHECK(MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
        }
        give(&s, MPI_INT);
        CHECK_EQ(MPI_Allreduce(s.out, s.in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        PMPI_Allreduce(s.given, s.wanted, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        compare(&s);
    }
    MPI_Type_free(&both);
    MPI_Type_free(&type);
    refuse_among(&s);
    end(&s);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

enum { ADDERS = 3, ADDED = 4096, ROUNDS = 30 };

/* Each on a communicator of its own; nothing orders them. */
static void *add_up(void *comm)
{
    int wrong = 0, *seen = malloc(ADDED * sizeof *seen);
    void *out = device_bytes(ADDED * sizeof *seen), *in = device_bytes(ADDED * sizeof *seen), *stream = NULL;
    selvage_stream_create(the.device, &stream);
    for (int i = 0; i < ROUNDS; i++) {
        selvage_device_fill(the.device, out, i, ADDED * sizeof *seen, stream);
        selvage_stream_synchronize(the.device, stream);
        MPI_Allreduce(out, in, ADDED, MPI_INT, MPI_SUM, *(MPI_Comm *)comm);
        selvage_device_copy(the.device, seen, in, ADDED * sizeof *seen, SELVAGE_COPY_DEVICE_TO_HOST, stream);
        selvage_stream_synchronize(the.device, stream);
        for (int at = 0; at < ADDED; at++)
            wrong += seen[at] != i * 0x01010101 * the.ranks;
    }
    CHECK_EQ(wrong, 0);
    free(seen);
    selvage_stream_destroy(the.device, stream);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    return NULL;
}

void run_adders(void)
{
    pthread_t thread[ADDERS];
    MPI_Comm comm[ADDERS];
    sums_t s;
    begin(&s);
    for (int i = 0; i < ADDERS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    for (int i = 0; i < ADDERS; i++)
        pthread_create(&thread[i], NULL, add_up, &comm[i]);
    for (int i = 0; i < ADDERS; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&comm[i]);
    }
    end(&s);
}

static atomic_bool is_over;

/* Calls of host memory, until all ranks are to end; some ranks come to each of them later than others. */
static void *agree_on(void *comm)
{
    int all = 0, wrong = 0;
    for (int i = 0; !all; i++) {
        int own = atomic_load(&is_over), sum[2] = {i, 1};
        if (i % the.ranks == the.rank)
            usleep(2000);
        MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, *(MPI_Comm *)comm);
        MPI_Bcast(sum, 2, MPI_INT, i % the.ranks, *(MPI_Comm *)comm);
        wrong += sum[0] != i || sum[1] != 1;
    }
    CHECK_EQ(wrong, 0);
    return NULL;
}

/* The route opens while another thread of each rank is in collective calls, on one rank before and on another after. */
void run_mixed(void)
{
    pthread_t thread;
    MPI_Comm comm;
    sums_t s;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    pthread_create(&thread, NULL, agree_on, &comm);
    begin(&s); /* shows device memory, and opens the route */
    for (int i = 0; i < 16; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    usleep(100000);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    MPI_Comm_free(&comm);
    end(&s);
}
