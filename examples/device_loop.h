/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops of an application that run on its device, from one source. A loop is a body that is called for i = 0 .. n - 1,
 * in any order and at the same time, with an argument struct whose first member is `size_t n`. In X_loops.h, which both
 * languages read:
 *
 *     typedef struct scale { size_t n; double factor; double *x; } scale_t;     at most 448 bytes
 *     DECLARE_LOOP(scale);
 *
 * in X_loops.cc, which is compiled for the software device, by nvcc and by clang for AMD GPUs:
 *
 *     DEVICE_LOOP(scale, scale_t)
 *     {
 *         arg.x[i] *= arg.factor;
 *     }
 *
 * and in X.c: CHECK(device_loop_run(&scale, &arg, sizeof arg, device, stream)). Bodies are freestanding C++: functions
 * marked LOOP_FN, templates, __builtin_sqrt(), no other library function, no static data. Products and sums are never
 * fused, so that each body gives the same bits on every device.
 */
#ifndef DEVICE_LOOP_H
#define DEVICE_LOOP_H

#include <stddef.h>
#include <stdint.h>

enum { LOOP_THREADS = 256, LOOP_ARG_BYTES_MAX = 448 };

#ifndef __cplusplus

#include <selvage.h>

/* A loop as C sees it: the function for each kind of device, NULL where the program was built without. */
typedef struct device_loop {
    const char *name; /* also the kernel's in the code objects for AMD GPUs */
    selvage_soft_kernel_t soft;
    const char *(*nvidia)(const void *arg, void *stream); /* returns NULL, or what went wrong */
} device_loop_t;

#ifdef EXAMPLES_NVIDIA
#define LOOP_NVIDIA_(name) name##_nvidia
#else
#define LOOP_NVIDIA_(name) NULL
#endif

#define DECLARE_LOOP(name)                                                        \
    void name##_soft(const void *arg, unsigned block, unsigned nblocks);          \
    const char *name##_nvidia(const void *arg, void *stream);                     \
    static const device_loop_t name __attribute__((unused)) = {#name, name##_soft, LOOP_NVIDIA_(name)}

/*
 * Enqueues a loop on a stream; returns at once; arg is copied. With n = 0 nothing happens. Where the program has no
 * code for this kind of device, that is said on standard error and the status is SELVAGE_ERR_UNSUPPORTED.
 */
selvage_status_t device_loop_run(const device_loop_t *loop, const void *arg, size_t arg_bytes,
                                 selvage_device_t *device, void *stream);

#else

#define DECLARE_LOOP(name)                                                           \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks);  \
    extern "C" const char *name##_nvidia(const void *arg, void *stream)

#define LOOP_BODY_(name, arg_type)                                                                        \
    static_assert(sizeof(arg_type) <= LOOP_ARG_BYTES_MAX && offsetof(arg_type, n) == 0, "loop argument"); \
    LOOP_FN void name##_body(const arg_type &arg, size_t i)

#if defined(__CUDACC__)

#define LOOP_FN static __device__ __forceinline__
#define LOOP_UNROLL _Pragma("unroll") /* arrays that are indexed by the loop stay in registers */
#define DEVICE_LOOP(name, arg_type)                                                                             \
    LOOP_BODY_(name, arg_type);                                                                                 \
    static __global__ void __launch_bounds__(LOOP_THREADS) name##_kernel(const __grid_constant__ arg_type arg)  \
    {                                                                                                           \
        size_t i = (size_t)blockIdx.x * LOOP_THREADS + threadIdx.x;                                             \
        if (i < arg.n)                                                                                          \
            name##_body(arg, i);                                                                                \
    }                                                                                                           \
    extern "C" const char *name##_nvidia(const void *arg, void *stream)                                         \
    {                                                                                                           \
        const arg_type *a = static_cast<const arg_type *>(arg);                                                 \
        unsigned blocks = (unsigned)((a->n + LOOP_THREADS - 1) / LOOP_THREADS);                                 \
        name##_kernel<<<blocks, LOOP_THREADS, 0, static_cast<cudaStream_t>(stream)>>>(*a);                      \
        cudaError_t error = cudaGetLastError();                                                                 \
        return error == cudaSuccess ? nullptr : cudaGetErrorString(error);                                      \
    }                                                                                                           \
    LOOP_BODY_(name, arg_type)

#elif defined(__HIP__)

/* Code objects are loaded and launched by device_loop_amd.c; no header of HIP's is needed here. */
#define LOOP_FN static inline __attribute__((device, always_inline))
#define LOOP_UNROLL /* it takes more registers and needs no stack for what an array is indexed with */
#define DEVICE_LOOP(name, arg_type)                                                                             \
    LOOP_BODY_(name, arg_type);                                                                                 \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, LOOP_THREADS))) void       \
        name(const arg_type arg)                                                                                \
    {                                                                                                           \
        size_t i = (size_t)__builtin_amdgcn_workgroup_id_x() * LOOP_THREADS + __builtin_amdgcn_workitem_id_x(); \
        if (i < arg.n)                                                                                          \
            name##_body(arg, i);                                                                                \
    }                                                                                                           \
    LOOP_BODY_(name, arg_type)

#else

#define LOOP_FN static inline
#define LOOP_UNROLL
/* Block b takes a contiguous share. Without the product n * b, which might not fit. */
#define DEVICE_LOOP(name, arg_type)                                                          \
    LOOP_BODY_(name, arg_type);                                                              \
    extern "C" void name##_soft(const void *arg, unsigned block, unsigned nblocks)           \
    {                                                                                        \
        const arg_type a = *static_cast<const arg_type *>(arg);                              \
        size_t share = a.n / nblocks, rest = a.n % nblocks;                                  \
        size_t first = share * block + (block < rest ? block : rest);                        \
        size_t end = first + share + (block < rest ? 1 : 0);                                 \
        for (size_t i = first; i < end; i++)                                                 \
            name##_body(a, i);                                                               \
    }                                                                                        \
    LOOP_BODY_(name, arg_type)

#endif
#endif
#endif
