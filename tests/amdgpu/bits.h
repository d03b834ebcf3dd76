/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same launch twice: by the software device's body of a kernel, and by its machine code for an AMD GPU in the
 * interpreter. Afterwards all memory must be the same, byte by byte, what no kernel should touch included.
 *
 * All memory that launches use is taken from one block. A launch begins both times with what lies there, and leaves
 * what the second one has made of it. bits_reset() gives all of it back, and fills it by a seed: with bytes from 0x30
 * to 0x3f, of which every four and eight are floats with which nothing overflows, wherever they begin. One thread.
 */
#ifndef SELVAGE_TESTS_BITS_H
#define SELVAGE_TESTS_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { BITS_RANKS = 6 };

/* folder has the code objects. */
void bits_open(const char *folder, const char *arch);

void bits_reset(uint64_t seed);
uint64_t bits_draw(uint64_t below);

/* So many bytes after `shift` more than a multiple of 64. The second kind is zero. */
uint8_t *bits_take(size_t bytes, unsigned shift);
void *bits_take_zero(size_t bytes);

/* What lies there may differ: clocks, and what depends on who comes first. Until the next bits_reset(). */
void bits_ignore(const void *place, size_t bytes);

/* soft_blocks: with how many blocks, one after the other, the software device does it.
   False, and a failed check: memory differs. */
bool bits_run(const sv_kernel_t *kernel, const void *arg, unsigned nblocks, unsigned nthreads, unsigned soft_blocks);

/* What somebody else does meanwhile, in each of the two runs of the next bits_run(): so many microseconds after the run
   begins, and before it can end. */
void bits_do_meanwhile(void (*action)(void *opaque), void *opaque, unsigned after_us);

/* Launches of one block that wait for each other, a thread for each; likewise. */
bool bits_run_ranks(const sv_kernel_t *kernel, unsigned nranks, const void *const *args, unsigned nthreads);

/*
 * The same, but with the machine's launches something goes wrong, and nothing is compared here. They have other
 * arguments (NULL: this one does not come), and find memory as `spoil` leaves it. The last wave of each begins so many
 * turns late (amdgpu.h). After so many microseconds *stop becomes 1, unless it is NULL. bits_wanted() is what the
 * software device has left at a place, with which nothing went wrong.
 */
typedef struct bits_fault {
    const void *const *args;
    void (*spoil)(void *opaque);
    void *opaque;
    uint32_t *stop;
    unsigned stop_us, held_turns;
} bits_fault_t;
void bits_run_faulty(const sv_kernel_t *kernel, unsigned nranks, const void *const *args, unsigned nthreads,
                     const bits_fault_t *fault);
const uint8_t *bits_wanted(const void *place);

/* Inputs by so many seeds. */
void bits_batches(uint64_t first, uint64_t count);
void bits_packets(uint64_t first, uint64_t count);
void bits_collectives(uint64_t first, uint64_t count);

#endif
