/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads kernels and launches them on a GPU. They are built per architecture and embedded in the plug-in. All are loaded
 * when the device is opened, so that no load happens after a kernel that waits. Of several images of one kernel, the
 * first that this GPU takes is used. A kernel takes its argument struct by value.
 */
#include <stdint.h>
#include <string.h>

#include "base/base_log.h"
#include "device/hip/hip_priv.h"

static hip_kernel_t *find_kernel(hip_device_t *dev, const char *name)
{
    for (unsigned i = 0; i < dev->nkernels; i++)
        if (atomic_load_explicit(&dev->kernel[i].known_as, memory_order_relaxed) == name)
            return &dev->kernel[i];
    for (unsigned i = 0; i < dev->nkernels; i++) {
        if (strcmp(dev->kernel[i].name, name) == 0) {
            atomic_store_explicit(&dev->kernel[i].known_as, name, memory_order_relaxed);
            return &dev->kernel[i];
        }
    }
    return NULL;
}

selvage_status_t sv_hip_load_kernels(hip_device_t *dev)
{
    for (unsigned i = 0; i < sv_hip_image_count; i++) {
        const hip_image_t *image = &sv_hip_images[i];
        hip_kernel_t *kernel = &dev->kernel[dev->nkernels];
        if (dev->nkernels == HIP_KERNELS_MAX || find_kernel(dev, image->name))
            continue;
        kernel->name = image->name;
        if (hipModuleLoadData(&kernel->module, image->data) != hipSuccess) {
            (void)hipGetLastError();
        } else if (hipModuleGetFunction(&kernel->function, kernel->module, image->name) == hipSuccess) {
            dev->nkernels++;
        } else {
            (void)hipGetLastError();
            hip_ignore(hipModuleUnload(kernel->module));
        }
    }
    for (unsigned i = 0; i < sv_hip_image_count; i++)
        if (!find_kernel(dev, sv_hip_images[i].name))
            return dev->host->error(SELVAGE_ERR_DEVICE, "no code for this GPU in kernel %s", sv_hip_images[i].name);
    return SELVAGE_SUCCESS;
}

void sv_hip_unload_kernels(hip_device_t *dev)
{
    sv_hip_close_prepared(dev);
    while (dev->nkernels > 0) {
        dev->nkernels--;
        hip_ignore(HIP_RELEASE(dev, hipModuleUnload(dev->kernel[dev->nkernels].module)));
    }
}

static selvage_status_t launch_by_name(hip_device_t *dev, const char *name, const void *arg, unsigned nblocks,
                                       unsigned nthreads, bool early, void *stream)
{
    hip_kernel_t *kernel = find_kernel(dev, name);
    if (!kernel)
        return dev->host->error(SELVAGE_ERR_UNSUPPORTED, "kernel %s is not built for GPUs", name);
    union {
        const void *in;
        void *out;
    } parameter = {.in = arg};
    void *parameters[] = {parameter.out};
    hipStream_t there = (hipStream_t)stream;
    if ((!early || dev->prepares_all) &&
        sv_hip_launch_prepared(dev, kernel->function, nblocks, nthreads, parameters, stream))
        return SELVAGE_SUCCESS;
    const hipError_t error =
        early ? HIP_RUN(dev, sv_hip_launch_early(kernel->function, nblocks, nthreads, there, parameters))
                  : HIP_RUN(dev, hipModuleLaunchKernel(kernel->function, nblocks, 1, 1, nthreads, 1, 1, 0, there,
                                                       parameters, NULL));
    return sv_hip_status(dev, error, name);
}

selvage_status_t sv_hip_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                               unsigned nblocks, void *stream)
{
    (void)arg_bytes; /* the kernel knows its argument's size */
    hip_device_t *hip = hip_of(dev);
    /* The default stream waits for all others. */
    bool early = kernel->early_start && hip->starts_early && !sv_hip_is_default((hipStream_t)stream);
    if (early && !hip->starts_early_in_graphs)
        early = !sv_hip_stream_is_capturing(dev, stream);
    unsigned lanes = kernel->lanes > 0 ? kernel->lanes : HIP_LANES;
    return launch_by_name(hip, kernel->name, arg, nblocks, lanes, early, stream);
}

/*
 * The front end of a stream stores a word sooner than a kernel starts, and with the same fence before it. AMD's runtime
 * launches a kernel for it anyway, so there it is ours.
 */
selvage_status_t sv_hip_signal(sv_device_t *dev, uint64_t *word, uint64_t value, void *stream)
{
    hip_device_t *hip = hip_of(dev);
    if (!hip->writes_words) {
        /* The kernel's argument begins with these two; zeros after them ask for nothing more. */
        const uint64_t arg[16] = {(uint64_t)(uintptr_t)word, value};
        return launch_by_name(hip, "sv_signal", arg, 1, 1, false, stream);
    }
    return sv_hip_status(hip, HIP_RUN(hip, sv_hip_write_word((hipStream_t)stream, word, value)), "stream write");
}

selvage_status_t sv_hip_delay(sv_device_t *dev, double us, void *stream)
{
    uint64_t ns = us > 0 ? (uint64_t)(us * 1000) : 0;
    return launch_by_name(hip_of(dev), "sv_delay", &ns, 1, 1, false, stream);
}
