/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs show about instructions of waits, barriers and caches: what would be later, or stale, or dirty without
 * them, and for how long. weak_reasons.cc draws conclusions from it for mutations that nothing has noticed.
 *
 * A wait: which accesses it waits for, and what their wave does from there to the next wait for the same ones. That is
 * asked of each mutation of a wait, of an access that was complete early by chance, too. A barrier: what waves of its
 * block do between the barrier before it and it, and between it and the next one. An invalidation: loads after it that
 * could be of something stale, because somebody else has changed it since the invalidation before it that would be left
 * (or since the kernel began). A write-back: what was dirty, and which word its wave stores next.
 *
 * Words are what kernels and hosts look at to know that something is there: the test says which they are. Notes are
 * taken where a GPU has caches, by one thread, while AMDGPU_NOTES is not cleared.
 */
#ifndef SELVAGE_TESTS_AMDGPU_NOTES_H
#define SELVAGE_TESTS_AMDGPU_NOTES_H

#include <stddef.h>
#include <stdint.h>

struct amdgpu_inst;
struct amdgpu_wave;

/* What a wave does, bits. Stores are of atomics, too. */
enum {
    AMDGPU_DID_CONSTANT = 1,    /* loads what no kernel changes */
    AMDGPU_DID_LDS_LOAD = 2,
    AMDGPU_DID_LDS_STORE = 4,
    AMDGPU_DID_LOAD = 8,        /* of memory that has no word */
    AMDGPU_DID_STORE = 16,      /* likewise */
    AMDGPU_DID_LOOK = 32,       /* loads a word */
    AMDGPU_DID_WORD = 64,       /* stores a word, or adds to any memory */
    AMDGPU_DID_WRITE_BACK = 128,
    AMDGPU_DID_INVALIDATE = 256,
    AMDGPU_DID_BARRIER = 512
};

/* The mutations of a wait. */
enum { AMDGPU_NO_WAIT, AMDGPU_NO_VMCNT, AMDGPU_NO_LGKMCNT, AMDGPU_WAIT_CHANGES };

enum { AMDGPU_NOTED_FENCES = 3 }; /* more are as good as any */

typedef struct amdgpu_wait_note {
    uint32_t held;                     /* how often it waited for something that the mutation does not wait for */
    uint16_t late, then;               /* what was later than something; that: what the wave did before the next wait
                                          for it */
    const struct amdgpu_inst *fence[AMDGPU_NOTED_FENCES]; /* among that: barriers and invalidations */
    const struct amdgpu_inst *flush[AMDGPU_NOTED_FENCES]; /* write-backs that would be later */
} amdgpu_wait_note_t;

/* Words of LDS, a bit each, that each wave loads and changes before a barrier, and after it. */
enum { AMDGPU_NOTED_LDS = 65536 / 4 / 64, AMDGPU_NOTED_WAVES = 8, AMDGPU_NOTED_WORDS = 4 };
typedef struct amdgpu_lds_note {
    uint64_t loaded[2][AMDGPU_NOTED_WAVES][AMDGPU_NOTED_LDS], stored[2][AMDGPU_NOTED_WAVES][AMDGPU_NOTED_LDS];
} amdgpu_lds_note_t;

typedef struct amdgpu_notes {
    amdgpu_wait_note_t wait[AMDGPU_WAIT_CHANGES];
    uint16_t before, after;            /* of a barrier */
    amdgpu_lds_note_t *lds;            /* of a barrier; NULL: there is none */
    uint16_t did;                      /* an access */
    uint8_t waves;                     /* those that have come here, a bit each */
    uint32_t risky;                    /* of a load: how often others have changed it since the last invalidation */
    uint32_t followed, unfollowed;     /* how often a look is before an invalidation, a word before a write-back; or
                                          before anything else */
    uint32_t exposed_l1, exposed_l2;   /* of an invalidation: loads that could be stale without it, in L1, in L2 */
    uint32_t exposed_far;              /* the latter, of other GPUs' memory */
    uintptr_t exposed_at;              /* one of them */
    uint32_t found_own, found_other;   /* of a write-back: lines that were dirty, of the own GPU's memory, of others' */
    uint32_t found_mine;               /* of the latter: those that the wave's block may have made so */
    uint32_t met_kept;                 /* of an access: lines that an L2 keeps */
    const char *word[AMDGPU_NOTED_WORDS]; /* that the wave stores after a write-back, that it looked at before an
                                             invalidation, that it looks at or stores here */
} amdgpu_notes_t;

/* Whether notes are taken. */
extern bool amdgpu_notes_taken;

/* Of a wave of that number in its block; NULL where none are taken. Partner: amdgpu_notes_close(). */
struct amdgpu_noting *amdgpu_notes_open(unsigned wave);
void amdgpu_notes_close(struct amdgpu_noting *noting);

/* An instruction is about to run, or its access to be issued. */
void amdgpu_note(struct amdgpu_wave &wave, const struct amdgpu_inst &inst);

/* LDS is about to be accessed, by the instruction at wave.at, and changed if that stores. */
void amdgpu_note_lds(struct amdgpu_wave &wave, uint32_t address, unsigned bytes);

/* A load by a wave of a line that others have changed, at the times changed_l1 and changed_l2 as the compute unit's L1
   and L2 cannot know; 0: they have not. past_l1, past_l2: the load passes the cache. far: it is another GPU's memory.
   Times are of the machine's order of changes. */
void amdgpu_note_exposed(struct amdgpu_wave &wave, const struct amdgpu_inst &inst, uint64_t changed_l1,
                         uint64_t changed_l2, bool past_l1, bool past_l2, bool far);

/* An invalidation was done, at a time of that order: of L1; of what L2 has of the own GPU's memory, and of others'. */
void amdgpu_note_invalidated(struct amdgpu_wave &wave, const struct amdgpu_inst &inst, bool l1, bool near_l2,
                             bool far_l2, uint64_t time);

#endif
