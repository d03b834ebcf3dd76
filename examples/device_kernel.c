/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches a kernel of blocks that work together on whatever device the application runs on. */
#include "device_kernel.h"

#include <stdio.h>
#include <string.h>

#ifdef EXAMPLES_AMD
#include "device_loop_amd.h"
#endif

enum { SOFT_KERNEL_BLOCKS = 2 };

unsigned device_kernel_blocks(const device_kernel_t *kernel, selvage_device_t *device)
{
    const char *name = selvage_device_name(device);
    if (strcmp(name, "nvidia") == 0 && kernel->nvidia_blocks != NULL)
        return kernel->nvidia_blocks();
#ifdef EXAMPLES_AMD
    if (strcmp(name, "amd") == 0)
        return device_loop_amd_blocks();
#endif
    return SOFT_KERNEL_BLOCKS;
}

selvage_status_t device_kernel_run(const device_kernel_t *kernel, const void *arg, size_t arg_bytes, unsigned blocks,
                                   selvage_device_t *device, void *stream)
{
    const char *name = selvage_device_name(device), *error = "this program has no code for such a device";
    if (strcmp(name, "soft") == 0)
        return selvage_device_launch_soft(device, kernel->soft, arg, arg_bytes, blocks, stream);
    if (strcmp(name, "nvidia") == 0 && kernel->nvidia != NULL)
        error = kernel->nvidia(arg, blocks, stream);
#ifdef EXAMPLES_AMD
    if (strcmp(name, "amd") == 0)
        error = device_loop_amd_launch(kernel->name, (size_t)blocks * KERNEL_THREADS, arg, arg_bytes, stream);
#endif
    if (error == NULL)
        return SELVAGE_SUCCESS;
    fprintf(stderr, "kernel %s on device %s: %s\n", kernel->name, name, error);
    return SELVAGE_ERR_DEVICE;
}
