/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding the driver, and choosing a GPU. The launcher's local rank decides, modulo the number of visible GPUs, so that
 * launchers that already show each process a GPU of its own are served as well.
 */
#include "tools/common/tool_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NVIDIA, AMD, KINDS };

static const char *const kinds[KINDS] = {"nvidia", "amd"};
static const char *const libraries[KINDS] = {"libcuda.so.1", "libamdhip64.so"};

/* Names of one call, by kind; NULL where the kind has another way. */
typedef struct call_names {
    void *slot;
    const char *names[KINDS];
} call_names_t;

/* ISO C has no cast from an object to a function pointer, so the address is copied. */
static bool load_call(void *library, const call_names_t *call, int kind)
{
    void *found = call->names[kind] ? dlsym(library, call->names[kind]) : NULL;
    memcpy(call->slot, &found, sizeof found);
    return found || !call->names[kind];
}

static bool load_calls(void *library, int kind, tool_cuda_t *cuda)
{
    const call_names_t calls[] = {
        {&cuda->init, {"cuInit", "hipInit"}},
        {&cuda->device_count, {"cuDeviceGetCount", "hipGetDeviceCount"}},
        {&cuda->device_get, {"cuDeviceGet", "hipDeviceGet"}},
        {&cuda->device_name, {"cuDeviceGetName", "hipDeviceGetName"}},
        {&cuda->device_bus_id, {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"}},
        {&cuda->context_retain, {"cuDevicePrimaryCtxRetain", NULL}},
        {&cuda->context_set, {"cuCtxSetCurrent", NULL}},
        {&cuda->device_set, {NULL, "hipSetDevice"}},
        {&cuda->mem_alloc, {"cuMemAlloc_v2", "hipMalloc"}},
        {&cuda->mem_free, {"cuMemFree_v2", "hipFree"}},
        {&cuda->host_alloc, {"cuMemHostAlloc", "hipHostMalloc"}},
        {&cuda->host_free, {"cuMemFreeHost", "hipHostFree"}},
        {&cuda->copy_down, {"cuMemcpyDtoH_v2", "hipMemcpyDtoH"}},
        {&cuda->copy_up, {"cuMemcpyHtoD_v2", "hipMemcpyHtoD"}},
        {&cuda->ipc_get, {"cuIpcGetMemHandle", "hipIpcGetMemHandle"}},
        {&cuda->ipc_open, {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"}},
        {&cuda->ipc_close, {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"}},
        {&cuda->copy, {"cuMemcpyAsync", "hipMemcpyDtoDAsync"}},
        {&cuda->stream_create, {"cuStreamCreate", "hipStreamCreateWithFlags"}},
        {&cuda->stream_sync, {"cuStreamSynchronize", "hipStreamSynchronize"}},
        {&cuda->stream_destroy, {"cuStreamDestroy_v2", "hipStreamDestroy"}},
    };
    bool complete = true;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        complete &= load_call(library, &calls[i], kind);
    return complete;
}

static void *open_library(int kind)
{
    static const char *const versions[] = {"", ".7", ".6", ".5"}; /* of HIP, where only the versioned name is there */
    char name[64];
    void *library = NULL;
    for (size_t i = 0; !library && i < (kind == AMD ? sizeof versions / sizeof versions[0] : 1); i++) {
        snprintf(name, sizeof name, "%s%s", libraries[kind], versions[i]);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static bool load_kind(int kind, tool_cuda_t *cuda_out)
{
    tool_cuda_t cuda = {.kind = kinds[kind]};
    int count = 0;
    void *library = open_library(kind);
    if (!library)
        return false;
    if (!load_calls(library, kind, &cuda) || cuda.init(0) != 0 || cuda.device_count(&count) != 0 || count == 0)
        return false; /* the library stays: not every driver likes to be unloaded */
    *cuda_out = cuda;
    return true;
}

bool tool_cuda_load(const char *kind, tool_cuda_t *cuda_out)
{
    for (int k = 0; k < KINDS; k++) {
        if (strcmp(kinds[k], kind) == 0)
            return load_kind(k, cuda_out);
    }
    return false;
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

/* The first kind of GPU that is wanted and there. */
static bool load_wanted(tool_cuda_t *cuda_out)
{
    const char *wanted = getenv("SELVAGE_DEVICE");
    for (int kind = 0; kind < KINDS; kind++) {
        bool fits = wanted && strcmp(wanted, kinds[kind]) == 0;
        if (!wanted || strcmp(wanted, "auto") == 0) /* HIP's library is large: not for every rank without a GPU */
            fits = kind == NVIDIA || access("/dev/kfd", F_OK) == 0;
        if (fits && load_kind(kind, cuda_out))
            return true;
    }
    return false;
}

static bool make_current(const tool_cuda_t *cuda, int index, int device)
{
    void *context;
    if (cuda->device_set)
        return cuda->device_set(index) == 0;
    return cuda->context_retain(&context, device) == 0 && cuda->context_set(context) == 0;
}

void tool_choose_gpu(tool_gpu_t *gpu_out)
{
    tool_cuda_t cuda;
    int count, device;
    tool_gpu_t gpu = {.index = -1};
    *gpu_out = gpu;
    if (!load_wanted(&cuda) || cuda.device_count(&count) != 0)
        return;
    const int index = launcher_local_rank() % count;
    if (index < 0 || cuda.device_get(&device, index) != 0 || !make_current(&cuda, index, device))
        return;
    gpu.index = index;
    snprintf(gpu.kind, sizeof gpu.kind, "%s", cuda.kind);
    if (cuda.device_name(gpu.name, sizeof gpu.name, device) != 0)
        gpu.name[0] = '\0';
    if (cuda.device_bus_id(gpu.bus, sizeof gpu.bus, device) != 0)
        gpu.bus[0] = '\0';
    *gpu_out = gpu;
}
