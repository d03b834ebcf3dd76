/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine of emulated GPUs whose memory is weak: compute units with caches that serve what is stale, L2 caches that
 * keep what is dirty, memory of several kinds, and one scheduler for the waves of all kernels. It harms where it may:
 * it stalls waves after stores that others see, lets bystanders load lines into caches, and evicts lines or does not.
 * What is allowed is what LLVM's user guide of the AMDGPU backend says of gfx90a and gfx942 (amdgpu_caches.cc).
 *
 * A seed decides everything, so that a run can be made again. A machine and its kernels belong to one thread. Memory
 * lies in one piece of the process, whose content is that of DRAM: what a peer, a host or the bus would read there.
 */
#ifndef SELVAGE_TESTS_AMDGPU_WEAK_H
#define SELVAGE_TESTS_AMDGPU_WEAK_H

#include "amdgpu/amdgpu_wave.h"

enum { AMDGPU_GPUS = 3, AMDGPU_HOST = AMDGPU_GPUS }; /* at most; whose memory */

/* Ordinary memory of a GPU; memory of a GPU that no L2 keeps; pinned memory of the host, which no L2 keeps either. */
typedef enum amdgpu_memory { AMDGPU_COARSE, AMDGPU_UNCACHED, AMDGPU_PINNED } amdgpu_memory_t;

typedef struct amdgpu_machine amdgpu_machine_t;
typedef struct amdgpu_gpu amdgpu_gpu_t;
typedef struct amdgpu_grid amdgpu_grid_t;

/* arch: gfx90a, whose GPUs have one L2 each, or gfx942, whose GPUs have two. Partner: amdgpu_machine_close(). */
amdgpu_machine_t *amdgpu_machine_open(const char *arch, unsigned ngpus, uint64_t seed);
void amdgpu_machine_close(amdgpu_machine_t *machine);

/* Lines of its own in the memory of a GPU, or of the host: zeros. It is there until the machine is closed. */
void *amdgpu_machine_allocate(amdgpu_machine_t *machine, unsigned owner, amdgpu_memory_t kind, size_t bytes);

/* Says that kernels or hosts look there to know that something has come; name is kept. Multiples of 4 bytes. */
void amdgpu_machine_mark(amdgpu_machine_t *machine, const void *place, size_t bytes, const char *name);

/* Says that no kernel changes what lies there. One that does ends the process. */
void amdgpu_machine_keep(amdgpu_machine_t *machine, const void *place, size_t bytes);

/* The host, or a copy engine, stores. */
void amdgpu_machine_store(amdgpu_machine_t *machine, void *to, const void *from, size_t bytes);

/* Whether a GPU still runs a kernel; begins one on it otherwise. arg is copied. */
bool amdgpu_machine_is_busy(const amdgpu_machine_t *machine, unsigned gpu);
void amdgpu_machine_launch(amdgpu_machine_t *machine, unsigned gpu, const amdgpu_launch_t *launch);

/* One turn of one wave, if a kernel runs, and what may happen to caches in the meantime. The clock goes on. */
void amdgpu_machine_step(amdgpu_machine_t *machine);
uint64_t amdgpu_machine_clock(const amdgpu_machine_t *machine);
uint64_t amdgpu_machine_random(amdgpu_machine_t *machine);

/* For the interpreter: what a wave asks of its GPU. */
uint64_t amdgpu_gpu_clock(const amdgpu_gpu_t *gpu);
unsigned amdgpu_gpu_choose_cu(amdgpu_gpu_t *gpu);
uint64_t amdgpu_gpu_choose_start(amdgpu_gpu_t *gpu); /* when a block begins: others may leave it no place for long */
unsigned amdgpu_gpu_patience(const amdgpu_gpu_t *gpu);
unsigned amdgpu_gpu_choose_nap(amdgpu_gpu_t *gpu); /* how long a wave is to rest after a turn */
void amdgpu_stall_sometimes(amdgpu_wave_t &wave);  /* the wave's turn ends, and it may rest */

/* What is mutated. Where waves pass it, machines make likely what it may allow (amdgpu_harm.cc). Without the mutation
   that does no harm. Of one thread. */
typedef struct amdgpu_harmed {
    const amdgpu_inst_t *inst;   /* NULL: nothing is mutated */
    const amdgpu_inst_t *before; /* a wait before it; or NULL */
    uint64_t round;              /* another one does other harm to the same schedule */
} amdgpu_harmed_t;
extern amdgpu_harmed_t amdgpu_harmed;

/* A kernel begins; a turn is over; a wave has executed that instruction, or has done so before this one. */
void amdgpu_harm_begin(amdgpu_gpu_t *gpu);
void amdgpu_harm_step(amdgpu_machine_t *machine);
void amdgpu_harm(amdgpu_wave_t &wave, const amdgpu_inst_t &inst);

/* Whether a wave that should have a turn, or comes to that wait, or has a wait half done, rests instead. */
bool amdgpu_harm_rests(amdgpu_wave_t &wave);
bool amdgpu_harm_before(amdgpu_wave_t &wave);
bool amdgpu_harm_pause(amdgpu_wave_t &wave);

/* Other waves of its block have no turn until then: those that have a bit in mask, which go round. */
void amdgpu_block_hold(const amdgpu_wave_t &wave, uint64_t until, uint64_t mask);

/* A launch whose turns somebody else gives; step is false once all waves are at their end. */
amdgpu_grid_t *amdgpu_grid_begin(const amdgpu_launch_t *launch, amdgpu_gpu_t *gpu, uint64_t random);
bool amdgpu_grid_step(amdgpu_grid_t *grid);
void amdgpu_grid_end(amdgpu_grid_t *grid);

/* Whether an address is memory of the wave's machine. All below are for such addresses. */
bool amdgpu_holds(const amdgpu_gpu_t *gpu, uint64_t address);

/* What word lies there; NULL: none. */
const char *amdgpu_word_at(const amdgpu_gpu_t *gpu, uint64_t address);
bool amdgpu_is_constant(const amdgpu_gpu_t *gpu, uint64_t address);

static inline bool amdgpu_is_cached(const amdgpu_wave &wave, uint64_t address)
{
    return wave.run->gpu && amdgpu_holds(wave.run->gpu, address);
}

void amdgpu_cache_load(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes, void *to);
void amdgpu_cache_store(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes, const void *from);

/* Where an atomic access is done: in an L2, or in memory. */
uint8_t *amdgpu_cache_atomic(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes);

void amdgpu_cache_write_back(amdgpu_wave &wave, const amdgpu_inst &inst);
void amdgpu_cache_invalidate(amdgpu_wave &wave, const amdgpu_inst &inst, bool l1, bool l2);

#endif
