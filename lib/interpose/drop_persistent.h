/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collective calls that are messages at each start (drop_persistent.c): for drop_coll.c, and for what makes
   and ends their requests. */
#ifndef SV_DROP_PERSISTENT_H
#define SV_DROP_PERSISTENT_H

#include "interpose/drop.h"
#include "interpose/drop_tie.h"

#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

/* MPI's own calls that make such requests: those of MPI 4, which Open MPI 5 has as well, or Open MPI 4's. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define SV_DROP_HAS_COLL_INIT
#define SV_DROP_COLL_INIT(NAME) PMPI_##NAME##_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define SV_DROP_COLL_INIT(NAME) PMPIX_##NAME##_init
#endif

typedef struct sv_drop_persistent sv_drop_persistent_t;

/* What such a call does at each start, on tags from that one on. begin returns MPI's code; comm is told of errors. */
typedef struct sv_drop_starts {
    int (*begin)(const void *state, int tag, MPI_Comm comm, MPI_Request *request);
    void (*end)(void *state);
    void *state; /* owned; NULL: this rank cannot make messages of it */
} sv_drop_starts_t;

/* Whether the ranks of a communicator ask each other about such calls at all. They all say the same. */
bool sv_drop_persistent_may_be(MPI_Comm comm);
/* True if all ranks of the call make such messages at each start: the program gets a request for it. device: this rank
   gives device memory. Takes over the state. */
bool sv_drop_persistent_make(const char *name, MPI_Comm comm, bool device, const sv_drop_starts_t *starts,
                             MPI_Request *request);
/* What the drop-in or MPI says of a call that gets no messages, and its code. */
int sv_drop_persistent_refused(MPI_Comm comm, int code);
static inline int sv_drop_persistent_told(MPI_Comm comm, int code)
{
    return code == MPI_SUCCESS || !sv_drop_pairs_wanted ? code : sv_drop_persistent_refused(comm, code);
}
/* MPI_Start: true if the request is one of those. Not with the lock. */
bool sv_drop_persistent_start(sv_drop_op_t *op);
/* With the lock. */
void sv_drop_persistent_end(sv_drop_persistent_t *made);
/* The communicator goes: errors of its requests are told to MPI_COMM_WORLD. With the lock. And its tie goes. */
void sv_drop_persistent_orphan(sv_drop_persistent_t *made, MPI_Comm comm);
void sv_drop_persistent_leave(sv_drop_tie_t *tie);

#endif
