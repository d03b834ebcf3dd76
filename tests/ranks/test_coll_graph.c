/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in graphs, with threads as ranks: every call by every algorithm and protocol, alone and in groups of more
 * than one launch takes, captured once and replayed with new data each time, mixed with calls that are not captured.
 * Every element of every replay is compared with the reference. Then a rank that does not come to a replay; and what
 * must be refused.
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { CALLS = 7, CAPACITY = 1 << 15, ROUNDS = 12, ROUNDS_BRIEF = 8, ROUNDS_OF_SHORT = 300 };

typedef struct graph_job {
    uint64_t seed;
    int call;                  /* all are this one; -1: any */
    unsigned rounds;
    uint64_t count;            /* elements at most; 0: what fits */
} graph_job_t;

typedef struct player {
    selvage_coll_t *coll;
    void *stream;
    coll_try_t try[CALLS];
    coll_case_t what[CALLS];
    selvage_graph_t *graph[2]; /* call by call, and in one group */
} player_t;

static void call_all(player_t *player, bool grouped)
{
    if (grouped)
        CHECK_STATUS(selvage_coll_group_begin(player->coll), SELVAGE_SUCCESS);
    for (int i = 0; i < CALLS; i++)
        CHECK_STATUS(coll_try_call(&player->try[i], player->stream), SELVAGE_SUCCESS);
    if (grouped)
        CHECK_STATUS(selvage_coll_group_end(player->coll), SELVAGE_SUCCESS);
}

/* Other data for the same calls. Whom a pair is with follows from the seed, so that its data stays. */
static void fill_all(player_t *player, uint64_t *state)
{
    for (int i = 0; i < CALLS; i++) {
        const uint64_t seed = coll_random(state, UINT64_C(1) << 40);
        if (player->what[i].call != COLL_PAIRS)
            player->what[i].terms.seed = seed;
        coll_try_fill(&player->try[i], &player->what[i], player->stream);
    }
}

static void draw_calls(player_t *player, const graph_job_t *job, int size, uint64_t *state)
{
    for (int i = 0; i < CALLS; i++) {
        coll_case_t *what = &player->what[i];
        *what = coll_case_random(state, size, CAPACITY);
        if (job->call >= 0)
            what->call = job->call;
        if (job->count && what->count > job->count)
            what->count = job->count;
        what->terms.values = COLL_SMALL; /* right in every order */
        what->terms.scaled = false;      /* a scalar would be that of the capture */
        what->any_order = true;
        what->shift = 0;
    }
}

static void capture_calls(player_t *player, selvage_device_t *dev)
{
    for (int grouped = 0; grouped < 2; grouped++) {
        CHECK_STATUS(selvage_graph_begin(dev, player->stream), SELVAGE_SUCCESS);
        call_all(player, grouped);
        CHECK_STATUS(selvage_graph_end(dev, player->stream, &player->graph[grouped]), SELVAGE_SUCCESS);
    }
}

static void run_replayed(local_rank_t *self)
{
    const graph_job_t *job = self->arg;
    player_t player = {0};
    uint64_t state = job->seed;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &player.coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &player.stream), SELVAGE_SUCCESS);
    for (int i = 0; i < CALLS; i++)
        coll_try_open(&player.try[i], player.coll, self->dev, CAPACITY, i % 2);
    draw_calls(&player, job, self->size, &state);
    fill_all(&player, &state);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, player.stream), SELVAGE_SUCCESS); /* it is filled again */
    capture_calls(&player, self->dev);
    for (unsigned round = 0; round < job->rounds; round++) {
        const uint64_t way = coll_random(&state, 4);
        fill_all(&player, &state);
        if (way < 2)
            CHECK_STATUS(selvage_graph_launch(self->dev, player.graph[way], player.stream), SELVAGE_SUCCESS);
        else
            call_all(&player, way == 3);
        for (int i = 0; i < CALLS; i++)
            CHECK_EQ(coll_try_wrong(&player.try[i], player.stream), 0);
        CHECK_STATUS(selvage_coll_error(player.coll), SELVAGE_SUCCESS);
    }
    for (int g = 0; g < 2; g++)
        selvage_graph_destroy(self->dev, player.graph[g]);
    for (int i = 0; i < CALLS; i++)
        coll_try_close(&player.try[i]);
    selvage_coll_destroy(player.coll);
    selvage_stream_destroy(self->dev, player.stream);
}

static void play(const char *env, int size, graph_job_t job)
{
    const long failed = atomic_load(&check_failed_);
    if (check_brief() && job.rounds > ROUNDS_BRIEF)
        job.rounds = ROUNDS_BRIEF;
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = size, .body = run_replayed, .arg = &job});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %d ranks, seed %d, call %d, %s\n", size, (int)job.seed, job.call, env);
}

static void test_replayed(void)
{
    static const int ranks[] = {1, 2, 3, 8};
    static const char *const environments[] = {
        "", "COLL_WORK_FIFO=always", "COLL_ALGO=ring COLL_PROTO=simple", "COLL_ALGO=ring COLL_PROTO=ll128",
        "COLL_ALGO=twoshot COLL_PROTO=ll", "COLL_ALGO=oneshot COLL_PROTO=simple",
        "COLL_ALGO=direct COLL_CHANNELS_MIN=4",
        "COLL_ALGO=pat"};
    for (unsigned e = 0; e < sizeof environments / sizeof environments[0]; e++)
        for (unsigned r = e % 2; r < 4; r += 2)
            play(environments[e], ranks[r], (graph_job_t){.seed = 100 * e + r + 1, .call = -1, .rounds = ROUNDS});
    for (int call = 0; call < COLL_CALLS; call++)
        play("", 3, (graph_job_t){.seed = 7, .call = call, .rounds = ROUNDS});
    play("", 2, (graph_job_t){.seed = 9, .call = COLL_ALL_REDUCE, .rounds = ROUNDS_OF_SHORT, .count = 256});
}

/* Rank 1 replays once less: the others are told whom they missed, by the next call. */
static void run_missed(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    void *stream, *memory;
    selvage_graph_t *graph = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, 64, &memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 16, SELVAGE_INT32, SELVAGE_OP_SUM, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    for (int i = 0; i < 3 - (self->rank == 1); i++)
        CHECK_STATUS(selvage_graph_launch(self->dev, graph, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    if (self->rank != 1) {
        CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 16, SELVAGE_INT32, SELVAGE_OP_SUM, stream),
                     SELVAGE_ERR_TIMEOUT);
        CHECK(strstr(selvage_error_detail(), "rank 1") != NULL);
    }
    local_ranks_barrier(self);
    selvage_graph_destroy(self->dev, graph);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    selvage_stream_destroy(self->dev, stream);
}

static void test_missed(void)
{
    local_ranks_env("TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 3, .body = run_missed, .log_expected = true});
}

/* Between nodes a collective is the host's. */
static void run_apart(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    void *stream, *memory;
    selvage_graph_t *graph = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, 64, &memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 16, SELVAGE_INT32, SELVAGE_OP_SUM, stream),
                 SELVAGE_ERR_UNSUPPORTED);
    CHECK(strstr(selvage_error_detail(), "all_reduce: the stream is being captured") != NULL);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    selvage_graph_destroy(self->dev, graph);
    CHECK_STATUS(selvage_coll_all_reduce(coll, memory, memory, 16, SELVAGE_INT32, SELVAGE_OP_SUM, stream),
                 SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    selvage_stream_destroy(self->dev, stream);
}

static void test_apart(void)
{
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = 4, .ranks_per_node = 2, .body = run_apart, .log_expected = true});
}

int main(void)
{
    test_replayed();
    test_missed();
    test_apart();
    return check_report("test_coll_graph");
}
