/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives between nodes that are only enqueued, with a progress thread and threads as ranks: a call returns while
 * work before it on its stream is held, and what comes later on the stream sees its result. Many are under way at a
 * time, on several streams, among calls of one node, exchanges, windows and statistics.
 */
#include <pthread.h>

#include "comm/comm_control.h"
#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "fixtures/coll_held.h"
#include "fixtures/fixture_exchange.h"
#include "fixtures/local_ranks.h"

enum { SMALL_BYTES = 1 << 14, STREAMS = 2, TRIES = 12, RANKS = 4, LEFT = 3 };

typedef struct job {
    int kind;
} job_t;

static float left_seen[RANKS][LEFT][COUNT]; /* by ranks that are gone */

/* --- order -------------------------------------------------------------------------------------------------------- */

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

static void *release_soon(void *arg)
{
    sv_clock_sleep_until_ns(sv_clock_ns() + UINT64_C(100000000));
    release_stream(arg);
    return NULL;
}

static selvage_status_t agree_on_error(void *arg)
{
    const local_rank_t *self = arg;
    uint64_t unused = 0;
    return sv_agree(self->comm, "test", 0, self->rank == 1 ? SELVAGE_ERR_LIMIT : SELVAGE_SUCCESS, &unused, 20);
}

/* What ranks agree to refuse has nothing to do with calls that are under way, whose rank 0 is not there yet. */
static void run_agreed(local_rank_t *self)
{
    hold_t hold = {0};
    pthread_t thread;
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    if (self->rank == 0) {
        hold_stream(self, &hold, NULL);
        CHECK_EQ(pthread_create(&thread, NULL, release_soon, &hold), 0);
    }
    enqueue_step(self, NULL, (step_t){.to = data, .value = 3});
    CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_comm_run(self->comm, agree_on_error, self), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    CHECK_EQ(count_wrong(data, (float)(3 * self->size), (float)self->size), 0);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    selvage_coll_destroy(coll);
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
    run(4, 2, run_agreed, 0, "", true);
    run(4, 2, run_left, 0, "", false);
    check_left(4);
    run(4, 2, run_left, 1, "", true);
    check_left(4);
    return check_report("test_coll_enqueued");
}
