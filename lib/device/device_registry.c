/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which devices there are, and opens one by its name. The registry is the one place that may keep process-wide
 * state: the counts of pinned allocations and of frees here, and the tables of the devices themselves. Any thread.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_local_rank.h"
#include "base/base_log.h"
#include "base/base_profiler.h"
#include "base/base_status.h"
#include "device/device.h"
#include "device/device_plugin.h"
#include "device/device_sharing.h"
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

static _Atomic uint64_t frees;

uint64_t sv_device_frees(void)
{
    return atomic_load_explicit(&frees, memory_order_relaxed);
}

void sv_device_note_freed(void)
{
    atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
}

/*
 * Makes this rank's GPU current. Ranks that see one GPU each (a mask per rank) all get number 0, which is right. Where
 * no launcher says who is who, the current GPU stays.
 */
static selvage_status_t select_local(const sv_plugin_t *plugin)
{
    int local = sv_local_rank(NULL, NULL), count = plugin->device_count();
    if (local < 0 || count < 1)
        return SELVAGE_SUCCESS;
    int error = plugin->select(local % count);
    if (error != 0)
        return sv_error(SELVAGE_ERR_DEVICE, "device %s: GPU %d of %d could not be made current (native error %d)",
                        plugin->name, local % count, count, error);
    sv_log(SV_LOG_INFO, "device", "local rank %d takes %s GPU %d of %d", local, plugin->name, local % count, count);
    return SELVAGE_SUCCESS;
}

/* Which of several GPUs: the current one, unless something else is said. */
typedef struct choice {
    bool local;         /* this rank's share of the host's */
    const void *memory; /* the one that this memory is of */
} choice_t;

static selvage_status_t open_plugin(const sv_plugin_t *plugin, const sv_config_t *config, choice_t choice,
                                    sv_device_t **dev_out)
{
    int index = choice.memory ? plugin->locate(choice.memory) : SV_PLUGIN_CURRENT;
    sv_plugin_wishes_t wishes = {.ranges = SV_RANGES_IF_LOADED, .launches = SV_LAUNCHES_AUTO};
    if (config->ranges == SV_CONFIG_RANGES_OFF)
        wishes.ranges = SV_RANGES_OFF;
    else if (config->ranges == SV_CONFIG_RANGES_ON || sv_profiler_wants_ranges())
        wishes.ranges = SV_RANGES_LOAD;
    if (config->launches != SV_CONFIG_LAUNCHES_AUTO)
        wishes.launches =
            config->launches == SV_CONFIG_LAUNCHES_PLAIN ? SV_LAUNCHES_PLAIN : SV_LAUNCHES_PREPARED;
    if (choice.local)
        SV_TRY(select_local(plugin));
    return sv_plugin_open(plugin, &wishes, index, dev_out);
}

static const char *const device_names[] = {"auto", "soft", "nvidia", "amd"};

/* Opens the first make of GPU that is there. Without any it opens soft, and logs a line. */
static selvage_status_t open_best(const sv_config_t *config, choice_t choice, sv_device_t **dev_out)
{
    const sv_plugin_t *plugin;
    for (int wanted = SV_CONFIG_DEVICE_NVIDIA; wanted <= SV_CONFIG_DEVICE_AMD; wanted++) {
        if (sv_plugin_find(device_names[wanted], config->device_path, &plugin) == SELVAGE_SUCCESS)
            return open_plugin(plugin, config, choice, dev_out);
        sv_log(SV_LOG_DEBUG, "device", "%s", selvage_error_detail());
    }
    sv_log(SV_LOG_INFO, "device", "no GPU here: using soft");
    return sv_soft_open(config, dev_out);
}

static selvage_status_t open_by_kind(int wanted, const sv_config_t *config, choice_t choice, sv_device_t **dev_out)
{
    const sv_plugin_t *plugin;
    if (wanted == SV_CONFIG_DEVICE_AUTO)
        return open_best(config, choice, dev_out);
    if (wanted == SV_CONFIG_DEVICE_SOFT)
        return sv_soft_open(config, dev_out);
    if (sv_plugin_find(device_names[wanted], config->device_path, &plugin) != SELVAGE_SUCCESS) {
        char why[512];
        snprintf(why, sizeof why, "%s", selvage_error_detail());
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s", why);
    }
    return open_plugin(plugin, config, choice, dev_out);
}

static selvage_status_t open_wanted(int wanted, const sv_config_t *config, choice_t choice, sv_device_t **dev_out)
{
    SV_TRY(open_by_kind(wanted, config, choice, dev_out));
    switch (config->gpu_shared) {
    case SV_CONFIG_GPU_SHARED_ON:
        (*dev_out)->sharing = SV_SHARING_ALWAYS;
        break;
    case SV_CONFIG_GPU_SHARED_OFF:
        (*dev_out)->sharing = SV_SHARING_NEVER;
        break;
    default:
        /* Processes that share an NVIDIA device take turns: measured. The instances that it may be cut into (MIG) have
           its bus id, and each its own multiprocessors. */
        if (strcmp((*dev_out)->ops->name, "nvidia") == 0 && !strstr((*dev_out)->model, " MIG "))
            (*dev_out)->sharing = sv_sharing_join((*dev_out)->bus_id);
    }
    return SELVAGE_SUCCESS;
}

/* The position of a device's name in the list, which is that of SELVAGE_DEVICE. NULL stands for what config says. */
static selvage_status_t find_wanted(const char *name, const sv_config_t *config, int *wanted_out)
{
    if (!name) {
        *wanted_out = config->device;
        return SELVAGE_SUCCESS;
    }
    for (int i = 0; i < (int)(sizeof device_names / sizeof device_names[0]); i++) {
        if (strcmp(device_names[i], name) == 0) {
            *wanted_out = i;
            return SELVAGE_SUCCESS;
        }
    }
    return sv_error(SELVAGE_ERR_ARGUMENT, "name: there is no device \"%s\" (known: auto, soft, nvidia, amd)", name);
}

selvage_status_t sv_device_open(const char *name, const struct sv_config *config, sv_device_t **dev_out)
{
    int wanted;
    SV_TRY(find_wanted(name, config, &wanted));
    return open_wanted(wanted, config, (choice_t){0}, dev_out);
}

selvage_status_t sv_device_open_local(const char *name, const struct sv_config *config, sv_device_t **dev_out)
{
    int wanted;
    SV_TRY(find_wanted(name, config, &wanted));
    return open_wanted(wanted, config, (choice_t){.local = true}, dev_out);
}

selvage_status_t sv_device_open_at(const char *name, const void *memory, const struct sv_config *config,
                                   sv_device_t **dev_out)
{
    int wanted;
    SV_TRY(find_wanted(name, config, &wanted));
    return open_wanted(wanted, config, (choice_t){.memory = memory}, dev_out);
}

selvage_status_t sv_device_probe(const char *name, const struct sv_config *config, int *count_out)
{
    const sv_plugin_t *plugin;
    int wanted, count = 1;
    SV_TRY(find_wanted(name, config, &wanted));
    if (wanted == SV_CONFIG_DEVICE_NVIDIA || wanted == SV_CONFIG_DEVICE_AMD) {
        SV_TRY(sv_plugin_find(device_names[wanted], config->device_path, &plugin));
        count = plugin->device_count();
    }
    *count_out = count;
    return SELVAGE_SUCCESS;
}
