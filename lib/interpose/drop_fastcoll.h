/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective calls by Selvage's (drop_fastcoll.c), for drop_coll.c, whose calls they are. */
#ifndef SV_DROP_FASTCOLL_H
#define SV_DROP_FASTCOLL_H

#include "interpose/drop.h"

/* On an open route: true if that has been done, with MPI's code. */
bool sv_drop_fast_Allreduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op,
                            MPI_Comm comm, int *code);
bool sv_drop_fast_Reduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
                         MPI_Comm comm, int *code);
bool sv_drop_fast_Bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, int *code);
bool sv_drop_fast_Allgather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code);
bool sv_drop_fast_Alltoall(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                           MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code);
bool sv_drop_fast_Reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, MPI_Datatype type,
                                 MPI_Op op, MPI_Comm comm, int *code);
bool sv_drop_fast_Reduce_scatter_c(const void *sendbuf, void *recvbuf, const MPI_Count *recvcounts, MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm, int *code);
bool sv_drop_fast_Reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount, MPI_Datatype type,
                                       MPI_Op op, MPI_Comm comm, int *code);

#endif
