/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is refused, and how: the status, the argument or packet named in the detail, and that nothing is lost: after
 * each failure another exchange of the same communicator works.
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include <selvage/collective.h>

enum { BYTES = 500 };

static const selvage_exchange_params_t defaults = {SELVAGE_EXCHANGE_PARAMS_INIT};

/* The detail of the last error must contain the text. */
#define CHECK_DETAIL(text) check_detail((text), __LINE__)

static void check_detail(const char *text, int line)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    CHECK(found);
    if (!found)
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, text, selvage_error_detail());
}

/* The communicator still works. */
static void check_alive(local_rank_t *self)
{
    plan_t *plan = calloc(1, sizeof *plan);
    fixture_t fixture;
    plan->seed = 5;
    for (int rank = 0; rank < self->size; rank++) {
        plan_add(plan, rank, (rank + 1) % self->size, 3, BYTES);
        plan_add(plan, rank, (rank + 1) % self->size, 3, 20 * BYTES);
    }
    if (fixture_open(&fixture, self, plan, NULL))
        fixture_run(&fixture, 2);
    fixture_close(&fixture);
    free(plan);
}

static void refuse_packets(selvage_exchange_t *ex, uint8_t *buf, int size)
{
    uint32_t index = 77;
    CHECK_STATUS(selvage_exchange_add_send(ex, buf, BYTES, -77, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("peer is -77");
    CHECK_STATUS(selvage_exchange_add_recv(ex, buf, BYTES, size, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_exchange_add_recv: peer is");
    CHECK_STATUS(selvage_exchange_add_send(ex, NULL, BYTES, 0, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("buf is NULL");
    CHECK_STATUS(selvage_exchange_add_recv(ex, NULL, 1, 0, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("buf is NULL");
    CHECK_STATUS(selvage_exchange_add_send(ex, buf, BYTES, 0, -5, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("tag is -5");
    CHECK_STATUS(selvage_exchange_add_send(ex, buf, SIZE_MAX, 0, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("bytes is");
    CHECK_STATUS(selvage_exchange_add_send(NULL, buf, BYTES, 0, 0, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("ex is NULL");
    CHECK_EQ(index, 77);
}

static void refuse_nulls(local_rank_t *self)
{
    selvage_exchange_t *ex = NULL;
    selvage_route_t route;
    CHECK_STATUS(selvage_exchange_create(NULL, NULL, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("comm is NULL");
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("ex_out is NULL");
    CHECK_STATUS(selvage_exchange_commit(NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_exchange_start(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_exchange_test(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_exchange_wait(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("ex is NULL");
    CHECK_STATUS(selvage_exchange_send_route(NULL, 0, &route), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_buffer_register(self->comm, NULL, 8, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("ptr is NULL");
    selvage_exchange_destroy(NULL);
    CHECK_STATUS(selvage_buffer_unregister(NULL), SELVAGE_SUCCESS);
    CHECK(!ex);
}

static void refuse_arguments(local_rank_t *self)
{
    selvage_exchange_t *ex;
    void *buf;
    refuse_nulls(self);
    CHECK_STATUS(selvage_device_malloc(self->dev, BYTES, &buf), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    refuse_packets(ex, buf, self->size);
    selvage_exchange_destroy(ex); /* half-built: local */
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, buf, BYTES, 0, 0, NULL), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex); /* with packets, not committed */
    selvage_device_free(self->dev, buf);
    check_alive(self);
}

/* A struct of another version of the library: larger, with a tail that is zero or not; or no struct at all. */
static void refuse_structs(local_rank_t *self)
{
    struct {
        selvage_exchange_params_t known;
        uint8_t tail[24];
    } later = {.known = {.struct_size = sizeof later}};
    selvage_exchange_params_t params = {.struct_size = 0};
    selvage_exchange_t *ex = NULL;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("struct_size is 0");
    params.struct_size = (size_t)1 << 40;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("struct_size");
    later.tail[20] = 1;
    CHECK_STATUS(selvage_exchange_create(self->comm, &later.known, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("is not zero");
    later.tail[20] = 0;
    CHECK_STATUS(selvage_exchange_create(self->comm, &later.known, &ex), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex);
    params = (selvage_exchange_params_t){SELVAGE_EXCHANGE_PARAMS_INIT, .route = (selvage_route_t)9};
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("route is 9");
    params = (selvage_exchange_params_t){SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = (selvage_checksum_t)7};
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("checksum is 7");
    selvage_stats_t stats = {.struct_size = 4};
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("stats: struct_size is 4");
    check_alive(self);
}

static void refuse_states(local_rank_t *self)
{
    plan_t *plan = calloc(1, sizeof *plan);
    selvage_route_t route;
    fixture_t fixture;
    int next = (self->rank + 1) % self->size;
    for (int rank = 0; rank < self->size; rank++)
        plan_add(plan, rank, (rank + 1) % self->size, 0, BYTES);
    CHECK(fixture_open(&fixture, self, plan, NULL));
    CHECK_STATUS(selvage_exchange_start(fixture.ex, NULL), SELVAGE_ERR_STATE);
    CHECK_DETAIL("not committed");
    CHECK_STATUS(selvage_exchange_test(fixture.ex, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_ERR_STATE);
    CHECK_DETAIL("never started");
    CHECK_STATUS(selvage_exchange_send_route(fixture.ex, 0, &route), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_exchange_add_send(fixture.ex, plan, 1, next, 0, NULL), SELVAGE_ERR_STATE);
    CHECK_DETAIL("committed already");
    CHECK_STATUS(selvage_exchange_send_route(fixture.ex, 1, &route), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("index is 1");
    /* Rank 0 starts late, so its neighbour's epoch cannot be complete when it starts again. */
    local_ranks_barrier(self);
    if (self->rank != 0) {
        CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(fixture.ex, NULL), SELVAGE_ERR_STATE);
        CHECK_DETAIL("epoch 1 is not complete");
    }
    local_ranks_barrier(self);
    if (self->rank == 0)
        CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(fixture_wrong(&fixture, true), 0);
    fixture_close(&fixture);
    free(plan);
    check_alive(self);
}

/* Commits an exchange of one packet per argument; returns the status. bytes below 0: no such packet. */
static selvage_status_t commit_pair(local_rank_t *self, const selvage_exchange_params_t *params, long send_bytes,
                                    long recv_bytes, int send_tag, int recv_tag)
{
    int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
    selvage_exchange_t *ex;
    void *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 4 * BYTES, &block), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, params, &ex), SELVAGE_SUCCESS);
    if (send_bytes >= 0)
        CHECK_STATUS(selvage_exchange_add_send(ex, block, (size_t)send_bytes, next, send_tag, NULL), SELVAGE_SUCCESS);
    if (recv_bytes >= 0)
        CHECK_STATUS(selvage_exchange_add_recv(ex, (char *)block + 2 * BYTES, (size_t)recv_bytes, before, recv_tag,
                                               NULL), SELVAGE_SUCCESS);
    selvage_status_t status = selvage_exchange_commit(ex);
    if (status != SELVAGE_SUCCESS) {
        char *kept = strdup(selvage_error_detail());
        CHECK_STATUS(selvage_exchange_start(ex, NULL), status); /* poisoned: the first error again */
        CHECK_STR(selvage_error_detail(), kept);
        free(kept);
    }
    selvage_exchange_destroy(ex);
    selvage_device_free(self->dev, block);
    return status;
}

static void refuse_mismatches(local_rank_t *self)
{
    bool first = self->rank == 0, second = self->rank == 1;
    /* Rank 0 sends to rank 1, which does not know of it, with and without other packets between the two. */
    CHECK_STATUS(commit_pair(self, NULL, first ? BYTES : -1, -1, 4, 4), SELVAGE_ERR_MISMATCH);
    if (first || second)
        CHECK_DETAIL(first ? "has no packet for or from this rank" : "of rank 0 has no matching receive");
    CHECK_STATUS(commit_pair(self, NULL, BYTES, BYTES, first ? 3 : 4, 4), SELVAGE_ERR_MISMATCH);
    if (first || second)
        CHECK_DETAIL(first ? "send 0 (tag 3, 500 bytes) of this rank has no matching receive on rank 1"
                           : "send 0 (tag 3, 500 bytes) of rank 0 has no matching receive on this rank");
    check_alive(self);
    CHECK_STATUS(commit_pair(self, NULL, -1, second ? BYTES : -1, 4, 4), SELVAGE_ERR_MISMATCH);
    if (second)
        CHECK_DETAIL("rank 0 has no packet for or from this rank");
    CHECK_STATUS(commit_pair(self, NULL, BYTES, BYTES + second, 4, 4), SELVAGE_ERR_MISMATCH);
    if (first || second)
        CHECK_DETAIL(first ? "is 500 here and 501 in receive 0 of rank 1" : "is 501 here and 500 in send 0 of rank 0");
    else
        CHECK_DETAIL("rank 0");
    check_alive(self);
    selvage_exchange_params_t other = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_OFF};
    CHECK_STATUS(commit_pair(self, first ? &other : &defaults, BYTES, BYTES, 4, 4), SELVAGE_ERR_MISMATCH);
    check_alive(self);
}

static void refuse_routes(local_rank_t *self)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_SELF};
    CHECK_STATUS(commit_pair(self, &params, BYTES, BYTES, 4, 4), SELVAGE_ERR_UNSUPPORTED);
    CHECK_DETAIL("route self was asked for");
    check_alive(self);
    params.route = SELVAGE_ROUTE_PEER; /* the ranks of this run are on nodes of their own */
    CHECK_STATUS(commit_pair(self, &params, BYTES, BYTES, 4, 4), SELVAGE_ERR_UNSUPPORTED);
    CHECK_DETAIL("is on another node");
    check_alive(self);
}

static void refuse_other_order(local_rank_t *self)
{
    selvage_exchange_t *ex[2];
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex[i]), SELVAGE_SUCCESS);
    int first = self->rank == 1;
    CHECK_STATUS(selvage_exchange_commit(ex[first]), SELVAGE_ERR_MISMATCH);
    CHECK_DETAIL("order of creation");
    CHECK_STATUS(selvage_exchange_commit(ex[!first]), SELVAGE_ERR_MISMATCH);
    for (int i = 0; i < 2; i++)
        selvage_exchange_destroy(ex[i]);
    check_alive(self);
}

/* Destroying in mid-epoch abandons it; the neighbours are told and nobody hangs. */
static void destroy_running(local_rank_t *self)
{
    plan_t *plan = calloc(1, sizeof *plan);
    fixture_t fixture;
    for (int rank = 0; rank < self->size; rank++) {
        plan_add(plan, rank, (rank + 1) % self->size, 0, 100);
        plan_add(plan, rank, (rank + 1) % self->size, 0, 30000);
        plan_add(plan, rank, (rank + 1) % self->size, 0, 50000); /* short enough for the wire to take it over */
    }
    CHECK(fixture_open(&fixture, self, plan, NULL));
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    if (self->rank != 0) { /* rank 0 never starts */
        CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
        for (int i = 0; i < 20; i++)
            CHECK_STATUS(selvage_exchange_test(fixture.ex, NULL), SELVAGE_IN_PROGRESS);
    }
    local_ranks_barrier(self);
    fixture_close(&fixture);
    if (self->rank != 0) /* or the neighbour was quicker, and its word came first */
        CHECK(local_ranks_logged(self, "while epoch 1 is under way") ||
              local_ranks_logged(self, "gave up the exchange"));
    free(plan);
    check_alive(self);
}

/* A registered buffer is in use until the exchange is gone; memory of somebody else cannot be registered. */
static void refuse_buffers(local_rank_t *self)
{
    plan_t *plan = calloc(1, sizeof *plan);
    selvage_buffer_t *buffer = NULL;
    fixture_t fixture;
    char *foreign = malloc(64);
    plan_add(plan, self->rank, (self->rank + 1) % self->size, 0, 0);
    plan->count = 0;
    for (int rank = 0; rank < self->size; rank++)
        plan_add(plan, rank, (rank + 1) % self->size, 0, BYTES)->registered = true;
    CHECK_STATUS(selvage_buffer_register(self->comm, foreign, 64, &buffer), SELVAGE_ERR_UNSUPPORTED);
    CHECK_DETAIL("ptr: 64 bytes");
    CHECK(!buffer);
    CHECK(fixture_open(&fixture, self, plan, NULL));
    fixture_run(&fixture, 1);
    for (unsigned i = 0; i < plan->count; i++)
        if (fixture.recv[i].buffer) {
            CHECK_STATUS(selvage_buffer_unregister(fixture.recv[i].buffer), SELVAGE_ERR_STATE);
            CHECK_DETAIL("still lands in this buffer");
        }
    fixture_close(&fixture);
    free(foreign);
    free(plan);
}

/* What was not destroyed is reported and freed with the communicator. */
static void leave_things(local_rank_t *self)
{
    plan_t *plan = self->arg;
    static _Thread_local fixture_t fixture;
    if (fixture_open(&fixture, self, plan, NULL))
        fixture_run(&fixture, 1);
    selvage_comm_destroy(self->comm);
    self->comm = NULL;
    CHECK(local_ranks_logged(self, "1 exchanges and 0 registered buffers were not destroyed"));
    free(fixture.send);
    free(fixture.recv);
}

/* What MPI_PROC_NULL would send or receive is no packet, whatever else is said of it. */
static void send_to_nobody(local_rank_t *self)
{
    const int64_t indices[] = {0, 2};
    const int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
    const bool first = self->rank == 0, last = self->rank == self->size - 1; /* open ends, as of MPI_Cart_shift() */
    selvage_exchange_t *ex;
    selvage_route_t route;
    uint32_t index[2] = {0, 0};
    uint8_t *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 2 * BYTES, (void **)&block), SELVAGE_SUCCESS);
    memset(block, self->rank + 1, 2 * BYTES);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, block, BYTES, last ? MPI_PROC_NULL : next, 0, &index[0]),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, block + BYTES, BYTES, first ? MPI_PROC_NULL : before, 0, &index[1]),
                 SELVAGE_SUCCESS);
    CHECK_EQ(index[0], last ? UINT32_MAX : 0);
    CHECK_EQ(index[1], first ? UINT32_MAX : 0);
    CHECK_STATUS(selvage_exchange_add_send(ex, NULL, BYTES, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_type(ex, block, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_type(ex, block, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send_indexed(ex, block, 8, indices, 2, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, block, 8, indices, 2, MPI_PROC_NULL, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, block, BYTES, MPI_PROC_NULL, -5, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_synchronize(self->dev), SELVAGE_SUCCESS);
    CHECK_EQ(block[BYTES], first ? 1 : before + 1);
    CHECK_EQ(block[2 * BYTES - 1], first ? 1 : before + 1);
    CHECK_STATUS(selvage_exchange_send_route(ex, UINT32_MAX, &route), SELVAGE_ERR_ARGUMENT);
    selvage_exchange_destroy(ex);
    selvage_device_free(self->dev, block);
}

/* Commits a send of this rank to itself, and two receives, that lie as given in one block. */
static selvage_status_t commit_lying(local_rank_t *self, size_t send_at, size_t recv_at, size_t other_at)
{
    selvage_exchange_t *ex;
    uint8_t *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 4 * BYTES, (void **)&block), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, block + recv_at, BYTES, self->rank, 6, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, block + other_at, BYTES, self->rank, 7, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, block + other_at, 0, self->rank, 8, NULL), SELVAGE_SUCCESS);
    for (int tag = 6; tag < 9; tag++) /* sends may lie where they like, if it is not in a receive */
        CHECK_STATUS(selvage_exchange_add_send(ex, block + send_at, tag == 8 ? 0 : BYTES, self->rank, tag, NULL),
                     SELVAGE_SUCCESS);
    selvage_status_t status = selvage_exchange_commit(ex);
    selvage_exchange_destroy(ex);
    selvage_device_free(self->dev, block);
    return status;
}

static void refuse_overlaps(local_rank_t *self)
{
    CHECK_STATUS(commit_lying(self, 0, BYTES, 2 * BYTES), SELVAGE_SUCCESS);
    CHECK_STATUS(commit_lying(self, 2 * BYTES, BYTES, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(commit_lying(self, BYTES + 1, 2 * BYTES, 0), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("receive 0 (tag 6, 500 bytes at ");
    CHECK_DETAIL("send 0 (tag 6, 500 bytes at ");
    CHECK_DETAIL("overlap in 1 bytes");
    CHECK_STATUS(commit_lying(self, 3 * BYTES, 0, BYTES - 1), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("receive 0 (tag 6, ");
    CHECK_DETAIL("receive 1 (tag 7, ");
    CHECK_STATUS(commit_lying(self, 3 * BYTES, BYTES, BYTES), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("overlap in 500 bytes");
    check_alive(self);
}

/* A rank that destroys what the others commit: each side is told who is where. */
static void name_the_other_call(local_rank_t *self)
{
    selvage_exchange_t *ex;
    const bool odd = self->rank == 2;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
        if (i == 0)
            selvage_exchange_destroy(ex);
    }
    if (odd)
        CHECK_STATUS(selvage_coll_create(self->comm, NULL, &(selvage_coll_t *){NULL}), SELVAGE_ERR_MISMATCH);
    else
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_ERR_MISMATCH);
    CHECK_DETAIL(odd ? "rank 0 is in another collective call" : "rank 2 is in another collective call");
    CHECK_DETAIL(odd ? "it is in selvage_exchange_commit of exchange 2, this rank in selvage_coll_create"
                     : "it is in selvage_coll_create, this rank in selvage_exchange_commit of exchange 2");
    selvage_exchange_destroy(ex);
}

/* What a call met on its way and got over is not told of it, nor what an earlier call said lost. */
static void keep_detail_of_failures(local_rank_t *self)
{
    selvage_memory_t memory;
    CHECK_STATUS(selvage_progress(NULL), SELVAGE_ERR_ARGUMENT);
    const char *said = selvage_error_detail();
    CHECK_DETAIL("comm is NULL");
    check_alive(self);
    CHECK_STATUS(selvage_device_memory(self->dev, &memory, 1, &memory), SELVAGE_SUCCESS);
    CHECK_DETAIL("comm is NULL");
    CHECK(strstr(said, "comm is NULL") != NULL);
    CHECK_STATUS(selvage_buffer_register(self->comm, NULL, 8, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("ptr is NULL");
}

/* One rank frees what it sends, or receives into, or destroys the stream, and starts all the same: it is told which
   packet, and the other rank that this one has failed. */
static void use_what_is_gone(local_rank_t *self)
{
    enum { SEND, RECV, LISTED, STREAM, WAYS };
    /* Who uses a destroyed stream of a GPU may crash. */
    const int ways = strcmp(selvage_device_name(self->dev), "soft") == 0 ? WAYS : STREAM;
    for (int way = 0; way < ways; way++) {
        static const char *const said[] = {"send 0 (tag 3, to rank 1): its", "receive 0 (tag 3, from rank 1): its",
                                           "send 0 (tag 3, to rank 1): its", "was destroyed, or is none"};
        const int64_t elements[] = {5, 2};
        void *memory[2], *stream;
        selvage_exchange_t *ex;
        const bool odd = self->rank == 0;
        for (int i = 0; i < 2; i++)
            CHECK_STATUS(selvage_device_malloc(self->dev, 64, &memory[i]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
        if (way == LISTED)
            CHECK_STATUS(selvage_exchange_add_send_indexed(ex, memory[0], 8, elements, 2, 1 - self->rank, 3, NULL),
                         SELVAGE_SUCCESS);
        else
            CHECK_STATUS(selvage_exchange_add_send(ex, memory[0], 16, 1 - self->rank, 3, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_recv(ex, memory[1], 16, 1 - self->rank, 3, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ex, stream), SELVAGE_SUCCESS);
        local_ranks_barrier(self);
        if (odd && way != STREAM)
            selvage_device_free(self->dev, memory[way == RECV]);
        if (odd && way == STREAM)
            selvage_stream_destroy(self->dev, stream);
        selvage_status_t status = selvage_exchange_start(ex, stream);
        CHECK(odd ? status == (way == STREAM ? SELVAGE_ERR_DEVICE : SELVAGE_ERR_ARGUMENT) : status <= SELVAGE_SUCCESS);
        if (odd)
            CHECK_DETAIL(said[way]);
        else if (status == SELVAGE_SUCCESS)
            CHECK_STATUS(selvage_exchange_wait(ex, stream), SELVAGE_ERR_PEER);
        selvage_exchange_destroy(ex);
        for (int i = 0; i < 2; i++)
            if (!odd || way == STREAM || i != (way == RECV))
                selvage_device_free(self->dev, memory[i]);
        if (!odd || way != STREAM)
            selvage_stream_destroy(self->dev, stream);
        local_ranks_barrier(self);
    }
}

static void run_all(void)
{
    static void (*const bodies[])(local_rank_t *) = {refuse_arguments, refuse_structs, refuse_states,
                                                     refuse_mismatches, refuse_other_order, destroy_running};
    for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        for (int per_node = 0; per_node < 2; per_node++)
            local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = per_node, .log_expected = true,
                                           .body = bodies[i]});
    local_ranks_run(&(local_run_t){.size = 3, .ranks_per_node = 1, .log_expected = true, .body = refuse_routes});
    local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = refuse_buffers});
    local_ranks_run(&(local_run_t){.size = 3, .log_expected = true, .body = send_to_nobody});
    local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = refuse_overlaps});
    local_ranks_run(&(local_run_t){.size = 3, .log_expected = true, .body = name_the_other_call});
    local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = keep_detail_of_failures});
    local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = use_what_is_gone});
}

int main(void)
{
    static plan_t empty;
    local_ranks_mode("");
    run_all();
    local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = leave_things, .arg = &empty});
    local_ranks_mode("PROGRESS=thread");
    run_all();
    local_ranks_mode("SOFT_MODE=inline");
    run_all();
    return check_report("test_exchange_errors");
}
