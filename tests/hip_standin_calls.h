/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls of the stand-in (hip_standin.h) share. Any thread. */
#ifndef SELVAGE_TESTS_HIP_STANDIN_CALLS_H
#define SELVAGE_TESTS_HIP_STANDIN_CALLS_H

#include <hip/hip_runtime_api.h>

#include "device/device.h"
#include "hip_standin.h"

/* Counts the call; true if it is to fail. */
bool standin_begins(const char *call);

/* Keeps an error as the thread's last one, and returns it. */
hipError_t standin_give(hipError_t error);
hipError_t standin_result(selvage_status_t status);

/* The same, for what only a mistake of the plug-in can cause. */
hipError_t standin_refuse(const char *call, hipError_t error, const char *what);

/* The software device under it all. */
sv_device_t *standin_device(void);

/* What the GPUs are. */
const char *standin_arch(void);

/* Whether it is a stream of the current GPU. */
bool standin_is_stream(hipStream_t stream);

#define BEGIN()                                   \
    do {                                          \
        if (standin_begins(__func__))             \
            return standin_give(hipErrorUnknown); \
    } while (0)

#endif
