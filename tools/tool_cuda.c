/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding the driver, and choosing a GPU. The launcher's local rank decides, modulo the number of visible GPUs, so that
 * launchers that already show each process a GPU of its own are served as well.
 */
#include "tool_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static bool load_calls(void *library, tool_cuda_t *cuda)
{
    const struct {
        void *slot;
        const char *name;
    } calls[] = {
        {&cuda->init, "cuInit"},
        {&cuda->device_count, "cuDeviceGetCount"},
        {&cuda->device_get, "cuDeviceGet"},
        {&cuda->device_name, "cuDeviceGetName"},
        {&cuda->device_bus_id, "cuDeviceGetPCIBusId"},
        {&cuda->context_retain, "cuDevicePrimaryCtxRetain"},
        {&cuda->context_set, "cuCtxSetCurrent"},
        {&cuda->mem_alloc, "cuMemAlloc_v2"},
        {&cuda->mem_free, "cuMemFree_v2"},
        {&cuda->ipc_get, "cuIpcGetMemHandle"},
        {&cuda->ipc_open, "cuIpcOpenMemHandle_v2"},
        {&cuda->ipc_close, "cuIpcCloseMemHandle"},
        {&cuda->copy, "cuMemcpyAsync"},
        {&cuda->stream_create, "cuStreamCreate"},
        {&cuda->stream_sync, "cuStreamSynchronize"},
        {&cuda->stream_destroy, "cuStreamDestroy_v2"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(library, calls[i].name);
        if (!found)
            return false;
        memcpy(calls[i].slot, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
    }
    return true;
}

bool tool_cuda_load(tool_cuda_t *cuda_out)
{
    tool_cuda_t cuda;
    int count = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    if (!load_calls(library, &cuda) || cuda.init(0) != 0 || cuda.device_count(&count) != 0 || count == 0) {
        dlclose(library);
        return false;
    }
    *cuda_out = cuda;
    return true;
}

/* Rank among the processes of this host, as the launcher says it; in the order of selvage_device_open_local(), so that
   both choose one GPU. */
static int launcher_local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "PMI_LOCAL_RANK",
                                        "PALS_LOCAL_RANKID",          "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value)
            return atoi(value);
    }
    return 0;
}

void tool_choose_gpu(tool_gpu_t *gpu_out)
{
    tool_cuda_t cuda;
    void *context;
    int count, device;
    const char *wanted = getenv("SELVAGE_DEVICE");
    tool_gpu_t gpu = {.index = -1};
    *gpu_out = gpu;
    if (wanted && strcmp(wanted, "auto") != 0 && strcmp(wanted, "nvidia") != 0)
        return;
    if (!tool_cuda_load(&cuda) || cuda.device_count(&count) != 0)
        return;
    const int index = launcher_local_rank() % count;
    if (index < 0 || cuda.device_get(&device, index) != 0 || cuda.context_retain(&context, device) != 0 ||
        cuda.context_set(context) != 0)
        return;
    gpu.index = index;
    if (cuda.device_name(gpu.name, sizeof gpu.name, device) != 0)
        gpu.name[0] = '\0';
    if (cuda.device_bus_id(gpu.bus, sizeof gpu.bus, device) != 0)
        gpu.bus[0] = '\0';
    *gpu_out = gpu;
}
