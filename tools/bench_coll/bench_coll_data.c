/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs, and the comparison of what was received with tables of what must be there. */
#include "tools/bench_coll/bench_coll_data.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bench_coll/bench_coll_encode.h"

enum { PERIOD = 65521, STAGING_BYTES = 8 << 20, ELEMENT_MAX_BYTES = 8, REDUCED = -1, SPOILED = 0xAA };
enum { PREMUL_FACTOR = 2 };

/* Of sums over 16 ranks, twice, every type has each integer: values are below this. */
static uint32_t value_limit(selvage_type_t type)
{
    switch (type) {
    case SELVAGE_FLOAT8_E4M3:
    case SELVAGE_FLOAT8_E5M2:
        return 2;
    case SELVAGE_INT8:
    case SELVAGE_UINT8:
        return 4;
    case SELVAGE_BFLOAT16:
        return 16;
    case SELVAGE_FLOAT16:
        return 64;
    default:
        return 1000;
    }
}

/* Products are powers of two, to 16. The smallest type has integers to 8 only: not all ranks add to its sums. */
static double input(selvage_type_t type, bench_op_t op, int rank, uint32_t index)
{
    uint32_t mixed = index * 2654435761U + (uint32_t)(rank + 1) * 0x9E3779B9U;
    mixed = (mixed ^ mixed >> 15) * 0x85EBCA6BU;
    mixed ^= mixed >> 13;
    if (op == BENCH_PROD)
        return rank < 4 ? 1 + (mixed & 1) : 1;
    if (type == SELVAGE_FLOAT8_E5M2 && rank >= 8)
        return 0;
    return mixed % value_limit(type);
}

static double combine(bench_op_t op, double left, double right)
{
    switch (op) {
    case BENCH_PROD:
        return left * right;
    case BENCH_MIN:
        return left < right ? left : right;
    case BENCH_MAX:
        return left > right ? left : right;
    default:
        return left + right;
    }
}

static double reduced(const bench_case_t *what, int ranks, uint32_t index)
{
    double value = input(what->type, what->op, 0, index);
    for (int rank = 1; rank < ranks; rank++)
        value = combine(what->op, value, input(what->type, what->op, rank, index));
    if (what->op == BENCH_PREMUL)
        return PREMUL_FACTOR * value;
    return what->op == BENCH_AVG ? bench_quotient(what->type, value, ranks) : value;
}

/* The table of a rank's inputs, or of the reduction of all. Elements lie in the low bytes of what encodes them. */
static void make_table(const bench_data_t *data, const bench_case_t *what, int of)
{
    const size_t bytes = selvage_type_bytes(what->type);
    for (uint32_t i = 0; i < PERIOD; i++) {
        const double value = of == REDUCED ? reduced(what, data->job->size, i) : input(what->type, what->op, of, i);
        const uint64_t bits = bench_encode(what->type, value);
        memcpy(data->table + i * bytes, &bits, bytes);
    }
}

uint64_t bench_data_scalar(selvage_type_t type)
{
    return bench_encode(type, PREMUL_FACTOR);
}

void bench_data_init(bench_data_t *data, const tool_job_t *job, selvage_device_t *device, void *stream)
{
    void *staging;
    *data = (bench_data_t){.job = job, .device = device, .stream = stream};
    tool_try(job, "host_malloc", selvage_device_host_malloc(device, STAGING_BYTES, &staging));
    data->staging = staging;
    data->table = tool_malloc(job, PERIOD * ELEMENT_MAX_BYTES);
}

void bench_data_fini(bench_data_t *data)
{
    selvage_device_host_free(data->device, data->staging);
    free(data->table);
}

static void copy(const bench_data_t *data, void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    tool_try(data->job, "copy", selvage_device_copy(data->device, to, from, bytes, direction, data->stream));
}

static void synchronize(const bench_data_t *data)
{
    tool_try(data->job, "synchronize", selvage_stream_synchronize(data->device, data->stream));
}

/* The staging buffer gets as many tables as it has room for, or as are needed, and is copied again and again. */
void bench_data_fill(const bench_data_t *data, const bench_case_t *what, void *device_ptr, size_t bytes)
{
    const size_t table = PERIOD * selvage_type_bytes(what->type);
    size_t chunk = 0;
    make_table(data, what, data->job->rank);
    for (; chunk + table <= STAGING_BYTES && chunk < bytes; chunk += table)
        memcpy(data->staging + chunk, data->table, table);
    for (size_t at = 0; at < bytes; at += chunk)
        copy(data, (char *)device_ptr + at, data->staging, bytes - at < chunk ? bytes - at : chunk,
             SELVAGE_COPY_HOST_TO_DEVICE);
    synchronize(data);
}

void bench_data_spoil(const bench_data_t *data, void *device_ptr, size_t bytes)
{
    tool_try(data->job, "fill", selvage_device_fill(data->device, device_ptr, SPOILED, bytes, data->stream));
    synchronize(data);
}

/* Elements of the staging buffer that differ from the table, which begins at an element `phase`. */
static long compare(const bench_data_t *data, size_t element, size_t phase, size_t bytes)
{
    long wrong = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t left = PERIOD * element - phase, run = bytes - at < left ? bytes - at : left;
        const unsigned char *got = data->staging + at, *wanted = data->table + phase;
        if (memcmp(got, wanted, run) != 0) {
            for (size_t i = 0; i < run; i += element)
                wrong += memcmp(got + i, wanted + i, element) != 0;
        }
        at += run;
        phase = 0;
    }
    return wrong;
}

/* Count elements must be those of the table of `of`, from its element `first` on. */
static long check_block(const bench_data_t *data, const bench_case_t *what, const void *device_ptr, int of,
                        size_t first)
{
    const size_t element = selvage_type_bytes(what->type), bytes = what->count * element, period = PERIOD * element;
    long wrong = 0;
    make_table(data, what, of);
    for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
        const size_t part = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        copy(data, data->staging, (const char *)device_ptr + at, part, SELVAGE_COPY_DEVICE_TO_HOST);
        synchronize(data);
        wrong += compare(data, element, (first * element + at) % period, part);
    }
    return wrong;
}

/* A block of every rank, each from element `first` of its input on. */
static long check_blocks(const bench_data_t *data, const bench_case_t *what, const void *device_ptr, size_t first)
{
    const size_t block = what->count * selvage_type_bytes(what->type);
    long wrong = 0;
    for (int rank = 0; rank < data->job->size; rank++)
        wrong += check_block(data, what, (const char *)device_ptr + (size_t)rank * block, rank, first);
    return wrong;
}

long bench_data_check(const bench_data_t *data, const bench_case_t *what, const void *device_ptr)
{
    const int rank = data->job->rank, ranks = data->job->size;
    const size_t mine = (size_t)rank * what->count;
    switch (what->call) {
    case BENCH_ALL_REDUCE:
        return check_block(data, what, device_ptr, REDUCED, 0);
    case BENCH_REDUCE_SCATTER:
        return check_block(data, what, device_ptr, REDUCED, mine);
    case BENCH_ALL_GATHER:
        return check_blocks(data, what, device_ptr, 0);
    case BENCH_BROADCAST:
        return check_block(data, what, device_ptr, what->root, 0);
    case BENCH_REDUCE:
        return rank == what->root ? check_block(data, what, device_ptr, REDUCED, 0) : 0;
    case BENCH_ALL_TO_ALL:
        return check_blocks(data, what, device_ptr, mine);
    case BENCH_SENDRECV:
        return check_block(data, what, device_ptr, (rank + ranks - 1) % ranks, 0);
    default:
        return 0;
    }
}
