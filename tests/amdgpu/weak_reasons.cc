/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_reasons.h. What an IDLE says holds for all that the runs have executed, in any order of late accesses. */
#include <stdio.h>
#include <string.h>

#include "amdgpu/weak_reasons.h"

namespace {

const unsigned LDS = AMDGPU_DID_LDS_LOAD | AMDGPU_DID_LDS_STORE;
const unsigned LOADS = AMDGPU_DID_SCALAR | AMDGPU_DID_LDS_LOAD | AMDGPU_DID_LOAD | AMDGPU_DID_LOOK;
const unsigned PLAIN = AMDGPU_DID_SCALAR | LDS | AMDGPU_DID_LOAD | AMDGPU_DID_STORE;
const unsigned MEMORY = AMDGPU_DID_LOAD | AMDGPU_DID_STORE | AMDGPU_DID_LOOK | AMDGPU_DID_WORD;

/*
 * late: what would be complete later; then: what the wave does before it waits for that once more. A use of a result in
 * between would have ended the run. A wave's own accesses to the same bytes stay in order.
 */
const char *explain_wait(const amdgpu_wait_note_t &note, bool alone, bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    const unsigned late = note.late, then = note.then;
    if (!note.held)
        return alone ? "IDLE: the other counter waits for the same" : "IDLE: nothing is in flight";
    if (!(late & ~AMDGPU_DID_SCALAR))
        return "IDLE: only scalar loads are in flight, of what no kernel changes";
    if (!then)
        return "IDLE: another wait for the same comes before anything else";
    if (!(then & AMDGPU_DID_BARRIER) && !(late & ~(LDS | AMDGPU_DID_SCALAR)))
        return "IDLE: LDS keeps the order of a wave, and no barrier comes before another wait for it";
    if (!(then & ~PLAIN))
        return "IDLE: no word, barrier or cache instruction comes before another wait for the same";
    if (!(then & ~(PLAIN | AMDGPU_DID_LOOK | AMDGPU_DID_WRITE_BACK)) && !(late & ~LOADS))
        return "IDLE: only loads are late, and nothing that they are before tells anybody";
    const unsigned fences = AMDGPU_DID_BARRIER | AMDGPU_DID_INVALIDATE;
    if (!(then & ~(PLAIN | AMDGPU_DID_LOOK | fences)) && !(late & ~LOADS) && note.nfences == 1 &&
        is_left_out(note.fence))
        return then & AMDGPU_DID_BARRIER ? "IDLE: it is for the barrier after it, which can be left out"
                                         : "IDLE: it is for the invalidation after it, which can be left out";
    return nullptr;
}

/* Waves that are on both sides of it at the same time: what those ahead do, and what those that are late do. */
const char *explain_barrier(const amdgpu_notes_t &notes)
{
    const unsigned before = notes.before, after = notes.after;
    const bool lds = (before & AMDGPU_DID_LDS_STORE && after & LDS) ||
                     (before & AMDGPU_DID_LDS_LOAD && after & AMDGPU_DID_LDS_STORE);
    const bool loads = before & AMDGPU_DID_LOAD && after & (AMDGPU_DID_STORE | AMDGPU_DID_WORD);
    const bool rest = before & (AMDGPU_DID_STORE | AMDGPU_DID_LOOK | AMDGPU_DID_WORD | AMDGPU_DID_INVALIDATE |
                                AMDGPU_DID_WRITE_BACK) && after & MEMORY;
    return lds || loads || rest ? nullptr
                                : "IDLE: what waves do between the barrier before and the next one needs no order";
}

const char *explain_cache(weak_change_t change, const amdgpu_inst_t *inst)
{
    const amdgpu_notes_t &notes = inst->notes;
    const bool other_bit = change == WEAK_NO_SC0 ? inst->sc1 : change == WEAK_NO_SC1 && inst->sc0;
    if (change == WEAK_NO_NT)
        return "IDLE: it is about room in caches only";
    if (inst->what == AMDGPU_WRITE_BACK) {
        if (!notes.found_own && !notes.found_other)
            return "IDLE: nothing is dirty";
        if (!notes.word[0])
            return "IDLE: another write-back comes before the next word";
        return change == WEAK_NO_SC0 && !notes.found_other ? "IDLE: nothing is dirty but the GPU's own memory" : nullptr;
    }
    if (!notes.exposed_l1 && !notes.exposed_l2)
        return "IDLE: what is loaded after it has not changed since the invalidation before it, or the kernel's begin";
    if (other_bit && !notes.exposed_l2)
        return "IDLE: L1 is let go of by either bit, and L2 keeps nothing that has changed";
    return nullptr;
}

const char *explain_access(weak_change_t change, const amdgpu_inst_t *inst)
{
    if (change == WEAK_NO_NT)
        return "IDLE: it is about room in caches only";
    return inst->stores && !inst->notes.met_kept ? "IDLE: all goes to memory that no L2 keeps" : nullptr;
}

} // namespace

const char *weak_reason_find(weak_change_t change, const amdgpu_inst_t *inst, const char *kernel,
                             bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    (void)kernel;
    if (change <= WEAK_NO_LGKMCNT)
        return explain_wait(inst->notes.wait[change], change != WEAK_NO_WAIT, is_left_out);
    if (inst->what == AMDGPU_BARRIER)
        return explain_barrier(inst->notes);
    if (inst->what == AMDGPU_WRITE_BACK || inst->what == AMDGPU_INVALIDATE)
        return explain_cache(change, inst);
    return explain_access(change, inst);
}

namespace {

void add_kinds(unsigned did, char *text, size_t bytes)
{
    const char *const names[] = {"scalar", "LDS load", "LDS store", "load", "store", "look", "word", "write-back",
                                 "invalidation", "barrier"};
    const char *comma = "";
    for (unsigned b = 0; b < 10; b++)
        if (did & 1u << b) {
            snprintf(text + strlen(text), bytes - strlen(text), "%s%s", comma, names[b]);
            comma = ", ";
        }
}

} // namespace

void weak_reason_describe(weak_change_t change, const amdgpu_inst_t *inst, char *text_out, size_t text_bytes)
{
    const amdgpu_notes_t &notes = inst->notes;
    text_out[0] = '\0';
    const auto add = [&](const char *title, unsigned did) {
        snprintf(text_out + strlen(text_out), text_bytes - strlen(text_out), " %s: ", title);
        add_kinds(did, text_out, text_bytes);
        snprintf(text_out + strlen(text_out), text_bytes - strlen(text_out), ";");
    };
    if (change <= WEAK_NO_LGKMCNT) {
        add("late", notes.wait[change].late);
        add("then", notes.wait[change].then);
    } else if (inst->what == AMDGPU_BARRIER) {
        add("before", notes.before);
        add("after", notes.after);
    } else if (inst->what == AMDGPU_INVALIDATE) {
        snprintf(text_out, text_bytes, " exposed: %u in L1, %u in L2;", notes.exposed_l1, notes.exposed_l2);
    }
    for (const char *word : notes.word)
        if (word)
            snprintf(text_out + strlen(text_out), text_bytes - strlen(text_out), " %s", word);
}
