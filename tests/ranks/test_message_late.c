/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages whose parts come late, twice or never, and requests that end with an error meanwhile: nothing puts a
 * deadline off, one loss costs little, what is left under way hurts no other message, and no buffer is written to after
 * the end of its receive. Ranks are threads; what goes by the wire goes through hooks.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

enum { TAG = 3, PIECE_BYTES = 4096, LONG_BYTES = 4000000, HELD_MAX = 32 };
#define PIECES_ENV "SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 "

/* --- a wire with hooks -------------------------------------------------------------------------------------------- */

typedef struct held_piece {
    uint8_t bytes[PIECE_BYTES];
    size_t count;
    int peer, tag;
    uint64_t due_ns;
} held_piece_t;

typedef struct hooked_wire {
    sv_wire_t base; /* first */
    sv_wire_t *inner;
    atomic_bool mute, fails;
    uint64_t headers, drop_letter;   /* that went; which of them does not */
    uint64_t pieces, double_piece;   /* likewise; which of them goes twice */
    uint64_t late_ns;                /* pieces go so much later */
    bool holds;                      /* pieces go when they are let go of */
    held_piece_t held[HELD_MAX];
    int nheld;
    sv_wire_request_t *stuck;        /* this one is not complete */
    bool keeps;                      /* receives are not taken back */
} hooked_wire_t;

static hooked_wire_t wire_of[3];

static void send_copy(hooked_wire_t *wire, const void *buf, size_t bytes, int peer, int tag)
{
    sv_wire_request_t request = {{0}};
    CHECK_STATUS(sv_wire_send(wire->inner, SV_WIRE_MESSAGE, buf, bytes, peer, tag, &request), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wire->inner, &request, NULL), SELVAGE_SUCCESS);
}

static void let_pieces_go(hooked_wire_t *wire)
{
    const uint64_t now_ns = wire->nheld ? sv_clock_ns() : 0;
    int left = 0;
    for (int i = 0; i < wire->nheld; i++) {
        held_piece_t *piece = &wire->held[i];
        if (wire->holds || now_ns < piece->due_ns)
            memmove(&wire->held[left++], piece, sizeof *piece);
        else
            send_copy(wire, piece->bytes, piece->count, piece->peer, piece->tag);
    }
    wire->nheld = left;
}

static selvage_status_t hooked_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                    int tag, sv_wire_request_t *request_out)
{
    hooked_wire_t *wire = (hooked_wire_t *)base;
    const bool is_letter = channel == SV_WIRE_MESSAGE && tag == 0, is_piece = channel == SV_WIRE_MESSAGE && tag > 0;
    *request_out = (sv_wire_request_t){{0}};
    if ((is_letter || is_piece) && wire->mute)
        return SELVAGE_SUCCESS;
    if (is_letter && ++wire->headers == wire->drop_letter)
        return SELVAGE_SUCCESS;
    if (is_piece && ++wire->pieces == wire->double_piece)
        send_copy(wire, buf, bytes, peer, tag);
    if (is_piece && (wire->late_ns || wire->holds) && wire->nheld < HELD_MAX) {
        held_piece_t *piece = &wire->held[wire->nheld++];
        *piece = (held_piece_t){.count = bytes, .peer = peer, .tag = tag, .due_ns = sv_clock_ns() + wire->late_ns};
        memcpy(piece->bytes, buf, bytes);
        return SELVAGE_SUCCESS;
    }
    return sv_wire_send(wire->inner, channel, buf, bytes, peer, tag, request_out);
}

static selvage_status_t hooked_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                    int tag, sv_wire_request_t *request_out)
{
    return sv_wire_recv(((hooked_wire_t *)base)->inner, channel, buf, capacity, peer, tag, request_out);
}

static selvage_status_t hooked_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    hooked_wire_t *wire = (hooked_wire_t *)base;
    let_pieces_go(wire);
    if (wire->fails)
        return sv_error(SELVAGE_ERR_MPI, "the wire of rank %d fails", base->rank);
    return request == wire->stuck ? SELVAGE_IN_PROGRESS : sv_wire_test(wire->inner, request, bytes_out);
}

static selvage_status_t hooked_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    hooked_wire_t *wire = (hooked_wire_t *)base;
    return wire->keeps ? SELVAGE_IN_PROGRESS : sv_wire_cancel(wire->inner, request);
}

static selvage_status_t hooked_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    return sv_wire_control_send(((hooked_wire_t *)base)->inner, peer, message);
}

static selvage_status_t hooked_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    return sv_wire_control_poll(((hooked_wire_t *)base)->inner, source_out, message_out);
}

static void hooked_close(sv_wire_t *base)
{
    sv_wire_t *inner = ((hooked_wire_t *)base)->inner;
    inner->failed |= base->failed;
    inner->ops->close(inner);
}

static const sv_wire_ops_t hooked_ops = {.abi = SV_WIRE_ABI, .name = "hooked", .close = hooked_close,
                                         .send = hooked_send, .recv = hooked_recv, .test = hooked_test,
                                         .cancel = hooked_cancel, .control_send = hooked_control_send,
                                         .control_poll = hooked_control_poll};

/* Before the first message. */
static hooked_wire_t *hook_wire(local_rank_t *self)
{
    hooked_wire_t *wire = &wire_of[self->rank];
    memset(wire, 0, sizeof *wire);
    wire->base = *self->comm->wire;
    wire->inner = self->comm->wire;
    wire->base.ops = &hooked_ops;
    self->comm->wire = &wire->base;
    return wire;
}

static sv_message_engine_t *engine_of(const local_rank_t *self)
{
    return atomic_load(&self->comm->messages);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void begin_message(local_rank_t *self, message_end_t *end, const message_shape_t *shape, int tag, uint64_t key)
{
    message_end_open(end, self, shape);
    if (self->rank == 0)
        message_end_send(end, shape, 1, tag, key);
    else
        message_end_recv(end, shape, 0, tag);
}

static void poll_for_ms(message_end_t *end, unsigned ms)
{
    const uint64_t end_ns = sv_clock_ns() + UINT64_C(1000000) * ms;
    while (end->request && sv_clock_ns() < end_ns) {
        if (sv_message_test(&end->request, NULL) != SELVAGE_IN_PROGRESS)
            return;
        usleep(100);
    }
}

static void give_up_message(message_end_t *end)
{
    if (end->request)
        sv_message_abandon(&end->request, sv_error(SELVAGE_ERR_TIMEOUT, "given up"));
}

static void pass_message(local_rank_t *self, const message_shape_t *shape, int tag, uint64_t key)
{
    message_end_t end;
    begin_message(self, &end, shape, tag, key);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&end, shape->bytes, key), -1);
    message_end_close(&end);
}

/* A message after others, whose sender's stream is late; the stream is the caller's. */
static void *begin_late_message(local_rank_t *self, message_end_t *end, size_t bytes, unsigned delay_us)
{
    message_shape_t shape = {.bytes = bytes, .stream = SELVAGE_MESSAGE_NO_STREAM, .on_device = true};
    void *stream = NULL;
    for (uint64_t i = 0; i < 3; i++)
        pass_message(self, &shape, TAG, i);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        shape.stream = stream;
        shape.delay_us = delay_us;
    }
    begin_message(self, end, &shape, TAG, 9);
    return stream;
}

/* --- late, twice or never ----------------------------------------------------------------------------------------- */

/* Control messages that are sent again to a rank that does not answer move nothing. */
static void repeats(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 300, .stream = SELVAGE_MESSAGE_NO_STREAM};
    hooked_wire_t *wire = hook_wire(self);
    message_end_t end;
    wire->mute = true;
    message_end_open(&end, self, &shape);
    if (self->rank == 0) {
        message_end_issend(&end, &shape, 1, TAG, 1);
        poll_for_ms(&end, 20);
        const uint64_t moved_ns = engine_of(self)->moved_ns;
        poll_for_ms(&end, 400);
        CHECK(sv_message_stats(self->comm).resent >= 3);
        CHECK_EQ(engine_of(self)->moved_ns, moved_ns);
        give_up_message(&end);
    }
    local_ranks_barrier(self);
    message_end_close(&end);
    wire->mute = false;
}

/* One control message of a burst is lost, which is longer than what may come before one that was sent earlier. */
static void burst(local_rank_t *self)
{
    enum { COUNT = 3000, BYTES = 64, LOST = 100 };
    hooked_wire_t *wire = hook_wire(self);
    selvage_request_t **request = calloc(COUNT, sizeof *request);
    uint8_t *bytes = calloc(COUNT, BYTES);
    const sv_type_piece_t piece = {.run_bytes = BYTES};
    sv_type_map_t map = {.pieces = (sv_type_piece_t *)(uintptr_t)&piece, .npieces = 1, .pieces_room = 1,
                         .bytes = BYTES, .high = BYTES};
    wire->drop_letter = self->rank == 0 ? LOST : 0;
    for (int i = 0; i < COUNT; i++) {
        const sv_message_buffer_t buffer = {bytes + (size_t)BYTES * (size_t)i, &map};
        bytes[BYTES * i] = self->rank == 0 ? (uint8_t)i : 0;
        if (self->rank == 0)
            CHECK_STATUS(sv_message_isend(self->comm, "isend", &buffer, 1, TAG, SV_SEND_SYNCHRONOUS,
                                          SELVAGE_MESSAGE_NO_STREAM, &request[i]), SELVAGE_SUCCESS);
        else
            CHECK_STATUS(sv_message_irecv(self->comm, "irecv", &buffer, 0, TAG, NULL, SELVAGE_MESSAGE_NO_STREAM,
                                          &request[i]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(sv_message_waitall(COUNT, request, NULL), SELVAGE_SUCCESS);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(bytes[BYTES * i], (uint8_t)i);
    if (self->rank == 0)
        CHECK(sv_message_stats(self->comm).resent > 0 && sv_message_stats(self->comm).resent < COUNT / 10);
    free(bytes);
    free(request);
}

/* Those that are listed as kept are all that count as such, in the end. */
static bool await_same_count(local_rank_t *self, const sv_message_peer_t *peer, uint32_t limit)
{
    for (int turn = 0; turn < 10000; turn++) {
        uint32_t listed = 0;
        pthread_mutex_lock(&engine_of(self)->lock);
        (void)sv_message_poll(engine_of(self));
        pthread_mutex_unlock(&engine_of(self)->lock);
        for (const sv_list_t *it = peer->retained.next; it != &peer->retained && listed < limit; it = it->next)
            listed++;
        if (listed == peer->neager)
            return true;
        sched_yield();
    }
    return false;
}

/* Messages without bytes that wait until the receiver has room for their control messages. */
static void held_empty(local_rank_t *self)
{
    enum { LONG = 1200, EMPTY = 200, COUNT = LONG + EMPTY };
    selvage_request_t **request = calloc(COUNT, sizeof *request);
    uint8_t *bytes = calloc(COUNT, 1);
    const sv_type_piece_t piece = {.run_bytes = 1};
    sv_type_map_t map[2] = {{.pieces = (sv_type_piece_t *)(uintptr_t)&piece, .npieces = 1, .pieces_room = 1,
                             .bytes = 1, .high = 1}, {0}};
    hook_wire(self);
    for (int i = 0; self->rank == 0 && i < COUNT; i++) {
        const sv_message_buffer_t buffer = {bytes + i, &map[i >= LONG]};
        CHECK_STATUS(sv_message_isend(self->comm, "isend", &buffer, 1, TAG,
                                      i < LONG ? SV_SEND_SYNCHRONOUS : SV_SEND_PLAIN, SELVAGE_MESSAGE_NO_STREAM,
                                      &request[i]), SELVAGE_SUCCESS);
    }
    local_ranks_barrier(self);
    for (int i = 0; self->rank == 1 && i < COUNT; i++) {
        const sv_message_buffer_t buffer = {bytes + i, &map[i >= LONG]};
        CHECK_STATUS(sv_message_irecv(self->comm, "irecv", &buffer, 0, TAG, NULL, SELVAGE_MESSAGE_NO_STREAM,
                                      &request[i]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(sv_message_waitall(COUNT, request, NULL), SELVAGE_SUCCESS);
    for (int i = 0; self->rank == 0 && i < SV_MESSAGE_PEERS; i++)
        for (const sv_message_peer_t *peer = engine_of(self)->peers[i]; peer; peer = peer->next)
            CHECK(await_same_count(self, peer, COUNT));
    free(bytes);
    free(request);
}

/* What comes twice damages one message, and none of those after it. */
static void doubled(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 3 * PIECE_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM, .on_device = true};
    hook_wire(self)->double_piece = 5;
    for (uint64_t i = 0; i < 50; i++)
        pass_message(self, &shape, TAG, i);
    CHECK(sv_message_stats(self->comm).counts.damaged <= 1);
}

/* Pieces that are only late use up no attempt. */
static void late_pieces(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 2 * PIECE_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM};
    hook_wire(self)->late_ns = 500000000;
    pass_message(self, &shape, TAG, 7);
}

/* The oldest receive of control messages stands still, in the middle of what a rank that computes has begun to send. */
static void stuck_letter(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 100, .stream = SELVAGE_MESSAGE_NO_STREAM};
    hooked_wire_t *wire = hook_wire(self);
    message_end_t end, stuck;
    message_end_open(&end, self, &shape);
    message_end_open(&stuck, self, &shape);
    if (self->rank == 1) {
        message_end_recv(&stuck, &shape, 2, TAG);
        message_end_recv(&end, &shape, 0, TAG);
        poll_for_ms(&end, 1);
        wire->stuck = &engine_of(self)->ring.desc[engine_of(self)->ring.head]->request;
    }
    local_ranks_barrier(self);
    if (self->rank == 2)
        message_end_send(&stuck, &shape, 1, TAG, 1);
    local_ranks_barrier(self);
    if (self->rank == 0)
        message_end_send(&end, &shape, 1, TAG, 2);
    if (self->rank < 2)
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    wire->stuck = NULL;
    if (self->rank > 0)
        CHECK_STATUS(sv_message_wait(&stuck.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end);
    message_end_close(&stuck);
}

/* --- requests that end with an error ------------------------------------------------------------------------------ */

/* A receive that is cleared and whose communicator fails: its sender, whose stream is late, does not begin to write. */
static void failing(local_rank_t *self)
{
    hooked_wire_t *wire = hook_wire(self);
    message_end_t end;
    void *stream = begin_late_message(self, &end, LONG_BYTES, 600000);
    if (self->rank == 1) {
        while (end.request->state != SV_REQUEST_MOVING)
            sv_comm_poll(self->comm);
        CHECK_EQ(end.request->route, SV_MESSAGE_PUT);
        wire->fails = true;
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_MPI);
        memset(end.buf, 0xee, LONG_BYTES);
    } else {
        poll_for_ms(&end, 1500);
        give_up_message(&end);
    }
    local_ranks_barrier(self);
    size_t kept = 0;
    while (self->rank == 1 && kept < LONG_BYTES && ((const uint8_t *)end.buf)[kept] == 0xee)
        kept++;
    CHECK_EQ(kept, self->rank == 1 ? LONG_BYTES : 0); /* says where it was written to */
    wire->base.failed = true;
    message_end_close(&end);
    selvage_stream_destroy(self->dev, stream);
}

/* More messages that both ends gave up than a pair has put slots: those after them go from device to device still. */
static void given_up_twice(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM, .on_device = true};
    enum { GIVEN_UP = 33, GOOD = 3 };
    hook_wire(self);
    for (uint64_t i = 0; i < GOOD; i++)
        pass_message(self, &shape, TAG, i);
    for (int i = 0; i < GIVEN_UP; i++) {
        message_end_t end;
        message_end_open(&end, self, &shape);
        if (self->rank == 0) {
            message_end_send(&end, &shape, 1, TAG, 1);
            poll_for_ms(&end, 1);
            give_up_message(&end);
        }
        local_ranks_barrier(self);
        if (self->rank == 1) {
            message_end_recv(&end, &shape, 0, TAG);
            poll_for_ms(&end, 5);
            give_up_message(&end);
        }
        local_ranks_barrier(self);
        message_end_close(&end);
    }
    const uint64_t direct = sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT];
    for (uint64_t i = 0; i < GOOD; i++)
        pass_message(self, &shape, TAG, i);
    if (self->rank == 1)
        CHECK_EQ(sv_message_stats(self->comm).arrived.by[SV_WAY_DIRECT], direct + GOOD);
}

#ifndef SV_SANITIZES_ADDRESS /* what is set aside looks like a leak */
/* Pinned memory that the wire may still write to is no other message's; without checksums nobody would find it. */
static void not_taken_back(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 3 * PIECE_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM, .on_device = true};
    static _Atomic int is_held;
    hooked_wire_t *wire = hook_wire(self);
    message_end_t end, next;
    wire->holds = self->rank == 0;
    begin_message(self, &end, &shape, TAG, 1);
    for (int i = 0; i < 200 && !is_held; i++, is_held |= wire->nheld > 0)
        poll_for_ms(&end, 100);
    wire->keeps = self->rank == 1;
    if (self->rank == 1)
        give_up_message(&end);
    wire->keeps = false;
    local_ranks_barrier(self);
    const int held = wire->nheld;
    CHECK(self->rank == 1 || held > 0);
    begin_message(self, &next, &shape, TAG + 1, 2);
    wire->holds = false; /* the first message's go before the second's */
    CHECK_STATUS(sv_message_wait(&next.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&next, shape.bytes, 2), -1);
    if (self->rank == 0)
        give_up_message(&end);
    message_end_close(&next);
    message_end_close(&end);
}
#endif

/* Receives that wait for a sender whose stream is late leave pinned memory to others. */
static void late_streams(local_rank_t *self)
{
    enum { SLOW = 6, BYTES = 64 * PIECE_BYTES };
    message_shape_t slow = {.bytes = BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM, .on_device = true}, quick = slow;
    message_end_t end[SLOW], last;
    void *stream = NULL;
    hook_wire(self);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        slow.stream = stream;
        slow.delay_us = 1500000;
    }
    for (int i = 0; i < SLOW; i++) {
        begin_message(self, &end[i], &slow, TAG + i, (uint64_t)i);
        slow.delay_us = 0;
    }
    begin_message(self, &last, &quick, TAG + SLOW, SLOW);
    CHECK_STATUS(sv_message_wait(&last.request, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_message_test(&end[0].request, NULL), SELVAGE_IN_PROGRESS);
    for (int i = 0; i < SLOW; i++) {
        CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], BYTES, (uint64_t)i), -1);
        message_end_close(&end[i]);
    }
    message_end_close(&last);
    selvage_stream_destroy(self->dev, stream);
}

/* A long message's receive is too short. What packs it is after other work of its sender's stream: the send lasts as
   long as that, since the bounce buffer would be another message's. */
static void refused_late(local_rank_t *self)
{
    enum { BYTES = 16 * PIECE_BYTES };
    message_shape_t shape = {.bytes = BYTES, .run = 64, .gap = 8, .stream = SELVAGE_MESSAGE_NO_STREAM,
                             .on_device = true};
    message_end_t end;
    void *stream = NULL;
    hook_wire(self);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        shape.stream = stream;
        shape.delay_us = 700000;
    } else {
        shape.bytes = BYTES / 2;
    }
    const uint64_t began_ns = sv_clock_ns();
    begin_message(self, &end, &shape, TAG, 1);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), self->rank == 0 ? SELVAGE_SUCCESS : SELVAGE_ERR_TRUNCATED);
    if (self->rank == 0)
        CHECK(sv_clock_ns() - began_ns > UINT64_C(500000000));
    message_end_close(&end);
    selvage_stream_destroy(self->dev, stream);
}

/* More long messages of host memory than go at once, whose sender looks after none of them until another one's came. */
static void still_sender(local_rank_t *self)
{
    enum { STILL = 300 };
    static atomic_bool begun, cleared, over;
    const message_shape_t shape = {.bytes = 2 * PIECE_BYTES, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t *end = calloc(STILL, sizeof *end), other;
    hook_wire(self);
    for (int i = 0; i < STILL; i++)
        message_end_open(&end[i], self, &shape);
    message_end_open(&other, self, &shape);
    for (int i = 0; self->rank == 0 && i < STILL; i++)
        message_end_send(&end[i], &shape, 1, TAG, (uint64_t)i);
    if (self->rank == 0)
        atomic_store(&begun, true);
    for (unsigned turns = 0; !atomic_load(&begun) || (self->rank == 0 && !atomic_load(&over)) ||
                             (self->rank == 2 && !atomic_load(&cleared));)
        check_wait_turn(&turns);
    for (int i = 0; self->rank == 1 && i < STILL; i++)
        message_end_recv(&end[i], &shape, 0, TAG);
    if (self->rank == 1) {
        poll_for_ms(&end[0], 50);
        CHECK(engine_of(self)->pieces.host_transfers[false] < STILL);
        atomic_store(&cleared, true);
        message_end_recv(&other, &shape, 2, TAG);
    } else if (self->rank == 2) {
        message_end_send(&other, &shape, 1, TAG, STILL);
    }
    if (self->rank > 0)
        CHECK_STATUS(sv_message_wait(&other.request, NULL), SELVAGE_SUCCESS);
    if (self->rank == 1)
        CHECK_EQ(message_end_wrong(&other, shape.bytes, STILL), -1);
    if (self->rank == 1)
        atomic_store(&over, true);
    for (int i = 0; i < STILL; i++) {
        if (self->rank < 2)
            CHECK_STATUS(sv_message_wait(&end[i].request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_EQ(message_end_wrong(&end[i], shape.bytes, (uint64_t)i), -1);
        message_end_close(&end[i]);
    }
    message_end_close(&other);
    free(end);
}

/* A rank that was written to, and never called anything of messages, acknowledges nothing: destroying does not wait. */
static void never_received(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 300, .stream = SELVAGE_MESSAGE_NO_STREAM};
    const uint64_t began_ns = sv_clock_ns();
    message_end_t end;
    message_end_open(&end, self, &shape);
    if (self->rank == 0)
        message_end_send(&end, &shape, 1, TAG, 1);
    if (self->rank == 0)
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end);
    selvage_comm_destroy(self->comm);
    self->comm = NULL;
    CHECK(sv_clock_ns() - began_ns < UINT64_C(20000000000)); /* the deadline is 60 s, and that of destroying 30 s */
}

#ifndef SV_SANITIZES_ADDRESS /* what is set aside looks like a leak */
/* Destroying ends at its bound, and what a kernel after the caller's work will store to stays. */
static void late_kernel(local_rank_t *self)
{
    message_end_t end;
    (void)begin_late_message(self, &end, 300, 2000000);
    local_ranks_deadline(self, NULL, 0.5);
    selvage_comm_destroy(self->comm);
    self->comm = NULL;
    usleep(self->rank == 0 ? 2500000 : 0); /* the device went with the communicator, and nobody can ask it */
    local_ranks_barrier(self);
}
#endif

static void run(void (*body)(local_rank_t *self), const char *env, int size, int ranks_per_node)
{
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = body, .log_expected = true,
                                   .may_set_aside = true});
}

int main(void)
{
    run(repeats, "TIMEOUT_S=60", 2, 1);
    run(burst, "TIMEOUT_S=60", 2, 1);
    run(held_empty, "TIMEOUT_S=60", 2, 1);
    run(doubled, PIECES_ENV "TIMEOUT_S=60", 2, 1);
    run(late_pieces, PIECES_ENV "TIMEOUT_S=60 RETRY_MAX=0", 2, 1);
    run(stuck_letter, "TIMEOUT_S=10", 3, 1);
    run(failing, "TIMEOUT_S=60", 2, 2);
    run(given_up_twice, "TIMEOUT_S=60", 2, 2);
    run(late_streams, PIECES_ENV "TIMEOUT_S=60", 2, 1);
    run(refused_late, PIECES_ENV "TIMEOUT_S=60", 2, 1);
    run(still_sender, PIECES_ENV "TIMEOUT_S=20", 3, 1);
    run(never_received, "TIMEOUT_S=60", 2, 1);
#ifndef SV_SANITIZES_ADDRESS
    run(not_taken_back, PIECES_ENV "TIMEOUT_S=60 CHECKSUM=off", 2, 1);
    for (int per_node = 1; per_node <= 2; per_node++)
        run(late_kernel, "TIMEOUT_S=60", 2, per_node);
#endif
    return check_report("test_message_late");
}
