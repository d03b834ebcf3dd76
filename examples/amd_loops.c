/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the code objects of one file of loops into a program. Compiled once per file, in the build directory, with
 * LOOPS set to the path of the objects without their endings, "examples/heat3d_loops".
 */
#include "device_loop_amd.h"

#define IMAGE(symbol, file)                                                                                 \
    __asm__(".section .rodata\n.balign 4096\n" #symbol ":\n.incbin \"" file "\"\n.balign 8\n.quad 0\n.previous\n"); \
    extern const char symbol[] __attribute__((visibility("hidden")));

IMAGE(image_gfx90a, LOOPS ".gfx90a.co")
IMAGE(image_gfx942, LOOPS ".gfx942.co")

static amd_loops_t loops = {.image = {image_gfx90a, image_gfx942}};

__attribute__((constructor)) static void add(void)
{
    device_loop_amd_add(&loops);
}
