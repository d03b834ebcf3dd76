/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device code inside the plug-in: one image per kernel, taken in by the assembler from the files that the device
 * compiler made. The build directory is the current one when this file is compiled.
 */
#include "device/hip/hip_priv.h"

#define IMAGE(kernel, file)                                                                           \
    __asm__(".section .rodata\n.balign 64\n.hidden sv_image_" #kernel "\n.globl sv_image_" #kernel "\n" \
            "sv_image_" #kernel ":\n.incbin \"" file "\"\n.balign 8\n.quad 0\n.previous\n");        \
    extern const char sv_image_##kernel[] __attribute__((visibility("hidden")));

IMAGE(digest, "lib/kernels/kernel_digest.fatbin")
IMAGE(pack, "lib/kernels/kernel_pack.fatbin")
IMAGE(unpack, "lib/kernels/kernel_unpack.fatbin")
IMAGE(sum, "lib/kernels/kernel_sum.fatbin")
IMAGE(signal, "lib/kernels/kernel_signal.fatbin")
IMAGE(push, "lib/kernels/kernel_push.fatbin")
IMAGE(pull, "lib/kernels/kernel_pull.fatbin")
IMAGE(flip, "lib/kernels/kernel_flip.fatbin")
IMAGE(delay, "lib/kernels/kernel_delay.fatbin")

const hip_image_t sv_hip_images[] = {
    {"sv_digest", sv_image_digest},
    {"sv_pack", sv_image_pack},
    {"sv_unpack", sv_image_unpack},
    {"sv_sum", sv_image_sum},
    {"sv_signal", sv_image_signal},
    {"sv_push", sv_image_push},
    {"sv_pull", sv_image_pull},
    {"sv_flip", sv_image_flip},
    {"sv_delay", sv_image_delay},
};
const unsigned sv_hip_image_count = sizeof sv_hip_images / sizeof sv_hip_images[0];
