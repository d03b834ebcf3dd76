/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a collective call agree that it takes the fast route (drop_agree.c), for the calls by Selvage's
 * collectives (drop_fastcoll.c) and those as messages (drop_linear.c).
 */
#ifndef SV_DROP_AGREE_H
#define SV_DROP_AGREE_H

#include "interpose/drop.h"

/* Ranks open the route of collective calls together: all of the job, or those of a communicator. That is an opening,
   and they count theirs from 0. */
enum { SV_DROP_OPENINGS = 4 };

/* Whose ranks a communicator has: those of an opening, all of them in their order, or some. opening is -1 if it has
   others, or if calls on it have no order. */
typedef struct sv_drop_reach {
    int opening;
    bool all;
} sv_drop_reach_t;

/* Before the ranks of comm open the route: whether this rank can ask the others. After they have: counts that. */
bool sv_drop_agree_open(void);
void sv_drop_agree_add(MPI_Comm comm);
void sv_drop_agree_close(void);
/* How many openings there are; alike on ranks that are in the same. */
int sv_drop_agree_openings(void);
/* At the beginning of each call that may take the route: whether it is open. */
bool sv_drop_agree_begin(void);

/* The answers are alike on all ranks: and whether calls on it can take the route at all. */
sv_drop_reach_t sv_drop_reach_of(MPI_Comm comm);
static inline bool sv_drop_reaches(MPI_Comm comm)
{
    return sv_drop_reach_of(comm).opening >= 0;
}
/* Whether MPI refuses a type or operation (MPI_OP_NULL: there is none). A rank does not come to an agreement then. */
bool sv_drop_mpi_refuses(MPI_Datatype type, MPI_Op op);
bool sv_drop_has_rank(MPI_Comm comm, int rank);
/* Memory of the route's device that elements of this size lie right in. */
bool sv_drop_is_fit(const void *buf, size_t element_bytes);

/* Whether all ranks can make this call on the route. And: whether one of them sends so much to another rank, too. */
bool sv_drop_agree(MPI_Comm comm, bool mine);
bool sv_drop_agree_on_length(MPI_Comm comm, bool mine, int64_t bytes);

/* Tells what MPI says of such a call that did not take the route. */
void sv_drop_fast_refuse(MPI_Comm comm, int code);
static inline int sv_drop_reported(MPI_Comm comm, int code)
{
    if (__builtin_expect(code != MPI_SUCCESS, 0) && sv_drop_fast_wanted)
        sv_drop_fast_refuse(comm, code);
    return code;
}

/* Buffers that overlap are left to MPI, which refuses them. */
static inline bool sv_drop_is_apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return a == MPI_IN_PLACE || first + a_bytes <= second || second + b_bytes <= first;
}

#endif
