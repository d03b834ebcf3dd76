/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device calls that fail while messages begin or move: the call that says so has done nothing that anybody sees, what
 * the device still does is over before its memory is another's, and the next message goes as ever. Damage on the way
 * out of a neighbour's a descriptor, too. Ranks are threads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "message/message_shm.h"
#include "message/message_engine.h"
#include "message/message_prelaunch.h"
#include "fixtures/message_end.h"

enum { TAG = 5, LONG_BYTES = 60000, CALLS_MAX = 40, NEVER = 1000000000 };

static const message_shape_t plain = {.bytes = 300, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
static const message_shape_t long_plain = {.bytes = LONG_BYTES, .on_device = true,
                                           .stream = SELVAGE_MESSAGE_NO_STREAM};

static void run(void (*body)(local_rank_t *self), void *arg, int ranks_per_node, bool log_expected)
{
    local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = ranks_per_node, .body = body, .arg = arg,
                                   .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* The next but so many device calls of this thread fails. */
static void fail_call(local_rank_t *self, int64_t which)
{
    sv_thread_binding()->fault = &self->comm->fault; /* as the public calls do */
    atomic_store(&self->comm->fault.call_countdown[SV_FAULT_CALL_DEVICE], which);
}

/* One message to rank 1, posted first. */
static void pass_from(local_rank_t *self, int from, const message_shape_t *shape, uint64_t key)
{
    message_end_t end;
    message_end_open(&end, self, shape);
    if (self->rank == 1)
        message_end_recv(&end, shape, from, TAG);
    local_ranks_barrier(self);
    if (self->rank == from)
        message_end_send(&end, shape, 1, TAG, key);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, shape->bytes, key), -1);
    message_end_close(&end);
    local_ranks_barrier(self);
}

static void pass(local_rank_t *self, const message_shape_t *shape, uint64_t key)
{
    pass_from(self, 0, shape, key);
}

/* Until control messages go through shared segments. */
static void meet(local_rank_t *self)
{
    for (uint64_t i = 0; i < 3; i++)
        pass(self, &plain, 1000 + i);
}

/* --- calls that fail ---------------------------------------------------------------------------------------------- */

typedef struct failing_case {
    message_shape_t out;
    bool streams;  /* out has a stream of its own */
    bool posted;   /* the receive is there before */
    _Atomic bool failed;
} failing_case_t;

/* The send whose call fails, and another one after it with other bytes, which is to arrive; that is read when the
   stream of the first is through, if its receive comes late. */
static bool send_twice(local_rank_t *self, const message_shape_t *shape, int which)
{
    const message_shape_t next = {.bytes = shape->bytes, .on_device = true, .run = shape->run, .gap = shape->gap,
                                  .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end, other;
    message_end_open(&end, self, shape);
    message_end_open(&other, self, &next);
    void *copies = engine_of(self)->streams.peer;
    CHECK_STATUS(SV_DEVICE_CALL(self->dev, delay_async, 3000, copies), SELVAGE_SUCCESS);
    if (shape->stream != SELVAGE_MESSAGE_NO_STREAM)
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, delay_async, 30000, shape->stream), SELVAGE_SUCCESS);
    fail_call(self, which);
    const bool failed = message_end_try_send(&end, shape, 1, TAG, (uint64_t)which << 8 | 1) != SELVAGE_SUCCESS;
    fail_call(self, NEVER);
    if (failed && shape->run == 0) /* else there may have been no memory to begin with */
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, stream_query, copies), SELVAGE_SUCCESS);
    if (failed)
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, delay_async, 3000, copies), SELVAGE_SUCCESS);
    if (failed)
        message_end_send(&other, &next, 1, TAG, (uint64_t)which << 8 | 2);
    if (failed && shape->stream != SELVAGE_MESSAGE_NO_STREAM)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, shape->stream), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    CHECK_STATUS(sv_message_wait(failed ? &other.request : &end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&other);
    message_end_close(&end);
    return failed;
}

static void receive_once(local_rank_t *self, failing_case_t *wanted, int which)
{
    const message_shape_t in = {.bytes = wanted->out.bytes, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_end_open(&end, self, &in);
    if (wanted->posted)
        message_end_recv(&end, &in, 0, TAG);
    local_ranks_barrier(self);
    local_ranks_barrier(self);
    if (!wanted->posted)
        message_end_recv(&end, &in, 0, TAG);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    CHECK_EQ(message_end_wrong(&end, in.bytes, (uint64_t)which << 8 | (wanted->failed ? 2 : 1)), -1);
    message_end_close(&end);
}

/* Every device call of a send in turn. */
static void failing(local_rank_t *self)
{
    failing_case_t *wanted = self->arg;
    message_shape_t shape = wanted->out;
    int which = 0, failures = 0;
    if (wanted->streams)
        CHECK_STATUS(selvage_stream_create(self->dev, &shape.stream), SELVAGE_SUCCESS);
    meet(self);
    do {
        which++;
        if (self->rank == 1) {
            receive_once(self, wanted, which);
        } else {
            local_ranks_barrier(self);
            wanted->failed = send_twice(self, &shape, which);
            local_ranks_barrier(self);
        }
        failures += wanted->failed;
        local_ranks_barrier(self);
    } while (wanted->failed && which < CALLS_MAX);
    CHECK(failures > 0 && !wanted->failed);
    pass(self, &long_plain, 7);
    CHECK(!local_ranks_logged(self, "does not verify"));
    if (wanted->streams)
        selvage_stream_destroy(self->dev, shape.stream);
}

static void fail_with(const char *settings, failing_case_t wanted)
{
    local_ranks_env(settings);
    run(failing, &wanted, 0, true);
}

/* --- what is under way -------------------------------------------------------------------------------------------- */

static void end_with_error(local_rank_t *self, selvage_request_t *request)
{
    pthread_mutex_lock(&engine_of(self)->lock);
    sv_message_complete(request, sv_error_quiet(SELVAGE_ERR_DEVICE, "a test's"));
    pthread_mutex_unlock(&engine_of(self)->lock);
}

/* An error ends a send while its pieces are copied down: their memory is not another message's before that is over. */
static void ended_while_copying(local_rank_t *self)
{
    message_end_t end;
    pass(self, &plain, 1);
    message_end_open(&end, self, &long_plain);
    if (self->rank == 0) {
        sv_message_engine_t *engine = engine_of(self);
        message_end_send(&end, &long_plain, 1, TAG, 2);
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, delay_async, 50000, engine->streams.out), SELVAGE_SUCCESS);
        while (end.request->staged.next == 0)
            (void)selvage_progress(self->comm);
        end_with_error(self, end.request);
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, stream_query, engine->streams.out), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
    } else {
        message_end_recv(&end, &long_plain, 0, TAG);
        local_ranks_barrier(self);
        end_with_error(self, end.request);
    }
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
    message_end_close(&end);
    for (uint64_t i = 0; i < 3; i++)
        pass(self, &long_plain, 3 + i);
}

/* All that is free, until it is given back. */
static void take_all_desc(sv_message_engine_t *engine, bool take, sv_list_t *mine)
{
    pthread_mutex_lock(&engine->lock);
    for (int bare = 0; bare < 2; bare++) {
        sv_list_t *from = take ? &engine->desc_free[bare] : &mine[bare];
        sv_list_t *to = take ? &mine[bare] : &engine->desc_free[bare];
        if (take)
            sv_list_init(to);
        while (!sv_list_is_empty(from)) {
            sv_list_t *first = from->next;
            sv_list_remove(first);
            sv_list_append(to, first);
        }
    }
    pthread_mutex_unlock(&engine->lock);
}

/* Small messages that their stream holds up are announced, for which there is no memory: they come all the same. */
static void unannounced(local_rank_t *self)
{
    enum { MANY = SV_SHM_SLOTS }; /* all places */
    static uint64_t word, unused[2];
    message_end_t end[MANY];
    sv_list_t desc[2];
    void *stream = NULL;
    if (self->rank == 0)
        word = 0;
    meet(self);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    const sv_await_arg_t arg = {.word = &word, .abort = &unused[0], .late = &unused[1], .epoch = 1,
                                .wait_ns = UINT64_C(20000000000)};
    const message_shape_t held = {.bytes = 300, .on_device = true, .stream = stream};
    if (self->rank == 0)
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        message_end_open(&end[i], self, self->rank ? &plain : &held);
        if (self->rank == 0)
            message_end_send(&end[i], &held, 1, i, (uint64_t)i);
        else
            message_end_recv(&end[i], &plain, 0, i);
    }
    if (self->rank == 0) {
        const _Atomic int64_t *left = &self->comm->fault.call_countdown[SV_FAULT_CALL_DEVICE];
        const uint64_t late_ns = sv_clock_ns() + UINT64_C(8000000000);
        take_all_desc(engine_of(self), true, desc);
        fail_call(self, 1);
        while (atomic_load(left) > -20 && sv_clock_ns() < late_ns)
            (void)selvage_progress(self->comm);
        take_all_desc(engine_of(self), false, desc);
        CHECK(atomic_load(left) <= 0);
        fail_call(self, NEVER);
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], plain.bytes, (uint64_t)i), -1);
        message_end_close(&end[i]);
    }
    selvage_stream_destroy(self->dev, stream);
}

/* A small message that fails after its call has a number: those after it do not wait for it. */
static void numbered(local_rank_t *self)
{
    static uint64_t word, unused[2];
    const message_shape_t other = {.bytes = 300, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_shape_t held = other;
    message_end_t end, next;
    if (self->rank == 0)
        word = 0;
    meet(self);
    message_end_open(&end, self, &held);
    message_end_open(&next, self, &other);
    if (self->rank == 0) {
        const sv_await_arg_t arg = {.word = &word, .abort = &unused[0], .late = &unused[1], .epoch = 1,
                                    .wait_ns = UINT64_C(20000000000)};
        CHECK_STATUS(selvage_stream_create(self->dev, &held.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(SV_DEVICE_CALL(self->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, held.stream),
                     SELVAGE_SUCCESS);
        fail_call(self, NEVER);
        message_end_send(&end, &held, 1, TAG + 1, 1);
        fail_call(self, 1);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
        fail_call(self, NEVER);
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
        message_end_send(&next, &other, 1, TAG, 2);
    } else {
        message_end_recv(&next, &other, 0, TAG);
    }
    CHECK_STATUS(sv_message_wait(&next.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&next, other.bytes, 2), -1);
    message_end_close(&next);
    message_end_close(&end);
    if (self->rank == 0)
        selvage_stream_destroy(self->dev, held.stream);
}

/* An error ends a send after its call: its caller's stream may be gone, and what that has packed is given back. */
static void ended_without_stream(local_rank_t *self)
{
    enum { MANY = 6 }; /* their pieces are more than there are */
    const message_shape_t gaps = {.bytes = LONG_BYTES, .on_device = true, .run = 48, .gap = 16};
    message_shape_t shape = gaps;
    pass(self, &plain, 1);
    for (int i = 0; i < MANY; i++) {
        message_end_t end;
        message_end_open(&end, self, &gaps);
        if (self->rank == 0) {
            CHECK_STATUS(selvage_stream_create(self->dev, &shape.stream), SELVAGE_SUCCESS);
            CHECK_STATUS(SV_DEVICE_CALL(self->dev, delay_async, 1000, shape.stream), SELVAGE_SUCCESS);
            message_end_send(&end, &shape, 1, TAG, 2);
            selvage_stream_destroy(self->dev, shape.stream);
            while (i > 0 && end.request->staged.next == 0)
                (void)selvage_progress(self->comm);
            end_with_error(self, end.request);
            CHECK(!end.request->retired);
            local_ranks_barrier(self);
        } else {
            message_end_recv(&end, &gaps, 0, TAG);
            local_ranks_barrier(self);
            while (end.request->state == SV_REQUEST_POSTED) /* else the next one meets that message */
                (void)selvage_progress(self->comm);
            end_with_error(self, end.request);
        }
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_DEVICE);
        message_end_close(&end);
        local_ranks_barrier(self);
    }
    pass(self, &gaps, 3);
    pass(self, &long_plain, 4);
}

static bool has_retired(sv_message_engine_t *engine)
{
    bool has = false;
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < engine->nrequests; i++)
        has = has || engine->table[i]->retired;
    pthread_mutex_unlock(&engine->lock);
    return has;
}

/* What the engine sets aside for good is no leak: a leak checker finds it here. */
enum { KEPT_MAX = 64 };
extern const void *message_errors_kept[KEPT_MAX];
const void *message_errors_kept[KEPT_MAX];

static void keep(const sv_message_engine_t *engine)
{
    int n = 0;
    for (const sv_ctrl_desc_chunk_t *chunk = engine->desc_chunks; chunk && n < KEPT_MAX; chunk = chunk->next)
        message_errors_kept[n++] = chunk->pinned;
    for (const sv_request_chunk_t *chunk = engine->request_chunks; chunk && n < KEPT_MAX; chunk = chunk->next)
        message_errors_kept[n++] = chunk->lines;
    for (int i = 0; i < 2; i++)
        for (const sv_list_t *end = &engine->pieces.pool[i].free, *it = end->next; it != end && n < KEPT_MAX;
             it = it->next)
            message_errors_kept[n++] = SV_CONTAINER_OF(it, sv_pinned_t, link)->bytes;
}

/* A call has failed, and what it was to send is packed only when the communicator is gone. */
static void packed_afterwards(local_rank_t *self)
{
    enum { OTHERS = 2048 };
    static uint64_t word, unused[2];
    void *others[OTHERS];
    const sv_await_arg_t arg = {.word = &word, .abort = &unused[0], .late = &unused[1], .epoch = 1,
                                .wait_ns = UINT64_C(20000000000)};
    message_shape_t held = {.bytes = LONG_BYTES, .on_device = true, .run = 48, .gap = 16};
    selvage_device_t *dev = NULL;
    message_end_t end;
    pass(self, &(message_shape_t){.bytes = LONG_BYTES, .on_device = true, .run = 48, .gap = 16,
                                  .stream = SELVAGE_MESSAGE_NO_STREAM}, 1); /* its layout and its buffer are there */
    if (self->rank == 1)
        return;
    word = 0;
    CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(dev, &held.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, held.stream), SELVAGE_SUCCESS);
    message_end_open(&end, self, &held);
    for (int which = 1; which < CALLS_MAX && !has_retired(engine_of(self)); which++) {
        fail_call(self, which);
        CHECK_STATUS(message_end_try_send(&end, &held, 1, TAG, 2), SELVAGE_ERR_DEVICE);
    }
    CHECK(has_retired(engine_of(self)));
    fail_call(self, NEVER);
    keep(engine_of(self));
    selvage_comm_destroy(self->comm);
    self->comm = NULL;
    self->dev = dev;
    for (int i = 0; i < OTHERS; i++) { /* what is free by now is another's */
        CHECK_STATUS(selvage_device_malloc(dev, 256, &others[i]), SELVAGE_SUCCESS);
        memset(others[i], 0x3c, 256);
    }
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    message_end_close(&end);
    selvage_stream_destroy(dev, held.stream);
    for (int i = 0; i < OTHERS; i++)
        selvage_device_free(dev, others[i]);
    selvage_device_close(dev);
}

/* Kernels that wait have no more blocks at a time, whatever their streams, than one may have; on one stream they run
   one after the other. */
static void oversubscribed(local_rank_t *self)
{
    enum { MANY = 4 };
    message_end_t end[MANY];
    meet(self);
    for (uint64_t i = 0; i < 3; i++)
        pass_from(self, 2, &plain, 2000 + i);
    sv_message_engine_t *engine = engine_of(self);
    for (int i = 0; i < MANY; i++) {
        message_end_open(&end[i], self, &long_plain);
        if (self->rank != 1)
            continue;
        message_end_recv(&end[i], &long_plain, i < 2 ? 0 : 2, i);
        pthread_mutex_lock(&engine->lock);
        sv_prelaunch_requests(engine, 1, &end[i].request);
        CHECK_EQ(end[i].request->early.launched, i < 2);
        CHECK_EQ(sv_prelaunch_blocks(engine), sv_message_blocks_most(engine));
        pthread_mutex_unlock(&engine->lock);
    }
    local_ranks_barrier(self);
    for (int i = 0; i < MANY; i++) {
        if (self->rank == (i < 2 ? 0 : 2))
            message_end_send(&end[i], &long_plain, 1, i, (uint64_t)i);
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], LONG_BYTES, (uint64_t)i), -1);
        message_end_close(&end[i]);
    }
    CHECK_EQ(sv_prelaunch_blocks(engine), 0);
}

/* --- damage within a node ----------------------------------------------------------------------------------------- */

typedef struct damage {
    bool by_slot; /* else in the shared segment */
    bool stays;
    bool repeats; /* the policy does */
} damage_t;

/* Where the message lies that rank 0 has sent; NULL: not here yet, at most announced. */
static uint8_t *first_byte(sv_message_engine_t *engine, bool by_slot)
{
    (void)sv_message_poll(engine);
    const sv_list_t *it = engine->unexpected.next;
    const sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
    if (it == &engine->unexpected || desc->header->kind != SV_CTRL_EAGER)
        return NULL;
    if (!by_slot)
        return sv_ctrl_payload(desc);
    return desc->devslot->devslot.base +
           desc->devslot_count % SV_DEVSLOTS * (engine->devslot_bytes + 256); /* 256 is its tail */
}

static void receive_damaged(local_rank_t *self, message_end_t *end, const message_shape_t *in)
{
    const damage_t *how = self->arg;
    sv_message_engine_t *engine = engine_of(self);
    uint8_t *byte;
    pthread_mutex_lock(&engine->lock);
    while (!(byte = first_byte(engine, how->by_slot)))
        ;
    pthread_mutex_unlock(&engine->lock);
    *byte ^= 1;
    message_end_recv(end, in, 0, TAG);
    if (in->on_device) { /* its kernel, if anybody has launched it, reads what is there now */
        pthread_mutex_lock(&engine->lock);
        (void)sv_message_poll(engine);
        pthread_mutex_unlock(&engine->lock);
    }
    if (in->on_device)
        CHECK_STATUS(selvage_stream_synchronize(self->dev, engine->streams.kernel), SELVAGE_SUCCESS);
    *byte ^= !how->stays;
}

static void damaging(local_rank_t *self)
{
    const damage_t *how = self->arg;
    message_end_t end;
    const message_shape_t out = {.bytes = 300, .on_device = how->by_slot, .stream = SELVAGE_MESSAGE_NO_STREAM};
    meet(self);
    message_end_open(&end, self, self->rank ? &plain : &out);
    if (self->rank == 0)
        message_end_send(&end, &out, 1, TAG, 9);
    else
        receive_damaged(self, &end, &plain);
    const bool good = self->rank == 0 || (how->repeats && !how->stays);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), good ? SELVAGE_SUCCESS : SELVAGE_ERR_CHECKSUM);
    if (self->rank == 1 && good)
        CHECK_EQ(message_end_wrong(&end, out.bytes, 9), -1);
    message_end_close(&end);
    local_ranks_barrier(self);
    CHECK_EQ(self->rank == 1 && how->repeats, local_ranks_logged(self, "taken once more"));
    const sv_message_counts_t counts = sv_message_stats(self->comm).counts;
    CHECK_EQ(counts.damaged, self->rank * (1 + (how->repeats && how->stays)));
    CHECK_EQ(counts.repeated, self->rank && how->repeats);
    CHECK_EQ(counts.failed, !good);
    CHECK_EQ(counts.mended, self->rank && good);
    for (uint64_t i = 0; i < 6; i++) /* in every slot */
        pass(self, &plain, 20 + i);
}

/* A receive that is given up after its sender was cleared: the sender hears of it, and the buffer stays as it is. */
static void given_up(local_rank_t *self)
{
    message_end_t end;
    const message_shape_t *shape = self->arg;
    for (uint64_t i = 0; i < 3; i++)
        pass(self, shape, 1 + i);
    message_end_open(&end, self, shape);
    if (self->rank == 0) {
        message_end_send(&end, shape, 1, TAG, 7);
        pthread_mutex_lock(&engine_of(self)->lock); /* it sends nothing more for now */
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        message_end_recv(&end, shape, 0, TAG);
        while (end.request->state != SV_REQUEST_MOVING)
            (void)selvage_progress(self->comm);
        (void)sv_error_quiet(SELVAGE_ERR_TIMEOUT, "a test's");
        sv_message_abandon(&end.request, SELVAGE_ERR_TIMEOUT);
        CHECK(end.request == NULL);
        message_end_mark(&end); /* its memory has another use */
    }
    local_ranks_barrier(self);
    if (self->rank == 0) {
        pthread_mutex_unlock(&engine_of(self)->lock);
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
    }
    local_ranks_barrier(self);
    if (self->rank == 1) {
        for (int i = 0; i < 100; i++)
            (void)selvage_progress(self->comm);
        CHECK_EQ(message_end_wrong(&end, 0, 7), -1); /* all of it is as it was marked */
    }
    message_end_close(&end);
    for (uint64_t i = 0; i < 3; i++)
        pass(self, shape, 10 + i);
}

int main(void)
{
    static const message_shape_t gaps = {.bytes = 300, .on_device = true, .run = 24, .gap = 8};
    static const message_shape_t long_gaps = {.bytes = LONG_BYTES, .on_device = true, .run = 48, .gap = 16};
#define FAIL "FAULT=device=1000000000 TIMEOUT_S=10 MESSAGE_EAGER_BYTES=400 "
    fail_with(FAIL, (failing_case_t){.out = plain});
    fail_with(FAIL, (failing_case_t){.out = gaps, .streams = true});
    fail_with(FAIL "ROUTE=staged", (failing_case_t){.out = gaps, .streams = true});
    fail_with(FAIL, (failing_case_t){.out = long_gaps, .streams = true});
    fail_with(FAIL "KERNEL_PEER_MAX_BYTES=0", (failing_case_t){.out = long_plain, .posted = true});
    fail_with(FAIL "KERNEL_PEER_MAX_BYTES=1M", (failing_case_t){.out = long_plain, .posted = true});
    fail_with(FAIL "KERNEL_PEER_MAX_BYTES=1M EARLY_WAIT_US=1000",
              (failing_case_t){.out = long_gaps, .streams = true, .posted = true});
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400");
    run(ended_while_copying, NULL, 1, true);
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 TIMEOUT_S=5");
    run(ended_without_stream, NULL, 1, true);
    local_ranks_env("MESSAGE_EAGER_BYTES=400 TIMEOUT_S=10 FAULT=device=1000000000+");
    run(unannounced, NULL, 0, true);
    local_ranks_env("TIMEOUT_S=10 FAULT=device=1000000000");
    run(numbered, NULL, 0, true);
    run(numbered, NULL, 1, true);
    local_ranks_run(&(local_run_t){.size = 2, .body = packed_afterwards, .log_expected = true, .may_set_aside = true});
    local_ranks_env("EARLY_WAIT_US=100000 SOFT_BLOCKS=8");
    local_ranks_run(&(local_run_t){.size = 3, .body = oversubscribed});
    CHECK_EQ(local_ranks_left(), 0);
    for (unsigned kind = 0; kind < 8; kind++) {
        damage_t how = {.by_slot = kind & 1, .stays = kind & 2, .repeats = kind & 4};
        local_ranks_env(how.repeats ? "MESSAGE_EAGER_BYTES=400" : "MESSAGE_EAGER_BYTES=400 CHECKSUM=report");
        run(damaging, &how, 0, true);
    }
    static const message_shape_t long_host = {.bytes = LONG_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM};
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 TIMEOUT_S=5");
    for (int ranks_per_node = 0; ranks_per_node < 2; ranks_per_node++) {
        run(given_up, (void *)(uintptr_t)&long_plain, ranks_per_node, true);
        run(given_up, (void *)(uintptr_t)&long_host, ranks_per_node, true);
    }
    return check_report("test_message_errors");
}
