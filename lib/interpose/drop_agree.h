/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a collective call agree that it takes the fast route (drop_agree.c), for the calls by Selvage's
 * collectives (drop_fastcoll.c) and those as messages (drop_linear.c).
 */
#ifndef SV_DROP_AGREE_H
#define SV_DROP_AGREE_H

#include "interpose/drop.h"

/* Which of the job's ranks a communicator has: NONE if it has others, or if calls on it have no order. */
typedef enum sv_drop_reach { SV_DROP_REACH_NONE, SV_DROP_REACH_SOME, SV_DROP_REACH_ALL } sv_drop_reach_t;

/* With the route of collective calls, which all ranks open at once. The first returns whether this rank could. */
bool sv_drop_agree_open(void);
void sv_drop_agree_close(void);
/* At the beginning of each call that may take the route: whether it is open. */
bool sv_drop_agree_begin(void);

/* The answer is alike on all ranks. */
sv_drop_reach_t sv_drop_reach_of(MPI_Comm comm);
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
