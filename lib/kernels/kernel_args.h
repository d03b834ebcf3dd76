/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures that host and device share. Plain C and C++, fixed layout on every device, no host headers but stdint.
 * Plug-ins are compiled with them: who changes one counts up SV_PLUGIN_ABI.
 */
#ifndef SV_KERNEL_ARGS_H
#define SV_KERNEL_ARGS_H

#include <stdint.h>

/*
 * The record: 64 bytes, little-endian, of every packet; on routes by messages after its bytes. In a packet that moves
 * in segments, each but the last is followed by a record of kind SEGMENT. Its bytes are the segment's size, its salt is
 * the offset in the packet, its digest 0. The last segment carries the packet's own record (kind PACKET, bytes of the
 * whole packet).
 */
typedef struct sv_record {
    uint32_t magic;       /* SV_RECORD_MAGIC */
    uint16_t version;     /* SV_RECORD_VERSION */
    uint8_t kind;         /* SV_RECORD_PACKET, SV_RECORD_SEGMENT */
    uint8_t attempt;      /* 0 for the first sending */
    uint64_t epoch;
    uint64_t exchange;
    uint32_t index, tag, source, destination;
    uint64_t bytes;
    uint64_t salt;        /* index + 1000 * tag, modulo 2^64 */
    uint64_t digest;      /* 0: none */
} sv_record_t;

/* A block has at most this many threads on a GPU (it may have one), and exactly one on soft. */
enum { SV_KERNEL_LANES_MAX = 512 };

enum { SV_RECORD_BYTES = 64, SV_RECORD_VERSION = 1, SV_RECORD_PACKET = 1, SV_RECORD_SEGMENT = 2 };
#define SV_RECORD_MAGIC 0x47564c53u /* "SLVG" in memory */

/* What a verification found; in pinned memory. The host reads it once it has acquired the word that comes after it, or
   epoch. */
typedef struct sv_verify_result {
    uint64_t expected;    /* digest in the record */
    uint64_t found;       /* digest of the bytes that are there */
    uint32_t record_ok;   /* 1: the record is the expected one (attempt and digest apart); or SV_RESULT_ABSENT */
    uint32_t verified;    /* record_ok and found equals expected (or no digests are used) */
    uint64_t epoch;       /* in which the packet failed; 0: it did not, or the host has taken it */
} sv_verify_result_t;

/* Scratch of one packet in device memory: zero before first use; the finishing kernel leaves it zero again. */
typedef struct sv_digest_scratch {
    uint64_t sum;
    uint32_t blocks_done;
    uint32_t go;          /* where several shares or blocks wait: what the first of them has found */
} sv_digest_scratch_t;

/* What the digest kernel does when the last block is through. */
enum {
    SV_DIGEST_ADD = 0,      /* only adds to the scratch: a segment that is not the last */
    SV_DIGEST_PREPARE = 1,  /* writes identity with the digest to record */
    SV_DIGEST_VERIFY = 2,   /* compares record with identity and the digest with what was found; writes result */
    SV_DIGEST_FINISH = 3,   /* mask of the above */
    SV_DIGEST_NONE = 4,     /* flag: no digest is computed (and 0 is written, and none is expected) */
    SV_DIGEST_ONLY = 32,    /* flag: await goes from await_before to await_value, or stands for another packet */
    SV_DIGEST_LATE = 64,    /* flag: await is of the record alone, and is waited for when the bytes are through */
    SV_DIGEST_PRESET = 128, /* flag: result says that all is well already, and is only written if it is not */
    SV_DIGEST_NEAR = 256,   /* flag: dst is memory of the device that runs the kernel, or managed memory */
    SV_DIGEST_AHEAD = 512   /* flag: the word has another one after it, which says that the record is there */
};

/*
 * One pass over bytes bytes of src: copies them to dst (unless NULL) and adds their part of the digest. src, dst and
 * record may have any alignment. signal and second, unless NULL, are released (system scope) with their values after
 * everything else, by PREPARE and VERIFY; second only if nothing was wrong. PREPARE writes the record to copy, too,
 * unless that is NULL.
 *
 * With await, nothing but that word is looked at before it is await_value. The launch gives up after await_ns, once
 * stop is signal_value, or with SV_DIGEST_ONLY if the word is something else. It then only releases signal with
 * away_value, but for what is said below. With SV_DIGEST_LATE the bytes are passed over before that, and the last block
 * alone waits. With SV_DIGEST_AHEAD, by a launch that has all of a packet, it is read as soon as the word after await
 * is await_value and the record is there: if its digest is right, await is not waited for. Else it is, and one block
 * reads all once more. So a launch that gives up may have written to dst. PREPARE with SV_DIGEST_AHEAD stores that
 * word, after second.
 */
typedef struct sv_digest_arg {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t bytes;
    uint64_t first_word;
    uint64_t key;
    sv_digest_scratch_t *scratch;
    uint8_t *record;
    uint8_t *copy;
    sv_verify_result_t *result;
    uint64_t *signal;
    uint64_t signal_value;
    uint64_t *second;
    uint64_t second_value;
    const uint64_t *await;
    uint64_t await_before, await_value, await_ns, away_value;
    const uint64_t *stop;   /* pinned; with await only */
    uint32_t mode;
    uint32_t reserved;
    sv_record_t identity;   /* digest member ignored */
} sv_digest_arg_t;

/*
 * Such a pass over a packet of which the first landed_bytes, a multiple of 8, are at dst already. The first
 * landed_blocks blocks, at least one and not all, only read those there. The others copy the rest from src, where it
 * has the same offset. await is of the record alone, as with SV_DIGEST_LATE.
 */
typedef struct sv_rest_arg {
    sv_digest_arg_t pass;   /* of the whole packet, with dst, and SV_DIGEST_LATE if with await */
    uint64_t landed_bytes;
    uint32_t landed_blocks;
    uint32_t reserved;
} sv_rest_arg_t;

/*
 * Several passes of sv_digest in one launch, over packets of one exchange, without await. Each is by the blocks from
 * first_block[i] to first_block[i + 1]. Members are those of sv_digest_arg_t, and of its identity; index is the lower
 * half of epoch.
 */
enum { SV_DIGESTS_MAX = 10 };

typedef struct sv_digest_job {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t bytes;
    uint64_t key;
    sv_digest_scratch_t *scratch;
    uint8_t *record;
    uint8_t *copy;
    sv_verify_result_t *result;
    uint64_t *signal;
    uint64_t signal_value;
    uint64_t *second;
    uint64_t second_value;
    uint64_t epoch;
    uint32_t tag, source, destination;
    uint16_t mode;
    uint8_t attempt;
    uint8_t reserved;
} sv_digest_job_t;

typedef struct sv_digests_arg {
    uint32_t njobs;
    uint32_t first_block[SV_DIGESTS_MAX + 1];
    uint64_t exchange;
    sv_digest_job_t job[SV_DIGESTS_MAX];
} sv_digests_arg_t;

/* One division of a unit's number by the extent of a dimension: multiply, take the upper word, shift (pack_plan.c). */
typedef struct sv_pack_level {
    int64_t stride;         /* bytes from one unit to the next in this dimension */
    uint32_t count;
    uint32_t magic;
} sv_pack_level_t;

enum { SV_PACK_LEVELS = 4 };

/*
 * One pass over a box, or a part of one, and its packed stream; sv_pack_plan() fills the upper half. The box is cut in
 * units of granule bytes, numbered in the order of the stream. A granule is a power of two up to 16 that divides every
 * address in the box. sv_pack reads the box and, unless packed is NULL, writes the stream. sv_unpack reads the stream
 * and, unless box is NULL, writes the box. Both sum the words of the stream as they go by and end as sv_digest does.
 * packed may have any alignment below a granule of 16.
 */
typedef struct sv_pack_arg {
    uint8_t *box;           /* where unit 0 lies */
    uint8_t *packed;        /* first byte of this part of the stream */
    uint64_t bytes;         /* of this part; a multiple of 8, but for the end of a packet */
    uint32_t granule;
    uint32_t first_unit;    /* number of the unit with which this part begins */
    uint32_t run_units;     /* how many units lie one after the other in memory from unit 0 on; 0 for no two */
    uint32_t levels;        /* how many of level[] are used; what is left then counts steps of top_stride */
    int64_t top_stride;
    sv_pack_level_t level[SV_PACK_LEVELS];
    uint8_t shift[8];       /* of level[] */

    uint64_t first_word;    /* from here on as in sv_digest_arg_t */
    uint64_t key;
    sv_digest_scratch_t *scratch;
    uint8_t *record;
    sv_verify_result_t *result;
    uint64_t *signal;
    uint64_t signal_value;
    uint32_t mode;
    uint32_t reserved;
    sv_record_t identity;
} sv_pack_arg_t;

/*
 * A table of runs of any size, for elements that nothing regular describes: pinned memory, written once. The runs are
 * in the order of the stream, and in groups that a block takes as a whole; a run is cut where a group ends. Group g has
 * count runs from number first on: offsets[first + i] says where run i lies, and begins[first + g + i] with which byte
 * of the group it begins. One more of begins says where the group ends.
 */
enum { SV_RUNS_GROUP_BYTES = 16384, SV_RUNS_GROUP_RUNS = 512 };

typedef struct sv_runs_group {
    uint64_t at;            /* in the stream */
    uint32_t first;
    uint32_t count;
    uint32_t bytes;
    uint32_t reserved;
} sv_runs_group_t;

/* Moves bytes from to end of the stream between there and the runs; groups first_group to end_group have a part of
   them. Places of both sides may have any alignment, but runs that of the granule: 1, 2, 4 or 8. */
typedef struct sv_runs_arg {
    const sv_runs_group_t *groups;
    const int64_t *offsets;
    const uint32_t *begins;
    uint8_t *base;          /* of the offsets */
    uint8_t *packed;        /* where the stream would begin */
    uint64_t from, end;
    uint32_t first_group, end_group;
    uint32_t granule;
    uint32_t scatters;      /* to the runs; else from them */
} sv_runs_arg_t;

/* Adds all 64-bit words of src, which is aligned to 16 bytes, to *sum: what reading memory costs at least. */
typedef struct sv_sum_arg {
    const uint64_t *src;
    uint64_t words;         /* a multiple of 2 */
    uint64_t *sum;
} sv_sum_arg_t;

/* A first row in a face, and in its stream. All addresses are multiples of 8. */
typedef struct sv_touch_place {
    uint8_t *face, *stream;
} sv_touch_place_t;

/* 2^edge_shift rows of 2^edge_shift words, with bytes from a row to the next. */
typedef struct sv_touch_sheet {
    sv_touch_place_t at;
    int64_t face_stride, stream_stride;
} sv_touch_sheet_t;

enum { SV_TOUCH_SCATTERS = 1, SV_TOUCH_LOADS = 2, SV_TOUCH_STORES = 4, SV_TOUCH_WIDTH_MAX = 3,
       SV_TOUCH_SHEETS_MAX = 4 * SV_TOUCH_WIDTH_MAX };

/*
 * Moves the faces of a cube with an edge of 2^edge_shift words, at most 512, to their streams, or with SCATTERS from
 * there. It shows what gathering and scattering them costs at least. Without STORES words are only read, without LOADS
 * only written. The narrow faces have 2^edge_shift planes of as many rows of width words; the others are cut into
 * sheets.
 */
typedef struct sv_touch_arg {
    sv_touch_place_t narrow[2];
    int64_t row_stride, plane_stride; /* of the narrow faces; in their streams row follows row */
    uint32_t width, edge_shift;
    uint32_t nsheets, mode;
    uint64_t unlikely, *sink; /* the value, above 0, at which a sum that nobody wants would be stored there */
    sv_touch_sheet_t sheet[SV_TOUCH_SHEETS_MAX];
} sv_touch_arg_t;

/*
 * Words: epoch (low 32 bits), attempt (8), count (24). Whoever polls one wants an epoch, an attempt and a count above
 * 0. A later epoch says that this one is over.
 *
 * Packets that kernels move (up to some size) go in batches. One launch pushes all that may leave, and one pulls all
 * that arrived. What never changes about a packet is an item in device memory; the rest is in the launch. Epoch e uses
 * slot e modulo nslots.
 */
enum { SV_BATCH_PACKETS = 32, SV_BATCH_BASES = 6 };

/*
 * A piece of a packet whose bytes do not lie one after the other; a packet is a list of such pieces (pipe_layout.h). It
 * is like the upper half of sv_pack_arg_t, in device memory. Two more kinds are lists of elements of one size, and of
 * runs of any size. bases[base] + offset is where unit 0 of a box lies. Offsets in tables are relative to it.
 */
typedef struct sv_piece {
    int64_t offset;
    uint64_t bytes;         /* in memory; in the stream a padded piece fills up to a multiple of 16 */
    uint64_t first_word;    /* in the stream of the packet */
    int64_t top_stride;
    sv_pack_level_t level[SV_PACK_LEVELS]; /* of a list: level[0].count units make an element */
    uint8_t shift[8];
    const int64_t *offsets; /* of elements or runs; NULL for a box */
    const uint32_t *begins;  /* first unit of each run, and after the last the number of all; NULL for a list */
    uint32_t count;         /* of elements or runs */
    uint32_t granule, first_unit, run_units, levels;
    uint32_t base;
    uint32_t padded;
    uint32_t number;        /* SV_ADD_...: what a receive adds; 0: it stores */
} sv_piece_t;

enum { SV_ADD_FLOAT32 = 1, SV_ADD_FLOAT64 = 2, SV_ADD_INT32 = 3, SV_ADD_INT64 = 4 };

/*
 * Where an exchange is, for kernels that no host numbers: those of graphs, and of users that send from their own. It
 * lies in device memory, one for each exchange and rank. A kernel of the next epoch is of epoch + 1, and the one that
 * ends it counts (kernel_epoch.h). The host reads it back through `words`, and says by the stream which epochs it
 * numbered itself (pipe_epoch.h).
 */
typedef struct sv_epoch_state {
    uint64_t epoch;            /* the last one that is over here, or that the host began; or SV_EPOCH_UNTOLD */
    uint64_t fault_epoch;      /* in which a fault is injected; 0: none */
    uint64_t *words;           /* pinned: SV_EPOCH_BEGUN and on */
    uint32_t blocks_out;       /* blocks that are through with the epoch that a launch of several ends; else 0 */
    uint32_t fault_kind;       /* SV_EPOCH_SOUND and on */
    uint32_t fault_packet;     /* index of the send */
    uint32_t reserved;
    uint64_t reserved_words[3];
} sv_epoch_state_t;

/* Until the device first numbers an epoch the host tells it nothing, which would cost each of its own. Then the word
   TOLD says how many these were. ENDING gets each epoch that the launch which ends it has begun: for a word of its
   end, in host memory, the kernel would have to wait. Who knows that it is complete knows that the epoch is over. BEGUN
   gets those of the launches before, so that an epoch without its last launch is not taken for one that is over. */
#define SV_EPOCH_UNTOLD (~(uint64_t)0)
enum { SV_EPOCH_BEGUN = 0, SV_EPOCH_TOLD = 1, SV_EPOCH_ENDING = 2 };

/* A fault of a replayed packet: a bit of its payload is flipped, it never leaves, its record is that of the epoch
   before, or that of another packet. */
enum { SV_EPOCH_SOUND = 0, SV_EPOCH_FLIPS = 1, SV_EPOCH_DROPS = 2, SV_EPOCH_REPEATS = 3, SV_EPOCH_SWAPS = 4 };

/* Sender: src goes to dst, the record to record, then the words are released. Words may be NULL. */
typedef struct sv_push_item {
    const uint8_t *src;
    uint8_t *dst;              /* slot 0; maybe another device's memory, or pinned */
    uint64_t dst_stride;
    uint8_t *record;           /* of slot 0, any alignment */
    uint64_t record_stride;
    uint64_t *arrived_device;  /* beside the record: for a kernel that waits there, or for what comes without slots */
    uint64_t *arrived;         /* for a host that polls */
    uint64_t *sent;            /* own: src is read no more */
    uint64_t *failed;          /* own: gets the epoch if the credit did not come in time */
    const uint64_t *credit;    /* own: the receiver's leave to write */
    sv_digest_scratch_t *scratch;
    uint64_t nslots;
    uint64_t count;            /* in the words: segments of the packet; 0 is 1 */
    const sv_piece_t *pieces;  /* of sv_gather: in place of src */
    uint64_t npieces;
    uint64_t credit_near;      /* not 0: credit lies in the memory of the device, where all blocks may look at it */
    sv_record_t identity;      /* epoch, attempt and digest ignored */
} sv_push_item_t;

/* Receiver: awaits arrived, then verifies src and, unless dst is NULL, copies it there. */
typedef struct sv_pull_item {
    const uint8_t *src;        /* slot 0 */
    uint64_t src_stride;
    uint8_t *dst;
    const uint8_t *record;     /* of slot 0 */
    uint64_t record_stride;
    const uint64_t *arrived;   /* of slot 0: the word beside the record, or the one that the host polls too */
    uint64_t arrived_stride;
    sv_verify_result_t *result; /* pinned; written only when the packet does not verify */
    uint64_t *record_seen;     /* pinned: gets the record then, unless NULL */
    uint64_t *done;            /* pinned: gets the word of this epoch and attempt, with an SV_PULL_ outcome as count */
    uint64_t *verdict;         /* the sender's: this epoch was good; NULL where a message says it */
    uint64_t *credit;          /* the sender's: credit for the epoch that uses this slot next; NULL if not by slots */
    uint64_t *credit_device;   /* the same, in the memory of the sender's device: for a push that waits; or NULL */
    sv_digest_scratch_t *scratch;
    uint64_t nslots;
    uint64_t count;            /* that arrived must reach; 0 is 1 */
    const uint64_t *recorded;  /* a second word to wait for where the record comes apart; or NULL */
    const sv_piece_t *pieces;  /* of sv_scatter: in place of dst */
    uint64_t npieces;
    uint64_t *grant;           /* the sender's credit for each epoch, of what comes straight to its place; or NULL */
    uint64_t grant_count;
    uint64_t looks;            /* not 0: a kernel that waits may read it once its record is there (kernel_pull.h) */
    sv_record_t identity;
} sv_pull_item_t;

enum { SV_PULL_GOOD = 1, SV_PULL_BAD = 2, SV_PULL_ABSENT = 3, SV_RESULT_ABSENT = 2 };

/*
 * Time stamps inside kernels, by the device's clock, if SELVAGE_TRACE_KERNELS asks for them. Every share of a packet,
 * and every channel of a collective's piece of work, has a line of its own in device memory, which its block alone
 * writes. What did not happen is 0, or earlier than BEGAN: the line was written before, in a graph that was replayed.
 */
enum {
    SV_STAMP_BEGAN,         /* the block turned to it */
    SV_STAMP_PACKED,        /* its bytes are gathered and stored, in one pass */
    SV_STAMP_STORED,        /* its bytes are stored */
    SV_STAMP_SIGNALLED,     /* what others wait for is released */
    SV_STAMP_SAW,           /* what it waited for is there */
    SV_STAMP_VERIFIED,      /* the digest is compared */
    SV_STAMP_LEFT,          /* the block is through with it */
    SV_STAMPS
};

typedef struct sv_stamp_line {
    uint64_t times;         /* how often it was begun */
    uint64_t at_ns[SV_STAMPS];
} sv_stamp_line_t;

/*
 * Reads the device's clock for the host. For each of so many rounds it waits until *ask is the round's number (from 1),
 * for wait_ns at most, stores the clock to answer[1], and releases the number to answer[0]. Before that answer[2] gets
 * the least step of the clock that was seen. ask and answer are pinned.
 */
typedef struct sv_clock_arg {
    const uint64_t *ask;
    uint64_t *answer;
    uint64_t rounds, wait_ns;
} sv_clock_arg_t;

/* A launch of either kernel. Blocks divide as first_block says; a smaller grid takes several of these shares each. */
typedef struct sv_batch_arg {
    const void *items;
    uint64_t *abort;           /* pinned, may be NULL. Not 0 there: wait no longer; a sticky failure stores 1 */
    uint64_t wait_ns;          /* how long to wait for credit or arrival; 0: the host has seen it */
    uint64_t epoch;
    uint8_t *const *bases;     /* of sv_gather and sv_scatter */
    sv_epoch_state_t *state;   /* of kernels that number themselves, which look at neither epoch nor key */
    uint32_t attempt;
    uint32_t flags;            /* SV_DIGEST_NONE, SV_BATCH_STICKY, SV_BATCH_UNLESS_FAILED */
    uint32_t npackets;
    uint32_t corrupted;        /* a fault: packet number corrupted - 1 of this launch has a bit flipped on the way */
    uint64_t key[SV_BATCH_PACKETS];
    uint32_t index[SV_BATCH_PACKETS];           /* of the item */
    uint32_t first_block[SV_BATCH_PACKETS + 1]; /* shares of packet i: from first_block[i] to first_block[i + 1] */
    uint32_t nbases_here;      /* how many of bases are in base as well, where a look at them costs nothing */
    uint8_t *base[SV_BATCH_BASES];
    sv_stamp_line_t *stamps;   /* of share 0; NULL: none are taken */
} sv_batch_arg_t;

/* A launch of both: blocks take their shares of the push first. */
typedef struct sv_run_arg {
    sv_batch_arg_t push, pull;
} sv_run_arg_t;

/* No host looks after every epoch: a failure stays in the result until it is taken. */
enum { SV_BATCH_STICKY = 8, SV_BATCH_UNLESS_FAILED = 16, /* nothing is done if the word after abort is not 0 */
       SV_BATCH_HOLDS_NEXT = 32, /* the next kernel of the stream is not brought in by this part */
       SV_BATCH_ENDS_EPOCH = 64, /* numbered by the device: the epoch is over with this launch */
       SV_BATCH_GRANTS = 128,    /* the same: gives leave for what comes straight to its place */
       SV_BATCH_UNHEARD = 256    /* of a push: no host of this rank waits for verdicts or credit of this epoch */ };

/* In the count of a word beside a record in device memory, and in the attempt of that record, with its epoch
   (batch_unheard()): its sender pushed with SV_BATCH_UNHEARD. */
enum { SV_WORD_UNHEARD = 1 << 23, SV_ATTEMPT_UNHEARD = 1 << 7 };

/* record, unless NULL, is copied to record_to (both aligned to 8 bytes) before the word is released. */
typedef struct sv_signal_arg {
    uint64_t *word;
    uint64_t value;
    const uint64_t *record;
    uint64_t *record_to;
    uint64_t *second;          /* a word that gets the same value first; may be NULL */
} sv_signal_arg_t;

/* Returns once word is at least epoch, abort is not 0, or the time is over. In the last case late (or NULL) gets the
   epoch and abort 1. All are pinned. */
typedef struct sv_await_arg {
    const uint64_t *word;
    uint64_t *abort, *late;
    uint64_t epoch, wait_ns;
} sv_await_arg_t;

typedef struct sv_delay_arg {
    uint64_t ns;
} sv_delay_arg_t;

typedef struct sv_flip_arg {
    uint8_t *byte;
    uint64_t mask;
} sv_flip_arg_t;

#ifdef __cplusplus
#define SV_LAYOUT_ASSERT(type, bytes) static_assert(sizeof(type) == (bytes), #type " has another layout")
#else
#define SV_LAYOUT_ASSERT(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another layout")
#endif
SV_LAYOUT_ASSERT(sv_record_t, 64);
SV_LAYOUT_ASSERT(sv_verify_result_t, 32);
SV_LAYOUT_ASSERT(sv_digest_scratch_t, 16);
SV_LAYOUT_ASSERT(sv_digest_arg_t, 224);
SV_LAYOUT_ASSERT(sv_rest_arg_t, 240);
SV_LAYOUT_ASSERT(sv_digest_job_t, 120);
SV_LAYOUT_ASSERT(sv_digests_arg_t, 1256);
SV_LAYOUT_ASSERT(sv_pack_level_t, 16);
SV_LAYOUT_ASSERT(sv_pack_arg_t, 248);
SV_LAYOUT_ASSERT(sv_runs_group_t, 24);
SV_LAYOUT_ASSERT(sv_runs_arg_t, 72);
SV_LAYOUT_ASSERT(sv_sum_arg_t, 24);
SV_LAYOUT_ASSERT(sv_touch_arg_t, 464);
SV_LAYOUT_ASSERT(sv_signal_arg_t, 40);
SV_LAYOUT_ASSERT(sv_epoch_state_t, 64);
SV_LAYOUT_ASSERT(sv_push_item_t, 192);
SV_LAYOUT_ASSERT(sv_pull_item_t, 240);
SV_LAYOUT_ASSERT(sv_piece_t, 152);
SV_LAYOUT_ASSERT(sv_stamp_line_t, 64);
SV_LAYOUT_ASSERT(sv_clock_arg_t, 32);
SV_LAYOUT_ASSERT(sv_batch_arg_t, 640);
SV_LAYOUT_ASSERT(sv_run_arg_t, 1280);
SV_LAYOUT_ASSERT(sv_await_arg_t, 40);
SV_LAYOUT_ASSERT(sv_delay_arg_t, 8);
SV_LAYOUT_ASSERT(sv_flip_arg_t, 16);

#endif
