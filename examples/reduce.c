/* SPDX-License-Identifier: BSD-3-Clause */
/* Two loops and the host: many values to PARTS, these to LAST, and those to one. */
#include "reduce.h"

#include "reduce_loops.h"

enum { PARTS = 65536, LAST = 256 };

selvage_status_t reducer_open(selvage_device_t *device, void *stream, reducer_t *reducer)
{
    void *part, *last;
    selvage_status_t status = selvage_device_malloc(device, (PARTS + LAST) * sizeof(double), &part);
    if (status != SELVAGE_SUCCESS)
        return status;
    status = selvage_device_host_malloc(device, LAST * sizeof(double), &last);
    if (status != SELVAGE_SUCCESS) {
        selvage_device_free(device, part);
        return status;
    }
    *reducer = (reducer_t){device, stream, part, last};
    return SELVAGE_SUCCESS;
}

void reducer_close(reducer_t *reducer)
{
    selvage_device_host_free(reducer->device, reducer->last);
    selvage_device_free(reducer->device, reducer->part);
}

/* The first loop as given, the second with what adds up its parts; leaves `*n` numbers in reducer->last. */
static selvage_status_t reduce(reducer_t *r, const device_loop_t *first, const device_loop_t *second, const double *x,
                               const double *y, size_t count, size_t *n)
{
    reduce_part_t all = {count < PARTS ? count : PARTS, count, x, y, r->part};
    reduce_part_t parts = {all.n < LAST ? all.n : LAST, all.n, r->part, NULL, r->part + PARTS};
    selvage_status_t status = device_loop_run(first, &all, sizeof all, r->device, r->stream);
    if (status == SELVAGE_SUCCESS)
        status = device_loop_run(second, &parts, sizeof parts, r->device, r->stream);
    if (status == SELVAGE_SUCCESS)
        status = selvage_device_copy(r->device, r->last, parts.part, parts.n * sizeof(double),
                                     SELVAGE_COPY_DEVICE_TO_HOST, r->stream);
    if (status == SELVAGE_SUCCESS)
        status = selvage_stream_synchronize(r->device, r->stream);
    *n = parts.n;
    return status;
}

static selvage_status_t add_up(reducer_t *r, const device_loop_t *first, const double *x, const double *y,
                               size_t count, double *sum_out)
{
    size_t n;
    double sum = 0;
    selvage_status_t status = reduce(r, first, &reduce_sum, x, y, count, &n);
    if (status != SELVAGE_SUCCESS)
        return status;
    for (size_t i = 0; i < n; i++)
        sum += r->last[i];
    *sum_out = sum;
    return SELVAGE_SUCCESS;
}

selvage_status_t reduce_to_sum(reducer_t *reducer, const double *x, size_t count, double *sum_out)
{
    return add_up(reducer, &reduce_sum, x, NULL, count, sum_out);
}

selvage_status_t reduce_to_dot(reducer_t *reducer, const double *x, const double *y, size_t count, double *sum_out)
{
    return add_up(reducer, &reduce_dot, x, y, count, sum_out);
}

selvage_status_t reduce_to_max(reducer_t *reducer, const double *x, size_t count, double *max_out)
{
    size_t n;
    double max = 0;
    selvage_status_t status = reduce(reducer, &reduce_max, &reduce_max, x, NULL, count, &n);
    if (status != SELVAGE_SUCCESS)
        return status;
    for (size_t i = 0; i < n; i++)
        if (!(reducer->last[i] <= max))
            max = reducer->last[i];
    *max_out = max;
    return SELVAGE_SUCCESS;
}
