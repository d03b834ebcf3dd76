/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective calls as messages between pairs of ranks that do not ask each other (drop_pairs.c), for drop_coll.c. */
#ifndef SV_DROP_PAIRS_H
#define SV_DROP_PAIRS_H

#include "interpose/drop.h"
#include "interpose/drop_tie.h"

/* Who sends to whom: each rank to its neighbours, to all, or to and from the root. */
typedef enum sv_drop_pattern {
    SV_DROP_NEIGHBORS, SV_DROP_ALL, SV_DROP_TO_ROOT, SV_DROP_FROM_ROOT
} sv_drop_pattern_t;

/* One buffer of a call, and what its blocks are. same: there is one, for each peer. */
typedef struct sv_drop_pairs_side {
    const void *buf;
    sv_drop_list_t list;
    bool same;
} sv_drop_pairs_side_t;

typedef struct sv_drop_pairs {
    const char *name;
    MPI_Comm comm;
    sv_drop_pattern_t pattern;
    sv_drop_ring_t ring; /* of a call to neighbours */
    int root;            /* if it has one */
    bool alike;          /* all ranks know how long the blocks are, and short ones are left to MPI */
    sv_drop_pairs_side_t out, in;
} sv_drop_pairs_t;

/* True if that has been done, with MPI's code: all of it, or, for the second, what begins it. */
bool sv_drop_make_pairs(const sv_drop_pairs_t *call, int *code);
bool sv_drop_begin_pairs(const sv_drop_pairs_t *call, MPI_Request *request, int *code);
/* True if all ranks make messages of a persistent call at each start. device: this rank gives device memory. */
bool sv_drop_persist_pairs(const sv_drop_pairs_t *call, bool device, MPI_Request *request);

/* Counts what has been sent of device memory since the call of that name began, for the report. Returns it for the
   timeline. */
int64_t sv_drop_count_pairs(const char *name);
/* Bytes of device memory that this thread has sent in messages of collective calls, by either way, since it has asked
   before (drop_report.c). None without a report. */
void sv_drop_count_parts(int64_t *fast_out, int64_t *staged_out);

#endif
