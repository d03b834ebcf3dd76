/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU: device and pinned allocations, registration of mapped segments, and IPC as (base handle, offset). A
 * handle carries the process that made it. Within one process the runtime refuses to open it, and there the address
 * itself is the mapping.
 */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/hip/hip_priv.h"

/* What sv_device_handle_t holds. */
typedef struct hip_handle {
    hipIpcMemHandle_t ipc;
    uint64_t base, bytes;
    uint32_t pid, pid_space; /* containers number their processes alike; the kernel has 32 bits for either */
    uint64_t number;         /* of the allocation, so that handles of two at one address differ; 0: none is known */
} hip_handle_t;
_Static_assert(sizeof(hip_handle_t) <= SV_DEVICE_HANDLE_BYTES, "the handle does not fit");

uint64_t sv_hip_pid_space(void)
{
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
}

selvage_status_t sv_hip_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    void *ptr = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipMalloc(&ptr, bytes ? bytes : 1));
    if (error == hipSuccess)
        *ptr_out = ptr;
    return sv_hip_status(hip_of(dev), error, "hipMalloc");
}

/* Caches of AMD GPUs keep what another device overwrites, even from atomics at system scope, unless the memory is
   uncached. Runtimes before 5.7 do not know that kind; fine-grained memory is the next best. */
selvage_status_t sv_hip_malloc_fine(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    hip_device_t *hip = hip_of(dev);
    void *ptr = NULL;
    size_t wanted = bytes ? bytes : 1;
    hipError_t error = HIP_RUN(hip, hipExtMallocWithFlags(&ptr, wanted, hipDeviceMallocUncached));
    if (error != hipSuccess && error != hipErrorOutOfMemory) {
        hip_ignore(error);
        error = HIP_RUN(hip, hipExtMallocWithFlags(&ptr, wanted, hipDeviceMallocFinegrained));
    }
    if (error == hipSuccess)
        *ptr_out = ptr;
    return sv_hip_status(hip, error, "hipExtMallocWithFlags");
}

void sv_hip_free(sv_device_t *dev, void *ptr)
{
    if (ptr)
        (void)sv_hip_status(hip_of(dev), HIP_RELEASE(hip_of(dev), hipFree(ptr)), "hipFree");
}

/* Coherent, whatever the runtime's default (HIP_HOST_COHERENT): kernels poll words there that hosts write. */
selvage_status_t sv_hip_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    const unsigned flags = hipHostMallocMapped | hipHostMallocPortable | hipHostMallocCoherent;
    void *ptr = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipHostMalloc(&ptr, bytes ? bytes : 1, flags));
    if (error == hipSuccess) {
        *ptr_out = ptr;
        hip_of(dev)->host->note_pinned();
    }
    return sv_hip_status(hip_of(dev), error, "hipHostMalloc");
}

void sv_hip_host_free(sv_device_t *dev, void *ptr)
{
    if (ptr)
        (void)sv_hip_status(hip_of(dev), HIP_RELEASE(hip_of(dev), hipHostFree(ptr)), "hipHostFree");
}

selvage_status_t sv_hip_host_register(sv_device_t *dev, void *ptr, size_t bytes)
{
    hipError_t error = HIP_RUN(hip_of(dev), hipHostRegister(ptr, bytes, hipHostRegisterMapped |
                                                                            hipHostRegisterPortable));
    if (error == hipSuccess)
        hip_of(dev)->host->note_pinned();
    return sv_hip_status(hip_of(dev), error, "hipHostRegister");
}

void sv_hip_host_unregister(sv_device_t *dev, void *ptr)
{
    (void)sv_hip_status(hip_of(dev), HIP_RELEASE(hip_of(dev), hipHostUnregister(ptr)), "hipHostUnregister");
}

selvage_status_t sv_hip_host_address(sv_device_t *dev, void *ptr, void **address_out)
{
    void *address = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipHostGetDevicePointer(&address, ptr, 0));
    if (error == hipSuccess)
        *address_out = address;
    return sv_hip_status(hip_of(dev), error, "hipHostGetDevicePointer");
}

selvage_status_t sv_hip_export(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                               uint64_t *offset_out)
{
    hip_device_t *hip = hip_of(dev);
    hip_handle_t handle = {.pid = (uint32_t)getpid(), .pid_space = (uint32_t)hip->pid_space};
    hipDeviceptr_t base;
    size_t range_bytes = 0;
    /* Some runtimes give out handles for virtual memory too, which crash whoever opens them. */
    if (sv_hip_memory_kind(dev, ptr, bytes) != SV_MEMORY_DEVICE)
        return hip->host->error_quiet(SELVAGE_ERR_UNSUPPORTED, "memory at %p is of no kind that can be exported", ptr);
    if (HIP_RUN(hip, hipMemGetAddressRange(&base, &range_bytes, (hipDeviceptr_t)(uintptr_t)ptr)) != hipSuccess) {
        (void)hipGetLastError();
        return hip->host->error_quiet(SELVAGE_ERR_UNSUPPORTED, "memory at %p is no allocation of this GPU", ptr);
    }
    handle.base = (uint64_t)(uintptr_t)base;
    handle.bytes = range_bytes;
    uint64_t offset = (uint64_t)(uintptr_t)ptr - handle.base;
    if (offset + bytes > range_bytes)
        return hip->host->error_quiet(SELVAGE_ERR_UNSUPPORTED, "memory at %p spans two allocations", ptr);
    if (HIP_RUN(hip, hipIpcGetMemHandle(&handle.ipc, (void *)(uintptr_t)handle.base)) != hipSuccess) {
        (void)hipGetLastError();
        return hip->host->error_quiet(SELVAGE_ERR_UNSUPPORTED, "memory at %p cannot be exported by IPC", ptr);
    }
    handle.number = sv_hip_memory_id(dev, ptr);
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out, &handle, sizeof handle);
    *offset_out = offset;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_hip_open_memory(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                    uint64_t *bytes_out)
{
    hip_handle_t opened;
    memcpy(&opened, handle, sizeof opened);
    if (opened.pid == (uint32_t)getpid() && opened.pid_space == (uint32_t)hip_of(dev)->pid_space) {
        *base_out = (void *)(uintptr_t)opened.base;
        *bytes_out = opened.bytes;
        return SELVAGE_SUCCESS;
    }
    void *base = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipIpcOpenMemHandle(&base, opened.ipc, hipIpcMemLazyEnablePeerAccess));
    if (error == hipSuccess) {
        *base_out = base;
        *bytes_out = opened.bytes;
    }
    return sv_hip_status(hip_of(dev), error, "hipIpcOpenMemHandle");
}

/* Closing what is no IPC mapping (memory of this process) is refused by the runtime; that is no error here. */
void sv_hip_close_memory(sv_device_t *dev, void *base)
{
    hip_ignore(HIP_RELEASE(hip_of(dev), hipIpcCloseMemHandle(base)));
}
