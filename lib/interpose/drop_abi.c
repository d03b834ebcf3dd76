/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fortran names of a drop-in for the ABI of MPI 5, which is one of C alone: how Fortran's handles and constants become
 * C's is each MPI's own affair. So a Fortran program is ended at its beginning, before a pointer to device memory can
 * reach MPI, with a line that says what to use. This file stands in for drop_fortran.c. Called by the thread that calls
 * MPI_Init.
 */
#include "interpose/drop.h"

#include <stdlib.h>

static void refuse_fortran(void)
{
    sv_drop_refuse_other_mpi();
    sv_drop_warn("this drop-in was built for the MPI ABI, which has no Fortran: use the selvage-run of a Selvage that "
                 "was built for this program's MPI");
    exit(EXIT_FAILURE);
}

#define START_NAMES(INIT, INIT_THREAD)      \
    SV_DROP_EXPORT void INIT(void);         \
    SV_DROP_EXPORT void INIT_THREAD(void);  \
    void INIT(void) { refuse_fortran(); }   \
    void INIT_THREAD(void) { refuse_fortran(); }

START_NAMES(mpi_init_f08_, mpi_init_thread_f08_)
START_NAMES(mpi_init, mpi_init_thread)
START_NAMES(mpi_init_, mpi_init_thread_)
START_NAMES(mpi_init__, mpi_init_thread__)
START_NAMES(MPI_INIT, MPI_INIT_THREAD)
