/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory for a plain MPI program: of the GPU that the launcher's local rank names, by the driver's own calls, or
 * of Selvage's software device where there is none. This is all of Selvage's that selvage-bench-mpi uses. Errors end
 * the job.
 */
#ifndef SELVAGE_BENCH_MPI_MEMORY_H
#define SELVAGE_BENCH_MPI_MEMORY_H

#include <stddef.h>

#include "tools/common/tool_cuda.h"

typedef struct bench_mpi_device {
    tool_gpu_t gpu; /* index -1: the software device */
    tool_cuda_t cuda;
    void *stream; /* of the GPU; NULL on the software device */
    void *soft;   /* a selvage_device_t */
} bench_mpi_device_t;

/* Before MPI_Init, because an MPI may want to know the GPU. Partner: bench_mpi_device_close(). */
void bench_mpi_device_open(bench_mpi_device_t *device);
void bench_mpi_device_close(bench_mpi_device_t *device);
/* Which device, for people. */
const char *bench_mpi_device_name(const bench_mpi_device_t *device);

char *bench_mpi_device_malloc(const bench_mpi_device_t *device, size_t bytes);
void bench_mpi_device_free(const bench_mpi_device_t *device, char *ptr);
char *bench_mpi_pinned_malloc(const bench_mpi_device_t *device, size_t bytes);
void bench_mpi_pinned_free(const bench_mpi_device_t *device, char *ptr);
char *bench_mpi_host_malloc(size_t bytes);

/* From device to host and the other way; done on return. */
void bench_mpi_copy_down(const bench_mpi_device_t *device, void *host, const void *there, size_t bytes);
void bench_mpi_copy_up(const bench_mpi_device_t *device, void *there, const void *host, size_t bytes);

/* Says why, and ends the job. */
_Noreturn void bench_mpi_die(const char *what, const char *why);

#endif
