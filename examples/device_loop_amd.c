/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD GPUs: finds the code object that this GPU takes, and in it the loop by its name. One thread and one GPU per
 * process, as in all of the examples.
 */
#include "device_loop_amd.h"

#include <hip/hip_runtime_api.h>
#include <string.h>

#include "device_loop.h"

enum { FUNCTIONS_MAX = 64 };

typedef struct known {
    const char *name;
    hipFunction_t function;
} known_t;

static amd_loops_t *all_loops;
static known_t functions[FUNCTIONS_MAX];
static int nfunctions;

void device_loop_amd_add(amd_loops_t *loops)
{
    loops->next = all_loops;
    all_loops = loops;
}

/* A code object of another architecture is refused by HIP. */
static int load(amd_loops_t *loops)
{
    hipModule_t module = NULL;
    for (int i = 0; i < 2 && loops->module == NULL; i++)
        if (hipModuleLoadData(&module, loops->image[i]) == hipSuccess)
            loops->module = module;
    return loops->module != NULL;
}

static const char *find(const char *name, hipFunction_t *function)
{
    for (int i = 0; i < nfunctions; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *function = functions[i].function;
            return NULL;
        }
    }
    for (amd_loops_t *loops = all_loops; loops != NULL; loops = loops->next) {
        if (!load(loops))
            return "no code for this GPU's architecture";
        if (nfunctions < FUNCTIONS_MAX &&
            hipModuleGetFunction(function, (hipModule_t)loops->module, name) == hipSuccess) {
            functions[nfunctions++] = (known_t){name, *function};
            return NULL;
        }
    }
    return "no such loop in the code objects";
}

const char *device_loop_amd_launch(const char *name, size_t n, const void *arg, size_t arg_bytes, void *stream)
{
    char copy[LOOP_ARG_BYTES_MAX];
    hipFunction_t function;
    const char *error = arg_bytes > sizeof copy ? "the argument is too large" : find(name, &function);
    if (error != NULL)
        return error;
    memcpy(copy, arg, arg_bytes);
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, copy, HIP_LAUNCH_PARAM_BUFFER_SIZE, &arg_bytes,
                     HIP_LAUNCH_PARAM_END};
    unsigned blocks = (unsigned)((n + LOOP_THREADS - 1) / LOOP_THREADS);
    hipError_t status = hipModuleLaunchKernel(function, blocks, 1, 1, LOOP_THREADS, 1, 1, 0, (hipStream_t)stream, NULL,
                                              extra);
    return status == hipSuccess ? NULL : hipGetErrorString(status);
}

unsigned device_loop_amd_blocks(void)
{
    int device = 0, count = 0;
    if (hipGetDevice(&device) != hipSuccess ||
        hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device) != hipSuccess)
        count = 1;
    return (unsigned)count;
}
