/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums, with threads as ranks: the same bits for one to eight ranks, however these are spread over nodes and
 * ordered, by every algorithm and way, of every length, in place and not, on several streams at once, in groups and in
 * graphs; and they are those that integers of 2304 bits give. What goes wrong is in test_coll_exact_errors.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "fixtures/exact_reference.h"
#include "fixtures/local_ranks.h"
#include "kernels/kernels.h"
#include <selvage/collective.h>

enum { RANKS = 8, COUNTS = 6, PERIOD = 8191, LONGEST = 200003, GUARD = 8 };
static const size_t counts[COUNTS] = {1, 3, 17, 1000, 20011, LONGEST};

/* Place i of a rank, in bits: sizes far apart, and special ones. Places repeat. */
static uint64_t element_of(int rank, size_t i, bool wide)
{
    const uint64_t bits = sv_digest_mix((i % PERIOD + 1) * 1000003 + (uint64_t)rank);
    const uint64_t place = sv_digest_mix(i % PERIOD + 77), fraction = (UINT64_C(1) << (wide ? 52 : 23)) - 1;
    const unsigned span = place % 3 == 0 ? 4 : place % 3 == 1 ? 30 : 90;
    const uint64_t top = wide ? 0x7ff : 0xff, exponent = (wide ? 1000 : 120) + (bits >> 54) % span;
    const uint64_t sign = bits >> 63 << (wide ? 63 : 31);
    if (place % 97 == 0) /* zeros, denormal numbers, infinities and NaNs */
        return sign | (bits % 5 == 0 ? top << (wide ? 52 : 23) : 0) | (bits % 11 == 0);
    return sign | exponent << (wide ? 52 : 23) | (bits & fraction);
}

static size_t type_bytes(bool wide)
{
    return wide ? 8 : 4;
}

/* The sums of a period, by the number of ranks and type, from the reference. */
static uint8_t known[RANKS + 1][2][PERIOD * 8];

static void make_known(int nranks)
{
    for (int wide = 0; wide < 2; wide++)
        for (size_t i = 0; i < PERIOD; i++) {
            uint64_t element[RANKS];
            uint32_t narrow[RANKS];
            bool cut;
            for (int r = 0; r < nranks; r++) {
                element[r] = element_of(r, i, wide);
                narrow[r] = (uint32_t)element[r];
            }
            const uint64_t bits =
                wide ? exact_sum_float64(element, nranks, &cut) : exact_sum_float32(narrow, nranks, &cut);
            memcpy(known[nranks][wide] + i * type_bytes(wide), &bits, type_bytes(wide));
        }
}

/* --- the same bits everywhere ------------------------------------------------------------------------------------- */

typedef struct layout {
    int ranks_per_node;
    bool reversed;             /* the communicator has the ranks in the other order */
    const char *environment;
    unsigned ncounts;
} layout_t;

/* One rank's buffers of a call. */
typedef struct buffers {
    uint8_t *send, *recv;      /* device memory, which is host memory here */
    size_t send_elements, recv_elements, first; /* recv begins with that place of the vector */
    bool wide, gets_result;
} buffers_t;

enum { CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_REDUCE, CALLS };

static void open_buffers(local_rank_t *self, const selvage_coll_t *coll, int call, bool wide, size_t count,
                         bool in_place, buffers_t *b)
{
    const size_t bytes = type_bytes(wide), size = (size_t)self->size;
    const size_t own = call == CALL_REDUCE_SCATTER ? (size_t)selvage_coll_rank(coll) * count : 0;
    void *send, *recv = NULL;
    *b = (buffers_t){.send_elements = call == CALL_REDUCE_SCATTER ? count * size : count, .recv_elements = count,
                     .first = own, .wide = wide,
                     .gets_result = call != CALL_REDUCE || selvage_coll_rank(coll) == self->size - 1};
    CHECK_STATUS(selvage_device_malloc(self->dev, (b->send_elements + GUARD) * bytes, &send), SELVAGE_SUCCESS);
    if (!in_place)
        CHECK_STATUS(selvage_device_malloc(self->dev, (count + 2 * GUARD) * bytes, &recv), SELVAGE_SUCCESS);
    b->send = (uint8_t *)send + (count % 4) * bytes;
    for (size_t i = 0; i < b->send_elements && i < PERIOD; i++) {
        const uint64_t element = element_of(self->rank, i, wide);
        memcpy(b->send + i * bytes, &element, bytes);
    }
    for (size_t i = PERIOD; i < b->send_elements; i += PERIOD)
        memcpy(b->send + i * bytes, b->send, (b->send_elements - i < PERIOD ? b->send_elements - i : PERIOD) * bytes);
    if (recv)
        memset(recv, 0xa5, (count + 2 * GUARD) * bytes);
    b->recv = in_place ? b->send + own * bytes : (uint8_t *)recv + GUARD * bytes;
}

static selvage_status_t call_sum(selvage_coll_t *coll, const buffers_t *b, int call, void *stream)
{
    const selvage_type_t type = b->wide ? SELVAGE_FLOAT64 : SELVAGE_FLOAT32;
    const size_t count = b->recv_elements;
    if (call == CALL_ALL_REDUCE)
        return selvage_coll_all_reduce(coll, b->send, b->recv, count, type, SELVAGE_OP_SUM, stream);
    if (call == CALL_REDUCE_SCATTER)
        return selvage_coll_reduce_scatter(coll, b->send, b->recv, count, type, SELVAGE_OP_SUM, stream);
    return selvage_coll_reduce(coll, b->send, b->recv, count, type, SELVAGE_OP_SUM, selvage_coll_size(coll) - 1,
                               stream);
}

static long count_wrong(const local_rank_t *self, const buffers_t *b, bool in_place)
{
    const size_t bytes = type_bytes(b->wide);
    long wrong = 0;
    for (size_t i = 0, here; i < b->recv_elements && b->gets_result; i += here) { /* up to the end of a period */
        const size_t place = (b->first + i) % PERIOD, left = b->recv_elements - i;
        const uint8_t *want = known[self->size][b->wide] + place * bytes, *got = b->recv + i * bytes;
        here = PERIOD - place < left ? PERIOD - place : left;
        const bool all = memcmp(got, want, here * bytes) == 0;
        for (size_t e = 0; e < here && !all; e++)
            wrong += memcmp(got + e * bytes, want + e * bytes, bytes) != 0;
    }
    for (size_t i = 0; i < GUARD * bytes && !in_place; i++)
        wrong += b->recv[-1 - (long)i] != 0xa5 || b->recv[b->recv_elements * bytes + i] != 0xa5;
    return wrong;
}

static void close_buffers(local_rank_t *self, const buffers_t *b, bool in_place)
{
    const size_t bytes = type_bytes(b->wide);
    selvage_device_free(self->dev, b->send - (b->recv_elements % 4) * bytes);
    if (!in_place)
        selvage_device_free(self->dev, b->recv - GUARD * bytes);
}

static selvage_coll_t *create(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    const selvage_coll_params_t params = {SELVAGE_COLL_PARAMS_INIT, .sum = SELVAGE_SUM_EXACT};
    CHECK_STATUS(selvage_coll_create(self->comm, &params, &coll), SELVAGE_SUCCESS);
    if (!coll)
        abort();
    return coll;
}

static void run_layout(local_rank_t *self)
{
    const layout_t *layout = self->arg;
    selvage_coll_t *whole = create(self), *coll = whole;
    if (layout->reversed)
        CHECK_STATUS(selvage_coll_split(whole, 0, -self->rank, &coll), SELVAGE_SUCCESS);
    for (unsigned c = 0; c < layout->ncounts; c++)
        for (int turn = 0; turn < 2 * CALLS; turn++) {
            const int call = turn / 2;
            const bool wide = turn % 2, in_place = (turn + (int)c) % 3 == 0;
            const size_t count = call == CALL_REDUCE_SCATTER ? (counts[c] + 6) / 7 : counts[c];
            buffers_t b;
            open_buffers(self, coll, call, wide, count, in_place, &b);
            CHECK_STATUS(call_sum(coll, &b, call, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
            const long wrong = count_wrong(self, &b, in_place);
            CHECK_EQ(wrong, 0);
            if (wrong)
                fprintf(stderr, "rank %d: call %d, %zu of %zu bytes, %s place\n", self->rank, call, count,
                        type_bytes(wide), in_place ? "in" : "out of");
            close_buffers(self, &b, in_place);
        }
    if (coll != whole)
        selvage_coll_destroy(coll);
    selvage_coll_destroy(whole);
}

static void run_one(int size, const layout_t *layout)
{
    const long failed = atomic_load(&check_failed_);
    local_ranks_env(layout->environment);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = layout->ranks_per_node, .body = run_layout,
                                   .arg = (void *)(uintptr_t)layout});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %d ranks, %d a node, %s, %s\n", size, layout->ranks_per_node,
                layout->reversed ? "reversed" : "in order", layout->environment);
}

static void test_layouts(void)
{
    static const layout_t layouts[] = {
        {0, false, "", COUNTS},
        {0, true, "COLL_ALGO=ring COLL_PROTO=simple", COUNTS - 1},
        {0, false, "COLL_ALGO=oneshot COLL_PROTO=ll", COUNTS - 1},
        {0, true, "COLL_ALGO=direct COLL_CHECKSUM=off", COUNTS - 1},
        {1, false, "", COUNTS - 1},
        {2, true, "PROGRESS=thread", COUNTS},
        {3, false, "COLL_INTERNODE=chain", COUNTS - 1},
        {2, false, "COLL_ALGO=ring", COUNTS - 1},
        {1, true, "COLL_INTERNODE=chain PROGRESS=thread", COUNTS - 2},
    };
    enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };
    for (int size = 1; size <= RANKS; size++) {
        make_known(size);
        for (unsigned l = 0; l < LAYOUTS; l++) {
            layout_t layout = layouts[l];
            /* In ./check each layout with two numbers of ranks in the first pass, and with another in the others. */
            if (check_brief() ? (l + (unsigned)size) % 6 != 0 : check_part(3) < 3 && (l + (unsigned)size) % 3 != 1)
                continue;
            if ((size > 4 || check_brief()) && layout.ncounts == COUNTS && size != RANKS)
                layout.ncounts--;
            if (size > 1) /* one rank's sum is a copy, of NaNs, too */
                run_one(size, &layout);
        }
    }
}

/* --- several at once ---------------------------------------------------------------------------------------------- */

#ifdef SV_SANITIZES_THREAD
enum { AT_ONCE_COUNT = 20001 }; /* everything takes so much longer; sums of several parts are in groups */
#else
enum { AT_ONCE_COUNT = 150001 };
#endif
enum { STREAMS = 3, AT_ONCE = 6 };

static bool is_wide(int i)
{
    return i / 2 % 2;
}

/* Calls on three streams, none of which is waited for: they take turns in what memory there is for sums. */
static void run_streams(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    void *stream[STREAMS];
    buffers_t b[AT_ONCE];
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        open_buffers(self, coll, i % CALLS, is_wide(i), AT_ONCE_COUNT - (size_t)i, false, &b[i]);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_STATUS(call_sum(coll, &b[i], i % CALLS, stream[i % STREAMS]), SELVAGE_SUCCESS);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[s]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQ(count_wrong(self, &b[i], false), 0);
        close_buffers(self, &b[i], false);
    }
    selvage_coll_destroy(coll);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
}

/* Calls of a group of two exact sums, on two streams, which a round puts in another order, or leaves out. */
static void call_group(selvage_coll_t *coll, const buffers_t b[2], void *const passed[2], void *const stream[2],
                       int round)
{
    const int size = selvage_coll_size(coll), rank = selvage_coll_rank(coll);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
    if (round == 1)
        CHECK_STATUS(selvage_coll_recv(coll, passed[0], 64, SELVAGE_UINT8, before, stream[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(call_sum(coll, &b[0], CALL_ALL_REDUCE, stream[0]), SELVAGE_SUCCESS);
    if (round > 0)
        CHECK_STATUS(selvage_coll_send(coll, b[0].send, 64, SELVAGE_UINT8, next, stream[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(call_sum(coll, &b[1], CALL_ALL_REDUCE, stream[1]), SELVAGE_SUCCESS);
    if (round == 2)
        CHECK_STATUS(selvage_coll_recv(coll, passed[0], 64, SELVAGE_UINT8, before, stream[1]), SELVAGE_SUCCESS);
    if (round > 0)
        CHECK_STATUS(selvage_coll_all_reduce(coll, b[1].send, passed[1], b[1].recv_elements, SELVAGE_FLOAT64,
                                             SELVAGE_OP_MAX, stream[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
}

/* Exact sums alone, and among other calls in a group. Each stream waits for all of the group. */
static void run_groups(local_rank_t *self)
{
    enum { COUNT = 70003, ROUNDS = 6 };
    const int before = (self->rank + self->size - 1) % self->size;
    selvage_coll_t *coll = create(self);
    void *stream[2], *passed[2];
    buffers_t b[2];
    for (int s = 0; s < 2; s++) {
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_malloc(self->dev, COUNT * 8, &passed[s]), SELVAGE_SUCCESS);
        open_buffers(self, coll, CALL_ALL_REDUCE, s, COUNT, false, &b[s]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        call_group(coll, b, passed, stream, round % 3);
        for (int s = 0; s < 2; s++) {
            CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[(round / 3 + s) % 2]), SELVAGE_SUCCESS);
            CHECK_EQ(count_wrong(self, &b[0], false), 0); /* either stream waits for all */
            CHECK_EQ(count_wrong(self, &b[1], false), 0);
        }
        const uint64_t first = element_of(before, 0, false);
        CHECK(round % 3 == 0 || memcmp(passed[0], &first, 4) == 0);
        for (int s = 0; s < 2; s++)
            memset(b[s].recv, 0, COUNT * type_bytes(s));
        local_ranks_barrier(self);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    for (int s = 0; s < 2; s++) {
        close_buffers(self, &b[s], false);
        selvage_device_free(self->dev, passed[s]);
        selvage_stream_destroy(self->dev, stream[s]);
    }
}

/* In a graph, of more than one chunk, replayed among calls that are not in one. */
static void run_graph(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    selvage_graph_t *graph = NULL;
    void *stream;
    buffers_t b[CALLS];
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    for (int call = 0; call < CALLS; call++)
        open_buffers(self, coll, call, call % 2, AT_ONCE_COUNT, false, &b[call]);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    for (int call = 0; call < CALLS; call++)
        CHECK_STATUS(call_sum(coll, &b[call], call, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    for (int replay = 0; replay < 4; replay++) {
        for (int call = 0; call < CALLS; call++)
            memset(b[call].recv, 0, AT_ONCE_COUNT * type_bytes(call % 2));
        if (replay == 2)
            for (int call = 0; call < CALLS; call++)
                CHECK_STATUS(call_sum(coll, &b[call], call, stream), SELVAGE_SUCCESS);
        else
            CHECK_STATUS(selvage_graph_launch(self->dev, graph, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        for (int call = 0; call < CALLS; call++)
            CHECK_EQ(count_wrong(self, &b[call], false), 0);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_graph_destroy(self->dev, graph);
    selvage_coll_destroy(coll);
    for (int call = 0; call < CALLS; call++)
        close_buffers(self, &b[call], false);
    selvage_stream_destroy(self->dev, stream);
}

/* Input that ends where memory does: nothing beyond it is read. */
static void run_edge(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 4 * page;
    uint8_t *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && mprotect(map + room, page, PROT_NONE) == 0);
    for (unsigned c = 0; c < 4 * CALLS; c++) {
        const bool wide = c / CALLS % 2;
        const int call = (int)(c % CALLS);
        const size_t count = c < 2 * CALLS ? 1 + c : 301, bytes = type_bytes(wide);
        buffers_t b;
        open_buffers(self, coll, call, wide, count, false, &b);
        buffers_t at_edge = b;
        at_edge.send = map + room - b.send_elements * bytes;
        memcpy(at_edge.send, b.send, b.send_elements * bytes);
        CHECK_STATUS(call_sum(coll, &at_edge, call, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(count_wrong(self, &b, false), 0);
        close_buffers(self, &b, false);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    CHECK_EQ(munmap(map, room + page), 0);
}

static void test_at_once(void)
{
    static const char *const environments[] = {"", "PROGRESS=thread", "COLL_INTERNODE=chain"};
    for (int nodes = 0; nodes < 3; nodes++) {
        local_ranks_env(environments[nodes]);
        if (!check_brief() || nodes != 1)
            local_ranks_run(&(local_run_t){.size = 4, .ranks_per_node = nodes ? 2 : 0, .body = run_streams});
        if (!check_brief() || nodes == 1)
            local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = nodes, .body = run_groups});
        if (!check_brief() || nodes == 0)
            local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = nodes, .body = run_edge});
    }
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = 3, .body = run_graph});
}

int main(void)
{
    const char *device = getenv("SELVAGE_DEVICE");
    if (device && strcmp(device, "soft") != 0) {
        printf("test_coll_exact: for the software device; coll_mpi.c does the same on GPUs\n");
        return CHECK_SKIP;
    }
    test_layouts();
    test_at_once();
    return check_report("test_coll_exact");
}
