/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops as code objects inside the program, one per architecture, loaded when the first one is launched. */
#ifndef DEVICE_LOOP_AMD_H
#define DEVICE_LOOP_AMD_H

#include <stddef.h>

/* The code objects of one file of loops; amd_loops.c defines one per file and adds it before main(). */
typedef struct amd_loops {
    const void *image[2]; /* gfx90a, gfx942 */
    struct amd_loops *next;
    void *module; /* once loaded */
} amd_loops_t;

void device_loop_amd_add(amd_loops_t *loops);

/* Enqueues n bodies of the loop with this name. Returns NULL, or what went wrong. */
const char *device_loop_amd_launch(const char *name, size_t n, const void *arg, size_t arg_bytes, void *stream);

/* How many multiprocessors the current GPU has. */
unsigned device_loop_amd_blocks(void);

#endif
