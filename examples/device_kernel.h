/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels of an application whose blocks work together, and with other ranks, from one source: beside the loops of
 * device_loop.h. A kernel is a body that every thread calls once, with an argument struct and its block. In X_loops.h,
 * which both languages read:
 *
 *     typedef struct smooth { selvage_device_exchange_t halo; double *u; } smooth_t;     at most 448 bytes
 *     DECLARE_KERNEL(smooth);
 *
 * in X_loops.cc:
 *
 *     DEVICE_KERNEL(smooth, smooth_t)
 *     {
 *         selvage_outgoing_t out = selvage_outgoing_open(arg.halo, block, 0, 0); ...
 *     }
 *
 * and in X.c: CHECK(device_kernel_run(&smooth, &arg, sizeof arg, blocks, device, stream)). The blocks of a kernel that
 * waits must all be on the device at once: device_kernel_blocks() says how many can be.
 */
#ifndef DEVICE_KERNEL_H
#define DEVICE_KERNEL_H

#include "device_loop.h"
#include <selvage/device_api.h>

enum { KERNEL_THREADS = LOOP_THREADS };

#ifndef __cplusplus

/* As device_loop_t. */
typedef struct device_kernel {
    const char *name;
    selvage_soft_kernel_t soft;
    const char *(*nvidia)(const void *arg, unsigned blocks, void *stream); /* returns NULL, or what went wrong */
    unsigned (*nvidia_blocks)(void);
} device_kernel_t;

#ifdef EXAMPLES_NVIDIA
#define KERNEL_NVIDIA_(name) name##_nvidia, name##_nvidia_blocks
#else
#define KERNEL_NVIDIA_(name) NULL, NULL
#endif

#define DECLARE_KERNEL(name)                                                          \
    void name##_soft(const void *arg, unsigned block, unsigned nblocks);              \
    const char *name##_nvidia(const void *arg, unsigned blocks, void *stream);        \
    unsigned name##_nvidia_blocks(void);                                              \
    static const device_kernel_t name __attribute__((unused)) = {#name, name##_soft, KERNEL_NVIDIA_(name)}

/* How many blocks of the kernel can be on the device at once, if nothing else is: one for each multiprocessor. On the
   software device as many as loops have. */
unsigned device_kernel_blocks(const device_kernel_t *kernel, selvage_device_t *device);

/* Enqueues so many blocks of KERNEL_THREADS threads (on the software device: of one). As device_loop_run(). */
selvage_status_t device_kernel_run(const device_kernel_t *kernel, const void *arg, size_t arg_bytes, unsigned blocks,
                                   selvage_device_t *device, void *stream);

#else

#define DECLARE_KERNEL(name)                                                                      \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks);               \
    extern "C" const char *name##_nvidia(const void *arg, unsigned blocks, void *stream);         \
    extern "C" unsigned name##_nvidia_blocks(void)

#define KERNEL_BODY_(name, arg_type)                                              \
    static_assert(sizeof(arg_type) <= LOOP_ARG_BYTES_MAX, "kernel argument");     \
    LOOP_FN void name##_body(const arg_type &arg, const selvage_coop_t &block)

#if defined(__CUDACC__)

#define DEVICE_KERNEL(name, arg_type)                                                                             \
    KERNEL_BODY_(name, arg_type);                                                                                 \
    static __global__ void __launch_bounds__(KERNEL_THREADS, 1) name##_kernel(const __grid_constant__ arg_type arg) \
    {                                                                                                             \
        name##_body(arg, selvage_coop_block());                                                                   \
    }                                                                                                             \
    extern "C" const char *name##_nvidia(const void *arg, unsigned blocks, void *stream)                          \
    {                                                                                                             \
        name##_kernel<<<blocks, KERNEL_THREADS, 0, static_cast<cudaStream_t>(stream)>>>(                          \
            *static_cast<const arg_type *>(arg));                                                                 \
        cudaError_t error = cudaGetLastError();                                                                   \
        return error == cudaSuccess ? nullptr : cudaGetErrorString(error);                                        \
    }                                                                                                             \
    extern "C" unsigned name##_nvidia_blocks(void)                                                                \
    {                                                                                                             \
        int device = 0, count = 0;                                                                                \
        if (cudaGetDevice(&device) != cudaSuccess ||                                                              \
            cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)                \
            count = 1;                                                                                            \
        return static_cast<unsigned>(count);                                                                      \
    }                                                                                                             \
    KERNEL_BODY_(name, arg_type)

#elif defined(__HIP__)

#define DEVICE_KERNEL(name, arg_type)                                                                       \
    KERNEL_BODY_(name, arg_type);                                                                           \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, KERNEL_THREADS))) void \
        name(const arg_type arg)                                                                            \
    {                                                                                                       \
        name##_body(arg, selvage_coop_block());                                                             \
    }                                                                                                       \
    KERNEL_BODY_(name, arg_type)

#else

#define DEVICE_KERNEL(name, arg_type)                                                              \
    KERNEL_BODY_(name, arg_type);                                                                  \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks)                 \
    {                                                                                              \
        name##_body(*static_cast<const arg_type *>(arg), selvage_coop_soft(block, nblocks));       \
    }                                                                                              \
    KERNEL_BODY_(name, arg_type)

#endif
#endif
#endif
