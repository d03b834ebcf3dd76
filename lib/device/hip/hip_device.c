/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HIP device: one source for AMD and NVIDIA (hip_api.h). The device is one GPU, by default the one that was current
 * when it was opened. Every call makes it current for its own duration and restores the caller's. Streams and events
 * are native handles, so that an application passes its own. Calls are as thread-safe as the runtime's.
 */
#include <ctype.h>
#include <string.h>

#include "base/base_log.h"
#include "device/hip/hip_priv.h"

selvage_status_t sv_hip_status(const hip_device_t *dev, hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return SELVAGE_SUCCESS;
    (void)hipGetLastError();
    selvage_status_t status = error == hipErrorOutOfMemory ? SELVAGE_ERR_MEMORY : SELVAGE_ERR_DEVICE;
    return dev->host->error(status, "%s on GPU %d: %s (%s)", call, dev->index, hipGetErrorName(error),
                            hipGetErrorString(error));
}

/* Runs one runtime call on the device and returns its status. */
#define HIP_CALL(dev, call, name) return sv_hip_status(hip_of(dev), HIP_RUN(hip_of(dev), call), name)

static selvage_status_t hip_stream_create(sv_device_t *dev, void **stream_out)
{
    hipStream_t stream = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipStreamCreateWithPriority(&stream, hipStreamNonBlocking,
                                                                        hip_of(dev)->priority));
    if (error == hipSuccess)
        *stream_out = stream;
    return sv_hip_status(hip_of(dev), error, "hipStreamCreateWithPriority");
}

static void hip_stream_destroy(sv_device_t *dev, void *stream)
{
    hipError_t error = HIP_RELEASE(hip_of(dev), hipStreamSynchronize((hipStream_t)stream));
    (void)sv_hip_status(hip_of(dev), error, "hipStreamSynchronize");
    error = HIP_RELEASE(hip_of(dev), hipStreamDestroy((hipStream_t)stream));
    (void)sv_hip_status(hip_of(dev), error, "hipStreamDestroy");
}

static selvage_status_t hip_stream_sync(sv_device_t *dev, void *stream)
{
    HIP_CALL(dev, hipStreamSynchronize((hipStream_t)stream), "hipStreamSynchronize");
}

static selvage_status_t event_create(sv_device_t *dev, sv_event_t **event_out)
{
    hipEvent_t event = NULL;
    hipError_t error = HIP_RUN(hip_of(dev), hipEventCreateWithFlags(&event, hipEventDisableTiming));
    if (error == hipSuccess)
        *event_out = (sv_event_t *)(void *)event;
    return sv_hip_status(hip_of(dev), error, "hipEventCreateWithFlags");
}

static void event_destroy(sv_device_t *dev, sv_event_t *event)
{
    hipError_t error = HIP_RELEASE(hip_of(dev), hipEventDestroy((hipEvent_t)(void *)event));
    (void)sv_hip_status(hip_of(dev), error, "hipEventDestroy");
}

static selvage_status_t event_record(sv_device_t *dev, sv_event_t *event, void *stream)
{
    HIP_CALL(dev, hipEventRecord((hipEvent_t)(void *)event, (hipStream_t)stream), "hipEventRecord");
}

static selvage_status_t event_query(sv_device_t *dev, sv_event_t *event)
{
    hipError_t error = HIP_RUN(hip_of(dev), hipEventQuery((hipEvent_t)(void *)event));
    if (error != hipErrorNotReady)
        return sv_hip_status(hip_of(dev), error, "hipEventQuery");
    (void)hipGetLastError(); /* or the application's next look at its own errors finds "not ready" */
    return SELVAGE_IN_PROGRESS;
}

static selvage_status_t stream_query(sv_device_t *dev, void *stream)
{
    hipError_t error = HIP_RUN(hip_of(dev), hipStreamQuery((hipStream_t)stream));
    if (error != hipErrorNotReady)
        return sv_hip_status(hip_of(dev), error, "hipStreamQuery");
    (void)hipGetLastError(); /* as above */
    return SELVAGE_IN_PROGRESS;
}

static selvage_status_t stream_wait_event(sv_device_t *dev, void *stream, sv_event_t *event)
{
    HIP_CALL(dev, hipStreamWaitEvent((hipStream_t)stream, (hipEvent_t)(void *)event, 0), "hipStreamWaitEvent");
}

/* Waits for the current GPU, too: the memory that the caller thinks of may be that one's. */
static selvage_status_t device_sync(sv_device_t *dev)
{
    int current = 0;
    hipError_t error = hipGetDevice(&current);
    if (error == hipSuccess && current != hip_of(dev)->index)
        error = hipDeviceSynchronize();
    if (error == hipSuccess)
        error = HIP_RUN(hip_of(dev), hipDeviceSynchronize());
    return sv_hip_status(hip_of(dev), error, "hipDeviceSynchronize");
}

static selvage_status_t hip_make_current(sv_device_t *dev)
{
    return sv_hip_status(hip_of(dev), hipSetDevice(hip_of(dev)->index), "hipSetDevice");
}

/* Two rows without a gap, so that a copy engine copies them. Of an odd number of bytes the last two go once more. */
static selvage_status_t copy_rows(sv_device_t *dev, char *dst, const char *src, size_t bytes, void *stream)
{
    const size_t row = bytes / 2;
    hipError_t error = HIP_RUN(hip_of(dev), sv_hip_copy_rows(dst, src, row, (hipStream_t)stream));
    if (error == hipSuccess && bytes % 2)
        error = HIP_RUN(hip_of(dev), sv_hip_copy_rows(dst + bytes - 2, src + bytes - 2, 1, (hipStream_t)stream));
    return sv_hip_status(hip_of(dev), error, "hipMemcpy2DAsync");
}

static selvage_status_t copy_async(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                   void *stream)
{
    enum { ROWS_SOONER_BYTES = 12 << 10 }; /* even numbers of bytes, also where the GPU is not shared */
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    if (kind == SV_COPY_H2D && bytes < hip_of(dev)->inline_bytes && bytes > 1 &&
        ((bytes >= ROWS_SOONER_BYTES && bytes % 2 == 0) || hip_of(dev)->host->is_shared(dev->sharing)))
        return copy_rows(dev, dst, src, bytes, stream);
    /* Addresses are unified: the runtime sees where they lie. */
    HIP_CALL(dev, hipMemcpyAsync(dst, src, bytes, hipMemcpyDefault, (hipStream_t)stream), "hipMemcpyAsync");
}

static selvage_status_t fill_async(sv_device_t *dev, void *dst, int value, size_t bytes, void *stream)
{
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    HIP_CALL(dev, hipMemsetAsync(dst, value, bytes, (hipStream_t)stream), "hipMemsetAsync");
}

/* Numbers are this process's own, so the other GPU comes by its bus id; a mask of visible devices may hide it. */
static selvage_status_t peer_access(sv_device_t *dev, const char *bus_id, int *possible_out)
{
    hip_device_t *hip = hip_of(dev);
    int other = -1, possible = 1;
    hipError_t error = hipDeviceGetByPCIBusId(&other, bus_id); /* asks about GPUs: none need be current */
    if (error != hipSuccess) {
        hip_ignore(error);
        return hip->host->error_quiet(SELVAGE_ERR_UNSUPPORTED, "GPU %d does not see GPU %s", hip->index, bus_id);
    }
    if (other != hip->index)
        error = hipDeviceCanAccessPeer(&possible, hip->index, other);
    if (error == hipSuccess)
        *possible_out = possible;
    return sv_hip_status(hip, error, "hipDeviceCanAccessPeer");
}

static void hip_close(sv_device_t *dev)
{
    if (!dev)
        return;
    hip_device_t *hip = hip_of(dev);
    sv_hip_unload_kernels(hip);
    hip->host->free(hip);
}

#if defined(__HIP_PLATFORM_AMD__)
#define HIP_NAME "amd"
#else
#define HIP_NAME "nvidia"
#endif

static const sv_device_ops_t hip_ops = {
    .abi = SV_DEVICE_ABI,
    .name = HIP_NAME,
    .close = hip_close,
    .malloc = sv_hip_malloc,
    .free = sv_hip_free,
    .host_malloc = sv_hip_host_malloc,
    .host_free = sv_hip_host_free,
    .host_register = sv_hip_host_register,
    .host_unregister = sv_hip_host_unregister,
    .host_address = sv_hip_host_address,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_sync = hip_stream_sync,
    .stream_query = stream_query,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .stream_wait_event = stream_wait_event,
    .copy_async = copy_async,
    .fill_async = fill_async,
    .signal_async = sv_hip_signal,
    .delay_async = sv_hip_delay,
    .launch = sv_hip_launch,
    .export_memory = sv_hip_export,
    .open_memory = sv_hip_open_memory,
    .close_memory = sv_hip_close_memory,
    .malloc_fine = sv_hip_malloc_fine,
    .range_push = sv_hip_range_push,
    .range_pop = sv_hip_range_pop,
    .peer_access = peer_access,
    .memory_kind = sv_hip_memory_kind,
    .memory_id = sv_hip_memory_id,
    .stream_is_capturing = sv_hip_stream_is_capturing,
    .device_sync = device_sync,
    .make_current = hip_make_current,
    .graph_begin = sv_hip_graph_begin,
    .graph_end = sv_hip_graph_end,
    .graph_launch = sv_hip_graph_launch,
    .graph_destroy = sv_hip_graph_destroy,
};

/* With the GPU current. */
static selvage_status_t prepare_device(hip_device_t *dev, sv_launches_t launches)
{
    int lowest = 0, multiprocessors = 1;
    void *nothing = NULL;
    /* Makes the context of this GPU, which modules need. */
    selvage_status_t status = sv_hip_status(dev, hipFree(nothing), "first call");
    if (status == SELVAGE_SUCCESS)
        status = sv_hip_status(dev, hipDeviceGetStreamPriorityRange(&lowest, &dev->priority),
                               "hipDeviceGetStreamPriorityRange");
    if (status == SELVAGE_SUCCESS)
        status = sv_hip_status(dev, hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount,
                                                          dev->index), "hipDeviceGetAttribute");
#if defined(__HIP_PLATFORM_AMD__)
    if (status == SELVAGE_SUCCESS)
        status = sv_hip_try_numbers(dev);
#endif
    dev->pid_space = sv_hip_pid_space();
    dev->writes_words = sv_hip_can_write_words(dev->index);
    dev->starts_early = sv_hip_can_start_early(dev->index);
    dev->starts_early_in_graphs = dev->starts_early && sv_hip_can_start_early_in_graphs();
    dev->prepares = launches != SV_LAUNCHES_PLAIN && sv_hip_can_prepare();
    dev->prepares_all = launches == SV_LAUNCHES_PREPARED;
    dev->inline_bytes = SV_HIP_INLINE_BYTES;
    dev->base.kernel_host_bytes = 1 << 20;
    dev->base.kernel_peer_bytes = 4 << 20;
    dev->base.kernel_summed_bytes = 16 << 20;
    dev->base.kernel_alone_bytes = 32 << 10;
    dev->base.early_wait_ns = 50000;
    dev->base.kernels_wait = true;
    dev->base.shows_stores = strcmp(HIP_NAME, "amd") != 0; /* which keeps ordinary memory in caches */
    dev->base.launch_blocks = (unsigned)multiprocessors * HIP_BLOCKS_EACH;
    return status == SELVAGE_SUCCESS ? sv_hip_load_kernels(dev) : status;
}

static int count_devices(void)
{
    int count = 0;
    hipError_t error = hipGetDeviceCount(&count);
    hip_ignore(error);
    return error == hipSuccess ? count : 0;
}

/* What people and sysfs call this GPU. It works without, so that nothing here is an error. */
static void name_device(hip_device_t *dev)
{
    sv_device_t *base = &dev->base;
    base->index = dev->index;
    base->count = count_devices();
    hipError_t error = hipDeviceGetPCIBusId(base->bus_id, (int)sizeof base->bus_id, dev->index);
    hip_ignore(error);
    if (error != hipSuccess)
        base->bus_id[0] = '\0';
    error = hipDeviceGetName(base->model, (int)sizeof base->model, dev->index);
    hip_ignore(error);
    if (error != hipSuccess)
        base->model[0] = '\0';
    for (char *c = base->bus_id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

static selvage_status_t open_gpu(const sv_plugin_host_t *host, const sv_plugin_wishes_t *wishes, int index,
                                 sv_device_t **dev_out)
{
    hip_device_t *dev;
    int before = 0;
    selvage_status_t status = host->calloc(1, sizeof *dev, &dev);
    if (status != SELVAGE_SUCCESS)
        return status;
    dev->base.ops = &hip_ops;
    sv_hip_open_prepared(dev);
    dev->host = host;
    dev->index = index;
    if (index == SV_PLUGIN_CURRENT)
        status = sv_hip_status(dev, hipGetDevice(&dev->index), "hipGetDevice");
    if (status == SELVAGE_SUCCESS)
        status = sv_hip_status(dev, hip_enter(dev, &before), "hipSetDevice");
    if (status == SELVAGE_SUCCESS) {
        status = prepare_device(dev, wishes->launches);
        hip_leave(dev, before);
    }
    if (status != SELVAGE_SUCCESS) {
        hip_close(&dev->base);
        return status;
    }
    name_device(dev);
    sv_hip_open_ranges(dev, wishes->ranges);
    host->log(SV_LOG_INFO, "device", HIP_NAME " GPU %d (%s, %s)", dev->index, dev->base.bus_id, dev->base.model);
    *dev_out = &dev->base;
    return SELVAGE_SUCCESS;
}

static int select_device(int index)
{
    hipError_t error = hipSetDevice(index);
    hip_ignore(error);
    return (int)error;
}

static const sv_plugin_t plugin = {
    .abi = SV_PLUGIN_ABI,
    .name = HIP_NAME,
    .device_count = count_devices,
    .select = select_device,
    .locate = sv_hip_gpu_of,
    .open = open_gpu,
};

__attribute__((visibility("default"))) const sv_plugin_t *selvage_device_plugin(void);
const sv_plugin_t *selvage_device_plugin(void)
{
    return &plugin;
}
