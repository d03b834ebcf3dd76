/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of memory that long messages are written into: kept while they are used, not for good when their owner has
 * freed the memory, and not at all where the device cannot tell an allocation from another one at its place. They are
 * closed in waits, and never in a poll. Answers that name no place; and memory of the engine's own, none of which is
 * released while it lives, because that may wait for the device, and of which there may be too little. Ranks are
 * threads; rank 0 sends, rank 1 receives, for mappings into new memory each time.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "message/message_shm.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

enum { BYTES = 100000, ROOM = 96 << 20, TURNS = 6, PAUSE_US = 350000, TYPES = 300, RUNS = 8, SEGMENT_BYTES = 65536 };

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* Those that messages were put through; that of the slots in device memory does not count. */
static unsigned count_mappings(const local_rank_t *self)
{
    const sv_list_t *mappings = &engine_of(self)->memory.mappings.mappings;
    unsigned count = 0;
    for (const sv_list_t *it = mappings->next; it != mappings; it = it->next)
        count += SV_CONTAINER_OF(it, const sv_transfer_mapping_t, link)->remote_base != 0;
    return count;
}

static void end_request(local_rank_t *self, selvage_request_t **request, bool by_polls)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    unsigned turns = 0;
    if (!by_polls)
        status = sv_message_wait(request, NULL);
    while (status == SELVAGE_IN_PROGRESS) {
        (void)selvage_progress(self->comm);
        status = sv_message_test(request, NULL);
        check_wait_turn(&turns);
    }
    CHECK_STATUS(status, SELVAGE_SUCCESS);
}

/* To the end of the memory, or from its beginning. */
static void move_once(local_rank_t *self, uint8_t *memory, int turn, bool by_polls)
{
    sv_type_map_t map = {0};
    selvage_request_t *request = NULL;
    uint8_t *at = memory + (self->rank == 1 ? ROOM - BYTES : 0);
    const sv_message_buffer_t buffer = {at, &map};
    CHECK_STATUS(sv_type_map_add_run(&map, 0, BYTES), SELVAGE_SUCCESS);
    memset(at, self->rank == 0 ? turn + 1 : 0, BYTES);
    if (self->rank == 0)
        CHECK_STATUS(sv_message_isend(self->comm, "test", &buffer, 1, turn, SV_SEND_PLAIN, SELVAGE_MESSAGE_NO_STREAM,
                                      &request), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(sv_message_irecv(self->comm, "test", &buffer, 0, turn, NULL, SELVAGE_MESSAGE_NO_STREAM,
                                      &request), SELVAGE_SUCCESS);
    end_request(self, &request, by_polls);
    if (self->rank == 1)
        CHECK(at[0] == turn + 1 && at[BYTES - 1] == turn + 1);
    sv_type_map_fini(&map);
}

/* Every receive has memory of its own, which is freed afterwards, or at the end if it shall not be used again. */
static void move_and_free(local_rank_t *self, bool at_once, bool by_polls, int pause_us)
{
    void *memory[TURNS] = {NULL};
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK_STATUS(selvage_device_malloc(self->dev, ROOM, &memory[turn]), SELVAGE_SUCCESS);
        move_once(self, memory[turn], turn, by_polls);
        local_ranks_barrier(self);
        if (at_once) {
            selvage_device_free(self->dev, memory[turn]);
            memory[turn] = NULL;
        }
        usleep((unsigned)pause_us);
    }
    for (int turn = 0; turn < TURNS; turn++)
        selvage_device_free(self->dev, memory[turn]);
    local_ranks_barrier(self);
}

/* More than are kept when nobody uses them. On a crowded machine even the last one may be idle for long. */
static void let_go_of_idle(local_rank_t *self)
{
    message_ends_meet(self, 3000);
    const uint64_t before = sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT];
    move_and_free(self, false, false, PAUSE_US);
    if (self->rank == 1)
        CHECK_EQ(sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT] - before, TURNS);
    if (self->rank == 0)
        CHECK(count_mappings(self) < TURNS);
    local_ranks_barrier(self);
}

static uint64_t know_no_number(sv_device_t *dev, const void *ptr)
{
    (void)dev, (void)ptr;
    return 0;
}

/* As on AMD GPUs. */
static void keep_nothing_unnumbered(local_rank_t *self)
{
    sv_device_t *dev = engine_of(self) ? engine_of(self)->dev : self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    sv_device_ops_t without = *ops;
    without.memory_id = know_no_number;
    dev->ops = &without;
    message_ends_meet(self, 3000);
    move_and_free(self, true, false, 0);
    if (self->rank == 0)
        CHECK_EQ(count_mappings(self), 0);
    local_ranks_barrier(self);
    dev->ops = ops;
}

static const sv_device_ops_t *closing_ops;
static _Atomic unsigned nclosed, nleft;

static void count_close(sv_device_t *dev, void *base)
{
    nclosed++;
    closing_ops->close_memory(dev, base);
}

/* Closing may wait for all kernels. So what polls leave to be closed, the next wait closes. */
static void close_in_waits(local_rank_t *self)
{
    static _Thread_local sv_device_ops_t counting;
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    void *memory;
    if (self->rank == 0)
        closing_ops = ops;
    local_ranks_barrier(self);
    counting = *ops;
    counting.memory_id = know_no_number;
    counting.close_memory = count_close;
    dev->ops = &counting;
    message_ends_meet(self, 3000);
    local_ranks_barrier(self);
    nclosed = 0;
    local_ranks_barrier(self);
    move_and_free(self, false, true, 0);
    nleft += count_mappings(self); /* by put here, by get there */
    local_ranks_barrier(self);
    CHECK(nclosed == 0 && nleft == TURNS);
    CHECK_STATUS(selvage_device_malloc(self->dev, ROOM, &memory), SELVAGE_SUCCESS);
    move_once(self, memory, TURNS, false);
    local_ranks_barrier(self);
    CHECK_EQ(nclosed, TURNS + 1);
    CHECK_EQ(count_mappings(self), 0);
    local_ranks_barrier(self);
    selvage_device_free(self->dev, memory);
    dev->ops = ops;
}

static _Atomic int open_fails; /* with this status */

static selvage_status_t fail_to_open(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                     uint64_t *bytes_out)
{
    if (open_fails)
        return sv_error_quiet((selvage_status_t)open_fails, "not now");
    return closing_ops->open_memory(dev, handle, base_out, bytes_out);
}

/* Where mapping fails, a message goes another way. Those after it do, too, only if that is for good. */
static void map_another_time(local_rank_t *self)
{
    static _Thread_local sv_device_ops_t failing;
    const selvage_status_t status[] = {SELVAGE_ERR_MEMORY, SELVAGE_ERR_DEVICE};
    const bool direct[] = {true, false};
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    void *memory[2];
    message_ends_meet(self, 3000);
    if (self->rank == 0)
        closing_ops = ops;
    local_ranks_barrier(self);
    failing = *ops;
    failing.open_memory = fail_to_open;
    dev->ops = &failing;
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_device_malloc(self->dev, ROOM, &memory[i]), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++) {
        const uint64_t before = sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT];
        open_fails = (int)status[i];
        local_ranks_barrier(self);
        move_once(self, memory[i], 0, false);
        CHECK_EQ(sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT], before);
        local_ranks_barrier(self);
        open_fails = 0;
        local_ranks_barrier(self);
        move_once(self, memory[i], 1, false);
        CHECK_EQ(sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT] - before, self->rank && direct[i]);
        local_ranks_barrier(self);
    }
    for (int i = 0; i < 2; i++)
        selvage_device_free(self->dev, memory[i]);
    dev->ops = ops;
}

/* An answer that no receiver gives, or whose words another rank's memory has spoiled: a way, or a place for it, that
   there is not. */
static void cleared_wrongly(local_rank_t *self)
{
    const sv_ctrl_header_t wrong[] = {{.kind = SV_CTRL_CTS, .value = {77}},
                                      {.kind = SV_CTRL_CTS, .value = {SV_MESSAGE_PUT, SV_SHM_PUT_SLOTS, 1}},
                                      {.kind = SV_CTRL_CTS, .value = {SV_MESSAGE_PUT, UINT32_MAX, 1}},
                                      {.kind = SV_CTRL_CTS, .value = {SV_MESSAGE_PUT, 0, 0}}};
    const message_shape_t shape = {.bytes = BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        message_ends_meet(self, 3000);
        message_end_open(&end, self, &shape);
        if (self->rank == 0) {
            message_end_send(&end, &shape, 1, 5, i);
            while (end.request->state != SV_REQUEST_RTS_SENT)
                sv_comm_poll(self->comm);
            pthread_mutex_lock(&engine_of(self)->lock);
            sv_message_send_cleared(end.request, &wrong[i]);
            pthread_mutex_unlock(&engine_of(self)->lock);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_MISMATCH);
            CHECK(strstr(selvage_error_detail(), "by a way that there is not") != NULL);
        }
        local_ranks_barrier(self);
        if (self->rank == 1) { /* what was announced must be received, and never comes */
            message_end_recv(&end, &shape, 0, 5);
            CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
            CHECK(end.request == NULL); /* it has heard that its sender has given up */
        }
        local_ranks_barrier(self);
        message_end_close(&end);
    }
}

static const sv_device_ops_t *real_ops;
static _Atomic int nreleased;

static void count_free(sv_device_t *dev, void *ptr)
{
    nreleased++;
    real_ops->free(dev, ptr);
}

static void count_host_free(sv_device_t *dev, void *ptr)
{
    nreleased++;
    real_ops->host_free(dev, ptr);
}

static void count_stream_destroy(sv_device_t *dev, void *stream)
{
    nreleased++;
    real_ops->stream_destroy(dev, stream);
}

/* Runs of a byte, with gaps that no other of these types has. */
static void move_type(local_rank_t *self, uint8_t *memory, int type)
{
    sv_type_map_t map = {0};
    selvage_request_t *request = NULL;
    const sv_message_buffer_t buffer = {memory, &map};
    for (int run = 0; run < RUNS; run++)
        CHECK_STATUS(sv_type_map_add_run(&map, run * (2 + type), 1), SELVAGE_SUCCESS);
    for (int run = 0; run < RUNS; run++)
        memory[run * (2 + type)] = (uint8_t)(self->rank == 0 ? type + run : ~(type + run));
    if (self->rank == 0)
        CHECK_STATUS(sv_message_isend(self->comm, "test", &buffer, 1, type, SV_SEND_PLAIN, SELVAGE_MESSAGE_NO_STREAM,
                                      &request), SELVAGE_SUCCESS);
    else
        CHECK_STATUS(sv_message_irecv(self->comm, "test", &buffer, 0, type, NULL, SELVAGE_MESSAGE_NO_STREAM,
                                      &request), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_wait(&request, NULL), SELVAGE_SUCCESS);
    for (int run = 0; self->rank == 1 && run < RUNS; run++)
        CHECK_EQ(memory[run * (2 + type)], (uint8_t)(type + run));
    sv_type_map_fini(&map);
}

/* The first turn through more types than are remembered fills what the engine keeps. */
static void release_nothing(local_rank_t *self)
{
    static _Thread_local sv_device_ops_t counting;
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    void *memory = NULL;
    CHECK_STATUS(selvage_device_malloc(self->dev, RUNS * (2 + TYPES), &memory), SELVAGE_SUCCESS);
    if (self->rank == 0)
        real_ops = ops;
    local_ranks_barrier(self);
    counting = *ops;
    counting.free = count_free;
    counting.host_free = count_host_free;
    counting.stream_destroy = count_stream_destroy;
    for (int turn = 0; turn < 2; turn++) {
        for (int type = 0; type < TYPES; type++)
            move_type(self, memory, type);
        local_ranks_barrier(self);
        dev->ops = &counting;
        local_ranks_barrier(self);
    }
    CHECK_EQ(nreleased, 0);
    local_ranks_barrier(self);
    dev->ops = ops;
    selvage_device_free(self->dev, memory);
}

/* --- pinned memory that runs out ---------------------------------------------------------------------------------- */

static _Atomic int nallowed; /* staging buffers that rank 1 may have yet */

static selvage_status_t allocate_few(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    if (bytes == SEGMENT_BYTES && nallowed-- <= 0)
        return sv_error(SELVAGE_ERR_MEMORY, "no more pinned memory");
    return real_ops->host_malloc(dev, bytes, ptr_out);
}

static void post_staged(local_rank_t *self, message_end_t *end, const message_shape_t *shape, int tag)
{
    message_end_open(end, self, shape);
    if (self->rank == 0)
        message_end_send(end, shape, 1, tag, (uint64_t)tag);
    else
        message_end_recv(end, shape, 0, tag);
}

/* Without any staging buffer a receive fails, and says why. With a few, receives wait for each other's; as soon as
   there is memory again, all is as before. */
static void run_out_of_pinned(local_rank_t *self)
{
    enum { MANY = 5, FEW = 3 };
    static _Thread_local sv_device_ops_t failing;
    const message_shape_t shape = {.bytes = 5 * SEGMENT_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *ops = dev->ops;
    message_end_t end[MANY];
    if (self->rank == 1) {
        real_ops = ops;
        failing = *ops;
        failing.host_malloc = allocate_few;
        dev->ops = &failing;
    }
    nallowed = 0;
    local_ranks_barrier(self);
    post_staged(self, &end[0], &shape, 0);
    CHECK_STATUS(sv_message_wait(&end[0].request, NULL), self->rank ? SELVAGE_ERR_MEMORY : SELVAGE_ERR_TIMEOUT);
    CHECK(self->rank == 0 || strstr(selvage_error_detail(), "no more pinned memory") != NULL);
    message_end_close(&end[0]);
    for (int left = FEW; left <= MANY * FEW; left += MANY * FEW - FEW) {
        nallowed = left;
        local_ranks_barrier(self);
        for (int i = 0; i < MANY; i++)
            post_staged(self, &end[i], &shape, i);
        for (int i = 0; i < MANY; i++) {
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
            CHECK(self->rank == 0 || message_end_wrong(&end[i], shape.bytes, (uint64_t)i) == -1);
            message_end_close(&end[i]);
        }
        local_ranks_barrier(self);
    }
    CHECK_EQ(local_ranks_logged(self, "no more than 3 staging buffers"), self->rank == 1);
    dev->ops = ops;
}

int main(void)
{
    local_ranks_env("MESSAGE_EAGER_BYTES=32");
    local_ranks_run(&(local_run_t){.size = 2, .body = let_go_of_idle});
    local_ranks_run(&(local_run_t){.size = 2, .body = keep_nothing_unnumbered});
    local_ranks_run(&(local_run_t){.size = 2, .body = close_in_waits});
    local_ranks_run(&(local_run_t){.size = 2, .body = map_another_time});
    local_ranks_run(&(local_run_t){.size = 2, .body = release_nothing});
    CHECK_EQ(local_ranks_left(), 0);
    local_ranks_env("MESSAGE_EAGER_BYTES=400 TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = cleared_wrongly, .log_expected = true});
    local_ranks_env("MESSAGE_EAGER_BYTES=400 ROUTE=staged SEGMENT_BYTES=65536 TIMEOUT_S=5 LOG=info");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_out_of_pinned, .log_expected = true});
    return check_report("test_message_mappings");
}
