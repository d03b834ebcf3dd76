/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering for set-up: every rank of a team writes one item and gets those of all. Also the agreement of a team,
 * because items bear a status, and a barrier. Engine thread only.
 */
#ifndef SV_COLL_GATHER_H
#define SV_COLL_GATHER_H

#include "base/base_thread.h"
#include "collective/coll_handle.h"

enum { SV_COLL_ITEM_VALUES = 6, SV_COLL_SETUP_TAG = 5 }; /* the set-up channel: up to 4 taken below, commits from 16 */

typedef struct sv_coll_item {
    uint64_t nonce;            /* filled by the gathering: of the communicator */
    uint64_t call;             /* filled by the gathering: which call, and on what */
    int64_t status;            /* the same: a selvage_status_t */
    uint64_t value[SV_COLL_ITEM_VALUES];
    sv_device_handle_t handle; /* or any other bytes */
    uint64_t check;            /* the same: a digest of all before it, in whose key is the rank that wrote it */
} sv_coll_item_t;

/* Makes room for a team; the caller fills in ranks and me. Partner: sv_coll_team_fini(), which also takes a zeroed
   struct. */
selvage_status_t sv_coll_team_init(sv_coll_team_t *team, selvage_comm_t *comm, int size);
void sv_coll_team_fini(sv_coll_team_t *team);

/* Empties the own item, to be filled before a gathering; and the item of a rank, after it. */
sv_coll_item_t *sv_coll_item_begin(sv_coll_team_t *team);
const sv_coll_item_t *sv_coll_item_of(const sv_coll_team_t *team, int rank);

/*
 * Gathers the items. Returns the status of the lowest rank that brought an error, on all alike; ERR_MISMATCH if ranks
 * are in different calls (what) or on different objects (key). A wire that fails or a rank that does not come within
 * timeout_s breaks the communicator, as in sv_agree().
 */
selvage_status_t sv_coll_gather(sv_coll_team_t *team, const char *what, uint64_t key, selvage_status_t status,
                                double timeout_s);

/* A piece of set-up that runs where the engine lives; begins a struct with its arguments. */
typedef struct sv_coll_task {
    selvage_status_t (*run)(struct sv_coll_task *task);
    selvage_status_t status;
    char detail[SV_DETAIL_BYTES];
} sv_coll_task_t;

/* Runs it there; its error's detail becomes that of the calling thread. */
selvage_status_t sv_coll_task_run(selvage_comm_t *comm, sv_coll_task_t *task);

#endif
