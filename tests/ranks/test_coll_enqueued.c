/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives between nodes that are only enqueued, with a progress thread and threads as ranks: a call returns while
 * work before it on its stream is held, and what comes later on the stream sees its result. Many are under way at a
 * time, on several streams, among calls of one node, exchanges, windows and statistics. What goes wrong is told by the
 * next call and by the query, with the rank's name, and no stream stays held.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/base_clock.h"
#include "collective/coll_nodes_run.h"
#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "fixtures/fixture_exchange.h"
#include "fixtures/local_ranks.h"
#include "wire/wire_local.h"

enum { SMALL_BYTES = 1 << 14, TINY_CHUNK = 512, COUNT = 700, STREAMS = 2, TRIES = 12, HELD_S = 30 };

enum { RANKS = 4, LEFT = 3 };

typedef struct job {
    int kind, nth;
    _Atomic int hit;           /* the fault was met */
} job_t;

static float left_seen[RANKS][LEFT][COUNT]; /* by ranks that are gone */

/* What holds a stream until the test lets go of it. */
typedef struct hold {
    _Atomic int open, expired;
} hold_t;

static void hold_kernel(const void *arg, unsigned block, unsigned nblocks)
{
    hold_t *hold = *(hold_t *const *)arg;
    const uint64_t begin_ns = sv_clock_ns();
    (void)block;
    (void)nblocks;
    while (!atomic_load(&hold->open) && !atomic_load(&hold->expired)) {
        if (sv_clock_ns() - begin_ns > (uint64_t)HELD_S * 1000000000U)
            atomic_store(&hold->expired, 1);
        sched_yield();
    }
}

static void hold_stream(local_rank_t *self, hold_t *hold, void *stream)
{
    atomic_store(&hold->open, 0);
    CHECK_STATUS(selvage_device_launch_soft(self->dev, hold_kernel, &hold, sizeof hold, 1, stream), SELVAGE_SUCCESS);
}

/* Nobody waited for what the test only now lets happen. */
static void release_stream(hold_t *hold)
{
    CHECK_EQ(atomic_load(&hold->expired), 0);
    atomic_store(&hold->open, 1);
}

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

static float *make_data(local_rank_t *self, size_t count)
{
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, count * sizeof(float), &memory), SELVAGE_SUCCESS);
    memset(memory, 0, count * sizeof(float));
    return memory;
}

static selvage_status_t sum(selvage_coll_t *coll, float *in, float *out, void *stream)
{
    return selvage_coll_all_reduce(coll, in, out, COUNT, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

typedef struct step {
    const float *from;         /* NULL: a value */
    float *to;
    float value;
} step_t;

static void step_kernel(const void *arg, unsigned block, unsigned nblocks)
{
    const step_t *step = arg;
    (void)block;
    (void)nblocks;
    for (int i = 0; i < COUNT; i++)
        step->to[i] = step->from ? step->from[i] : step->value + (float)(i % 7);
}

static void enqueue_step(local_rank_t *self, void *stream, step_t step)
{
    CHECK_STATUS(selvage_device_launch_soft(self->dev, step_kernel, &step, sizeof step, 1, stream), SELVAGE_SUCCESS);
}

static long count_wrong(const float *data, float value, float factor)
{
    long wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += data[i] != value + factor * (float)(i % 7);
    return wrong;
}

/* The input is written by work before the call on its stream, and overwritten by work after it. */
static void run_order(local_rank_t *self)
{
    enum { TURNS = 5 };
    hold_t hold = {0};
    void *stream[STREAMS];
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    float *in = make_data(self, COUNT), *out = make_data(self, COUNT), *seen = make_data(self, TURNS * COUNT);
    float *other = make_data(self, COUNT);
    const float size = (float)self->size, ranks = size * (size + 1) / 2;
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    hold_stream(self, &hold, stream[0]);
    for (int turn = 0; turn < TURNS; turn++) {
        enqueue_step(self, stream[0], (step_t){.to = in, .value = (float)(self->rank + 1) * (float)(turn + 1)});
        CHECK_STATUS(sum(coll, in, out, stream[0]), SELVAGE_SUCCESS);
        enqueue_step(self, stream[0], (step_t){.to = in, .value = -1});
        enqueue_step(self, stream[0], (step_t){.from = out, .to = seen + turn * COUNT});
        enqueue_step(self, stream[0], (step_t){.to = out, .value = -2});
    }
    /* A call on a stream that is free follows those that are held, as on a node. */
    CHECK_STATUS(sum(coll, other, other, stream[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    CHECK_EQ(atomic_load(&coll->arena->staging->queue->through), 0);
    release_stream(&hold);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream[s]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    for (int turn = 0; turn < TURNS; turn++)
        CHECK_EQ(count_wrong(seen + turn * COUNT, ranks * (float)(turn + 1), size), 0);
    selvage_coll_destroy(coll);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
    selvage_device_free(self->dev, in);
    selvage_device_free(self->dev, out);
    selvage_device_free(self->dev, seen);
    selvage_device_free(self->dev, other);
}

/* --- many under way ----------------------------------------------------------------------------------------------- */

static void fit_to_call(coll_case_t *what)
{
    const coll_terms_t *terms = &what->terms;
    what->any_order = true;
    if (terms->values == COLL_SPECIAL && terms->op != SELVAGE_OP_MIN && terms->op != SELVAGE_OP_MAX)
        what->terms.values = COLL_ORDERED;
}

/* Random calls, those of a kind in groups, of two streams, and more of them than may be under way. */
static void run_many(local_rank_t *self)
{
    coll_try_t try[TRIES];
    coll_case_t what[TRIES];
    void *stream[STREAMS];
    uint64_t state = 91;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    for (int s = 0; s < STREAMS; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
    for (int i = 0; i < TRIES; i++)
        coll_try_open(&try[i], coll, self->dev, SMALL_BYTES, false);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < TRIES; i++) {
            what[i] = coll_case_random(&state, self->size, SMALL_BYTES);
            fit_to_call(&what[i]);
            coll_try_fill(&try[i], &what[i], stream[i % STREAMS]);
        }
        for (int i = 0; i < TRIES; i++) {
            if (round % 2 && i % 4 == 0)
                CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
            CHECK_STATUS(coll_try_call(&try[i], stream[i % STREAMS]), SELVAGE_SUCCESS);
            if (round % 2 && i % 4 == 2)
                CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        }
        for (int i = 0; i < TRIES; i++)
            CHECK_EQ(coll_try_wrong(&try[i], stream[i % STREAMS]), 0);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    for (int i = 0; i < TRIES; i++)
        coll_try_close(&try[i]);
    selvage_coll_destroy(coll);
    for (int s = 0; s < STREAMS; s++)
        selvage_stream_destroy(self->dev, stream[s]);
}

/* As many calls as may be under way return while their stream is held. */
static void run_deep(local_rank_t *self)
{
    hold_t hold = {0};
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, (SV_COLL_FLIGHTS + 3) * COUNT);
    hold_stream(self, &hold, NULL);
    for (int i = 0; i < SV_COLL_FLIGHTS; i++) {
        enqueue_step(self, NULL, (step_t){.to = data + i * COUNT, .value = (float)i});
        CHECK_STATUS(sum(coll, data + i * COUNT, data + i * COUNT, NULL), SELVAGE_SUCCESS);
    }
    CHECK_EQ(atomic_load(&coll->arena->staging->queue->submitted), SV_COLL_FLIGHTS);
    release_stream(&hold);
    for (int i = SV_COLL_FLIGHTS; i < SV_COLL_FLIGHTS + 3; i++) {
        enqueue_step(self, NULL, (step_t){.to = data + i * COUNT, .value = (float)i});
        CHECK_STATUS(sum(coll, data + i * COUNT, data + i * COUNT, NULL), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < SV_COLL_FLIGHTS + 3; i++)
        CHECK_EQ(count_wrong(data + i * COUNT, (float)(i * self->size), (float)self->size), 0);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* --- among others ------------------------------------------------------------------------------------------------- */

enum { PARTS = 3 };

/* Calls of a communicator, of its halves that span nodes, and of the node's ranks, in one order, while an exchange of
   all ranks is under way. Every second round streams are held, so that those of the node have to follow. */
static void run_mixed(local_rank_t *self)
{
    coll_try_t try[TRIES];
    coll_case_t what[TRIES];
    hold_t hold = {0};
    selvage_coll_t *coll = create(self, TINY_CHUNK), *part[PARTS] = {coll, NULL, NULL};
    uint64_t state[PARTS] = {7, 8, 9};
    plan_t plan = {.seed = 4};
    fixture_t fixture;
    for (int r = 0; r < self->size; r++)
        plan_add(&plan, r, (r + 1) % self->size, 3, 5000);
    CHECK_STATUS(selvage_coll_split(coll, self->rank % 2, 0, &part[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_split(coll, self->rank / 2, 0, &part[2]), SELVAGE_SUCCESS);
    CHECK(part[1]->spans && !part[2]->spans);
    if (!fixture_open(&fixture, self, &plan, NULL))
        abort();
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    for (int i = 0; i < TRIES; i++)
        coll_try_open(&try[i], part[i % PARTS], self->dev, SMALL_BYTES, false);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < TRIES; i++) {
            what[i] = coll_case_random(&state[i % PARTS], selvage_coll_size(part[i % PARTS]), SMALL_BYTES);
            fit_to_call(&what[i]);
            coll_try_fill(&try[i], &what[i], NULL);
        }
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        if (round % 2)
            hold_stream(self, &hold, NULL);
        for (int i = 0; i < TRIES; i++) {
            if (i == TRIES / 2) {
                release_stream(&hold);
                CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
            }
            CHECK_STATUS(coll_try_call(&try[i], NULL), SELVAGE_SUCCESS);
        }
        CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&fixture, true), 0);
        for (int i = 0; i < TRIES; i++)
            CHECK_EQ(coll_try_wrong(&try[i], NULL), 0);
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    }
    for (int i = 0; i < TRIES; i++)
        coll_try_close(&try[i]);
    fixture_close(&fixture);
    for (int p = PARTS - 1; p >= 0; p--)
        selvage_coll_destroy(part[p]);
}

/* The host of a rank waits for an exchange whose other end waits for it before its next collective: the thread goes on
   with the one while the other is under way. */
static void run_crossed(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    plan_t plan = {.seed = 5};
    fixture_t fixture;
    for (int r = 0; r < self->size; r++)
        plan_add(&plan, r, (r + 1) % self->size, 1, 900);
    if (!fixture_open(&fixture, self, &plan, NULL))
        abort();
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    for (int turn = 0; turn < 4; turn++) {
        const bool first = (self->rank + turn) % 2;
        if (first)
            CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
        void *stream;
        CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
        CHECK_STATUS(fixture_start(&fixture, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(fixture.ex, stream), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&fixture, true), 0);
        if (!first)
            CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        selvage_stream_destroy(self->dev, stream);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    fixture_close(&fixture);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* Statistics at any time; a capture is refused by name; what sets something up comes after the calls under way. */
static void run_asked(local_rank_t *self)
{
    hold_t hold = {0};
    selvage_coll_t *coll = create(self, 0), *next = NULL, *node = NULL;
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    selvage_window_t *window = NULL;
    selvage_graph_t *graph = NULL;
    float *data = make_data(self, COUNT);
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_split(coll, self->rank / 2, 0, &node), SELVAGE_SUCCESS);
    for (int turn = 0; turn < 3; turn++) {
        hold_stream(self, &hold, NULL);
        enqueue_step(self, NULL, (step_t){.to = data, .value = 1});
        CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(sum(node, data, data, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_stats(coll, &stats), SELVAGE_SUCCESS);
        CHECK_EQ(stats.calls, (uint64_t)turn + 1);
        CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(sum(coll, data, data, stream), SELVAGE_ERR_UNSUPPORTED);
        CHECK(strstr(selvage_error_detail(), "all_reduce: the stream is being captured"));
        CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
        release_stream(&hold);
        if (turn == 0)
            CHECK_STATUS(selvage_coll_register(coll, data, COUNT * sizeof *data, &window), SELVAGE_SUCCESS);
        if (turn == 1)
            CHECK_STATUS(selvage_coll_unregister(window), SELVAGE_SUCCESS);
        if (turn == 2)
            CHECK_STATUS(selvage_coll_create(self->comm, NULL, &next), SELVAGE_SUCCESS);
        CHECK(sv_coll_queue_is_idle(coll->arena));
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(count_wrong(data, (float)(self->size * 2), (float)(self->size * 2)), 0);
    }
    selvage_coll_destroy(next);
    selvage_coll_destroy(node);
    selvage_coll_destroy(coll);
    selvage_stream_destroy(self->dev, stream);
    selvage_device_free(self->dev, data);
}

/* Destroying a communicator of collectives waits for what is under way. Kind 1: nobody destroys it, and that of ranks
   waits, which ends this rank. */
static void run_left(local_rank_t *self)
{
    const job_t *job = self->arg;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    float *data = make_data(self, LEFT * COUNT);
    for (int i = 0; i < LEFT; i++) {
        float *from = data + i * COUNT;
        enqueue_step(self, NULL, (step_t){.to = from, .value = (float)i});
        CHECK_STATUS(sum(coll, from, from, NULL), SELVAGE_SUCCESS);
        enqueue_step(self, NULL, (step_t){.from = from, .to = left_seen[self->rank][i]});
    }
    if (job->kind == 1)
        return;
    selvage_coll_destroy(coll);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    selvage_device_free(self->dev, data);
}

static void check_left(int size)
{
    for (int r = 0; r < size; r++)
        for (int i = 0; i < LEFT; i++)
            CHECK_EQ(count_wrong(left_seen[r][i], (float)(i * size), (float)size), 0);
    memset(left_seen, 0, sizeof left_seen);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* The stream is let go, and the error is there, by the query and by the next call; its detail has the text. */
static void expect_error(local_rank_t *self, selvage_coll_t *coll, selvage_status_t status, const char *text)
{
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), status);
    if (text && !strstr(selvage_error_detail(), text))
        fprintf(stderr, "no \"%s\" in: %s\n", text, selvage_error_detail());
    CHECK(!text || strstr(selvage_error_detail(), text));
    CHECK_STATUS(selvage_coll_barrier(coll, NULL), status);
    CHECK(!text || strstr(selvage_error_detail(), text));
}

/* The second of three calls does not match; the third one never begins, and the first is right. */
static void run_mismatch(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0), *next;
    float *data = make_data(self, COUNT), *late = make_data(self, COUNT);
    enqueue_step(self, NULL, (step_t){.to = data, .value = 1});
    CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    hold_t hold = {0};
    hold_stream(self, &hold, NULL);
    if (self->rank == 2)
        CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(sum(coll, late, late, NULL), SELVAGE_SUCCESS);
    enqueue_step(self, NULL, (step_t){.to = late, .value = 5});
    CHECK_STATUS(sum(coll, late, late, NULL), SELVAGE_SUCCESS);
    release_stream(&hold);
    expect_error(self, coll, SELVAGE_ERR_MISMATCH, "rank 2 called barrier");
    CHECK_EQ(count_wrong(data, (float)self->size, (float)self->size), 0);
    CHECK_EQ(count_wrong(late, 5, 1), 0);
    selvage_coll_destroy(coll);
    next = create(self, 0);
    CHECK_STATUS(selvage_coll_barrier(next, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(next), SELVAGE_SUCCESS);
    selvage_coll_destroy(next);
    selvage_device_free(self->dev, data);
    selvage_device_free(self->dev, late);
}

/* A rank never calls. The others know by the deadline, by name or from who knows it; it knows by its next call. */
static void run_late(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    const bool calls = self->rank != self->size - 1;
    for (int i = 0; i < 3 && calls; i++)
        CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    if (calls)
        expect_error(self, coll, SELVAGE_ERR_TIMEOUT, "rank");
    local_ranks_barrier(self);
    if (!calls) {
        const selvage_status_t status = sum(coll, data, data, NULL);
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_TIMEOUT);
        expect_error(self, coll, SELVAGE_ERR_TIMEOUT, NULL);
    }
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

static void *abort_soon(void *arg)
{
    sv_clock_sleep_until_ns(sv_clock_ns() + UINT64_C(50000000));
    selvage_coll_abort(arg);
    return NULL;
}

/* Another thread aborts calls that wait for a rank that does not come: kind 0; or for their own stream, kind 1. */
static void run_abort(local_rank_t *self)
{
    const job_t *job = self->arg;
    pthread_t thread;
    hold_t hold = {0};
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    if (job->kind == 1 && self->rank == 0)
        hold_stream(self, &hold, NULL);
    if (self->rank == 0)
        CHECK_EQ(pthread_create(&thread, NULL, abort_soon, coll), 0);
    for (int i = 0; i < 3 && (job->kind == 1 || self->rank != self->size - 1); i++) {
        const selvage_status_t status = sum(coll, data, data, NULL);
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_ABORTED);
    }
    if (self->rank == 0) {
        pthread_join(thread, NULL);
        sv_coll_queue_wait(coll->arena);
        release_stream(&hold);
    }
    if (job->kind == 1 || self->rank != self->size - 1)
        expect_error(self, coll, SELVAGE_ERR_ABORTED, NULL);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* What comes damaged each time that it is sent ends with the name of who sent it, where it is found; and the calls
   after it end, too. Every n-th message instead is mended, and nobody notices. */
static void run_damage(local_rank_t *self)
{
    const job_t *job = self->arg;
    selvage_coll_t *coll = create(self, job->kind ? TINY_CHUNK : 0);
    float *data = make_data(self, 12 * COUNT);
    if (job->kind)
        sv_wire_local_corrupt_some(self->comm->wire, 1, 9);
    else if (self->rank == 0)
        sv_wire_local_corrupt_long(self->comm->wire, 1000);
    for (int i = 0; i < 12; i++) {
        enqueue_step(self, NULL, (step_t){.to = data + i * COUNT, .value = (float)i});
        const selvage_status_t status = selvage_coll_all_reduce(coll, data + i * COUNT, data + i * COUNT, COUNT,
                                                                SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL);
        CHECK(status == SELVAGE_SUCCESS || (!job->kind && status == selvage_coll_error(coll)));
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    if (job->kind) {
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
        for (int i = 0; i < 12; i++)
            CHECK_EQ(count_wrong(data + i * COUNT, (float)(i * self->size), (float)self->size), 0);
        sv_wire_local_corrupt_some(self->comm->wire, 0, 0);
        if (self->rank == 0)
            CHECK(coll->arena->staging->repaired > 0);
    } else {
        const selvage_status_t status = selvage_coll_error(coll);
        CHECK(status == SELVAGE_ERR_CHECKSUM || status == SELVAGE_ERR_ABORTED);
        if (self->rank == 0)
            CHECK(strstr(selvage_error_detail(), "rank 2 sent what does not verify in call 1 (all_reduce)"));
        if (self->rank == 2)
            CHECK(strstr(selvage_error_detail(), "rank 0 gave up"));
    }
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* A rank goes while others wait: destroying ends by the deadline. */
static void run_deserted(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    if (self->rank > 0)
        CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    selvage_device_free(self->dev, data);
}

enum { SWEPT = 6, NEVER = 1000000 };

/* One call inside fails, on rank 1: kind says which. Whoever hears of no error has the right results, of all that he was
   told was enqueued; no stream stays held, and nobody waits for longer than the deadline. */
static void run_swept(local_rank_t *self)
{
    job_t *job = self->arg;
    selvage_status_t status[SWEPT], error;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    float *data = make_data(self, SWEPT * COUNT);
    const uint64_t begin_ns = sv_clock_ns();
    _Atomic int64_t *countdown = &self->comm->fault.call_countdown[job->kind];
    local_ranks_barrier(self);
    sv_comm_bind(self->comm);
    if (self->rank == 1)
        atomic_store(countdown, job->nth);
    for (int i = 0; i < SWEPT; i++) {
        for (int k = 0; k < COUNT; k++)
            data[i * COUNT + k] = (float)(i + k % 7);
        if (i == SWEPT - 2)
            CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        status[i] = sum(coll, data + i * COUNT, data + i * COUNT, NULL);
    }
    const selvage_status_t ended = selvage_coll_group_end(coll);
    if (ended != SELVAGE_SUCCESS)
        status[SWEPT - 1] = status[SWEPT - 2] = ended;
    while (!sv_coll_queue_is_idle(coll->arena))
        sched_yield();
    if (self->rank == 1)
        job->hit = atomic_exchange(countdown, NEVER) <= 0;
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    error = selvage_coll_error(coll);
    for (int i = 0; i < SWEPT; i++)
        if (error == SELVAGE_SUCCESS && status[i] == SELVAGE_SUCCESS)
            CHECK_EQ(count_wrong(data + i * COUNT, (float)(i * self->size), (float)self->size), 0);
    CHECK((double)(sv_clock_ns() - begin_ns) < 20e9);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

static void sweep(sv_fault_call_t kind, const char *name, int step)
{
    int runs = 0;
    job_t job = {.kind = (int)kind, .hit = 1};
    for (job.nth = 1; job.hit; job.nth += step, runs++) {
        const long failed = atomic_load(&check_failed_);
        local_ranks_env("PROGRESS=thread TIMEOUT_S=1 FAULT=device=1000000,wire=1000000,alloc=1000000");
        local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = 2, .body = run_swept, .arg = &job,
                                       .log_expected = true, .may_set_aside = true});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "%s call %d\n", name, job.nth);
    }
    printf("failed %d of the first %d %s calls\n", runs, job.nth - step, name);
    CHECK(runs > 1); /* the last one met nothing */
}

static void run(int size, int ranks_per_node, void (*body)(local_rank_t *self), int kind, const char *environment,
                bool fails)
{
    job_t job = {.kind = kind};
    char list[200];
    const long failed = atomic_load(&check_failed_);
    snprintf(list, sizeof list, "PROGRESS=thread %s", environment);
    local_ranks_env(list);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = body, .arg = &job,
                                   .log_expected = fails, .may_set_aside = fails});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, %d per node, kind %d, %s\n", size, ranks_per_node, kind, list);
}

int main(void)
{
    run(2, 1, run_order, 0, "", false);
    run(4, 2, run_order, 0, "", false);
    run(3, 1, run_order, 0, "COLL_INTERNODE=chain", false);
    run(4, 2, run_many, 0, "", false);
    run(3, 1, run_many, 0, "", false);
    run(2, 1, run_deep, 0, "", false);
    run(4, 2, run_deep, 0, "", false);
    run(4, 2, run_mixed, 0, "", false);
    run(4, 2, run_crossed, 0, "", false);
    run(2, 1, run_crossed, 0, "", false);
    run(4, 2, run_asked, 0, "", true);
    run(4, 2, run_left, 0, "", false);
    check_left(4);
    run(4, 2, run_left, 1, "", true);
    check_left(4);
    run(4, 2, run_mismatch, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_late, 0, "TIMEOUT_S=1", true);
    run(3, 1, run_late, 0, "TIMEOUT_S=1", true);
    run(4, 2, run_abort, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_abort, 1, "TIMEOUT_S=20", true);
    run(4, 2, run_damage, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_damage, 1, "TIMEOUT_S=20", true);
    run(4, 2, run_deserted, 0, "TIMEOUT_S=1", true);
    sweep(SV_FAULT_CALL_DEVICE, "device", check_brief() ? 29 : 7);
    sweep(SV_FAULT_CALL_WIRE, "wire", check_brief() ? 97 : 31);
    sweep(SV_FAULT_CALL_ALLOC, "alloc", 1);
    return check_report("test_coll_enqueued");
}
