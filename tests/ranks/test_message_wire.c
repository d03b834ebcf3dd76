/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by a wire that loses, flips, repeats, exchanges and delays what it is given: control messages of every kind,
 * payload and pieces. All messages arrive, and are right, with a deadline or without; and where nothing comes through,
 * the error names the rank. Ranks are threads, each on a node of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { ROUNDS = 4 };
#else
enum { ROUNDS = 8 };
#endif
enum { ROUNDS_MOST = 100, WINDOW = 12, TAG = 3, HELD_MAX = 64, BYTES_MAX = 20000 };

typedef enum harm { FLIP, DROP, TWICE, EXCHANGE, DELAY, HARMS } harm_t;

/* A message that is held back, as a copy. */
typedef struct held {
    uint8_t *bytes;
    size_t count;
    int peer, tag;
    uint64_t due_ns; /* 0: after the next one */
} held_t;

typedef struct bad_wire {
    sv_wire_t base; /* first */
    sv_wire_t *inner;
    bool mute;           /* nothing goes */
    unsigned harms;      /* bits */
    uint64_t per_mille;
    uint64_t state, done[HARMS];
    held_t held[HELD_MAX];
    int nheld;
} bad_wire_t;

static bad_wire_t wire_of[2];

/* What is short is copied by the wire inside at once. */
static void pass_on(bad_wire_t *wire, const void *buf, size_t bytes, int peer, int tag)
{
    sv_wire_request_t request = {{0}};
    CHECK_STATUS(sv_wire_send(wire->inner, SV_WIRE_MESSAGE, buf, bytes, peer, tag, &request), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wire->inner, &request, NULL), SELVAGE_SUCCESS);
}

static void hold_back(bad_wire_t *wire, const void *buf, size_t bytes, int peer, int tag, uint64_t due_ns)
{
    held_t *held = &wire->held[wire->nheld++];
    *held = (held_t){malloc(bytes + 1), bytes, peer, tag, due_ns};
    memcpy(held->bytes, buf, bytes);
}

static void let_go(bad_wire_t *wire, bool next)
{
    const uint64_t now_ns = wire->nheld ? sv_clock_ns() : 0;
    for (int i = 0; i < wire->nheld; i++) {
        held_t held = wire->held[i];
        if (held.due_ns ? now_ns < held.due_ns : !next)
            continue;
        wire->held[i--] = wire->held[--wire->nheld];
        pass_on(wire, held.bytes, held.count, held.peer, held.tag);
        free(held.bytes);
    }
}

static void do_harm(bad_wire_t *wire, harm_t harm, const void *buf, size_t bytes, int peer, int tag)
{
    uint8_t *copy;
    wire->done[harm]++;
    switch (harm) {
    case FLIP:
        copy = malloc(bytes);
        memcpy(copy, buf, bytes);
        copy[local_ranks_random(&wire->state, bytes)] ^= (uint8_t)(1 << local_ranks_random(&wire->state, 8));
        pass_on(wire, copy, bytes, peer, tag);
        free(copy);
        break;
    case TWICE:
        pass_on(wire, buf, bytes, peer, tag);
        pass_on(wire, buf, bytes, peer, tag);
        break;
    case EXCHANGE:
        hold_back(wire, buf, bytes, peer, tag, 0);
        break;
    case DELAY:
        hold_back(wire, buf, bytes, peer, tag, sv_clock_ns() + 1000000 * local_ranks_random(&wire->state, 60));
        break;
    case DROP:
    case HARMS:
        break;
    }
}

static selvage_status_t bad_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                 int tag, sv_wire_request_t *request_out)
{
    bad_wire_t *wire = (bad_wire_t *)base;
    const harm_t harm = (harm_t)local_ranks_random(&wire->state, HARMS);
    *request_out = (sv_wire_request_t){{0}};
    if (wire->mute && channel == SV_WIRE_MESSAGE)
        return SELVAGE_SUCCESS;
    if (channel != SV_WIRE_MESSAGE || bytes == 0 || !(wire->harms >> harm & 1) || wire->nheld == HELD_MAX ||
        local_ranks_random(&wire->state, 1000) >= wire->per_mille)
        SV_TRY(sv_wire_send(wire->inner, channel, buf, bytes, peer, tag, request_out));
    else
        do_harm(wire, harm, buf, bytes, peer, tag);
    if (channel == SV_WIRE_MESSAGE)
        let_go(wire, harm != EXCHANGE);
    return SELVAGE_SUCCESS;
}

static selvage_status_t bad_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                 int tag, sv_wire_request_t *request_out)
{
    return sv_wire_recv(((bad_wire_t *)base)->inner, channel, buf, capacity, peer, tag, request_out);
}

static selvage_status_t bad_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    let_go((bad_wire_t *)base, false);
    return sv_wire_test(((bad_wire_t *)base)->inner, request, bytes_out);
}

static selvage_status_t bad_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    return sv_wire_cancel(((bad_wire_t *)base)->inner, request);
}

static selvage_status_t bad_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    return sv_wire_control_send(((bad_wire_t *)base)->inner, peer, message);
}

static selvage_status_t bad_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    return sv_wire_control_poll(((bad_wire_t *)base)->inner, source_out, message_out);
}

static void bad_close(sv_wire_t *base)
{
    bad_wire_t *wire = (bad_wire_t *)base;
    for (int i = 0; i < wire->nheld; i++)
        free(wire->held[i].bytes);
    wire->inner->ops->close(wire->inner);
}

static const sv_wire_ops_t bad_ops = {.abi = SV_WIRE_ABI, .name = "bad", .close = bad_close, .send = bad_send,
                                      .recv = bad_recv, .test = bad_test, .cancel = bad_cancel,
                                      .control_send = bad_control_send, .control_poll = bad_control_poll};

/* Before the first message. */
static bad_wire_t *spoil_wire(local_rank_t *self, unsigned harms, uint64_t per_mille)
{
    bad_wire_t *wire = &wire_of[self->rank];
    *wire = (bad_wire_t){.base = *self->comm->wire, .inner = self->comm->wire, .harms = harms, .per_mille = per_mille,
                         .state = 17 + (uint64_t)self->rank};
    wire->base.ops = &bad_ops;
    self->comm->wire = &wire->base;
    return wire;
}

/* --- all arrive --------------------------------------------------------------------------------------------------- */

typedef struct bad_case {
    unsigned harms;
    uint64_t per_mille;
    int rounds;
} bad_case_t;

static message_shape_t shape_of(uint64_t key)
{
    uint64_t state = key * 77 + 5;
    const uint64_t kind = local_ranks_random(&state, 4);
    message_shape_t shape = {.on_device = local_ranks_random(&state, 2), .stream = SELVAGE_MESSAGE_NO_STREAM};
    shape.bytes = 1 + local_ranks_random(&state, kind == 0 ? 390 : BYTES_MAX);
    return shape;
}

/* Without a deadline of its own, but not for ever. */
static bool finish_in_time(message_end_t *end)
{
    const uint64_t late_ns = sv_clock_ns() + UINT64_C(60000000000);
    selvage_status_t status;
    unsigned turns = 0;
    while ((status = sv_message_test(&end->request, NULL)) == SELVAGE_IN_PROGRESS && sv_clock_ns() < late_ns)
        check_wait_turn(&turns);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return status == SELVAGE_SUCCESS;
}

/* Both ways at once, many under way, waited for in the opposite order. */
static bool exchange_many(local_rank_t *self, uint64_t round)
{
    message_end_t out[WINDOW], in[WINDOW];
    const uint64_t me = (uint64_t)self->rank;
    bool right = true;
    for (int i = 0; i < WINDOW; i++) {
        const uint64_t key = round * WINDOW + (uint64_t)i;
        const message_shape_t sent = shape_of(2 * key + me), come = shape_of(2 * key + 1 - me);
        message_end_open(&out[i], self, &sent);
        message_end_open(&in[i], self, &come);
        message_end_recv(&in[i], &come, 1 - self->rank, TAG + i % 3);
        if (i % 5 == 0)
            message_end_issend(&out[i], &sent, 1 - self->rank, TAG + i % 3, key);
        else
            message_end_send(&out[i], &sent, 1 - self->rank, TAG + i % 3, key);
    }
    for (int i = WINDOW; i-- > 0;) {
        const uint64_t key = round * WINDOW + (uint64_t)i;
        right = finish_in_time(&out[i]) && finish_in_time(&in[i]) && right;
        CHECK_EQ(message_end_wrong(&in[i], shape_of(2 * key + 1 - me).bytes, key), -1);
    }
    for (int i = 0; i < WINDOW && right; i++) {
        message_end_close(&in[i]);
        message_end_close(&out[i]);
    }
    return right;
}

/* Each kind of harm that is wanted was done. */
static bool was_harmed(const bad_wire_t *wire, unsigned harms)
{
    for (unsigned i = 0; i < HARMS; i++)
        if ((harms >> i & 1) && wire->done[i] == 0)
            return false;
    return true;
}

static bool happened[2], gone_wrong[2]; /* a rank's; read after a barrier */

static void arrive(local_rank_t *self)
{
    const bad_case_t *wanted = self->arg;
    bad_wire_t *wire = spoil_wire(self, wanted->harms, wanted->per_mille);
    const bool loses = wanted->harms & (1u << FLIP | 1u << DROP);
    bool wrong = false, enough = false;
    /* As many rounds as are wanted, and more while chance has spared what this case is about. */
    for (int i = 0; i < ROUNDS_MOST && !wrong && !enough; i++) {
        gone_wrong[self->rank] = !exchange_many(self, (uint64_t)i);
        happened[self->rank] = was_harmed(wire, wanted->harms) && (!loses || sv_message_stats(self->comm).resent > 0);
        local_ranks_barrier(self);
        wrong = gone_wrong[0] || gone_wrong[1];
        enough = i + 1 >= wanted->rounds && happened[0] && happened[1];
        local_ranks_barrier(self); /* both have read it */
    }
    CHECK(enough);
    wire->per_mille = 0; /* what parts is not hurt: the other rank may be gone */
}

/* --- nothing comes through ---------------------------------------------------------------------------------------- */

static void silence(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = 300, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    bad_wire_t *wire = spoil_wire(self, 0, 0);
    const uint64_t began_ns = sv_clock_ns();
    wire->mute = self->rank == 0;
    message_end_open(&end, self, &shape);
    local_ranks_deadline(self, NULL, 2);
    if (self->rank == 0)
        message_end_issend(&end, &shape, 1, TAG, 1);
    else
        message_end_recv(&end, &shape, 0, TAG);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_ERR_TIMEOUT);
    CHECK(strstr(selvage_error_detail(), self->rank == 0 ? "rank 1" : "rank 0") != NULL);
    CHECK(sv_clock_ns() - began_ns < UINT64_C(30000000000));
    if (self->rank == 0)
        CHECK(strstr(selvage_error_detail(), "acknowledges no control messages") != NULL);
    sv_message_abandon(&end.request, SELVAGE_ERR_TIMEOUT);
    wire->mute = false;
    message_end_close(&end);
    local_ranks_barrier(self); /* one may have waited for much longer, and both part within a deadline */
}

static void run(void (*body)(local_rank_t *self), void *arg)
{
    local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = 1, .body = body, .arg = arg, .log_expected = true});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
    static const unsigned all = (1u << HARMS) - 1;
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 TIMEOUT_S=-1 RETRY_MAX=20");
    for (unsigned i = 0; i < HARMS; i++) /* what 1 of 100 suffers, where one alone is chosen of five */
        run(arrive, &(bad_case_t){1u << i, 10 * HARMS, ROUNDS});
    run(arrive, &(bad_case_t){all, 50, ROUNDS});
    run(arrive, &(bad_case_t){1u << DROP | 1u << FLIP, 300, ROUNDS / 4});
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 TIMEOUT_S=60");
    run(silence, NULL);
    return check_report("test_message_wire");
}
