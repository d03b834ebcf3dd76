/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the interpreter share: instructions as they are decoded, waves, blocks and the run that they belong
 * to. A run and all below it belong to the thread that runs it; decoded instructions belong to the object.
 */
#ifndef SELVAGE_TESTS_AMDGPU_WAVE_H
#define SELVAGE_TESTS_AMDGPU_WAVE_H

#include "amdgpu/amdgpu.h"
#include "amdgpu/amdgpu_notes.h"

/* Test programs are compiled with little optimisation, and loops over 64 lanes are most of what is done here. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif

enum {
    AMDGPU_LANES = 64,
    AMDGPU_SGPRS = 128,
    AMDGPU_VCC = 106,  /* of scalar registers; M0, EXEC and VCC are numbered among them, as in machine code */
    AMDGPU_M0 = 124,
    AMDGPU_EXEC = 126,
    AMDGPU_OPERANDS = 6,
    AMDGPU_KERNELS = 8, /* in one code object */
    AMDGPU_HIDDEN = 32, /* arguments that the runtime adds */
    AMDGPU_RANGES = 16, /* of memory, that a launch remembers */
    AMDGPU_ACQUIRES = 96 /* different invalidations in a kernel that a block remembers */
};

/* Flat addresses of LDS begin here, where a process has no memory. */
static const uint64_t AMDGPU_SHARED_BASE = 1ull << 48;

typedef enum amdgpu_kind { AMDGPU_SCALAR, AMDGPU_VECTOR, AMDGPU_CONSTANT, AMDGPU_OFF } amdgpu_kind_t;

/* Which part of a register an operand is. */
typedef enum amdgpu_part {
    AMDGPU_DWORD,
    AMDGPU_BYTE_0,
    AMDGPU_BYTE_1,
    AMDGPU_BYTE_2,
    AMDGPU_BYTE_3,
    AMDGPU_WORD_0,
    AMDGPU_WORD_1
} amdgpu_part_t;

typedef struct amdgpu_operand {
    amdgpu_kind_t kind;
    amdgpu_part_t part;
    bool neg, abs;
    uint16_t index, count; /* the first register, and how many */
    uint32_t narrow;       /* a constant where 32 bits are wanted */
    uint64_t wide;         /* and where 64 are */
} amdgpu_operand_t;

struct amdgpu_wave;
struct amdgpu_inst;
typedef void (*amdgpu_run_t)(amdgpu_wave &wave, const amdgpu_inst &inst);

/* Which counter an access to memory is counted by until it is complete; flat ones by both. */
enum { AMDGPU_COUNTS_VM = 1, AMDGPU_COUNTS_LGKM = 2 };

/* What notes are taken of, besides accesses. */
typedef enum amdgpu_what {
    AMDGPU_PLAIN,
    AMDGPU_ATOMIC,
    AMDGPU_WAIT,
    AMDGPU_BARRIER,
    AMDGPU_WRITE_BACK,
    AMDGPU_INVALIDATE
} amdgpu_what_t;

typedef struct amdgpu_inst {
    amdgpu_run_t run;
    amdgpu_what_t what;
    unsigned bytes;
    unsigned noperands;
    amdgpu_operand_t operand[AMDGPU_OPERANDS];
    int32_t offset, offset1; /* offset0 is an offset, too */
    bool sc0, sc1, nt, clamp;
    uint8_t op_sel, op_sel_hi; /* a bit for each source */
    uint8_t neg_lo, neg_hi;    /* the same: of two packed floats, the lower or upper one is negated */
    amdgpu_part_t dst_part;
    uint8_t counters;          /* of accesses to memory */
    bool gives, stores;        /* such an access has a result, in operand 0; it changes memory */
    bool follows_stores;       /* a write-back: comes after what the wave has stored, and before nothing */
    uint8_t most[2];           /* of a wait: how many may be left by each counter */
    mutable amdgpu_notes_t notes; /* with caches */
} amdgpu_inst_t;

/* A mnemonic without its _e32, _e64 and _sdwa, and what it does. Tables end with a name that is NULL. */
typedef struct amdgpu_row {
    const char *name;
    amdgpu_run_t run;
} amdgpu_row_t;

extern const amdgpu_row_t amdgpu_scalar_rows[], amdgpu_flow_rows[], amdgpu_vector_rows[], amdgpu_wide_rows[],
    amdgpu_float_rows[], amdgpu_divide_rows[], amdgpu_compare_rows[], amdgpu_memory_rows[], amdgpu_lds_rows[];

typedef enum amdgpu_state { AMDGPU_RUNS, AMDGPU_AT_BARRIER, AMDGPU_ENDED } amdgpu_state_t;

/* When an invalidation was last done for a block, by an instruction: of its L1; of what its L2 has of its own GPU's
   memory that is local to another L2; and of other GPUs' memory. 0: never. */
typedef struct amdgpu_acquired {
    const amdgpu_inst_t *inst;
    uint64_t at_l1, at_l2[2];
} amdgpu_acquired_t;

typedef struct amdgpu_block {
    unsigned nwaves, waiting, ended; /* of its waves: at a barrier, and ended */
    unsigned cu;                     /* the compute unit it runs on, where there are caches */
    uint8_t *lds;
    amdgpu_acquired_t acquired[AMDGPU_ACQUIRES];
} amdgpu_block_t;

struct amdgpu_run_state;
struct amdgpu_late;
struct amdgpu_gpu;

/* Which registers a kernel wants to begin with; others are refused when it is loaded. */
enum { AMDGPU_WANTS_BUFFER = 1, AMDGPU_WANTS_PACKET = 2, AMDGPU_WANTS_KERNARG = 8 };

typedef struct amdgpu_wave {
    uint32_t sgpr[AMDGPU_SGPRS];
    bool scc;
    bool yields;          /* the turn ends after this instruction */
    bool sleeps;          /* as it says itself */
    uint64_t stalled;     /* until that time of its GPU's clock it has no turn */
    unsigned acquires;    /* invalidations so far */
    unsigned harmed;      /* waits, barriers and cache instructions that are in the wake of a mutation */
    unsigned lingers;     /* so long it has no turn after the barrier that it is at */
    bool braced;          /* it has rested before a mutation */
    amdgpu_state_t state;
    uintptr_t pc, at;     /* of the next instruction, and of this one */
    uint32_t *vgpr;       /* 64 lanes of each */
    amdgpu_block_t *block;
    struct amdgpu_run_state *run;
    struct amdgpu_late *late; /* accesses that are not complete; NULL where each is at once */
    struct amdgpu_noting *noting; /* NULL where no notes are taken */
} amdgpu_wave_t;

struct amdgpu_kernel {
    amdgpu_object_t *object;
    char name[64];
    uintptr_t entry;
    uint32_t lds_bytes, nvgprs;
    uint32_t arg_bytes, kernarg_bytes; /* without and with what the runtime adds */
    uint16_t properties;               /* which user registers it wants */
    bool wants_block;                  /* its number after them */
    struct {
        char kind[32];
        uint32_t offset, bytes;
    } hidden[AMDGPU_HIDDEN];           /* what the runtime adds */
    unsigned nhidden;
};

typedef struct amdgpu_run_state {
    const amdgpu_launch_t *launch;
    amdgpu_range_t range[AMDGPU_RANGES]; /* that were found, the last one first; the launch's own among them */
    unsigned nranges;
    uint64_t random, ninsts;
    struct amdgpu_gpu *gpu;     /* whose caches its accesses go through; NULL: there are none */
    unsigned patience;          /* one in so many accesses completes one that waits */
    unsigned idle;              /* turns in a row that ended in sleep */
} amdgpu_run_state_t;

struct amdgpu_object {
    char arch[16];
    const uint8_t *image;
    uint8_t *memory;            /* its segments, as loaded */
    size_t memory_bytes;
    uint8_t *text;              /* in it */
    size_t text_bytes;
    amdgpu_inst_t **inst;       /* by dword of text; written once each, by whoever comes first */
    uint8_t *executed;          /* likewise; shared with other processes where coverage is kept */
    struct amdgpu_kernel kernel[AMDGPU_KERNELS];
    unsigned nkernels;
};

/* Ends the process after saying what is wrong at the wave's last instruction. */
[[noreturn]] void amdgpu_fail(const amdgpu_wave &wave, const char *what);

/* Decodes the instruction at an address, and keeps it. Ends the process if it is not known. */
const amdgpu_inst_t *amdgpu_decode(const amdgpu_wave &wave, uintptr_t pc);

/* Prints the instruction at an address; gives its length, 0 for none. */
size_t amdgpu_disassemble(const amdgpu_object_t *object, uintptr_t pc, char *text_out, size_t text_bytes);

/* Whether there is a disassembler; else error_out says why. */
bool amdgpu_text_open(char *error_out, size_t error_bytes);

/* The row of a mnemonic, or NULL. */
const amdgpu_row_t *amdgpu_row_find(const char *mnemonic);

/* Where a kernel's bytes at an address lie, in LDS or memory. Ends the process if they lie nowhere. next: what they
   will be; NULL: as they are, or nobody knows. */
uint8_t *amdgpu_reach(amdgpu_wave &wave, uint64_t address, unsigned bytes);
uint8_t *amdgpu_reach_lds(amdgpu_wave &wave, uint32_t address, unsigned bytes, const void *next = nullptr);

static inline uint64_t amdgpu_random(amdgpu_run_state_t *run)
{
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return run->random;
}

static inline uint64_t amdgpu_pair(const amdgpu_wave &wave, unsigned index)
{
    return wave.sgpr[index] | (uint64_t)wave.sgpr[index + 1] << 32;
}

static inline void amdgpu_set_pair(amdgpu_wave &wave, unsigned index, uint64_t value)
{
    wave.sgpr[index] = (uint32_t)value;
    wave.sgpr[index + 1] = (uint32_t)(value >> 32);
}

static inline uint64_t amdgpu_exec(const amdgpu_wave &wave)
{
    return amdgpu_pair(wave, AMDGPU_EXEC);
}

static inline uint32_t amdgpu_scalar32(const amdgpu_wave &wave, const amdgpu_operand_t &operand)
{
    return operand.kind == AMDGPU_SCALAR ? wave.sgpr[operand.index] : operand.narrow;
}

static inline uint64_t amdgpu_scalar64(const amdgpu_wave &wave, const amdgpu_operand_t &operand)
{
    return operand.kind == AMDGPU_SCALAR ? amdgpu_pair(wave, operand.index) : operand.wide;
}

#endif
