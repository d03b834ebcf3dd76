/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out what kind of memory an address leads to. The runtime tells device, pinned and managed memory, and memory of
 * other GPUs. Other processes cannot map pools and virtual memory by a handle of this kind. On NVIDIA the driver tells
 * these from plain allocations. HIP has no query for that, so on AMD both look like plain allocations. Nothing is kept.
 */
#include <stdint.h>

#include "device/hip/hip_priv.h"

#if defined(__HIP_PLATFORM_AMD__)

#if HIP_VERSION_MAJOR >= 6
typedef hipPointerAttribute_t pointer_attributes_t;
static enum hipMemoryType type_of(const pointer_attributes_t *attributes) { return attributes->type; }
#else
typedef hipPointerAttribute_t pointer_attributes_t;
static enum hipMemoryType type_of(const pointer_attributes_t *attributes) { return attributes->memoryType; }
#endif
enum { TYPE_HOST = hipMemoryTypeHost, TYPE_DEVICE = hipMemoryTypeDevice };

static bool is_managed(const pointer_attributes_t *attributes)
{
    return attributes->isManaged != 0;
}

static sv_memory_kind_t device_kind(const void *ptr)
{
    (void)ptr;
    return SV_MEMORY_DEVICE;
}

/* Ranges of virtual memory may be shorter than what was mapped side by side, and cannot be told from allocations. */
static bool ends_inside(const void *ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    return true;
}

/* Of memory that nobody registered, HIP 6 names no GPU, or the first one, and calls that a success. */
int sv_hip_gpu_of(const void *ptr)
{
    pointer_attributes_t attributes = {0};
    hipError_t error = hipPointerGetAttributes(&attributes, ptr);
    hip_ignore(error);
    bool known = error == hipSuccess && (is_managed(&attributes) || (int)type_of(&attributes) == (int)TYPE_HOST ||
                                         (int)type_of(&attributes) == (int)TYPE_DEVICE);
    return known && attributes.device >= 0 ? attributes.device : SV_PLUGIN_CURRENT;
}

/* HIP's numbers of allocations are not promised to be used once only. */
static uint64_t allocation_number_of(const void *ptr)
{
    (void)ptr;
    return 0;
}

#else

typedef struct cudaPointerAttributes pointer_attributes_t;
static enum cudaMemoryType type_of(const pointer_attributes_t *attributes) { return attributes->type; }
enum { TYPE_HOST = cudaMemoryTypeHost, TYPE_DEVICE = cudaMemoryTypeDevice };

static bool is_managed(const pointer_attributes_t *attributes)
{
    return attributes->type == cudaMemoryTypeManaged;
}

static sv_memory_kind_t device_kind(const void *ptr)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)ptr;
    CUmemoryPool pool = NULL;
    CUmemGenericAllocationHandle handle;
    unsigned exportable = 0;
    CUresult result = cuPointerGetAttribute(&exportable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address);
    if (result == CUDA_SUCCESS && exportable)
        return SV_MEMORY_DEVICE;
    result = cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address);
    if (result == CUDA_SUCCESS && pool)
        return SV_MEMORY_POOL;
    if (cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ptr) != CUDA_SUCCESS)
        return SV_MEMORY_DEVICE; /* exporting it will say what is wrong */
    (void)cuMemRelease(handle);
    return SV_MEMORY_VIRTUAL;
}

static bool ends_inside(const void *ptr, size_t bytes)
{
    CUdeviceptr base, address = (CUdeviceptr)(uintptr_t)ptr;
    size_t range_bytes;
    if (cuMemGetAddressRange(&base, &range_bytes, address) != CUDA_SUCCESS)
        return true;
    return bytes <= range_bytes - (size_t)(address - base);
}

/* By the driver, which makes no context for the question. */
int sv_hip_gpu_of(const void *ptr)
{
    int index = SV_PLUGIN_CURRENT;
    CUresult result = cuPointerGetAttribute(&index, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)ptr);
    return result == CUDA_SUCCESS && index >= 0 ? index : SV_PLUGIN_CURRENT;
}

static uint64_t allocation_number_of(const void *ptr)
{
    unsigned long long number = 0;
    CUresult result = cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)ptr);
    return result == CUDA_SUCCESS ? number : 0;
}

#endif

/* Memory that the runtime does not know. */
static sv_memory_kind_t plain_kind(const hip_device_t *dev)
{
    int reached = 0;
    if (hipDeviceGetAttribute(&reached, hipDeviceAttributePageableMemoryAccess, dev->index) != hipSuccess) {
        (void)hipGetLastError();
        reached = 0;
    }
    return reached ? SV_MEMORY_HOST : SV_MEMORY_PAGEABLE;
}

static sv_memory_kind_t kind_at(const hip_device_t *dev, const void *ptr)
{
    pointer_attributes_t attributes;
    hipError_t error = hipPointerGetAttributes(&attributes, ptr);
    if (error != hipSuccess) {
        (void)hipGetLastError();
        return error == hipErrorInvalidValue ? plain_kind(dev) : SV_MEMORY_UNKNOWN;
    }
    if (is_managed(&attributes))
        return SV_MEMORY_MANAGED;
    if ((int)type_of(&attributes) == (int)TYPE_HOST)
        return SV_MEMORY_PINNED;
    if ((int)type_of(&attributes) != (int)TYPE_DEVICE)
        return plain_kind(dev);
    return attributes.device == dev->index ? device_kind(ptr) : SV_MEMORY_OTHER;
}

sv_memory_kind_t sv_hip_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    int before;
    sv_memory_kind_t kind = SV_MEMORY_UNKNOWN;
    hipError_t error = hip_enter(hip_of(dev), &before);
    hip_ignore(error);
    if (error == hipSuccess) {
        /* Two neighbours of one kind pass for one piece of memory, except allocations whose length is known. */
        kind = kind_at(hip_of(dev), ptr);
        if (bytes > 1 && (kind_at(hip_of(dev), (const char *)ptr + bytes - 1) != kind ||
                          (kind == SV_MEMORY_DEVICE && !ends_inside(ptr, bytes))))
            kind = SV_MEMORY_SPLIT;
    }
    hip_leave(hip_of(dev), before);
    return kind;
}

uint64_t sv_hip_memory_id(sv_device_t *dev, const void *ptr)
{
    int before;
    hipError_t error = hip_enter(hip_of(dev), &before);
    hip_ignore(error);
    const uint64_t number = error == hipSuccess ? allocation_number_of(ptr) : 0;
    hip_leave(hip_of(dev), before);
    return number;
}
