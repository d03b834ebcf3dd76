/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of dropin_unmodified share. */
#ifndef SELVAGE_TESTS_DROPIN_UNMODIFIED_H
#define SELVAGE_TESTS_DROPIN_UNMODIFIED_H

#include <mpi.h>
#include <selvage.h>

enum { BYTES = 4096 };

typedef struct unmodified {
    const char *program; /* file of this one */
    selvage_device_t *device;
    void *stream, *out, *in, *pinned; /* of BYTES bytes */
    int rank, ranks, right, left;
    void (*after)(void); /* what is to be checked after MPI_Finalize */
} unmodified_t;
extern unmodified_t the;

void *device_bytes(size_t bytes);

/* dropin_announced.c */
void run_early(void);
void run_pairs(void);
void run_owed(void);
void run_damaged(void);
void run_probes(void);
void run_meets(void);
void run_levels(void);
void run_spawn(void);

/* dropin_requests.c */
void run_requests(void);
void run_again(void);
void run_repeats(void);
void run_many(void);
void run_most(void);

/* dropin_opening.c */
void run_attributes(void);
void run_refused(void);
void run_lopsided(void);
void run_lopsided_part(void);
void run_ending(void);

/* dropin_begun.c */
void run_begun(void);
void run_begun_alone(void);

/* dropin_channels.c */
void run_channels_ahead(void);
void run_channels_refused(void);
void run_channels_freed(void);
void run_channels_ending(void);
void run_channels_interleaved(void);

/* dropin_blocks.c */
void run_blocks(void);
void run_blocks_unheard(void);
void run_blocks_damaged(void);

/* dropin_neighbors.c */
void run_neighbors(void);
void run_neighbors_and_barriers(void);
void run_neighbors_apart(void);
void run_neighbors_unheard(void);
void run_neighbors_damaged(void);

/* dropin_ledger.c */
void run_ledger(void);

/* dropin_probes.c */
void run_looks(void);
void run_orphans(void);
void run_stuck(void);

/* dropin_leftover.c */
void run_freed(void);
void run_buffered(void);
void run_turns(void);

/* dropin_lists.c */
void run_lists(void);
void run_nested(void);
void run_listener(void);

/* dropin_persistent.c */
void run_persistent(void);
void run_persistent_freed(void);
void run_persistent_refused(void);
void run_persistent_threads(void);
void run_persistent_damaged(void);

/* dropin_pinned.c */
void run_pinned(void);
void run_given_back(void);

/* dropin_numbers.c */
void run_numbers(void);
void run_numbers_begun(void);

/* dropin_reduced.c */
void run_reduced(void);
void run_reduced_refused(void);
void run_reduced_apart(void);
void run_reduced_after_work(void);
void run_reduced_many(void);
void run_reduced_ending(void);
void run_reduced_damaged(void);

/* dropin_sums.c */
void run_sums(void);
void run_sums_among(void);
void run_sums_beside_writer(void);
void run_sums_by_parts(void);
void run_unheard(void);
void run_adders(void);
void run_mixed(void);

/* dropin_moved.c */
void run_moved(void);
void run_apart(void);
void run_field(void);

/* dropin_errors.c */
void run_errors(void);
void run_short(void);

/* dropin_short.c */
void run_among(void);

/* dropin_fragments.c */
void run_fragments(void);
void run_fragments_matched(void);
void run_fragments_of_host(void);
void run_fragments_meet(void);
void run_fragments_in_turn(void);
void run_fragments_short(void);
void run_fragments_freed(void);
void run_fragments_timed(void);

/* dropin_failing.c */
void run_stopped(void);

/* Collective calls on device memory, and messages, until the route is open between neighbours, if it ever is: on a
   crowded machine that takes a while. The other one leaves out those calls. Collective. */
void open_fast_route(void);
void open_fast_pairs(void);

#endif
