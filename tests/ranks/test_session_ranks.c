/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: epochs that kernels of an application's run (selvage/device_api.h), with ranks as threads, so that the
 * thread sanitizer sees lanes, blocks and ranks. Random packets in every style, alone and mixed with eager epochs; and
 * everything that can go wrong.
 */
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "fixtures/session_case.h"

#ifdef SV_SANITIZES_THREAD
enum { FEWER = 4 };
#else
enum { FEWER = 1 };
#endif

static session_case_t scene;
static const session_failure_t *failure;
static struct refusal {
    selvage_route_t route;
    size_t bytes;
    const char *text;
} refusal;

static void meet(void *arg)
{
    local_ranks_barrier(arg);
}

static _Atomic int met; /* in the run */

static void meet_idle(void *arg)
{
    const local_rank_t *self = arg;
    unsigned turns = 0;
    for (const int wanted = (met++ / self->size + 1) * self->size; met < wanted;)
        check_wait_turn(&turns);
}

static session_rank_t rank_of(local_rank_t *self)
{
    return (session_rank_t){self->rank, self->size, self->comm, self->dev, meet, meet_idle, self};
}

static void body_play(local_rank_t *self)
{
    const session_rank_t rank = rank_of(self);
    session_play(&rank, &scene);
}

static void body_fail(local_rank_t *self)
{
    const session_rank_t rank = rank_of(self);
    session_fail(&rank, failure);
}

static void body_refuse(local_rank_t *self)
{
    const session_rank_t rank = rank_of(self);
    session_refuse(&rank, refusal.route, refusal.bytes, refusal.text);
}

static const session_case_t usual = {.seed = 1, .per_pair = 2, .bytes_max = 3000, .steps = 12, .epochs_max = 9,
                                     .checksum = SELVAGE_CHECKSUM_RETRY, .blocks = 2};

static void play(int size, const char *env)
{
    char list[256];
    const long failed = atomic_load(&check_failed_);
    snprintf(list, sizeof list, "TIMEOUT_S=60 %s", env);
    local_ranks_env(list);
    scene.steps = scene.steps / FEWER + 1;
    local_ranks_run(&(local_run_t){.size = size, .body = body_play});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %s: %d ranks, seed %d, mix %d, style %d, lanes %u, spread %d\n", list, size,
                (int)scene.seed, (int)scene.mix, (int)scene.style, scene.lanes, scene.spread);
}

static void test_styles(void)
{
    for (int style = 0; style < SESSION_STYLES; style++) {
        for (int how = 0; how < 4; how++) {
            scene = usual;
            scene.seed = (uint64_t)(style * 4 + how + 1);
            scene.style = (session_style_t)style;
            scene.spread = how & 1;
            scene.lanes = how & 2 ? 3 : 0;
            scene.syncs = how == 1 || how == 2;
            scene.checked = how >= 2;
            play(1 + (style + how) % 3, "");
        }
    }
    for (int lanes = 0; lanes < 4; lanes += 3) { /* what is read ahead of its word, and too early */
        scene = usual;
        scene.hasty = true;
        scene.lanes = (unsigned)lanes;
        play(2, "");
    }
    scene = usual;
    scene.seed = 50;
    play(2, "KERNEL_LOOK_MAX_BYTES=0"); /* nobody looks ahead */
    scene = usual;
    scene.checksum = SELVAGE_CHECKSUM_OFF;
    play(2, "");
    scene = usual;
    scene.bytes_max = 200000;
    scene.steps = 4;
    scene.spread = true;
    play(2, "KERNEL_PEER_MAX_BYTES=4M");
}

static void test_mixed(void)
{
    for (int how = 0; how < 6; how++) {
        scene = usual;
        scene.seed = 100 + (uint64_t)how;
        scene.steps = 40;
        scene.mix = how % 2 ? SESSION_HALVES : SESSION_EAGER;
        scene.spread = how > 2;
        scene.graphs = how % 4 < 2;
        scene.checksum = how == 4 ? SELVAGE_CHECKSUM_OFF : SELVAGE_CHECKSUM_REPORT;
        play(2 + how % 2 * 2, how < 4 ? "" : "KERNEL_PEER_MAX_BYTES=4M");
    }
}

/* Many epochs in one kernel. */
static void test_long(void)
{
    scene = usual;
    scene.steps = 2;
    scene.epochs_max = check_part(3) < 3 ? 300 : 3000 / FEWER;
    scene.bytes_max = 200;
    scene.per_pair = 1;
    scene.blocks = 1;
    play(2, "");
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static double timeout_of(int rank)
{
    return session_timeout_s(failure, rank);
}

static void test_failures(void)
{
    for (int i = 0; i < SESSION_FAILURES; i++) {
        const long failed = atomic_load(&check_failed_);
        failure = &session_failures[i];
        met = 0;
        local_ranks_env("");
        local_ranks_run(&(local_run_t){.size = 2, .body = body_fail, .timeout_s = timeout_of, .log_expected = true});
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "-- %s\n", failure->name);
    }
}

static void refuse(const char *env, selvage_route_t route, size_t bytes, const char *text)
{
    refusal = (struct refusal){route, bytes, text};
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = 2, .body = body_refuse, .log_expected = true});
}

static void test_refused(void)
{
    refuse("", SELVAGE_ROUTE_STAGED, 64, "send 0 goes to rank");
    refuse("", SELVAGE_ROUTE_SHARED, 64, "by route shared through the host");
    refuse("KERNEL_PEER_MAX_BYTES=4096", SELVAGE_ROUTE_PEER, 5000, "longer than kernels move");
    refuse("SOFT_MODE=inline", SELVAGE_ROUTE_PEER, 64, "no threads");
    refuse("PROGRESS=thread", SELVAGE_ROUTE_PEER, 64, "a progress thread");
    refuse("FAULT=flip=1,epochs=900", SELVAGE_ROUTE_PEER, 64, "SELVAGE_FAULT");
}

int main(void)
{
    test_styles();
    test_mixed();
    test_long();
    test_failures();
    test_refused();
    return check_report("session");
}
