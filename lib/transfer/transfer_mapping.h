/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mapping cache: device memory of other ranks of the node that is mapped here. Exchanges, collectives and messages
 * map through it. There is one mapping for each pair of a rank and a handle, with a count of users, because opening one
 * costs milliseconds on GPUs and may be refused a second time.
 *
 *   sv_transfer_map()        closes with its last user: for what an exchange or an arena holds all its life
 *   sv_transfer_map_kept()   stays open without a user: for messages, whose next one most likely is to the same memory
 *
 * Memory that its owner frees is not free before the mappings of it are closed. So a kept mapping goes when its owner
 * has another allocation at the same address, when there are many, and when it has been idle for long.
 *
 * A handle that opens without an error may still lead elsewhere: runtimes have given out stale ones, and containers can
 * make two processes look like one. So whoever maps memory for good proves the mapping: its owner stores a token there,
 * the other rank reads it through the mapping, and where it is to write, stores an answer. Messages are proved by their
 * digests, each by itself.
 *
 * A cache belongs to a communicator or to a message engine, and is used under its lock.
 */
#ifndef SV_TRANSFER_MAPPING_H
#define SV_TRANSFER_MAPPING_H

#include <stdbool.h>

#include "base/base_list.h"
#include "device/device.h"

typedef struct sv_transfer_cache {
    sv_list_t mappings;        /* the oldest first */
    uint32_t nkept;            /* of them, those that stay open without a user */
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
    bool kept;                 /* while nobody uses it */
    uint64_t remote_base;      /* where its owner has it; kept ones only, else 0 */
    uint64_t reached_bytes;    /* how far users have reached into it; kept ones only */
    uint64_t left_ns;          /* when the last user left it */
} sv_transfer_mapping_t;

void sv_transfer_cache_init(sv_transfer_cache_t *cache);
/* Closes all that are left, also those whose users ended without leave: nobody reaches through them any more. */
void sv_transfer_cache_close(sv_transfer_cache_t *cache);

/* Finds or opens the mapping, which has one user more. Partner: sv_transfer_unmap(). */
selvage_status_t sv_transfer_map(sv_transfer_cache_t *cache, sv_device_t *dev, int peer,
                                 const sv_device_handle_t *handle, sv_transfer_mapping_t **mapping_out);
/* Does so for an allocation that its owner has at remote_base, of which reached_bytes are to be used. kept says whether
   the mapping may stay open. Closes idle ones first if it is a new one. */
selvage_status_t sv_transfer_map_kept(sv_transfer_cache_t *cache, sv_device_t *dev, int peer,
                                      const sv_device_handle_t *handle, uint64_t remote_base, uint64_t reached_bytes,
                                      bool kept, sv_transfer_mapping_t **mapping_out);
/* ERR_MISMATCH if bytes at an offset that its owner gave do not lie in the mapping; to be asked before any is used. */
selvage_status_t sv_transfer_mapping_bound(const sv_transfer_mapping_t *mapping, uint64_t offset, uint64_t bytes);
/* One user less. Accepts NULL. */
void sv_transfer_unmap(sv_transfer_mapping_t *mapping);

/* The number that the owner of memory stores there; never 0. seed: what no other memory of the job has. */
uint64_t sv_transfer_token(uint64_t seed);
/* What this rank, having read the token through its mapping, stores there. */
uint64_t sv_transfer_answer(uint64_t token, uint32_t rank);
#endif
