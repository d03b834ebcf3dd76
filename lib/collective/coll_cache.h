/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache: users' memory that peers have mapped though nobody registered it, for direct algorithms. The
 * kernels decide by what each rank says in its entry line, window or none, so that ranks need not agree about it.
 *
 *   owner                                            peer
 *   -----                                            ----
 *   a call has a buffer for the second time:
 *   offers it in its outbox, with a version   --->   next call: opens the handle, puts the place into its own table,
 *   a later call sees that all have answered  <---   answers with the version, and how many calls it has launched
 *   and says the window's number in its entry --->   its kernel looks into the table
 *
 * A peer may be calls ahead, with kernels on its device that have looked into its table. So a number is said only in
 * calls that come after those which the peers had launched before they answered.
 *
 * A number is said only of memory that belongs to the same allocation as when it was offered: the device has a number
 * for each allocation, which it never gives again. So memory that was freed, and given out again at the same address,
 * is other memory. A number stands for other memory only once all launches in which this rank has said it are complete.
 * Then no kernel looks it up any more, because each of these calls has ended with everybody's fin.
 *
 * Once a call has been captured into a graph, its rank neither says numbers nor answers: a replay would say a number
 * again when it is another buffer's, and is counted by no host.
 *
 * What peers have mapped stays occupied when it is freed, until they close it. So no allocation is mapped that is
 * longer than all that may be offered, and a buffer that was in no call for long is withdrawn: it is offered anew as
 * nothing. Peers close what they do not use any more where waiting is allowed, and when they map much else.
 *
 * An outbox is memory that the ranks of the node share. All functions run on the application's one thread, but for
 * those of the set-up.
 */
#ifndef SV_COLL_CACHE_H
#define SV_COLL_CACHE_H

#include "collective/coll_handle.h"

typedef struct sv_coll_cache sv_coll_cache_t;

/* Makes this rank's outbox and opens those of the peers: collective over all ranks of the communicator, one status for
   all. node: the team of this node's. Without an outbox a rank works as without a cache. */
selvage_status_t sv_coll_cache_create(sv_coll_arena_t *arena, sv_team_t *all, sv_team_t *node);
/* Lets go of what is the peers'; then, once all have, frees the rest. Accept an arena without a cache. */
void sv_coll_cache_unmap(sv_coll_arena_t *arena);
void sv_coll_cache_free(sv_coll_arena_t *arena);

/* For a communicator that is being made, and has made no call: whatever is mapped was before all of its calls, though a
   communicator that had its number may have made many, and had other ranks. */
void sv_coll_cache_begin(const selvage_coll_t *coll);

/* Whether this rank can offer anything. */
bool sv_coll_cache_offers(const selvage_coll_t *coll);

/* Before calls are launched on that stream: answers what peers have offered. While that is nothing, one look at memory
   for each peer. */
void sv_coll_cache_poll(sv_coll_arena_t *arena, void *stream);

/* Withdraws what was in no call for long, answers what peers have offered and withdrawn, and says whether mappings are
   to be closed, which it does if gives_back. Accepts an arena without a cache. */
bool sv_coll_cache_trim(sv_coll_arena_t *arena, bool gives_back);

/* As sv_coll_window_find(), of the cache, for the call that has coll->sequence. id: of the buffer's allocation, as the
   device says now. 0: not yet, or never; then it may have been offered. */
uint64_t sv_coll_cache_find(selvage_coll_t *coll, uint64_t id, const void *ptr, uint64_t bytes);

#endif
