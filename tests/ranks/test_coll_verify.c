/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage on the way of direct collectives, with threads as ranks: rank 1 sees another's buffer through a window that
 * shows a copy of it with one bit flipped, as if a link had flipped it on the way; what it stores through such a window
 * does not arrive. Whichever the call and the algorithm, some rank says that it does not verify, and all hear of it.
 * The same calls through windows that show what is there are right.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { COUNT = 160000, RANKS_MAX = 4, PATIENCE_S = 60 };

typedef struct job {
    unsigned call;
    bool in_place, stores;     /* stores: the window is that of what others write, else of what they read */
    bool harmless;             /* the copy is right, and the window is of what is read */
} job_t;

static struct {
    float *in[RANKS_MAX], *out[RANKS_MAX];
} shown;

static selvage_status_t make_call(selvage_coll_t *coll, unsigned call, float *in, float *out)
{
    const selvage_type_t type = SELVAGE_FLOAT32;
    const size_t block = COUNT / RANKS_MAX;
    switch (call) {
    case SV_COLL_ALL_REDUCE: return selvage_coll_all_reduce(coll, in, out, COUNT, type, SELVAGE_OP_SUM, NULL);
    case SV_COLL_REDUCE_SCATTER:
        return selvage_coll_reduce_scatter(coll, in, out, block, type, SELVAGE_OP_SUM, NULL);
    case SV_COLL_ALL_GATHER: return selvage_coll_all_gather(coll, in, out, block, type, NULL);
    case SV_COLL_BROADCAST: return selvage_coll_broadcast(coll, in, out, COUNT, type, 0, NULL);
    case SV_COLL_REDUCE: return selvage_coll_reduce(coll, in, out, COUNT, type, SELVAGE_OP_SUM, 0, NULL);
    default: return selvage_coll_all_to_all(coll, in, out, block, type, NULL);
    }
}

/* Bytes of the call's buffers that rank r uses of all that is registered, at most; a place that all calls use. */
static size_t place_of(unsigned call, bool stores, int size)
{
    const size_t block = COUNT / RANKS_MAX;
    if (call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_TO_ALL || (stores && call == SV_COLL_ALL_GATHER))
        return block + 17; /* of rank 1's block */
    return size == 2 ? COUNT - 100 : COUNT / (size_t)size + 55; /* of rank 1's shard, where there are shards */
}

static void expect_damage(local_rank_t *self, const job_t *job, selvage_coll_t *coll, float *in, float *out)
{
    const double until_s = (double)sv_clock_ns() * 1e-9 + PATIENCE_S;
    for (int turn = 0; selvage_coll_error(coll) == SELVAGE_SUCCESS; turn++) {
        CHECK((double)sv_clock_ns() * 1e-9 < until_s);
        if (make_call(coll, job->call, in, out) == SELVAGE_SUCCESS)
            CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        if (turn == 20)
            break;
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_CHECKSUM);
}

/* Rank 1 is shown another memory than rank 0's. */
static float *mislead(local_rank_t *self, const job_t *job, selvage_coll_t *coll, const selvage_window_t *window)
{
    const float *from = job->stores ? shown.out[0] : shown.in[0];
    float *copy = malloc(COUNT * sizeof *copy);
    CHECK(copy != NULL);
    if (!copy)
        return NULL;
    memcpy(copy, from, COUNT * sizeof *copy);
    if (!job->harmless)
        ((uint32_t *)(void *)copy)[place_of(job->call, job->stores, self->size)] ^= 1U << 3;
    coll->arena->priv->window[window->number] = (uintptr_t)copy; /* of member 0 */
    return copy;
}

static void run_link(local_rank_t *self)
{
    const job_t *job = self->arg;
    const size_t bytes = COUNT * sizeof(float);
    selvage_coll_t *coll = NULL;
    selvage_window_t *in_window = NULL, *out_window = NULL;
    void *memory[2] = {NULL, NULL};
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    for (int m = 0; m < 2; m++)
        CHECK_STATUS(selvage_device_malloc(self->dev, bytes, &memory[m]), SELVAGE_SUCCESS);
    float *in = memory[0], *out = job->in_place ? memory[0] : memory[1];
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(self->rank + i % 5);
    CHECK_STATUS(selvage_coll_register(coll, memory[0], bytes, &in_window), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_register(coll, memory[1], bytes, &out_window), SELVAGE_SUCCESS);
    shown.in[self->rank] = in;
    shown.out[self->rank] = out;
    local_ranks_barrier(self);
    float *copy = NULL;
    if (self->rank == 1)
        copy = mislead(self, job, coll, job->stores && !job->in_place ? out_window : in_window);
    local_ranks_barrier(self);
    if (job->harmless) {
        CHECK_STATUS(make_call(coll, job->call, in, out), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    } else {
        expect_damage(self, job, coll, in, out);
    }
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    for (int m = 0; m < 2; m++)
        selvage_device_free(self->dev, memory[m]);
    (void)selvage_coll_unregister(in_window);
    (void)selvage_coll_unregister(out_window);
    free(copy);
}

static bool others_store(unsigned call, int size)
{
    return call == SV_COLL_ALL_GATHER || call == SV_COLL_ALL_TO_ALL || (size > 2 && call == SV_COLL_ALL_REDUCE) ||
           (size > 2 && call == SV_COLL_REDUCE);
}

static bool others_read(unsigned call)
{
    return call != SV_COLL_ALL_GATHER && call != SV_COLL_ALL_TO_ALL && call != SV_COLL_REDUCE;
}

static void run(int size, const job_t *job, const char *environment)
{
    const long failed = atomic_load(&check_failed_);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .body = run_link, .arg = (void *)(uintptr_t)job,
                                   .log_expected = !job->harmless, .may_set_aside = true});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, call %u, in place %d, stores %d, harmless %d: %s\n", size, job->call, job->in_place,
                job->stores, job->harmless, environment);
}

static void test_call(int size, unsigned call, bool in_place, const char *environment, long *injected)
{
    if (others_read(call)) {
        run(size, &(job_t){.call = call, .in_place = in_place, .harmless = true}, environment);
        run(size, &(job_t){.call = call, .in_place = in_place}, environment);
        ++*injected;
    }
    if (others_store(call, size) && !in_place) {
        run(size, &(job_t){.call = call, .stores = true}, environment);
        ++*injected;
    }
}

int main(void)
{
    long injected = 0;
    for (int size = 2; size <= 3; size++)
        for (unsigned call = SV_COLL_ALL_REDUCE; call <= SV_COLL_ALL_TO_ALL; call++)
            test_call(size, call, false, "TIMEOUT_S=20 COLL_ALGO=direct", &injected);
    /* in two passes, the sum before them, as where a result replaces what was read */
    test_call(4, SV_COLL_BROADCAST, true, "TIMEOUT_S=20 COLL_ALGO=direct", &injected);
    /* pushed: what is read is what was stored */
    run(2, &(job_t){.call = SV_COLL_ALL_REDUCE, .stores = true}, "TIMEOUT_S=20 COLL_ALGO=direct COLL_PUSH_MIN=1");
    run(3, &(job_t){.call = SV_COLL_ALL_REDUCE, .stores = true}, "TIMEOUT_S=20 COLL_ALGO=direct COLL_PUSH_MIN=1");
    printf("direct: %ld injected, as many detected, unless a check failed\n", injected + 2);
    return check_report("test_coll_verify");
}
