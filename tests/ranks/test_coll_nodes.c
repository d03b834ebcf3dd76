/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives between nodes, with threads as ranks on nodes of 1 to 3 of them, also unequal ones: every call, type and
 * operation, random ones, groups and splits, in chunks that many steps go through and in real ones, against the
 * reference of coll_reference.h. What is added is the same on all ranks and from run to run. Calls that do not match,
 * ranks that do not come, aborts and damage on the wire are errors on all ranks.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_nodes.h"
#include "fixtures/local_ranks.h"
#include "wire/wire_local.h"

enum { RANKS = 6, SMALL_BYTES = 1 << 14, LARGE_BYTES = 5 << 20, TINY_CHUNK = 512, GROUP = 9, STREAMS = 2 };

typedef struct job {
    uint64_t seed;             /* of random cases; 0: the systematic ones */
    unsigned stride, first;
    uint64_t chunk_bytes;      /* 0: as it is */
    uint8_t *outputs[RANKS];   /* of all ranks, for the one test that compares them */
    int kind;
} job_t;

static selvage_coll_t *create(local_rank_t *self, uint64_t chunk_bytes)
{
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    if (!coll)
        abort();
    if (chunk_bytes)
        coll->arena->staging->chunk_bytes = chunk_bytes;
    return coll;
}

/* What cannot be exact in another order is not asked for. */
static void fit_to_call(coll_case_t *what)
{
    const coll_terms_t *terms = &what->terms;
    what->any_order = true;
    if (terms->values == COLL_SPECIAL && terms->op != SELVAGE_OP_MIN && terms->op != SELVAGE_OP_MAX)
        what->terms.values = COLL_ORDERED;
}

static void run_systematic(local_rank_t *self, selvage_coll_t *coll, const job_t *job, void *stream)
{
    coll_try_t try;
    coll_case_t what;
    coll_try_open(&try, coll, self->dev, SMALL_BYTES * 4, true);
    for (unsigned i = job->first; coll_case_systematic(i, selvage_coll_size(coll), &what); i += job->stride) {
        fit_to_call(&what);
        coll_try_run(&try, &what, stream);
    }
    coll_try_close(&try);
}

static void run_random(local_rank_t *self, selvage_coll_t *coll, uint64_t seed, int count, void *stream)
{
    coll_try_t try;
    uint64_t state = seed;
    coll_try_open(&try, coll, self->dev, SMALL_BYTES, seed % 2);
    for (int i = 0; i < count; i++) {
        coll_case_t what = coll_case_random(&state, selvage_coll_size(coll), SMALL_BYTES);
        fit_to_call(&what);
        coll_try_run(&try, &what, stream);
    }
    coll_try_close(&try);
}

static void run_cases(local_rank_t *self)
{
    const job_t *job = self->arg;
    void *stream;
    selvage_coll_t *coll = create(self, job->chunk_bytes);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (job->seed)
        run_random(self, coll, job->seed, 20, stream);
    else
        run_systematic(self, coll, job, stream);
    selvage_coll_destroy(coll);
    selvage_stream_destroy(self->dev, stream);
}

static void test_cases(void)
{
    static const int worlds[][2] = {{2, 1}, {3, 2}, {4, 2}, {5, 3}, {6, 3}, {6, 1}, {5, 2}};
    static const char *const ways[] = {"", "PROGRESS=thread", "COLL_INTERNODE=chain", "COLL_INTERNODE=tree"};
    enum { WORLDS = sizeof worlds / sizeof worlds[0], STRIDE = 9, STRIDE_CASES = 17, STRIDE_BRIEF = 31 };
    const unsigned worlds_to_run = check_brief() ? WORLDS + 3 : 2 * WORLDS; /* the later ones are random */
    const unsigned stride = check_brief() ? STRIDE_BRIEF : check_part(3) < 3 ? STRIDE_CASES : STRIDE;
    for (unsigned w = 0; w < worlds_to_run; w++) {
        const int *world = worlds[w % WORLDS];
        long failed = atomic_load(&check_failed_);
        job_t job = {.stride = stride, .first = (w * 4) % stride, .chunk_bytes = w % 2 ? TINY_CHUNK : 0,
                     .seed = w < WORLDS ? 0 : w};
        local_ranks_env(ways[w % 4]);
        local_ranks_run(&(local_run_t){.size = world[0], .ranks_per_node = world[1], .body = run_cases, .arg = &job});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "world %u: %d ranks, %d per node\n", w, world[0], world[1]);
    }
}

/* More than a real chunk, with the last one odd; of the widest elements, because each of them is looked at. */
static void run_large(local_rank_t *self)
{
    static const int calls[] = {COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_ALL_GATHER, COLL_BROADCAST, COLL_REDUCE,
                                COLL_ALL_TO_ALL, COLL_PAIRS};
    coll_try_t try;
    selvage_coll_t *coll = create(self, 0);
    coll_try_open(&try, coll, self->dev, LARGE_BYTES, false);
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i += check_brief() ? 2 : 1) {
        const bool blocks = calls[i] != COLL_ALL_REDUCE && i < 3;
        coll_case_t what = {.call = calls[i], .count = blocks || calls[i] == COLL_ALL_TO_ALL ? 180001 : 540001,
                            .any_order = true, .in_place = i % 2, .root = self->size - 1};
        what.terms = (coll_terms_t){.type = SELVAGE_FLOAT64, .op = SELVAGE_OP_AVG, .values = COLL_SMALL,
                                    .nranks = self->size, .seed = i + 1};
        coll_try_run(&try, &what, NULL);
    }
    coll_try_close(&try);
    selvage_coll_destroy(coll);
}

/* Many more rows than slots, of every call. */
static void run_rows(local_rank_t *self)
{
    static const int calls[] = {COLL_ALL_REDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER, COLL_BROADCAST, COLL_ALL_GATHER,
                                COLL_ALL_TO_ALL, COLL_PAIRS};
    coll_try_t try;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    coll_try_open(&try, coll, self->dev, 64 << 10, true);
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const bool blocks = calls[i] == COLL_REDUCE_SCATTER || calls[i] == COLL_ALL_GATHER ||
                            calls[i] == COLL_ALL_TO_ALL;
        coll_case_t what = {.call = calls[i], .count = blocks ? 1501 : 9001, .any_order = true, .in_place = i % 2,
                            .root = (int)i % self->size};
        what.terms = (coll_terms_t){.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM, .values = COLL_SMALL,
                                    .nranks = self->size, .seed = i + 3};
        coll_try_run(&try, &what, NULL);
    }
    coll_try_close(&try);
    selvage_coll_destroy(coll);
}

static void test_rows(void)
{
    static const int worlds[][2] = {{3, 1}, {4, 1}, {5, 1}, {5, 2}, {6, 2}, {6, 1}, {2, 1}};
    const unsigned count = check_brief() ? 5 : sizeof worlds / sizeof worlds[0];
    static const char *const ways[] = {"", "COLL_INTERNODE=chain", "COLL_INTERNODE=tree"};
    for (unsigned w = 0; w < count; w++)
        for (unsigned way = 0; way < 3; way++) {
            if (check_brief() && w % 3 != way)
                continue;
            local_ranks_env(ways[way]);
            local_ranks_run(&(local_run_t){.size = worlds[w][0], .ranks_per_node = worlds[w][1], .body = run_rows});
        }
}

/* The bits of sums that depend on the order are the same on all ranks, once more the same, and by either way, in chunks
   of either size, and whoever drives them. */
static void run_same(local_rank_t *self)
{
    job_t *job = self->arg;
    coll_try_t try;
    size_t bytes;
    static uint64_t digest; /* of the run before */
    selvage_coll_t *coll = create(self, job->chunk_bytes);
    coll_case_t what = {.call = COLL_ALL_REDUCE, .count = 1999, .any_order = true};
    what.terms = (coll_terms_t){.type = SELVAGE_BFLOAT16, .op = SELVAGE_OP_SUM, .values = COLL_ORDERED,
                                .nranks = self->size, .seed = 5};
    coll_try_open(&try, coll, self->dev, SMALL_BYTES, false);
    for (int turn = 0; turn < 2; turn++) {
        coll_try_run(&try, &what, NULL);
        const uint8_t *output = coll_try_output(&try, &bytes);
        if (turn == 0) {
            job->outputs[self->rank] = malloc(bytes);
            memcpy(job->outputs[self->rank], output, bytes);
        }
        local_ranks_barrier(self);
        CHECK(memcmp(output, job->outputs[0], bytes) == 0);
    }
    if (self->rank == 0) {
        const uint64_t own = sv_digest_sum(1, 0, job->outputs[0], bytes);
        CHECK(digest == 0 || digest == own);
        digest = own;
    }
    local_ranks_barrier(self);
    free(job->outputs[self->rank]);
    coll_try_close(&try);
    selvage_coll_destroy(coll);
}

/* Groups of calls of all kinds on two streams, sends and receives among them. */
static void run_groups(local_rank_t *self)
{
    coll_try_t try[GROUP];
    coll_case_t what[GROUP];
    void *stream[STREAMS];
    uint64_t state = 77;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    for (int i = 0; i < GROUP; i++)
        coll_try_open(&try[i], coll, self->dev, SMALL_BYTES, false);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < GROUP; i++) {
            what[i] = coll_case_random(&state, self->size, SMALL_BYTES);
            if (round % 2 || i % 2)
                what[i].call = COLL_PAIRS;
            fit_to_call(&what[i]);
            coll_try_fill(&try[i], &what[i], stream[i % STREAMS]);
        }
        CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        for (int i = 0; i < GROUP; i++)
            CHECK_STATUS(coll_try_call(&try[i], stream[i % STREAMS]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        for (int i = 0; i < GROUP; i++)
            CHECK_EQ(coll_try_wrong(&try[i], stream[i % STREAMS]), 0);
    }
    for (int i = 0; i < GROUP; i++)
        coll_try_close(&try[i]);
    selvage_coll_destroy(coll);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
}

/* Parts that span nodes in another order of ranks, with a rank in none; parts that are one node; a part of a part. */
static void run_splits(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, TINY_CHUNK), *half = NULL, *node = NULL, *rest = NULL;
    const int color = self->rank == 1 ? -1 : self->rank % 2;
    CHECK_STATUS(selvage_coll_split(coll, color, -self->rank, &half), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_split(coll, self->rank / 2, 0, &node), SELVAGE_SUCCESS);
    CHECK(node && !node->spans && coll->spans);
    run_random(self, coll, 11, 4, NULL);
    if (half) {
        run_random(self, half, 20 + (uint64_t)color, 6, NULL);
        CHECK_STATUS(selvage_coll_split(half, selvage_coll_rank(half) > 0, 0, &rest), SELVAGE_SUCCESS);
        run_random(self, rest, 30 + (uint64_t)color, 4, NULL);
        selvage_coll_destroy(rest);
    }
    run_random(self, node, 40 + (uint64_t)(self->rank / 2), 4, NULL);
    selvage_coll_destroy(coll);
    run_random(self, node, 50 + (uint64_t)(self->rank / 2), 2, NULL);
    if (half)
        run_random(self, half, 60 + (uint64_t)color, 2, NULL);
    selvage_coll_destroy(half);
    selvage_coll_destroy(node);
}

/* Sends and receives alone: the others make no call at all. */
static void run_one_way(local_rank_t *self)
{
    enum { COUNT = 700 };
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, COUNT * sizeof(int32_t), &memory), SELVAGE_SUCCESS);
    int32_t *data = memory;
    const int last = self->size - 1;
    for (int turn = 0; turn < 6; turn++) {
        const int count = turn % 3 == 2 ? 0 : turn * 130;
        for (int i = 0; i < COUNT; i++)
            data[i] = self->rank == 0 ? turn * 1000 + i : -1;
        if (self->rank == 0)
            CHECK_STATUS(selvage_coll_send(coll, data, (size_t)count, SELVAGE_INT32, last, NULL), SELVAGE_SUCCESS);
        if (self->rank == last)
            CHECK_STATUS(selvage_coll_recv(coll, data, (size_t)count, SELVAGE_INT32, 0, NULL), SELVAGE_SUCCESS);
        for (int i = 0; i < COUNT && self->rank == last; i++)
            CHECK_EQ(data[i], i < count ? turn * 1000 + i : -1);
    }
    CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
}

/* One end makes single calls of what the other end has in a group, in turns; in long messages, and in short ones. */
static void run_regrouped(local_rank_t *self)
{
    enum { MESSAGES = 5, LONGEST = 600 };
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, MESSAGES * LONGEST * sizeof(int32_t), &memory), SELVAGE_SUCCESS);
    int32_t *data = memory;
    const int last = self->size - 1;
    for (int turn = 0; turn < 6; turn++) {
        const bool groups = (self->rank == 0) == (turn % 2 == 0);
        for (int i = 0; i < MESSAGES * LONGEST; i++)
            data[i] = self->rank == 0 ? turn * 10000 + i : -1;
        if (self->rank > 0 && self->rank < last)
            continue;
        if (groups)
            CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        for (int m = 0; m < MESSAGES; m++) {
            const size_t count = (size_t)(m * 137 + turn);
            CHECK_STATUS(self->rank == 0
                             ? selvage_coll_send(coll, data + m * LONGEST, count, SELVAGE_INT32, last, NULL)
                             : selvage_coll_recv(coll, data + m * LONGEST, count, SELVAGE_INT32, 0, NULL),
                         SELVAGE_SUCCESS);
        }
        if (groups)
            CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        for (int i = 0; i < MESSAGES * LONGEST && self->rank == last; i++)
            CHECK_EQ(data[i], i % LONGEST < i / LONGEST * 137 + turn ? turn * 10000 + i : -1);
    }
    CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
}

/* Nobody leaves a barrier before the work of all streams before it is complete. */
static void run_barrier(local_rank_t *self)
{
    static _Atomic int arrived;
    selvage_coll_t *coll = create(self, 0);
    if (self->rank == 0)
        atomic_store(&arrived, 0);
    local_ranks_barrier(self);
    for (int turn = 1; turn <= 5; turn++) {
        CHECK_STATUS(selvage_device_delay_us(self->dev, 500.0 * ((self->rank + turn) % self->size), NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        atomic_fetch_add(&arrived, 1);
        CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_SUCCESS);
        CHECK(atomic_load(&arrived) >= turn * self->size);
    }
    selvage_coll_destroy(coll);
}

enum { OTHER_COUNT, OTHER_TYPE, OTHER_CALL, OTHER_OP, OTHER_ROOT, MISMATCHES };

static selvage_status_t call_mismatched(selvage_coll_t *coll, float *data, int kind, bool other)
{
    const size_t count = kind == OTHER_COUNT && other ? 9 : 10;
    const selvage_type_t type = kind == OTHER_TYPE && other ? SELVAGE_INT32 : SELVAGE_FLOAT32;
    if (kind == OTHER_CALL && other)
        return selvage_coll_barrier(coll, NULL);
    if (kind == OTHER_ROOT)
        return selvage_coll_broadcast(coll, data, data, count, type, other, NULL);
    return selvage_coll_all_reduce(coll, data, data, count, type,
                                   kind == OTHER_OP && other ? SELVAGE_OP_AVG : SELVAGE_OP_SUM, NULL);
}

static float *make_data(local_rank_t *self, size_t count)
{
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, count * sizeof(float), &memory), SELVAGE_SUCCESS);
    memset(memory, 0, count * sizeof(float));
    return memory;
}

/* One rank calls something else; all of them say so, and say who, and the communicator of ranks goes on. */
static void run_mismatch(local_rank_t *self)
{
    const job_t *job = self->arg;
    selvage_coll_t *coll = create(self, 0), *next;
    float *data = make_data(self, 16);
    CHECK_STATUS(call_mismatched(coll, data, job->kind, self->rank == 2), SELVAGE_ERR_MISMATCH);
    CHECK(strstr(selvage_error_detail(), "rank 2 called"));
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_MISMATCH);
    CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_ERR_MISMATCH);
    selvage_coll_destroy(coll);
    next = create(self, 0);
    CHECK_STATUS(selvage_coll_barrier(next, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(next);
    selvage_device_free(self->dev, data);
}

/* Both ends of a message that does not match hear of it, and say who is at the other one. */
static void run_pair_mismatch(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    float *data = make_data(self, 1000);
    selvage_status_t status = SELVAGE_ERR_MISMATCH;
    if (self->rank == 0)
        status = selvage_coll_send(coll, data, 900, SELVAGE_FLOAT32, 3, NULL);
    if (self->rank == 3)
        status = selvage_coll_recv(coll, data, 901, SELVAGE_FLOAT32, 0, NULL);
    CHECK_STATUS(status, SELVAGE_ERR_MISMATCH);
    if (self->rank == 0)
        CHECK(strstr(selvage_error_detail(), "rank 3 called"));
    if (self->rank == 3)
        CHECK(strstr(selvage_error_detail(), "rank 0 called"));
    local_ranks_barrier(self);
    if (self->rank == 1 || self->rank == 2) /* the word of those who gave up */
        CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_ERR_MISMATCH);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* A rank does not come: the others know by the deadline. */
static void run_late(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0);
    local_ranks_deadline(self, coll, 1);
    const uint64_t begin_ns = sv_clock_ns();
    if (self->rank != self->size - 1) {
        selvage_status_t status = selvage_coll_barrier(coll, NULL);
        CHECK(status == SELVAGE_ERR_TIMEOUT);
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_TIMEOUT);
        CHECK((double)(sv_clock_ns() - begin_ns) < 20e9);
    }
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
}

/* What comes damaged each time that it is sent is found by a digest, by a rank of one node, and the other hears of
   it; its own node is told at once, by an abort, and everybody by the next call, by whoever of the two is first. */
static void run_damage(local_rank_t *self)
{
    static const selvage_status_t wanted[] = {SELVAGE_ERR_CHECKSUM, SELVAGE_ERR_ABORTED, SELVAGE_ERR_CHECKSUM,
                                              SELVAGE_ERR_CHECKSUM};
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, 2000);
    CHECK_STATUS(selvage_coll_all_reduce(coll, data, data, 2000, SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL),
                 SELVAGE_SUCCESS);
    if (self->rank == 0)
        sv_wire_local_corrupt_long(self->comm->wire, 4000);
    selvage_status_t status = selvage_coll_all_reduce(coll, data, data, 2000, SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL);
    if (self->rank % 2 == 0) /* whose rail it is; the others may be done */
        CHECK_STATUS(status, wanted[self->rank]);
    status = selvage_coll_barrier(coll, NULL);
    CHECK(status == SELVAGE_ERR_CHECKSUM || (status == SELVAGE_ERR_ABORTED && self->rank % 2));
    CHECK_STATUS(selvage_coll_error(coll), status);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

enum { MENDED_TURNS = 12, MENDED_COUNT = 700 };

/* The n-th element of what rank r brings to a turn. */
static float mended_value(int r, int turn, int i)
{
    return (float)(r + 1) * 16 + (float)((turn * 31 + i) % 13);
}

static long count_wrong(const float *data, int turn, const local_rank_t *self, int kind)
{
    long wrong = 0;
    for (int i = 0; i < MENDED_COUNT; i++) {
        float sum = 0;
        for (int r = 0; r < self->size; r++)
            sum += mended_value(r, turn, i);
        if (kind == 0)
            wrong += data[i] != sum;
        else if (kind == 1)
            wrong += data[i] != mended_value(turn % self->size, turn, i);
        else
            for (int r = 0; r < self->size; r++)
                wrong += data[r * MENDED_COUNT + i] != mended_value(r, turn, i);
    }
    return wrong;
}

static selvage_status_t call_mended(selvage_coll_t *coll, float *in, float *out, int turn, int kind)
{
    const selvage_type_t type = SELVAGE_FLOAT32;
    if (kind == 0)
        return selvage_coll_all_reduce(coll, in, out, MENDED_COUNT, type, SELVAGE_OP_SUM, NULL);
    if (kind == 1)
        return selvage_coll_broadcast(coll, in, out, MENDED_COUNT, type, turn % selvage_coll_size(coll), NULL);
    return selvage_coll_all_gather(coll, in, out, MENDED_COUNT, type, NULL);
}

/* Of all messages between nodes, notes, answers and heads among them, every n-th comes with a bit flipped: nobody
   notices but those who count. */
static void run_mended(local_rank_t *self)
{
    const unsigned every_nth = 9; /* so that the same message is not hit eight times */
    float *in = make_data(self, MENDED_COUNT), *out = make_data(self, (size_t)self->size * MENDED_COUNT);
    sv_wire_local_corrupt_some(self->comm->wire, 1, every_nth);
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    for (int turn = 0; turn < MENDED_TURNS; turn++) {
        const int kind = turn % 3;
        for (int i = 0; i < MENDED_COUNT; i++)
            in[i] = mended_value(self->rank, turn, i);
        CHECK_STATUS(call_mended(coll, in, out, turn, kind), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(count_wrong(out, turn, self, kind), 0);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    const uint64_t hit = sv_wire_local_corrupt_some(self->comm->wire, 0, 0);
    CHECK(hit >= MENDED_TURNS);
    if (self->rank == 0) /* its notes and answers are there more than once, the rest was asked for again */
        CHECK(coll->arena->staging->repaired > 0 && coll->arena->staging->repaired < hit);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, in);
    selvage_device_free(self->dev, out);
}

static void *abort_soon(void *arg)
{
    sv_backoff_t backoff = {.max_sleep_us = 1000};
    const uint64_t begin_ns = sv_clock_ns();
    while (sv_clock_ns() - begin_ns < UINT64_C(50000000))
        sv_backoff(&backoff);
    selvage_coll_abort(arg);
    return NULL;
}

/* Another thread aborts a call that waits for a rank that does not come; who waits with it hears of it. */
static void run_abort(local_rank_t *self)
{
    pthread_t thread;
    selvage_coll_t *coll = create(self, 0);
    if (self->rank == 0)
        CHECK_EQ(pthread_create(&thread, NULL, abort_soon, coll), 0);
    if (self->rank != self->size - 1)
        CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_ERR_ABORTED);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
}

static void run(int size, int ranks_per_node, void (*body)(local_rank_t *self), const char *environment)
{
    job_t job = {0};
    long failed = atomic_load(&check_failed_);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = body, .arg = &job});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, %d per node, %s\n", size, ranks_per_node, environment);
}

static void run_all_same(void)
{
    static const char *const ways[] = {"", "COLL_INTERNODE=chain", "PROGRESS=thread", "COLL_INTERNODE=tree"};
    for (int way = 0; way < 8; way++) {
        job_t job = {.chunk_bytes = way % 2 ? TINY_CHUNK : 0};
        local_ranks_env(ways[way / 2]);
        local_ranks_run(&(local_run_t){.size = 5, .ranks_per_node = 2, .body = run_same, .arg = &job});
    }
}

static void run_bad(int size, int ranks_per_node, void (*body)(local_rank_t *self), int kind, const char *environment)
{
    job_t job = {.kind = kind};
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = body, .arg = &job,
                                   .log_expected = true, .may_set_aside = true});
}

int main(void)
{
    test_cases();
    test_rows();
    run(3, 2, run_large, "");
    run(3, 1, run_large, "COLL_INTERNODE=chain");
    run_all_same();
    run(4, 2, run_groups, "");
    run(5, 3, run_groups, "PROGRESS=thread");
    run(6, 2, run_splits, "");
    run(4, 2, run_one_way, "");
    run(3, 1, run_regrouped, "");
    run(5, 2, run_barrier, "");
    for (int kind = 0; kind < MISMATCHES; kind++)
        run_bad(4, 2, run_mismatch, kind, "");
    run_bad(4, 2, run_pair_mismatch, 0, "TIMEOUT_S=20");
    run_bad(4, 2, run_late, 0, "TIMEOUT_S=60");
    run_bad(4, 2, run_damage, 0, "TIMEOUT_S=20");
    run_bad(4, 2, run_mended, 0, "TIMEOUT_S=20");
    run_bad(3, 1, run_mended, 0, "TIMEOUT_S=20");
    run_bad(6, 1, run_mended, 0, "TIMEOUT_S=20 COLL_INTERNODE=chain");
    run_bad(5, 1, run_mended, 0, "TIMEOUT_S=20 COLL_INTERNODE=tree");
    run_bad(4, 2, run_abort, 0, "TIMEOUT_S=20");
    return check_report("test_coll_nodes");
}
