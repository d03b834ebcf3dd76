/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions with types and operations that are composed (coll_fold.c), with threads as ranks: each type with each of
 * its operations by each call, in place and not, of odd and of long counts, on one node and on several, against a
 * reference that combines in the order of ranks, bit for bit. Nothing beside the elements is written, nor what lies
 * between their members. Also sums of complex numbers, calls that only move such types, groups, graphs, calls that
 * ranks do not agree on, and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/coll_parts.h"
#include "fixtures/check.h"
#include "fixtures/fold_reference.h"
#include "fixtures/local_ranks.h"
#include "kernels/kernels.h"
#include <selvage/collective.h>

enum { RANKS = 4, GUARD = 64, PERIOD = 4099 }; /* elements repeat, because the reference takes long */
#ifdef SV_SANITIZES_THREAD
/* Each word that goes to another rank takes twenty times as long. Of 16 bytes, so many do not fit into the room either,
   and are combined in parts. */
enum { LONG = 35001, SHARE = 2 };
#else
enum { LONG = 70001, SHARE = 1 };
#endif
static const size_t counts[] = {1, 3, 17, 1023, LONG};
enum { COUNTS = sizeof counts / sizeof counts[0] };

enum { CALL_ALL_REDUCE, CALL_REDUCE_SCATTER, CALL_REDUCE, CALLS };

typedef struct trial {
    selvage_type_t type;
    selvage_op_t op;
    int call;
    size_t count;
    bool in_place;
} trial_t;

/* One rank's buffers of a call: device memory, which is host memory here. */
typedef struct buffers {
    uint8_t *memory, *send, *recv; /* of one allocation, or recv within send */
    size_t first;              /* recv begins with that place of the vector */
    bool gets_result;
} buffers_t;

static size_t place_of(const trial_t *t, const selvage_coll_t *coll)
{
    return t->call == CALL_REDUCE_SCATTER ? t->count * (size_t)selvage_coll_rank(coll) : 0;
}

static void open_buffers(local_rank_t *self, const selvage_coll_t *coll, const trial_t *t, buffers_t *b)
{
    const size_t bytes = selvage_type_bytes(t->type), size = (size_t)selvage_coll_size(coll);
    const size_t sent = t->call == CALL_REDUCE_SCATTER ? t->count * size : t->count;
    const size_t shift = t->count % 3 * fold_type_align(t->type), room = (sent + t->count) * bytes + 3 * GUARD + shift;
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, room, &memory), SELVAGE_SUCCESS);
    memset(memory, 0xa5, room);
    *b = (buffers_t){.memory = memory, .send = (uint8_t *)memory + GUARD + shift, .first = place_of(t, coll),
                     .gets_result = t->call != CALL_REDUCE || selvage_coll_rank(coll) == (int)size - 1};
    b->recv = t->in_place ? b->send + b->first * bytes : b->send + sent * bytes + GUARD;
    for (size_t i = 0; i < sent && i < PERIOD; i++)
        fold_element(t->type, selvage_coll_rank(coll), i, b->send + i * bytes);
    for (size_t i = PERIOD; i < sent; i += PERIOD)
        memcpy(b->send + i * bytes, b->send, (sent - i < PERIOD ? sent - i : PERIOD) * bytes);
}

static selvage_status_t make_call(selvage_coll_t *coll, const trial_t *t, const buffers_t *b, void *stream)
{
    if (t->call == CALL_ALL_REDUCE)
        return selvage_coll_all_reduce(coll, b->send, b->recv, t->count, t->type, t->op, stream);
    if (t->call == CALL_REDUCE_SCATTER)
        return selvage_coll_reduce_scatter(coll, b->send, b->recv, t->count, t->type, t->op, stream);
    return selvage_coll_reduce(coll, b->send, b->recv, t->count, t->type, t->op, selvage_coll_size(coll) - 1, stream);
}

/* Elements whose bytes are not those of the reference, which is written over what was there; and bytes around them. */
static long count_wrong(const selvage_coll_t *coll, const trial_t *t, const buffers_t *b)
{
    const size_t bytes = selvage_type_bytes(t->type);
    long wrong = 0;
    uint8_t *period = malloc(PERIOD * bytes);
    for (size_t i = 0; i < t->count; i++) {
        const size_t place = (b->first + i) % PERIOD;
        uint8_t *wanted = period + place * bytes;
        if (i < PERIOD) {
            memset(wanted, 0xa5, bytes);
            if (t->in_place)
                fold_element(t->type, selvage_coll_rank(coll), place, wanted);
            if (b->gets_result)
                fold_result(t->type, t->op, selvage_coll_size(coll), place, wanted);
        }
        wrong += memcmp(b->recv + i * bytes, wanted, bytes) != 0;
    }
    free(period);
    for (size_t i = 0; i < GUARD && !t->in_place; i++)
        wrong += b->recv[-1 - (long)i] != 0xa5 || b->recv[t->count * bytes + i] != 0xa5;
    return wrong;
}

static void run_trial(local_rank_t *self, selvage_coll_t *coll, const trial_t *t)
{
    buffers_t b;
    open_buffers(self, coll, t, &b);
    CHECK_STATUS(make_call(coll, t, &b, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    const long wrong = count_wrong(coll, t, &b);
    CHECK_EQ(wrong, 0);
    if (wrong)
        fprintf(stderr, "rank %d: call %d, %zu of %s, operation %d, %s place\n", self->rank, t->call, t->count,
                selvage_type_name(t->type), t->op, t->in_place ? "in" : "out of");
    selvage_device_free(self->dev, b.memory);
}

static selvage_coll_t *create(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    if (!coll)
        abort();
    return coll;
}

/* --- each type with each operation -------------------------------------------------------------------------------- */

typedef struct world {
    int size, ranks_per_node;
    unsigned stride;           /* one of so many trials is made */
    const char *environment;
} world_t;

static void run_pairings(local_rank_t *self)
{
    const world_t *world = self->arg;
    selvage_coll_t *coll = create(self);
    unsigned number = (unsigned)self->size;
    for (int type = SELVAGE_INT8; type <= SELVAGE_FLOAT64_FLOAT64; type++)
        for (int op = SELVAGE_OP_SUM; op <= SELVAGE_OP_MAXLOC; op++) {
            if (!fold_goes_with((selvage_type_t)type, op))
                continue;
            const bool is_first = op == SELVAGE_OP_SUM || op == SELVAGE_OP_LAND || op == SELVAGE_OP_MINLOC;
            for (unsigned c = 0; c < COUNTS; c++)
                for (int turn = 0; turn < 2 * CALLS; turn++) {
                    const trial_t trial = {(selvage_type_t)type, op, turn % CALLS, counts[c], turn >= CALLS};
                    if (number++ % world->stride == 0 && (counts[c] != LONG || is_first))
                        run_trial(self, coll, &trial);
                }
        }
    selvage_coll_destroy(coll);
}

static void test_pairings(void)
{
    static const world_t worlds[] = {
        {1, 0, 7, ""}, {2, 0, 1, ""}, {3, 0, 1, ""}, {4, 0, 1, ""}, {3, 0, 5, "COLL_ALGO=ring COLL_PROTO=simple"},
        {4, 0, 5, "COLL_ALGO=direct COLL_CHECKSUM=off"}, {4, 0, 5, "SUM=exact"}, {3, 1, 13, ""},
        {4, 2, 13, "PROGRESS=thread"}, {3, 2, 13, "COLL_INTERNODE=chain"},
    };
    for (unsigned w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        const long failed = atomic_load(&check_failed_);
        world_t world = worlds[w];
        world.stride = check_brief() ? world.stride * 12 + 1 : world.stride * (3 / (unsigned)check_part(3));
        local_ranks_env(world.environment);
        local_ranks_run(&(local_run_t){.size = world.size, .ranks_per_node = world.ranks_per_node,
                                       .body = run_pairings, .arg = &world});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "-- %d ranks, %d a node, %s\n", world.size, world.ranks_per_node, world.environment);
    }
}

/* --- calls that only move ----------------------------------------------------------------------------------------- */

static void run_moves(local_rank_t *self)
{
    enum { COUNT = 101 };
    selvage_coll_t *coll = create(self);
    const int size = self->size, next = (self->rank + 1) % size, before = (self->rank + size - 1) % size;
    for (int kind = SELVAGE_INT16; kind <= SELVAGE_FLOAT64_FLOAT64; kind++) {
        const selvage_type_t type = (selvage_type_t)kind;
        const size_t bytes = selvage_type_bytes(type), each = COUNT * bytes;
        void *memory;
        CHECK_STATUS(selvage_device_malloc(self->dev, 8 * RANKS * each, &memory), SELVAGE_SUCCESS);
        uint8_t *own = memory, *gathered = own + RANKS * each, *exchanged = gathered + RANKS * each,
                *got = exchanged + RANKS * each, *spread = got + RANKS * each;
        for (size_t i = 0; i < each * RANKS; i++)
            own[i] = (uint8_t)(sv_digest_mix(i) + (uint64_t)self->rank);
        CHECK_STATUS(selvage_coll_all_gather(coll, own, gathered, COUNT, type, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_all_to_all(coll, own, exchanged, COUNT, type, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_broadcast(coll, own, spread, COUNT, type, 1, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_send(coll, own, COUNT, type, next, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_recv(coll, got, COUNT, type, before, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
        long wrong = 0;
        for (size_t i = 0; i < each; i++) {
            const uint8_t first = (uint8_t)sv_digest_mix(i);
            const uint8_t block = (uint8_t)sv_digest_mix((size_t)self->rank * each + i);
            for (int r = 0; r < size; r++)
                wrong += gathered[(size_t)r * each + i] != (uint8_t)(first + r) ||
                         exchanged[(size_t)r * each + i] != (uint8_t)(block + r);
            wrong += got[i] != (uint8_t)(first + before) || spread[i] != (uint8_t)(first + 1);
        }
        CHECK_EQ(wrong, 0);
        selvage_device_free(self->dev, memory);
    }
    selvage_coll_destroy(coll);
}

/* --- several at once ---------------------------------------------------------------------------------------------- */

static const trial_t at_once[] = {
    {SELVAGE_INT16, SELVAGE_OP_PROD, CALL_ALL_REDUCE, 30011 / SHARE, false},
    {SELVAGE_FLOAT64_INT32, SELVAGE_OP_MAXLOC, CALL_REDUCE_SCATTER, 20003 / SHARE, false},
    {SELVAGE_UINT32, SELVAGE_OP_BXOR, CALL_REDUCE, 50021 / SHARE, false},
    {SELVAGE_COMPLEX128, SELVAGE_OP_PROD, CALL_ALL_REDUCE, 12289 / SHARE, true},
    {SELVAGE_FLOAT32_INT32, SELVAGE_OP_MINLOC, CALL_ALL_REDUCE, 7, false},
};
enum { AT_ONCE = sizeof at_once / sizeof at_once[0], STREAMS = 2, MANY = 5003 };

/* In a group, with a sum that kernels know; each stream waits for all of it. */
static void run_group(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    void *stream[STREAMS], *memory;
    buffers_t b[AT_ONCE];
    CHECK_STATUS(selvage_device_malloc(self->dev, 2 * MANY * sizeof(int32_t), &memory), SELVAGE_SUCCESS);
    int32_t *given = memory, *sum = given + MANY;
    for (int i = 0; i < MANY; i++)
        given[i] = i + self->rank;
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        open_buffers(self, coll, &at_once[i], &b[i]);
    CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_STATUS(make_call(coll, &at_once[i], &b[i], stream[i % STREAMS]), SELVAGE_SUCCESS);
        if (i == 2)
            CHECK_STATUS(selvage_coll_all_reduce(coll, given, sum, MANY, SELVAGE_INT32, SELVAGE_OP_SUM, stream[1]),
                         SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
    if (self->rank == 0)
        CHECK_STATUS(selvage_coll_wait(coll), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[self->rank % STREAMS]), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_EQ(count_wrong(coll, &at_once[i], &b[i]), 0);
    long wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += sum[i] != self->size * i + self->size * (self->size - 1) / 2;
    CHECK_EQ(wrong, 0);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[s]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    for (int i = 0; i < AT_ONCE; i++)
        selvage_device_free(self->dev, b[i].memory);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
    selvage_device_free(self->dev, memory);
}

/* On two streams, none of which is waited for: they take turns in the room. */
static void run_streams(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    void *stream[STREAMS];
    buffers_t b[AT_ONCE];
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        open_buffers(self, coll, &at_once[i], &b[i]);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_STATUS(make_call(coll, &at_once[i], &b[i], stream[i % STREAMS]), SELVAGE_SUCCESS);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[s]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQ(count_wrong(coll, &at_once[i], &b[i]), 0);
        selvage_device_free(self->dev, b[i].memory);
    }
    selvage_coll_destroy(coll);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
}

/* In a graph that is replayed; what is in place would not be the same twice. */
static void run_graph(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    selvage_graph_t *graph = NULL;
    void *stream;
    buffers_t b[AT_ONCE];
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        open_buffers(self, coll, &at_once[i], &b[i]);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        if (!at_once[i].in_place)
            CHECK_STATUS(make_call(coll, &at_once[i], &b[i], stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    for (int replay = 0; replay < 3; replay++) {
        for (int i = 0; i < AT_ONCE; i++)
            if (!at_once[i].in_place)
                memset(b[i].recv, 0xa5, at_once[i].count * selvage_type_bytes(at_once[i].type));
        CHECK_STATUS(selvage_graph_launch(self->dev, graph, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        for (int i = 0; i < AT_ONCE; i++)
            if (!at_once[i].in_place)
                CHECK_EQ(count_wrong(coll, &at_once[i], &b[i]), 0);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_graph_destroy(self->dev, graph);
    selvage_coll_destroy(coll);
    for (int i = 0; i < AT_ONCE; i++)
        selvage_device_free(self->dev, b[i].memory);
    selvage_stream_destroy(self->dev, stream);
}

static void test_at_once(void)
{
    for (int nodes = 0; nodes < 3; nodes++) {
        local_ranks_env(nodes == 2 ? "PROGRESS=thread" : "");
        local_ranks_run(&(local_run_t){.size = 4, .ranks_per_node = nodes, .body = run_moves});
        local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = nodes, .body = run_group});
        local_ranks_run(&(local_run_t){.size = 4, .ranks_per_node = nodes, .body = run_streams});
    }
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = 3, .body = run_graph});
    local_ranks_run(&(local_run_t){.size = 1, .body = run_group});
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

/* Rank 0 calls a product of int16, all others something that takes as many bytes. */
enum { OTHER_TYPE, OTHER_OP, OTHER_CALL, OTHER_PLAIN, OTHER_COUNT, OTHERS };

static void run_mismatch(local_rank_t *self)
{
    const int other = *(const int *)self->arg;
    selvage_coll_t *coll = create(self);
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, 1 << 16, &memory), SELVAGE_SUCCESS);
    memset(memory, 0, 1 << 16);
    uint8_t *result = (uint8_t *)memory + (1 << 15);
    if (self->rank == 0 || other == OTHER_TYPE || other == OTHER_OP)
        (void)selvage_coll_all_reduce(coll, memory, result, 1000,
                                      self->rank && other == OTHER_TYPE ? SELVAGE_UINT16 : SELVAGE_INT16,
                                      self->rank && other == OTHER_OP ? SELVAGE_OP_BOR : SELVAGE_OP_PROD, NULL);
    else if (other == OTHER_CALL)
        (void)selvage_coll_all_gather(coll, memory, result, 1000, SELVAGE_INT16, NULL);
    else if (other == OTHER_PLAIN)
        (void)selvage_coll_all_gather(coll, memory, result, 2000, SELVAGE_UINT8, NULL);
    else
        (void)selvage_coll_all_reduce(coll, memory, result, 0, SELVAGE_INT16, SELVAGE_OP_PROD, NULL);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_MISMATCH);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
}

static void test_mismatches(void)
{
    static const char *const named[OTHERS] = {"all_reduce of 1000 uint16", "bor", "all_gather of 1000 int16",
                                              "all_gather of 2000 uint8", "all_reduce of 0 int16"};
    for (int nodes = 0; nodes < 2; nodes++)
        for (int other = 0; other < OTHERS; other++) {
            const long failed = atomic_load(&check_failed_);
            local_ranks_env("TIMEOUT_S=20");
            local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = nodes, .body = run_mismatch, .arg = &other,
                                           .log_expected = true, .may_set_aside = true});
            CHECK(local_ranks_any_logged("all_reduce of 1000 int16"));
            CHECK(local_ranks_any_logged("prod"));
            CHECK(local_ranks_any_logged(named[other]));
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "-- other call %d, %d nodes\n", other, nodes);
        }
}

/* Ranks that agree on nothing still go on: what is refused is refused at once, and is nobody else's matter. */
static void run_refused(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    void *memory;
    selvage_op_t scaled;
    const int16_t scalar = 3;
    long refused = 0;
    CHECK_STATUS(selvage_device_malloc(self->dev, 1 << 12, &memory), SELVAGE_SUCCESS);
    for (int type = SELVAGE_INT8; type <= SELVAGE_FLOAT64_FLOAT64; type++)
        for (int op = SELVAGE_OP_SUM; op <= SELVAGE_OP_MAXLOC; op++) {
            const bool known = type <= SELVAGE_FLOAT8_E5M2 && op <= SELVAGE_OP_AVG;
            if (known || fold_goes_with((selvage_type_t)type, op))
                continue;
            CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 3, (selvage_type_t)type, op, NULL),
                         SELVAGE_ERR_ARGUMENT);
            CHECK(strstr(selvage_error_detail(), selvage_type_name((selvage_type_t)type)) != NULL);
            refused++;
        }
    CHECK_EQ(refused, 23 * 13 - 12 * 5 - (8 * 6 + 2 * 5 + 2 * 3 + 2 * 3 + 7 * 2));
    for (int op = SELVAGE_OP_MAXLOC + 1; op < 16; op++)
        CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 3, SELVAGE_INT32, op, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_op_create(coll, &scalar, SELVAGE_INT16, SELVAGE_SCALAR_HOST, &scaled),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_all_reduce(coll, (char *)memory + 1, memory, 3, SELVAGE_INT16, SELVAGE_OP_SUM, NULL),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_all_reduce(coll, (char *)memory + 4, (char *)memory + 4, 3, SELVAGE_FLOAT64_INT32,
                                         SELVAGE_OP_MINLOC, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_all_reduce(coll, (char *)memory + 8, (char *)memory + 8, SIZE_MAX / 2 + 9,
                                         SELVAGE_COMPLEX128, SELVAGE_OP_SUM, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
}

/* In signatures type and operation are one number, which says both again. */
static void test_pairing_numbers(void)
{
    bool seen[128] = {false};
    for (unsigned type = SELVAGE_INT8; type <= SELVAGE_FLOAT64_FLOAT64; type++)
        for (unsigned op = SELVAGE_OP_SUM; op <= SELVAGE_OP_MAXLOC; op++) {
            const int number = sv_coll_pairing(type, op);
            const bool goes = fold_goes_with((selvage_type_t)type, (selvage_op_t)op);
            const bool known = type <= SELVAGE_FLOAT8_E5M2 && op <= SELVAGE_OP_AVG;
            unsigned type_again, op_again;
            CHECK(number < 128 && (number >= 0 || !goes) && (number < 0 || goes || known));
            if (number < 0)
                continue;
            CHECK(!seen[number]);
            seen[number] = true;
            sv_coll_pairing_read((unsigned)number, &type_again, &op_again);
            CHECK_EQ(type_again, type);
            CHECK_EQ(op_again, op);
        }
}

int main(void)
{
    const char *device = getenv("SELVAGE_DEVICE");
    if (device && strcmp(device, "soft") != 0) {
        printf("test_coll_fold: for the software device\n");
        return CHECK_SKIP;
    }
    test_pairing_numbers();
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_refused, .log_expected = true});
    test_pairings();
    test_at_once();
    test_mismatches();
    return check_report("test_coll_fold");
}
