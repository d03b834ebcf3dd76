/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that go wrong, with threads as ranks: calls that do not match, ranks that do not come, an abort from
 * another thread, slots damaged on the way, arguments that are refused, destroying in every state. Whatever happens,
 * all ranks know within the deadline, say whose fault it is, and leave.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { COUNT = 1000, PATIENCE_S = 60 };

typedef struct rank_state {
    selvage_coll_t *coll;
    void *stream;
    float *data;               /* 16 * COUNT of them */
    int rank, size;
} rank_state_t;

static bool open_rank(local_rank_t *self, rank_state_t *state)
{
    void *memory = NULL;
    *state = (rank_state_t){.rank = self->rank, .size = self->size};
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &state->coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &state->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, 16 * COUNT * sizeof(float), &memory), SELVAGE_SUCCESS);
    state->data = memory;
    for (int i = 0; i < 16 * COUNT; i++)
        state->data[i] = 1.0f;
    return state->coll != NULL;
}

/* All ranks are there, so that none waits for the end of another's patience. */
static void close_rank(local_rank_t *self, rank_state_t *state)
{
    local_ranks_barrier(self);
    selvage_coll_destroy(state->coll);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, state->stream), SELVAGE_SUCCESS);
    selvage_stream_destroy(self->dev, state->stream);
    selvage_device_free(self->dev, state->data);
}

/* The error as a user waits for it, and then by a call: it stays. */
static void expect_error(rank_state_t *state, selvage_status_t wanted)
{
    double until_s = (double)sv_clock_ns() * 1e-9 + PATIENCE_S;
    while (selvage_coll_error(state->coll) == SELVAGE_SUCCESS && (double)sv_clock_ns() * 1e-9 < until_s)
        usleep(200);
    CHECK_STATUS(selvage_coll_error(state->coll), wanted);
    CHECK_STATUS(selvage_coll_barrier(state->coll, state->stream), wanted);
    CHECK_STATUS(selvage_coll_error(state->coll), wanted);
}

/* For a rank that has nothing to wait for: it hears of the error in one of its next calls. */
static void expect_told(local_rank_t *self, rank_state_t *state, selvage_status_t wanted)
{
    for (int turn = 0; turn < 10 && selvage_coll_error(state->coll) == SELVAGE_SUCCESS; turn++) {
        (void)selvage_coll_all_reduce(state->coll, state->data, state->data, COUNT, SELVAGE_FLOAT32, SELVAGE_OP_SUM,
                                      state->stream);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state->stream), SELVAGE_SUCCESS);
    }
    expect_error(state, wanted);
}

/* What all but one rank call, and what that one calls. */
typedef struct mismatch {
    const char *what;
    void (*rule)(rank_state_t *state), (*exception)(rank_state_t *state);
} mismatch_t;

static void all_reduce(rank_state_t *s, size_t count, selvage_type_t type, selvage_op_t op)
{
    CHECK_STATUS(selvage_coll_all_reduce(s->coll, s->data, s->data, count, type, op, s->stream), SELVAGE_SUCCESS);
}

static void call_plain(rank_state_t *s)
{
    all_reduce(s, COUNT, SELVAGE_FLOAT32, SELVAGE_OP_SUM);
}

static void call_longer(rank_state_t *s)
{
    all_reduce(s, COUNT + 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM);
}

static void call_none(rank_state_t *s)
{
    all_reduce(s, 0, SELVAGE_FLOAT32, SELVAGE_OP_SUM);
}

static void call_other_type(rank_state_t *s)
{
    all_reduce(s, COUNT, SELVAGE_INT32, SELVAGE_OP_SUM);
}

static void call_other_op(rank_state_t *s)
{
    all_reduce(s, COUNT, SELVAGE_FLOAT32, SELVAGE_OP_MAX);
}

static void call_average(rank_state_t *s)
{
    all_reduce(s, COUNT, SELVAGE_FLOAT32, SELVAGE_OP_AVG);
}

static void call_scaled(rank_state_t *s)
{
    const float two = 2;
    selvage_op_t op = SELVAGE_OP_DEFAULT;
    CHECK_STATUS(selvage_coll_op_create(s->coll, &two, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, &op), SELVAGE_SUCCESS);
    all_reduce(s, COUNT, SELVAGE_FLOAT32, op);
}

static void call_gather(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_all_gather(s->coll, s->data, s->data + COUNT, COUNT, SELVAGE_FLOAT32, s->stream),
                 SELVAGE_SUCCESS);
}

static void call_barrier(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_barrier(s->coll, s->stream), SELVAGE_SUCCESS);
}

static void call_root_0(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_broadcast(s->coll, s->data, s->data, COUNT, SELVAGE_FLOAT32, 0, s->stream),
                 SELVAGE_SUCCESS);
}

static void call_root_1(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_broadcast(s->coll, s->data, s->data, COUNT, SELVAGE_FLOAT32, 1, s->stream),
                 SELVAGE_SUCCESS);
}

static void call_in_order(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_group_begin(s->coll), SELVAGE_SUCCESS);
    call_plain(s);
    call_longer(s);
    CHECK_STATUS(selvage_coll_group_end(s->coll), SELVAGE_SUCCESS);
}

static void call_out_of_order(rank_state_t *s)
{
    CHECK_STATUS(selvage_coll_group_begin(s->coll), SELVAGE_SUCCESS);
    call_longer(s);
    call_plain(s);
    CHECK_STATUS(selvage_coll_group_end(s->coll), SELVAGE_SUCCESS);
}

/* A message of COUNT to the next rank, and one from the rank before. */
static void pass_around(rank_state_t *s, size_t recv_count)
{
    const int next = (s->rank + 1) % s->size, before = (s->rank + s->size - 1) % s->size;
    CHECK_STATUS(selvage_coll_group_begin(s->coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_send(s->coll, s->data, COUNT, SELVAGE_FLOAT32, next, s->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_recv(s->coll, s->data + COUNT, recv_count, SELVAGE_FLOAT32, before, s->stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_group_end(s->coll), SELVAGE_SUCCESS);
}

static void pass_plain(rank_state_t *s)
{
    pass_around(s, COUNT);
}

static void expect_more(rank_state_t *s)
{
    pass_around(s, COUNT + COUNT / 2);
}

static void expect_nothing(rank_state_t *s)
{
    pass_around(s, 0);
}

static const mismatch_t mismatches[] = {
    {"count", call_plain, call_longer},
    {"no elements", call_plain, call_none},
    {"type", call_plain, call_other_type},
    {"operation", call_plain, call_other_op},
    {"average", call_plain, call_average},
    {"scaled", call_plain, call_scaled},
    {"call", call_plain, call_gather},
    {"barrier", call_barrier, call_plain},
    {"root", call_root_0, call_root_1},
    {"order", call_in_order, call_out_of_order},
    {"longer message", pass_plain, expect_more},
    {"no message", pass_plain, expect_nothing},
};

/* A few calls that match, so that slots and halves of hellos have been used before. */
static void warm_up(rank_state_t *state)
{
    for (int i = 0; i < 3; i++)
        call_barrier(state);
    call_plain(state);
}

static void run_mismatch(local_rank_t *self)
{
    const mismatch_t *mismatch = self->arg;
    rank_state_t state;
    if (open_rank(self, &state)) {
        warm_up(&state);
        (self->rank == 1 ? mismatch->exception : mismatch->rule)(&state);
        if (mismatch->rule == pass_plain && self->rank != 1) /* whose own messages may have matched */
            expect_told(self, &state, SELVAGE_ERR_MISMATCH);
        else
            expect_error(&state, SELVAGE_ERR_MISMATCH);
        CHECK(local_ranks_logged(self, self->rank == 1 ? "rank " : "rank 1"));
    }
    close_rank(self, &state);
}

/* The last rank comes late or never: the others give up, and the late one is told. */
static void run_absent(local_rank_t *self)
{
    rank_state_t state;
    const char *const names[] = {"rank 1", "rank 2", "rank 3"};
    const bool absent = self->rank == self->size - 1;
    if (open_rank(self, &state)) {
        warm_up(&state);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
        local_ranks_deadline(self, state.coll, 1.5);
        if (!absent) {
            call_plain(&state);
            expect_error(&state, SELVAGE_ERR_TIMEOUT);
            CHECK(local_ranks_logged(self, names[self->size - 2]));
        }
        local_ranks_barrier(self);
        if (absent)
            expect_told(self, &state, SELVAGE_ERR_TIMEOUT);
    }
    close_rank(self, &state);
}

static void *abort_soon(void *arg)
{
    usleep(20000);
    selvage_coll_abort(arg);
    return NULL;
}

/* Rank 0 waits for the others in a kernel; another thread of its own ends that. */
static void run_abort(local_rank_t *self)
{
    rank_state_t state;
    pthread_t thread;
    if (open_rank(self, &state)) {
        warm_up(&state);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        if (self->rank == 0) {
            call_plain(&state);
            CHECK_EQ(pthread_create(&thread, NULL, abort_soon, state.coll), 0);
            CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
            pthread_join(thread, NULL);
            expect_error(&state, SELVAGE_ERR_ABORTED);
        }
        local_ranks_barrier(self);
        if (self->rank != 0)
            expect_told(self, &state, SELVAGE_ERR_ABORTED);
    }
    close_rank(self, &state);
}

/* Rank 0 is told to end at any time of a long all-reduce in stages: what it has not done then nobody takes for done. */
static void run_abort_midway(local_rank_t *self)
{
    enum { LONG = 1 << 19, TURNS = 8, STEP_US = 250 };
    for (int turn = 0; turn < TURNS; turn++) {
        rank_state_t state;
        selvage_window_t *window = NULL;
        void *memory = NULL;
        if (!open_rank(self, &state))
            continue;
        CHECK_STATUS(selvage_device_malloc(self->dev, 2 * LONG * sizeof(float), &memory), SELVAGE_SUCCESS);
        float *in = memory, *out = in + LONG;
        CHECK_STATUS(selvage_coll_register(state.coll, in, 2 * LONG * sizeof(float), &window), SELVAGE_SUCCESS);
        for (int i = 0; i < LONG; i++)
            in[i] = 1.0f;
        warm_up(&state);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        CHECK_STATUS(selvage_coll_all_reduce(state.coll, in, out, LONG, SELVAGE_FLOAT32, SELVAGE_OP_SUM, state.stream),
                     SELVAGE_SUCCESS);
        if (self->rank == 0)
            usleep((useconds_t)(turn * STEP_US));
        if (self->rank == 0)
            selvage_coll_abort(state.coll);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
        long wrong = 0; /* where there is an error others may store there still */
        for (int i = 0; i < LONG && selvage_coll_error(state.coll) == SELVAGE_SUCCESS; i++)
            wrong += out[i] != (float)self->size;
        CHECK(wrong == 0 || selvage_coll_error(state.coll) != SELVAGE_SUCCESS);
        close_rank(self, &state);
        CHECK_STATUS(selvage_coll_unregister(window), SELVAGE_SUCCESS);
        selvage_device_free(self->dev, memory);
    }
}

/* Abort where nothing is under way: nobody is there to tell the others, who find that this rank does not come. */
static void run_abort_idle(local_rank_t *self)
{
    rank_state_t state;
    if (open_rank(self, &state)) {
        local_ranks_deadline(self, state.coll, 2);
        if (self->rank == self->size - 1)
            selvage_coll_abort(state.coll);
        else
            call_plain(&state);
        expect_error(&state, self->rank == self->size - 1 ? SELVAGE_ERR_ABORTED : SELVAGE_ERR_TIMEOUT);
    }
    close_rank(self, &state);
}

/* Keeps a stream until told. */
static void hold(const void *arg, unsigned block, unsigned nblocks)
{
    _Atomic int *const *go = arg;
    (void)block;
    (void)nblocks;
    while (!atomic_load(*go))
        usleep(100);
}

/* Where the sender of a slot says that the data is whole: a flag in a line, or, of whole slots, their tail. */
typedef struct place {
    uint64_t *data, *flag;
    unsigned flag_shift;
} place_t;

/* The first word that rank 1 puts into the first slot of this rank; NULL: not yet. Lines of both kinds are looked at,
   because long ones are only used where that is right. */
static uint64_t *first_word(const selvage_coll_t *coll, bool lines_only)
{
    const sv_coll_layout_t *layout = &coll->arena->layout;
    uint8_t *connection = coll->arena->memory + SV_COLL_ARENA_HEAD + layout->conn_bytes;
    uint64_t *lines = (uint64_t *)(void *)(connection + layout->ll_at);
    uint64_t *has_ll128 = (uint64_t *)(void *)(connection + layout->long_at);
    const place_t places[] = {
        {lines, lines, 32},
        {has_ll128, has_ll128 + SV_COLL_LONG_WORDS - 1, 0},
        {(uint64_t *)(void *)(connection + layout->slot_at), (uint64_t *)(void *)(connection + SV_COLL_TAIL_AT), 0}};
    for (unsigned p = lines_only ? 0 : 2; p < (lines_only ? 2 : 3); p++) /* partner: the kernel of rank 1 */
        if (__atomic_load_n(places[p].flag, __ATOMIC_ACQUIRE) >> places[p].flag_shift == 1)
            return places[p].data;
    return NULL;
}

/* Flips a bit of it. */
static void damage_slot(const selvage_coll_t *coll)
{
    const bool lines_only = coll->comm->config.coll_proto != SV_CONFIG_COLL_PROTO_SIMPLE;
    uint64_t *word = NULL;
    for (int turn = 0; turn < 100000 && !word; turn++) {
        word = first_word(coll, lines_only);
        usleep(100);
    }
    CHECK(word != NULL);
    if (word)
        __atomic_fetch_xor(word, UINT64_C(1) << 11, __ATOMIC_RELAXED);
}

static void run_damage(local_rank_t *self)
{
    rank_state_t state;
    _Atomic int go = 0, *pointer = &go;
    if (open_rank(self, &state)) {
        if (self->rank == 0)
            CHECK_STATUS(selvage_device_launch_soft(self->dev, hold, &pointer, sizeof pointer, 1, state.stream),
                         SELVAGE_SUCCESS);
        call_plain(&state);
        if (self->rank == 0)
            damage_slot(state.coll);
        atomic_store(&go, 1);
        expect_told(self, &state, SELVAGE_ERR_CHECKSUM);
        if (self->rank == 0)
            CHECK(local_ranks_logged(self, "rank 1"));
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
    }
    close_rank(self, &state);
}

static void refuse_calls(local_rank_t *self, rank_state_t *s)
{
    selvage_coll_t *coll = s->coll;
    float *a = s->data, *b = a + 8 * COUNT;
    void *stream = s->stream;
    const selvage_status_t refused = SELVAGE_ERR_ARGUMENT;
    CHECK_STATUS(selvage_coll_all_reduce(NULL, a, b, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, NULL, b, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, NULL, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, SELVAGE_TYPE_DEFAULT, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, (selvage_type_t)24, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, SELVAGE_FLOAT32, SELVAGE_OP_DEFAULT, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, SELVAGE_FLOAT32, 6, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, SELVAGE_FLOAT32, 16, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, 1, SELVAGE_FLOAT32, -1, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, (char *)a + 1, b, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, (char *)b + 2, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, a + 1, 2, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_all_reduce(coll, a, b, SIZE_MAX / 2, SELVAGE_FLOAT32, SELVAGE_OP_SUM, stream), refused);
    CHECK_STATUS(selvage_coll_broadcast(coll, a, b, 1, SELVAGE_FLOAT32, self->size, stream), refused);
    CHECK_STATUS(selvage_coll_broadcast(coll, a, b, 1, SELVAGE_FLOAT32, -1, stream), refused);
    CHECK_STATUS(selvage_coll_reduce(coll, a, b, 1, SELVAGE_FLOAT32, SELVAGE_OP_SUM, self->size, stream), refused);
    CHECK_STATUS(selvage_coll_all_to_all(coll, a, a, 1, SELVAGE_FLOAT32, stream), refused);
    CHECK_STATUS(selvage_coll_send(coll, a, 1, SELVAGE_FLOAT32, self->size, stream), refused);
    CHECK_STATUS(selvage_coll_recv(coll, a, 1, SELVAGE_FLOAT32, -77, stream), refused);
    CHECK_STATUS(selvage_coll_barrier(NULL, stream), refused);
    CHECK_STATUS(selvage_coll_group_begin(NULL), refused);
    CHECK_STATUS(selvage_coll_group_end(NULL), refused);
    CHECK_STATUS(selvage_coll_group_end(coll), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_coll_error(NULL), refused);
    CHECK_STATUS(selvage_coll_stats(coll, NULL), refused);
    CHECK_EQ(selvage_coll_rank(NULL), -1);
    CHECK_EQ(selvage_coll_size(NULL), -1);
    selvage_coll_destroy(NULL);
    selvage_coll_abort(NULL);
}

static void refuse_operations(rank_state_t *s)
{
    const selvage_status_t refused = SELVAGE_ERR_ARGUMENT;
    const float one = 1;
    selvage_op_t op = 0, many[SV_COLL_OPERATIONS];
    CHECK_STATUS(selvage_coll_op_create(NULL, &one, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, &op), refused);
    CHECK_STATUS(selvage_coll_op_create(s->coll, NULL, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, &op), refused);
    CHECK_STATUS(selvage_coll_op_create(s->coll, &one, SELVAGE_TYPE_DEFAULT, SELVAGE_SCALAR_HOST, &op), refused);
    CHECK_STATUS(selvage_coll_op_create(s->coll, &one, SELVAGE_FLOAT32, (selvage_scalar_t)3, &op), refused);
    CHECK_STATUS(selvage_coll_op_create(s->coll, &one, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, NULL), refused);
    CHECK_STATUS(selvage_coll_op_destroy(s->coll, SELVAGE_OP_SUM), refused);
    CHECK_STATUS(selvage_coll_op_destroy(s->coll, 20), refused);
    for (int i = 0; i < SV_COLL_OPERATIONS; i++)
        CHECK_STATUS(selvage_coll_op_create(s->coll, &one, SELVAGE_FLOAT32, SELVAGE_SCALAR_DEFAULT, &many[i]),
                     SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_op_create(s->coll, &one, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, &op), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(selvage_coll_all_reduce(s->coll, s->data, s->data, 1, SELVAGE_FLOAT64, many[0], s->stream), refused);
    for (int i = 0; i < SV_COLL_OPERATIONS; i += 2)
        CHECK_STATUS(selvage_coll_op_destroy(s->coll, many[i]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_op_destroy(s->coll, many[0]), refused);
    CHECK_STATUS(selvage_coll_all_reduce(s->coll, s->data, s->data, 1, SELVAGE_FLOAT32, many[0], s->stream), refused);
}

static void refuse_windows(rank_state_t *s)
{
    enum { WINDOWS = SV_COLL_WINDOWS - 1 };
    selvage_window_t *window[WINDOWS], *extra = NULL;
    CHECK_STATUS(selvage_coll_register(NULL, s->data, 1, &extra), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_register(s->coll, s->data, 0, &extra), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_register(s->coll, NULL, 8, &extra), SELVAGE_ERR_ARGUMENT);
    for (int w = 0; w < WINDOWS; w++)
        CHECK_STATUS(selvage_coll_register(s->coll, s->data + w, 4, &window[w]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_register(s->coll, s->data, 4, &extra), SELVAGE_ERR_LIMIT);
    for (int w = 0; w < WINDOWS; w++)
        CHECK_STATUS(selvage_coll_unregister(window[w]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_register(s->coll, s->data, 4, &extra), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_unregister(extra), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_unregister(NULL), SELVAGE_SUCCESS);
}

/* Nothing that is refused leaves a trace: the communicator works on. */
static void run_refused(local_rank_t *self)
{
    rank_state_t state;
    selvage_coll_t *coll = NULL;
    selvage_coll_params_t params = {.struct_size = 3};
    CHECK_STATUS(selvage_coll_create(NULL, NULL, &coll), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_create(self->comm, &params, &coll), SELVAGE_ERR_ARGUMENT);
    if (open_rank(self, &state)) {
        CHECK_STATUS(selvage_coll_split(state.coll, -2, 0, &coll), SELVAGE_ERR_ARGUMENT);
        refuse_calls(self, &state);
        refuse_operations(&state);
        refuse_windows(&state);
        call_plain(&state);
        CHECK_STATUS(selvage_coll_all_reduce(state.coll, NULL, NULL, 0, SELVAGE_INT8, SELVAGE_OP_MIN, state.stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, state.stream), SELVAGE_SUCCESS);
        CHECK(state.data[COUNT - 1] == (float)self->size && state.data[COUNT] == 1.0f);
        CHECK_STATUS(selvage_coll_error(state.coll), SELVAGE_SUCCESS);
    }
    close_rank(self, &state);
}

/* An arena that cannot be, on all ranks or on one: all are told. */
static void run_small_arena(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    const bool all = *(const bool *)self->arg;
    selvage_coll_params_t params = {SELVAGE_COLL_PARAMS_INIT, .arena_bytes = all || self->rank == 1 ? 1000 : 0};
    selvage_status_t status = selvage_coll_create(self->comm, &params, &coll);
    CHECK(status == SELVAGE_ERR_LIMIT || (!all && status == SELVAGE_ERR_MISMATCH));
    CHECK(coll == NULL);
}

/* With work under way, a group open, windows, operations and splits alive; from the newest, or the oldest. */
static void run_destroy(local_rank_t *self)
{
    for (int kind = 0; kind < 5; kind++) {
        rank_state_t state;
        selvage_coll_t *part = NULL;
        selvage_window_t *window = NULL;
        if (!open_rank(self, &state))
            continue;
        if (kind >= 1)
            for (int i = 0; i < 20; i++)
                call_plain(&state);
        if (kind == 2) {
            CHECK_STATUS(selvage_coll_group_begin(state.coll), SELVAGE_SUCCESS);
            call_plain(&state);
        }
        if (kind == 3)
            CHECK_STATUS(selvage_coll_register(state.coll, state.data, 64, &window), SELVAGE_SUCCESS);
        if (kind == 4) {
            CHECK_STATUS(selvage_coll_split(state.coll, self->rank % 2, 0, &part), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_coll_barrier(part, state.stream), SELVAGE_SUCCESS);
        }
        close_rank(self, &state);
        CHECK_STATUS(selvage_coll_unregister(window), SELVAGE_SUCCESS); /* frees the handle, which is the caller's */
        selvage_coll_destroy(part);
    }
}

/* The rank's communicator goes first: what is left of collectives goes with it. */
static void run_leftover(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    if (self->rank == 0)
        selvage_coll_abort(coll);
    selvage_coll_destroy(coll);
}

static void run(int size, void (*body)(local_rank_t *self), void *arg, const char *environment)
{
    long failed = atomic_load(&check_failed_);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .body = body, .arg = arg, .log_expected = true});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, %s\n", size, environment);
}

static void test_mismatches(void)
{
    static const char *const environments[] = {"TIMEOUT_S=20", "TIMEOUT_S=20 COLL_ALGO=ring COLL_PROTO=simple",
                                               "TIMEOUT_S=20 COLL_ALGO=twoshot COLL_PROTO=ll",
                                               "TIMEOUT_S=20 COLL_ALGO=direct COLL_CHANNELS_MIN=2 COLL_PUSH_MIN=1",
                                               "TIMEOUT_S=20 SUM=exact"};
    for (unsigned m = 0; m < sizeof mismatches / sizeof mismatches[0]; m++)
        for (unsigned e = 0; e < sizeof environments / sizeof environments[0]; e++) {
            long failed = atomic_load(&check_failed_);
            run(e % 2 ? 3 : 2, run_mismatch, (void *)(uintptr_t)&mismatches[m], environments[e]);
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "what differed: %s\n", mismatches[m].what);
        }
}

static void test_damage(void)
{
    static const char *const algorithms[] = {"oneshot", "twoshot", "ring"};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    char environment[160];
    for (unsigned p = 0; p < 3; p++)
        for (unsigned a = 0; a < 3; a++) {
            snprintf(environment, sizeof environment,
                     "TIMEOUT_S=20 COLL_CHECKSUM=on COLL_CHANNELS_MAX=1 COLL_ALGO=%s COLL_PROTO=%s", algorithms[a],
                     protocols[p]);
            run(2, run_damage, NULL, environment);
        }
}

int main(void)
{
    test_mismatches();
    for (int ranks = 2; ranks <= 4; ranks++) {
        run(ranks, run_absent, NULL, "TIMEOUT_S=60");
        run(ranks, run_absent, NULL, "TIMEOUT_S=60 COLL_ALGO=ring COLL_PROTO=simple");
        run(ranks, run_absent, NULL, "TIMEOUT_S=60 SUM=exact");
    }
    run(3, run_abort, NULL, "TIMEOUT_S=20");
    run(3, run_abort_midway, NULL, "TIMEOUT_S=20 COLL_ALGO=direct COLL_CHANNELS_MAX=1 COLL_PUSH_MIN=1");
    run(3, run_abort_idle, NULL, "TIMEOUT_S=60");
    test_damage();
    for (int i = 0; i < 2; i++) {
        run(1 + 2 * i, run_refused, NULL, "");
        run(2, run_small_arena, &(bool){i == 1}, "");
        run(1 + 3 * i, run_destroy, NULL, "");
    }
    run(3, run_leftover, NULL, "TIMEOUT_S=20");
    return check_report("test_coll_errors");
}
