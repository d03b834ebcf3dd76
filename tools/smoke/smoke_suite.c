/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See smoke_suite.h. The value of an element follows from its rank and index, so every rank knows every result. Filling
 * and checking are outside of the timed part.
 */
#include "tools/smoke/smoke_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MOST = 1 << 16, COUNT_QUICK = 1 << 13, TIMED = 7, COMPLAINTS = 5, VALUES = 5, ELEMENT_MOST = 8 };

static const selvage_type_t types[] = {SELVAGE_FLOAT32, SELVAGE_FLOAT64, SELVAGE_BFLOAT16, SELVAGE_INT32,
                                       SELVAGE_UINT8};
static const selvage_op_t operations[] = {SELVAGE_OP_SUM, SELVAGE_OP_MAX};
enum { TYPES = sizeof types / sizeof types[0], OPERATIONS = sizeof operations / sizeof operations[0] };

typedef struct smoke_case {
    smoke_call_t call;
    selvage_type_t type;
    selvage_op_t op;
    size_t count;
} smoke_case_t;

const char *smoke_call_name(smoke_call_t call)
{
    static const char *const names[SMOKE_CALLS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                                   "all_to_all", "send_receive", "barrier"};
    return names[call];
}

static void *device_memory(smoke_suite_t *suite)
{
    void *memory;
    tool_try(suite->job, "device_malloc", selvage_device_malloc(suite->device, suite->capacity, &memory));
    return memory;
}

void smoke_suite_init(smoke_suite_t *suite, const tool_job_t *job, selvage_comm_t *comm, bool quick)
{
    *suite = (smoke_suite_t){.job = job, .device = selvage_comm_device(comm), .complaints = COMPLAINTS,
                             .count_max = quick ? COUNT_QUICK : COUNT_MOST};
    selvage_status_t status = selvage_coll_create(comm, NULL, &suite->coll);
    if (status == SELVAGE_ERR_UNSUPPORTED || status == SELVAGE_ERR_LIMIT) {
        suite->coll = NULL;
        snprintf(suite->reason, sizeof suite->reason, "%.150s", selvage_error_detail());
        return;
    }
    tool_try(job, "coll_create", status);
    suite->capacity = suite->count_max * ELEMENT_MOST * (size_t)job->size;
    suite->device_send = device_memory(suite);
    suite->device_recv = device_memory(suite);
    suite->host = tool_malloc(job, suite->capacity);
    tool_try(job, "stream_create", selvage_stream_create(suite->device, &suite->stream));
}

void smoke_suite_fini(smoke_suite_t *suite)
{
    if (!suite->coll)
        return;
    selvage_coll_destroy(suite->coll);
    selvage_stream_destroy(suite->device, suite->stream);
    selvage_device_free(suite->device, suite->device_send);
    selvage_device_free(suite->device, suite->device_recv);
    free(suite->host);
}

static bool reduces(smoke_call_t call)
{
    return call == SMOKE_ALL_REDUCE || call == SMOKE_REDUCE_SCATTER || call == SMOKE_REDUCE;
}

static size_t send_count(const smoke_suite_t *suite, const smoke_case_t *what)
{
    const bool blocks = what->call == SMOKE_REDUCE_SCATTER || what->call == SMOKE_ALL_TO_ALL;
    return what->count * (blocks ? (size_t)suite->job->size : 1);
}

static size_t recv_count(const smoke_suite_t *suite, const smoke_case_t *what)
{
    const bool blocks = what->call == SMOKE_ALL_GATHER || what->call == SMOKE_ALL_TO_ALL;
    if (what->call == SMOKE_REDUCE && suite->job->rank != suite->job->size - 1)
        return 0;
    return what->count * (blocks ? (size_t)suite->job->size : 1);
}

static int value_of(int rank, size_t index)
{
    return (int)(((size_t)rank * 3 + index * 7 + index / 11) % VALUES);
}

static int combined(const smoke_suite_t *suite, selvage_op_t op, size_t index)
{
    int result = 0;
    for (int rank = 0; rank < suite->job->size; rank++) {
        const int value = value_of(rank, index);
        result = op == SELVAGE_OP_SUM ? result + value : value > result ? value : result;
    }
    return result;
}

/* What element i of the output must be. */
static int expected(const smoke_suite_t *suite, const smoke_case_t *what, size_t i)
{
    const size_t rank = (size_t)suite->job->rank, size = (size_t)suite->job->size;
    switch (what->call) {
    case SMOKE_ALL_REDUCE:
    case SMOKE_REDUCE: return combined(suite, what->op, i);
    case SMOKE_REDUCE_SCATTER: return combined(suite, what->op, rank * what->count + i);
    case SMOKE_ALL_GATHER: return value_of((int)(i / what->count), i % what->count);
    case SMOKE_ALL_TO_ALL: return value_of((int)(i / what->count), rank * what->count + i % what->count);
    case SMOKE_SEND_RECEIVE: return value_of((int)((rank + size - 1) % size), i);
    default: return value_of((int)size - 1, i); /* broadcast by the last rank */
    }
}

/* A small whole number as an element; returns its length. */
static size_t encode(selvage_type_t type, int value, unsigned char *element)
{
    const float single = (float)value;
    const double wide = value;
    const uint8_t byte = (uint8_t)value;
    switch (type) {
    case SELVAGE_FLOAT32: memcpy(element, &single, sizeof single); return sizeof single;
    case SELVAGE_FLOAT64: memcpy(element, &wide, sizeof wide); return sizeof wide;
    case SELVAGE_INT32: memcpy(element, &value, sizeof value); return sizeof value;
    case SELVAGE_BFLOAT16: memcpy(element, (const char *)&single + 2, 2); return 2; /* the upper half of a float */
    default: *element = byte; return 1;
    }
}

static void copy(smoke_suite_t *suite, void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    tool_try(suite->job, "device_copy", selvage_device_copy(suite->device, to, from, bytes, direction, suite->stream));
    tool_try(suite->job, "stream_synchronize", selvage_stream_synchronize(suite->device, suite->stream));
}

static void fill(smoke_suite_t *suite, const smoke_case_t *what)
{
    unsigned char *at = suite->host;
    const size_t count = send_count(suite, what);
    for (size_t i = 0; i < count; i++)
        at += encode(what->type, value_of(suite->job->rank, i), at);
    copy(suite, suite->device_send, suite->host, (size_t)(at - suite->host), SELVAGE_COPY_HOST_TO_DEVICE);
    tool_try(suite->job, "device_fill",
             selvage_device_fill(suite->device, suite->device_recv, 0xee,
                                 what->count * ELEMENT_MOST * (size_t)suite->job->size, suite->stream));
    tool_try(suite->job, "stream_synchronize", selvage_stream_synchronize(suite->device, suite->stream));
}

static selvage_status_t send_receive(smoke_suite_t *suite, const smoke_case_t *what)
{
    const int rank = suite->job->rank, size = suite->job->size;
    selvage_coll_t *coll = suite->coll;
    tool_try(suite->job, "coll_group_begin", selvage_coll_group_begin(coll));
    tool_try(suite->job, "coll_send", selvage_coll_send(coll, suite->device_send, what->count, what->type,
                                                        (rank + 1) % size, suite->stream));
    tool_try(suite->job, "coll_recv", selvage_coll_recv(coll, suite->device_recv, what->count, what->type,
                                                        (rank + size - 1) % size, suite->stream));
    return selvage_coll_group_end(coll);
}

static selvage_status_t make_call(smoke_suite_t *suite, const smoke_case_t *what)
{
    selvage_coll_t *coll = suite->coll;
    const void *from = suite->device_send;
    void *to = suite->device_recv, *stream = suite->stream;
    const int root = suite->job->size - 1;
    switch (what->call) {
    case SMOKE_ALL_REDUCE: return selvage_coll_all_reduce(coll, from, to, what->count, what->type, what->op, stream);
    case SMOKE_REDUCE_SCATTER:
        return selvage_coll_reduce_scatter(coll, from, to, what->count, what->type, what->op, stream);
    case SMOKE_ALL_GATHER: return selvage_coll_all_gather(coll, from, to, what->count, what->type, stream);
    case SMOKE_BROADCAST: return selvage_coll_broadcast(coll, from, to, what->count, what->type, root, stream);
    case SMOKE_REDUCE: return selvage_coll_reduce(coll, from, to, what->count, what->type, what->op, root, stream);
    case SMOKE_ALL_TO_ALL: return selvage_coll_all_to_all(coll, from, to, what->count, what->type, stream);
    case SMOKE_SEND_RECEIVE: return send_receive(suite, what);
    default: return selvage_coll_barrier(coll, stream);
    }
}

/* One call, to its end on the device; seconds since the common start. */
static double timed_call(smoke_suite_t *suite, const smoke_case_t *what)
{
    tool_barrier(suite->job);
    const double begin = tool_seconds();
    tool_try(suite->job, smoke_call_name(what->call), make_call(suite, what));
    tool_try(suite->job, "stream_synchronize", selvage_stream_synchronize(suite->device, suite->stream));
    const double end = tool_seconds();
    tool_try(suite->job, smoke_call_name(what->call), selvage_coll_error(suite->coll));
    return end - begin;
}

/* Every element of this rank's result. */
static bool is_right(smoke_suite_t *suite, const smoke_case_t *what)
{
    const size_t count = recv_count(suite, what), bytes = selvage_type_bytes(what->type);
    size_t bad = 0, first = 0;
    copy(suite, suite->host, suite->device_recv, count * bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    for (size_t i = 0; i < count; i++) {
        unsigned char element[ELEMENT_MOST];
        encode(what->type, expected(suite, what, i), element);
        if (memcmp(suite->host + i * bytes, element, bytes) != 0 && bad++ == 0)
            first = i;
    }
    if (bad && suite->complaints-- > 0)
        fprintf(stderr, "selvage-smoke: rank %d: element %zu of %s of %zu %s is wrong (%zu wrong elements)\n",
                suite->job->rank, first, smoke_call_name(what->call), what->count, selvage_type_name(what->type), bad);
    return bad == 0;
}

static void run_case(smoke_suite_t *suite, const smoke_case_t *what, smoke_call_row_t *row)
{
    if (what->call != SMOKE_BARRIER)
        fill(suite, what);
    (void)timed_call(suite, what);
    row->cases++;
    row->bad += what->call != SMOKE_BARRIER && !is_right(suite, what);
}

/* The largest of float32, several times. */
static void time_call(smoke_suite_t *suite, smoke_call_row_t *row)
{
    const smoke_case_t what = {row->call, SELVAGE_FLOAT32, SELVAGE_OP_SUM,
                               row->call == SMOKE_BARRIER ? 0 : suite->count_max};
    double seconds[TIMED];
    for (int i = 0; i < TIMED; i++)
        seconds[i] = timed_call(suite, &what);
    const size_t sent = send_count(suite, &what), received = recv_count(suite, &what);
    row->bytes = (sent > received ? sent : received) * sizeof(float);
    row->seconds = tool_median_of_slowest(suite->job, seconds, TIMED);
}

const smoke_call_row_t *smoke_suite_run(smoke_suite_t *suite, smoke_call_t call)
{
    smoke_call_row_t *row = &suite->rows[suite->row_count++];
    const size_t counts[] = {1, 1001, suite->count_max};
    *row = (smoke_call_row_t){.call = call};
    for (unsigned i = 0; i < 3 * TYPES * OPERATIONS; i++) {
        const smoke_case_t what = {call, types[i / 3 % TYPES], operations[i / 3 / TYPES], counts[i % 3]};
        if (call == SMOKE_BARRIER ? i == 0 : reduces(call) || what.op == SELVAGE_OP_SUM)
            run_case(suite, &what, row);
    }
    time_call(suite, row);
    uint64_t sums[2] = {row->cases, row->bad};
    tool_reduce(suite->job, suite->job->comm, sums, 2, MPI_UINT64_T, MPI_SUM);
    row->cases = sums[0];
    row->bad = sums[1];
    return row;
}
