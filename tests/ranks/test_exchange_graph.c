/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs in graphs: captured runs, and starts with their enqueued waits, replayed and mixed with epochs that the host
 * starts, in any order and not alike on all ranks. The data of an epoch is made and looked at on the device, by kernels
 * that count epochs themselves. Every cell of each is checked, and what lies around it.
 *
 * Then what must be refused at capture, and what is found after a replay: damage and loss of each kind, and a neighbour
 * that does not come.
 */
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_exchange.h"

enum { PACKETS_MAX = 96, GUARD_BYTES = 64, EPOCHS_OF_LONG_GRAPH = 5 };

/* One packet at one end. */
typedef struct end {
    uint8_t *block, *data;
    size_t bytes;
    uint64_t name;             /* alike at both ends */
    selvage_buffer_t *buffer;
} end_t;

/* What the kernels are given: a pointer to this, in memory that outlives all graphs. */
typedef struct cells {
    end_t send[PACKETS_MAX], recv[PACKETS_MAX];
    unsigned nsends, nrecvs;
    uint64_t step;             /* epochs so far, as the kernels count */
    uint64_t wrong;            /* packets that were not what they must be */
    uint64_t looked;           /* epochs that were looked at */
} cells_t;

typedef struct scene {
    const char *env;
    int size;
    unsigned per_pair;
    size_t bytes;
    bool registered, strided, alike;
    selvage_checksum_t checksum;
    unsigned epochs;
} scene_t;

typedef struct node_set {
    selvage_graph_t *run, *parted, *many;
} node_set_t;

typedef struct actor {
    local_rank_t *self;
    const scene_t *scene;
    cells_t *cells;
    selvage_exchange_t *ex;
    void *stream[2];
    node_set_t graph;
} actor_t;

/* --- kernels of the software device ------------------------------------------------------------------------------- */

static uint64_t key_of(uint64_t name, uint64_t step)
{
    return name * 1000003 + step;
}

static void make_cells(const void *arg, unsigned block, unsigned nblocks)
{
    cells_t *cells = *(cells_t *const *)arg;
    (void)block, (void)nblocks;
    cells->step++;
    for (unsigned i = 0; i < cells->nsends; i++)
        local_ranks_fill(cells->send[i].data, cells->send[i].bytes, key_of(cells->send[i].name, cells->step));
}

static void look_at_cells(const void *arg, unsigned block, unsigned nblocks)
{
    cells_t *cells = *(cells_t *const *)arg;
    (void)block, (void)nblocks;
    cells->looked++;
    for (unsigned i = 0; i < cells->nrecvs; i++) {
        const end_t *end = &cells->recv[i];
        bool good = local_ranks_wrong(end->data, end->bytes, key_of(end->name, cells->step)) < 0;
        for (unsigned g = 0; g < GUARD_BYTES; g++)
            good &= end->block[g] == 0xa5 && end->data[end->bytes + g] == 0xa5;
        cells->wrong += !good;
        memset(end->data, 0, end->bytes);
    }
}

static void launch(actor_t *actor, selvage_soft_kernel_t kernel, void *stream)
{
    CHECK_STATUS(selvage_device_launch_soft(actor->self->dev, kernel, &actor->cells, sizeof actor->cells, 1, stream),
                 SELVAGE_SUCCESS);
}

/* --- an exchange of a ring ---------------------------------------------------------------------------------------- */

static void open_end(actor_t *actor, end_t *end, int source, int destination, unsigned i, size_t bytes)
{
    *end = (end_t){.bytes = bytes, .name = ((uint64_t)source * 64 + (uint64_t)destination) * 64 + i};
    CHECK_STATUS(selvage_device_malloc(actor->self->dev, bytes + 2 * GUARD_BYTES, (void **)&end->block),
                 SELVAGE_SUCCESS);
    memset(end->block, 0xa5, bytes + 2 * GUARD_BYTES);
    end->data = end->block + GUARD_BYTES;
}

/* Strided: the same bytes as a list, the second half first, which kernels gather and scatter. */
static selvage_status_t add_packet(actor_t *actor, const end_t *end, bool sends, int peer, int tag)
{
    if (!actor->scene->strided)
        return sends ? selvage_exchange_add_send(actor->ex, end->data, end->bytes, peer, tag, NULL)
                     : selvage_exchange_add_recv(actor->ex, end->data, end->bytes, peer, tag, NULL);
    int64_t *index = calloc(end->bytes, sizeof *index);
    for (size_t i = 0; i < end->bytes; i++)
        index[i] = (int64_t)((i + end->bytes / 2) % end->bytes);
    selvage_status_t status =
        sends ? selvage_exchange_add_send_indexed(actor->ex, end->data, 1, index, end->bytes, peer, tag, NULL)
              : selvage_exchange_add_recv_indexed(actor->ex, end->data, 1, index, end->bytes, peer, tag, NULL);
    free(index);
    return status;
}

static bool open_actor(actor_t *actor, local_rank_t *self)
{
    const scene_t *scene = self->arg;
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = scene->checksum};
    *actor = (actor_t){.self = self, .scene = scene};
    actor->cells = calloc(1, sizeof *actor->cells);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &actor->ex), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_stream_create(self->dev, &actor->stream[i]), SELVAGE_SUCCESS);
    for (int step = -1; step <= 1; step++)
        for (unsigned i = 0; i < scene->per_pair; i++) {
            const int to = (self->rank + step + self->size) % self->size;
            const int from = (self->rank - step + self->size) % self->size;
            const size_t bytes = scene->bytes + i;
            end_t *send = &actor->cells->send[actor->cells->nsends++];
            end_t *recv = &actor->cells->recv[actor->cells->nrecvs++];
            const unsigned name = (unsigned)(step + 1) * scene->per_pair + i;
            open_end(actor, send, self->rank, to, name, bytes);
            open_end(actor, recv, from, self->rank, name, bytes);
            if (scene->registered)
                CHECK_STATUS(selvage_buffer_register(self->comm, recv->data, bytes, &recv->buffer), SELVAGE_SUCCESS);
            CHECK_STATUS(add_packet(actor, send, true, to, step + 1), SELVAGE_SUCCESS);
            CHECK_STATUS(add_packet(actor, recv, false, from, step + 1), SELVAGE_SUCCESS);
        }
    selvage_status_t status = selvage_exchange_commit(actor->ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return status == SELVAGE_SUCCESS;
}

static void close_actor(actor_t *actor)
{
    selvage_device_t *dev = actor->self->dev;
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(selvage_stream_synchronize(dev, actor->stream[i]), SELVAGE_SUCCESS);
    selvage_graph_destroy(dev, actor->graph.run);
    selvage_graph_destroy(dev, actor->graph.parted);
    selvage_graph_destroy(dev, actor->graph.many);
    selvage_exchange_destroy(actor->ex);
    for (unsigned i = 0; i < actor->cells->nsends; i++) {
        selvage_buffer_unregister(actor->cells->recv[i].buffer);
        selvage_device_free(dev, actor->cells->send[i].block);
        selvage_device_free(dev, actor->cells->recv[i].block);
    }
    for (int i = 0; i < 2; i++)
        selvage_stream_destroy(dev, actor->stream[i]);
    free(actor->cells);
}

/* --- the ways of an epoch ----------------------------------------------------------------------------------------- */

typedef enum way { WAY_WAIT, WAY_ENQUEUE, WAY_RUN, WAY_GRAPH_RUN, WAY_GRAPH_PARTED, WAY_GRAPH_MANY, WAYS } way_t;

static void enqueue_epoch(actor_t *actor, void *stream, way_t way)
{
    launch(actor, make_cells, stream);
    if (way == WAY_RUN) {
        CHECK_STATUS(selvage_exchange_run(actor->ex, stream), SELVAGE_SUCCESS);
    } else {
        CHECK_STATUS(selvage_exchange_start(actor->ex, stream), SELVAGE_SUCCESS);
        if (way == WAY_WAIT)
            CHECK_STATUS(selvage_exchange_wait(actor->ex, stream), SELVAGE_SUCCESS);
        else
            CHECK_STATUS(selvage_exchange_enqueue_wait(actor->ex, stream), SELVAGE_SUCCESS);
    }
    launch(actor, look_at_cells, stream);
}

static selvage_graph_t *capture(actor_t *actor, way_t way, unsigned epochs)
{
    selvage_graph_t *graph = NULL;
    CHECK_STATUS(selvage_graph_begin(actor->self->dev, actor->stream[1]), SELVAGE_SUCCESS);
    for (unsigned e = 0; e < epochs; e++)
        enqueue_epoch(actor, actor->stream[1], way ? way : e % 2 ? WAY_RUN : WAY_ENQUEUE);
    CHECK_STATUS(selvage_graph_end(actor->self->dev, actor->stream[1], &graph), SELVAGE_SUCCESS);
    return graph;
}

/* Ways may be captured before or after epochs, and again. */
static void make_graph(actor_t *actor, way_t way)
{
    if (way == WAY_GRAPH_RUN && !actor->graph.run)
        actor->graph.run = capture(actor, WAY_RUN, 1);
    if (way == WAY_GRAPH_PARTED && !actor->graph.parted)
        actor->graph.parted = capture(actor, WAY_ENQUEUE, 1);
    if (way == WAY_GRAPH_MANY && !actor->graph.many)
        actor->graph.many = capture(actor, 0, EPOCHS_OF_LONG_GRAPH);
}

/* How many epochs there were. */
static unsigned do_epoch(actor_t *actor, way_t way)
{
    selvage_device_t *dev = actor->self->dev;
    make_graph(actor, way);
    switch (way) {
    case WAY_GRAPH_RUN:
        CHECK_STATUS(selvage_graph_launch(dev, actor->graph.run, actor->stream[0]), SELVAGE_SUCCESS);
        return 1;
    case WAY_GRAPH_PARTED:
        CHECK_STATUS(selvage_graph_launch(dev, actor->graph.parted, actor->stream[0]), SELVAGE_SUCCESS);
        return 1;
    case WAY_GRAPH_MANY:
        CHECK_STATUS(selvage_graph_launch(dev, actor->graph.many, actor->stream[0]), SELVAGE_SUCCESS);
        return EPOCHS_OF_LONG_GRAPH;
    default:
        enqueue_epoch(actor, actor->stream[0], way);
        return 1;
    }
}

static void run_mixed(local_rank_t *self)
{
    const scene_t *scene = self->arg;
    actor_t actor;
    uint64_t random = scene->bytes * 7 + scene->per_pair + (scene->alike ? 0 : (uint64_t)self->rank * 977);
    unsigned done = 0;
    if (open_actor(&actor, self)) {
        while (done < scene->epochs) {
            const way_t way = (way_t)local_ranks_random(&random, WAYS);
            if (way == WAY_GRAPH_MANY && done + EPOCHS_OF_LONG_GRAPH > scene->epochs)
                continue;
            /* Neighbours that the host drives would take one that comes late for one that is missing. */
            done += do_epoch(&actor, !scene->alike && way == WAY_WAIT ? WAY_ENQUEUE : way);
        }
        CHECK_STATUS(selvage_exchange_wait(actor.ex, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_test(actor.ex, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(selvage_exchange_epoch(actor.ex), scene->epochs);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(actor.cells->looked, scene->epochs);
        CHECK_EQ(actor.cells->wrong, 0);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

#ifdef SV_SANITIZES_THREAD
enum { FEWER = 5 }; /* everything takes so much longer */
#else
enum { FEWER = 1 };
#endif

static void play(scene_t scene)
{
    char list[256];
    long failed = atomic_load(&check_failed_);
    snprintf(list, sizeof list, "TIMEOUT_S=30 RETRY_TIMEOUT_MS=20000 %s", scene.env);
    local_ranks_env(list);
    scene.epochs = scene.epochs / (check_brief() ? 5 : FEWER) + EPOCHS_OF_LONG_GRAPH;
    local_ranks_run(&(local_run_t){.size = scene.size, .body = run_mixed, .arg = &scene});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %s: %d ranks, %u packets a pair of %zu bytes%s%s, checksum %d\n", list, scene.size,
                scene.per_pair, scene.bytes, scene.registered ? ", registered" : "", scene.strided ? ", strided" : "",
                (int)scene.checksum);
}

static void test_mixed(void)
{
    for (int alike = 0; alike < 2; alike++) {
        play((scene_t){.env = "", .size = 1, .per_pair = 2, .bytes = 100, .alike = alike, .epochs = 200});
        play((scene_t){.env = "", .size = 2, .per_pair = 1, .bytes = 8, .alike = alike, .epochs = 300});
        play((scene_t){.env = "", .size = 3, .per_pair = 2, .bytes = 4096, .alike = alike, .epochs = 100});
        play((scene_t){.env = "KERNEL_LOOK_MAX_BYTES=0", .size = 2, .per_pair = 2, .bytes = 4096, .alike = alike,
                       .epochs = 60}); /* nobody looks ahead of the words */
        play((scene_t){.env = "KERNEL_PEER_MAX_BYTES=4M", .size = 2, .per_pair = 1, .bytes = 100001,
                       .alike = alike, .epochs = 60});
        play((scene_t){.env = "KERNEL_PEER_MAX_BYTES=0", .size = 2, .per_pair = 2, .bytes = 20000, .registered = true,
                       .alike = alike, .epochs = 60});
        play((scene_t){.env = "KERNEL_PEER_MAX_BYTES=0 SEGMENT_BYTES=4096", .size = 3, .per_pair = 1,
                       .bytes = 30001, .registered = true, .alike = alike, .epochs = 40});
        play((scene_t){.env = "", .size = 2, .per_pair = 1, .bytes = 1000, .checksum = SELVAGE_CHECKSUM_OFF,
                       .alike = alike, .epochs = 100});
        play((scene_t){.env = "", .size = 2, .per_pair = 2, .bytes = 3000, .strided = true,
                       .alike = alike, .epochs = 60});
    }
    /* More packets than one launch takes; and leave for more than one launch gives. */
    play((scene_t){.env = "", .size = 2, .per_pair = 14, .bytes = 500, .alike = true, .epochs = 30});
    play((scene_t){.env = "KERNEL_PEER_MAX_BYTES=0", .size = 2, .per_pair = 14, .bytes = 500, .registered = true,
                   .alike = true, .epochs = 30});
    play((scene_t){.env = "PROGRESS=thread", .size = 2, .per_pair = 1, .bytes = 2000, .alike = true, .epochs = 60});
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void check_refused(selvage_status_t status, selvage_status_t wanted, const char *text)
{
    CHECK_STATUS(status, wanted);
    if (!strstr(selvage_error_detail(), text))
        fprintf(stderr, "-- detail: %s\n", selvage_error_detail());
    CHECK(strstr(selvage_error_detail(), text) != NULL);
}

static void run_refused_route(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        selvage_graph_t *graph = NULL;
        CHECK_STATUS(selvage_graph_begin(self->dev, actor.stream[1]), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_run(actor.ex, actor.stream[1]), SELVAGE_ERR_UNSUPPORTED,
                      "by route staged through the host");
        check_refused(selvage_exchange_start(actor.ex, actor.stream[1]), SELVAGE_ERR_UNSUPPORTED,
                      "by route staged through the host");
        CHECK_STATUS(selvage_graph_end(self->dev, actor.stream[1], &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
        /* The exchange is as good as before. */
        CHECK(!actor.ex->numbers.shared);
        enqueue_epoch(&actor, actor.stream[0], WAY_WAIT);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(actor.cells->wrong, 0);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

/* Calls that nobody may capture, or in another order, leave the exchange and the capture as they are. */
static void run_refused_order(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        void *stream = actor.stream[1];
        selvage_exchange_t *ex = actor.ex;
        CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_enqueue_wait(ex, stream), SELVAGE_ERR_STATE, "no start was captured");
        CHECK_STATUS(selvage_exchange_run(ex, stream), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_wait(ex, stream), SELVAGE_ERR_STATE, "cannot be captured");
        check_refused(selvage_exchange_test(ex, stream), SELVAGE_ERR_STATE, "cannot be captured");
        CHECK_STATUS(selvage_exchange_start(ex, stream), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_start(ex, stream), SELVAGE_ERR_STATE, "has no");
        check_refused(selvage_exchange_run(ex, stream), SELVAGE_ERR_STATE, "has no");
        CHECK_STATUS(selvage_exchange_enqueue_wait(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ex, stream), SELVAGE_SUCCESS); /* without its end: never launched */
        CHECK_STATUS(selvage_graph_end(self->dev, stream, &actor.graph.many), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_wait(ex, stream), SELVAGE_ERR_STATE, "never started");
        for (int i = 0; i < 3; i++)
            do_epoch(&actor, i == 1 ? WAY_WAIT : WAY_GRAPH_RUN);
        CHECK_STATUS(selvage_exchange_start(ex, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_run(ex, stream), SELVAGE_ERR_STATE, "epoch 4 is not complete");
        selvage_graph_t *graph = NULL;
        CHECK_STATUS(selvage_graph_end(self->dev, stream, &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
        CHECK_STATUS(selvage_exchange_wait(ex, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(actor.cells->wrong, 0);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

static void run_refused_inline(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        selvage_graph_t *graph = NULL;
        CHECK_STATUS(selvage_graph_begin(self->dev, actor.stream[1]), SELVAGE_SUCCESS);
        check_refused(selvage_exchange_run(actor.ex, actor.stream[1]), SELVAGE_ERR_UNSUPPORTED,
                      "no kernel may wait");
        CHECK_STATUS(selvage_graph_end(self->dev, actor.stream[1], &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

/* Where kernels must not wait for other ranks, or would not see what these store. */
static void run_refused_machine(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        selvage_graph_t *graph = NULL;
        CHECK_STATUS(selvage_graph_begin(self->dev, actor.stream[1]), SELVAGE_SUCCESS);
        self->comm->dev->shows_stores = false;
        check_refused(selvage_exchange_run(actor.ex, actor.stream[1]), SELVAGE_ERR_UNSUPPORTED,
                      "lies in registered memory");
        self->comm->dev->shows_stores = true;
        self->comm->topology.shares_gpu = true;
        check_refused(selvage_exchange_start(actor.ex, actor.stream[1]), SELVAGE_ERR_UNSUPPORTED,
                      "ranks share a GPU");
        self->comm->topology.shares_gpu = false;
        CHECK_STATUS(selvage_graph_end(self->dev, actor.stream[1], &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

static void test_refused(void)
{
    scene_t scene = {.size = 2, .per_pair = 1, .bytes = 1000};
    local_ranks_env("TIMEOUT_S=30 ROUTE=staged");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_refused_route, .arg = &scene, .log_expected = true});
    local_ranks_env("TIMEOUT_S=30");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_refused_order, .arg = &scene, .log_expected = true});
    scene_t registered = {.size = 2, .per_pair = 1, .bytes = 1000, .registered = true};
    local_ranks_env("TIMEOUT_S=30 KERNEL_PEER_MAX_BYTES=0");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_refused_machine, .arg = &registered, .log_expected = true});
    local_ranks_env("TIMEOUT_S=30 SOFT_MODE=inline");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_refused_inline, .arg = &scene, .log_expected = true});
}

/* --- what is found ------------------------------------------------------------------------------------------------ */

/* Rank 1 damages what it sends in replayed epoch 4; rank 0 is told by its next call, and rank 1 after it. */
static void run_damaged(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        void *stream = actor.stream[0];
        const bool drops = actor.scene->env[0] == 'd'; /* what comes after it would be as late as it is */
        do_epoch(&actor, WAY_ENQUEUE);
        for (int i = 0; i < (drops ? 3 : 5); i++)
            do_epoch(&actor, i % 2 ? WAY_GRAPH_PARTED : WAY_GRAPH_RUN);
        selvage_status_t status = selvage_exchange_wait(actor.ex, stream);
        if (self->rank == 0) {
            const bool lost = strstr(selvage_error_detail(), "did not come") != NULL;
            CHECK_STATUS(status, lost ? SELVAGE_ERR_TIMEOUT : SELVAGE_ERR_CHECKSUM);
            CHECK_EQ(lost, drops);
            CHECK(strstr(selvage_error_detail(), "from rank 1 to rank 0, epoch 4") != NULL);
            CHECK_STATUS(selvage_exchange_run(actor.ex, stream), status); /* it is poisoned */
            CHECK_STATUS(selvage_exchange_start(actor.ex, stream), status);
        }
        local_ranks_barrier(self);
        for (int i = 0; i < 10000 && status == SELVAGE_SUCCESS; i++) { /* the sender hears of it */
            usleep(100);
            status = selvage_exchange_wait(actor.ex, stream);
        }
        CHECK(status != SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_graph_begin(self->dev, actor.stream[1]), SELVAGE_SUCCESS);
        CHECK(selvage_exchange_run(actor.ex, actor.stream[1]) != SELVAGE_SUCCESS);
        selvage_graph_t *graph = NULL;
        CHECK_STATUS(selvage_graph_end(self->dev, actor.stream[1], &graph), SELVAGE_SUCCESS);
        selvage_graph_destroy(self->dev, graph);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

static void test_damaged(void)
{
    static const char *const kinds[] = {"flip=1", "replay=1", "swap=1", "drop=1"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char list[128];
        scene_t scene = {.env = kinds[k], .size = 2, .per_pair = 1, .bytes = 1000};
        snprintf(list, sizeof list, "TIMEOUT_S=5 FAULT=%s,graph=4,rank=1", kinds[k]);
        local_ranks_env(list);
        local_ranks_run(&(local_run_t){.size = 2, .body = run_damaged, .arg = &scene, .log_expected = true});
    }
}

/* A start in one graph and its enqueued wait in another: between them nothing is over, and nobody says so. */
static void run_halves(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        void *stream = actor.stream[1];
        do_epoch(&actor, WAY_WAIT);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
        launch(&actor, make_cells, stream);
        CHECK_STATUS(selvage_exchange_start(actor.ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_graph_end(self->dev, stream, &actor.graph.run), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_graph_begin(self->dev, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(actor.ex, stream), SELVAGE_SUCCESS);
        launch(&actor, look_at_cells, stream);
        CHECK_STATUS(selvage_graph_end(self->dev, stream, &actor.graph.parted), SELVAGE_SUCCESS);
        for (unsigned i = 0; i < 2; i++) {
            CHECK_STATUS(selvage_graph_launch(self->dev, actor.graph.run, stream), SELVAGE_SUCCESS);
            check_refused(selvage_exchange_wait(actor.ex, stream), SELVAGE_ERR_STATE, "none yet with its");
            check_refused(selvage_exchange_start(actor.ex, stream), SELVAGE_ERR_STATE, "none yet with its");
            CHECK_EQ(selvage_exchange_epoch(actor.ex), i + 1);
            CHECK_STATUS(selvage_graph_launch(self->dev, actor.graph.parted, stream), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_wait(actor.ex, stream), SELVAGE_SUCCESS);
            CHECK_EQ(selvage_exchange_epoch(actor.ex), i + 2);
        }
        CHECK_EQ(actor.cells->looked, 3);
        CHECK_EQ(actor.cells->wrong, 0);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

/* What was asked for again in an epoch of the host's before the capture is not asked for in replays. */
static void run_repaired(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        do_epoch(&actor, WAY_WAIT);
        unsigned repeated = 0;
        for (uint32_t i = 0; i < actor.ex->nsends; i++)
            repeated += actor.ex->sends[i].p.attempt > 0;
        CHECK(repeated > 0);
        for (int i = 0; i < 6; i++)
            do_epoch(&actor, i % 2 ? WAY_GRAPH_PARTED : WAY_GRAPH_RUN);
        CHECK_STATUS(selvage_exchange_wait(actor.ex, actor.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(actor.cells->looked, 7);
        CHECK_EQ(actor.cells->wrong, 0);
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

static void test_repaired(void)
{
    scene_t scene = {.size = 2, .per_pair = 1, .bytes = 1000, .checksum = SELVAGE_CHECKSUM_RETRY};
    local_ranks_env("TIMEOUT_S=5 FAULT=flip=1,epochs=1");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_repaired, .arg = &scene, .log_expected = true});
}

/* A neighbour that replays less often: the deadline is the device's, and the next call says which packet. */
static void run_alone(local_rank_t *self)
{
    actor_t actor;
    if (open_actor(&actor, self)) {
        for (int i = 0; i < 3 - self->rank; i++)
            do_epoch(&actor, WAY_GRAPH_RUN);
        if (self->rank == 0) {
            CHECK_STATUS(selvage_exchange_wait(actor.ex, actor.stream[0]), SELVAGE_ERR_TIMEOUT);
            CHECK(strstr(selvage_error_detail(), "epoch 3") != NULL);
            CHECK_STATUS(selvage_exchange_run(actor.ex, actor.stream[0]), SELVAGE_ERR_TIMEOUT);
        } else {
            CHECK_STATUS(selvage_stream_synchronize(self->dev, actor.stream[0]), SELVAGE_SUCCESS);
            CHECK_EQ(actor.cells->wrong, 0);
        }
    }
    local_ranks_barrier(self);
    close_actor(&actor);
}

static void test_alone(void)
{
    scene_t scene = {.size = 2, .per_pair = 1, .bytes = 1000};
    local_ranks_env("TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_alone, .arg = &scene, .log_expected = true});
    local_ranks_env("TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_halves, .arg = &scene, .log_expected = true});
}

int main(void)
{
    local_ranks_mode("SOFT_BLOCKS=4"); /* packets have shares, as on a GPU */
    test_mixed();
    test_refused();
    test_damaged();
    test_alone();
    test_repaired();
    return check_report("test_exchange_graph");
}
