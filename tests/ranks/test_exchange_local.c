/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange, right: every route, every awkward size and address, rings, virtual nodes, registered buffers, policies,
 * streams, in every mode of progress and device. Ranks are threads, so the thread sanitizer sees both ends.
 */
#include "base/base_memory.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"

#define SMALL_SEGMENTS "SEGMENT_BYTES=4096 SEGMENT_SLOTS=2"

#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { DEEP_EPOCHS = 10 };
#else
enum { DEEP_EPOCHS = 40 };
#endif

static const size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 8191, 16384, 16385, 70000};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

/* One case: a plan, what is forced, and what must come of it. */
typedef struct fixture_case {
    const plan_t *plan;
    selvage_exchange_params_t params;
    selvage_route_t on_node;
    int ranks_per_node;
    unsigned epochs;
} fixture_case_t;

static void run_case(local_rank_t *self)
{
    const fixture_case_t *test = self->arg;
    fixture_t fixture;
    if (fixture_open(&fixture, self, test->plan, &test->params)) {
        fixture_run(&fixture, test->epochs);
        fixture_check_routes(&fixture, test->on_node, test->ranks_per_node);
        CHECK_EQ(selvage_exchange_epoch(fixture.ex), test->epochs);
    }
    fixture_close(&fixture);
}

static void check_stats(local_rank_t *self)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    run_case(self);
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    const fixture_case_t *test = self->arg;
    uint64_t sent = 0, received = 0;
    for (unsigned i = 0; i < test->plan->count; i++) {
        sent += test->plan->packet[i].source == self->rank;
        received += test->plan->packet[i].destination == self->rank;
    }
    CHECK_EQ(stats.epochs, test->epochs);
    CHECK_EQ(stats.packets_sent, sent * test->epochs);
    CHECK_EQ(stats.packets_received, received * test->epochs);
    CHECK_EQ(stats.bad_digests + stats.bad_records + stats.swapped_named + stats.control_damaged, 0);
    CHECK_EQ(stats.pinned_bytes, 0);
    CHECK_EQ(stats.device_bytes, 0);
}

static void run(const fixture_case_t *test, int size, int ranks_per_node)
{
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = check_stats,
                                   .arg = (void *)(uintptr_t)test});
}

/* All sizes between all pairs, a rank and itself included; odd addresses that differ at the two ends. */
static void plan_sizes(plan_t *plan, int size, bool registered)
{
    *plan = (plan_t){.seed = 11};
    for (int source = 0; source < size; source++)
        for (int destination = 0; destination < size; destination++)
            for (unsigned i = 0; i < NSIZES; i++) {
                plan_packet_t *packet = plan_add(plan, source, destination, (int)i % 3, sizes[i]);
                packet->send_odd = i * 5 % 16;
                packet->recv_odd = (i * 3 + 1) % 16;
                packet->registered = registered && i % 4 != 3;
            }
}

static void test_sizes_by_params(const char *env)
{
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_PEER, SELVAGE_ROUTE_SHARED, SELVAGE_ROUTE_STAGED,
                                             SELVAGE_ROUTE_DIRECT};
    plan_t plan;
    for (unsigned r = 0; r < 4; r++) {
        plan_sizes(&plan, 2, r == 0);
        fixture_case_t test = {&plan, {SELVAGE_EXCHANGE_PARAMS_INIT, .route = routes[r]}, routes[r], 0, 3};
        local_ranks_env(env);
        run(&test, 2, 0);
    }
}

static void test_sizes_by_environment(void)
{
    plan_t plan;
    plan_sizes(&plan, 2, false);
    fixture_case_t test = {&plan, {SELVAGE_EXCHANGE_PARAMS_INIT}, SELVAGE_ROUTE_PEER, 0, 2};
    local_ranks_env(SMALL_SEGMENTS);
    run(&test, 2, 0);
    local_ranks_env("ROUTE=self");
    run(&test, 2, 0);
    local_ranks_env("ROUTE=peer INTRANODE=measured KERNEL_COPY_MAX_BYTES=0");
    test.epochs = 8;
    run(&test, 2, 0);
    test.epochs = 2;
    local_ranks_env("ROUTE=shared " SMALL_SEGMENTS);
    test.on_node = SELVAGE_ROUTE_SHARED;
    run(&test, 2, 0);
    local_ranks_env("ROUTE=staged REQUESTS_MAX=1 INFLIGHT_BYTES=1M " SMALL_SEGMENTS);
    test.on_node = SELVAGE_ROUTE_STAGED;
    run(&test, 2, 0);
    local_ranks_env("ROUTE=direct DIRECT_MESSAGE_BYTES=4096 REQUESTS_MAX=1 INFLIGHT_BYTES=1M");
    test.on_node = SELVAGE_ROUTE_DIRECT;
    run(&test, 2, 0);
}

static void test_self_alone(void)
{
    plan_t plan;
    plan_sizes(&plan, 1, false);
    fixture_case_t test = {
        &plan, {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_SELF}, SELVAGE_ROUTE_SELF, 0, 3};
    local_ranks_env("");
    run(&test, 1, 0);
    test.params.route = test.on_node = SELVAGE_ROUTE_STAGED;
    run(&test, 1, 0);
}

/* Two nodes of two: at home, on the node and across, in one exchange; the division by setting does the same. */
static void test_virtual_nodes(void)
{
    plan_t plan = {.seed = 12};
    for (int source = 0; source < 4; source++)
        for (int destination = 0; destination < 4; destination++)
            for (unsigned i = 0; i < NSIZES; i += 2) {
                plan_packet_t *packet = plan_add(&plan, source, destination, 5, sizes[i]);
                packet->recv_odd = i;
                packet->registered = i % 3 == 0;
            }
    fixture_case_t test = {&plan, {SELVAGE_EXCHANGE_PARAMS_INIT}, SELVAGE_ROUTE_PEER, 2, 3};
    local_ranks_env(SMALL_SEGMENTS);
    run(&test, 4, 2);
    local_ranks_env("INTRANODE=immediate RANKS_PER_NODE=2");
    run(&test, 4, 0);
    local_ranks_env("ROUTE=shared INTRANODE=measured");
    test.on_node = SELVAGE_ROUTE_SHARED;
    test.epochs = 8;
    run(&test, 4, 2);
}

/* Both directions of a dimension of two ranks go to the same rank with the same tag; and a ring of three. */
static void test_rings(unsigned epochs)
{
    for (int size = 1; size <= 3; size++) {
        plan_t plan = {.seed = 13};
        for (int rank = 0; rank < size; rank++) {
            plan_add(&plan, rank, (rank + 1) % size, 0, 3000);
            plan_add(&plan, rank, (rank + size - 1) % size, 0, 3000);
            plan_add(&plan, rank, (rank + 1) % size, 2147483647, 20001)->registered = true;
        }
        fixture_case_t test = {&plan, {SELVAGE_EXCHANGE_PARAMS_INIT}, SELVAGE_ROUTE_PEER, 0, epochs};
        local_ranks_env("");
        run(&test, size, 0);
        local_ranks_env("ROUTE=staged");
        test.on_node = SELVAGE_ROUTE_STAGED;
        run(&test, size, 0);
        local_ranks_env("ROUTE=shared");
        test.on_node = SELVAGE_ROUTE_SHARED;
        run(&test, size, 0);
        local_ranks_env("ROUTE=direct");
        test.on_node = SELVAGE_ROUTE_DIRECT;
        run(&test, size, 0);
    }
}

/* Ranks without packets commit and step like the others; so does an exchange of nobody. */
static void test_idle_ranks(void)
{
    plan_t plan = {.seed = 14};
    fixture_case_t test = {&plan, {SELVAGE_EXCHANGE_PARAMS_INIT}, SELVAGE_ROUTE_PEER, 0, 3};
    local_ranks_env("");
    run(&test, 3, 0);
    plan_add(&plan, 0, 2, 1, 100);
    run(&test, 3, 0);
}

static void test_policies(void)
{
    static const selvage_checksum_t policies[] = {SELVAGE_CHECKSUM_OFF, SELVAGE_CHECKSUM_REPORT,
                                                  SELVAGE_CHECKSUM_ABORT};
    plan_t plan;
    plan_sizes(&plan, 2, true);
    for (unsigned p = 0; p < 3; p++) {
        fixture_case_t test = {
            &plan, {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = policies[p]}, SELVAGE_ROUTE_PEER, 0, 4};
        local_ranks_env(SMALL_SEGMENTS);
        run(&test, 2, 0);
        local_ranks_env("ROUTE=shared " SMALL_SEGMENTS);
        test.on_node = SELVAGE_ROUTE_SHARED;
        run(&test, 2, 0);
        local_ranks_env("ROUTE=staged SEGMENT_BYTES=4096 SEGMENT_SLOTS=3");
        test.on_node = SELVAGE_ROUTE_STAGED;
        run(&test, 2, 0);
        local_ranks_env("ROUTE=direct DIRECT_MESSAGE_BYTES=4096");
        test.on_node = SELVAGE_ROUTE_DIRECT;
        run(&test, 2, 0);
    }
}

/* What the application enqueues before start is sent; what it enqueues after wait finds the halo in place. */
static void order_by_stream(local_rank_t *self)
{
    enum { BYTES = 30000 };
    void *stream, *out, *in, *copy;
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, BYTES, &out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, BYTES, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, BYTES, &copy), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, NULL, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(ex, out, BYTES, 1 - self->rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(ex, in, BYTES, 1 - self->rank, 0, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (int epoch = 1; epoch <= 3; epoch++) {
        /* The receive buffer is still in use by earlier work of this stream when start is called. */
        CHECK_STATUS(selvage_device_delay_us(self->dev, self->rank ? 3000 : 300, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_fill(self->dev, out, 16 * self->rank + epoch, BYTES, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_fill(self->dev, in, 0xee, BYTES, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_copy(self->dev, copy, in, BYTES, SELVAGE_COPY_DEVICE_TO_DEVICE, stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
        for (int i = 0; i < BYTES; i += 1009)
            CHECK_EQ(((const uint8_t *)copy)[i], 16 * (1 - self->rank) + epoch);
    }
    selvage_exchange_destroy(ex);
    selvage_stream_destroy(self->dev, stream);
    selvage_device_free(self->dev, out);
    selvage_device_free(self->dev, in);
    selvage_device_free(self->dev, copy);
}

static void test_streams(void)
{
    static const char *const routes[] = {"ROUTE=peer", "ROUTE=shared", "ROUTE=staged", "ROUTE=direct"};
    for (unsigned i = 0; i < 4; i++) {
        local_ranks_env(routes[i]);
        local_ranks_run(&(local_run_t){.size = 2, .body = order_by_stream});
    }
}

/* Several exchanges at once; one is destroyed while the others go on. */
static void overlap(local_rank_t *self)
{
    enum { FLOWS = 3 };
    const plan_t *plan = self->arg;
    fixture_t fixture[FLOWS];
    for (int i = 0; i < FLOWS; i++) {
        if (!fixture_open(&fixture[i], self, plan, NULL))
            return;
        CHECK_STATUS(selvage_exchange_commit(fixture[i].ex), SELVAGE_SUCCESS);
    }
    for (int round = 0; round < 6; round++) {
        for (int i = round / 3; i < FLOWS; i++)
            CHECK_STATUS(fixture_start(&fixture[i], NULL), SELVAGE_SUCCESS);
        for (int i = FLOWS - 1; i >= round / 3; i--) {
            CHECK_STATUS(selvage_exchange_wait(fixture[i].ex, NULL), SELVAGE_SUCCESS);
            CHECK_EQ(fixture_wrong(&fixture[i], true), 0);
        }
        if (round == 2)
            fixture_close(&fixture[0]);
    }
    fixture_close(&fixture[1]);
    fixture_close(&fixture[2]);
}

static void test_overlap(void)
{
    plan_t plan;
    plan_sizes(&plan, 2, true);
    local_ranks_env(SMALL_SEGMENTS);
    local_ranks_run(&(local_run_t){.size = 2, .body = overlap, .arg = &plan});
    local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = 1, .body = overlap, .arg = &plan});
}

/* One mode of progress and device; deep does all of it. */
static void test_mode(const char *mode, bool deep)
{
    local_ranks_mode(mode);
    test_sizes_by_params(SMALL_SEGMENTS);
    test_virtual_nodes();
    test_rings(deep ? DEEP_EPOCHS : 10);
    test_streams();
    test_overlap();
    test_idle_ranks();
    if (!deep)
        return;
    test_sizes_by_params("SEGMENT_BYTES=4096 SEGMENT_SLOTS=4 KERNEL_COPY_MAX_BYTES=64");
    test_sizes_by_params("KERNEL_COPY_MAX_BYTES=1M");
    test_sizes_by_environment();
    test_self_alone();
    test_policies();
}

int main(void)
{
    test_mode("", true);
    test_mode("PROGRESS=thread", false);
    test_mode("SOFT_MODE=auto", false); /* which is oversubscribed where there are fewer cores than twice the ranks */
    if (!check_brief())
        test_mode("SOFT_MODE=inline", false);
#ifndef SV_SANITIZES_THREAD /* takes its time, and has seen both halves already */
    test_mode("SOFT_MODE=inline PROGRESS=thread", false);
#endif
    return check_report("test_exchange_local");
}
