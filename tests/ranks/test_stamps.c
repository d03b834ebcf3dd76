/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time stamps inside kernels, with threads as ranks, read back from the timeline as selvage-trace reads it. Every kind
 * of kernel takes those that it should, in order and within the time that the host saw pass; parts add up. What finds
 * no room is counted, and so is what a replay took the place of and what did not end; without the variable there are
 * none; a rank that comes late is named; device calls that fail.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "comm/comm_stamps.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "tools/trace/trace_blame.h"
#include <selvage/collective.h>

enum { MAX_RANKS = 4, LATE_US = 120000, TRIES = 12 };

typedef enum habit { BY_WAIT, BY_RUN, BY_ENQUEUE } habit_t;

typedef struct job {
    plan_t plan;
    unsigned epochs;
    habit_t habit;
    int late_rank;          /* -1: none; comes late in epoch or call 3 */
    uint64_t begin_ns[MAX_RANKS], end_ns[MAX_RANKS];
} job_t;

static job_t job;
static char path[64];

static void make_ring(int size, size_t bytes)
{
    job.plan = (plan_t){.seed = bytes};
    for (int r = 0; r < size; r++)
        for (int tag = 0; tag < 2; tag++)
            plan_add(&job.plan, r, (r + 1) % size, tag, bytes);
}

static selvage_status_t run_epoch(fixture_t *fixture, void *stream)
{
    if (job.habit == BY_RUN) {
        fixture_fill(fixture);
        fixture->epoch++;
        return selvage_exchange_run(fixture->ex, stream);
    }
    selvage_status_t status = fixture_start(fixture, stream);
    if (status != SELVAGE_SUCCESS)
        return status;
    return job.habit == BY_WAIT ? selvage_exchange_wait(fixture->ex, stream)
                                : selvage_exchange_enqueue_wait(fixture->ex, stream);
}

static void exchange(local_rank_t *self)
{
    fixture_t fixture;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (fixture_open(&fixture, self, &job.plan, NULL)) {
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        job.begin_ns[self->rank] = sv_clock_ns();
        for (unsigned epoch = 1; epoch <= job.epochs; epoch++) {
            if (epoch == 3 && self->rank == job.late_rank)
                usleep(LATE_US);
            CHECK_STATUS(run_epoch(&fixture, stream), SELVAGE_SUCCESS);
            if (job.habit != BY_WAIT) /* the data of the next epoch are written by the host */
                CHECK_STATUS(selvage_exchange_wait(fixture.ex, stream), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
            CHECK_EQ(fixture_wrong(&fixture, true), 0);
        }
        job.end_ns[self->rank] = sv_clock_ns();
    }
    fixture_close(&fixture);
    selvage_stream_destroy(self->dev, stream);
}

/* All ranks are on one machine: what the file says in rank 0's clock is in each one's. */
static void read_back(trace_file_t *file, trace_blame_t *blame)
{
    char error[256] = "";
    bool good = trace_file_read(path, file, error, sizeof error);
    CHECK_STR(error, "");
    CHECK(good && trace_blame_find(file, blame));
}

static void let_go(trace_file_t *file, trace_blame_t *blame)
{
    trace_file_free(file);
    trace_blame_free(blame);
}

static void set(const char *more)
{
    char list[256];
    snprintf(list, sizeof list, "TIMEOUT_S=30 TRACE=%s TRACE_KERNELS=on %s", path, more);
    local_ranks_env(list);
}

static const trace_end_t *find_end(const trace_file_t *file, const char *name)
{
    for (size_t i = 0; i < file->nends; i++)
        if (strcmp(file->ends[i].name, name) == 0)
            return &file->ends[i];
    return NULL;
}

/* Every one of a name has those stamps, in that order, and no others. */
static void check_stamps(const trace_file_t *file, const char *name, const trace_stamp_t *stamps, int count)
{
    CHECK(find_end(file, name) != NULL);
    for (size_t i = 0; i < file->nends; i++) {
        const trace_end_t *end = &file->ends[i];
        unsigned here = 0, wanted = 0;
        if (strcmp(end->name, name) != 0)
            continue;
        for (int s = 0; s < TRACE_STAMPS; s++)
            here |= (end->at_ns[s] != 0) << s;
        for (int s = 0; s < count; s++) {
            wanted |= 1u << stamps[s];
            CHECK(s == 0 || end->at_ns[stamps[s - 1]] <= end->at_ns[stamps[s]]);
        }
        CHECK_EQ(here, wanted);
    }
}

/* Parts are what the host saw pass, but for what launches and synchronizing took. */
static void check_shares(const trace_file_t *file, const trace_blame_t *blame, int size, int64_t slack_ns)
{
    int64_t all_ns = 0;
    for (size_t i = 0; i < blame->ncauses; i++)
        all_ns += blame->causes[i].ns;
    CHECK_EQ(all_ns, blame->total_ns);
    CHECK_EQ(file->nranks, size);
    for (int r = 0; r < size; r++) {
        const trace_share_t *share = &blame->shares[r];
        const int64_t host_ns = (int64_t)(job.end_ns[r] - job.begin_ns[r]);
        const int64_t parts_ns =
            share->wait_ns + share->store_ns + share->verify_ns + share->end_ns + share->between_ns;
        CHECK_EQ(parts_ns, share->last_ns - share->first_ns);
        CHECK(share->first_ns >= (int64_t)job.begin_ns[r] && share->last_ns <= (int64_t)job.end_ns[r]);
        CHECK(parts_ns <= host_ns && parts_ns + slack_ns + host_ns / 50 >= host_ns);
        CHECK(file->ranks[r].here && file->ranks[r].unfinished == 0 && file->ranks[r].overwritten == 0);
    }
}

static void test_packets(void)
{
    static const struct { const char *env; habit_t habit; size_t bytes; } cases[] = {
        {"", BY_WAIT, 4000},
        {"", BY_RUN, 4000},
        {"SOFT_BLOCKS=8 KERNEL_PEER_MAX_BYTES=4M", BY_RUN, 300000},
        {"", BY_ENQUEUE, 4000},
        {"ROUTE=shared", BY_WAIT, 4000},
        {"ROUTE=staged", BY_WAIT, 4000},
        {"SOFT_MODE=inline", BY_WAIT, 4000},
        {"PROGRESS=thread", BY_WAIT, 4000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        trace_file_t file;
        trace_blame_t blame;
        job.habit = cases[i].habit;
        job.epochs = 20;
        job.late_rank = -1;
        make_ring(3, cases[i].bytes);
        set(cases[i].env);
        local_ranks_run(&(local_run_t){.size = 3, .body = exchange});
        read_back(&file, &blame);
        CHECK_EQ(file.nends, 3 * 20 * 2 * 2); /* ranks, epochs, packets, ends */
        if (cases[i].habit == BY_RUN) { /* else kernels need not wait for what the host has seen */
            check_stamps(&file, "push", (trace_stamp_t[]){TRACE_BEGAN, TRACE_SAW, TRACE_STORED, TRACE_SIGNALLED,
                                                          TRACE_LEFT}, 5);
            check_stamps(&file, "pull", (trace_stamp_t[]){TRACE_BEGAN, TRACE_SAW, TRACE_STORED, TRACE_VERIFIED,
                                                          TRACE_SIGNALLED, TRACE_LEFT}, 6);
        }
        check_shares(&file, &blame, 3, 200000000); /* a thread may be stopped between its clock and its kernel */
        let_go(&file, &blame);
    }
}

/* --- rows of a matrix: gather and scatter ------------------------------------------------------------------------- */

static void exchange_pieces(local_rank_t *self)
{
    enum { ELEMENTS = 400 };
    int64_t at[ELEMENTS];
    selvage_exchange_t *ex = NULL;
    void *buf[2];
    for (int i = 0; i < ELEMENTS; i++)
        at[i] = 3 * i;
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_device_malloc(self->dev, 3 * ELEMENTS * sizeof(double), &buf[i]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_indexed(ex, buf[0], sizeof(double), at, ELEMENTS, 1 - self->rank, 0, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, buf[1], sizeof(double), at, ELEMENTS, 1 - self->rank, 0, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(selvage_exchange_run(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex);
    for (int i = 0; i < 2; i++)
        selvage_device_free(self->dev, buf[i]);
}

static void test_pieces(void)
{
    trace_file_t file;
    trace_blame_t blame;
    set("SOFT_BLOCKS=4");
    local_ranks_run(&(local_run_t){.size = 2, .body = exchange_pieces});
    read_back(&file, &blame);
    CHECK_EQ(file.nends, 2 * 4 * 2);
    check_stamps(&file, "gather", (trace_stamp_t[]){TRACE_BEGAN, TRACE_SAW, TRACE_PACKED, TRACE_SIGNALLED, TRACE_LEFT},
                 5);
    check_stamps(&file, "scatter", (trace_stamp_t[]){TRACE_BEGAN, TRACE_SAW, TRACE_STORED, TRACE_VERIFIED,
                                                     TRACE_SIGNALLED, TRACE_LEFT}, 6);
    let_go(&file, &blame);
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

enum { COUNT = 30000, CALLS = 6 };

static void call_all(local_rank_t *self, selvage_coll_t *coll, float *buf, void *stream)
{
    const int to = (self->rank + 1) % self->size, from = (self->rank + self->size - 1) % self->size;
    for (int i = 0; i < CALLS; i++) {
        if (i == 2 && self->rank == job.late_rank)
            usleep(LATE_US);
        CHECK_STATUS(selvage_coll_all_reduce(coll, buf, buf + COUNT, i % 2 ? COUNT : 100, SELVAGE_FLOAT32,
                                             SELVAGE_OP_SUM, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS);
        for (int k = 0; k < 8; k++) /* more than travel in the argument of a launch */
            CHECK_STATUS(selvage_coll_broadcast(coll, buf, buf + COUNT + 100 * k, 100, SELVAGE_FLOAT32, 0, stream),
                         SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_send(coll, buf, 100, SELVAGE_FLOAT32, to, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_recv(coll, buf + COUNT + 800, 100, SELVAGE_FLOAT32, from, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_begin(coll), SELVAGE_SUCCESS); /* and a pair alone */
        CHECK_STATUS(selvage_coll_send(coll, buf, 100, SELVAGE_FLOAT32, to, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_recv(coll, buf + COUNT, 100, SELVAGE_FLOAT32, from, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    }
}

static void collect(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    void *stream = NULL, *buf = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, 2 * COUNT * sizeof(float), &buf), SELVAGE_SUCCESS);
    memset(buf, 0, 2 * COUNT * sizeof(float));
    for (int i = 0; i < 2; i++) { /* the second one has the number of the first, and its calls, too */
        CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        call_all(self, coll, buf, stream);
        selvage_coll_destroy(coll);
    }
    selvage_device_free(self->dev, buf);
    selvage_stream_destroy(self->dev, stream);
}

static size_t count_ends(const trace_file_t *file, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < file->nends; i++)
        count += strcmp(file->ends[i].name, name) == 0;
    return count;
}

/* Whether the rank that came late is to blame, for so much at a time and above what others are to blame for. A machine
   that stops a thread for long may spoil a try, but not three. */
static bool is_named(const trace_file_t *file, const trace_blame_t *blame, int rank, int64_t excess_us)
{
    int64_t excess_ns;
    const trace_cause_t *worst = trace_blame_worst(blame, file->nranks, &excess_ns);
    const int64_t least_ns = LATE_US * 900LL;
    return worst && worst->kind == TRACE_BUSY && worst->rank == rank && worst->longest_ns > least_ns &&
           worst->longest_ns < 3 * least_ns && worst->epoch > 2 && excess_ns > excess_us * 1000;
}

static bool blames_in_collectives(const char *setting)
{
    trace_file_t file;
    trace_blame_t blame;
    job.late_rank = 1;
    set(setting);
    local_ranks_run(&(local_run_t){.size = 3, .body = collect});
    read_back(&file, &blame);
    CHECK_EQ(count_ends(&file, "all-reduce"), 2 * 3 * CALLS);
    CHECK_EQ(count_ends(&file, "broadcast"), 2 * 3 * CALLS * 8);
    CHECK(count_ends(&file, "send and receive") >= 2 * 3 * CALLS); /* of one launch, they are one */
    const bool named = is_named(&file, &blame, 1, 3LL * LATE_US); /* two ranks waited, twice */
    let_go(&file, &blame);
    return named;
}

static void test_collectives(void)
{
    static const char *const settings[] = {"COLL_CHANNELS_MAX=3 SOFT_BLOCKS=3", "COLL_ALGO=direct",
                                           "COLL_ALGO=ring", "COLL_PROTO=simple"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        int tries = 1;
        while (!blames_in_collectives(settings[i]) && tries < TRIES)
            tries++;
        CHECK(tries < TRIES || blames_in_collectives(settings[i]));
    }
}

/* --- late ranks, little room, none at all, failures --------------------------------------------------------------- */

/* Its neighbour waits for it, and in a later epoch the next one for that neighbour: it is to blame for both. */
static bool blames_late_rank(int rank)
{
    trace_file_t file;
    trace_blame_t blame;
    job.habit = rank % 2 ? BY_RUN : BY_WAIT;
    job.epochs = 6;
    job.late_rank = rank;
    make_ring(4, 4000);
    set("");
    local_ranks_run(&(local_run_t){.size = 4, .body = exchange});
    read_back(&file, &blame);
    const bool named = is_named(&file, &blame, rank, LATE_US * 3LL / 2);
    let_go(&file, &blame);
    return named;
}

static void test_late_rank(void)
{
    for (int rank = 0; rank < 4; rank++) {
        int tries = 1;
        while (!blames_late_rank(rank) && tries < TRIES)
            tries++;
        CHECK(tries < TRIES || blames_late_rank(rank));
    }
}

static void test_little_room(void)
{
    trace_file_t file;
    trace_blame_t blame;
    job.habit = BY_RUN;
    job.epochs = 600;
    job.late_rank = -1;
    make_ring(2, 100);
    set("TRACE_EVENTS=1024");
    local_ranks_run(&(local_run_t){.size = 2, .body = exchange, .log_expected = true});
    read_back(&file, &blame);
    for (int r = 0; r < 2; r++) { /* two packets, two ends, one block each */
        CHECK_EQ(file.ranks[r].groups, 1024);
        CHECK_EQ(file.ranks[r].lost, 600 * 4 - 1024);
    }
    CHECK(local_ranks_any_logged("lost the stamps of 1376 blocks"));
    let_go(&file, &blame);
}

/* Lines as kernels leave them that were replayed, did not end, or did not run. */
static void leave_lines(local_rank_t *self)
{
    sv_stamps_t *stamps = self->comm->stamps;
    const uint64_t now = sv_clock_ns();
    const sv_trace_blocks_t what = {.epoch = 7, .packet = 1, .kind = SV_TRACE_BLOCKS_PUSH, .exchange = 3};
    sv_stamp_line_t *lines = sv_stamps_take(stamps, 12); /* memory of the software device is the host's */
    sv_stamps_note(stamps, lines, 10, &what);
    for (int i = 0; i < 10; i++) {
        lines[i].times = 3;
        lines[i].at_ns[SV_STAMP_SAW] = now - 1; /* of the replay before, in which this block waited */
        lines[i].at_ns[SV_STAMP_BEGAN] = now + (unsigned)i;
        lines[i].at_ns[SV_STAMP_LEFT] = now + 100 + (unsigned)i;
    }
    lines[4].at_ns[SV_STAMP_LEFT] = 0;
    lines[5].at_ns[SV_STAMP_LEFT] = now - 1;
    lines[9].times = 0;
    CHECK(!sv_stamps_take(stamps, 1024));
}

static void test_replayed(void)
{
    trace_file_t file;
    trace_blame_t blame;
    set("TRACE_EVENTS=1024");
    local_ranks_run(&(local_run_t){.size = 1, .body = leave_lines, .log_expected = true});
    read_back(&file, &blame);
    CHECK_EQ(file.nends, 1);
    CHECK_EQ(file.ranks[0].groups, 2); /* of eight blocks, and of what is left */
    CHECK_EQ(file.ranks[0].overwritten, 9 * 2);
    CHECK_EQ(file.ranks[0].unfinished, 2);
    CHECK_EQ(file.ranks[0].lost, 1024);
    CHECK(file.nends == 1 && file.ends[0].at_ns[TRACE_SAW] == 0 && file.ends[0].epoch == 7);
    CHECK(file.nends == 1 && file.ends[0].at_ns[TRACE_LEFT] - file.ends[0].at_ns[TRACE_BEGAN] == 108);
    let_go(&file, &blame);
}

static void test_off(void)
{
    char list[128];
    trace_file_t file;
    trace_blame_t blame;
    job.habit = BY_RUN;
    job.epochs = 3;
    make_ring(2, 4000);
    snprintf(list, sizeof list, "TIMEOUT_S=30 TRACE=%s", path);
    local_ranks_env(list);
    local_ranks_run(&(local_run_t){.size = 2, .body = exchange});
    read_back(&file, &blame);
    CHECK_EQ(file.nends, 0);
    CHECK_EQ(file.nranks, 0);
    let_go(&file, &blame);
}

static _Atomic int made;

static void only_made(local_rank_t *self)
{
    made += self->comm != NULL;
}

/* Each device call of making and of reading back fails in turn: creation says so on all ranks, and later there is a
   timeline without them. */
static void test_failures(void)
{
    int refused = 0, without = 0;
    for (int n = 1;; n++) {
        char list[128];
        trace_file_t file;
        trace_blame_t blame;
        snprintf(list, sizeof list, "FAULT=device=%d,rank=1", n);
        set(list);
        made = 0;
        local_ranks_run(&(local_run_t){.size = 2, .body = only_made, .log_expected = true, .create_may_fail = true});
        if (made == 0) {
            refused++;
            continue;
        }
        CHECK_EQ(made, 2);
        read_back(&file, &blame);
        const bool whole = file.nranks == 2;
        CHECK(file.nranks >= 1 && file.ranks[0].here);
        CHECK(whole || local_ranks_any_logged("time stamps of kernels cannot be read"));
        let_go(&file, &blame);
        without += !whole;
        if (whole || n > 100)
            break;
    }
    CHECK(refused >= 7);
    CHECK(without >= 3);
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/selvage_stamps_XXXXXX", folder ? folder : "/tmp");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_packets();
    test_pieces();
    test_collectives();
    test_late_rank();
    test_little_room();
    test_replayed();
    test_off();
    test_failures();
    unlink(path);
    return check_report("test_stamps");
}
