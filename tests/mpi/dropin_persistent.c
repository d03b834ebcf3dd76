/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for persistent collective calls: of every kind, on communicators with and without
 * neighbours, started again and again, in an order of each rank's own, together with other calls on the same
 * communicator; made anew on tags of freed ones; more of them than there are tags for; on communicators that are freed;
 * refused on one rank; started by several threads; and damaged. Each has a twin of host memory by MPI's PMPI_ names,
 * which is the call that does not block, and both must leave the same after each start.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_repeats.h"
#include "dropin_unmodified.h"

#ifdef INIT
enum { ROUNDS = 100, STARTS = 7, NEIGHBORS = 3, MOST = 1100 };

static void check_inactive(repeat_t *r)
{
    MPI_Status status;
    int flag = 0, count = -1;
    if (is_left_alone(r))
        return;
    CHECK_EQ(MPI_Request_get_status(r->request, &flag, &status), MPI_SUCCESS);
    CHECK(flag);
    flag = 0;
    CHECK_EQ(MPI_Test(&r->request, &flag, &status), MPI_SUCCESS);
    CHECK(flag);
    CHECK_EQ(MPI_Wait(&r->request, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(r->request != MPI_REQUEST_NULL && status.MPI_SOURCE == MPI_ANY_SOURCE && count == 0);
}

/* --- starts ------------------------------------------------------------------------------------------------------- */

/* Starts those of a round, each rank in an order of its own, some of them together. */
static void start_some(repeat_t **some, int n, int round)
{
    MPI_Request together[STARTS];
    int order[STARTS];
    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        order[i] = (i * (the.rank % 2 ? n - 1 : 1) + the.rank * 3 + round) % n;
    const int alone = (round + the.rank) % (n + 1);
    for (int i = 0; i < alone; i++)
        CHECK_EQ(MPI_Start(&some[order[i]]->request), MPI_SUCCESS);
    for (int i = alone; i < n; i++)
        together[i] = some[order[i]]->request;
    if (alone < n)
        CHECK_EQ(MPI_Startall(n - alone, together + alone), MPI_SUCCESS);
    for (int i = alone; i < n; i++)
        some[order[i]]->request = together[i];
}

/* Ends all, among which are inactive ones, each time by another kind of call. */
static void end_all(repeat_t *all, int n, int active, int how)
{
    MPI_Request *requests = malloc((size_t)n * sizeof *requests);
    MPI_Status *statuses = malloc((size_t)n * sizeof *statuses);
    int *indices = malloc((size_t)n * sizeof *indices), found = 0, done = 0;
    for (int i = 0; i < n; i++) {
        const repeat_t *r = &all[(i + the.rank) % n];
        requests[i] = is_left_alone(r) ? MPI_REQUEST_NULL : r->request;
    }
    switch (how) {
    case 0: CHECK_EQ(MPI_Waitall(n, requests, statuses), MPI_SUCCESS); break;
    case 1:
        for (int i = 0; i < active; i++) {
            CHECK_EQ(MPI_Waitany(n, requests, &found, MPI_STATUS_IGNORE), MPI_SUCCESS);
            CHECK(found >= 0 && found < n && all[(found + the.rank) % n].active);
        }
        CHECK_EQ(MPI_Waitany(n, requests, &found, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(found, MPI_UNDEFINED);
        break;
    case 2:
        while (done < active) {
            CHECK_EQ(MPI_Waitsome(n, requests, &found, indices, statuses), MPI_SUCCESS);
            done += found;
        }
        CHECK_EQ(done, active);
        break;
    case 3:
        while (!done)
            CHECK_EQ(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        break;
    default:
        for (int i = 0; i < n; i++) {
            for (done = 0; requests[i] != MPI_REQUEST_NULL && !done;)
                CHECK_EQ(MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE), MPI_SUCCESS);
            CHECK_EQ(MPI_Wait(&requests[i], &statuses[i]), MPI_SUCCESS);
        }
    }
    for (int i = 0; i < n; i++) {
        repeat_t *r = &all[(i + the.rank) % n];
        CHECK(requests[i] == (is_left_alone(r) ? MPI_REQUEST_NULL : r->request));
    }
    free(requests);
    free(statuses);
    free(indices);
}

/* Other calls on the same communicator while those are under way. */
static void begin_other(MPI_Comm comm, int round, int *out, MPI_Request *request)
{
    const int one = the.rank + round;
    int sum = 0;
    for (int i = 0; i < LONG; i++)
        out[i] = one + i;
    bring_repeat(the.out, out, BYTES, SELVAGE_COPY_HOST_TO_DEVICE);
    CHECK_EQ(MPI_Iallreduce(the.out, the.in, BYTES / (int)sizeof(int), MPI_INT, MPI_SUM, comm, request), MPI_SUCCESS);
    CHECK_EQ(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    CHECK_EQ(sum, the.ranks * (the.ranks - 1) / 2 + the.ranks * round);
}

static void end_other(int round, int *in, MPI_Request *request)
{
    int bad = 0;
    CHECK_EQ(MPI_Wait(request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    bring_repeat(in, the.in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST);
    for (int i = 0; i < BYTES / (int)sizeof(int); i++)
        bad += in[i] != the.ranks * (the.ranks - 1) / 2 + the.ranks * (round + i);
    CHECK_EQ(bad, 0);
}

static void run_rounds(repeat_t *all, int n, int rounds)
{
    static int out[LONG], in[LONG];
    for (int round = 0; round < rounds; round++) {
        repeat_t *some[STARTS];
        MPI_Request other;
        const int first = pick(n), step = 1 + pick(3);
        int active = 0;
        for (int i = 0; i < STARTS && i * step < n; i++) {
            repeat_t *r = &all[(first + i * step) % n];
            if (is_left_alone(r))
                continue;
            some[active++] = r;
            fill_repeat(r);
        }
        start_some(some, active, round);
        begin_other(all[first].comm, round, out, &other);
        end_all(all, n, active, round % 5);
        end_other(round, in, &other);
        for (int i = 0; i < active; i++)
            check_repeat(some[i]);
        check_inactive(&all[pick(n)]);
    }
}

/* --- of each kind ------------------------------------------------------------------------------------------------- */

enum { COMMS = 5, PLAIN = 2 };

/* Two without neighbours, and a ring, a line, and a graph in which ranks are neighbours more than once. */
static void make_comms(MPI_Comm *comms)
{
    const int dims[1] = {the.ranks}, ring[1] = {1}, line[1] = {0};
    const int from[NEIGHBORS] = {the.left, the.right, the.left}, to[NEIGHBORS] = {the.right, the.left, the.right};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -the.rank, &comms[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, ring, 0, &comms[2]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, line, 0, &comms[3]);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, NEIGHBORS, from, from, NEIGHBORS, to, to, MPI_INFO_NULL, 0,
                                   &comms[4]);
}

static int make_each(repeat_t *all, MPI_Comm *comms, MPI_Comm *twins)
{
    int n = 0;
    for (int c = 0; c < COMMS; c++)
        for (int kind = c < PLAIN ? 0 : TO_NEIGHBORS; kind < (c < PLAIN ? TO_NEIGHBORS : KINDS); kind++, n++)
            make_repeat(&all[n], (kind_t)kind, comms[c], twins[c], n, pick(2), pick(3) ? 0 : pick(256));
    return n;
}

void run_persistent(void)
{
    static repeat_t all[PLAIN * TO_NEIGHBORS + (COMMS - PLAIN) * (KINDS - TO_NEIGHBORS)];
    MPI_Comm comms[COMMS], twins[COMMS];
    make_comms(comms);
    for (int i = 0; i < COMMS; i++)
        PMPI_Comm_dup(comms[i], &twins[i]);
    const int n = make_each(all, comms, twins);
    for (int i = 0; i < n; i++)
        check_inactive(&all[i]);
    run_rounds(all, n, ROUNDS);
    for (int i = 0; i < n; i++)
        free_repeat(&all[i]);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_free(&comms[i]);
        PMPI_Comm_free(&twins[i]);
    }
}

/* --- tags and communicators that are freed ------------------------------------------------------------------------ */

/* One start, whatever has become of its communicator. */
static void run_once(repeat_t *r)
{
    fill_repeat(r);
    CHECK_EQ(MPI_Start(&r->request), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&r->request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    check_repeat(r);
}

/* A start of what has been started is refused, and what is in flight comes as it was. */
static void check_started_twice(MPI_Comm comm, MPI_Comm twins)
{
    for (int i = 0; i < 2; i++) {
        repeat_t r;
        int class = MPI_SUCCESS;
        make_repeat(&r, i % 2 ? ALLTOALL : ALLREDUCE, comm, twins, i, false, 0);
        fill_repeat(&r);
        CHECK_EQ(MPI_Start(&r.request), MPI_SUCCESS);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        const int code = MPI_Start(&r.request);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        CHECK(code != MPI_SUCCESS);
        MPI_Error_class(code, &class);
        CHECK_EQ(class, MPI_ERR_REQUEST);
        CHECK_EQ(MPI_Wait(&r.request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        check_repeat(&r);
        run_once(&r);
        free_repeat(&r);
    }
}

/* Requests that are freed while their last start is under way; those that take their tags match nothing of it. */
static void check_freed_at_work(MPI_Comm comm, MPI_Comm twins)
{
    enum { TURNS = 10 };
    repeat_t before[TURNS];
    for (int i = 0; i < TURNS; i++) {
        repeat_t after;
        make_repeat(&before[i], i % 2 ? ALLTOALL : ALLREDUCE, comm, twins, i, false, 0);
        fill_repeat(&before[i]);
        CHECK_EQ(MPI_Start(&before[i].request), MPI_SUCCESS);
        CHECK_EQ(MPI_Request_free(&before[i].request), MPI_SUCCESS);
        make_repeat(&after, ALLTOALL, comm, twins, i + TURNS, false, 0);
        run_once(&after); /* what came before it between two ranks has come then */
        free_repeat(&after);
    }
    for (int i = 0; i < TURNS; i++) {
        const double begin_s = MPI_Wtime();
        const int first = before[i].host_in[0];
        for (int found; before[i].host_in[0] == first && MPI_Wtime() - begin_s < 20;) { /* it comes at last */
            bring_repeat(before[i].host_in, before[i].in, sizeof first, SELVAGE_COPY_DEVICE_TO_HOST);
            MPI_Iprobe(the.left, TURNS, comm, &found, MPI_STATUS_IGNORE);
        }
        check_repeat(&before[i]);
        free_memory(&before[i]);
    }
}

/* Freed requests leave their tags to new ones. */
static void check_made_anew(MPI_Comm comm, MPI_Comm twins)
{
    for (int round = 0; round < 30; round++) {
        repeat_t r[3];
        for (int i = 0; i < 3; i++)
            make_repeat(&r[i], i == 1 ? ALLGATHER : ALLREDUCE, comm, twins, round + i, false, round % 4 ? 0 : 2);
        for (int i = 0; i < 3; i++)
            run_once(&r[(i + round) % 3]);
        for (int i = 0; i < 3; i++)
            free_repeat(&r[(i + the.rank) % 3]);
    }
}

/* More than there are tags for: the last ones are staged. */
static void check_many(MPI_Comm comm)
{
    MPI_Request *request = malloc(MOST * sizeof *request);
    int one[BYTES / sizeof(int)], bad = 0;
    for (int i = 0; i < MOST; i++)
        CHECK_EQ(INIT(MPI, Allreduce)(the.out, the.in, BYTES / (int)sizeof(int), MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                      &request[i]), MPI_SUCCESS);
    for (int turn = 0; turn < 4; turn++) {
        MPI_Request *r = &request[turn % 2 ? turn : MOST - 1 - turn];
        for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
            one[i] = (int)i * turn + the.rank;
        bring_repeat(the.out, one, BYTES, SELVAGE_COPY_HOST_TO_DEVICE);
        CHECK_EQ(MPI_Start(r), MPI_SUCCESS);
        CHECK_EQ(MPI_Wait(r, MPI_STATUS_IGNORE), MPI_SUCCESS);
        bring_repeat(one, the.in, BYTES, SELVAGE_COPY_DEVICE_TO_HOST);
        for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
            bad += one[i] != the.ranks * (int)i * turn + the.ranks * (the.ranks - 1) / 2;
    }
    CHECK_EQ(bad, 0);
    for (int i = 0; i < MOST; i++)
        CHECK_EQ(MPI_Request_free(&request[i]), MPI_SUCCESS);
    free(request);
}

/* MPI's own requests take the place of freed ones of messages. */
static void check_beside_short(MPI_Comm comm)
{
    enum { TIMES = 3 };
    int one = 1, sum = 0;
    for (int round = 0; round < TIMES; round++) {
        MPI_Request request[2];
        INIT(MPI, Allreduce)(the.out, the.in, BYTES / (int)sizeof(int), MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                             &request[0]);
        INIT(MPI, Allreduce)(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[1]);
        for (int start = 0; start < 2 * TIMES; start++) {
            sum = 0;
            CHECK_EQ(MPI_Start(&request[start % 2]), MPI_SUCCESS);
            CHECK_EQ(MPI_Wait(&request[start % 2], MPI_STATUS_IGNORE), MPI_SUCCESS);
            CHECK(start % 2 == 0 || sum == the.ranks);
        }
        CHECK_EQ(MPI_Request_free(&request[0]), MPI_SUCCESS);
        CHECK_EQ(MPI_Request_free(&request[1]), MPI_SUCCESS);
    }
}

void run_persistent_freed(void)
{
    enum { REPEATS = 4 };
    MPI_Comm comm, twins;
    repeat_t r[REPEATS];
    PMPI_Comm_dup(MPI_COMM_WORLD, &twins);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check_made_anew(comm, twins);
    check_beside_short(comm);
    if (!is_staged()) {
        check_started_twice(comm, twins);
        check_freed_at_work(comm, twins);
    }
    check_many(comm);
    check_made_anew(comm, twins);
    for (int i = 0; i < REPEATS; i++)
        make_repeat(&r[i], (kind_t[]){ALLTOALLW, ALLREDUCE, GATHERV, BCAST}[i], comm, twins, i, false, 0);
    if (!is_staged()) { /* Open MPI 4.1 starts none of its own then */
        free_types(r[0].out_types);
        free_types(r[0].in_types);
        MPI_Comm_free(&comm);
    }
    for (int i = 0; i < 4 * REPEATS; i++)
        run_once(&r[i % REPEATS]);
    for (int i = 0; i < REPEATS; i++)
        free_repeat(&r[i]);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    PMPI_Comm_free(&twins);
}

/* --- refused on one rank ------------------------------------------------------------------------------------------ */

/* The other ranks have the request that this rank makes after that. */
void run_persistent_refused(void)
{
    MPI_Comm comm, twins;
    repeat_t r[3];
    MPI_Request none = MPI_REQUEST_NULL;
    if (!MPI_IS_RIGHT && is_mode("on")) /* where the ranks ask each other by such calls */
        return;
    PMPI_Comm_dup(MPI_COMM_WORLD, &twins);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) {
        if (the.rank == 0 && i == 1)
            CHECK(INIT(MPI, Allreduce)(the.out, the.in, -1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &none) !=
                  MPI_SUCCESS);
        make_repeat(&r[i], ALLREDUCE, comm, twins, i, false, 0);
    }
    r[1].is_mpis = true;
    for (int turn = 0; turn < 6; turn++)
        if (!is_left_alone(&r[turn % 3]))
            run_once(&r[turn % 3]);
    for (int i = 0; i < 3; i++)
        free_repeat(&r[i]);
    MPI_Comm_free(&comm);
    PMPI_Comm_free(&twins);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void *start_again(void *of)
{
    repeat_t *r = of;
    for (int i = 0; i < ROUNDS / 4; i++) {
        CHECK_EQ(MPI_Start(&r->request), MPI_SUCCESS);
        CHECK_EQ(MPI_Wait(&r->request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    return NULL;
}

/* Each thread starts a request of its own. */
void run_persistent_threads(void)
{
    enum { THREADS = 3 };
    repeat_t r[THREADS];
    pthread_t thread[THREADS];
    MPI_Comm twins;
    PMPI_Comm_dup(MPI_COMM_WORLD, &twins);
    for (int i = 0; i < THREADS; i++) {
        make_repeat(&r[i], (kind_t[]){ALLREDUCE, ALLTOALLV, BCAST}[i], MPI_COMM_WORLD, twins, i, false, 0);
        fill_repeat(&r[i]);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, start_again, &r[(i + the.rank) % THREADS]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        check_repeat(&r[i]);
        free_repeat(&r[i]);
    }
    PMPI_Comm_free(&twins);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static int handled;

static void count_failure(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

/* A start that has failed says so once, and the next one is right. */
void run_persistent_damaged(void)
{
    enum { TURNS = 8 };
    int failures = 0;
    MPI_Errhandler handler;
    MPI_Comm comm, twins;
    repeat_t r;
    open_fast_pairs();
    PMPI_Comm_dup(MPI_COMM_WORLD, &twins);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(count_failure, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    make_repeat(&r, ALLREDUCE, comm, twins, 0, false, 0);
    for (int turn = 0; turn < TURNS; turn++) {
        fill_repeat(&r);
        CHECK_EQ(MPI_Start(&r.request), MPI_SUCCESS);
        const int code = MPI_Wait(&r.request, MPI_STATUS_IGNORE);
        failures += code != MPI_SUCCESS;
        MPI_Barrier(comm);
        check_started(&r, code == MPI_SUCCESS);
    }
    CHECK_EQ(handled, failures);
    printf("rank %d: %d of %d starts failed\n", the.rank, failures, TURNS);
    free_repeat(&r);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    PMPI_Comm_free(&twins);
}
#else
void run_persistent(void) { }
void run_persistent_damaged(void) { }
void run_persistent_freed(void) { }
void run_persistent_refused(void) { }
void run_persistent_threads(void) { }
#endif
