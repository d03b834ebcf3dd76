/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named ranges for profilers. Whether a profiler is there is found out when the device is opened.
 *
 * - NVIDIA: NVTX, a header of the CUDA toolkit. It finds the tool that NVTX_INJECTION64_PATH names; without one it
 *   makes no domain. Nothing is linked.
 * - AMD: rocTX, a library. It is opened if the process has it already, or if a profiler or the user asks for it. It
 *   stays open until the process ends, because a profiler may hold on to it.
 *
 * Any thread; ranges nest within a thread.
 */
#include "device/hip/hip_priv.h"

#if defined(__HIP_PLATFORM_AMD__)

#include <dlfcn.h>
#include <stddef.h>

#include "base/base_log.h"

/* The present profiler hears the first library, its predecessors the other. */
static void *open_any(int mode)
{
    static const char *const files[] = {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0",
                                        "librocprofiler-sdk-roctx.so", "libroctx64.so.4", "libroctx64.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof files / sizeof files[0]; i++)
        library = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL | mode);
    return library;
}

void sv_hip_open_ranges(hip_device_t *dev, sv_ranges_t wanted)
{
    if (wanted == SV_RANGES_OFF)
        return;
    void *library = open_any(RTLD_NOLOAD);
    if (!library && wanted == SV_RANGES_LOAD) {
        library = open_any(0);
        if (!library)
            dev->host->log(SV_LOG_WARN, "device", "no ranges for a profiler: neither librocprofiler-sdk-roctx.so nor "
                           "libroctx64.so can be loaded");
    }
    if (!library)
        return;
    *(void **)&dev->range_push = dlsym(library, "roctxRangePushA");
    *(void **)&dev->range_pop = dlsym(library, "roctxRangePop");
    dev->base.ranges = dev->range_push && dev->range_pop;
}

void sv_hip_range_push(sv_device_t *dev, const char *name)
{
    if (dev->ranges)
        (void)hip_of(dev)->range_push(name);
}

void sv_hip_range_pop(sv_device_t *dev)
{
    if (dev->ranges)
        (void)hip_of(dev)->range_pop();
}

#elif defined(SV_HAVE_NVTX)

#include <nvtx3/nvToolsExt.h>

void sv_hip_open_ranges(hip_device_t *dev, sv_ranges_t wanted)
{
    if (wanted != SV_RANGES_OFF)
        dev->range_domain = nvtxDomainCreateA("Selvage");
    dev->base.ranges = dev->range_domain != NULL;
}

void sv_hip_range_push(sv_device_t *dev, const char *name)
{
    const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message.ascii = name};
    if (dev->ranges)
        (void)nvtxDomainRangePushEx(hip_of(dev)->range_domain, &range);
}

void sv_hip_range_pop(sv_device_t *dev)
{
    if (dev->ranges)
        (void)nvtxDomainRangePop(hip_of(dev)->range_domain);
}

#else /* a CUDA toolkit without NVTX */

void sv_hip_open_ranges(hip_device_t *dev, sv_ranges_t wanted)
{
    (void)dev, (void)wanted;
}

void sv_hip_range_push(sv_device_t *dev, const char *name)
{
    (void)dev, (void)name;
}

void sv_hip_range_pop(sv_device_t *dev)
{
    (void)dev;
}

#endif
