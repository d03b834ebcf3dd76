/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype_exchange ROUTE SEED CASES: packets described by random datatypes and lists of elements, to the right
 * neighbour, the left one and the rank itself, received by others of the same size, over two epochs each; all of the
 * memory beside what MPI makes of the same types on host buffers. Types are freed before commit. Every other rank binds
 * its packets to other memory before the second epoch. Exit status 0 if everything is right. datatype_refuse.c has what
 * is refused.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "fixtures/check.h"
#include "fixtures/datatype_random.h"

enum { BYTES_MAX = 3000, SPAN_MAX = 1 << 14, MANY = 40, ELEMENT_MAX = 48, GUARD = 64, ARENA = 8 << 20, EPOCHS = 2 };

/* One side of a packet: elements of a type, or of a list, somewhere in the rank's memory. */
typedef struct side {
    datatype_random_t made_of; /* to make the type again */
    int type_bytes, count;
    MPI_Datatype type;         /* for MPI, of a list too */
    int64_t *indices;          /* NULL: it is a type */
    size_t element_bytes, nindices;
    size_t origin;             /* of offset 0, in the arena */
} side_t;

/* What every rank does, k-th: a packet with tag k to the rank so far away. */
static const int distances[] = {1, 1, -1, 0};
enum { PACKETS = sizeof distances / sizeof distances[0] };

/* Memory of one direction: on the device, and on the host for MPI. */
typedef struct arena {
    uint8_t *device, *other, *host; /* other: memory that packets may be bound to in the place of device */
    size_t used;
    side_t sides[PACKETS];
} arena_t;

static struct {
    selvage_device_t *dev;
    selvage_comm_t *comm;
    void *stream;
    selvage_route_t route;
    arena_t out, in;
    uint8_t *image;
    int rank, size;
} the;

static void copy(void *to, const void *from, size_t bytes, selvage_copy_t kind)
{
    CHECK_STATUS(selvage_device_copy(the.dev, to, from, bytes, kind, the.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(the.dev, the.stream), SELVAGE_SUCCESS);
}

/* Room for what lies at low to high - 1 around offset 0; returns where that is. */
static size_t take(arena_t *arena, int64_t low, int64_t high, unsigned shift)
{
    size_t begin = (arena->used + GUARD + 63) / 64 * 64 + shift;
    arena->used = begin + (size_t)(high - low) + GUARD;
    if (arena->used > ARENA) {
        fprintf(stderr, "the arena is too small\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return begin - (size_t)low;
}

/* As a type or a list; most at addresses that are multiples of 64. */
static void place(datatype_random_t *random, side_t *side, arena_t *arena)
{
    MPI_Aint low, extent, first, span;
    MPI_Type_get_extent(side->type, &low, &extent);
    MPI_Type_get_true_extent(side->type, &first, &span);
    int64_t reach = side->count > 0 ? (side->count - 1) * (int64_t)extent : 0;
    side->origin = take(arena, first + (reach < 0 ? reach : 0), first + span + (reach > 0 ? reach : 0),
                        datatype_pick(random, 3) ? 0 : datatype_pick(random, 16));
}

static int pick_divisor(datatype_random_t *random, int n, int most)
{
    int d = 1 + (int)datatype_pick(random, (unsigned)most);
    while (n % d != 0)
        d--;
    return d;
}

/* Elements that overlap are for sending, and one by one: see pick_count() in test_datatype.c. */
static void make_type(datatype_random_t *random, side_t *side, int bytes, int many, bool received)
{
    bool overlaps = !received && many == 1 && datatype_pick(random, 3) == 0;
    side->count = many > 1 || overlaps ? many : pick_divisor(random, bytes, 6);
    side->type_bytes = many > 1 ? bytes : bytes / side->count;
    side->made_of = (datatype_random_t){.state = random->state, .overlaps = overlaps};
    datatype_random_t made_of = side->made_of;
    side->type = datatype_make(&made_of, side->type_bytes, SPAN_MAX);
}

/* Elements in any order, now and then in a row; to send, some more than once. */
static void pick_indices(datatype_random_t *random, side_t *side, size_t range, bool received)
{
    int64_t *index = side->indices = malloc(range * sizeof *index);
    bool in_row = datatype_pick(random, 4) == 0;
    for (size_t i = 0; i < range; i++)
        index[i] = (int64_t)i;
    for (size_t i = 0; i < side->nindices && !in_row; i++) {
        size_t other = i + datatype_pick(random, (unsigned)(range - i));
        int64_t kept = index[i];
        index[i] = index[other];
        index[other] = kept;
    }
    for (size_t i = 0; i < side->nindices && !received && !in_row; i++)
        index[i] = datatype_pick(random, 4) ? index[i] : index[datatype_pick(random, (unsigned)i + 1)];
}

static void make_list(datatype_random_t *random, side_t *side, int bytes, bool received)
{
    MPI_Datatype element;
    side->element_bytes = (size_t)pick_divisor(random, bytes, ELEMENT_MAX);
    side->nindices = (size_t)bytes / side->element_bytes;
    pick_indices(random, side, 2 * side->nindices + 3, received);
    MPI_Aint *where = malloc(side->nindices * sizeof *where);
    for (size_t i = 0; i < side->nindices; i++)
        where[i] = (MPI_Aint)side->indices[i] * (MPI_Aint)side->element_bytes;
    MPI_Type_contiguous((int)side->element_bytes, MPI_BYTE, &element);
    MPI_Type_create_hindexed_block((int)side->nindices, 1, where, element, &side->type);
    MPI_Type_commit(&side->type);
    MPI_Type_free(&element);
    side->count = 1;
    free(where);
}

/* The k-th packet that source sends: both ends know its size, each has its own idea of where the bytes lie. */
static void make_side(arena_t *arena, uint64_t seed, int source, int k, bool received)
{
    side_t *side = &arena->sides[k];
    datatype_random_t random = {.state = seed * 1000003};
    random.state += (uint64_t)(source * PACKETS + k) * UINT64_C(0x9e3779b97f4a7c15);
    datatype_pick(&random, 2);
    int bytes = datatype_pick_bytes(&random, BYTES_MAX), many = datatype_pick(&random, 4) ? 1 : MANY;
    bool empty = datatype_pick(&random, 20) == 0;
    random.state += received ? UINT64_C(0xd6e8feb86659fd93) : 0;
    datatype_pick(&random, 2);
    *side = (side_t){0};
    if (datatype_pick(&random, 3) == 0)
        make_list(&random, side, bytes * many, received);
    else
        make_type(&random, side, bytes, many, received);
    if (empty)
        side->count = 0;
    place(&random, side, arena);
}

static int distance(int k)
{
    return the.route == SELVAGE_ROUTE_SELF ? 0 : distances[k];
}

static int rank_at(int away)
{
    return (the.rank + away + the.size) % the.size;
}

static void add_send(selvage_exchange_t *ex, int k)
{
    const side_t *side = &the.out.sides[k];
    const uint8_t *buf = the.out.device + side->origin;
    uint32_t index = 99;
    if (side->indices) {
        CHECK_STATUS(selvage_exchange_add_send_indexed(ex, buf, side->element_bytes, side->indices,
                                                       side->count ? side->nindices : 0, rank_at(distance(k)), k,
                                                       &index), SELVAGE_SUCCESS);
    } else {
        datatype_random_t made_of = side->made_of;
        MPI_Datatype type = datatype_make(&made_of, side->type_bytes, SPAN_MAX);
        CHECK_STATUS(selvage_exchange_add_send_type(ex, buf, (size_t)side->count, type, rank_at(distance(k)), k,
                                                    &index), SELVAGE_SUCCESS);
        datatype_drop(&type);
    }
    CHECK_EQ(index, k);
}

static void add_recv(selvage_exchange_t *ex, int k)
{
    const side_t *side = &the.in.sides[k];
    uint8_t *buf = the.in.device + side->origin;
    uint32_t index = 99;
    if (side->indices) {
        CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, buf, side->element_bytes, side->indices,
                                                       side->count ? side->nindices : 0, rank_at(-distance(k)), k,
                                                       &index), SELVAGE_SUCCESS);
    } else {
        datatype_random_t made_of = side->made_of;
        MPI_Datatype type = datatype_make(&made_of, side->type_bytes, SPAN_MAX);
        CHECK_STATUS(selvage_exchange_add_recv_type(ex, buf, (size_t)side->count, type, rank_at(-distance(k)), k,
                                                    &index), SELVAGE_SUCCESS);
        datatype_drop(&type);
    }
    CHECK_EQ(index, k);
}

static void fill(arena_t *arena, uint64_t seed)
{
    datatype_random_t random = {.state = seed + (uint64_t)the.rank};
    for (size_t i = 0; i < arena->used; i++)
        arena->host[i] = (uint8_t)datatype_pick(&random, 256);
    copy(arena->device, arena->host, arena->used, SELVAGE_COPY_HOST_TO_DEVICE);
}

/* Bytes travel: types of different signatures must not meet, and in MPICH 4.0 long ones cannot. */
static void exchange_by_mpi(void)
{
    MPI_Request request[PACKETS];
    uint8_t *sent[PACKETS], *received = malloc(BYTES_MAX * MANY);
    int bytes[PACKETS];
    for (int k = 0; k < PACKETS; k++) {
        const side_t *out = &the.out.sides[k];
        sent[k] = malloc(BYTES_MAX * MANY);
        bytes[k] = 0;
        MPI_Pack(the.out.host + out->origin, out->count, out->type, sent[k], BYTES_MAX * MANY, &bytes[k],
                 MPI_COMM_WORLD);
        MPI_Isend(sent[k], bytes[k], MPI_PACKED, rank_at(distance(k)), k, MPI_COMM_WORLD, &request[k]);
    }
    for (int k = 0; k < PACKETS; k++) {
        const side_t *in = &the.in.sides[k];
        int position = 0;
        MPI_Recv(received, BYTES_MAX * MANY, MPI_PACKED, rank_at(-distance(k)), k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Unpack(received, BYTES_MAX * MANY, &position, the.in.host + in->origin, in->count, in->type,
                   MPI_COMM_WORLD);
    }
    MPI_Waitall(PACKETS, request, MPI_STATUSES_IGNORE);
    for (int k = 0; k < PACKETS; k++)
        free(sent[k]);
    free(received);
}

static bool run_epoch(selvage_exchange_t *ex, uint64_t seed)
{
    fill(&the.out, seed);
    fill(&the.in, ~seed);
    CHECK_STATUS(selvage_exchange_start(ex, the.stream), SELVAGE_SUCCESS);
    exchange_by_mpi();
    CHECK_STATUS(selvage_exchange_wait(ex, the.stream), SELVAGE_SUCCESS);
    copy(the.image, the.in.device, the.in.used, SELVAGE_COPY_DEVICE_TO_HOST);
    bool same = memcmp(the.image, the.in.host, the.in.used) == 0;
    CHECK(same);
    return same;
}

/* All packets to the other memory: device and other change places. */
static void bind_other(selvage_exchange_t *ex)
{
    const void *sends[PACKETS];
    void *recvs[PACKETS];
    arena_t *arenas[] = {&the.out, &the.in};
    for (int i = 0; i < 2; i++) {
        uint8_t *before = arenas[i]->device;
        arenas[i]->device = arenas[i]->other;
        arenas[i]->other = before;
    }
    for (int k = 0; k < PACKETS; k++) {
        sends[k] = the.out.device + the.out.sides[k].origin;
        recvs[k] = the.in.device + the.in.sides[k].origin;
    }
    CHECK_STATUS(selvage_exchange_rebind(ex, sends, PACKETS, recvs, PACKETS), SELVAGE_SUCCESS);
}

static void check_routes(const selvage_exchange_t *ex)
{
    for (int k = 0; k < PACKETS; k++) {
        selvage_route_t route = SELVAGE_ROUTE_DEFAULT;
        bool self = rank_at(distance(k)) == the.rank && the.route != SELVAGE_ROUTE_STAGED;
        CHECK_STATUS(selvage_exchange_send_route(ex, (uint32_t)k, &route), SELVAGE_SUCCESS);
        CHECK_STR(selvage_route_name(route), selvage_route_name(self ? SELVAGE_ROUTE_SELF : the.route));
    }
}

static void forget_sides(arena_t *arena)
{
    for (int k = 0; k < PACKETS; k++) {
        datatype_drop(&arena->sides[k].type);
        free(arena->sides[k].indices);
    }
    arena->used = 0;
}

static void run_case(uint64_t seed)
{
    const bool rebindable = (seed + (uint64_t)the.rank) % 2; /* ranks need not agree */
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = the.route, .rebindable = rebindable};
    selvage_exchange_t *ex;
    bool good = true;
    for (int k = 0; k < PACKETS; k++) {
        make_side(&the.out, seed, the.rank, k, false);
        make_side(&the.in, seed, rank_at(-distance(k)), k, true);
    }
    CHECK_STATUS(selvage_exchange_create(the.comm, &params, &ex), SELVAGE_SUCCESS);
    for (int k = 0; k < PACKETS; k++) {
        add_send(ex, k);
        add_recv(ex, k);
    }
    if (selvage_exchange_commit(ex) != SELVAGE_SUCCESS) {
        fprintf(stderr, "seed %llu: commit: %s\n", (unsigned long long)seed, selvage_error_detail());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check_routes(ex);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        if (rebindable && epoch > 0)
            bind_other(ex);
        good = run_epoch(ex, seed + 77 * (uint64_t)epoch) && good;
    }
    selvage_exchange_destroy(ex);
    forget_sides(&the.out);
    forget_sides(&the.in);
    CHECK_EQ(datatype_alive(), 0);
    if (!good)
        fprintf(stderr, "rank %d of %d: seed %llu: the memory differs\n", the.rank, the.size, (unsigned long long)seed);
}

static void set_up(const char *route)
{
    void *memory[4];
    while (the.route < SELVAGE_ROUTE_DIRECT && strcmp(selvage_route_name(the.route), route) != 0)
        the.route++;
    CHECK_STATUS(selvage_device_open_local(NULL, &the.dev), SELVAGE_SUCCESS);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = the.dev};
    if (selvage_comm_create(MPI_COMM_WORLD, &params, &the.comm) != SELVAGE_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    the.rank = selvage_comm_rank(the.comm);
    the.size = selvage_comm_size(the.comm);
    CHECK_STATUS(selvage_stream_create(the.dev, &the.stream), SELVAGE_SUCCESS);
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(selvage_device_malloc(the.dev, ARENA, &memory[i]), SELVAGE_SUCCESS);
    the.out.device = memory[0];
    the.in.device = memory[1];
    the.out.other = memory[2];
    the.in.other = memory[3];
    the.out.host = malloc(ARENA);
    the.in.host = malloc(ARENA);
    the.image = malloc(ARENA);
}

static void tear_down(void)
{
    free(the.image);
    free(the.out.host);
    free(the.in.host);
    selvage_device_free(the.dev, the.out.device);
    selvage_device_free(the.dev, the.in.device);
    selvage_device_free(the.dev, the.out.other);
    selvage_device_free(the.dev, the.in.other);
    selvage_stream_destroy(the.dev, the.stream);
    selvage_comm_destroy(the.comm);
    selvage_device_close(the.dev);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "usage: datatype_exchange ROUTE SEED CASES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    set_up(argv[1]);
    for (int i = 0; i < atoi(argv[3]); i++)
        run_case((uint64_t)atoi(argv[2]) + (uint64_t)i);
    tear_down();
    MPI_Finalize();
    return check_report("datatype_exchange");
}
