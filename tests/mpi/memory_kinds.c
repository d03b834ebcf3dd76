/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_kinds PAGE: every kind of memory of doc/memory.md that the device of each rank has, as send buffer, as
 * receive buffer and registered, by every route, around a ring; what happens is what the page says, or a check fails.
 * A line per kind by rank 0. No kind may be on the page and not here, or the other way round. Every rank takes the GPU
 * of its local rank, so that with enough GPUs each handle is opened on another one.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "fixtures/check.h"
#include "fixtures/gpu_memory.h"
#include "host/memory_kind.h"
#include "fixtures/memory_page.h"
#include "pipeline/pipe_exchange.h"

enum { SMALL = 1000, EPOCHS = 2 };

typedef struct bench {
    memory_page_t page;
    selvage_device_t *dev;
    selvage_comm_t *comm;
    void *stream;
    uint8_t *host;            /* pinned */
    int rank, size, column;
} bench_t;

static const page_row_t *find_row(const page_row_t *rows, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(rows[i].cell[0], name) == 0)
            return &rows[i];
    return NULL;
}

/* "host or pageable" allows both. */
static bool allows(const char *cell, const char *name)
{
    size_t length = strlen(name);
    const char *at = strstr(cell, name);
    return at && (at[length] == '\0' || at[length] == ' ') && (at == cell || at[-1] == ' ');
}

/* A page of another table than the code's would be noticed here. */
static void compare_lists(const bench_t *b)
{
    for (unsigned n = 0; gpu_memory_name(n); n++)
        CHECK(find_row(b->page.memory, b->page.nmemory, gpu_memory_name(n)) != NULL);
    for (unsigned i = 0; i < b->page.nmemory; i++) {
        unsigned n = 0;
        while (gpu_memory_name(n) && strcmp(gpu_memory_name(n), b->page.memory[i].cell[0]) != 0)
            n++;
        CHECK(gpu_memory_name(n) != NULL);
    }
    CHECK_EQ(b->page.nkind, SV_MEMORY_KINDS - 1);
    for (int kind = SV_MEMORY_UNKNOWN + 1; kind < SV_MEMORY_KINDS; kind++) {
        const page_row_t *row = find_row(b->page.kind, b->page.nkind, sv_memory_kind_name((sv_memory_kind_t)kind));
        CHECK(row != NULL);
        if (row)
            CHECK_STR(row->cell[KIND_PACKETS], sv_memory_kind_is_usable((sv_memory_kind_t)kind) ? "yes" : "refused");
    }
}

static uint8_t pattern(int rank, unsigned epoch, size_t i)
{
    return (uint8_t)(i * 7 + i / 251 + (size_t)rank * 31 + epoch * 101);
}

static void fill(bench_t *b, void *to, size_t bytes, int rank, unsigned epoch)
{
    for (size_t i = 0; i < bytes; i++)
        b->host[i] = pattern(rank, epoch, i);
    CHECK_STATUS(selvage_device_copy(b->dev, to, b->host, bytes, SELVAGE_COPY_HOST_TO_DEVICE, b->stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(b->dev, b->stream), SELVAGE_SUCCESS);
}

static void compare(bench_t *b, const void *from, size_t bytes, int rank, unsigned epoch)
{
    size_t wrong = 0;
    CHECK_STATUS(selvage_device_copy(b->dev, b->host, from, bytes, SELVAGE_COPY_DEVICE_TO_HOST, b->stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(b->dev, b->stream), SELVAGE_SUCCESS);
    for (size_t i = 0; i < bytes; i++)
        wrong += b->host[i] != pattern(rank, epoch, i);
    CHECK_EQ(wrong, 0);
}

static void run_epochs(bench_t *b, selvage_exchange_t *ex, void *out, void *in, size_t bytes, int source)
{
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
        fill(b, out, bytes, b->rank, epoch);
        CHECK_STATUS(selvage_exchange_start(ex, b->stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ex, b->stream), SELVAGE_SUCCESS);
        compare(b, in, bytes, source, epoch);
    }
}

/* One packet around the ring, or to itself by self; on peer, mapped says whether it must land in place. */
static void move(bench_t *b, selvage_route_t route, void *out, void *in, size_t bytes, bool mapped)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    selvage_exchange_t *ex;
    bool self = route == SELVAGE_ROUTE_SELF;
    int right = self ? b->rank : (b->rank + 1) % b->size, left = self ? b->rank : (b->rank + b->size - 1) % b->size;
    CHECK_STATUS(selvage_exchange_create(b->comm, &params, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, out, bytes, right, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, in, bytes, left, 0, NULL), SELVAGE_SUCCESS);
    if (selvage_exchange_commit(ex) != SELVAGE_SUCCESS) {
        CHECK(!"commit");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    selvage_route_t settled;
    CHECK_STATUS(selvage_exchange_send_route(ex, 0, &settled), SELVAGE_SUCCESS);
    CHECK_STR(selvage_route_name(settled), selvage_route_name(route));
    if (route == SELVAGE_ROUTE_PEER) /* small packets land in the slab in any case: kernels take them from there */
        CHECK_EQ(ex->recvs[0].p.in_place, mapped && bytes > SMALL);
    run_epochs(b, ex, out, in, bytes, left);
    selvage_exchange_destroy(ex);
}

/* As send buffer into plain memory, as receive buffer from it, by every route and in both sizes. */
static void move_all(bench_t *b, const gpu_memory_t *memory, const page_row_t *rule)
{
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_SELF, SELVAGE_ROUTE_PEER, SELVAGE_ROUTE_SHARED,
                                             SELVAGE_ROUTE_STAGED};
    void *plain;
    CHECK_STATUS(selvage_device_malloc(b->dev, memory->bytes, &plain), SELVAGE_SUCCESS);
    CHECK_STR(rule->cell[KIND_RECEIVE], "slab");
    for (unsigned r = 0; r < sizeof routes / sizeof routes[0]; r++) {
        for (int small = 0; small < 2; small++) {
            size_t bytes = small ? SMALL : memory->bytes;
            move(b, routes[r], memory->ptr, plain, bytes, false);
            move(b, routes[r], plain, memory->ptr, bytes, false);
        }
    }
    selvage_device_free(b->dev, plain);
}

static void refuse_packets(bench_t *b, const gpu_memory_t *memory, const char *text)
{
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(b->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, memory->ptr, memory->bytes, 0, 0, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), text) && strstr(selvage_error_detail(), "selvage_exchange_add_send: buf: "));
    CHECK_STATUS(selvage_exchange_add_recv(ex, memory->ptr, memory->bytes, 0, 0, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), text) && strstr(selvage_error_detail(), "selvage_exchange_add_recv: buf: "));
    CHECK_STATUS(selvage_exchange_add_recv(ex, memory->ptr, 0, b->rank, 0, NULL), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex);
}

static void try_register(bench_t *b, const gpu_memory_t *memory, const page_row_t *rule, const char *text)
{
    selvage_buffer_t *buffer = NULL;
    void *plain;
    if (strcmp(rule->cell[KIND_REGISTER], "mapped") != 0) {
        CHECK_STR(rule->cell[KIND_REGISTER], "refused");
        CHECK_STATUS(selvage_buffer_register(b->comm, memory->ptr, memory->bytes, &buffer), SELVAGE_ERR_UNSUPPORTED);
        CHECK(strstr(selvage_error_detail(), text) != NULL);
        return;
    }
    CHECK_STATUS(selvage_device_malloc(b->dev, memory->bytes, &plain), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_buffer_register(b->comm, memory->ptr, memory->bytes, &buffer), SELVAGE_SUCCESS);
    move(b, SELVAGE_ROUTE_PEER, plain, memory->ptr, memory->bytes, true);
    move(b, SELVAGE_ROUTE_PEER, plain, memory->ptr, SMALL, true);
    CHECK_STATUS(selvage_buffer_unregister(buffer), SELVAGE_SUCCESS);
    selvage_device_free(b->dev, plain);
}

static void use(bench_t *b, const gpu_memory_t *memory, const char *wanted)
{
    bool untold = strcmp(wanted, "untold") == 0;
    sv_memory_kind_t kind = sv_memory_kind(b->dev, memory->ptr, memory->bytes);
    const char *name = sv_memory_kind_name(kind), *text = sv_memory_kind_text(kind);
    const page_row_t *rule = find_row(b->page.kind, b->page.nkind, name);
    CHECK(untold || allows(wanted, name));
    CHECK(rule != NULL);
    if (!rule)
        return;
    if (sv_memory_kind_is_usable(kind))
        move_all(b, memory, rule);
    else
        refuse_packets(b, memory, text);
    if (!untold)
        try_register(b, memory, rule, text);
    if (b->rank == 0)
        printf("%-10s  is %-8s  packets: %s; received by peer: %s; registering: %s\n", memory->name, name,
               rule->cell[KIND_PACKETS], rule->cell[KIND_RECEIVE], untold ? "not tried" : rule->cell[KIND_REGISTER]);
}

static void try_memory(bench_t *b, unsigned n)
{
    gpu_memory_t memory;
    const char *why = "another rank has none";
    const page_row_t *row = find_row(b->page.memory, b->page.nmemory, gpu_memory_name(n));
    const char *wanted = row ? row->cell[b->column] : "-";
    int have = gpu_memory_make(b->dev, n, &memory, &why) == 0, all;
    MPI_Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all)
        use(b, &memory, wanted);
    else if (b->rank == 0)
        printf("%-10s  left out: %s\n", gpu_memory_name(n), why);
    CHECK(!all || strcmp(wanted, "-") != 0);
    /* On soft everything exists or does not; a GPU may lack what the page lists. */
    CHECK(all || b->column != MEMORY_SOFT || strcmp(wanted, "-") == 0);
    MPI_Barrier(MPI_COMM_WORLD); /* peers have let go of it */
    if (have)
        gpu_memory_free(b->dev, n, &memory);
}

static void set_up(bench_t *b)
{
    void *host;
    CHECK_STATUS(selvage_device_open_local(NULL, &b->dev), SELVAGE_SUCCESS);
    const char *kind = selvage_device_name(b->dev);
    b->column = strcmp(kind, "nvidia") == 0 ? MEMORY_NVIDIA : strcmp(kind, "amd") == 0 ? MEMORY_AMD : MEMORY_SOFT;
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = b->dev};
    if (selvage_comm_create(MPI_COMM_WORLD, &params, &b->comm) != SELVAGE_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    b->rank = selvage_comm_rank(b->comm);
    b->size = selvage_comm_size(b->comm);
    CHECK_STATUS(selvage_device_host_malloc(b->dev, GPU_MEMORY_BYTES, &host), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(b->dev, &b->stream), SELVAGE_SUCCESS);
    b->host = host;
    if (b->rank == 0)
        printf("%d ranks on %s\n", b->size, kind);
}

int main(int argc, char **argv)
{
    static bench_t b;
    MPI_Init(&argc, &argv);
    if (argc != 2 || memory_page_read(argv[1], &b.page) != 0) {
        fprintf(stderr, "usage: memory_kinds PAGE, with the tables of doc/memory.md\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    set_up(&b);
    compare_lists(&b);
    for (unsigned n = 0; gpu_memory_name(n); n++)
        try_memory(&b, n);
    selvage_stream_destroy(b.dev, b.stream);
    selvage_device_host_free(b.dev, b.host);
    selvage_comm_destroy(b.comm);
    selvage_device_close(b.dev);
    MPI_Finalize();
    return check_report("memory_kinds");
}
