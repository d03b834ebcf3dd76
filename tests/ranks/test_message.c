/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages one at a time: sizes on both sides of every threshold, kinds of memory, matching, probing, cancelling,
 * messages to oneself, truncation, deadlines, damage, and what is left at the end. Ranks are threads.
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

enum { NO_TAG = 7 };

static uint64_t key_of(int source, int destination, int number)
{
    return (uint64_t)source << 48 | (uint64_t)destination << 32 | (uint32_t)number;
}

static void run(void (*body)(local_rank_t *self), int size, int ranks_per_node, bool log_expected)
{
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = body,
                                   .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

/* Rank 0 sends, rank size - 1 receives: the same one if there is only one. */
static void one_way(local_rank_t *self, const message_shape_t *out, const message_shape_t *in, int number)
{
    const int last = self->size - 1;
    message_end_t send, recv;
    selvage_message_status_t status;
    if (self->rank == last) {
        message_end_open(&recv, self, in);
        message_end_recv(&recv, in, 0, number);
    }
    if (self->rank == 0) {
        message_end_open(&send, self, out);
        message_end_send(&send, out, last, number, key_of(0, last, number));
        CHECK_STATUS(sv_message_wait(&send.request, &status), SELVAGE_SUCCESS);
        CHECK(send.request == NULL);
        CHECK_EQ(status.bytes, out->bytes);
        message_end_close(&send);
    }
    if (self->rank == last) {
        CHECK_STATUS(sv_message_wait(&recv.request, &status), SELVAGE_SUCCESS);
        CHECK_EQ(status.source, 0);
        CHECK_EQ(status.tag, number);
        CHECK_EQ(status.bytes, out->bytes);
        CHECK_EQ(message_end_wrong(&recv, out->bytes, key_of(0, last, number)), -1);
        message_end_close(&recv);
    }
}

#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
static const size_t sizes[] = {0, 9, 4096, 4097, 20000};
#else
static const size_t sizes[] = {0, 1, 9, 64, 1000, 4095, 4096, 4097, 9000, 70000};
#endif

static void all_sizes(local_rank_t *self)
{
    int number = 0;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (unsigned kind = 0; kind < 16; kind++) {
            const size_t bytes = sizes[s];
            const message_shape_t out = {.bytes = bytes, .on_device = kind & 1, .run = kind & 4 ? 24 : 0, .gap = 8,
                                         .stream = kind & 8 ? stream : SELVAGE_MESSAGE_NO_STREAM};
            const message_shape_t in = {.bytes = bytes + (kind & 8 ? 0 : 40), .on_device = kind & 2, .gap = 13,
                                        .run = kind & 4 ? 11 : 0, .stream = out.stream,
                                        .delay_us = 50};
            one_way(self, &out, &in, number++);
        }
    selvage_stream_destroy(self->dev, stream);
}

/* The buffer of a send is read, and that of a receive is written, after what is on its stream. */
static void behind_streams(local_rank_t *self)
{
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    for (unsigned kind = 0; kind < 16; kind++) {
        const size_t bytes = kind & 8 ? 30000 : 500;
        const message_shape_t out = {.bytes = bytes, .on_device = kind & 1, .run = kind & 4 ? 16 : 0, .gap = 8,
                                     .stream = stream, .delay_us = 3000};
        message_shape_t in = out;
        in.on_device = kind & 2;
        in.delay_us = 6000;
        one_way(self, &out, &in, (int)kind);
    }
    selvage_stream_destroy(self->dev, stream);
}

/* Sends before receives, by tags in the opposite order; then from anybody. */
static void matching(local_rank_t *self)
{
    enum { MANY = 12 };
    const int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
    message_end_t send[MANY], recv[MANY];
    const message_shape_t shape = {.bytes = 200, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    for (int i = 0; i < MANY; i++) {
        message_end_open(&send[i], self, &shape);
        message_end_open(&recv[i], self, &shape);
        message_end_send(&send[i], &shape, next, i / 2, key_of(self->rank, next, i));
    }
    local_ranks_barrier(self);
    for (int i = MANY; i-- > 0;)
        message_end_recv(&recv[i], &shape, i % 3 ? before : SV_MESSAGE_ANY, i / 2);
    for (int i = 0; i < MANY; i++) {
        selvage_message_status_t status;
        CHECK_STATUS(sv_message_wait(&recv[i].request, &status), SELVAGE_SUCCESS);
        CHECK_EQ(status.source, before);
        /* The receive of the pair that was posted first has the message that was sent first. */
        CHECK_EQ(message_end_wrong(&recv[i], shape.bytes, key_of(before, self->rank, i ^ 1)), -1);
        CHECK_STATUS(sv_message_wait(&send[i].request, NULL), SELVAGE_SUCCESS);
        message_end_close(&send[i]);
        message_end_close(&recv[i]);
    }
}

static void test_probing(local_rank_t *self, size_t bytes)
{
    const int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
    const message_shape_t shape = {.bytes = bytes, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t send, recv;
    selvage_message_status_t status;
    selvage_message_t *taken = NULL;
    bool found = true;
    local_ranks_barrier(self);
    CHECK_STATUS(sv_message_probe(self->comm, SV_MESSAGE_ANY, SV_MESSAGE_ANY, &found, NULL, NULL), SELVAGE_SUCCESS);
    CHECK(!found);
    local_ranks_barrier(self);
    message_end_open(&send, self, &shape);
    message_end_open(&recv, self, &shape);
    message_end_send(&send, &shape, next, 5, key_of(self->rank, next, 1));
    CHECK_STATUS(sv_message_probe_wait(self->comm, SV_MESSAGE_ANY, 5, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.source, before);
    CHECK_EQ(status.tag, 5);
    CHECK_EQ(status.bytes, bytes);
    CHECK_STATUS(sv_message_probe(self->comm, before, 6, &found, NULL, NULL), SELVAGE_SUCCESS);
    CHECK(!found);
    CHECK_STATUS(sv_message_probe(self->comm, before, SV_MESSAGE_ANY, &found, &taken, NULL), SELVAGE_SUCCESS);
    CHECK(found && taken);
    CHECK_STATUS(sv_message_probe(self->comm, before, SV_MESSAGE_ANY, &found, NULL, NULL), SELVAGE_SUCCESS);
    CHECK(!found);
    const sv_message_buffer_t buffer = {recv.buf, &recv.map};
    message_end_mark(&recv);
    CHECK_STATUS(sv_message_irecv(self->comm, "test", &buffer, SV_MESSAGE_ANY, SV_MESSAGE_ANY, &taken,
                                  SELVAGE_MESSAGE_NO_STREAM, &recv.request), SELVAGE_SUCCESS);
    CHECK(taken == NULL);
    CHECK_STATUS(sv_message_wait(&recv.request, &status), SELVAGE_SUCCESS);
    CHECK_EQ(message_end_wrong(&recv, bytes, key_of(before, self->rank, 1)), -1);
    CHECK_STATUS(sv_message_wait(&send.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&send);
    message_end_close(&recv);
    local_ranks_barrier(self);
}

/* A cancelled receive takes nothing; a synchronous send is complete only when it is met; waitany finds the one. */
static void cancelling(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 100, .stream = SELVAGE_MESSAGE_NO_STREAM};
    const int other = self->size - 1 - self->rank;
    message_end_t send, recv[2];
    selvage_message_status_t status;
    size_t index = 9;
    message_end_open(&send, self, &shape);
    for (int i = 0; i < 2; i++) {
        message_end_open(&recv[i], self, &shape);
        message_end_recv(&recv[i], &shape, other, i);
    }
    sv_message_cancel(recv[0].request);
    CHECK_STATUS(sv_message_test(&recv[0].request, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.cancelled, 1);
    local_ranks_barrier(self);
    message_end_issend(&send, &shape, other, 0, key_of(self->rank, other, 0));
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(sv_message_test(&send.request, NULL), SELVAGE_IN_PROGRESS);
    local_ranks_barrier(self);
    message_end_recv(&recv[0], &shape, SV_MESSAGE_ANY, SV_MESSAGE_ANY);
    selvage_request_t *both[3] = {recv[1].request, NULL, recv[0].request};
    CHECK_STATUS(sv_message_waitany(3, both, &index, &status), SELVAGE_SUCCESS);
    CHECK_EQ(index, 2);
    CHECK(both[2] == NULL);
    CHECK_EQ(message_end_wrong(&recv[0], shape.bytes, key_of(other, self->rank, 0)), -1);
    CHECK_STATUS(sv_message_wait(&send.request, NULL), SELVAGE_SUCCESS);
    sv_message_cancel(recv[1].request);
    CHECK_STATUS(sv_message_waitall(3, both, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_waitany(3, both, &index, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(index, SIZE_MAX);
    for (int i = 0; i < 2; i++)
        message_end_close(&recv[i]);
    message_end_close(&send);
}

static void probing(local_rank_t *self)
{
    test_probing(self, 0);
    test_probing(self, 300);
    test_probing(self, 20000);
}

static void hold(local_rank_t *self, void *stream, const uint64_t *word)
{
    static uint64_t unused[2][2]; /* abort and late, of each rank */
    const sv_await_arg_t arg = {.word = word, .abort = &unused[self->rank][0], .late = &unused[self->rank][1],
                                .epoch = 1, .wait_ns = UINT64_C(20000000000)};
    CHECK_STATUS(SV_DEVICE_CALL(self->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
}

enum { HELD, TAKEN, SHORT, AHEAD, ANSWER, OVERTAKING, ROOM = 80 };

static void send_behind_and_ahead(message_end_t *end)
{
    static uint64_t word;
    void *stream = NULL;
    __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
    CHECK_STATUS(selvage_stream_create(end->self->dev, &stream), SELVAGE_SUCCESS);
    hold(end->self, stream, &word);
    for (int i = 0; i <= AHEAD; i++) {
        const message_shape_t shape = {.bytes = ROOM, .stream = i == AHEAD ? SELVAGE_MESSAGE_NO_STREAM : stream};
        message_end_send(&end[i], &shape, 1, i, key_of(0, 1, i));
    }
    message_end_recv(&end[ANSWER], &(message_shape_t){.stream = SELVAGE_MESSAGE_NO_STREAM}, 1, ANSWER);
    CHECK_STATUS(sv_message_wait(&end[ANSWER].request, NULL), SELVAGE_SUCCESS);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    for (int i = 0; i <= AHEAD; i++)
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
    selvage_stream_destroy(end->self->dev, stream);
}

static void receive_ahead_and_behind(message_end_t *end)
{
    const message_shape_t shape = {.bytes = ROOM, .stream = SELVAGE_MESSAGE_NO_STREAM};
    selvage_comm_t *comm = end->self->comm;
    selvage_message_t *taken = NULL;
    bool found = false;
    message_end_recv(&end[AHEAD], &shape, 0, AHEAD);
    CHECK_STATUS(sv_message_wait(&end[AHEAD].request, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_probe(comm, 0, TAKEN, &found, &taken, NULL), SELVAGE_SUCCESS);
    CHECK(found);
    message_end_recv(&end[SHORT], &shape, 0, SHORT);
    CHECK_STATUS(sv_message_wait(&end[SHORT].request, NULL), SELVAGE_ERR_TRUNCATED);
    message_end_send(&end[ANSWER], &shape, 0, ANSWER, 1);
    const sv_message_buffer_t buffer = {end[TAKEN].buf, &end[TAKEN].map};
    message_end_mark(&end[TAKEN]);
    CHECK_STATUS(sv_message_irecv(comm, "test", &buffer, SV_MESSAGE_ANY, SV_MESSAGE_ANY, &taken,
                                  SELVAGE_MESSAGE_NO_STREAM, &end[TAKEN].request), SELVAGE_SUCCESS);
    message_end_recv(&end[HELD], &shape, SV_MESSAGE_ANY, SV_MESSAGE_ANY);
    for (int i = 0; i < OVERTAKING; i++) {
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (i != SHORT && i != ANSWER)
            CHECK_EQ(message_end_wrong(&end[i], ROOM, key_of(0, 1, i)), -1);
    }
}

/* A send after a stream that stands still until the other rank has had a later message, and answered: small messages
   with other tags overtake it. What was looked at, taken or too short for it before it came is right all the same. */
static void overtaking(local_rank_t *self)
{
    message_end_t end[OVERTAKING];
    for (int i = 0; i < OVERTAKING; i++) {
        const message_shape_t shape = {.bytes = self->rank == 1 && i == SHORT ? ROOM - 1 : ROOM,
                                       .on_device = i != TAKEN, /* of host memory, too */
                                       .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_open(&end[i], self, &shape);
    }
    if (self->rank == 0)
        send_behind_and_ahead(end);
    else
        receive_ahead_and_behind(end);
    for (int i = 0; i < OVERTAKING; i++)
        message_end_close(&end[i]);
}

/* Who waits for a message drives the exchange that the other rank waits for before it sends. */
static void beside_exchanges(local_rank_t *self)
{
    enum { BYTES = 50000 };
    const message_shape_t shape = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    const int other = 1 - self->rank;
    selvage_exchange_t *x = NULL;
    message_end_t end, packet[2];
    message_end_open(&end, self, &shape);
    for (int i = 0; i < 2; i++)
        message_end_open(&packet[i], self, &shape);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &x), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(x, packet[0].buf, BYTES, other, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(x, packet[1].buf, BYTES, other, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(x), SELVAGE_SUCCESS);
    local_ranks_fill(packet[0].buf, BYTES, (uint64_t)self->rank);
    CHECK_STATUS(selvage_exchange_start(x, NULL), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        message_end_recv(&end, &shape, 1, 0);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&end, BYTES, 5), -1);
    }
    CHECK_STATUS(selvage_exchange_wait(x, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(local_ranks_wrong(packet[1].buf, BYTES, (uint64_t)other), -1);
    if (self->rank == 1) {
        message_end_send(&end, &shape, 0, 0, 5);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    }
    selvage_exchange_destroy(x);
    for (int i = 0; i < 2; i++)
        message_end_close(&packet[i]);
    message_end_close(&end);
}

/* Too long is an error of the receiver's, which names both sizes; nothing lands, and the next message does. */
static void truncating(local_rank_t *self)
{
    const size_t longer[] = {300, 20000};
    for (int i = 0; i < 2; i++) {
        const message_shape_t out = {.bytes = longer[i], .stream = SELVAGE_MESSAGE_NO_STREAM};
        const message_shape_t in = {.bytes = longer[i] - 1, .stream = SELVAGE_MESSAGE_NO_STREAM};
        selvage_message_status_t status;
        message_end_t end;
        message_end_open(&end, self, self->rank ? &in : &out);
        if (self->rank == 0) {
            message_end_send(&end, &out, 1, NO_TAG, 1);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        } else {
            char text[64];
            message_end_recv(&end, &in, 0, NO_TAG);
            CHECK_STATUS(sv_message_wait(&end.request, &status), SELVAGE_ERR_TRUNCATED);
            snprintf(text, sizeof text, "message of %zu bytes", longer[i]);
            CHECK(strstr(selvage_error_detail(), text) != NULL);
            CHECK_EQ(status.error, SELVAGE_ERR_TRUNCATED);
            CHECK_EQ(status.bytes, longer[i]);
            CHECK_EQ(message_end_wrong(&end, 0, 0), -1);
        }
        message_end_close(&end);
        one_way(self, &out, &out, i);
    }
}

static void deadline(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 10, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_end_open(&end, self, &shape);
    local_ranks_deadline(self, NULL, 1.5);
    message_end_recv(&end, &shape, SV_MESSAGE_ANY, 3);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
    CHECK(end.request != NULL);
    CHECK(strstr(selvage_error_detail(), "no message has met it") != NULL);
    CHECK_STATUS(sv_message_probe_wait(self->comm, 0, 3, NULL), SELVAGE_ERR_TIMEOUT);
    selvage_message_status_t statuses[3];
    selvage_request_t *all[3] = {end.request, NULL, end.request};
    CHECK_STATUS(sv_message_waitall(3, all, statuses), SELVAGE_ERR_TIMEOUT);
    CHECK_EQ(statuses[0].error, SELVAGE_ERR_TIMEOUT);
    CHECK_EQ(statuses[1].error, SELVAGE_SUCCESS);
    CHECK_EQ(statuses[2].error, SELVAGE_ERR_TIMEOUT);
    CHECK(all[0] != NULL);
    sv_message_cancel(end.request);
    sv_message_detach(&end.request);
    message_end_close(&end);
}

/* Sends that nobody waits for arrive all the same, also when their communicator is destroyed meanwhile. */
static message_end_t let_go;

static void letting_go(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 60000, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t recv;
    if (self->rank == 0) {
        message_end_open(&let_go, self, &shape);
        message_end_send(&let_go, &shape, 1, 0, 77);
        sv_message_detach(&let_go.request);
        CHECK(let_go.request == NULL);
        sv_type_map_fini(&let_go.map);
        return;
    }
    message_end_open(&recv, self, &shape);
    message_end_recv(&recv, &shape, 0, 0);
    CHECK_STATUS(sv_message_wait(&recv.request, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(message_end_wrong(&recv, shape.bytes, 77), -1);
    message_end_close(&recv);
}

static void forgetting(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 10, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_end_open(&end, self, &shape);
    message_end_recv(&end, &shape, SV_MESSAGE_ANY, 3);
    message_end_close(&end); /* nothing will come */
}

/* Everything is damaged on its way, once; and with another policy, that is the end of it. */
static void damaged(local_rank_t *self)
{
    for (size_t s = 1; s < sizeof sizes / sizeof sizes[0]; s++) {
        const message_shape_t shape = {.bytes = sizes[s], .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
        one_way(self, &shape, &shape, (int)s);
    }
    CHECK(self->rank == 0 || local_ranks_logged(self, "asked for again"));
}

static void reported(local_rank_t *self)
{
    const size_t bytes[] = {300, 20000};
    for (int i = 0; i < 2; i++) {
        const message_shape_t shape = {.bytes = bytes[i], .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_t end;
        message_end_open(&end, self, &shape);
        if (self->rank == 0)
            message_end_send(&end, &shape, 1, NO_TAG, 1);
        else
            message_end_recv(&end, &shape, 0, NO_TAG);
        /* The sender of a small message has its buffer back before anybody looks at it. */
        CHECK_STATUS(sv_message_wait(&end.request, NULL),
                     self->rank || i ? SELVAGE_ERR_CHECKSUM : SELVAGE_SUCCESS);
        message_end_close(&end);
    }
}

/* An unread flood: beyond some, small messages wait for their receives, and none is lost. */
static void flood(local_rank_t *self)
{
    enum { MANY = 400 };
    static const message_shape_t shape = {.bytes = 24, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t *end = calloc(MANY, sizeof *end);
    for (int i = 0; i < MANY; i++) {
        message_end_open(&end[i], self, &shape);
        if (self->rank == 0)
            message_end_send(&end[i], &shape, 1, 0, key_of(0, 1, i));
    }
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 1)
            message_end_recv(&end[i], &shape, 0, 0);
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], shape.bytes, key_of(0, 1, i)), -1);
        message_end_close(&end[i]);
    }
    free(end);
}

static void refusals(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 64, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    selvage_request_t *request = NULL;
    message_end_t end;
    message_end_open(&end, self, &shape);
    sv_type_map_t map = {0};
    CHECK_STATUS(sv_type_map_add_run(&map, 0, (uint64_t)1 << 40), SELVAGE_SUCCESS);
    const sv_message_buffer_t beyond = {end.buf, &map};
    CHECK_STATUS(sv_message_isend(self->comm, "test", &beyond, 0, 0, SV_SEND_PLAIN, NULL, &request),
                 SELVAGE_ERR_ARGUMENT);
    CHECK(request == NULL);
    CHECK(strstr(selvage_error_detail(), "test: buf:") != NULL);
    const sv_message_buffer_t buffer = {end.buf, &end.map};
    selvage_message_status_t status;
    CHECK_STATUS(sv_message_irecv(self->comm, "test", &buffer, SV_MESSAGE_NOBODY, 0, NULL, NULL, &request),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_wait(&request, &status), SELVAGE_SUCCESS);
    CHECK_EQ(status.bytes, 0);
    CHECK_EQ(status.source, SV_MESSAGE_NOBODY);
    sv_type_map_fini(&map);
    message_end_close(&end);
}

/* What shall become of 10 small and 10 long messages from device to device. */
typedef struct ways {
    bool devslot, direct, denied;
} ways_t;

/* Between ranks of a node control messages go through a shared segment, once the first has come, and long messages
   straight to the receiver's memory; where memory cannot be mapped, they go all the same. */
static void on_node(local_rank_t *self)
{
    enum { EACH = 10, MOST = 8 };
    const ways_t *wanted = self->arg;
    sv_thread_binding()->fault = &self->comm->fault; /* as the public calls do */
    for (int i = 0; i < 2 * EACH; i++) {
        const size_t bytes = i % 2 ? 100 + (size_t)i : 20000 + 4096 * (size_t)i;
        const message_shape_t shape = {.bytes = bytes, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM,
                                       .run = i % 4 > 1 ? 48 : 0, .gap = 16};
        one_way(self, &shape, &shape, i);
    }
    local_ranks_barrier(self);
    const sv_message_arrived_t arrived = sv_message_stats(self->comm).arrived;
    if (self->rank != self->size - 1)
        return;
    CHECK_EQ(arrived.by[SV_WAY_WIRE] + arrived.by[SV_WAY_SHM], EACH);
    /* One is cleared for the memory that cannot be reached, unless its sender has found that out before. */
    const uint64_t twice = wanted->denied ? arrived.by[SV_WAY_DIRECT] : 0;
    CHECK_EQ(arrived.by[SV_WAY_STAGED] + arrived.by[SV_WAY_DIRECT], EACH + twice);
    CHECK_EQ(arrived.by[SV_WAY_SHM] >= MOST, wanted->devslot || self->size == 1);
    CHECK_EQ(arrived.by[SV_WAY_DIRECT] >= MOST, wanted->direct);
    CHECK(wanted->direct || arrived.by[SV_WAY_DIRECT] <= wanted->denied);
}

static void run_on_node(int size, const char *settings, ways_t wanted)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = size, .body = on_node, .arg = &wanted, .log_expected = !wanted.direct});
}

#ifndef SV_SANITIZES_THREAD
static void send_into(message_end_t *end, const message_shape_t *shape, int number)
{
    if (end->self->rank == 0)
        message_end_send(end, shape, 1, number, key_of(0, 1, number));
    else
        message_end_recv(end, shape, 0, number);
    CHECK_STATUS(sv_message_wait(&end->request, NULL), SELVAGE_SUCCESS);
    if (end->self->rank == 1)
        CHECK_EQ(message_end_wrong(end, shape->bytes, key_of(0, 1, number)), -1);
}

/* More allocations than stay mapped; the first again, and then others in their places. */
static void remapping(local_rank_t *self)
{
    enum { MANY = 34, AGAIN = 3, BYTES = 1049000 }; /* of so many bytes each is an allocation of the system's own */
    const message_shape_t shape = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t *end = calloc(MANY, sizeof *end);
    for (int i = 0; i < MANY + 2 * AGAIN; i++) {
        message_end_t *here = &end[i < MANY ? i : (i - MANY) % AGAIN];
        if (i >= MANY + AGAIN)
            message_end_close(here);
        if (i < MANY || i >= MANY + AGAIN)
            message_end_open(here, self, &shape);
        send_into(here, &shape, i);
    }
    for (int i = 0; i < MANY; i++)
        message_end_close(&end[i]);
    free(end);
}
#endif

static void in_every_mode(void)
{
    run(all_sizes, 2, 0, false);
    run(all_sizes, 2, 1, false);
    run(behind_streams, 2, 1, false);
    run(matching, 3, 1, false);
}

int main(void)
{
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=4096");
    in_every_mode();
    run(all_sizes, 1, 0, false);
    run(matching, 1, 0, false);
    run(matching, 4, 0, false);
    run(probing, 2, 1, false);
    run(probing, 1, 0, false);
    run(cancelling, 2, 1, false);
    run(cancelling, 1, 0, false);
    run(truncating, 2, 1, true);
    run(overtaking, 2, 0, true);
    run(overtaking, 2, 1, true);
    run(beside_exchanges, 2, 0, false);
    run(beside_exchanges, 2, 1, false);
    run(refusals, 1, 0, true);
    run(flood, 2, 1, false);
#ifndef SV_SANITIZES_THREAD /* takes its time, and has no more threads than the others */
    run(remapping, 2, 0, false);
#endif
    for (int per_node = 0; per_node < 2; per_node++) {
        run(letting_go, 2, per_node, false);
        message_end_close(&let_go);
    }
    run(forgetting, 2, 0, true);
    CHECK(local_ranks_any_logged("1 requests of messages were not completed"));
    local_ranks_env("TIMEOUT_S=60");
    run(deadline, 2, 0, true);
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=4096 FAULT=flip=1,rank=0");
    run(damaged, 2, 1, true);
    run(damaged, 2, 0, true);
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=4096 CHECKSUM=report FAULT=flip=1,rank=0");
    run(reported, 2, 1, true);
    run(reported, 2, 0, true);
    for (int size = 1; size < 3; size++) {
        run_on_node(size, "SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=4096", (ways_t){.devslot = true, .direct = true});
        run_on_node(size, "SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=4096 CHECKSUM=off",
                    (ways_t){.devslot = true, .direct = true});
        run_on_node(size, "SEGMENT_BYTES=4096 KERNEL_PEER_MAX_BYTES=0", (ways_t){.devslot = true, .direct = true});
        run_on_node(size, "ROUTE=staged", (ways_t){0});
    }
    run_on_node(2, "FAULT=map=1+", (ways_t){0});
    run_on_node(2, "FAULT=ipc=1+", (ways_t){.devslot = true, .denied = true});
    local_ranks_env("CHECKSUM=off MESSAGE_EAGER_BYTES=0 PROGRESS=thread");
    in_every_mode();
    return check_report("test_message");
}
