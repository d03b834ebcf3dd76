/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of a communicator whose collective calls become messages (drop_tie.c), for drop_pairs.c. */
#ifndef SV_DROP_TIE_H
#define SV_DROP_TIE_H

#include "interpose/drop.h"

/* Freed with the communicator, once no call uses it any more. */
typedef struct sv_drop_tie {
    int n, me;
    int nfrom, nto, *from, *to; /* neighbours, ranks of it or MPI_PROC_NULL; -1: it has no topology */
    bool grid;       /* a Cartesian one; else they match in the order of both lists */
    bool short_ring; /* of one or two ranks, so that one rank is the neighbour on both sides */
    MPI_Comm own;    /* the same ranks, for calls of the drop-in's that do not block; MPI_COMM_NULL: not yet */
    unsigned calls;  /* that all ranks have entered, since the route has been open */
    bool needs;      /* this rank has made a call that could have used own */
    bool over;       /* own has been made, or could not be */
    int users;       /* calls under way, and the communicator; by the lock of requests */
    struct sv_drop_tie *next;
} sv_drop_tie_t;

/* Of a communicator of an opening (drop_agree.h). */
sv_drop_tie_t *sv_drop_tie_of(MPI_Comm comm);
void sv_drop_tie_hold(sv_drop_tie_t *tie);
void sv_drop_tie_release(sv_drop_tie_t *tie);

/* Which of a rank's blocks comes where, if a ring is so short that one rank is on both sides. MPI's forms of a call may
   differ in that. */
typedef enum sv_drop_ring { SV_DROP_RING, SV_DROP_RING_V, SV_DROP_RING_W, SV_DROP_RINGS } sv_drop_ring_t;
/* Whether what goes down comes from above, as the standard has it; else in the order of the lists. */
bool sv_drop_tie_crosses(sv_drop_ring_t form, bool blocks);

/* Whether MPI refuses no elements of this type. */
bool sv_drop_tie_refuses_none(MPI_Datatype type);
/* Whether it is a communicator of the drop-in's for messages of collective calls. */
bool sv_drop_tie_is_own(MPI_Comm comm);
void sv_drop_ties_end(void);

#endif
