/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes wrong in collectives between nodes that are only enqueued, with a progress thread and threads as ranks:
 * calls that do not match, ranks that do not come, aborts, damage, and calls of device, wire and memory that fail. It
 * is told by the query and by the next call, with the rank's name, and no stream stays held.
 */
#include <pthread.h>

#include "fixtures/check.h"
#include "fixtures/coll_held.h"
#include "fixtures/local_ranks.h"
#include "wire/wire_local.h"

typedef struct job {
    int kind, nth;
    _Atomic int hit;           /* the fault was met */
} job_t;

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
    local_ranks_deadline(self, coll, 1);
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

/* Calls of two ranks do not match while rank 0 has one of all ranks enqueued after it: these hear of that at once. */
static void run_told(local_rank_t *self)
{
    const bool fails = self->rank % 2 == 0;
    selvage_coll_t *coll = create(self, 0), *some = NULL;
    float *data = make_data(self, COUNT);
    CHECK_STATUS(selvage_coll_split(coll, self->rank % 2, 0, &some), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        CHECK_STATUS(selvage_coll_barrier(some, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    }
    local_ranks_barrier(self);
    const uint64_t begin_ns = sv_clock_ns();
    if (fails && self->rank > 0)
        (void)sum(some, data, data, NULL);
    if (self->rank > 0)
        (void)sum(coll, data, data, NULL); /* or it is told of the mismatch, or of what rank 0 tells */
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    const selvage_status_t status = selvage_coll_error(coll);
    CHECK(fails ? status == SELVAGE_ERR_MISMATCH : status != SELVAGE_SUCCESS && status != SELVAGE_ERR_TIMEOUT);
    CHECK((double)(sv_clock_ns() - begin_ns) < 12e9); /* the deadline is 20 s */
    local_ranks_barrier(self);
    selvage_coll_destroy(some);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* A rank goes while others wait: destroying ends by the deadline. */
static void run_deserted(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, 0);
    float *data = make_data(self, COUNT);
    local_ranks_deadline(self, coll, 1);
    if (self->rank > 0)
        CHECK_STATUS(sum(coll, data, data, NULL), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    selvage_device_free(self->dev, data);
}

enum { SWEPT = 6, MANY = 256, NEVER = 1000000 };

/* One call inside fails, on rank 1: kind says which. Whoever hears of no error has the right results, of all that he
   was told was enqueued; no stream stays held, and nobody waits for longer than the deadline. */
static void run_swept(local_rank_t *self)
{
    job_t *job = self->arg;
    selvage_status_t status[SWEPT], error;
    selvage_coll_t *coll = create(self, TINY_CHUNK);
    float *data = make_data(self, SWEPT * COUNT);
    const uint64_t begin_ns = sv_clock_ns();
    _Atomic int64_t *countdown = &self->comm->fault.call_countdown[job->kind];
    local_ranks_deadline(self, coll, 1);
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
    /* Threads that poll on cores of their own make ever more calls, of which no more than some are tried. */
    for (job.nth = 1; job.hit; job.nth += step + (job.nth > MANY ? job.nth / 8 : 0), runs++) {
        const long failed = atomic_load(&check_failed_);
        local_ranks_env("PROGRESS=thread TIMEOUT_S=60 FAULT=device=1000000,wire=1000000,alloc=1000000");
        local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = 2, .body = run_swept, .arg = &job,
                                       .log_expected = true, .may_set_aside = true});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "%s call %d\n", name, job.nth);
    }
    printf("failed %d of about %d %s calls\n", runs, job.nth, name);
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
    run(4, 2, run_mismatch, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_late, 0, "TIMEOUT_S=60", true);
    run(3, 1, run_late, 0, "TIMEOUT_S=60", true);
    run(4, 2, run_abort, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_abort, 1, "TIMEOUT_S=20", true);
    run(4, 2, run_damage, 0, "TIMEOUT_S=20", true);
    run(4, 2, run_damage, 1, "TIMEOUT_S=20", true);
    run(4, 2, run_deserted, 0, "TIMEOUT_S=60", true);
    run(4, 2, run_told, 0, "TIMEOUT_S=20", true);
    sweep(SV_FAULT_CALL_DEVICE, "device", check_brief() ? 29 : 7);
    sweep(SV_FAULT_CALL_WIRE, "wire", check_brief() ? 97 : 31);
    sweep(SV_FAULT_CALL_ALLOC, "alloc", 1);
    return check_report("test_coll_enqueued_errors");
}
