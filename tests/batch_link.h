/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sender and a receiver on one device, for tests of the kernels that move batches of packets. A link has up to
 * SV_BATCH_PACKETS packets of odd sizes at odd places, everything that the kernels are told about them, and for every
 * piece of memory an image of what must be in it, guard bytes included. A test says what it expects, then asks for the
 * first difference. Device memory is reached by copies alone, so all of it runs on GPUs as well.
 *
 * One thread per link; the caller sees to it that the streams are idle where it stores or compares.
 */
#ifndef SELVAGE_TESTS_BATCH_LINK_H
#define SELVAGE_TESTS_BATCH_LINK_H

#include "check.h"
#include "device/device.h"
#include "kernels/kernels.h"

/* Memory that kernels work on, device memory or pinned, beside two pinned images of it. */
typedef struct link_memory {
    const char *name;
    bool pinned;
    uint64_t bytes;
    uint8_t *at;   /* what kernels are given */
    uint8_t *want; /* what must be there */
    uint8_t *seen; /* what was there */
} link_memory_t;

/* What hosts read, per packet; pinned. */
typedef struct link_words {
    uint64_t arrived, sent, failed, done, verdict;
    sv_verify_result_t result;
    uint64_t record_seen[8];
} link_words_t;

typedef struct link_shape {
    unsigned npackets, nslots;
    unsigned shares;   /* of a packet, at most */
    unsigned seed;
    unsigned sizes;    /* how many of the sizes, from the smallest, are used; 0: all */
    bool pinned;       /* slots and records are in pinned memory */
    bool in_place;     /* the receiver verifies and copies nothing */
    bool recorded;     /* the receiver waits for a word of the record's own as well */
    bool complete;     /* no word is left out */
} link_shape_t;

/* Where a packet's parts are, as offsets into the link's memories. */
typedef struct link_packet {
    uint64_t source, slot, slot_stride, record, record_stride, near, credit, recorded, target;
    uint32_t count; /* in the words; 0 is 1 */
    bool has_near, has_arrived, has_verdict, has_credit, has_credit_near, has_seen;
    sv_record_t identity;
} link_packet_t;

typedef struct link {
    sv_device_t *dev;
    void *stream; /* for stores and comparisons; not owned */
    link_shape_t shape;
    uint64_t random;
    link_packet_t packet[SV_BATCH_PACKETS];
    link_memory_t source, slots, records, target, words, scratch, push_items, pull_items, abort;
    sv_batch_arg_t arg;
    char difference[96];
} link_t;

/* What changes from launch to launch. */
typedef struct link_run {
    uint64_t epoch;
    uint32_t attempt, flags;
    uint64_t wait_ns;
    unsigned nblocks; /* 0: one per share */
    uint32_t corrupted;
} link_run_t;

void link_open(link_t *link, sv_device_t *dev, void *stream, const link_shape_t *shape);
void link_close(link_t *link);

void link_memory_open(sv_device_t *dev, link_memory_t *memory, const char *name, uint64_t bytes, bool pinned);
void link_memory_close(sv_device_t *dev, link_memory_t *memory);
/* Makes the memory what it must be. */
void link_memory_store(sv_device_t *dev, const link_memory_t *memory, void *stream);
/* Offset of the first byte that is not what it must be; -1: none. */
long link_memory_compare(sv_device_t *dev, const link_memory_t *memory, void *stream);

/* Other bytes to send, in the image only. */
void link_new_data(link_t *link);
/* Everything becomes what it must be. */
void link_store(link_t *link);
/* The first thing that is not what it must be, "" for none; to be compared with CHECK_STR. */
const char *link_difference(link_t *link);

unsigned link_shares(const link_t *link);
void link_push(link_t *link, const link_run_t *run, void *stream);
void link_pull(link_t *link, const link_run_t *run, void *stream);

/* Images of what packet i leaves behind. These read the images as they are, so bytes may be damaged in between. */
void link_expect_push(link_t *link, unsigned i, const link_run_t *run);
void link_expect_no_push(link_t *link, unsigned i, const link_run_t *run);
/* Gives the outcome. */
uint32_t link_expect_pull(link_t *link, unsigned i, const link_run_t *run);
void link_expect_no_pull(link_t *link, unsigned i, const link_run_t *run);

/* In the images: the words of packet i for which a push waits, and a pull (of this epoch); the same on the device. */
uint64_t *link_credit(link_t *link, unsigned i);
uint64_t *link_recorded(link_t *link, unsigned i);
uint64_t *link_arrival(link_t *link, unsigned i, uint64_t epoch);
/* The least count in a word that says that packet i arrived. */
uint32_t link_count(const link_t *link, unsigned i);
uint64_t *link_at(const link_memory_t *memory, const uint64_t *in_image);
link_words_t *link_words(link_t *link, unsigned i);
uint8_t *link_record(link_t *link, unsigned i, uint64_t epoch);
uint8_t *link_payload(link_t *link, unsigned i, uint64_t epoch);

static inline uint64_t link_word(uint64_t epoch, uint32_t attempt, uint32_t count)
{
    return epoch << 32 | (uint64_t)(attempt & 0xff) << 24 | count;
}

#endif
