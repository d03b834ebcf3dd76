/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages whose receive was posted ahead: they claim what it offers. What takes the offer back, what comes in the
 * claiming message's place, and that no message overtakes another by it. Ranks are threads.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "message/message_devslot.h"
#include "message/message_prelaunch.h"
#include "message/message_pool.h"
#include "fixtures/message_end.h"

enum { BYTES = 30000, TURNS = 6 };

static const message_shape_t plain = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};

static uint64_t key_of(int number)
{
    return (uint64_t)number << 8 | 1;
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

/* One end of a message from rank 0 to rank 1. */
static void begin(local_rank_t *self, message_end_t *end, const message_shape_t *shape, int tag, int number)
{
    message_end_open(end, self, shape);
    if (self->rank == 0)
        message_end_send(end, shape, 1, tag, key_of(number));
    else
        message_end_recv(end, shape, 0, tag);
}

static void finish(message_end_t *end, selvage_status_t wanted, size_t bytes, int number)
{
    CHECK_STATUS(sv_message_wait(&end->request, NULL), end->self->rank ? wanted : SELVAGE_SUCCESS);
    if (end->self->rank == 1)
        CHECK_EQ(message_end_wrong(end, wanted == SELVAGE_SUCCESS ? bytes : 0, key_of(number)), -1);
    message_end_close(end);
}

/* The receive first; then, when both know that, the send. */
static void posted(local_rank_t *self, const message_shape_t *out, const message_shape_t *in, int number)
{
    message_end_t end;
    if (self->rank == 1)
        begin(self, &end, in, 1, number);
    local_ranks_barrier(self);
    sv_thread_binding()->fault = &self->comm->fault; /* as the public calls do */
    if (self->rank == 0)
        begin(self, &end, out, 1, number);
    finish(&end, out->bytes > in->bytes ? SELVAGE_ERR_TRUNCATED : SELVAGE_SUCCESS, out->bytes, number);
    local_ranks_barrier(self);
}

/* Until control messages go through shared segments. */
static void meet(local_rank_t *self)
{
    for (int i = 0; i < 3; i++)
        posted(self, &plain, &plain, 1000 + i);
}

static uint64_t claimed(local_rank_t *self)
{
    return self->rank == 1 ? sv_message_stats(self->comm).arrived.claimed : 0;
}

typedef struct claims {
    bool all; /* else none */
    bool prelaunched;
} claims_t;

static void claiming(local_rank_t *self)
{
    const claims_t *wanted = self->arg;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    meet(self);
    const uint64_t before = claimed(self), prelaunch_before = sv_message_stats(self->comm).arrived.prelaunched;
    for (int i = 0; i < TURNS; i++) {
        const message_shape_t out = {.bytes = BYTES, .on_device = true, .run = i % 3 == 2 ? 16 : 0, .gap = 8,
                                     .stream = i % 2 ? stream : SELVAGE_MESSAGE_NO_STREAM, .delay_us = 2000};
        message_shape_t in = {.bytes = BYTES, .on_device = true, .run = i % 3 == 1 ? 24 : 0, .gap = 16,
                              .stream = SELVAGE_MESSAGE_NO_STREAM};
        posted(self, &out, &in, i);
    }
    CHECK_EQ(claimed(self) - before, self->rank == 1 && wanted->all ? TURNS : 0);
    CHECK_EQ(sv_message_stats(self->comm).arrived.prelaunched > prelaunch_before,
             self->rank == 1 && wanted->prelaunched);
    local_ranks_barrier(self);
    selvage_stream_destroy(self->dev, stream);
}

static void claim_with(const char *settings, claims_t wanted, bool log_expected)
{
    local_ranks_env(settings);
    run(claiming, &wanted, log_expected);
}

/* Messages that the offer is not for meet the receive all the same. */
static void others(local_rank_t *self)
{
    message_shape_t shape = plain;
    meet(self);
    const uint64_t before = claimed(self);
    shape.bytes = 10; /* at once */
    posted(self, &shape, &plain, 1);
    shape.bytes = 0;
    posted(self, &shape, &plain, 2);
    shape.bytes = BYTES + 1;
    posted(self, &shape, &plain, 3);
    shape.bytes = BYTES;
    shape.on_device = false;
    posted(self, &shape, &plain, 4);
    CHECK_EQ(claimed(self), before);
    shape.on_device = true;
    shape.bytes = BYTES - 3;
    posted(self, &shape, &plain, 5);
    CHECK_EQ(claimed(self) - before, self->rank);
}

/* Two receives and two sends with one tag: the first offer is the first message's, and the second one is made when that
   was met. A receive of any rank's that comes first has no offer after it. */
static void in_order(local_rank_t *self)
{
    enum { MANY = 4 };
    message_end_t end[MANY];
    meet(self);
    for (int turn = 0; turn < 2; turn++) {
        if (self->rank == 1 && turn == 1) {
            message_end_open(&end[0], self, &plain);
            message_end_recv(&end[0], &plain, SV_MESSAGE_ANY, SV_MESSAGE_ANY);
        }
        for (int i = turn; self->rank == 1 && i < MANY; i++)
            begin(self, &end[i], &plain, 5, i);
        if (self->rank == 1)
            CHECK_EQ(end[1].request->put.advertised, false);
        local_ranks_barrier(self);
        for (int i = 0; self->rank == 0 && i < MANY; i++)
            begin(self, &end[i], &plain, 5, i);
        for (int i = MANY - 1; i >= 0; i--)
            finish(&end[i], SELVAGE_SUCCESS, BYTES, i);
        local_ranks_barrier(self);
    }
}

/* A small message that is on its way already, by a stream that holds it up, has the tag of the offer. */
static void behind_small(local_rank_t *self)
{
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    const message_shape_t small = {.bytes = 20, .on_device = true, .stream = stream, .delay_us = 3000};
    meet(self);
    for (int i = 0; i < 2; i++) {
        message_end_t end[2];
        if (self->rank == 1)
            for (int e = 0; e < 2; e++)
                begin(self, &end[e], &plain, 6, e);
        local_ranks_barrier(self);
        if (self->rank == 0)
            for (int e = 0; e < 2; e++)
                begin(self, &end[e], e ? &plain : &small, 6, e);
        for (int e = 0; e < 2; e++)
            finish(&end[e], SELVAGE_SUCCESS, e ? BYTES : small.bytes, e);
        local_ranks_barrier(self);
    }
    selvage_stream_destroy(self->dev, stream);
}

/* An error ends a receive that is offered: what is sent then goes to the next one. */
static void ended(local_rank_t *self)
{
    message_end_t end;
    meet(self);
    if (self->rank == 1) {
        begin(self, &end, &plain, 8, 0);
        CHECK(end.request->put.advertised);
        pthread_mutex_lock(&engine_of(self)->lock);
        sv_message_complete(end.request, sv_error_quiet(SELVAGE_ERR_DEVICE, "a test's"));
        pthread_mutex_unlock(&engine_of(self)->lock);
    }
    local_ranks_barrier(self);
    if (self->rank == 0)
        begin(self, &end, &plain, 8, 1);
    local_ranks_barrier(self);
    if (self->rank == 1)
        finish(&end, SELVAGE_ERR_DEVICE, 0, 0);
    if (self->rank == 1)
        begin(self, &end, &plain, 8, 1);
    finish(&end, SELVAGE_SUCCESS, BYTES, 1);
    posted(self, &plain, &plain, 2);
}

/* Taken back while it is offered, before or while its message claims it. */
static void cancelling(local_rank_t *self)
{
    meet(self);
    for (int i = 0; i < 6 * TURNS; i++) {
        message_end_t end;
        selvage_message_status_t status = {0};
        const bool sends = i % 3 != 0;
        if (self->rank == 1) {
            begin(self, &end, &plain, 7, i);
            CHECK(end.request->put.advertised || i % 3 == 1); /* else its message may be there */
        }
        if (i % 3 != 1)
            local_ranks_barrier(self);
        if (self->rank == 0 && sends) {
            begin(self, &end, &plain, 7, i);
            finish(&end, SELVAGE_SUCCESS, BYTES, i);
        }
        if (self->rank == 1) {
            sv_message_cancel(end.request);
            CHECK_STATUS(sv_message_wait(&end.request, &status), SELVAGE_SUCCESS);
            CHECK(sends || status.cancelled);
            CHECK_EQ(message_end_wrong(&end, status.cancelled ? 0 : BYTES, key_of(i)), -1);
        }
        if (self->rank == 1 && sends && status.cancelled) {
            message_end_recv(&end, &plain, 0, 7);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
            CHECK_EQ(message_end_wrong(&end, BYTES, key_of(i)), -1);
        }
        if (self->rank == 1)
            message_end_close(&end);
        local_ranks_barrier(self);
    }
}

/* The word of an offer, in the shared segment of the rank that made it. */
static uint64_t *rtr_word(local_rank_t *self, const message_end_t *end)
{
    sv_message_peer_t *peer;
    CHECK_STATUS(sv_message_peer(engine_of(self), 0, &peer), SELVAGE_SUCCESS);
    return &peer->in->shm->advertised[end->request->put.slot];
}

/* How far the two are, for those that must not look into their shared segments while they wait, as they do at a
   barrier. */
static void come_to(atomic_int *step, int value)
{
    for (unsigned turns = 0; atomic_load(step) < value;)
        check_wait_turn(&turns);
}

/* An RTR and an RTS pass each other: the receive is cleared, and the kernel that waits for its message takes it. A
   message of another length is not its own. */
static void crossing(local_rank_t *self)
{
    static atomic_int hidden, asked;
    meet(self);
    for (int i = 0; i < TURNS; i++) {
        const uint64_t before = claimed(self), prelaunch_before = sv_message_stats(self->comm).arrived.prelaunched;
        const message_shape_t out = {.bytes = i % 2 ? BYTES - 8 : BYTES, .on_device = true,
                                     .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_t end;
        uint64_t word = 0;
        if (self->rank == 1) {
            begin(self, &end, &plain, 9, i);
            sv_prelaunch_requests(engine_of(self), 1, &end.request);
            CHECK(end.request->early.launched);
            word = __atomic_exchange_n(rtr_word(self, &end), 0, __ATOMIC_ACQ_REL);
            CHECK(word > 1);
            atomic_store(&hidden, i + 1);
            come_to(&asked, i + 1);
            __atomic_store_n(rtr_word(self, &end), word, __ATOMIC_RELEASE);
        } else {
            come_to(&hidden, i + 1);
            begin(self, &end, &out, 9, i);
            atomic_store(&asked, i + 1);
        }
        finish(&end, SELVAGE_SUCCESS, out.bytes, i);
        CHECK_EQ(claimed(self), before);
        CHECK_EQ(sv_message_stats(self->comm).arrived.prelaunched - prelaunch_before, self->rank == 1 && i % 2 == 0);
        local_ranks_barrier(self);
    }
}

/* The same with a buffered send, whose sender then sleeps: a kernel that waits for a put does not ask for one. */
static void crossing_buffered(local_rank_t *self)
{
    static atomic_int hidden, asked, here;
    message_ends_meet(self, 100);
    for (int i = 0; i < 3; i++) {
        message_end_t end;
        if (self->rank == 1) {
            begin(self, &end, &plain, 9, i);
            sv_prelaunch_requests(engine_of(self), 1, &end.request);
            CHECK(end.request->early.launched);
            const uint64_t word = __atomic_exchange_n(rtr_word(self, &end), 0, __ATOMIC_ACQ_REL);
            CHECK(word > 1);
            atomic_store(&hidden, i + 1);
            come_to(&asked, i + 1);
            __atomic_store_n(rtr_word(self, &end), word, __ATOMIC_RELEASE);
            const uint64_t before = sv_message_stats(self->comm).arrived.fetched;
            finish(&end, SELVAGE_SUCCESS, BYTES, i);
            CHECK_EQ(sv_message_stats(self->comm).arrived.fetched - before, 1);
            atomic_store(&here, i + 1);
        } else {
            come_to(&hidden, i + 1);
            message_end_open(&end, self, &plain);
            CHECK_STATUS(message_end_ibsend(&end, &plain, 1, 9, key_of(i)), SELVAGE_SUCCESS);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
            message_end_close(&end);
            atomic_store(&asked, i + 1);
            come_to(&here, i + 1);
        }
        local_ranks_barrier(self);
    }
}

/* An RTS that is there before its receive is posted is cleared in the call that posts it. */
static void announced(local_rank_t *self)
{
    message_end_t end;
    meet(self);
    const uint64_t before = claimed(self);
    if (self->rank == 0)
        begin(self, &end, &plain, 3, 0);
    local_ranks_barrier(self);
    if (self->rank == 1) {
        begin(self, &end, &plain, 3, 0);
        CHECK_EQ(end.request->state, SV_REQUEST_MOVING);
        CHECK(!end.request->put.advertised);
    }
    finish(&end, SELVAGE_SUCCESS, BYTES, 0);
    CHECK_EQ(claimed(self), before);
}

/* More receives than a shared segment has put slots, each with a tag of its own. */
static void many(local_rank_t *self)
{
    enum { MANY = 40 };
    message_end_t *end = calloc(MANY, sizeof *end);
    meet(self);
    for (int i = 0; self->rank == 1 && i < MANY; i++)
        begin(self, &end[i], &plain, i, i);
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == 0)
            begin(self, &end[i], &plain, i, i);
        finish(&end[i], SELVAGE_SUCCESS, BYTES, i);
    }
    free(end);
}

int main(void)
{
    claim_with("MESSAGE_EAGER_BYTES=32", (claims_t){.all = true}, false);
    claim_with("MESSAGE_EAGER_BYTES=32 EARLY_WAIT_US=50000 KERNEL_PEER_MAX_BYTES=1M SOFT_BLOCKS=2",
               (claims_t){.all = true, .prelaunched = true}, false);
    claim_with("MESSAGE_EAGER_BYTES=0 CHECKSUM=off", (claims_t){.all = true}, false);
    claim_with("MESSAGE_EAGER_BYTES=32 FAULT=flip=1,rank=0", (claims_t){.all = true}, true);
    CHECK(local_ranks_any_logged("asked for again"));
    claim_with("MESSAGE_EAGER_BYTES=32 FAULT=ipc=1+", (claims_t){0}, true);
    claim_with("MESSAGE_EAGER_BYTES=32 ROUTE=shared", (claims_t){0}, false);
    local_ranks_env("MESSAGE_EAGER_BYTES=32 EARLY_WAIT_US=1000 KERNEL_PEER_MAX_BYTES=1M");
    run(others, NULL, true);
    run(in_order, NULL, false);
    run(behind_small, NULL, false);
    run(ended, NULL, false);
    run(cancelling, NULL, false);
    run(many, NULL, false);
    run(announced, NULL, false);
    local_ranks_env("MESSAGE_EAGER_BYTES=32 EARLY_WAIT_US=100000 KERNEL_PEER_MAX_BYTES=1M SOFT_BLOCKS=2");
    run(crossing, NULL, false);
    run(crossing_buffered, NULL, false);
    return check_report("test_message_rtr");
}
