/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for requests on the fast route: what is said of them, and what is left of them. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/mpi_habits.h"
#include "dropin_unmodified.h"

enum { LONG_BYTES = 1 << 18, SHORT_BYTES = 4096, ANNOUNCED_BYTES = 251, REFUSED = 5, THREADS = 3, TURNS = 25,
       FEW_OPEN = 50, MANY_OPEN = 4000, MOST_OPEN = 65536 };

static uint8_t *host_bytes(int value)
{
    uint8_t *made = malloc(LONG_BYTES);
    memset(made, value, LONG_BYTES);
    return made;
}

static void fill_device(void *memory, int value)
{
    selvage_device_fill(the.device, memory, value, LONG_BYTES, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static int last_byte(const void *memory)
{
    uint8_t *seen = the.pinned;
    selvage_device_copy(the.device, seen, (const char *)memory + LONG_BYTES - 1, 1, SELVAGE_COPY_DEVICE_TO_HOST,
                        the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    return *seen;
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

/* What MPI_Request_get_status says, the wait says again. */
static void ask_and_wait(void *out, void *in, bool on_device)
{
    MPI_Request request;
    MPI_Status status;
    int done = 0, bytes = 0;
    MPI_Recv_init(in, LONG_BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, &request);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Start(&request);
        fill_device(out, 20 + turn);
        MPI_Send(out, LONG_BYTES / 2 * (turn + 1), MPI_BYTE, the.right, 1, MPI_COMM_WORLD);
        for (done = 0; !done;)
            MPI_Request_get_status(request, &done, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        CHECK_EQ(bytes, LONG_BYTES / 2 * (turn + 1));
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        CHECK_EQ(bytes, LONG_BYTES / 2 * (turn + 1));
    }
    CHECK_EQ(on_device ? last_byte(in) : ((uint8_t *)in)[LONG_BYTES - 1], 21);
    MPI_Wait(&request, &status); /* it is inactive: nothing came */
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, 0);
    MPI_Request_free(&request);
}

/* A request that is given up while it is under way goes on, and what comes lands. */
static void give_up(void *out, void *in, bool on_device, bool persistent)
{
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    (persistent ? MPI_Recv_init : MPI_Irecv)(in, LONG_BYTES, MPI_BYTE, the.left, 2, MPI_COMM_WORLD, &request);
    if (persistent)
        MPI_Start(&request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    fill_device(out, 31);
    MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, 2, MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    int flag, came = 0;
    while (came != 31 && MPI_Wtime() - begin < 100) {
        MPI_Iprobe(the.left, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        came = on_device ? last_byte(in) : ((volatile uint8_t *)in)[LONG_BYTES - 1];
    }
    CHECK_EQ(came, 31);
}

/* Which repeats itself; the messages here are one byte over and over. */
static bool is_announcement(const uint8_t *text)
{
    enum { PERIOD = 48 };
    return memcmp(text, text + PERIOD, PERIOD) == 0 && memcmp(text, text + 1, PERIOD) != 0;
}

/* A message that is as long as its receive. */
static void pass_whole(void *out, void *in, bool on_device, int value)
{
    fill_device(out, value);
    if (on_device)
        fill_device(in, 0);
    else
        memset(in, 0, LONG_BYTES);
    MPI_Sendrecv(out, LONG_BYTES, MPI_BYTE, the.right, 10, in, LONG_BYTES, MPI_BYTE, the.left, 10, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(on_device ? last_byte(in) : ((uint8_t *)in)[LONG_BYTES - 1], value);
}

/* Each receive is too short for what comes, by whatever call, and says so, and the next messages are right. Host memory
   has room for all that comes, since MPI may write past the end of a receive as it does without the drop-in. */
static void receive_short(void *out, void *in, uint8_t *host)
{
    MPI_Request request;
    MPI_Status status;
    const char *mode = getenv("SELVAGE_DROPIN_FAST");
    const bool waits = mode && strcmp(mode, "on") == 0; /* then a sender waits for a receiver that cannot hear it */
    for (int how = 0; how < 6; how++) {
        int code = MPI_SUCCESS;
        if (waits && how == 2)
            continue;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out, LONG_BYTES, MPI_BYTE, the.right, 3, MPI_COMM_WORLD, &request);
        MPI_Request receive = MPI_REQUEST_NULL;
        switch (how) {
        case 0: code = MPI_Recv(host, SHORT_BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &status); break;
        case 1: code = MPI_Recv(in, SHORT_BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &status); break;
        case 2: code = MPI_Recv(host, ANNOUNCED_BYTES - 1, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &status); break;
        case 3: MPI_Irecv(host, SHORT_BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &receive);
            code = MPI_Wait(&receive, &status);
            break;
        case 4: /* Open MPI 4.1 with threads may never return from MPI_Waitall on a request of its own that failed */
            MPI_Irecv(waits ? host : in, SHORT_BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &receive);
            code = MPI_Waitall(1, &receive, &status);
            CHECK_EQ(class_of(code), MPI_ERR_IN_STATUS);
            code = status.MPI_ERROR;
            break;
        default: MPI_Irecv(in, SHORT_BYTES, MPI_BYTE, the.left, 3, MPI_COMM_WORLD, &receive);
            code = MPI_Wait(&receive, &status);
        }
        CHECK_EQ(class_of(code), MPI_ERR_TRUNCATE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(how == 2 || !is_announcement(host)); /* what MPI refuses itself nobody looks at */
        pass_whole(out, in, true, 60 + how);
        pass_whole(out, host, false, 70 + how);
    }
}

/* Of the length that an announcement has, and the program's own. */
static void pass_own(uint8_t *host)
{
    uint8_t in[ANNOUNCED_BYTES] = {0};
    MPI_Status status;
    int bytes = 0;
    memset(host, 44, LONG_BYTES);
    MPI_Sendrecv(host, ANNOUNCED_BYTES, MPI_BYTE, the.right, 4, host, LONG_BYTES, MPI_BYTE, the.left, 4, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, ANNOUNCED_BYTES);
    MPI_Send(host, ANNOUNCED_BYTES, MPI_BYTE, the.right, 5, MPI_COMM_WORLD);
    MPI_Probe(the.left, 5, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, ANNOUNCED_BYTES);
    MPI_Recv(in, sizeof in, MPI_BYTE, the.left, 5, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, ANNOUNCED_BYTES);
    CHECK(in[0] == 44 && in[ANNOUNCED_BYTES - 1] == 44);
}

/* What a probe has looked at, and what was sent before it, comes to persistent receives that start after that. */
static void start_probed(const void *out, uint8_t *host)
{
    enum { KINDS = 4 };
    for (int how = 0; how < KINDS; how++) {
        MPI_Request receive[2], sends[2];
        MPI_Status status[2];
        uint8_t first[8] = {0}, sent[8] = {55, 56};
        int bytes = 0, flag = 0, index = MPI_UNDEFINED;
        memset(host, 0, LONG_BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(sent, 8, MPI_BYTE, the.right, 8, MPI_COMM_WORLD, &sends[0]);
        MPI_Isend(out, LONG_BYTES, MPI_BYTE, the.right, 9, MPI_COMM_WORLD, &sends[1]);
        MPI_Recv_init(first, 8, MPI_BYTE, the.left, 8, MPI_COMM_WORLD, &receive[0]);
        MPI_Recv_init(host, LONG_BYTES, MPI_BYTE, the.left, 9, MPI_COMM_WORLD, &receive[1]);
        MPI_Probe(the.left, 9, MPI_COMM_WORLD, &status[1]);
        MPI_Get_count(&status[1], MPI_BYTE, &bytes);
        CHECK_EQ(bytes, LONG_BYTES);
        MPI_Startall(2, receive);
        if (how == 0)
            MPI_Waitall(2, receive, status);
        for (int i = 0; i < 2 && how == 1; i++)
            MPI_Wait(&receive[i], &status[i]);
        for (int i = 0; i < 2 && how == 2; i++) {
            MPI_Status any;
            MPI_Waitany(2, receive, &index, &any);
            CHECK(index == 0 || index == 1);
            status[index == 1] = any;
        }
        while (how == 3 && !flag)
            MPI_Testall(2, receive, &flag, status);
        MPI_Waitany(2, receive, &index, MPI_STATUS_IGNORE);
        CHECK_EQ(index, MPI_UNDEFINED);
        MPI_Get_count(&status[0], MPI_BYTE, &bytes);
        CHECK_EQ(bytes, 8);
        MPI_Get_count(&status[1], MPI_BYTE, &bytes);
        CHECK_EQ(bytes, LONG_BYTES);
        CHECK(status[0].MPI_TAG == 8 && status[1].MPI_TAG == 9 && status[1].MPI_SOURCE == the.left);
        CHECK(first[0] == 55 && first[1] == 56 && host[0] == 7 && host[LONG_BYTES - 1] == 7);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        MPI_Request_free(&receive[0]);
        MPI_Request_free(&receive[1]);
    }
}

/* Of sends that MPI refuses no slot is left: the next ones go by the route, which the report says. */
static void send_refused(void *out, void *in)
{
    MPI_Request request;
    for (int i = 0; i < REFUSED; i++)
        CHECK(MPI_Send(out, LONG_BYTES, MPI_BYTE, the.right, -7, MPI_COMM_WORLD) != MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < REFUSED; i++) {
        MPI_Irecv(in, LONG_BYTES, MPI_BYTE, the.left, 6, MPI_COMM_WORLD, &request);
        MPI_Rsend(out, LONG_BYTES, MPI_BYTE, the.right, 6, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

void run_requests(void)
{
    void *out = device_bytes(LONG_BYTES), *in = device_bytes(LONG_BYTES);
    uint8_t *host = host_bytes(0);
    fill_device(out, 7);
    open_fast_route();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const bool refuses = !mpi_leaves_out_refusals(the.rank);
    if (refuses)
        send_refused(out, in);
    start_probed(out, host);
    ask_and_wait(out, in, true);
    if (mpi_keeps_what_was_asked()) /* the drop-in sees to it for memory of the device alone */
        ask_and_wait(out, host, false);
    for (int i = 0; i < 4; i++) {
        fill_device(in, 0);
        memset(host, 0, LONG_BYTES);
        give_up(out, i % 2 ? in : host, i % 2, i / 2);
    }
    pass_own(host);
    if (refuses)
        receive_short(out, in, host);
    free(host);
    selvage_device_free(the.device, in);
    selvage_device_free(the.device, out);
}

/* --- persistent receives of several threads ----------------------------------------------------------------------- */

static void *start_again(void *comm)
{
    uint8_t *in = host_bytes(0);
    void *out = device_bytes(LONG_BYTES);
    for (int turn = 0; turn < TURNS; turn++) {
        const int bytes = LONG_BYTES - 1000 * (turn + 1);
        MPI_Request request[2];
        MPI_Status status;
        int came = 0;
        memset(in, 0xcc, LONG_BYTES);
        selvage_device_fill(the.device, out, turn + 1, LONG_BYTES, NULL);
        MPI_Recv_init(in, LONG_BYTES, MPI_BYTE, the.left, turn, *(MPI_Comm *)comm, &request[0]);
        MPI_Start(&request[0]);
        MPI_Isend(out, bytes, MPI_BYTE, the.right, turn, *(MPI_Comm *)comm, &request[1]);
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
        MPI_Wait(&request[0], &status);
        MPI_Get_count(&status, MPI_BYTE, &came);
        CHECK_EQ(came, bytes);
        CHECK(in[0] == turn + 1 && in[bytes - 1] == turn + 1 && in[bytes] == 0xcc);
        MPI_Request_free(&request[0]);
    }
    selvage_device_free(the.device, out);
    free(in);
    return NULL;
}

void run_again(void)
{
    pthread_t thread[THREADS];
    MPI_Comm comm[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    open_fast_route();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, start_again, &comm[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comm[i]);
}

/* --- persistent sends --------------------------------------------------------------------------------------------- */

/* Ends a send and a receive by one of the completion calls, which know them in both states. */
static void end_pair(MPI_Request request[2], int turn)
{
    MPI_Status status[2];
    int flag = 0, index, count, indices[2], ended = 0;
    switch (turn % 6) {
    case 0: MPI_Waitall(2, request, status); break;
    case 1:
        MPI_Wait(&request[0], &status[0]);
        MPI_Wait(&request[1], &status[1]);
        break;
    case 2:
        while (!flag)
            MPI_Testall(2, request, &flag, MPI_STATUSES_IGNORE);
        break;
    case 3:
        MPI_Waitany(2, request, &index, status);
        MPI_Waitany(2, request, &flag, status);
        CHECK(index != flag && index >= 0 && flag >= 0);
        break;
    case 4:
        for (; ended < 2; ended += count)
            MPI_Waitsome(2, request, &count, indices, status);
        break;
    default:
        for (int i = 0; i < 2; i++)
            for (flag = 0; !flag;)
                MPI_Test(&request[i], &flag, &status[i]);
        break;
    }
    MPI_Testall(2, request, &flag, status); /* inactive: at once, and empty */
    CHECK(flag && status[0].MPI_SOURCE == MPI_ANY_SOURCE && status[1].MPI_SOURCE == MPI_ANY_SOURCE);
}

/* Started again and again, alone and together, of a type that the program frees at once. The last one is given up while
   it is in flight. */
void run_repeats(void)
{
    enum { ROUNDS = 24 };
    uint8_t *out = device_bytes(LONG_BYTES), *in = device_bytes(LONG_BYTES), *host = host_bytes(0);
    MPI_Request request[2];
    MPI_Datatype type;
    open_fast_route();
    MPI_Type_vector(LONG_BYTES / 512, 256, 512, MPI_BYTE, &type); /* the first half of each 512 bytes */
    MPI_Type_commit(&type);
    for (int kind = 0; kind < 3; kind++) {
        const bool gaps = kind == 2;
        MPI_Recv_init(in, gaps ? 1 : LONG_BYTES, gaps ? type : MPI_BYTE, the.left, kind, MPI_COMM_WORLD, &request[0]);
        (kind == 1 ? MPI_Rsend_init : MPI_Send_init)(out, gaps ? 1 : LONG_BYTES, gaps ? type : MPI_BYTE, the.right,
                                                     kind, MPI_COMM_WORLD, &request[1]);
        if (gaps)
            MPI_Type_free(&type);
        for (int turn = 0; turn < ROUNDS; turn++) {
            fill_device(out, 40 + turn);
            fill_device(in, 1);
            if (kind == 1 || turn % 2) {
                MPI_Start(&request[0]);
                MPI_Barrier(MPI_COMM_WORLD); /* a ready send has its receive */
                MPI_Start(&request[1]);
            } else
                MPI_Startall(2, request);
            end_pair(request, turn);
            selvage_device_copy(the.device, host, in, LONG_BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
            selvage_stream_synchronize(the.device, the.stream);
            for (int i = 0; i < LONG_BYTES; i += 128)
                CHECK_EQ(host[i], gaps && i % 512 >= 256 ? 1 : 40 + turn);
        }
        MPI_Startall(2, request);
        MPI_Request_free(&request[1]);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        MPI_Request_free(&request[0]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(host);
}

/* --- many open ---------------------------------------------------------------------------------------------------- */

/* What a test of a request for host memory takes while so many for device memory are open, at best. */
static double test_us(int open)
{
    enum { ROUNDS = 10, CALLS = 50 };
    MPI_Request *request = malloc((size_t)open * sizeof *request), host;
    char byte = 0;
    double best = 1e9;
    for (int i = 0; i < open; i++)
        MPI_Irecv((char *)the.in + i % BYTES, 1, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &request[i]);
    MPI_Irecv(&byte, 1, MPI_BYTE, the.left, open, MPI_COMM_WORLD, &host);
    for (int round = 0; round < ROUNDS; round++) {
        int flag;
        const double begin = MPI_Wtime();
        for (int i = 0; i < CALLS; i++)
            MPI_Test(&host, &flag, MPI_STATUS_IGNORE);
        const double took = (MPI_Wtime() - begin) * 1e6 / CALLS;
        best = took < best ? took : best;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= open; i++)
        MPI_Send(i < open ? (char *)the.out + i % BYTES : &byte, 1, MPI_BYTE, the.right, i, MPI_COMM_WORLD);
    MPI_Waitall(open, request, MPI_STATUSES_IGNORE);
    MPI_Wait(&host, MPI_STATUS_IGNORE);
    free(request);
    return best;
}

/* What a test of a request takes that nothing comes for, at best. */
static double idle_test_us(MPI_Request *request)
{
    enum { ROUNDS = 5, CALLS = 20 };
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        int flag;
        const double begin = MPI_Wtime();
        for (int i = 0; i < CALLS; i++)
            MPI_Test(request, &flag, MPI_STATUS_IGNORE);
        const double took = (MPI_Wtime() - begin) * 1e6 / CALLS;
        best = took < best ? took : best;
    }
    return best;
}

/* So many sends and so many receives of a byte of device memory are open at the same time. What a test of another
   request takes meanwhile, and the call that completes all of them, for each. The sends go in portions: of many that
   have not left Open MPI 4.1 looks at each one in each of its turns, also of host memory. */
static void complete_us(int open, double *test_us_out, double *each_us_out)
{
    enum { PORTION = 256 };
    MPI_Request *request = malloc(2 * (size_t)open * sizeof *request), host;
    uint8_t *out = device_bytes((size_t)open), *in = device_bytes((size_t)open), *seen = malloc((size_t)open), byte = 0;
    for (int i = 0; i < open; i++)
        seen[i] = (uint8_t)(i % 251 + the.rank);
    selvage_device_copy(the.device, out, seen, (size_t)open, SELVAGE_COPY_HOST_TO_DEVICE, the.stream);
    selvage_device_fill(the.device, in, 255, (size_t)open, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    for (int i = 0; i < open; i++)
        MPI_Irecv(in + i, 1, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &request[i]);
    MPI_Irecv(&byte, 1, MPI_BYTE, the.left, open, MPI_COMM_WORLD, &host);
    const double before = idle_test_us(&host); /* nothing has come */
    for (int i = 0; i < open; i++) {
        if (i % PORTION == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out + i, 1, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &request[open + i]);
    }
    const double after = idle_test_us(&host); /* all has */
    *test_us_out = after > before ? after : before;
    const double begin = MPI_Wtime();
    MPI_Waitall(2 * open, request, MPI_STATUSES_IGNORE);
    *each_us_out = (MPI_Wtime() - begin) * 1e6 / (2 * open);
    MPI_Send(seen, 1, MPI_BYTE, the.right, open, MPI_COMM_WORLD);
    MPI_Wait(&host, MPI_STATUS_IGNORE);
    selvage_device_copy(the.device, seen, in, (size_t)open, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    int wrong = 0;
    for (int i = 0; i < open; i++)
        wrong += request[i] != MPI_REQUEST_NULL || seen[i] != (uint8_t)(i % 251 + the.left);
    CHECK_EQ(wrong, 0);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(seen);
    free(request);
}

/* As many as MPI programs hardly ever have. */
void run_most(void)
{
    double test_us[2], each_us[2];
    const double begin = MPI_Wtime();
    /* Each call is timed once: where a process stood still meanwhile, again. */
    for (int attempt = 0, all = 0; attempt < 3 && !all; attempt++) {
        complete_us(FEW_OPEN, &test_us[0], &each_us[0]);
        complete_us(MOST_OPEN, &test_us[1], &each_us[1]);
        const int mine = test_us[1] < 50 * test_us[0] + 200 && each_us[1] < 50 * each_us[0] + 20;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    printf("rank %d: with %d and %d requests open each way a test takes %.2f and %.2f us, and of a call for all each "
           "%.2f and %.2f us; %.1f s\n", the.rank, FEW_OPEN, MOST_OPEN, test_us[0], test_us[1], each_us[0],
           each_us[1], MPI_Wtime() - begin);
    CHECK(test_us[1] < 50 * test_us[0] + 200); /* it looks at as many, which are in no cache */
    CHECK(each_us[1] < 50 * each_us[0] + 20);
}

void run_many(void)
{
    const double few = test_us(FEW_OPEN), many = test_us(MANY_OPEN);
    printf("a test with %d requests open: %.2f us, with %d: %.2f us\n", FEW_OPEN, few, MANY_OPEN, many);
    CHECK(many < 50 * few + 20);
}
