/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that live long and are many: the device is opened and closed, memory of every kind allocated and freed, and
 * the environment read, 100,000 times each. After the first tenth neither descriptors nor mappings may grow, resident
 * memory by no more than a byte per turn (1 MiB at least), and the library must hold no block more than before.
 */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <selvage.h>

#include "base/base_config.h"
#include "base/base_mapping.h"
#include "base/base_memory.h"
#include "check.h"

enum { TURNS = 100000, KIB_ALLOWED = 1024 };

typedef struct size_of_process {
    long descriptors, mappings, resident_kib, blocks;
} size_of_process_t;

static size_of_process_t measure_process(void)
{
    size_of_process_t size = {.blocks = (long)sv_memory_live()};
    long pages = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        size.descriptors++;
    if (folder)
        closedir(folder);
    FILE *file = fopen("/proc/self/maps", "r");
    for (int letter; file && (letter = fgetc(file)) != EOF;)
        size.mappings += letter == '\n';
    if (file)
        fclose(file);
    file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    if (file)
        fclose(file);
    size.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    return size;
}

static void turn_device(selvage_device_t *unused)
{
    selvage_device_t *dev = NULL;
    (void)unused;
    CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
    selvage_device_close(dev);
}

static void turn_memory(selvage_device_t *dev)
{
    void *device = NULL, *pinned = NULL;
    CHECK_STATUS(selvage_device_malloc(dev, 10000, &device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(dev, 10000, &pinned), SELVAGE_SUCCESS);
    selvage_device_host_free(dev, pinned);
    selvage_device_free(dev, device);
}

static void turn_mapping(selvage_device_t *unused)
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

static void turn_config(selvage_device_t *unused)
{
    (void)unused;
    CHECK_STATUS(selvage_config_visit(see_nothing, NULL), SELVAGE_SUCCESS);
}

static void check_growth(const char *what, void (*turn)(selvage_device_t *), selvage_device_t *dev, int turns)
{
    size_of_process_t before = {0};
    for (int i = 0; i < turns; i++) {
        if (i == turns / 10)
            before = measure_process();
        turn(dev);
    }
    const size_of_process_t after = measure_process();
    const long kib = turns / 1024 > KIB_ALLOWED ? turns / 1024 : KIB_ALLOWED;
    printf("%s, %d times: descriptors %+ld, mappings %+ld, resident %+ld KiB, blocks %+ld\n", what, turns,
           after.descriptors - before.descriptors, after.mappings - before.mappings,
           after.resident_kib - before.resident_kib, after.blocks - before.blocks);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK(after.mappings <= before.mappings + 4); /* the C library's own, of threads that came */
    CHECK(after.resident_kib <= before.resident_kib + kib);
    CHECK_EQ(after.blocks, before.blocks);
}

int main(int argc, char **argv)
{
    const int turns = argc > 1 ? atoi(argv[1]) : TURNS;
    selvage_device_t *dev = NULL;
    CHECK_STATUS(selvage_device_open("soft", &dev), SELVAGE_SUCCESS);
    check_growth("device", turn_device, dev, turns);
    check_growth("memory", turn_memory, dev, turns);
    check_growth("mapping", turn_mapping, dev, turns);
    check_growth("settings", turn_config, dev, turns);
    selvage_device_close(dev);
    return check_report("long_lives");
}
