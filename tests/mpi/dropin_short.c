/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for receives of device memory that are too short, among messages that are not: each
   says so, and what the others get is right. Open MPI 4.1 writes past the end of such a receive, so that the drop-in's
   staging memory must not be what lies there. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { SENT_MOST = 1 << 18, OTHERS = 8, OTHER_MOST = 30000, SHORT_TAG = 50, WAYS = 7 };

static int handled, handled_code; /* calls of the error handler, and what the last one was told */

static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_code = *code;
}

static int class_of_receive(int code, const MPI_Status *status)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(handled > 0 && !mpi_returns_what_it_handled() ? handled_code : code, &class);
    if (class == MPI_ERR_IN_STATUS)
        MPI_Error_class(status->MPI_ERROR, &class);
    return class;
}

static int bytes_of_other(int i)
{
    static const int bytes[OTHERS] = {40, 1000, OTHER_MOST, 200, 5000, 90, 12000, 300};
    return bytes[i];
}

static void fill_device(void *memory, int value, int bytes)
{
    selvage_device_fill(the.device, memory, value, (size_t)bytes, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* How many of the first bytes have that value. */
static int count_same(const void *memory, int value, int bytes)
{
    static uint8_t seen[SENT_MOST];
    int same = 0;
    selvage_device_copy(the.device, seen, memory, (size_t)bytes, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    while (same < bytes && seen[same] == value)
        same++;
    return same;
}

/* Receives in one of the ways; returns MPI's code. */
static int receive_by(int way, void *in, int room, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Message message;
    int code = MPI_SUCCESS;
    switch (way) {
    case 0: return MPI_Recv(in, room, type, the.left, SHORT_TAG, MPI_COMM_WORLD, status);
    case 1:
        MPI_Irecv(in, room, type, MPI_ANY_SOURCE, SHORT_TAG, MPI_COMM_WORLD, &r);
        return MPI_Wait(&r, status);
    case 2:
        return MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, in, room, type, the.left, SHORT_TAG, MPI_COMM_WORLD,
                            status);
    case 3:
        MPI_Recv_init(in, room, type, the.left, SHORT_TAG, MPI_COMM_WORLD, &r);
        MPI_Start(&r);
        code = MPI_Wait(&r, status);
        if (r != MPI_REQUEST_NULL)
            MPI_Request_free(&r);
        return code;
    case 4:
        MPI_Mprobe(the.left, SHORT_TAG, MPI_COMM_WORLD, &message, status);
        return MPI_Mrecv(in, room, type, &message, status);
    case 5:
        return MPI_Sendrecv_replace(in, room, type, MPI_PROC_NULL, 0, the.left, SHORT_TAG, MPI_COMM_WORLD, status);
    default:
        MPI_Irecv(in, room, type, the.left, SHORT_TAG, MPI_COMM_WORLD, &r);
        code = MPI_Waitall(1, &r, status);
        return code == MPI_SUCCESS ? code : status->MPI_ERROR;
    }
}

/* A long message and its receive. */
typedef struct pass {
    int way, sent, room, each; /* each: bytes of an element of type */
    MPI_Datatype type;
    const void *out;
    char *in;
    char *others[2 * OTHERS]; /* where the others come to, and where they come from */
} pass_t;

static void send_others(const pass_t *pass, int first, int end, MPI_Request *sends)
{
    for (int i = first; i < end; i++)
        MPI_Isend(pass->others[OTHERS + i], bytes_of_other(i), MPI_BYTE, the.right, i, MPI_COMM_WORLD, &sends[i]);
}

static void receive_others(const pass_t *pass, MPI_Request *receives)
{
    for (int i = 0; i < OTHERS; i++) {
        fill_device(pass->others[i], 0xee, bytes_of_other(i));
        fill_device(pass->others[OTHERS + i], 10 + i, bytes_of_other(i));
    }
    for (int i = 0; i < OTHERS; i++)
        MPI_Irecv(pass->others[i], bytes_of_other(i), MPI_BYTE, the.left, i, MPI_COMM_WORLD, &receives[i]);
}

static void pass_long(const pass_t *pass, MPI_Request *send)
{
    const bool is_long = pass->sent > pass->room, has_gaps = pass->each > 1;
    const int wanted = is_long ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    const int span = has_gaps ? pass->room / 2 * 3 : pass->room, run = has_gaps ? pass->sent > 0 : pass->sent;
    MPI_Status status;
    int count = -1;
    fill_device(pass->in, 0xee, SENT_MOST);
    MPI_Barrier(MPI_COMM_WORLD);
    handled = 0;
    MPI_Isend(pass->out, pass->sent, MPI_BYTE, the.right, SHORT_TAG, MPI_COMM_WORLD, send);
    const int code = receive_by(pass->way, pass->in, pass->room / pass->each, pass->type, &status);
    const int class = class_of_receive(code, &status);
    if (class != wanted)
        printf("rank %d: way %d, %d bytes sent, room for %d\n", the.rank, pass->way, pass->sent, pass->room);
    CHECK_EQ(class, wanted);
    /* MPICH's own question whether a persistent request is complete calls the handler as well. */
    CHECK(pass->way == 3 ? (handled > 0) == is_long : handled == is_long);
    CHECK_EQ(count_same(pass->in + span, 0xee, SENT_MOST - span), SENT_MOST - span);
    if (is_long)
        return;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQ(count, pass->sent);
    CHECK_EQ(count_same(pass->in, 5, run), run);
}

/* Among other messages from device memory to device memory, half of which have come when the long one does, or, alone,
   before them. */
static void pass_among(const pass_t *pass, bool alone)
{
    MPI_Request receives[OTHERS], sends[OTHERS], send;
    if (alone) {
        pass_long(pass, &send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    receive_others(pass, receives);
    send_others(pass, 0, OTHERS / 2, sends);
    if (!alone) {
        pass_long(pass, &send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    send_others(pass, OTHERS / 2, OTHERS, sends);
    MPI_Waitall(OTHERS, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(OTHERS, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ(count_same(pass->others[i], 10 + i, bytes_of_other(i)), bytes_of_other(i));
}

/* The long message is from host memory, which MPI is given as it is, or from device memory. */
void run_among(void)
{
    static const int rooms[] = {0, 1, 104, 4096, 20000};
    char *const out = device_bytes(SENT_MOST), *const host = malloc(SENT_MOST);
    pass_t pass = {.in = device_bytes(SENT_MOST)};
    MPI_Errhandler handler;
    MPI_Datatype gaps;
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps); /* 8 bytes of 12 */
    MPI_Type_commit(&gaps);
    for (int i = 0; i < 2 * OTHERS; i++)
        pass.others[i] = device_bytes(OTHER_MOST);
    fill_device(out, 5, SENT_MOST);
    memset(host, 5, SENT_MOST);
    open_fast_route();
    for (pass.way = 0; pass.way < WAYS; pass.way++)
        for (size_t i = 0; i < sizeof rooms / sizeof *rooms * 5; i++) {
            const int room = pass.room = rooms[i / 5];
            const int sends[] = {room > 0 ? room - 1 : 0, room, room + 1, room + 2, SENT_MOST};
            pass.sent = sends[i % 5];
            if (room == 0 && pass.sent > 0 && !mpi_sees_no_room())
                continue;
            for (int kind = 0; kind < (room % 8 == 0 ? 4 : 2); kind++) {
                /* In ./check the first pass has every second one, and the others the rest: either each way and kind. */
                if (check_part(3) < 3 && ((size_t)pass.way + i + (size_t)kind) % 2 == check_brief())
                    continue;
                pass.out = kind % 2 ? host : out;
                pass.each = kind < 2 ? 1 : 8;
                pass.type = kind < 2 ? MPI_BYTE : gaps;
                pass_among(&pass, false);
                if (kind % 2 && pass.way % 2 == 0) /* no request of the drop-in's is open then */
                    pass_among(&pass, true);
            }
        }
    MPI_Type_free(&gaps);
    MPI_Errhandler_free(&handler);
    free(host);
}
