/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges whose packets have another length in every epoch: lengths from nothing to what was declared, on every route
 * and in every way in which packets are moved, with faults, and where mappings fail. Every byte of every receive buffer
 * is looked at after every epoch, those after the packet too. Then ends that say different lengths: both hear of it.
 * Then what is refused. Usage: test_exchange_varying [scene...]
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "pipeline/pipe_exchange.h"
#include <selvage/device_api.h>

enum { SIZES = 6, LISTED = 5, EPOCHS = 8, EPOCHS_BRIEF = 5, RANKS_MAX = 3, PACKETS_MAX = RANKS_MAX * SIZES };
enum { ELEMENT = 8, ROOM = 200192 };

/* The last is a list, which keeps its length. */
static const size_t sizes[SIZES] = {0, 29, 4104, 40001, 200000, 800};

typedef enum ending { END_WAIT, END_TEST, END_ENQUEUE, END_RUN } ending_t;

typedef struct scene {
    const char *env;
    int size;
    selvage_route_t route;
    ending_t ending;
    bool registered;   /* receive buffers are */
    bool log_expected;
} scene_t;

typedef struct varied {
    local_rank_t *self;
    const scene_t *scene;
    selvage_exchange_t *ex;
    selvage_buffer_t *registered;
    uint8_t *out, *in;
    void *stream;
    size_t send_bytes[PACKETS_MAX], recv_bytes[PACKETS_MAX];
} varied_t;

/* Both ends work it out. Some are as declared, some empty, some end within a word. */
static size_t bytes_of(int from, int to, int k, uint64_t epoch)
{
    const uint64_t random = sv_digest_mix(((uint64_t)from * 131 + (uint64_t)to) * 131 + (uint64_t)k + epoch * 0x10001);
    if (k == LISTED || random % 5 == 0)
        return sizes[k];
    return random % 5 == 1 ? 0 : (size_t)((random >> 8) % (sizes[k] + 1));
}

static uint8_t varied_byte(int from, int to, int k, uint64_t epoch, size_t i)
{
    const uint64_t seed = ((uint64_t)from * 131 + (uint64_t)to) * 131 + (uint64_t)k;
    return (uint8_t)(sv_digest_mix(seed * 0x100003 + epoch * 0x9e37 + i / ELEMENT) >> 8 * (i % ELEMENT));
}

static size_t all_bytes(const varied_t *v)
{
    return (size_t)v->self->size * SIZES * ROOM;
}

/* Some packets begin at odd addresses. */
static uint8_t *varied_place(uint8_t *block, int at)
{
    return block + (size_t)at * ROOM + (at % 3 == 1 ? 5 : 0);
}

/* Where a byte of a packet lies: the list has every other element. */
static size_t place_of(int k, size_t i)
{
    return k == LISTED ? i + i / ELEMENT * ELEMENT : i;
}

static void add_varied(varied_t *v, int peer, int k)
{
    int64_t indices[100];
    const int at = peer * SIZES + k;
    uint8_t *out = varied_place(v->out, at), *in = varied_place(v->in, at);
    for (int i = 0; i < 100; i++)
        indices[i] = 2 * i;
    CHECK_STATUS(k == LISTED ? selvage_exchange_add_send_indexed(v->ex, out, ELEMENT, indices, 100, peer, k, NULL)
                             : selvage_exchange_add_send(v->ex, out, sizes[k], peer, k, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(k == LISTED ? selvage_exchange_add_recv_indexed(v->ex, in, ELEMENT, indices, 100, peer, k, NULL)
                             : selvage_exchange_add_recv(v->ex, in, sizes[k], peer, k, NULL), SELVAGE_SUCCESS);
}

static void open_varied(varied_t *v, local_rank_t *self, const scene_t *scene)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = scene->route, .varying = 1};
    *v = (varied_t){.self = self, .scene = scene};
    CHECK_STATUS(selvage_device_malloc(self->dev, all_bytes(v), (void **)&v->out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, all_bytes(v), (void **)&v->in), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &v->stream), SELVAGE_SUCCESS);
    if (scene->registered)
        CHECK_STATUS(selvage_buffer_register(self->comm, v->in, all_bytes(v), &v->registered), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &v->ex), SELVAGE_SUCCESS);
    for (int at = 0; at < self->size * SIZES; at++) {
        add_varied(v, at / SIZES, at % SIZES);
        v->send_bytes[at] = v->recv_bytes[at] = sizes[at % SIZES];
    }
    CHECK_STATUS(selvage_exchange_commit(v->ex), SELVAGE_SUCCESS);
}

static void close_varied(varied_t *v)
{
    selvage_exchange_destroy(v->ex);
    if (v->registered)
        CHECK_STATUS(selvage_buffer_unregister(v->registered), SELVAGE_SUCCESS);
    selvage_stream_destroy(v->self->dev, v->stream);
    selvage_device_free(v->self->dev, v->out);
    selvage_device_free(v->self->dev, v->in);
}

static selvage_status_t set_varied(const varied_t *v)
{
    const uint32_t all = (uint32_t)(v->self->size * SIZES);
    return selvage_exchange_set_bytes(v->ex, v->send_bytes, all, v->recv_bytes, all);
}

static void fill_varied(varied_t *v, uint64_t epoch)
{
    memset(v->out, 0x11, all_bytes(v));
    memset(v->in, 0xee, all_bytes(v));
    for (int at = 0; at < v->self->size * SIZES; at++)
        for (size_t i = 0; i < v->send_bytes[at]; i++)
            varied_place(v->out, at)[place_of(at % SIZES, i)] =
                varied_byte(v->self->rank, at / SIZES, at % SIZES, epoch, i);
}

static void verify_varied(const varied_t *v, uint64_t epoch)
{
    uint8_t *want = malloc(all_bytes(v));
    memset(want, 0xee, all_bytes(v));
    for (int at = 0; at < v->self->size * SIZES; at++)
        for (size_t i = 0; i < v->recv_bytes[at]; i++)
            varied_place(want, at)[place_of(at % SIZES, i)] =
                varied_byte(at / SIZES, v->self->rank, at % SIZES, epoch, i);
    const bool same = memcmp(v->in, want, all_bytes(v)) == 0;
    CHECK(same);
    for (int at = 0; at < v->self->size * SIZES && !same; at++)
        if (memcmp(v->in + (size_t)at * ROOM, want + (size_t)at * ROOM, ROOM) != 0)
            fprintf(stderr, "%s, route %s, end %d, rank %d, epoch %llu: receive %d of %zu bytes is wrong\n",
                    v->scene->env, selvage_route_name(v->scene->route), (int)v->scene->ending, v->self->rank,
                    (unsigned long long)epoch, at, v->recv_bytes[at]);
    free(want);
}

static selvage_status_t run_varied(varied_t *v)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    if (v->scene->ending == END_RUN)
        return selvage_exchange_run(v->ex, v->stream);
    status = selvage_exchange_start(v->ex, v->stream);
    if (status != SELVAGE_SUCCESS)
        return status;
    if (v->scene->ending == END_ENQUEUE)
        return selvage_exchange_enqueue_wait(v->ex, v->stream);
    if (v->scene->ending == END_WAIT)
        return selvage_exchange_wait(v->ex, v->stream);
    status = SELVAGE_IN_PROGRESS;
    for (unsigned turns = 0; status == SELVAGE_IN_PROGRESS; check_wait_turn(&turns))
        status = selvage_exchange_test(v->ex, v->stream);
    return status;
}

/* What the device found is told by the wait. */
static selvage_status_t run_to_end(varied_t *v)
{
    const selvage_status_t status = run_varied(v);
    if (status != SELVAGE_SUCCESS)
        return status;
    CHECK_STATUS(selvage_stream_synchronize(v->self->dev, v->stream), SELVAGE_SUCCESS);
    return selvage_exchange_wait(v->ex, v->stream);
}

static void vary(local_rank_t *self)
{
    varied_t v;
    open_varied(&v, self, self->arg);
    for (uint64_t epoch = 1; epoch <= (check_brief() ? EPOCHS_BRIEF : EPOCHS); epoch++) {
        for (int at = 0; at < self->size * SIZES && epoch > 1; at++) { /* the first epoch is as declared */
            v.send_bytes[at] = bytes_of(self->rank, at / SIZES, at % SIZES, epoch);
            v.recv_bytes[at] = bytes_of(at / SIZES, self->rank, at % SIZES, epoch);
        }
        if (epoch > 1)
            CHECK_STATUS(set_varied(&v), SELVAGE_SUCCESS);
        fill_varied(&v, epoch);
        CHECK_STATUS(run_to_end(&v), SELVAGE_SUCCESS);
        verify_varied(&v, epoch);
    }
    close_varied(&v);
}

static const scene_t scenes[] = {
    {.env = "", .size = 3},
    {.env = "", .size = 2, .registered = true},
    {.env = "", .size = 2, .ending = END_ENQUEUE, .registered = true},
    {.env = "SOFT_BLOCKS=3 KERNEL_PEER_MAX_BYTES=1000000", .size = 2, .ending = END_RUN},
    {.env = "", .size = 2, .ending = END_RUN, .registered = true},
    {.env = "KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096", .size = 2, .ending = END_TEST, .registered = true},
    {.env = "KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096", .size = 2, .ending = END_ENQUEUE, .registered = true},
    {.env = "KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096", .size = 2},
    {.env = "PROGRESS=thread", .size = 2, .ending = END_ENQUEUE},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
    {.env = "KERNEL_COPY_MAX_BYTES=100 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED},
    {.env = "KERNEL_COPY_MAX_BYTES=0 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED, .ending = END_TEST},
    {.env = "ROUTE=direct", .size = 2},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .log_expected = true},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20 SEGMENT_BYTES=4096", .size = 2,
     .route = SELVAGE_ROUTE_STAGED, .log_expected = true},
    {.env = "FAULT=flip=0.1,truncate=0.1,duplicate=0.1 KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096 "
            "RETRY_TIMEOUT_MS=20",
     .size = 2, .registered = true, .log_expected = true},
    {.env = "FAULT=map=2", .size = 3, .log_expected = true},
};

/* --- ends that say different lengths ------------------------------------------------------------------------------ */

static bool says(const char *text)
{
    const bool said = strstr(selvage_error_detail(), text) != NULL;
    CHECK(said);
    if (!said)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
    return said;
}

/* Rank 0 sends another number of bytes than rank 1 waits for, in one packet of the second epoch. */
typedef struct quarrel {
    const scene_t *scene;
    int k;
    size_t sent, wanted;
} quarrel_t;

static void disagree(local_rank_t *self)
{
    const quarrel_t *quarrel = self->arg;
    varied_t v;
    char detail[80];
    open_varied(&v, self, quarrel->scene);
    fill_varied(&v, 1);
    CHECK_STATUS(run_to_end(&v), SELVAGE_SUCCESS);
    verify_varied(&v, 1);
    const int at = (1 - self->rank) * SIZES + quarrel->k;
    if (self->rank == 0)
        v.send_bytes[at] = quarrel->sent;
    else
        v.recv_bytes[at] = quarrel->wanted;
    CHECK_STATUS(set_varied(&v), SELVAGE_SUCCESS);
    fill_varied(&v, 2);
    selvage_status_t status = run_to_end(&v);
    /* A rank that only hands over is through before the other one knows. */
    for (unsigned turns = 0; status == SELVAGE_SUCCESS && turns < 3; turns++) {
        local_ranks_barrier(self);
        status = run_to_end(&v);
    }
    if (self->rank == 1) {
        snprintf(detail, sizeof detail, "from rank 0, epoch 2: this rank set %zu bytes", quarrel->wanted);
        CHECK_STATUS(status, SELVAGE_ERR_MISMATCH);
        says(detail);
    } else {
        snprintf(detail, sizeof detail, "this rank set %zu bytes, but %zu were expected", quarrel->sent,
                 quarrel->wanted);
        CHECK_STATUS(status, SELVAGE_ERR_MISMATCH);
        says(detail);
    }
    CHECK_STATUS(selvage_exchange_start(v.ex, v.stream), SELVAGE_ERR_MISMATCH);
    CHECK_STATUS(selvage_exchange_set_bytes(v.ex, NULL, 0, NULL, 0), SELVAGE_ERR_MISMATCH);
    close_varied(&v);
}

static void play_quarrels(void)
{
    static const scene_t where[] = {
        {.env = "", .size = 2},
        {.env = "CHECKSUM=report", .size = 2, .registered = true},
        {.env = "", .size = 2, .ending = END_TEST, .registered = true},
        {.env = "KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096", .size = 2},
        {.env = "KERNEL_PEER_MAX_BYTES=1000 SEGMENT_BYTES=4096", .size = 2, .registered = true},
        {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
        {.env = "KERNEL_COPY_MAX_BYTES=100 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
        {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED},
        {.env = "KERNEL_COPY_MAX_BYTES=0 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED},
    };
    static const struct {
        int k;
        size_t sent, wanted;
    } lengths[] = {{2, 4104, 4096}, {2, 0, 8}, {4, 200000, 3}, {4, 0, 200000}, {4, 70000, 70001}, {4, 5000, 150000}};
    for (size_t s = 0; s < sizeof where / sizeof where[0]; s++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            quarrel_t quarrel = {&where[s], lengths[i].k, lengths[i].sent, lengths[i].wanted};
            local_ranks_env(where[s].env);
            local_ranks_run(&(local_run_t){.size = 2, .body = disagree, .arg = &quarrel, .log_expected = true});
        }
}

/* A kernel of `run` finds it out. */
static void disagree_on_device(local_rank_t *self)
{
    static const scene_t scene = {.env = "", .size = 2, .ending = END_RUN, .registered = true};
    varied_t v;
    open_varied(&v, self, &scene);
    v.recv_bytes[(1 - self->rank) * SIZES + 2] = 4000; /* both ranks, of 4104 */
    CHECK_STATUS(set_varied(&v), SELVAGE_SUCCESS);
    fill_varied(&v, 1);
    CHECK_STATUS(selvage_exchange_run(v.ex, v.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, v.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(set_varied(&v), SELVAGE_ERR_MISMATCH);
    says("4104");
    close_varied(&v);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void refuse_to_commit(local_rank_t *self, selvage_exchange_params_t params, selvage_status_t wanted,
                             const char *detail)
{
    selvage_exchange_t *ex;
    uint8_t *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, 64, (void **)&memory), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, memory, 8, 1 - self->rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, memory + 32, 8, 1 - self->rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), wanted);
    says(detail);
    selvage_exchange_destroy(ex);
    selvage_device_free(self->dev, memory);
}

static void refuse_params(local_rank_t *self)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .varying = 1, .rebindable = 1};
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_UNSUPPORTED);
    says("both rebindable and varying");
    params.rebindable = 0;
    params.checksum = SELVAGE_CHECKSUM_OFF;
    refuse_to_commit(self, params, SELVAGE_ERR_UNSUPPORTED, "needs checksums");
    params.checksum = SELVAGE_CHECKSUM_DEFAULT;
    params.route = SELVAGE_ROUTE_DIRECT;
    refuse_to_commit(self, params, SELVAGE_ERR_UNSUPPORTED, "never go direct");
    params.route = SELVAGE_ROUTE_DEFAULT;
    params.varying = self->rank;
    refuse_to_commit(self, params, SELVAGE_ERR_MISMATCH, self->rank ? "here and not on rank 0" : "on rank 1, but not");
}

static void refuse_lengths(varied_t *v)
{
    const uint32_t all = 2 * SIZES;
    v->send_bytes[2]++;
    CHECK_STATUS(set_varied(v), SELVAGE_ERR_ARGUMENT);
    says("send_bytes[2] is 4105; at most 4104 were declared");
    v->send_bytes[2] -= 9;
    v->recv_bytes[LISTED]--;
    CHECK_STATUS(set_varied(v), SELVAGE_ERR_ARGUMENT);
    says("recv_bytes[5] is 799; that packet was declared by a type or a list");
    v->recv_bytes[LISTED]++;
    v->send_bytes[2] = sizes[2];
    CHECK_STATUS(selvage_exchange_set_bytes(v->ex, v->send_bytes, 3, NULL, 0), SELVAGE_ERR_ARGUMENT);
    says("nsends is 3; 12 were declared");
    CHECK_STATUS(selvage_exchange_set_bytes(v->ex, NULL, all, NULL, 0), SELVAGE_ERR_ARGUMENT);
    says("send_bytes is NULL and nsends is 12");
    CHECK_STATUS(selvage_exchange_set_bytes(v->ex, NULL, 0, v->recv_bytes, all + 1), SELVAGE_ERR_ARGUMENT);
    says("nrecvs is 13");
    CHECK_STATUS(selvage_exchange_set_bytes(NULL, NULL, 0, NULL, 0), SELVAGE_ERR_ARGUMENT);
    says("ex is NULL");
    CHECK_STATUS(selvage_exchange_set_bytes(v->ex, NULL, 0, NULL, 0), SELVAGE_SUCCESS);
    /* Nothing of what was refused is set. */
    fill_varied(v, 1);
    CHECK_STATUS(run_to_end(v), SELVAGE_SUCCESS);
    verify_varied(v, 1);
}

static void refuse_states(local_rank_t *self)
{
    static const scene_t scene = {.env = "", .size = 2};
    selvage_graph_t *graph;
    selvage_device_exchange_t session;
    varied_t v;
    open_varied(&v, self, &scene);
    refuse_lengths(&v);
    CHECK_STATUS(selvage_exchange_start(v.ex, v.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(set_varied(&v), SELVAGE_ERR_STATE);
    says("epoch 2 is not complete");
    CHECK_STATUS(selvage_exchange_wait(v.ex, v.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_device(v.ex, 1, v.stream, &session), SELVAGE_ERR_UNSUPPORTED);
    says("params.varying");
    CHECK_STATUS(selvage_graph_begin(self->dev, v.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_run(v.ex, v.stream), SELVAGE_ERR_UNSUPPORTED);
    says("selvage_exchange_run in a graph: the exchange was created with params.varying");
    CHECK_STATUS(selvage_graph_end(self->dev, v.stream, &graph), SELVAGE_SUCCESS);
    selvage_graph_destroy(self->dev, graph);
    local_ranks_barrier(self);
    close_varied(&v);

    selvage_exchange_t *plain;
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &plain), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_set_bytes(plain, NULL, 0, NULL, 0), SELVAGE_ERR_STATE);
    says("is not committed");
    CHECK_STATUS(selvage_exchange_commit(plain), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_set_bytes(plain, NULL, 0, NULL, 0), SELVAGE_ERR_STATE);
    says("without params.varying");
    selvage_exchange_destroy(plain);
}

static void play(size_t number)
{
    scene_t scene = scenes[number];
    local_ranks_env(scene.env);
    local_ranks_run(&(local_run_t){.size = scene.size, .body = vary, .arg = &scene,
                                   .log_expected = scene.log_expected});
}

int main(int argc, char **argv)
{
    void (*const others[])(local_rank_t *) = {disagree_on_device, refuse_params, refuse_states};
    const size_t count = sizeof scenes / sizeof scenes[0];
    for (int i = 1; i < argc; i++)
        play(strtoul(argv[i], NULL, 10) % count);
    for (size_t i = 0; argc == 1 && i < count; i++)
        play(i);
    if (argc == 1)
        play_quarrels();
    local_ranks_env("");
    for (size_t i = 0; argc == 1 && i < sizeof others / sizeof others[0]; i++)
        local_ranks_run(&(local_run_t){.size = 2, .body = others[i], .log_expected = true});
    return check_report("test_exchange_varying");
}
