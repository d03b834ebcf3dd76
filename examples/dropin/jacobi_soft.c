/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the Jacobi programs on CPU threads: Selvage's software device, for machines without a GPU. */
#include <selvage.h>
#include <stdio.h>
#include <stdlib.h>

#include "jacobi_cell.h"

static selvage_device_t *device;

typedef struct job {
    const double *u;
    double *next, *change;
    jacobi_block_t block;
} job_t;

static void check(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "jacobi: %s\n", selvage_status_name(status)); /* the library has said why */
    abort();
}

void jacobi_choose(int local_rank)
{
    (void)local_rank;
    check(selvage_device_open("soft", &device));
}

const char *jacobi_kind(void)
{
    return "software device";
}

double *jacobi_new(size_t numbers)
{
    void *made = NULL;
    check(selvage_device_malloc(device, numbers * sizeof(double), &made));
    return made;
}

void jacobi_delete(double *u)
{
    selvage_device_free(device, u);
}

double *jacobi_new_pinned(size_t numbers)
{
    void *made = NULL;
    check(selvage_device_host_malloc(device, numbers * sizeof(double), &made));
    return made;
}

void jacobi_delete_pinned(double *u)
{
    selvage_device_host_free(device, u);
}

static void copy(double *to, const double *from, size_t numbers, selvage_copy_t direction)
{
    check(selvage_device_copy(device, to, from, numbers * sizeof *to, direction, NULL));
    check(selvage_stream_synchronize(device, NULL));
}

void jacobi_get(double *host, const double *there, size_t numbers)
{
    copy(host, there, numbers, SELVAGE_COPY_DEVICE_TO_HOST);
}

void jacobi_put(double *there, const double *host, size_t numbers)
{
    copy(there, host, numbers, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void fill_kernel(const void *arg, unsigned block, unsigned nblocks)
{
    const job_t *job = arg;
    for (int y = (int)block; y <= job->block.nrows + 1; y += (int)nblocks)
        for (int x = 0; x <= job->block.nx + 1; x++)
            jacobi_fill_cell(job->next, &job->block, x, y);
}

/* One block, so that the sum has one order. */
static void step_kernel(const void *arg, unsigned block, unsigned nblocks)
{
    const job_t *job = arg;
    double sum = 0;
    (void)block, (void)nblocks;
    for (int y = 1; y <= job->block.nrows; y++)
        for (int x = 1; x <= job->block.nx; x++)
            sum += jacobi_step_cell(job->u, job->next, &job->block, x, y);
    *job->change = sum;
}

void jacobi_fill(double *u, const jacobi_block_t *block)
{
    job_t job = {NULL, u, NULL, *block};
    check(selvage_device_launch_soft(device, fill_kernel, &job, sizeof job, 1, NULL));
}

void jacobi_step(const double *u, double *next, double *change, const jacobi_block_t *block)
{
    job_t job = {u, next, change, *block};
    check(selvage_device_launch_soft(device, step_kernel, &job, sizeof job, 1, NULL));
}

void jacobi_wait(void)
{
    check(selvage_stream_synchronize(device, NULL));
}
