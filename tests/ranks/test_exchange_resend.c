/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet that is asked for again before its first attempt has left. A message that came late, and damaged, stands in
 * its way: its receiver takes that for the packet, and asks at once. By then the sender's kernel may only be enqueued,
 * on the caller's stream, and that of the next attempt goes to another stream. It must not come first: the word of the
 * first attempt would follow that of the second, for which the sender would wait until the deadline.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "pipeline/pipe_exchange.h"
#include "wire/wire_local.h"

enum { RANKS = 3, PACKETS = 3, EPOCHS = 3, LATE_BYTES = 100, ELSEWHERE_US = 20000, HELD_MS = 10000 };

static plan_t plan;

/* --- the sender's stream is held between start and its push ------------------------------------------------------- */

static _Atomic bool held;

static void hold_kernel(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
    for (int i = 0; i < HELD_MS && atomic_load(&held); i++)
        usleep(1000);
}

static const sv_kernel_t holding = {.name = "hold", .soft = hold_kernel};
static sv_device_ops_t usual, behind; /* of rank 0 alone */
static void *caller_stream;

static selvage_status_t launch_behind(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                      unsigned nblocks, void *stream)
{
    if (kernel == &sv_kernel_push && stream == caller_stream && !atomic_exchange(&held, true))
        CHECK_STATUS(usual.launch(dev, &holding, "", 1, 1, stream), SELVAGE_SUCCESS);
    return usual.launch(dev, kernel, arg, arg_bytes, nblocks, stream);
}

/* --- the epochs --------------------------------------------------------------------------------------------------- */

/* What meets the receive of the next epoch. */
static void send_late(const sv_send_t *send)
{
    static const uint8_t late[LATE_BYTES];
    const sv_wire_path_t path = sv_packet_path(&send->p, send->p.wire_tag);
    sv_wire_request_t request = {{0}};
    CHECK_STATUS(sv_wire_send(path.wire, path.channel, late, sizeof late, path.peer, path.tag, &request),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(path.wire, &request, NULL), SELVAGE_SUCCESS);
}

/* The poll that hears of the question is the last one. What could be done on other streams now is done, then what was
   held. */
static void await_request(const fixture_t *fixture, const sv_send_t *send, void *stream)
{
    const uint64_t begin_ns = sv_clock_ns();
    while (send->wanted_attempt == 0 && sv_clock_ns() - begin_ns < UINT64_C(30000000000))
        CHECK_STATUS(selvage_exchange_test(fixture->ex, stream), SELVAGE_IN_PROGRESS);
    CHECK(send->wanted_attempt > 0);
    usleep(ELSEWHERE_US);
    CHECK(atomic_exchange(&held, false));
    CHECK_STATUS(selvage_stream_synchronize(fixture->self->dev, stream), SELVAGE_SUCCESS);
}

static void ask_early(local_rank_t *self)
{
    fixture_t fixture;
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    bool good = fixture_open(&fixture, self, &plan, NULL);
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    if (self->rank == 0) {
        usual = behind = *ops;
        behind.launch = launch_behind;
        caller_stream = stream;
        dev->ops = &behind;
    }
    for (int epoch = 0; good && epoch < EPOCHS; epoch++) {
        if (self->rank == 0)
            send_late(&fixture.ex->sends[epoch % PACKETS]);
        CHECK_STATUS(fixture_start(&fixture, stream), SELVAGE_SUCCESS);
        if (self->rank == 0)
            await_request(&fixture, &fixture.ex->sends[epoch % PACKETS], stream);
        selvage_status_t status = selvage_exchange_wait(fixture.ex, stream);
        CHECK_STATUS(status, SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&fixture, true), 0);
        good = status == SELVAGE_SUCCESS;
    }
    dev->ops = ops;
    fixture_close(&fixture);
    selvage_stream_destroy(self->dev, stream);
}

static void test_early(void)
{
    local_ranks_env("ROUTE=staged TIMEOUT_S=30 RETRY_TIMEOUT_MS=5 KERNEL_COPY_MAX_BYTES=4096");
    plan = (plan_t){.seed = 31};
    for (int i = 0; i < PACKETS; i++)
        plan_add(&plan, 0, 1, 0, 601);
    local_ranks_run(&(local_run_t){.size = 2, .body = ask_early, .log_expected = true});
}

/* --- questions that cross what they ask for ----------------------------------------------------------------------- */

typedef struct crossing {
    uint64_t seed;
    unsigned epochs;
} crossing_t;

static uint64_t random_us(uint64_t *state)
{
    return local_ranks_random(state, 3) ? 0 : local_ranks_random(state, 6000);
}

/* Streams and hosts are late at random, so that what nobody needs any more is sent, hurt again, and found by the next
   epoch; and control messages are lost. */
static void cross(local_rank_t *self)
{
    const crossing_t *crossing = self->arg;
    uint64_t state = crossing->seed * 1000 + (uint64_t)self->rank;
    fixture_t fixture;
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    bool good = fixture_open(&fixture, self, &plan, NULL);
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    sv_wire_local_corrupt_control(self->comm->wire, 3 + (unsigned)local_ranks_random(&state, 5));
    for (unsigned epoch = 0; good && epoch < crossing->epochs; epoch++) {
        CHECK_STATUS(selvage_device_delay_us(self->dev, (double)random_us(&state), stream), SELVAGE_SUCCESS);
        CHECK_STATUS(fixture_start(&fixture, stream), SELVAGE_SUCCESS);
        usleep((useconds_t)random_us(&state));
        selvage_status_t status = selvage_exchange_wait(fixture.ex, stream);
        CHECK_STATUS(status, SELVAGE_SUCCESS);
        good = status == SELVAGE_SUCCESS && fixture_wrong(&fixture, true) == 0;
        CHECK(good);
    }
    sv_wire_local_corrupt_control(self->comm->wire, 0);
    local_ranks_barrier(self);
    fixture_close(&fixture);
    selvage_stream_destroy(self->dev, stream);
}

static void plan_crossing(void)
{
    static const size_t sizes[] = {601, 601, 601, 2000, 6000, 20000, 0};
    plan = (plan_t){.seed = 32};
    for (int rank = 0; rank < RANKS; rank++)
        for (unsigned i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++)
            plan_add(&plan, rank, (rank + 1 + (int)(i % 2)) % RANKS, 0, sizes[i / 2])->send_odd = i % 3;
}

/* One-sided messages do not cross, and doubling them is a race. */
static void test_crossing(uint64_t seed, unsigned epochs)
{
    static const char *const routes[] = {"staged", "direct"};
    char list[400];
    for (int r = 0; r < 2; r++) {
        crossing_t crossing = {.seed = seed, .epochs = epochs};
        long failed = atomic_load(&check_failed_);
        snprintf(list, sizeof list,
                 "ROUTE=%s TIMEOUT_S=10 RETRY_TIMEOUT_MS=2 RETRY_MAX=30 KERNEL_COPY_MAX_BYTES=4096 SEGMENT_BYTES=8192 "
                 "FAULT=flip=0.1,swap=0.1,replay=0.1,truncate=0.1,drop=0.1,delay=0.1,duplicate=0.1,delay_ms=3,"
                 "attempts=3,seed=%u", routes[r], (unsigned)seed);
        local_ranks_env(list);
        local_ranks_run(&(local_run_t){.size = RANKS, .body = cross, .arg = &crossing, .log_expected = true});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "%s, seed %u\n", routes[r], (unsigned)seed);
    }
}

/* test_exchange_resend [SEED...] */
int main(int argc, char **argv)
{
    test_early();
    plan_crossing();
    if (argc == 1)
        test_crossing(1, check_brief() ? 8 : 20);
    for (int i = 1; i < argc; i++)
        test_crossing(strtoull(argv[i], NULL, 10), 40);
    return check_report("test_exchange_resend");
}
