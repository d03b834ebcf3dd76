/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of messages: how many launches they take, that waits launch what is kept, and launches that fail for several
 * messages at once. Also kernels that verify a message before its digest is there. Ranks are threads.
 */
#include "base/base_clock.h"
#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"
#include "message/message_engine.h"

enum { MESSAGES = 24, BYTES = 4000, LONG_BYTES = 100000, OLD_US = 300 };

static const message_shape_t short_shape = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
static const message_shape_t long_shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* Counts the launches of the two kernels, and refuses them while it is told to. Of one rank. */
typedef struct launches {
    sv_device_ops_t ops;
    const sv_device_ops_t *inner;
    sv_device_t *dev;
    atomic_int single, several, awaiting, jobs;
    atomic_bool refuses;
} launches_t;

static launches_t launches[2];

static selvage_status_t count_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                     unsigned blocks, void *stream)
{
    launches_t *of = SV_CONTAINER_OF(dev->ops, launches_t, ops); /* its own rank's */
    const bool digests = kernel == &sv_kernel_digests;
    if (digests || kernel == &sv_kernel_digest || kernel == &sv_kernel_rest) { /* whose argument begins with that */
        if (atomic_load(&of->refuses))
            return sv_error_quiet(SELVAGE_ERR_DEVICE, "a test's");
        atomic_fetch_add(digests ? &of->several : &of->single, 1);
        atomic_fetch_add(&of->jobs, digests ? (int)((const sv_digests_arg_t *)arg)->njobs : 1);
        atomic_fetch_add(&of->awaiting, !digests && (((const sv_digest_arg_t *)arg)->mode & SV_DIGEST_LATE) != 0);
    }
    return of->inner->launch(dev, kernel, arg, arg_bytes, blocks, stream);
}

static void begin_counting(local_rank_t *self)
{
    launches_t *of = &launches[self->rank];
    engine_of(self)->lent_bytes = engine_of(self)->lent_often_bytes;
    of->dev = engine_of(self)->dev;
    of->inner = of->dev->ops;
    of->ops = *of->inner;
    of->ops.launch = count_launch;
    of->dev->ops = &of->ops;
    of->single = of->several = of->awaiting = of->jobs = 0;
    of->refuses = false;
}

static void end_counting(local_rank_t *self)
{
    launches[self->rank].dev->ops = launches[self->rank].inner;
}

static void begin_message(message_end_t *end, local_rank_t *self, const message_shape_t *shape, int tag)
{
    if (self->rank == 0)
        CHECK_STATUS(message_end_ibsend(end, shape, 1, tag, (uint64_t)tag), SELVAGE_SUCCESS);
    else
        message_end_recv(end, shape, 0, tag);
}

/* Rank 0 sends all within a group, and rank 1 begins to receive all within one once they are there. */
static void send_group(local_rank_t *self, const message_shape_t *shape)
{
    message_end_t end[MESSAGES];
    selvage_request_t *request[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        message_end_open(&end[i], self, shape);
    local_ranks_barrier(self);
    begin_counting(self);
    CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
    for (int i = 0; i < MESSAGES && self->rank == 0; i++)
        begin_message(&end[i], self, shape, i);
    CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS); /* the inner one: nothing */
    if (self->rank == 0)
        CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    for (int i = 0; i < MESSAGES && self->rank == 1; i++)
        begin_message(&end[i], self, shape, i);
    if (self->rank == 1)
        CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS);
    for (int i = 0; i < MESSAGES; i++)
        request[i] = end[i].request;
    CHECK_STATUS(sv_message_waitall(MESSAGES, request, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < MESSAGES && self->rank == 1; i++)
        CHECK_EQ(message_end_wrong(&end[i], shape->bytes, (uint64_t)i), -1);
    const launches_t *of = &launches[self->rank];
    CHECK_EQ(of->jobs, MESSAGES);
    if (self->rank == 0) /* what was kept for long goes earlier, on a crowded machine */
        CHECK(of->single + of->several < MESSAGES);
    local_ranks_barrier(self);
    end_counting(self);
    for (int i = 0; i < MESSAGES; i++)
        message_end_close(&end[i]);
    local_ranks_barrier(self);
}

/* A wait within a group, and tests of what was kept for a while. */
static void wait_within(local_rank_t *self, bool tests)
{
    message_end_t end;
    message_end_open(&end, self, &short_shape);
    CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
    begin_message(&end, self, &short_shape, 5);
    if (tests)
        sv_clock_sleep_until_ns(sv_clock_ns() + OLD_US * 1000);
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    while (tests && status == SELVAGE_IN_PROGRESS)
        status = sv_message_test(&end.request, NULL);
    CHECK_STATUS(tests ? status : sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, BYTES, 5), -1);
    message_end_close(&end);
    local_ranks_barrier(self);
}

static void groups(local_rank_t *self)
{
    message_ends_meet(self, BYTES);
    send_group(self, &short_shape);
    send_group(self, &long_shape);
    wait_within(self, false);
    wait_within(self, true);
}

/* The launch of a group of receives fails: each has the error, and the next message comes. */
static void receives_fail(local_rank_t *self)
{
    message_end_t end[3];
    message_ends_meet(self, BYTES);
    for (int i = 0; i < 3; i++)
        message_end_open(&end[i], self, &short_shape);
    begin_counting(self);
    for (int i = 0; i < 2 && self->rank == 0; i++)
        begin_message(&end[i], self, &short_shape, i);
    for (int i = 0; i < 2 && self->rank == 0; i++)
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    if (self->rank == 1) {
        for (bool found = false; !found;) /* both are here */
            CHECK_STATUS(sv_message_probe(self->comm, 0, 1, &found, NULL, NULL), SELVAGE_SUCCESS);
        launches[1].refuses = true;
        CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
        for (int i = 0; i < 2; i++)
            begin_message(&end[i], self, &short_shape, i);
        CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS);
        launches[1].refuses = false;
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_ERR_DEVICE);
            CHECK(strstr(sv_thread_detail(), "a test's") != NULL);
        }
    }
    CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_ERR_STATE); /* none is open */
    begin_message(&end[2], self, &short_shape, 2);
    CHECK_STATUS(sv_message_wait(&end[2].request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end[2], BYTES, 2), -1);
    local_ranks_barrier(self);
    end_counting(self);
    for (int i = 0; i < 3; i++)
        message_end_close(&end[i]);
    local_ranks_barrier(self);
}

/* That of a group of lent sends does: their receiver cannot be told, so that the communicator is at its end. */
static void sends_fail(local_rank_t *self)
{
    message_end_t end[MESSAGES];
    message_ends_meet(self, BYTES);
    for (int i = 0; i < MESSAGES; i++)
        message_end_open(&end[i], self, &long_shape);
    begin_counting(self);
    if (self->rank == 0) {
        launches[0].refuses = true;
        CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
        int begun = 0;
        selvage_status_t status = SELVAGE_SUCCESS;
        while (begun < MESSAGES && status == SELVAGE_SUCCESS) {
            status = message_end_ibsend(&end[begun], &long_shape, 1, begun, 3);
            begun += status == SELVAGE_SUCCESS;
        }
        if (status == SELVAGE_SUCCESS)
            status = sv_message_close_group(self->comm);
        CHECK_STATUS(status, SELVAGE_ERR_DEVICE);
        for (int i = 0; i < begun; i++)
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(message_end_ibsend(&end[0], &long_shape, 1, 0, 3), SELVAGE_ERR_DEVICE);
    }
    local_ranks_barrier(self);
    end_counting(self);
    for (int i = 0; i < MESSAGES; i++)
        message_end_close(&end[i]);
    local_ranks_barrier(self);
}

/* Rank 0 lends a message whose digest kernel is kept, and rank 1 has its kernel before that, which waits; or gives up,
   where the digest comes too late. On a crowded machine what is kept may go earlier: it is tried until it does not. */
static void verify_before(local_rank_t *self, bool late)
{
    enum { ROUNDS = 5, ROUNDS_MAX = 200 };
    static int awaiting; /* rank 1's count; read after a barrier */
    if (self->rank == 1)
        awaiting = 0;
    local_ranks_barrier(self);
    for (int i = 0; i < ROUNDS || (awaiting == 0 && i < ROUNDS_MAX); i++) {
        message_end_t end;
        message_end_open(&end, self, &long_shape);
        begin_counting(self);
        if (self->rank == 0) {
            CHECK_STATUS(sv_message_open_group(self->comm), SELVAGE_SUCCESS);
            begin_message(&end, self, &long_shape, i);
        }
        local_ranks_barrier(self);
        if (self->rank == 1) {
            begin_message(&end, self, &long_shape, i);
            sv_message_expect(end.request, LONG_BYTES);
            awaiting += launches[1].awaiting;
        }
        local_ranks_barrier(self);
        if (self->rank == 0 && late)
            sv_clock_sleep_until_ns(sv_clock_ns() + engine_of(self)->expect_wait_ns + 2000000);
        if (self->rank == 0)
            CHECK_STATUS(sv_message_close_group(self->comm), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end, LONG_BYTES, (uint64_t)i), -1);
        local_ranks_barrier(self);
        end_counting(self);
        message_end_close(&end);
    }
    CHECK(awaiting > 0);
    local_ranks_barrier(self);
}

static void verifying(local_rank_t *self)
{
    message_ends_meet(self, BYTES);
    verify_before(self, false);
    verify_before(self, true);
}

static void run_groups(const char *settings, void (*body)(local_rank_t *self), bool log_expected)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
    run_groups("SOFT_BLOCKS=2", groups, false);
    run_groups("SOFT_BLOCKS=2", receives_fail, true);
    run_groups("TIMEOUT_S=5", sends_fail, true);
    run_groups("EARLY_WAIT_US=20000 SOFT_BLOCKS=8 KERNEL_PEER_MAX_BYTES=1M", verifying, false);
    run_groups("EARLY_WAIT_US=20000 SOFT_BLOCKS=8", verifying, false);
    return check_report("test_message_group");
}
