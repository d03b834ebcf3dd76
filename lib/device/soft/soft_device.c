/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software device: its table of operations, opening and closing.
 *
 * A device owns its default stream and its modelled links. The caller frees the streams, events and memory that it
 * made. Memory outlives the device, because the table it lives in is the process's. Any thread may call anything.
 */
#include <stdio.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_device.h"
#include "device/soft/soft_priv.h"

static void soft_close(sv_device_t *dev)
{
    if (!dev)
        return;
    soft_stream_destroy(((soft_device_t *)dev)->default_stream);
    sv_free(dev);
}

/* Every page is as good as pinned here: the CPU does the copying. */
static selvage_status_t soft_host_register(sv_device_t *dev, void *ptr, size_t bytes)
{
    (void)dev, (void)ptr, (void)bytes;
    return SELVAGE_SUCCESS;
}

static void soft_host_unregister(sv_device_t *dev, void *ptr)
{
    (void)dev, (void)ptr;
}

static selvage_status_t soft_host_address(sv_device_t *dev, void *ptr, void **address_out)
{
    (void)dev;
    *address_out = ptr;
    return SELVAGE_SUCCESS;
}

static selvage_status_t soft_stream_create_op(sv_device_t *dev, void **stream_out)
{
    soft_stream_t *stream = NULL;
    SV_TRY(soft_stream_create((soft_device_t *)dev, &stream));
    *stream_out = stream;
    return SELVAGE_SUCCESS;
}

static void soft_stream_destroy_op(sv_device_t *dev, void *stream)
{
    (void)dev;
    soft_stream_destroy(stream);
}

static selvage_status_t soft_stream_sync_op(sv_device_t *dev, void *stream)
{
    soft_stream_t *found;
    SV_TRY(soft_stream_find(dev, stream, &found));
    SV_TRY(soft_refuse_captured(found, "synchronisation"));
    soft_stream_sync(found);
    return SELVAGE_SUCCESS;
}

/* No profiler listens to a device on CPU threads. */
static void soft_range_push(sv_device_t *dev, const char *name)
{
    (void)dev, (void)name;
}

static void soft_range_pop(sv_device_t *dev)
{
    (void)dev;
}

/* Software devices of a machine map each other's memory; GPUs they do not see. */
static selvage_status_t soft_peer_access(sv_device_t *dev, const char *bus_id, int *possible_out)
{
    (void)dev;
    if (bus_id[0])
        return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "the software device does not see GPU %s", bus_id);
    *possible_out = 1;
    return SELVAGE_SUCCESS;
}

/* There is one, and it is current everywhere. */
static selvage_status_t soft_make_current(sv_device_t *dev)
{
    (void)dev;
    return SELVAGE_SUCCESS;
}

static const sv_device_ops_t soft_ops = {
    .abi = SV_DEVICE_ABI,
    .name = "soft",
    .close = soft_close,
    .malloc = soft_malloc,
    .free = soft_free,
    .host_malloc = soft_host_malloc,
    .host_free = soft_host_free,
    .host_register = soft_host_register,
    .host_unregister = soft_host_unregister,
    .host_address = soft_host_address,
    .stream_create = soft_stream_create_op,
    .stream_destroy = soft_stream_destroy_op,
    .stream_sync = soft_stream_sync_op,
    .stream_query = soft_stream_query,
    .event_create = soft_event_create,
    .event_destroy = soft_event_destroy,
    .event_record = soft_event_record,
    .event_query = soft_event_query,
    .stream_wait_event = soft_stream_wait_event,
    .copy_async = soft_copy_async,
    .fill_async = soft_fill_async,
    .signal_async = soft_signal_async,
    .delay_async = soft_delay_async,
    .launch = soft_launch,
    .export_memory = soft_export_memory,
    .open_memory = soft_open_memory,
    .close_memory = soft_close_memory,
    .malloc_fine = soft_malloc,
    .range_push = soft_range_push,
    .range_pop = soft_range_pop,
    .peer_access = soft_peer_access,
    .memory_kind = soft_memory_kind,
    .memory_id = soft_memory_id,
    .stream_is_capturing = soft_stream_is_capturing,
    .device_sync = soft_device_sync,
    .make_current = soft_make_current,
    .graph_begin = soft_graph_begin,
    .graph_end = soft_graph_end,
    .graph_launch = soft_graph_launch,
    .graph_destroy = soft_graph_destroy,
};

selvage_status_t sv_soft_open(const sv_config_t *config, sv_device_t **dev_out)
{
    soft_device_t *dev = NULL;
    SV_TRY(sv_calloc(1, sizeof *dev, &dev));
    dev->base.ops = &soft_ops;
    dev->base.launch_blocks = config->soft_blocks > 0 ? (unsigned)config->soft_blocks : 1;
    dev->base.kernel_host_bytes = dev->base.kernel_peer_bytes = dev->base.kernel_summed_bytes = 16 << 10;
    dev->base.count = 1;
    snprintf(dev->base.model, sizeof dev->base.model, "software device on CPU threads");
    dev->inlined = !SOFT_THREADS || config->soft_mode == SV_CONFIG_SOFT_INLINE;
    dev->adapts = !dev->inlined && config->soft_mode == SV_CONFIG_SOFT_AUTO;
    dev->base.kernels_wait = !dev->inlined;
    dev->base.shows_stores = true;
    soft_link_init(&dev->link[SV_COPY_D2H], config->soft_d2h_gbs, config->soft_d2h_us);
    soft_link_init(&dev->link[SV_COPY_H2D], config->soft_h2d_gbs, config->soft_h2d_us);
    soft_link_init(&dev->link[SV_COPY_PEER], config->soft_peer_gbs, config->soft_peer_us);
    soft_link_init(&dev->link[SV_COPY_D2D], 0, 0);
    /* Made now and not at its first use, which may lie between start and wait, where nothing is allocated. */
    selvage_status_t status = soft_stream_create(dev, &dev->default_stream);
    if (status != SELVAGE_SUCCESS) {
        soft_close(&dev->base);
        return status;
    }
    *dev_out = &dev->base;
    return SELVAGE_SUCCESS;
}
