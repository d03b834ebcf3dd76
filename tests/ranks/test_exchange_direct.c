/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The direct route where it is not simply right: who gets it and who does not, probes that arrive damaged at one end or
 * at both, a wire that does not say that it takes the device's memory, and a receiver that asks before its sender has
 * begun. That it carries packets is tested with all the other routes.
 */
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "pipeline/pipe_exchange.h"
#include "wire/wire_local.h"

enum { LONG_BYTES = 1 << 20, EPOCHS = 3 };

static void plan_pairs(plan_t *plan, int size)
{
    static const size_t sizes[] = {0, 9, 5000, 70001};
    *plan = (plan_t){.seed = 41};
    for (int source = 0; source < size; source++)
        for (int destination = 0; destination < size; destination++)
            for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                plan_add(plan, source, destination, (int)i, sizes[i])->recv_odd = i;
}

/* Packets that this communicator has sent by a route. */
static uint64_t sent_by(const local_rank_t *self, selvage_route_t route)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    return stats.packets_by_route[route];
}

typedef struct direct_case {
    const plan_t *plan;
    selvage_exchange_params_t params;
    uint64_t direct, staged, peer; /* packets that a rank sends so, in each epoch */
    int damaged_at;                /* rank whose wire damages long messages, while the exchange is committed; -1: all */
    bool not_able;                 /* the device has a name that the wire does not know */
    selvage_status_t wanted;       /* of commit */
} direct_case_t;

static void rename_device(local_rank_t *self, sv_device_ops_t *ops)
{
    sv_device_t *dev = self->comm->dev_under;
    *ops = *dev->ops;
    ops->name = "nvidia";
    dev->ops = ops;
}

static void run_epochs(local_rank_t *self, fixture_t *fixture, const direct_case_t *test)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        CHECK_STATUS(fixture_start(fixture, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(fixture->ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(fixture, true), 0);
    }
    CHECK_EQ(sent_by(self, SELVAGE_ROUTE_DIRECT), test->direct * EPOCHS);
    CHECK_EQ(sent_by(self, SELVAGE_ROUTE_STAGED), test->staged * EPOCHS);
    CHECK_EQ(sent_by(self, SELVAGE_ROUTE_PEER), test->peer * EPOCHS);
}

static void run_case(local_rank_t *self)
{
    const direct_case_t *test = self->arg;
    const sv_device_ops_t *real = self->comm->dev_under->ops;
    sv_device_ops_t renamed;
    fixture_t fixture;
    if (test->not_able)
        rename_device(self, &renamed);
    if (test->damaged_at < 0 || test->damaged_at == self->rank)
        sv_wire_local_corrupt_long(self->comm->wire, LONG_BYTES);
    if (fixture_open(&fixture, self, test->plan, &test->params)) {
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), test->wanted);
        local_ranks_barrier(self);
        sv_wire_local_corrupt_long(self->comm->wire, 0);
        if (test->wanted == SELVAGE_SUCCESS)
            run_epochs(self, &fixture, test);
    }
    fixture_close(&fixture);
    self->comm->dev_under->ops = real;
}

/* Four packets to each of the four ranks, two of which share a node. */
static void test_choice(void)
{
    enum { NOBODY = 99 };
    static plan_t plan;
    plan_pairs(&plan, 4);
    direct_case_t test = {.plan = &plan, .params = {SELVAGE_EXCHANGE_PARAMS_INIT}, .damaged_at = NOBODY};
    const local_run_t run = {.size = 4, .ranks_per_node = 2, .body = run_case, .arg = &test};
    local_ranks_env("");
    test.staged = 8, test.peer = 4;
    local_ranks_run(&run);
    local_ranks_env("DIRECT=probe");
    test.staged = 0, test.direct = 8;
    local_ranks_run(&run);
    local_ranks_env("ROUTE=direct");
    test.direct = 12, test.peer = 0;
    local_ranks_run(&run);
    local_ranks_env("DIRECT=probe ROUTE=staged");
    test.direct = 0, test.staged = 16;
    local_ranks_run(&run);
    local_ranks_env("ROUTE=staged");
    test.params.route = SELVAGE_ROUTE_DIRECT;
    test.direct = 12, test.staged = 0;
    local_ranks_run(&run);
}

/* One end that receives damaged probes is enough for the pair; pairs without that rank stay direct. */
static void test_damaged_probes(void)
{
    static plan_t plan;
    plan_pairs(&plan, 2);
    direct_case_t test = {.plan = &plan, .params = {SELVAGE_EXCHANGE_PARAMS_INIT}, .staged = 4};
    const local_run_t run = {.size = 2, .log_expected = true, .body = run_case, .arg = &test};
    for (test.damaged_at = -1; test.damaged_at < 2; test.damaged_at++) {
        local_ranks_env("ROUTE=direct");
        local_ranks_run(&run);
        CHECK(local_ranks_any_logged("are staged: a probe did not arrive right"));
        test.params.route = SELVAGE_ROUTE_DIRECT;
        test.wanted = SELVAGE_ERR_UNSUPPORTED;
        local_ranks_run(&run);
        test.params.route = SELVAGE_ROUTE_DEFAULT;
        test.wanted = SELVAGE_SUCCESS;
    }
}

static void test_not_able(void)
{
    enum { NOBODY = 99 };
    static plan_t plan;
    plan_pairs(&plan, 2);
    direct_case_t test = {.plan = &plan, .params = {SELVAGE_EXCHANGE_PARAMS_INIT}, .damaged_at = NOBODY, .staged = 4,
                          .not_able = true};
    const local_run_t run = {.size = 2, .log_expected = true, .body = run_case, .arg = &test};
    local_ranks_env("ROUTE=direct");
    local_ranks_run(&run);
    CHECK(local_ranks_any_logged("this MPI does not say that it takes memory of the nvidia device"));
    test.params.route = SELVAGE_ROUTE_DIRECT;
    test.wanted = SELVAGE_ERR_UNSUPPORTED;
    local_ranks_run(&run);
    local_ranks_env("DIRECT=force");
    test.wanted = SELVAGE_SUCCESS;
    test.direct = 4, test.staged = 0;
    local_ranks_run(&run);
    CHECK(!local_ranks_any_logged("staged"));
}

/*
 * Rank 0 is in its epoch long before rank 1, and asks again and again. Rank 1 then sends what was asked for last, once:
 * the first attempt would not be taken any more.
 */
static void check_remembered(local_rank_t *self, const selvage_exchange_t *ex)
{
    CHECK_STATUS(selvage_progress(self->comm), SELVAGE_SUCCESS);
    for (uint32_t i = 0; i < ex->nsends && self->comm->config.progress == SV_CONFIG_PROGRESS_INLINE; i++) {
        CHECK_EQ(ex->sends[i].ahead_epoch, 1);
        CHECK(ex->sends[i].ahead_attempt >= 1);
    }
}

static void ask_early(local_rank_t *self)
{
    fixture_t fixture;
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    if (fixture_open(&fixture, self, self->arg, NULL)) {
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
        if (self->rank == 0)
            CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
        do {
            CHECK_STATUS(selvage_progress(self->comm), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
        } while (self->rank == 0 && stats.asked_again < 4);
        local_ranks_barrier(self);
        check_remembered(self, fixture.ex);
        if (self->rank == 1)
            CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&fixture, true), 0);
        CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
        CHECK_EQ(stats.bad_digests + stats.bad_records, 0);
    }
    fixture_close(&fixture);
}

static void test_early_questions(void)
{
    plan_t plan = {.seed = 42};
    plan_add(&plan, 1, 0, 0, 70001);
    plan_add(&plan, 1, 0, 0, 100);
    local_ranks_env("ROUTE=direct RETRY_TIMEOUT_MS=10");
    local_ranks_run(&(local_run_t){.size = 2, .body = ask_early, .arg = &plan});
}

int main(void)
{
    static const char *const modes[] = {"", "PROGRESS=thread", "SOFT_MODE=inline"};
    const unsigned count = sizeof modes / sizeof modes[0] - check_brief(); /* the last has the fewest threads */
    for (unsigned i = 0; i < count; i++) {
        local_ranks_mode(modes[i]);
        test_choice();
        test_damaged_probes();
        test_not_able();
        test_early_questions();
    }
    return check_report("test_exchange_direct");
}
