/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of every kind that doc/memory.md names, on whatever device is there. What the public calls do not allocate is
 * asked of the GPU's own library, which the plug-in has loaded; nothing is linked. Ranks are processes; one thread.
 */
#ifndef SELVAGE_TESTS_GPU_MEMORY_H
#define SELVAGE_TESTS_GPU_MEMORY_H

#include <stddef.h>

#include <selvage/device.h>

enum { GPU_MEMORY_BYTES = 1 << 20 };

typedef struct gpu_memory {
    const char *name;     /* as in the table of the page */
    void *ptr;            /* where packets may begin */
    size_t bytes;         /* what there is; more than there is for memory of which a kind should be refused */
    void *block, *extra;  /* what is freed */
    unsigned long long handle[2];
} gpu_memory_t;

/* The n-th kind of memory; NULL after the last. */
const char *gpu_memory_name(unsigned n);
/* Makes it. 0; else it does not exist here, or making it failed, which *why says. */
int gpu_memory_make(selvage_device_t *dev, unsigned n, gpu_memory_t *memory, const char **why);
void gpu_memory_free(selvage_device_t *dev, unsigned n, gpu_memory_t *memory);

#endif
