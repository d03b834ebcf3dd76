/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What amdgpu_caches.cc, amdgpu_machine.cc and amdgpu_harm.cc share: the caches and memory of a machine whose memory is
 * weak. All belong to the thread of the machine.
 */
#ifndef SELVAGE_TESTS_AMDGPU_MACHINE_H
#define SELVAGE_TESTS_AMDGPU_MACHINE_H

#include "amdgpu/amdgpu_weak.h"

namespace weak {

enum { LINE = 128, LINES = 2048, L2S = 2, CUS = 4, HOME_LINES = 2, HOT = 64, POLLS = 32 };
enum { STALL = 8000, NAP = 8000, LATE = 96000 }; /* turns, at most */
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

/* A wave that rests until somebody changes what lies there. */
struct watch_t {
    const amdgpu_wave_t *wave; /* NULL: none does */
    uint64_t address, since;   /* since: in the order of changes */
};

/* Until then no other wave of that wave's compute unit has a turn. */
struct freeze_t {
    const amdgpu_wave_t *wave; /* NULL: none */
    uint64_t until;
};

/* Which bytes of a line an access has; the rest is of lines after it. */
struct part_t {
    unsigned line, first, bytes;
};

/* The L2 of a compute unit. */
cache_t *l2_of(amdgpu_gpu *gpu, unsigned cu);

/* The L2 to which a line is local; NULL if no L2 keeps it. */
cache_t *home_of(amdgpu_machine *machine, unsigned line);

/* Bytes come to memory: the local L2 has them no more, unless it is the writer. */
void write_memory(amdgpu_machine *machine, const cache_t *writer, unsigned line, unsigned first, unsigned bytes,
                  const void *from);

void write_back(amdgpu_machine *machine, cache_t *l2, unsigned line);

/* What is dirty stays. */
void forget_clean(cache_t *l2, unsigned line);

/* A compute unit, or a bystander there, loads a line. to may be NULL, but for a load past L1. */
void load_line(amdgpu_gpu *gpu, unsigned cu, unsigned line, bool past_l1, bool past_l2, uint8_t *to);

part_t part_of(const amdgpu_machine *machine, uint64_t address, unsigned bytes);

/* Somebody changes bytes. writer: a compute unit of all, or HOST_WRITES. */
void note_change(amdgpu_machine *machine, const part_t &part, unsigned writer);

} // namespace weak

struct amdgpu_gpu {
    unsigned number;
    amdgpu_machine_t *machine;
    amdgpu_grid_t *grid; /* NULL: none runs */
    amdgpu_launch_t launch;
    uint8_t *arg;
    weak::cache_t *l1[weak::CUS], *l2[weak::L2S];
    uint64_t began; /* its kernel, in the order of changes */
    unsigned harms; /* to its kernel, at a mutation */
    bool crowded;   /* some blocks of its kernel begin late */
    weak::watch_t watch;
    weak::freeze_t freeze;
    unsigned nhot;
    unsigned hot[weak::HOT]; /* lines that kernels have used, of which bystanders are fond */
};

struct amdgpu_machine {
    bool is_gfx90a;
    unsigned ngpus, nl2, nlines; /* nl2: of each GPU; nlines: in use */
    uint64_t clock;
    amdgpu_run_state_t random, harm; /* harm: of its own, so that it disturbs no schedule up to a mutation */
    amdgpu_run_state_t starts;       /* likewise, for when blocks begin */
    bool spares;                     /* it does no harm in that way */
    weak::mood_t mood;
    uint8_t *memory;
    weak::place_t place[weak::LINES];
    const char *word[weak::LINES][weak::LINE / 4];
    uint64_t changes; /* a count of changes and invalidations, which is their order */
    uint64_t changed[weak::LINES][weak::LINE / 4][weak::WRITERS]; /* when each of them last changed 4 bytes */
    const amdgpu_block_t *writer[weak::LINES]; /* who has stored there since a write-back; NULL: several may have */
    bool written[weak::LINES];                 /* a block has */
    bool constant[weak::LINES]; /* no kernel changes it; scalar loads are of such lines only */
    amdgpu_gpu gpu[AMDGPU_GPUS];
};

#endif
