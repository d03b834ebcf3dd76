/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors that the drop-in finds itself: the program's error handler is called, as MPI would. Where that is
 * MPI_ERRORS_RETURN there is nothing to call, and MPI is not asked to: Intel's 2021.19 ends the job in those calls,
 * whatever the handler, when they are made by the ABI of MPI 5.
 *
 * Any thread; nothing is kept.
 */
#include "interpose/drop_raise.h"

#include <stdbool.h>

/* Takes back what one of MPI's calls has got; whether that is to be called. If that call failed, MPI has called a
   handler for it, and the handle is none that has one. */
static bool is_to_be_called(int code, MPI_Errhandler handler)
{
    if (code != MPI_SUCCESS || handler == MPI_ERRHANDLER_NULL)
        return code == MPI_SUCCESS;
    const bool returns = handler == MPI_ERRORS_RETURN;
    PMPI_Errhandler_free(&handler);
    return !returns;
}

int sv_drop_raise(MPI_Comm comm, int error)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    const int code = PMPI_Comm_get_errhandler(comm, &handler);
    if (is_to_be_called(code, handler))
        PMPI_Comm_call_errhandler(comm, error);
    return error;
}

int sv_drop_raise_win(MPI_Win win, int error)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    const int code = PMPI_Win_get_errhandler(win, &handler);
    if (is_to_be_called(code, handler))
        PMPI_Win_call_errhandler(win, error);
    return error;
}

int sv_drop_raise_file(MPI_File file, int error)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    const int code = PMPI_File_get_errhandler(file, &handler);
    if (is_to_be_called(code, handler))
        PMPI_File_call_errhandler(file, error);
    return error;
}
