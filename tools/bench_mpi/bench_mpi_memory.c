/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_mpi_memory.h. */
#include "tools/bench_mpi/bench_mpi_memory.h"

#include <mpi.h>
#include <selvage/device.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 4096 };

_Noreturn void bench_mpi_die(const char *what, const char *why)
{
    int initialised = 0;
    fprintf(stderr, "selvage-bench-mpi: %s: %s\n", what, why);
    MPI_Initialized(&initialised);
    if (initialised)
        MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void must(const char *what, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        bench_mpi_die(what, selvage_error_detail());
}

static void must_gpu(const char *what, int result)
{
    char why[48];
    if (result == 0)
        return;
    snprintf(why, sizeof why, "the GPU's driver says %d", result);
    bench_mpi_die(what, why);
}

void bench_mpi_device_open(bench_mpi_device_t *device)
{
    selvage_device_t *soft;
    *device = (bench_mpi_device_t){.stream = NULL};
    tool_choose_gpu(&device->gpu);
    if (device->gpu.index >= 0) {
        if (!tool_cuda_load(device->gpu.kind, &device->cuda))
            bench_mpi_die("device", "the GPU's driver went away");
        must_gpu("stream", device->cuda.stream_create(&device->stream, 0));
        return;
    }
    must("device", selvage_device_open("soft", &soft));
    device->soft = soft;
}

void bench_mpi_device_close(bench_mpi_device_t *device)
{
    if (device->stream)
        (void)device->cuda.stream_destroy(device->stream);
    selvage_device_close(device->soft);
}

const char *bench_mpi_device_name(const bench_mpi_device_t *device)
{
    return device->soft ? "software device" : device->gpu.name;
}

char *bench_mpi_device_malloc(const bench_mpi_device_t *device, size_t bytes)
{
    unsigned long long address = 0;
    void *made = NULL;
    if (device->soft)
        must("device memory", selvage_device_malloc(device->soft, bytes, &made));
    else
        must_gpu("device memory", device->cuda.mem_alloc(&address, bytes));
    return device->soft ? made : (char *)(uintptr_t)address;
}

void bench_mpi_device_free(const bench_mpi_device_t *device, char *ptr)
{
    if (device->soft)
        selvage_device_free(device->soft, ptr);
    else if (ptr)
        (void)device->cuda.mem_free((uintptr_t)ptr);
}

char *bench_mpi_pinned_malloc(const bench_mpi_device_t *device, size_t bytes)
{
    void *made = NULL;
    if (device->soft)
        must("pinned memory", selvage_device_host_malloc(device->soft, bytes, &made));
    else
        must_gpu("pinned memory", device->cuda.host_alloc(&made, bytes, 0));
    return made;
}

void bench_mpi_pinned_free(const bench_mpi_device_t *device, char *ptr)
{
    if (device->soft)
        selvage_device_host_free(device->soft, ptr);
    else if (ptr)
        (void)device->cuda.host_free(ptr);
}

char *bench_mpi_host_malloc(size_t bytes)
{
    void *made = NULL;
    if (posix_memalign(&made, ALIGNMENT, bytes) != 0)
        bench_mpi_die("host memory", "there is not enough");
    return made;
}

static void copy_soft(selvage_device_t *soft, void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    must("copy", selvage_device_copy(soft, to, from, bytes, direction, NULL));
    must("copy", selvage_stream_synchronize(soft, NULL));
}

void bench_mpi_copy_down(const bench_mpi_device_t *device, void *host, const void *there, size_t bytes)
{
    if (bytes == 0)
        return;
    if (device->soft)
        copy_soft(device->soft, host, there, bytes, SELVAGE_COPY_DEVICE_TO_HOST);
    else
        must_gpu("copy", device->cuda.copy_down(host, (uintptr_t)there, bytes));
}

void bench_mpi_copy_up(const bench_mpi_device_t *device, void *there, const void *host, size_t bytes)
{
    if (bytes == 0)
        return;
    if (device->soft)
        copy_soft(device->soft, there, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    else
        must_gpu("copy", device->cuda.copy_up((uintptr_t)there, host, bytes));
}
