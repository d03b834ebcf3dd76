/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The few calls of the GPU's own interface that tools need beside the public API, found at run time: a tool links no
 * GPU library and runs where there is none. They are named after CUDA; on AMD the HIP calls of the same meaning and
 * layout stand in their places. On NVIDIA the driver's own library is used and not the runtime's, because it is there
 * wherever a GPU works and its name has no version. Numbers and layouts are those of the stable interfaces.
 *
 * Contexts are the devices' primary ones, which the runtimes use as well, so that what is made current here is current
 * for the library's plug-in too. The library stays open until the process ends. One thread.
 */
#ifndef SELVAGE_TOOL_CUDA_H
#define SELVAGE_TOOL_CUDA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tool_cuda_ipc {
    char opaque[64];
} tool_cuda_ipc_t;

/* Results are 0 for success. Device addresses are integers of 64 bits, streams and contexts pointers. */
typedef struct tool_cuda {
    const char *kind; /* "nvidia" or "amd", as the library names its devices */
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int bytes, int device);
    int (*device_bus_id)(char *name, int bytes, int device);
    int (*context_retain)(void **context, int device);
    int (*context_set)(void *context);
    int (*device_set)(int ordinal); /* AMD, instead of the two above; NULL on NVIDIA */
    int (*mem_alloc)(unsigned long long *ptr, size_t bytes);
    int (*mem_free)(unsigned long long ptr);
    int (*host_alloc)(void **ptr, size_t bytes, unsigned flags); /* pinned */
    int (*host_free)(void *ptr);
    int (*copy_down)(void *dst, unsigned long long src, size_t bytes); /* both block */
    int (*copy_up)(unsigned long long dst, const void *src, size_t bytes);
    int (*ipc_get)(tool_cuda_ipc_t *handle, unsigned long long ptr);
    int (*ipc_open)(unsigned long long *ptr, tool_cuda_ipc_t handle, unsigned flags);
    int (*ipc_close)(unsigned long long ptr);
    int (*copy)(unsigned long long dst, unsigned long long src, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_sync)(void *stream);
    int (*stream_destroy)(void *stream);
} tool_cuda_t;

/* The GPU this process uses. */
typedef struct tool_gpu {
    int index;     /* among the visible ones; -1: none was chosen */
    char name[64]; /* "" if none was */
    char bus[24];  /* PCI bus id, the same in every process */
    char kind[8];  /* "nvidia" or "amd"; "" if none was */
} tool_gpu_t;

/* The calls for one kind of GPU. False where there is no driver, or it has no GPU, or one of the calls is missing. */
bool tool_cuda_load(const char *kind, tool_cuda_t *cuda_out);

/* Makes one of the visible GPUs current, by the launcher's local rank, before the communicator is created. Nothing
   happens where SELVAGE_DEVICE names the software device or no driver of the kind it names is there. Local. */
void tool_choose_gpu(tool_gpu_t *gpu_out);

#endif
