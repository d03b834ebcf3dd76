/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the Jacobi programs in CUDA, and in HIP: `nvcc -c jacobi_cuda.cu` or `hipcc -x hip -c jacobi_cuda.cu`. */
#include "jacobi_device.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef __HIPCC__
#include <hip/hip_runtime.h>
#define cudaError_t hipError_t
#define cudaSuccess hipSuccess
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaSetDevice hipSetDevice
#define cudaMalloc hipMalloc
#define cudaFree hipFree
#define cudaMallocHost(p, bytes) hipHostMalloc((p), (bytes), 0)
#define cudaFreeHost hipHostFree
#define cudaMemcpy hipMemcpy
#define cudaMemcpyDefault hipMemcpyDefault
#define cudaMemsetAsync hipMemsetAsync
#define cudaStreamSynchronize hipStreamSynchronize
#else
#include <cuda_runtime.h>
#endif

#include "jacobi_cell.h"

enum { LANES = 256 };

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "jacobi: %s: %s\n", what, cudaGetErrorString(error));
    abort();
}

void jacobi_choose(int local_rank)
{
    int count = 0;
    check(cudaGetDeviceCount(&count), "no GPU");
    check(cudaSetDevice(local_rank % count), "choosing a GPU");
}

const char *jacobi_kind(void)
{
    return "GPU";
}

double *jacobi_new(size_t numbers)
{
    double *made = NULL;
    check(cudaMalloc((void **)&made, numbers * sizeof *made), "allocation");
    return made;
}

void jacobi_delete(double *u)
{
    check(cudaFree(u), "free");
}

double *jacobi_new_pinned(size_t numbers)
{
    double *made = NULL;
    check(cudaMallocHost((void **)&made, numbers * sizeof *made), "allocation");
    return made;
}

void jacobi_delete_pinned(double *u)
{
    check(cudaFreeHost(u), "free");
}

void jacobi_get(double *host, const double *device, size_t numbers)
{
    check(cudaMemcpy(host, device, numbers * sizeof *host, cudaMemcpyDefault), "copy");
}

void jacobi_put(double *device, const double *host, size_t numbers)
{
    check(cudaMemcpy(device, host, numbers * sizeof *host, cudaMemcpyDefault), "copy");
}

__global__ void fill_kernel(double *u, jacobi_block_t b)
{
    int x = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (x < b.nx + 2)
        jacobi_fill_cell(u, &b, x, (int)blockIdx.y);
}

__global__ void step_kernel(const double *u, double *next, double *change, jacobi_block_t b)
{
    __shared__ double sums[LANES];
    int x = 1 + (int)(blockIdx.x * blockDim.x + threadIdx.x);
    sums[threadIdx.x] = x <= b.nx ? jacobi_step_cell(u, next, &b, x, 1 + (int)blockIdx.y) : 0;
    __syncthreads();
    for (int half = LANES / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(change, sums[0]);
}

void jacobi_fill(double *u, const jacobi_block_t *b)
{
    dim3 blocks((unsigned)(b->nx + 2 + LANES - 1) / LANES, (unsigned)b->nrows + 2);
    fill_kernel<<<blocks, LANES>>>(u, *b);
    check(cudaGetLastError(), "launch");
}

void jacobi_step(const double *u, double *next, double *change, const jacobi_block_t *b)
{
    dim3 blocks((unsigned)(b->nx + LANES - 1) / LANES, (unsigned)b->nrows);
    check(cudaMemsetAsync(change, 0, sizeof *change, 0), "clearing");
    step_kernel<<<blocks, LANES>>>(u, next, change, *b);
    check(cudaGetLastError(), "launch");
}

void jacobi_wait(void)
{
    check(cudaStreamSynchronize(0), "step");
}
