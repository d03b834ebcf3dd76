/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_windows SEED CASES: one-sided calls with the device's memory or the host's in the window, the origin and the
 * result of every rank, by every way to open and close an epoch, against the same on host buffers. Every rank works on
 * the window of one other. Exit status 0 if they agree.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixtures/dropin_case.h"

enum { BYTES_MAX = 600, SPAN_MAX = 1 << 11, NUMBERS_AT = 1 << 13, WINDOW_BYTES = NUMBERS_AT + 4096, STORED = 64 };

typedef enum epoch { FENCE, START, START_TEST, LOCK, LOCK_FLUSH, LOCK_ALL, LOCK_ALL_FLUSH, LOCK_LOCAL, EPOCHS } epoch_t;
typedef enum op {
    PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, SWAP, RPUT, RGET, RACCUMULATE, RGET_ACCUMULATE, OPS
} op_t;

typedef struct window_case {
    epoch_t epoch;
    op_t op;
    int to, from, count, number;
    MPI_Aint at;
    MPI_Datatype type; /* of puts and gets */
    void *base, *origin, *result, *seen;
} case_t;

static MPI_Comm apart;

/* --- the call ----------------------------------------------------------------------------------------------------- */

#if MPI_VERSION >= 4
/* With large counts. */
static int call_large(const case_t *c, MPI_Win win)
{
    MPI_Count n = c->count;
    switch (c->op) {
    case PUT: return X(Put_c, c->origin, n, c->type, c->to, c->at, n, c->type, win);
    case GET: return X(Get_c, c->result, n, c->type, c->to, c->at, n, c->type, win);
    case ACCUMULATE: return X(Accumulate_c, c->origin, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_SUM, win);
    default:
        return X(Get_accumulate_c, c->origin, n, MPI_INT, c->result, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_SUM,
                 win);
    }
}
#endif

static int call_plain(const case_t *c, MPI_Win win)
{
    int n = c->count;
#if MPI_VERSION >= 4
    if (c->number % 3 == 0 && c->op <= GET_ACCUMULATE)
        return call_large(c, win);
#endif
    switch (c->op) {
    case PUT: return X(Put, c->origin, n, c->type, c->to, c->at, n, c->type, win);
    case GET: return X(Get, c->result, n, c->type, c->to, c->at, n, c->type, win);
    case ACCUMULATE: return X(Accumulate, c->origin, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_SUM, win);
    case GET_ACCUMULATE:
        return X(Get_accumulate, c->origin, n, MPI_INT, c->result, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_SUM,
                 win);
    case FETCH: return X(Fetch_and_op, c->origin, c->result, MPI_INT, c->to, NUMBERS_AT, MPI_REPLACE, win);
    case SWAP:
        return X(Compare_and_swap, c->origin, c->seen, c->result, MPI_INT, c->to, NUMBERS_AT, win);
    default: return MPI_ERR_OTHER;
    }
}

static int call_requested(const case_t *c, MPI_Win win)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int n = c->count, code = MPI_ERR_OTHER;
    switch (c->op) {
    case RPUT: code = X(Rput, c->origin, n, c->type, c->to, c->at, n, c->type, win, &request); break;
    case RGET: code = X(Rget, c->result, n, c->type, c->to, c->at, n, c->type, win, &request); break;
    case RACCUMULATE:
        code = X(Raccumulate, c->origin, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_MAX, win, &request);
        break;
    case RGET_ACCUMULATE:
        code = X(Rget_accumulate, c->origin, n, MPI_INT, c->result, n, MPI_INT, c->to, NUMBERS_AT, n, MPI_INT, MPI_SUM,
                 win, &request);
        break;
    default: break;
    }
    return code != MPI_SUCCESS ? code : X(Wait, &request, MPI_STATUS_IGNORE);
}

/* A program may free its type before the epoch ends. */
static int call(const case_t *c, MPI_Win win)
{
    case_t own = *c;
    bool frees = c->type != MPI_DOUBLE && PMPI_Type_dup(c->type, &own.type) == MPI_SUCCESS;
    int code = c->op < RPUT ? call_plain(&own, win) : call_requested(&own, win);
    if (frees)
        PMPI_Type_free(&own.type);
    return code;
}

/* --- epochs ------------------------------------------------------------------------------------------------------- */

static MPI_Group group_of(int rank)
{
    MPI_Group world, one;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_incl(world, 1, &rank, &one);
    PMPI_Group_free(&world);
    return one;
}

static int run_started(const case_t *c, MPI_Win win)
{
    MPI_Group from = group_of(c->from), to = group_of(c->to);
    int flag = 0;
    X(Win_post, from, 0, win);
    PMPI_Win_start(to, 0, win);
    int code = call(c, win);
    X(Win_complete, win);
    if (c->epoch == START)
        X(Win_wait, win);
    while (c->epoch == START_TEST && !flag) {
        X(Win_test, win, &flag);
        sched_yield();
    }
    PMPI_Group_free(&from);
    PMPI_Group_free(&to);
    return code;
}

/* What others have done to a window is seen by its owner once it has locked it, or synchronised it. */
static int run_locked(const case_t *c, MPI_Win win)
{
    bool all = c->epoch == LOCK_ALL || c->epoch == LOCK_ALL_FLUSH;
    if (all)
        X(Win_lock_all, 0, win);
    else
        X(Win_lock, c->number % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, c->to, 0, win);
    int code = call(c, win);
    if (c->epoch == LOCK_FLUSH)
        X(Win_flush, c->to, win);
    if (c->epoch == LOCK_ALL_FLUSH)
        c->number % 2 ? X(Win_flush_all, win) : X(Win_flush_local_all, win);
    if (c->epoch == LOCK_LOCAL)
        X(Win_flush_local, c->to, win);
    if (all)
        X(Win_unlock_all, win);
    else
        X(Win_unlock, c->to, win);
    PMPI_Barrier(apart);
    if (all) {
        X(Win_lock_all, 0, win);
        X(Win_sync, win);
        X(Win_unlock_all, win);
    } else {
        X(Win_lock, MPI_LOCK_EXCLUSIVE, dropin.rank, 0, win);
        X(Win_unlock, dropin.rank, win);
    }
    PMPI_Barrier(apart);
    return code;
}

/* The owner's own stores: late ones, if the window is the device's. */
static void store(const case_t *c, bool device)
{
    int value = 17 + dropin.rank;
    char *at = (char *)c->base + c->number % 512;
    if (!device || dropin_plain) {
        memset(at, value, STORED);
        return;
    }
    selvage_device_delay_us(dropin.device, 200, dropin.stream);
    selvage_device_fill(dropin.device, at, value, STORED, dropin.stream);
}

static int run(const case_t *c, bool device)
{
    MPI_Win win;
#if MPI_VERSION >= 4
    int code = c->number % 2 ? X(Win_create_c, c->base, WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win)
                             : X(Win_create, c->base, WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
#else
    int code = X(Win_create, c->base, WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
#endif
    if (code != MPI_SUCCESS)
        return code;
    if (!dropin_plain) {
        void *base = NULL;
        int *model = NULL, flag = 0;
        MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
        CHECK(flag && base == c->base);
        MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
        CHECK(flag && (!device || *model == MPI_WIN_SEPARATE));
    }
    if (c->epoch == FENCE) {
        X(Win_fence, 0, win);
        code = call(c, win);
        X(Win_fence, 0, win);
    } else
        code = c->epoch <= START_TEST ? run_started(c, win) : run_locked(c, win);
    store(c, device);
    X(Win_fence, 0, win);
    X(Get, c->seen, STORED, MPI_BYTE, c->to, c->number % 512, STORED, MPI_BYTE, win);
    X(Put, c->seen, 0, MPI_BYTE, MPI_PROC_NULL, 0, 0, MPI_BYTE, win);
    X(Win_fence, 0, win);
    X(Win_free, &win);
    return code;
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

static case_t make_case(int number)
{
    int shift = (int)dropin_pick((unsigned)dropin.size);
    case_t c = {.epoch = (epoch_t)dropin_pick(EPOCHS), .op = (op_t)dropin_pick(OPS), .count = 1 + (int)dropin_pick(3),
                .to = (dropin.rank + shift) % dropin.size, .from = (dropin.rank + dropin.size - shift) % dropin.size,
                .number = number};
    if (c.op >= RPUT && c.epoch < LOCK) /* requests are for passive targets */
        c.op = (op_t)(c.op - RPUT);
    MPI_Aint lb, extent, low, span;
    c.type = dropin_pick(3) ? datatype_make(&dropin.random, datatype_pick_bytes(&dropin.random, BYTES_MAX), SPAN_MAX)
                            : MPI_DOUBLE;
    PMPI_Type_get_extent(c.type, &lb, &extent);
    PMPI_Type_get_true_extent(c.type, &low, &span);
    MPI_Aint reach = (c.count - 1) * extent, first = low + (reach < 0 ? reach : 0);
    c.at = first < 0 ? -first : 8;
    if (c.at + low + span + (reach > 0 ? reach : 0) > NUMBERS_AT)
        c.count = 1;
    return c;
}

/* For elements of the type, and for numbers. */
static dropin_buffer_t make_buffer(const case_t *c, bool device)
{
    MPI_Aint lb, extent, low, span;
    PMPI_Type_get_extent(c->type, &lb, &extent);
    PMPI_Type_get_true_extent(c->type, &low, &span);
    MPI_Aint reach = (c->count - 1) * extent, first = low + (reach < 0 ? reach : 0);
    MPI_Aint end = low + span + (reach > 0 ? reach : 0);
    return dropin_buffer(first < 0 ? first : 0, end > STORED ? end : STORED, device);
}

static void check_case(int number)
{
    case_t c = make_case(number);
    unsigned where = dropin_pick(256) >> (dropin.rank % 2) * 4;
    dropin_buffer_t base = dropin_buffer(0, WINDOW_BYTES, where & 1), seen = dropin_buffer(0, STORED, where & 8);
    dropin_buffer_t origin = make_buffer(&c, where & 2), result = make_buffer(&c, where & 4);
    int code[2];
    for (int plain = 0; plain < 2; plain++) {
        dropin_plain = plain;
        c.base = dropin_argument(&base);
        c.seen = dropin_argument(&seen);
        c.origin = dropin_argument(&origin);
        c.result = dropin_argument(&result);
        code[plain] = dropin_class(run(&c, where & 1));
    }
    CHECK_EQ(code[0], code[1]);
    bool same[] = {dropin_same(&base), dropin_same(&origin), dropin_same(&result), dropin_same(&seen)};
    for (int i = 0; i < 4; i++)
        CHECK(same[i]);
    if (!same[0] || !same[1] || !same[2] || !same[3] || code[0] != code[1])
        fprintf(stderr, "rank %d, case %d: op %d, epoch %d, to %d, device %d%d%d%d, count %d, same %d%d%d%d\n",
                dropin.rank, number, c.op, c.epoch, c.to, where & 1, where >> 1 & 1, where >> 2 & 1, where >> 3 & 1,
                c.count, same[0], same[1], same[2], same[3]);
    datatype_drop(&c.type);
}

/* Nothing can stand in the place of memory that others name by its address. */
static void check_attach(void)
{
    dropin_buffer_t memory = dropin_buffer(0, 64, true);
    MPI_Win win;
    dropin_plain = false;
    PMPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    PMPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK_EQ(dropin_class(MPI_Win_attach(win, dropin_argument(&memory), 64)), MPI_ERR_RMA_ATTACH);
    PMPI_Win_free(&win);
    CHECK(dropin_same(&memory));
}

/* Not every MPI makes windows everywhere: Open MPI's components may all refuse on a machine without a network. */
static bool makes_windows(void)
{
    double host = 0;
    MPI_Win win;
    const bool makes =
        PMPI_Win_create(&host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS;
    if (makes)
        PMPI_Win_free(&win);
    else
        fprintf(stderr, "this MPI makes no windows here: left out\n");
    return makes;
}

/* Sums that all ranks add to at once, while the owners bring their windows together: each addition counts once. */
static void check_sums(void)
{
    enum { NUMBERS = 16, TURNS = 600 };
    const int turns = check_part(TURNS);
    double one = 1, before, seen[NUMBERS], wanted[NUMBERS] = {0};
    void *base;
    MPI_Win win;
    CHECK_STATUS(selvage_device_malloc(dropin.device, sizeof seen, &base), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(dropin.device, base, 0, sizeof seen, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    CHECK_EQ(MPI_Win_create(base, sizeof seen, sizeof seen[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
    MPI_Win_lock_all(0, win);
    for (int turn = 0; turn < turns; turn++) {
        int to = turn % 3 ? (dropin.rank + turn) % dropin.size : 0;
        if (turn % 2)
            MPI_Fetch_and_op(&one, &before, MPI_DOUBLE, to, turn % NUMBERS, MPI_SUM, win);
        else
            MPI_Get_accumulate(&one, 1, MPI_DOUBLE, &before, 1, MPI_DOUBLE, to, turn % NUMBERS, 1, MPI_DOUBLE, MPI_SUM,
                               win);
        MPI_Win_flush(to, win);
        MPI_Win_sync(win);
        for (int from = 0; from < dropin.size; from++)
            if ((turn % 3 ? (from + turn) % dropin.size : 0) == dropin.rank)
                wanted[turn % NUMBERS]++;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, dropin.rank, 0, win);
    MPI_Win_unlock(dropin.rank, win);
    CHECK_STATUS(selvage_device_copy(dropin.device, seen, base, sizeof seen, SELVAGE_COPY_DEVICE_TO_HOST,
                                     dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    for (int i = 0; i < NUMBERS; i++)
        CHECK_EQ(seen[i], wanted[i]);
    MPI_Win_free(&win);
    selvage_device_free(dropin.device, base);
}

/* What lands in a window by another call of its owner's, between bytes that others put, stays. */
static void check_landing_between(void)
{
    enum { BYTES = 4096, AT = 1000, LENGTH = 50 };
    char put[LENGTH], seen[BYTES], *base;
    const int next = (dropin.rank + 1) % dropin.size;
    void *memory;
    MPI_Win win;
    MPI_Request request;
    CHECK_STATUS(selvage_device_malloc(dropin.device, BYTES, &memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(dropin.device, memory, 1, BYTES, dropin.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    base = memory;
    memset(put, 9, sizeof put);
    CHECK_EQ(MPI_Win_create(base, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
    MPI_Irecv(base + AT, LENGTH, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
    MPI_Win_fence(0, win);
    MPI_Put(put, LENGTH, MPI_CHAR, next, AT - 2 * LENGTH, LENGTH, MPI_CHAR, win);
    MPI_Put(put, LENGTH, MPI_CHAR, next, AT + 2 * LENGTH, LENGTH, MPI_CHAR, win);
    memset(seen, 7, LENGTH);
    MPI_Send(seen, LENGTH, MPI_CHAR, next, 5, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_STATUS(selvage_device_copy(dropin.device, seen, base, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    CHECK_EQ(seen[AT - 2 * LENGTH], 9);
    CHECK_EQ(seen[AT + 3 * LENGTH - 1], 9);
    CHECK_EQ(seen[AT], 7);
    CHECK_EQ(seen[AT + LENGTH - 1], 7);
    MPI_Win_free(&win);
    selvage_device_free(dropin.device, memory);
}

/* What it costs to flush a target does not depend on what is under way to another one, or in another window. */
static void check_flushes(void)
{
    enum { PUTS = 20000, FLUSHES = 2000, LIMIT_MS = 120 };
    struct timespec begin, end;
    double memory[2] = {0};
    void *origin;
    MPI_Win win[2];
    CHECK_STATUS(selvage_device_malloc(dropin.device, sizeof memory, &origin), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++) {
        MPI_Win_create(&memory[i], sizeof memory[i], 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win[i]);
        MPI_Win_lock_all(0, win[i]);
    }
    for (int i = 0; i < PUTS; i++)
        MPI_Put(origin, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, win[i % 2]);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < FLUSHES; i++)
        MPI_Win_flush_local(dropin.size - 1, win[1]);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double ms = (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
    for (int i = 0; i < 2; i++) {
        MPI_Win_unlock_all(win[i]);
        MPI_Win_free(&win[i]);
    }
    if (dropin.size > 1 && ms >= LIMIT_MS)
        fprintf(stderr, "rank %d: %d flushes took %g ms\n", dropin.rank, FLUSHES, ms);
    CHECK(dropin.size == 1 || ms < LIMIT_MS);
    selvage_device_free(dropin.device, origin);
}

/* Erroneous, but MPI bears it. */
static void check_freed_first(void)
{
    void *base;
    MPI_Win win;
    CHECK_STATUS(selvage_device_malloc(dropin.device, 1 << 20, &base), SELVAGE_SUCCESS);
    CHECK_EQ(MPI_Win_create(base, 1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
    selvage_device_free(dropin.device, base);
    CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int cases;
    dropin_begin(argc, argv, MPI_THREAD_SINGLE, &cases);
    PMPI_Comm_dup(MPI_COMM_WORLD, &apart);
    for (int i = 0; i < cases; i++)
        check_case(i);
    check_attach();
    if (makes_windows()) {
        check_sums();
        for (int i = 0; i < 20; i++)
            check_landing_between();
        check_flushes();
        check_freed_first();
    }
    PMPI_Comm_free(&apart);
    CHECK_EQ(datatype_alive(), 0);
    return dropin_end("dropin_windows");
}
