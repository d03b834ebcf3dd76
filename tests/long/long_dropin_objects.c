/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long_dropin_objects [TURNS [WHAT...]]: with the drop-in, what a program makes and frees many times with device memory
 * in it: types, communicators, windows, persistent requests and requests, outstanding and in turn. Nothing grows
 * (growth.h), and what comes is right. Each rank sends to the next one in a ring. Linked with the drop-in first.
 */
#include <mpi.h>
#include <stdbool.h>

#include <selvage.h>

#include "fixtures/growth.h"

enum { TURNS = 100000, NUMBERS = 512, OUTSTANDING = 100000, LONG_NUMBERS = 16384, POOLS_KIB = 131072 };

typedef struct lives {
    selvage_device_t *dev;
    double *out, *in;           /* device memory */
    double *host_out, *host_in;
    int rank, size, next, before, turn;
} lives_t;

/* The software device's memory is the host's to read and write, which is what this test needs. */
static void fill(lives_t *l, int n)
{
    l->turn++;
    for (int i = 0; i < n; i++) {
        l->out[i] = l->turn + l->rank + i;
        l->in[i] = -1;
    }
}

static void look(const lives_t *l, int n, int stride)
{
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += l->in[i * stride] != l->turn + l->before + i * stride;
    CHECK_EQ(wrong, 0);
}

static void pass(const lives_t *l, int n, MPI_Datatype type, MPI_Comm comm)
{
    CHECK_EQ(MPI_Sendrecv(l->out, n, type, l->next, 1, l->in, n, type, l->before, 1, comm, MPI_STATUS_IGNORE),
             MPI_SUCCESS);
}

static void turn_type(void *arg)
{
    lives_t *l = arg;
    MPI_Datatype type, copy;
    fill(l, 64);
    const int n = 3 + l->turn % 5, stride = 2 + l->turn % 7;
    MPI_Type_vector(n, 1, stride, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Type_dup(type, &copy);
    pass(l, 1, copy, MPI_COMM_WORLD);
    look(l, n, stride);
    MPI_Type_free(&copy);
    MPI_Type_free(&type);
}

static void turn_comm(void *arg)
{
    lives_t *l = arg;
    MPI_Comm comm;
    fill(l, 8);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    pass(l, 8, MPI_DOUBLE, comm);
    look(l, 8, 1);
    MPI_Comm_free(&comm);
}

/* Open MPI makes none on a machine without a network, or for a rank alone. */
static bool makes_windows(const lives_t *l)
{
    MPI_Win win;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const bool makes = PMPI_Win_create(l->host_in, NUMBERS, 1, MPI_INFO_NULL, comm, &win) == MPI_SUCCESS;
    if (makes)
        PMPI_Win_free(&win);
    MPI_Comm_free(&comm);
    return makes;
}

static void turn_window(void *arg)
{
    lives_t *l = arg;
    MPI_Win win;
    fill(l, 8);
    MPI_Win_create(l->in, NUMBERS * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    CHECK_EQ(MPI_Put(l->out, 8, MPI_DOUBLE, l->next, 0, 8, MPI_DOUBLE, win), MPI_SUCCESS);
    MPI_Win_fence(0, win);
    look(l, 8, 1);
    MPI_Win_free(&win);
}

static void turn_persistent(void *arg)
{
    lives_t *l = arg;
    MPI_Request request[2];
    fill(l, 8);
    MPI_Recv_init(l->in, 8, MPI_DOUBLE, l->before, 2, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(l->out, 8, MPI_DOUBLE, l->next, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Startall(2, request);
    CHECK_EQ(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    look(l, 8, 1);
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}

static void turn_message(void *arg)
{
    lives_t *l = arg;
    MPI_Request request[2];
    fill(l, 8);
    MPI_Irecv(l->in, 8, MPI_DOUBLE, l->before, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(l->out, 8, MPI_DOUBLE, l->next, 3, MPI_COMM_WORLD, &request[1]);
    CHECK_EQ(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    look(l, 8, 1);
}

static void turn_long_message(void *arg)
{
    lives_t *l = arg;
    fill(l, LONG_NUMBERS);
    pass(l, LONG_NUMBERS, MPI_DOUBLE, MPI_COMM_WORLD);
    look(l, LONG_NUMBERS, 1);
}

static void turn_host(void *arg)
{
    lives_t *l = arg;
    MPI_Request request[2];
    l->host_out[0] = ++l->turn + l->rank;
    MPI_Irecv(l->host_in, 8, MPI_DOUBLE, l->before, 4, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(l->host_out, 8, MPI_DOUBLE, l->next, 4, MPI_COMM_WORLD, &request[1]);
    CHECK_EQ(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    CHECK(l->host_in[0] == l->turn + l->before);
}

static void turn_collective(void *arg)
{
    lives_t *l = arg;
    fill(l, 8);
    CHECK_EQ(MPI_Allreduce(l->out, l->in, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK(l->in[0] == (double)l->turn * l->size + l->size * (l->size - 1) / 2.0);
}

static void turn_collective_request(void *arg)
{
    lives_t *l = arg;
    MPI_Request request;
    fill(l, 8);
    MPI_Iallreduce(l->out, l->in, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK(l->in[0] == (double)l->turn * l->size + l->size * (l->size - 1) / 2.0);
}

/* All begun before the first is waited for; each receives a place of its own. */
static void turn_outstanding(void *arg)
{
    lives_t *l = arg;
    MPI_Request *request = malloc(2 * OUTSTANDING * sizeof *request);
    CHECK(request != NULL);
    fill(l, OUTSTANDING);
    for (int i = 0; i < OUTSTANDING; i++)
        MPI_Irecv(l->in + i, 1, MPI_DOUBLE, l->before, 5, MPI_COMM_WORLD, &request[i]);
    for (int i = 0; i < OUTSTANDING; i++)
        MPI_Isend(l->out + i, 1, MPI_DOUBLE, l->next, 5, MPI_COMM_WORLD, &request[OUTSTANDING + i]);
    CHECK_EQ(MPI_Waitall(2 * OUTSTANDING, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    look(l, OUTSTANDING, 1);
    free(request);
}

static const struct life {
    const char *name;
    void (*turn)(void *);
    int divisor;
} lives_of[] = {
    {"types", turn_type, 1},
    {"communicators", turn_comm, 1},
    {"windows", turn_window, 1},
    {"persistent requests", turn_persistent, 1},
    {"messages in turn", turn_message, 1},
    {"long messages in turn", turn_long_message, 10},
    {"messages in turn, host memory", turn_host, 1},
    {"collective calls", turn_collective, 1},
    {"collective requests", turn_collective_request, 1},
    {"100000 messages outstanding", turn_outstanding, OUTSTANDING / 4},
};

int main(int argc, char **argv)
{
    lives_t l = {0};
    MPI_Init(&argc, &argv);
    const int turns = argc > 1 ? atoi(argv[1]) : TURNS;
    MPI_Comm_rank(MPI_COMM_WORLD, &l.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &l.size);
    l.next = (l.rank + 1) % l.size;
    l.before = (l.rank + l.size - 1) % l.size;
    l.host_out = calloc(NUMBERS, sizeof(double));
    l.host_in = calloc(NUMBERS, sizeof(double));
    if (!l.host_out || !l.host_in || selvage_device_open_local("soft", &l.dev) ||
        selvage_device_malloc(l.dev, OUTSTANDING * sizeof(double), (void **)&l.out) ||
        selvage_device_malloc(l.dev, OUTSTANDING * sizeof(double), (void **)&l.in))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < sizeof lives_of / sizeof lives_of[0]; i++) {
        const int n = turns / lives_of[i].divisor;
        if (!growth_is_asked(lives_of[i].name, argc, argv))
            continue;
        if (lives_of[i].turn == turn_window && !makes_windows(&l))
            printf("windows: left out, this MPI makes none here\n");
        else
            growth_run(lives_of[i].name, lives_of[i].turn, &l, n > 6 ? n : 6,
                       lives_of[i].divisor >= OUTSTANDING / 4 ? POOLS_KIB : 0, NULL);
    }
    selvage_device_free(l.dev, l.in);
    selvage_device_free(l.dev, l.out);
    selvage_device_close(l.dev);
    free(l.host_in);
    free(l.host_out);
    MPI_Finalize();
    return check_report("long_dropin_objects");
}
