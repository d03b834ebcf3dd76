/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges whose packets are bound to other memory between epochs: plain ones, lists and lists in a row, of sizes that
 * take every way, on every route, with faults, and where mappings fail. There are more sets of buffers than are
 * remembered, and each rank chooses among them by itself. Every byte of every set is looked at after every epoch. Then
 * what is refused. Usage: test_exchange_rebind [scene...]
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "pipeline/pipe_exchange.h"

enum { SIZES = 4, PLAIN = 0, LIST = 1, ROW = 2, KINDS = 3, PER_PAIR = SIZES * KINDS, SETS = 6, EPOCHS = 9,
       RANKS_MAX = 3, ELEMENT = 8, ROOM = 80064, FIRST = 3 /* of a list in a row */ };

static const size_t sizes[SIZES] = {0, 24, 4104, 40000};

typedef enum ending { END_WAIT, END_TEST, END_ENQUEUE, END_RUN } ending_t;

typedef struct scene {
    const char *env;
    int size;
    selvage_route_t route;
    selvage_checksum_t checksum;
    ending_t ending;
    bool mixed;        /* odd ranks have a plain exchange, with registered memory */
    bool log_expected;
} scene_t;

typedef struct bound {
    local_rank_t *self;
    const scene_t *scene;
    selvage_exchange_t *ex;
    selvage_buffer_t *registered;
    uint8_t *out[SETS], *in[SETS];
    void *stream;
    bool rebindable;
    int set;           /* in use */
} bound_t;

/* Plain packets of some more bytes than are whole words. */
static size_t bytes_of(int k)
{
    return sizes[k % SIZES] + (k / SIZES == PLAIN && k % SIZES ? (size_t)(k % SIZES) : 0);
}

static size_t place_of(int k, size_t i)
{
    const size_t elements = bytes_of(k) / ELEMENT;
    if (k / SIZES == PLAIN)
        return i;
    if (k / SIZES == ROW)
        return i + FIRST * ELEMENT;
    return 2 * ELEMENT * (elements - 1 - i / ELEMENT) + i % ELEMENT;
}

static uint8_t pattern(int from, int to, int k, uint64_t epoch, size_t i)
{
    const uint64_t seed = ((uint64_t)from * 131 + (uint64_t)to) * 131 + (uint64_t)k;
    return (uint8_t)(sv_digest_mix(seed * 0x100003 + epoch * 0x9e37 + i / ELEMENT) >> 8 * (i % ELEMENT));
}

static size_t set_bytes(const bound_t *b)
{
    return (size_t)b->self->size * PER_PAIR * ROOM;
}

/* Some packets begin at odd addresses: multiples of 8 only, the same in all sets. */
static uint8_t *place(uint8_t *set, int at)
{
    return set + (size_t)at * ROOM + (at % 2 ? 8 : 0);
}

static selvage_status_t add_packet(bound_t *b, bool sends, int peer, int k)
{
    static _Thread_local int64_t indices[40000 / ELEMENT];
    const int at = peer * PER_PAIR + k;
    uint8_t *buf = place(sends ? b->out[0] : b->in[0], at);
    const size_t elements = bytes_of(k) / ELEMENT;
    if (k / SIZES == PLAIN)
        return sends ? selvage_exchange_add_send(b->ex, buf, bytes_of(k), peer, k, NULL)
                     : selvage_exchange_add_recv(b->ex, buf, bytes_of(k), peer, k, NULL);
    for (size_t e = 0; e < elements; e++)
        indices[e] = (int64_t)(place_of(k, e * ELEMENT) / ELEMENT);
    if ((b->self->rank + (int)sends) % 2) { /* ends of a packet may differ */
        static _Thread_local int32_t narrow[40000 / ELEMENT];
        for (size_t e = 0; e < elements; e++)
            narrow[e] = (int32_t)indices[e];
        return sends ? selvage_exchange_add_send_indexed32(b->ex, buf, ELEMENT, narrow, elements, peer, k, NULL)
                     : selvage_exchange_add_recv_indexed32(b->ex, buf, ELEMENT, narrow, elements, peer, k, NULL);
    }
    return sends ? selvage_exchange_add_send_indexed(b->ex, buf, ELEMENT, indices, elements, peer, k, NULL)
                 : selvage_exchange_add_recv_indexed(b->ex, buf, ELEMENT, indices, elements, peer, k, NULL);
}

static void fill(bound_t *b, uint64_t epoch)
{
    const int all = b->self->size * PER_PAIR;
    for (int s = 0; s < SETS; s++) {
        memset(b->out[s], 0x11 + s, set_bytes(b));
        memset(b->in[s], 0xee, set_bytes(b));
    }
    for (int at = 0; at < all; at++)
        for (size_t i = 0; i < bytes_of(at % PER_PAIR); i++)
            place(b->out[b->set], at)[place_of(at % PER_PAIR, i)] =
                pattern(b->self->rank, at / PER_PAIR, at % PER_PAIR, epoch, i);
}

static void verify(bound_t *b, uint64_t epoch)
{
    uint8_t *want = malloc(set_bytes(b));
    for (int s = 0; s < SETS; s++) {
        memset(want, 0xee, set_bytes(b));
        for (int at = 0; s == b->set && at < b->self->size * PER_PAIR; at++)
            for (size_t i = 0; i < bytes_of(at % PER_PAIR); i++)
                place(want, at)[place_of(at % PER_PAIR, i)] =
                    pattern(at / PER_PAIR, b->self->rank, at % PER_PAIR, epoch, i);
        const bool same = memcmp(b->in[s], want, set_bytes(b)) == 0;
        CHECK(same);
        if (!same)
            fprintf(stderr, "%s, route %s, end %d, rank %d, epoch %llu: set %d of %d is wrong\n", b->scene->env,
                    selvage_route_name(b->scene->route), (int)b->scene->ending, b->self->rank,
                    (unsigned long long)epoch, s, b->set);
    }
    free(want);
}

static selvage_status_t bind_set(bound_t *b, int set)
{
    const void *sends[RANKS_MAX * PER_PAIR];
    void *recvs[RANKS_MAX * PER_PAIR];
    const uint32_t all = (uint32_t)(b->self->size * PER_PAIR);
    for (uint32_t at = 0; at < all; at++) {
        sends[at] = place(b->out[set], (int)at);
        recvs[at] = place(b->in[set], (int)at);
    }
    selvage_status_t status = set % 2 ? selvage_exchange_rebind(b->ex, sends, all, recvs, all)
                                      : selvage_exchange_rebind(b->ex, NULL, 0, recvs, all);
    if (status == SELVAGE_SUCCESS && set % 2 == 0)
        status = selvage_exchange_rebind(b->ex, sends, all, NULL, 0);
    b->set = status == SELVAGE_SUCCESS ? set : b->set;
    return status;
}

static selvage_status_t finish(bound_t *b)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    if (b->scene->ending == END_ENQUEUE)
        return selvage_exchange_enqueue_wait(b->ex, b->stream);
    if (b->scene->ending == END_WAIT)
        return selvage_exchange_wait(b->ex, b->stream);
    for (unsigned turns = 0; status == SELVAGE_IN_PROGRESS; check_wait_turn(&turns))
        status = selvage_exchange_test(b->ex, b->stream);
    return status;
}

static void run_epoch(bound_t *b, uint64_t epoch)
{
    fill(b, epoch);
    if (b->scene->ending == END_RUN) {
        CHECK_STATUS(selvage_exchange_run(b->ex, b->stream), SELVAGE_SUCCESS);
    } else {
        CHECK_STATUS(selvage_exchange_start(b->ex, b->stream), SELVAGE_SUCCESS);
        CHECK_STATUS(finish(b), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_stream_synchronize(b->self->dev, b->stream), SELVAGE_SUCCESS);
    verify(b, epoch);
}

static void open_bound(bound_t *b, local_rank_t *self, const scene_t *scene)
{
    *b = (bound_t){.self = self, .scene = scene, .rebindable = !scene->mixed || self->rank % 2 == 0};
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = scene->route,
                                              .checksum = scene->checksum, .rebindable = b->rebindable};
    for (int s = 0; s < SETS; s++) {
        CHECK_STATUS(selvage_device_malloc(self->dev, set_bytes(b), (void **)&b->out[s]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_malloc(self->dev, set_bytes(b), (void **)&b->in[s]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_stream_create(self->dev, &b->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_buffer_register(self->comm, b->in[0], set_bytes(b), &b->registered), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &b->ex), SELVAGE_SUCCESS);
    for (int at = 0; at < self->size * PER_PAIR; at++) {
        CHECK_STATUS(add_packet(b, true, at / PER_PAIR, at % PER_PAIR), SELVAGE_SUCCESS);
        CHECK_STATUS(add_packet(b, false, at / PER_PAIR, at % PER_PAIR), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_commit(b->ex), SELVAGE_SUCCESS);
}

static void close_bound(bound_t *b)
{
    selvage_exchange_destroy(b->ex);
    CHECK_STATUS(selvage_buffer_unregister(b->registered), SELVAGE_SUCCESS);
    selvage_stream_destroy(b->self->dev, b->stream);
    for (int s = 0; s < SETS; s++) {
        selvage_device_free(b->self->dev, b->out[s]);
        selvage_device_free(b->self->dev, b->in[s]);
    }
}

static void swap_sets(local_rank_t *self)
{
    bound_t b;
    open_bound(&b, self, self->arg);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        if (b.rebindable && epoch > 1) /* two sets in turn, then one after the other */
            CHECK_STATUS(bind_set(&b, (int)(epoch < 5 ? epoch % 2 : (epoch * (uint64_t)(self->rank + 1)) % SETS)),
                         SELVAGE_SUCCESS);
        run_epoch(&b, epoch);
    }
    close_bound(&b);
}

static const scene_t scenes[] = {
    {.env = "", .size = 3},
    {.env = "", .size = 3, .mixed = true},
    {.env = "", .size = 2, .ending = END_ENQUEUE},
    {.env = "SOFT_BLOCKS=3", .size = 2, .ending = END_RUN},
    {.env = "KERNEL_PEER_MAX_BYTES=1000", .size = 2, .ending = END_TEST, .mixed = true},
    {.env = "PROGRESS=thread", .size = 2, .ending = END_ENQUEUE},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
    {.env = "KERNEL_COPY_MAX_BYTES=100 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED, .mixed = true},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED},
    {.env = "KERNEL_COPY_MAX_BYTES=0", .size = 2, .route = SELVAGE_ROUTE_STAGED, .ending = END_TEST},
    {.env = "", .size = 2, .route = SELVAGE_ROUTE_DIRECT},
    {.env = "", .size = 2, .checksum = SELVAGE_CHECKSUM_OFF},
    {.env = "KERNEL_COPY_MAX_BYTES=0", .size = 2, .route = SELVAGE_ROUTE_STAGED, .checksum = SELVAGE_CHECKSUM_OFF},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .log_expected = true},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .route = SELVAGE_ROUTE_STAGED,
     .log_expected = true},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .route = SELVAGE_ROUTE_DIRECT,
     .log_expected = true},
    {.env = "FAULT=map=2", .size = 3, .log_expected = true},
};

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void check_detail(const char *text)
{
    const bool said = strstr(selvage_error_detail(), text) != NULL;
    CHECK(said);
    if (!said)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
}

enum { SMALL = 4096, SEND_0 = 0, SEND_1 = 1, RECV_0 = 2, RECV_1 = 3, PARTS = 4 };

typedef struct pair {
    uint8_t *memory[PARTS];      /* sends 0 and 1, receives 0 and 1; of the neighbour in a ring */
    selvage_exchange_t *ex;
} pair_t;

static void open_pair(pair_t *pair, local_rank_t *self, int rebindable, bool commits)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .rebindable = rebindable};
    const int right = (self->rank + 1) % self->size, left = (self->rank + self->size - 1) % self->size;
    for (int i = 0; i < PARTS; i++)
        CHECK_STATUS(selvage_device_malloc(self->dev, SMALL, (void **)&pair->memory[i]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &pair->ex), SELVAGE_SUCCESS);
    for (int tag = 0; tag < 2; tag++) {
        CHECK_STATUS(selvage_exchange_add_send(pair->ex, pair->memory[SEND_0 + tag], SMALL / 2, right, tag, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_recv(pair->ex, pair->memory[RECV_0 + tag], SMALL / 2, left, tag, NULL),
                     SELVAGE_SUCCESS);
    }
    if (commits)
        CHECK_STATUS(selvage_exchange_commit(pair->ex), SELVAGE_SUCCESS);
}

static void close_pair(pair_t *pair, local_rank_t *self)
{
    selvage_exchange_destroy(pair->ex);
    for (int i = 0; i < PARTS; i++)
        selvage_device_free(self->dev, pair->memory[i]);
}

/* What is bound is what the last good call said. */
static void check_epoch(pair_t *pair, local_rank_t *self, const uint8_t *recv_0, uint8_t value)
{
    memset(pair->memory[SEND_0], value, SMALL / 2);
    CHECK_STATUS(selvage_exchange_start(pair->ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(pair->ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(recv_0[0], value);
    CHECK_EQ(recv_0[SMALL / 2 - 1], value);
}

static void refuse_pointers(pair_t *pair, local_rank_t *self)
{
    uint8_t *const *m = pair->memory;
    const struct {
        const void *sends[2];
        void *recvs[2];
        const char *detail;
    } bad[] = {{{NULL, m[SEND_1] + 4}, {0}, "sends[1]: "},
               {{NULL}, {m[RECV_0], m[RECV_0] + 16}, "receive 0 (tag 0"},
               {{NULL, m[RECV_1] + 16}, {0}, "overlap in"},
               {{NULL}, {NULL, (void *)(uintptr_t)4096}, "recvs[1]: "}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(selvage_exchange_rebind(pair->ex, bad[i].sends, 2, bad[i].recvs, 2), SELVAGE_ERR_ARGUMENT);
        check_detail(bad[i].detail);
        check_epoch(pair, self, m[RECV_0], (uint8_t)(i + 1));
    }
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, bad[0].sends, 1, NULL, 0), SELVAGE_ERR_ARGUMENT);
    check_detail("nsends is 1; 2 were declared");
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 0, bad[0].recvs, 3), SELVAGE_ERR_ARGUMENT);
    check_detail("nrecvs is 3; 2 were declared");
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 2, NULL, 0), SELVAGE_ERR_ARGUMENT);
    check_detail("sends is NULL");
    CHECK_STATUS(selvage_exchange_rebind(NULL, NULL, 0, NULL, 0), SELVAGE_ERR_ARGUMENT);
    check_detail("ex is NULL");
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 0, NULL, 0), SELVAGE_SUCCESS);
}

/* A set that was good once is looked at again after anything was freed. */
static void refuse_freed(pair_t *pair, local_rank_t *self)
{
    void *other;
    CHECK_STATUS(selvage_device_malloc(self->dev, 1 << 20, &other), SELVAGE_SUCCESS);
    void *there[2] = {other, NULL}, *here[2] = {pair->memory[RECV_0], NULL};
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 0, there, 2), SELVAGE_SUCCESS);
    check_epoch(pair, self, other, 77);
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 0, here, 2), SELVAGE_SUCCESS);
    check_epoch(pair, self, pair->memory[RECV_0], 78);
    selvage_device_free(self->dev, other);
    check_epoch(pair, self, pair->memory[RECV_0], 79);
    CHECK_STATUS(selvage_exchange_rebind(pair->ex, NULL, 0, there, 2), SELVAGE_ERR_ARGUMENT);
    check_detail("recvs[0]: ");
    check_epoch(pair, self, pair->memory[RECV_0], 80);
}

static void refuse_narrow(const pair_t *pair)
{
    const int32_t twice[] = {3, 3}, below[] = {0, -1};
    void *buf = pair->memory[SEND_0];
    uint32_t index = 7;
    CHECK_STATUS(selvage_exchange_add_recv_indexed32(pair->ex, buf, 8, twice, 2, 0, 9, &index), SELVAGE_ERR_ARGUMENT);
    check_detail("selvage_exchange_add_recv_indexed32: indices has 3 twice");
    CHECK_STATUS(selvage_exchange_add_send_indexed32(pair->ex, buf, 8, below, 2, 0, 9, &index), SELVAGE_ERR_ARGUMENT);
    check_detail("indices[1] is -1");
    CHECK_STATUS(selvage_exchange_add_send_indexed32(pair->ex, buf, 8, NULL, 2, 0, 9, &index), SELVAGE_ERR_ARGUMENT);
    check_detail("indices is NULL");
    CHECK_STATUS(selvage_exchange_add_send_indexed32(pair->ex, buf, 0, below, 2, 0, 9, &index), SELVAGE_ERR_ARGUMENT);
    check_detail("element_bytes is 0");
    CHECK_STATUS(selvage_exchange_add_recv_indexed32(NULL, buf, 8, below, 2, 0, 9, &index), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(index, 7);
    CHECK_STATUS(selvage_exchange_add_recv_indexed32(pair->ex, NULL, 8, NULL, 1, MPI_PROC_NULL, 9, &index),
                 SELVAGE_SUCCESS);
    CHECK_EQ(index, UINT32_MAX);
}

static void refuse_states(local_rank_t *self)
{
    pair_t pair;
    open_pair(&pair, self, 1, false);
    CHECK_STATUS(selvage_exchange_rebind(pair.ex, NULL, 0, NULL, 0), SELVAGE_ERR_STATE);
    check_detail("is not committed");
    refuse_narrow(&pair);
    CHECK_STATUS(selvage_exchange_commit(pair.ex), SELVAGE_SUCCESS);
    refuse_pointers(&pair, self);
    CHECK_STATUS(selvage_exchange_start(pair.ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_rebind(pair.ex, NULL, 0, NULL, 0), SELVAGE_ERR_STATE);
    check_detail("epoch 5 is not complete");
    CHECK_STATUS(selvage_exchange_wait(pair.ex, NULL), SELVAGE_SUCCESS);
    local_ranks_barrier(self);
    refuse_freed(&pair, self);
    close_pair(&pair, self);

    open_pair(&pair, self, 0, true);
    CHECK_STATUS(selvage_exchange_rebind(pair.ex, NULL, 0, NULL, 0), SELVAGE_ERR_STATE);
    check_detail("without params.rebindable");
    close_pair(&pair, self);
}

/* Graphs keep what was bound at capture, whatever is bound since. */
static void keep_in_graph(local_rank_t *self)
{
    pair_t pair;
    selvage_graph_t *graph;
    void *stream, *other, *recvs[2] = {NULL, NULL};
    open_pair(&pair, self, 1, true);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, SMALL, &other), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(pair.ex, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_enqueue_wait(pair.ex, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    for (int turn = 0; turn < 2; turn++) {
        recvs[0] = turn ? pair.memory[RECV_0] : other;
        CHECK_STATUS(selvage_exchange_rebind(pair.ex, NULL, 0, recvs, 2), SELVAGE_SUCCESS);
        memset(pair.memory[SEND_0], 10 + turn, SMALL);
        memset(pair.memory[RECV_0], 0, SMALL);
        CHECK_STATUS(selvage_graph_launch(self->dev, graph, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        CHECK_EQ(pair.memory[RECV_0][0], 10 + turn);
        local_ranks_barrier(self);
        memset(pair.memory[SEND_0], 20 + turn, SMALL);
        CHECK_STATUS(selvage_exchange_start(pair.ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(pair.ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        CHECK_EQ(((uint8_t *)recvs[0])[0], 20 + turn);
        local_ranks_barrier(self);
    }
    selvage_graph_destroy(self->dev, graph);
    selvage_device_free(self->dev, other);
    selvage_stream_destroy(self->dev, stream);
    close_pair(&pair, self);
}

/* More packets than a launch has addresses: what was captured would read the table that another set overwrites. */
static void refuse_after_capture(local_rank_t *self)
{
    enum { PACKETS = 4 };
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .rebindable = 1};
    selvage_exchange_t *ex;
    selvage_graph_t *graph;
    uint8_t *memory;
    void *stream, *recvs[PACKETS];
    CHECK_STATUS(selvage_device_malloc(self->dev, 3 * PACKETS * SMALL, (void **)&memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_SUCCESS);
    for (int i = 0; i < PACKETS; i++) {
        recvs[i] = memory + (2 * PACKETS + i) * SMALL;
        CHECK_STATUS(selvage_exchange_add_send(ex, memory + i * SMALL, SMALL, 1 - self->rank, i, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_recv(ex, memory + (PACKETS + i) * SMALL, SMALL, 1 - self->rank, i, NULL),
                     SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_run(ex, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_rebind(ex, NULL, 0, recvs, PACKETS), SELVAGE_ERR_STATE);
    check_detail("cannot be changed after a capture");
    selvage_graph_destroy(self->dev, graph);
    local_ranks_barrier(self);
    selvage_exchange_destroy(ex);
    selvage_stream_destroy(self->dev, stream);
    selvage_device_free(self->dev, memory);
}

/* Ranks without packets, and packets without bytes, have nothing to bind. */
static void bind_nothing(local_rank_t *self)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .rebindable = 1};
    const void *send = &params;
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_SUCCESS);
    if (self->rank == 0)
        CHECK_STATUS(selvage_exchange_add_send(ex, NULL, 0, 0, 0, NULL), SELVAGE_SUCCESS);
    if (self->rank == 0)
        CHECK_STATUS(selvage_exchange_add_recv(ex, NULL, 0, 0, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_rebind(ex, self->rank ? NULL : &send, self->rank ? 0 : 1, NULL, 0),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
    selvage_exchange_destroy(ex);
}

static void play(size_t number)
{
    scene_t scene = scenes[number];
    local_ranks_env(scene.env);
    local_ranks_run(&(local_run_t){.size = scene.size, .body = swap_sets, .arg = &scene,
                                   .log_expected = scene.log_expected});
}

int main(int argc, char **argv)
{
    void (*const others[])(local_rank_t *) = {refuse_states, keep_in_graph, refuse_after_capture, bind_nothing};
    const size_t count = sizeof scenes / sizeof scenes[0];
    for (int i = 1; i < argc; i++)
        play(strtoul(argv[i], NULL, 10) % count);
    for (size_t i = 0; argc == 1 && i < count; i++)
        play(i);
    local_ranks_env("");
    for (size_t i = 0; argc == 1 && i < sizeof others / sizeof others[0]; i++)
        local_ranks_run(&(local_run_t){.size = 2, .body = others[i], .log_expected = i % 2 == 0});
    return check_report("test_exchange_rebind");
}
