/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums that go wrong, and other calls that are composed, with threads as ranks on one node and on two. One call
 * of the device fails on one rank, at each place in turn: that rank is told at once, and ever after; the others have
 * their results, or an error within the deadline. No result is wrong without one, and nothing is lost. Ranks that call
 * something else than an exact sum are told what each of them called.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_fault.h"
#include "collective/coll_handle.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"

/* Whom a fault leaves waiting gives up after SOON_S. On a crowded machine a thread may stand still for as long as that:
   all else has LATE_S. */
enum { RANKS = 3, FAILS = 1, COUNT = 70001, NEVER = 1 << 30, SOON_S = 1, LATE_S = 64 };

typedef struct sweep {
    int nth;
    double timeout_s;          /* of the call that fails */
    bool nodes, folds;         /* no exact sum, but a reduction that sums' kernels do not know */
    _Atomic int hit, failed;   /* the fault was met; ranks that had an error */
} sweep_t;

/* Ranks are three: what differs of the words of 64 bits is 3 in the end. */
static void fill_data(const sweep_t *sweep, int rank, double *data)
{
    int64_t *word = (int64_t *)(void *)data;
    for (int i = 0; i < COUNT && sweep->folds; i++)
        word[i] = 4 * (int64_t)i + rank;
    for (int i = 0; i < COUNT && !sweep->folds; i++)
        data[i] = (double)(i % 1000) + rank;
}

static long count_wrong_sums(const sweep_t *sweep, const double *data)
{
    const int64_t *word = (const int64_t *)(const void *)data;
    long wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += sweep->folds ? word[i] != 4 * (int64_t)i + 3 : data[i] != 3.0 * (i % 1000) + 3;
    return wrong;
}

static selvage_status_t add_up_data(const sweep_t *sweep, selvage_coll_t *coll, double *data, void *stream)
{
    return selvage_coll_all_reduce(coll, data, data, COUNT, sweep->folds ? SELVAGE_INT64 : SELVAGE_FLOAT64,
                                   sweep->folds ? SELVAGE_OP_BXOR : SELVAGE_OP_SUM, stream);
}

static void run_call(local_rank_t *self)
{
    sweep_t *sweep = self->arg;
    selvage_coll_t *coll = NULL;
    void *stream, *memory;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, COUNT * sizeof(double), &memory), SELVAGE_SUCCESS);
    double *data = memory;
    fill_data(sweep, self->rank, data);
    local_ranks_deadline(self, coll, sweep->timeout_s);
    _Atomic int64_t *countdown = &self->comm->fault.call_countdown[SV_FAULT_CALL_DEVICE];
    atomic_store(countdown, self->rank == FAILS ? sweep->nth : NEVER);
    selvage_status_t status = add_up_data(sweep, coll, data, stream);
    const bool hit = self->rank == FAILS && atomic_exchange(countdown, NEVER) <= 0;
    if (hit)
        sweep->hit = 1;
    /* What was enqueued comes to its end, by the deadline at the latest. */
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_error(coll);
    if (hit && !sweep->nodes)
        CHECK(status != SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS)
        CHECK_EQ(count_wrong_sums(sweep, data), 0);
    else
        sweep->failed++;
    if (hit && status != SELVAGE_SUCCESS) { /* and it stays so */
        CHECK(selvage_coll_error(coll) != SELVAGE_SUCCESS);
        CHECK(add_up_data(sweep, coll, data, stream) != SELVAGE_SUCCESS);
    }
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
    selvage_stream_destroy(self->dev, stream);
}

static void run_place(sweep_t *sweep, const char *environment, double timeout_s)
{
    sweep->timeout_s = timeout_s;
    sweep->hit = sweep->failed = 0;
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = sweep->nodes ? 2 : 0, .body = run_call,
                                   .arg = sweep, .log_expected = true, .may_set_aside = true});
}

static void run_sweep(bool nodes, bool folds, const char *environment, int step)
{
    int places = 0;
    sweep_t sweep = {.nth = 1, .nodes = nodes, .folds = folds, .hit = 1};
    for (; sweep.hit && sweep.nth < 2000; sweep.nth += step) {
        const long failed = atomic_load(&check_failed_);
        /* If a rank stood still, another one may have given up before it came to the fault: then with more time. */
        double timeout_s = SOON_S;
        do
            run_place(&sweep, environment, timeout_s);
        while (!sweep.hit && sweep.failed && (timeout_s *= 4) <= LATE_S);
        places += sweep.hit;
        if (sweep.hit && !nodes)
            CHECK(sweep.failed >= 1);
        if (!sweep.hit)
            CHECK_EQ(sweep.failed, 0);
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "-- call %d of the device, %s, %s\n", sweep.nth, folds ? "fold" : "exact", environment);
    }
    CHECK(places * step > 8);
}

/* Of all but rank 0: another sum, or what an exact sum of one node, or of more, begins with, had the user called it. */
typedef enum other { OTHER_WIDTH, OTHER_AVERAGE, OTHER_EXCHANGE, OTHER_LARGEST, OTHERS } other_t;

static selvage_status_t call_other(selvage_coll_t *coll, other_t other, void *data, void *result)
{
    const size_t count = 1000, size = (size_t)selvage_coll_size(coll), each = (count + size - 1) / size;
    switch (other) {
    case OTHER_WIDTH:
        return selvage_coll_all_reduce(coll, data, result, count, SELVAGE_FLOAT64, SELVAGE_OP_SUM, NULL);
    case OTHER_AVERAGE:
        return selvage_coll_all_reduce(coll, data, result, count, SELVAGE_FLOAT32, SELVAGE_OP_AVG, NULL);
    case OTHER_EXCHANGE:
        return selvage_coll_all_to_all(coll, data, result, (each + 15) / 16 * 16, SELVAGE_UINT32, NULL);
    default:
        return selvage_coll_all_reduce(coll, data, result, (count + 15) / 16 * 16, SELVAGE_UINT8, SELVAGE_OP_MAX,
                                       NULL);
    }
}

static void run_mismatch(local_rank_t *self)
{
    const other_t other = *(const other_t *)self->arg;
    selvage_coll_t *coll = NULL;
    void *memory;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, 1 << 15, &memory), SELVAGE_SUCCESS);
    memset(memory, 0, 1 << 15);
    uint8_t *result = (uint8_t *)memory + (1 << 14);
    if (self->rank == 0)
        (void)selvage_coll_all_reduce(coll, memory, result, 1000, SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL);
    else
        (void)call_other(coll, other, memory, result);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_MISMATCH);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, memory);
}

static void test_mismatches(void)
{
    for (int nodes = 0; nodes < 2; nodes++)
        for (int other = 0; other < OTHERS; other++) {
            const long failed = atomic_load(&check_failed_);
            other_t arg = (other_t)other;
            local_ranks_env("SUM=exact TIMEOUT_S=60");
            local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = nodes ? 1 : 0, .body = run_mismatch,
                                           .arg = &arg, .log_expected = true, .may_set_aside = true});
            CHECK(local_ranks_any_logged("all_reduce of 1000 float32"));
            CHECK(local_ranks_any_logged("exact sum"));
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "-- other call %d, %d nodes\n", other, nodes);
        }
}

int main(void)
{
    const char *device = getenv("SELVAGE_DEVICE");
    if (device && strcmp(device, "soft") != 0) {
        printf("test_coll_exact_errors: for the software device\n");
        return CHECK_SKIP;
    }
    test_mismatches();
    run_sweep(false, false, "SUM=exact TIMEOUT_S=64 FAULT=device=1000000", check_brief() ? 4 : 1);
    run_sweep(true, false, "SUM=exact TIMEOUT_S=64 FAULT=device=1000000", check_brief() ? 29 : 11);
    run_sweep(false, true, "TIMEOUT_S=64 FAULT=device=1000000", check_brief() ? 3 : 1);
    run_sweep(true, true, "TIMEOUT_S=64 FAULT=device=1000000", check_brief() ? 29 : 11);
    return check_report("test_coll_exact_errors");
}
