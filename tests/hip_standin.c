/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hip_standin.h: the calls of HIP that the AMD plug-in makes, but those for kernels, over the software device.
 * Streams and events are soft's own; device memory is a mapping that other processes open by its handle. The current
 * GPU and the last error belong to the thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "hip_standin_calls.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base_config.h"
#include "device/soft/soft_device.h"

enum { UNCACHED = 3 };

static __thread int current_gpu;
static __thread hipError_t last_error;
static sv_device_t *soft;

hipError_t standin_give(hipError_t error)
{
    if (error != hipSuccess)
        last_error = error;
    return error;
}

/* What the call before left behind belongs to somebody who never asked. */
bool standin_begins(const char *call)
{
    bool restores = strcmp(call, "hipSetDevice") == 0; /* between a call and the look at its error */
    if (last_error != hipSuccess && !restores)
        standin_misuse(call, "the error of an earlier call was not collected");
    if (!restores)
        last_error = hipSuccess;
    return standin_call(call);
}

hipError_t standin_refuse(const char *call, hipError_t error, const char *what)
{
    standin_misuse(call, what);
    return standin_give(error);
}

static void open_soft(void)
{
    const sv_config_t config = {.soft_mode = SV_CONFIG_SOFT_THREADS};
    if (sv_soft_open(&config, &soft) != SELVAGE_SUCCESS)
        abort();
}

sv_device_t *standin_device(void)
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

hipError_t standin_result(selvage_status_t status)
{
    return standin_give(error_of(status));
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

const char *standin_arch(void)
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
    return standin_give(*count > 0 ? hipSuccess : hipErrorNoDevice);
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
        return standin_give(hipErrorInvalidDevice);
    current_gpu = gpu;
    return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int gpu)
{
    BEGIN();
    bool pageable = attribute == hipDeviceAttributePageableMemoryAccess;
    if ((attribute != hipDeviceAttributeMultiprocessorCount && !pageable) || gpu >= gpus())
        return standin_refuse(__func__, hipErrorInvalidValue, "an attribute that is not there");
    *value = !pageable;
    return hipSuccess;
}

hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int gpu)
{
    BEGIN();
    snprintf(text, (size_t)bytes, "0000:%02x:00.0", gpu + 1);
    return hipSuccess;
}

hipError_t hipDeviceGetByPCIBusId(int *gpu, const char *text)
{
    unsigned bus;
    BEGIN();
    if (sscanf(text, "0000:%x:00.0", &bus) != 1 || bus < 1 || bus > (unsigned)gpus())
        return standin_give(hipErrorInvalidValue);
    *gpu = (int)bus - 1;
    return hipSuccess;
}

/* Neighbours reach each other, and nobody else: an answer that depends on both numbers. */
hipError_t hipDeviceCanAccessPeer(int *possible, int gpu, int other)
{
    BEGIN();
    if (gpu < 0 || gpu >= gpus() || other < 0 || other >= gpus())
        return standin_refuse(__func__, hipErrorInvalidDevice, "a GPU that is not there");
    *possible = other - gpu == 1 || gpu - other == 1;
    return hipSuccess;
}

hipError_t hipDeviceGetName(char *text, int bytes, int gpu)
{
    BEGIN();
    if (gpu < 0 || gpu >= gpus())
        return standin_refuse(__func__, hipErrorInvalidDevice, "a GPU that is not there");
    snprintf(text, (size_t)bytes, "stand-in for %s", standin_arch());
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
        return standin_give(hipErrorOutOfMemory);
    object.ptr = object.mapping.base;
    if (!standin_add(&object)) {
        sv_mapping_close(&object.mapping);
        return standin_give(hipErrorOutOfMemory);
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipMalloc(void **ptr, size_t bytes)
{
    return standin_begins(__func__) ? standin_give(hipErrorOutOfMemory) : make_memory(ptr, bytes);
}

hipError_t hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned flags)
{
    if (standin_begins(__func__))
        return standin_give(hipErrorOutOfMemory);
    if (flags == UNCACHED && number_in("HIP_STANDIN_OLD", 0))
        return standin_give(hipErrorInvalidValue); /* as runtimes that do not know the flag */
    if (flags != UNCACHED && flags != hipDeviceMallocFinegrained)
        return standin_refuse(__func__, hipErrorInvalidValue, "memory that keeps what other devices overwrite");
    return make_memory(ptr, bytes);
}

hipError_t hipFree(void *ptr)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (ptr && !standin_take(STANDIN_DEVICE, ptr, &object))
        return standin_refuse(__func__, hipErrorInvalidDevicePointer, "this is no device memory");
    if (ptr)
        sv_mapping_close(&object.mapping);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t ptr)
{
    BEGIN();
    standin_object_t object;
    if (!standin_find_range(STANDIN_DEVICE, ptr, 1, &object))
        return standin_give(hipErrorInvalidDevicePointer); /* which callers may find out this way */
    *base = object.ptr;
    *bytes = object.bytes;
    return hipSuccess;
}

/* What the runtime did not allocate or register it does not know, and says so: by an error that callers may ask for or,
   as HIP 6 and later, by a type that is none, of a GPU that there is not. */
static hipError_t deny(hipPointerAttribute_t *attributes)
{
    const char *newer = getenv("HIP_STANDIN_UNREGISTERED");
    if (HIP_VERSION_MAJOR < 6 && !newer)
        return standin_give(hipErrorInvalidValue);
#if HIP_VERSION_MAJOR >= 6
    attributes->type = hipMemoryTypeUnregistered;
#else
    attributes->memoryType = hipMemoryTypeUnified; /* there is no better one, and nothing else has this */
#endif
    attributes->device = newer ? atoi(newer) : -2;
    return hipSuccess;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
    BEGIN();
    standin_object_t object;
    memset(attributes, 0, sizeof *attributes);
    bool device = standin_find_range(STANDIN_DEVICE, ptr, 1, &object) ||
                  standin_find_range(STANDIN_OPENED, ptr, 1, &object);
    if (!device && !standin_find_range(STANDIN_HOST, ptr, 1, &object) &&
        !standin_find_range(STANDIN_REGISTERED, ptr, 1, &object))
        return deny(attributes);
#if HIP_VERSION_MAJOR >= 6
    attributes->type = device ? hipMemoryTypeDevice : hipMemoryTypeHost;
#else
    attributes->memoryType = device ? hipMemoryTypeDevice : hipMemoryTypeHost;
#endif
    attributes->device = object.gpu;
    return hipSuccess;
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    BEGIN();
    standin_object_t object;
    if (!standin_find(STANDIN_DEVICE, ptr, &object))
        return standin_refuse(__func__, hipErrorInvalidDevicePointer, "this is not the start of device memory");
    for (size_t i = sizeof handle->reserved; i < sizeof object.mapping.handle.bytes; i++)
        if (object.mapping.handle.bytes[i])
            return standin_give(hipErrorNotSupported); /* a mapping by the name of a file does not fit */
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
        return standin_refuse(__func__, hipErrorInvalidValue, "HIP knows one flag, and wants it");
    if (sv_mapping_open(&mapping_handle, &object.mapping) != SELVAGE_SUCCESS)
        return standin_give(hipErrorInvalidDevicePointer);
    object.ptr = object.mapping.base;
    object.bytes = object.mapping.bytes;
    if (object.mapping.borrowed || !standin_add(&object)) {
        sv_mapping_close(&object.mapping);
        return standin_refuse(__func__, hipErrorInvalidContext, "memory of the process itself cannot be opened");
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipIpcCloseMemHandle(void *ptr)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_OPENED, ptr, &object))
        return standin_give(hipErrorInvalidValue);
    sv_mapping_close(&object.mapping);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

/* Host memory. */

hipError_t hipHostMalloc(void **ptr, size_t bytes, unsigned flags)
{
    if (standin_begins(__func__))
        return standin_give(hipErrorOutOfMemory);
    standin_object_t object = {.kind = STANDIN_HOST, .gpu = current_gpu, .bytes = bytes};
    if (!(flags & hipHostMallocCoherent))
        return standin_refuse(__func__, hipErrorInvalidValue, "memory that kernels may keep in caches");
    if (!(flags & hipHostMallocMapped) || posix_memalign(&object.ptr, 4096, bytes) != 0)
        return standin_refuse(__func__, hipErrorInvalidValue, "memory that kernels cannot reach");
    if (!standin_add(&object)) {
        free(object.ptr);
        return standin_give(hipErrorOutOfMemory);
    }
    *ptr = object.ptr;
    return hipSuccess;
}

hipError_t hipHostFree(void *ptr)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_HOST, ptr, &object))
        return standin_refuse(__func__, hipErrorInvalidValue, "this is no pinned memory");
    free(ptr);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

/* The device address is a second mapping of the same pages. */
hipError_t hipHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_REGISTERED, .gpu = current_gpu, .ptr = ptr, .bytes = bytes};
    standin_object_t other;
    if (standin_find_range(STANDIN_REGISTERED, ptr, 1, &other))
        return standin_refuse(__func__, hipErrorHostMemoryAlreadyRegistered, "this memory is registered already");
    if (!(flags & hipHostRegisterMapped))
        return standin_refuse(__func__, hipErrorInvalidValue, "memory that kernels cannot reach");
    object.alias = mremap(ptr, 0, bytes, MREMAP_MAYMOVE);
    if (object.alias == MAP_FAILED || !standin_add(&object))
        return standin_give(hipErrorOutOfMemory);
    return hipSuccess;
}

hipError_t hipHostUnregister(void *ptr)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_REGISTERED, ptr, &object))
        return standin_refuse(__func__, hipErrorHostMemoryNotRegistered, "this memory is not registered");
    munmap(object.alias, object.bytes);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipHostGetDevicePointer(void **ptr, void *host, unsigned flags)
{
    BEGIN();
    standin_object_t object;
    *ptr = host; /* of memory that the runtime allocated itself */
    if (flags == 0 && standin_find_range(STANDIN_HOST, host, 1, &object))
        return hipSuccess;
    if (flags != 0 || !standin_find_range(STANDIN_REGISTERED, host, 1, &object))
        return standin_refuse(__func__, hipErrorInvalidValue, "this memory is not registered");
    *ptr = (char *)object.alias + ((char *)host - (char *)object.ptr);
    return hipSuccess;
}

/* Streams and events. */

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_STREAM, .gpu = current_gpu};
    if (flags != hipStreamNonBlocking || priority < -1 || priority > 1)
        return standin_refuse(__func__, hipErrorInvalidValue, "flags or priority");
    hipError_t error = error_of(standin_device()->ops->stream_create(standin_device(), &object.ptr));
    if (error == hipSuccess && !standin_add(&object)) {
        standin_device()->ops->stream_destroy(standin_device(), object.ptr);
        error = hipErrorOutOfMemory;
    }
    if (error == hipSuccess)
        *stream = object.ptr;
    return standin_give(error);
}

/* NULL is the default stream, of whichever GPU is current. */
bool standin_is_stream(hipStream_t stream)
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
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_STREAM, stream, &object))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no stream");
    standin_device()->ops->stream_destroy(standin_device(), stream);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (stream && !standin_find(STANDIN_STREAM, stream, &object)) /* of any GPU */
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no stream");
    hipError_t error = error_of(standin_device()->ops->stream_sync(standin_device(), stream));
    return standin_give(fails ? hipErrorUnknown : error);
}

static void wait_for_stream(void *stream, void *arg)
{
    selvage_status_t *status = arg, result = standin_device()->ops->stream_sync(standin_device(), stream);
    *status = *status == SELVAGE_SUCCESS ? result : *status;
}

hipError_t hipDeviceSynchronize(void)
{
    BEGIN();
    selvage_status_t status = SELVAGE_SUCCESS;
    wait_for_stream(NULL, &status);
    standin_visit_streams(current_gpu, wait_for_stream, &status);
    return standin_result(status);
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    BEGIN();
    if (!standin_is_stream(stream))
        return standin_refuse(__func__, hipErrorInvalidHandle, "no stream of the current GPU");
    return standin_result(standin_device()->ops->stream_query(standin_device(), stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    BEGIN();
    if (!standin_is_stream(stream) || !is_event(event) || flags != 0)
        return standin_refuse(__func__, hipErrorInvalidHandle, "no stream or event of the current GPU");
    return standin_result(standin_device()->ops->stream_wait_event(standin_device(), stream, (sv_event_t *)event));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    BEGIN();
    if (!standin_is_stream(stream))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no stream of the current GPU");
    const char *which = getenv("HIP_STANDIN_CAPTURE");
    if (which && !stream)
        return standin_give(hipErrorStreamCaptureImplicit);
    bool own = which && strcmp(which, "own") == 0;
    *status = own ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    BEGIN();
    standin_object_t object = {.kind = STANDIN_EVENT, .gpu = current_gpu};
    sv_event_t *made;
    if (flags != hipEventDisableTiming)
        return standin_refuse(__func__, hipErrorInvalidValue, "an event that takes the time");
    hipError_t error = error_of(standin_device()->ops->event_create(standin_device(), &made));
    if (error != hipSuccess)
        return standin_give(error);
    object.ptr = made;
    if (!standin_add(&object)) {
        standin_device()->ops->event_destroy(standin_device(), made);
        return standin_give(hipErrorOutOfMemory);
    }
    *event = object.ptr;
    return hipSuccess;
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_EVENT, event, &object))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no event");
    standin_device()->ops->event_destroy(standin_device(), (sv_event_t *)event);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    BEGIN();
    if (!standin_is_stream(stream) || !is_event(event))
        return standin_refuse(__func__, hipErrorInvalidHandle, "no stream or event of the current GPU");
    return standin_result(standin_device()->ops->event_record(standin_device(), (sv_event_t *)event, stream));
}

hipError_t hipEventQuery(hipEvent_t event)
{
    BEGIN();
    if (!is_event(event))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no event of the current GPU");
    return standin_result(standin_device()->ops->event_query(standin_device(), (sv_event_t *)event));
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
    if (!standin_is_stream(stream))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no stream of the current GPU");
    if (kind != hipMemcpyDefault || !is_known(dst, bytes) || !is_known(src, bytes))
        return standin_refuse(__func__, hipErrorInvalidValue, "from or to memory that is not pinned or not alive");
    return standin_result(standin_device()->ops->copy_async(standin_device(), dst, src, bytes, SV_COPY_D2D, stream));
}

hipError_t hipMemsetAsync(void *dst, int value, size_t bytes, hipStream_t stream)
{
    BEGIN();
    if (!standin_is_stream(stream) || !is_known(dst, bytes))
        return standin_refuse(__func__, hipErrorInvalidValue, "no stream, or memory that is not pinned or not alive");
    return standin_result(standin_device()->ops->fill_async(standin_device(), dst, value, bytes, stream));
}
