/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hip_standin.h: the calls of HIP that the AMD plug-in makes, over the software device. Streams and events are
 * soft's own; device memory is a mapping that other processes open by its handle; a module is the code object it was
 * loaded from, and its kernels run by their bodies for soft. The current GPU and the last error belong to the thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <hip/hip_runtime_api.h>

#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base_config.h"
#include "device/soft/soft_device.h"
#include "hip_standin.h"
#include "kernels/kernels.h"

enum { UNCACHED = 3, LANES_MAX = 1024, MACHINE_AMDGPU = 224, MACH_MASK = 0xff, MACH_GFX90A = 0x3f, MACH_GFX942 = 0x4c };

static __thread int current_gpu;
static __thread hipError_t last_error;
static sv_device_t *soft;

static hipError_t give(hipError_t error)
{
    if (error != hipSuccess)
        last_error = error;
    return error;
}

/* Counts the call; true if it is to fail. What the call before left behind belongs to somebody who never asked. */
static bool begins(const char *call)
{
    bool restores = strcmp(call, "hipSetDevice") == 0; /* between a call and the look at its error */
    if (last_error != hipSuccess && !restores)
        standin_misuse(call, "the error of an earlier call was not collected");
    if (!restores)
        last_error = hipSuccess;
    return standin_call(call);
}

#define BEGIN()                          \
    do {                                 \
        if (begins(__func__))            \
            return give(hipErrorUnknown); \
    } while (0)

static hipError_t misuse(const char *call, hipError_t error, const char *what)
{
    standin_misuse(call, what);
    return give(error);
}

static void open_soft(void)
{
    const sv_config_t config = {.soft_mode = SV_CONFIG_SOFT_THREADS};
    if (sv_soft_open(&config, &soft) != SELVAGE_SUCCESS)
        abort();
}

static sv_device_t *device(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_soft);
    return soft;
}

static hipError_t error_of(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return hipSuccess;
    if (status == SELVAGE_IN_PROGRESS)
        return hipErrorNotReady;
    return status == SELVAGE_ERR_MEMORY ? hipErrorOutOfMemory : hipErrorUnknown;
}

static int number_in(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int gpus(void)
{
    return number_in("HIP_STANDIN_DEVICES", 1);
}

static const char *arch(void)
{
    const char *wanted = getenv("HIP_STANDIN_ARCH");
    return wanted ? wanted : "gfx90a";
}

const char *hipGetErrorName(hipError_t error)
{
    switch (error) {
    case hipSuccess: return "hipSuccess";
    case hipErrorOutOfMemory: return "hipErrorOutOfMemory";
    case hipErrorNotReady: return "hipErrorNotReady";
    case hipErrorInvalidValue: return "hipErrorInvalidValue";
    case hipErrorInvalidHandle: return "hipErrorInvalidHandle";
    case hipErrorNoDevice: return "hipErrorNoDevice";
    default: return "hipErrorUnknown";
    }
}

const char *hipGetErrorString(hipError_t error)
{
    return error == hipErrorUnknown ? "an error of the stand-in" : hipGetErrorName(error);
}

hipError_t hipGetLastError(void)
{
    hipError_t error = last_error;
    last_error = hipSuccess;
    return error;
}

hipError_t hipGetDeviceCount(int *count)
{
    BEGIN();
    *count = gpus();
    return give(*count > 0 ? hipSuccess : hipErrorNoDevice);
}

hipError_t hipGetDevice(int *gpu)
{
    BEGIN();
    *gpu = current_gpu;
    return hipSuccess;
}

hipError_t hipSetDevice(int gpu)
{
    BEGIN();
    if (gpu < 0 || gpu >= gpus())
        return give(hipErrorInvalidDevice);
    current_gpu = gpu;
    return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int gpu)
{
    BEGIN();
    if (attribute != hipDeviceAttributeMultiprocessorCount || gpu >= gpus())
        return misuse(__func__, hipErrorInvalidValue, "an attribute that is not there");
    *value = 1;
    return hipSuccess;
}

hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int gpu)
{
    BEGIN();
    snprintf(text, (size_t)bytes, "0000:%02x:00.0", gpu + 1);
    return hipSuccess;
}

hipError_t hipDeviceGetName(char *text, int bytes, int gpu)
{
    BEGIN();
    if (gpu < 0 || gpu >= gpus())
        return misuse(__func__, hipErrorInvalidDevice, "a GPU that is not there");
    snprintf(text, (size_t)bytes, "stand-in for %s", arch());
    return hipSuccess;
}

hipError_t hipDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    BEGIN();
    *lowest = 1;
    *highest = -1;
    return hipSuccess;
}

/* Device memory and IPC. */

static hipError_t make_memory(void **ptr, size_t bytes)
{
    standin_object_t object = {.kind = STANDIN_DEVICE, .gpu = current_gpu, .bytes = bytes};
    if (sv_mapping_create(bytes, &object.mapping) != SELVAGE_SUCCESS)
        return give(hipErrorOutOfMemory);
    object.ptr = object.mapping.base;
    if (!standin_add(&object)) {
        sv_mapping_close(&object.mapping);
        return give(hipErrorOutOfMemory);
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipMalloc(void **ptr, size_t bytes)
{
    return begins(__func__) ? give(hipErrorOutOfMemory) : make_memory(ptr, bytes);
}

hipError_t hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned flags)
{
    if (begins(__func__))
        return give(hipErrorOutOfMemory);
    if (flags == UNCACHED && number_in("HIP_STANDIN_OLD", 0))
        return give(hipErrorInvalidValue); /* as runtimes that do not know the flag */
    if (flags != UNCACHED && flags != hipDeviceMallocFinegrained)
        return misuse(__func__, hipErrorInvalidValue, "memory that keeps what other devices overwrite");
    return make_memory(ptr, bytes);
}

hipError_t hipFree(void *ptr)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (ptr && !standin_take(STANDIN_DEVICE, ptr, &object))
        return misuse(__func__, hipErrorInvalidDevicePointer, "this is no device memory");
    if (ptr)
        sv_mapping_close(&object.mapping);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t ptr)
{
    BEGIN();
    standin_object_t object;
    if (!standin_find_range(STANDIN_DEVICE, ptr, 1, &object))
        return give(hipErrorInvalidDevicePointer); /* which callers may find out this way */
    *base = object.ptr;
    *bytes = object.bytes;
    return hipSuccess;
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    BEGIN();
    standin_object_t object;
    if (!standin_find(STANDIN_DEVICE, ptr, &object))
        return misuse(__func__, hipErrorInvalidDevicePointer, "this is not the start of device memory");
    for (size_t i = sizeof handle->reserved; i < sizeof object.mapping.handle.bytes; i++)
        if (object.mapping.handle.bytes[i])
            return give(hipErrorNotSupported); /* a mapping by the name of a file does not fit */
    memcpy(handle->reserved, object.mapping.handle.bytes, sizeof handle->reserved);
    return hipSuccess;
}

hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_OPENED, .gpu = current_gpu};
    sv_mapping_handle_t mapping_handle = {{0}};
    memcpy(mapping_handle.bytes, handle.reserved, sizeof handle.reserved);
    if (flags != hipIpcMemLazyEnablePeerAccess)
        return misuse(__func__, hipErrorInvalidValue, "HIP knows one flag, and wants it");
    if (sv_mapping_open(&mapping_handle, &object.mapping) != SELVAGE_SUCCESS)
        return give(hipErrorInvalidDevicePointer);
    object.ptr = object.mapping.base;
    object.bytes = object.mapping.bytes;
    if (object.mapping.borrowed || !standin_add(&object)) {
        sv_mapping_close(&object.mapping);
        return misuse(__func__, hipErrorInvalidContext, "memory of the process itself cannot be opened");
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipIpcCloseMemHandle(void *ptr)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_OPENED, ptr, &object))
        return give(hipErrorInvalidValue);
    sv_mapping_close(&object.mapping);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

/* Host memory. */

hipError_t hipHostMalloc(void **ptr, size_t bytes, unsigned flags)
{
    if (begins(__func__))
        return give(hipErrorOutOfMemory);
    standin_object_t object = {.kind = STANDIN_HOST, .gpu = current_gpu, .bytes = bytes};
    if (!(flags & hipHostMallocMapped) || posix_memalign(&object.ptr, 4096, bytes) != 0)
        return misuse(__func__, hipErrorInvalidValue, "memory that kernels cannot reach");
    if (!standin_add(&object)) {
        free(object.ptr);
        return give(hipErrorOutOfMemory);
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipHostFree(void *ptr)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_HOST, ptr, &object))
        return misuse(__func__, hipErrorInvalidValue, "this is no pinned memory");
    free(ptr);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

/* The device address is a second mapping of the same pages. */
hipError_t hipHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_REGISTERED, .gpu = current_gpu, .ptr = ptr, .bytes = bytes};
    standin_object_t other;
    if (standin_find_range(STANDIN_REGISTERED, ptr, 1, &other))
        return misuse(__func__, hipErrorHostMemoryAlreadyRegistered, "this memory is registered already");
    if (!(flags & hipHostRegisterMapped))
        return misuse(__func__, hipErrorInvalidValue, "memory that kernels cannot reach");
    object.alias = mremap(ptr, 0, bytes, MREMAP_MAYMOVE);
    if (object.alias == MAP_FAILED || !standin_add(&object))
        return give(hipErrorOutOfMemory);
    return hipSuccess;
}

hipError_t hipHostUnregister(void *ptr)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_REGISTERED, ptr, &object))
        return misuse(__func__, hipErrorHostMemoryNotRegistered, "this memory is not registered");
    munmap(object.alias, object.bytes);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipHostGetDevicePointer(void **ptr, void *host, unsigned flags)
{
    BEGIN();
    standin_object_t object;
    if (flags != 0 || !standin_find_range(STANDIN_REGISTERED, host, 1, &object))
        return misuse(__func__, hipErrorInvalidValue, "this memory is not registered");
    *ptr = (char *)object.alias + ((char *)host - (char *)object.ptr);
    return hipSuccess;
}

/* Streams and events. */

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_STREAM, .gpu = current_gpu};
    if (flags != hipStreamNonBlocking || priority < -1 || priority > 1)
        return misuse(__func__, hipErrorInvalidValue, "flags or priority");
    hipError_t error = error_of(device()->ops->stream_create(device(), &object.ptr));
    if (error == hipSuccess && !standin_add(&object)) {
        device()->ops->stream_destroy(device(), object.ptr);
        error = hipErrorOutOfMemory;
    }
    if (error == hipSuccess)
        *stream = object.ptr;
    return give(error);
}

/* NULL is the default stream, of whichever GPU is current. */
static bool is_stream(hipStream_t stream)
{
    standin_object_t object;
    return !stream || (standin_find(STANDIN_STREAM, stream, &object) && object.gpu == current_gpu);
}

static bool is_event(hipEvent_t event)
{
    standin_object_t object;
    return standin_find(STANDIN_EVENT, event, &object) && object.gpu == current_gpu;
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_STREAM, stream, &object))
        return misuse(__func__, hipErrorInvalidHandle, "this is no stream");
    device()->ops->stream_destroy(device(), stream);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (stream && !standin_find(STANDIN_STREAM, stream, &object)) /* of any GPU */
        return misuse(__func__, hipErrorInvalidHandle, "this is no stream");
    hipError_t error = error_of(device()->ops->stream_sync(device(), stream));
    return give(fails ? hipErrorUnknown : error);
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    BEGIN();
    if (!is_stream(stream) || !is_event(event) || flags != 0)
        return misuse(__func__, hipErrorInvalidHandle, "no stream or event of the current GPU");
    return give(error_of(device()->ops->stream_wait_event(device(), stream, (sv_event_t *)event)));
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_EVENT, .gpu = current_gpu};
    sv_event_t *made;
    if (flags != hipEventDisableTiming)
        return misuse(__func__, hipErrorInvalidValue, "an event that takes the time");
    hipError_t error = error_of(device()->ops->event_create(device(), &made));
    if (error != hipSuccess)
        return give(error);
    object.ptr = made;
    if (!standin_add(&object)) {
        device()->ops->event_destroy(device(), made);
        return give(hipErrorOutOfMemory);
    }
    *event = object.ptr;
    return hipSuccess;
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_EVENT, event, &object))
        return misuse(__func__, hipErrorInvalidHandle, "this is no event");
    device()->ops->event_destroy(device(), (sv_event_t *)event);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    BEGIN();
    if (!is_stream(stream) || !is_event(event))
        return misuse(__func__, hipErrorInvalidHandle, "no stream or event of the current GPU");
    return give(error_of(device()->ops->event_record(device(), (sv_event_t *)event, stream)));
}

hipError_t hipEventQuery(hipEvent_t event)
{
    BEGIN();
    if (!is_event(event))
        return misuse(__func__, hipErrorInvalidHandle, "this is no event of the current GPU");
    return give(error_of(device()->ops->event_query(device(), (sv_event_t *)event)));
}

/* Copies: both sides must be memory that the GPU knows, at whichever address. */

static bool is_known(const void *ptr, size_t bytes)
{
    standin_object_t object;
    for (int kind = STANDIN_DEVICE; kind <= STANDIN_OPENED; kind++)
        if (standin_find_range((standin_kind_t)kind, ptr, bytes, &object))
            return true;
    return false;
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
    BEGIN();
    if (!is_stream(stream))
        return misuse(__func__, hipErrorInvalidHandle, "this is no stream of the current GPU");
    if (kind != hipMemcpyDefault || !is_known(dst, bytes) || !is_known(src, bytes))
        return misuse(__func__, hipErrorInvalidValue, "from or to memory that is not pinned or not alive");
    return give(error_of(device()->ops->copy_async(device(), dst, src, bytes, SV_COPY_D2D, stream)));
}

hipError_t hipMemsetAsync(void *dst, int value, size_t bytes, hipStream_t stream)
{
    BEGIN();
    if (!is_stream(stream) || !is_known(dst, bytes))
        return misuse(__func__, hipErrorInvalidValue, "no stream, or memory that is not pinned or not alive");
    return give(error_of(device()->ops->fill_async(device(), dst, value, bytes, stream)));
}

/* Kernels: the code object is looked at, and the body for soft is run. */

typedef struct kernel_row {
    const sv_kernel_t *kernel;
    size_t arg_bytes;
} kernel_row_t;

static const kernel_row_t kernels[] = {
    {&sv_kernel_digest, sizeof(sv_digest_arg_t)},
    {&sv_kernel_signal, sizeof(sv_signal_arg_t)},
    {&sv_kernel_push, sizeof(sv_batch_arg_t)},
    {&sv_kernel_pull, sizeof(sv_batch_arg_t)},
    {&sv_kernel_flip, sizeof(sv_flip_arg_t)},
    {&sv_kernel_delay, sizeof(sv_delay_arg_t)},
};

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    BEGIN();
    Elf64_Ehdr header;
    unsigned wanted = strcmp(arch(), "gfx942") == 0 ? MACH_GFX942 : MACH_GFX90A;
    memcpy(&header, image, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != MACHINE_AMDGPU)
        return misuse(__func__, hipErrorInvalidImage, "this is no code object");
    if ((header.e_flags & MACH_MASK) != wanted)
        return give(hipErrorNoBinaryForGpu);
    standin_object_t object = {.kind = STANDIN_MODULE, .gpu = current_gpu, .ptr = malloc(sizeof image)};
    if (!object.ptr || !standin_add(&object))
        return give(hipErrorOutOfMemory);
    memcpy(object.ptr, &image, sizeof image);
    *module = object.ptr;
    return hipSuccess;
}

hipError_t hipModuleUnload(hipModule_t module)
{
    bool fails = begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_MODULE, module, &object))
        return misuse(__func__, hipErrorInvalidHandle, "this is no module");
    free(object.ptr);
    return give(fails ? hipErrorUnknown : hipSuccess);
}

/* Whether the code object has a kernel descriptor by this name. Its section headers stand last. */
static bool image_holds(const char *image, const char *name)
{
    char symbol[64];
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    int length = snprintf(symbol, sizeof symbol, "%s.kd", name);
    return memmem(image, header.e_shoff, symbol, (size_t)length + 1) != NULL;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    BEGIN();
    standin_object_t object;
    const char *image;
    if (!standin_find(STANDIN_MODULE, module, &object))
        return misuse(__func__, hipErrorInvalidHandle, "this is no module");
    memcpy(&image, object.ptr, sizeof image);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].kernel->name, name) == 0 && image_holds(image, name)) {
            *function = (hipFunction_t)(uintptr_t)&kernels[i];
            return hipSuccess;
        }
    return give(hipErrorNotFound);
}

/* A word of the argument that is the host address of registered memory, which a GPU could not use. */
static bool has_host_address(const void *arg, size_t bytes)
{
    standin_object_t object;
    for (size_t at = 0; at + sizeof(void *) <= bytes; at += sizeof(void *)) {
        char *word;
        memcpy(&word, (const char *)arg + at, sizeof word);
        if (standin_find_range(STANDIN_REGISTERED, word, 1, &object) &&
            (uintptr_t)word - (uintptr_t)object.ptr < object.bytes)
            return true;
    }
    return false;
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void **params,
                                 void **extra)
{
    BEGIN();
    const kernel_row_t *row = (const kernel_row_t *)(const void *)function;
    if (!is_stream(stream))
        return misuse(__func__, hipErrorInvalidHandle, "this is no stream of the current GPU");
    if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || bx > LANES_MAX || by != 1 || bz != 1 || shared != 0 || extra)
        return misuse(__func__, hipErrorInvalidValue, "not one dimension");
    if (has_host_address(params[0], row->arg_bytes))
        return misuse(__func__, hipErrorInvalidValue, "a kernel is given the host address of registered memory");
    return give(error_of(device()->ops->launch(device(), row->kernel, params[0], row->arg_bytes, gx, stream)));
}
