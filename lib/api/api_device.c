/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public device calls. Arguments are checked and named here. Then the device's table does the work. No state is
 * kept, and any thread may call. Calls that enqueue neither allocate nor lock.
 */
#include <string.h>

#include <selvage/device.h>

#include "api/api_params.h"
#include "base/base_clock.h"
#include "base/base_config.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "device/device.h"
#include "device/device_sharing.h"

/* A pause longer than this is a mistake in units. */
#define DELAY_US_MAX 1e12

/* Refuses the call, naming the argument, unless cond holds. */
#define CHECK_ARGUMENT(cond, text)                             \
    do {                                                       \
        if (!(cond))                                           \
            return sv_error(SELVAGE_ERR_ARGUMENT, text);       \
    } while (0)

/* What was tried first and was not there is no error of a call that succeeds. */
static selvage_status_t end_call(selvage_status_t status)
{
    sv_thread_end_call(status < 0);
    return status;
}

static selvage_status_t load_config(sv_config_t *config_out)
{
    sv_thread_begin_call();
    SV_TRY(sv_config_load(NULL, NULL, config_out));
    sv_config_bind_log(config_out, sv_thread_binding());
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_device_open(const char *name, selvage_device_t **dev_out)
{
    sv_config_t config;
    CHECK_ARGUMENT(dev_out, "dev_out: must not be NULL");
    SV_TRY(load_config(&config));
    return end_call(sv_device_open(name, &config, dev_out));
}

selvage_status_t selvage_device_open_local(const char *name, selvage_device_t **dev_out)
{
    sv_config_t config;
    CHECK_ARGUMENT(dev_out, "dev_out: must not be NULL");
    SV_TRY(load_config(&config));
    return end_call(sv_device_open_local(name, &config, dev_out));
}

selvage_status_t selvage_device_open_at(const char *name, const void *memory, selvage_device_t **dev_out)
{
    sv_config_t config;
    CHECK_ARGUMENT(memory, "memory: must not be NULL");
    CHECK_ARGUMENT(dev_out, "dev_out: must not be NULL");
    SV_TRY(load_config(&config));
    return end_call(sv_device_open_at(name, memory, &config, dev_out));
}

selvage_status_t selvage_device_probe(const char *name, int *count_out)
{
    sv_config_t config;
    CHECK_ARGUMENT(name, "name: must not be NULL");
    CHECK_ARGUMENT(count_out, "count_out: must not be NULL");
    SV_TRY(load_config(&config));
    return end_call(sv_device_probe(name, &config, count_out));
}

void selvage_device_close(selvage_device_t *dev)
{
    if (dev)
        dev->ops->close(dev);
}

const char *selvage_device_name(const selvage_device_t *dev)
{
    return dev ? dev->ops->name : "";
}

selvage_status_t selvage_device_describe(const selvage_device_t *dev, selvage_device_info_t *info)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(info, "info: must not be NULL");
    selvage_device_info_t known = {.index = dev->index, .count = dev->count};
    memcpy(known.bus_id, dev->bus_id, sizeof known.bus_id);
    memcpy(known.model, dev->model, sizeof known.model);
    return sv_api_fill_struct("info", "SELVAGE_DEVICE_INFO_INIT", info, &known, sizeof known);
}

selvage_status_t selvage_device_peer_access(selvage_device_t *dev, const char *bus_id, int *possible_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(bus_id, "bus_id: must not be NULL");
    CHECK_ARGUMENT(possible_out, "possible_out: must not be NULL");
    sv_thread_begin_call();
    return end_call(SV_DEVICE_CALL(dev, peer_access, bus_id, possible_out));
}

selvage_status_t selvage_device_is_shared(selvage_device_t *dev, int *shared_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(shared_out, "shared_out: must not be NULL");
    *shared_out = sv_sharing_is_shared(dev->sharing);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_device_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(ptr_out, "ptr_out: must not be NULL");
    return SV_DEVICE_CALL(dev, malloc, bytes, ptr_out);
}

void selvage_device_free(selvage_device_t *dev, void *ptr)
{
    if (!dev || !ptr)
        return;
    SV_DEVICE_CALL(dev, free, ptr);
    sv_device_note_freed();
}

selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(ptr_out, "ptr_out: must not be NULL");
    return SV_DEVICE_CALL(dev, host_malloc, bytes, ptr_out);
}

void selvage_device_host_free(selvage_device_t *dev, void *ptr)
{
    if (dev && ptr)
        SV_DEVICE_CALL(dev, host_free, ptr);
}

selvage_status_t selvage_stream_create(selvage_device_t *dev, void **stream_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(stream_out, "stream_out: must not be NULL");
    return SV_DEVICE_CALL(dev, stream_create, stream_out);
}

void selvage_stream_destroy(selvage_device_t *dev, void *stream)
{
    if (dev && stream)
        SV_DEVICE_CALL(dev, stream_destroy, stream);
}

selvage_status_t selvage_stream_synchronize(selvage_device_t *dev, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    return SV_DEVICE_CALL(dev, stream_sync, stream);
}

selvage_status_t selvage_event_create(selvage_device_t *dev, selvage_event_t **event_out)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(event_out, "event_out: must not be NULL");
    return SV_DEVICE_CALL(dev, event_create, event_out);
}

void selvage_event_destroy(selvage_device_t *dev, selvage_event_t *event)
{
    if (dev && event)
        SV_DEVICE_CALL(dev, event_destroy, event);
}

selvage_status_t selvage_event_record(selvage_device_t *dev, selvage_event_t *event, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(event, "event: must not be NULL");
    return SV_DEVICE_CALL(dev, event_record, event, stream);
}

selvage_status_t selvage_event_query(selvage_device_t *dev, selvage_event_t *event)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(event, "event: must not be NULL");
    return SV_DEVICE_CALL(dev, event_query, event);
}

/* It polls, as devices' own waits do. */
selvage_status_t selvage_event_synchronize(selvage_device_t *dev, selvage_event_t *event)
{
    sv_backoff_t backoff = {0};
    selvage_status_t status;
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(event, "event: must not be NULL");
    while ((status = SV_DEVICE_CALL(dev, event_query, event)) == SELVAGE_IN_PROGRESS)
        sv_backoff(&backoff);
    return status;
}

selvage_status_t selvage_graph_begin(selvage_device_t *dev, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(stream, "stream: must not be NULL");
    return SV_DEVICE_CALL(dev, graph_begin, stream);
}

selvage_status_t selvage_graph_end(selvage_device_t *dev, void *stream, selvage_graph_t **graph_out)
{
    void *graph = NULL;
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(stream, "stream: must not be NULL");
    CHECK_ARGUMENT(graph_out, "graph_out: must not be NULL");
    selvage_status_t status = SV_DEVICE_CALL(dev, graph_end, stream, &graph);
    if (status == SELVAGE_SUCCESS)
        *graph_out = graph;
    return status;
}

selvage_status_t selvage_graph_launch(selvage_device_t *dev, selvage_graph_t *graph, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(graph, "graph: must not be NULL");
    return SV_DEVICE_CALL(dev, graph_launch, graph, stream);
}

void selvage_graph_destroy(selvage_device_t *dev, selvage_graph_t *graph)
{
    if (dev && graph)
        SV_DEVICE_CALL(dev, graph_destroy, graph);
}

selvage_status_t selvage_device_synchronize(selvage_device_t *dev)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    return dev->ops->device_sync(dev);
}

selvage_status_t selvage_device_make_current(selvage_device_t *dev)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    return dev->ops->make_current(dev);
}

selvage_status_t selvage_device_memory(selvage_device_t *dev, const void *ptr, size_t bytes,
                                       selvage_memory_t *memory_out)
{
    static const selvage_memory_t known[SV_MEMORY_KINDS] = {
        [SV_MEMORY_UNKNOWN] = SELVAGE_MEMORY_UNKNOWN, [SV_MEMORY_DEVICE] = SELVAGE_MEMORY_DEVICE,
        [SV_MEMORY_POOL] = SELVAGE_MEMORY_DEVICE, [SV_MEMORY_VIRTUAL] = SELVAGE_MEMORY_DEVICE,
        [SV_MEMORY_MANAGED] = SELVAGE_MEMORY_MANAGED, [SV_MEMORY_PINNED] = SELVAGE_MEMORY_PINNED,
        [SV_MEMORY_HOST] = SELVAGE_MEMORY_HOST, [SV_MEMORY_PAGEABLE] = SELVAGE_MEMORY_HOST,
        [SV_MEMORY_OTHER] = SELVAGE_MEMORY_OTHER, [SV_MEMORY_SPLIT] = SELVAGE_MEMORY_NONE,
        [SV_MEMORY_FREED] = SELVAGE_MEMORY_NONE,
    };
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(bytes > 0, "bytes: must be at least 1");
    CHECK_ARGUMENT(memory_out, "memory_out: must not be NULL");
    sv_thread_begin_call();
    *memory_out = known[SV_DEVICE_CALL(dev, memory_kind, ptr, bytes)];
    return end_call(SELVAGE_SUCCESS);
}

selvage_status_t selvage_device_copy(selvage_device_t *dev, void *dst, const void *src, size_t bytes,
                                     selvage_copy_t direction, void *stream)
{
    static const sv_copy_kind_t kinds[] = {[SELVAGE_COPY_DEVICE_TO_HOST] = SV_COPY_D2H,
                                           [SELVAGE_COPY_HOST_TO_DEVICE] = SV_COPY_H2D,
                                           [SELVAGE_COPY_DEVICE_TO_DEVICE] = SV_COPY_D2D};
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(dst || bytes == 0, "dst: must not be NULL unless bytes is 0");
    CHECK_ARGUMENT(src || bytes == 0, "src: must not be NULL unless bytes is 0");
    if ((int)direction < SELVAGE_COPY_DEVICE_TO_HOST || direction > SELVAGE_COPY_DEVICE_TO_DEVICE)
        return sv_error(SELVAGE_ERR_ARGUMENT, "direction: %d is no selvage_copy_t", (int)direction);
    return SV_DEVICE_CALL(dev, copy_async, dst, src, bytes, kinds[direction], stream);
}

selvage_status_t selvage_device_fill(selvage_device_t *dev, void *dst, int value, size_t bytes, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(dst || bytes == 0, "dst: must not be NULL unless bytes is 0");
    return SV_DEVICE_CALL(dev, fill_async, dst, value, bytes, stream);
}

selvage_status_t selvage_device_delay_us(selvage_device_t *dev, double us, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    if (!(us >= 0 && us <= DELAY_US_MAX))
        return sv_error(SELVAGE_ERR_ARGUMENT, "us: %g is not within 0 and %g", us, DELAY_US_MAX);
    return SV_DEVICE_CALL(dev, delay_async, us, stream);
}

selvage_status_t selvage_device_launch_soft(selvage_device_t *dev, selvage_soft_kernel_t kernel, const void *arg,
                                            size_t arg_bytes, unsigned nblocks, void *stream)
{
    CHECK_ARGUMENT(dev, "dev: must not be NULL");
    CHECK_ARGUMENT(kernel, "kernel: must not be NULL");
    CHECK_ARGUMENT(arg || arg_bytes == 0, "arg: must not be NULL unless arg_bytes is 0");
    if (arg_bytes > SV_KERNEL_ARG_BYTES)
        return sv_error(SELVAGE_ERR_ARGUMENT, "arg_bytes: %zu is more than %d", arg_bytes, SV_KERNEL_ARG_BYTES);
    CHECK_ARGUMENT(nblocks > 0, "nblocks: must be at least 1");
    if (strcmp(dev->ops->name, "soft") != 0)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "device %s: launch kernels with its own runtime", dev->ops->name);
    /* The device reads the descriptor while it enqueues, so that it may live on this stack. */
    sv_kernel_t descriptor = {.name = "user kernel", .soft = kernel};
    return SV_DEVICE_CALL(dev, launch, &descriptor, arg, arg_bytes, nblocks, stream);
}
