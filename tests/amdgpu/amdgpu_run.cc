/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A launch: its waves, the registers they begin with, and who runs when. All blocks are there at the same time. Waves
 * take turns of a random number of instructions, in a random order that a seed gives. So kernels in which blocks wait
 * for each other make progress, and one that waits for another stream or process gives the core away: where all waves
 * do nothing but sleep, the thread sleeps too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "amdgpu/amdgpu_coverage.h"
#include "amdgpu/amdgpu_late.h"
#include "amdgpu/amdgpu_wave.h"
#include "amdgpu/amdgpu_weak.h"

namespace {

const uint64_t TURN = 64, TURN_ALONE = 4096; /* instructions at most, where others wait, and where none does */

enum {
    IDLE_YIELDS = 64,   /* rounds of sleep until the thread sleeps */
    IDLE_SLEEP_NS = 50000,
    PATIENCE = 4,       /* as amdgpu_run_state_t has it, where there are no caches */
    POISON = 0xa5       /* what registers and LDS hold that nothing set */
};

/* As the packet by which a queue is told, for kernels that look into it. */
struct packet_t {
    uint16_t header, setup, block_x, block_y, block_z, reserved0;
    uint32_t grid_x, grid_y, grid_z, private_bytes, lds_bytes;
    uint64_t kernel, kernarg, reserved1, signal;
};
static_assert(sizeof(packet_t) == 64, "a packet of 64 bytes");

} // namespace

struct amdgpu_grid {
    amdgpu_run_state_t state;
    packet_t packet;
    uint8_t *kernarg;
    unsigned first, nblocks; /* that run here */
    unsigned nwaves, nrunning;
    amdgpu_wave_t *wave;
    amdgpu_block_t *block;
    unsigned *running; /* numbers of waves that are not at a barrier and not at their end */
    uint32_t *vgprs;
    uint8_t *lds;
};

namespace {

typedef amdgpu_grid grid_t;

/* Launches with the same seed and order differ from each other, as their numbers do. */
uint64_t first_random()
{
    static uint64_t count;
    static const char *const seed = getenv("AMDGPU_SEED");
    const uint64_t number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    uint64_t mixed = (number + (seed ? strtoull(seed, nullptr, 10) << 32 : 0)) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u; /* so that every bit tells seeds apart */
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ? mixed ^ mixed >> 31 : 1;
}

void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "amdgpu: no memory\n");
        abort();
    }
    return memory;
}

/* The argument, and what the runtime puts after it. */
void fill_kernarg(grid_t *grid, const amdgpu_launch_t *launch)
{
    const amdgpu_kernel_t *kernel = launch->kernel;
    grid->kernarg = (uint8_t *)allocate(kernel->kernarg_bytes);
    memset(grid->kernarg, 0, kernel->kernarg_bytes);
    memcpy(grid->kernarg, launch->arg, kernel->arg_bytes);
    struct {
        const char *kind;
        uint64_t value;
    } const values[] = {{"hidden_block_count_x", launch->nblocks},
                        {"hidden_block_count_y", 1},
                        {"hidden_block_count_z", 1},
                        {"hidden_group_size_x", launch->nthreads},
                        {"hidden_group_size_y", 1},
                        {"hidden_group_size_z", 1},
                        {"hidden_grid_dims", 1}};
    for (unsigned h = 0; h < kernel->nhidden; h++)
        for (const auto &value : values)
            if (strcmp(kernel->hidden[h].kind, value.kind) == 0)
                memcpy(grid->kernarg + kernel->hidden[h].offset, &value.value, kernel->hidden[h].bytes);
    grid->packet = packet_t();
    grid->packet.setup = 1;
    grid->packet.block_x = (uint16_t)launch->nthreads;
    grid->packet.block_y = grid->packet.block_z = 1;
    grid->packet.grid_x = launch->nblocks * launch->nthreads;
    grid->packet.grid_y = grid->packet.grid_z = 1;
    grid->packet.lds_bytes = kernel->lds_bytes;
    grid->packet.kernarg = (uint64_t)(uintptr_t)grid->kernarg;
}

/* User registers in their fixed order, and the number of the block after them. */
void fill_sgprs(const grid_t *grid, amdgpu_wave_t *wave, unsigned block)
{
    const amdgpu_kernel_t *kernel = grid->state.launch->kernel;
    unsigned next = 0;
    if (kernel->properties & AMDGPU_WANTS_BUFFER)
        next += 4; /* of the stack, and there is none */
    if (kernel->properties & AMDGPU_WANTS_PACKET) {
        amdgpu_set_pair(*wave, next, (uint64_t)(uintptr_t)&grid->packet);
        next += 2;
    }
    if (kernel->properties & AMDGPU_WANTS_KERNARG) {
        amdgpu_set_pair(*wave, next, (uint64_t)(uintptr_t)grid->kernarg);
        next += 2;
    }
    if (kernel->wants_block)
        wave->sgpr[next] = block;
}

void begin_wave(grid_t *grid, unsigned number)
{
    const amdgpu_launch_t *launch = grid->state.launch;
    const unsigned each = grid->nwaves / grid->nblocks, block = number / each, first = number % each * AMDGPU_LANES;
    const unsigned lanes = launch->nthreads - first;
    amdgpu_wave_t *wave = &grid->wave[number];
    memset(wave->sgpr, POISON, sizeof wave->sgpr);
    fill_sgprs(grid, wave, grid->first + block);
    amdgpu_set_pair(*wave, AMDGPU_EXEC, lanes >= AMDGPU_LANES ? ~0ull : (1ull << lanes) - 1);
    wave->scc = wave->yields = wave->sleeps = wave->braced = false;
    wave->stalled = 0;
    wave->acquires = wave->harmed = wave->lingers = 0;
    wave->state = AMDGPU_RUNS;
    wave->pc = wave->at = launch->kernel->entry;
    wave->vgpr = grid->vgprs + (size_t)number * launch->kernel->nvgprs * AMDGPU_LANES;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        wave->vgpr[l] = first + l;
    wave->block = &grid->block[block];
    wave->run = &grid->state;
    wave->late = amdgpu_late_open(grid->state.gpu != nullptr);
    wave->noting = grid->state.gpu ? amdgpu_notes_open(number % each) : nullptr;
    grid->running[number] = number;
}

void begin_grid(grid_t *grid, const amdgpu_launch_t *launch, struct amdgpu_gpu *gpu, uint64_t random)
{
    const amdgpu_kernel_t *kernel = launch->kernel;
    const unsigned each = (launch->nthreads + AMDGPU_LANES - 1) / AMDGPU_LANES;
    grid->first = launch->first;
    grid->nblocks = launch->count ? launch->count : launch->nblocks;
    grid->nwaves = grid->nrunning = each * grid->nblocks;
    const size_t vgpr_bytes = (size_t)grid->nwaves * kernel->nvgprs * AMDGPU_LANES * sizeof *grid->vgprs;
    grid->state = amdgpu_run_state_t();
    grid->state.launch = launch;
    grid->state.random = random;
    grid->state.gpu = gpu;
    grid->state.patience = gpu ? amdgpu_gpu_patience(gpu) : unsigned{PATIENCE};
    fill_kernarg(grid, launch);
    grid->state.nranges = 2;
    grid->state.range[0] = {(uintptr_t)grid->kernarg, (uintptr_t)grid->kernarg + kernel->kernarg_bytes};
    grid->state.range[1] = {(uintptr_t)&grid->packet, (uintptr_t)(&grid->packet + 1)};
    grid->wave = (amdgpu_wave_t *)allocate(grid->nwaves * sizeof *grid->wave);
    grid->block = (amdgpu_block_t *)allocate(grid->nblocks * sizeof *grid->block);
    grid->running = (unsigned *)allocate(grid->nwaves * sizeof *grid->running);
    grid->vgprs = (uint32_t *)allocate(vgpr_bytes);
    grid->lds = (uint8_t *)allocate((size_t)grid->nblocks * kernel->lds_bytes);
    memset(grid->vgprs, POISON, vgpr_bytes);
    memset(grid->lds, POISON, (size_t)grid->nblocks * kernel->lds_bytes);
    for (unsigned b = 0; b < grid->nblocks; b++)
        grid->block[b] = amdgpu_block_t{each, 0, 0, 0, grid->lds + (size_t)b * kernel->lds_bytes, {}};
    for (unsigned w = 0; w < grid->nwaves; w++)
        begin_wave(grid, w);
}

void end_grid(grid_t *grid)
{
    for (unsigned w = 0; w < grid->nwaves; w++) {
        amdgpu_late_close(grid->wave[w].late);
        amdgpu_notes_close(grid->wave[w].noting);
    }
    free(grid->kernarg);
    free(grid->wave);
    free(grid->block);
    free(grid->running);
    free(grid->vgprs);
    free(grid->lds);
}

pthread_mutex_t whole_lock = PTHREAD_MUTEX_INITIALIZER;

bool runs_whole()
{
    static const char *const wanted = getenv("AMDGPU_WHOLE");
    return wanted && strcmp(wanted, "0") != 0;
}

void take_turn(amdgpu_wave_t *wave, uint64_t most)
{
    const amdgpu_object_t *object = wave->run->launch->kernel->object;
    const uintptr_t text = (uintptr_t)object->text;
    uint64_t left = most;
    wave->yields = wave->sleeps = false;
    for (; left > 0 && !wave->yields; left--) {
        const uintptr_t at = wave->pc - text;
        if (at >= object->text_bytes || at % 4)
            amdgpu_fail(*wave, "a way out of the code");
        /* Partner: the release in amdgpu_decode(). */
        const amdgpu_inst_t *inst = __atomic_load_n(&object->inst[at / 4], __ATOMIC_ACQUIRE);
        if (!inst) {
            wave->at = wave->pc;
            inst = amdgpu_decode(*wave, wave->pc);
        }
        object->executed[at / 4] = 1;
        wave->at = wave->pc;
        wave->pc += inst->bytes;
        if (inst == amdgpu_harmed.before && amdgpu_harm_before(*wave)) {
            wave->pc = wave->at;
            break;
        }
        if (wave->run->gpu)
            amdgpu_late_check(*wave, *inst);
        if (wave->noting)
            amdgpu_note(*wave, *inst);
        if (wave->late && inst->counters)
            amdgpu_late_issue(*wave, *inst);
        else
            inst->run(*wave, *inst);
        if (inst == amdgpu_harmed.inst || wave->harmed)
            amdgpu_harm(*wave, *inst);
    }
    wave->run->ninsts += most - left;
}

/* Once each of a block's waves has come to the barrier or to its end. */
void release_barrier(grid_t *grid, amdgpu_block_t *block)
{
    if (block->waiting == 0 || block->waiting + block->ended < block->nwaves)
        return;
    const unsigned first = (unsigned)(block - grid->block) * block->nwaves;
    for (unsigned w = first; w < first + block->nwaves; w++)
        if (grid->wave[w].state == AMDGPU_AT_BARRIER) {
            grid->wave[w].state = AMDGPU_RUNS;
            if (grid->wave[w].lingers)
                grid->wave[w].stalled = amdgpu_gpu_clock(grid->state.gpu) + grid->wave[w].lingers;
            grid->wave[w].lingers = 0;
            grid->running[grid->nrunning++] = w;
        }
    block->waiting = 0;
}

/* Whether a wave that has not begun lets another one have its turn. */
bool is_held(const grid_t *grid, unsigned number, uint64_t turn)
{
    const amdgpu_wave_t *wave = &grid->wave[number];
    const amdgpu_block_t *block = wave->block;
    const bool last = (number + 1) % block->nwaves == 0;
    return turn < grid->state.launch->held_turns && last && wave->pc == grid->state.launch->kernel->entry &&
           block->waiting + block->ended + 1 < block->nwaves;
}

void rest(grid_t *grid, bool slept)
{
    grid->state.idle = slept ? grid->state.idle + 1 : 0;
    if (grid->nrunning == 0 || grid->state.idle < grid->nrunning)
        return;
    if (grid->state.idle < IDLE_YIELDS * grid->nrunning) {
        sched_yield();
        return;
    }
    const struct timespec pause = {0, IDLE_SLEEP_NS};
    nanosleep(&pause, nullptr);
}

} // namespace

void amdgpu_fail(const amdgpu_wave &wave, const char *what)
{
    const amdgpu_kernel_t *kernel = wave.run->launch->kernel;
    const amdgpu_object_t *object = kernel->object;
    char text[256];
    (void)amdgpu_disassemble(object, wave.at, text, sizeof text);
    fprintf(stderr, "amdgpu: emulated %s: %s at 0x%lx: %s:%s\n", object->arch, kernel->name,
            (unsigned long)(wave.at - (uintptr_t)object->memory), what, text);
    abort();
}

amdgpu_grid *amdgpu_grid_begin(const amdgpu_launch_t *launch, struct amdgpu_gpu *gpu, uint64_t random)
{
    amdgpu_grid *grid = (amdgpu_grid *)allocate(sizeof *grid);
    begin_grid(grid, launch, gpu, random ? random : 1);
    for (unsigned b = 0; b < grid->nblocks; b++) {
        const uint64_t start = amdgpu_gpu_choose_start(gpu);
        grid->block[b].cu = amdgpu_gpu_choose_cu(gpu);
        for (unsigned w = 0; w < grid->block[b].nwaves; w++)
            grid->wave[b * grid->block[b].nwaves + w].stalled = start;
    }
    return grid;
}

bool amdgpu_grid_step(amdgpu_grid *grid)
{
    const uint64_t random = amdgpu_random(&grid->state);
    const unsigned at = (unsigned)(random >> 32) % grid->nrunning;
    amdgpu_wave_t *wave = &grid->wave[grid->running[at]];
    if (amdgpu_harmed.inst ? amdgpu_harm_rests(*wave) : amdgpu_gpu_clock(grid->state.gpu) < wave->stalled)
        return true;
    take_turn(wave, 1 + random % TURN);
    const unsigned nap = amdgpu_gpu_choose_nap(grid->state.gpu);
    if (nap && wave->stalled < amdgpu_gpu_clock(grid->state.gpu) + nap)
        wave->stalled = amdgpu_gpu_clock(grid->state.gpu) + nap;
    if (wave->state != AMDGPU_RUNS) {
        grid->running[at] = grid->running[--grid->nrunning];
        release_barrier(grid, wave->block);
    }
    return grid->nrunning > 0;
}

void amdgpu_block_hold(const amdgpu_wave_t &wave, uint64_t until, uint64_t mask)
{
    const amdgpu_wave_t *first = &wave - (&wave - reinterpret_cast<amdgpu_grid *>(wave.run)->wave) % wave.block->nwaves;
    for (unsigned w = 0; w < wave.block->nwaves; w++) {
        amdgpu_wave_t *other = const_cast<amdgpu_wave_t *>(first + w);
        if (other != &wave && mask >> w % 64 & 1 && other->stalled < until)
            other->stalled = until;
    }
}

void amdgpu_grid_end(amdgpu_grid *grid)
{
    amdgpu_coverage_count(grid->nwaves, grid->state.ninsts);
    end_grid(grid);
    free(grid);
}

void amdgpu_run(const amdgpu_launch_t *launch)
{
    grid_t grid;
    begin_grid(&grid, launch, nullptr, first_random());
    for (uint64_t turn = 0; grid.nrunning > 0; turn++) {
        const uint64_t random = amdgpu_random(&grid.state);
        const unsigned at = (unsigned)(random >> 32) % grid.nrunning;
        amdgpu_wave_t *wave = &grid.wave[grid.running[at]];
        if (is_held(&grid, grid.running[at], turn))
            continue;
        if (runs_whole()) {
            pthread_mutex_lock(&whole_lock);
            take_turn(wave, UINT64_MAX);
            pthread_mutex_unlock(&whole_lock);
        } else {
            take_turn(wave, grid.nrunning == 1 ? TURN_ALONE : 1 + random % TURN);
        }
        if (wave->state != AMDGPU_RUNS) {
            grid.running[at] = grid.running[--grid.nrunning];
            release_barrier(&grid, wave->block);
        }
        rest(&grid, wave->sleeps);
    }
    amdgpu_coverage_count(grid.nwaves, grid.state.ninsts);
    end_grid(&grid);
}
