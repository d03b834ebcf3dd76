/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_weak.h. A machine: its memory, whose turn it is, and what bystanders do to caches in the meantime. What
 * caches do is in amdgpu_caches.cc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_machine.h"

using namespace weak;

namespace {

cache_t *allocate_cache()
{
    cache_t *cache = (cache_t *)calloc(1, sizeof *cache);
    if (!cache)
        abort();
    return cache;
}

uint64_t mix(uint64_t number)
{
    number = (number + 1) * 0x9e3779b97f4a7c15u;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    return (number ^ number >> 31) | 1;
}

mood_t choose_mood(amdgpu_machine *machine)
{
    const unsigned patience[] = {2, 8, 64, 1u << 31}, stalls[] = {2, 8, 32};
    const unsigned visits[] = {0, 1, 4}, evicts[] = {0, 0, 64}, naps[] = {0, 60, 600}, crowds[] = {1, 1, 4};
    mood_t mood;
    mood.patience = patience[amdgpu_machine_random(machine) % 4];
    mood.stalls = stalls[amdgpu_machine_random(machine) % 3];
    mood.visits = visits[amdgpu_machine_random(machine) % 3];
    mood.evicts = evicts[amdgpu_machine_random(machine) % 3];
    mood.crowd = crowds[amdgpu_machine_random(machine) % 3];
    mood.naps = naps[amdgpu_machine_random(machine) % 3];
    return mood;
}

void open_gpu(amdgpu_machine *machine, unsigned number)
{
    amdgpu_gpu *gpu = &machine->gpu[number];
    gpu->number = number;
    gpu->machine = machine;
    for (cache_t *&l1 : gpu->l1)
        l1 = allocate_cache();
    for (unsigned i = 0; i < machine->nl2; i++)
        gpu->l2[i] = allocate_cache();
}

/* At the start of a kernel: nothing stale is left. */
void begin_kernel(amdgpu_gpu *gpu)
{
    for (cache_t *l1 : gpu->l1)
        memset(l1->present, 0, sizeof l1->present);
    for (unsigned i = 0; i < gpu->machine->nl2; i++)
        for (unsigned line = 0; line < gpu->machine->nlines; line++)
            if (home_of(gpu->machine, line) != gpu->l2[i])
                forget_clean(gpu->l2[i], line);
}

/* At its end nothing dirty is left: its signal is released at system scope. */
void end_kernel(amdgpu_gpu *gpu)
{
    for (unsigned i = 0; i < gpu->machine->nl2; i++)
        for (unsigned line = 0; line < gpu->machine->nlines; line++)
            write_back(gpu->machine, gpu->l2[i], line);
    amdgpu_grid_end(gpu->grid);
    gpu->grid = nullptr;
    free(gpu->arg);
}

/* What other waves of the GPU, and the wish for room, do to its caches. */
void disturb(amdgpu_machine *machine)
{
    const mood_t &mood = machine->mood;
    const uint64_t random = amdgpu_machine_random(machine);
    amdgpu_gpu *gpu = &machine->gpu[random % machine->ngpus];
    const unsigned cu = (unsigned)(random >> 8) % CUS;
    unsigned line = (unsigned)(random >> 16) % machine->nlines;
    if (gpu->nhot >= HOT && (random >> 44) % 2)
        line = gpu->hot[(random >> 16) % HOT];
    if (mood.visits && (random >> 32) % mood.visits == 0)
        load_line(gpu, cu, line, false, false, nullptr);
    if (mood.evicts && (random >> 40) % mood.evicts == 0) {
        gpu->l1[cu]->present[line] = false;
        write_back(machine, l2_of(gpu, cu), line);
        l2_of(gpu, cu)->present[line] = false;
    }
}

} // namespace

amdgpu_machine_t *amdgpu_machine_open(const char *arch, unsigned ngpus, uint64_t seed)
{
    amdgpu_machine_t *machine = (amdgpu_machine_t *)calloc(1, sizeof *machine);
    void *memory = nullptr;
    if (!machine || posix_memalign(&memory, 4096, (size_t)LINES * LINE) != 0)
        abort();
    memset(memory, 0, (size_t)LINES * LINE);
    machine->memory = (uint8_t *)memory;
    machine->is_gfx90a = strcmp(arch, "gfx90a") == 0;
    machine->ngpus = ngpus;
    machine->nl2 = machine->is_gfx90a ? 1 : L2S;
    machine->random.random = mix(seed);
    machine->mood = choose_mood(machine);
    machine->harm.random = mix(~seed + (amdgpu_harmed.round << 32));
    machine->starts.random = mix(mix(seed));
    machine->spares = (machine->harm.random >> 32) % 8 == 0;
    for (unsigned g = 0; g < ngpus; g++)
        open_gpu(machine, g);
    return machine;
}

void amdgpu_machine_close(amdgpu_machine_t *machine)
{
    for (amdgpu_gpu &gpu : machine->gpu) {
        if (gpu.grid)
            end_kernel(&gpu);
        for (cache_t *l1 : gpu.l1)
            free(l1);
        for (cache_t *l2 : gpu.l2)
            free(l2);
    }
    free(machine->memory);
    free(machine);
}

void *amdgpu_machine_allocate(amdgpu_machine_t *machine, unsigned owner, amdgpu_memory_t kind, size_t bytes)
{
    const unsigned first = machine->nlines, count = (unsigned)((bytes + LINE - 1) / LINE);
    if (first + count > LINES) {
        fprintf(stderr, "amdgpu: a machine of %d lines has no place for %u more\n", (int)LINES, count);
        abort();
    }
    for (unsigned line = first; line < first + count; line++)
        machine->place[line] = {(uint8_t)owner, kind};
    machine->nlines += count;
    return machine->memory + (size_t)first * LINE;
}

void amdgpu_machine_mark(amdgpu_machine_t *machine, const void *place, size_t bytes, const char *name)
{
    const size_t first = (size_t)((const uint8_t *)place - machine->memory);
    for (size_t at = first; at < first + bytes; at += 4)
        machine->word[at / LINE][at % LINE / 4] = name;
}

void amdgpu_machine_keep(amdgpu_machine_t *machine, const void *place, size_t bytes)
{
    const size_t first = (size_t)((const uint8_t *)place - machine->memory);
    for (size_t line = first / LINE; line <= (first + bytes - 1) / LINE; line++)
        machine->constant[line] = true;
}

void amdgpu_machine_store(amdgpu_machine_t *machine, void *to, const void *from, size_t bytes)
{
    const uint8_t *next = (const uint8_t *)from;
    for (uint64_t address = (uintptr_t)to; bytes > 0;) {
        const part_t part = part_of(machine, address, (unsigned)bytes);
        write_memory(machine, nullptr, part.line, part.first, part.bytes, next);
        note_change(machine, part, HOST_WRITES);
        next += part.bytes;
        address += part.bytes;
        bytes -= part.bytes;
    }
}

bool amdgpu_machine_is_busy(const amdgpu_machine_t *machine, unsigned gpu)
{
    return machine->gpu[gpu].grid != nullptr;
}

void amdgpu_machine_launch(amdgpu_machine_t *machine, unsigned gpu, const amdgpu_launch_t *launch)
{
    amdgpu_gpu *own = &machine->gpu[gpu];
    own->began = machine->changes;
    const size_t bytes = amdgpu_kernel_arg_bytes(launch->kernel);
    own->launch = *launch;
    own->arg = (uint8_t *)malloc(bytes);
    if (!own->arg)
        abort();
    memcpy(own->arg, launch->arg, bytes);
    own->launch.arg = own->arg;
    begin_kernel(own);
    if (amdgpu_harmed.inst)
        amdgpu_harm_begin(own);
    own->crowded = amdgpu_random(&machine->starts) >> 32 & 1;
    own->grid = amdgpu_grid_begin(&own->launch, own, amdgpu_machine_random(machine));
}

void amdgpu_machine_step(amdgpu_machine_t *machine)
{
    amdgpu_gpu *gpu = &machine->gpu[amdgpu_machine_random(machine) % machine->ngpus];
    machine->clock++;
    if (gpu->grid && !amdgpu_grid_step(gpu->grid))
        end_kernel(gpu);
    for (unsigned i = 0; i < machine->mood.crowd; i++)
        disturb(machine);
    if (amdgpu_harmed.inst)
        amdgpu_harm_step(machine);
}

uint64_t amdgpu_machine_clock(const amdgpu_machine_t *machine)
{
    return machine->clock;
}

uint64_t amdgpu_machine_random(amdgpu_machine_t *machine)
{
    return amdgpu_random(&machine->random) >> 16;
}

uint64_t amdgpu_gpu_clock(const amdgpu_gpu_t *gpu)
{
    return gpu->machine->clock;
}

unsigned amdgpu_gpu_choose_cu(amdgpu_gpu_t *gpu)
{
    return (unsigned)(amdgpu_machine_random(gpu->machine) % CUS);
}

uint64_t amdgpu_gpu_choose_start(amdgpu_gpu_t *gpu)
{
    const uint64_t random = amdgpu_random(&gpu->machine->starts) >> 16;
    return gpu->crowded && random % 2 ? gpu->machine->clock + (random >> 8) % LATE : 0;
}

unsigned amdgpu_gpu_patience(const amdgpu_gpu_t *gpu)
{
    return gpu->machine->mood.patience;
}

unsigned amdgpu_gpu_choose_nap(amdgpu_gpu_t *gpu)
{
    const unsigned naps = gpu->machine->mood.naps;
    return naps && amdgpu_machine_random(gpu->machine) % naps == 0
               ? (unsigned)(amdgpu_machine_random(gpu->machine) % NAP) : 0;
}

bool amdgpu_holds(const amdgpu_gpu_t *gpu, uint64_t address)
{
    return address - (uintptr_t)gpu->machine->memory < (uint64_t)gpu->machine->nlines * LINE;
}

const char *amdgpu_word_at(const amdgpu_gpu_t *gpu, uint64_t address)
{
    const part_t part = part_of(gpu->machine, address, 1);
    return gpu->machine->word[part.line][part.first / 4];
}

bool amdgpu_is_constant(const amdgpu_gpu_t *gpu, uint64_t address)
{
    return gpu->machine->constant[part_of(gpu->machine, address, 1).line];
}
