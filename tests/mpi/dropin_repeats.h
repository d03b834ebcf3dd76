/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collective requests of the programs in dropin_persistent.c (dropin_repeats.c). */
#ifndef SELVAGE_TESTS_DROPIN_REPEATS_H
#define SELVAGE_TESTS_DROPIN_REPEATS_H

#include <mpi.h>
#include <selvage.h>
#include <stdbool.h>

#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define INIT(PREFIX, NAME) PREFIX##_##NAME##_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define INIT(PREFIX, NAME) PREFIX##X_##NAME##_init
#endif

#ifdef INIT
/* MPICH 4.0 reads buffers when a request is made, waits for inactive ones, and mistakes one for another after it has
   refused one. So it is left alone there with what is its own. */
#ifdef OPEN_MPI
enum { MPI_IS_RIGHT = 1 };
#else
enum { MPI_IS_RIGHT = 0 };
#endif

enum { RANKS_MAX = 8, LONG = 1200, ROOM = RANKS_MAX * LONG };

typedef enum kind {
    ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, GATHER, GATHERV, SCATTER, SCATTERV, BCAST, ALLREDUCE, REDUCE,
    REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, EXSCAN, TO_NEIGHBORS,
    NEIGHBOR_ALLGATHER = TO_NEIGHBORS, NEIGHBOR_ALLGATHERV, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLV, NEIGHBOR_ALLTOALLW,
    KINDS
} kind_t;

/* A request, its memory, and what MPI reads of it until it is freed. */
typedef struct repeat {
    kind_t kind;
    MPI_Comm comm;
    int n, me, root, mark, starts;
    bool in_place, on_host, active, is_mpis; /* is_mpis: it is staged, or of host memory on all ranks */
    int *host_out, *host_in, *out, *in, *plain_out, *plain_in;
    int out_counts[RANKS_MAX], in_counts[RANKS_MAX], at[RANKS_MAX], bytes[RANKS_MAX];
    MPI_Aint far[RANKS_MAX];
    MPI_Datatype out_types[RANKS_MAX], in_types[RANKS_MAX];
    MPI_Datatype twin_out_types[RANKS_MAX], twin_in_types[RANKS_MAX];
    MPI_Request request;
    MPI_Comm twins; /* communicator of the twin */
} repeat_t;

/* A number less than n, alike on all ranks. */
int pick(int n);
void bring_repeat(void *to, const void *from, size_t bytes, selvage_copy_t direction);
/* Whether SELVAGE_DROPIN_FAST says so. */
bool is_mode(const char *mode);
/* Whether the user has switched off what makes messages of these calls. */
bool is_staged(void);
/* It is MPI's own, and MPI is wrong there. */
bool is_left_alone(const repeat_t *r);

/* hosts: a bit for each rank that gives host memory. twins: the communicator of the twin. */
void make_repeat(repeat_t *r, kind_t kind, MPI_Comm comm, MPI_Comm twins, int mark, bool in_place, int hosts);
void free_types(MPI_Datatype *types);
void free_memory(repeat_t *r);
void free_repeat(repeat_t *r); /* with its request */
/* Before a start: what it sends. */
void fill_repeat(repeat_t *r);
/* After it: every byte is as the twin has it, if the start has succeeded. Twins start in one order on all ranks. */
void check_started(repeat_t *r, bool succeeded);
void check_repeat(repeat_t *r);
#endif

#endif
