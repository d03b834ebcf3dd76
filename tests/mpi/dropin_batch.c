/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_batch WHAT: sends of short device memory on two ranks, which the drop-in gives to MPI in batches.
 *   order     messages of all kinds and lengths with one tag come as they were sent
 *   blocks    a rank sends and enters a call that the other one enters once it has received
 *   errors    what MPI refuses is refused by the call itself, and the messages around it come
 *   starts    long and short persistent sends with one tag, started together, come in their order
 *   fails     MPI fails to send what was batched, which its completion says
 *   ends      sends are waited for, tested, freed and cancelled, with types and communicators that are gone
 *   many      more sends than one batch has
 *   lands     64 receives are landed, of which a script looks at the timeline
 *   unshared  a row of sends for the route, where that does not lead to the other rank
 *   threads   as order, at the highest thread level
 * The program waits for its own work before each call. Exit status 0 if all is right.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/dropin_case.h"
#include "fixtures/dropin_route.h"

enum { NUMBERS = 1024, LONG_BYTES = 1 << 19, MIDDLE_BYTES = 4096, MANY = 1000, LANDED = 64, LANDED_BYTES = 520,
       TAG = 5 };

static int *numbers;      /* device memory: 0, 1, 2, ... */
static int *middle, *far; /* device memory of MIDDLE_BYTES and of LONG_BYTES, which begins with a number */
static int other;

static bool mpi_fails; /* here, in the place of MPI's own, which the drop-in calls */
int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    union {
        void *found;
        int (*call)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    } next = {dlsym(RTLD_NEXT, "PMPI_Isend")};
    return mpi_fails ? MPI_ERR_OTHER : next.call(buf, count, type, to, tag, comm, request);
}

static void copy_down(void *host, const void *there, size_t bytes)
{
    CHECK_STATUS(selvage_device_copy(dropin.device, host, there, bytes, SELVAGE_COPY_DEVICE_TO_HOST, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
}

static void copy_up(void *there, const void *host, size_t bytes)
{
    CHECK_STATUS(selvage_device_copy(dropin.device, there, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
}

static void *device_memory(size_t bytes)
{
    void *made = NULL;
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &made), SELVAGE_SUCCESS);
    return made;
}

static MPI_Request isend_number(int number, int tag, MPI_Comm comm)
{
    MPI_Request request;
    CHECK_EQ(MPI_Isend(&numbers[number], 1, MPI_INT, other, tag, comm, &request), MPI_SUCCESS);
    return request;
}

static void expect_number(int number, int tag, MPI_Comm comm)
{
    int got = -1;
    CHECK_EQ(MPI_Recv(&got, 1, MPI_INT, other, tag, comm, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQ(got, number);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

enum { KINDS = 16 };

/* One message of each kind; after it, two sends that may be batched. */
static void send_kind(int kind, int number, int *host, MPI_Request *request)
{
    MPI_Request persistent = MPI_REQUEST_NULL;
    int *const there = &numbers[number];
    switch (kind) {
    case 0: MPI_Send(host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD); break;
    case 1: MPI_Isend(host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, request); break;
    case 2: MPI_Send(there, 1, MPI_INT, other, TAG, MPI_COMM_WORLD); break;
    case 3: MPI_Ssend(there, 1, MPI_INT, other, TAG, MPI_COMM_WORLD); break;
    case 4: MPI_Ssend(host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD); break;
    case 5: MPI_Issend(there, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, request); break;
    case 6: MPI_Ibsend(there, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, request); break;
    case 7: MPI_Bsend(host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD); break;
    case 8:
        copy_up(far, host, sizeof *host);
        MPI_Isend(far, LONG_BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
        break;
    case 9:
        copy_up(middle, host, sizeof *host);
        MPI_Isend(middle, MIDDLE_BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
        break;
    case 10:
        MPI_Sendrecv(there, 1, MPI_INT, other, TAG, NULL, 0, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        break;
    case 11:
        MPI_Sendrecv(host, 1, MPI_INT, other, TAG, NULL, 0, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        break;
    case 12:
        MPI_Sendrecv_replace(host, 1, MPI_INT, other, TAG, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 13: case 14:
        MPI_Send_init(kind == 13 ? there : host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, &persistent);
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        MPI_Request_free(&persistent);
        break;
    default:
        MPI_Send_init(host, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, &persistent);
        MPI_Startall(1, &persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        MPI_Request_free(&persistent);
    }
}

static void run_order(void)
{
    enum { ROUNDS = 5, EACH = 3, SENT = ROUNDS * KINDS * EACH };
    static char buffer[1 << 16];
    static int host[SENT];
    static MPI_Request request[SENT];
    char *in = malloc(LONG_BYTES);
    MPI_Buffer_attach(buffer, sizeof buffer);
    if (dropin.rank == 0)
        for (int i = 0; i < SENT; i++) {
            host[i] = i;
            request[i] = MPI_REQUEST_NULL;
            if (i % EACH == 0)
                send_kind((i / EACH * 7 + i / EACH / KINDS) % KINDS, i, &host[i], &request[i]);
            else
                request[i] = isend_number(i, TAG, MPI_COMM_WORLD);
        }
    for (int i = 0; dropin.rank == 1 && i < SENT; i++) {
        int got = -1;
        if (i % 2)
            MPI_Probe(other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQ(MPI_Recv(in, LONG_BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        memcpy(&got, in, sizeof got);
        CHECK_EQ(got, i);
    }
    if (dropin.rank == 0)
        CHECK_EQ(MPI_Waitall(SENT, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    void *detached;
    int bytes;
    MPI_Buffer_detach(&detached, &bytes);
    free(in);
}

/* --- calls that block --------------------------------------------------------------------------------------------- */

static MPI_Comm comm, made, self_part;
static MPI_Win win;
static MPI_File file;
static MPI_Group everybody;
static char file_name[64];
static int memory[2];

static void call_comm_dup(void) { MPI_Comm_dup(comm, &made); }
static void call_comm_free(void) { MPI_Comm_free(&made); }
static void call_comm_disconnect(void) { MPI_Comm_disconnect(&made); }
static void call_comm_dup_with_info(void) { MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made); }
static void call_comm_idup(void)
{
    MPI_Request request;
    MPI_Comm_idup(comm, &made, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void call_comm_create(void) { MPI_Comm_create(comm, everybody, &made); }
static void call_comm_create_group(void) { MPI_Comm_create_group(comm, everybody, 9, &made); }
static void call_comm_split(void) { MPI_Comm_split(comm, 0, 0, &made); }
static void call_comm_split_type(void) { MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made); }
static void call_intercomm_create(void) { MPI_Intercomm_create(self_part, 0, comm, other, 8, &made); }
static void call_intercomm_merge(void)
{
    MPI_Comm merged;
    MPI_Intercomm_merge(made, dropin.rank, &merged);
    PMPI_Comm_free(&merged);
}
static void call_cart_create(void) { MPI_Cart_create(comm, 1, &dropin.size, (int[]){0}, 0, &made); }
static void call_cart_sub(void)
{
    MPI_Comm part;
    MPI_Cart_sub(made, (int[]){1}, &part);
    PMPI_Comm_free(&part);
}
static void call_graph_create(void) { MPI_Graph_create(comm, 2, (int[]){1, 2}, (int[]){1, 0}, 0, &made); }
#ifndef OPEN_MPI
static void call_dist_graph_create(void)
{
    MPI_Dist_graph_create(comm, 1, &dropin.rank, (int[]){1}, &other, (int[]){1}, MPI_INFO_NULL, 0, &made);
}
#endif
static void call_dist_graph_create_adjacent(void)
{
    MPI_Dist_graph_create_adjacent(comm, 1, &other, (int[]){1}, 1, &other, (int[]){1}, MPI_INFO_NULL, 0, &made);
}
static void call_barrier(void) { MPI_Barrier(comm); }
static void call_ibarrier(void)
{
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void call_allreduce(void) { MPI_Allreduce(MPI_IN_PLACE, memory, 1, MPI_INT, MPI_SUM, comm); }
static void call_iallreduce(void)
{
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, memory, 1, MPI_INT, MPI_SUM, comm, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void call_win_create(void) { MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win); }
static void call_win_allocate(void)
{
    void *base;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &base, &win);
}
static void call_win_allocate_shared(void)
{
    void *base;
    MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, comm, &base, &win);
}
static void call_win_create_dynamic(void) { MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win); }
static void call_win_fence(void) { MPI_Win_fence(0, win); }
static void call_win_post_wait(void)
{
    MPI_Win_post(everybody, 0, win);
    MPI_Win_start(everybody, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
}
static void call_win_free(void) { MPI_Win_free(&win); }
static void call_file_open(void)
{
    MPI_File_open(comm, file_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}
static void call_file_set_view(void) { MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL); }
static void call_file_set_size(void) { MPI_File_set_size(file, 4096); }
static void call_file_preallocate(void) { MPI_File_preallocate(file, 4096); }
static void call_file_write_all(void)
{
    MPI_File_write_at_all(file, dropin.rank, memory, 1, MPI_INT, MPI_STATUS_IGNORE);
}
static void call_file_set_atomicity(void) { MPI_File_set_atomicity(file, 0); }
static void call_file_sync(void) { MPI_File_sync(file); }
static void call_file_close(void) { MPI_File_close(&file); }
/* Answers that the other rank gives after it has received. */
static void call_recv(void)
{
    int got = -1;
    MPI_Request request;
    PMPI_Irecv(&got, 1, MPI_INT, other, 2, comm, &request);
    MPI_Send(&dropin.rank, 1, MPI_INT, other, 2, comm);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(got, other);
}

static void run_blocks(void)
{
    static void (*const calls[])(void) = {
        call_comm_dup, call_comm_free, call_comm_dup_with_info, call_comm_disconnect, call_comm_idup, call_comm_free,
        call_comm_create, call_comm_free, call_comm_create_group, call_comm_free, call_comm_split, call_comm_free,
        call_comm_split_type, call_comm_free, call_intercomm_create, call_intercomm_merge, call_comm_free,
        call_cart_create, call_cart_sub, call_comm_free, call_graph_create, call_comm_free,
#ifndef OPEN_MPI /* of which 4.1 hangs in this one now and then, without the drop-in as well */
        call_dist_graph_create, call_comm_free,
#endif
        call_dist_graph_create_adjacent, call_comm_free, call_barrier, call_ibarrier, call_allreduce,
        call_iallreduce, call_win_create, call_win_fence, call_win_post_wait, call_win_free, call_win_allocate,
        call_win_fence, call_win_free, call_win_allocate_shared, call_win_free, call_win_create_dynamic, call_win_free,
        call_file_open, call_file_set_view, call_file_set_size, call_file_preallocate, call_file_write_all,
        call_file_set_atomicity, call_file_sync, call_file_close, call_recv};
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    PMPI_Comm_split(MPI_COMM_WORLD, dropin.rank, 0, &self_part);
    PMPI_Comm_group(MPI_COMM_WORLD, &everybody);
    int job = (int)getpid();
    PMPI_Bcast(&job, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(file_name, sizeof file_name, "/tmp/selvage-batch-%d", job);
    const int n = (int)(sizeof calls / sizeof calls[0]);
    for (int i = 0; i < n; i++) {
        /* The ranks take turns, so that each call stands after a send on one and after its receive on the other. */
        MPI_Request request = MPI_REQUEST_NULL;
        const bool sends = (i / 2 + dropin.rank) % 2 == 0;
        if (sends)
            request = isend_number(i, 1, comm);
        else
            expect_number(i, 1, comm);
        calls[i]();
        CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    unlink(file_name);
    PMPI_Group_free(&everybody);
    PMPI_Comm_free(&self_part);
    PMPI_Comm_free(&comm);
}

/* --- persistent sends --------------------------------------------------------------------------------------------- */

/* More long ones than there are slots: the route has no room for the last of them. The short ones are MPI's own. */
static void run_starts(void)
{
    enum { PAIRS = 8, ROUNDS = 3 };
    MPI_Request request[2 * PAIRS];
    int *in = malloc(MIDDLE_BYTES), host[2 * PAIRS];
    int *longs = device_memory((size_t)PAIRS * MIDDLE_BYTES);
    for (int i = 0; i < 2 * PAIRS; i++)
        host[i] = i;
    for (int i = 0; i < PAIRS; i++)
        copy_up(longs + i * MIDDLE_BYTES / (int)sizeof(int), &host[2 * i], sizeof(int));
    dropin_await_route(middle, MIDDLE_BYTES, NULL);
    for (int i = 0; i < PAIRS; i++) {
        MPI_Send_init(longs + i * MIDDLE_BYTES / (int)sizeof(int), MIDDLE_BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                      &request[2 * i]);
        MPI_Send_init(&host[2 * i + 1], 1, MPI_INT, other, TAG, MPI_COMM_WORLD, &request[2 * i + 1]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Startall(2 * PAIRS, request);
        for (int i = 0; i < 2 * PAIRS; i++) {
            in[0] = -1;
            CHECK_EQ(MPI_Recv(in, MIDDLE_BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
            CHECK_EQ(in[0], i);
        }
        CHECK_EQ(MPI_Waitall(2 * PAIRS, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        MPI_Request_free(&request[i]);
    selvage_device_free(dropin.device, longs);
    free(in);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void run_errors(void)
{
    enum { GOOD = 4 };
    MPI_Request request[GOOD], refused = MPI_REQUEST_NULL;
    MPI_Datatype pair;
    int *found, has = 0;
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &found, &has);
    if (dropin.rank == 0) {
        request[0] = isend_number(0, TAG, MPI_COMM_WORLD);
        CHECK(MPI_Isend(numbers, 1, MPI_INT, 2, TAG, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        CHECK(MPI_Isend(numbers, 1, MPI_INT, -77, TAG, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        request[1] = isend_number(1, TAG, MPI_COMM_WORLD);
        CHECK(MPI_Isend(numbers, 1, MPI_INT, other, -77, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        if (has && *found < INT32_MAX)
            CHECK(MPI_Isend(numbers, 1, MPI_INT, other, *found + 1, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        request[2] = isend_number(2, TAG, MPI_COMM_WORLD);
        CHECK(MPI_Isend(numbers, 1, MPI_INT, other, TAG, MPI_COMM_NULL, &refused) != MPI_SUCCESS);
        CHECK(MPI_Isend(numbers, -1, MPI_INT, other, TAG, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        MPI_Type_vector(2, 1, 2, MPI_INT, &pair); /* not committed */
        CHECK(MPI_Isend(numbers, 1, pair, other, TAG, MPI_COMM_WORLD, &refused) != MPI_SUCCESS);
        MPI_Type_free(&pair);
        CHECK_EQ(MPI_Isend(numbers, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &refused), MPI_SUCCESS);
        MPI_Wait(&refused, MPI_STATUS_IGNORE);
        request[3] = isend_number(3, TAG, MPI_COMM_WORLD);
        CHECK_EQ(MPI_Waitall(GOOD, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    }
    for (int i = 0; dropin.rank == 1 && i < GOOD; i++)
        expect_number(i, TAG, MPI_COMM_WORLD);
}

/* Each request says it, whichever call ends it, and later messages come. */
static void run_fails(void)
{
    MPI_Request request[3];
    MPI_Status status[2];
    for (int i = 0; i < 3; i++)
        request[i] = isend_number(i, TAG, MPI_COMM_WORLD);
    mpi_fails = true;
    CHECK_EQ(MPI_Wait(&request[0], MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    CHECK_EQ(MPI_Waitall(2, request + 1, status), MPI_ERR_IN_STATUS);
    CHECK(status[0].MPI_ERROR == MPI_ERR_OTHER && status[1].MPI_ERROR == MPI_ERR_OTHER);
    mpi_fails = false;
    request[0] = isend_number(7, TAG, MPI_COMM_WORLD);
    expect_number(7, TAG, MPI_COMM_WORLD);
    CHECK_EQ(MPI_Wait(&request[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void free_sends(void)
{
    MPI_Request request;
    for (int i = 0; dropin.rank == 0 && i < 3; i++)
        request = isend_number(i, 11, MPI_COMM_WORLD);
    if (dropin.rank == 0)
        MPI_Request_free(&request);
    for (int i = 0; dropin.rank == 1 && i < 3; i++)
        expect_number(i, 11, MPI_COMM_WORLD);
}

static void cancel_send(void)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    if (dropin.rank == 0) {
        request = isend_number(7, 12, MPI_COMM_WORLD);
        CHECK_EQ(MPI_Cancel(&request), MPI_SUCCESS);
        /* Not every MPI cancels sends, and the message may have to be received. */
        MPI_Send(&dropin.rank, 1, MPI_INT, other, 13, MPI_COMM_WORLD);
    } else {
        expect_number(0, 13, MPI_COMM_WORLD);
        MPI_Irecv(&numbers[NUMBERS - 1], 1, MPI_INT, other, 12, MPI_COMM_WORLD, &request);
    }
    if (dropin.rank == 0) {
        CHECK_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
        MPI_Test_cancelled(&status, &cancelled);
        MPI_Send(&cancelled, 1, MPI_INT, other, 14, MPI_COMM_WORLD);
        return;
    }
    MPI_Recv(&cancelled, 1, MPI_INT, other, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (cancelled)
        MPI_Cancel(&request);
    CHECK_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
    int got = 0;
    copy_down(&got, &numbers[NUMBERS - 1], sizeof got);
    CHECK_EQ(got, cancelled ? NUMBERS - 1 : 7);
    copy_up(&numbers[NUMBERS - 1], &(int){NUMBERS - 1}, sizeof got);
}

/* What a send was given may be gone before MPI has it. */
static void send_what_is_gone(void)
{
    enum { ROWS = 5 };
    MPI_Request request[2];
    MPI_Datatype rows;
    MPI_Comm own;
    int got[2 * ROWS];
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Type_vector(ROWS, 2, 4, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    if (dropin.rank == 0) {
        CHECK_EQ(MPI_Isend(&numbers[3], 1, rows, other, 15, own, &request[0]), MPI_SUCCESS);
        request[1] = isend_number(4, 15, own);
    }
    MPI_Type_free(&rows);
    if (dropin.rank == 1) {
        MPI_Recv(got, 2 * ROWS, MPI_INT, other, 15, own, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 * ROWS; i++)
            CHECK_EQ(got[i], 3 + i / 2 * 4 + i % 2);
        expect_number(4, 15, own);
    }
    MPI_Comm_free(&own);
    if (dropin.rank == 0)
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
}

/* Each call that completes or asks posts what is batched, or it would ask for ever. */
static void poll_sends(void)
{
    for (int how = 0; how < 9; how++) {
        MPI_Request request[2];
        MPI_Status status[2];
        MPI_Message message;
        int flag = 0, index, indices[2];
        if (dropin.rank == 1) {
            expect_number(how, 16, MPI_COMM_WORLD);
            expect_number(how + 1, 16, MPI_COMM_WORLD);
            MPI_Send(&how, 1, MPI_INT, other, 17, MPI_COMM_WORLD);
            continue;
        }
        request[0] = isend_number(how, 16, MPI_COMM_WORLD);
        request[1] = isend_number(how + 1, 16, MPI_COMM_WORLD);
        while (!flag)
            switch (how) {
            case 0: MPI_Test(&request[1], &flag, status); break;
            case 1: MPI_Testall(2, request, &flag, status); break;
            case 2: MPI_Testany(2, request, &index, &flag, status); break;
            case 3: MPI_Testsome(2, request, &flag, indices, status); break;
            case 4: MPI_Request_get_status(request[0], &flag, status); break;
            case 5: MPI_Iprobe(other, 17, MPI_COMM_WORLD, &flag, status); break;
            case 6:
                MPI_Mprobe(other, 17, MPI_COMM_WORLD, &message, status);
                MPI_Mrecv(&flag, 1, MPI_INT, &message, status);
                CHECK_EQ(flag, how);
                break;
            case 7: MPI_Waitany(2, request, &index, status); flag = 1; break;
            default: MPI_Waitsome(2, request, &flag, indices, status); break;
            }
        CHECK_EQ(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        if (how != 6)
            expect_number(how, 17, MPI_COMM_WORLD);
    }
}

static void run_ends(void)
{
    free_sends();
    cancel_send();
    send_what_is_gone();
    poll_sends();
}

static void run_many(void)
{
    static MPI_Request request[MANY];
    static int got[MANY];
    int *in = device_memory(MANY * sizeof *in);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MANY; i++)
            if (dropin.rank == turn)
                request[i] = isend_number((i + turn) % NUMBERS, 20, MPI_COMM_WORLD);
            else
                MPI_Irecv(&in[i], 1, MPI_INT, other, 20, MPI_COMM_WORLD, &request[i]);
        CHECK_EQ(MPI_Waitall(MANY, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        if (dropin.rank == turn)
            continue;
        copy_down(got, in, sizeof got);
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(got[i], (i + turn) % NUMBERS);
    }
    selvage_device_free(dropin.device, in);
}

/* After the ranks have found each other, a row of messages that the route cannot have is one batch. */
static void run_unshared(void)
{
    enum { SENDS = 64, EACH = 512 };
    static int got[SENDS * EACH];
    MPI_Request request[SENDS];
    for (int turn = 0; turn < 200; turn++)
        MPI_Sendrecv(numbers, EACH, MPI_INT, other, 1, far, EACH, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < SENDS; i++)
        dropin.rank == 0 ? MPI_Isend(numbers + i, EACH, MPI_INT, other, i, MPI_COMM_WORLD, &request[i])
                         : MPI_Irecv(far + i * EACH, EACH, MPI_INT, other, i, MPI_COMM_WORLD, &request[i]);
    CHECK_EQ(MPI_Waitall(SENDS, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    copy_down(got, far, sizeof got);
    for (int i = 0; i < SENDS * EACH && dropin.rank == 1; i++)
        CHECK_EQ(got[i], i % EACH + i / EACH);
}

static void run_lands(void)
{
    MPI_Request request[LANDED];
    char *there = device_memory(LANDED * LANDED_BYTES), byte = 0;
    selvage_device_fill(dropin.device, there, 'a' + dropin.rank, LANDED * LANDED_BYTES, dropin.stream);
    selvage_stream_synchronize(dropin.device, dropin.stream);
    for (int i = 0; i < LANDED && dropin.rank == 1; i++)
        MPI_Irecv(there + (ptrdiff_t)i * LANDED_BYTES, LANDED_BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < LANDED && dropin.rank == 0; i++)
        MPI_Isend(there + (ptrdiff_t)i * LANDED_BYTES, LANDED_BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    if (dropin.rank == 0)
        MPI_Waitall(LANDED, request, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dropin.rank == 1)
        MPI_Waitall(LANDED, request, MPI_STATUSES_IGNORE);
    copy_down(&byte, there + LANDED * LANDED_BYTES - 1, 1);
    CHECK_EQ(byte, 'a');
    selvage_device_free(dropin.device, there);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } runs[] = {
        {"order", run_order}, {"blocks", run_blocks}, {"errors", run_errors}, {"fails", run_fails}, {"ends", run_ends},
        {"starts", run_starts}, {"many", run_many}, {"lands", run_lands}, {"unshared", run_unshared},
        {"threads", run_order}};
    static int host[NUMBERS];
    const char *what = argc > 1 ? argv[1] : "order";
    bool known = false;
    int cases;
    dropin_begin(1, argv, strcmp(what, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &cases);
    CHECK_EQ(dropin.size, 2);
    other = 1 - dropin.rank;
    numbers = device_memory(sizeof host);
    middle = device_memory(MIDDLE_BYTES);
    far = device_memory(LONG_BYTES);
    for (int i = 0; i < NUMBERS; i++)
        host[i] = i;
    copy_up(numbers, host, sizeof host);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        if (strcmp(what, runs[i].name) == 0) {
            known = true;
            if (runs[i].run != run_errors || !mpi_leaves_out_refusals(dropin.rank))
                runs[i].run();
        }
    CHECK(known);
    selvage_device_free(dropin.device, numbers);
    selvage_device_free(dropin.device, middle);
    selvage_device_free(dropin.device, far);
    return dropin_end("dropin_batch");
}
