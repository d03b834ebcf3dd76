/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of a communicator that has none yet. Every call that needs a device fails with ERR_STATE and says why, so
 * nobody else has to ask whether there is one. One object for all, which owns nothing. Any thread.
 */
#include "base/base_status.h"
#include "device/device.h"

static selvage_status_t refuse_call(const char *call)
{
    return sv_error(SELVAGE_ERR_STATE, "%s: this communicator has no device yet (selvage_comm_set_device)", call);
}

/* A call that can only fail. */
#define REFUSED(call, parameters, ...)                                                    \
    static selvage_status_t absent_##call parameters                                      \
    {                                                                                     \
        (void)dev, __VA_ARGS__;                                                           \
        return refuse_call(#call);                                                        \
    }

/* A call that gives back what nobody can have got. */
#define IGNORED(call, parameters, ...)                                                    \
    static void absent_##call parameters                                                  \
    {                                                                                     \
        (void)dev, __VA_ARGS__;                                                           \
    }

REFUSED(malloc, (sv_device_t *dev, size_t bytes, void **ptr_out), (void)bytes, (void)ptr_out)
REFUSED(host_malloc, (sv_device_t *dev, size_t bytes, void **ptr_out), (void)bytes, (void)ptr_out)
REFUSED(host_register, (sv_device_t *dev, void *ptr, size_t bytes), (void)ptr, (void)bytes)
REFUSED(host_address, (sv_device_t *dev, void *ptr, void **address_out), (void)ptr, (void)address_out)
REFUSED(stream_create, (sv_device_t *dev, void **stream_out), (void)stream_out)
REFUSED(stream_sync, (sv_device_t *dev, void *stream), (void)stream)
REFUSED(stream_query, (sv_device_t *dev, void *stream), (void)stream)
REFUSED(event_create, (sv_device_t *dev, sv_event_t **event_out), (void)event_out)
REFUSED(event_record, (sv_device_t *dev, sv_event_t *event, void *stream), (void)event, (void)stream)
REFUSED(event_query, (sv_device_t *dev, sv_event_t *event), (void)event)
REFUSED(stream_wait_event, (sv_device_t *dev, void *stream, sv_event_t *event), (void)stream, (void)event)
REFUSED(copy_async, (sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind, void *stream),
        (void)dst, (void)src, (void)bytes, (void)kind, (void)stream)
REFUSED(fill_async, (sv_device_t *dev, void *dst, int value, size_t bytes, void *stream), (void)dst, (void)value,
        (void)bytes, (void)stream)
REFUSED(signal_async, (sv_device_t *dev, uint64_t *word, uint64_t value, void *stream), (void)word, (void)value,
        (void)stream)
REFUSED(delay_async, (sv_device_t *dev, double us, void *stream), (void)us, (void)stream)
REFUSED(launch, (sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes, unsigned nblocks,
                 void *stream),
        (void)kernel, (void)arg, (void)arg_bytes, (void)nblocks, (void)stream)
REFUSED(export_memory, (sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                        uint64_t *offset_out),
        (void)ptr, (void)bytes, (void)handle_out, (void)offset_out)
REFUSED(open_memory, (sv_device_t *dev, const sv_device_handle_t *handle, void **base_out, uint64_t *bytes_out),
        (void)handle, (void)base_out, (void)bytes_out)
REFUSED(malloc_fine, (sv_device_t *dev, size_t bytes, void **ptr_out), (void)bytes, (void)ptr_out)
REFUSED(peer_access, (sv_device_t *dev, const char *bus_id, int *possible_out), (void)bus_id, (void)possible_out)
REFUSED(graph_begin, (sv_device_t *dev, void *stream), (void)stream)
REFUSED(graph_end, (sv_device_t *dev, void *stream, void **graph_out), (void)stream, (void)graph_out)
REFUSED(graph_launch, (sv_device_t *dev, void *graph, void *stream), (void)graph, (void)stream)
REFUSED(device_sync, (sv_device_t *dev), (void)0)

IGNORED(close, (sv_device_t *dev), (void)0)
IGNORED(free, (sv_device_t *dev, void *ptr), (void)ptr)
IGNORED(host_free, (sv_device_t *dev, void *ptr), (void)ptr)
IGNORED(host_unregister, (sv_device_t *dev, void *ptr), (void)ptr)
IGNORED(stream_destroy, (sv_device_t *dev, void *stream), (void)stream)
IGNORED(event_destroy, (sv_device_t *dev, sv_event_t *event), (void)event)
IGNORED(close_memory, (sv_device_t *dev, void *base), (void)base)
IGNORED(graph_destroy, (sv_device_t *dev, void *graph), (void)graph)
IGNORED(range_push, (sv_device_t *dev, const char *name), (void)name)
IGNORED(range_pop, (sv_device_t *dev), (void)0)

/* A progress thread begins without one. */
static selvage_status_t absent_make_current(sv_device_t *dev)
{
    (void)dev;
    return SELVAGE_SUCCESS;
}

static sv_memory_kind_t absent_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    (void)dev, (void)ptr, (void)bytes;
    return SV_MEMORY_UNKNOWN;
}

static uint64_t absent_memory_id(sv_device_t *dev, const void *ptr)
{
    (void)dev, (void)ptr;
    return 0;
}

static bool absent_stream_is_capturing(sv_device_t *dev, void *stream)
{
    (void)dev, (void)stream;
    return false;
}

static const sv_device_ops_t absent_ops = {
    .abi = SV_DEVICE_ABI,
    .name = "no device",
    .close = absent_close,
    .malloc = absent_malloc,
    .free = absent_free,
    .host_malloc = absent_host_malloc,
    .host_free = absent_host_free,
    .host_register = absent_host_register,
    .host_unregister = absent_host_unregister,
    .host_address = absent_host_address,
    .stream_create = absent_stream_create,
    .stream_destroy = absent_stream_destroy,
    .stream_sync = absent_stream_sync,
    .stream_query = absent_stream_query,
    .event_create = absent_event_create,
    .event_destroy = absent_event_destroy,
    .event_record = absent_event_record,
    .event_query = absent_event_query,
    .stream_wait_event = absent_stream_wait_event,
    .copy_async = absent_copy_async,
    .fill_async = absent_fill_async,
    .signal_async = absent_signal_async,
    .delay_async = absent_delay_async,
    .launch = absent_launch,
    .export_memory = absent_export_memory,
    .open_memory = absent_open_memory,
    .close_memory = absent_close_memory,
    .malloc_fine = absent_malloc_fine,
    .range_push = absent_range_push,
    .range_pop = absent_range_pop,
    .peer_access = absent_peer_access,
    .memory_kind = absent_memory_kind,
    .memory_id = absent_memory_id,
    .stream_is_capturing = absent_stream_is_capturing,
    .device_sync = absent_device_sync,
    .make_current = absent_make_current,
    .graph_begin = absent_graph_begin,
    .graph_end = absent_graph_end,
    .graph_launch = absent_graph_launch,
    .graph_destroy = absent_graph_destroy,
};

static sv_device_t absent_device = {.ops = &absent_ops, .launch_blocks = 1};

sv_device_t *sv_device_absent(void)
{
    return &absent_device;
}
