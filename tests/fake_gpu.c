/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plug-in that pretends to be a machine with FAKE_GPUS GPUs, of which number FAKE_GPU_BAD cannot be made current. Its
 * devices can be opened, described and closed, and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>

#include "device/device_plugin.h"

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

static const sv_device_ops_t ops = {.abi = SV_DEVICE_ABI, .name = "amd", .close = close_gpu};

static selvage_status_t open_gpu(const sv_plugin_host_t *host, sv_ranges_t ranges, sv_device_t **dev_out)
{
    (void)ranges;
    sv_device_t *dev;
    services = host;
    selvage_status_t status = host->calloc(1, sizeof *dev, &dev);
    if (status != SELVAGE_SUCCESS)
        return status;
    dev->ops = &ops;
    dev->index = current;
    dev->count = count_gpus();
    snprintf(dev->bus_id, sizeof dev->bus_id, "0000:%02x:00.0", 0xc0 + (unsigned)current);
    snprintf(dev->model, sizeof dev->model, "pretended GPU");
    *dev_out = dev;
    return SELVAGE_SUCCESS;
}

static const sv_plugin_t plugin = {
    .abi = SV_PLUGIN_ABI, .name = "amd", .device_count = count_gpus, .select = select_gpu, .open = open_gpu};

__attribute__((visibility("default"))) const sv_plugin_t *selvage_device_plugin(void);
const sv_plugin_t *selvage_device_plugin(void)
{
    return &plugin;
}
