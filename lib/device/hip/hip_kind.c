/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out what kind of memory an address leads to. The runtime tells device, pinned and managed memory, and memory of
 * other GPUs. Other processes cannot map pools and virtual memory by a handle of this kind. On NVIDIA the driver tells
 * these from plain allocations. HIP has no query for that, so on AMD both look like plain allocations. Nothing is kept.
 *
 * Allocations have numbers. NVIDIA promises that none is used twice in a process. HIP calls its own unique and
 * promises no more. So when a device is opened on AMD, a trial shows whether memory that is freed and allocated again
 * has another number, and a later one. Where it has not, no number is known, and whoever asks keeps nothing from call
 * to call.
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

/* The number of the allocation at ptr; 0: there is none. Runtimes write 4 bytes of it or 8. */
static uint64_t read_number(const void *ptr)
{
    uint64_t number = 0;
#if HIP_VERSION_MAJOR * 100 + HIP_VERSION_MINOR >= 501
    hipError_t error =
        hipPointerGetAttribute(&number, HIP_POINTER_ATTRIBUTE_BUFFER_ID, (hipDeviceptr_t)(uintptr_t)ptr);
    hip_ignore(error);
    return error == hipSuccess ? number : 0;
#else
    (void)ptr;
    return number;
#endif
}

static uint64_t allocation_number_of(const hip_device_t *dev, const void *ptr)
{
    return dev->has_numbers ? read_number(ptr) : 0;
}

/* What is freed and allocated again mostly lies at the same address. */
selvage_status_t sv_hip_try_numbers(hip_device_t *dev)
{
    enum { ROUNDS = 4, BYTES = 64 << 10 };
    uint64_t last = 0;
    dev->has_numbers = false;
    for (unsigned round = 0; round < ROUNDS; round++) {
        void *memory = NULL;
        selvage_status_t status = sv_hip_status(dev, hipMalloc(&memory, BYTES), "hipMalloc");
        if (status != SELVAGE_SUCCESS)
            return status;
        const uint64_t number = read_number(memory), at_end = read_number((char *)memory + BYTES - 1);
        status = sv_hip_status(dev, hipFree(memory), "hipFree");
        if (status != SELVAGE_SUCCESS || number <= last || at_end != number)
            return status;
        last = number;
    }
    dev->has_numbers = true;
    return SELVAGE_SUCCESS;
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

static uint64_t allocation_number_of(const hip_device_t *dev, const void *ptr)
{
    (void)dev;
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
    const uint64_t number = error == hipSuccess ? allocation_number_of(hip_of(dev), ptr) : 0;
    hip_leave(hip_of(dev), before);
    return number;
}
