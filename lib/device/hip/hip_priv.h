/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the HIP device share. The plug-in sees nothing of the library but headers and sv_plugin_host_t. */
#ifndef SV_HIP_PRIV_H
#define SV_HIP_PRIV_H

#include <stdatomic.h>

#include "device/device_plugin.h"
#include "device/hip/hip_api.h"

/*
 * The kernels use blocks of 256 lanes, four on each multiprocessor. Bandwidth is bytes in flight divided by latency:
 * 4.8 TB/s at 0.8 us need 29 KB on each of 132 multiprocessors. A lane of the copying kernels has 64 bytes in flight
 * about half of the time and computes in the other half. So 1024 lanes are enough and 512 are not.
 */
enum { HIP_KERNELS_MAX = 48, HIP_LANES = 256, HIP_BLOCKS_EACH = 4 };

typedef struct hip_kernel {
    const char *name;
    _Atomic(const char *) known_as; /* the library's pointer to the same name, once it was looked for */
    hipModule_t module;
    hipFunction_t function;
} hip_kernel_t;

/* Launches of one kind, and what is ready for them (hip_prepared.c). */
enum { HIP_PREPARED_SETS = 64, HIP_PREPARED_WAYS = 4 };
typedef struct hip_launch_key {
    hipFunction_t function;
    uint64_t stream;              /* its number */
    unsigned nblocks, nthreads;
} hip_launch_key_t;
typedef struct hip_prepared {
    _Atomic uint64_t tag;         /* made of the key; 0: none */
    atomic_flag busy;             /* guards all that follows; without it credit is looked at for a guess only */
    hip_launch_key_t key;
    _Atomic unsigned credit;      /* how long it keeps its place */
    unsigned launches;            /* plain ones, as long as there is no graph */
    uint64_t prepared;            /* launches, of whatever kinds the place has had */
    sv_hip_prepared_t graph;
} hip_prepared_t;

typedef struct hip_device {
    sv_device_t base;             /* first */
    const sv_plugin_host_t *host;
    int index;                    /* of the GPU */
    int priority;                 /* highest stream priority */
    bool writes_words;            /* the front end of a stream can store a word by itself */
    uint64_t pid_space;           /* in which this process has its number: containers number theirs alike */
    size_t inline_bytes;          /* copies up of fewer bytes take no copy engine */
    bool starts_early;            /* kernels can be brought in before the one ahead of them is complete */
    bool starts_early_in_graphs;  /* and captured so */
    bool prepares;                /* launches that come again */
    bool prepares_all;            /* of kernels that could start early, too */
    hip_kernel_t kernel[HIP_KERNELS_MAX];
    unsigned nkernels;
    hip_prepared_t prepared[HIP_PREPARED_SETS][HIP_PREPARED_WAYS];
#if defined(__HIP_PLATFORM_AMD__)
    int (*range_push)(const char *name); /* of rocTX; both are set if base.ranges */
    int (*range_pop)(void);
    bool has_numbers;             /* allocations have numbers that do not come again */
#else
    void *range_domain;           /* of NVTX; NULL where no tool listens */
#endif
} hip_device_t;

/* A device image embedded in the plug-in; there may be several per kernel, for different GPUs. */
typedef struct hip_image {
    const char *name;             /* of the kernel in it */
    const void *data;
} hip_image_t;
extern const hip_image_t sv_hip_images[];
extern const unsigned sv_hip_image_count;

static inline hip_device_t *hip_of(sv_device_t *dev)
{
    return (hip_device_t *)(void *)dev;
}

/* Takes back the error of a call whose failing changes nothing, so that the application does not find it. */
static inline void hip_ignore(hipError_t error)
{
    if (error != hipSuccess)
        (void)hipGetLastError();
}

/* Makes the device current and says what was current before. The caller reports what then fails. */
static inline hipError_t hip_enter(const hip_device_t *dev, int *before_out)
{
    *before_out = dev->index;
    hipError_t error = hipGetDevice(before_out);
    if (error != hipSuccess)
        *before_out = dev->index;
    return error == hipSuccess && *before_out != dev->index ? hipSetDevice(dev->index) : error;
}
static inline void hip_leave(const hip_device_t *dev, int before)
{
    if (before != dev->index)
        hip_ignore(hipSetDevice(before));
}

/* The error of a runtime call with the device current. If that cannot be, the call is not made. */
#define HIP_RUN(dev, call)                                        \
    __extension__({                                               \
        int hip_before_;                                          \
        hipError_t hip_error_ = hip_enter((dev), &hip_before_);   \
        if (hip_error_ == hipSuccess)                             \
            hip_error_ = (call);                                  \
        hip_leave((dev), hip_before_);                            \
        hip_error_;                                               \
    })

/* As above for calls that give something back. They know the device by what they are given, and are made anyhow. */
#define HIP_RELEASE(dev, call)                                    \
    __extension__({                                               \
        int hip_before_;                                          \
        hip_ignore(hip_enter((dev), &hip_before_));               \
        hipError_t hip_error_ = (call);                           \
        hip_leave((dev), hip_before_);                            \
        hip_error_;                                               \
    })

/* Turns a native error into a status, with the call's name and the native text in the detail. */
selvage_status_t sv_hip_status(const hip_device_t *dev, hipError_t error, const char *call);

/* Sets base.ranges. */
void sv_hip_open_ranges(hip_device_t *dev, sv_ranges_t wanted);
void sv_hip_range_push(sv_device_t *dev, const char *name);
void sv_hip_range_pop(sv_device_t *dev);

selvage_status_t sv_hip_load_kernels(hip_device_t *dev);
void sv_hip_unload_kernels(hip_device_t *dev);

selvage_status_t sv_hip_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                               unsigned nblocks, void *stream);
/* Launches by a graph that is ready. False: there is none, and nothing was launched. */
bool sv_hip_launch_prepared(hip_device_t *dev, hipFunction_t function, unsigned nblocks, unsigned nthreads,
                            void **parameters, void *stream);
/* Before the first launch, and when nothing is launched any more. */
void sv_hip_open_prepared(hip_device_t *dev);
void sv_hip_close_prepared(hip_device_t *dev);
selvage_status_t sv_hip_signal(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream);
selvage_status_t sv_hip_delay(sv_device_t *dev, double us, void *stream);
bool sv_hip_stream_is_capturing(sv_device_t *dev, void *stream);
selvage_status_t sv_hip_graph_begin(sv_device_t *dev, void *stream);
selvage_status_t sv_hip_graph_end(sv_device_t *dev, void *stream, void **graph_out);
selvage_status_t sv_hip_graph_launch(sv_device_t *dev, void *graph, void *stream);
void sv_hip_graph_destroy(sv_device_t *dev, void *graph);
selvage_status_t sv_hip_malloc(sv_device_t *dev, size_t bytes, void **ptr_out);
uint64_t sv_hip_pid_space(void); /* a call of the system */
selvage_status_t sv_hip_malloc_fine(sv_device_t *dev, size_t bytes, void **ptr_out);
void sv_hip_free(sv_device_t *dev, void *ptr);
selvage_status_t sv_hip_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out);
void sv_hip_host_free(sv_device_t *dev, void *ptr);
selvage_status_t sv_hip_host_register(sv_device_t *dev, void *ptr, size_t bytes);
void sv_hip_host_unregister(sv_device_t *dev, void *ptr);
selvage_status_t sv_hip_host_address(sv_device_t *dev, void *ptr, void **address_out);
selvage_status_t sv_hip_export(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                               uint64_t *offset_out);
selvage_status_t sv_hip_open_memory(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                    uint64_t *bytes_out);
void sv_hip_close_memory(sv_device_t *dev, void *base);
uint64_t sv_hip_memory_id(sv_device_t *dev, const void *ptr);
#if defined(__HIP_PLATFORM_AMD__)
/* Finds out has_numbers, with the GPU current. An error: memory cannot be allocated, or freed. */
selvage_status_t sv_hip_try_numbers(hip_device_t *dev);
#endif
int sv_hip_gpu_of(const void *ptr); /* SV_PLUGIN_CURRENT: not known */
sv_memory_kind_t sv_hip_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes);

#endif
