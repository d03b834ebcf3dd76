/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_waits: a kernel that waits for the host, on the default stream, while the host sends and receives device
 * memory which that kernel never touches: of types made for each message, by requests, and in a collective call. An MPI
 * that knows device memory waits for no kernel. Exit status 0 if all ended before the kernel gave up; 77 without a
 * software device.
 */
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/dropin_case.h"

enum { ROWS = 8, ROW_BYTES = 24, STRIDE_BYTES = 40, SPAN = ROWS * STRIDE_BYTES, TURNS = 10, PATIENCE_MS = 40000 };

static _Atomic bool go_on, gave_up;

static void kernel(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
    for (int i = 0; !atomic_load(&go_on) && i < PATIENCE_MS; i++)
        usleep(1000);
    atomic_store(&gave_up, !atomic_load(&go_on));
}

static void exchange(uint8_t *out, uint8_t *in)
{
    MPI_Datatype rows;
    MPI_Request request[2];
    int other = 1 - dropin.rank;
    MPI_Type_vector(ROWS, ROW_BYTES, STRIDE_BYTES, MPI_BYTE, &rows);
    MPI_Type_commit(&rows);
    MPI_Irecv(in, 1, rows, other, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(out, 1, rows, other, 0, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    MPI_Type_free(&rows);
}

int main(int argc, char **argv)
{
    int cases;
    char nothing = 0;
    void *out, *in;
    dropin_begin(1, argv, MPI_THREAD_SINGLE, &cases);
    (void)argc;
    CHECK_STATUS(selvage_device_malloc(dropin.device, SPAN, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dropin.device, SPAN, &in), SELVAGE_SUCCESS);
    memset(out, 'a' + dropin.rank, SPAN);
    memset(in, 0, SPAN);
    if (selvage_device_launch_soft(dropin.device, kernel, &nothing, sizeof nothing, 1, NULL) != SELVAGE_SUCCESS)
        return CHECK_SKIP;
    for (int i = 0; i < TURNS; i++)
        exchange(out, in);
    CHECK_EQ(((uint8_t *)in)[0], 'a' + 1 - dropin.rank);
    CHECK_EQ(((uint8_t *)in)[ROW_BYTES], 0);
    MPI_Bcast(out, SPAN, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK_EQ(((uint8_t *)out)[SPAN - 1], 'a');
    atomic_store(&go_on, true);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, NULL), SELVAGE_SUCCESS);
    CHECK(!atomic_load(&gave_up));
    selvage_device_free(dropin.device, out);
    selvage_device_free(dropin.device, in);
    return dropin_end("dropin_waits");
}
