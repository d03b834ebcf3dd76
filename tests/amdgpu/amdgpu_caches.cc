/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_weak.h. What caches do, as LLVM's user guide of the AMDGPU backend says in its memory models of gfx90a and
 * gfx942. Where the text leaves a choice, this takes the one that does more harm.
 *
 * L1, one for each compute unit, holds lines of any memory until they are invalidated or evicted, or their own unit
 * stores there. Stores go through it. Loads of agent scope on (gfx90a: glc, gfx942: sc1) pass it, and so do atomics.
 *
 * L2 holds ordinary memory only. Stores into it stay there, byte by byte, until they are written back or evicted.
 * Whoever stores into the memory itself makes the L2 that is local to it drop its copy; no L1 drops any. A GPU's memory
 * is local to its one L2 on gfx90a. On gfx942 a GPU may have several, and each piece of its memory is local to one. All
 * other lines are stale until they are invalidated.
 *
 *                              gfx90a              gfx942
 *   loads past lines of L2     none                sc1: of the own GPU's memory; sc0 sc1: of all memory
 *   stores through L2          none                likewise
 *   atomics in memory          none                all in the own GPU's memory; sc1: everywhere
 *   buffer_wbl2                all that is dirty   sc1: of the own GPU's memory; sc0 sc1: everything
 *   buffer_inv, buffer_invl2   other GPUs' lines   the same, lines that are not local; L1 with either bit
 *
 * nt and slc say how soon a line is evicted, and change nothing here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_weak.h"

namespace {

enum { LINE = 128, LINES = 2048, L2S = 2, CUS = 4, HOME_LINES = 2, STALL = 8000, NAP = 8000, HOT = 64, POLLS = 32 };
enum { WRITERS = AMDGPU_GPUS * CUS + 1, HOST_WRITES = WRITERS - 1 }; /* compute units, and the host */

struct line_t {
    uint8_t byte[LINE];
    bool valid[LINE], dirty[LINE];
};

struct cache_t {
    bool present[LINES];
    line_t line[LINES];
};

struct place_t {
    uint8_t owner;
    amdgpu_memory_t kind;
};

/* How harmful a run is; a seed chooses. */
struct mood_t {
    unsigned patience;         /* of late accesses */
    unsigned stalls;           /* one in so many stores that others see, and invalidations, makes its wave stall */
    unsigned naps;             /* one in so many turns is the last one of its wave for long; 0: never */
    unsigned crowd;            /* of bystanders */
    unsigned visits, evicts;   /* one in so many turns each loads a line, evicts one; 0: never */
};

} // namespace

struct amdgpu_gpu {
    unsigned number;
    amdgpu_machine_t *machine;
    amdgpu_grid_t *grid; /* NULL: none runs */
    amdgpu_launch_t launch;
    uint8_t *arg;
    cache_t *l1[CUS], *l2[L2S];
    uint64_t began; /* its kernel, in the order of changes */
    unsigned nhot;
    unsigned hot[HOT]; /* lines that kernels have used, of which bystanders are fond */
};

struct amdgpu_machine {
    bool is_gfx90a;
    unsigned ngpus, nl2, nlines; /* nl2: of each GPU; nlines: in use */
    uint64_t clock;
    amdgpu_run_state_t random;
    mood_t mood;
    uint8_t *memory;
    place_t place[LINES];
    const char *word[LINES][LINE / 4];
    uint64_t changes; /* a count of changes and invalidations, which is their order */
    uint64_t changed[LINES][LINE / 8][WRITERS]; /* when each of them last changed 8 bytes */
    bool constant[LINES];                       /* no kernel changes it; scalar loads are of such lines only */
    amdgpu_gpu gpu[AMDGPU_GPUS];
};

namespace {

cache_t *l2_of(amdgpu_gpu *gpu, unsigned cu)
{
    return gpu->l2[cu % gpu->machine->nl2];
}

/* The L2 to which a line is local; NULL if no L2 keeps it. */
cache_t *home_of(amdgpu_machine *machine, unsigned line)
{
    const place_t &place = machine->place[line];
    return place.kind == AMDGPU_COARSE ? machine->gpu[place.owner].l2[line / HOME_LINES % machine->nl2] : nullptr;
}

line_t *make_line(cache_t *cache, unsigned line)
{
    if (!cache->present[line]) {
        cache->present[line] = true;
        memset(cache->line[line].valid, 0, LINE);
        memset(cache->line[line].dirty, 0, LINE);
    }
    return &cache->line[line];
}

/* Bytes come to memory: the local L2 has them no more, unless it is the writer. */
void write_memory(amdgpu_machine *machine, const cache_t *writer, unsigned line, unsigned first, unsigned bytes,
                  const void *from)
{
    memmove(machine->memory + (size_t)line * LINE + first, from, bytes);
    cache_t *home = home_of(machine, line);
    if (!home || home == writer || !home->present[line])
        return;
    for (unsigned b = 0; b < LINE; b++)
        home->line[line].valid[b] = home->line[line].dirty[b];
}

void write_back(amdgpu_machine *machine, cache_t *l2, unsigned line)
{
    line_t *mine = &l2->line[line];
    for (unsigned b = 0; l2->present[line] && b < LINE; b++)
        if (mine->dirty[b]) {
            write_memory(machine, l2, line, b, 1, &mine->byte[b]);
            mine->dirty[b] = false;
        }
}

/* What is dirty stays. */
void forget_clean(cache_t *l2, unsigned line)
{
    for (unsigned b = 0; l2->present[line] && b < LINE; b++)
        l2->line[line].valid[b] = l2->line[line].dirty[b];
}

/* A line as an L2, or a request through it, sees it. past: not what is stale there. */
void read_l2(amdgpu_machine *machine, cache_t *l2, unsigned line, bool past, uint8_t *to)
{
    const uint8_t *memory = machine->memory + (size_t)line * LINE;
    memcpy(to, memory, LINE);
    if (machine->place[line].kind != AMDGPU_COARSE)
        return;
    if (past && home_of(machine, line) != l2)
        forget_clean(l2, line);
    line_t *mine = make_line(l2, line);
    for (unsigned b = 0; b < LINE; b++)
        if (mine->valid[b]) {
            to[b] = mine->byte[b];
        } else {
            mine->byte[b] = memory[b];
            mine->valid[b] = true;
        }
}

/* Whether an access is to leave alone what L2 caches keep: of the own GPU's memory, or of all. */
bool is_past_l2(const amdgpu_gpu *gpu, unsigned line, const amdgpu_inst &inst)
{
    return !gpu->machine->is_gfx90a && inst.sc1 && (inst.sc0 || gpu->machine->place[line].owner == gpu->number);
}

bool is_past_l1(const amdgpu_gpu *gpu, const amdgpu_inst &inst)
{
    return gpu->machine->is_gfx90a ? inst.sc0 : inst.sc1;
}

void load_line(amdgpu_gpu *gpu, unsigned cu, unsigned line, bool past_l1, bool past_l2, uint8_t *to)
{
    cache_t *l1 = gpu->l1[cu];
    if (past_l1)
        l1->present[line] = false;
    if (l1->present[line]) {
        memcpy(to, l1->line[line].byte, LINE);
        return;
    }
    read_l2(gpu->machine, l2_of(gpu, cu), line, past_l2, to);
    if (past_l1)
        return;
    l1->present[line] = true;
    memcpy(l1->line[line].byte, to, LINE);
}

void store_line(amdgpu_gpu *gpu, unsigned cu, unsigned line, unsigned first, unsigned bytes, bool past_l2,
                const uint8_t *from)
{
    amdgpu_machine *machine = gpu->machine;
    cache_t *l1 = gpu->l1[cu], *l2 = l2_of(gpu, cu);
    const bool kept = machine->place[line].kind == AMDGPU_COARSE;
    if (l1->present[line])
        memcpy(l1->line[line].byte + first, from, bytes);
    if (kept && (!past_l2 || l2->present[line])) {
        line_t *mine = make_line(l2, line);
        memcpy(mine->byte + first, from, bytes);
        memset(mine->valid + first, true, bytes);
        memset(mine->dirty + first, !past_l2, bytes);
    }
    if (!kept || past_l2)
        write_memory(machine, l2, line, first, bytes, from);
}

/* Which bytes of a line an access has; the rest is of lines after it. */
struct part_t {
    unsigned line, first, bytes;
};

part_t part_of(const amdgpu_machine *machine, uint64_t address, unsigned bytes)
{
    const uint64_t at = address - (uintptr_t)machine->memory;
    const unsigned first = (unsigned)(at % LINE), left = LINE - first;
    return {(unsigned)(at / LINE), first, bytes < left ? bytes : left};
}

void note_change(amdgpu_machine *machine, const part_t &part, unsigned writer)
{
    for (unsigned at = part.first / 8; at <= (part.first + part.bytes - 1) / 8; at++)
        machine->changed[part.line][at][writer] = ++machine->changes;
}

/* A wave loads: what its caches cannot know of has changed since its kernel began. */
void note_load(amdgpu_wave &wave, const amdgpu_inst &inst, const part_t &part, bool past_l1, bool past_l2)
{
    amdgpu_gpu *gpu = wave.run->gpu;
    amdgpu_machine *machine = gpu->machine;
    const unsigned cu = wave.block->cu, self = gpu->number * CUS + cu;
    const bool strange = machine->place[part.line].kind == AMDGPU_COARSE &&
                         home_of(machine, part.line) != l2_of(gpu, cu);
    uint64_t changed[2] = {0, 0};
    for (unsigned w = 0; w < WRITERS; w++) {
        const bool same_l2 = w != HOST_WRITES && w / CUS == gpu->number && w % CUS % machine->nl2 == cu % machine->nl2;
        for (unsigned b = part.first / 8; b <= (part.first + part.bytes - 1) / 8; b++) {
            const uint64_t at = machine->changed[part.line][b][w];
            if (at > gpu->began && w != self && at > changed[0])
                changed[0] = at;
            if (at > gpu->began && strange && !same_l2 && at > changed[1])
                changed[1] = at;
        }
    }
    if (changed[0] || changed[1])
        amdgpu_note_exposed(wave, inst, changed[0], changed[1], past_l1, past_l2);
}

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
    uint8_t seen[LINE];
    if (gpu->nhot >= HOT && (random >> 44) % 2)
        line = gpu->hot[(random >> 16) % HOT];
    if (mood.visits && (random >> 32) % mood.visits == 0)
        load_line(gpu, cu, line, false, false, seen);
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

void amdgpu_cache_load(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes, void *to)
{
    amdgpu_gpu_t *gpu = wave.run->gpu;
    uint8_t line[LINE], *next = (uint8_t *)to;
    const bool scalar = inst.operand[0].kind == AMDGPU_SCALAR; /* of what no kernel changes: it is in no L1 */
    while (bytes > 0) {
        const part_t part = part_of(gpu->machine, address, bytes);
        const bool past_l1 = is_past_l1(gpu, inst), past_l2 = is_past_l2(gpu, part.line, inst);
        if (scalar) {
            gpu->machine->constant[part.line] = true;
            read_l2(gpu->machine, l2_of(gpu, wave.block->cu), part.line, false, line);
        } else {
            gpu->hot[gpu->nhot++ % HOT] = part.line;
            if (wave.noting)
                note_load(wave, inst, part, past_l1, past_l2);
            load_line(gpu, wave.block->cu, part.line, past_l1, past_l2, line);
        }
        memcpy(next, line + part.first, part.bytes);
        next += part.bytes;
        address += part.bytes;
        bytes -= part.bytes;
    }
}

/* Nothing is both changed and loaded by scalar instructions, whose cache is not modelled. */
static void begin_change(amdgpu_wave &wave, const part_t &part)
{
    amdgpu_machine_t *machine = wave.run->gpu->machine;
    if (machine->constant[part.line])
        amdgpu_fail(wave, "a change of what is constant, or was read by scalar loads");
    note_change(machine, part, wave.run->gpu->number * CUS + wave.block->cu);
}

void amdgpu_stall_sometimes(amdgpu_wave &wave)
{
    amdgpu_machine_t *machine = wave.run->gpu->machine;
    if (amdgpu_machine_random(machine) % machine->mood.stalls != 0)
        return;
    wave.stalled = machine->clock + amdgpu_machine_random(machine) % STALL;
    wave.yields = true;
}

/* Where others see the store at once, its wave may do nothing more for a while. */
void amdgpu_cache_store(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes, const void *from)
{
    amdgpu_gpu_t *gpu = wave.run->gpu;
    const uint8_t *next = (const uint8_t *)from;
    bool seen = false;
    while (bytes > 0) {
        const part_t part = part_of(gpu->machine, address, bytes);
        const bool past = is_past_l2(gpu, part.line, inst);
        begin_change(wave, part);
        gpu->hot[gpu->nhot++ % HOT] = part.line;
        store_line(gpu, wave.block->cu, part.line, part.first, part.bytes, past, next);
        inst.notes.met_kept += gpu->machine->place[part.line].kind == AMDGPU_COARSE;
        seen = seen || past || gpu->machine->place[part.line].kind != AMDGPU_COARSE;
        next += part.bytes;
        address += part.bytes;
        bytes -= part.bytes;
    }
    if (seen)
        amdgpu_stall_sometimes(wave);
}

uint8_t *amdgpu_cache_atomic(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t address, unsigned bytes)
{
    amdgpu_gpu_t *gpu = wave.run->gpu;
    amdgpu_machine_t *machine = gpu->machine;
    const part_t part = part_of(machine, address, bytes);
    cache_t *own = l2_of(gpu, wave.block->cu);
    uint8_t line[LINE], *memory = machine->memory + (size_t)part.line * LINE + part.first;
    begin_change(wave, part);
    gpu->l1[wave.block->cu]->present[part.line] = false;
    amdgpu_stall_sometimes(wave); /* others see it, too */
    if (machine->place[part.line].kind != AMDGPU_COARSE)
        return memory;
    const bool here = machine->place[part.line].owner == gpu->number;
    if (machine->is_gfx90a || (!here && !inst.sc1)) { /* in the L2 */
        read_l2(machine, own, part.line, false, line);
        memset(own->line[part.line].dirty + part.first, true, part.bytes);
        return own->line[part.line].byte + part.first;
    }
    for (unsigned i = 0; i < machine->nl2; i++) {
        write_back(machine, gpu->l2[i], part.line);
        forget_clean(gpu->l2[i], part.line);
    }
    write_memory(machine, own, part.line, part.first, part.bytes, memory); /* so that other GPUs forget it */
    return memory;
}

void amdgpu_cache_write_back(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_gpu_t *gpu = wave.run->gpu;
    cache_t *l2 = l2_of(gpu, wave.block->cu);
    for (unsigned line = 0; line < gpu->machine->nlines; line++)
        if (gpu->machine->is_gfx90a || is_past_l2(gpu, line, inst)) {
            const bool dirty = l2->present[line] && memchr(l2->line[line].dirty, true, LINE);
            (gpu->machine->place[line].owner == gpu->number ? inst.notes.found_own : inst.notes.found_other) += dirty;
            write_back(gpu->machine, l2, line);
        }
}

void amdgpu_cache_invalidate(amdgpu_wave &wave, const amdgpu_inst &inst, bool l1, bool l2)
{
    amdgpu_gpu_t *gpu = wave.run->gpu;
    amdgpu_machine_t *machine = gpu->machine;
    cache_t *own = gpu->l1[wave.block->cu], *below = l2_of(gpu, wave.block->cu);
    const bool lets_go = l1 && (machine->is_gfx90a || inst.sc0 || inst.sc1);
    if (lets_go)
        memset(own->present, 0, sizeof own->present);
    if (wave.noting)
        amdgpu_note_invalidated(wave, inst, lets_go, l2, l2 && (machine->is_gfx90a || (inst.sc0 && inst.sc1)),
                                ++machine->changes);
    for (unsigned line = 0; l2 && line < machine->nlines; line++)
        if (home_of(machine, line) != below && (machine->is_gfx90a || is_past_l2(gpu, line, inst)))
            forget_clean(below, line);
    /* What is still in flight, or loaded by others, comes after it. Waves that poll for long rest less and less. */
    if (amdgpu_machine_random(machine) % (1 + wave.acquires++ / POLLS) == 0)
        amdgpu_stall_sometimes(wave);
}
