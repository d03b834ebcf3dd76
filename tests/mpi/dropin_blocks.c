/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for gathers, scatters and their kin, whose blocks go from device to device: random
 * counts, places, types, roots and communicators, beside MPI's own on host memory. In most calls every rank gives
 * device memory. And calls that MPI refuses on one rank only, and such whose messages come damaged.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { RANKS_MAX = 8, ROOM = 16 << 20, SHORT = 3000, LONG = 1000 * 1000, CASES = 150, LONG_CASES = 12 };

typedef enum call { GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHERV, ALLTOALLV, CALLS } call_t;

/* A call: where it is PMPI's, it is MPI's own, on the host's memory. */
typedef struct blocks_case {
    call_t call;
    bool plain, in_place, large;
    int n, me, root, count;
    int out_counts[RANKS_MAX], in_counts[RANKS_MAX], out_at[RANKS_MAX], in_at[RANKS_MAX];
    MPI_Comm comm;
    MPI_Datatype type, single; /* single: the type on one side; the other one has as many of its elements */
    int per;                   /* elements of single in one of type */
    void *out, *in;
} case_t;

typedef struct memory {
    uint8_t *given, *wanted, *seen; /* the host's */
    void *out, *in;                 /* the device's */
} memory_t;

static uint64_t state = 12345;

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

#define OWN(NAME, ...) (c->plain ? PMPI_##NAME(__VA_ARGS__) : MPI_##NAME(__VA_ARGS__))

static int call_it(const case_t *c)
{
    const bool at_root = c->me == c->root;
    void *out = c->in_place && (at_root || c->call == ALLGATHERV || c->call == ALLTOALLV) ? MPI_IN_PLACE : c->out;
    void *to = c->in_place && at_root ? MPI_IN_PLACE : c->in;
    const int own = c->out_counts[c->me] * c->per, all = c->count * c->per;
    switch (c->call) {
    case GATHER: return OWN(Gather, out, all, c->single, c->in, c->count, c->type, c->root, c->comm);
    case GATHERV:
        return OWN(Gatherv, out, own, c->single, c->in, c->out_counts, c->in_at, c->type, c->root, c->comm);
    case SCATTER: return OWN(Scatter, c->out, c->count, c->type, to, all, c->single, c->root, c->comm);
    case SCATTERV:
        return OWN(Scatterv, c->out, c->out_counts, c->out_at, c->type, to, own, c->single, c->root, c->comm);
    case ALLGATHERV: return OWN(Allgatherv, out, own, c->single, c->in, c->out_counts, c->in_at, c->type, c->comm);
    default:
        return OWN(Alltoallv, out, c->out_counts, c->out_at, c->type, c->in, c->in_counts, c->in_at, c->type, c->comm);
    }
}

/* Those calls whose lists are longer. */
static int call_large(const case_t *c)
{
#if MPI_VERSION >= 4
    MPI_Count out_counts[RANKS_MAX], in_counts[RANKS_MAX];
    MPI_Aint out_at[RANKS_MAX], in_at[RANKS_MAX];
    const int own = c->out_counts[c->me] * c->per;
    for (int i = 0; i < c->n; i++) {
        out_counts[i] = c->out_counts[i];
        in_counts[i] = c->in_counts[i];
        out_at[i] = c->out_at[i];
        in_at[i] = c->in_at[i];
    }
    if (!c->plain && c->large && !c->in_place)
        switch (c->call) {
        case GATHERV:
            return MPI_Gatherv_c(c->out, own, c->single, c->in, out_counts, in_at, c->type, c->root, c->comm);
        case SCATTERV:
            return MPI_Scatterv_c(c->out, out_counts, out_at, c->type, c->in, own, c->single, c->root, c->comm);
        case ALLGATHERV:
            return MPI_Allgatherv_c(c->out, own, c->single, c->in, out_counts, in_at, c->type, c->comm);
        case ALLTOALLV:
            return MPI_Alltoallv_c(c->out, out_counts, out_at, c->type, c->in, in_counts, in_at, c->type, c->comm);
        default: break;
        }
#endif
    return call_it(c);
}

static int pick_count(int most)
{
    const int how = pick(4);
    return how == 0 ? 0 : how == 1 ? 1 + pick(20) : 1 + pick(most);
}

/* Blocks of several lengths, with room between them, in any order. */
static void make_lists(case_t *c, int most)
{
    int table[RANKS_MAX][RANKS_MAX], place = 0, turn = pick(c->n), room = pick(5);
    for (int i = 0; i < RANKS_MAX; i++) /* as many numbers on each rank, whatever its communicator is */
        for (int j = 0; j < RANKS_MAX; j++)
            table[i][j] = pick_count(most);
    for (int i = 0; i < c->n; i++) {
        const int at = (i + turn) % c->n;
        c->out_counts[at] = c->call == ALLTOALLV ? table[c->me][at] : table[0][at];
        c->in_counts[at] = table[at][c->me];
        if (c->call == ALLTOALLV && c->in_place)
            c->out_counts[at] = c->in_counts[at] = table[0][0];
        c->out_at[at] = c->in_at[at] = place;
        place += most + room;
    }
}

/* False: the type is one of MPI's. */
static bool make_type(case_t *c)
{
    c->per = 1;
    switch (pick(5)) {
    case 0: c->type = c->single = MPI_INT; return false;
    case 1: MPI_Type_create_resized(c->single = MPI_FLOAT, 0, 2 * sizeof(float), &c->type); break;
    case 2: MPI_Type_contiguous(c->per = 3, c->single = MPI_FLOAT, &c->type); break;
    case 3: MPI_Type_vector(c->per = 2, 1, 2, c->single = MPI_INT, &c->type); break;
    default: c->type = c->single = MPI_FLOAT; return false;
    }
    MPI_Type_commit(&c->type);
    return true;
}

/* Contents are a rank's own, but for what comes in place. They repeat themselves after a period, so that most of them
   are copied. */
static void fill_memory(memory_t *m, size_t bytes)
{
    const size_t period = 65536, first = bytes < period ? bytes : period;
    for (size_t i = 0; i < first; i++) {
        m->given[i] = (uint8_t)(i * 7 + i / 256 + (size_t)the.rank * 31);
        m->wanted[i] = (uint8_t)(i * 3 + (size_t)the.rank * 17);
    }
    for (size_t i = first; i < bytes; i += period) {
        const size_t part = bytes - i < period ? bytes - i : period;
        memcpy(m->given + i, m->given, part);
        memcpy(m->wanted + i, m->wanted, part);
    }
    bring(m->out, m->given, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    bring(m->in, m->wanted, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    memcpy(m->seen, m->wanted, bytes);
}

static void check_blocks(memory_t *m, MPI_Comm comm, int most, bool mixed)
{
    case_t c = {.call = (call_t)pick(CALLS), .in_place = pick(3) == 0, .comm = comm, .count = pick_count(most)};
    MPI_Comm_size(comm, &c.n);
    MPI_Comm_rank(comm, &c.me);
    c.root = pick(c.n);
    c.large = (pick(2) + c.me) % 2;
    make_lists(&c, most);
    const bool owns = make_type(&c);
    const size_t bytes = ((size_t)most + 8) * (size_t)c.n * sizeof(double) * 2;
    CHECK(bytes <= ROOM);
    const int where = mixed ? pick(1 << 16) >> (the.rank % 8) * 2 : 0;
    fill_memory(m, bytes);
    c.out = where & 1 ? m->given : m->out;
    c.in = where & 2 ? m->seen : m->in;
    const int code = call_large(&c);
    CHECK_EQ(code, MPI_SUCCESS);
    c.plain = true;
    c.out = m->given;
    c.in = m->wanted;
    CHECK_EQ(call_it(&c), code);
    if (!(where & 2))
        bring(m->seen, m->in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    const bool same = memcmp(m->seen, m->wanted, bytes) == 0;
    CHECK(same);
    if (!same)
        printf("rank %d: call %d, in place %d, %d ranks, root %d, count %d, memory %d\n", the.rank, c.call, c.in_place,
               c.n, c.root, c.count, where & 3);
    if (owns)
        MPI_Type_free(&c.type);
}

static void begin(memory_t *m)
{
    m->given = malloc(ROOM);
    m->wanted = malloc(ROOM);
    m->seen = malloc(ROOM);
    m->out = device_bytes(ROOM);
    m->in = device_bytes(ROOM);
    for (int i = 0; i < 8; i++) /* the route is open then */
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void end(memory_t *m)
{
    free(m->given);
    free(m->wanted);
    free(m->seen);
    selvage_device_free(the.device, m->out);
    selvage_device_free(the.device, m->in);
}

/* Blocks that lie in each other's gaps, of a type that nobody takes apart: none may bring up what it found there. */
static void gather_interleaved(memory_t *m)
{
    enum { RUN = 64, RUNS = 100 };
    int n, me, counts[RANKS_MAX], at[RANKS_MAX], how = MPI_DISTRIBUTE_CYCLIC, run = RUN;
    MPI_Datatype every, type;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int length = n * RUN * RUNS;
    MPI_Type_create_darray(n, 0, 1, &length, &how, &run, &n, MPI_ORDER_C, MPI_BYTE, &every);
    MPI_Type_create_resized(every, 0, RUN, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < n; i++) {
        counts[i] = 1;
        at[i] = i;
    }
    memset(m->given, 100 + me, RUN * RUNS);
    bring(m->out, m->given, RUN * RUNS, SELVAGE_COPY_HOST_TO_DEVICE);
    memset(m->seen, 0, (size_t)length);
    bring(m->in, m->seen, (size_t)length, SELVAGE_COPY_HOST_TO_DEVICE);
    MPI_Allgatherv(m->out, RUN * RUNS, MPI_BYTE, m->in, counts, at, type, MPI_COMM_WORLD);
    bring(m->seen, m->in, (size_t)length, SELVAGE_COPY_DEVICE_TO_HOST);
    for (int i = 0; i < length; i++)
        if (m->seen[i] != 100 + i / RUN % n) {
            CHECK_EQ(m->seen[i], 100 + i / RUN % n);
            break;
        }
    MPI_Type_free(&type);
    MPI_Type_free(&every);
}

void run_blocks(void)
{
    MPI_Comm comms[4] = {MPI_COMM_WORLD};
    memory_t m;
    begin(&m);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, the.rank % 2, the.rank, &comms[3]);
    for (int i = 0; i < check_part(CASES); i++) {
        check_blocks(&m, comms[0], SHORT, i % 4 == 0);
        check_blocks(&m, comms[1 + i % 3], SHORT, i % 4 == 0);
    }
    for (int i = 0; i < check_part(LONG_CASES); i++)
        check_blocks(&m, comms[i % 3], LONG / the.ranks, false);
    gather_interleaved(&m);
    for (int i = 1; i < 4; i++)
        MPI_Comm_free(&comms[i]);
    end(&m);
}

/* Blocks of as many bytes each. */
static void gather_equal(memory_t *m, int bytes)
{
    fill_memory(m, (size_t)bytes * (size_t)the.ranks);
    CHECK_EQ(MPI_Gather(m->out, bytes, MPI_BYTE, m->in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    PMPI_Gather(m->given, bytes, MPI_BYTE, m->wanted, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    bring(m->seen, m->in, (size_t)bytes * (size_t)the.ranks, SELVAGE_COPY_DEVICE_TO_HOST);
    CHECK(memcmp(m->seen, m->wanted, (size_t)bytes * (size_t)the.ranks) == 0);
}

/* Rank 0 makes calls that MPI refuses there, and then the one that the others are in. */
void run_blocks_unheard(void)
{
    enum { N = 1000 };
    const int wrong[RANKS_MAX] = {N, -1, N, N, N, N, N, N};
    int counts[RANKS_MAX], at[RANKS_MAX];
    MPI_Datatype type;
    memory_t m;
    begin(&m);
    for (int i = 0; i < the.ranks; i++) {
        counts[i] = N;
        at[i] = i * N;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(N, MPI_INT, &type); /* not committed */
    for (int turn = 0; turn < 3; turn++) {
        const MPI_Comm world = MPI_COMM_WORLD;
        if (the.rank == 0) {
            CHECK(MPI_Gather(m.out, N, MPI_INT, m.in, N, MPI_INT, the.ranks, world) != MPI_SUCCESS);
            CHECK(MPI_Gather(m.out, N, MPI_INT, m.in, -1, MPI_INT, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Gather(m.out, 1, type, m.in, N, MPI_INT, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Scatter(m.out, N, MPI_INT, m.in, N, MPI_INT, -7, world) != MPI_SUCCESS);
            CHECK(MPI_Gatherv(m.out, -1, MPI_INT, m.in, counts, at, MPI_INT, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Gatherv(m.out, N, MPI_INT, m.in, wrong, at, MPI_INT, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Gatherv(m.out, N, MPI_INT, m.in, counts, at, MPI_DATATYPE_NULL, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Scatterv(m.out, counts, at, type, m.in, N, MPI_INT, 0, world) != MPI_SUCCESS);
            CHECK(MPI_Allgatherv(m.out, -1, MPI_INT, m.in, counts, at, MPI_INT, world) != MPI_SUCCESS);
            CHECK(MPI_Alltoallv(m.out, wrong, at, MPI_INT, m.in, counts, at, MPI_INT, world) != MPI_SUCCESS);
            CHECK(MPI_Alltoallv(m.out, counts, at, MPI_INT, m.in, counts, at, type, world) != MPI_SUCCESS);
            /* Whether this one is refused is for MPI to say: there are no elements. */
            CHECK(MPI_Gatherv(m.out, 0, MPI_DATATYPE_NULL, m.in, counts, at, MPI_INT, 0, world) != MPI_SUCCESS);
        }
        gather_equal(&m, N * (int)sizeof(int));
    }
    MPI_Type_free(&type);
    end(&m);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static int handled;

static void count_failure(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static bool is_gathered(const memory_t *m)
{
    bool good = true;
    bring(m->seen, m->in, BYTES * (size_t)the.ranks, SELVAGE_COPY_DEVICE_TO_HOST);
    for (int i = 0; i < BYTES * the.ranks; i++)
        good = good && m->seen[i] == i / BYTES + 1;
    return good;
}

/* What a call does not say to be wrong is right. All calls are the drop-in's: what came damaged may be asked for again
   meanwhile. */
void run_blocks_damaged(void)
{
    enum { TURNS = 4 };
    int failures = 0, wrong = 0;
    MPI_Errhandler handler;
    memory_t m;
    begin(&m);
    MPI_Comm_create_errhandler(count_failure, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int i = 0; i < TURNS; i++) {
        selvage_device_fill(the.device, m.out, the.rank + 1, BYTES, the.stream);
        selvage_device_fill(the.device, m.in, 0, BYTES * (size_t)the.ranks, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        const int code = MPI_Gather(m.out, BYTES, MPI_BYTE, m.in, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
        failures += code != MPI_SUCCESS;
        wrong += code == MPI_SUCCESS && the.rank == 0 && !is_gathered(&m);
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(handled, failures);
    printf("rank %d: %d of %d calls failed\n", the.rank, failures, TURNS);
    MPI_Errhandler_free(&handler);
    end(&m);
}
