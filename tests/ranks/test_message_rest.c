/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that the receiver copies out of the sender's memory, most of each by a copy engine and the rest by the
 * kernel that verifies it. Which messages those are, and that damage is found and mended wherever it is. Ranks are
 * threads, and a device call of the receiver's can change the sender's memory for as long as it takes.
 */
#include <stdatomic.h>

#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"
#include "message/message_engine.h"

enum { BYTES = 300007, LANDED = 262144, OTHERS = SV_MESSAGE_FEW + 4, KEY = 11 };

/* How a message is sent and received, and where it is damaged. */
typedef struct rest_case {
    bool buffered, on_host;  /* the send; the receiver's memory */
    long damaged;            /* which byte; -1: none */
    bool stays;              /* it is damaged each time that it is read */
    bool one_of_many;        /* others are open there */
    bool expects_rest;       /* the kernel is to bring some of it */
} rest_case_t;

/* The device calls of the receiver. */
typedef struct watched {
    sv_device_ops_t ops;     /* first: found by the device's table */
    const sv_device_ops_t *inner;
    uint8_t *sent;           /* the memory of the sender */
    long damaged;
    bool stays;
    atomic_int rests;        /* launches that brought the rest */
    atomic_size_t landed;    /* bytes that the copy engine brought */
} watched_t;

static watched_t watched;
static message_end_t *sender_end;

static sv_message_engine_t *engine_of_rest(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* Changes the byte that is to be damaged if this call reads it. Returns whether it has. */
static bool damage_begins(size_t begin, size_t end)
{
    const bool reads = watched.damaged >= (long)begin && watched.damaged < (long)end;
    if (reads)
        watched.sent[watched.damaged] ^= 0x20;
    return reads;
}

static void damage_ends(sv_device_t *dev, void *stream)
{
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    watched.sent[watched.damaged] ^= 0x20;
    if (!watched.stays)
        watched.damaged = -1;
}

static selvage_status_t watch_copy(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                   void *stream)
{
    const bool gets = src == watched.sent, damages = gets && damage_begins(0, bytes);
    if (gets)
        atomic_store(&watched.landed, bytes);
    const selvage_status_t status = watched.inner->copy_async(dev, dst, src, bytes, kind, stream);
    if (damages)
        damage_ends(dev, stream);
    return status;
}

static selvage_status_t watch_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                     unsigned blocks, void *stream)
{
    const sv_rest_arg_t *rest = kernel == &sv_kernel_rest ? arg : NULL;
    const bool damages = rest && damage_begins(rest->landed_bytes, rest->pass.bytes);
    if (rest) {
        CHECK_EQ(rest->landed_bytes, atomic_load(&watched.landed));
        CHECK(rest->landed_blocks > 0 && rest->landed_blocks < blocks);
        CHECK(rest->pass.src == watched.sent);
        atomic_fetch_add(&watched.rests, 1);
    }
    const selvage_status_t status = watched.inner->launch(dev, kernel, arg, arg_bytes, blocks, stream);
    if (damages)
        damage_ends(dev, stream);
    return status;
}

static void watch_begins(local_rank_t *self, const rest_case_t *given)
{
    sv_device_t *dev = engine_of_rest(self)->dev;
    watched.inner = dev->ops;
    watched.ops = *dev->ops;
    watched.ops.copy_async = watch_copy;
    watched.ops.launch = watch_launch;
    watched.damaged = given->damaged;
    watched.stays = given->stays;
    watched.sent = sender_end->buf;
    atomic_store(&watched.rests, 0);
    atomic_store(&watched.landed, 0);
    dev->ops = &watched.ops;
}

static void check_outcome(local_rank_t *self, const rest_case_t *given, message_end_t *end,
                          const sv_message_stats_t *before)
{
    const bool fails = given->damaged >= 0 && given->stays, damaged = given->damaged >= 0;
    CHECK_STATUS(sv_message_wait(&end->request, NULL), fails ? SELVAGE_ERR_CHECKSUM : SELVAGE_SUCCESS);
    engine_of_rest(self)->dev->ops = watched.inner;
    const sv_message_stats_t stats = sv_message_stats(self->comm);
    if (!fails)
        CHECK_EQ(message_end_wrong(end, BYTES, KEY), -1);
    CHECK_EQ(stats.arrived.fetched - before->arrived.fetched, 1);
    CHECK_EQ(stats.counts.damaged - before->counts.damaged, damaged);
    CHECK_EQ(stats.counts.mended - before->counts.mended, damaged && !fails);
    CHECK_EQ(atomic_load(&watched.rests) > 0, given->expects_rest);
}

/* Receives that nobody sends anything to. */
static void post_others(local_rank_t *self, message_end_t *others, bool posts)
{
    for (int i = 0; i < OTHERS; i++) {
        const message_shape_t brief = {.bytes = 64, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
        if (posts) {
            message_end_open(&others[i], self, &brief);
            message_end_recv(&others[i], &brief, 0, OTHERS + i);
            continue;
        }
        sv_message_cancel(others[i].request);
        CHECK_STATUS(sv_message_wait(&others[i].request, NULL), SELVAGE_SUCCESS);
        message_end_close(&others[i]);
    }
}

static void receive_with_rest(local_rank_t *self, const message_shape_t *shape, message_end_t *end)
{
    const rest_case_t *given = self->arg;
    message_end_t others[OTHERS];
    if (given->one_of_many)
        post_others(self, others, true);
    const sv_message_stats_t before = sv_message_stats(self->comm);
    watch_begins(self, given);
    message_end_recv(end, shape, 0, 3);
    check_outcome(self, given, end, &before);
    if (given->one_of_many)
        post_others(self, others, false);
}

static void get_with_rest(local_rank_t *self)
{
    const rest_case_t *given = self->arg;
    message_shape_t shape = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_ends_meet(self, 100);
    engine_of_rest(self)->lent_bytes = engine_of_rest(self)->lent_often_bytes;
    /* What is moved is read elsewhere, also by the sender while its memory is changed here. */
    engine_of_rest(self)->lent_move_ns = engine_of_rest(self)->lent_stall_ns = (uint64_t)3600 * 1000000000;
    shape.on_device = self->rank == 0 || !given->on_host;
    message_end_open(&end, self, &shape);
    if (self->rank == 0) {
        sender_end = &end;
        if (given->buffered)
            CHECK_STATUS(message_end_ibsend(&end, &shape, 1, 3, KEY), SELVAGE_SUCCESS);
        else
            message_end_send(&end, &shape, 1, 3, KEY);
        pthread_mutex_lock(&engine_of_rest(self)->lock);
        CHECK(sv_message_drain(engine_of_rest(self))); /* its digest is that of the bytes as they are now */
        pthread_mutex_unlock(&engine_of_rest(self)->lock);
    }
    local_ranks_barrier(self);
    if (self->rank == 1)
        receive_with_rest(self, &shape, &end);
    if (given->buffered) /* else it would be moved after a while */
        local_ranks_barrier(self);
    if (self->rank == 0) {
        const bool fails = given->damaged >= 0 && given->stays;
        CHECK_STATUS(sv_message_wait(&end.request, NULL), fails ? SELVAGE_ERR_CHECKSUM : SELVAGE_SUCCESS);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
}

static void run_rest(const char *settings, rest_case_t given)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = get_with_rest, .arg = &given, .log_expected = true});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
#define USUAL "MESSAGE_EAGER_BYTES=64 SOFT_BLOCKS=6"
    /* 1. Who has a rest: 262,144 bytes are the engine's. */
    run_rest(USUAL, (rest_case_t){.damaged = -1, .expects_rest = true});
    run_rest(USUAL, (rest_case_t){.damaged = -1, .buffered = true, .expects_rest = true});
    run_rest(USUAL, (rest_case_t){.damaged = -1, .buffered = true, .on_host = true, .expects_rest = true});
    run_rest(USUAL, (rest_case_t){.damaged = -1, .one_of_many = true});
    run_rest(USUAL " CHECKSUM=off", (rest_case_t){.damaged = -1});
    run_rest(USUAL " KERNEL_PEER_MAX_BYTES=0", (rest_case_t){.damaged = -1});
    run_rest("MESSAGE_EAGER_BYTES=64 SOFT_BLOCKS=1", (rest_case_t){.damaged = -1});
    /* 2. Damage in what the engine brings, at both sides of the cut, and in the rest. */
    const long damaged[] = {0, BYTES / 2, LANDED - 1, LANDED, (LANDED + BYTES) / 2, BYTES - 1};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        for (int way = 0; way < 3; way++) {
            rest_case_t given = {.damaged = damaged[i], .buffered = way > 0, .on_host = way > 1, .expects_rest = true};
            run_rest(USUAL, given);
            given.stays = true;
            run_rest(USUAL " CHECKSUM=report", given);
        }
    return check_report("test_message_rest");
}
