/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An interpreter of code objects for AMD GPUs (gfx90a, gfx942): what those who run kernels with it need to know.
 *
 * It executes whole waves of 64 lanes, as AMD's instruction set documents say, on the memory of the process: an address
 * of a kernel is an address of the process. LLVM's disassembler, loaded at run time, decodes; what the instructions do
 * is written here (amdgpu_scalar.cc and others). What is not known ends the process, with the instruction, its address
 * and the kernel named on standard error.
 *
 * A loaded object and its kernels may be used by any number of threads; a launch runs in the thread that calls. The
 * caller owns objects, and keeps the image alive as long as they are.
 *
 * AMDGPU_SEED=N         another order in which waves take turns
 * AMDGPU_LATE=1         accesses to memory are done as late as waits allow, or sooner, by chance (amdgpu_late.h)
 * AMDGPU_DROP=K:OFFSET  the instruction at this offset of kernel K's code object does nothing, to see who notices
 * AMDGPU_WHOLE=1        one wave of the process at a time, until it sleeps, waits at a barrier or ends: what it stores
 *                       in a row others see whole, which lines of LL128 need and AMD GPUs do not promise
 * AMDGPU_COVERAGE=DIR   which instructions have run, and how many, in files that processes share (amdgpu_coverage.h)
 */
#ifndef SELVAGE_TESTS_AMDGPU_H
#define SELVAGE_TESTS_AMDGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct amdgpu_object amdgpu_object_t;
typedef struct amdgpu_kernel amdgpu_kernel_t;

/* Memory that kernels may touch: from base to before end. */
typedef struct amdgpu_range {
    uintptr_t base, end;
} amdgpu_range_t;

/* A launch in one dimension, or some blocks of it: others may run in other threads at the same time. */
typedef struct amdgpu_launch {
    const amdgpu_kernel_t *kernel;
    unsigned nblocks, nthreads;
    unsigned first, count;     /* the blocks to run; a count of 0: all */
    unsigned held_turns;       /* of waves: so late the last wave of a block begins, unless the others wait for it */
    const void *arg;           /* as many bytes as amdgpu_kernel_arg_bytes() */
    /* Which memory holds the byte at an address, for kernels; false ends the process. NULL: everything is there. */
    bool (*find_range)(uintptr_t address, amdgpu_range_t *range_out);
} amdgpu_launch_t;

/* NULL if it cannot be run here; then error_out, of error_bytes, says why. arch is the name of the GPU. */
amdgpu_object_t *amdgpu_object_load(const void *image, const char *arch, char *error_out, size_t error_bytes);
void amdgpu_object_free(amdgpu_object_t *object);

/* NULL if the object has no kernel by that name. */
const amdgpu_kernel_t *amdgpu_kernel_find(const amdgpu_object_t *object, const char *name);

/* How long a kernel's argument is, without what the runtime adds. */
size_t amdgpu_kernel_arg_bytes(const amdgpu_kernel_t *kernel);

/* Runs all waves of the blocks to their end. */
void amdgpu_run(const amdgpu_launch_t *launch);

#ifdef __cplusplus
}
#endif

#endif
