/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mapping cache: device memory of other ranks of the node that is mapped here. Exchanges, collectives and messages
 * map through it. Each cache has one mapping of a rank's handle, with a count of users, because opening one costs
 * milliseconds on GPUs and may be refused a second time. Two caches may each have one of the same memory.
 *
 * Closing a mapping may wait for all work of the device (device.h), so it is done only where a wait is allowed:
 *
 *   a communicator's cache   closes a mapping with its last user; all calls that unmap there may wait
 *   a message engine's       closes nothing in unmap, since polls unmap; sv_transfer_cache_trim() says what is to go,
 *                            and waits for messages close that. Only when an open would leave far too many idle ones,
 *                            or the same handle is still open, it closes some first
 *
 * Memory that its owner frees is not free before the mappings of it are closed. An idle mapping stays for the next
 * message, which most likely is to the same memory, but only if it may be kept. It goes when its owner has other memory
 * at its addresses, when there are many, and when it has been idle for long.
 *
 * A handle that opens without an error may still lead elsewhere: runtimes have given out stale ones, and containers can
 * make two processes look like one. What is proved by a token that its owner stored and the other rank reads: the slab
 * of each peer of an exchange that maps device memory; and arenas, where the other rank stores an answer, too. Nothing
 * proves registered buffers, windows, the slots of messages and the memory of long messages. There digests find bytes
 * that went elsewhere, and where a program has no digests, nothing does.
 *
 * A cache has no lock. That of a communicator is used by its engine thread alone, in commits, ends and collective
 * set-up; that of a message engine under the lock of the engine. What was trimmed belongs to its caller.
 */
#ifndef SV_TRANSFER_MAPPING_H
#define SV_TRANSFER_MAPPING_H

#include <stdbool.h>

#include "base/base_config.h"
#include "base/base_list.h"
#include "device/device.h"

/* Of mappings that are idle: how many stay, how much they hold together, and for how long. */
typedef struct sv_transfer_limits {
    uint32_t idle_most;
    uint64_t idle_bytes, idle_ns;
} sv_transfer_limits_t;

typedef struct sv_transfer_cache {
    sv_list_t mappings;        /* those in use in any order, idle ones by how long they are: the longest first */
    bool closes_later;         /* a message engine's */
    sv_transfer_limits_t limits; /* of such a one */
    uint32_t nidle;            /* mappings without a user, and ... */
    uint64_t idle_bytes;       /* ... how much of their owners' memory they hold */
    uint64_t trim_ns;          /* before that time nothing is to be closed */
} sv_transfer_cache_t;

typedef struct sv_transfer_mapping {
    sv_list_t link;
    sv_transfer_cache_t *cache;
    sv_device_t *dev;
    int peer;
    unsigned users;
    sv_device_handle_t handle;
    void *base;                /* here */
    uint64_t bytes;            /* from base, as the owner announced with the handle */
    bool kept;                 /* may be used again after its last user has left */
    bool stale;                /* nobody finds it any more */
    uint64_t remote_base;      /* where its owner has it; 0: not told */
    uint64_t left_ns;          /* when the last user left it */
} sv_transfer_mapping_t;

/* A part of an allocation of another rank, as that rank has told. */
typedef struct sv_transfer_memory {
    int peer;
    const sv_device_handle_t *handle;
    uint64_t base;             /* where its owner has the allocation, in a message; else 0 */
    uint64_t offset, bytes;    /* what is to be used of it */
    bool kept;                 /* its owner's allocations have numbers, so that a handle never means another one */
} sv_transfer_memory_t;

/* config: which limits idle mappings have; NULL: there are none, and a mapping closes with its last user. */
void sv_transfer_cache_init(sv_transfer_cache_t *cache, const sv_config_t *config);
/* Closes all that are left, also those whose users ended without leave: nobody reaches through them any more. */
void sv_transfer_cache_close(sv_transfer_cache_t *cache);
/* Forgets all that are left, and closes none: for a device whose work does not end, which closing would wait for. */
void sv_transfer_cache_abandon(sv_transfer_cache_t *cache);
/* Whether anything is to be closed. As cheap. */
bool sv_transfer_cache_is_due(sv_transfer_cache_t *cache, uint64_t now_ns);
/* Moves what is to be closed to the list `trimmed`, which is initialized. One compare while that is nothing; now_ns may
   be a little late. Partner: sv_transfer_close_trimmed(). */
void sv_transfer_cache_trim(sv_transfer_cache_t *cache, uint64_t now_ns, sv_list_t *trimmed);
/* May wait for all work of the device. Without the lock of the cache. */
void sv_transfer_close_trimmed(sv_list_t *trimmed);

/* Finds or opens the mapping, which has one user more. ERR_MISMATCH if what is to be used does not lie in it. Partner:
   sv_transfer_unmap(). */
selvage_status_t sv_transfer_map(sv_transfer_cache_t *cache, sv_device_t *dev, const sv_transfer_memory_t *memory,
                                 sv_transfer_mapping_t **mapping_out);
/* Whether an error of map is about the memory, so that other memory of that rank most likely fails alike. Else it is
   about this moment or these numbers. */
static inline bool sv_transfer_never_maps(selvage_status_t status)
{
    return status == SELVAGE_ERR_UNSUPPORTED || status == SELVAGE_ERR_DEVICE;
}
/* One user less. Accepts NULL. */
void sv_transfer_unmap(sv_transfer_mapping_t *mapping);

/* The number that the owner of memory stores there; never 0. seed: what no other memory of the job has. */
uint64_t sv_transfer_token(uint64_t seed);
/* What this rank, having read the token through its mapping, stores there. */
uint64_t sv_transfer_answer(uint64_t token, uint32_t rank);
#endif
