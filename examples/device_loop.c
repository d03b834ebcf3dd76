/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches a loop on whatever device the application runs on. */
#include "device_loop.h"

#include <stdio.h>
#include <string.h>

#ifdef EXAMPLES_AMD
#include "device_loop_amd.h"
#endif

/* Threads that share a loop on the software device; short loops are not worth two. */
enum { SOFT_BLOCKS = 2, SOFT_SHORT = 2048 };

static selvage_status_t refuse(const device_loop_t *loop, const char *device, const char *why)
{
    fprintf(stderr, "loop %s on device %s: %s\n", loop->name, device, why);
    return SELVAGE_ERR_DEVICE;
}

static selvage_status_t run_nvidia(const device_loop_t *loop, const void *arg, void *stream)
{
    const char *error = loop->nvidia(arg, stream);
    return error == NULL ? SELVAGE_SUCCESS : refuse(loop, "nvidia", error);
}

#ifdef EXAMPLES_AMD
static selvage_status_t run_amd(const device_loop_t *loop, const void *arg, size_t arg_bytes, size_t n, void *stream)
{
    const char *error = device_loop_amd_launch(loop->name, n, arg, arg_bytes, stream);
    return error == NULL ? SELVAGE_SUCCESS : refuse(loop, "amd", error);
}
#endif

selvage_status_t device_loop_run(const device_loop_t *loop, const void *arg, size_t arg_bytes,
                                 selvage_device_t *device, void *stream)
{
    const char *name = selvage_device_name(device);
    size_t n = *(const size_t *)arg;
    if (n == 0)
        return SELVAGE_SUCCESS;
    if (strcmp(name, "soft") == 0)
        return selvage_device_launch_soft(device, loop->soft, arg, arg_bytes, n < SOFT_SHORT ? 1 : SOFT_BLOCKS,
                                          stream);
    if (strcmp(name, "nvidia") == 0 && loop->nvidia != NULL)
        return run_nvidia(loop, arg, stream);
#ifdef EXAMPLES_AMD
    if (strcmp(name, "amd") == 0)
        return run_amd(loop, arg, arg_bytes, n, stream);
#endif
    refuse(loop, name, "this program was built without code for such a device; --device soft works everywhere");
    return SELVAGE_ERR_UNSUPPORTED;
}
