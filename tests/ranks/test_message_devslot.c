/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by slots in the receiver's device memory, and kernels that wait for them: what such a kernel expects, and
 * everything that comes in its place. Ranks are threads.
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "message/message_engine.h"
#include "message/message_prelaunch.h"
#include "message/message_pool.h"
#include "fixtures/message_end.h"

enum { BYTES = 3000, ROUNDS = 20, MOST = 15 };

static const message_shape_t plain = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};

static uint64_t key_of(int source, int number)
{
    return (uint64_t)source << 32 | (uint32_t)number;
}

static void run(void (*body)(local_rank_t *self), void *arg, bool log_expected)
{
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .arg = arg, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* A kernel waits for the receive from here on. */
static void wait_on_device(message_end_t *recv)
{
    sv_message_engine_t *engine = engine_of(recv->self);
    pthread_mutex_lock(&engine->lock);
    sv_prelaunch_requests(engine, 1, &recv->request);
    CHECK(recv->request->early.launched);
    pthread_mutex_unlock(&engine->lock);
}

/* One message each way, both posted before either is waited for; ahead: a kernel waits before either is sent. */
static void swap_ahead(local_rank_t *self, const message_shape_t *out, const message_shape_t *in, int number,
                       bool ahead)
{
    const int other = 1 - self->rank;
    message_end_t send, recv;
    message_end_open(&send, self, out);
    message_end_open(&recv, self, in);
    message_end_recv(&recv, in, other, number);
    if (ahead) {
        wait_on_device(&recv);
        local_ranks_barrier(self);
    }
    message_end_send(&send, out, other, number, key_of(self->rank, number));
    selvage_request_t *both[2] = {recv.request, send.request};
    CHECK_STATUS(sv_message_waitall(2, both, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(message_end_wrong(&recv, out->bytes, key_of(other, number)), -1);
    message_end_close(&recv);
    message_end_close(&send);
}

static void swap(local_rank_t *self, const message_shape_t *out, const message_shape_t *in, int number)
{
    swap_ahead(self, out, in, number, false);
}

/* Until both have a shared segment of the other's. */
static void exchange_one(local_rank_t *self)
{
    for (int i = 0; i < 4; i++)
        swap(self, &plain, &plain, 1000 + i);
    local_ranks_barrier(self);
}

/* How many came by slots: all, MAYBE or WAITING by a kernel that was there before; or NONE, as the run says. */
typedef enum expected { NONE, ALL, MAYBE, WAITING } expected_t;

static void swapping(local_rank_t *self)
{
    const expected_t *wanted = self->arg;
    void *stream = NULL;
    sv_thread_binding()->fault = &self->comm->fault; /* as the public calls do */
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    exchange_one(self);
    const sv_message_arrived_t before = sv_message_stats(self->comm).arrived;
    for (int i = 0; i < ROUNDS; i++) {
        message_shape_t shape = {.bytes = i % 4 == 3 ? 70000 : 1 + 100 * (size_t)i, .on_device = true,
                                 .stream = i % 2 ? stream : SELVAGE_MESSAGE_NO_STREAM, .gap = 16,
                                 .run = i % 5 == 4 ? 48 : 0};
        swap_ahead(self, &shape, &shape, i, *wanted == WAITING && i % 2 == 0);
    }
    const sv_message_arrived_t after = sv_message_stats(self->comm).arrived;
    const uint64_t by_slot = after.by_devslot - before.by_devslot, prelaunched = after.prelaunched - before.prelaunched;
    const uint64_t direct = after.by[SV_WAY_DIRECT] - before.by[SV_WAY_DIRECT];
    CHECK_EQ(by_slot >= MOST, *wanted != NONE);
    CHECK(*wanted != WAITING || prelaunched >= ROUNDS / 2);
    CHECK(*wanted != NONE || by_slot == 0);
    CHECK(*wanted != ALL || prelaunched == 0);
    CHECK(*wanted != NONE || prelaunched <= direct); /* kernels wait for long messages without device slots, too */
    local_ranks_barrier(self);
    selvage_stream_destroy(self->dev, stream);
}

/* Receives with more room than their messages need, again and again: kernels wait for the usual length. */
static void swap_into_larger(local_rank_t *self)
{
    message_shape_t room = plain;
    room.bytes = BYTES + 1000;
    exchange_one(self);
    swap(self, &plain, &room, 0);
    const uint64_t before = sv_message_stats(self->comm).arrived.prelaunched;
    for (int i = 1; i < 4; i++)
        swap_ahead(self, &plain, &room, i, true);
    CHECK_EQ(sv_message_stats(self->comm).arrived.prelaunched - before, 3);
    local_ranks_barrier(self);
}

/* Longer ones, which kernels copy to where they belong: their verifying kernels wait there, since senders' streams hold
   the copies up. */
static void put_slot(local_rank_t *self)
{
    enum { TURNS = 5 };
    const bool *waits = self->arg;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    const message_shape_t in = {.bytes = 30000, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    const message_shape_t out = {.bytes = 30000, .on_device = true, .stream = stream, .delay_us = 5000};
    exchange_one(self);
    const uint64_t before = sv_message_stats(self->comm).arrived.prelaunched,
                   direct_before = sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT];
    for (int i = 0; i < TURNS; i++)
        swap(self, &out, &in, i);
    CHECK_EQ(sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT] - direct_before, TURNS);
    CHECK_EQ(sv_message_stats(self->comm).arrived.prelaunched > before, *waits);
    local_ranks_barrier(self);
    selvage_stream_destroy(self->dev, stream);
}

static void land_with(const char *settings, bool waits)
{
    local_ranks_env(settings);
    run(put_slot, &waits, false);
}

static void swap_with(const char *settings, expected_t wanted)
{
    local_ranks_env(settings);
    run(swapping, &wanted, wanted == NONE);
}

/* What goes to host memory comes by a slot once, and by the shared segment from then on, until it goes to device memory
   again. */
static void to_host(local_rank_t *self)
{
    const message_shape_t host = {.bytes = BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM, .run = 24, .gap = 8};
    exchange_one(self);
    const uint64_t before = sv_message_stats(self->comm).arrived.by_devslot;
    for (int i = 0; i < 3; i++) {
        swap(self, &plain, &host, i);
        local_ranks_barrier(self);
    }
    CHECK_EQ(sv_message_stats(self->comm).arrived.by_devslot - before, 1);
    for (int i = 3; i < 6; i++) {
        swap(self, &plain, &plain, i);
        local_ranks_barrier(self);
    }
    CHECK_EQ(sv_message_stats(self->comm).arrived.by_devslot - before, 3);
}

/* Rank 0 sends what the shape says, with this tag; the receive of rank 1 has a kernel that waits for plain messages
   with tag 1 only. */
static void receive_other(local_rank_t *self, const message_shape_t *out, int tag, selvage_status_t wanted)
{
    message_end_t end, rest;
    message_end_open(&end, self, self->rank ? &plain : out);
    message_end_open(&rest, self, self->rank ? out : &plain);
    if (self->rank == 1) {
        message_end_recv(&end, &plain, 0, 1);
        wait_on_device(&end);
    }
    local_ranks_barrier(self);
    if (self->rank == 0) {
        message_end_send(&end, out, 1, tag, key_of(0, tag));
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    }
    if (self->rank == 0 && tag != 1) {
        message_end_send(&rest, &plain, 1, 1, key_of(0, 1));
        CHECK_STATUS(sv_message_wait(&rest.request, NULL), SELVAGE_SUCCESS);
    }
    if (self->rank == 1) {
        CHECK_STATUS(sv_message_wait(&end.request, NULL), wanted);
        const size_t arrived = wanted != SELVAGE_SUCCESS ? 0 : tag == 1 ? out->bytes : BYTES;
        CHECK_EQ(message_end_wrong(&end, arrived, key_of(0, 1)), -1);
    }
    if (self->rank == 1 && tag != 1) {
        message_end_recv(&rest, out, 0, tag);
        CHECK_STATUS(sv_message_wait(&rest.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&rest, out->bytes, key_of(0, tag)), -1);
    }
    message_end_close(&rest);
    message_end_close(&end);
    local_ranks_barrier(self);
}

static void others(local_rank_t *self)
{
    message_shape_t shape = plain;
    exchange_one(self);
    shape.bytes = BYTES - 1;
    receive_other(self, &shape, 1, SELVAGE_SUCCESS);
    shape.bytes = BYTES + 1;
    receive_other(self, &shape, 1, SELVAGE_ERR_TRUNCATED);
    receive_other(self, &plain, 2, SELVAGE_SUCCESS);
    shape.bytes = 0;
    receive_other(self, &shape, 1, SELVAGE_SUCCESS);
    shape = plain;
    shape.on_device = false;
    receive_other(self, &shape, 1, SELVAGE_SUCCESS);
    shape.bytes = 1 << 21; /* too long for a slot */
    shape.on_device = true;
    receive_other(self, &shape, 1, SELVAGE_ERR_TRUNCATED);
    for (int i = 0; i < 4; i++)
        swap(self, &plain, &plain, i);
}

/* A receive of any rank's that was posted before takes the message: no kernel waits in its place. */
static void wildcards(local_rank_t *self)
{
    message_end_t any, one, send[2];
    exchange_one(self);
    message_end_open(&any, self, &plain);
    message_end_open(&one, self, &plain);
    message_end_recv(&any, &plain, SV_MESSAGE_ANY, SV_MESSAGE_ANY);
    message_end_recv(&one, &plain, 1 - self->rank, 1);
    sv_message_engine_t *engine = engine_of(self);
    pthread_mutex_lock(&engine->lock);
    sv_prelaunch_requests(engine, 1, &any.request);
    sv_prelaunch_requests(engine, 1, &one.request);
    CHECK(!any.request->early.launched && !one.request->early.launched);
    pthread_mutex_unlock(&engine->lock);
    for (int i = 0; i < 2; i++) {
        message_end_open(&send[i], self, &plain);
        message_end_send(&send[i], &plain, 1 - self->rank, 1, key_of(self->rank, i));
    }
    selvage_request_t *all[4] = {one.request, any.request, send[0].request, send[1].request};
    CHECK_STATUS(sv_message_waitall(4, all, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(message_end_wrong(&any, BYTES, key_of(1 - self->rank, 0)), -1);
    CHECK_EQ(message_end_wrong(&one, BYTES, key_of(1 - self->rank, 1)), -1);
    message_end_close(&any);
    message_end_close(&one);
    for (int i = 0; i < 2; i++)
        message_end_close(&send[i]);
}

/* Several receives of one rank, each with a kernel: tags in the order of the sends, and in another one. */
static void several(local_rank_t *self)
{
    enum { MANY = 4 };
    message_end_t send[MANY], recv[MANY];
    selvage_request_t *all[2 * MANY];
    exchange_one(self);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MANY; i++) {
            message_end_open(&recv[i], self, &plain);
            message_end_recv(&recv[i], &plain, 1 - self->rank, turn ? MANY - 1 - i : i);
            wait_on_device(&recv[i]);
            all[i] = recv[i].request;
        }
        const uint64_t before = sv_message_stats(self->comm).arrived.prelaunched;
        local_ranks_barrier(self);
        for (int i = 0; i < MANY; i++) {
            message_end_open(&send[i], self, &plain);
            message_end_send(&send[i], &plain, 1 - self->rank, i, key_of(self->rank, i));
            all[MANY + i] = send[i].request;
        }
        CHECK_STATUS(sv_message_waitall(2 * MANY, all, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(sv_message_stats(self->comm).arrived.prelaunched - before, turn ? 0 : MANY);
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(message_end_wrong(&recv[i], BYTES, key_of(1 - self->rank, turn ? MANY - 1 - i : i)), -1);
            message_end_close(&recv[i]);
            message_end_close(&send[i]);
        }
        local_ranks_barrier(self);
    }
}

/* Two messages with one tag come before the one that was to be the first: the kernel that waits for the second message
   with the second receive's tag must not take it, as that receive is the first one's. */
static void overtaken(local_rank_t *self)
{
    enum { MANY = 3 };
    static const int recv_tag[MANY] = {1, 2, 2}, send_tag[MANY] = {2, 2, 1};
    static const int meets[MANY] = {2, 0, 1}; /* by receive: which send */
    message_end_t end[MANY];
    selvage_request_t *all[MANY];
    exchange_one(self);
    for (int i = 0; i < MANY; i++) {
        message_end_open(&end[i], self, &plain);
        if (self->rank == 1)
            message_end_recv(&end[i], &plain, 0, recv_tag[i]);
        if (self->rank == 1 && i < 2)
            wait_on_device(&end[i]);
    }
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 0)
            message_end_send(&end[i], &plain, 1, send_tag[i], key_of(0, i));
        all[i] = end[i].request;
    }
    CHECK_STATUS(sv_message_waitall(MANY, all, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], BYTES, key_of(0, meets[i])), -1);
        message_end_close(&end[i]);
    }
}

/* Taken back while a kernel waits: nothing comes, or the message has come, and is there as a whole. */
static void cancelling(local_rank_t *self)
{
    exchange_one(self);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        message_end_t end;
        selvage_message_status_t status = {0};
        const bool sends = i % 2;
        message_end_open(&end, self, &plain);
        if (self->rank == 1) {
            message_end_recv(&end, &plain, 0, 1);
            wait_on_device(&end);
        }
        local_ranks_barrier(self);
        if (self->rank == 0 && sends) {
            message_end_send(&end, &plain, 1, 1, key_of(0, i));
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        }
        if (self->rank == 1) {
            sv_message_cancel(end.request);
            sv_message_cancel(end.request);
            CHECK_STATUS(sv_message_wait(&end.request, &status), SELVAGE_SUCCESS);
            CHECK(sends || status.cancelled);
            CHECK_EQ(message_end_wrong(&end, status.cancelled ? 0 : BYTES, key_of(0, i)), -1);
        }
        if (self->rank == 1 && sends && status.cancelled) {
            message_end_recv(&end, &plain, 0, 1);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
            CHECK_EQ(message_end_wrong(&end, BYTES, key_of(0, i)), -1);
        }
        message_end_close(&end);
        local_ranks_barrier(self);
    }
}

/* An error ends a receive whose kernel has just taken the message, which is the next one's then. */
static void ended(local_rank_t *self)
{
    message_end_t end;
    exchange_one(self);
    message_end_open(&end, self, &plain);
    if (self->rank == 1) {
        message_end_recv(&end, &plain, 0, 1);
        wait_on_device(&end);
    }
    local_ranks_barrier(self);
    if (self->rank == 0)
        message_end_send(&end, &plain, 1, 1, key_of(0, 1));
    if (self->rank == 1) {
        selvage_request_t *recv = end.request;
        while ((int64_t)(__atomic_load_n(&recv->line->done, __ATOMIC_ACQUIRE) - recv->stamp) < 0) /* nobody polls */
            ;
        pthread_mutex_lock(&engine_of(self)->lock);
        sv_message_complete(recv, sv_error_quiet(SELVAGE_ERR_DEVICE, "a test's"));
        pthread_mutex_unlock(&engine_of(self)->lock);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
        message_end_recv(&end, &plain, 0, 1);
    }
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, BYTES, key_of(0, 1)), -1);
    message_end_close(&end);
}

/* A message that has been received is sent, though its place has gone to one whose stream stands still. */
static void placed_again(local_rank_t *self)
{
    static uint64_t received, word, unused[2];
    message_end_t end[2];
    void *stream = NULL;
    if (self->rank == 0)
        received = word = 0;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    const message_shape_t held = {.bytes = BYTES, .on_device = true, .stream = stream};
    const sv_await_arg_t arg = {.word = &word, .abort = &unused[0], .late = &unused[1], .epoch = 1,
                                .wait_ns = UINT64_C(20000000000)};
    exchange_one(self);
    for (int i = 0; i < 2; i++)
        message_end_open(&end[i], self, self->rank ? &plain : i ? &held : &plain);
    if (self->rank == 0) {
        message_end_send(&end[0], &plain, 1, 0, key_of(0, 0));
        while (!__atomic_load_n(&received, __ATOMIC_ACQUIRE)) /* and nobody polls here */
            ;
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
        message_end_send(&end[1], &held, 1, 1, key_of(0, 1));
        CHECK_STATUS(sv_message_wait(&end[0].request, NULL), SELVAGE_SUCCESS);
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 2; i++) {
        if (self->rank == 1)
            message_end_recv(&end[i], &plain, 0, i);
        if (self->rank == 1 || i == 1)
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], BYTES, key_of(0, i)), -1);
        if (self->rank == 1)
            __atomic_store_n(&received, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 2; i++)
        message_end_close(&end[i]);
    selvage_stream_destroy(self->dev, stream);
}

/* Nobody parts while a kernel of a send is still to store into another's memory. */
static void parting(local_rank_t *self)
{
    static uint64_t word, unused[2];
    message_end_t end;
    void *stream = NULL;
    if (self->rank == 0)
        word = 0;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    const message_shape_t held = {.bytes = BYTES, .on_device = true, .stream = stream};
    const sv_await_arg_t arg = {.word = &word, .abort = &unused[0], .late = &unused[1], .epoch = 1,
                                .wait_ns = UINT64_C(20000000000)};
    exchange_one(self);
    message_end_open(&end, self, self->rank ? &plain : &held);
    if (self->rank == 0) {
        sv_message_engine_t *engine = engine_of(self);
        sv_message_peer_t *peer;
        bool parted = false;
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
        message_end_send(&end, &held, 1, 1, key_of(0, 1));
        pthread_mutex_lock(&engine->lock);
        CHECK_STATUS(sv_message_peer(engine, 1, &peer), SELVAGE_SUCCESS);
        do
            CHECK_STATUS(sv_message_disconnect(engine, &parted), SELVAGE_SUCCESS);
        while ((sv_message_poll(engine), !sv_list_is_empty(&peer->unacked)));
        CHECK_STATUS(sv_message_disconnect(engine, &parted), SELVAGE_SUCCESS);
        CHECK(!parted);
        pthread_mutex_unlock(&engine->lock);
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    } else {
        message_end_recv(&end, &plain, 0, 1);
    }
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, BYTES, key_of(0, 1)), -1);
    message_end_close(&end);
    selvage_stream_destroy(self->dev, stream);
}

/* What its sender's stream holds up is announced, and comes to the kernel all the same, or after it. */
static void held_up(local_rank_t *self)
{
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    exchange_one(self);
    const message_shape_t slow = {.bytes = BYTES, .on_device = true, .stream = stream, .delay_us = 3000};
    for (int i = 0; i < 3; i++) {
        swap(self, &slow, &plain, i);
        swap(self, &plain, &slow, i);
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
    selvage_stream_destroy(self->dev, stream);
}

/* More than there are slots and places, before anybody receives; then the communicator goes with a kernel waiting. */
static void flooded(local_rank_t *self)
{
    enum { MANY = 40 };
    message_end_t end[MANY];
    exchange_one(self);
    for (int i = 0; i < MANY; i++) {
        message_end_open(&end[i], self, &plain);
        if (self->rank == 0)
            message_end_send(&end[i], &plain, 1, 0, key_of(0, i));
    }
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 1)
            message_end_recv(&end[i], &plain, 0, 0);
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], BYTES, key_of(0, i)), -1);
        message_end_close(&end[i]);
    }
}

static void forgetting(local_rank_t *self)
{
    message_end_t end;
    exchange_one(self);
    message_end_open(&end, self, &plain);
    message_end_recv(&end, &plain, 1 - self->rank, 3);
    wait_on_device(&end);
    message_end_close(&end);
}

int main(void)
{
    swap_with("", ALL);
    swap_with("EARLY_WAIT_US=100000", WAITING);
    swap_with("EARLY_WAIT_US=100000 CHECKSUM=off SOFT_BLOCKS=4", WAITING);
    swap_with("EARLY_WAIT_US=1", MAYBE);
    swap_with("EARLY_WAIT_US=100000 ROUTE=shared", NONE);
    swap_with("EARLY_WAIT_US=100000 FAULT=ipc=1+", NONE);
    land_with("EARLY_WAIT_US=100000 MESSAGE_EAGER_BYTES=32 SOFT_BLOCKS=4 KERNEL_PEER_MAX_BYTES=1M", true);
    land_with("EARLY_WAIT_US=100000 MESSAGE_EAGER_BYTES=32 KERNEL_PEER_MAX_BYTES=0", false);
    land_with("EARLY_WAIT_US=100000 MESSAGE_EAGER_BYTES=32 CHECKSUM=off", false);
    local_ranks_env("EARLY_WAIT_US=100000 SOFT_BLOCKS=2");
    run(to_host, NULL, false);
    run(swap_into_larger, NULL, false);
    run(others, NULL, true);
    run(wildcards, NULL, false);
    run(several, NULL, false);
    run(overtaken, NULL, false);
    run(cancelling, NULL, false);
    run(ended, NULL, false);
    run(held_up, NULL, false);
    run(placed_again, NULL, false);
    run(parting, NULL, false);
    run(flooded, NULL, false);
    run(forgetting, NULL, true);
    return check_report("test_message_devslot");
}
