/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for staged messages that go in fragments: their lengths, all ways to receive them, and
 * what the program may do between their beginning and their end. The settings say from what length on (LONG), and how
 * long a fragment is. The report, which the script reads, says that there were fragments.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

/* WARM: messages until a rank invites another one; WARM_AGAIN: after it has withdrawn that. */
enum { LONG = 64 << 10, MOST = 3 * LONG + 24, WARM = 6, WARM_AGAIN = 320, TAG = 60, WINDOW = 64 };

static unsigned char *shadow; /* of MOST bytes, of the host's */

static unsigned char byte_at(int seed, size_t i)
{
    return (unsigned char)(seed * 31 + (int)(i * 7) + (int)(i >> 10));
}

static void fill_with(void *memory, bool host, int seed, size_t bytes)
{
    unsigned char *at = host ? memory : shadow;
    for (size_t i = 0; i < bytes; i++)
        at[i] = byte_at(seed, i);
    if (host)
        return;
    selvage_device_copy(the.device, memory, shadow, bytes, SELVAGE_COPY_HOST_TO_DEVICE, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* Whether the first bytes are those of the seed, and the others up to `end` are zero. */
static bool has_bytes(const void *memory, bool host, int seed, size_t bytes, size_t end)
{
    const unsigned char *at = host ? memory : shadow;
    size_t i = 0;
    if (!host) {
        selvage_device_copy(the.device, shadow, memory, end, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
    }
    while (i < bytes && at[i] == byte_at(seed, i))
        i++;
    while (i >= bytes && i < end && at[i] == 0)
        i++;
    return i == end;
}

static void clear(void *memory, bool host, size_t bytes)
{
    if (host)
        memset(memory, 0, bytes);
    else
        selvage_device_fill(the.device, memory, 0, bytes, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* Memory of both kinds at both ends. */
typedef struct buffers {
    unsigned char *out, *in, *host_in, *host_out;
} buffers_t;

static buffers_t make_buffers(size_t bytes)
{
    shadow = malloc(MOST);
    return (buffers_t){device_bytes(bytes), device_bytes(bytes), malloc(bytes), malloc(bytes)};
}

static void free_buffers(const buffers_t *buffers)
{
    selvage_device_free(the.device, buffers->out);
    selvage_device_free(the.device, buffers->in);
    free(buffers->host_in);
    free(buffers->host_out);
    free(shadow);
}

/* Long messages to all other ranks, until each has invited each. */
static void warm_up(const buffers_t *buffers, int n)
{
    for (int i = 0; i < n; i++)
        for (int step = 1; step < the.ranks; step++)
            MPI_Sendrecv(buffers->out, LONG, MPI_BYTE, (the.rank + step) % the.ranks, TAG, buffers->in, LONG, MPI_BYTE,
                         (the.rank + the.ranks - step) % the.ranks, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* --- ways to receive ---------------------------------------------------------------------------------------------- */

enum { WAYS = 12 };

static int receive_in_way(int way, void *in, int room, MPI_Status *status)
{
    MPI_Request r = MPI_REQUEST_NULL, others[2];
    MPI_Message message;
    int flag = 0, index, n = 0, code = MPI_SUCCESS, bytes = 0;
    switch (way) {
    case 0: return MPI_Recv(in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, status);
    case 1: return MPI_Recv(in, room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status);
    case 2:
        MPI_Irecv(in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r);
        while (!flag)
            code = MPI_Test(&r, &flag, status);
        return code;
    case 3:
        MPI_Probe(the.left, TAG, MPI_COMM_WORLD, status);
        MPI_Get_count(status, MPI_BYTE, &bytes);
        CHECK(bytes >= LONG - 1);
        return MPI_Recv(in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, status);
    case 4:
        MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, status);
        return MPI_Mrecv(in, room, MPI_BYTE, &message, status);
    case 5:
        while (!flag)
            MPI_Improbe(the.left, TAG, MPI_COMM_WORLD, &flag, &message, status);
        MPI_Imrecv(in, room, MPI_BYTE, &message, &r);
        return MPI_Wait(&r, status);
    case 6:
    case 7:
        MPI_Recv_init(in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r);
        MPI_Start(&r);
        if (way == 6)
            code = MPI_Wait(&r, status);
        while (way == 7 && !flag)
            code = MPI_Testany(1, &r, &index, &flag, status);
        if (r != MPI_REQUEST_NULL)
            MPI_Request_free(&r);
        return code;
    case 8:
        return MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD,
                            status);
    case 9:
        return MPI_Sendrecv_replace(in, room, MPI_BYTE, MPI_PROC_NULL, 0, the.left, TAG, MPI_COMM_WORLD, status);
    case 10:
        others[0] = MPI_REQUEST_NULL;
        MPI_Irecv(in, room, MPI_BYTE, the.left, MPI_ANY_TAG, MPI_COMM_WORLD, &others[1]);
        code = MPI_Waitany(2, others, &index, status);
        CHECK_EQ(index, 1);
        return code;
    default:
        MPI_Irecv(in, room, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r);
        while (n == 0)
            code = MPI_Testsome(1, &r, &n, &index, status);
        return code == MPI_ERR_IN_STATUS ? status->MPI_ERROR : code;
    }
}

static const int lengths[] = {LONG - 1, LONG, LONG + 3, 2 * LONG, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void send_in_way(int way, const void *out, int bytes, MPI_Request *request)
{
    if (way % 3 == 0) {
        MPI_Isend(out, bytes, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD, request);
    } else if (way % 3 == 1) {
        MPI_Send_init(out, bytes, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD, request);
        MPI_Start(request);
    } else {
        MPI_Irsend(out, bytes, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD, request); /* where a receive is not posted,
                                                                                     MPIs take it all the same */
    }
}

static void pass_in_each_way(const buffers_t *buffers)
{
    for (int at = 0; at < LENGTHS * WAYS * 2; at++) {
        const int bytes = lengths[at % LENGTHS], way = at / LENGTHS % WAYS;
        const bool host = at / LENGTHS / WAYS;
        void *in = host ? buffers->host_in : buffers->in;
        MPI_Request sent;
        MPI_Status status;
        int got = 0;
        fill_with(buffers->out, false, at + the.rank, (size_t)bytes);
        clear(in, host, MOST);
        send_in_way(at / LENGTHS % 2, buffers->out, bytes, &sent);
        CHECK_EQ(receive_in_way(way, in, MOST, &status), MPI_SUCCESS);
        CHECK_EQ(status.MPI_SOURCE, the.left);
        CHECK_EQ(status.MPI_TAG, TAG);
        MPI_Get_count(&status, MPI_BYTE, &got);
        CHECK_EQ(got, bytes);
        CHECK(has_bytes(in, host, at + the.left, (size_t)bytes, MOST));
        CHECK_EQ(MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
        if (sent != MPI_REQUEST_NULL)
            MPI_Request_free(&sent);
    }
    /* Both at once, and a ready send to a receive that is posted. */
    for (int i = 0; i < LENGTHS; i++) {
        MPI_Request r[2];
        fill_with(buffers->out, false, i + the.rank, (size_t)lengths[i]);
        MPI_Sendrecv(buffers->out, lengths[i], MPI_BYTE, the.right, TAG, buffers->in, MOST, MPI_BYTE, the.left, TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(has_bytes(buffers->in, false, i + the.left, (size_t)lengths[i], (size_t)lengths[i]));
        MPI_Irecv(buffers->in, MOST, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r[0]);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, the.left, TAG + 1, NULL, 0, MPI_BYTE, the.right, TAG + 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        send_in_way(2, buffers->out, lengths[i], &r[1]);
        CHECK_EQ(MPI_Waitall(2, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        CHECK(has_bytes(buffers->in, false, i + the.left, (size_t)lengths[i], (size_t)lengths[i]));
    }
}

/* A window of messages both ways, of which every second one goes to host memory. */
static void pass_windows(void)
{
    enum { BYTES_EACH = LONG + 8 };
    unsigned char *out = device_bytes((size_t)WINDOW * BYTES_EACH), *in = device_bytes((size_t)WINDOW * BYTES_EACH),
                  *host_in = malloc((size_t)WINDOW * BYTES_EACH);
    MPI_Request r[2 * WINDOW];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < WINDOW; i++)
            fill_with(out + (size_t)i * BYTES_EACH, false, i + round + the.rank, BYTES_EACH);
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv((i % 2 ? host_in : in) + (size_t)i * BYTES_EACH, BYTES_EACH, MPI_BYTE, the.left, TAG,
                      MPI_COMM_WORLD, &r[i]);
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out + (size_t)i * BYTES_EACH, BYTES_EACH, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD,
                      &r[WINDOW + i]);
        CHECK_EQ(MPI_Waitall(2 * WINDOW, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        for (int i = 0; i < WINDOW; i++)
            CHECK(has_bytes((i % 2 ? host_in : in) + (size_t)i * BYTES_EACH, i % 2, i + round + the.left, BYTES_EACH,
                            BYTES_EACH));
    }
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(host_in);
}

/* Every second word goes, and comes to every second word, or as a run. */
static void pass_types(const buffers_t *buffers)
{
    enum { WORDS = MOST / 16 };
    MPI_Datatype words, part, ranks;
    MPI_Type_vector(WORDS, 8, 16, MPI_BYTE, &words);
    MPI_Type_commit(&words);
    const int sizes[] = {2 * WORDS, 8}, distribution[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE},
              arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 1};
    MPI_Type_create_darray(2, 0, 2, sizes, distribution, arguments, grid, MPI_ORDER_C, MPI_BYTE, &ranks);
    MPI_Type_commit(&ranks); /* the same bytes, of a type that is not taken apart */
    MPI_Type_contiguous(8 * WORDS, MPI_BYTE, &part);
    MPI_Type_commit(&part);
    const MPI_Datatype types[] = {words, part, ranks};
    for (int way = 0; way < 3 * 3 * 2; way++) {
        const MPI_Datatype out = types[way % 3], in = types[way / 3 % 3];
        const bool host = way >= 9;
        void *to = host ? buffers->host_in : buffers->in;
        unsigned char *seen = malloc(MOST);
        MPI_Request r[2];
        bool right = true;
        fill_with(buffers->out, false, way + the.rank, MOST);
        clear(to, host, MOST);
        MPI_Irecv(to, 1, in, the.left, TAG, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(buffers->out, 1, out, the.right, TAG, MPI_COMM_WORLD, &r[1]);
        CHECK_EQ(MPI_Waitall(2, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        if (host)
            memcpy(seen, to, MOST);
        else
            selvage_device_copy(the.device, seen, to, MOST, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        for (size_t i = 0; i < WORDS * 16; i++) {
            /* The byte of the stream that lies here, and where that lay at the other end. */
            const bool gap = in != part && i % 16 >= 8, outside = in == part && i >= WORDS * 8;
            const size_t at = in == part ? i : i / 16 * 8 + i % 16, from = out == part ? at : at / 8 * 16 + at % 8;
            right = right && seen[i] == (gap || outside ? 0 : byte_at(way + the.left, from));
        }
        CHECK(right);
        free(seen);
    }
    MPI_Type_free(&words);
    MPI_Type_free(&part);
    MPI_Type_free(&ranks);
}

#if MPI_VERSION >= 4
/* A receiver that waits by asking about a partition, which comes only when its other receive has been served. */
static void pass_beside_parts(const buffers_t *buffers)
{
    MPI_Request in = MPI_REQUEST_NULL, parts = MPI_REQUEST_NULL;
    int word = 5, flag = 0;
    if (the.rank == 0) {
        MPI_Psend_init(&word, 1, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD, MPI_INFO_NULL, &parts);
        MPI_Start(&parts);
        fill_with(buffers->out, false, 78, MOST);
        MPI_Send(buffers->out, MOST, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Pready(0, parts);
        MPI_Wait(&parts, MPI_STATUS_IGNORE);
    } else if (the.rank == 1) {
        word = 0;
        MPI_Irecv(buffers->in, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &in);
        MPI_Precv_init(&word, 1, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_INFO_NULL, &parts);
        MPI_Start(&parts);
        while (!flag)
            MPI_Parrived(parts, 0, &flag);
        MPI_Wait(&parts, MPI_STATUS_IGNORE);
        CHECK_EQ(word, 5);
        MPI_Wait(&in, MPI_STATUS_IGNORE);
        CHECK(has_bytes(buffers->in, false, 78, MOST, MOST));
    }
    if (parts != MPI_REQUEST_NULL)
        MPI_Request_free(&parts);
}
#endif

void run_fragments(void)
{
    const buffers_t buffers = make_buffers(MOST);
    warm_up(&buffers, WARM);
    pass_in_each_way(&buffers);
    pass_windows();
    pass_types(&buffers);
#if MPI_VERSION >= 4
    pass_beside_parts(&buffers);
#endif
    free_buffers(&buffers);
}

/* The others send to rank 0, on a communicator that counts its ranks otherwise, and it receives by handles only. Those
   do not say who has sent, so that it invites nobody. */
void run_fragments_matched(void)
{
    const buffers_t buffers = make_buffers(MOST);
    MPI_Comm turned;
    MPI_Message message;
    MPI_Status status;
    MPI_Comm_split(MPI_COMM_WORLD, 0, (the.rank + the.ranks - 1) % the.ranks, &turned);
    const int last = the.ranks - 1;
    for (int i = 0; i < 2 * WARM; i++) {
        fill_with(buffers.out, false, the.rank + i, LONG);
        if (the.rank != 0)
            MPI_Send(buffers.out, LONG, MPI_BYTE, last, TAG, turned);
        for (int from = 0; the.rank == 0 && from < last; from++) {
            clear(buffers.in, false, LONG);
            MPI_Mprobe(last - 1 - from, TAG, turned, &message, &status);
            CHECK_EQ(MPI_Mrecv(buffers.in, LONG, MPI_BYTE, &message, &status), MPI_SUCCESS);
            CHECK(has_bytes(buffers.in, false, last - from + i, LONG, LONG));
        }
    }
    MPI_Comm_free(&turned);
    free_buffers(&buffers);
}

/* Messages of host memory, to ranks that would send in fragments if they were the device's. */
void run_fragments_of_host(void)
{
    const buffers_t buffers = make_buffers(MOST);
    MPI_Request r;
    for (int i = 0; i < 2 * WARM; i++) {
        clear(buffers.in, false, LONG);
        fill_with(buffers.host_out, true, the.rank + i, LONG);
        MPI_Irecv(buffers.in, LONG, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r);
        MPI_Send(buffers.host_out, LONG, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD);
        CHECK_EQ(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK(has_bytes(buffers.in, false, the.left + i, LONG, LONG));
    }
    /* None has been invited by that. */
    fill_with(buffers.out, false, the.rank, LONG);
    MPI_Irecv(buffers.in, LONG, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r);
    MPI_Send(buffers.out, LONG, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD);
    CHECK_EQ(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK(has_bytes(buffers.in, false, the.left, LONG, LONG));
    free_buffers(&buffers);
}

/* --- what the program may do meanwhile ---------------------------------------------------------------------------- */

/* The last rank receives, and the others send and wait for that. Then all of them meet. */
enum { CALLS_BETWEEN = 6, PAUSE_US = 50000 };

static void block_in(int call)
{
    MPI_Comm comm;
    MPI_Win win;
    MPI_File file;
    static char word[8];
    int one = 1, all, made;
    switch (call) {
    case 0: MPI_Barrier(MPI_COMM_WORLD); break;
    case 1:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
        break;
    case 2:
        /* Open MPI 4.1 makes no windows where ranks cannot copy from each other's memory. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        made = MPI_Win_create(word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        if (!made && the.rank == 0)
            printf("this MPI makes no windows here: left out\n");
        if (made) {
            MPI_Win_fence(0, win);
            MPI_Win_free(&win);
        }
        break;
    case 3:
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQ(all, the.ranks);
        break;
    case 4:
        MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        MPI_File_close(&file);
        break;
    default: /* to a rank that receives only after it has sent */
        if (the.rank == the.ranks - 1)
            MPI_Send(shadow, LONG, MPI_BYTE, 0, TAG + 2, MPI_COMM_WORLD);
        else if (the.rank == 0)
            MPI_Recv(shadow, LONG, MPI_BYTE, the.ranks - 1, TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void run_fragments_meet(void)
{
    const buffers_t buffers = make_buffers((size_t)MOST * 4);
    const int last = the.ranks - 1;
    MPI_Request r[4];
    for (int call = 0; call < CALLS_BETWEEN; call++)
        for (int host = 0; host < 2; host++) {
            unsigned char *to = host ? buffers.host_in : buffers.in;
            warm_up(&buffers, call + host > 0 ? WARM_AGAIN : WARM);
            for (int i = 0; the.rank == last && i < last; i++)
                MPI_Irecv(to + (size_t)i * MOST, MOST, MPI_BYTE, i % 2 ? i : MPI_ANY_SOURCE, TAG + 3 + i,
                          MPI_COMM_WORLD, &r[i]);
            fill_with(buffers.out, false, the.rank + call, MOST);
            if (the.rank != last)
                CHECK_EQ(MPI_Send(buffers.out, MOST, MPI_BYTE, last, TAG + 3 + the.rank, MPI_COMM_WORLD), MPI_SUCCESS);
            if (the.rank == last && host) /* in every second round the others have begun in any case */
                usleep(PAUSE_US);
            block_in(call);
            if (the.rank != last)
                continue;
            CHECK_EQ(MPI_Waitall(last, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
            for (int i = 0; i < last; i++)
                CHECK(has_bytes(to + (size_t)i * MOST, host, i + call, MOST, MOST));
        }
    free_buffers(&buffers);
}

/* Three ranks in a circle, of which one sends to the next only when its message to the one before has gone. That one
   has no device memory to send, so that its call could be MPI's own. */
void run_fragments_in_turn(void)
{
    const buffers_t buffers = make_buffers(MOST);
    for (int round = 0; round < 2; round++) {
        void *in = round ? buffers.host_in : buffers.in;
        warm_up(&buffers, WARM);
        fill_with(the.rank == 0 ? buffers.host_out : buffers.out, the.rank == 0, the.rank, MOST);
        if (the.rank == 0)
            MPI_Sendrecv(buffers.host_out, MOST, MPI_BYTE, 2, TAG, in, MOST, MPI_BYTE, 1, TAG, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        else if (the.rank == 1) {
            MPI_Send(buffers.out, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
            MPI_Send(buffers.out, MOST, MPI_BYTE, 2, TAG, MPI_COMM_WORLD);
        } else if (the.rank == 2) {
            MPI_Recv(in, MOST, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(has_bytes(in, round, 1, MOST, MOST));
            MPI_Recv(in, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(has_bytes(in, round, 0, MOST, MOST));
        }
        if (the.rank == 0)
            CHECK(has_bytes(in, round, 1, MOST, MOST));
    }
    free_buffers(&buffers);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static int error_class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

/* Receives that are too short, for an announcement as well, and what comes after them. */
void run_fragments_short(void)
{
    static const int rooms[] = {MOST - 1, LONG + 1, 1000, 251, 100, 8};
    const buffers_t buffers = make_buffers(MOST);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t at = 0; at < sizeof rooms / sizeof *rooms * 4; at++) {
        static const int ways[] = {0, 2, 4, 6};
        const int room = rooms[at / 4], way = ways[at % 4];
        const bool host = (at ^ at / 4) % 2;
        void *in = host ? buffers.host_in : buffers.in;
        MPI_Request sent;
        MPI_Status status;
        warm_up(&buffers, at > 0 ? WARM_AGAIN : WARM);
        fill_with(buffers.out, false, (int)at + the.rank, MOST);
        clear(in, host, MOST);
        MPI_Isend(buffers.out, MOST, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD, &sent);
        CHECK_EQ(error_class_of(receive_in_way(way, in, room, &status)), MPI_ERR_TRUNCATE);
        CHECK_EQ(MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
        /* Nothing is written past the receive's end, but where MPI itself does that. */
        CHECK(host || has_bytes((char *)in + room, false, 0, 0, (size_t)(MOST - room)));
        MPI_Sendrecv(buffers.out, MOST, MPI_BYTE, the.right, TAG, in, MOST, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK(has_bytes(in, host, (int)at + the.left, MOST, MOST));
    }
    free_buffers(&buffers);
}

/* A send that is cancelled ends, whether MPI cancels it or not. The receive is posted only after that. */
static void cancel_send(const buffers_t *buffers)
{
    MPI_Request in, out = MPI_REQUEST_NULL;
    int flag, cancelled = 0, was_cancelled = 0, go = 1;
    MPI_Status status;
    if (the.rank == 0) {
        fill_with(buffers->out, false, 77, MOST);
        MPI_Isend(buffers->out, MOST, MPI_BYTE, 1, TAG + 10, MPI_COMM_WORLD, &out);
        MPI_Cancel(&out);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* a turn */
        MPI_Send(&go, 1, MPI_INT, 1, TAG + 11, MPI_COMM_WORLD);
        MPI_Wait(&out, &status);
        MPI_Test_cancelled(&status, &cancelled);
        MPI_Send(&cancelled, 1, MPI_INT, 1, TAG + 11, MPI_COMM_WORLD);
    } else if (the.rank == 1) {
        MPI_Recv(&go, 1, MPI_INT, 0, TAG + 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(buffers->in, MOST, MPI_BYTE, 0, TAG + 10, MPI_COMM_WORLD, &in);
        MPI_Recv(&was_cancelled, 1, MPI_INT, 0, TAG + 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (was_cancelled)
            MPI_Cancel(&in);
        MPI_Wait(&in, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK_EQ(cancelled, was_cancelled);
        CHECK(cancelled || has_bytes(buffers->in, false, 77, MOST, MOST));
    }
}

/* Receives that are cancelled, and requests that are freed. */
void run_fragments_freed(void)
{
    const buffers_t buffers = make_buffers(MOST);
    MPI_Request r[2];
    MPI_Status status;
    int cancelled = 0, flag = 0;
    warm_up(&buffers, WARM);
    MPI_Irecv(buffers.in, MOST, MPI_BYTE, the.left, TAG + 9, MPI_COMM_WORLD, &r[0]);
    MPI_Cancel(&r[0]);
    MPI_Wait(&r[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
    /* A persistent one, which is another receive each time it is started. It may start again. */
    MPI_Recv_init(buffers.in, MOST, MPI_BYTE, the.left, TAG + 9, MPI_COMM_WORLD, &r[0]);
    for (int i = 0; i < 2; i++) {
        cancelled = 0;
        MPI_Start(&r[0]);
        CHECK_EQ(MPI_Cancel(&r[0]), MPI_SUCCESS);
        MPI_Wait(&r[0], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
    }
    MPI_Request_free(&r[0]);
    cancel_send(&buffers);
    fill_with(buffers.out, false, the.rank, MOST);
    clear(buffers.in, false, MOST);
    MPI_Irecv(buffers.in, MOST, MPI_BYTE, the.left, TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(buffers.out, MOST, MPI_BYTE, the.right, TAG, MPI_COMM_WORLD, &r[1]);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    for (bool came = false; !came; came = has_bytes(buffers.in, false, the.left, MOST, MOST))
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    free_buffers(&buffers);
}

/* --- how long it takes -------------------------------------------------------------------------------------------- */

/* Prints how long a message takes. The script compares that with and without fragments. */
void run_fragments_timed(void)
{
    enum { ROUNDS = 20, LONGER = 8 << 20 };
    unsigned char *out = device_bytes(LONGER), *in = device_bytes(LONGER);
    const int other = the.rank ^ 1;
    double begin = 0;
    for (int i = 0; i < ROUNDS + WARM && other < the.ranks; i++) {
        if (i == WARM)
            begin = MPI_Wtime();
        if (the.rank % 2 == 0)
            MPI_Send(out, LONGER, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
        MPI_Recv(in, LONGER, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (the.rank % 2 == 1)
            MPI_Send(out, LONGER, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
    }
    if (the.rank == 0)
        printf("a message of %d bytes takes %.0f us\n", LONGER, (MPI_Wtime() - begin) / ROUNDS / 2 * 1e6);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}
