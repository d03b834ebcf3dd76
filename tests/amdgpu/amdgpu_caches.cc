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

#include "amdgpu/amdgpu_machine.h"

using namespace weak;

cache_t *weak::l2_of(amdgpu_gpu *gpu, unsigned cu)
{
    return gpu->l2[cu % gpu->machine->nl2];
}

/* The L2 to which a line is local; NULL if no L2 keeps it. */
cache_t *weak::home_of(amdgpu_machine *machine, unsigned line)
{
    const place_t &place = machine->place[line];
    return place.kind == AMDGPU_COARSE ? machine->gpu[place.owner].l2[line / HOME_LINES % machine->nl2] : nullptr;
}

namespace {

line_t *make_line(cache_t *cache, unsigned line)
{
    if (!cache->present[line]) {
        cache->present[line] = true;
        memset(cache->line[line].valid, 0, LINE);
        memset(cache->line[line].dirty, 0, LINE);
    }
    return &cache->line[line];
}

} // namespace

/* Bytes come to memory: the local L2 has them no more, unless it is the writer. */
void weak::write_memory(amdgpu_machine *machine, const cache_t *writer, unsigned line, unsigned first, unsigned bytes,
                        const void *from)
{
    memmove(machine->memory + (size_t)line * LINE + first, from, bytes);
    cache_t *home = home_of(machine, line);
    if (!home || home == writer || !home->present[line])
        return;
    memcpy(home->line[line].valid, home->line[line].dirty, LINE);
}

static bool is_dirty(const amdgpu_machine *machine, unsigned line)
{
    for (unsigned g = 0; g < machine->ngpus; g++)
        for (unsigned i = 0; i < machine->nl2; i++) {
            const cache_t *l2 = machine->gpu[g].l2[i];
            if (l2->present[line] && memchr(l2->line[line].dirty, true, LINE))
                return true;
        }
    return false;
}

void weak::write_back(amdgpu_machine *machine, cache_t *l2, unsigned line)
{
    line_t *mine = &l2->line[line];
    if (!l2->present[line] || !memchr(mine->dirty, true, LINE))
        return;
    for (unsigned first = 0, end; first < LINE; first = end) {
        for (end = first + 1; end < LINE && mine->dirty[end] == mine->dirty[first];)
            end++;
        if (!mine->dirty[first])
            continue;
        write_memory(machine, l2, line, first, end - first, mine->byte + first);
        memset(mine->dirty + first, false, end - first);
    }
    if (is_dirty(machine, line)) /* of others, in another L2 */
        return;
    machine->written[line] = false;
    machine->writer[line] = nullptr;
}

/* What is dirty stays. */
void weak::forget_clean(cache_t *l2, unsigned line)
{
    if (l2->present[line])
        memcpy(l2->line[line].valid, l2->line[line].dirty, LINE);
}

namespace {

/* A line as an L2, or a request through it, sees it. past: not what is stale there. */
void read_l2(amdgpu_machine *machine, cache_t *l2, unsigned line, bool past, uint8_t *to)
{
    const uint8_t *memory = machine->memory + (size_t)line * LINE;
    if (machine->place[line].kind != AMDGPU_COARSE) {
        memcpy(to, memory, LINE);
        return;
    }
    if (past && home_of(machine, line) != l2)
        forget_clean(l2, line);
    line_t *mine = make_line(l2, line);
    for (unsigned b = 0; b < LINE; b++) /* no branches: this is where a run spends its time */
        mine->byte[b] = mine->valid[b] ? mine->byte[b] : memory[b];
    memset(mine->valid, true, LINE);
    memcpy(to, mine->byte, LINE);
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

} // namespace

void weak::load_line(amdgpu_gpu *gpu, unsigned cu, unsigned line, bool past_l1, bool past_l2, uint8_t *to)
{
    cache_t *l1 = gpu->l1[cu];
    if (past_l1)
        l1->present[line] = false;
    if (!l1->present[line]) {
        read_l2(gpu->machine, l2_of(gpu, cu), line, past_l2, past_l1 ? to : l1->line[line].byte);
        l1->present[line] = !past_l1;
    }
    if (to && !past_l1)
        memcpy(to, l1->line[line].byte, LINE);
}

namespace {

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

} // namespace

part_t weak::part_of(const amdgpu_machine *machine, uint64_t address, unsigned bytes)
{
    const uint64_t at = address - (uintptr_t)machine->memory;
    const unsigned first = (unsigned)(at % LINE), left = LINE - first;
    return {(unsigned)(at / LINE), first, bytes < left ? bytes : left};
}

void weak::note_change(amdgpu_machine *machine, const part_t &part, unsigned writer)
{
    for (unsigned at = part.first / 4; at <= (part.first + part.bytes - 1) / 4; at++)
        machine->changed[part.line][at][writer] = ++machine->changes;
}

namespace {

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
        for (unsigned b = part.first / 4; b <= (part.first + part.bytes - 1) / 4; b++) {
            const uint64_t at = machine->changed[part.line][b][w];
            if (at > gpu->began && w != self && at > changed[0])
                changed[0] = at;
            if (at > gpu->began && strange && !same_l2 && at > changed[1])
                changed[1] = at;
        }
    }
    if (changed[0] || changed[1])
        amdgpu_note_exposed(wave, inst, changed[0], changed[1], past_l1, past_l2,
                            machine->place[part.line].owner != gpu->number);
}

} // namespace

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
        gpu->machine->writer[part.line] =
            !gpu->machine->written[part.line] || gpu->machine->writer[part.line] == wave.block ? wave.block : nullptr;
        gpu->machine->written[part.line] = true;
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
            const bool other = gpu->machine->place[line].owner != gpu->number;
            const amdgpu_block_t *writer = gpu->machine->writer[line];
            (other ? inst.notes.found_other : inst.notes.found_own) += dirty;
            inst.notes.found_mine += dirty && other && (!writer || writer == wave.block);
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
        amdgpu_note_invalidated(wave, inst, lets_go, l2 && (machine->is_gfx90a || inst.sc1),
                                l2 && (machine->is_gfx90a || (inst.sc0 && inst.sc1)), ++machine->changes);
    for (unsigned line = 0; l2 && line < machine->nlines; line++)
        if (home_of(machine, line) != below && (machine->is_gfx90a || is_past_l2(gpu, line, inst)))
            forget_clean(below, line);
    /* What is still in flight, or loaded by others, comes after it. Waves that poll for long rest less and less. */
    if (amdgpu_machine_random(machine) % (1 + wave.acquires++ / POLLS) == 0)
        amdgpu_stall_sometimes(wave);
}
