/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled by test_dropin_begin.sh, with the wrapper of the MPI that this build is not for, too. Unless WITH_SELVAGE is
 * defined, it is a program that knows nothing of Selvage; PERSISTENT, one that receives from itself by MPI_Recv_init.
 */
#include <stdio.h>

#ifdef WITH_SELVAGE
#include <selvage.h>
#else
#include <mpi.h>
#endif

int main(int argc, char **argv)
{
    int size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%d ranks\n", size);
#ifdef WITH_SELVAGE
    selvage_comm_t *comm = NULL;
    selvage_status_t status = selvage_comm_create(MPI_COMM_WORLD, NULL, &comm);
    if (status != SELVAGE_SUCCESS)
        printf("refused: %s\n", selvage_error_detail());
    selvage_comm_destroy(comm);
#endif
#ifdef PERSISTENT
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int sent = 42, got = 0, rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Recv_init(&got, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Send(&sent, 1, MPI_INT, rank, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    printf("persistent: %s\n", got == sent && status.MPI_TAG == 7 ? "right" : "wrong");
    MPI_Request_free(&request);
#endif
    MPI_Finalize();
    return 0;
}
