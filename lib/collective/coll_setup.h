/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the set-up owe each other. Engine thread only, but for sv_coll_arena_drain(). */
#ifndef SV_COLL_SETUP_H
#define SV_COLL_SETUP_H

#include <string.h>

#include "collective/coll_handle.h"

enum { SV_COLL_SCRATCH_BYTES = 16 << 10, SV_COLL_UNMAP_TIMEOUT_S = 30, /* who parts may be the only one left */
       SV_COLL_ALIVE = 16 };

/* coll_arena.c: this rank's arena, not mapped yet. Local. */
selvage_status_t sv_coll_arena_make(selvage_comm_t *comm, uint32_t nchannels, uint64_t bytes,
                                    sv_coll_arena_t **arena_out);
/* Frees it; parted: no peer has its memory mapped any more, else that is set aside. */
void sv_coll_arena_free(sv_coll_arena_t *arena, bool unmapped);
/* Makes it as if nothing had used it yet; no rank's kernel may. */
selvage_status_t sv_coll_arena_clear(sv_coll_arena_t *arena);
/* coll_litmus.c: finds out whether LL128 can be used, the first time. Collective over the ranks of coll, which are all
   of the communicator; one status for all. */
selvage_status_t sv_coll_try_ll128(selvage_coll_t *coll);
/* Waits for copies of the set-up; settle: where that failed, so that what they use can be given up. */
selvage_status_t sv_coll_finish_copies(sv_coll_arena_t *arena);
void sv_coll_drain_copies(sv_coll_arena_t *arena);
/* Copies at most SV_COLL_SCRATCH_BYTES to this device's memory, and waits for that. */
selvage_status_t sv_coll_upload(sv_coll_arena_t *arena, void *dst, const void *src, size_t bytes);
/* Waits for the launches of the arena; those that do not end make it stuck. Application's thread, or at the end. */
void sv_coll_arena_drain(sv_coll_arena_t *arena);
/* A launch does not end: nothing of the communicator is unmapped from then on, since that would wait for it. */
void sv_coll_arena_set_stuck(sv_coll_arena_t *arena);
/* How long ranks that part wait for each other. */
double sv_coll_unmap_timeout(const selvage_comm_t *comm);

/* coll_map.c: makes and maps the arenas of all ranks of a communicator; collective over the team of all of them, one
   status for all. node: the team of this node's. On success it is comm->arena, without users. */
selvage_status_t sv_coll_arena_create(sv_team_t *all, sv_team_t *node, uint32_t nchannels, uint64_t bytes,
                                      uint64_t cache_bytes);
/* Gathers the items of a node; then all ranks of the communicator have one status, of the lowest with an error. */
selvage_status_t sv_coll_tell_node(sv_team_t *all, sv_team_t *node, const char *what, selvage_status_t status);
/* Lets go of peers' memory. Local. */
void sv_coll_arena_unmap(sv_coll_arena_t *arena);
/* Lets go of it on all ranks, then frees comm->arena; collective over the same team. */
void sv_coll_arena_close(sv_team_t *team);

/* coll_members.c: a communicator without ranks, with room for size of them; and its end, which detaches it. Local. */
selvage_status_t sv_coll_alloc(selvage_comm_t *comm, int size, selvage_coll_t **coll_out);
void sv_coll_free(selvage_coll_t *coll);
/* The first number that no rank uses; ERR_LIMIT. */
selvage_status_t sv_coll_pick_number(uint64_t used, unsigned *number_out);
/* Fills it in, given all.ranks, all.me, node_of and number, and makes what the device needs. Local. It is
   one of the arena's users then, on failure too. */
selvage_status_t sv_coll_init(selvage_coll_t *coll, sv_coll_arena_t *arena);
/* Undoes that. */
void sv_coll_detach(selvage_coll_t *coll);

/* coll_nodes_handed.c: makes the communicators of MPI's collectives, of a communicator that has everything else; NULL:
   this rank is in none. Collective over the team, all of whose ranks agree on what came of it. Nothing to do where none
   are used. */
selvage_status_t sv_coll_handed_connect(selvage_coll_t *coll, sv_team_t *team, const char *what, uint64_t number);

/* coll_window.c: lets go of the windows of a communicator, which then wait to be unregistered; coll NULL: of all, and
   frees them. Local. */
void sv_coll_withdraw_windows(sv_coll_arena_t *arena, const selvage_coll_t *coll);
/* A window of the library's own memory, which lives as long as the arena. Collective over the ranks of this node, with
   one status for these; nothing to do where there is one already. */
selvage_status_t sv_coll_window_own(selvage_coll_t *coll, void *ptr, size_t bytes);

/* coll_composed.c: the room of composed calls of so many ranks, if it is not there yet; exact: large enough for exact
   sums to be fast. Local. Partner: sv_coll_room_free(), with no call under way; unmapped: no peer has it mapped any
   more. */
selvage_status_t sv_coll_room_make(sv_coll_arena_t *arena, int ranks, bool exact);
void sv_coll_room_free(sv_coll_arena_t *arena, bool unmapped);
/* Lets direct algorithms reach it. Collective over the ranks of this node, with one status for these. */
selvage_status_t sv_coll_room_map(selvage_coll_t *coll);
/* Whether no stream uses it any more, for so long at most. */
bool sv_coll_room_drain(sv_coll_arena_t *arena, double timeout_s);

static inline bool sv_coll_is_soft(const sv_device_t *dev)
{
    return strcmp(dev->ops->name, "soft") == 0;
}

/* The team of a communicator's ranks on this node. */
static inline sv_team_t *sv_coll_node_team(selvage_coll_t *coll)
{
    return coll->spans ? &coll->node : &coll->all;
}

#endif
