/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hip_standin.h: modules and kernels. A module is the code object it was loaded from, which is looked at but not
 * run: its kernels run by their bodies for soft, after a look at what they are given.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "hip_standin_calls.h"

#include <elf.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/coll_args.h"
#include "kernels/kernels.h"

enum { MACHINE_AMDGPU = 224, MACH_MASK = 0xff, MACH_GFX90A = 0x3f, MACH_GFX942 = 0x4c };

/* A word of the argument that is the host address of registered memory, which a GPU could not use. */
static bool has_host_address(const void *arg, size_t bytes)
{
    standin_object_t object;
    for (size_t at = 0; at + sizeof(void *) <= bytes; at += sizeof(void *)) {
        char *word;
        memcpy(&word, (const char *)arg + at, sizeof word);
        if (standin_find_range(STANDIN_REGISTERED, word, 1, &object) &&
            (uintptr_t)word - (uintptr_t)object.ptr < object.bytes)
            return true;
    }
    return false;
}

/* The packets of a batch lie in memory, which is looked at when the kernel runs, in the order of its stream. */
static void check_items(const sv_batch_arg_t *batch, size_t item_bytes, const char *kernel)
{
    for (uint32_t i = 0; i < batch->npackets; i++)
        if (has_host_address((const char *)batch->items + batch->index[i] * item_bytes, item_bytes))
            standin_misuse(kernel, "a packet of the batch has the host address of registered memory");
}

static void run_push(const void *arg, unsigned block, unsigned nblocks)
{
    if (block == 0)
        check_items(arg, sizeof(sv_push_item_t), "sv_push");
    sv_kernel_push.soft(arg, block, nblocks);
}

static void run_pull(const void *arg, unsigned block, unsigned nblocks)
{
    if (block == 0)
        check_items(arg, sizeof(sv_pull_item_t), "sv_pull");
    sv_kernel_pull.soft(arg, block, nblocks);
}

static void run_gather(const void *arg, unsigned block, unsigned nblocks)
{
    if (block == 0)
        check_items(arg, sizeof(sv_push_item_t), "sv_gather");
    sv_kernel_gather.soft(arg, block, nblocks);
}

static void run_scatter(const void *arg, unsigned block, unsigned nblocks)
{
    if (block == 0)
        check_items(arg, sizeof(sv_pull_item_t), "sv_scatter");
    sv_kernel_scatter.soft(arg, block, nblocks);
}

typedef struct kernel_row {
    sv_kernel_t kernel;
    size_t arg_bytes;
} kernel_row_t;

static const kernel_row_t kernels[] = {
    {{.name = "sv_digest", .soft = sv_digest_soft}, sizeof(sv_digest_arg_t)},
    {{.name = "sv_signal", .soft = sv_signal_soft}, sizeof(sv_signal_arg_t)},
    {{.name = "sv_push", .soft = run_push}, sizeof(sv_batch_arg_t)},
    {{.name = "sv_pull", .soft = run_pull}, sizeof(sv_batch_arg_t)},
    {{.name = "sv_gather", .soft = run_gather}, sizeof(sv_batch_arg_t)},
    {{.name = "sv_scatter", .soft = run_scatter}, sizeof(sv_batch_arg_t)},
    {{.name = "sv_await", .soft = sv_await_soft}, sizeof(sv_await_arg_t)},
    {{.name = "sv_pack", .soft = sv_pack_soft}, sizeof(sv_pack_arg_t)},
    {{.name = "sv_unpack", .soft = sv_unpack_soft}, sizeof(sv_pack_arg_t)},
    {{.name = "sv_sum", .soft = sv_sum_soft}, sizeof(sv_sum_arg_t)},
    {{.name = "sv_touch", .soft = sv_touch_soft}, sizeof(sv_touch_arg_t)},
    {{.name = "sv_flip", .soft = sv_flip_soft}, sizeof(sv_flip_arg_t)},
    {{.name = "sv_delay", .soft = sv_delay_soft}, sizeof(sv_delay_arg_t)},
    {{.name = "sv_coll", .soft = sv_coll_soft}, sizeof(sv_coll_arg_t)},
    {{.name = "sv_coll_ll", .soft = sv_coll_ll_soft}, sizeof(sv_coll_arg_t)},
    {{.name = "sv_coll_ll128", .soft = sv_coll_ll128_soft}, sizeof(sv_coll_arg_t)},
    {{.name = "sv_coll_small", .soft = sv_coll_small_soft}, sizeof(sv_coll_small_arg_t)},
    {{.name = "sv_coll_small_ll128", .soft = sv_coll_small_ll128_soft}, sizeof(sv_coll_small_arg_t)},
};

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    BEGIN();
    Elf64_Ehdr header;
    unsigned wanted = strcmp(standin_arch(), "gfx942") == 0 ? MACH_GFX942 : MACH_GFX90A;
    memcpy(&header, image, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != MACHINE_AMDGPU)
        return standin_refuse(__func__, hipErrorInvalidImage, "this is no code object");
    if ((header.e_flags & MACH_MASK) != wanted)
        return standin_give(hipErrorNoBinaryForGpu);
    standin_object_t object = {.kind = STANDIN_MODULE, .ptr = malloc(sizeof image)};
    if (!object.ptr || !standin_add(&object))
        return standin_give(hipErrorOutOfMemory);
    memcpy(object.ptr, &image, sizeof image);
    *module = object.ptr;
    return hipSuccess;
}

hipError_t hipModuleUnload(hipModule_t module)
{
    bool fails = standin_begins(__func__);
    standin_object_t object;
    if (!standin_take(STANDIN_MODULE, module, &object))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no module");
    free(object.ptr);
    return standin_give(fails ? hipErrorUnknown : hipSuccess);
}

/* Whether the code object has a kernel descriptor by this name. Its section headers stand last. */
static bool image_holds(const char *image, const char *name)
{
    char symbol[64];
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    int length = snprintf(symbol, sizeof symbol, "%s.kd", name);
    return memmem(image, header.e_shoff, symbol, (size_t)length + 1) != NULL;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
    BEGIN();
    standin_object_t object;
    const char *image;
    if (!standin_find(STANDIN_MODULE, module, &object))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no module");
    memcpy(&image, object.ptr, sizeof image);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].kernel.name, name) == 0 && image_holds(image, name)) {
            *function = (hipFunction_t)(uintptr_t)&kernels[i];
            return hipSuccess;
        }
    return standin_give(hipErrorNotFound);
}

static _Atomic unsigned widest;

__attribute__((destructor)) static void tell_widest(void)
{
    if (getenv("HIP_STANDIN_COUNTS"))
        fprintf(stderr, "hip stand-in: at most %u threads in a block\n", atomic_load(&widest));
}

static void note_threads(unsigned threads)
{
    unsigned most = atomic_load(&widest);
    while (most < threads && !atomic_compare_exchange_weak(&widest, &most, threads))
        continue;
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void **params,
                                 void **extra)
{
    BEGIN();
    const kernel_row_t *row = (const kernel_row_t *)(const void *)function;
    sv_device_t *dev = standin_device();
    if (!standin_is_stream(stream))
        return standin_refuse(__func__, hipErrorInvalidHandle, "this is no stream of the current GPU");
    if (gx == 0 || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared != 0 || extra)
        return standin_refuse(__func__, hipErrorInvalidValue, "not one dimension");
    if (bx == 0 || bx > SV_KERNEL_LANES_MAX)
        return standin_refuse(__func__, hipErrorInvalidValue, "more threads than a kernel was built for, or none");
    note_threads(bx);
    if (has_host_address(params[0], row->arg_bytes))
        return standin_refuse(__func__, hipErrorInvalidValue, "an argument is the host address of registered memory");
    return standin_result(dev->ops->launch(dev, &row->kernel, params[0], row->arg_bytes, gx, stream));
}
