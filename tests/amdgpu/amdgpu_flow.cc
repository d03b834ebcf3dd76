/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a wave goes on: branches, waits, barriers, sleep and the end; and what here only takes the wave's turn. Where
 * there are no caches, their write-backs and invalidations do nothing.
 */
#include <time.h>

#include "amdgpu/amdgpu_late.h"
#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/amdgpu_wave.h"

namespace {

/* The operand counts dwords from the next instruction. */
void jump(amdgpu_wave &wave, const amdgpu_inst &inst, bool taken)
{
    if (taken)
        wave.pc += (uintptr_t)((intptr_t)(int16_t)inst.operand[0].narrow * 4);
}

void run_branch(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, true);
}

void run_scc0(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, !wave.scc);
}

void run_scc1(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, wave.scc);
}

void run_vccz(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, amdgpu_pair(wave, AMDGPU_VCC) == 0);
}

void run_vccnz(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, amdgpu_pair(wave, AMDGPU_VCC) != 0);
}

void run_execz(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, amdgpu_exec(wave) == 0);
}

void run_execnz(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    jump(wave, inst, amdgpu_exec(wave) != 0);
}

void run_getpc(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    amdgpu_set_pair(wave, inst.operand[0].index, wave.pc);
}

void run_setpc(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    wave.pc = (uintptr_t)amdgpu_scalar64(wave, inst.operand[0]);
}

void run_nothing(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)wave, (void)inst;
}

/* False: the instruction comes again in a later turn. */
bool wait_for_accesses(amdgpu_wave &wave, const uint8_t most[2])
{
    if (!wave.late || amdgpu_late_wait(wave, most))
        return true;
    wave.pc = wave.at;
    wave.yields = true;
    return false;
}

void run_waitcnt(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)wait_for_accesses(wave, inst.most);
}

void run_sleep(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)inst;
    wave.yields = wave.sleeps = true;
}

void run_barrier(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)inst;
    wave.state = AMDGPU_AT_BARRIER;
    wave.yields = true;
    wave.block->waiting++;
}

void run_endpgm(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)inst;
    const uint8_t none[2] = {0, 0};
    if (!wait_for_accesses(wave, none))
        return;
    wave.state = AMDGPU_ENDED;
    wave.yields = true;
    wave.block->ended++;
}

void run_trap(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)inst;
    amdgpu_fail(wave, "a trap");
}

/* A dispatch invalidates more than these do, and its end writes more back: amdgpu_grid_begin() and _end(). */
void run_write_back(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (wave.run->gpu)
        amdgpu_cache_write_back(wave, inst);
}

void run_invalidate(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (wave.run->gpu)
        amdgpu_cache_invalidate(wave, inst, true, true);
}

void run_invalidate_l2(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (wave.run->gpu)
        amdgpu_cache_invalidate(wave, inst, false, true);
}

void run_invalidate_l1(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    if (wave.run->gpu)
        amdgpu_cache_invalidate(wave, inst, true, false);
}

/* A clock of 100 MHz. */
void run_memrealtime(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    struct timespec now;
    if (wave.run->gpu) {
        amdgpu_set_pair(wave, inst.operand[0].index, amdgpu_gpu_clock(wave.run->gpu));
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    amdgpu_set_pair(wave, inst.operand[0].index, (uint64_t)now.tv_sec * 100000000 + (uint64_t)now.tv_nsec / 10);
}

} // namespace

const amdgpu_row_t amdgpu_flow_rows[] = {
    {"s_branch", run_branch},
    {"s_cbranch_scc0", run_scc0},
    {"s_cbranch_scc1", run_scc1},
    {"s_cbranch_vccz", run_vccz},
    {"s_cbranch_vccnz", run_vccnz},
    {"s_cbranch_execz", run_execz},
    {"s_cbranch_execnz", run_execnz},
    {"s_getpc_b64", run_getpc},
    {"s_setpc_b64", run_setpc},
    {"s_nop", run_nothing},
    {"s_waitcnt", run_waitcnt},
    {"s_sleep", run_sleep},
    {"s_barrier", run_barrier},
    {"s_endpgm", run_endpgm},
    {"s_trap", run_trap},
    {"s_memrealtime", run_memrealtime},
    {"buffer_wbl2", run_write_back},
    {"buffer_inv", run_invalidate},
    {"buffer_invl2", run_invalidate_l2},
    {"buffer_wbinvl1_vol", run_invalidate_l1},
    {nullptr, nullptr},
};
