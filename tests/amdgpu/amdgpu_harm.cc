/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_weak.h. What may go wrong without a wait, a barrier or a cache instruction mostly needs a coincidence: a
 * wave that rests just there, others of its block that do not come along, or a line that a cache has got at the wrong
 * time. So that few seeds show it, each of these is brought about where a wave passes the mutated instruction, and (but
 * for a barrier) at the next waits, barriers and cache instructions of that wave. One run in eight is spared that.
 *
 * Nothing of it is against the rules: the same instructions without the mutation must bear it (weak_driver tries that).
 * A kernel is harmed less and less often, so that waits which go round do not use up its time.
 */
#include "amdgpu/amdgpu_late.h"
#include "amdgpu/amdgpu_machine.h"

using namespace weak;

amdgpu_harmed_t amdgpu_harmed;

namespace {

enum { WAKE = 6, OFTEN = 6, CROWDS = 128, AFTER = 400 };

uint64_t draw(amdgpu_machine *machine)
{
    return amdgpu_random(&machine->harm) >> 16;
}

/* Bystanders on a compute unit load all there is. */
void load_all(amdgpu_gpu *gpu, unsigned cu)
{
    for (unsigned line = 0; line < gpu->machine->nlines; line++)
        load_line(gpu, cu, line, false, false, nullptr);
}

/* Whether somebody has changed what a wave waits to see changed. */
bool has_changed(const amdgpu_machine *machine, const watch_t &watch)
{
    const part_t part = part_of(machine, watch.address, 1);
    for (unsigned w = 0; w < WRITERS; w++)
        if (machine->changed[part.line][part.first / 4][w] > watch.since)
            return true;
    return false;
}

/* Whether it is time for more; a kernel has less and less of it. */
bool wants_more(amdgpu_gpu *gpu)
{
    if (gpu->machine->spares || draw(gpu->machine) % (OFTEN + gpu->harms) >= OFTEN)
        return false;
    gpu->harms++;
    return true;
}

uint64_t choose_end(amdgpu_machine *machine)
{
    return machine->clock + STALL / 4 + draw(machine) % STALL;
}

/*
 * The wave rests: if a load of its own is on its way, mostly until what it looks at changes, or time is over. Then
 * others on its compute unit may have to rest as long, and a little longer, so that they invalidate nothing.
 */
void rest(amdgpu_wave &wave)
{
    amdgpu_gpu *gpu = wave.run->gpu;
    uint64_t address = 0;
    wave.stalled = choose_end(gpu->machine);
    wave.yields = true;
    if (amdgpu_late_load(wave, &address) && amdgpu_holds(gpu, address) && draw(gpu->machine) % 4) {
        wave.stalled += STALL;
        gpu->watch = {&wave, address, gpu->machine->changes};
        if (draw(gpu->machine) % 2)
            gpu->freeze = {&wave, wave.stalled + AFTER};
    }
}

} // namespace

void amdgpu_harm_begin(amdgpu_gpu_t *gpu)
{
    gpu->harms = 0;
    gpu->watch.wave = gpu->freeze.wave = nullptr;
    for (unsigned cu = 0; !gpu->machine->spares && cu < CUS; cu++)
        if (draw(gpu->machine) % 2)
            load_all(gpu, cu);
}

void amdgpu_harm_step(amdgpu_machine_t *machine)
{
    const uint64_t random = draw(machine);
    if (!machine->spares && random % CROWDS == 0)
        load_all(&machine->gpu[(random >> 16) % machine->ngpus], (unsigned)(random >> 32) % CUS);
}

bool amdgpu_harm_rests(amdgpu_wave_t &wave)
{
    amdgpu_gpu *gpu = wave.run->gpu;
    const uint64_t now = gpu->machine->clock;
    if (gpu->watch.wave == &wave && (now >= wave.stalled || has_changed(gpu->machine, gpu->watch))) {
        gpu->watch.wave = nullptr;
        wave.stalled = now + draw(gpu->machine) % AFTER;
    }
    if (now < wave.stalled)
        return true;
    freeze_t *freeze = &gpu->freeze;
    if (freeze->wave == &wave && freeze->until > now + AFTER)
        freeze->until = now + AFTER;
    if (now >= freeze->until)
        freeze->wave = nullptr;
    return freeze->wave && freeze->wave != &wave && freeze->wave->block->cu == wave.block->cu;
}

/* With a load on its way, before a wait that comes before a mutated invalidation: lines are loaded now or never. */
bool amdgpu_harm_before(amdgpu_wave_t &wave)
{
    if (!(wave.braced = !wave.braced && wants_more(wave.run->gpu)))
        return false;
    load_all(wave.run->gpu, wave.block->cu);
    rest(wave);
    return true;
}

bool amdgpu_harm_pause(amdgpu_wave_t &wave)
{
    if (!wave.harmed || !wants_more(wave.run->gpu))
        return false;
    wave.stalled = choose_end(wave.run->gpu->machine);
    return true;
}

void amdgpu_harm(amdgpu_wave_t &wave, const amdgpu_inst_t &inst)
{
    enum { WAYS = 8 };
    amdgpu_gpu *gpu = wave.run->gpu;
    const bool there = &inst == amdgpu_harmed.inst, is_barrier = inst.what == AMDGPU_BARRIER;
    const bool counts = there || (inst.what != AMDGPU_PLAIN && inst.what != AMDGPU_ATOMIC);
    if (!counts || wave.pc == wave.at) /* it comes again */
        return;
    wave.harmed = !there ? wave.harmed - 1 : is_barrier ? 0 : unsigned{WAKE};
    if ((there && inst.what == AMDGPU_WAIT) || !wants_more(gpu)) /* nothing comes too early yet */
        return;
    if (draw(gpu->machine) % 4)
        load_all(gpu, wave.block->cu);
    const unsigned how = (unsigned)draw(gpu->machine) % WAYS, rests = is_barrier ? 1 : WAYS / 2;
    if (is_barrier && !there)
        wave.lingers = STALL / 4 + (unsigned)(draw(gpu->machine) % STALL);
    else if (!there || how < rests)
        rest(wave);
    else
        amdgpu_block_hold(wave, choose_end(gpu->machine), how % 3 ? ~0ull : draw(gpu->machine));
}
