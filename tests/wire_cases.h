/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every wire promises, as cases that all ranks of a wire run together. Both wires run the same cases. Each case
 * ends with a barrier of its own, so that a message of one cannot be taken for another's. A step that takes longer than
 * WIRE_LIMIT_S counts as failed, and the process ends, because the other ranks would wait.
 */
#ifndef SELVAGE_TESTS_WIRE_CASES_H
#define SELVAGE_TESTS_WIRE_CASES_H

#include <stdlib.h>

#include "base/base_clock.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "check.h"
#include "wire/wire.h"

enum { WIRE_LIMIT_S = 60, WIRE_FLOOD = 2000, WIRE_MANY = 400, WIRE_TAG_BARRIER = 900 };

/* One polite step of a loop that began at begin_ns. */
static void wire_step(sv_backoff_t *backoff, uint64_t begin_ns, const char *what)
{
    if (sv_clock_ns() - begin_ns > WIRE_LIMIT_S * 1000000000ull) {
        fprintf(stderr, "%s: no end in sight after %d s\n", what, WIRE_LIMIT_S);
        abort();
    }
    sv_backoff(backoff);
}

static selvage_status_t wire_finish(sv_wire_t *wire, sv_wire_request_t *request, size_t *bytes_out)
{
    sv_backoff_t backoff = {.max_sleep_us = 50, .oversubscribed = 1};
    uint64_t begin_ns = sv_clock_ns();
    selvage_status_t status;
    while ((status = sv_wire_test(wire, request, bytes_out)) == SELVAGE_IN_PROGRESS)
        wire_step(&backoff, begin_ns, "a request");
    return status;
}

static int wire_next(const sv_wire_t *wire)
{
    return (wire->rank + 1) % wire->size;
}

static int wire_previous(const sv_wire_t *wire)
{
    return (wire->rank + wire->size - 1) % wire->size;
}

/* Dissemination: after round k everybody has heard from 2^k ranks. */
static void wire_barrier(sv_wire_t *wire)
{
    for (int distance = 1, round = 0; distance < wire->size; distance *= 2, round++) {
        sv_wire_request_t out = {{0}}, in = {{0}};
        int to = (wire->rank + distance) % wire->size, from = (wire->rank + wire->size - distance) % wire->size;
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_SETUP, NULL, 0, from, WIRE_TAG_BARRIER + round, &in), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_SETUP, NULL, 0, to, WIRE_TAG_BARRIER + round, &out), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    }
}

static unsigned char wire_byte(int source, int salt, size_t i)
{
    return (unsigned char)(i * 31 + (size_t)source * 7 + (size_t)salt);
}

static unsigned char *wire_pattern(int source, int salt, size_t bytes)
{
    unsigned char *buf = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        buf[i] = wire_byte(source, salt, i);
    return buf;
}

static size_t wire_wrong(const unsigned char *buf, int source, int salt, size_t bytes)
{
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += buf[i] != wire_byte(source, salt, i);
    return wrong;
}

/* One message to `to` and one from `from`, the receive posted before or after the send. */
static void wire_one_size(sv_wire_t *wire, size_t bytes, int to, int from, int recv_first)
{
    int salt = (int)(bytes % 101);
    sv_wire_request_t out = {{0}}, in = {{0}};
    size_t arrived = 12345;
    unsigned char *src = wire_pattern(wire->rank, salt, bytes), *dst = calloc(bytes + 9, 1);
    if (recv_first)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, dst, bytes + 8, from, 3, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, src, bytes, to, 3, &out), SELVAGE_SUCCESS);
    if (!recv_first)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, dst, bytes + 8, from, 3, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &in, &arrived), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(arrived, bytes);
    CHECK_EQ(wire_wrong(dst, from, salt, bytes), 0);
    CHECK_EQ(dst[bytes], 0);
    free(src);
    free(dst);
}

static void wire_case_sizes(sv_wire_t *wire)
{
    static const size_t sizes[] = {0, 1, 64, 4097, 65536, 65537, (1 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int recv_first = 0; recv_first < 2; recv_first++) {
            wire_one_size(wire, sizes[i], wire_next(wire), wire_previous(wire), recv_first);
            wire_one_size(wire, sizes[i], wire->rank, wire->rank, recv_first);
        }
    }
    wire_barrier(wire);
}

/* Many at once under one tag: order decides which is which. Odd ones are long. */
static void wire_case_order(sv_wire_t *wire)
{
    enum { COUNT = 64, LONG = 70000 };
    static const size_t size[2] = {sizeof(int), LONG};
    sv_wire_request_t out[COUNT], in[COUNT];
    unsigned char *src = calloc(COUNT, LONG), *dst = calloc(COUNT, LONG);
    for (int i = 0; i < COUNT; i++) {
        memcpy(src + (size_t)i * LONG, &i, sizeof i);
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, src + (size_t)i * LONG, size[i % 2], wire_next(wire), 5, &out[i]),
                     SELVAGE_SUCCESS);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, dst + (size_t)i * LONG, LONG, wire_previous(wire), 5, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = COUNT - 1; i >= 0; i--) {
        size_t bytes = 0;
        int number = -1;
        CHECK_STATUS(wire_finish(wire, &in[i], &bytes), SELVAGE_SUCCESS);
        memcpy(&number, dst + (size_t)i * LONG, sizeof number);
        CHECK_EQ(number, i);
        CHECK_EQ(bytes, size[i % 2]);
        CHECK_STATUS(wire_finish(wire, &out[i], NULL), SELVAGE_SUCCESS);
    }
    free(src);
    free(dst);
    wire_barrier(wire);
}

/* Receives posted in the opposite order of tags, all outstanding together. */
static void wire_case_many(sv_wire_t *wire)
{
    static _Thread_local sv_wire_request_t out[WIRE_MANY], in[WIRE_MANY];
    static _Thread_local int src[WIRE_MANY], dst[WIRE_MANY];
    for (int i = 0; i < WIRE_MANY; i++) {
        int back = WIRE_MANY - 1 - i;
        src[i] = wire->rank * WIRE_MANY + i;
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &src[i], sizeof(int), wire_next(wire), i, &out[i]),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &dst[back], sizeof(int), wire_previous(wire), back, &in[back]),
                     SELVAGE_SUCCESS);
    }
    for (int i = 0; i < WIRE_MANY; i++) {
        CHECK_STATUS(wire_finish(wire, &in[i], NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out[i], NULL), SELVAGE_SUCCESS);
        CHECK_EQ(dst[i], wire_previous(wire) * WIRE_MANY + i);
    }
    wire_barrier(wire);
}

/* The same tag on both channels: the setup message comes second and is received first. */
static void wire_case_channels(sv_wire_t *wire)
{
    sv_wire_request_t out[2], in[2];
    int src[2] = {100 + wire->rank, 200 + wire->rank}, dst[2] = {-1, -1};
    static const sv_wire_channel_t channel[2] = {SV_WIRE_DATA, SV_WIRE_SETUP};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(sv_wire_send(wire, channel[i], &src[i], sizeof(int), wire_next(wire), 8, &out[i]),
                     SELVAGE_SUCCESS);
    for (int i = 1; i >= 0; i--)
        CHECK_STATUS(sv_wire_recv(wire, channel[i], &dst[i], sizeof(int), wire_previous(wire), 8, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = 1; i >= 0; i--) {
        CHECK_STATUS(wire_finish(wire, &in[i], NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out[i], NULL), SELVAGE_SUCCESS);
        CHECK_EQ(dst[i], 100 * (i + 1) + wire_previous(wire));
    }
    wire_barrier(wire);
}

/* Everybody writes to everybody, in order, into receives from any source; who wrote is in the message. */
static void wire_case_any_source(sv_wire_t *wire)
{
    enum { EACH = 3, RANKS_MAX = 16 };
    sv_wire_request_t out[EACH * RANKS_MAX], in[EACH * RANKS_MAX];
    int src[EACH], dst[EACH * RANKS_MAX], next[RANKS_MAX] = {0};
    const int many = EACH * wire->size;
    for (int i = 0; i < many / 2; i++)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_MESSAGE, &dst[i], sizeof(int), SV_WIRE_ANY_SOURCE, 17, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = 0; i < many; i++) {
        src[i / wire->size] = EACH * wire->rank + i / wire->size;
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_MESSAGE, &src[i / wire->size], sizeof(int), i % wire->size, 17,
                                  &out[i]), SELVAGE_SUCCESS);
    }
    for (int i = many / 2; i < many; i++)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_MESSAGE, &dst[i], sizeof(int), SV_WIRE_ANY_SOURCE, 17, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = 0; i < many; i++) {
        CHECK_STATUS(wire_finish(wire, &in[i], NULL), SELVAGE_SUCCESS);
        CHECK_EQ(dst[i] % EACH, next[dst[i] / EACH]++);
    }
    for (int i = 0; i < many; i++)
        CHECK_STATUS(wire_finish(wire, &out[i], NULL), SELVAGE_SUCCESS);
    wire_barrier(wire);
}

/* A message longer than the receive: the receiver's error, the sender's success, nothing past the capacity. */
static void wire_truncate(sv_wire_t *wire, size_t bytes, size_t capacity)
{
    sv_wire_request_t out = {{0}}, in = {{0}};
    unsigned char *src = wire_pattern(wire->rank, 1, bytes), *dst = calloc(bytes, 1);
    int level = sv_thread_binding()->log_level;
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, dst, capacity, wire_previous(wire), 11, &in), SELVAGE_SUCCESS);
    wire_barrier(wire);
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, src, bytes, wire_next(wire), 11, &out), SELVAGE_SUCCESS);
    sv_thread_binding()->log_level = 0; /* the error is wanted */
    CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_ERR_MPI);
    sv_thread_binding()->log_level = level;
    CHECK(selvage_error_detail()[0] != '\0');
    CHECK_STATUS(sv_wire_cancel(wire, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    /* Open MPI may write past a receive of a long message, which only happens to wires that were misused. */
    if (bytes <= 65536 || strcmp(wire->ops->name, "local") == 0)
        CHECK_EQ(dst[capacity], 0);
    free(src);
    free(dst);
    wire_barrier(wire);
}

static void wire_case_truncate(sv_wire_t *wire)
{
    /* Open MPI cuts a short message of a rank to itself without a word. */
    if (wire->size == 1 && strcmp(wire->ops->name, "local") != 0)
        return;
    wire_truncate(wire, 100, 40);
    wire_truncate(wire, 300000, 1000);
    wire_one_size(wire, 1000, wire_next(wire), wire_previous(wire), 1);
}

static int wire_request_is_none(const sv_wire_request_t *request)
{
    return !(request->word[0] | request->word[1] | request->word[2] | request->word[3]);
}

/* A withdrawn receive takes no message; the next one gets it. */
static void wire_case_cancel(sv_wire_t *wire)
{
    sv_wire_request_t withdrawn = {{0}}, in = {{0}}, out = {{0}}, none = {{0}};
    int src = 4000 + wire->rank, dst = -1, untouched = -7;
    size_t bytes = 5;
    CHECK_STATUS(sv_wire_test(wire, &none, &bytes), SELVAGE_SUCCESS);
    CHECK_EQ(bytes, 0);
    CHECK_STATUS(sv_wire_cancel(wire, &none), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &untouched, sizeof(int), wire_previous(wire), 13, &withdrawn),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_test(wire, &withdrawn, NULL), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(sv_wire_cancel(wire, &withdrawn), SELVAGE_SUCCESS);
    CHECK(wire_request_is_none(&withdrawn));
    wire_barrier(wire);
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &src, sizeof src, wire_next(wire), 13, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &dst, sizeof dst, wire_previous(wire), 13, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    CHECK(wire_request_is_none(&in));
    CHECK_EQ(dst, 4000 + wire_previous(wire));
    CHECK_EQ(untouched, -7);
    wire_barrier(wire);
}

static void wire_case_limits(sv_wire_t *wire)
{
    sv_wire_request_t request = {{0}};
    int level = sv_thread_binding()->log_level;
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, NULL, (size_t)1 << 32, 0, 0, &request), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, NULL, (size_t)1 << 32, 0, 0, &request), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, NULL, 0, wire->size, 0, &request), SELVAGE_ERR_MPI);
    sv_thread_binding()->log_level = level;
    CHECK(wire_request_is_none(&request));
    CHECK(wire->tag_max >= 32767);
}

/* Takes control messages that are there. expected[source] is the number that must come next. */
static long wire_drain(sv_wire_t *wire, uint64_t *expected)
{
    sv_wire_control_t message;
    int source = -1;
    long count = 0;
    selvage_status_t status;
    while ((status = sv_wire_control_poll(wire, &source, &message)) == SELVAGE_SUCCESS) {
        CHECK(source >= 0 && source < wire->size);
        CHECK_EQ(message.word[0], expected[source]);
        CHECK_EQ(message.word[SV_WIRE_CONTROL_WORDS - 1], ~(uint64_t)(source * wire->size + wire->rank));
        expected[source] = message.word[0] + 1;
        count++;
    }
    CHECK_STATUS(status, SELVAGE_IN_PROGRESS);
    return count;
}

/* Everybody sends to everybody, itself too, and reads only when refused: nothing is lost, reordered or stuck. */
static void wire_case_control_flood(sv_wire_t *wire)
{
    uint64_t *expected = calloc((size_t)wire->size, sizeof *expected), begin_ns = sv_clock_ns();
    sv_backoff_t backoff = {.max_sleep_us = 50, .oversubscribed = 1};
    long got = 0, refused = 0, each = WIRE_FLOOD / wire->size + 100;
    for (long i = 0; i < each; i++) {
        for (int peer = 0; peer < wire->size; peer++) {
            sv_wire_control_t message = {.word = {(uint64_t)i}};
            selvage_status_t status;
            message.word[SV_WIRE_CONTROL_WORDS - 1] = ~(uint64_t)(wire->rank * wire->size + peer);
            while ((status = sv_wire_control_send(wire, peer, &message)) == SELVAGE_IN_PROGRESS) {
                refused++;
                got += wire_drain(wire, expected);
                wire_step(&backoff, begin_ns, "sending control messages");
            }
            CHECK_STATUS(status, SELVAGE_SUCCESS);
        }
    }
    while (got < each * wire->size) {
        got += wire_drain(wire, expected);
        wire_step(&backoff, begin_ns, "receiving control messages");
    }
    CHECK_EQ(got, each * wire->size);
    CHECK_EQ(wire->control_damaged, 0);
    if (wire->rank == 0)
        printf("%s wire, %d ranks: %ld control messages each, %ld refusals\n", wire->ops->name, wire->size, got,
               refused);
    free(expected);
    wire_barrier(wire);
}

static void wire_case_node(sv_wire_t *wire)
{
    int *ranks = NULL, count = 0, found = 0;
    CHECK_STATUS(wire->ops->node_ranks(wire, &ranks, &count), SELVAGE_SUCCESS);
    CHECK(count >= 1 && count <= wire->size);
    for (int i = 0; i < count; i++) {
        found += ranks[i] == wire->rank;
        CHECK(i == 0 || ranks[i] > ranks[i - 1]);
    }
    CHECK_EQ(found, 1);
    sv_free(ranks);
}

static void wire_cases_run(sv_wire_t *wire)
{
    wire_case_sizes(wire);
    wire_case_order(wire);
    wire_case_many(wire);
    wire_case_channels(wire);
    wire_case_any_source(wire);
    wire_case_truncate(wire);
    wire_case_cancel(wire);
    wire_case_limits(wire);
    wire_case_control_flood(wire);
    wire_case_node(wire);
    wire_barrier(wire);
}

#endif
