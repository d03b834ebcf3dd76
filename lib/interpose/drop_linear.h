/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective calls as messages between device buffers (drop_linear.c), for drop_coll.c, whose calls they are. */
#ifndef SV_DROP_LINEAR_H
#define SV_DROP_LINEAR_H

#include "interpose/drop.h"

/* On an open route: true if that has been done, with MPI's code. */
bool sv_drop_fast_Gather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code);
bool sv_drop_fast_Scatter(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                          MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code);

/* In both forms: COUNT and DISPL are the types of the lists, and SUFFIX is the large-count form's. */
#define SV_DROP_LINEAR(COUNT, DISPL, SUFFIX)                                                                           \
    bool sv_drop_fast_Gatherv##SUFFIX(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,  \
                                      const COUNT *recvcounts, const DISPL *displs, MPI_Datatype recvtype, int root,   \
                                      MPI_Comm comm, int *code);                                                       \
    bool sv_drop_fast_Scatterv##SUFFIX(const void *sendbuf, const COUNT *sendcounts, const DISPL *displs,              \
                                       MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,                      \
                                       MPI_Datatype recvtype, int root, MPI_Comm comm, int *code);                     \
    bool sv_drop_fast_Allgatherv##SUFFIX(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,              \
                                         void *recvbuf, const COUNT *recvcounts, const DISPL *displs,                  \
                                         MPI_Datatype recvtype, MPI_Comm comm, int *code);                             \
    bool sv_drop_fast_Alltoallv##SUFFIX(const void *sendbuf, const COUNT *sendcounts, const DISPL *sdispls,            \
                                        MPI_Datatype sendtype, void *recvbuf, const COUNT *recvcounts,                 \
                                        const DISPL *rdispls, MPI_Datatype recvtype, MPI_Comm comm, int *code);
SV_DROP_LINEAR(int, int, )
SV_DROP_LINEAR(MPI_Count, MPI_Aint, _c)
#undef SV_DROP_LINEAR

#endif
