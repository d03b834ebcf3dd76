/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions that do not block, as messages between pairs of ranks (drop_reduce.c), for drop_coll.c. */
#ifndef SV_DROP_REDUCE_H
#define SV_DROP_REDUCE_H

#include "interpose/drop.h"

/* Whose the result is: all ranks', the root's, or each rank has its block of it. */
typedef enum sv_drop_whose { SV_DROP_RESULT_OF_ALL, SV_DROP_RESULT_OF_ROOT, SV_DROP_RESULT_OF_PARTS } sv_drop_whose_t;

typedef struct sv_drop_reduction {
    const char *name;
    MPI_Comm comm;
    sv_drop_whose_t whose;
    int root; /* if it has one */
    const void *sendbuf;
    void *recvbuf;
    int64_t count;                 /* of parts: of each, unless there is a list */
    const int *counts;             /* of parts; NULL: as large_counts, or count says */
    const MPI_Count *large_counts;
    MPI_Datatype type;
    MPI_Op op;
} sv_drop_reduction_t;

/* True if the call has begun so, with MPI's code. */
bool sv_drop_begin_reduction(const sv_drop_reduction_t *call, MPI_Request *request, int *code);
/* True if all ranks make messages of a persistent call at each start. device: this rank gives device memory. */
bool sv_drop_persist_reduction(const sv_drop_reduction_t *call, bool device, MPI_Request *request);
/* After the last of them. */
void sv_drop_reductions_end(void);

#endif
