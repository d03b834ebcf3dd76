/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: what host and kernel share. Plain C and C++, fixed layout on every device, no host headers but stdint.
 *
 * The arena of a rank is one exported allocation, the same layout on every rank of the node. It is a table of
 * connections, one per channel and peer. Block c of a launch works on channel c and touches no other's.
 *
 *   arena of rank r                                  connection (c, p): where p writes for r
 *   +-----------------------------+                  +-----------------------------------------+
 *   | head line: abort            |                  | tail   steps that p has put into slots   |  128 B each
 *   | channel 0: conn of peer 0   |----------------->| head   steps that p has taken of r's     |
 *   |            conn of peer 1   |                  | fin    passes of work that p has ended   |
 *   |            ...              |                  | entry  two halves of SV_COLL_ENTRIES lines|
 *   | channel 1: ...              |                  | ll     SV_COLL_STEPS slots of lines      |
 *   +-----------------------------+                  | ll128  SV_COLL_STEPS slots of long lines |
 *                                                    | slots  SV_COLL_SLOTS slots and records   |
 *                                                    +-----------------------------------------+
 *
 * Counters (sv_coll_state_t) belong to the block alone, live in its own rank's memory between launches, and never go
 * back. A step is one slot of one connection in one direction, whatever the protocol. Step s uses slot s modulo
 * SV_COLL_STEPS. It may be written once head > s - SV_COLL_STEPS says that step s - SV_COLL_STEPS was taken. SIMPLE has
 * fewer slots (SV_COLL_SLOTS) and larger ones, because each costs a fence at system scope.
 */
#ifndef SV_COLL_ARGS_H
#define SV_COLL_ARGS_H

#include <stdint.h>

#include "kernels/kernel_args.h"

enum {
    SV_COLL_RANKS = 16,        /* of a node */
    SV_COLL_CHANNELS = 64,     /* at most */
    SV_COLL_STEPS = 8,
    SV_COLL_SLOTS = 2,
    SV_COLL_ENTRY = 4,         /* lines: signature, source, destination, scalar; */
    SV_COLL_ENTRIES = 6,       /* and in a direct call, as digests, what this rank has given in all, and before that */
    SV_COLL_ENTRY_LENT = 5,    /* what of it others make results of, which they pass on */
    SV_COLL_WINDOWS = 64,      /* registered per arena; window 0 is none */
    SV_COLL_CACHED = 16,       /* after these in a rank's numbers: buffers that nobody registered (coll_cache.h) */
    SV_COLL_WINDOW_NUMBERS = SV_COLL_WINDOWS + SV_COLL_CACHED,
    SV_COLL_RINGS = 16,
    SV_COLL_FIFO_STRIDE = 128, /* bytes of a piece of work in the FIFO, so that none straddles its end */
    SV_COLL_ARG_WORKS = 5,     /* pieces of work that travel in the argument of a launch */
    SV_COLL_LINE = 16,         /* bytes of a line of LL: 8 of data, each half with its own flag */
    SV_COLL_LONG_WORDS = 16,   /* words of a long line (LL128); the last is its flag */
    SV_COLL_LL_CLEAN = 0x7ffffff8, /* eight steps in 2^31, one for each slot */
    SV_COLL_LANES = 512        /* threads of a block on a GPU; a multiple of 8, which store a long line together */
};

/* The public enumeration of types (selvage_type_t) with the same values, for device code. */
enum {
    SV_COLL_INT8 = 1, SV_COLL_UINT8, SV_COLL_INT32, SV_COLL_UINT32, SV_COLL_INT64, SV_COLL_UINT64, SV_COLL_FLOAT16,
    SV_COLL_BFLOAT16, SV_COLL_FLOAT32, SV_COLL_FLOAT64, SV_COLL_E4M3, SV_COLL_E5M2, SV_COLL_TYPES
};

/* Operations on two elements; an average is a sum with SV_COLL_DIVIDE. The values of SELVAGE_OP_. */
enum { SV_COLL_SUM = 1, SV_COLL_PROD, SV_COLL_MIN, SV_COLL_MAX, SV_COLL_OPS };

/* What is called. */
enum {
    SV_COLL_ALL_REDUCE = 1, SV_COLL_REDUCE_SCATTER, SV_COLL_ALL_GATHER, SV_COLL_BROADCAST, SV_COLL_REDUCE,
    SV_COLL_ALL_TO_ALL, SV_COLL_PAIR, SV_COLL_BARRIER, SV_COLL_CALLS
};

/* How the software device stores lines. WHOLE: at once and in order. LATE: late, and halves in any order, which all
   protocols bear. TORN: flags before the data of long lines, which LL128 does not bear. */
enum { SV_COLL_STORES_WHOLE, SV_COLL_STORES_LATE, SV_COLL_STORES_TORN };

/* How it is done. ONESHOT and TWOSHOT go through slots, DIRECT_ONE and DIRECT_TWO read and write users' memory. */
enum {
    SV_COLL_ONESHOT = 1, SV_COLL_TWOSHOT, SV_COLL_DIRECT_ONE, SV_COLL_DIRECT_TWO, SV_COLL_RING, SV_COLL_PAT,
    SV_COLL_ALGOS
};
enum { SV_COLL_LL = 1, SV_COLL_LL128, SV_COLL_SIMPLE, SV_COLL_PROTOS };

enum {
    SV_COLL_PREMUL = 1,        /* each rank's input is multiplied by scalar first */
    SV_COLL_SCALAR_AT = 2,     /* scalar is an address of device memory */
    SV_COLL_DIVIDE = 4,        /* the result is divided by the number of ranks */
    SV_COLL_DIGEST = 8         /* every slot carries a digest, verified by who takes it */
};

/*
 * One piece of work: what one call asks of the channels [channel, channel + nchannels). Ranks are those of the
 * communicator, 0 to n-1.
 *
 * A PAIR sends count elements of src to root, and takes count_in elements from peer into dst. Either rank may be none
 * (0xff). If peer is not 0xff, DIRECT_TWO goes in 2^peer pieces that are only pushed, where all buffers allow it
 * (coll_push.h).
 */
typedef struct sv_coll_work {
    uint8_t call, algo, proto, type;
    uint8_t op, flags, root, peer;
    uint16_t channel, nchannels;
    uint32_t sequence;         /* of the call, from 1 */
    uint64_t count, count_in;  /* elements, as in the public call */
    uint64_t src, dst;         /* addresses on this device */
    uint64_t scalar;           /* bits of one element, or its address */
    uint64_t src_window, dst_window; /* number << 48 | offset of src and dst in it; 0: in none */
    uint64_t signature;        /* what all ranks of the call must agree on; see sv_coll_signature() */
    uint64_t key;              /* salt of the digests */
    uint32_t chunk_bytes;      /* of a slot of SIMPLE, how much a step uses; a multiple of 128 */
    uint32_t communicator;     /* number of the (split) communicator in its arena: for the signature of a PAIR */
    /* For the direct algorithms: bytes of a rank's shard, of each channel's part of it, and of each channel's part of
       all */
    uint64_t shard_bytes, shard_part_bytes, part_bytes;
} sv_coll_work_t;

/* Counters of one connection: own memory, own block. LL flags are the lower half of step + 1. */
typedef struct sv_coll_state {
    uint64_t sent, taken;      /* steps */
    uint64_t entries, fins;    /* rounds of these words, both directions alike */
} sv_coll_state_t;

/* What went wrong first, in pinned memory; kind is released last. */
enum {
    SV_COLL_FINE = 0,
    SV_COLL_LATE,              /* the deadline passed: peer did not show `wanted`, but `seen` */
    SV_COLL_DIFFERS,           /* peer's signature is `seen`, this rank's `wanted` */
    SV_COLL_DAMAGED,           /* the digest of a slot of peer's: `wanted` in its record, `seen` in the data */
    SV_COLL_ABORTED,           /* by the host of this rank (peer is this rank), or by peer */
};
/* What a LATE block waited for. */
enum { SV_COLL_AT_ENTRY = 1, SV_COLL_AT_SLOT, SV_COLL_AT_CREDIT, SV_COLL_AT_LINE, SV_COLL_AT_FIN };
typedef struct sv_coll_error {
    uint32_t kind, place;
    uint32_t sequence, peer;   /* of the call; rank in its communicator */
    uint32_t channel, call;
    uint64_t wanted, seen;
} sv_coll_error_t;

/*
 * Pinned words of one channel, which the host reads: pieces of work that it has begun, and those that were over then.
 * What is counted as started has everything before its launch. On a GPU a kernel that has stored into the host's memory
 * takes 0.8 us more to end. So both are stored together, and kernels of one short call do so once in SV_COLL_TELL_EVERY
 * calls.
 */
typedef struct sv_coll_counts {
    uint32_t started, completed; /* one word of 64 bits to the kernel */
} sv_coll_counts_t;
enum { SV_COLL_TELL_EVERY = 16 };

/* Where things are in an arena; the same on all ranks of the node. */
typedef struct sv_coll_layout {
    uint64_t channel_bytes, conn_bytes;        /* strides; the first channel begins at SV_COLL_ARENA_HEAD */
    uint32_t ll_bytes, long_bytes, slot_bytes; /* of one slot of each protocol, without the record */
    uint32_t entry_at, ll_at, long_at, slot_at; /* in a connection */
    uint32_t nranks, nchannels;
} sv_coll_layout_t;
enum { SV_COLL_ARENA_HEAD = 128, SV_COLL_TAIL_AT = 0, SV_COLL_HEAD_AT = 128, SV_COLL_FIN_AT = 256,
       SV_COLL_SLOT_RECORD = 128 };

/* A step of the logarithmic schedule: an exchange with two ranks. Bit masks say which blocks go. */
typedef struct sv_coll_pat_step {
    uint16_t to, from;         /* ranks; 0xffff: none */
    uint32_t send_mask, recv_mask; /* bit q: the block of rank q */
} sv_coll_pat_step_t;
typedef struct sv_coll_pat {
    uint32_t nsteps, reserved;
    sv_coll_pat_step_t step[4]; /* ceil(log2(16)) */
} sv_coll_pat_t;

/*
 * The device communicator: one per (split) communicator, in device memory. The host writes it before the first launch.
 * After that only windows change.
 */
typedef struct sv_coll_dev {
    uint32_t n, me;            /* ranks of this communicator on the node, and this rank among them */
    uint32_t stores, reserved; /* soft only: how stores of lines behave (SV_COLL_STORES_) */
    uint32_t nrings, ll_clean; /* rings; the mask of steps whose slots of lines are written whole (coll_lines.h) */
    sv_coll_layout_t layout;
    uint8_t member[SV_COLL_RANKS];             /* which rank of the arena is rank r */
    uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS]; /* ring k: ranks in order; channel c uses ring c modulo nrings */
    uint64_t arena[SV_COLL_RANKS];             /* by rank of this communicator: base of its arena, mapped here */
    sv_coll_pat_t gather, scatter;             /* PAT for all-gather and reduce-scatter */
    sv_coll_state_t *state;                    /* [channel * SV_COLL_RANKS + rank of the arena] */
    uint32_t *stop;                            /* this device's word for its blocks: an error was recorded */
    const uint32_t *host_stop;                 /* pinned: the host wants an end */
    sv_coll_error_t *error;                    /* pinned */
    uint32_t *error_taken;                     /* device word: who records the first error */
    sv_coll_counts_t *counts;                  /* pinned, [channel] */
    const uint8_t *fifo;                       /* pinned ring of sv_coll_work_t */
    uint32_t *consumed;                        /* pinned: position up to which the FIFO was read */
    uint32_t *arrivals;                        /* device word: blocks of the launch that are through */
    uint64_t *window;                          /* by rank of the arena, then number: base here, or 0 */
} sv_coll_dev_t;

/*
 * What a block needs before it can do anything. Every launch's argument carries it, because each look into device
 * memory that depends on another one costs up to a tenth of a short call. Connections are those of channel 0.
 */
typedef struct sv_coll_context {
    const sv_coll_dev_t *dev;
    uint64_t deadline_ns;      /* of any one wait; 0: none */
    uint64_t mine[SV_COLL_RANKS], theirs[SV_COLL_RANKS]; /* by rank: where r writes for this rank, and the reverse */
    sv_coll_state_t *state;    /* these as in sv_coll_dev_t */
    sv_coll_counts_t *counts;
    uint32_t *stop;
    const uint64_t *window;
    uint64_t arena;            /* own */
    uint64_t channel_bytes;
    uint32_t n, me;
    uint32_t entry_at, ll_clean;
    uint32_t slot_at, slot_bytes; /* of SIMPLE, in a connection */
    uint8_t member[SV_COLL_RANKS];
    uint64_t *ended;           /* pinned, [block]: gets `launch` when the block is through. NULL: nobody waits for it */
    uint64_t launch;           /* number of the launch in its arena, from 1 */
    sv_stamp_line_t *stamps;   /* of piece of work 0 and block 0; others by piece, then by block. NULL: none */
} sv_coll_context_t;

/* The argument of a launch. Work 0 to nwork-1 lie in work[], or, if from_fifo, in the ring from position on. */
typedef struct sv_coll_arg {
    sv_coll_context_t context;
    uint32_t nwork, from_fifo;
    uint32_t position, fifo_mask; /* bytes, monotonic; size of the ring - 1 */
    sv_coll_work_t work[SV_COLL_ARG_WORKS];
} sv_coll_arg_t;

/* The argument of a launch of one call alone, one-shot, in lines, in one step; see coll_small.h. */
typedef struct sv_coll_small_arg {
    sv_coll_context_t context;
    uint64_t block_bytes;      /* of what each rank sends to one other */
    uint64_t part_bytes;       /* of which so many fall to each channel */
    uint32_t slots_at, slot_bytes; /* of the protocol, in a connection */
    sv_coll_work_t work;
} sv_coll_small_arg_t;

/* The argument of a launch of one send and one receive alone, in lines, in one step each; see coll_small_pair.h. Of
   `small` the blocks are what is sent. */
typedef struct sv_coll_small_pair_arg {
    sv_coll_small_arg_t small;
    uint64_t in_bytes, in_part_bytes; /* of what is received, and of which so many fall to each channel */
    uint32_t line_at, line_bytes; /* slots of LL, in a connection */
} sv_coll_small_pair_arg_t;

/* Host and device compilers must agree. */
SV_LAYOUT_ASSERT(sv_coll_work_t, 120);
SV_LAYOUT_ASSERT(sv_coll_context_t, 384);
SV_LAYOUT_ASSERT(sv_coll_arg_t, 400 + 120 * SV_COLL_ARG_WORKS);
SV_LAYOUT_ASSERT(sv_coll_small_arg_t, 528);
SV_LAYOUT_ASSERT(sv_coll_small_pair_arg_t, 552);
SV_LAYOUT_ASSERT(sv_coll_state_t, 32);

enum { SV_COLL_PART = 512, SV_COLL_UNIT = 16 }; /* bytes of which the parts of channels are multiples, and shards */

#if defined(__CUDACC__)
#define SV_COLL_BOTH static inline __host__ __device__
#elif defined(__HIP__)
#define SV_COLL_BOTH static inline __attribute__((host, device))
#else
#define SV_COLL_BOTH static inline
#endif

/*
 * The signature: sequence 6 bits, count 34, call 4, type 4, operation 3, root 4, algorithm 3, protocol 2, communicator
 * 4. A host can read back from it what the other rank called.
 */
SV_COLL_BOTH uint64_t sv_coll_signature(const sv_coll_work_t *work, unsigned communicator)
{
    return (uint64_t)(work->sequence & 0x3f) | (work->count & 0x3ffffffff) << 6 | (uint64_t)(work->call & 15) << 40 |
           (uint64_t)(work->type & 15) << 44 | (uint64_t)(work->op & 7) << 48 | (uint64_t)(work->root & 15) << 51 |
           (uint64_t)(work->algo & 7) << 55 | (uint64_t)(work->proto & 3) << 58 | (uint64_t)(communicator & 15) << 60;
}

/* How many of `bytes` fall to each of nchannels. */
SV_COLL_BOTH uint64_t sv_coll_part_bytes(uint64_t bytes, uint32_t nchannels)
{
    uint64_t each = (bytes + nchannels - 1) / nchannels;
    return (each + SV_COLL_PART - 1) / SV_COLL_PART * SV_COLL_PART;
}

/* Bytes that a slot of the protocol holds, beside a digest if there are digests. */
SV_COLL_BOTH uint64_t sv_coll_slot_capacity(const sv_coll_layout_t *layout, const sv_coll_work_t *work, uint32_t proto)
{
    const uint32_t digest = work->flags & SV_COLL_DIGEST ? 1 : 0;
    if (proto == SV_COLL_LL)
        return (uint64_t)(layout->ll_bytes / SV_COLL_LINE - digest) * 8;
    if (proto == SV_COLL_LL128)
        return (uint64_t)(layout->long_bytes / (8 * SV_COLL_LONG_WORDS) - digest) * 8 * (SV_COLL_LONG_WORDS - 1);
    return work->chunk_bytes;
}

#endif
