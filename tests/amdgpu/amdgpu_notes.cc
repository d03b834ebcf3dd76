/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See amdgpu_notes.h. An access that a mutation would leave in flight is a ghost: it is remembered from the wait that
 * is weakened up to the next one that waits for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/amdgpu_lanes.h"
#include "amdgpu/amdgpu_notes.h"
#include "amdgpu/amdgpu_weak.h"

namespace {

enum { OPEN = 512, GHOSTS = 4096, LOOKS = 8 };

/* An access that no wait has waited for yet. */
struct open_t {
    const amdgpu_inst_t *inst;
    uint8_t counters;
    uint16_t did;
    uint64_t number[2];
};

struct ghost_t {
    const amdgpu_inst_t *wait;
    unsigned change;
    open_t access;
};

} // namespace

bool amdgpu_notes_taken = true;

struct amdgpu_noting {
    uint64_t issued[2];
    unsigned number, nopen, nghosts, nlooks;
    uint16_t since; /* the last barrier, done */
    bool named;     /* the write-back has words that come after it */
    const amdgpu_inst_t *barrier, *write_back; /* the last ones */
    const amdgpu_inst_t *last;                 /* word, with no word, look or write-back after it */
    const amdgpu_inst_t *look[LOOKS];          /* with nothing but looks after them */
    const char *looked;
    uint64_t loaded[AMDGPU_NOTED_LDS], stored[AMDGPU_NOTED_LDS]; /* since the last barrier */
    open_t open[OPEN];
    ghost_t ghost[GHOSTS];
};

namespace {

bool covers(const open_t &access, unsigned counter, unsigned most, const uint64_t *issued)
{
    return access.counters & (counter + 1) && access.number[counter] + most <= issued[counter];
}

/* Which of a wait's counters a mutation leaves. */
bool leaves(unsigned change, unsigned counter)
{
    return change == (counter == 0 ? AMDGPU_NO_LGKMCNT : AMDGPU_NO_VMCNT);
}

void end_ghosts(amdgpu_noting *noting, const amdgpu_inst_t &wait)
{
    unsigned kept = 0;
    for (unsigned g = 0; g < noting->nghosts; g++) {
        const ghost_t &ghost = noting->ghost[g];
        bool ends = false;
        for (unsigned c = 0; c < 2; c++)
            ends = ends || ((ghost.wait != &wait || leaves(ghost.change, c)) &&
                            covers(ghost.access, c, wait.most[c], noting->issued));
        if (!ends)
            noting->ghost[kept++] = ghost;
    }
    noting->nghosts = kept;
}

/* Once each, as far as there is room. */
void keep_fence(const amdgpu_inst_t **kept, const amdgpu_inst_t *inst)
{
    for (unsigned f = 0; f < AMDGPU_NOTED_FENCES; f++) {
        if (!kept[f])
            kept[f] = inst;
        if (kept[f] == inst)
            return;
    }
}

/* Where a wave goes round, the last access of an instruction stands for those before it: no wait leaves them longer. */
void make_ghost(amdgpu_noting *noting, const amdgpu_inst_t &wait, unsigned change, const open_t &access)
{
    amdgpu_wait_note_t *note = &wait.notes.wait[change];
    note->held++;
    for (unsigned g = 0; g < noting->nghosts; g++) {
        ghost_t *ghost = &noting->ghost[g];
        if (ghost->wait == &wait && ghost->change == change && ghost->access.inst == access.inst) {
            const uint16_t did = ghost->access.did;
            ghost->access = access;
            ghost->access.did |= did;
            return;
        }
    }
    if (noting->nghosts == GHOSTS) {
        fprintf(stderr, "amdgpu: more accesses than notes are taken of\n");
        abort();
    }
    noting->ghost[noting->nghosts++] = {&wait, change, access};
}

void note_wait(amdgpu_noting *noting, const amdgpu_inst_t &wait)
{
    unsigned kept = 0;
    end_ghosts(noting, wait);
    for (unsigned o = 0; o < noting->nopen; o++) {
        const open_t &access = noting->open[o];
        const bool by[2] = {covers(access, 0, wait.most[0], noting->issued),
                            covers(access, 1, wait.most[1], noting->issued)};
        if (by[0] || by[1])
            make_ghost(noting, wait, AMDGPU_NO_WAIT, access);
        if (by[0] && !by[1])
            make_ghost(noting, wait, AMDGPU_NO_VMCNT, access);
        if (by[1] && !by[0])
            make_ghost(noting, wait, AMDGPU_NO_LGKMCNT, access);
        if (!by[0] && !by[1])
            noting->open[kept++] = access;
    }
    noting->nopen = kept;
}

void add_word(const amdgpu_inst_t &inst, const char *word)
{
    for (const char *&own : inst.notes.word) {
        if (own == word)
            return;
        if (!own) {
            own = word;
            return;
        }
    }
}

/* Where a lane of a global or flat access begins. */
uint64_t find_address(amdgpu_wave &wave, const amdgpu_inst_t &inst, unsigned lane)
{
    const amdgpu_operand_t &first = inst.operand[inst.gives ? 1 : 0], &last = inst.operand[inst.noperands - 1];
    const uint32_t *low = amdgpu_vector(wave, first.index);
    const uint64_t own = low[lane] | (first.count == 2 ? (uint64_t)low[AMDGPU_LANES + lane] << 32 : 0);
    return own + (last.kind == AMDGPU_SCALAR ? amdgpu_scalar64(wave, last) : 0) + (uint64_t)(int64_t)inst.offset;
}

unsigned classify_vector_access(amdgpu_wave &wave, const amdgpu_inst_t &inst)
{
    const bool adds = inst.what == AMDGPU_ATOMIC;
    unsigned did = 0;
    for (uint64_t left = amdgpu_exec(wave); left; left &= left - 1) {
        const uint64_t address = find_address(wave, inst, (unsigned)__builtin_ctzll(left));
        const bool known = amdgpu_is_cached(wave, address);
        const char *word = known ? amdgpu_word_at(wave.run->gpu, address) : nullptr;
        if (address - AMDGPU_SHARED_BASE < 1ull << 32)
            did |= inst.stores ? AMDGPU_DID_LDS_STORE : AMDGPU_DID_LDS_LOAD;
        else if (inst.stores)
            did |= word || adds ? AMDGPU_DID_WORD : AMDGPU_DID_STORE;
        else if (!known || amdgpu_is_constant(wave.run->gpu, address))
            did |= AMDGPU_DID_CONSTANT;
        else
            did |= word ? AMDGPU_DID_LOOK : AMDGPU_DID_LOAD;
        if (word)
            add_word(inst, word);
        if (word && inst.gives)
            wave.noting->looked = word;
        if (word && inst.stores && wave.noting->write_back)
            add_word(*wave.noting->write_back, word);
    }
    return did;
}

unsigned classify(amdgpu_wave &wave, const amdgpu_inst_t &inst)
{
    switch (inst.what) {
    case AMDGPU_BARRIER: return AMDGPU_DID_BARRIER;
    case AMDGPU_WRITE_BACK: return AMDGPU_DID_WRITE_BACK;
    case AMDGPU_INVALIDATE:
        if (wave.noting->looked)
            add_word(inst, wave.noting->looked);
        return AMDGPU_DID_INVALIDATE;
    default: break;
    }
    if (inst.counters & AMDGPU_COUNTS_VM)
        return classify_vector_access(wave, inst);
    if (inst.gives && inst.operand[0].kind == AMDGPU_SCALAR)
        return AMDGPU_DID_CONSTANT;
    return inst.stores ? AMDGPU_DID_LDS_STORE : AMDGPU_DID_LDS_LOAD;
}

void haunt(amdgpu_noting *noting, const amdgpu_inst_t &inst, unsigned did)
{
    for (unsigned g = 0; g < noting->nghosts; g++) {
        amdgpu_wait_note_t *note = &noting->ghost[g].wait->notes.wait[noting->ghost[g].change];
        note->late |= noting->ghost[g].access.did;
        note->then |= (uint16_t)did;
        if (noting->ghost[g].access.inst->what == AMDGPU_WRITE_BACK)
            keep_fence(note->flush, noting->ghost[g].access.inst);
        if (did & (AMDGPU_DID_BARRIER | AMDGPU_DID_INVALIDATE))
            keep_fence(note->fence, &inst);
    }
}

void add_lds(amdgpu_noting *noting, const amdgpu_inst_t *barrier, unsigned side)
{
    amdgpu_notes_t *notes = &barrier->notes;
    if (!notes->lds && !(notes->lds = (amdgpu_lds_note_t *)calloc(1, sizeof *notes->lds)))
        abort();
    for (unsigned w = 0; w < AMDGPU_NOTED_LDS; w++) {
        notes->lds->loaded[side][noting->number][w] |= noting->loaded[w];
        notes->lds->stored[side][noting->number][w] |= noting->stored[w];
    }
}

/* Between two barriers, or after the last one: barrier is the one that comes, or NULL. */
void note_interval(amdgpu_noting *noting, const amdgpu_inst_t *barrier)
{
    if (noting->barrier) {
        noting->barrier->notes.after |= noting->since;
        add_lds(noting, noting->barrier, 1);
    }
    if (barrier) {
        barrier->notes.before |= noting->since;
        add_lds(noting, barrier, 0);
    }
    memset(noting->loaded, 0, sizeof noting->loaded);
    memset(noting->stored, 0, sizeof noting->stored);
    noting->barrier = barrier;
    noting->since = 0;
}

void end_looks(amdgpu_noting *noting, bool invalidates)
{
    for (unsigned l = 0; l < noting->nlooks; l++)
        (invalidates ? noting->look[l]->notes.followed : noting->look[l]->notes.unfollowed)++;
    noting->nlooks = 0;
}

/* Words belong to a write-back if no other one is between them, and nothing but words is between the words. */
void note_order(amdgpu_noting *noting, const amdgpu_inst_t &inst, unsigned did)
{
    const bool stores_word = did & AMDGPU_DID_WORD && inst.what != AMDGPU_ATOMIC;
    if (did & AMDGPU_DID_WORD)
        noting->named = true;
    if (noting->named && !stores_word)
        noting->write_back = nullptr;
    if (inst.what == AMDGPU_WRITE_BACK) {
        noting->write_back = &inst;
        noting->named = false;
    }
    if (!(did & ~(AMDGPU_DID_CONSTANT | AMDGPU_DID_LDS_LOAD | AMDGPU_DID_LDS_STORE | AMDGPU_DID_BARRIER)))
        return;
    if (did != AMDGPU_DID_LOOK)
        end_looks(noting, did & AMDGPU_DID_INVALIDATE);
    else if (noting->nlooks < LOOKS)
        noting->look[noting->nlooks++] = &inst;
    else
        inst.notes.unfollowed++;
    if (noting->last && did & (AMDGPU_DID_WORD | AMDGPU_DID_LOOK | AMDGPU_DID_WRITE_BACK)) {
        (did & AMDGPU_DID_WRITE_BACK ? noting->last->notes.followed : noting->last->notes.unfollowed)++;
        noting->last = nullptr;
    }
    if (did & AMDGPU_DID_WORD)
        noting->last = &inst;
}

} // namespace

struct amdgpu_noting *amdgpu_notes_open(unsigned wave)
{
    amdgpu_noting *noting = amdgpu_notes_taken ? (amdgpu_noting *)malloc(sizeof *noting) : nullptr;
    if (amdgpu_notes_taken && !noting)
        abort();
    if (noting) {
        memset(noting, 0, offsetof(amdgpu_noting, open));
        noting->number = wave % AMDGPU_NOTED_WAVES;
    }
    return noting;
}

void amdgpu_notes_close(struct amdgpu_noting *noting)
{
    if (noting)
        note_interval(noting, nullptr);
    if (noting)
        end_looks(noting, false);
    if (noting && noting->last)
        noting->last->notes.unfollowed++;
    free(noting);
}

void amdgpu_note(amdgpu_wave &wave, const amdgpu_inst_t &inst)
{
    amdgpu_noting *noting = wave.noting;
    if (inst.what == AMDGPU_WAIT) {
        note_wait(noting, inst);
        return;
    }
    if (inst.what == AMDGPU_PLAIN && !inst.counters)
        return;
    const unsigned did = classify(wave, inst);
    haunt(noting, inst, did);
    note_order(noting, inst, did);
    inst.notes.did |= (uint16_t)did;
    inst.notes.waves |= (uint8_t)(1u << noting->number);
    if (inst.what == AMDGPU_BARRIER)
        note_interval(noting, &inst);
    else
        noting->since |= (uint16_t)did;
    if (!inst.counters)
        return;
    if (noting->nopen == OPEN) {
        fprintf(stderr, "amdgpu: more accesses in flight than notes are taken of\n");
        abort();
    }
    open_t *access = &noting->open[noting->nopen++];
    access->inst = &inst;
    access->counters = inst.counters;
    access->did = (uint16_t)did;
    for (unsigned c = 0; c < 2; c++)
        access->number[c] = inst.counters & (c + 1) ? ++noting->issued[c] : 0;
}

void amdgpu_note_lds(amdgpu_wave &wave, uint32_t address, unsigned bytes)
{
    const amdgpu_object_t *object = wave.run->launch->kernel->object;
    const amdgpu_inst_t *inst = object->inst[(wave.at - (uintptr_t)object->text) / 4];
    uint64_t *words = inst->stores ? wave.noting->stored : wave.noting->loaded;
    for (uint32_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        words[word / 64] |= 1ull << word % 64;
}

void amdgpu_note_invalidated(amdgpu_wave &wave, const amdgpu_inst &inst, bool l1, bool near_l2, bool far_l2,
                             uint64_t time)
{
    amdgpu_block_t *block = wave.block;
    for (amdgpu_acquired_t &own : block->acquired)
        if (!own.inst || own.inst == &inst) {
            own = {&inst, l1 ? time : 0, {near_l2 ? time : 0, far_l2 ? time : 0}};
            return;
        }
    amdgpu_fail(wave, "more invalidations than notes are taken of");
}

/* When L1 was last invalidated, and what L2 has of near or far memory, but for one instruction. */
static void find_last(const amdgpu_block_t *block, const amdgpu_inst_t *but, bool far, uint64_t *last)
{
    last[0] = last[1] = 0;
    for (const amdgpu_acquired_t &acquired : block->acquired)
        if (acquired.inst && acquired.inst != but) {
            last[0] = acquired.at_l1 > last[0] ? acquired.at_l1 : last[0];
            last[1] = acquired.at_l2[far] > last[1] ? acquired.at_l2[far] : last[1];
        }
}

/* Without one of them, the others would have been the last. */
void amdgpu_note_exposed(amdgpu_wave &wave, const amdgpu_inst &inst, uint64_t changed_l1, uint64_t changed_l2,
                         bool past_l1, bool past_l2, bool far)
{
    uint64_t last[2];
    find_last(wave.block, nullptr, far, last);
    inst.notes.risky += changed_l1 > last[0] || changed_l2 > last[1];
    for (const amdgpu_acquired_t &left_out : wave.block->acquired) {
        if (!left_out.inst)
            return;
        find_last(wave.block, left_out.inst, far, last);
        const bool in_l1 = left_out.at_l1 && !past_l1 && changed_l1 > last[0];
        const bool in_l2 = left_out.at_l2[far] && !past_l2 && changed_l2 > last[1];
        left_out.inst->notes.exposed_l1 += in_l1;
        left_out.inst->notes.exposed_l2 += in_l2;
        left_out.inst->notes.exposed_far += in_l2 && far;
        if (in_l1 || in_l2)
            left_out.inst->notes.exposed_at = wave.at - (uintptr_t)wave.run->launch->kernel->object->memory;
    }
}
