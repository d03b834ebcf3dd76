/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in groups, and what lies around them, with threads as ranks: many calls of several streams in one launch,
 * nested groups, sends and receives by random permutations, splits that outlive their parent, 10,000 calls through a
 * small work FIFO whose positions wrap, completions that are polled, counters.
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { STREAMS = 3, CALLS = 14, CAPACITY = 1 << 16, FIFO_CALLS = 10000, FIFO_CALLS_BRIEF = 2000, FIFO_RANKS = 3 };

typedef struct group_job {
    uint64_t seed;
    bool only_pairs;
} group_job_t;

static selvage_coll_t *create(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    return coll;
}

static void open_streams(local_rank_t *self, void **stream, int count)
{
    for (int s = 0; s < count; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &stream[s]), SELVAGE_SUCCESS);
}

static void close_streams(local_rank_t *self, void **stream, int count)
{
    for (int s = 0; s < count; s++)
        selvage_stream_destroy(self->dev, stream[s]);
}

/* The calls of one group, on their streams; in the middle a group within the group. */
static void call_group(selvage_coll_t *coll, coll_try_t *try, int count, void **stream)
{
    CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
    for (int i = 0; i < count; i++) {
        if (i == count / 3)
            CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(coll_try_call(&try[i], stream[i % STREAMS]), SELVAGE_SUCCESS);
        if (i == 2 * count / 3)
            CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
}

static coll_case_t draw(uint64_t *state, int size, bool only_pairs)
{
    coll_case_t what = coll_case_random(state, size, CAPACITY);
    if (only_pairs)
        what.call = COLL_PAIRS;
    what.terms.values = COLL_SMALL; /* right in every order */
    what.any_order = true;
    return what;
}

static void run_groups(local_rank_t *self)
{
    const group_job_t *job = self->arg;
    static const int counts[] = {CALLS, 1, 3, CALLS};
    selvage_coll_t *coll = create(self);
    coll_try_t try[CALLS];
    coll_case_t what[CALLS];
    void *stream[STREAMS];
    uint64_t state = job->seed;
    open_streams(self, stream, STREAMS);
    for (int i = 0; i < CALLS; i++)
        coll_try_open(&try[i], coll, self->dev, CAPACITY, i < 2);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < counts[round]; i++) {
            what[i] = draw(&state, self->size, job->only_pairs);
            coll_try_fill(&try[i], &what[i], stream[i % STREAMS]);
        }
        call_group(coll, try, counts[round], stream);
        for (int i = 0; i < counts[round]; i++)
            CHECK_EQ(coll_try_wrong(&try[i], stream[i % STREAMS]), 0);
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    }
    for (int i = 0; i < CALLS; i++)
        coll_try_close(&try[i]);
    selvage_coll_destroy(coll);
    close_streams(self, stream, STREAMS);
}

static void test_groups(void)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    static const char *const environments[] = {"", "COLL_WORK_FIFO=always", "COLL_ALGO=ring COLL_PROTO=simple",
                                               "COLL_CHANNELS_MAX=1", "COLL_ALGO=direct COLL_CHANNELS_MIN=4"};
    for (unsigned e = 0; e < 5; e++)
        for (unsigned r = 0; r < 5; r++) {
            group_job_t job = {.seed = 100 * e + r, .only_pairs = (e + r) % 2};
            long failed = atomic_load(&check_failed_);
            local_ranks_env(environments[e]);
            local_ranks_run(&(local_run_t){.size = ranks[r], .body = run_groups, .arg = &job});
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "%d ranks, seed %d, %s\n", ranks[r], (int)job.seed, environments[e]);
        }
}

/* A pair is the business of two: the others make no call at all. */
static void run_one_way(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    void *stream, *memory;
    int32_t here[500];
    open_streams(self, &stream, 1);
    CHECK_STATUS(selvage_device_malloc(self->dev, sizeof here, &memory), SELVAGE_SUCCESS);
    int32_t *there = memory;
    for (int turn = 1; turn <= 20; turn++) {
        size_t count = turn % 3 ? (size_t)turn * 25 : 0;
        for (int i = 0; i < 500; i++)
            there[i] = self->rank == 0 ? 1000 * turn + i : -1;
        if (self->rank == 0)
            CHECK_STATUS(selvage_coll_send(coll, there, count, SELVAGE_INT32, 2, stream), SELVAGE_SUCCESS);
        if (self->rank == 2)
            CHECK_STATUS(selvage_coll_recv(coll, there, count, SELVAGE_INT32, 0, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        for (int i = 0; i < 500 && self->rank == 2; i++)
            CHECK_EQ(there[i], (size_t)i < count ? 1000 * turn + i : -1);
    }
    CHECK_STATUS(selvage_coll_barrier(coll, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    close_streams(self, &stream, 1);
}

/* At the end of a line of ranks there is nobody: what is sent there goes nowhere, and nothing comes from there. */
static void run_line(local_rank_t *self)
{
    selvage_coll_t *coll = create(self);
    const int left = self->rank > 0 ? self->rank - 1 : MPI_PROC_NULL;
    const int right = self->rank < self->size - 1 ? self->rank + 1 : MPI_PROC_NULL;
    void *stream, *memory;
    open_streams(self, &stream, 1);
    CHECK_STATUS(selvage_device_malloc(self->dev, 2 * sizeof(int32_t), &memory), SELVAGE_SUCCESS);
    int32_t *there = memory;
    for (int grouped = 0; grouped < 2; grouped++) {
        there[0] = 10 + self->rank;
        there[1] = -1;
        if (grouped)
            CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_send(coll, there, 1, SELVAGE_INT32, right, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_recv(coll, there + 1, 1, SELVAGE_INT32, left, stream), SELVAGE_SUCCESS);
        if (grouped)
            CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        CHECK_EQ(there[1], left == MPI_PROC_NULL ? -1 : 10 + left);
    }
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    close_streams(self, &stream, 1);
}

/* Work on a stream after a barrier starts after the work of all ranks before it. */
static void run_barrier(local_rank_t *self)
{
    static _Atomic int arrived;
    selvage_coll_t *coll = create(self);
    void *stream;
    open_streams(self, &stream, 1);
    if (self->rank == 0)
        atomic_store(&arrived, 0);
    local_ranks_barrier(self);
    for (int turn = 1; turn <= 10; turn++) {
        CHECK_STATUS(selvage_device_delay_us(self->dev, 500.0 * (double)((self->rank + turn) % self->size), stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        atomic_fetch_add(&arrived, 1);
        CHECK_STATUS(selvage_coll_barrier(coll, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        CHECK(atomic_load(&arrived) >= turn * self->size);
    }
    selvage_coll_destroy(coll);
    close_streams(self, &stream, 1);
}

/* What every call multiplies by the number of ranks, which is odd: a call more or less, and the value is another. */
static void submit_many(selvage_coll_t *coll, uint32_t *value, int calls, void *stream)
{
    for (int i = 0; i < calls;) {
        int group = i / 100 % 2 ? 1 : 20;
        if (group > 1)
            CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        for (int g = 0; g < group; g++, i++)
            CHECK_STATUS(selvage_coll_all_reduce(coll, value, value, 1, SELVAGE_UINT32, SELVAGE_OP_SUM, stream),
                         SELVAGE_SUCCESS);
        if (group > 1)
            CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
    }
}

/* Positions in the FIFO pass 2^32 on the way. */
static void start_fifo_late(sv_coll_arena_t *arena)
{
    CHECK_EQ(arena->fifo_produced, 0);
    arena->fifo_produced = 0u - 100 * SV_COLL_FIFO_STRIDE;
    __atomic_store_n(&arena->pinned->consumed, arena->fifo_produced, __ATOMIC_RELEASE);
}

static void run_fifo(local_rank_t *self)
{
    const int calls = check_brief() ? FIFO_CALLS_BRIEF : FIFO_CALLS;
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    selvage_coll_t *coll = create(self);
    uint32_t *value, wanted = 1;
    void *stream, *memory;
    open_streams(self, &stream, 1);
    CHECK_STATUS(selvage_device_malloc(self->dev, sizeof *value, &memory), SELVAGE_SUCCESS);
    value = memory;
    *value = 1;
    start_fifo_late(coll->arena);
    CHECK_STATUS(selvage_device_delay_us(self->dev, 50000, stream), SELVAGE_SUCCESS);
    submit_many(coll, value, calls, stream);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    for (int i = 0; i < calls; i++)
        wanted *= FIFO_RANKS;
    CHECK_EQ(*value, wanted);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_stats(coll, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.fifo_bytes, 64 << 10);
    CHECK(stats.fifo_waits > 0);
    CHECK_EQ(stats.calls, calls);
    CHECK_EQ(stats.launches, calls / 2 + calls / 2 / 20);
    CHECK_EQ(stats.started, stats.completed);
    CHECK(stats.completed >= (uint64_t)calls);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    close_streams(self, &stream, 1);
}

typedef struct completion {
    int number, *count, *order;
} completion_t;

static void item_completion(void *arg)
{
    completion_t *completion = arg;
    completion->order[(*completion->count)++] = completion->number;
}

/* Completions come in order, from a poll, and not before their launch is complete. */
static void run_callbacks(local_rank_t *self)
{
    enum { TURNS = 8 };
    int count = 0, order[TURNS];
    completion_t completion[TURNS];
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    selvage_coll_t *coll = create(self);
    void *stream;
    open_streams(self, &stream, 1);
    CHECK_STATUS(selvage_device_delay_us(self->dev, 30000, stream), SELVAGE_SUCCESS);
    for (int i = 0; i < TURNS; i++) {
        completion[i] = (completion_t){.number = i, .count = &count, .order = order};
        CHECK_STATUS(selvage_coll_barrier(coll, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_coll_when_complete(coll->arena, item_completion, &completion[i]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    for (int turn = 0; turn < 1000 && count < TURNS; turn++)
        sv_coll_poll(coll->arena);
    CHECK_EQ(count, TURNS);
    for (int i = 0; i < count; i++)
        CHECK_EQ(order[i], i);
    CHECK_STATUS(selvage_coll_stats(coll, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.callbacks, TURNS);
    selvage_coll_destroy(coll);
    close_streams(self, &stream, 1);
}

static void run_cases(local_rank_t *self, selvage_coll_t *coll, uint64_t seed, int count)
{
    coll_try_t try;
    void *stream;
    uint64_t state = seed;
    open_streams(self, &stream, 1);
    coll_try_open(&try, coll, self->dev, CAPACITY, seed % 2);
    for (int i = 0; i < count; i++) {
        coll_case_t what = draw(&state, selvage_coll_size(coll), false);
        coll_try_run(&try, &what, stream);
    }
    coll_try_close(&try);
    close_streams(self, &stream, 1);
}

/* Ranks in two parts, in reverse order, one rank in none; on the same arena, which outlives the parent. */
static void run_splits(local_rank_t *self)
{
    selvage_coll_stats_t whole = {SELVAGE_COLL_STATS_INIT}, part = {SELVAGE_COLL_STATS_INIT};
    selvage_coll_t *coll = create(self), *half = NULL, *same = NULL;
    int color = self->rank == 3 ? -1 : self->rank % 2;
    CHECK_STATUS(selvage_coll_split(coll, color, -self->rank, &half), SELVAGE_SUCCESS);
    CHECK(color >= 0 ? half != NULL : half == NULL);
    CHECK_STATUS(selvage_coll_split(coll, 7, 0, &same), SELVAGE_SUCCESS);
    CHECK_EQ(selvage_coll_rank(same), self->rank);
    CHECK_EQ(selvage_coll_size(same), self->size);
    run_cases(self, coll, 21, 5);
    if (half) {
        int members = 0, before = 0;
        for (int r = 0; r < self->size; r++) {
            members += r != 3 && r % 2 == color;
            before += r != 3 && r % 2 == color && r > self->rank;
        }
        CHECK_EQ(selvage_coll_size(half), members);
        CHECK_EQ(selvage_coll_rank(half), before);
        run_cases(self, half, 30 + (uint64_t)color, 8);
        CHECK_STATUS(selvage_coll_stats(coll, &whole), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_stats(half, &part), SELVAGE_SUCCESS);
        CHECK_EQ(part.arena_bytes, whole.arena_bytes);
    }
    selvage_coll_destroy(coll);
    run_cases(self, same, 40, 5);
    if (half)
        run_cases(self, half, 50 + (uint64_t)color, 5);
    selvage_coll_destroy(half);
    run_cases(self, same, 61, 5);
    selvage_coll_destroy(same);
}

/* Each rank with each other one, by those two alone, and then all but one in reverse order. Pairs have one number where
   they share no ranks, and several where they do. */
static void run_among(local_rank_t *self)
{
    enum { MOST = 8 };
    selvage_coll_t *coll = create(self), *part[MOST] = {NULL};
    int ranks[MOST];
    for (int a = 0; a < self->size; a++)
        for (int b = a + 1; b < self->size; b++) {
            const int pair[] = {b, a}, other = self->rank == a ? b : a;
            if (self->rank != a && self->rank != b)
                continue;
            CHECK_STATUS(selvage_coll_create_among(coll, 2, pair, &part[other]), SELVAGE_SUCCESS);
            CHECK_EQ(selvage_coll_size(part[other]), 2);
            CHECK_EQ(selvage_coll_rank(part[other]), self->rank == a);
        }
    int n = 0;
    for (int r = self->size - 1; r > 0; r--)
        ranks[n++] = r;
    if (self->rank > 0) {
        CHECK_STATUS(selvage_coll_create_among(coll, n, ranks, &part[self->rank]), SELVAGE_SUCCESS);
        CHECK_EQ(selvage_coll_rank(part[self->rank]), self->size - 1 - self->rank);
        run_cases(self, part[self->rank], 70, 5);
    }
    for (int a = 0; a < self->size; a++)
        for (int b = a + 1; b < self->size; b++)
            if (self->rank == a || self->rank == b)
                run_cases(self, part[self->rank == a ? b : a], 80 + (uint64_t)(a * self->size + b), 3);
    selvage_coll_destroy(coll);
    for (int a = 0; a < self->size; a++)
        for (int b = a + 1; b < self->size; b++)
            if (self->rank == a || self->rank == b)
                selvage_coll_destroy(part[self->rank == a ? b : a]);
    selvage_coll_destroy(part[self->rank]);
}

/* Lists that are refused on one rank alone. */
static void refuse_lists(const local_rank_t *self, selvage_coll_t *coll)
{
    const int twice[] = {self->rank, self->rank}, beyond[] = {self->rank, self->size}, other[] = {self->rank == 0};
    selvage_coll_t *part = NULL;
    CHECK_STATUS(selvage_coll_create_among(NULL, 1, other, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, 1, NULL, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, 1, other, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, 0, other, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, self->size + 1, other, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, 2, beyond, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create_among(coll, 2, twice, &part), SELVAGE_ERR_ARGUMENT);
    CHECK(self->size == 1 || strstr(selvage_error_detail(), "in ranks[0] and [1]") != NULL);
    CHECK_STATUS(selvage_coll_create_among(coll, 1, other, &part), SELVAGE_ERR_ARGUMENT);
    CHECK(self->size == 1 || strstr(selvage_error_detail(), "is not in the list") != NULL);
    CHECK(part == NULL);
}

/* An error of a call is that of its group, of which nothing is launched; the next group is a new one. */
static void run_refused_group(local_rank_t *self)
{
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    selvage_coll_t *coll = create(self);
    void *stream;
    open_streams(self, &stream, 1);
    refuse_lists(self, coll);
    CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_barrier(coll, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_send(coll, NULL, 0, SELVAGE_INT8, self->size, stream), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_stats(coll, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.launches, 0);
    run_cases(self, coll, 71, 3);
    selvage_coll_destroy(coll);
    close_streams(self, &stream, 1);
}

static void run(int size, void (*body)(local_rank_t *self), const char *environment)
{
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .body = body, .log_expected = body == run_refused_group});
}

int main(void)
{
    test_groups();
    run(3, run_one_way, "");
    run(3, run_line, "");
    run(4, run_barrier, "");
    run(FIFO_RANKS, run_fifo, "WORK_FIFO_BYTES=64K COLL_WORK_FIFO=always COLL_CHANNELS_MAX=1");
    run(1, run_callbacks, "");
    run(3, run_callbacks, "");
    run(5, run_splits, "");
    run(6, run_splits, "COLL_ALGO=ring");
    run(4, run_among, "");
    run(3, run_among, "COLL_ALGO=ring");
    run(1, run_refused_group, "");
    run(3, run_refused_group, "");
    return check_report("test_coll_group");
}
