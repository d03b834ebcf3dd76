/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device code inside the plug-in. The assembler takes it in from the files that the device compilers made. NVIDIA
 * has one image per kernel, which holds every architecture; AMD has one per kernel and architecture (SV_HAVE_gfx942).
 * The build directory is the current one when this file is compiled.
 */
#include "device/hip/hip_priv.h"

#define IMAGE(symbol, file)                                                                         \
    __asm__(".section .rodata\n.balign 4096\n.hidden sv_image_" #symbol "\n.globl sv_image_" #symbol "\n" \
            "sv_image_" #symbol ":\n.incbin \"" file "\"\n.balign 8\n.quad 0\n.previous\n");        \
    extern const char sv_image_##symbol[] __attribute__((visibility("hidden")));

#if defined(__HIP_PLATFORM_AMD__)

#define AMD_IMAGE(kernel, arch) IMAGE(kernel##_##arch, "lib/kernels/kernel_" #kernel "." #arch ".co")
#define AMD_ROW(kernel, arch) {"sv_" #kernel, sv_image_##kernel##_##arch}
#if defined(SV_HAVE_gfx90a) && defined(SV_HAVE_gfx942)
#define KERNEL_IMAGES(kernel) AMD_IMAGE(kernel, gfx90a) AMD_IMAGE(kernel, gfx942)
#define KERNEL_ROWS(kernel) AMD_ROW(kernel, gfx90a), AMD_ROW(kernel, gfx942)
#elif defined(SV_HAVE_gfx90a)
#define KERNEL_IMAGES(kernel) AMD_IMAGE(kernel, gfx90a)
#define KERNEL_ROWS(kernel) AMD_ROW(kernel, gfx90a)
#else
#define KERNEL_IMAGES(kernel) AMD_IMAGE(kernel, gfx942)
#define KERNEL_ROWS(kernel) AMD_ROW(kernel, gfx942)
#endif

#else

#define KERNEL_IMAGES(kernel) IMAGE(kernel, "lib/kernels/kernel_" #kernel ".fatbin")
#define KERNEL_ROWS(kernel) {"sv_" #kernel, sv_image_##kernel}

#endif

/* One for each lib/kernels/kernel_*.cc; scripts/check-modules compares. */
KERNEL_IMAGES(digest)
KERNEL_IMAGES(digests)
KERNEL_IMAGES(rest)
KERNEL_IMAGES(pack)
KERNEL_IMAGES(unpack)
KERNEL_IMAGES(sum)
KERNEL_IMAGES(touch)
KERNEL_IMAGES(signal)
KERNEL_IMAGES(push)
KERNEL_IMAGES(pull)
KERNEL_IMAGES(gather)
KERNEL_IMAGES(scatter)
KERNEL_IMAGES(run)
KERNEL_IMAGES(run_pieces)
KERNEL_IMAGES(replay)
KERNEL_IMAGES(replay_pieces)
KERNEL_IMAGES(runs)
KERNEL_IMAGES(await)
KERNEL_IMAGES(flip)
KERNEL_IMAGES(fold)
KERNEL_IMAGES(exact_scale)
KERNEL_IMAGES(exact_split)
KERNEL_IMAGES(exact_join)
KERNEL_IMAGES(exact_pack)
KERNEL_IMAGES(exact_add)
KERNEL_IMAGES(exact_unpack)
KERNEL_IMAGES(clock)
KERNEL_IMAGES(delay)
KERNEL_IMAGES(coll)
KERNEL_IMAGES(coll_ll)
KERNEL_IMAGES(coll_small_pair)
KERNEL_IMAGES(coll_small)
#if !defined(__HIP_PLATFORM_AMD__) /* LL128 is never used there; see coll_litmus.c */
KERNEL_IMAGES(coll_ll128)
KERNEL_IMAGES(coll_small_pair_ll128)
KERNEL_IMAGES(coll_small_ll128)
#endif

const hip_image_t sv_hip_images[] = {
    KERNEL_ROWS(digest),
    KERNEL_ROWS(digests),
    KERNEL_ROWS(rest),
    KERNEL_ROWS(pack),
    KERNEL_ROWS(unpack),
    KERNEL_ROWS(sum),
    KERNEL_ROWS(touch),
    KERNEL_ROWS(signal),
    KERNEL_ROWS(push),
    KERNEL_ROWS(pull),
    KERNEL_ROWS(gather),
    KERNEL_ROWS(scatter),
    KERNEL_ROWS(run),
    KERNEL_ROWS(run_pieces),
    KERNEL_ROWS(replay),
    KERNEL_ROWS(replay_pieces),
    KERNEL_ROWS(runs),
    KERNEL_ROWS(await),
    KERNEL_ROWS(flip),
    KERNEL_ROWS(fold),
    KERNEL_ROWS(exact_scale),
    KERNEL_ROWS(exact_split),
    KERNEL_ROWS(exact_join),
    KERNEL_ROWS(exact_pack),
    KERNEL_ROWS(exact_add),
    KERNEL_ROWS(exact_unpack),
    KERNEL_ROWS(clock),
    KERNEL_ROWS(delay),
    KERNEL_ROWS(coll),
    KERNEL_ROWS(coll_ll),
    KERNEL_ROWS(coll_small_pair),
    KERNEL_ROWS(coll_small),
#if !defined(__HIP_PLATFORM_AMD__)
    KERNEL_ROWS(coll_ll128),
    KERNEL_ROWS(coll_small_pair_ll128),
    KERNEL_ROWS(coll_small_ll128),
#endif
};
const unsigned sv_hip_image_count = sizeof sv_hip_images / sizeof sv_hip_images[0];
