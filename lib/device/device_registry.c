/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which devices there are, and how one is opened by name. The registry is the one place that may keep process-wide
 * state: the count of pinned allocations here, and the tables of the devices themselves. Any thread.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "device/device.h"
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

selvage_status_t sv_device_open(const char *name, const struct sv_config *config, sv_device_t **dev_out)
{
    bool automatic = name ? strcmp(name, "auto") == 0 : config->device == SV_CONFIG_DEVICE_AUTO;
    if (name && !automatic && strcmp(name, "soft") != 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "name: there is no device \"%s\" (known: auto, soft)", name);
    if (automatic)
        sv_log(SV_LOG_INFO, "device", "no GPU device in this build: using soft");
    return sv_soft_open(config, dev_out);
}
