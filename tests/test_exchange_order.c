/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs on the caller's stream alone: what wait needs does not come behind what another exchange waits for there,
 * destroy waits for pulls that it has nothing else to know of, and the words that tell of the end of an enqueued wait
 * are read right in the half of all epoch numbers in which 0 looks like a later one.
 *
 * Whether an epoch stays on the caller's stream depends on how soon the last one was waited for; here it is decided.
 */
#include <unistd.h>

#include "check.h"
#include "local_flow.h"
#include "pipeline/pipe_commit.h"

static const selvage_exchange_params_t report = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_REPORT};

static plan_t plan;

static void make_plan(bool both_ways, size_t bytes)
{
    plan = (plan_t){.seed = bytes};
    plan_add(&plan, 0, 1, 0, bytes);
    if (both_ways)
        plan_add(&plan, 1, 0, 0, bytes);
}

static bool open_committed(flow_t *flow, local_rank_t *self)
{
    bool good = flow_open(flow, self, &plan, &report);
    CHECK_STATUS(selvage_exchange_commit(flow->ex), SELVAGE_SUCCESS);
    return good;
}

/* --- two exchanges on one stream ---------------------------------------------------------------------------------- */

static void run_pair(local_rank_t *self)
{
    flow_t first, second;
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    bool good = open_committed(&first, self);
    good &= open_committed(&second, self);
    for (int epoch = 0; good && epoch < 6; epoch++) {
        /* The first one's packets need nothing of the second one, which at the other rank begins behind them. */
        first.ex->at_once = self->rank == 0;
        CHECK_STATUS(flow_start(&first, stream), SELVAGE_SUCCESS);
        if (self->rank == 1)
            CHECK_STATUS(selvage_exchange_wait(first.ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(flow_start(&second, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(second.ex, stream), SELVAGE_SUCCESS);
        selvage_status_t status = selvage_exchange_wait(first.ex, stream);
        CHECK_STATUS(status, SELVAGE_SUCCESS);
        good = status == SELVAGE_SUCCESS;
        CHECK_STATUS(selvage_exchange_wait(second.ex, stream), SELVAGE_SUCCESS);
        CHECK_EQ(flow_wrong(&first, true), 0);
        CHECK_EQ(flow_wrong(&second, true), 0);
    }
    flow_close(&second);
    flow_close(&first);
    selvage_stream_destroy(self->dev, stream);
}

static void test_pair(void)
{
    local_ranks_env("TIMEOUT_S=4 EARLY_WAIT_US=200");
    make_plan(true, 1000);
    local_ranks_run(&(local_run_t){.size = 2, .body = run_pair});
}

/* --- an epoch that is given up ------------------------------------------------------------------------------------ */

static _Atomic bool passed;

/* The caller's stream is busy for longer than the epoch may take. */
static void be_busy(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
    usleep(1500000);
    atomic_store(&passed, true);
}

static void run_abandoned(local_rank_t *self)
{
    flow_t flow;
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    bool good = open_committed(&flow, self);
    for (int epoch = 0; good && epoch < 2; epoch++) {
        CHECK_STATUS(flow_start(&flow, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(flow.ex, stream), SELVAGE_SUCCESS);
    }
    if (self->rank == 1) {
        CHECK_STATUS(selvage_device_launch_soft(self->dev, be_busy, "", 1, 1, stream), SELVAGE_SUCCESS);
        flow.ex->at_once = true;
        CHECK_STATUS(flow_start(&flow, stream), SELVAGE_SUCCESS);
        CHECK(selvage_exchange_wait(flow.ex, stream) < 0);
        CHECK(!atomic_load(&passed));
        CHECK(flow.ex->recvs[0].early_epoch == flow.ex->epoch); /* the pull is there, behind the caller's work */
    }
    flow_close(&flow);
    CHECK(self->rank == 0 || atomic_load(&passed));
    selvage_stream_destroy(self->dev, stream);
}

static void test_abandoned(void)
{
    local_ranks_env("TIMEOUT_S=0.5 EARLY_WAIT_US=200");
    make_plan(false, 1000);
    atomic_store(&passed, false);
    local_ranks_run(&(local_run_t){.size = 2, .body = run_abandoned, .log_expected = true, .may_set_aside = true});
}

/* --- large epoch numbers ------------------------------------------------------------------------------------------ */

/* As if so many epochs had been. */
static void leap(selvage_exchange_t *x, uint64_t epoch)
{
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        send->words->credit = sv_word(epoch + send->p.nslots, 0, 1);
        if (send->credit_near)
            *send->credit_near = send->words->credit;
        *send->sent = sv_word(epoch, 0, 1);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        *recv->done = sv_word(epoch, 0, SV_PULL_GOOD);
        recv->words->arrived = sv_word(epoch, 0, 1);
        for (uint32_t s = 0; s < recv->p.nslots; s++) {
            uint8_t *slot = recv->landing + s * sv_commit_slot_bytes(&recv->p);
            *(uint64_t *)(void *)(slot + sv_commit_trailer(&recv->p) + SV_RECORD_BYTES) = sv_word(epoch, 0, 1);
        }
    }
    x->epoch = x->started = epoch;
}

static void run_late(local_rank_t *self)
{
    static const uint64_t begin[] = {UINT64_C(0x7ffffffe), UINT64_C(0x80000010), UINT64_C(0xfffffffe)};
    flow_t flow;
    void *stream;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    for (int i = 0; i < 3; i++) {
        bool good = open_committed(&flow, self);
        leap(flow.ex, begin[i]);
        local_ranks_barrier(self);
        for (int epoch = 0; good && epoch < 4; epoch++) {
            if (self->rank == 0)
                CHECK_STATUS(selvage_device_delay_us(self->dev, 50000, stream), SELVAGE_SUCCESS);
            CHECK_STATUS(flow_start(&flow, stream), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_enqueue_wait(flow.ex, stream), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_wait(flow.ex, stream), SELVAGE_SUCCESS);
            CHECK_EQ(flow_wrong(&flow, true), 0);
        }
        flow_close(&flow);
    }
    selvage_stream_destroy(self->dev, stream);
}

static void test_late(void)
{
    local_ranks_env("TIMEOUT_S=20");
    make_plan(true, 1000);
    local_ranks_run(&(local_run_t){.size = 2, .body = run_late});
}

int main(void)
{
    test_pair();
    test_abandoned();
    test_late();
    return check_report("test_exchange_order");
}
