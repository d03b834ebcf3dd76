/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets hurt on purpose, on every route: under retry the data are right and the counters say what was seen; under
 * report both ends fail and name the packet; without checks wrong data come through, which shows that the faults are
 * real; and control messages may be damaged at will once an exchange is committed.
 */
#include <stdatomic.h>

#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "comm/comm.h"
#include "wire/wire_local.h"

static const char *const routes[] = {"peer", "shared", "staged", "direct"};
enum { ROUTES = 4, EPOCHS = 8 };

/* A doubled packet on a one-sided route is written while it is read: a race on purpose, and the sanitizer is right. */
#ifdef SV_SANITIZES_THREAD
enum { DOUBLES_RACE = 1 };
#else
enum { DOUBLES_RACE = 0 };
#endif

/* Sums over the ranks of a run. */
static _Atomic uint64_t injected, detected, asked_again, stale, control_damaged, wrong_packets;

static void reset_sums(void)
{
    injected = detected = asked_again = stale = control_damaged = wrong_packets = 0;
}

static void add_sums(local_rank_t *self)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    injected += stats.faults_injected;
    detected += stats.bad_digests + stats.bad_records;
    asked_again += stats.asked_again;
    stale += stats.stale_discarded;
    control_damaged += stats.control_damaged;
}

static void plan_ring(plan_t *plan, int size)
{
    static const size_t sizes[] = {0, 9, 5000, 5000, 33001, 1000, 1000, 20000};
    *plan = (plan_t){.seed = 21};
    for (int rank = 0; rank < size; rank++)
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            plan_packet_t *packet = plan_add(plan, rank, (rank + (i % 5 != 4)) % size, (int)i / 3, sizes[i]);
            packet->registered = i % 2;
            packet->recv_odd = i;
        }
}

static void recover(local_rank_t *self)
{
    fixture_t fixture;
    if (fixture_open(&fixture, self, self->arg, NULL))
        fixture_run(&fixture, EPOCHS);
    fixture_close(&fixture);
    add_sums(self);
}

static void set_fault(const char *route, const char *fault, const char *more)
{
    char list[256];
    snprintf(list, sizeof list, "ROUTE=%s FAULT=%s TIMEOUT_S=20 %s", route, fault, more);
    local_ranks_env(list);
    reset_sums();
}

static void check_counters(const char *fault)
{
    CHECK(injected > 0);
    if (strchr("fsrt", fault[0]) && !strchr(fault, ',')) { /* seen one by one; a doubled or late one need not be */
        CHECK(detected > 0);
        CHECK(detected + stale + asked_again >= injected);
    }
    if (strncmp(fault, "drop", 4) == 0)
        CHECK(asked_again >= injected);
}

/* Every STRIDEth fault by each route, and each fault by every STRIDEth route. */
static void test_recovery(unsigned stride)
{
    static const char *const faults[] = {"flip=0.5", "swap=0.5", "replay=0.5", "truncate=0.5", "drop=0.3",
                                         "delay=0.3,delay_ms=3", "duplicate=0.7",
                                         "flip=0.1,swap=0.1,replay=0.1,truncate=0.1,drop=0.1,seed=5",
                                         "flip=0.1,drop=0.1,duplicate=0.3,seed=6"};
    plan_t plan;
    plan_ring(&plan, 2);
    for (unsigned r = 0; r < ROUTES; r++)
        for (unsigned f = 0; f < sizeof faults / sizeof faults[0]; f++) {
            long failed = atomic_load(&check_failed_);
            if ((r + f) % stride != 0)
                continue;
            if (DOUBLES_RACE && strstr(faults[f], "duplicate") && strstr("peer,shared", routes[r]))
                continue;
            set_fault(routes[r], faults[f], "SEGMENT_BYTES=4096 SEGMENT_SLOTS=3 RETRY_TIMEOUT_MS=4 "
                                            "DIRECT_MESSAGE_BYTES=16384");
            local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = recover, .arg = &plan});
            check_counters(faults[f]);
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "%s, %s: injected %llu, detected %llu, stale %llu, asked %llu\n", routes[r], faults[f],
                        (unsigned long long)injected, (unsigned long long)detected, (unsigned long long)stale,
                        (unsigned long long)asked_again);
        }
}

static bool detail_has(const char *text)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    if (!found)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
    return found;
}

/* One packet, hurt at rank 0: both ends name it, its tag, the other end and the digests. */
static void report(local_rank_t *self)
{
    fixture_t fixture;
    if (!fixture_open(&fixture, self, self->arg, NULL))
        return;
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_ERR_CHECKSUM);
    CHECK(detail_has("packet 1 (tag 7)"));
    CHECK(detail_has(self->rank == 0 ? "rank 1 could not verify" : "from rank 0 to rank 1"));
    CHECK(detail_has("epoch 1"));
    CHECK(detail_has("expected digest"));
    CHECK(detail_has("found "));
    if (self->rank == 0) /* a program's own store is the likeliest cause */
        CHECK(detail_has("was its buffer written between start and wait"));
    CHECK_STATUS(selvage_exchange_test(fixture.ex, NULL), SELVAGE_ERR_CHECKSUM);
    CHECK_STATUS(selvage_exchange_start(fixture.ex, NULL), SELVAGE_ERR_CHECKSUM);
    CHECK(detail_has("packet 1 (tag 7)"));
    fixture_close(&fixture);
    add_sums(self);
}

static void plan_report(plan_t *plan)
{
    *plan = (plan_t){.seed = 22};
    plan_add(plan, 0, 1, 7, 300);
    plan_add(plan, 0, 1, 7, 30000);
    plan_add(plan, 1, 0, 7, 300);
}

static void test_reports(void)
{
    plan_t plan;
    plan_report(&plan);
    for (unsigned r = 0; r < ROUTES; r++) {
        set_fault(routes[r], "flip=1,rank=0,only=1", "CHECKSUM=report");
        local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = report, .arg = &plan});
        CHECK_EQ(detected, 1);
        /* Under retry every attempt is hurt, so it ends the same way, later. */
        set_fault(routes[r], "truncate=1,rank=0,only=1,attempts=255", "RETRY_MAX=3");
        local_ranks_run(&(local_run_t){.size = 2, .log_expected = true, .body = report, .arg = &plan});
        CHECK_EQ(detected, 4);
    }
}

static void deliver_wrong(local_rank_t *self)
{
    fixture_t fixture;
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .checksum = SELVAGE_CHECKSUM_OFF};
    if (fixture_open(&fixture, self, self->arg, &params)) {
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_SUCCESS);
            wrong_packets += fixture_wrong(&fixture, false);
        }
    }
    fixture_close(&fixture);
    add_sums(self);
}

static void test_unchecked(void)
{
    static const char *const faults[] = {"flip=0.6", "swap=0.6", "replay=0.6", "truncate=0.6"};
    plan_t plan;
    plan_ring(&plan, 2);
    for (unsigned r = 0; r < ROUTES; r++)
        for (unsigned f = 0; f < sizeof faults / sizeof faults[0]; f++) {
            set_fault(routes[r], faults[f], "");
            local_ranks_run(&(local_run_t){.size = 2, .body = deliver_wrong, .arg = &plan});
            CHECK(wrong_packets > 0);
            CHECK_EQ(detected, 0);
        }
}

/* Every third control message of every rank is damaged while epochs run. */
static void damage_control(local_rank_t *self)
{
    fixture_t fixture;
    if (fixture_open(&fixture, self, self->arg, NULL)) {
        fixture_run(&fixture, 1);
        local_ranks_barrier(self);
        sv_wire_local_corrupt_control(self->comm->wire, 3);
        for (int epoch = 0; epoch < 4 * EPOCHS; epoch++) {
            CHECK_STATUS(fixture_start(&fixture, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_wait(fixture.ex, NULL), SELVAGE_SUCCESS);
            CHECK_EQ(fixture_wrong(&fixture, true), 0);
        }
        sv_wire_local_corrupt_control(self->comm->wire, 0);
        local_ranks_barrier(self);
    }
    fixture_close(&fixture);
    add_sums(self);
}

static void test_control(void)
{
    plan_t plan;
    plan_ring(&plan, 3);
    for (unsigned r = 0; r < ROUTES; r++) {
        set_fault(routes[r], "", "RETRY_TIMEOUT_MS=2 SEGMENT_BYTES=4096");
        local_ranks_run(&(local_run_t){.size = 3, .log_expected = true, .body = damage_control, .arg = &plan});
        CHECK(r < 2 || control_damaged > 0);
    }
}

int main(void)
{
    local_ranks_mode("");
    test_recovery(1);
    test_reports();
    test_unchecked();
    test_control();
    local_ranks_mode("PROGRESS=thread");
    test_recovery(check_brief() ? 2 : 1);
    test_reports();
#ifndef SV_SANITIZES_THREAD /* takes its time, and has no threads that the others have not */
    if (!check_brief()) {
        local_ranks_mode("SOFT_MODE=inline");
        test_recovery(1);
    }
#endif
    return check_report("test_exchange_faults_local");
}
