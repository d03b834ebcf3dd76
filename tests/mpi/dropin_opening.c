/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for the opening of the fast route: what the program does not ask for does not
   happen. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { CALLS = 20, LETTER_BYTES = 251 /* what a probe looks into */ };

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

static int copy_type_attribute(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type;
    return copy_attribute(MPI_COMM_NULL, key, extra, in, out, flag);
}

static int delete_type_attribute(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    return delete_attribute(MPI_COMM_NULL, key, value, extra);
}

/* Looks into a message of its own, which is none of the drop-in's. */
static void probe_letter(void)
{
    char out[LETTER_BYTES] = "", in[LETTER_BYTES];
    MPI_Request request;
    MPI_Status status;
    MPI_Isend(out, LETTER_BYTES, MPI_BYTE, the.right, 2, MPI_COMM_WORLD, &request);
    MPI_Probe(the.left, 2, MPI_COMM_WORLD, &status);
    MPI_Recv(in, LETTER_BYTES, MPI_BYTE, the.left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Device memory by a derived type, in a call that goes on for a while. */
static void gather_with_attribute(int key)
{
    enum { EACH = 16 };
    MPI_Datatype type;
    MPI_Request request;
    MPI_Type_vector(EACH, 1, 2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, key, &copied);
    MPI_Iallgather(the.out, 1, type, the.in, 1, type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(copied + deleted, 0);
    MPI_Type_delete_attr(type, key);
    MPI_Type_free(&type);
    deleted = 0;
}

/* Host memory by a derived type that announcements may come to, in each way to receive. */
static void receive_with_attribute(int key)
{
    enum { EACH = BYTES / 2 };
    static char in[3 * EACH];
    MPI_Datatype type;
    MPI_Request request;
    MPI_Type_vector(EACH, 1, 3, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, key, &copied);
    for (int how = 0; how < 3; how++) {
        MPI_Request sent;
        if (how > 0)
            (how == 1 ? MPI_Irecv : MPI_Recv_init)(in, 1, type, the.left, 3, MPI_COMM_WORLD, &request);
        if (how == 2)
            MPI_Start(&request);
        MPI_Isend(the.out, EACH, MPI_BYTE, the.right, 3, MPI_COMM_WORLD, &sent);
        if (how == 0)
            MPI_Recv(in, 1, type, the.left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        if (how == 2)
            MPI_Request_free(&request);
        CHECK_EQ(copied + deleted, 0);
    }
    MPI_Type_delete_attr(type, key);
    MPI_Type_free(&type);
    deleted = 0;
}

/* Nobody copies or deletes what a program has put on its communicators and types, or calls its error handler. */
void run_attributes(void)
{
    MPI_Comm const comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler handler;
    int key, type_key;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, NULL);
    MPI_Type_create_keyval(copy_type_attribute, delete_type_attribute, &type_key, NULL);
    MPI_Comm_create_errhandler(handle_error, &handler);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_attr(comms[i], key, &copied);
        MPI_Comm_set_errhandler(comms[i], handler);
    }
    show_device();
    for (int i = 0; i < CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    open_fast_pairs();
    show_device();
    probe_letter();
    gather_with_attribute(type_key);
    receive_with_attribute(type_key);
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
    MPI_Type_free_keyval(&type_key);
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
    open_fast_pairs();
    show_device();
}

static bool refuses_streams;

/* In place of the library's, also for the drop-in. */
selvage_status_t selvage_stream_create(selvage_device_t *dev, void **stream_out)
{
    selvage_status_t (*real)(selvage_device_t *device, void **stream_out);
    void *found = dlsym(RTLD_NEXT, "selvage_stream_create");
    memcpy(&real, &found, sizeof real);
    return refuses_streams ? SELVAGE_ERR_DEVICE : real(dev, stream_out);
}

/* What one rank lacks for collectives keeps nobody in the making of them, and messages go by the route. */
void run_lopsided(void)
{
    const double begin = MPI_Wtime();
    show_device();
    refuses_streams = the.rank == 1;
    for (int i = 0; i < CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    refuses_streams = false;
    CHECK(MPI_Wtime() - begin < 50);
    CHECK_EQ(MPI_Allreduce(the.out, the.in, BYTES, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
    open_fast_pairs();
    show_device();
}

/* The same of some of the ranks, which then do not open the route for themselves; all of them do later. */
void run_lopsided_part(void)
{
    enum { ROW = 1024 };
    const double begin = MPI_Wtime();
    MPI_Comm part;
    show_device();
    MPI_Comm_split(MPI_COMM_WORLD, the.rank == the.ranks - 1, 0, &part);
    refuses_streams = the.rank == 1;
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(MPI_Allreduce(the.out, the.in, ROW, MPI_INT, MPI_SUM, part), MPI_SUCCESS);
    refuses_streams = false;
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(MPI_Reduce(the.out, the.in, ROW, MPI_INT, MPI_SUM, 0, part), MPI_SUCCESS);
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(MPI_Allgather(the.out, ROW / the.ranks, MPI_INT, the.in, ROW / the.ranks, MPI_INT, MPI_COMM_WORLD),
                 MPI_SUCCESS);
    CHECK(MPI_Wtime() - begin < 100);
    MPI_Comm_free(&part);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static MPI_Request last_receive;
static MPI_Comm beside; /* MPI_COMM_WORLD: the same ranks */
static bool came_last;

/* In MPI_Finalize: what is under way ends, and more is sent. */
static int end_last(MPI_Comm self, int key, void *value, void *extra)
{
    MPI_Status status;
    int bytes = 0;
    (void)self, (void)key, (void)value, (void)extra;
    selvage_device_fill(the.device, the.out, 60 + the.rank, BYTES, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    CHECK_EQ(MPI_Send(the.out, BYTES, MPI_BYTE, the.right, 6, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&last_receive, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(MPI_Barrier(beside), MPI_SUCCESS);
    selvage_device_copy(the.device, the.pinned, the.in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    CHECK_EQ(((unsigned char *)the.pinned)[BYTES - 1], 60 + the.left);
    came_last = true;
    return MPI_SUCCESS;
}

static void check_end(void)
{
    CHECK(came_last);
}

/* As libraries do that end with MPI: by an attribute of MPI_COMM_SELF, set before the route opens. */
void run_ending(void)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_last, &key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &beside);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    show_device();
    for (int i = 0; i < CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    show_device();
    MPI_Irecv(the.in, BYTES, MPI_BYTE, the.left, 6, MPI_COMM_WORLD, &last_receive);
    the.after = check_end;
}
