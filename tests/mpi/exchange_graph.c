/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges declared by the neighbours of distributed graphs of MPI, beside MPI_Neighbor_alltoallv on host memory:
 * every received byte is the same. Graphs: rings with a neighbour twice, with the rank itself, with ranks that have
 * none, with weights; packets one after the other and at offsets, some without bytes. Then what is refused, which
 * declares nothing. Run by tests/mpi/test_exchange_graph.sh.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include <selvage.h>

enum { NEIGHBOURS = 4, TOTAL = 8192 };

static int rank, size;
static selvage_comm_t *comm;
static selvage_device_t *device;

#define CHECK_DETAIL(text) check_detail((text), __LINE__)

static void check_detail(const char *text, int line)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    CHECK(found);
    if (!found)
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, text, selvage_error_detail());
}

/* The edge number `edge` from one rank to another: lengths differ, and every third packet is empty. */
static size_t edge_bytes(int from, int to, int edge)
{
    const int number = from * 7 + to * 3 + edge;
    return number % 3 == 0 ? 0 : (size_t)(100 + 37 * number % 900);
}

typedef struct graph {
    int nsources, ndestinations, sources[NEIGHBOURS], destinations[NEIGHBOURS];
    size_t send_bytes[NEIGHBOURS], recv_bytes[NEIGHBOURS];
    MPI_Comm mpi;
} graph_t;

/* Each rank to the next two, to itself, and to the next once more; ranks from `idle` on have no neighbours. */
static graph_t make_graph(MPI_Comm base, int idle, bool weighted)
{
    graph_t graph = {0};
    const int active = idle < size ? idle : size, step[NEIGHBOURS] = {1, 2, 0, 1}, weights[NEIGHBOURS] = {4, 3, 2, 1};
    for (int i = 0; i < NEIGHBOURS && rank < active; i++) {
        graph.destinations[graph.ndestinations++] = (rank + step[i]) % active;
        graph.sources[graph.nsources++] = (rank + active - step[i] % active) % active;
        graph.send_bytes[i] = edge_bytes(rank, graph.destinations[i], i);
        graph.recv_bytes[i] = edge_bytes(graph.sources[i], rank, i);
    }
    MPI_Dist_graph_create_adjacent(base, graph.nsources, graph.sources, weighted ? weights : MPI_UNWEIGHTED,
                                   graph.ndestinations, graph.destinations, weighted ? weights : MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph.mpi);
    return graph;
}

/* What MPI itself receives. */
static void neighbour_alltoall(const graph_t *graph, const unsigned char *send, const size_t *send_at,
                               unsigned char *recv, const size_t *recv_at)
{
    int counts[2][NEIGHBOURS], places[2][NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++) {
        counts[0][i] = (int)graph->send_bytes[i];
        counts[1][i] = (int)graph->recv_bytes[i];
        places[0][i] = (int)send_at[i];
        places[1][i] = (int)recv_at[i];
    }
    MPI_Neighbor_alltoallv(send, counts[0], places[0], MPI_BYTE, recv, counts[1], places[1], MPI_BYTE, graph->mpi);
}

/* Three epochs of the graph's exchange, with offsets if `spread`. */
static void run_graph(const graph_t *graph, bool spread, selvage_route_t route)
{
    static unsigned char sent[TOTAL], wanted[TOTAL], came[TOTAL];
    size_t send_at[NEIGHBOURS] = {0}, recv_at[NEIGHBOURS] = {0};
    for (int i = 0; i < NEIGHBOURS && spread; i++) {
        send_at[i] = (size_t)(NEIGHBOURS - 1 - i) * 1200 + 3;
        recv_at[i] = (size_t)i * 1300 + 1;
    }
    for (int i = 1; i < NEIGHBOURS && !spread; i++) {
        send_at[i] = send_at[i - 1] + graph->send_bytes[i - 1];
        recv_at[i] = recv_at[i - 1] + graph->recv_bytes[i - 1];
    }
    void *send, *recv;
    selvage_exchange_t *ex;
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    CHECK_STATUS(selvage_device_malloc(device, TOTAL, &send), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(device, TOTAL, &recv), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(comm, &params, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_graph(ex, graph->mpi, send, graph->send_bytes, spread ? send_at : NULL, recv,
                                            graph->recv_bytes, spread ? recv_at : NULL, 5), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int i = 0; i < TOTAL; i++)
            sent[i] = (unsigned char)(i * 31 + rank * 7 + epoch * 113 + i / 256);
        memset(wanted, 0xee, sizeof wanted);
        neighbour_alltoall(graph, sent, send_at, wanted, recv_at);
        CHECK_STATUS(selvage_device_copy(device, send, sent, TOTAL, SELVAGE_COPY_HOST_TO_DEVICE, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_fill(device, recv, 0xee, TOTAL, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_copy(device, came, recv, TOTAL, SELVAGE_COPY_DEVICE_TO_HOST, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(device, NULL), SELVAGE_SUCCESS);
        CHECK(memcmp(came, wanted, TOTAL) == 0);
    }
    selvage_exchange_destroy(ex);
    selvage_device_free(device, send);
    selvage_device_free(device, recv);
}

static char *receives; /* of add() */

/* As the graph says, but for the communicator, and the buffer, lengths and offsets of sends. */
static selvage_status_t add(selvage_exchange_t *ex, const graph_t *graph, MPI_Comm mpi, void *send, const size_t *bytes,
                            const size_t *offsets, int tag)
{
    return selvage_exchange_add_graph(ex, mpi, send, bytes, offsets, receives, graph->recv_bytes, NULL, tag);
}

/* Refused, with the text; then the exchange takes the graph, so that nothing was declared, or it would not match. */
static void refuse(selvage_exchange_t *ex, const graph_t *graph, void *buf)
{
    static const char *const twice = "selvage_exchange_add_graph: destination 0, rank ";
    const size_t huge[NEIGHBOURS] = {SIZE_MAX / 2, 0, 0, 0}, eights[NEIGHBOURS] = {8, 8, 8, 8};
    MPI_Comm cart, other;
    int periodic = 1;
    const int weight = 1;
    receives = (char *)buf + TOTAL / 2;
    CHECK_STATUS(add(ex, graph, MPI_COMM_NULL, buf, graph->send_bytes, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_exchange_add_graph: graph is MPI_COMM_NULL");
    CHECK_STATUS(add(ex, graph, MPI_COMM_WORLD, buf, graph->send_bytes, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("graph has no distributed graph topology");
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &cart);
    CHECK_STATUS(add(ex, graph, cart, buf, graph->send_bytes, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("graph has no distributed graph topology");
    MPI_Comm_free(&cart);
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, NULL, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("send_bytes is NULL, and graph has 4 destinations");
    CHECK_STATUS(add(ex, graph, graph->mpi, NULL, eights, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(twice);
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, huge, NULL, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("more than memory can hold");
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, graph->send_bytes, huge, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("its offset is");
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, graph->send_bytes, NULL, -1), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("tag is -1");
    if (size > 1) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
        int own;
        MPI_Comm_rank(other, &own);
        graph_t reversed = {0};
        MPI_Dist_graph_create_adjacent(other, 1, &own, &weight, 1, &own, &weight, MPI_INFO_NULL, 0, &reversed.mpi);
        CHECK_STATUS(add(ex, graph, reversed.mpi, buf, graph->send_bytes, NULL, 0), SELVAGE_ERR_ARGUMENT);
        CHECK_DETAIL("graph has the ranks of comm, but in another order");
        MPI_Comm_free(&reversed.mpi);
        MPI_Comm_free(&other);
    }
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, graph->send_bytes, NULL, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(add(ex, graph, graph->mpi, buf, graph->send_bytes, NULL, 0), SELVAGE_ERR_STATE);
    CHECK_DETAIL("the exchange is committed already");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    device = selvage_comm_device(comm);
    for (int kind = 0; kind < 3; kind++) {
        graph_t graph = make_graph(MPI_COMM_WORLD, kind == 1 ? (size + 1) / 2 : size, kind == 2);
        for (int spread = 0; spread < 2; spread++) {
            run_graph(&graph, spread != 0, SELVAGE_ROUTE_DEFAULT);
            run_graph(&graph, spread != 0, SELVAGE_ROUTE_STAGED);
        }
        MPI_Comm_free(&graph.mpi);
    }

    graph_t graph = make_graph(MPI_COMM_WORLD, size, false);
    void *buf;
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_device_malloc(device, TOTAL, &buf), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(comm, NULL, &ex), SELVAGE_SUCCESS);
    refuse(ex, &graph, buf);
    selvage_exchange_destroy(ex);
    MPI_Comm_free(&graph.mpi);
    selvage_device_free(device, buf);
    selvage_comm_destroy(comm);
    int failed = check_report("exchange_graph");
    MPI_Finalize();
    return failed;
}
