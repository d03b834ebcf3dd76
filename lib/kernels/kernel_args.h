/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures that host and device share. Plain C and C++, fixed layout on every device, no host headers but stdint.
 */
#ifndef SV_KERNEL_ARGS_H
#define SV_KERNEL_ARGS_H

#include <stdint.h>

/*
 * The record: 64 bytes, little-endian, behind every packet on the wire. For a packet that moves in segments each
 * segment is followed by a record of kind SEGMENT, in which bytes is the segment's size, salt its offset in the
 * packet and digest 0; the last segment carries the packet's own record (kind PACKET, bytes of the whole packet).
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

/* What a verification found; lies in pinned memory, read by the host after the event behind the kernel. */
typedef struct sv_verify_result {
    uint64_t expected;    /* digest in the record */
    uint64_t found;       /* digest of the bytes that are there */
    uint32_t record_ok;   /* the record is the expected one (attempt and digest apart) */
    uint32_t verified;    /* record_ok and found equals expected (or no digests are used) */
    uint64_t reserved;
} sv_verify_result_t;

/* Scratch of one packet in device memory: zero before first use; the finishing kernel leaves it zero again. */
typedef struct sv_digest_scratch {
    uint64_t sum;
    uint32_t blocks_done;
    uint32_t reserved;
} sv_digest_scratch_t;

/* What the digest kernel does when the last block is through. */
enum {
    SV_DIGEST_ADD = 0,      /* only adds to the scratch: a segment that is not the last */
    SV_DIGEST_PREPARE = 1,  /* writes identity with the digest to record */
    SV_DIGEST_VERIFY = 2,   /* compares record with identity and the digest with what was found; writes result */
    SV_DIGEST_FINISH = 3,   /* mask of the above */
    SV_DIGEST_NONE = 4      /* flag: no digest is computed (and 0 is written, and none is expected) */
};

/*
 * One pass over bytes bytes of src: copies them to dst (unless NULL) and adds their part of the digest. src, dst and
 * record may have any alignment. signal, if not NULL, is released (system scope) with signal_value after everything
 * else, by PREPARE and VERIFY.
 */
typedef struct sv_digest_arg {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t bytes;
    uint64_t first_word;
    uint64_t key;
    sv_digest_scratch_t *scratch;
    uint8_t *record;
    sv_verify_result_t *result;
    uint64_t *signal;
    uint64_t signal_value;
    uint32_t mode;
    uint32_t reserved;
    sv_record_t identity;   /* digest member ignored */
} sv_digest_arg_t;

/* record, unless NULL, is copied to record_to (both aligned to 8 bytes) before the word is released. */
typedef struct sv_signal_arg {
    uint64_t *word;
    uint64_t value;
    const uint64_t *record;
    uint64_t *record_to;
} sv_signal_arg_t;

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
SV_LAYOUT_ASSERT(sv_digest_arg_t, 152);
SV_LAYOUT_ASSERT(sv_signal_arg_t, 32);
SV_LAYOUT_ASSERT(sv_delay_arg_t, 8);
SV_LAYOUT_ASSERT(sv_flip_arg_t, 16);

#endif
