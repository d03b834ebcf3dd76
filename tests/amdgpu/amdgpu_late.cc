/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_late.h. An access is kept as its instruction and the registers that it reads. To do it, these are put back
 * for as long as the instruction runs. Any two accesses are taken to touch the same bytes unless both are loads, or one
 * is of LDS or scalar and the other global, or what their lanes span is apart.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_lanes.h"
#include "amdgpu/amdgpu_late.h"
#include "amdgpu/amdgpu_weak.h"

namespace {

enum { ACCESSES = 64, SAVED = 8 };

const uint32_t UNFINISHED = 0xdeadbeef; /* what the registers of a result hold until then */

struct access_t {
    const amdgpu_inst_t *inst;
    uintptr_t at;
    uint64_t exec;
    uint64_t first, last; /* bytes that it may touch */
    uint64_t number[2];   /* among all that its counters counted */
    unsigned nvectors, nscalars;
    uint16_t vector[SAVED], scalar[SAVED];
    uint32_t scalars[SAVED];
    amdgpu_lanes32_t vectors[SAVED];
};

bool is_late()
{
    static const char *const wanted = getenv("AMDGPU_LATE");
    return wanted && strcmp(wanted, "0") != 0;
}

} // namespace

struct amdgpu_late {
    unsigned count;
    uint64_t issued[2]; /* by each counter */
    access_t *access[ACCESSES]; /* the oldest first; those after count are free */
};

namespace {

bool is_scalar(const amdgpu_inst_t *inst)
{
    return inst->gives && inst->operand[0].kind == AMDGPU_SCALAR;
}

bool is_lds(const amdgpu_inst_t *inst)
{
    return inst->counters == AMDGPU_COUNTS_LGKM && !is_scalar(inst);
}

/* An operand may name a register that another one named. */
bool is_saved(const access_t *access, amdgpu_kind_t kind, unsigned index)
{
    const bool vector = kind == AMDGPU_VECTOR;
    for (unsigned r = 0; r < (vector ? access->nvectors : access->nscalars); r++)
        if ((vector ? access->vector[r] : access->scalar[r]) == index)
            return true;
    return false;
}

void save_operand(amdgpu_wave &wave, const amdgpu_operand_t &operand, access_t *access)
{
    for (unsigned r = operand.index; r < operand.index + operand.count; r++) {
        if (is_saved(access, operand.kind, r))
            continue;
        if (operand.kind == AMDGPU_SCALAR && access->nscalars < SAVED) {
            access->scalar[access->nscalars] = (uint16_t)r;
            access->scalars[access->nscalars++] = wave.sgpr[r];
        } else if (operand.kind == AMDGPU_VECTOR && access->nvectors < SAVED) {
            access->vector[access->nvectors] = (uint16_t)r;
            memcpy(access->vectors[access->nvectors++], amdgpu_vector(wave, r), sizeof(amdgpu_lanes32_t));
        } else if (operand.kind == AMDGPU_SCALAR || operand.kind == AMDGPU_VECTOR) {
            amdgpu_fail(wave, "an access that reads more registers than are kept");
        }
    }
}

void hide_result(amdgpu_wave &wave, const amdgpu_inst_t *inst)
{
    const amdgpu_operand_t &result = inst->operand[0];
    amdgpu_lanes32_t lanes;
    for (unsigned l = 0; l < AMDGPU_LANES; l++)
        lanes[l] = UNFINISHED;
    for (unsigned r = result.index; inst->gives && r < result.index + result.count; r++) {
        if (result.kind == AMDGPU_SCALAR)
            wave.sgpr[r] = UNFINISHED;
        else
            amdgpu_keep(wave, r, lanes);
    }
}

/* From the first to the last byte of all lanes; flat ones may lie anywhere. */
void find_span(amdgpu_wave &wave, access_t *access)
{
    const amdgpu_inst_t *inst = access->inst;
    if (inst->follows_stores || is_scalar(inst) || is_lds(inst) || inst->counters & AMDGPU_COUNTS_LGKM) {
        access->first = 0;
        access->last = UINT64_MAX;
        return;
    }
    const amdgpu_operand_t &address = inst->operand[inst->gives ? 1 : 0];
    const amdgpu_operand_t &base = inst->operand[inst->noperands - 1];
    const bool pair = address.count == 2;
    access->first = UINT64_MAX;
    access->last = 0;
    const uint64_t from = base.kind == AMDGPU_SCALAR ? amdgpu_scalar64(wave, base) : 0;
    const uint32_t *low = amdgpu_vector(wave, address.index), *high = low + AMDGPU_LANES;
    for (uint64_t left = access->exec; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        const uint64_t own = from + (low[l] | (pair ? (uint64_t)high[l] << 32 : 0)) + (uint64_t)(int64_t)inst->offset;
        access->first = own < access->first ? own : access->first;
        access->last = own + 15 > access->last ? own + 15 : access->last;
    }
}

bool have_result_in_common(const amdgpu_inst_t *first, const amdgpu_inst_t *second)
{
    const amdgpu_operand_t &a = first->operand[0], &b = second->operand[0];
    return first->gives && second->gives && a.kind == b.kind && a.index < b.index + b.count &&
           b.index < a.index + a.count;
}

/* Whether the second must not be done before the first. LDS keeps its order, as do all results of one register. */
bool depends(const access_t *first, const access_t *second)
{
    if (have_result_in_common(first->inst, second->inst))
        return true;
    if (first->inst->counters == AMDGPU_COUNTS_LGKM && second->inst->counters == AMDGPU_COUNTS_LGKM)
        return is_lds(first->inst) || is_lds(second->inst);
    if (first->inst->follows_stores || second->inst->follows_stores)
        return first->inst->stores;
    if (!first->inst->stores && !second->inst->stores)
        return false;
    return first->first <= second->last && second->first <= first->last;
}

/* Exchanges what the access read for what is there now. */
void swap_registers(amdgpu_wave &wave, access_t *access)
{
    amdgpu_lanes32_t lanes;
    for (unsigned v = 0; v < access->nvectors; v++) {
        uint32_t *there = amdgpu_vector(wave, access->vector[v]);
        memcpy(lanes, there, sizeof lanes);
        memcpy(there, access->vectors[v], sizeof lanes);
        memcpy(access->vectors[v], lanes, sizeof lanes);
    }
    for (unsigned s = 0; s < access->nscalars; s++) {
        const uint32_t there = wave.sgpr[access->scalar[s]];
        wave.sgpr[access->scalar[s]] = access->scalars[s];
        access->scalars[s] = there;
    }
}

bool holds(const amdgpu_operand_t &operand, unsigned index)
{
    return index >= operand.index && index < operand.index + (unsigned)operand.count;
}

/* What is in a register of the result stays: for the lanes of the access, it is the result. */
void keep_result(amdgpu_wave &wave, access_t *access)
{
    const amdgpu_operand_t &result = access->inst->operand[0];
    if (!access->inst->gives)
        return;
    for (unsigned v = 0; v < access->nvectors; v++)
        if (result.kind == AMDGPU_VECTOR && holds(result, access->vector[v]))
            for (uint64_t left = access->exec; left; left &= left - 1) {
                const unsigned l = (unsigned)__builtin_ctzll(left);
                access->vectors[v][l] = amdgpu_vector(wave, access->vector[v])[l];
            }
    for (unsigned s = 0; s < access->nscalars; s++)
        if (result.kind == AMDGPU_SCALAR && holds(result, access->scalar[s]))
            access->scalars[s] = wave.sgpr[access->scalar[s]];
}

void complete(amdgpu_wave &wave, unsigned number)
{
    amdgpu_late *late = wave.late;
    access_t *access = late->access[number];
    const uint64_t exec = amdgpu_exec(wave);
    const uintptr_t at = wave.at;
    wave.at = access->at;
    swap_registers(wave, access);
    amdgpu_set_pair(wave, AMDGPU_EXEC, access->exec);
    access->inst->run(wave, *access->inst);
    amdgpu_set_pair(wave, AMDGPU_EXEC, exec);
    keep_result(wave, access);
    swap_registers(wave, access);
    wave.at = at;
    memmove(&late->access[number], &late->access[number + 1], (ACCESSES - 1 - number) * sizeof *late->access);
    late->access[ACCESSES - 1] = access;
    late->count--;
}

/* Counters go down in the order of issues: what was issued before the newest ones is done, whatever else is. */
void wait_for(amdgpu_wave &wave, unsigned counter, unsigned most)
{
    amdgpu_late *late = wave.late;
    const uint64_t issued = late->issued[counter - 1], upto = issued > most ? issued - most : 0;
    for (unsigned next = 0; next < late->count;) {
        const access_t *access = late->access[next];
        if (!(access->inst->counters & counter) || access->number[counter - 1] > upto) {
            next++;
            continue;
        }
        for (unsigned a = 0; a < next; a++) /* what it depends on comes first */
            if (depends(late->access[a], late->access[next])) {
                next = a;
                a = UINT_MAX; /* from the first one again */
            }
        complete(wave, next);
        next = 0;
    }
}

/* Whether a wait is for the access. */
bool is_awaited(const amdgpu_late *late, const access_t *access, const uint8_t most[2])
{
    for (unsigned c = 0; c < 2; c++)
        if (most[c] != UINT8_MAX && access->inst->counters & (c + 1) && access->number[c] + most[c] <= late->issued[c])
            return true;
    return false;
}

/* One of those that are waited for, or what it depends on. UINT_MAX: there is none. */
unsigned choose_awaited(const amdgpu_wave &wave, const uint8_t most[2])
{
    const amdgpu_late *late = wave.late;
    unsigned chosen = UINT_MAX, found = 0;
    for (unsigned a = 0; a < late->count; a++)
        if (is_awaited(late, late->access[a], most) && (amdgpu_random(wave.run) >> 32) % ++found == 0)
            chosen = a;
    for (unsigned a = 0; chosen != UINT_MAX && a < chosen; a++)
        if (depends(late->access[a], late->access[chosen])) {
            chosen = a;
            a = UINT_MAX; /* from the first one again */
        }
    return chosen;
}

/* In any order, and now and then others have a turn, or many, before the next one is done. */
bool wait_apart(amdgpu_wave &wave, const uint8_t most[2])
{
    enum { PAUSES = 8 };
    for (unsigned chosen; (chosen = choose_awaited(wave, most)) != UINT_MAX;) {
        const bool was_stalled = wave.stalled > amdgpu_gpu_clock(wave.run->gpu);
        complete(wave, chosen);
        const bool stalls = !was_stalled && wave.stalled > amdgpu_gpu_clock(wave.run->gpu);
        if (choose_awaited(wave, most) == UINT_MAX)
            return true;
        if (amdgpu_harm_pause(wave))
            return false;
        if (!stalls && (amdgpu_random(wave.run) >> 32) % PAUSES != 0)
            continue;
        if (!stalls)
            amdgpu_stall_sometimes(wave);
        return false;
    }
    return true;
}

/* One that depends on none before it. */
void complete_some(amdgpu_wave &wave)
{
    const amdgpu_late *late = wave.late;
    const unsigned number = (unsigned)(amdgpu_random(wave.run) >> 32) % late->count;
    for (unsigned a = 0; a < number; a++)
        if (depends(late->access[a], late->access[number]))
            return;
    complete(wave, number);
}

} // namespace

struct amdgpu_late *amdgpu_late_open(bool must)
{
    if (!must && !is_late())
        return nullptr;
    amdgpu_late *late = (amdgpu_late *)calloc(1, sizeof *late);
    for (unsigned a = 0; late && a < ACCESSES; a++)
        if (!(late->access[a] = (access_t *)malloc(sizeof(access_t))))
            abort();
    return late;
}

void amdgpu_late_close(struct amdgpu_late *late)
{
    for (unsigned a = 0; late && a < ACCESSES; a++)
        free(late->access[a]);
    free(late);
}

void amdgpu_late_issue(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_late *late = wave.late;
    while (late->count == ACCESSES)
        complete(wave, 0);
    access_t *access = late->access[late->count];
    access->inst = &inst;
    access->at = wave.at;
    access->exec = amdgpu_exec(wave);
    access->nvectors = access->nscalars = 0;
    for (unsigned o = inst.gives ? 1 : 0; o < inst.noperands; o++)
        save_operand(wave, inst.operand[o], access);
    find_span(wave, access);
    hide_result(wave, &inst);
    late->count++;
    for (unsigned c = 0; c < 2; c++)
        access->number[c] = inst.counters & (c + 1) ? ++late->issued[c] : 0;
    if ((amdgpu_random(wave.run) >> 32) % wave.run->patience == 0)
        complete_some(wave);
}

bool amdgpu_late_wait(amdgpu_wave &wave, const uint8_t most[2])
{
    if (wave.run->gpu)
        return wait_apart(wave, most);
    wait_for(wave, AMDGPU_COUNTS_VM, most[0]);
    wait_for(wave, AMDGPU_COUNTS_LGKM, most[1]);
    return true;
}

bool amdgpu_late_load(const amdgpu_wave &wave, uint64_t *address_out)
{
    for (unsigned a = wave.late ? wave.late->count : 0; a-- > 0;) {
        const access_t &access = *wave.late->access[a];
        const amdgpu_operand_t &operand = access.inst->operand[1];
        const amdgpu_operand_t &base = access.inst->operand[access.inst->noperands - 1];
        if (!access.inst->gives || !(access.inst->counters & AMDGPU_COUNTS_VM) || !access.exec)
            continue;
        const unsigned lane = (unsigned)__builtin_ctzll(access.exec);
        *address_out = (uint64_t)(int64_t)access.inst->offset;
        for (unsigned v = 0; v < access.nvectors; v++)
            if (holds(operand, access.vector[v]))
                *address_out += (uint64_t)access.vectors[v][lane] << 32 * (access.vector[v] - operand.index);
        for (unsigned s = 0; s < access.nscalars; s++)
            if (base.kind == AMDGPU_SCALAR && holds(base, access.scalar[s]))
                *address_out += (uint64_t)access.scalars[s] << 32 * (access.scalar[s] - base.index);
        return true;
    }
    return false;
}

/* A second load into a register keeps its order after the first one, so it may name it as its result. */
void amdgpu_late_check(const amdgpu_wave &wave, const amdgpu_inst &inst)
{
    const amdgpu_late *late = wave.late;
    for (unsigned a = 0; a < late->count; a++) {
        const amdgpu_inst_t *load = late->access[a]->inst;
        const amdgpu_operand_t &result = load->operand[0];
        for (unsigned o = inst.gives ? 1 : 0; load->gives && o < inst.noperands; o++) {
            const amdgpu_operand_t &operand = inst.operand[o];
            if (operand.kind == result.kind && operand.index < result.index + result.count &&
                result.index < operand.index + operand.count)
                amdgpu_fail(wave, "a use of what no wait has waited for");
        }
    }
}
