/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of a communicator whose collective calls become messages (drop_tie.c), for drop_pairs.c. */
#ifndef SV_DROP_TIE_H
#define SV_DROP_TIE_H

#include "interpose/drop.h"

/* Messages of one channel have so many tags, from the channel's number times that on. */
enum { SV_DROP_CHANNEL_TAGS = 128 };

typedef struct sv_drop_tie {
    int n, me;
    int nfrom, nto, *from, *to; /* neighbours, ranks of it or MPI_PROC_NULL; -1: it has no topology */
    bool grid;           /* a Cartesian one; else they match in the order of both lists */
    bool short_ring;     /* of one or two ranks, so that one rank is the neighbour on both sides */
    int channel;         /* of its messages; 0: it has none yet */
    bool born;           /* its ranks were asked for one when the communicator was made */
    bool over;           /* it has one, or will never have one */
    bool needs;          /* this rank has made a call that could have used it */
    unsigned met;        /* calls that all ranks have entered with the route open */
} sv_drop_tie_t;

/* Freed with the communicator. */
sv_drop_tie_t *sv_drop_tie_of(MPI_Comm comm);

/* Whether MPI_Finalize has not begun, and calls on it may become messages: it has a channel, or its ranks have the
   route, so that it can get one. */
bool sv_drop_tie_reaches(MPI_Comm comm);
/* After a call on all of its ranks that has made the communicator. One with neighbours gets a channel. */
void sv_drop_tie_begin(MPI_Comm comm);
static inline int sv_drop_born(int code, const MPI_Comm *comm)
{
    if (__builtin_expect(sv_drop_pairs_wanted, 0) && code == MPI_SUCCESS)
        sv_drop_tie_begin(*comm);
    return code;
}
/* After a call that has succeeded, from which no rank returns before all have entered it, if it has bytes. It may give
   the communicator a channel. */
void sv_drop_tie_meet(MPI_Comm comm);
static inline int sv_drop_met(MPI_Comm comm, int64_t count, MPI_Datatype type, int code)
{
    if (__builtin_expect(sv_drop_pairs_wanted, 0) && code == MPI_SUCCESS && count > 0 && sv_drop_type_has_bytes(type))
        sv_drop_tie_meet(comm);
    return code;
}

/* The forms of calls with a block for each neighbour. */
typedef enum sv_drop_ring { SV_DROP_RING, SV_DROP_RING_V, SV_DROP_RING_W, SV_DROP_RINGS } sv_drop_ring_t;
/* Which block comes where, if one rank is a neighbour more than once. By side: what goes down in a grid comes from
   above, as the standard has it. Else the messages between two ranks match in the order of both lists, or in the order
   of one and the reverse of the other. MPI's forms of a call differ in that, and this one does as MPI does. */
typedef enum sv_drop_order { SV_DROP_BY_SIDE, SV_DROP_IN_ORDER, SV_DROP_REVERSED } sv_drop_order_t;
sv_drop_order_t sv_drop_tie_order(const sv_drop_tie_t *tie, sv_drop_ring_t form, bool blocks);

/* Whether MPI refuses no elements of this type. */
bool sv_drop_tie_refuses_none(MPI_Datatype type);
/* Whether MPI refuses one buffer for both sides of such a call, of the same type, count and lists. */
typedef enum sv_drop_alias {
    SV_DROP_ALIAS_ALLTOALL, SV_DROP_ALIAS_ALLGATHER, SV_DROP_ALIAS_GATHER, SV_DROP_ALIAS_SCATTER
} sv_drop_alias_t;
bool sv_drop_tie_refuses_same(sv_drop_alias_t call, sv_drop_ring_t form);
void sv_drop_ties_end(void);

#endif
