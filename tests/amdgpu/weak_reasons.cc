/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_reasons.h. What an IDLE says holds for all that the runs have executed, in any order of late accesses. */
#include <stdio.h>
#include <string.h>

#include "amdgpu/weak_reasons.h"

namespace {

const unsigned LDS = AMDGPU_DID_LDS_LOAD | AMDGPU_DID_LDS_STORE;
const unsigned LOADS = AMDGPU_DID_CONSTANT | AMDGPU_DID_LDS_LOAD | AMDGPU_DID_LOAD | AMDGPU_DID_LOOK;
const unsigned PLAIN = AMDGPU_DID_CONSTANT | LDS | AMDGPU_DID_LOAD | AMDGPU_DID_STORE;
const unsigned MEMORY = AMDGPU_DID_LOAD | AMDGPU_DID_STORE | AMDGPU_DID_LOOK | AMDGPU_DID_WORD;

bool are_left_out(const amdgpu_inst_t *const *fences, bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    for (unsigned f = 0; f < AMDGPU_NOTED_FENCES; f++)
        if (fences[f] && !is_left_out(fences[f]))
            return false;
    return !fences[AMDGPU_NOTED_FENCES - 1]; /* or there may be more */
}

/* Whether waves that pass these barriers do nothing but use LDS before the next one. */
bool are_before_lds(const amdgpu_inst_t *const *fences)
{
    for (unsigned f = 0; f < AMDGPU_NOTED_FENCES; f++)
        if (fences[f] && (fences[f]->what != AMDGPU_BARRIER || fences[f]->notes.after & ~(LDS | AMDGPU_DID_CONSTANT)))
            return false;
    return !fences[AMDGPU_NOTED_FENCES - 1];
}

/*
 * then: what the wave does before it waits once more for what is in flight; late: what is later than some of that. A
 * use of a result in between would have ended the run. A wave's own accesses to the same bytes stay in order.
 */
const char *explain_wait(const amdgpu_wait_note_t &note, bool alone, bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    const unsigned late = note.late, then = note.then;
    if (!note.held)
        return alone ? "IDLE: the other counter waits for the same" : "IDLE: nothing is in flight";
    if (!then)
        return "IDLE: another wait for the same comes before anything else";
    if (!(late & ~AMDGPU_DID_CONSTANT))
        return "IDLE: only loads of what no kernel changes are later than something";
    if (!(then & AMDGPU_DID_BARRIER) && !(late & ~(LDS | AMDGPU_DID_CONSTANT)))
        return "IDLE: LDS keeps the order of a wave, and no barrier comes before another wait for it";
    if (!(then & ~PLAIN))
        return "IDLE: no word, barrier or cache instruction comes before another wait for the same";
    if (!(then & ~(PLAIN | AMDGPU_DID_LOOK | AMDGPU_DID_WRITE_BACK)) && !(late & ~LOADS))
        return "IDLE: only loads are late, and nothing that they are before tells anybody";
    if (!(then & ~(PLAIN | AMDGPU_DID_LOOK | AMDGPU_DID_WRITE_BACK)) && !(late & ~(LOADS | AMDGPU_DID_STORE)))
        return "IDLE: a write-back comes after what its wave has stored, and no word before another wait";
    if (!(then & ~(PLAIN | AMDGPU_DID_BARRIER)) && !(late & AMDGPU_DID_LDS_STORE) && are_before_lds(note.fence))
        return "IDLE: another wait comes before the next barrier, and up to that other waves use LDS only";
    if (late == AMDGPU_DID_WRITE_BACK && are_left_out(note.flush, is_left_out))
        return "IDLE: it is for the write-back before it, which can be left out";
    const unsigned fences = AMDGPU_DID_BARRIER | AMDGPU_DID_INVALIDATE;
    if (!(then & ~(PLAIN | AMDGPU_DID_LOOK | AMDGPU_DID_WRITE_BACK | fences)) &&
        !(late & ~(LOADS | AMDGPU_DID_LDS_STORE)) && are_left_out(note.fence, is_left_out))
        return then & AMDGPU_DID_BARRIER ? "IDLE: it is for the barrier after it, which can be left out"
                                         : "IDLE: it is for the invalidation after it, which can be left out";
    return nullptr;
}

bool have_common(const uint64_t *first, const uint64_t *second)
{
    for (unsigned w = 0; w < AMDGPU_NOTED_LDS; w++)
        if (first[w] & second[w])
            return true;
    return false;
}

/* Whether different waves use a word of LDS on both sides, and one of them changes it. */
bool do_meet(const amdgpu_lds_note_t &lds)
{
    for (unsigned first = 0; first < AMDGPU_NOTED_WAVES; first++)
        for (unsigned second = 0; second < AMDGPU_NOTED_WAVES; second++)
            if (first != second && (have_common(lds.stored[0][first], lds.stored[1][second]) ||
                                    have_common(lds.stored[0][first], lds.loaded[1][second]) ||
                                    have_common(lds.loaded[0][first], lds.stored[1][second])))
                return true;
    return false;
}

/* What needs an order among waves, if some are ahead of the barrier, and others late. */
const char *explain_barrier(const amdgpu_notes_t &notes)
{
    const unsigned before = notes.before, after = notes.after;
    if (notes.lds && do_meet(*notes.lds))
        return nullptr;
    if (before & AMDGPU_DID_LOAD && after & (AMDGPU_DID_STORE | AMDGPU_DID_WORD))
        return nullptr;
    if (before & (AMDGPU_DID_STORE | AMDGPU_DID_LOOK | AMDGPU_DID_WORD | AMDGPU_DID_INVALIDATE |
                  AMDGPU_DID_WRITE_BACK) && after & MEMORY)
        return nullptr;
    return "IDLE: what waves do between the barrier before and the next one needs no order";
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
        if (change == WEAK_NO_SC0 && !notes.found_other)
            return "IDLE: nothing is dirty but the GPU's own memory";
        return nullptr;
    }
    if (!notes.exposed_l1 && !notes.exposed_l2)
        return "IDLE: what is loaded after it has not changed since the invalidation before it, or the kernel's begin";
    if (other_bit && !notes.exposed_l2)
        return "IDLE: L1 is let go of by either bit, and L2 keeps nothing that has changed";
    if (change == WEAK_NO_SC0 && inst->sc1 && !notes.exposed_far)
        return "IDLE: L1 and the GPU's own memory in L2 are let go of by sc1, and nothing of other GPUs' has changed";
    return nullptr;
}

const char *explain_access(weak_change_t change, const amdgpu_inst_t *inst)
{
    if (change == WEAK_NO_NT)
        return "IDLE: it is about room in caches only";
    const amdgpu_notes_t &notes = inst->notes;
    if (inst->stores && !notes.met_kept)
        return "IDLE: all goes to memory that no L2 keeps";
    if (!inst->stores && !notes.risky)
        return "IDLE: what it loads has not changed since the last invalidation, or the kernel's begin";
    if (notes.unfollowed || !notes.followed)
        return nullptr;
    return inst->stores ? "IDLE: a write-back comes before the next word and look, so it is only seen later"
                        : "IDLE: an invalidation comes after each look, so that the next one reads memory again";
}

/* What no notes prove: by the words that come with it, of which those are all. */
struct role_t {
    amdgpu_what_t what;
    const char *kernel, *words, *reason;
} const roles[] = {
    {AMDGPU_WRITE_BACK, "", "go", "the first share has stored nothing that the others read"},
    {AMDGPU_PLAIN, "", "go", "the write-back of the same block's count brings it out, later"},
    {AMDGPU_WRITE_BACK, "coll", "error", "what it publishes is pinned memory, which no L2 keeps"},
    {AMDGPU_WRITE_BACK, "", "result", "what it publishes is pinned memory, which no L2 keeps"},
    {AMDGPU_WRITE_BACK, "digest", "done", "the word says that nothing has come"},
    {AMDGPU_WRITE_BACK, "", "done", "the word for a bad packet promises nothing of its bytes"},
    {AMDGPU_WRITE_BACK, "", "failed", "the word says that nothing was stored"},
    {AMDGPU_WRITE_BACK, "", "record", "the byte that it is for lies in a slot, which no L2 keeps"},
    {AMDGPU_WRITE_BACK, "", "count", "there is one L2, which the last share writes back before its words"},
    {AMDGPU_INVALIDATE, "", "count", "what is loaded after it is a byte that is damaged on purpose"},
    {AMDGPU_INVALIDATE, "digest", "arrived",
     "the record is loaded after it, which lies in the line of the word: the look lets L1 go of that"},
    {AMDGPU_WRITE_BACK, "replay", "abort", "the word says that nothing more comes, and promises no bytes"},
    {AMDGPU_WRITE_BACK, "replay", "credit verdict",
     "who sees them reads nothing of what was stored here, which the kernel's end writes back"},
    {AMDGPU_WRITE_BACK, "replay", "blocks out",
     "the count says that numbers are read; what was stored is written back by the kernel's end"},
    {AMDGPU_WRITE_BACK, "coll", "taken", "a block that finds the record taken reads nothing of it"},
    {AMDGPU_INVALIDATE, "coll", "stop", "the word promises nothing: who sees it gives up, and reads nothing of others"},
};

/* Of looks, which without a bit may see what L1 has kept. */
const role_t looks[] = {
    {AMDGPU_PLAIN, "coll", "line",
     "a stale line lacks the flag of the step, and every 64th look at it is before an invalidation"},
    {AMDGPU_PLAIN, "coll", "entry",
     "a stale line lacks the flag of the call, and every 64th look at it is before an invalidation"},
    {AMDGPU_PLAIN, "coll", "stop", "the word promises nothing: who sees it late gives up later"},
    {AMDGPU_PLAIN, "coll_small", "head", "a stale count is smaller, and is waited for by looks with an invalidation"},
};

/* Whether a list of names has all words that were noted. */
bool has_words(const char *names, const char *const *words)
{
    for (unsigned w = 0; w < AMDGPU_NOTED_WORDS && words[w]; w++)
        if (!strstr(names, words[w]))
            return false;
    return words[0] && !words[AMDGPU_NOTED_WORDS - 1]; /* or there may be more */
}

const char *find_row(const role_t *rows, size_t nrows, const amdgpu_inst_t *inst, const char *kernel)
{
    for (size_t i = 0; i < nrows; i++)
        if (inst->what == rows[i].what && strstr(kernel, rows[i].kernel) &&
            has_words(rows[i].words, inst->notes.word))
            return rows[i].reason;
    return nullptr;
}

/* The last barrier of a replay: after it the first thread counts, and nobody does anything else. */
bool ends_epoch(const amdgpu_inst_t *inst, const char *kernel)
{
    return inst && inst->what == AMDGPU_BARRIER && strstr(kernel, "replay") && inst->notes.after &&
           !(inst->notes.after & ~(AMDGPU_DID_WORD | AMDGPU_DID_WRITE_BACK | AMDGPU_DID_INVALIDATE));
}

/* Of a packet that each wave looks for itself, and reads at once: only the first thread's verdict counts, and if what
   was read does not verify, all is read again after another look. */
const char *find_early(const amdgpu_inst_t *inst, const char *kernel)
{
    const bool reads_early = strstr(kernel, "sv_run") || strstr(kernel, "sv_replay");
    if (inst && inst->what == AMDGPU_INVALIDATE && reads_early && inst->notes.waves & ~1u &&
        has_words("arrived", inst->notes.word))
        return "what was read stale does not verify, and is read again after another look and invalidation";
    return nullptr;
}

/* Of a wait in kernels whose data travel with flags: it is for the load of a counter or of a word that ends waits. */
const char *find_wait_role(const amdgpu_wait_note_t &note, const char *kernel)
{
    if (strstr(kernel, "coll_small") && note.late == AMDGPU_DID_LOOK &&
        !(note.then & ~(AMDGPU_DID_LOOK | AMDGPU_DID_INVALIDATE)))
        return "the invalidation after it is for credit or an end, after which nothing is loaded that these promise";
    if (strstr(kernel, "coll") && note.late == AMDGPU_DID_LOOK && note.fence[0] && !note.fence[1] &&
        !(note.then & ~(AMDGPU_DID_LOOK | AMDGPU_DID_INVALIDATE)) && has_words("stop", note.fence[0]->notes.word))
        return "the invalidation after it is for the word that ends waits, which promises nothing";
    if (note.late == AMDGPU_DID_LOOK && !note.fence[1] && find_early(note.fence[0], kernel))
        return find_early(note.fence[0], kernel);
    if (ends_epoch(note.fence[0], kernel) && !note.fence[1] && !(note.late & ~AMDGPU_DID_WORD))
        return "it is for the last barrier; nobody looks at what is counted after that before the kernel's end";
    return nullptr;
}

const char *find_role(const amdgpu_inst_t *inst, const char *kernel)
{
    if (inst->what == AMDGPU_BARRIER && !strstr(kernel, "push") && !(inst->notes.before & ~AMDGPU_DID_LDS_LOAD))
        return "only the first thread uses the sum that it keeps, and its own wave is the next to write there";
    if (find_early(inst, kernel))
        return find_early(inst, kernel);
    if (ends_epoch(inst, kernel))
        return "every wave that uses the epoch's number has had it since a barrier before, in its last share";
    if (inst->what == AMDGPU_BARRIER && (strstr(kernel, "sv_run") || strstr(kernel, "sv_replay")) &&
        !(inst->notes.before & ~(AMDGPU_DID_CONSTANT | AMDGPU_DID_LDS_STORE)) &&
        !(inst->notes.after & ~(LDS | AMDGPU_DID_CONSTANT | AMDGPU_DID_LOOK | AMDGPU_DID_INVALIDATE)))
        return "up to the next barrier only the first thread uses what was fetched, and its own wave has fetched that";
    if (inst->what == AMDGPU_WRITE_BACK && strstr(kernel, "digest") && inst->notes.word[1] &&
        !inst->notes.found_mine)
        return "each block has written back its own when it was counted; since then only the scratch is dirty";
    const char *reason = find_row(roles, sizeof roles / sizeof *roles, inst, kernel);
    return reason || inst->stores ? reason : find_row(looks, sizeof looks / sizeof *looks, inst, kernel);
}

} // namespace

const char *weak_reason_find(weak_change_t change, const amdgpu_inst_t *inst, const char *kernel,
                             bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    const char *reason;
    if (change <= WEAK_NO_LGKMCNT)
        reason = explain_wait(inst->notes.wait[change], change != WEAK_NO_WAIT, is_left_out);
    else if (inst->what == AMDGPU_BARRIER)
        reason = explain_barrier(inst->notes);
    else if (inst->what == AMDGPU_WRITE_BACK || inst->what == AMDGPU_INVALIDATE)
        reason = explain_cache(change, inst);
    else
        reason = explain_access(change, inst);
    if (!reason && change <= WEAK_NO_LGKMCNT)
        return find_wait_role(inst->notes.wait[change], kernel);
    return reason ? reason : find_role(inst, kernel);
}

namespace {

void add_kinds(unsigned did, char *text, size_t bytes)
{
    const char *const names[] = {"constant", "LDS load", "LDS store", "load", "store", "look", "word", "write-back",
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
        snprintf(text_out, text_bytes, " exposed: %u in L1, %u in L2, at 0x%lx;", notes.exposed_l1, notes.exposed_l2,
                 (unsigned long)notes.exposed_at);
    }
    for (const char *word : notes.word)
        if (word)
            snprintf(text_out + strlen(text_out), text_bytes - strlen(text_out), " %s", word);
}
