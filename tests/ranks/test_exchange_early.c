/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that wait, where something is late or lost: pulls launched before their packets are there, and failures that
 * the device finds after enqueued waits.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/fixture_pipelined.h"

typedef struct scene {
    plan_t plan;
    selvage_exchange_params_t params;
    unsigned epochs;
    int victim;              /* the rank that receives what is hurt */
    selvage_status_t wanted; /* there */
    const char *text;        /* in the detail there */
    _Atomic uint64_t hurt;   /* packets, by all ranks */
    _Atomic bool noticed;    /* by the victim */
} scene_t;

static scene_t scene;

static void make_scene(unsigned epochs, selvage_checksum_t policy)
{
    memset(&scene, 0, sizeof scene); /* no rank runs */
    scene.epochs = epochs;
    scene.victim = 1;
    scene.params = (selvage_exchange_params_t){SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = policy};
}

static void make_pair(size_t bytes, unsigned per_pair, bool registered)
{
    scene.plan = (plan_t){.seed = bytes};
    for (int r = 0; r < 2; r++)
        for (unsigned i = 0; i < per_pair; i++)
            plan_add(&scene.plan, r, 1 - r, 0, bytes)->registered = registered;
}

/* --- early pulls -------------------------------------------------------------------------------------------------- */

/* In time, or later than the pull waits by either setting, by the sender's stream. */
static void run_early(local_rank_t *self)
{
    static const double delay_us[] = {0, 100, 3000, 0, 30000, 0, 0};
    const scene_t *early = self->arg;
    void *stream;
    fixture_t fixture;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    bool good = fixture_open(&fixture, self, &early->plan, &early->params);
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    for (unsigned epoch = 0; good && epoch < early->epochs; epoch++) {
        double us = delay_us[(epoch * 3 + (unsigned)self->rank * 2) % 7];
        if (us > 0)
            CHECK_STATUS(selvage_device_delay_us(self->dev, us, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(fixture_start(&fixture, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(fixture.ex, stream), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&fixture, true), 0);
    }
    fixture_close(&fixture);
    selvage_stream_destroy(self->dev, stream);
}

static void test_early(void)
{
    static const char *const route[] = {"ROUTE=auto", "ROUTE=shared", "ROUTE=staged"};
    static const selvage_checksum_t policy[] = {SELVAGE_CHECKSUM_RETRY, SELVAGE_CHECKSUM_OFF};
    char list[128];
    for (int i = 0; i < 12; i++) {
        make_scene(28, policy[i / 3 % 2]);
        snprintf(list, sizeof list, "TIMEOUT_S=30 EARLY_WAIT_US=%d %s", i < 6 ? 200 : 20000, route[i % 3]);
        local_ranks_env(list);
        make_pair(i % 2 ? 1000 : 8, 3, i % 2);
        local_ranks_run(&(local_run_t){.size = 2, .body = run_early, .arg = &scene});
    }
}

/* --- a wait after an enqueued one --------------------------------------------------------------------------------- */

/* A packet that is later than its receiver waits is asked for again, and comes, however the epoch began. */
static void run_asked(local_rank_t *self)
{
    const scene_t *asking = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &asking->plan, &asking->params,
                               asking->epochs);
    for (unsigned epoch = 1; good && epoch <= asking->epochs; epoch++) {
        if (epoch == 3 && self->rank == 0)
            CHECK_STATUS(selvage_device_delay_us(self->dev, 200000, pipelined.stream[0]), SELVAGE_SUCCESS);
        selvage_status_t status = pipelined_start(&pipelined, 0);
        CHECK_STATUS(status, SELVAGE_SUCCESS);
        if (status == SELVAGE_SUCCESS)
            CHECK_STATUS(status = pipelined_finish(&pipelined, 0, epoch == 3 ? PIPELINED_WAIT : PIPELINED_ENQUEUE),
                         SELVAGE_SUCCESS);
        good = status == SELVAGE_SUCCESS;
    }
    pipelined_settle(&pipelined);
    pipelined_check(&pipelined);
    pipelined_close(&pipelined);
}

/* The host polls for longer than a packet may take, and then leaves the epoch to the device: nobody was asked. */
static void run_unasked(local_rank_t *self)
{
    const scene_t *unasked = self->arg;
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &unasked->plan, &unasked->params, unasked->epochs);
    for (unsigned epoch = 1; good && epoch <= unasked->epochs; epoch++) {
        if (self->rank == 0)
            usleep(100000);
        CHECK_STATUS(pipelined_start(&pipelined, 0), SELVAGE_SUCCESS);
        uint64_t begin_ns = sv_clock_ns();
        while (self->rank == 1 && sv_clock_ns() - begin_ns < 100000000) {
            CHECK_STATUS(selvage_progress(self->comm), SELVAGE_SUCCESS);
            usleep(500);
        }
        CHECK_STATUS(pipelined_finish(&pipelined, 0, PIPELINED_ENQUEUE), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_wait(pipelined.fixture.ex, pipelined.stream[0]), SELVAGE_SUCCESS);
    pipelined_settle(&pipelined);
    pipelined_check(&pipelined);
    pipelined_close(&pipelined);
}

static void test_asked(void)
{
    static const char *const env[] = {"TIMEOUT_S=10 RETRY_TIMEOUT_MS=20",
                                      "TIMEOUT_S=10 RETRY_TIMEOUT_MS=20 KERNEL_PEER_MAX_BYTES=0",
                                      "TIMEOUT_S=10 RETRY_TIMEOUT_MS=20 KERNEL_PEER_MAX_BYTES=1M"};
    for (int i = 0; i < 3; i++) {
        make_scene(5, SELVAGE_CHECKSUM_RETRY);
        local_ranks_env(env[i]);
        make_pair(20000, 2, true);
        local_ranks_run(&(local_run_t){.size = 2, .body = run_asked, .arg = &scene, .may_set_aside = true});
        local_ranks_run(&(local_run_t){.size = 2, .body = run_unasked, .arg = &scene, .may_set_aside = true});
    }
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static selvage_status_t run_until_error(pipelined_t *pipelined, unsigned epochs)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    for (unsigned epoch = 1; epoch <= epochs && status == SELVAGE_SUCCESS; epoch++) {
        status = pipelined_start(pipelined, 0);
        if (status == SELVAGE_SUCCESS)
            status = pipelined_finish(pipelined, 0, PIPELINED_ENQUEUE);
    }
    return status == SELVAGE_SUCCESS ? selvage_exchange_wait(pipelined->fixture.ex, pipelined->stream[0]) : status;
}

static void judge(local_rank_t *self, const scene_t *failing, pipelined_t *pipelined, selvage_status_t status)
{
    if (self->rank != failing->victim) { /* told by the victim, held up until its own deadline, or through before */
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_PEER || status == SELVAGE_ERR_CHECKSUM ||
              status == SELVAGE_ERR_TIMEOUT);
        return;
    }
    if (failing->wanted == SELVAGE_ERR_TIMEOUT && status == SELVAGE_ERR_PEER)
        return; /* the other one's deadline came first */
    CHECK_STATUS(status, failing->wanted);
    CHECK(strstr(selvage_error_detail(), failing->text) != NULL);
    const char *at = strstr(selvage_error_detail(), "epoch ");
    unsigned long long epoch = at ? strtoull(at + 6, NULL, 10) : 0;
    pipelined_settle(pipelined);
    uint64_t wrong = pipelined_first_wrong(pipelined);
    CHECK(epoch > 0 && (wrong == 0 || epoch <= wrong));
}

static void run_failing(local_rank_t *self)
{
    const scene_t *failing = self->arg;
    uint64_t begin_ns = sv_clock_ns();
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &failing->plan, &failing->params, failing->epochs);
    selvage_status_t status = good ? run_until_error(&pipelined, failing->epochs) : SELVAGE_SUCCESS;
    judge(self, failing, &pipelined, status);
    if (status == SELVAGE_SUCCESS) /* the word of the victim is on its way */
        status = pipelined_start(&pipelined, 0);
    if (status == SELVAGE_SUCCESS)
        status = pipelined_finish(&pipelined, 0, PIPELINED_WAIT);
    CHECK(status != SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(pipelined.fixture.ex, pipelined.stream[0]), status);
    CHECK_STATUS(selvage_exchange_enqueue_wait(pipelined.fixture.ex, pipelined.stream[0]), status);
    CHECK_STATUS(selvage_exchange_wait(pipelined.fixture.ex, pipelined.stream[0]), status);
    pipelined_close(&pipelined);
    CHECK(sv_clock_ns() - begin_ns < UINT64_C(60000000000));
}

static void fail(const char *env, size_t bytes, bool registered, selvage_status_t wanted, const char *text)
{
    long failed = atomic_load(&check_failed_);
    make_scene(6, SELVAGE_CHECKSUM_RETRY);
    scene.wanted = wanted;
    scene.text = text;
    local_ranks_env(env);
    make_pair(bytes, 3, registered);
    local_ranks_run(&(local_run_t){.size = 2, .body = run_failing, .arg = &scene, .log_expected = true,
                                   .may_set_aside = true});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %s: %zu bytes%s\n", env, bytes, registered ? ", registered" : "");
}

/* What goes straight into buffers is left out under the thread sanitizer: on bad data both ends work at once. */
#ifdef SV_SANITIZES_THREAD
enum { STRAIGHT = 0 };
#else
enum { STRAIGHT = 1 };
#endif

static void test_failures(void)
{
    fail("TIMEOUT_S=20 FAULT=flip=1,rank=0,only=1,epochs=1", 1000, false, SELVAGE_ERR_CHECKSUM, "packet 1 (tag 0)");
    fail("TIMEOUT_S=6 FAULT=drop=1,rank=0,only=2,epochs=1", 1000, false, SELVAGE_ERR_TIMEOUT, "packet 2 (tag 0)");
    if (!STRAIGHT)
        return;
    fail("TIMEOUT_S=20 KERNEL_PEER_MAX_BYTES=0 FAULT=flip=1,rank=0,only=1,epochs=1", 9000, true, SELVAGE_ERR_CHECKSUM,
         "packet 1 (tag 0)");
    fail("TIMEOUT_S=6 KERNEL_PEER_MAX_BYTES=0 FAULT=drop=1,rank=0,only=2,epochs=1", 9000, true, SELVAGE_ERR_TIMEOUT,
         "packet 2 (tag 0)");
}

/* Somewhere in the run, in epochs that begin after an enqueued wait: whatever was hurt is reported, in its epoch. */
static void run_lottery(local_rank_t *self)
{
    const scene_t *lottery = self->arg;
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    pipelined_t pipelined;
    bool good = pipelined_open(&pipelined, self, &lottery->plan, &lottery->params, lottery->epochs);
    selvage_status_t status = good ? run_until_error(&pipelined, lottery->epochs) : SELVAGE_SUCCESS;
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    atomic_fetch_add(&scene.hurt, stats.faults_injected);
    if (self->rank == lottery->victim)
        atomic_store(&scene.noticed, status != SELVAGE_SUCCESS);
    if (status != SELVAGE_SUCCESS) {
        judge(self, lottery, &pipelined, status);
    } else {
        pipelined_settle(&pipelined);
        pipelined_check(&pipelined);
    }
    pipelined_close(&pipelined);
}

static void test_lottery(void)
{
    char list[128];
    for (int seed = 1; seed <= 8; seed++) {
        long failed = atomic_load(&check_failed_);
        make_scene(8, SELVAGE_CHECKSUM_REPORT);
        scene.wanted = SELVAGE_ERR_CHECKSUM;
        scene.text = "expected digest";
        snprintf(list, sizeof list, "TIMEOUT_S=20 FAULT=flip=0.06,rank=0,seed=%d%s", seed,
                 seed % 2 || !STRAIGHT ? "" : " KERNEL_PEER_MAX_BYTES=0");
        local_ranks_env(list);
        make_pair(9000, 2, true);
        local_ranks_run(&(local_run_t){.size = 2, .body = run_lottery, .arg = &scene, .log_expected = true,
                                       .may_set_aside = true});
        CHECK_EQ(atomic_load(&scene.noticed), atomic_load(&scene.hurt) > 0);
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "-- %s\n", list);
    }
}

int main(void)
{
    test_early();
    local_ranks_mode("SOFT_BLOCKS=4"); /* packets have shares, as on a GPU */
    test_asked();
    test_failures();
    test_lottery();
    return check_report("test_exchange_early");
}
