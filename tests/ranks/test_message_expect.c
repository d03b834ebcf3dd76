/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages whose two kernels are launched at the same time: held sends, which a call launches, and receives whose
 * caller knows that their message is about to come. Ranks are threads.
 */
#include "base/base_clock.h"
#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"
#include "message/message_engine.h"
#include "message/message_prelaunch.h"

enum { BYTES = 3000, ROUNDS = 20, MOST = 15 };

static const message_shape_t plain = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};

static uint64_t key_of(int source, int number)
{
    return (uint64_t)source << 32 | (uint32_t)number;
}

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

static uint64_t prelaunched(const local_rank_t *self)
{
    return sv_message_stats(self->comm).arrived.prelaunched;
}

/* How a held send ends. */
typedef enum let_go { LAUNCHED, FREED, LAUNCHED_LATE } let_go_t;

/* Rank 0 holds its message back until rank 1, which was told how long it is, has a kernel that waits for it. */
static void expect_held(local_rank_t *self, uint64_t bytes, let_go_t how, bool may_be_taken)
{
    message_shape_t room = plain;
    message_end_t end;
    room.bytes = BYTES + 1000;
    message_end_open(&end, self, self->rank ? &room : &plain);
    const uint64_t before = prelaunched(self);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend_held(&end, &plain, 1, 1, key_of(0, 1)), SELVAGE_SUCCESS);
        for (int i = 0; i < 10; i++)
            CHECK_STATUS(sv_message_test(&end.request, NULL), SELVAGE_IN_PROGRESS);
    } else {
        message_end_recv(&end, &room, 0, 1);
        sv_message_expect(end.request, bytes);
        sv_message_expect(end.request, bytes);
        CHECK_EQ(end.request->early.launched, bytes <= room.bytes);
    }
    local_ranks_barrier(self);
    if (self->rank == 0 && how == LAUNCHED_LATE)
        sv_clock_sleep_until_ns(sv_clock_ns() + engine_of(self)->expect_wait_ns + 2000000);
    if (self->rank == 0 && how == FREED) {
        sv_message_detach(&end.request);
    } else if (self->rank == 0) {
        CHECK_STATUS(sv_message_launch(end.request), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_launch(end.request), SELVAGE_SUCCESS); /* again: nothing */
    }
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, BYTES, key_of(0, 1)), -1);
    if (self->rank == 1 && !may_be_taken)
        CHECK_EQ(prelaunched(self), before);
    local_ranks_barrier(self);
    message_end_close(&end);
}

static void expecting(local_rank_t *self)
{
    const bool *guesses = self->arg;
    /* Whether GPUs are shared may be unknown: then nothing waits but what its caller has said. */
    self->comm->topology.shares_gpu = self->comm->topology.guesses_gpus = *guesses;
    message_ends_meet(self, BYTES);
    uint64_t before = prelaunched(self);
    for (int i = 0; i < ROUNDS; i++)
        expect_held(self, BYTES, LAUNCHED, true);
    if (self->rank == 1)
        CHECK(prelaunched(self) - before >= MOST);
    expect_held(self, BYTES, FREED, true);
    expect_held(self, BYTES, LAUNCHED_LATE, true);
    expect_held(self, BYTES - 1, LAUNCHED, false);
    expect_held(self, BYTES + 2000, LAUNCHED, !*guesses); /* no room for that: the wait sees to it, if it may */
    before = prelaunched(self);
    for (int i = 0; i < 3; i++)
        message_ends_meet(self, BYTES);
    if (*guesses)
        CHECK_EQ(prelaunched(self), before);
    local_ranks_barrier(self);
}

/* Nothing is expected where ranks are known to share a GPU. */
static void expecting_on_shared(local_rank_t *self)
{
    message_end_t end;
    self->comm->topology.shares_gpu = true;
    message_ends_meet(self, BYTES);
    message_end_open(&end, self, &plain);
    if (self->rank == 1) {
        message_end_recv(&end, &plain, 0, 1);
        sv_message_expect(end.request, BYTES);
        CHECK(!end.request->early.launched);
    } else {
        message_end_send(&end, &plain, 1, 1, key_of(0, 1));
    }
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end);
    local_ranks_barrier(self);
}

static selvage_status_t refuse_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                      unsigned blocks, void *stream)
{
    (void)dev, (void)kernel, (void)arg, (void)arg_bytes, (void)blocks, (void)stream;
    return sv_error_quiet(SELVAGE_ERR_DEVICE, "a test's");
}

/* A launch that fails ends the send with its error, and the receive at the deadline. The next message comes before. */
static void launch_fails(local_rank_t *self)
{
    message_end_t end, next;
    message_ends_meet(self, BYTES);
    message_end_open(&end, self, &plain);
    message_end_open(&next, self, &plain);
    if (self->rank == 0) {
        sv_device_t *dev = engine_of(self)->dev;
        const sv_device_ops_t *const ops = dev->ops;
        sv_device_ops_t failing = *ops;
        failing.launch = refuse_launch;
        CHECK_STATUS(message_end_ibsend_held(&end, &plain, 1, 1, key_of(0, 1)), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        dev->ops = &failing;
        CHECK_STATUS(sv_message_launch(end.request), SELVAGE_ERR_DEVICE);
        dev->ops = ops;
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
        message_end_send(&next, &plain, 1, 2, key_of(0, 2));
        CHECK_STATUS(sv_message_wait(&next.request, NULL), SELVAGE_SUCCESS);
    } else {
        message_end_recv(&end, &plain, 0, 1);
        message_end_recv(&next, &plain, 0, 2);
        sv_message_expect(end.request, BYTES);
        local_ranks_barrier(self);
        CHECK_STATUS(sv_message_wait(&next.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&next, BYTES, key_of(0, 2)), -1);
        const selvage_status_t status = sv_message_wait(&end.request, NULL);
        CHECK_STATUS(status, SELVAGE_ERR_TIMEOUT);
        sv_message_abandon(&end.request, status);
    }
    local_ranks_barrier(self);
    message_end_close(&next);
    message_end_close(&end);
}

static void run_expecting(const char *settings, void (*body)(local_rank_t *self), void *arg, bool log_expected)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .arg = arg, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
#define EARLY "EARLY_WAIT_US=100000 SOFT_BLOCKS=2"
    for (int guesses = 0; guesses < 2; guesses++)
        run_expecting(EARLY, expecting, &(bool){guesses}, false);
    run_expecting(EARLY, expecting_on_shared, NULL, false);
    run_expecting("TIMEOUT_S=5", launch_fails, NULL, true);
    return check_report("test_message_expect");
}
