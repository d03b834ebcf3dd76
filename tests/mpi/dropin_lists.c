/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified: completion calls on long lists of host receives, in a job of selvage-run, where
 * announcements may come to them: what they cost beside MPI's own calls on such lists (its PMPI names), and that each
 * request is completed once, with its own message. Two ranks. All together may take 8 times as long as MPI's: generous,
 * since machines are crowded. And what such calls are to bear: error handlers that begin requests in them, and other
 * threads whose requests come and go meanwhile.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { MANY = 8000, MANY_BRIEF = 2000, NUMBERS = 64, CALLS = 300, RATIO_MAX = 8 };
typedef enum call { WAITANY, TESTANY, WAITSOME, TESTSOME, CALLS_OF_LISTS } call_t;

static int (*in)[NUMBERS];
static MPI_Request *request;
static MPI_Status *status;
static int *indices;
static int many = MANY, calls = CALLS;
static double all_s[2]; /* by the drop-in, by MPI: medians */

static void post_receives(bool plain)
{
    for (int i = 0; i < many; i++) {
        memset(in[i], 0, sizeof in[i]);
        if (plain)
            PMPI_Irecv(in[i], NUMBERS, MPI_INT, 0, i, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Irecv(in[i], NUMBERS, MPI_INT, 0, i, MPI_COMM_WORLD, &request[i]);
    }
}

/* Ends one or more; returns how many. */
static int call_once(call_t call, bool plain)
{
    int count = 0, flag = 0;
    switch (call) {
    case WAITANY:
        (plain ? PMPI_Waitany : MPI_Waitany)(many, request, indices, status);
        return 1;
    case TESTANY:
        (plain ? PMPI_Testany : MPI_Testany)(many, request, indices, &flag, status);
        return flag;
    case WAITSOME:
        (plain ? PMPI_Waitsome : MPI_Waitsome)(many, request, &count, indices, status);
        return count;
    default:
        (plain ? PMPI_Testsome : MPI_Testsome)(many, request, &count, indices, status);
        return count;
    }
}

/* Message i has this tag, and i + 1 in it. */
static int tag_of(int i)
{
    return (int)((long)i * 7919 % many);
}

static int compare_seconds(const void *a, const void *b)
{
    const double difference_s = *(const double *)a - *(const double *)b;
    return difference_s < 0 ? -1 : difference_s > 0;
}

/* The median of what a call takes: on a crowded machine some take as long as others run. */
static double end_some(call_t call, bool plain)
{
    double spent_s[CALLS];
    for (int sent = 0; sent < calls; sent++) {
        MPI_Barrier(MPI_COMM_WORLD); /* the message is there, or about to be */
        const double began_s = MPI_Wtime();
        int ended = 0;
        while (ended == 0)
            ended = call_once(call, plain);
        spent_s[sent] = MPI_Wtime() - began_s;
        CHECK_EQ(ended, 1);
        CHECK_EQ(indices[0], tag_of(sent));
        CHECK(request[indices[0]] == MPI_REQUEST_NULL);
        CHECK_EQ(status[0].MPI_TAG, tag_of(sent));
        CHECK(in[tag_of(sent)][0] == sent + 1 && in[tag_of(sent)][NUMBERS - 1] == sent + 1);
        MPI_Barrier(MPI_COMM_WORLD); /* the next one is sent after this */
    }
    qsort(spent_s, (size_t)calls, sizeof spent_s[0], compare_seconds);
    return spent_s[calls / 2];
}

static void send_some(int from, int to)
{
    int out[NUMBERS];
    for (int i = from; i < to; i++) {
        for (int n = 0; n < NUMBERS; n++)
            out[n] = i + 1;
        MPI_Send(out, NUMBERS, MPI_INT, 1, tag_of(i), MPI_COMM_WORLD);
        for (int turn = 0; to <= calls && turn < 2; turn++)
            MPI_Barrier(MPI_COMM_WORLD);
    }
}

static double end_rest(bool plain)
{
    const double began_s = MPI_Wtime();
    (plain ? PMPI_Waitall : MPI_Waitall)(many, request, MPI_STATUSES_IGNORE);
    const double spent_s = MPI_Wtime() - began_s;
    for (int i = 0; i < many; i++)
        CHECK(request[i] == MPI_REQUEST_NULL && in[tag_of(i)][0] == i + 1);
    return spent_s;
}

static void run_call(call_t call)
{
    static const char *const name[] = {"Waitany", "Testany", "Waitsome", "Testsome"};
    double some_s[2] = {0}, rest_s[2] = {0};
    for (int plain = 0; plain < 2; plain++) {
        if (the.rank == 1)
            post_receives(plain);
        MPI_Barrier(MPI_COMM_WORLD);
        if (the.rank == 0) {
            send_some(0, calls);
            MPI_Barrier(MPI_COMM_WORLD);
            send_some(calls, many);
        } else {
            some_s[plain] = end_some(call, plain);
            MPI_Barrier(MPI_COMM_WORLD);
            rest_s[plain] = end_rest(plain);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (the.rank == 0)
        return;
    printf("%s of %d: %.1f us a call, MPI's own %.1f; Waitall of the rest %.2f ms, MPI's own %.2f\n", name[call], many,
           1e6 * some_s[0], 1e6 * some_s[1], 1e3 * rest_s[0], 1e3 * rest_s[1]);
    all_s[0] += some_s[0];
    all_s[1] += some_s[1];
}

void run_lists(void)
{
    many = check_brief() ? MANY_BRIEF : check_part(MANY);
    calls = check_part(CALLS);
    in = calloc((size_t)many, sizeof *in);
    request = calloc((size_t)many, sizeof *request);
    status = calloc((size_t)many, sizeof *status);
    indices = calloc((size_t)many, sizeof *indices);
    if (!in || !request || !status || !indices)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int call = 0; call < CALLS_OF_LISTS; call++)
        run_call((call_t)call);
    CHECK(all_s[0] <= RATIO_MAX * all_s[1]); /* rank 0 measures nothing */
    free(in);
    free(request);
    free(status);
    free(indices);
}

/* --- an error handler that begins requests ------------------------------------------------------------------------ */

enum { PAIR = 2, SHORT_BYTES = 4096, ANNOUNCED_BYTES = 8192, ROUNDS = 20 };

static struct {
    uint8_t memory[PAIR][SHORT_BYTES];
    MPI_Request request[PAIR];
    int calls;
} later;

/* MPI has freed the handles of the call by now, and gives them out again. */
static void begin_later(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    for (int i = 0; i < PAIR && later.calls == 0; i++)
        MPI_Irecv(later.memory[i], SHORT_BYTES, MPI_BYTE, 0, 3 + i, *comm, &later.request[i]);
    later.calls++;
}

static void receive_nested(void)
{
    static uint8_t memory[PAIR][SHORT_BYTES];
    MPI_Request pair[PAIR];
    MPI_Status ends[PAIR];
    later.calls = 0;
    for (int i = 0; i < PAIR; i++)
        MPI_Irecv(memory[i], SHORT_BYTES, MPI_BYTE, 0, 1 + i, MPI_COMM_WORLD, &pair[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(MPI_Waitall(PAIR, pair, ends), MPI_ERR_IN_STATUS);
    CHECK(ends[0].MPI_ERROR != MPI_SUCCESS && ends[1].MPI_ERROR == MPI_SUCCESS);
    CHECK_EQ(memory[1][SHORT_BYTES - 1], 7);
    CHECK_EQ(later.calls, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(MPI_Waitall(PAIR, later.request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    for (int i = 0; i < PAIR; i++)
        CHECK_EQ(later.memory[i][SHORT_BYTES - 1], 8 + i);
}

static void send_nested(void *announced)
{
    uint8_t memory[SHORT_BYTES];
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(announced, ANNOUNCED_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    for (int tag = 2; tag <= 4; tag++) {
        if (tag == 3)
            MPI_Barrier(MPI_COMM_WORLD);
        memset(memory, 5 + tag, sizeof memory);
        MPI_Send(memory, SHORT_BYTES, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    }
}

void run_nested(void)
{
    MPI_Errhandler handler;
    void *announced = device_bytes(ANNOUNCED_BYTES);
    open_fast_route();
    MPI_Comm_create_errhandler(begin_later, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int round = 0; round < ROUNDS; round++)
        if (the.rank == 1)
            receive_nested();
        else
            send_nested(announced);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    selvage_device_free(the.device, announced);
}

/* --- a thread that waits for as long as the program runs ---------------------------------------------------------- */

enum { PIECE_BYTES = 1 << 18, TURNS = 400, STOP_TAG = 9 };

static _Atomic bool listens;

static void *listen_to_end(void *arg)
{
    int index, word = 0;
    MPI_Request stop;
    MPI_Irecv(&word, 1, MPI_INT, the.left, STOP_TAG, MPI_COMM_WORLD, &stop);
    listens = true;
    MPI_Waitany(1, &stop, &index, MPI_STATUS_IGNORE);
    CHECK_EQ(word, 1);
    return arg;
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* What goes on meanwhile keeps no memory for that thread's call. */
void run_listener(void)
{
    void *out = device_bytes(PIECE_BYTES), *into = device_bytes(PIECE_BYTES);
    const int word = 1;
    const int turns = check_part(TURNS);
    const long after_bytes = 2L * PIECE_BYTES * turns * 7 / 8; /* come and gone after the first measurement */
    long before = 0;
    pthread_t thread;
    MPI_Request pair[PAIR], unused;
    MPI_Recv_init(into, PIECE_BYTES, MPI_BYTE, the.left, 8, MPI_COMM_WORLD, &unused);
    pthread_create(&thread, NULL, listen_to_end, NULL);
    while (!listens)
        usleep(1000);
    usleep(100000); /* it is in its call, or the test shows nothing */
    for (int turn = 0; turn < turns; turn++) {
        MPI_Irecv(into, PIECE_BYTES, MPI_BYTE, the.left, 7, MPI_COMM_WORLD, &pair[0]);
        MPI_Isend(out, PIECE_BYTES, MPI_BYTE, the.right, 7, MPI_COMM_WORLD, &pair[1]);
        MPI_Waitall(PAIR, pair, MPI_STATUSES_IGNORE);
        if (turn == turns / 8)
            before = resident_bytes();
    }
    const long grown = resident_bytes() - before;
    printf("memory grew by %ld KiB\n", grown >> 10);
    CHECK(grown < after_bytes / 5);
    MPI_Send(&word, 1, MPI_INT, the.right, STOP_TAG, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    MPI_Request_free(&unused);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, into);
}
