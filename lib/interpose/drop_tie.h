/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of a communicator whose collective calls become messages (drop_tie.c), for drop_pairs.c and
   drop_channel.c. */
#ifndef SV_DROP_TIE_H
#define SV_DROP_TIE_H

#include "interpose/drop.h"

/* To so many ranks of a node each of them may send all it has. And: of how many ranges persistent calls of one
   communicator have their tags. */
enum { SV_DROP_NEAR_MOST = 8, SV_DROP_RANGES = 8 };

struct sv_drop_range;

typedef struct sv_drop_tie {
    int n, me;
    bool everybody;             /* it has all ranks of the job */
    bool of_job;                /* all its ranks are of this job, and there are several */
    bool one_node, near;        /* its ranks share a node; and are no more than SV_DROP_NEAR_MOST */
    int nfrom, nto, *from, *to; /* neighbours, ranks of it or MPI_PROC_NULL; -1: it has no topology */
    bool grid;           /* a Cartesian one; else they match in the order of both lists */
    bool short_ring;     /* of one or two ranks, so that one rank is the neighbour on both sides */
    /* Of drop_channel.c: */
    int channel;         /* of its messages; 0: it has none yet */
    int64_t calls;       /* how many this rank has made that could have been messages, since there is a channel */
    int64_t first_call;  /* from which of them on they are messages */
    bool begun;          /* its ranks have agreed when it was made */
    bool over;           /* its calls are messages, or will never be */
    bool needs;          /* this rank has made a call that could have used it */
    unsigned met;        /* calls that all ranks have entered with the route open */
    struct sv_drop_tie *next, *prev; /* of those with a channel */
    /* Of drop_persistent.c: */
    int nranges;         /* alike on all of its ranks */
    struct sv_drop_range *range[SV_DROP_RANGES];
    bool owes;           /* the others have agreed on this rank's next persistent call */
} sv_drop_tie_t;

/* Made if there is none; freed with the communicator. */
sv_drop_tie_t *sv_drop_tie_of(MPI_Comm comm);
/* NULL: there is none. */
sv_drop_tie_t *sv_drop_tie_find(MPI_Comm comm);

/* The forms of calls with a block for each neighbour. */
typedef enum sv_drop_ring { SV_DROP_RING, SV_DROP_RING_V, SV_DROP_RING_W, SV_DROP_RINGS } sv_drop_ring_t;
/* Which block comes where, if one rank is a neighbour more than once. By side: what goes down in a grid comes from
   above, as the standard has it. Else the messages between two ranks match in the order of both lists, or in the order
   of one and the reverse of the other. MPI's forms of a call differ in that, and this one does as MPI does. */
typedef enum sv_drop_order { SV_DROP_BY_SIDE, SV_DROP_IN_ORDER, SV_DROP_REVERSED } sv_drop_order_t;
typedef enum sv_drop_kind { SV_DROP_BLOCKING, SV_DROP_NONBLOCKING, SV_DROP_PERSISTENT, SV_DROP_KINDS } sv_drop_kind_t;
sv_drop_order_t sv_drop_tie_order(const sv_drop_tie_t *tie, sv_drop_ring_t form, sv_drop_kind_t kind);

/* Whether MPI refuses no elements of this type. */
bool sv_drop_tie_refuses_none(MPI_Datatype type);
/* Whether MPI refuses one buffer for both sides of such a call, of the same type, count and lists. */
typedef enum sv_drop_alias {
    SV_DROP_ALIAS_ALLTOALL, SV_DROP_ALIAS_ALLGATHER, SV_DROP_ALIAS_GATHER, SV_DROP_ALIAS_SCATTER,
    SV_DROP_ALIAS_REDUCE, SV_DROP_ALIAS_ALLREDUCE, SV_DROP_ALIAS_REDUCE_SCATTER
} sv_drop_alias_t;
bool sv_drop_tie_refuses_same(sv_drop_alias_t call, sv_drop_ring_t form);
void sv_drop_ties_end(void);

#endif
