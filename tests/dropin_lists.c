/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified: completion calls on long lists of host receives, in a job of selvage-run, where
 * announcements may come to them: what they cost beside MPI's own calls on such lists (its PMPI names), and that each
 * request is completed once, with its own message. Two ranks. All together may take 8 times as long as MPI's: generous,
 * since machines are crowded.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dropin_unmodified.h"

enum { MANY = 8000, NUMBERS = 64, CALLS = 300, RATIO_MAX = 8 };
typedef enum call { WAITANY, TESTANY, WAITSOME, TESTSOME, CALLS_OF_LISTS } call_t;

static int (*in)[NUMBERS];
static MPI_Request *request;
static MPI_Status *status;
static int *indices;
static double all_s[2]; /* by the drop-in, by MPI */

static void post_receives(bool plain)
{
    for (int i = 0; i < MANY; i++) {
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
        (plain ? PMPI_Waitany : MPI_Waitany)(MANY, request, indices, status);
        return 1;
    case TESTANY:
        (plain ? PMPI_Testany : MPI_Testany)(MANY, request, indices, &flag, status);
        return flag;
    case WAITSOME:
        (plain ? PMPI_Waitsome : MPI_Waitsome)(MANY, request, &count, indices, status);
        return count;
    default:
        (plain ? PMPI_Testsome : MPI_Testsome)(MANY, request, &count, indices, status);
        return count;
    }
}

/* Message i has this tag, and i + 1 in it. */
static int tag_of(int i)
{
    return (int)((long)i * 7919 % MANY);
}

static double end_some(call_t call, bool plain)
{
    double spent_s = 0;
    for (int sent = 0; sent < CALLS; sent++) {
        MPI_Barrier(MPI_COMM_WORLD); /* the message is there, or about to be */
        const double began_s = MPI_Wtime();
        int ended = 0;
        while (ended == 0)
            ended = call_once(call, plain);
        spent_s += MPI_Wtime() - began_s;
        CHECK_EQ(ended, 1);
        CHECK_EQ(indices[0], tag_of(sent));
        CHECK(request[indices[0]] == MPI_REQUEST_NULL);
        CHECK_EQ(status[0].MPI_TAG, tag_of(sent));
        CHECK(in[tag_of(sent)][0] == sent + 1 && in[tag_of(sent)][NUMBERS - 1] == sent + 1);
        MPI_Barrier(MPI_COMM_WORLD); /* the next one is sent after this */
    }
    return spent_s;
}

static void send_some(int from, int to)
{
    int out[NUMBERS];
    for (int i = from; i < to; i++) {
        for (int n = 0; n < NUMBERS; n++)
            out[n] = i + 1;
        MPI_Send(out, NUMBERS, MPI_INT, 1, tag_of(i), MPI_COMM_WORLD);
        for (int turn = 0; to <= CALLS && turn < 2; turn++)
            MPI_Barrier(MPI_COMM_WORLD);
    }
}

static double end_rest(bool plain)
{
    const double began_s = MPI_Wtime();
    (plain ? PMPI_Waitall : MPI_Waitall)(MANY, request, MPI_STATUSES_IGNORE);
    const double spent_s = MPI_Wtime() - began_s;
    for (int i = 0; i < MANY; i++)
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
            send_some(0, CALLS);
            MPI_Barrier(MPI_COMM_WORLD);
            send_some(CALLS, MANY);
        } else {
            some_s[plain] = end_some(call, plain);
            MPI_Barrier(MPI_COMM_WORLD);
            rest_s[plain] = end_rest(plain);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (the.rank == 0)
        return;
    printf("%s of %d: %.1f us a call, MPI's own %.1f; Waitall of the rest %.2f ms, MPI's own %.2f\n", name[call], MANY,
           1e6 * some_s[0] / CALLS, 1e6 * some_s[1] / CALLS, 1e3 * rest_s[0], 1e3 * rest_s[1]);
    all_s[0] += some_s[0];
    all_s[1] += some_s[1];
}

void run_lists(void)
{
    in = calloc(MANY, sizeof *in);
    request = calloc(MANY, sizeof *request);
    status = calloc(MANY, sizeof *status);
    indices = calloc(MANY, sizeof *indices);
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
