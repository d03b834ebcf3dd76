/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wrapper that makes calls into any device fail on purpose.
 *
 * It has the table of the device under it, but every call that can fail asks the calling thread's faults first. Handles
 * pass through untouched, so that wrapped and bare calls can be mixed. The wrapper does not own the device under it:
 * closing frees the wrapper only. Any thread.
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

static void fault_device_close(sv_device_t *dev)
{
    sv_free(dev);
}

/* A call that fails with the status if it is the one to fail, and else is that of the device under this one. */
#define CAN_FAIL(call, status, parameters, arguments)                                     \
    static selvage_status_t fault_##call parameters                                       \
    {                                                                                     \
        if (sv_fault_call_fails(SV_FAULT_CALL_DEVICE))                                    \
            return sv_error((status), "injected fault: device call %s", #call);           \
        sv_device_t *inner = inner_device_of(dev);                                        \
        return inner->ops->call arguments;                                                \
    }

/* A call that never fails: that of the device under this one. */
#define NEVER_FAILS(call, parameters, arguments)                                          \
    static void fault_##call parameters                                                   \
    {                                                                                     \
        sv_device_t *inner = inner_device_of(dev);                                        \
        inner->ops->call arguments;                                                       \
    }

/* A question, to which "unknown" is an answer and no failure. */
#define ASKS(result, call, parameters, arguments)                                         \
    static result fault_##call parameters                                                 \
    {                                                                                     \
        sv_device_t *inner = inner_device_of(dev);                                        \
        return inner->ops->call arguments;                                                \
    }

CAN_FAIL(malloc, SELVAGE_ERR_MEMORY, (sv_device_t *dev, size_t bytes, void **ptr_out), (inner, bytes, ptr_out))
CAN_FAIL(host_malloc, SELVAGE_ERR_MEMORY, (sv_device_t *dev, size_t bytes, void **ptr_out), (inner, bytes, ptr_out))
CAN_FAIL(host_register, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *ptr, size_t bytes), (inner, ptr, bytes))
CAN_FAIL(host_address, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *ptr, void **address_out), (inner, ptr, address_out))
CAN_FAIL(stream_create, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void **stream_out), (inner, stream_out))
CAN_FAIL(stream_sync, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *stream), (inner, stream))
CAN_FAIL(event_create, SELVAGE_ERR_DEVICE, (sv_device_t *dev, sv_event_t **event_out), (inner, event_out))
CAN_FAIL(event_record, SELVAGE_ERR_DEVICE, (sv_device_t *dev, sv_event_t *event, void *stream), (inner, event, stream))
CAN_FAIL(event_query, SELVAGE_ERR_DEVICE, (sv_device_t *dev, sv_event_t *event), (inner, event))
CAN_FAIL(stream_wait_event, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *stream, sv_event_t *event),
         (inner, stream, event))
CAN_FAIL(copy_async, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *dst, const void *src, size_t bytes,
                                          sv_copy_kind_t kind, void *stream),
         (inner, dst, src, bytes, kind, stream))
CAN_FAIL(fill_async, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *dst, int value, size_t bytes, void *stream),
         (inner, dst, value, bytes, stream))
CAN_FAIL(signal_async, SELVAGE_ERR_DEVICE, (sv_device_t *dev, uint64_t *word, uint64_t value, void *stream),
         (inner, word, value, stream))
CAN_FAIL(delay_async, SELVAGE_ERR_DEVICE, (sv_device_t *dev, double us, void *stream), (inner, us, stream))
CAN_FAIL(launch, SELVAGE_ERR_DEVICE, (sv_device_t *dev, const sv_kernel_t *kernel, const void *arg,
                                      size_t arg_bytes, unsigned nblocks, void *stream),
         (inner, kernel, arg, arg_bytes, nblocks, stream))
CAN_FAIL(export_memory, SELVAGE_ERR_DEVICE, (sv_device_t *dev, const void *ptr, size_t bytes,
                                             sv_device_handle_t *handle_out, uint64_t *offset_out),
         (inner, ptr, bytes, handle_out, offset_out))
CAN_FAIL(open_memory, SELVAGE_ERR_DEVICE, (sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                           uint64_t *bytes_out),
         (inner, handle, base_out, bytes_out))
CAN_FAIL(malloc_fine, SELVAGE_ERR_MEMORY, (sv_device_t *dev, size_t bytes, void **ptr_out), (inner, bytes, ptr_out))
CAN_FAIL(stream_query, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *stream), (inner, stream))
CAN_FAIL(device_sync, SELVAGE_ERR_DEVICE, (sv_device_t *dev), (inner))
CAN_FAIL(make_current, SELVAGE_ERR_DEVICE, (sv_device_t *dev), (inner))

NEVER_FAILS(free, (sv_device_t *dev, void *ptr), (inner, ptr))
NEVER_FAILS(host_free, (sv_device_t *dev, void *ptr), (inner, ptr))
NEVER_FAILS(host_unregister, (sv_device_t *dev, void *ptr), (inner, ptr))
NEVER_FAILS(stream_destroy, (sv_device_t *dev, void *stream), (inner, stream))
NEVER_FAILS(event_destroy, (sv_device_t *dev, sv_event_t *event), (inner, event))
NEVER_FAILS(close_memory, (sv_device_t *dev, void *base), (inner, base))
NEVER_FAILS(range_push, (sv_device_t *dev, const char *name), (inner, name))
NEVER_FAILS(range_pop, (sv_device_t *dev), (inner))

CAN_FAIL(graph_begin, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *stream), (inner, stream))
CAN_FAIL(graph_end, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *stream, void **graph_out), (inner, stream, graph_out))
CAN_FAIL(graph_launch, SELVAGE_ERR_DEVICE, (sv_device_t *dev, void *graph, void *stream), (inner, graph, stream))
NEVER_FAILS(graph_destroy, (sv_device_t *dev, void *graph), (inner, graph))

ASKS(selvage_status_t, peer_access, (sv_device_t *dev, const char *bus_id, int *possible_out),
     (inner, bus_id, possible_out))
ASKS(sv_memory_kind_t, memory_kind, (sv_device_t *dev, const void *ptr, size_t bytes), (inner, ptr, bytes))
ASKS(uint64_t, memory_id, (sv_device_t *dev, const void *ptr), (inner, ptr))
ASKS(bool, stream_is_capturing, (sv_device_t *dev, void *stream), (inner, stream))

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
    .graph_begin = fault_graph_begin,
    .graph_end = fault_graph_end,
    .graph_launch = fault_graph_launch,
    .graph_destroy = fault_graph_destroy,
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
