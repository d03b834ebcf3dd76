/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage that is passed on, with threads as ranks. In rings, trees and calls of two steps a rank makes what it sends of
 * what came to it. A bit of the first thing that comes to rank 0 is flipped there, in lines and in slots, and what the
 * device of rank 1 reads of rank 0's memory, in direct calls. Rank 0 or 1 then says that it does not verify. What is
 * tested is the others: none of them ends the call without an error and with a wrong result, though all that they were
 * sent has the right digest.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { RANKS_MAX = 4 };

typedef struct passage {
    unsigned call;
    const char *algorithm;
    int size, block;           /* elements of a block; vectors have RANKS_MAX times as many */
    bool in_place, pushed;     /* direct calls; pushed: what rank 1 stores in rank 0's memory is lost */
} passage_t;

/* What a rank has for a call, all of it on its software device. */
typedef struct place {
    selvage_coll_t *coll;
    void *stream;
    float *in, *out, *spare;   /* spare: out, unless that is in */
    selvage_window_t *in_window, *out_window;
} place_t;

/* Of all runs: how many ranks had an error when their call was over, and how many had none. Of a run: the input that
   rank 1 sees damaged. */
static struct {
    _Atomic int noticed, late;
    const float *shown;
} found;

static float value_of(int rank, int i)
{
    return (float)(1 + rank * 8 + i % 5);
}

/* Rank 0 gets from it, or it from rank 0; in direct calls rank 1. */
static int root_of(const passage_t *passage)
{
    const bool direct = strcmp(passage->algorithm, "direct") == 0;
    return passage->call == SV_COLL_BROADCAST || direct ? passage->size - 1 : 1;
}

static size_t count_all(const passage_t *passage)
{
    return (size_t)passage->block * RANKS_MAX;
}

static selvage_status_t call_as(const passage_t *passage, const place_t *at)
{
    const selvage_type_t type = SELVAGE_FLOAT32;
    const int op = SELVAGE_OP_SUM, root = root_of(passage);
    const size_t block = (size_t)passage->block, all = count_all(passage);
    switch (passage->call) {
    case SV_COLL_ALL_REDUCE: return selvage_coll_all_reduce(at->coll, at->in, at->out, all, type, op, at->stream);
    case SV_COLL_REDUCE_SCATTER:
        return selvage_coll_reduce_scatter(at->coll, at->in, at->out, block, type, op, at->stream);
    case SV_COLL_ALL_GATHER: return selvage_coll_all_gather(at->coll, at->in, at->out, block, type, at->stream);
    case SV_COLL_BROADCAST: return selvage_coll_broadcast(at->coll, at->in, at->out, all, type, root, at->stream);
    default: return selvage_coll_reduce(at->coll, at->in, at->out, all, type, op, root, at->stream);
    }
}

static float sum_at(int size, int i)
{
    float sum = 0;
    for (int r = 0; r < size; r++)
        sum += value_of(r, i);
    return sum;
}

static float wanted_at(const passage_t *passage, int rank, int i)
{
    switch (passage->call) {
    case SV_COLL_REDUCE_SCATTER: return sum_at(passage->size, rank * passage->block + i);
    case SV_COLL_ALL_GATHER: return value_of(i / passage->block, i % passage->block);
    case SV_COLL_BROADCAST: return value_of(root_of(passage), i);
    default: return sum_at(passage->size, i);
    }
}

static int count_wrong(const passage_t *passage, int rank, const float *out)
{
    int wrong = 0, count = (int)count_all(passage);
    if (passage->call == SV_COLL_REDUCE && rank != root_of(passage))
        return 0;
    if (passage->call == SV_COLL_REDUCE_SCATTER)
        count = passage->block;
    if (passage->call == SV_COLL_ALL_GATHER)
        count = passage->size * passage->block;
    for (int i = 0; i < count; i++)
        wrong += out[i] != wanted_at(passage, rank, i);
    return wrong;
}

static bool open_place(local_rank_t *self, place_t *at)
{
    const passage_t *passage = self->arg;
    const size_t all = count_all(passage);
    void *memory[2] = {NULL, NULL};
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &at->coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &at->stream), SELVAGE_SUCCESS);
    for (int m = 0; m < 2; m++)
        CHECK_STATUS(selvage_device_malloc(self->dev, all * sizeof(float), &memory[m]), SELVAGE_SUCCESS);
    at->in = memory[0];
    at->out = passage->in_place ? memory[0] : memory[1];
    at->spare = memory[1];
    if (!at->coll || !at->in || !at->spare)
        return false;
    memset(at->spare, 0, all * sizeof(float));
    for (int i = 0; i < (int)all; i++)
        at->in[i] = value_of(self->rank, i);
    return true;
}

static void close_place(local_rank_t *self, place_t *at)
{
    local_ranks_barrier(self); /* nobody waits for the end of another's patience */
    selvage_coll_destroy(at->coll);
    selvage_stream_destroy(self->dev, at->stream);
    (void)selvage_coll_unregister(at->in_window);
    (void)selvage_coll_unregister(at->out_window);
    selvage_device_free(self->dev, at->in);
    selvage_device_free(self->dev, at->spare);
}

/* The call is over. A rank that has heard nothing has the right result; it hears of the error in a later call. */
static void judge(local_rank_t *self, const passage_t *passage, const place_t *at)
{
    CHECK_STATUS(selvage_stream_synchronize(self->dev, at->stream), SELVAGE_SUCCESS);
    if (selvage_coll_error(at->coll) == SELVAGE_SUCCESS) {
        CHECK_EQ(count_wrong(passage, self->rank, at->out), 0);
        atomic_fetch_add(&found.late, 1);
    } else {
        CHECK_STATUS(selvage_coll_error(at->coll), SELVAGE_ERR_CHECKSUM);
        atomic_fetch_add(&found.noticed, 1);
    }
}

/* Keeps a stream until told. */
static void keep_stream(const void *arg, unsigned block, unsigned nblocks)
{
    _Atomic int *const *go = arg;
    (void)block;
    (void)nblocks;
    while (!atomic_load(*go))
        usleep(100);
}

/* The first word that any rank puts into the first slot of this one, in lines or as a slot; NULL: not yet. */
static uint64_t *find_arrival(const selvage_coll_t *coll, int size)
{
    const sv_coll_layout_t *layout = &coll->arena->layout;
    for (int r = 1; r < size; r++) {
        uint8_t *connection = coll->arena->memory + SV_COLL_ARENA_HEAD + (size_t)r * layout->conn_bytes;
        uint64_t *line = (uint64_t *)(void *)(connection + layout->ll_at);
        uint64_t *has_long = (uint64_t *)(void *)(connection + layout->long_at);
        uint64_t *tail = (uint64_t *)(void *)(connection + SV_COLL_TAIL_AT);
        if (__atomic_load_n(line, __ATOMIC_ACQUIRE) >> 32 == 1) /* partners: the kernel of rank r */
            return line;
        if (__atomic_load_n(has_long + SV_COLL_LONG_WORDS - 1, __ATOMIC_ACQUIRE) == 1)
            return has_long;
        if (__atomic_load_n(tail, __ATOMIC_ACQUIRE) >= 1) /* there may be more slots */
            return (uint64_t *)(void *)(connection + layout->slot_at);
    }
    return NULL;
}

/* Rank 0 begins late, and finds something damaged in its slots. */
static void run_slots(local_rank_t *self)
{
    const passage_t *passage = self->arg;
    place_t at = {.coll = NULL};
    _Atomic int go = 0, *pointer = &go;
    if (open_place(self, &at)) {
        uint64_t *word = NULL;
        if (self->rank == 0)
            CHECK_STATUS(selvage_device_launch_soft(self->dev, keep_stream, &pointer, sizeof pointer, 1, at.stream),
                         SELVAGE_SUCCESS);
        CHECK_STATUS(call_as(passage, &at), SELVAGE_SUCCESS);
        for (int turn = 0; self->rank == 0 && turn < 100000 && !word; turn++) {
            word = find_arrival(at.coll, self->size);
            usleep(100);
        }
        if (word)
            __atomic_fetch_xor(word, UINT64_C(1) << 20, __ATOMIC_RELAXED);
        CHECK((word != NULL) == (self->rank == 0));
        atomic_store(&go, 1);
        judge(self, passage, &at);
    }
    close_place(self, &at);
}

/* Rank 1 has a copy for another's memory, with some bits that are others: so it reads, or so is lost what it stores. */
static void run_direct(local_rank_t *self)
{
    const passage_t *passage = self->arg;
    const size_t bytes = count_all(passage) * sizeof(float);
    const int source = passage->call == SV_COLL_BROADCAST ? root_of(passage) : 0;
    place_t at = {.coll = NULL};
    float *copy = malloc(bytes);
    CHECK(copy != NULL);
    if (open_place(self, &at) && copy) {
        CHECK_STATUS(selvage_coll_register(at.coll, at.in, bytes, &at.in_window), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_register(at.coll, at.spare, bytes, &at.out_window), SELVAGE_SUCCESS);
        if (self->rank == source)
            found.shown = passage->pushed ? at.out : at.in;
        local_ranks_barrier(self);
        if (self->rank == 1) {
            memcpy(copy, found.shown, bytes);
            for (size_t i = 0; i < count_all(passage); i += 97)
                ((uint32_t *)(void *)copy)[i] ^= UINT32_C(1) << 20;
            uint64_t *windows = at.coll->arena->priv->window + (size_t)source * SV_COLL_WINDOW_NUMBERS;
            windows[(passage->pushed ? at.out_window : at.in_window)->number] = (uintptr_t)copy;
        }
        local_ranks_barrier(self);
        CHECK_STATUS(call_as(passage, &at), SELVAGE_SUCCESS);
        judge(self, passage, &at);
    }
    close_place(self, &at);
    free(copy);
}

static void run(const passage_t *passage, const char *settings, void (*body)(local_rank_t *self))
{
    char environment[160];
    const long failed = atomic_load(&check_failed_);
    const int noticed = atomic_load(&found.noticed);
    snprintf(environment, sizeof environment, "TIMEOUT_S=20 COLL_CHECKSUM=on COLL_CHANNELS_MAX=1 COLL_ALGO=%s %s",
             passage->algorithm, settings);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = passage->size, .body = body, .arg = (void *)(uintptr_t)passage,
                                   .log_expected = true, .may_set_aside = true});
    CHECK(atomic_load(&found.noticed) > noticed);
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, call %u: %s\n", passage->size, passage->call, environment);
}

/* In steps: what comes to rank 0. */
static void test_steps(unsigned call, int size)
{
    static const char *const protocols[] = {"COLL_PROTO=simple", "COLL_PROTO=ll", "COLL_PROTO=ll128"};
    static const char *const algorithms[] = {"ring", "twoshot", "pat"};
    const bool has_pat = call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_GATHER;
    for (unsigned a = 0; a < (has_pat ? 3 : 2); a++)
        for (unsigned p = 0; p < 3; p++)
            run(&(passage_t){call, algorithms[a], size, 600, false, false}, protocols[p], run_slots);
}

/* In users' memory: what rank 1 reads, in the calls that pass results on. */
static void test_direct(unsigned call, int size)
{
    const passage_t passage = {call, "direct", size, 40000, false, false};
    passage_t other = passage;
    if (call == SV_COLL_REDUCE_SCATTER || call == SV_COLL_ALL_GATHER)
        return;
    run(&passage, "", run_direct);
    if (call != SV_COLL_ALL_REDUCE)
        return;
    other.in_place = true;
    run(&other, "", run_direct);
    other = passage;
    other.pushed = true;
    run(&other, "COLL_PUSH_MIN=1", run_direct);
}

int main(void)
{
    static const unsigned calls[] = {SV_COLL_ALL_REDUCE, SV_COLL_REDUCE_SCATTER, SV_COLL_ALL_GATHER, SV_COLL_BROADCAST,
                                     SV_COLL_REDUCE};
    const char *text = getenv("CASES"); /* so many times each */
    const int turns = text ? atoi(text) : 1;
    for (int turn = 0; turn < turns; turn++)
        for (int size = 3; size <= RANKS_MAX; size++)
            for (unsigned c = 0; c < sizeof calls / sizeof calls[0]; c++) {
                test_steps(calls[c], size);
                test_direct(calls[c], size);
            }
    printf("passed on: %d ranks noticed, %d hear of it later\n", atomic_load(&found.noticed), atomic_load(&found.late));
    return check_report("test_coll_passed_on");
}
