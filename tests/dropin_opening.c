/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_bystander for the opening of the fast route: what the program does not ask for does not happen. */
#include "check.h"
#include "dropin_bystander.h"

enum { CALLS = 20 };

static int copied, deleted, handled;

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void handle_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static void show_device(void)
{
    MPI_Sendrecv(the.out, BYTES, MPI_BYTE, the.right, 1, the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Nobody copies or deletes what a program has put on its communicators, or calls its error handler. */
void run_attributes(void)
{
    MPI_Comm const comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler handler;
    int key;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, NULL);
    MPI_Comm_create_errhandler(handle_error, &handler);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_attr(comms[i], key, &copied);
        MPI_Comm_set_errhandler(comms[i], handler);
    }
    show_device();
    for (int i = 0; i < CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    show_device();
    CHECK_EQ(copied, 0);
    CHECK_EQ(deleted, 0);
    CHECK_EQ(handled, 0);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_ARE_FATAL);
        MPI_Comm_delete_attr(comms[i], key);
    }
    CHECK_EQ(deleted, 2);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free_keyval(&key);
}

/* Calls that one rank alone makes, and MPI refuses there, shift nothing: those of all ranks go on. */
void run_refused(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < CALLS; i++) {
        int own = i, sum = 0;
        if (the.rank == 0 && i % 2 == 0)
            CHECK(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) != MPI_SUCCESS);
        if (the.rank == 1 && i % 3 == 0)
            CHECK(MPI_Allgather(&own, -1, MPI_INT, &sum, 1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS);
        CHECK_EQ(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(sum, i * the.ranks);
        MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    show_device();
    for (int i = 0; i < 3 * CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    show_device();
}
