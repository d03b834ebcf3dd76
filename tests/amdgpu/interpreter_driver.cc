/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interpreter_driver OBJECT ARCH [WHAT]: runs the kernel `arithmetic` of arithmetic_kernel.cc in the interpreter and
 * compares each result with the host's, bit for bit; and the conversions of floats of 16 bits with themselves. With
 * WHAT the kernel `mistake` runs, which does not return but for the last two.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SV_FN static inline
#include "amdgpu/amdgpu.h"
#include "amdgpu/amdgpu_half.h"
#include "amdgpu/arithmetic.h"

namespace {

const unsigned COUNT = 20000, THREADS = 192;

uint64_t words[2 * COUNT], results[ARITHMETIC_RESULTS * COUNT];
uint32_t word[4] = {1, 2, 3, 4};

/* Numbers at the edges of what floats and integers hold, in either half. */
const uint32_t edges[] = {0,          1,          0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0x7f7fffff,
                          0x00800000, 0x007fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7e800000, 0x7f000000,
                          0x0b800000, 0x3ff00000, 0x7fefffff, 0x00100000, 0x000fffff, 0x7ff00000, 0x36a00000};

uint32_t draw_half(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t random = (uint32_t)(*state >> 32);
    return random % 4 ? random * 2654435761u : edges[random / 4 % (sizeof edges / sizeof edges[0])];
}

bool find_range(uintptr_t address, amdgpu_range_t *range_out)
{
    const amdgpu_range_t known[] = {{(uintptr_t)words, (uintptr_t)words + sizeof words},
                                    {(uintptr_t)results, (uintptr_t)results + sizeof results},
                                    {(uintptr_t)word, (uintptr_t)word + sizeof word}};
    for (const amdgpu_range_t &range : known)
        if (address >= range.base && address < range.end) {
            *range_out = range;
            return true;
        }
    return false;
}

void run_kernel(const amdgpu_kernel_t *kernel, const void *arg, unsigned nblocks, unsigned nthreads)
{
    const amdgpu_launch_t launch = {kernel, nblocks, nthreads, 0, 0, 0, arg, find_range};
    amdgpu_run(&launch);
}

unsigned long compare_arithmetic(const amdgpu_kernel_t *kernel)
{
    const struct {
        const uint64_t *in;
        uint64_t *out;
        unsigned count;
    } arg = {words, results, COUNT};
    unsigned long failed = 0;
    uint64_t state = 1;
    for (uint64_t &each : words)
        each = draw_half(&state) | (uint64_t)draw_half(&state) << 32;
    run_kernel(kernel, &arg, (COUNT + THREADS - 1) / THREADS, THREADS);
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t wanted[ARITHMETIC_RESULTS] = {};
        arithmetic_all(words[2 * i], words[2 * i + 1], wanted);
        for (unsigned r = 0; r < ARITHMETIC_RESULTS; r++)
            if (results[r * COUNT + i] != wanted[r] && failed++ < 20)
                printf("result %u of 0x%lx and 0x%lx is 0x%lx, wanted 0x%lx\n", r, (unsigned long)words[2 * i],
                       (unsigned long)words[2 * i + 1], (unsigned long)results[r * COUNT + i],
                       (unsigned long)wanted[r]);
    }
    return failed;
}

/* Each number comes back, and what lies halfway between two goes to the even one. */
unsigned long compare_halves()
{
    unsigned long failed = 0;
    for (unsigned half = 0; half < 0x7c00; half++) {
        const double value = amdgpu_half_widen((uint16_t)half);
        const double next = half == 0x7bff ? 65536 : (double)amdgpu_half_widen((uint16_t)(half + 1));
        const unsigned even = half % 2 ? half + 1 : half;
        failed += amdgpu_half_round(value) != half || amdgpu_half_round(-value) != (half | 0x8000);
        failed += amdgpu_half_round((value + next) / 2) != even;
        failed += amdgpu_half_round(nextafter((value + next) / 2, 0)) != half;
    }
    return failed;
}

} // namespace

int main(int argc, char **argv)
{
    static uint8_t image[1 << 20];
    char error[256];
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : nullptr;
    if (!file || fread(image, 1, sizeof image, file) < 64) {
        fprintf(stderr, "usage: %s OBJECT ARCH [WHAT]\n", argv[0]);
        return 2;
    }
    fclose(file);
    amdgpu_object_t *object = amdgpu_object_load(image, argv[2], error, sizeof error);
    if (!object) {
        printf("refused: %s\n", error);
        return 3;
    }
    if (argc > 3) {
        const struct {
            uint32_t *word;
            unsigned what;
        } arg = {word, (unsigned)atoi(argv[3])};
        run_kernel(amdgpu_kernel_find(object, "mistake"), &arg, 1, 1);
        printf("ran, word %u\n", word[0]);
        return 0;
    }
    const unsigned long failed = compare_arithmetic(amdgpu_kernel_find(object, "arithmetic")) + compare_halves();
    printf("%s: %lu results of arithmetic, %lu failed\n", argv[2], (unsigned long)ARITHMETIC_RESULTS * COUNT, failed);
    amdgpu_object_free(object);
    return failed ? 1 : 0;
}
