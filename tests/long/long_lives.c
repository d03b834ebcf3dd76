/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that live long and are many: the device is opened and closed, memory of every kind allocated and freed, and
 * the environment read, 100,000 times each; nothing grows (growth.h).
 */
#include <selvage.h>

#include "base/base_config.h"
#include "base/base_mapping.h"
#include "base/base_memory.h"
#include "fixtures/growth.h"

enum { TURNS = 100000 };

static void turn_device(void *unused)
{
    selvage_device_t *dev = NULL;
    (void)unused;
    CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
    selvage_device_close(dev);
}

static void turn_memory(void *arg)
{
    selvage_device_t *dev = arg;
    void *device = NULL, *pinned = NULL;
    CHECK_STATUS(selvage_device_malloc(dev, 10000, &device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(dev, 10000, &pinned), SELVAGE_SUCCESS);
    selvage_device_host_free(dev, pinned);
    selvage_device_free(dev, device);
}

static void turn_mapping(void *unused)
{
    sv_mapping_t mapping = {0};
    (void)unused;
    CHECK_STATUS(sv_mapping_create(5000, &mapping), SELVAGE_SUCCESS);
    sv_mapping_close(&mapping);
}

static void see_nothing(void *arg, const selvage_setting_t *setting)
{
    (void)arg;
    (void)setting;
}

static void turn_config(void *unused)
{
    (void)unused;
    CHECK_STATUS(selvage_config_visit(see_nothing, NULL), SELVAGE_SUCCESS);
}

int main(int argc, char **argv)
{
    const int turns = argc > 1 ? atoi(argv[1]) : TURNS;
    selvage_device_t *dev = NULL;
    CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
    growth_run("device", turn_device, dev, turns, 0, sv_memory_live);
    growth_run("memory", turn_memory, dev, turns, 0, sv_memory_live);
    growth_run("mapping", turn_mapping, dev, turns, 0, sv_memory_live);
    growth_run("settings", turn_config, dev, turns, 0, sv_memory_live);
    selvage_device_close(dev);
    return check_report("long_lives");
}
