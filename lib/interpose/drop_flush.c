/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that the drop-in has nothing to do with, but that batched sends must be posted before (drop_batch.c): those
 * that make and free communicators, windows and files, and others that may block or synchronise ranks. They are MPI's
 * own then. Of communicators with neighbours that they have made, the ranks agree after that on a channel
 * (drop_channel.c): in C and in Fortran, as one rank may be in either. Under their Fortran names they go on to MPI's
 * Fortran libraries with the arguments as they are: addresses, and after those the lengths of strings.
 * scripts/make-dropin writes all of them from drop_calls.txt. With MPICH only the names of module mpi_f08 are needed,
 * as its others call MPI_ names, and with the ABI of MPI 5 none are: it has no Fortran (drop_abi.c).
 *
 * Any thread; nothing is owned.
 */
#include "interpose/drop_channel.h"

#ifdef MPI_ABI_VERSION
#define PASS_FORTRAN(NAME, PARAMETERS, ARGUMENTS)
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS)
#define MAKE_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS, COMM)
#else

/* A Fortran name that MPI's library has as well. */
#define PASS_FORTRAN(NAME, PARAMETERS, ARGUMENTS)        \
    SV_DROP_EXPORT void NAME PARAMETERS;                 \
    void NAME PARAMETERS                                 \
    {                                                    \
        typedef void next_t PARAMETERS;                  \
        sv_drop_flush_and_block();                       \
        ((next_t *)sv_drop_next_fortran(#NAME)) ARGUMENTS; \
    }

/* The same of a call that makes a communicator. In the module mpi_f08 its error may have no place. */
#define MAKE_FORTRAN(NAME, PARAMETERS, ARGUMENTS, COMM)  \
    SV_DROP_EXPORT void NAME PARAMETERS;                 \
    void NAME PARAMETERS                                 \
    {                                                    \
        typedef void next_t PARAMETERS;                  \
        MPI_Fint own = MPI_SUCCESS;                      \
        sv_drop_flush_and_block();                       \
        ierror = ierror ? ierror : &own;                 \
        ((next_t *)sv_drop_next_fortran(#NAME)) ARGUMENTS; \
        begin_in_fortran(COMM, ierror);                  \
    }

static void begin_in_fortran(const void *comm, const void *ierror)
{
    const MPI_Fint *made = comm, *code = ierror;
    if (!sv_drop_pairs_wanted || *code != MPI_SUCCESS)
        return;
    MPI_Comm const own = PMPI_Comm_f2c(*made);
    (void)sv_drop_made(MPI_SUCCESS, &own);
}

#ifdef OPEN_MPI
#define MAKE_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS, COMM)       \
    MAKE_FORTRAN(mpi_##LOWER, PARAMETERS, ARGUMENTS, COMM)        \
    MAKE_FORTRAN(mpi_##LOWER##_, PARAMETERS, ARGUMENTS, COMM)     \
    MAKE_FORTRAN(mpi_##LOWER##__, PARAMETERS, ARGUMENTS, COMM)    \
    MAKE_FORTRAN(MPI_##UPPER, PARAMETERS, ARGUMENTS, COMM)        \
    MAKE_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS, COMM)
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS)           \
    PASS_FORTRAN(mpi_##LOWER, PARAMETERS, ARGUMENTS)            \
    PASS_FORTRAN(mpi_##LOWER##_, PARAMETERS, ARGUMENTS)         \
    PASS_FORTRAN(mpi_##LOWER##__, PARAMETERS, ARGUMENTS)        \
    PASS_FORTRAN(MPI_##UPPER, PARAMETERS, ARGUMENTS)            \
    PASS_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS)
#else
#define MAKE_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS, COMM) \
    MAKE_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS, COMM)
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS) PASS_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS)
#endif
#endif

#include "drop_flush_calls.inc"
