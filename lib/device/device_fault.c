/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wrapper that makes calls into any device fail on purpose.
 *
 * It has the table of the device under it, with every call that can fail replaced by one that first asks the calling
 * thread's faults. Handles pass through untouched, so that wrapped and bare calls can be mixed. The wrapper does not
 * own the device under it: closing frees the wrapper only. Any thread.
 */
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/device.h"

typedef struct fault_device {
    sv_device_t base;
    sv_device_ops_t ops; /* a copy, because it bears the name of the device under it */
    sv_device_t *inner;
} fault_device_t;

static sv_device_t *inner_device_of(sv_device_t *dev)
{
    return ((fault_device_t *)dev)->inner;
}

/* Leaves the calling function with the status if this call is the one to fail. */
#define FAIL_IF_CHOSEN(status, what)                                                      \
    do {                                                                                  \
        if (sv_fault_call_fails(SV_FAULT_CALL_DEVICE))                                    \
            return sv_error((status), "injected fault: device call %s", (what));          \
    } while (0)

static void fault_device_close(sv_device_t *dev)
{
    sv_free(dev);
}

static selvage_status_t fault_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_MEMORY, "malloc");
    return SV_DEVICE_CALL(inner_device_of(dev), malloc, bytes, ptr_out);
}

static void fault_free(sv_device_t *dev, void *ptr)
{
    SV_DEVICE_CALL(inner_device_of(dev), free, ptr);
}

static selvage_status_t fault_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_MEMORY, "host_malloc");
    return SV_DEVICE_CALL(inner_device_of(dev), host_malloc, bytes, ptr_out);
}

static void fault_host_free(sv_device_t *dev, void *ptr)
{
    SV_DEVICE_CALL(inner_device_of(dev), host_free, ptr);
}

static selvage_status_t fault_host_register(sv_device_t *dev, void *ptr, size_t bytes)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "host_register");
    return SV_DEVICE_CALL(inner_device_of(dev), host_register, ptr, bytes);
}

static void fault_host_unregister(sv_device_t *dev, void *ptr)
{
    SV_DEVICE_CALL(inner_device_of(dev), host_unregister, ptr);
}

static selvage_status_t fault_host_address(sv_device_t *dev, void *ptr, void **address_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "host_address");
    return SV_DEVICE_CALL(inner_device_of(dev), host_address, ptr, address_out);
}

static selvage_status_t fault_stream_create(sv_device_t *dev, void **stream_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "stream_create");
    return SV_DEVICE_CALL(inner_device_of(dev), stream_create, stream_out);
}

static void fault_stream_destroy(sv_device_t *dev, void *stream)
{
    SV_DEVICE_CALL(inner_device_of(dev), stream_destroy, stream);
}

static selvage_status_t fault_stream_sync(sv_device_t *dev, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "stream_sync");
    return SV_DEVICE_CALL(inner_device_of(dev), stream_sync, stream);
}

static selvage_status_t fault_event_create(sv_device_t *dev, sv_event_t **event_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "event_create");
    return SV_DEVICE_CALL(inner_device_of(dev), event_create, event_out);
}

static void fault_event_destroy(sv_device_t *dev, sv_event_t *event)
{
    SV_DEVICE_CALL(inner_device_of(dev), event_destroy, event);
}

static selvage_status_t fault_event_record(sv_device_t *dev, sv_event_t *event, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "event_record");
    return SV_DEVICE_CALL(inner_device_of(dev), event_record, event, stream);
}

static selvage_status_t fault_event_query(sv_device_t *dev, sv_event_t *event)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "event_query");
    return SV_DEVICE_CALL(inner_device_of(dev), event_query, event);
}

static selvage_status_t fault_stream_wait_event(sv_device_t *dev, void *stream, sv_event_t *event)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "stream_wait_event");
    return SV_DEVICE_CALL(inner_device_of(dev), stream_wait_event, stream, event);
}

static selvage_status_t fault_copy_async(sv_device_t *dev, void *dst, const void *src, size_t bytes,
                                         sv_copy_kind_t kind, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "copy_async");
    return SV_DEVICE_CALL(inner_device_of(dev), copy_async, dst, src, bytes, kind, stream);
}

static selvage_status_t fault_fill_async(sv_device_t *dev, void *dst, int value, size_t bytes, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "fill_async");
    return SV_DEVICE_CALL(inner_device_of(dev), fill_async, dst, value, bytes, stream);
}

static selvage_status_t fault_signal_async(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "signal_async");
    return SV_DEVICE_CALL(inner_device_of(dev), signal_async, word, value, stream);
}

static selvage_status_t fault_delay_async(sv_device_t *dev, double us, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "delay_async");
    return SV_DEVICE_CALL(inner_device_of(dev), delay_async, us, stream);
}

static selvage_status_t fault_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                     unsigned nblocks, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "launch");
    return SV_DEVICE_CALL(inner_device_of(dev), launch, kernel, arg, arg_bytes, nblocks, stream);
}

static selvage_status_t fault_export_memory(sv_device_t *dev, const void *ptr, size_t bytes,
                                            sv_device_handle_t *handle_out, uint64_t *offset_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "export_memory");
    return SV_DEVICE_CALL(inner_device_of(dev), export_memory, ptr, bytes, handle_out, offset_out);
}

static selvage_status_t fault_open_memory(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                          uint64_t *bytes_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "open_memory");
    return SV_DEVICE_CALL(inner_device_of(dev), open_memory, handle, base_out, bytes_out);
}

static void fault_close_memory(sv_device_t *dev, void *base)
{
    SV_DEVICE_CALL(inner_device_of(dev), close_memory, base);
}

static selvage_status_t fault_malloc_fine(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_MEMORY, "malloc_fine");
    return SV_DEVICE_CALL(inner_device_of(dev), malloc_fine, bytes, ptr_out);
}

static void fault_range_push(sv_device_t *dev, const char *name)
{
    SV_DEVICE_CALL(inner_device_of(dev), range_push, name);
}

static void fault_range_pop(sv_device_t *dev)
{
    inner_device_of(dev)->ops->range_pop(inner_device_of(dev));
}

/* A question whose answer "unknown" is no failure: nothing to inject. */
static selvage_status_t fault_peer_access(sv_device_t *dev, const char *bus_id, int *possible_out)
{
    return SV_DEVICE_CALL(inner_device_of(dev), peer_access, bus_id, possible_out);
}

static sv_memory_kind_t fault_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    return SV_DEVICE_CALL(inner_device_of(dev), memory_kind, ptr, bytes);
}

static uint64_t fault_memory_id(sv_device_t *dev, const void *ptr)
{
    return SV_DEVICE_CALL(inner_device_of(dev), memory_id, ptr);
}

static selvage_status_t fault_stream_query(sv_device_t *dev, void *stream)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "stream_query");
    return SV_DEVICE_CALL(inner_device_of(dev), stream_query, stream);
}

static bool fault_stream_is_capturing(sv_device_t *dev, void *stream)
{
    return SV_DEVICE_CALL(inner_device_of(dev), stream_is_capturing, stream);
}

static selvage_status_t fault_device_sync(sv_device_t *dev)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "device_sync");
    return inner_device_of(dev)->ops->device_sync(inner_device_of(dev));
}

static selvage_status_t fault_make_current(sv_device_t *dev)
{
    FAIL_IF_CHOSEN(SELVAGE_ERR_DEVICE, "make_current");
    return inner_device_of(dev)->ops->make_current(inner_device_of(dev));
}

static const sv_device_ops_t fault_ops = {
    .abi = SV_DEVICE_ABI,
    .close = fault_device_close,
    .malloc = fault_malloc,
    .free = fault_free,
    .host_malloc = fault_host_malloc,
    .host_free = fault_host_free,
    .host_register = fault_host_register,
    .host_unregister = fault_host_unregister,
    .host_address = fault_host_address,
    .stream_create = fault_stream_create,
    .stream_destroy = fault_stream_destroy,
    .stream_sync = fault_stream_sync,
    .stream_query = fault_stream_query,
    .event_create = fault_event_create,
    .event_destroy = fault_event_destroy,
    .event_record = fault_event_record,
    .event_query = fault_event_query,
    .stream_wait_event = fault_stream_wait_event,
    .copy_async = fault_copy_async,
    .fill_async = fault_fill_async,
    .signal_async = fault_signal_async,
    .delay_async = fault_delay_async,
    .launch = fault_launch,
    .export_memory = fault_export_memory,
    .open_memory = fault_open_memory,
    .close_memory = fault_close_memory,
    .malloc_fine = fault_malloc_fine,
    .range_push = fault_range_push,
    .range_pop = fault_range_pop,
    .peer_access = fault_peer_access,
    .memory_kind = fault_memory_kind,
    .memory_id = fault_memory_id,
    .stream_is_capturing = fault_stream_is_capturing,
    .device_sync = fault_device_sync,
    .make_current = fault_make_current,
};

selvage_status_t sv_device_fault_wrap(sv_device_t **dev_inout)
{
    fault_device_t *wrapper = NULL;
    SV_TRY(sv_calloc(1, sizeof *wrapper, &wrapper));
    wrapper->inner = *dev_inout;
    wrapper->ops = fault_ops;
    wrapper->ops.name = wrapper->inner->ops->name;
    wrapper->base = *wrapper->inner; /* what it is, but for the calls */
    wrapper->base.ops = &wrapper->ops;
    *dev_inout = &wrapper->base;
    return SELVAGE_SUCCESS;
}
