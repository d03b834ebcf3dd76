/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that the drop-in has nothing to do with, but that batched sends must be posted before (drop_batch.c): those
 * that make and free communicators, windows and files, and others that may block or synchronise ranks. They are MPI's
 * own then. Under their Fortran names they go on to MPI's Fortran libraries with the arguments as they are: addresses,
 * and after those the lengths of strings. scripts/make-dropin writes all of them from drop_calls.txt. With MPICH only
 * the names of module mpi_f08 are needed, as its others call MPI_ names, and with the ABI of MPI 5 none are: it has no
 * Fortran (drop_abi.c).
 *
 * Any thread; nothing is owned.
 */
#include "interpose/drop.h"

#ifdef MPI_ABI_VERSION
#define PASS_FORTRAN(NAME, PARAMETERS, ARGUMENTS)
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS)
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

#ifdef OPEN_MPI
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS)           \
    PASS_FORTRAN(mpi_##LOWER, PARAMETERS, ARGUMENTS)            \
    PASS_FORTRAN(mpi_##LOWER##_, PARAMETERS, ARGUMENTS)         \
    PASS_FORTRAN(mpi_##LOWER##__, PARAMETERS, ARGUMENTS)        \
    PASS_FORTRAN(MPI_##UPPER, PARAMETERS, ARGUMENTS)            \
    PASS_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS)
#else
#define PASS_ALL(LOWER, UPPER, PARAMETERS, ARGUMENTS) PASS_FORTRAN(mpi_##LOWER##_f08_, PARAMETERS, ARGUMENTS)
#endif
#endif

#include "drop_flush_calls.inc"
