/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which devices there are, and how one is opened by name. The registry is the one place that may keep process-wide
 * state: the count of pinned allocations here, and the tables of the devices themselves. Any thread.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "device/device.h"
#include "device/device_plugin.h"
#include "device/soft/soft_device.h"

static _Atomic uint64_t pinned_allocations;

uint64_t sv_device_pinned_allocations(void)
{
    return atomic_load_explicit(&pinned_allocations, memory_order_relaxed);
}

void sv_device_note_pinned(void)
{
    atomic_fetch_add_explicit(&pinned_allocations, 1, memory_order_relaxed);
}

static const char *const device_names[] = {"auto", "soft", "nvidia", "amd"};

static int find_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof device_names / sizeof device_names[0]); i++)
        if (strcmp(device_names[i], name) == 0)
            return i;
    return -1;
}

/* The first make of GPU that is there; soft, and a line for whoever wonders, if none is. */
static selvage_status_t open_best(const sv_config_t *config, sv_device_t **dev_out)
{
    const sv_plugin_t *plugin;
    for (int wanted = SV_CONFIG_DEVICE_NVIDIA; wanted <= SV_CONFIG_DEVICE_AMD; wanted++) {
        if (sv_plugin_find(device_names[wanted], config->device_path, &plugin) == SELVAGE_SUCCESS)
            return sv_plugin_open(plugin, dev_out);
        sv_log(SV_LOG_DEBUG, "device", "%s", selvage_error_detail());
    }
    sv_log(SV_LOG_INFO, "device", "no GPU here: using soft");
    return sv_soft_open(config, dev_out);
}

static selvage_status_t open_wanted(int wanted, const sv_config_t *config, sv_device_t **dev_out)
{
    const sv_plugin_t *plugin;
    if (wanted == SV_CONFIG_DEVICE_AUTO)
        return open_best(config, dev_out);
    if (wanted == SV_CONFIG_DEVICE_SOFT)
        return sv_soft_open(config, dev_out);
    if (sv_plugin_find(device_names[wanted], config->device_path, &plugin) != SELVAGE_SUCCESS) {
        char why[512];
        snprintf(why, sizeof why, "%s", selvage_error_detail());
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s", why);
    }
    return sv_plugin_open(plugin, dev_out);
}

selvage_status_t sv_device_open(const char *name, const struct sv_config *config, sv_device_t **dev_out)
{
    int wanted = name ? find_name(name) : config->device;
    if (wanted < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "name: there is no device \"%s\" (known: auto, soft, nvidia, amd)", name);
    return open_wanted(wanted, config, dev_out);
}
