/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for Fortran programs that know nothing of Selvage's module: numbers there and back. And a call in C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <selvage.h>

static selvage_device_t *device;

void *numbers_make(int count);
void numbers_put(void *there, const double *here, int count);
void numbers_get(double *here, const void *there, int count);
void numbers_free(void *there);
int ring_in_c(int ranks);

static void check(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "%s\n", selvage_error_detail());
    abort();
}

void *numbers_make(int count)
{
    void *there = NULL;
    if (!device)
        check(selvage_device_open_local(NULL, &device));
    check(selvage_device_malloc(device, (size_t)count * sizeof(double), &there));
    return there;
}

/* Pinned memory from which device memory is filled, some time later and without being waited for, unless the program is
   said to wait: see dropin_case.c. */
static double *late[2];
static unsigned turn;

static void copy(void *to, const void *from, int count, selvage_copy_t direction)
{
    check(selvage_device_copy(device, to, from, (size_t)count * sizeof(double), direction, NULL));
    check(selvage_stream_synchronize(device, NULL));
}

void numbers_put(void *there, const double *here, int count)
{
    size_t bytes = (size_t)count * sizeof(double);
    double **source = &late[turn++ % 2];
    check(selvage_stream_synchronize(device, NULL));
    if (!*source)
        check(selvage_device_host_malloc(device, bytes, (void **)source));
    memcpy(*source, here, bytes);
    check(selvage_device_delay_us(device, 500, NULL));
    check(selvage_device_copy(device, there, *source, bytes, SELVAGE_COPY_HOST_TO_DEVICE, NULL));
    const char *policy = getenv("SELVAGE_DROPIN_SYNC");
    if (policy && strcmp(policy, "default") == 0)
        check(selvage_stream_synchronize(device, NULL));
}

void numbers_get(double *here, const void *there, int count)
{
    copy(here, there, count, SELVAGE_COPY_DEVICE_TO_HOST);
}

void numbers_free(void *there)
{
    selvage_device_free(device, there);
}

/* Some ranks' part of MPI_Cart_create; the others call it in Fortran. */
int ring_in_c(int ranks)
{
    const int wraps = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &wraps, 0, &ring);
    return MPI_Comm_c2f(ring);
}
