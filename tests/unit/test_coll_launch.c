/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From calls to launches, on a device that is a thread of this test (coll_fake.h): where pieces of work travel, which
 * calls have kernels of their own, and what is refused.
 */
#include "fixtures/coll_fake.h"

static selvage_status_t all_reduce(uint64_t count, void *stream)
{
    sv_coll_call_t call = {.call = SV_COLL_ALL_REDUCE, .type = SV_COLL_FLOAT32, .op = SELVAGE_OP_SUM, .root = -1,
                           .send = memory, .recv = memory, .count = count, .stream = stream};
    return sv_coll_submit(&coll, &call);
}

static selvage_status_t group_of(unsigned ncalls)
{
    CHECK_STATUS(sv_coll_group_begin(&coll), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < ncalls; i++)
        CHECK_STATUS(all_reduce(i % 1000, NULL), SELVAGE_SUCCESS);
    return sv_coll_group_end(&coll);
}

static void test_where_work_travels(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    CHECK_STATUS(all_reduce(7, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(group_of(SV_COLL_ARG_WORKS), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    CHECK_EQ(fake.from_fifo, 0);
    CHECK_STATUS(group_of(SV_COLL_ARG_WORKS + 1), SELVAGE_SUCCESS);
    CHECK_STATUS(group_of(3), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    CHECK_EQ(fake.from_fifo, 1);
    CHECK_EQ(fake.queued, 4);
    CHECK_EQ(arena.fifo_produced, (SV_COLL_ARG_WORKS + 1) * SV_COLL_FIFO_STRIDE);
    end(thread);
    thread = begin(FIFO_MAX, 0, 0, true);
    CHECK_STATUS(all_reduce(7, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    CHECK_EQ(fake.from_fifo, 1);
    end(thread);
}

static selvage_status_t message(bool is_send, int other, uint64_t count)
{
    sv_coll_call_t call = {.call = SV_COLL_PAIR, .type = SV_COLL_FLOAT32, .root = other, .is_send = is_send,
                           .send = is_send ? memory : NULL, .recv = is_send ? NULL : memory, .count = count};
    return sv_coll_submit(&coll, &call);
}

/* A send to the next rank and a receive from the one before, in one group: one piece of work. */
static void send_around(uint64_t send_count, uint64_t recv_count)
{
    CHECK_STATUS(sv_coll_group_begin(&coll), SELVAGE_SUCCESS);
    CHECK_STATUS(message(true, 2, send_count), SELVAGE_SUCCESS);
    CHECK_STATUS(message(false, 0, recv_count), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_SUCCESS);
}

/* Short calls alone have a kernel of their own, and so do a short send and receive; long ones and groups do not. */
static void test_small(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    config.coll_quick = comm.config.coll_quick = true;
    coll.dev.layout.ll_bytes = 8 << 10;
    CHECK_STATUS(all_reduce(7, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(0, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(fake.small, 2);
    CHECK_STATUS(group_of(2), SELVAGE_SUCCESS);
    coll.dev.layout.ll_bytes = 256; /* 16 words of data */
    CHECK_STATUS(all_reduce(200, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(fake.small, 2);
    coll.dev.layout.ll_bytes = 8 << 10;
    send_around(7, 9);
    CHECK_STATUS(message(true, 0, 100), SELVAGE_SUCCESS);
    CHECK_STATUS(message(false, 3, 0), SELVAGE_SUCCESS);
    CHECK_EQ(fake.pairs, 3);
    coll.dev.layout.ll_bytes = 512; /* 32 words of data */
    send_around(7, 200);
    send_around(200, 7);
    CHECK_EQ(fake.pairs, 3);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    end(thread);
}

/* Small and large groups through a FIFO whose positions, and counts of pieces, wrap on the way. */
static void test_fifo(uint32_t fifo_bytes)
{
    pthread_t thread = begin(fifo_bytes, 0U - 77 * SV_COLL_FIFO_STRIDE, 0U - 500, true);
    unsigned half = fifo_bytes / 2 / SV_COLL_FIFO_STRIDE, ncalls = 0;
    for (unsigned turn = 0; turn < 400; turn++) {
        unsigned size = 1 + turn * 7919 % 13;
        ncalls += size;
        CHECK_STATUS(group_of(size), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    set(&fake.slow, true);
    CHECK_STATUS(group_of(5 * half + 1), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    selvage_coll_stats_t stats;
    sv_coll_stats(&coll, &stats);
    CHECK_EQ(stats.calls, ncalls + 5 * half + 1);
    CHECK_EQ(fake.next_sequence, stats.calls + 1);
    CHECK_EQ(stats.launches, fake.queued);
    CHECK(stats.launches >= 406 && fake.most_works <= half);
    CHECK_EQ(stats.completed, stats.started);
    CHECK_EQ(stats.completed, arena.pieces);
    CHECK(stats.fifo_waits > 0);
    CHECK_EQ(pinned.consumed, (uint32_t)(stats.calls - 77) * SV_COLL_FIFO_STRIDE);
    end(thread);
}

static void test_fifo_deadline(void)
{
    pthread_t thread = begin(8 * SV_COLL_FIFO_STRIDE, 0, 0, true);
    set(&fake.held, true);
    comm.timeout_s = 0.05;
    for (unsigned i = 0; i < 8; i++)
        CHECK_STATUS(all_reduce(1, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, NULL), SELVAGE_ERR_TIMEOUT);
    CHECK(strstr(selvage_error_detail(), "1024 bytes"));
    CHECK_EQ(arena.fifo_waits, 1);
    end(thread);
}

static void count_up(void *arg)
{
    (*(unsigned *)arg)++;
}

/* For the event. */
static void set_done(unsigned done)
{
    pthread_mutex_lock(&fake.lock);
    fake.done = done;
    pthread_mutex_unlock(&fake.lock);
}

static void test_callbacks(void)
{
    unsigned first = 0, second = 0, at_once = 0;
    pthread_t thread = begin(FIFO_MAX, 0, 0U - 3, false);
    CHECK_STATUS(sv_coll_when_complete(&arena, count_up, &at_once), SELVAGE_SUCCESS);
    CHECK_EQ(at_once, 1);
    set(&fake.held, true);
    CHECK_STATUS(all_reduce(1000, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_when_complete(&arena, count_up, &first), SELVAGE_SUCCESS);
    CHECK_STATUS(group_of(4), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_when_complete(&arena, count_up, &second), SELVAGE_SUCCESS);
    sv_coll_poll(&arena);
    CHECK_EQ(first + second, 0);
    run_launch(&fake.queue[0]); /* the thread is held */
    sv_coll_poll(&arena);
    CHECK(first == 0 && second == 0); /* what it stored need not be seen yet */
    run_launch(&fake.queue[1]);
    sv_coll_poll(&arena);
    CHECK(first == 1 && second == 0);
    set_done(fake.queued);
    sv_coll_poll(&arena);
    CHECK(first == 1 && second == 1);
    CHECK_EQ(arena.ncallbacks, 3);
    end(thread);
}

/* An error keeps blocks from counting; the event still says when all is over. */
static void test_callbacks_after_error(void)
{
    unsigned ran = 0;
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    set(&fake.held, true);
    CHECK_STATUS(all_reduce(1000, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_when_complete(&arena, count_up, &ran), SELVAGE_SUCCESS);
    __atomic_store_n(&pinned.error.kind, SV_COLL_ABORTED, __ATOMIC_RELEASE);
    sv_coll_poll(&arena);
    CHECK_EQ(ran, 0);
    set_done(fake.queued);
    sv_coll_poll(&arena);
    CHECK_EQ(ran, 1);
    end(thread);
}

static void test_drain_stops(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    CHECK_STATUS(all_reduce(1, NULL), SELVAGE_SUCCESS);
    set(&fake.endless, true);
    CHECK_STATUS(sv_coll_drain(&arena, 0.02), SELVAGE_ERR_TIMEOUT);
    CHECK(strstr(selvage_error_detail(), "told to stop, which they did"));
    CHECK_EQ(pinned.host_stop, 1);
    CHECK_EQ(arena.completed, arena.launches);
    end(thread);
}

static void *stream(int number)
{
    return (void *)(uintptr_t)number;
}

static void test_streams(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    fake.log_on = true;
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(2)), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "ll1 record1 ll1 record1 wait2 ll2 record2");
    fake.log[0] = '\0';
    sv_coll_group_begin(&coll);
    sv_coll_group_begin(&coll);
    CHECK_STATUS(all_reduce(1, stream(3)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(3)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(2)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "");
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "wait3 record1 wait3 record2 wait3 ll3 record3 wait1 wait2");
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_ERR_STATE);
    end(thread);
}

/* What is captured has neither event nor count, nor anything in the FIFO; and it is one stream. */
static void test_captured(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    fake.log_on = true;
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    const uint64_t launches = arena.launches, pieces = arena.pieces;
    fake.log[0] = '\0';
    fake.capturing = true;
    CHECK_STATUS(all_reduce(1, stream(2)), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "ll2");
    sv_coll_group_begin(&coll);
    for (int i = 0; i < SV_COLL_ARG_WORKS + 1; i++)
        CHECK_STATUS(all_reduce(1, stream(2)), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "ll2 ll2 ll2");
    CHECK_EQ(arena.launches, launches);
    CHECK_EQ(arena.pieces, pieces);
    CHECK_EQ(arena.fifo_produced, 0);
    sv_coll_group_begin(&coll);
    CHECK_STATUS(all_reduce(1, stream(2)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(3)), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_ERR_UNSUPPORTED);
    fake.capturing = false;
    fake.log[0] = '\0';
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "ll1 record1");
    end(thread);
}

/* Each protocol reduces in a kernel of its own; what only copies goes along with any. */
static void test_kernels(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    sv_coll_call_t gather = {.call = SV_COLL_ALL_GATHER, .type = SV_COLL_FLOAT32, .root = -1, .send = memory,
                             .recv = memory + 1024, .count = 16, .stream = stream(1)};
    config.coll_ll_max = 256;
    fake.log_on = true;
    sv_coll_group_begin(&coll);
    CHECK_STATUS(sv_coll_submit(&coll, &gather), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1000, stream(1)), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(1, stream(1)), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_submit(&coll, &gather), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(2, stream(1)), SELVAGE_SUCCESS);
    coll.facts.has_ll128 = true;
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "long1 record1 ll1 record1");
    fake.log[0] = '\0';
    coll.facts.has_ll128 = false;
    CHECK_STATUS(all_reduce(1000, stream(1)), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "simple1 record1");
    fake.log[0] = '\0';
    CHECK_STATUS(sv_coll_submit(&coll, &gather), SELVAGE_SUCCESS);
    CHECK_STR(fake.log, "ll1 record1");
    config.coll_ll_max = SV_CONFIG_BYTES_AUTO;
    end(thread);
}

static selvage_status_t call_of(unsigned call, const void *send, void *recv, uint64_t count, int root, selvage_op_t op)
{
    sv_coll_call_t made = {.call = (uint8_t)call, .type = SV_COLL_FLOAT32, .op = (uint8_t)op, .root = root,
                           .send = send, .recv = recv, .count = count};
    return sv_coll_submit(&coll, &made);
}

/* Refused before anything is launched, so that the same call can be made again rightly. */
static void test_refused(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    uint8_t host[64];
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory + 8, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), "overlap"));
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory + 2048 + 2, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), "recv is") && strstr(selvage_error_detail(), "not aligned"));
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, NULL, memory, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, host, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), "recv: 16 bytes at"));
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory, UINT64_C(1) << 34, -1, SELVAGE_OP_SUM),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_REDUCE_SCATTER, memory, memory, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_ALL_GATHER, memory, memory, 4, -1, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_ALL_TO_ALL, memory, memory, 4, -1, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_REDUCE, memory, memory, 4, 1, SV_COLL_FIRST_OPERATION), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(fake.queued, 0);
    CHECK_EQ(coll.sequence, 0);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory + 16, 4, -1, SELVAGE_OP_SUM), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_REDUCE_SCATTER, memory, memory + 16, 4, -1, SELVAGE_OP_SUM), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_ALL_GATHER, memory + 16, memory, 4, -1, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_REDUCE, memory, NULL, 4, 2, SELVAGE_OP_SUM), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_BROADCAST, NULL, memory, 4, 2, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, NULL, NULL, 0, -1, SELVAGE_OP_SUM), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    CHECK_EQ(fake.queued, 6);
    end(thread);
}

/* The first error of a call in a group is that of the group, which launches nothing. */
static void test_refused_in_group(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    sv_coll_group_begin(&coll);
    CHECK_STATUS(all_reduce(4, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, NULL, memory, 4, -1, SELVAGE_OP_SUM), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(fake.queued, 0);
    CHECK_STATUS(group_of(2), SELVAGE_SUCCESS);
    sv_coll_group_begin(&coll);
    for (unsigned i = 0; i < SV_COLL_GROUP_CALLS; i++)
        CHECK_STATUS(all_reduce(0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(all_reduce(0, NULL), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_coll_group_end(&coll), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    CHECK_EQ(fake.queued, 1);
    end(thread);
}

static void test_operations(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false);
    float scalar = 2.5F;
    double wide = 1;
    selvage_op_t op[SV_COLL_OPERATIONS], more;
    set(&fake.held, true);
    for (unsigned i = 0; i < SV_COLL_OPERATIONS; i++)
        CHECK_STATUS(sv_coll_operation_create(&coll, &scalar, SELVAGE_FLOAT32, SELVAGE_SCALAR_HOST, &op[i]),
                     SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_operation_create(&coll, &wide, SELVAGE_FLOAT64, SELVAGE_SCALAR_HOST, &more),
                 SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_coll_operation_destroy(&coll, op[3]), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_operation_destroy(&coll, op[3]), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_coll_operation_create(&coll, &wide, SELVAGE_FLOAT64, SELVAGE_SCALAR_HOST, &more), SELVAGE_SUCCESS);
    CHECK_EQ(more, op[3]);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory, 4, -1, more), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory, 4, -1, op[0]), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory, 4, -1, SELVAGE_OP_AVG), SELVAGE_SUCCESS);
    CHECK_STATUS(call_of(SV_COLL_ALL_REDUCE, memory, memory, 4, -1, SELVAGE_OP_SUM), SELVAGE_SUCCESS);
    const sv_coll_work_t *premul = &fake.queue[0].arg.work[0], *average = &fake.queue[1].arg.work[0],
                         *sum = &fake.queue[2].arg.work[0];
    uint32_t bits;
    memcpy(&bits, &scalar, sizeof bits);
    CHECK(premul->op == SV_COLL_SUM && premul->flags == (SV_COLL_PREMUL | SV_COLL_DIGEST) && premul->scalar == bits);
    CHECK(average->op == SV_COLL_SUM && average->flags == (SV_COLL_DIVIDE | SV_COLL_DIGEST));
    CHECK(sum->op == SV_COLL_SUM && sum->flags == SV_COLL_DIGEST);
    CHECK((premul->signature >> 48 & 7) == SV_COLL_SIGNED_PREMUL && (sum->signature >> 48 & 7) == SV_COLL_SUM);
    CHECK((average->signature >> 48 & 7) == SV_COLL_SIGNED_AVERAGE);
    set(&fake.held, false);
    CHECK_STATUS(sv_coll_drain(&arena, 30), SELVAGE_SUCCESS);
    end(thread);
}

static void *ask(void *arg)
{
    CHECK_STATUS(sv_coll_check(arg), SELVAGE_ERR_TIMEOUT);
    CHECK(strstr(selvage_error_detail(), "rank 3 did not come to call 9 (all_reduce)") == selvage_error_detail());
    return NULL;
}

static void test_errors(void)
{
    pthread_t thread = begin(FIFO_MAX, 0, 0, false), asking[4];
    CHECK_STATUS(sv_coll_check(&coll), SELVAGE_SUCCESS);
    pinned.error = (sv_coll_error_t){.place = SV_COLL_AT_ENTRY, .sequence = 9, .peer = 3, .call = SV_COLL_ALL_REDUCE};
    CHECK_STATUS(sv_coll_check(&coll), SELVAGE_SUCCESS);
    __atomic_store_n(&pinned.error.kind, SV_COLL_LATE, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&asking[i], NULL, ask, &coll), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(asking[i], NULL);
    CHECK_STATUS(all_reduce(1, NULL), SELVAGE_ERR_TIMEOUT);
    CHECK_EQ(fake.queued, 0);
    sv_coll_abort(&coll);
    CHECK_STATUS(sv_coll_check(&coll), SELVAGE_ERR_TIMEOUT);
    end(thread);
    thread = begin(FIFO_MAX, 0, 0, false);
    sv_coll_abort(&coll);
    CHECK_EQ(pinned.host_stop, 1);
    CHECK_STATUS(all_reduce(1, NULL), SELVAGE_ERR_ABORTED);
    end(thread);
}

int main(void)
{
    CHECK_STATUS(sv_config_load(no_variable, NULL, &config), SELVAGE_SUCCESS);
    test_small();
    test_where_work_travels();
    test_fifo(16 * SV_COLL_FIFO_STRIDE);
    test_fifo(64 * SV_COLL_FIFO_STRIDE);
    test_fifo_deadline();
    test_callbacks();
    test_callbacks_after_error();
    test_drain_stops();
    test_streams();
    test_captured();
    test_kernels();
    test_refused();
    test_refused_in_group();
    test_operations();
    test_errors();
    return check_report("test_coll_launch");
}
