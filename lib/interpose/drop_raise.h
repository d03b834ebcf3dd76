/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors that the drop-in finds itself, told to the error handler of the program's communicator, window or file, unless
 * that does nothing. Each returns the error. Any thread; nothing is kept.
 */
#ifndef SV_INTERPOSE_DROP_RAISE_H
#define SV_INTERPOSE_DROP_RAISE_H

#include <mpi.h>

int sv_drop_raise(MPI_Comm comm, int error);
int sv_drop_raise_win(MPI_Win win, int error);
int sv_drop_raise_file(MPI_File file, int error);

#endif
