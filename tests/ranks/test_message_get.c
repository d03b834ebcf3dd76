/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that the receiver copies out of the sender's memory. The sender's host is not needed once it has
 * announced them: it sleeps until the receive has ended. Datatypes, damage, more of them than there are places, offers
 * that are taken back, and receives that cannot take one.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"
#include "message/message_calls.h"
#include "message/message_engine.h"
#include "message/message_get.h"
#include "message/message_shm.h"

enum { LONG_BYTES = 300000, SLEEP_US = 200 };

static _Atomic int sent, received;

static sv_message_engine_t *engine_of_get(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* Without a call of the library's: nothing of this rank's is driven. */
static void sleep_until(const _Atomic int *flag, int value)
{
    while (atomic_load(flag) < value)
        usleep(SLEEP_US);
}

/* The sender sleeps from its call to the end of the receive. */
static void receive_from_sleeper(local_rank_t *self)
{
    const message_shape_t *shape = self->arg;
    const uint64_t key = 11;
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, shape);
    if (self->rank == 0) {
        message_end_send(&end, shape, 1, 3, key);
        atomic_store(&sent, 1);
        sleep_until(&received, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    } else {
        const uint64_t before = sv_message_stats(self->comm).arrived.fetched;
        sleep_until(&sent, 1);
        message_end_recv(&end, shape, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, shape->bytes, key), -1);
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched - before, 1);
        atomic_store(&received, 1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static void check_sleeper(const message_shape_t *shape)
{
    message_shape_t arg = *shape;
    atomic_store(&sent, 0);
    atomic_store(&received, 0);
    local_ranks_run(&(local_run_t){.size = 2, .body = receive_from_sleeper, .arg = &arg});
    CHECK_EQ(local_ranks_left(), 0);
}

/* More than there are places for; the last ones are asked for by a CTS. Received in another order than sent. */
static void receive_many(local_rank_t *self)
{
    enum { MANY = SV_SHM_GETS + 50 };
    const message_shape_t shape = {.bytes = 20000, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    static message_end_t ends[2][MANY];
    message_end_t *mine = ends[self->rank];
    selvage_request_t *requests[MANY];
    message_ends_meet(self, 100);
    for (int i = 0; i < MANY; i++)
        message_end_open(&mine[i], self, &shape);
    for (int i = 0; i < MANY && self->rank == 0; i++)
        message_end_send(&mine[i], &shape, 1, i, (uint64_t)i + 1);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY && self->rank == 1; i++)
        message_end_recv(&mine[MANY - 1 - i], &shape, 0, MANY - 1 - i);
    for (int i = 0; i < MANY; i++)
        requests[i] = mine[i].request;
    CHECK_STATUS(sv_message_waitall(MANY, requests, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < MANY && self->rank == 1; i++)
        CHECK_EQ(message_end_wrong(&mine[i], shape.bytes, (uint64_t)i + 1), -1);
    if (self->rank == 1)
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched, SV_SHM_GETS);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++)
        message_end_close(&mine[i]);
}

/* A send that its caller gives up before its receive is there is not read any more; one that is being read stays. */
static void take_back(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_ends_meet(self, 100);
    message_end_open(&end, self, &shape);
    if (self->rank == 0) {
        message_end_send(&end, &shape, 1, 3, 5);
        CHECK(end.request->get.stamp != 0);
        (void)sv_error_quiet(SELVAGE_ERR_TIMEOUT, "given up by a test");
        sv_message_abandon(&end.request, SELVAGE_ERR_TIMEOUT);
        CHECK(end.request == NULL);
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        message_end_recv(&end, &shape, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
        CHECK(strstr(selvage_error_detail(), "rank 0 has given up its send") != NULL);
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched, 0);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
    /* And one whose receiver has begun. */
    message_end_open(&end, self, &shape);
    if (self->rank == 0) {
        message_end_send(&end, &shape, 1, 4, 6);
        atomic_store(&sent, 1);
        sleep_until(&received, 1);
        pthread_mutex_lock(&engine_of_get(self)->lock);
        CHECK(sv_get_revoke(end.request)); /* it has been read */
        pthread_mutex_unlock(&engine_of_get(self)->lock);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    } else {
        sleep_until(&sent, 1);
        message_end_recv(&end, &shape, 0, 4);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, shape.bytes, 6), -1);
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched, 1);
        atomic_store(&received, 1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* Ranks that know each other, and whose long buffered sends are copied and not lent. */
static void meet_to_buffer(local_rank_t *self)
{
    message_ends_meet(self, 100);
    engine_of_get(self)->lent_bytes = engine_of_get(self)->lent_often_bytes = SIZE_MAX;
    local_ranks_barrier(self);
}

/* A receive that is too short answers at once. Its send is over only when the kernel that reads its buffer is. */
static void refuse_early(local_rank_t *self)
{
    const double delay_us = 50000;
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_shape_t brief = shape;
    message_end_t end;
    brief.bytes = LONG_BYTES / 2;
    meet_to_buffer(self);
    for (int buffered = 0; buffered < 2; buffered++) {
        message_end_open(&end, self, self->rank == 0 ? &shape : &brief);
        if (self->rank == 0) {
            CHECK_STATUS(selvage_device_delay_us(self->dev, delay_us, engine_of_get(self)->streams.kernel),
                         SELVAGE_SUCCESS);
            if (buffered)
                CHECK_STATUS(message_end_ibsend(&end, &shape, 1, 1, 5), SELVAGE_SUCCESS);
            else
                message_end_send(&end, &shape, 1, 1, 5);
            const sv_message_peer_t *peer = engine_of_get(self)->peers[1];
            const uint64_t stamp = end.request->get.stamp, place = end.request->get.place;
            CHECK(stamp != 0);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
            CHECK(peer->out->shm->get_ready[place] >= stamp);
        } else {
            message_end_recv(&end, &brief, 0, 1);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TRUNCATED);
        }
        local_ranks_barrier(self);
        message_end_close(&end);
    }
}

/* Host memory does not take an offer; and after such a receive none is made until one in device memory has come. */
static void receive_on_host(local_rank_t *self)
{
    message_end_t end;
    message_ends_meet(self, 100);
    for (int turn = 0; turn < 4; turn++) {
        const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = self->rank == 0 || turn >= 2,
                                       .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_open(&end, self, &shape);
        if (self->rank == 0) {
            message_end_send(&end, &shape, 1, turn, 9);
            CHECK_EQ(end.request->get.stamp != 0, turn == 0 || turn == 3);
        }
        local_ranks_barrier(self);
        if (self->rank == 1)
            message_end_recv(&end, &shape, 0, turn);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end, shape.bytes, 9), -1);
        local_ranks_barrier(self);
        message_end_close(&end);
    }
    if (self->rank == 1)
        CHECK_EQ(sv_message_stats(self->comm).arrived.fetched, 1);
}

/* Receives that are too short say nothing about offers; a rank that takes none is still made one now and then. */
static void decline_often(local_rank_t *self)
{
    enum { DECLINED = 9, MOST = 80 };
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_shape_t brief = shape;
    int offered = 0;
    brief.bytes = 1000;
    message_ends_meet(self, 100);
    sv_message_peer_t *peer = engine_of_get(self)->peers[1 - self->rank];
    for (int i = 0; i < 2 * DECLINED + MOST; i++) {
        const bool too_short = i < DECLINED;
        message_end_t end;
        peer->no_get = self->rank == 1 && i < 2 * DECLINED;
        message_end_open(&end, self, self->rank == 1 && too_short ? &brief : &shape);
        if (self->rank == 0) {
            message_end_send(&end, &shape, 1, 1, 9);
            CHECK(i > DECLINED || end.request->get.stamp != 0);
            offered += i >= 2 * DECLINED && end.request->get.stamp != 0;
        }
        local_ranks_barrier(self);
        if (self->rank == 1)
            message_end_recv(&end, too_short ? &brief : &shape, 0, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL),
                     self->rank == 1 && too_short ? SELVAGE_ERR_TRUNCATED : SELVAGE_SUCCESS);
        message_end_close(&end);
    }
    CHECK(self->rank == 1 || offered > 0);
}

/* Every message comes damaged at first, and is asked for again. */
static void mend_damaged(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_ends_meet(self, 100);
    const sv_message_stats_t before = sv_message_stats(self->comm);
    message_end_open(&end, self, &shape);
    if (self->rank == 0)
        message_end_send(&end, &shape, 1, 3, 8);
    local_ranks_barrier(self);
    if (self->rank == 1)
        message_end_recv(&end, &shape, 0, 3);
    const bool reports = self->arg != NULL;
    CHECK_STATUS(sv_message_wait(&end.request, NULL), reports ? SELVAGE_ERR_CHECKSUM : SELVAGE_SUCCESS);
    if (self->rank == 1) {
        const sv_message_stats_t stats = sv_message_stats(self->comm);
        CHECK_EQ(stats.arrived.fetched - before.arrived.fetched, 1);
        CHECK_EQ(stats.counts.damaged - before.counts.damaged, 1);
        CHECK_EQ(stats.counts.mended - before.counts.mended, !reports);
        if (!reports)
            CHECK_EQ(message_end_wrong(&end, shape.bytes, 8), -1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static selvage_status_t fail_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    (void)dev, (void)bytes, (void)ptr_out;
    return sv_error(SELVAGE_ERR_DEVICE, "no device memory: of a test");
}

/* Buffered sends are complete while their receiver sleeps, and are received while their sender does. More than the
   buffers hold are refused, and there is room again once those are received. On the host they come also without device
   memory of the receiver's. */
static void buffer_many(local_rank_t *self)
{
    enum { MANY = 3 }; /* buffers are powers of two: 3 of 512 KiB in 1600 KiB */
    const bool on_host = self->arg != NULL;
    for (int turn = 0; turn < 3; turn++) {
        const bool gaps = turn == 2;
        message_shape_t shape = {.bytes = LONG_BYTES, .run = gaps ? 1000 : 0, .gap = 24, .on_device = true,
                                 .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_t end[MANY], refused;
        if (turn == 0)
            meet_to_buffer(self);
        if (self->rank == 1)
            shape.on_device = !on_host;
        for (int i = 0; i < MANY; i++)
            message_end_open(&end[i], self, &shape);
        message_end_open(&refused, self, &shape);
        if (self->rank == 0) {
            for (int i = 0; i < MANY; i++) {
                CHECK_STATUS(message_end_ibsend(&end[i], &shape, 1, i, (uint64_t)i + 1), SELVAGE_SUCCESS);
                CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
                message_end_mark(&end[i]); /* the buffer is the caller's again */
            }
            CHECK_STATUS(message_end_ibsend(&refused, &shape, 1, 9, 9), SELVAGE_ERR_LIMIT);
            CHECK_EQ(engine_of_get(self)->buffers_made_bytes, MANY << 19);
            atomic_store(&sent, turn + 1);
            sleep_until(&received, turn + 1);
            CHECK(engine_of_get(self)->buffered_bytes > 0);
            while (engine_of_get(self)->buffered_bytes > 0) /* until the receiver's answers are seen */
                sv_comm_poll(self->comm);
        } else {
            const uint64_t before = sv_message_stats(self->comm).arrived.fetched;
            sv_device_t *dev = engine_of_get(self)->dev;
            const sv_device_ops_t *const usual = dev->ops;
            sv_device_ops_t poor = *usual;
            poor.malloc = fail_malloc;
            dev->ops = on_host && turn == 0 ? &poor : usual;
            sleep_until(&sent, turn + 1);
            for (int i = MANY; i-- > 0;)
                message_end_recv(&end[i], &shape, 0, i);
            for (int i = 0; i < MANY; i++) {
                CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
                CHECK_EQ(message_end_wrong(&end[i], shape.bytes, (uint64_t)i + 1), -1);
            }
            dev->ops = usual;
            CHECK_EQ(sv_message_stats(self->comm).arrived.fetched - before, MANY);
            atomic_store(&received, turn + 1);
        }
        local_ranks_barrier(self);
        for (int i = 0; i < MANY; i++)
            message_end_close(&end[i]);
        message_end_close(&refused);
    }
    /* What is kept in shorter buffers counts, too. */
    const message_shape_t longer = {.bytes = 2 * LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t refused;
    message_end_open(&refused, self, &longer);
    if (self->rank == 0)
        CHECK_STATUS(message_end_ibsend(&refused, &longer, 1, 9, 9), SELVAGE_ERR_LIMIT);
    message_end_close(&refused);
}

/* A receive that is too short ends with an error, and the buffer is free again; so it is if its receive never comes. */
static void leave_buffered(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_shape_t brief = shape;
    message_end_t end;
    brief.bytes = LONG_BYTES / 2;
    meet_to_buffer(self);
    message_end_open(&end, self, self->rank == 0 ? &shape : &brief);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &shape, 1, 1, 5), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        while (engine_of_get(self)->buffered_bytes > 0)
            sv_comm_poll(self->comm);
        CHECK_STATUS(message_end_ibsend(&end, &shape, 1, 2, 5), SELVAGE_SUCCESS); /* which nobody receives */
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    } else {
        message_end_recv(&end, &brief, 0, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TRUNCATED);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* What comes damaged out of a buffer is read again, while its sender sleeps. */
static void mend_buffered(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    meet_to_buffer(self);
    message_end_open(&end, self, &shape);
    if (self->rank == 0) {
        CHECK_STATUS(message_end_ibsend(&end, &shape, 1, 3, 8), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        atomic_store(&sent, 1);
        sleep_until(&received, 1);
    } else {
        const sv_message_counts_t before = sv_message_stats(self->comm).counts;
        sleep_until(&sent, 1);
        message_end_recv(&end, &shape, 0, 3);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, shape.bytes, 8), -1);
        const sv_message_counts_t counts = sv_message_stats(self->comm).counts;
        CHECK(counts.damaged == before.damaged + 1 && counts.mended == before.mended + 1);
        atomic_store(&received, 1);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

/* Buffers that were used once are given back in waits, and there is room again for longer ones. Those that go on being
   used stay. */
static void give_buffers_back(local_rank_t *self)
{
    enum { MANY = 3, TURNS = 60, PAUSE_US = 20000 };
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end[MANY];
    bool alone = false;
    meet_to_buffer(self);
    for (int turn = 0; turn < TURNS; turn++) {
        const int many = turn == 0 ? MANY : 1;
        for (int i = 0; i < many; i++) {
            message_end_open(&end[i], self, &shape);
            if (self->rank == 0)
                CHECK_STATUS(message_end_ibsend(&end[i], &shape, 1, i, (uint64_t)i + 1), SELVAGE_SUCCESS);
        }
        local_ranks_barrier(self);
        for (int i = 0; i < many; i++) {
            if (self->rank == 1)
                message_end_recv(&end[i], &shape, 0, i);
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
            CHECK(self->rank == 0 || message_end_wrong(&end[i], shape.bytes, (uint64_t)i + 1) == -1);
            message_end_close(&end[i]);
        }
        while (self->rank == 0 && engine_of_get(self)->buffered_bytes > 0)
            sv_comm_poll(self->comm);
        if (self->rank == 0 && turn == 0)
            CHECK_EQ(engine_of_get(self)->buffers_made_bytes, MANY << 19);
        alone = alone || (self->rank == 0 && engine_of_get(self)->buffers_made_bytes == 1 << 19);
        usleep(PAUSE_US);
        local_ranks_barrier(self);
    }
    CHECK(self->rank == 1 || alone);
    usleep(TURNS * PAUSE_US / 2);
    CHECK(sv_message_give_back(self->comm, false)); /* the buffer there, and its mapping here */
    CHECK(sv_message_give_back(self->comm, true));
    CHECK(!sv_message_give_back(self->comm, false));
    CHECK_EQ(engine_of_get(self)->buffers_made_bytes, 0);
    local_ranks_barrier(self);
}

static void run_buffered(const char *settings, bool on_host)
{
    atomic_store(&sent, 0);
    atomic_store(&received, 0);
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = buffer_many, .arg = on_host ? "host" : NULL});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
    const message_shape_t plain = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    const message_shape_t gaps = {.bytes = LONG_BYTES, .run = 1000, .gap = 24, .on_device = true,
                                  .stream = SELVAGE_MESSAGE_NO_STREAM};
    const char *const settings[] = {"MESSAGE_EAGER_BYTES=64", "MESSAGE_EAGER_BYTES=64 KERNEL_PEER_MAX_BYTES=0",
                                    "MESSAGE_EAGER_BYTES=64 CHECKSUM=off",
                                    "MESSAGE_EAGER_BYTES=64 CHECKSUM=off KERNEL_PEER_MAX_BYTES=0"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        local_ranks_env(settings[i]);
        check_sleeper(&plain);
        check_sleeper(&gaps);
    }
#define BUFFERS " MESSAGE_BUFFER_BYTES=1600K"
    for (int on_host = 0; on_host < 2; on_host++) {
        run_buffered("MESSAGE_EAGER_BYTES=64" BUFFERS, on_host);
        run_buffered("MESSAGE_EAGER_BYTES=64 KERNEL_PEER_MAX_BYTES=0" BUFFERS, on_host);
        run_buffered("MESSAGE_EAGER_BYTES=64 CHECKSUM=off" BUFFERS, on_host);
    }
    local_ranks_env("MESSAGE_EAGER_BYTES=64" BUFFERS " IDLE_S=0.1");
    local_ranks_run(&(local_run_t){.size = 2, .body = give_buffers_back});
    CHECK_EQ(local_ranks_left(), 0);
    local_ranks_env("MESSAGE_EAGER_BYTES=64 CHECKSUM=off" BUFFERS);
    local_ranks_run(&(local_run_t){.size = 2, .body = leave_buffered, .log_expected = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = refuse_early, .log_expected = true});
    CHECK_EQ(local_ranks_left(), 0);
    local_ranks_env(settings[0]);
    local_ranks_run(&(local_run_t){.size = 2, .body = receive_many});
    local_ranks_run(&(local_run_t){.size = 2, .body = receive_on_host});
    local_ranks_run(&(local_run_t){.size = 2, .body = decline_often, .log_expected = true});
    CHECK_EQ(local_ranks_left(), 0);
    atomic_store(&sent, 0);
    atomic_store(&received, 0);
    local_ranks_env("MESSAGE_EAGER_BYTES=64 TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = take_back, .log_expected = true});
    local_ranks_env("MESSAGE_EAGER_BYTES=64 FAULT=flip=1,rank=0,only=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = mend_damaged, .log_expected = true});
    atomic_store(&sent, 0);
    atomic_store(&received, 0);
    local_ranks_run(&(local_run_t){.size = 2, .body = mend_buffered, .log_expected = true});
    CHECK_EQ(local_ranks_left(), 0);
    local_ranks_env("MESSAGE_EAGER_BYTES=64 CHECKSUM=report FAULT=flip=1,rank=0,only=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = mend_damaged, .arg = "report", .log_expected = true});
    return check_report("test_message_get");
}
