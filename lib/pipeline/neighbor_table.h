/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks with which this one commits by neighbours, and with each of them the exchanges of the pair. Both are found
 * without a look at other ranks or their exchanges, so that a commit takes no longer however many there were before.
 * The communicator's set of exchanges owns the table; peers belong to their exchanges, and leave it before they are
 * freed. Engine thread only.
 */
#ifndef SV_PIPELINE_NEIGHBOR_TABLE_H
#define SV_PIPELINE_NEIGHBOR_TABLE_H

#include <selvage/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_list.h"

struct sv_peer;

enum { SV_NEIGHBOR_CHAINS = 256 }; /* a power of two */

typedef struct sv_neighbor_table {
    sv_list_t chain[SV_NEIGHBOR_CHAINS]; /* by number of rank */
} sv_neighbor_table_t;

/* A rank that has announced a commit, or was named in one: what it has announced last, and the turns here. */
typedef struct sv_neighbor {
    sv_list_t link;
    int rank;
    bool pending;              /* no commit here has taken it */
    uint64_t number, turn;     /* of its commit */
    uint64_t bytes;            /* of its descriptors */
    selvage_status_t left;     /* the error with which it left that commit, or SUCCESS */
    uint64_t turns_here;       /* commits of this rank that name it */
    sv_list_t pairs;           /* sv_peer_t.pair_link, of commits that name it and are not destroyed; the last first */
} sv_neighbor_t;

void sv_neighbor_table_init(sv_neighbor_table_t *table);
/* Frees all neighbours, whose exchanges are gone. */
void sv_neighbor_table_fini(sv_neighbor_table_t *table);
/* NULL: that rank was never named, nor has it announced anything. */
sv_neighbor_t *sv_neighbor_find(const sv_neighbor_table_t *table, int rank);
/* The same; makes one that is not there. */
selvage_status_t sv_neighbor_make(sv_neighbor_table_t *table, int rank, sv_neighbor_t **neighbor_out);
/* The peer becomes the pair's last one; harmless if it has already. It leaves by sv_list_remove(&peer->pair_link). */
void sv_neighbor_add_pair(sv_neighbor_t *neighbor, struct sv_peer *peer);

#endif
