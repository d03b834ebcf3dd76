/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage_exchange_enqueue_wait, and selvage_exchange_run: epochs that follow each other on a stream without the
 * host, by every route and kind of packet that allows it; mixed with the other ways to end an epoch; refused where the
 * host is needed; a neighbour that does not come.
 */
#include <unistd.h>

#include "fixtures/check.h"
#include "kernels/kernels.h"
#include "fixtures/fixture_pipelined.h"
#include "comm/comm.h"

typedef enum habit {
    HABIT_ENQUEUE, /* every epoch alike */
    HABIT_MIX,     /* wait, test and enqueue_wait in turns */
    HABIT_POLL,    /* the engine is polled between start and enqueue_wait */
    HABIT_LATE,    /* odd ranks come late, or their streams */
    HABIT_HOP,     /* another stream every epoch */
    HABIT_RUN,     /* one call for each epoch */
    HABIT_RUN_SOME /* that, enqueue_wait and wait in turns, and not alike on all ranks */
} habit_t;

typedef struct scene {
    plan_t plan[2];
    selvage_exchange_params_t params;
    unsigned epochs;
    habit_t habit;
} scene_t;

/* A ring with neighbours on both sides and every rank itself; several packets per pair. */
static void make_ring(plan_t *plan, int size, size_t bytes, unsigned per_pair, bool registered)
{
    *plan = (plan_t){.seed = bytes + (size_t)size};
    for (int r = 0; r < size; r++)
        for (int step = -1; step <= 1; step++)
            for (unsigned i = 0; i < per_pair; i++) {
                plan_packet_t *packet = plan_add(plan, r, (r + step + size) % size, (int)i % 2, bytes);
                packet->registered = registered;
                packet->send_odd = i * 3;
                packet->recv_odd = i * 5;
            }
}

static pipelined_end_t end_of(habit_t habit, uint64_t epoch, int rank)
{
    if (habit == HABIT_RUN)
        return PIPELINED_RUN;
    if (habit == HABIT_RUN_SOME)
        return epoch % 5 == 4 ? PIPELINED_WAIT : (epoch + (uint64_t)rank) % 3 ? PIPELINED_RUN : PIPELINED_ENQUEUE;
    static const pipelined_end_t turns[] = {PIPELINED_ENQUEUE, PIPELINED_WAIT, PIPELINED_ENQUEUE, PIPELINED_ENQUEUE,
                                            PIPELINED_TEST,    PIPELINED_WAIT, PIPELINED_ENQUEUE, PIPELINED_ENQUEUE,
                                            PIPELINED_ENQUEUE, PIPELINED_WAIT};
    if (habit == HABIT_POLL || habit == HABIT_LATE) /* the epoch after a wait begins in another way */
        return epoch % 3 ? PIPELINED_ENQUEUE : PIPELINED_WAIT;
    return habit == HABIT_MIX ? turns[epoch % (sizeof turns / sizeof turns[0])] : PIPELINED_ENQUEUE;
}

static void be_late(pipelined_t *pipelined, uint64_t epoch)
{
    local_rank_t *self = pipelined->fixture.self;
    if (self->rank % 2 == 0)
        return;
    if (epoch % 4 < 2)
        usleep((useconds_t)(epoch * 37 % 400)); /* leave comes while the packet is being prepared */
    else
        CHECK_STATUS(selvage_device_delay_us(self->dev, 3000, pipelined->stream[0]), SELVAGE_SUCCESS);
}

static bool run_epoch(pipelined_t *pipelined, habit_t habit, uint64_t epoch)
{
    int stream = habit == HABIT_HOP ? (int)(epoch % 2) : 0;
    if (habit == HABIT_HOP && epoch > 1)
        pipelined_hand_over(pipelined, 1 - stream, stream);
    if (habit == HABIT_LATE)
        be_late(pipelined, epoch);
    const pipelined_end_t end = end_of(habit, epoch, pipelined->fixture.self->rank);
    pipelined->runs = end == PIPELINED_RUN;
    selvage_status_t status = pipelined_start(pipelined, stream);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    for (uint64_t i = 0; habit == HABIT_POLL && i < epoch % 7 * 20; i++)
        CHECK_STATUS(selvage_progress(pipelined->fixture.self->comm), SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS)
        CHECK_STATUS(status = pipelined_finish(pipelined, stream, end), SELVAGE_SUCCESS);
    return status == SELVAGE_SUCCESS;
}

static void run_scene(local_rank_t *self)
{
    const scene_t *scene = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &scene->plan[0], &scene->params, scene->epochs);
    for (uint64_t epoch = 1; good && epoch <= scene->epochs; epoch++)
        good = run_epoch(&pipelined, scene->habit, epoch);
    if (good) {
        CHECK_STATUS(selvage_exchange_wait(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_test(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_SUCCESS);
        CHECK_EQ(selvage_exchange_epoch(pipelined.fixture.ex), scene->epochs);
        pipelined_settle(&pipelined);
        pipelined_check(&pipelined);
    }
    pipelined_close(&pipelined);
}

static const selvage_exchange_params_t retry = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_RETRY};
static const selvage_exchange_params_t report = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_REPORT};
static const selvage_exchange_params_t off = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_OFF};

#ifdef SV_SANITIZES_THREAD
enum { FEWER = 5 }; /* everything takes so much longer */
#else
enum { FEWER = 1 };
#endif
static int fewer(void) { return check_brief() ? 6 : 3 / check_part(3) > FEWER ? 3 : FEWER; }

static scene_t scene;

static void play(const char *env, int size, size_t bytes, bool registered, const selvage_exchange_params_t *params)
{
    char list[256];
    long failed = atomic_load(&check_failed_);
    snprintf(list, sizeof list, "TIMEOUT_S=30 %s", env);
    local_ranks_env(list);
    make_ring(&scene.plan[0], size, bytes, bytes > 4096 ? 1 : 3, registered);
    scene.params = *params;
    local_ranks_run(&(local_run_t){.size = size, .body = run_scene, .arg = &scene});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %s: %d ranks, %zu bytes%s, checksum %d, habit %d\n", list, size, bytes,
                registered ? ", registered" : "", (int)params->checksum, (int)scene.habit);
}

static void test_back_to_back(void)
{
    static const size_t small[] = {0, 8, 4096, 16384};
    scene.habit = HABIT_ENQUEUE;
    scene.epochs = 200 / fewer();
    for (int i = 0; i < 4; i++) {
        play("", 2, small[i], i % 2, &retry);
        play("", i + 1, small[i], false, i % 2 ? &off : &report);
    }
    play("KERNEL_PEER_MAX_BYTES=0", 2, 8, true, &retry);
    play("KERNEL_PEER_MAX_BYTES=4M", 3, 100001, false, &report);
    scene.epochs = 60 / fewer();
    for (int size = 1; size <= 4; size++)
        play("SEGMENT_BYTES=4096", size, 100001, true, size == 3 ? &off : &retry);
    play("KERNEL_PEER_MAX_BYTES=0 SEGMENT_BYTES=4096", 2, 16384, true, &retry);
    scene.epochs = 20 / fewer();
    play("SEGMENT_BYTES=4096", 2, 1 << 20, true, &report);
    play("", 2, 1 << 20, true, &retry);
    play("KERNEL_PEER_MAX_BYTES=4M", 2, 1 << 20, false, &off);
}

static void test_habits(void)
{
    static const habit_t habits[] = {HABIT_MIX, HABIT_POLL, HABIT_LATE, HABIT_HOP};
    for (int i = 0; i < 4; i++) {
        scene.habit = habits[i];
        scene.epochs = 60 / fewer();
        play("", 3, 1000, false, &retry);
        play("", 2, 8, true, &off);
        scene.epochs = 24 / fewer();
        play("KERNEL_PEER_MAX_BYTES=0 SEGMENT_BYTES=4096", 2, 20000, true, &retry);
        play("SEGMENT_BYTES=4096", 3, 100001, true, &report);
        play("", 2, 1 << 20, true, &off);
        play("KERNEL_PEER_MAX_BYTES=0", 2, 1 << 20, true, &retry);
        scene.epochs = 4; /* the last one begins as the first */
        play("KERNEL_PEER_MAX_BYTES=0", 2, 20000, true, &retry);
    }
}

/* Whole epochs with one launch, alone and among others; also where they have the launches of the two calls. */
static void test_runs(void)
{
    local_ranks_mode("SOFT_BLOCKS=8"); /* of which a run takes two */
    for (int some = 0; some < 2; some++) {
        scene.habit = some ? HABIT_RUN_SOME : HABIT_RUN;
        scene.epochs = 100 / fewer();
        play("", 1, 1000, false, &retry);
        play("", 2, 0, false, &retry);
        play("", 2, 8, true, &retry);
        play("", 3, 16384, false, &off);
        play("", 4, 4096, false, &report);
        play("KERNEL_LOOK_MAX_BYTES=0", 2, 4096, false, &retry); /* nobody looks ahead of the words */
        scene.epochs = 30 / fewer();
        play("KERNEL_PEER_MAX_BYTES=4M", 2, 1 << 20, false, &retry);
        play("KERNEL_PEER_MAX_BYTES=4M", 3, 300001, true, &retry);
        play("KERNEL_PEER_MAX_BYTES=0", 2, 20000, true, &retry); /* copy engines */
        play("SEGMENT_BYTES=4096", 3, 100001, true, &report);
    }
    local_ranks_mode("PROGRESS=thread SOFT_BLOCKS=4");
    play("ROUTE=staged SEGMENT_BYTES=4096", 2, 20000, false, &retry);
    play("", 3, 4096, false, &retry);
    local_ranks_mode("SOFT_MODE=inline");
    play("", 2, 4096, false, &retry);
    local_ranks_mode("SOFT_BLOCKS=4");
}

/* With a progress thread every route is legal; without device threads the call is a wait. */
static void test_modes(void)
{
    scene.habit = HABIT_MIX;
    scene.epochs = 30 / fewer();
    for (int i = 0; i < 2; i++) {
        local_ranks_mode(i ? "SOFT_MODE=inline" : "PROGRESS=thread SOFT_BLOCKS=4");
        play("ROUTE=staged SEGMENT_BYTES=4096", 2, 20000, false, &retry);
        play("ROUTE=shared", 3, 4096, false, &report);
        play("KERNEL_PEER_MAX_BYTES=0", 2, 100001, false, &retry);
        play("", 2, 100001, true, &off);
        play("", 4, 8, false, &retry);
    }
    local_ranks_mode("SOFT_BLOCKS=4");
}

/* --- which kernels are launched ----------------------------------------------------------------------------------- */

static _Atomic unsigned holds, whole, parts; /* launches: only to wait; one for an epoch; one of two for an epoch */
static selvage_status_t (*_Atomic real_launch)(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg,
                                               size_t arg_bytes, unsigned nblocks, void *stream);

static selvage_status_t count_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                     unsigned nblocks, void *stream)
{
    atomic_fetch_add(&holds, kernel == &sv_kernel_await);
    atomic_fetch_add(&whole, kernel == &sv_kernel_run || kernel == &sv_kernel_run_pieces);
    atomic_fetch_add(&parts, kernel == &sv_kernel_push || kernel == &sv_kernel_pull);
    return atomic_load(&real_launch)(dev, kernel, arg, arg_bytes, nblocks, stream);
}

static void run_counted(local_rank_t *self)
{
    sv_device_t *dev = self->comm->dev;
    const sv_device_ops_t *real = dev->ops;
    sv_device_ops_t counting = *real;
    counting.launch = count_launch;
    atomic_store(&real_launch, real->launch);
    dev->ops = &counting;
    run_scene(self);
    dev->ops = real;
}

/* Every epoch of such an exchange is one launch. More packets than one launch takes have two or more. */
static void test_one_launch(void)
{
    enum { EPOCHS = 10, RANKS = 2 };
    for (unsigned per_pair = 1; per_pair <= SV_BATCH_PACKETS; per_pair *= SV_BATCH_PACKETS) {
        const bool fits = per_pair == 1;
        scene = (scene_t){.epochs = EPOCHS, .habit = HABIT_RUN, .params = retry};
        local_ranks_env("TIMEOUT_S=30");
        make_ring(&scene.plan[0], RANKS, 2000, per_pair, false);
        atomic_store(&whole, 0);
        atomic_store(&parts, 0);
        local_ranks_run(&(local_run_t){.size = RANKS, .body = run_counted, .arg = &scene});
        CHECK_EQ(atomic_load(&whole), fits ? EPOCHS * RANKS : 0);
        CHECK_EQ(atomic_load(&parts) > 0, !fits);
    }
}

/* A neighbour that does not come is found at the deadline, by the call after it. */
static void run_alone(local_rank_t *self)
{
    const scene_t *alone = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &alone->plan[0], &alone->params, alone->epochs);
    if (good && self->rank == 0) {
        pipelined.runs = true;
        CHECK_STATUS(pipelined_start(&pipelined, 0), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_ERR_TIMEOUT);
        CHECK_STATUS(selvage_exchange_run(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_ERR_TIMEOUT);
    }
    local_ranks_barrier(self);
    pipelined_close(&pipelined);
}

static void test_alone(void)
{
    scene = (scene_t){.epochs = 2, .params = retry};
    make_ring(&scene.plan[0], 2, 2000, 1, false);
    local_ranks_env("TIMEOUT_S=5");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_alone, .arg = &scene, .log_expected = true});
}

static void run_hidden(local_rank_t *self)
{
    self->comm->dev->shows_stores = false;
    run_counted(self);
}

/* Ordinary memory need not show a kernel what others store. Then what is summed in the user's memory is summed by a
   kernel that begins when it is there. */
static void test_hidden(void)
{
    static const struct hidden {
        const char *env;
        size_t bytes;
        bool registered, off, held;
    } hidden[] = {{"KERNEL_PEER_MAX_BYTES=0", 20000, true, false, true},
                  {"KERNEL_PEER_MAX_BYTES=0 SEGMENT_BYTES=4096", 100001, true, false, true},
                  {"KERNEL_PEER_MAX_BYTES=0", 20000, true, true, false},
                  {"", 4096, true, false, false},
                  {"", 4096, false, false, false}};
    scene = (scene_t){.epochs = 20 / fewer()};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        const struct hidden *h = &hidden[i];
        char list[256];
        snprintf(list, sizeof list, "TIMEOUT_S=30 %s", h->env);
        local_ranks_env(list);
        make_ring(&scene.plan[0], 3, h->bytes, 1, h->registered);
        scene.params = h->off ? off : retry;
        atomic_store(&holds, 0);
        local_ranks_run(&(local_run_t){.size = 3, .body = run_hidden, .arg = &scene});
        CHECK_EQ(atomic_load(&holds) > 0, h->held);
    }
}

/* --- two exchanges ------------------------------------------------------------------------------------------------ */

static void run_two(local_rank_t *self)
{
    const scene_t *two = self->arg;
    pipelined_t pipelined[2];
    bool good = pipelined_open(&pipelined[0], self, &two->plan[0], &two->params, two->epochs);
    good = pipelined_open(&pipelined[1], self, &two->plan[1], &two->params, two->epochs) && good;
    for (uint64_t epoch = 1; good && epoch <= two->epochs; epoch++) {
        for (int i = 0; i < 2; i++)
            CHECK_STATUS(pipelined_start(&pipelined[i], i), SELVAGE_SUCCESS);
        for (int i = 0; i < 2; i++) {
            int which = (int)((epoch + (uint64_t)i) % 2);
            pipelined_end_t end = which == 1 && epoch % 5 == 0 ? PIPELINED_WAIT : PIPELINED_ENQUEUE;
            CHECK_STATUS(pipelined_finish(&pipelined[which], which, end), SELVAGE_SUCCESS);
        }
    }
    for (int i = 0; i < 2; i++) {
        pipelined_settle(&pipelined[i]);
        pipelined_check(&pipelined[i]);
    }
    pipelined_close(&pipelined[0]);
    pipelined_close(&pipelined[1]);
}

/* One rank waits for the other's packets of an exchange that needs this rank's host, which waits for the device. */
static void run_crossed(local_rank_t *self)
{
    const scene_t *two = self->arg;
    const selvage_exchange_params_t staged = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_STAGED};
    pipelined_t fast, slow;
    bool good = pipelined_open(&fast, self, &two->plan[0], &two->params, two->epochs);
    good = pipelined_open(&slow, self, &two->plan[1], &staged, two->epochs) && good;
    for (uint64_t epoch = 1; good && epoch <= two->epochs; epoch++) {
        pipelined_end_t end = epoch % 2 ? PIPELINED_WAIT : PIPELINED_TEST;
        CHECK_STATUS(pipelined_start(&slow, 0), SELVAGE_SUCCESS);
        if (self->rank == 1) /* nothing of the fast one before the slow one is over */
            CHECK_STATUS(pipelined_finish(&slow, 0, PIPELINED_WAIT), SELVAGE_SUCCESS);
        CHECK_STATUS(pipelined_start(&fast, 0), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(fast.fixture.ex, fast.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(pipelined_finish(&fast, 0, end), SELVAGE_SUCCESS);
        if (self->rank == 0)
            CHECK_STATUS(pipelined_finish(&slow, 0, PIPELINED_WAIT), SELVAGE_SUCCESS);
    }
    pipelined_settle(&fast);
    pipelined_check(&fast);
    pipelined_settle(&slow);
    pipelined_check(&slow);
    pipelined_close(&fast);
    pipelined_close(&slow);
}

static void test_two(void)
{
    scene = (scene_t){.epochs = 60 / fewer(), .params = retry};
    make_ring(&scene.plan[0], 3, 2000, 2, true);
    make_ring(&scene.plan[1], 3, 30000, 1, true);
    local_ranks_env("TIMEOUT_S=30");
    local_ranks_run(&(local_run_t){.size = 3, .body = run_two, .arg = &scene});
    local_ranks_env("TIMEOUT_S=30 KERNEL_PEER_MAX_BYTES=0");
    local_ranks_run(&(local_run_t){.size = 3, .body = run_two, .arg = &scene});
    scene.epochs = 6;
    make_ring(&scene.plan[0], 2, 2000, 2, false);
    make_ring(&scene.plan[1], 2, 30000, 1, false);
    local_ranks_env("TIMEOUT_S=5 SEGMENT_BYTES=4096");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_crossed, .arg = &scene});
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void run_refused(local_rank_t *self)
{
    const scene_t *refused = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &refused->plan[0], &refused->params, refused->epochs);
    CHECK_STATUS(selvage_exchange_enqueue_wait(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_exchange_run(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_ERR_UNSUPPORTED);
    for (uint64_t epoch = 1; good && epoch <= refused->epochs; epoch++) {
        CHECK_STATUS(pipelined_start(&pipelined, 0), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_ERR_UNSUPPORTED);
        CHECK(strstr(selvage_error_detail(), "send 1 goes to rank") != NULL);
        CHECK_STATUS(pipelined_finish(&pipelined, 0, epoch % 2 ? PIPELINED_WAIT : PIPELINED_TEST), SELVAGE_SUCCESS);
    }
    pipelined_settle(&pipelined);
    pipelined_check(&pipelined);
    pipelined_close(&pipelined);
}

static void refuse(const char *env, int per_node, size_t bytes, selvage_route_t route)
{
    static scene_t refused;
    refused = (scene_t){.epochs = 5, .params = retry};
    refused.params.route = route;
    plan_add(&refused.plan[0], 0, 0, 0, bytes); /* to itself: no fault of these */
    plan_add(&refused.plan[0], 1, 1, 0, bytes);
    plan_add(&refused.plan[0], 0, 1, 0, bytes);
    plan_add(&refused.plan[0], 1, 0, 0, bytes);
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = per_node, .body = run_refused, .arg = &refused,
                                   .log_expected = true});
}

static void test_refused(void)
{
    refuse("TIMEOUT_S=30 KERNEL_PEER_MAX_BYTES=0", 0, 100001, SELVAGE_ROUTE_PEER);
    refuse("TIMEOUT_S=30 KERNEL_PEER_MAX_BYTES=4096 SEGMENT_BYTES=4096", 0, 4097, SELVAGE_ROUTE_PEER);
    refuse("TIMEOUT_S=30", 0, 64, SELVAGE_ROUTE_SHARED);
    refuse("TIMEOUT_S=30", 1, 64, SELVAGE_ROUTE_DEFAULT);
}

/* --- destroyed while it runs -------------------------------------------------------------------------------------- */

static void run_abandoned(local_rank_t *self)
{
    const scene_t *left = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &left->plan[0], &left->params, left->epochs);
    CHECK_STATUS(selvage_device_delay_us(self->dev, self->rank == 1 ? 200000 : 20000, pipelined.stream[0]),
                 SELVAGE_SUCCESS);
    for (uint64_t epoch = 1; good && epoch <= left->epochs; epoch++)
        good = run_epoch(&pipelined, HABIT_ENQUEUE, epoch);
    selvage_exchange_destroy(pipelined.fixture.ex); /* waits for what is enqueued */
    pipelined.fixture.ex = NULL;
    pipelined_settle(&pipelined);
    pipelined_check(&pipelined);
    pipelined_close(&pipelined);
}

static void test_abandoned(void)
{
    static const char *const env[] = {"TIMEOUT_S=30", "TIMEOUT_S=30 KERNEL_PEER_MAX_BYTES=0",
                                      "TIMEOUT_S=30 PROGRESS=thread"};
    scene = (scene_t){.epochs = 5, .params = retry};
    make_ring(&scene.plan[0], 3, 9000, 1, true);
    for (int i = 0; i < 3; i++) {
        local_ranks_env(env[i]);
        scene.epochs = i < 2 ? 5 : 1;
        local_ranks_run(&(local_run_t){.size = 3, .body = run_abandoned, .arg = &scene});
    }
}

int main(void)
{
    local_ranks_mode("SOFT_BLOCKS=4"); /* packets have shares, as on a GPU */
    test_back_to_back();
    test_habits();
    test_runs();
    test_one_launch();
    test_alone();
    test_modes();
    test_hidden();
    test_two();
    test_refused();
    test_abandoned();
    return check_report("test_exchange_enqueue");
}
