/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends that wait for nobody: complete while their receiver does nothing, and refused, with nothing sent and nothing
 * logged, where they would wait; slots of a size of their own, which receives into host memory take from, too. Ranks
 * are threads.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "message/message_devslot.h"
#include "fixtures/message_end.h"

enum { BYTES = 3000, LONG = 300000, SLOTS = SV_DEVSLOTS, ROUNDS = 6, MANY = 3 * SLOTS };

static const message_shape_t plain = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
static atomic_int step; /* of a run, how far rank 0 is: rank 1 must not even look into its shared segment before */

static uint64_t key_of(int number)
{
    return (uint64_t)number << 8 | 1;
}

static void run(void (*body)(local_rank_t *self), void *arg, bool log_expected)
{
    atomic_store(&step, 0);
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .arg = arg, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

/* To and fro, until both have a shared segment of the other's. */
static void exchange_one(local_rank_t *self, const message_shape_t *shape)
{
    for (int i = 0; i < 8; i++) {
        const bool sends = self->rank == i % 2;
        message_end_t end;
        message_end_open(&end, self, shape);
        if (sends)
            message_end_send(&end, shape, 1 - self->rank, 1, key_of(i));
        else
            message_end_recv(&end, shape, 1 - self->rank, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        message_end_close(&end);
    }
    local_ranks_barrier(self);
}

static void take(local_rank_t *self, const message_shape_t *shape, int tag, selvage_status_t wanted)
{
    message_end_t end;
    message_end_open(&end, self, shape);
    message_end_recv(&end, shape, 0, tag);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), wanted);
    if (wanted == SELVAGE_SUCCESS)
        CHECK_EQ(message_end_wrong(&end, shape->bytes, key_of(tag)), -1);
    message_end_close(&end);
}

static void refuse(local_rank_t *self, const message_shape_t *shape, int peer)
{
    message_end_t end;
    message_end_open(&end, self, shape);
    CHECK_STATUS(message_end_ibsend(&end, shape, peer, 99, key_of(99)), SELVAGE_ERR_LIMIT);
    CHECK(!end.request);
    message_end_close(&end);
}

static void send_and_end(local_rank_t *self, const message_shape_t *shape, int tag)
{
    message_end_t end;
    message_end_open(&end, self, shape);
    CHECK_STATUS(message_end_ibsend(&end, shape, 1, tag, key_of(tag)), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end); /* the buffer with it */
}

static size_t longest(const local_rank_t *self)
{
    return ((sv_message_engine_t *)atomic_load(&self->comm->messages))->devslot_bytes;
}

static void come_to(int value)
{
    for (unsigned turns = 0; atomic_load(&step) < value;)
        check_wait_turn(&turns);
}

/* As many as there are slots end while their receiver stands still; one more is refused; so again after those. Every
   second one is packed. Receives in another order than the sends, every second run into host memory. */
static void alone(local_rank_t *self)
{
    const bool *host = self->arg;
    exchange_one(self, &plain);
    for (int round = 0; round < ROUNDS; round++) {
        message_shape_t shape = plain;
        for (int i = 0; self->rank == 0 && i < SLOTS; i++) {
            shape.run = i % 2 ? 24 : 0;
            shape.gap = 8;
            send_and_end(self, &shape, i);
        }
        if (self->rank == 0)
            refuse(self, &plain, 1);
        if (self->rank == 0)
            atomic_store(&step, round + 1);
        come_to(round + 1);
        shape = plain;
        shape.on_device = !*host;
        for (int i = SLOTS; self->rank == 1 && i-- > 0;)
            take(self, &shape, round % 2 ? i : SLOTS - 1 - i, SELVAGE_SUCCESS);
        local_ranks_barrier(self);
    }
}

/* What never goes so, and that the usual call still sends it. */
static void others(local_rank_t *self)
{
    message_shape_t host = plain, nothing = plain, beyond = plain;
    host.on_device = false;
    nothing.bytes = 0;
    if (self->rank == 0)
        refuse(self, &plain, 1); /* no shared segment yet */
    exchange_one(self, &plain);
    beyond.bytes = longest(self) + 1;
    if (self->rank == 0) {
        refuse(self, &host, 1);
        refuse(self, &nothing, 1);
        refuse(self, &beyond, 1);
        refuse(self, &plain, 0);
    }
    exchange_one(self, &beyond);
    exchange_one(self, &host);
}

/* Sends that cannot wait between those that can, with one tag: they are received in order. */
static void in_order(local_rank_t *self)
{
    message_end_t end[MANY];
    int refused = 0;
    exchange_one(self, &plain);
    for (int i = 0; i < MANY && self->rank == 0; i++) {
        message_end_open(&end[i], self, &plain);
        if (message_end_ibsend(&end[i], &plain, 1, 5, key_of(5)) == SELVAGE_SUCCESS)
            continue;
        refused++;
        message_end_send(&end[i], &plain, 1, 5, key_of(5));
    }
    CHECK_EQ(refused, self->rank == 0 ? MANY - SLOTS : 0);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 1)
            take(self, &plain, 5, SELVAGE_SUCCESS);
        else
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 0)
            message_end_close(&end[i]);
    }
}

/* A slot is free again after a receive that is too short. */
static void truncated(local_rank_t *self)
{
    message_shape_t brief = plain;
    brief.bytes = BYTES / 2;
    exchange_one(self, &plain);
    for (int i = 0; i < 2 * SLOTS; i++) {
        if (self->rank == 0)
            send_and_end(self, &plain, i);
        else
            take(self, &brief, i, SELVAGE_ERR_TRUNCATED);
        local_ranks_barrier(self);
    }
}

/* Slots longer than a piece of pinned memory, by which they would come to the host. */
static void large(local_rank_t *self)
{
    message_shape_t shape = {.bytes = LONG, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM}, host = shape;
    self->comm->message_slot_bytes = LONG;
    host.on_device = false;
    exchange_one(self, &plain);
    for (int i = 0; i < ROUNDS; i++) {
        shape.run = host.run = i % 3 == 2 ? 40 : 0;
        shape.gap = host.gap = 16;
        if (self->rank == 0)
            send_and_end(self, &shape, i);
        else
            take(self, i % 2 ? &host : &shape, i, SELVAGE_SUCCESS);
        local_ranks_barrier(self);
    }
    shape.bytes++;
    if (self->rank == 0)
        refuse(self, &shape, 1);
}

/* Ranks that want slots of different lengths have none, and what is not to wait is refused. */
static void differing(local_rank_t *self)
{
    self->comm->message_slot_bytes = LONG + (size_t)self->rank;
    exchange_one(self, &plain);
    if (self->rank == 0)
        refuse(self, &plain, 1);
}

int main(void)
{
    bool host = false;
    local_ranks_env("MESSAGE_BUFFER_BYTES=0 MESSAGE_EAGER_BYTES=64");
    run(alone, &host, false);
    host = true;
    run(alone, &host, false);
    run(others, NULL, false);
    run(in_order, NULL, false);
    run(truncated, NULL, true);
    local_ranks_env("MESSAGE_BUFFER_BYTES=0 MESSAGE_EAGER_BYTES=64 SEGMENT_BYTES=65536");
    run(large, NULL, false);
    run(differing, NULL, false);
    local_ranks_env("MESSAGE_BUFFER_BYTES=0 MESSAGE_EAGER_BYTES=64 CHECKSUM=off SEGMENT_BYTES=65536");
    run(large, NULL, false);
    return check_report("test_message_buffered");
}
