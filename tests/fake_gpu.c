/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plug-in that pretends to be a machine with FAKE_GPUS GPUs, seen from FAKE_GPU_FIRST on (as by a mask), of which
 * number FAKE_GPU_BAD cannot be made current, and the one with number FAKE_GPU_APART on the machine cannot reach
 * others. Its memory is the host's and its streams run at once, so that small exchanges work; no process can map the
 * memory of another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device_plugin.h"

enum { BUS_FIRST = 0xc0, ALIGN = 256 };

typedef struct fake_handle {
    long pid;
    void *base;
} fake_handle_t;

static int current;
static const sv_plugin_host_t *services;

static int number_in(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int count_gpus(void)
{
    return number_in("FAKE_GPUS", 0);
}

static int select_gpu(int index)
{
    if (index == number_in("FAKE_GPU_BAD", -1))
        return 101;
    current = index;
    return 0;
}

static void close_gpu(sv_device_t *dev)
{
    services->free(dev);
}

static selvage_status_t allocate(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    (void)dev;
    void *ptr = aligned_alloc(ALIGN, (bytes / ALIGN + 1) * ALIGN);
    if (!ptr)
        return services->error(SELVAGE_ERR_MEMORY, "pretended GPU: no memory");
    *ptr_out = ptr;
    return SELVAGE_SUCCESS;
}

static selvage_status_t allocate_pinned(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    services->note_pinned();
    return allocate(dev, bytes, ptr_out);
}

static void release(sv_device_t *dev, void *ptr)
{
    (void)dev;
    free(ptr);
}

static selvage_status_t pin(sv_device_t *dev, void *ptr, size_t bytes)
{
    (void)dev, (void)ptr, (void)bytes;
    return SELVAGE_SUCCESS;
}

static void unpin(sv_device_t *dev, void *ptr)
{
    (void)dev, (void)ptr;
}

static selvage_status_t same_address(sv_device_t *dev, void *ptr, void **address_out)
{
    (void)dev;
    *address_out = ptr;
    return SELVAGE_SUCCESS;
}

/* Streams and events are names only: all work is done when it has been enqueued. */
static selvage_status_t make_stream(sv_device_t *dev, void **stream_out)
{
    *stream_out = dev;
    return SELVAGE_SUCCESS;
}

static void drop_stream(sv_device_t *dev, void *stream)
{
    (void)dev, (void)stream;
}

static selvage_status_t sync_stream(sv_device_t *dev, void *stream)
{
    (void)dev, (void)stream;
    return SELVAGE_SUCCESS;
}

static selvage_status_t make_event(sv_device_t *dev, sv_event_t **event_out)
{
    *event_out = (sv_event_t *)(void *)dev;
    return SELVAGE_SUCCESS;
}

static void drop_event(sv_device_t *dev, sv_event_t *event)
{
    (void)dev, (void)event;
}

static selvage_status_t record_event(sv_device_t *dev, sv_event_t *event, void *stream)
{
    (void)dev, (void)event, (void)stream;
    return SELVAGE_SUCCESS;
}

static selvage_status_t query_event(sv_device_t *dev, sv_event_t *event)
{
    (void)dev, (void)event;
    return SELVAGE_SUCCESS;
}

static selvage_status_t wait_event(sv_device_t *dev, void *stream, sv_event_t *event)
{
    return record_event(dev, event, stream);
}

static selvage_status_t copy(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                             void *stream)
{
    (void)dev, (void)kind, (void)stream;
    if (bytes)
        memcpy(dst, src, bytes);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill(sv_device_t *dev, void *dst, int value, size_t bytes, void *stream)
{
    (void)dev, (void)stream;
    if (bytes)
        memset(dst, value, bytes);
    return SELVAGE_SUCCESS;
}

static selvage_status_t store_word(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream)
{
    (void)dev, (void)stream;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

static selvage_status_t pause_stream(sv_device_t *dev, double us, void *stream)
{
    (void)dev, (void)us, (void)stream;
    return SELVAGE_SUCCESS;
}

/* Launches use launch_blocks, which is 1: no block waits for another. */
static selvage_status_t launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                               unsigned nblocks, void *stream)
{
    (void)dev, (void)arg_bytes, (void)stream;
    for (unsigned block = 0; block < nblocks; block++)
        kernel->soft(arg, block, nblocks);
    return SELVAGE_SUCCESS;
}

static selvage_status_t export_pointer(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                       uint64_t *offset_out)
{
    fake_handle_t handle = {(long)getpid(), (void *)(uintptr_t)ptr};
    (void)dev, (void)bytes;
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out, &handle, sizeof handle);
    *offset_out = 0;
    return SELVAGE_SUCCESS;
}

static selvage_status_t open_pointer(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                     uint64_t *bytes_out)
{
    fake_handle_t opened;
    (void)dev;
    memcpy(&opened, handle, sizeof opened);
    if (opened.pid != (long)getpid())
        return services->error_quiet(SELVAGE_ERR_DEVICE, "pretended GPU: memory of another process");
    *base_out = opened.base;
    *bytes_out = UINT64_MAX; /* it is memory of this process */
    return SELVAGE_SUCCESS;
}

static int number_on_machine(const char *bus_id)
{
    unsigned bus = 0;
    return sscanf(bus_id, "0000:%x:00.0", &bus) == 1 ? (int)bus - BUS_FIRST : -1;
}

static selvage_status_t reach(sv_device_t *dev, const char *bus_id, int *possible_out)
{
    int first = number_in("FAKE_GPU_FIRST", 0), apart = number_in("FAKE_GPU_APART", -1);
    int mine = number_on_machine(dev->bus_id), other = number_on_machine(bus_id);
    if (other < first || other >= first + count_gpus())
        return services->error_quiet(SELVAGE_ERR_UNSUPPORTED, "pretended GPU %d does not see %s", mine, bus_id);
    *possible_out = mine == other || (mine != apart && other != apart);
    return SELVAGE_SUCCESS;
}

static bool is_capturing(sv_device_t *dev, void *stream)
{
    (void)dev, (void)stream;
    return false;
}

static selvage_status_t sync_all(sv_device_t *dev)
{
    (void)dev;
    return SELVAGE_SUCCESS;
}

static const sv_device_ops_t ops = {
    .abi = SV_DEVICE_ABI,
    .name = "amd",
    .close = close_gpu,
    .malloc = allocate,
    .malloc_fine = allocate,
    .free = release,
    .host_malloc = allocate_pinned,
    .host_free = release,
    .host_register = pin,
    .host_unregister = unpin,
    .host_address = same_address,
    .stream_create = make_stream,
    .stream_destroy = drop_stream,
    .stream_sync = sync_stream,
    .event_create = make_event,
    .event_destroy = drop_event,
    .event_record = record_event,
    .event_query = query_event,
    .stream_wait_event = wait_event,
    .copy_async = copy,
    .fill_async = fill,
    .signal_async = store_word,
    .delay_async = pause_stream,
    .launch = launch,
    .export_memory = export_pointer,
    .open_memory = open_pointer,
    .close_memory = unpin,
    .peer_access = reach,
    .stream_is_capturing = is_capturing,
    .device_sync = sync_all,
    .make_current = sync_all,
};

/* Memory of a GPU is what is named by its number. */
static int locate(const void *ptr)
{
    return (uintptr_t)ptr < (uintptr_t)count_gpus() ? (int)(uintptr_t)ptr : SV_PLUGIN_CURRENT;
}

static selvage_status_t open_gpu(const sv_plugin_host_t *host, sv_ranges_t ranges, int index, sv_device_t **dev_out)
{
    (void)ranges;
    sv_device_t *dev;
    services = host;
    if (index == SV_PLUGIN_CURRENT)
        index = current;
    if (index == number_in("FAKE_GPU_BAD", -1))
        return host->error(SELVAGE_ERR_DEVICE, "pretended GPU %d cannot be opened", index);
    selvage_status_t status = host->calloc(1, sizeof *dev, &dev);
    if (status != SELVAGE_SUCCESS)
        return status;
    dev->ops = &ops;
    dev->launch_blocks = 1;
    dev->index = index;
    dev->count = count_gpus();
    snprintf(dev->bus_id, sizeof dev->bus_id, "0000:%02x:00.0",
             (unsigned)(BUS_FIRST + number_in("FAKE_GPU_FIRST", 0) + index));
    snprintf(dev->model, sizeof dev->model, "pretended GPU");
    *dev_out = dev;
    return SELVAGE_SUCCESS;
}

static const sv_plugin_t plugin = {
    .abi = SV_PLUGIN_ABI, .name = "amd", .device_count = count_gpus, .select = select_gpu,
    .locate = locate, .open = open_gpu};

__attribute__((visibility("default"))) const sv_plugin_t *selvage_device_plugin(void);
const sv_plugin_t *selvage_device_plugin(void)
{
    return &plugin;
}
