/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering for set-up: every rank of a team writes one item and gets those of all. Also the agreement of a team,
 * because items bear a status, and a barrier. Engine thread only.
 */
#ifndef SV_COMM_GATHER_H
#define SV_COMM_GATHER_H

#include "comm/comm.h"

enum { SV_GATHER_VALUES = 6, SV_GATHER_WORDS = 2 };
enum { SV_GATHER_TAG = 5 }; /* the set-up channel: up to 4 taken below, commits from 40 */

typedef struct sv_gather_item {
    uint64_t nonce;            /* filled by the gathering: of the communicator */
    uint64_t call;             /* filled by the gathering: which call, and on what */
    int64_t status;            /* the same: a selvage_status_t */
    uint64_t value[SV_GATHER_VALUES];
    sv_device_handle_t handle; /* or any other bytes */
    uint64_t check;            /* the same: a digest of all before it, in whose key is the rank that wrote it */
} sv_gather_item_t;

/* Ranks that set something up together, in order. */
typedef struct sv_team {
    selvage_comm_t *comm;
    int *ranks;                /* of comm; owned */
    int size, me;
    sv_gather_item_t *items;   /* of all ranks; owned, made beforehand: nobody lacks memory in the middle; NULL: at
                                  rest */
    sv_gather_item_t *out, *in; /* messages, in which items are there more than once; owned, made beforehand */
    bool set_aside;            /* the wire may still use the items: they are never freed */
    const uint32_t *stop;      /* a word that ends a gathering, or NULL */
} sv_team_t;

/* Makes room for a team; the caller fills in ranks and me. Partner: sv_team_fini(), which also takes a zeroed
   struct. */
selvage_status_t sv_team_init(sv_team_t *team, selvage_comm_t *comm, int size);
selvage_status_t sv_team_init_resting(sv_team_t *team, selvage_comm_t *comm, int size);
void sv_team_fini(sv_team_t *team);

/* A team at rest has no room for the items of all, which are most of its memory: nothing is gathered then, but least
   values and comparisons are. This makes that room, once. */
selvage_status_t sv_team_wake(sv_team_t *team);

/* Empties the own item, to be filled before a gathering; returns the item of a rank, after it. */
sv_gather_item_t *sv_gather_item_begin(sv_team_t *team);
const sv_gather_item_t *sv_gather_item_of(const sv_team_t *team, int rank);

/*
 * Gathers the items. Returns the status of the lowest rank that brought an error, on all alike. ERR_MISMATCH if ranks
 * are in different calls (what) or on different objects (key). As in sv_agree(), the communicator breaks if a wire
 * fails or a rank does not come within timeout_s.
 */
selvage_status_t sv_gather(sv_team_t *team, const char *what, uint64_t key, selvage_status_t status,
                           double timeout_s);

/* Gathers a few words of each rank, `width` of them, at most SV_GATHER_WORDS: those of rank r are at words[r * width],
   and the own ones are there before. The memory is the caller's, and made beforehand. Nothing else grows with the
   ranks, and the team may be at rest. No rank brings a status: it has told that by a least value. Errors are those of a
   gathering; but ranks that are in different calls break the communicator. */
selvage_status_t sv_gather_words(sv_team_t *team, const char *what, uint64_t key, unsigned width, uint64_t *words,
                                 double timeout_s);

/* The least of all ranks' values, in O(log n) messages of one item and with no memory for the others. Status, errors
   and the deadline are those of a gathering; but ranks that are in different calls break the communicator. *value is
   there with a status that a rank has brought, too. */
selvage_status_t sv_gather_least(sv_team_t *team, const char *what, uint64_t key, selvage_status_t status,
                                 uint64_t *value, double timeout_s);

/* A gathering, or a comparison, and its round that is under way. */
typedef struct sv_gather_round {
    sv_team_t *team;
    const char *what;
    uint64_t key;
    double timeout_s;
    bool is_over;              /* the deadline has passed since anything moved */
    int64_t known;             /* ranks from here on whose items are in hand; more of them: something has moved */
    sv_wire_request_t in, out;
    bool in_open, out_open;
    bool taken;                /* what came in this round is in hand */
    sv_gather_item_t item, other; /* of a comparison: the own one, and what came */
    uint64_t *words;           /* of all ranks, so many of each, where these are gathered: */
    unsigned width;            /* item says what call that is */
} sv_gather_round_t;

/*
 * Whether all ranks of the team bring the same digest: the same answer on all of them. By dissemination as sv_agree()
 * has it, of the least and the greatest: ceil(log2 n) messages of one item each way, however many ranks there are. It
 * is a barrier, too. Nothing waits: after _begin(), _step() is called until it is not IN_PROGRESS, and told when the
 * deadline is over. Errors are those of sv_gather(), with which it takes turns on the wire in the order of the calls;
 * but ranks that are in another call break the communicator.
 */
void sv_gather_compare_begin(sv_gather_round_t *round, sv_team_t *team, const char *what, uint64_t key, uint64_t digest,
                             double timeout_s);
selvage_status_t sv_gather_compare_step(sv_gather_round_t *round, bool is_over, bool *same_out);

#endif
