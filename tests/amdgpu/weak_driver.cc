/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weak_driver FOLDER ARCH SET FIRST COUNT [STRIDE SEEDS]: runs the exchange of a set of kernels (weak_sets.cc: push,
 * gather, run, run_pieces, replay, replay_pieces, digest, digests) with code objects in the folder for COUNT seeds from
 * FIRST on. With STRIDE it then makes mutations of the code that these runs executed, takes every STRIDE-th
 * one, and runs each in a process of its own with up to SEEDS of those seeds with which its instruction has run until
 * one of them notices. Few are enough for what the notes of the runs explain, or what it is for.
 *
 * Mutations, one at a time: a counter of an s_waitcnt no longer waited for; a barrier, a write-back or an invalidation
 * left out; a bit of those and of global accesses (sc0, sc1, nt; glc, slc) cleared. sc0 of an atomic is none: it says
 * that the value before is wanted.
 *
 * The machines do more harm where a mutation is (amdgpu_harm.cc), another one whenever the same seed comes round again
 * (SEED.ROUND). A seed that notices a mutation is run again without the mutation, with that harm and two others, and
 * must go well each time.
 *
 * What no seed notices is explained where the runs without a mutation have shown why it changes nothing: IDLE. Others
 * are explained by what the instruction is for (weak_reasons.cc), or SURVIVE. In brackets is what the runs have noted.
 * Where a seed notices what the notes call IDLE, they have not seen enough: the line says so, and so does the count.
 *
 * The status is 1 if a seed fails without a mutation, or no mutation was noticed; 77 if there is no disassembler.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amdgpu/amdgpu_wave.h"
#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/weak_history.h"
#include "amdgpu/weak_reasons.h"
#include "amdgpu/weak_sets.h"

namespace {

const char *const change_names[WEAK_CHANGES] = {"not waited for", "without vmcnt",  "without lgkmcnt", "left out",
                                                "without sc0/glc", "without sc1",    "without nt/slc"};

const uint64_t FEW = 20, FEWEST = 2; /* seeds for what may be explained, and for what notes explain */
const unsigned REPEATS = 3;          /* without the mutation, of a seed that notices it */

struct outcome_t { /* shared with the process of a mutation */
    uint64_t seed, round, tries; /* the last seed that was tried, with which harm, how many with it */
    bool stopped;                /* the interpreter would not go on */
    char reason[160];
} *outcome;

struct counts_t {
    unsigned tried, caught, idle, explained;
    unsigned against; /* those that were caught although notes call them IDLE */
    uint64_t most; /* seeds that were needed */
} counts[WEAK_CHANGES];

/* Waves that came here together would often go on in the right order by chance. */
void run_nothing(amdgpu_wave &wave, const amdgpu_inst &inst)
{
    (void)inst;
    amdgpu_stall_sometimes(wave);
}

bool applies(weak_change_t change, const amdgpu_inst_t *inst, const char *text)
{
    const bool cache = strncmp(text, "buffer_", 7) == 0;
    const bool is_wait = strncmp(text, "s_waitcnt", 9) == 0;
    const bool waits[2] = {is_wait && inst->most[0] != UINT8_MAX, is_wait && inst->most[1] != UINT8_MAX};
    const bool global = inst->counters & AMDGPU_COUNTS_VM && !cache;
    switch (change) {
    case WEAK_NO_WAIT: return waits[0] || waits[1];
    case WEAK_NO_VMCNT:
    case WEAK_NO_LGKMCNT: return waits[0] && waits[1];
    case WEAK_DROPPED: return cache || strncmp(text, "s_barrier", 9) == 0;
    case WEAK_NO_SC0: return (cache || (global && !strstr(text, "atomic"))) && inst->sc0;
    case WEAK_NO_SC1: return (cache || global) && inst->sc1;
    default: return (cache || global) && inst->nt;
    }
}

void apply(weak_change_t change, amdgpu_inst_t *inst)
{
    if (change == WEAK_NO_WAIT || change == WEAK_NO_VMCNT)
        inst->most[0] = UINT8_MAX;
    if (change == WEAK_NO_WAIT || change == WEAK_NO_LGKMCNT)
        inst->most[1] = UINT8_MAX;
    inst->sc0 = inst->sc0 && change != WEAK_NO_SC0;
    inst->sc1 = inst->sc1 && change != WEAK_NO_SC1;
    inst->nt = inst->nt && change != WEAK_NO_NT;
    if (change == WEAK_DROPPED) {
        inst->run = run_nothing;
        inst->counters = 0;
    }
}

/* One at a time, what it came to. */
struct mutation_t {
    const amdgpu_kernel_t *kernel;
    amdgpu_inst_t *inst;
    uintptr_t pc;
    weak_change_t change;
    bool noticed;
    outcome_t outcome;
};

mutation_t mutations[16384];
unsigned nmutations;

/* The wait just before an instruction; NULL: there is none. */
const amdgpu_inst_t *find_wait(const mutation_t &mutation)
{
    enum { NEAR = 6 };
    const amdgpu_object_t *object = mutation.kernel->object;
    const size_t at = (mutation.pc - (uintptr_t)object->text) / 4;
    for (size_t back = 1; back <= NEAR && back <= at; back++)
        if (object->inst[at - back] && object->inst[at - back]->what == AMDGPU_WAIT)
            return object->inst[at - back];
    return nullptr;
}

/* The next one with which the instruction has run; after the last one they come again, with other harm. */
void choose_seed(const mutation_t &mutation)
{
    const amdgpu_object_t *object = mutation.kernel->object;
    outcome->tries++;
    outcome->seed = weak_history_next(object, mutation.pc, outcome->seed);
    if (outcome->seed)
        return;
    amdgpu_harmed.round = ++outcome->round;
    outcome->seed = weak_history_next(object, mutation.pc, 0);
    if (outcome->seed == 0) /* none of them is remembered */
        outcome->seed = outcome->round;
}

void begin_harm(const mutation_t &mutation)
{
    const bool before = mutation.inst->what == AMDGPU_INVALIDATE;
    amdgpu_harmed = {mutation.inst, before ? find_wait(mutation) : nullptr, outcome->round};
    amdgpu_notes_taken = false;
}

void run_mutated(const weak_kernels_t *kernels, const mutation_t *mutation, uint64_t tries)
{
    begin_harm(*mutation);
    apply(mutation->change, mutation->inst);
    while (outcome->tries < tries) {
        choose_seed(*mutation);
        const char *reason = kernels->run(kernels, outcome->seed);
        if (reason) {
            snprintf(outcome->reason, sizeof outcome->reason, "%s", reason);
            _exit(1);
        }
    }
    _exit(0);
}

/* Whether the seed fails without the mutation, by the harm that comes with it or by more: then it shows nothing. */
bool fails_unchanged(const weak_kernels_t *kernels, const mutation_t &mutation, uint64_t seed)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        begin_harm(mutation);
        for (unsigned again = 0; again < REPEATS; again++, amdgpu_harmed.round++) {
            const char *reason = kernels->run(kernels, seed);
            if (reason)
                snprintf(outcome->reason, sizeof outcome->reason, "harm %lu: %s", (unsigned long)amdgpu_harmed.round,
                         reason);
            if (reason)
                _exit(1);
        }
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("weak_driver: fork");
        exit(2);
    }
    return status != 0;
}

/* Goes on until so many seeds are tried, or one notices. In a process of its own, since a mutation may end it. */
void try_mutation(const weak_kernels_t *kernels, mutation_t *mutation, uint64_t tries)
{
    const struct rlimit no_core = {0, 0};
    int status;
    *outcome = mutation->outcome;
    if (mutation->noticed || outcome->tries >= tries)
        return;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        run_mutated(kernels, mutation, tries);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("weak_driver: fork");
        exit(2);
    }
    outcome->stopped = WIFSIGNALED(status);
    if (outcome->stopped)
        snprintf(outcome->reason, sizeof outcome->reason,
                 "the interpreter stops: a use without a wait, or an address nowhere");
    mutation->noticed = outcome->reason[0] != '\0';
    mutation->outcome = *outcome;
    if (mutation->noticed && fails_unchanged(kernels, *mutation, outcome->seed)) {
        const uintptr_t at = mutation->pc - (uintptr_t)mutation->kernel->object->memory;
        printf("FAIL: emulated %s, seed %lu.%lu fails where nothing is changed at 0x%lx, too: %s\n", kernels->arch,
               (unsigned long)outcome->seed, (unsigned long)outcome->round, (unsigned long)at, outcome->reason);
        exit(1);
    }
}

/* WEAK_ONLY=KERNEL:OFFSET tries those of one instruction. */
bool is_wanted(const amdgpu_kernel_t *kernel, uintptr_t offset)
{
    static const char *const only = getenv("WEAK_ONLY");
    const size_t length = strlen(kernel->name);
    return !only || (strncmp(only, kernel->name, length) == 0 && only[length] == ':' &&
                     strtoull(only + length + 1, nullptr, 16) == offset);
}

void add_mutation(const mutation_t &mutation)
{
    if (nmutations == sizeof mutations / sizeof *mutations) {
        fprintf(stderr, "weak_driver: there are more mutations than %u\n", nmutations);
        exit(2);
    }
    mutations[nmutations++] = mutation;
}

/* Of what has run. */
void make_mutations(const amdgpu_kernel_t *kernel, unsigned stride)
{
    const amdgpu_object_t *object = kernel->object;
    static unsigned number;
    char line[256];
    for (size_t i = 0; i < object->text_bytes / 4; i++) {
        amdgpu_inst_t *inst = object->inst[i];
        const uintptr_t pc = (uintptr_t)object->text + 4 * i;
        if (!inst || !object->executed[i] || !is_wanted(kernel, pc - (uintptr_t)object->memory) ||
            amdgpu_disassemble(object, pc, line, sizeof line) == 0)
            continue;
        const char *text = line + strspn(line, " \t");
        for (unsigned c = 0; c < WEAK_CHANGES; c++)
            if (applies((weak_change_t)c, inst, text) && number++ % stride == 0)
                add_mutation({kernel, inst, pc, (weak_change_t)c, false, {}});
    }
}

const char *reason_of(const mutation_t &mutation, bool (*is_left_out)(const amdgpu_inst_t *inst))
{
    return weak_reason_find(mutation.change, mutation.inst, mutation.kernel->name, is_left_out);
}

bool is_not_known(const amdgpu_inst_t *)
{
    return false;
}

bool is_left_out(const amdgpu_inst_t *inst)
{
    for (unsigned m = 0; m < nmutations; m++)
        if (mutations[m].inst == inst && mutations[m].change == WEAK_DROPPED)
            return !mutations[m].noticed;
    return false; /* it was not tried */
}

void print_mutation(const char *arch, const mutation_t &mutation)
{
    const amdgpu_object_t *object = mutation.kernel->object;
    counts_t *count = &counts[mutation.change];
    char line[256], described[256];
    (void)amdgpu_disassemble(object, mutation.pc, line, sizeof line);
    const char *reason = reason_of(mutation, is_left_out);
    const bool idle = reason && strncmp(reason, "IDLE", 4) == 0;
    /* That a wait is IDLE is said of what is not used before the next one. */
    const bool against = mutation.noticed && idle && (mutation.change > WEAK_NO_LGKMCNT || !mutation.outcome.stopped);
    count->tried++;
    count->caught += mutation.noticed;
    count->against += against;
    count->idle += idle && !mutation.noticed;
    count->explained += reason && !idle && !mutation.noticed;
    if (mutation.noticed && mutation.outcome.tries > count->most)
        count->most = mutation.outcome.tries;
    weak_reason_describe(mutation.change, mutation.inst, described, sizeof described);
    printf("%s %s 0x%lx %s %s: ", arch, mutation.kernel->name, (unsigned long)(mutation.pc - (uintptr_t)object->memory),
           line + strspn(line, " \t"), change_names[mutation.change]);
    if (mutation.noticed)
        printf("noticed, seed %lu.%lu, %s%s%s\n", (unsigned long)mutation.outcome.seed,
               (unsigned long)mutation.outcome.round, mutation.outcome.reason, against ? ", AGAINST " : "",
               against ? reason : "");
    else
        printf("%s, %lu seeds [%s ]\n", reason ? reason : "SURVIVES", (unsigned long)mutation.outcome.tries, described);
}

/* What lets itself be left out explains others, and is known before these. */
void try_mutations(const weak_kernels_t *kernels, uint64_t seeds)
{
    for (unsigned m = 0; m < nmutations; m++) {
        const char *reason = reason_of(mutations[m], is_not_known);
        const uint64_t tries = reason && strncmp(reason, "IDLE", 4) == 0 ? FEWEST : FEW;
        try_mutation(kernels, &mutations[m], seeds < tries ? seeds : tries);
    }
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned m = 0; m < nmutations; m++)
            if ((mutations[m].change == WEAK_DROPPED) == (pass == 0) && !reason_of(mutations[m], is_left_out))
                try_mutation(kernels, &mutations[m], seeds);
}

int run_seeds(const weak_kernels_t *kernels, uint64_t first, uint64_t count)
{
    int failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        const char *reason = kernels->run(kernels, seed);
        weak_history_add(seed);
        if (!reason)
            continue;
        printf("FAIL: emulated %s, seed %lu: %s\n", kernels->arch, (unsigned long)seed, reason);
        if (++failed == 5)
            break;
    }
    printf("emulated %s with a weak memory: %lu seeds from %lu on, %d failed\n", kernels->arch, (unsigned long)count,
           (unsigned long)first, failed);
    return failed;
}

} // namespace

int main(int argc, char **argv)
{
    char error[256];
    if (!amdgpu_text_open(error, sizeof error)) {
        printf("SKIP: %s\n", error);
        return 77;
    }
    if (argc != 6 && argc != 8) {
        fprintf(stderr, "usage: %s FOLDER ARCH SET FIRST COUNT [STRIDE SEEDS]\n", argv[0]);
        return 2;
    }
    const weak_kernels_t kernels = weak_set_load(argv[1], argv[2], argv[3]);
    amdgpu_notes_taken = argc == 8;
    if (argc == 8) {
        weak_history_open(kernels.push->object);
        if (kernels.pull != kernels.push)
            weak_history_open(kernels.pull->object);
    }
    if (run_seeds(&kernels, strtoull(argv[4], nullptr, 10), strtoull(argv[5], nullptr, 10)))
        return 1;
    if (argc == 6)
        return 0;
    outcome = (outcome_t *)mmap(nullptr, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const unsigned stride = (unsigned)atoi(argv[6]);
    const uint64_t seeds = strtoull(argv[7], nullptr, 10);
    if (outcome == MAP_FAILED || stride == 0)
        return 2;
    weak_history_end();
    make_mutations(kernels.push, stride);
    if (kernels.pull != kernels.push)
        make_mutations(kernels.pull, stride);
    try_mutations(&kernels, seeds);
    for (unsigned m = 0; m < nmutations; m++)
        print_mutation(argv[2], mutations[m]);
    unsigned caught = 0;
    for (unsigned c = 0; c < WEAK_CHANGES; c++) {
        caught += counts[c].caught;
        printf("%-7s %-16s %4u mutations, %4u noticed, by %lu seeds at most and %u against notes, %u idle, "
               "%u explained, %u open\n", argv[2], change_names[c], counts[c].tried, counts[c].caught,
               (unsigned long)counts[c].most, counts[c].against, counts[c].idle, counts[c].explained,
               counts[c].tried - counts[c].caught - counts[c].idle - counts[c].explained);
    }
    return caught > 0 ? 0 : 1;
}
