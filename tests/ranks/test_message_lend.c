/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lent sends: long buffered sends that are received out of the caller's memory, or moved when their receiver is late.
 * Whatever the receiver does, they end, and what it gets is what was sent, though the caller has written its memory
 * since. Ranks are threads.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"
#include "message/message_engine.h"
#include "message/message_get.h"
#include "message/message_shm.h"

enum { LENT_BYTES = (1 << 20) + 40, MANY = 6, SLEEP_US = 200, SOON_S = 1 };

static _Atomic int sent, received;
static const message_shape_t lent = {.bytes = LENT_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};

typedef struct lend_case {
    bool on_host;            /* the receiver's memory */
    bool to_segment;         /* no device memory is left for what is moved */
} lend_case_t;

static sv_message_engine_t *engine_of_lend(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

static void come_to_lend(_Atomic int *flag, int value)
{
    while (atomic_load(flag) < value)
        usleep(SLEEP_US);
}

static void receive_lent(local_rank_t *self, const message_shape_t *shape, int tag)
{
    message_end_t end;
    message_end_open(&end, self, shape);
    message_end_recv(&end, shape, 0, tag);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(message_end_wrong(&end, shape->bytes, (uint64_t)tag + 1), -1);
    message_end_close(&end);
}

/* Many at once, to a receiver that is there: nothing is copied by the sender. */
static void lend_promptly(local_rank_t *self)
{
    const lend_case_t *given = self->arg;
    message_shape_t shape = lent;
    message_end_t end[MANY];
    message_ends_meet(self, 100);
    shape.on_device = self->rank == 0 || !given->on_host;
    for (int i = 0; i < MANY; i++)
        message_end_open(&end[i], self, &shape);
    for (int i = 0; i < MANY && self->rank == 1; i++)
        message_end_recv(&end[i], &shape, 0, i);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY && self->rank == 0; i++)
        CHECK_STATUS(message_end_ibsend(&end[i], &shape, 1, i, (uint64_t)i + 1), SELVAGE_SUCCESS);
    for (int i = MANY; i-- > 0;)
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < MANY && self->rank == 1; i++)
        CHECK_EQ(message_end_wrong(&end[i], shape.bytes, (uint64_t)i + 1), -1);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++)
        message_end_close(&end[i]);
}

/* One of less than 1 MiB is lent only out of memory that was often sent from: its receiver has to map that. */
static void lend_often(local_rank_t *self)
{
    enum { OFTEN = 8, ROUNDS = 12 };
    const message_shape_t shape = {.bytes = 70000, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &shape);
    for (int i = 0; i < ROUNDS; i++) {
        if (self->rank == 1)
            message_end_recv(&end, &shape, 0, i);
        else
            CHECK_STATUS(message_end_ibsend(&end, &shape, 1, i, (uint64_t)i + 1), SELVAGE_SUCCESS);
        if (self->rank == 0)
            CHECK_EQ(end.request->get.carried && end.request->get.partner != NULL, i >= OFTEN);
        local_ranks_barrier(self);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end, shape.bytes, (uint64_t)i + 1), -1);
        local_ranks_barrier(self);
    }
    message_end_close(&end);
}

/* A receiver that takes other lent messages all the time is not late until a longer time is over. The test says for it
   that it does. */
static void lend_to_busy(local_rank_t *self)
{
    const uint64_t busy_ns = 100000000, then_ns = 3000000;
    message_end_t end;
    message_ends_meet(self, 100);
    atomic_store(self->rank == 0 ? &sent : &received, 0);
    local_ranks_barrier(self);
    if (self->rank == 0) {
        message_end_open(&end, self, &lent);
        const uint64_t before_ns = sv_clock_ns();
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        sv_get_end_of(end.request)->lent_taken_ns = sv_clock_ns() + 10 * busy_ns;
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK(sv_clock_ns() - before_ns >= busy_ns + then_ns);
        message_end_mark(&end);
        atomic_store(&sent, 1);
        come_to_lend(&received, 1);
        message_end_close(&end);
    } else {
        come_to_lend(&sent, 1);
        receive_lent(self, &lent, 3);
        atomic_store(&received, 1);
    }
    local_ranks_barrier(self);
}

/* The receiver sleeps until all sends are complete, and the caller has written its buffers. */
static void lend_to_sleeper(local_rank_t *self)
{
    const lend_case_t *given = self->arg;
    message_shape_t shape = lent;
    message_end_t end[MANY];
    message_ends_meet(self, 100);
    atomic_store(self->rank == 0 ? &sent : &received, 0);
    local_ranks_barrier(self);
    shape.on_device = self->rank == 0 || !given->on_host;
    if (self->rank == 0) {
        for (int i = 0; i < MANY; i++) {
            message_end_open(&end[i], self, &shape);
            CHECK_STATUS(message_end_ibsend(&end[i], &shape, 1, i, (uint64_t)i + 1), SELVAGE_SUCCESS);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
            message_end_mark(&end[i]);
            message_end_close(&end[i]);
        }
        CHECK_EQ(engine_of_lend(self)->buffered_bytes > 0, !given->to_segment);
        atomic_store(&sent, 1);
        come_to_lend(&received, 1);
        while (engine_of_lend(self)->buffered_bytes > 0) /* until the receiver's answers are seen */
            sv_comm_poll(self->comm);
    } else {
        const uint64_t before = sv_message_stats(self->comm).arrived.fetched;
        come_to_lend(&sent, 1);
        for (int i = MANY; i-- > 0;)
            receive_lent(self, &shape, i);
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched - before, MANY);
        atomic_store(&received, 1);
    }
    local_ranks_barrier(self);
}

/* The receiver has begun to read, and its host stays away: the send ends, its caller writes the memory, and what was
   read of that is read again from where it was moved to. The test takes the offer in the receiver's name. */
static void lend_to_stalled(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    atomic_store(self->rank == 0 ? &sent : &received, 0);
    local_ranks_barrier(self);
    if (self->rank == 0) {
        message_end_open(&end, self, &lent);
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        const uint64_t stamp = end.request->get.stamp;
        uint64_t *begun = &sv_get_end_of(end.request)->shm->get_begun[end.request->get.place];
        atomic_store(&sent, 1);
        come_to_lend(&received, 1); /* the receiver has mapped the caller's memory */
        __atomic_store_n(begun, sv_get_word(stamp, SV_GET_TAKEN), __ATOMIC_RELEASE);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        message_end_mark(&end);
        __atomic_store_n(begun, sv_get_word(stamp, SV_GET_OFFERED), __ATOMIC_RELEASE);
        atomic_store(&sent, 2);
        come_to_lend(&received, 2);
    } else {
        message_end_open(&end, self, &lent);
        come_to_lend(&sent, 1);
        /* It maps, but cannot begin: the stream that it was given has not come so far. */
        message_shape_t late = lent;
        CHECK_STATUS(selvage_stream_create(self->dev, &late.stream), SELVAGE_SUCCESS);
        late.delay_us = 300000;
        message_end_recv(&end, &late, 0, 3);
        for (int i = 0; i < 100; i++)
            sv_comm_poll(self->comm);
        atomic_store(&received, 1);
        come_to_lend(&sent, 2);
        const sv_message_counts_t before = sv_message_stats(self->comm).counts;
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
        CHECK_EQ(sv_message_stats(self->comm).counts.mended - before.mended, 1);
        atomic_store(&received, 2);
        selvage_stream_destroy(self->dev, late.stream);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* The receiver's host stays away once it has begun to read: its device says that the send is complete. */
static void lend_to_device(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    atomic_store(self->rank == 0 ? &sent : &received, 0);
    message_end_open(&end, self, &lent);
    if (self->rank == 1)
        message_end_recv(&end, &lent, 0, 3);
    local_ranks_barrier(self);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        atomic_store(&sent, 1);
    } else {
        while (end.request->state != SV_REQUEST_CLOSING)
            sv_comm_poll(self->comm);
        come_to_lend(&sent, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* A lent send is given up before its receive is there, which then wants it by another way: nobody reads the memory. */
static void give_lent_up(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        CHECK(end.request->state == SV_REQUEST_LENT);
        pthread_mutex_lock(&engine_of_lend(self)->lock);
        (void)sv_error_quiet(SELVAGE_ERR_TIMEOUT, "given up by a test");
        CHECK(sv_message_send_abandon(end.request, SELVAGE_ERR_TIMEOUT));
        pthread_mutex_unlock(&engine_of_lend(self)->lock);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
    } else {
        engine_of_lend(self)->peers[0]->no_get = true;
    }
    local_ranks_deadline(self, NULL, SOON_S);
    if (self->rank == 1) {
        message_end_recv(&end, &lent, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
        sv_message_abandon(&end.request, SELVAGE_ERR_TIMEOUT);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static selvage_status_t refuse_lent_register(sv_device_t *dev, void *ptr, size_t bytes)
{
    (void)dev, (void)ptr, (void)bytes;
    return sv_error(SELVAGE_ERR_DEVICE, "no pinned memory: of a test");
}

/* There is no memory that a late message could be moved to: its send waits for the receiver. */
static void lend_without_memory(local_rank_t *self)
{
    enum { LOOKS = 50 };
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        sv_device_t *dev = engine_of_lend(self)->dev;
        const sv_device_ops_t *const usual = dev->ops;
        sv_device_ops_t poor = *usual;
        poor.host_register = refuse_lent_register;
        dev->ops = &poor;
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        for (int i = 0; i < LOOKS; i++, usleep(SLEEP_US))
            CHECK_STATUS(sv_message_test(&end.request, NULL), SELVAGE_IN_PROGRESS);
        dev->ops = usual;
    }
    local_ranks_barrier(self);
    if (self->rank == 1)
        message_end_recv(&end, &lent, 0, 3);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
    local_ranks_barrier(self);
    message_end_close(&end);
}

static selvage_status_t refuse_lent_address(sv_device_t *dev, void *ptr, void **address_out)
{
    (void)dev, (void)ptr, (void)address_out;
    return sv_error_quiet(SELVAGE_ERR_DEVICE, "no address: of a test");
}

static selvage_status_t refuse_lent_opening(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                            uint64_t *bytes_out)
{
    (void)dev, (void)handle, (void)base_out, (void)bytes_out;
    return sv_error_quiet(SELVAGE_ERR_MEMORY, "no mapping: of a test");
}

/* The receiver cannot reach what a message was moved to, and asks for it by another way. */
static void lend_out_of_reach(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        message_end_mark(&end);
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        sv_device_t *dev = engine_of_lend(self)->dev;
        const sv_device_ops_t *const usual = dev->ops;
        sv_device_ops_t poor = *usual;
        poor.host_address = refuse_lent_address;
        poor.open_memory = refuse_lent_opening;
        dev->ops = &poor;
        message_end_recv(&end, &lent, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        dev->ops = usual;
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched, 0);
    }
    local_ranks_barrier(self);
    while (engine_of_lend(self)->buffered_bytes > 0)
        sv_comm_poll(self->comm);
    message_end_close(&end);
}

static const sv_device_ops_t *lent_ops;

static selvage_status_t refuse_lent_export(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle,
                                           uint64_t *offset_out)
{
    if (bytes == LENT_BYTES)
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "no handle: of a test");
    return lent_ops->export_memory(dev, ptr, bytes, handle, offset_out);
}

/* What no other rank could map is copied, as shorter messages are. */
static void lend_unexported(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        sv_device_t *dev = engine_of_lend(self)->dev;
        sv_device_ops_t poor = *dev->ops;
        lent_ops = dev->ops;
        poor.export_memory = refuse_lent_export;
        dev->ops = &poor;
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        dev->ops = lent_ops;
        CHECK(engine_of_lend(self)->buffered_bytes > 0);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        message_end_mark(&end);
    } else {
        message_end_recv(&end, &lent, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static selvage_status_t refuse_lent_copy(sv_device_t *dev, void *dst, const void *src, size_t bytes,
                                         sv_copy_kind_t kind, void *stream)
{
    (void)dev, (void)dst, (void)src, (void)bytes, (void)kind, (void)stream;
    return sv_error(SELVAGE_ERR_DEVICE, "no copy: of a test");
}

/* The copy of a move fails: the send ends with an error, and so does its receive. */
static void lend_without_copy(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        sv_device_t *dev = engine_of_lend(self)->dev;
        const sv_device_ops_t *const usual = dev->ops;
        sv_device_ops_t poor = *usual;
        poor.copy_async = refuse_lent_copy;
        dev->ops = &poor;
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
        dev->ops = usual;
        CHECK_EQ(engine_of_lend(self)->buffered_bytes, 0);
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        message_end_recv(&end, &lent, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* The caller lets go of its request at once. */
static void lend_detached(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 3, 4), SELVAGE_SUCCESS);
        sv_message_detach(&end.request);
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        message_end_recv(&end, &lent, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
    }
    local_ranks_barrier(self);
    while (self->rank == 0 && engine_of_lend(self)->open > 0) /* the carrier, too */
        sv_comm_poll(self->comm);
    /* And the engine ends with one that was moved, and that nobody receives. */
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 4, 5), SELVAGE_SUCCESS);
        sv_message_detach(&end.request);
        while (engine_of_lend(self)->open > 1)
            sv_comm_poll(self->comm);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

typedef struct lend_fault {
    int rank;                /* whose device call fails: */
    int64_t nth;
    bool late;               /* the receive comes when the send has been moved */
    bool reached;            /* there was such a call */
} lend_fault_t;

/* A wait that may end with an error. */
static selvage_status_t await_end(message_end_t *end)
{
    const selvage_status_t status = sv_message_wait(&end->request, NULL);
    if (end->request)
        sv_message_abandon(&end->request, status);
    return status;
}

/* Any device call fails: what ends well is right, and all comes to an end. */
static void lend_with_fault(local_rank_t *self)
{
    lend_fault_t *fault = self->arg;
    _Atomic int64_t *left = &self->comm->fault.call_countdown[SV_FAULT_CALL_DEVICE];
    selvage_status_t status = SELVAGE_SUCCESS;
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &lent);
    if (self->rank == 0)
        atomic_store(&sent, 0);
    local_ranks_deadline(self, NULL, SOON_S);
    if (self->rank == fault->rank) {
        sv_thread_binding()->fault = &self->comm->fault; /* as the public calls do */
        atomic_store(left, fault->nth);
    }
    if (self->rank == 0) {
        status = message_end_ibsend(&end, &lent, 1, 3, 4);
        atomic_store(&sent, status == SELVAGE_SUCCESS ? 1 : -1);
        if (status == SELVAGE_SUCCESS)
            status = await_end(&end);
        if (atomic_load(&sent) > 0)
            atomic_store(&sent, 2);
        if (status == SELVAGE_SUCCESS && fault->late) /* else it may still be read */
            message_end_mark(&end);
    } else {
        while (atomic_load(&sent) >= 0 && atomic_load(&sent) <= fault->late)
            usleep(SLEEP_US);
        if (atomic_load(&sent) > 0) {
            const sv_message_buffer_t buffer = {end.buf, &end.map};
            message_end_mark(&end);
            status = sv_message_irecv(self->comm, "test", &buffer, 0, 3, NULL, lent.stream, &end.request);
            if (status == SELVAGE_SUCCESS)
                status = await_end(&end);
            if (status == SELVAGE_SUCCESS)
                CHECK_EQ(message_end_wrong(&end, lent.bytes, 4), -1);
        }
    }
    if (self->rank == fault->rank) {
        fault->reached = atomic_load(left) <= 0;
        atomic_store(left, INT64_MAX);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static void sweep_lend_faults(const char *settings, bool late)
{
    enum { CALLS_MOST = 60 };
    for (int rank = 0; rank < 2; rank++) {
        lend_fault_t fault = {.rank = rank, .late = late, .reached = true};
        local_ranks_env(settings);
        for (fault.nth = 1; fault.nth < CALLS_MOST && fault.reached; fault.nth++)
            local_ranks_run(&(local_run_t){.size = 2, .body = lend_with_fault, .arg = &fault, .log_expected = true,
                                           .may_set_aside = true});
    }
}

/* A receive that is too short ends with an error, and the send without one. So does a send that nobody receives. */
static void lend_in_vain(local_rank_t *self)
{
    message_shape_t brief = lent;
    message_end_t end;
    brief.bytes = LENT_BYTES / 2;
    message_ends_meet(self, 100);
    message_end_open(&end, self, self->rank == 0 ? &lent : &brief);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 1, 5), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(message_end_ibsend(&end, &lent, 1, 2, 5), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK(engine_of_lend(self)->buffered_bytes > 0);
    } else {
        message_end_recv(&end, &brief, 0, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TRUNCATED);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static void run_lend(const char *settings, void (*body)(local_rank_t *self), lend_case_t given, bool log_expected)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .arg = &given, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
#define USUAL "MESSAGE_EAGER_BYTES=64"
    for (int i = 0; i < 4; i++) {
        const lend_case_t given = {.on_host = i % 2, .to_segment = i / 2};
        const bool few = given.to_segment;
        run_lend(USUAL, lend_promptly, given, false);
        run_lend(few ? USUAL " MESSAGE_BUFFER_BYTES=1M" : USUAL, lend_to_sleeper, given, false);
        run_lend(few ? USUAL " CHECKSUM=off MESSAGE_BUFFER_BYTES=1M" : USUAL " CHECKSUM=off", lend_to_sleeper, given,
                 false);
    }
    run_lend(USUAL " TIMEOUT_S=5", lend_to_device, (lend_case_t){0}, false);
    run_lend(USUAL " CHECKSUM=off TIMEOUT_S=5", lend_to_device, (lend_case_t){0}, false);
    run_lend(USUAL, lend_to_busy, (lend_case_t){0}, false);
    run_lend(USUAL, lend_often, (lend_case_t){0}, false);
    run_lend(USUAL, lend_to_stalled, (lend_case_t){0}, true);
    run_lend(USUAL " SOFT_BLOCKS=4", lend_to_stalled, (lend_case_t){0}, true);
    run_lend(USUAL " CHECKSUM=report", lend_to_stalled, (lend_case_t){0}, true);
    run_lend(USUAL " TIMEOUT_S=60", give_lent_up, (lend_case_t){0}, true);
    run_lend(USUAL, lend_out_of_reach, (lend_case_t){0}, false);
    run_lend(USUAL " MESSAGE_BUFFER_BYTES=1M", lend_out_of_reach, (lend_case_t){0}, false);
    run_lend(USUAL, lend_unexported, (lend_case_t){0}, false);
    run_lend(USUAL, lend_without_copy, (lend_case_t){0}, true);
    run_lend(USUAL " MESSAGE_BUFFER_BYTES=1M", lend_without_copy, (lend_case_t){0}, true);
    run_lend(USUAL, lend_detached, (lend_case_t){0}, true);
    run_lend(USUAL " MESSAGE_BUFFER_BYTES=1M", lend_detached, (lend_case_t){0}, true);
    run_lend(USUAL " MESSAGE_BUFFER_BYTES=1M", lend_without_memory, (lend_case_t){0}, false);
    run_lend(USUAL, lend_in_vain, (lend_case_t){0}, true);
    run_lend(USUAL " MESSAGE_BUFFER_BYTES=1M FAULT=flip=1,rank=0,only=3", lend_to_sleeper, (lend_case_t){0, true},
             true);
    for (int late = 0; late < 2; late++) {
        sweep_lend_faults(USUAL " SOFT_BLOCKS=4 TIMEOUT_S=60 FAULT=device=1000000", late); /* by engine and kernel */
        sweep_lend_faults(USUAL " TIMEOUT_S=60 MESSAGE_BUFFER_BYTES=1M FAULT=device=1000000", late);
    }
    return check_report("test_message_lend");
}
