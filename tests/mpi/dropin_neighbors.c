/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for calls to neighbours, in each form, on grids and graphs: random lengths, types and
 * memory, beside MPI's own on host memory and a communicator of the same neighbours. Two ranks may be neighbours more
 * than once, a rank its own, and the ends of a grid have none. And such calls that MPI refuses on one rank only.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

/* UNIT: integers of which each block has some. SLOT: bytes for one. */
enum { RANKS_MAX = 8, MOST = 64, UNIT = 12, UNITS = 400, SLOT = UNIT * UNITS * 4 * 3, CASES = 120 };

typedef enum call { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, CALLS } call_t;

/* A communicator, and another one of the same neighbours for MPI's own calls. */
typedef struct lattice {
    MPI_Comm comm, twin;
    int me, nfrom, nto, from[MOST], to[MOST]; /* ranks of it, or MPI_PROC_NULL */
} lattice_t;

/* A type of so many integers of a unit. */
typedef struct kind {
    MPI_Datatype type;
    int per;
} kind_t;
enum { KINDS = 3 };

static kind_t kinds[KINDS];
static uint64_t state = 4711;

/* Alike on all ranks. */
static int pick(int n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

/* The others: a vector and a structure. */
static void make_kinds(void)
{
    const int lengths[2] = {1, 2};
    const MPI_Aint at[2] = {0, 12};
    const MPI_Datatype both[2] = {MPI_INT, MPI_INT};
    kinds[0] = (kind_t){MPI_INT, 1};
    kinds[1].per = 2;
    MPI_Type_vector(2, 1, 3, MPI_INT, &kinds[1].type);
    kinds[2].per = 3;
    MPI_Type_create_struct(2, lengths, at, both, &kinds[2].type);
    for (int i = 1; i < KINDS; i++)
        MPI_Type_commit(&kinds[i].type);
}

static void find_neighbors(lattice_t *l)
{
    int kind, n = 0, weighted, weights[MOST];
    MPI_Comm_rank(l->comm, &l->me);
    MPI_Topo_test(l->comm, &kind);
    if (kind == MPI_CART) {
        MPI_Cartdim_get(l->comm, &n);
        for (int i = 0; i < n; i++)
            MPI_Cart_shift(l->comm, i, 1, &l->from[2 * i], &l->from[2 * i + 1]);
        l->nfrom = l->nto = 2 * n;
        memcpy(l->to, l->from, sizeof l->to);
    } else if (kind == MPI_GRAPH) {
        MPI_Graph_neighbors_count(l->comm, l->me, &n);
        MPI_Graph_neighbors(l->comm, l->me, n, l->from);
        l->nfrom = l->nto = n;
        memcpy(l->to, l->from, sizeof l->to);
    } else {
        MPI_Dist_graph_neighbors_count(l->comm, &l->nfrom, &l->nto, &weighted);
        MPI_Dist_graph_neighbors(l->comm, l->nfrom, l->from, weights, l->nto, l->to, weights);
    }
}

static lattice_t make_grid(MPI_Comm old, int ndims, int first_wraps, int others_wrap)
{
    lattice_t l;
    int n, dims[3] = {0, 0, 0};
    const int wraps[3] = {first_wraps, others_wrap, others_wrap};
    MPI_Comm_size(old, &n);
    MPI_Dims_create(n, ndims, dims);
    MPI_Cart_create(old, ndims, dims, wraps, 0, &l.comm);
    MPI_Cart_create(old, ndims, dims, wraps, 0, &l.twin);
    find_neighbors(&l);
    return l;
}

/* Edges of any kind, some of them twice, some from a rank to itself: permutations. Each rank has as many in as out, as
   MPICH 4.0's MPI_Neighbor_alltoallw takes the lengths of one list from the other one past its end. */
static lattice_t make_web(MPI_Comm old)
{
    enum { EDGES = 6 };
    lattice_t l;
    int me, n, from[EDGES] = {0}, to[EDGES], weights[EDGES] = {0};
    MPI_Comm_rank(old, &me);
    MPI_Comm_size(old, &n);
    for (int e = 0; e < EDGES; e++) {
        int order[RANKS_MAX] = {0};
        for (int i = 0; i < n; i++) {
            const int other = pick(i + 1);
            order[i] = i;
            order[i] = order[other];
            order[other] = i;
        }
        to[e] = order[me];
        for (int i = 0; i < n; i++)
            from[e] = order[i] == me ? i : from[e];
    }
    MPI_Dist_graph_create_adjacent(old, EDGES, from, weights, EDGES, to, weights, MPI_INFO_NULL, 0, &l.comm);
    MPI_Dist_graph_create_adjacent(old, EDGES, from, weights, EDGES, to, weights, MPI_INFO_NULL, 0, &l.twin);
    find_neighbors(&l);
    return l;
}

/* Each rank with the next ones on both sides, as a graph. */
static lattice_t make_graph(MPI_Comm old)
{
    lattice_t l;
    int n, index[RANKS_MAX], edges[2 * RANKS_MAX];
    MPI_Comm_size(old, &n);
    for (int i = 0; i < n; i++) {
        edges[2 * i] = (i + 1) % n;
        edges[2 * i + 1] = (i + n - 1) % n;
        index[i] = 2 * (i + 1);
    }
    MPI_Graph_create(old, n, index, edges, 0, &l.comm);
    MPI_Graph_create(old, n, index, edges, 0, &l.twin);
    find_neighbors(&l);
    return l;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

typedef struct lists {
    int counts[MOST], displs[MOST];
    MPI_Aint far[MOST];
    MPI_Datatype types[MOST];
} lists_t;

typedef struct neighbor_case {
    const lattice_t *lattice;
    call_t call;
    bool plain, waits;
    int units;
    kind_t out_kind, in_kind; /* of calls with one type for all */
    lists_t out, in;
    void *from, *to;
} case_t;

/* Units that two ranks send each other in either direction, in calls with lists. */
static int units_between(const int table[RANKS_MAX][RANKS_MAX], call_t call, int sender, int receiver)
{
    if (sender == MPI_PROC_NULL || receiver == MPI_PROC_NULL)
        return 1;
    if (call == ALLGATHERV)
        return table[sender][0];
    return sender < receiver ? table[sender][receiver] : table[receiver][sender];
}

static void fill_lists(lists_t *lists, kind_t same, bool typed, int n, const int *units)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(same.type, &lb, &extent);
    for (int i = 0; i < n; i++) {
        const kind_t kind = typed ? kinds[(i + the.rank + units[i]) % KINDS] : same;
        lists->counts[i] = units[i] * UNIT / kind.per;
        lists->displs[i] = i * (SLOT / (int)extent);
        lists->far[i] = (MPI_Aint)i * SLOT;
        lists->types[i] = kind.type;
    }
}

#define OWN(NAME, ...) (c->plain ? PMPI_##NAME(__VA_ARGS__) : MPI_##NAME(__VA_ARGS__))
#define DO(NAME, ...) \
    (c->waits ? OWN(Ineighbor_##NAME, __VA_ARGS__, request) : OWN(Neighbor_##NAME, __VA_ARGS__))

static int call_it(const case_t *c, MPI_Request *request)
{
    MPI_Comm const comm = c->plain ? c->lattice->twin : c->lattice->comm;
    const int count = c->units * UNIT;
    const kind_t out = c->out_kind, in = c->in_kind;
    switch (c->call) {
    case ALLGATHER:
        return DO(allgather, c->from, count / out.per, out.type, c->to, count / in.per, in.type, comm);
    case ALLGATHERV:
        return DO(allgatherv, c->from, count / out.per, out.type, c->to, c->in.counts, c->in.displs, in.type, comm);
    case ALLTOALL: return DO(alltoall, c->from, count / out.per, out.type, c->to, count / in.per, in.type, comm);
    case ALLTOALLV:
        return DO(alltoallv, c->from, c->out.counts, c->out.displs, out.type, c->to, c->in.counts, c->in.displs,
                  in.type, comm);
    default:
        return DO(alltoallw, c->from, c->out.counts, c->out.far, c->out.types, c->to, c->in.counts, c->in.far,
                  c->in.types, comm);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct memory {
    size_t bytes;
    uint8_t *given, *wanted, *seen; /* the host's */
    void *out, *in;                 /* the device's */
} memory_t;

static void bring(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, bytes, direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* And the route of collective calls is open. */
static memory_t make_memory(void)
{
    memory_t m = {.bytes = (size_t)SLOT * MOST};
    m.given = malloc(m.bytes);
    m.wanted = malloc(m.bytes);
    m.seen = malloc(m.bytes);
    m.out = device_bytes(m.bytes);
    m.in = device_bytes(m.bytes);
    for (int i = 0; i < 8; i++)
        MPI_Allreduce(the.out, the.in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return m;
}

static void free_memory(memory_t *m)
{
    free(m->given);
    free(m->wanted);
    free(m->seen);
    selvage_device_free(the.device, m->out);
    selvage_device_free(the.device, m->in);
}

static void fill_memory(memory_t *m, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        m->given[i] = (uint8_t)(i * 7 + i / 256 + (size_t)the.rank * 31);
        m->wanted[i] = (uint8_t)(i * 3 + (size_t)the.rank * 17);
    }
    memcpy(m->seen, m->wanted, bytes);
    bring(m->out, m->given, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    bring(m->in, m->wanted, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
}

static bool is_all_driven(void)
{
    const char *mode = getenv("SELVAGE_DROPIN_FAST");
    return mode && strcmp(mode, "on") == 0;
}

/* turn: says which call it is. */
static void check_call(memory_t *m, const lattice_t *l, int turn)
{
    int table[RANKS_MAX][RANKS_MAX], units[MOST], codes[2];
    case_t c = {.lattice = l, .call = (call_t)(turn % CALLS), .waits = turn / CALLS % 2};
    MPI_Request request = MPI_REQUEST_NULL;
    const int most = pick(3) ? UNITS : 8, where = pick(4) ? 0 : pick(1 << 16) >> (the.rank % 8) * 2;
    for (int i = 0; i < RANKS_MAX; i++)
        for (int j = 0; j < RANKS_MAX; j++)
            table[i][j] = pick(most);
    c.units = c.call == ALLGATHERV ? table[l->me][0] : table[0][0];
    c.out_kind = kinds[(pick(KINDS) + the.rank) % KINDS];
    c.in_kind = kinds[(pick(KINDS) + the.rank) % KINDS];
    for (int i = 0; i < l->nto; i++)
        units[i] = units_between(table, c.call, l->me, l->to[i]);
    fill_lists(&c.out, c.out_kind, c.call == ALLTOALLW, l->nto, units);
    for (int i = 0; i < l->nfrom; i++)
        units[i] = units_between(table, c.call, l->from[i], l->me);
    fill_lists(&c.in, c.in_kind, c.call == ALLTOALLW, l->nfrom, units);
    const size_t bytes = (size_t)SLOT * (size_t)(l->nto > l->nfrom ? l->nto + 1 : l->nfrom + 1);
    fill_memory(m, bytes);
    for (int plain = 0; plain < 2; plain++) {
        c.plain = plain;
        c.from = plain || where & 1 ? m->given : m->out;
        c.to = plain ? m->wanted : where & 2 ? m->seen : m->in;
        codes[plain] = call_it(&c, &request);
        if (c.waits)
            codes[plain] = plain ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    CHECK_EQ(codes[0], MPI_SUCCESS);
    CHECK_EQ(codes[0], codes[1]);
    if (!(where & 2))
        bring(m->seen, m->in, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    bool same = memcmp(m->seen, m->wanted, bytes) == 0;
    if (is_all_driven() && !c.waits) { /* a staged call is MPI's other form, which may differ */
        c.waits = true;
        CHECK_EQ(call_it(&c, &request), MPI_SUCCESS);
        PMPI_Wait(&request, MPI_STATUS_IGNORE);
        same = same || memcmp(m->seen, m->wanted, bytes) == 0;
        c.waits = false;
    }
    CHECK(same);
    if (!same)
        printf("rank %d: call %d, waits %d, %d and %d neighbours, units %d, memory %d\n", the.rank, c.call, c.waits,
               l->nfrom, l->nto, c.units, where & 3);
}

/* Blocks that lie in each other's gaps, of a type that nobody takes apart: none may bring up what it found there. */
static void send_interleaved(memory_t *m, MPI_Comm comm, bool waits)
{
    enum { RUN = 64, RUNS = 100 };
    int n, me, counts[RANKS_MAX], own[RANKS_MAX], ranks[RANKS_MAX], how = MPI_DISTRIBUTE_CYCLIC, run = RUN;
    MPI_Aint far[RANKS_MAX], none[RANKS_MAX] = {0};
    MPI_Datatype types[RANKS_MAX], bytes[RANKS_MAX], every, type;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm all;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    int length = n * RUN * RUNS;
    MPI_Type_create_darray(n, 0, 1, &length, &how, &run, &n, MPI_ORDER_C, MPI_BYTE, &every);
    MPI_Type_create_resized(every, 0, RUN, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < n; i++) {
        ranks[i] = i;
        counts[i] = 1;
        own[i] = RUN * RUNS;
        far[i] = (MPI_Aint)i * RUN;
        types[i] = type;
        bytes[i] = MPI_BYTE;
    }
    MPI_Dist_graph_create_adjacent(comm, n, ranks, own, n, ranks, own, MPI_INFO_NULL, 0, &all);
    memset(m->given, 100 + me, RUN * RUNS);
    bring(m->out, m->given, RUN * RUNS, SELVAGE_COPY_HOST_TO_DEVICE);
    memset(m->seen, 0, (size_t)length);
    for (int i = 0; i < 4; i++) {
        bring(m->in, m->seen, (size_t)length, SELVAGE_COPY_HOST_TO_DEVICE);
        if (waits) {
            MPI_Ineighbor_alltoallw(m->out, own, none, bytes, m->in, counts, far, types, all, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Neighbor_alltoallw(m->out, own, none, bytes, m->in, counts, far, types, all);
        }
        MPI_Barrier(all);
    }
    bring(m->seen, m->in, (size_t)length, SELVAGE_COPY_DEVICE_TO_HOST);
    int bad = 0;
    for (int i = 0; i < length; i++)
        bad += m->seen[i] != 100 + i / RUN % n;
    CHECK_EQ(bad, 0);
    MPI_Type_free(&type);
    MPI_Type_free(&every);
    MPI_Comm_free(&all);
}

void run_neighbors(void)
{
    enum { LATTICES = 8 };
    MPI_Comm back;
    memory_t m = make_memory();
    make_kinds();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &back);
    lattice_t lattices[LATTICES] = {
        make_grid(MPI_COMM_WORLD, 1, 0, 0), make_grid(MPI_COMM_WORLD, 1, 1, 0), make_grid(MPI_COMM_WORLD, 2, 1, 0),
        make_grid(back, 3, 0, 1), make_grid(MPI_COMM_SELF, 2, 1, 0), make_web(MPI_COMM_WORLD), make_web(back),
        make_graph(back)};
    for (int i = 0; i < 2 * (LATTICES - 1); i++) { /* all but the last have channels then */
        check_call(&m, &lattices[i / 2], i);
        MPI_Barrier(lattices[i / 2].comm);
    }
    for (int i = 0; i < check_part(CASES) * 2; i++) {
        const lattice_t *l = &lattices[pick(LATTICES)];
        check_call(&m, l, i);
        if (i % 4 == 0)
            MPI_Barrier(l->comm);
    }
    for (int waits = 0; waits < 2; waits++)
        send_interleaved(&m, back, waits);
    for (int i = 0; i < LATTICES; i++) {
        MPI_Comm_free(&lattices[i].comm);
        MPI_Comm_free(&lattices[i].twin);
    }
    for (int i = 1; i < KINDS; i++)
        MPI_Type_free(&kinds[i].type);
    MPI_Comm_free(&back);
    free_memory(&m);
}

/* A communicator that is made of a grid, and another one like it. */
static lattice_t make_part(MPI_Comm part)
{
    lattice_t l = {.comm = part};
    PMPI_Comm_dup(part, &l.twin);
    find_neighbors(&l);
    return l;
}

/* Calls to neighbours on communicators that were made in different ways, and barriers of all ranks. */
void run_neighbors_and_barriers(void)
{
    enum { LATTICES = 5 };
    const int keeps[2] = {1, 0};
    MPI_Comm line, copy;
    memory_t m = make_memory();
    make_kinds();
    lattice_t lattices[LATTICES] = {make_grid(MPI_COMM_WORLD, 2, 1, 0), make_web(MPI_COMM_WORLD),
                                    make_graph(MPI_COMM_WORLD)};
    MPI_Cart_sub(lattices[0].comm, keeps, &line);
    MPI_Comm_dup(lattices[0].comm, &copy);
    lattices[3] = make_part(line);
    lattices[4] = make_part(copy);
    for (int i = 0; i < check_part(CASES); i++) {
        check_call(&m, &lattices[i % LATTICES], i);
        for (int j = 0; j < 32; j++) /* every 64th asks */
            MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < LATTICES; i++) {
        MPI_Comm_free(&lattices[i].comm);
        MPI_Comm_free(&lattices[i].twin);
    }
    for (int i = 1; i < KINDS; i++)
        MPI_Type_free(&kinds[i].type);
    free_memory(&m);
}

/* The drop-in refuses what has memory of both kinds in one buffer: it is a call on no rank. */
static void refuse_mixed(const memory_t *m, int *host, MPI_Comm ring)
{
    const int counts[2] = {1, 1};
    const MPI_Aint from[2] = {(MPI_Aint)(uintptr_t)m->out, (MPI_Aint)(uintptr_t)host}, to[2] = {0, sizeof *host};
    const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Request request;
    CHECK_EQ(MPI_Ineighbor_alltoallw(MPI_BOTTOM, counts, from, types, host, counts, to, types, ring, &request),
             MPI_ERR_BUFFER);
}

/* All ranks meet when rank 0 has freed a grid that the others have a use for, and make no more calls on. */
static void free_apart(const memory_t *m, int *host, int n, MPI_Comm ring)
{
    enum { ASKED = 128 }; /* every 64th asks */
    MPI_Request request;
    MPI_Ineighbor_alltoall(the.rank == 1 ? m->out : host, n, MPI_INT, m->in, n, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (the.rank == 0)
        MPI_Comm_free(&ring);
    for (int i = 0; i < ASKED; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    if (the.rank > 0)
        MPI_Comm_free(&ring);
}

/* Ranks are in different calls on a grid when they meet in those that decide: some have begun several more, and one has
   made such that were refused. */
void run_neighbors_apart(void)
{
    enum { N = 900, AHEAD = 5, TURNS = 40, SIDES = 2 };
    int out[N * SIDES], in[AHEAD][N * SIDES], bad = 0;
    const int wraps = 1, left = (the.rank + the.ranks - 1) % the.ranks, right = (the.rank + 1) % the.ranks;
    memory_t m = make_memory();
    MPI_Request requests[AHEAD];
    MPI_Comm ring, other;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &the.ranks, &wraps, 0, &ring);
    MPI_Comm_dup(ring, &other);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < TURNS; turn++) {
        const int early = (the.rank + turn) % the.ranks == 0 ? AHEAD : (the.rank + turn) % (AHEAD + 1);
        for (int i = 0; i < N * SIDES; i++)
            out[i] = the.rank * 100000 + turn * 1000 + i % N;
        bring(m.out, out, sizeof out, SELVAGE_COPY_HOST_TO_DEVICE);
        if (the.rank == 0)
            refuse_mixed(&m, in[0], ring);
        for (int i = 0; i < AHEAD; i++) {
            if (i == early)
                MPI_Barrier(MPI_COMM_WORLD);
            MPI_Ineighbor_alltoall(the.rank == 1 ? (void *)m.out : out, N, MPI_INT, in[i], N, MPI_INT, ring,
                                   &requests[i]);
        }
        if (early == AHEAD)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(AHEAD, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < AHEAD; i++)
            for (int j = 0; j < N * SIDES; j++)
                bad += in[i][j] != (j < N ? left : right) * 100000 + turn * 1000 + j % N;
    }
    CHECK_EQ(bad, 0);
    MPI_Comm_free(&ring);
    free_apart(&m, out, N, other);
    free_memory(&m);
}

/* --- refused calls ------------------------------------------------------------------------------------------------ */

/* Rank 0 makes calls that MPI refuses there, and then the one that the others are in. */
void run_neighbors_unheard(void)
{
    enum { N = 2000 };
    const int wrong[2] = {N, -1}, counts[2] = {N, N}, at[2] = {0, N};
    const MPI_Aint far[2] = {0, N * sizeof(int)};
    const MPI_Datatype good[2] = {MPI_INT, MPI_INT}, none[2] = {MPI_INT, MPI_DATATYPE_NULL};
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype type;
    memory_t m = make_memory();
    lattice_t l = make_grid(MPI_COMM_WORLD, 1, 1, 0);
    MPI_Comm_set_errhandler(l.comm, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(N, MPI_INT, &type); /* not committed */
    const MPI_Datatype raw[2] = {MPI_INT, type};
    for (int turn = 0; turn < 40; turn++) {
        if (turn < 6)
            MPI_Barrier(l.comm);
        if (the.rank == 0 && turn % 2) {
            CHECK(MPI_Neighbor_allgather(m.out, -1, MPI_INT, m.in, N, MPI_INT, l.comm) != MPI_SUCCESS);
            CHECK(MPI_Neighbor_alltoall(m.out, N, MPI_INT, m.in, N, MPI_DATATYPE_NULL, l.comm) != MPI_SUCCESS);
            CHECK(MPI_Neighbor_alltoallv(m.out, wrong, at, MPI_INT, m.in, counts, at, MPI_INT, l.comm) != MPI_SUCCESS);
            CHECK(MPI_Neighbor_alltoallw(m.out, counts, far, good, m.in, counts, far, raw, l.comm) != MPI_SUCCESS);
            CHECK(MPI_Neighbor_alltoallw(m.out, counts, far, none, m.in, counts, far, good, l.comm) != MPI_SUCCESS);
            CHECK(MPI_Ineighbor_alltoallv(m.out, counts, at, MPI_INT, m.in, wrong, at, MPI_INT, l.comm, &r) !=
                  MPI_SUCCESS);
            CHECK(MPI_Ineighbor_alltoallw(m.out, counts, far, good, m.in, wrong, far, good, l.comm, &r) != MPI_SUCCESS);
            CHECK(MPI_Ialltoall(m.out, N, MPI_DATATYPE_NULL, m.in, N, MPI_INT, l.comm, &r) != MPI_SUCCESS);
            CHECK(MPI_Igather(m.out, N, MPI_INT, m.in, N, MPI_INT, the.ranks, l.comm, &r) != MPI_SUCCESS);
        }
        fill_memory(&m, 2 * N * sizeof(int));
        if (turn % 4 < 2) {
            CHECK_EQ(MPI_Neighbor_alltoallw(m.out, counts, far, good, m.in, counts, far, good, l.comm), MPI_SUCCESS);
        } else {
            CHECK_EQ(MPI_Ineighbor_alltoallw(m.out, counts, far, good, m.in, counts, far, good, l.comm, &r),
                     MPI_SUCCESS);
            CHECK_EQ(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
        }
        if (turn % 4 < 2)
            PMPI_Neighbor_alltoallw(m.given, counts, far, good, m.wanted, counts, far, good, l.twin);
        else
            PMPI_Ineighbor_alltoallw(m.given, counts, far, good, m.wanted, counts, far, good, l.twin, &r);
        PMPI_Wait(&r, MPI_STATUS_IGNORE);
        bring(m.seen, m.in, 2 * N * sizeof(int), SELVAGE_COPY_DEVICE_TO_HOST);
        bool same = memcmp(m.seen, m.wanted, 2 * N * sizeof(int)) == 0;
        if (!same && turn == 0 && is_all_driven()) { /* staged as in check_call() */
            PMPI_Ineighbor_alltoallw(m.given, counts, far, good, m.wanted, counts, far, good, l.twin, &r);
            PMPI_Wait(&r, MPI_STATUS_IGNORE);
            same = memcmp(m.seen, m.wanted, 2 * N * sizeof(int)) == 0;
        }
        CHECK(same);
    }
    MPI_Type_free(&type);
    MPI_Comm_free(&l.comm);
    MPI_Comm_free(&l.twin);
    free_memory(&m);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static int handled;

static void count_failure(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

/* What a call does not say to be wrong is right. A call that does not block says so in the one that completes it. */
void run_neighbors_damaged(void)
{
    enum { TURNS = 12 };
    int failures = 0, wrong = 0;
    MPI_Errhandler handler;
    memory_t m = make_memory();
    lattice_t l = make_grid(MPI_COMM_WORLD, 1, 0, 0);
    MPI_Comm_create_errhandler(count_failure, &handler);
    MPI_Comm_set_errhandler(l.comm, handler);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        selvage_device_fill(the.device, m.out, the.rank + 1, 2 * BYTES, the.stream);
        selvage_device_fill(the.device, m.in, 0, 2 * BYTES, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        int code;
        if (turn % 2 == 0) {
            code = MPI_Neighbor_alltoall(m.out, BYTES, MPI_BYTE, m.in, BYTES, MPI_BYTE, l.comm);
        } else {
            CHECK_EQ(MPI_Ineighbor_alltoall(m.out, BYTES, MPI_BYTE, m.in, BYTES, MPI_BYTE, l.comm, &request),
                     MPI_SUCCESS);
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(l.comm);
        bring(m.seen, m.in, 2 * BYTES, SELVAGE_COPY_DEVICE_TO_HOST);
        for (int i = 0; i < 2 * BYTES && code == MPI_SUCCESS; i++)
            wrong += m.seen[i] != (l.from[i / BYTES] == MPI_PROC_NULL ? 0 : l.from[i / BYTES] + 1);
        failures += code != MPI_SUCCESS;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(handled, failures);
    printf("rank %d: %d of %d calls failed\n", the.rank, failures, TURNS);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&l.comm);
    MPI_Comm_free(&l.twin);
    free_memory(&m);
}
