/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled by test_dropin_begin.sh with the wrapper of the MPI that this build is not for. Given an argument, it
 * is a program that knows nothing of Selvage.
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
    MPI_Finalize();
    return 0;
}
