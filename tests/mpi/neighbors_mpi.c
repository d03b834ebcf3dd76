/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges that neighbours commit without other ranks, over MPI: the first ranks commit while the last calls nothing
 * of the library; neighbourhoods that change at random, with every byte checked; the neighbours of a distributed graph;
 * a rank that does not name the other. Run by tests/mpi/test_neighbors_mpi.sh with 3 ranks or more.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "fixtures/check.h"
#include <selvage.h>

enum { ROUNDS = 100, PACKETS_MAX = 8, ROOM = 40000, GROUP = 3 };

static int rank, size;
static selvage_comm_t *comm;
static selvage_device_t *device;

typedef struct packet {
    int source, destination;
    size_t bytes;
} packet_t;

/* The packets of one round, the same on all ranks. */
typedef struct round_plan {
    int count;
    packet_t packet[PACKETS_MAX];
} round_plan_t;

static unsigned draw(unsigned *state, unsigned bound)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % bound;
}

static round_plan_t draw_round(unsigned *state)
{
    static const size_t lengths[] = {0, 8, 1000, ROOM};
    round_plan_t plan = {.count = 1 + (int)draw(state, PACKETS_MAX)};
    int group[GROUP];
    for (int i = 0; i < GROUP; i++)
        group[i] = (int)draw(state, (unsigned)size);
    for (int i = 0; i < plan.count; i++) {
        plan.packet[i].source = group[draw(state, GROUP)];
        plan.packet[i].destination = group[draw(state, GROUP)];
        plan.packet[i].bytes = lengths[draw(state, 4)];
    }
    return plan;
}

static bool takes_part(const round_plan_t *plan)
{
    for (int i = 0; i < plan->count; i++)
        if (plan->packet[i].source == rank || plan->packet[i].destination == rank)
            return true;
    return false;
}

static selvage_exchange_t *create(void)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .scope = SELVAGE_SCOPE_NEIGHBORS};
    selvage_exchange_t *ex = NULL;
    CHECK_STATUS(selvage_exchange_create(comm, &params, &ex), SELVAGE_SUCCESS);
    return ex;
}

static unsigned char content(int round, int epoch, int number, size_t i)
{
    return (unsigned char)(round * 31 + epoch * 7 + number * 59 + (int)(i % 251));
}

static void check_epoch(selvage_exchange_t *ex, const round_plan_t *plan, int round, int epoch, unsigned char *out,
                        unsigned char *in)
{
    static unsigned char host[PACKETS_MAX * ROOM];
    for (int n = 0; n < plan->count; n++)
        for (size_t i = 0; i < plan->packet[n].bytes; i++)
            host[n * ROOM + i] = content(round, epoch, n, i);
    CHECK_STATUS(selvage_device_copy(device, out, host, sizeof host, SELVAGE_COPY_HOST_TO_DEVICE, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(device, in, 0xee, sizeof host, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(device, host, in, sizeof host, SELVAGE_COPY_DEVICE_TO_HOST, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(device, NULL), SELVAGE_SUCCESS);
    for (int n = 0; n < plan->count; n++) {
        const bool comes = plan->packet[n].destination == rank;
        size_t wrong = 0;
        for (size_t i = 0; i < ROOM; i++)
            wrong += host[n * ROOM + i] !=
                     (comes && i < plan->packet[n].bytes ? content(round, epoch, n, i) : (unsigned char)0xee);
        CHECK_EQ(wrong, 0);
    }
}

static void run_round(const round_plan_t *plan, int round, unsigned char *out, unsigned char *in)
{
    selvage_exchange_t *ex = create();
    for (int n = 0; n < plan->count; n++) {
        const packet_t *packet = &plan->packet[n];
        if (packet->source == rank)
            CHECK_STATUS(selvage_exchange_add_send(ex, out + n * ROOM, packet->bytes, packet->destination, 1, NULL),
                         SELVAGE_SUCCESS);
        if (packet->destination == rank)
            CHECK_STATUS(selvage_exchange_add_recv(ex, in + n * ROOM, packet->bytes, packet->source, 1, NULL),
                         SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (int epoch = 0; epoch < 2; epoch++)
        check_epoch(ex, plan, round, epoch, out, in);
    selvage_exchange_destroy(ex);
}

/* Every rank goes through all rounds, and calls nothing in those that do not concern it. */
static void change_rounds(unsigned char *out, unsigned char *in)
{
    unsigned state = 12345;
    for (int round = 0; round < check_part(ROUNDS); round++) {
        const round_plan_t plan = draw_round(&state);
        if (takes_part(&plan))
            run_round(&plan, round, out, in);
    }
}

/* All but the last rank, in a ring; that one waits in MPI for word that they are through. */
static void leave_out_last(unsigned char *out, unsigned char *in)
{
    round_plan_t plan = {.count = size - 1 < PACKETS_MAX ? size - 1 : PACKETS_MAX};
    int word = 0;
    for (int i = 0; i < plan.count; i++)
        plan.packet[i] = (packet_t){i, (i + 1) % plan.count, 1000};
    if (takes_part(&plan))
        run_round(&plan, 7, out, in);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD);
    if (rank == size - 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The neighbours of a graph of which the last rank is no part. */
static void follow_graph(unsigned char *out, unsigned char *in)
{
    const int active = size - 1, right = (rank + 1) % active, left = (rank + active - 1) % active, weight = 1;
    const int edges = rank < active;
    const size_t bytes = 1000;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, edges, &left, &weight, edges, &right, &weight, MPI_INFO_NULL, 0,
                                   &graph);
    if (edges) {
        selvage_exchange_t *ex = create();
        const round_plan_t plan = {.count = 1, .packet = {{left, rank, bytes}}};
        CHECK_STATUS(selvage_exchange_add_graph(ex, graph, out, &bytes, NULL, in, &bytes, NULL, 5), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
        check_epoch(ex, &plan, 3, 1, out, in);
        selvage_exchange_destroy(ex);
    }
    MPI_Comm_free(&graph);
}

/* Rank 0 names rank 1, which has nothing for it: an error at rank 0's deadline, and both commit together later. The
   deadline is short for that one call only: in all others a rank may stand still for seconds on a crowded machine. */
static void name_nobody(unsigned char *out, unsigned char *in)
{
    const double patient_s = comm->timeout_s;
    if (rank == 0) {
        selvage_exchange_t *ex = create();
        const double begin_s = MPI_Wtime();
        CHECK_STATUS(selvage_exchange_add_send(ex, out, 8, 1, 0, NULL), SELVAGE_SUCCESS);
        comm->timeout_s = 0.5; /* nothing else drives it */
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_ERR_TIMEOUT);
        comm->timeout_s = patient_s;
        CHECK(strstr(selvage_error_detail(), "rank 1 has not come for 0.5 s") != NULL);
        CHECK(MPI_Wtime() - begin_s < patient_s);
        selvage_exchange_destroy(ex);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2) {
        selvage_exchange_t *ex = create();
        CHECK_STATUS(rank == 0 ? selvage_exchange_add_send(ex, out, 8, 1, 0, NULL)
                               : selvage_exchange_add_recv(ex, in, 8, 0, 0, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
        check_epoch(ex, &(round_plan_t){.count = 1, .packet = {{0, 1, 8}}}, 1, 1, out, in);
        selvage_exchange_destroy(ex);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    void *out, *in;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    device = selvage_comm_device(comm);
    CHECK_STATUS(selvage_device_malloc(device, PACKETS_MAX * ROOM, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(device, PACKETS_MAX * ROOM, &in), SELVAGE_SUCCESS);
    leave_out_last(out, in);
    change_rounds(out, in);
    follow_graph(out, in);
    if (argc > 1 && strcmp(argv[1], "mismatch") == 0)
        name_nobody(out, in);
    selvage_device_free(device, out);
    selvage_device_free(device, in);
    selvage_comm_destroy(comm);
    const int failed = check_report("neighbors_mpi");
    MPI_Finalize();
    return failed;
}
