/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which GPU a rank gets, on a plug-in without GPUs: the local rank modulo their number, whatever launcher says it; the
 * current one where none does; a GPU that cannot be made current; what is said of kinds that are not here; and which
 * GPUs reach which.
 */
#include <stdlib.h>
#include <unistd.h>

#include <selvage/device.h>

#include "base/base_memory.h"
#include "fixtures/check.h"

static const char *const launchers[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "PMI_LOCAL_RANK",
                                        "PALS_LOCAL_RANKID",          "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

static void forget_launcher(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        unsetenv(launchers[i]);
}

/* The number of the GPU that opening by local rank leads to; -1 for none. */
static int opened(const char *name)
{
    selvage_device_t *dev = NULL;
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    if (selvage_device_open_local(name, &dev) != SELVAGE_SUCCESS)
        return -1;
    CHECK_STR(selvage_device_name(dev), "amd");
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_SUCCESS);
    char bus_id[32];
    snprintf(bus_id, sizeof bus_id, "0000:%02x:00.0", 0xc0 + (unsigned)info.index);
    CHECK_STR(info.bus_id, bus_id);
    CHECK_STR(info.model, "pretended GPU");
    CHECK_EQ(info.count, atoi(getenv("FAKE_GPUS")));
    selvage_device_close(dev);
    return info.index;
}

static void check_choice(void)
{
    setenv("FAKE_GPUS", "3", 1);
    for (int i = 0; i < LAUNCHERS; i++) {
        for (int rank = 0; rank < 8; rank++) {
            char text[12];
            snprintf(text, sizeof text, "%d", rank);
            forget_launcher();
            setenv(launchers[i], text, 1);
            CHECK_EQ(opened("amd"), rank % 3);
            CHECK_EQ(opened("auto"), rank % 3);
        }
    }
    forget_launcher();
    CHECK_EQ(opened(NULL), 1); /* the last choice: nobody made another */
    setenv("SLURM_LOCALID", "2", 1);
    setenv("FAKE_GPUS", "1", 1); /* as under a mask per rank */
    CHECK_EQ(opened(NULL), 0);
}

/* Opening without "local" leaves the choice to the application, and what is current is what it gets. */
static void check_plain(void)
{
    selvage_device_t *dev = NULL;
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    setenv("FAKE_GPUS", "4", 1);
    setenv("SLURM_LOCALID", "3", 1);
    CHECK_STATUS(selvage_device_open("amd", &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.index, 0);
    selvage_device_close(dev);
}

/* An address in memory of the pretended GPU with number n is n. */
static int opened_at(uintptr_t memory)
{
    selvage_device_t *dev = NULL;
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    CHECK_STATUS(selvage_device_open_at("auto", (const void *)memory, &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_make_current(dev), SELVAGE_SUCCESS);
    selvage_device_close(dev);
    return info.index;
}

/* The GPU of the memory, whichever is current and whatever the launcher says. */
static void check_memory(void)
{
    selvage_device_t *dev = NULL;
    setenv("FAKE_GPUS", "4", 1);
    setenv("SLURM_LOCALID", "3", 1);
    CHECK_EQ(opened_at(2), 2);
    CHECK_EQ(opened_at(1), 1);
    CHECK_EQ(opened_at(4000), 0); /* not known: the current one */
    setenv("FAKE_GPU_BAD", "2", 1);
    CHECK_STATUS(selvage_device_open_at("amd", (const void *)(uintptr_t)2, &dev), SELVAGE_ERR_DEVICE);
    unsetenv("FAKE_GPU_BAD");
    CHECK_STATUS(selvage_device_open_at("amd", NULL, &dev), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_open_at("amd", &dev, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_open_at("abacus", &dev, &dev), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_open_at("nvidia", &dev, &dev), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STATUS(selvage_device_make_current(NULL), SELVAGE_ERR_ARGUMENT);
    CHECK(dev == NULL);
    CHECK_STATUS(selvage_device_open_at("soft", &dev, &dev), SELVAGE_SUCCESS);
    CHECK_STR(selvage_device_name(dev), "soft");
    CHECK_STATUS(selvage_device_make_current(dev), SELVAGE_SUCCESS);
    selvage_device_close(dev);
}

static void check_failures(void)
{
    selvage_device_t *dev = NULL;
    setenv("FAKE_GPUS", "4", 1);
    setenv("FAKE_GPU_BAD", "3", 1);
    CHECK_STATUS(selvage_device_open_local("amd", &dev), SELVAGE_ERR_DEVICE);
    CHECK_STR(selvage_error_detail(), "device amd: GPU 3 of 4 could not be made current (native error 101)");
    CHECK_STATUS(selvage_device_open_local("auto", &dev), SELVAGE_ERR_DEVICE);
    unsetenv("FAKE_GPU_BAD");
    CHECK_STATUS(selvage_device_open_local("nvidia", &dev), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STATUS(selvage_device_open_local("abacus", &dev), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_open_local("amd", NULL), SELVAGE_ERR_ARGUMENT);
    CHECK(dev == NULL);
}

static void check_probe(void)
{
    int count = -7;
    setenv("FAKE_GPUS", "4", 1);
    CHECK_STATUS(selvage_device_probe("amd", &count), SELVAGE_SUCCESS);
    CHECK_EQ(count, 4);
    CHECK_STATUS(selvage_device_probe("soft", &count), SELVAGE_SUCCESS);
    CHECK_EQ(count, 1);
    setenv("FAKE_GPUS", "0", 1);
    count = -7;
    CHECK_STATUS(selvage_device_probe("amd", &count), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STR(selvage_error_detail(), "device amd: the driver shows no GPU");
    CHECK_STATUS(selvage_device_probe("nvidia", &count), SELVAGE_ERR_UNSUPPORTED);
    CHECK(strstr(selvage_error_detail(), "selvage-device-nvidia.so") != NULL);
    CHECK_STATUS(selvage_device_probe("abacus", &count), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_probe(NULL, &count), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_probe("soft", NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(count, -7);
}

/* Other GPUs are known by bus id, whatever this process numbers them; one after a mask is not known at all. */
static void check_peers(void)
{
    selvage_device_t *dev = NULL;
    int possible = -7;
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_GPU_FIRST", "1", 1); /* sees c1 and c2 */
    setenv("FAKE_GPU_APART", "2", 1);
    setenv("SLURM_LOCALID", "0", 1);
    CHECK_STATUS(selvage_device_open_local("amd", &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c1:00.0", &possible), SELVAGE_SUCCESS);
    CHECK_EQ(possible, 1);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c2:00.0", &possible), SELVAGE_SUCCESS);
    CHECK_EQ(possible, 0);
    setenv("FAKE_GPU_APART", "7", 1);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c2:00.0", &possible), SELVAGE_SUCCESS);
    CHECK_EQ(possible, 1);
    possible = -7;
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c0:00.0", &possible), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STATUS(selvage_device_peer_access(dev, "", &possible), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STATUS(selvage_device_peer_access(dev, NULL, &possible), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c1:00.0", NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_peer_access(NULL, "0000:c1:00.0", &possible), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(possible, -7);
    selvage_device_close(dev);
    unsetenv("FAKE_GPU_FIRST");
    unsetenv("FAKE_GPU_APART");
}

/* On soft there is nothing to choose, and callers that know less, or more, of the struct get what they know. */
static void check_soft(void)
{
    selvage_device_t *dev = NULL;
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    memset(info.bus_id, 'x', sizeof info.bus_id);
    setenv("SLURM_LOCALID", "5", 1);
    CHECK_STATUS(selvage_device_open_local("soft", &dev), SELVAGE_SUCCESS);
    CHECK_STR(selvage_device_name(dev), "soft");
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.index, 0);
    CHECK_EQ(info.count, 1);
    CHECK_STR(info.bus_id, "");
    int possible = 0;
    CHECK_STATUS(selvage_device_peer_access(dev, "", &possible), SELVAGE_SUCCESS);
    CHECK_EQ(possible, 1);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:c1:00.0", &possible), SELVAGE_ERR_UNSUPPORTED);
    info.struct_size = offsetof(selvage_device_info_t, count);
    info.index = info.count = 9;
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.index, 0);
    CHECK_EQ(info.count, 9);
    info.struct_size = 0;
    CHECK_STATUS(selvage_device_describe(dev, &info), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_describe(dev, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_describe(NULL, &info), SELVAGE_ERR_ARGUMENT);
    selvage_device_close(dev);
}

int main(void)
{
    char plugins[4096], file[4200];
    const char *builddir = getenv("top_builddir");
    snprintf(plugins, sizeof plugins, "%.4000s/tests/fixtures/.libs", builddir ? builddir : ".");
    snprintf(file, sizeof file, "%s/selvage-device-amd.so", plugins);
    if (access(file, R_OK) != 0) {
        printf("device_local: skipped, no %s in this build\n", file);
        return CHECK_SKIP;
    }
    setenv("SELVAGE_DEVICE_PATH", plugins, 1);
    setenv("SELVAGE_LOG", "none", 1);
    check_choice();
    check_plain();
    check_memory();
    check_failures();
    check_probe();
    check_peers();
    check_soft();
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("device_local");
}
