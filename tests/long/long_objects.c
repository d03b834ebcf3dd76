/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long_objects [TURNS [WHAT...]]: the library's objects, made and destroyed many times in one job, and requests
 * outstanding and in turn: nothing grows (growth.h). Any number of ranks; each sends to the next one in a ring, and to
 * itself if it is alone. Communicators, exchanges, halos and grids of two ranks and more agree over MPI in each turn.
 */
#include <mpi.h>
#include <stdbool.h>

#include <selvage.h>

#include "fixtures/growth.h"

enum { TURNS = 100000, BYTES = 4096, WINDOW = 1000, OUTSTANDING = 100000, POOLS_KIB = 131072 };

typedef struct lives {
    selvage_comm_t *comm;
    selvage_device_t *dev;
    selvage_grid_t *grid;
    selvage_coll_t *coll;
    uint8_t *device, *host; /* 4 * BYTES each, the first half for sending */
    int rank, size, next, before;
} lives_t;

static void turn_comm(void *arg)
{
    const lives_t *l = arg;
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = l->dev};
    selvage_comm_t *comm = NULL;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), SELVAGE_SUCCESS);
    selvage_comm_destroy(comm);
}

static void turn_comm_and_device(void *arg)
{
    selvage_comm_t *comm = NULL;
    (void)arg;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, NULL, &comm), SELVAGE_SUCCESS);
    selvage_comm_destroy(comm);
}

static void make_exchange(const lives_t *l, MPI_Datatype type, selvage_route_t route)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    selvage_exchange_t *ex = NULL;
    uint32_t index;
    CHECK_STATUS(selvage_exchange_create(l->comm, &params, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_type(ex, l->device, 1, type, l->next, 1, &index), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_type(ex, l->device + 2 * BYTES, 1, type, l->before, 1, &index),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex);
}

static void turn_exchange(void *arg)
{
    make_exchange(arg, MPI_DOUBLE, SELVAGE_ROUTE_DEFAULT);
}

static void turn_exchange_staged(void *arg)
{
    make_exchange(arg, MPI_DOUBLE, SELVAGE_ROUTE_STAGED);
}

/* Each time of another type, with gaps. */
static void turn_exchange_type(void *arg)
{
    static int turn;
    MPI_Datatype type;
    turn++;
    MPI_Type_vector(3 + turn % 5, 1, 2 + turn % 7, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    make_exchange(arg, type, SELVAGE_ROUTE_DEFAULT);
    MPI_Type_free(&type);
}

static void turn_grid(void *arg)
{
    const lives_t *l = arg;
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {16, 8 * l->size},
                                    .periodic = {1, 1}};
    selvage_grid_t *grid = NULL;
    CHECK_STATUS(selvage_grid_create(l->comm, &params, &grid), SELVAGE_SUCCESS);
    selvage_grid_destroy(grid);
}

static void turn_halo(void *arg)
{
    const lives_t *l = arg;
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = l->device, .element_bytes = 8, .width_lo = {1, 1},
                             .width_hi = {1, 1}};
    selvage_halo_t *halo = NULL;
    CHECK_STATUS(selvage_halo_create(l->grid, NULL, &field, 1, &halo), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(halo, NULL), SELVAGE_SUCCESS);
    selvage_halo_destroy(halo);
}

static void turn_coll(void *arg)
{
    const lives_t *l = arg;
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(l->comm, NULL, &coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
}

static void turn_split(void *arg)
{
    const lives_t *l = arg;
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_split(l->coll, 0, l->rank, &coll), SELVAGE_SUCCESS);
    selvage_coll_destroy(coll);
}

static void turn_call(void *arg)
{
    const lives_t *l = arg;
    CHECK_STATUS(selvage_coll_all_reduce(l->coll, l->device, l->device + 2 * BYTES, 8, SELVAGE_FLOAT64,
                                         SELVAGE_OP_SUM, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(l->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_error(l->coll), SELVAGE_SUCCESS);
}

static void turn_window(void *arg)
{
    const lives_t *l = arg;
    selvage_window_t *window = NULL;
    CHECK_STATUS(selvage_coll_register(l->coll, l->device, BYTES, &window), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_unregister(window), SELVAGE_SUCCESS);
}

static void turn_buffer(void *arg)
{
    const lives_t *l = arg;
    selvage_buffer_t *buffer = NULL;
    CHECK_STATUS(selvage_buffer_register(l->comm, l->device, BYTES, &buffer), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_buffer_unregister(buffer), SELVAGE_SUCCESS);
}

static void turn_stream(void *arg)
{
    const lives_t *l = arg;
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(l->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(l->dev, stream), SELVAGE_SUCCESS);
    selvage_stream_destroy(l->dev, stream);
}

static void turn_pack(void *arg)
{
    static int turn;
    const lives_t *l = arg;
    selvage_pack_t *pack = NULL;
    MPI_Datatype type;
    turn++;
    MPI_Type_vector(3 + turn % 5, 1, 2 + turn % 7, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    CHECK_STATUS(selvage_pack_create(l->dev, 1, type, &pack), SELVAGE_SUCCESS);
    selvage_pack_destroy(pack);
    MPI_Type_free(&type);
}

/* n receives and their sends, all begun before the first is waited for. */
static void pass_messages(const lives_t *l, uint8_t *memory, MPI_Datatype type, int n)
{
    selvage_request_t **request = calloc(2 * (size_t)n, sizeof(selvage_request_t *));
    CHECK(request != NULL);
    for (int i = 0; request && i < n; i++)
        CHECK_STATUS(selvage_message_irecv(l->comm, memory + 2 * BYTES, 1, type, l->before, i % 1000, NULL,
                                           &request[i]), SELVAGE_SUCCESS);
    for (int i = 0; request && i < n; i++)
        CHECK_STATUS(selvage_message_isend(l->comm, memory, 1, type, l->next, i % 1000, NULL, &request[n + i]),
                     SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_message_waitall(2 * (size_t)n, request, NULL), SELVAGE_SUCCESS);
    free(request);
}

static void turn_message(void *arg)
{
    const lives_t *l = arg;
    pass_messages(l, l->device, MPI_DOUBLE, 1);
}

static void turn_message_host(void *arg)
{
    const lives_t *l = arg;
    pass_messages(l, l->host, MPI_DOUBLE, 1);
}

static void turn_message_type(void *arg)
{
    static int turn;
    MPI_Datatype type;
    const lives_t *l = arg;
    turn++;
    MPI_Type_vector(3 + turn % 5, 1, 2 + turn % 7, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    pass_messages(l, l->device, type, 1);
    MPI_Type_free(&type);
}

static void turn_window_of_messages(void *arg)
{
    const lives_t *l = arg;
    pass_messages(l, l->device, MPI_DOUBLE, WINDOW);
}

static void turn_outstanding(void *arg)
{
    const lives_t *l = arg;
    pass_messages(l, l->device, MPI_DOUBLE, OUTSTANDING);
}

static void turn_outstanding_host(void *arg)
{
    const lives_t *l = arg;
    pass_messages(l, l->host, MPI_DOUBLE, OUTSTANDING);
}

/* Each with its share of the turns: what takes long by itself, or counts for many, is done less often. */
static const struct life {
    const char *name;
    void (*turn)(void *);
    int divisor;
} lives_of[] = {
    {"communicators", turn_comm, 1},
    {"communicators with their device", turn_comm_and_device, 1},
    {"exchanges", turn_exchange, 1},
    {"exchanges, staged", turn_exchange_staged, 1},
    {"exchanges of new types", turn_exchange_type, 1},
    {"grids", turn_grid, 1},
    {"halos", turn_halo, 1},
    {"collective communicators", turn_coll, 1},
    {"collective communicators, split", turn_split, 1},
    {"all-reduces", turn_call, 1},
    {"windows of collectives", turn_window, 1},
    {"registered buffers", turn_buffer, 1},
    {"streams", turn_stream, 1},
    {"packing plans", turn_pack, 1},
    {"messages in turn", turn_message, 1},
    {"messages in turn, host memory", turn_message_host, 1},
    {"messages of new types", turn_message_type, 1},
    {"1000 messages outstanding", turn_window_of_messages, 100},
    {"100000 messages outstanding", turn_outstanding, OUTSTANDING / 4},
    {"100000 messages outstanding, host memory", turn_outstanding_host, OUTSTANDING / 4},
};

static void open_lives(lives_t *l)
{
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT};
    MPI_Comm_rank(MPI_COMM_WORLD, &l->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &l->size);
    l->next = (l->rank + 1) % l->size;
    l->before = (l->rank + l->size - 1) % l->size;
    CHECK_STATUS(selvage_device_open_local(NULL, &l->dev), SELVAGE_SUCCESS);
    params.device = l->dev;
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &l->comm), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(l->dev, 4 * BYTES, (void **)&l->device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(l->dev, l->device, 0, 4 * BYTES, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(l->dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_coll_create(l->comm, NULL, &l->coll), SELVAGE_SUCCESS);
    l->host = calloc(4, BYTES);
    selvage_grid_params_t grid = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {16, 8 * l->size},
                                  .periodic = {1, 1}};
    CHECK_STATUS(selvage_grid_create(l->comm, &grid, &l->grid), SELVAGE_SUCCESS);
}

static void close_lives(lives_t *l)
{
    selvage_grid_destroy(l->grid);
    selvage_coll_destroy(l->coll);
    selvage_device_free(l->dev, l->device);
    selvage_comm_destroy(l->comm);
    selvage_device_close(l->dev);
    free(l->host);
}

int main(int argc, char **argv)
{
    lives_t l = {0};
    int turns = TURNS;
    MPI_Init(&argc, &argv);
    if (argc > 1)
        turns = atoi(argv[1]);
    open_lives(&l);
    for (size_t i = 0; i < sizeof lives_of / sizeof lives_of[0]; i++) {
        const int n = turns / lives_of[i].divisor;
        if (growth_is_asked(lives_of[i].name, argc, argv))
            growth_run(lives_of[i].name, lives_of[i].turn, &l, n > 6 ? n : 6,
                       lives_of[i].divisor > 1 ? POOLS_KIB : 0, NULL);
    }
    close_lives(&l);
    MPI_Finalize();
    return check_report("long_objects");
}
