/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX wire: the promises that all wires make, alone and in the fault wrapper, on all ranks and on some; messages
 * that are sent before an address is there. With the argument "gone" the last rank ends without a word, and the others
 * are to hear of it. With "stopped SECONDS" it is stopped so long, which is no error. With "cut FILE" two ranks
 * exchange words until the link is cut, and make the file once they do. Run by test_wire_ucx.sh and test_nodes.sh.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/base_fault.h"
#include "fixtures/wire_cases.h"
#include "wire/wire_mpi.h"
#include "wire/wire_ucx.h"

enum { MISSING = 77, TAG = 5 };

static sv_wire_t *open_wire(MPI_Comm comm)
{
    sv_wire_ucx_t *ucx = NULL;
    sv_wire_t *wire = NULL;
    int size;
    MPI_Comm_size(comm, &size);
    CHECK_STATUS(sv_wire_ucx_create(size, false, &ucx), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_mpi_open(comm, &wire), SELVAGE_SUCCESS);
    sv_wire_ucx_attach(ucx, &wire);
    CHECK_STR(wire->ops->name, "ucx");
    return wire;
}

static void keep_promises(MPI_Comm comm, bool wrapped)
{
    sv_wire_t *wire = open_wire(comm);
    if (wrapped)
        CHECK_STATUS(sv_wire_fault_wrap(&wire), SELVAGE_SUCCESS);
    wire_cases_run(wire);
    wire->ops->close(wire);
    CHECK_EQ(sv_memory_live(), 0);
}

/* Several wires of one process keep to themselves. */
static void keep_apart(void)
{
    sv_wire_t *one = open_wire(MPI_COMM_WORLD), *other = open_wire(MPI_COMM_WORLD);
    sv_wire_request_t in[2] = {{{0}}}, out[2] = {{{0}}};
    int got[2] = {0}, sent[2] = {10 + one->rank, 20 + one->rank};
    sv_wire_t *wires[2] = {one, other};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(sv_wire_recv(wires[i], SV_WIRE_DATA, &got[i], sizeof got[i], wire_previous(one), TAG, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = 1; i >= 0; i--)
        CHECK_STATUS(sv_wire_send(wires[i], SV_WIRE_DATA, &sent[i], sizeof sent[i], wire_next(one), TAG, &out[i]),
                     SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(wire_finish(wires[i], &in[i], NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wires[i], &out[i], NULL), SELVAGE_SUCCESS);
        CHECK_EQ(got[i], 10 + 10 * i + wire_previous(one));
    }
    one->ops->close(one);
    other->ops->close(other);
    CHECK_EQ(sv_memory_live(), 0);
}

/* Sends that wait for an address keep their order. */
static void send_before_address(void)
{
    enum { MANY = 50 };
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    sv_wire_request_t in[MANY] = {{{0}}}, out[MANY] = {{{0}}};
    int got[MANY], sent[MANY];
    for (int i = 0; i < MANY; i++) {
        sent[i] = i;
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &sent[i], sizeof sent[i], wire_next(wire), TAG, &out[i]),
                     SELVAGE_SUCCESS);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &got[i], sizeof got[i], wire_previous(wire), TAG, &in[i]),
                     SELVAGE_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        CHECK_STATUS(wire_finish(wire, &in[i], NULL), SELVAGE_SUCCESS);
        CHECK_EQ(got[i], i);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_STATUS(wire_finish(wire, &out[i], NULL), SELVAGE_SUCCESS);
    wire->ops->close(wire);
    CHECK_EQ(sv_memory_live(), 0);
}

/* How long closing takes. */
static uint64_t close_one_failed(void)
{
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    wire_case_order(wire);
    wire->failed = wire->rank == 0;
    const uint64_t begin_ns = sv_clock_ns();
    wire->ops->close(wire);
    return sv_clock_ns() - begin_ns;
}

/* A wire that has failed on one rank only closes on all as soon as another. Where a process stood still meanwhile, once
   more. */
static void close_failed(void)
{
    enum { LONG_S = 4, ATTEMPTS = 3 };
    int soon = 0;
    for (int attempt = 0; attempt < ATTEMPTS && !soon; attempt++) {
        const int mine = close_one_failed() < LONG_S * UINT64_C(1000000000);
        MPI_Allreduce(&mine, &soon, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    CHECK(soon);
    CHECK_EQ(sv_memory_live(), 0);
}

/* What was sent when the wire is closed still arrives, though nobody was connected. */
static void send_and_close(void)
{
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    sv_wire_request_t in = {{0}}, out = {{0}};
    int got = 0, sent = 40 + wire->rank;
    if (wire->rank == 0) {
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &sent, sizeof sent, wire->size - 1, TAG, &out), SELVAGE_SUCCESS);
        (void)sv_wire_cancel(wire, &out);
    }
    if (wire->rank == wire->size - 1) {
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &got, sizeof got, 0, TAG, &in), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(got, 40);
    }
    wire->ops->close(wire);
    CHECK_EQ(sv_memory_live(), 0);
}

enum { TURNS = 300 };

/* To the next rank and from the one before, one message after the other. */
static void pass_words(sv_wire_t *wire, sv_wire_channel_t channel)
{
    for (int i = 0; i < TURNS; i++) {
        sv_wire_request_t in = {{0}}, out = {{0}};
        int got = -1, sent = i;
        CHECK_STATUS(sv_wire_recv(wire, channel, &got, sizeof got, wire_previous(wire), TAG, &in), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_wire_send(wire, channel, &sent, sizeof sent, wire_next(wire), TAG, &out), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(got, i);
    }
}

static void *pass_messages(void *arg)
{
    pass_words(arg, SV_WIRE_MESSAGE);
    return NULL;
}

/* The channel MESSAGE may have a thread of its own. */
static void use_two_threads(void)
{
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    pthread_t thread;
    CHECK(wire->threads_ok);
    CHECK_EQ(pthread_create(&thread, NULL, pass_messages, wire), 0);
    pass_words(wire, SV_WIRE_DATA);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    wire->ops->close(wire);
}

/* Who ends before it has answered by the connections that watch it is found by UCX alone, if at all. A second does, but
   not one in which this process stood still. */
static void stay_for_a_while(sv_wire_t *wire)
{
    enum { TURNS_LEAST = 200 };
    sv_backoff_t backoff = {.max_sleep_us = 1000, .oversubscribed = 1};
    const uint64_t begin_ns = sv_clock_ns();
    for (int turn = 0; turn < TURNS_LEAST || sv_clock_ns() - begin_ns < UINT64_C(1000000000); turn++) {
        sv_wire_control_t message;
        int source;
        CHECK_STATUS(sv_wire_control_poll(wire, &source, &message), SELVAGE_IN_PROGRESS);
        sv_backoff(&backoff);
    }
}

/* A rank that has gone is named soon: to who waits for it, and to who sends to it. */
static void lose_rank(void)
{
    enum { LONG_S = 20, LONG_BYTES = 8 << 20 };
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    static char many[LONG_BYTES];
    const int last = wire->size - 1;
    sv_wire_request_t in = {{0}}, out = {{0}}, open = {{0}};
    int word = 1;
    char name[32];
    if (wire->rank == last) {
        for (int i = 0; i < last; i++) {
            CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, i, TAG, &out), SELVAGE_SUCCESS);
            CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &word, sizeof word, i, TAG, &in), SELVAGE_SUCCESS);
            CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        }
        stay_for_a_while(wire);
        for (int i = 0; i < last; i++) { /* those who watch it have been there for as long */
            CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &word, sizeof word, i, TAG, &in), SELVAGE_SUCCESS);
            CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        }
        for (int i = 0; i < last; i++) { /* from now on they count */
            CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, i, TAG, &out), SELVAGE_SUCCESS);
            CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
        }
        _exit(0);
    }
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &out), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
        if (turn == 0)
            stay_for_a_while(wire);
    }
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &in), SELVAGE_SUCCESS);
    /* Nobody receives this; it may have failed as it began. */
    const bool opened = sv_wire_send(wire, SV_WIRE_DATA, many, sizeof many, last, TAG, &open) == SELVAGE_SUCCESS;
    const uint64_t begin_ns = sv_clock_ns();
    CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_ERR_MPI);
    snprintf(name, sizeof name, "rank %d", last);
    CHECK(strstr(selvage_error_detail(), name) != NULL);
    CHECK(sv_clock_ns() - begin_ns < LONG_S * UINT64_C(1000000000));
    printf("rank %d: told after %.1f s: %s\n", wire->rank, (double)(sv_clock_ns() - begin_ns) / 1e9,
           selvage_error_detail());
    CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &out), SELVAGE_ERR_MPI);
    if (opened)
        CHECK_STATUS(wire_finish(wire, &open, NULL), SELVAGE_ERR_MPI);
    const int failed = check_report("test_wire_ucx gone");
    fflush(NULL);
    _exit(failed); /* MPI would wait for the other rank */
}

/* A rank that is stopped answers nobody, and is there all the same. */
static void stop_rank(int seconds)
{
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    sv_wire_request_t in = {{0}}, out = {{0}};
    const int last = wire->size - 1;
    int word = (int)getpid(), got = 0;
    pass_words(wire, SV_WIRE_DATA);
    if (wire->rank == last) {
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, 0, TAG, &out), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    } else if (wire->rank == 0) {
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &got, sizeof got, last, TAG, &in), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(kill(got, SIGSTOP), 0);
        const uint64_t begin_ns = sv_clock_ns();
        sv_backoff_t backoff = {.max_sleep_us = 1000, .oversubscribed = 1};
        CHECK_STATUS(sv_wire_send(wire, SV_WIRE_DATA, &word, sizeof word, last, TAG, &out), SELVAGE_SUCCESS);
        while (sv_clock_ns() - begin_ns < (uint64_t)seconds * UINT64_C(1000000000)) {
            sv_wire_control_t message;
            int source;
            CHECK_STATUS(sv_wire_control_poll(wire, &source, &message), SELVAGE_IN_PROGRESS);
            sv_backoff(&backoff);
        }
        CHECK_EQ(kill(got, SIGCONT), 0);
        CHECK_STATUS(wire_finish(wire, &out, NULL), SELVAGE_SUCCESS);
    }
    if (wire->rank == last) {
        CHECK_STATUS(sv_wire_recv(wire, SV_WIRE_DATA, &got, sizeof got, 0, TAG, &in), SELVAGE_SUCCESS);
        CHECK_STATUS(wire_finish(wire, &in, NULL), SELVAGE_SUCCESS);
    }
    pass_words(wire, SV_WIRE_DATA);
    wire->ops->close(wire);
    MPI_Finalize();
}

/* Words to and fro until somebody cuts the link; the file says that they go. Both ranks are to name the other. */
static void lose_link(const char *file)
{
    enum { LONG_S = 10, GOING = 100 };
    sv_wire_t *wire = open_wire(MPI_COMM_WORLD);
    sv_wire_control_t message;
    selvage_status_t status = SELVAGE_SUCCESS;
    uint64_t good_ns = sv_clock_ns();
    char name[32];
    snprintf(name, sizeof name, "rank %d", wire_next(wire));
    for (int i = 0; status == SELVAGE_SUCCESS; i++) {
        sv_wire_request_t in = {{0}}, out = {{0}};
        sv_backoff_t backoff = {.max_sleep_us = 50, .oversubscribed = 1};
        int got, sent = i, source;
        good_ns = sv_clock_ns();
        status = sv_wire_recv(wire, SV_WIRE_DATA, &got, sizeof got, wire_previous(wire), TAG, &in);
        if (status == SELVAGE_SUCCESS)
            status = sv_wire_send(wire, SV_WIRE_DATA, &sent, sizeof sent, wire_next(wire), TAG, &out);
        if (status == SELVAGE_SUCCESS)
            status = wire_finish(wire, &out, NULL);
        /* As one who waits for a control message; the receive is looked at when that says no more. */
        while (status == SELVAGE_SUCCESS && (status = sv_wire_control_poll(wire, &source, &message)) ==
               SELVAGE_IN_PROGRESS && (status = sv_wire_test(wire, &in, NULL)) == SELVAGE_IN_PROGRESS) {
            wire_step(&backoff, good_ns, "a cut link");
            status = SELVAGE_SUCCESS;
        }
        FILE *made = i == GOING && wire->rank == 0 ? fopen(file, "w") : NULL;
        if (made)
            fclose(made);
    }
    CHECK_STATUS(status, SELVAGE_ERR_MPI);
    CHECK(strstr(selvage_error_detail(), name) != NULL);
    CHECK(sv_clock_ns() - good_ns < LONG_S * UINT64_C(1000000000));
    printf("rank %d: told after %.1f s: %s\n", wire->rank, (double)(sv_clock_ns() - good_ns) / 1e9,
           selvage_error_detail());
    const int failed = check_report("test_wire_ucx cut");
    fflush(NULL);
    _exit(failed);
}

int main(int argc, char **argv)
{
    sv_wire_ucx_t *ucx = NULL;
    MPI_Comm half;
    int rank, level;
    const bool threads = argc > 1 && strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (sv_wire_ucx_create(1, false, &ucx) == SELVAGE_ERR_UNSUPPORTED) {
        printf("SKIP: %s\n", selvage_error_detail());
        MPI_Finalize();
        return MISSING;
    }
    sv_wire_ucx_discard(ucx);
    CHECK_EQ(sv_memory_live(), 0);
    if (argc > 1 && strcmp(argv[1], "gone") == 0)
        lose_rank();
    if (argc > 2 && strcmp(argv[1], "cut") == 0)
        lose_link(argv[2]);
    if (argc > 2 && strcmp(argv[1], "stopped") == 0) {
        stop_rank(atoi(argv[2]));
        return check_report("test_wire_ucx stopped");
    }
    keep_promises(MPI_COMM_WORLD, false);
    keep_promises(MPI_COMM_WORLD, true);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    keep_promises(half, false);
    MPI_Comm_free(&half);
    keep_apart();
    send_before_address();
    send_and_close();
    close_failed();
    if (threads)
        use_two_threads();
    MPI_Finalize();
    return check_report("test_wire_ucx");
}
