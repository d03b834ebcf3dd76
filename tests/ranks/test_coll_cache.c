/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache of collectives, with ranks as threads: a buffer that nobody registered is looked up in users'
 * memory from the third call on; memory that was freed and given out again at the same address is other memory; ranks
 * decide differently; numbers are given to other buffers; a rank cannot map, or has no outbox; splits and groups; what
 * is idle goes. Every result is compared, and what the ranks say is looked at.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "collective/coll_cache.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include <selvage/collective.h>

enum { COUNT = 2000, BUFFERS = 40, CALLS = 500 };

typedef struct bench {
    local_rank_t *self;
    selvage_coll_t *coll;
    void *stream;
    uint64_t random;
} bench_t;

static uint32_t *allocate(bench_t *b, size_t count)
{
    void *ptr = NULL;
    CHECK_STATUS(selvage_device_malloc(b->self->dev, count * sizeof(uint32_t), &ptr), SELVAGE_SUCCESS);
    return ptr;
}

static void release(bench_t *b, uint32_t *ptr)
{
    selvage_device_free(b->self->dev, ptr);
}

static bool is_said(const bench_t *b, const uint32_t *ptr, size_t count)
{
    const uint64_t id = SV_DEVICE_CALL(b->self->dev, memory_id, ptr);
    return sv_coll_cache_find(b->coll, id, ptr, count * sizeof *ptr) != 0;
}

/* What rank r gives at element i of call number `call`. */
static uint32_t value_of(unsigned call, int r, size_t i)
{
    return call * 7919u + (uint32_t)r * 104729u + (uint32_t)i * 31u;
}

static void fill(bench_t *b, uint32_t *send, uint32_t *recv, size_t count, unsigned call)
{
    memset(recv, 0xee, count * sizeof *recv);
    for (size_t i = 0; i < count; i++)
        send[i] = value_of(call, b->self->rank, i);
}

static void check_sum(bench_t *b, const uint32_t *recv, size_t count, unsigned call)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (int r = 0; r < b->self->size; r++)
            sum += value_of(call, r, i);
        wrong += recv[i] != sum;
    }
    CHECK_EQ(wrong, 0);
}

static void add_up(bench_t *b, uint32_t *send, uint32_t *recv, size_t count, unsigned call)
{
    fill(b, send, recv, count, call);
    CHECK_STATUS(selvage_coll_all_reduce(b->coll, send, recv, count, SELVAGE_UINT32, SELVAGE_OP_SUM, b->stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(b->self->dev, b->stream), SELVAGE_SUCCESS);
    check_sum(b, recv, count, call);
}

static void open_bench(bench_t *b, local_rank_t *self)
{
    *b = (bench_t){.self = self, .random = 17};
    CHECK_STATUS(selvage_stream_create(self->dev, &b->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &b->coll), SELVAGE_SUCCESS);
}

static void close_bench(bench_t *b)
{
    CHECK_STATUS(selvage_coll_error(b->coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(b->coll);
    selvage_stream_destroy(b->self->dev, b->stream);
}

/* --- used again, freed, and given out again ----------------------------------------------------------------------- */

static void use_again(local_rank_t *self)
{
    bench_t b;
    unsigned call = 0;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, COUNT), *recv = allocate(&b, COUNT);
    for (int i = 0; i < 3; i++) {
        local_ranks_barrier(self); /* so that all have seen what the call before has offered */
        add_up(&b, send, recv, COUNT, call++);
        CHECK(i > 0 || (!is_said(&b, send, COUNT - 1) && !is_said(&b, recv, COUNT - 1)));
    }
    CHECK(is_said(&b, send, COUNT) && is_said(&b, recv, COUNT));
    CHECK(is_said(&b, send + 10, COUNT - 10) && !is_said(&b, send + 10, COUNT)); /* parts, but nothing beyond */
    add_up(&b, send, recv, COUNT, call++);
    add_up(&b, recv, send, COUNT, call++); /* the other way round */
    add_up(&b, send + 4, recv + 8, COUNT - 8, call++);
    fill(&b, send, recv, COUNT, call);
    CHECK_STATUS(selvage_coll_all_reduce(b.coll, send, send, COUNT, SELVAGE_UINT32, SELVAGE_OP_SUM, b.stream),
                 SELVAGE_SUCCESS); /* in place */
    CHECK_STATUS(selvage_stream_synchronize(self->dev, b.stream), SELVAGE_SUCCESS);
    check_sum(&b, send, COUNT, call++);

    /* Other memory at the same address, again and again. */
    int same = 0;
    for (int round = 0; round < SV_COLL_CACHED + 4; round++) { /* more often than there are numbers */
        const uint32_t *before = recv;
        release(&b, recv);
        recv = allocate(&b, COUNT);
        same += recv == before;
        CHECK(!is_said(&b, recv, COUNT));
        for (int i = 0; i < 4; i++) {
            local_ranks_barrier(self);
            add_up(&b, send, recv, COUNT, call++);
        }
        CHECK(is_said(&b, recv, COUNT) && is_said(&b, send, COUNT));
    }
    CHECK(same > 0);
    release(&b, send); /* before its mappings are closed */
    release(&b, recv);
    close_bench(&b);
}

/* Rank 1 has other buffers in each call, and rank 2 in every other one: who says a window and who does not changes from
   call to call. */
static void differ(local_rank_t *self)
{
    bench_t b;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, COUNT), *recv = allocate(&b, COUNT);
    for (unsigned call = 0; call < 60; call++) {
        const bool other = self->rank == 1 || (self->rank == 2 && call % 2);
        uint32_t *to = other ? allocate(&b, COUNT) : recv;
        if (call % 5 == 0)
            local_ranks_barrier(self);
        add_up(&b, send, to, COUNT, call);
        CHECK(!other || !is_said(&b, to, COUNT));
        if (other)
            release(&b, to);
    }
    CHECK(is_said(&b, send, COUNT) && (self->rank == 1 || is_said(&b, recv, COUNT)));
    release(&b, send);
    release(&b, recv);
    close_bench(&b);
}

static _Atomic int said_ahead;

/* Ranks enqueue calls without waiting for them, and rank 1 is late by some: the others are ahead when they map its
   buffers, with kernels that wait for it and look into the table then. Each call adds up what the one before gave. */
static void run_ahead(local_rank_t *self)
{
    enum { AHEAD = 60, ROUNDS = 4, CALL_US = 300, LATE_US = 10 * CALL_US };
    bench_t b;
    open_bench(&b, self);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t *buf[2] = {allocate(&b, COUNT), allocate(&b, COUNT)}, wanted = 0;
        for (size_t i = 0; i < COUNT; i++)
            buf[0][i] = (uint32_t)self->rank + 1;
        for (int r = 0; r < self->size; r++)
            wanted += (uint32_t)r + 1;
        local_ranks_barrier(self);
        if (self->rank == 1)
            usleep(LATE_US);
        for (int i = 0; i < AHEAD; i++) {
            usleep(CALL_US);
            CHECK_STATUS(selvage_coll_all_reduce(b.coll, buf[i % 2], buf[1 - i % 2], COUNT, SELVAGE_UINT32,
                                                 SELVAGE_OP_SUM, b.stream), SELVAGE_SUCCESS);
            wanted *= i > 0 ? (uint32_t)self->size : 1;
        }
        CHECK_STATUS(selvage_stream_synchronize(self->dev, b.stream), SELVAGE_SUCCESS);
        size_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++)
            wrong += buf[AHEAD % 2][i] != wanted;
        CHECK_EQ(wrong, 0);
        said_ahead += is_said(&b, buf[0], COUNT) && is_said(&b, buf[1], COUNT);
        release(&b, buf[0]);
        release(&b, buf[1]);
    }
    close_bench(&b);
}

/* --- many buffers ------------------------------------------------------------------------------------------------- */

/* More buffers than numbers, of which some are freed now and then; each rank draws its own. Several calls are under way
   at a time, some of them in groups. */
static void use_many(local_rank_t *self)
{
    bench_t b;
    uint32_t *buffer[BUFFERS];
    unsigned call = 0;
    open_bench(&b, self);
    uint64_t mine = 1000 + (uint64_t)self->rank, common = 5;
    for (int i = 0; i < BUFFERS; i++)
        buffer[i] = allocate(&b, COUNT);
    for (int turn = 0; turn < CALLS / 4; turn++) {
        int send[4], recv[4];
        const int calls = 1 + (int)local_ranks_random(&common, 4), few = turn % 32 < 16 ? 8 : BUFFERS;
        const bool grouped = local_ranks_random(&common, 2);
        for (int i = 0; i < calls; i++) { /* each has its own quarter of the buffers */
            send[i] = i * few / 4 + (int)local_ranks_random(&mine, (uint64_t)few / 8);
            recv[i] = i * few / 4 + few / 8 + (int)local_ranks_random(&mine, (uint64_t)few / 8);
            fill(&b, buffer[send[i]], buffer[recv[i]], COUNT, call + (unsigned)i);
        }
        if (grouped)
            CHECK_STATUS(selvage_coll_group_begin(b.coll), SELVAGE_SUCCESS);
        for (int i = 0; i < calls; i++)
            CHECK_STATUS(selvage_coll_all_reduce(b.coll, buffer[send[i]], buffer[recv[i]], COUNT, SELVAGE_UINT32,
                                                 SELVAGE_OP_SUM, b.stream), SELVAGE_SUCCESS);
        if (grouped)
            CHECK_STATUS(selvage_coll_group_end(b.coll), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, b.stream), SELVAGE_SUCCESS);
        for (int i = 0; i < calls; i++)
            check_sum(&b, buffer[recv[i]], COUNT, call++);
        for (int i = 0; i < 2; i++) {
            const int at = (int)local_ranks_random(&mine, BUFFERS);
            if (local_ranks_random(&mine, 8))
                continue;
            release(&b, buffer[at]);
            buffer[at] = allocate(&b, COUNT);
        }
    }
    for (int i = 0; i < BUFFERS; i++)
        release(&b, buffer[i]);
    close_bench(&b);
}

/* Buffers in turn, in place, one number each. */
static unsigned use_in_turn(bench_t *b, uint32_t **buffer, int count, int rounds)
{
    unsigned call = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            fill(b, buffer[i], buffer[(i + 1) % count], COUNT, call);
            CHECK_STATUS(selvage_coll_all_reduce(b->coll, buffer[i], buffer[i], COUNT, SELVAGE_UINT32, SELVAGE_OP_SUM,
                                                 b->stream), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_stream_synchronize(b->self->dev, b->stream), SELVAGE_SUCCESS);
            check_sum(b, buffer[i], COUNT, call++);
            local_ranks_barrier(b->self);
        }
    return call;
}

/* A number whose buffer is not used for long goes to another one. */
static void make_way(local_rank_t *self)
{
    bench_t b;
    uint32_t *buffer[SV_COLL_CACHED + 1];
    open_bench(&b, self);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        buffer[i] = allocate(&b, COUNT);
    unsigned call = use_in_turn(&b, buffer, SV_COLL_CACHED + 1, 4);
    CHECK(is_said(&b, buffer[0], COUNT) && !is_said(&b, buffer[SV_COLL_CACHED], COUNT));
    for (int i = 0; i < 300; i++) { /* all but two */
        add_up(&b, buffer[0], buffer[SV_COLL_CACHED], COUNT, call++);
        if (i % 50 == 0)
            local_ranks_barrier(self);
    }
    CHECK(is_said(&b, buffer[0], COUNT) && is_said(&b, buffer[SV_COLL_CACHED], COUNT));
    CHECK(!is_said(&b, buffer[1], COUNT));
    add_up(&b, buffer[1], buffer[2], COUNT, call++);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        release(&b, buffer[i]);
    close_bench(&b);
}

/* Rank 1 cannot map the first buffer of rank 0: the number goes to the last one, for which there was none. */
static void give_up_one(local_rank_t *self)
{
    bench_t b;
    uint32_t *buffer[SV_COLL_CACHED + 1];
    open_bench(&b, self);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        buffer[i] = allocate(&b, COUNT);
    (void)use_in_turn(&b, buffer, SV_COLL_CACHED + 1, 6);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        CHECK_EQ(is_said(&b, buffer[i], COUNT), self->rank == 0 ? i != 0 : i != SV_COLL_CACHED);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        release(&b, buffer[i]);
    close_bench(&b);
}

static void use_all_in_turn(local_rank_t *self)
{
    bench_t b;
    uint32_t *buffer[SV_COLL_CACHED + 1];
    open_bench(&b, self);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        buffer[i] = allocate(&b, COUNT);
    (void)use_in_turn(&b, buffer, SV_COLL_CACHED + 1, 8);
    for (int i = 0; i <= SV_COLL_CACHED; i++)
        release(&b, buffer[i]);
    close_bench(&b);
}

/* --- splits, and what does not work ------------------------------------------------------------------------------- */

/* Ranks that are not in a split never look at its offers, and need not. */
static void split(local_rank_t *self)
{
    bench_t b;
    selvage_coll_t *all, *part = NULL;
    open_bench(&b, self);
    all = b.coll;
    uint32_t *send = allocate(&b, COUNT), *recv = allocate(&b, COUNT);
    CHECK_STATUS(selvage_coll_split(all, self->rank / 2, self->rank, &part), SELVAGE_SUCCESS);
    for (unsigned call = 0; call < 6 && self->rank < 2; call++) {
        memset(recv, 0, COUNT * sizeof *recv);
        for (size_t i = 0; i < COUNT; i++)
            send[i] = value_of(call, self->rank, i);
        CHECK_STATUS(selvage_coll_all_reduce(part, send, recv, COUNT, SELVAGE_UINT32, SELVAGE_OP_SUM, b.stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, b.stream), SELVAGE_SUCCESS);
        CHECK_EQ(recv[7], value_of(call, 0, 7) + value_of(call, 1, 7));
    }
    if (self->rank < 2) {
        b.coll = part;
        CHECK(is_said(&b, send, COUNT) && is_said(&b, recv, COUNT));
        b.coll = all;
        CHECK(!is_said(&b, send, COUNT) && !is_said(&b, recv, COUNT));
    }
    /* Another one with the same number and other ranks, of which one has mapped nothing yet. */
    selvage_coll_destroy(part);
    CHECK_STATUS(selvage_coll_split(all, self->rank % 2, self->rank, &part), SELVAGE_SUCCESS);
    b.coll = part;
    CHECK(!is_said(&b, send, COUNT) && !is_said(&b, recv, COUNT));
    for (unsigned call = 0; call < 6; call++) {
        for (size_t i = 0; i < COUNT; i++)
            send[i] = value_of(call, self->rank, i);
        CHECK_STATUS(selvage_coll_all_reduce(part, send, recv, COUNT, SELVAGE_UINT32, SELVAGE_OP_SUM, b.stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, b.stream), SELVAGE_SUCCESS);
        CHECK_EQ(recv[7], value_of(call, self->rank % 2, 7) + value_of(call, self->rank % 2 + 2, 7));
    }
    b.coll = all;
    for (unsigned call = 0; call < 6; call++) {
        local_ranks_barrier(self);
        add_up(&b, send, recv, COUNT, call);
    }
    CHECK(is_said(&b, send, COUNT) && is_said(&b, recv, COUNT));
    selvage_coll_destroy(part);
    release(&b, send);
    release(&b, recv);
    close_bench(&b);
}

static _Atomic int capture_from; /* how often a rank's stream is asked about before it is said to be captured */
static _Thread_local int capture_asked;

static bool is_captured_later(sv_device_t *dev, void *stream)
{
    (void)dev, (void)stream;
    return ++capture_asked > capture_from && capture_asked % 2 == 0; /* each call asks first, and is let through */
}

/* After a call that is captured nothing is said any more, and what others say stays right. */
static void capture(local_rank_t *self)
{
    bench_t b;
    sv_device_t *dev = self->dev;
    const sv_device_ops_t *real = dev->ops;
    sv_device_ops_t ops = *real;
    ops.stream_is_capturing = is_captured_later;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, COUNT), *recv = allocate(&b, COUNT);
    capture_asked = 0;
    capture_from = 12;
    if (self->rank == 1)
        dev->ops = &ops;
    for (unsigned call = 0; call < 12; call++) {
        local_ranks_barrier(self);
        add_up(&b, send, recv, COUNT, call);
        CHECK_EQ(is_said(&b, send, COUNT), call >= 1 && (call < 6 || self->rank != 1));
    }
    uint32_t *other = allocate(&b, COUNT); /* which rank 1 does not answer for */
    for (unsigned call = 0; call < 6; call++) {
        local_ranks_barrier(self);
        add_up(&b, other, recv, COUNT, call);
        CHECK(!is_said(&b, other, COUNT));
    }
    dev->ops = real;
    release(&b, send);
    release(&b, recv);
    release(&b, other);
    close_bench(&b);
}

static _Atomic int said;

/* Of buffers in allocations of their own. */
static void count_said(local_rank_t *self)
{
    enum { ALLOCATED = 3 << 20 };
    bench_t b;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, ALLOCATED), *recv = allocate(&b, ALLOCATED);
    for (unsigned call = 0; call < 6; call++) {
        local_ranks_barrier(self);
        add_up(&b, send, recv, COUNT, call);
    }
    said += is_said(&b, send, COUNT) + is_said(&b, recv, COUNT);
    release(&b, send);
    release(&b, recv);
    close_bench(&b);
}

static void run(const char *more, int size, void (*body)(local_rank_t *self), bool log_expected)
{
    char list[256];
    snprintf(list, sizeof list, "TIMEOUT_S=30 COLL_ALGO=direct COLL_CACHE_BYTES=1G %s", more);
    local_ranks_env(list);
    said = 0;
    local_ranks_run(&(local_run_t){.size = size, .body = body, .log_expected = log_expected});
}

static void test_what_is_said(void)
{
    run("", 3, count_said, false);
    CHECK_EQ(said, 6);
    run("COLL_CACHE_BYTES=0", 3, count_said, false);
    CHECK_EQ(said, 0);
    run("COLL_CACHE_BYTES=20M", 3, count_said, false); /* room for one of 12 MiB, of which parts are used */
    CHECK_EQ(said, 3);
    run("COLL_ALGO=ring", 3, count_said, false); /* which has no use for it */
    CHECK_EQ(said, 0);
    /* Rank 1 maps the arenas of two peers, and then nothing more: the others' buffers are never said, its own are. */
    run("FAULT=ipc=3+,rank=1", 3, count_said, true);
    CHECK_EQ(said, 2);
    /* It opens one more mapping, which is of a buffer of one peer. */
    run("FAULT=ipc=4+,rank=1", 3, count_said, true);
    CHECK_EQ(said, 3);
    /* It opens no outbox, and so maps nobody's buffers. */
    run("FAULT=map=1+,rank=1", 3, count_said, true);
    CHECK_EQ(said, 2);
}

/* --- what is idle ------------------------------------------------------------------------------------------------- */

static _Atomic int closed;

/* What no call uses any more is withdrawn, and closed by the others; and later offered again. */
static void leave_idle(local_rank_t *self)
{
    const double until_s = (double)sv_clock_ns() * 1e-9 + 60;
    bench_t b;
    int due = 0, ended = 0;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, COUNT), *recv = allocate(&b, COUNT);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned call = 0; call < 6; call++) {
            local_ranks_barrier(self);
            add_up(&b, send, recv, COUNT, call);
        }
        CHECK(is_said(&b, send, COUNT) && is_said(&b, recv, COUNT));
        local_ranks_barrier(self);
        closed = 0;
        local_ranks_barrier(self);
        /* Nothing goes while a group is open. */
        if (round == 1) {
            CHECK_STATUS(selvage_coll_group_begin(b.coll), SELVAGE_SUCCESS);
            usleep(200000);
            CHECK_STATUS(selvage_coll_trim(b.coll, 1, &due), SELVAGE_SUCCESS);
            CHECK_EQ(due, 0);
            CHECK_STATUS(selvage_coll_group_end(b.coll), SELVAGE_SUCCESS);
        }
        for (bool told = false; closed < self->size && (double)sv_clock_ns() * 1e-9 < until_s;) {
            CHECK_STATUS(selvage_coll_trim(b.coll, 0, &due), SELVAGE_SUCCESS);
            ended = due;
            CHECK_STATUS(selvage_coll_trim(b.coll, 1, &due), SELVAGE_SUCCESS);
            closed += ended && due && !told;
            told = told || (ended && due);
            usleep(1000);
        }
        CHECK_EQ(closed, self->size);
        local_ranks_barrier(self);
        CHECK(!is_said(&b, send, COUNT) && !is_said(&b, recv, COUNT));
    }
    release(&b, send);
    release(&b, recv);
    close_bench(&b);
}

/* A short buffer in an allocation that is longer than all that may be offered is not mapped. */
static void be_part_of_much(local_rank_t *self)
{
    const size_t all = 80 << 18; /* elements, of 80 MiB */
    bench_t b;
    open_bench(&b, self);
    uint32_t *send = allocate(&b, all), *recv = allocate(&b, COUNT);
    for (unsigned call = 0; call < 6; call++) {
        local_ranks_barrier(self);
        add_up(&b, send, recv, COUNT, call);
    }
    CHECK(!is_said(&b, send, COUNT) && is_said(&b, recv, COUNT));
    release(&b, send);
    release(&b, recv);
    close_bench(&b);
}

/* By the communicator's parameters, whatever the setting. */
static void ask_by_params(local_rank_t *self)
{
    const selvage_coll_params_t params = {SELVAGE_COLL_PARAMS_INIT, .cache_bytes = 1 << 20};
    bench_t b;
    open_bench(&b, self);
    CHECK(!sv_coll_cache_offers(b.coll));
    selvage_coll_destroy(b.coll);
    CHECK_STATUS(selvage_coll_create(self->comm, &params, &b.coll), SELVAGE_SUCCESS);
    CHECK(sv_coll_cache_offers(b.coll));
    close_bench(&b);
}

static _Atomic int made, with_outbox;

static void only_create(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    if (!self->comm || selvage_coll_create(self->comm, NULL, &coll) != SELVAGE_SUCCESS)
        return;
    bench_t b = {.self = self, .coll = coll};
    CHECK_STATUS(selvage_stream_create(self->dev, &b.stream), SELVAGE_SUCCESS);
    uint32_t *buf[2];
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_device_malloc(self->dev, COUNT * sizeof(uint32_t), (void **)&buf[i]), SELVAGE_SUCCESS);
    made++;
    with_outbox += sv_coll_cache_offers(coll);
    for (int i = 0; i < 2; i++)
        release(&b, buf[i]);
    selvage_stream_destroy(self->dev, b.stream);
    selvage_coll_destroy(coll);
}

/* Each allocation and each device call of rank 1 while communicators are created fails in turn: all ranks have one, or
   none has, and it may be that rank 1 has no outbox. */
static void test_creation(void)
{
    static const char *const kinds[] = {"alloc", "device"};
    int refused = 0, without = 0;
    for (int kind = 0; kind < 2; kind++)
        for (int n = 1; n < 200; n++) {
            char list[128];
            snprintf(list, sizeof list, "TIMEOUT_S=2 COLL_CACHE_BYTES=1G FAULT=%s=%d,rank=1", kinds[kind], n);
            made = with_outbox = 0;
            local_ranks_env(list);
            local_ranks_run(&(local_run_t){.size = 2, .body = only_create, .log_expected = true,
                                           .create_may_fail = true, .may_set_aside = true});
            CHECK(made == 0 || made == 2);
            refused += made == 0;
            without += made == 2 && with_outbox == 1;
            if (made == 2 && with_outbox == 2 && n > 40)
                break;
        }
    CHECK(refused > 20);
    CHECK(without > 0);
}

int main(void)
{
    for (int sums = 0; sums < 2; sums++) {
        const char *mode = sums ? "SOFT_BLOCKS=3 COLL_CHECKSUM=on" : "SOFT_BLOCKS=3 COLL_CHECKSUM=off";
        for (int size = 2; size <= 4; size++)
            run(mode, size, use_again, false);
        run(mode, 4, differ, false);
        run(mode, 3, run_ahead, false);
        run(mode, 3, use_many, false);
        run(mode, 2, make_way, false);
    }
    run("COLL_PUSH_MIN=0", 3, use_again, false);
    run("PROGRESS=thread", 2, use_again, false);
    run("FAULT=ipc=2,rank=1", 2, give_up_one, true); /* the first is that of the arena */
    run("FAULT=ipc=2+,rank=1", 2, use_all_in_turn, true); /* it is not asked for ever */
    const int asked = local_ranks_count_logged("injected fault: opening of device memory");
    CHECK(asked >= 4 && asked < 2 * SV_COLL_CACHED);
    run("", 3, capture, false);
    run("", 4, split, false);
    CHECK(said_ahead > 0);
    run("IDLE_S=0.1", 3, leave_idle, false);
    run("COLL_CACHE_BYTES=1M", 2, be_part_of_much, false);
    run("COLL_CACHE_BYTES=0", 2, ask_by_params, false);
    test_what_is_said();
    test_creation();
    return check_report("test_coll_cache");
}
