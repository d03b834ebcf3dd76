/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges that neighbours commit without other ranks: some of the ranks commit while others compute, are in commits
 * of their own, or in one of all ranks; neighbourhoods that change at random, with every byte checked, on all routes,
 * with words that are lost and memory that cannot be mapped. Then what fails: a rank that never comes, one that does
 * not name the other, lengths that differ, a rank that fails alone, one that does not destroy.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "comm/comm_control.h"
#include "pipeline/pipe_exchange.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "wire/wire.h"

enum { RANKS = 6, ROUNDS = 100, SLOTS = 3, GROUP_MAX = 4 };

static const selvage_exchange_params_t by_neighbors = {SELVAGE_EXCHANGE_PARAMS_INIT,
                                                       .scope = SELVAGE_SCOPE_NEIGHBORS};

static bool has_part(const plan_t *plan, int rank)
{
    for (unsigned i = 0; i < plan->count; i++)
        if (plan->packet[i].source == rank || plan->packet[i].destination == rank)
            return true;
    return false;
}

/* Both ways around some ranks, the last and the first included. */
static plan_t ring_of(const int *ranks, int count, size_t bytes)
{
    plan_t plan = {.seed = bytes + (uint64_t)ranks[0]};
    for (int i = 0; i < count; i++) {
        plan_add(&plan, ranks[i], ranks[(i + 1) % count], 3, bytes);
        plan_add(&plan, ranks[(i + 1) % count], ranks[i], 3, bytes + 8);
    }
    return plan;
}

static void check_says(const char *text)
{
    const bool said = strstr(selvage_error_detail(), text) != NULL;
    CHECK(said);
    if (!said)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
}

/* --- some commit, others do not ----------------------------------------------------------------------------------- */

static _Atomic int through;

/* 0, 1 and 2 commit; 3 and 4 commit something else; 5 calls nothing before all of them are through. */
static void commit_apart(local_rank_t *self)
{
    static const int three[] = {0, 1, 2}, two[] = {3, 4};
    const plan_t plan = self->rank < 3 ? ring_of(three, 3, 5000) : ring_of(two, 2, 70000);
    fixture_t fixture;
    if (self->rank == 0)
        atomic_store(&through, 0);
    local_ranks_barrier(self);
    if (self->rank < 5 && fixture_open(&fixture, self, &plan, &by_neighbors)) {
        fixture_run(&fixture, 3);
        fixture_close(&fixture);
        atomic_fetch_add(&through, 1);
    }
    while (self->rank == 5 && atomic_load(&through) < 5)
        usleep(1000);
}

/* 2 to 5 are in a commit of all ranks while 0 and 1 are in one of their own; then all are in an epoch of both. */
static void commit_beside_all(local_rank_t *self)
{
    static const int pair[] = {0, 1}, everybody[] = {0, 1, 2, 3, 4, 5};
    const plan_t some = ring_of(pair, 2, 3000), all = ring_of(everybody, RANKS, 4000);
    fixture_t own, shared;
    if (self->rank < 2 && fixture_open(&own, self, &some, &by_neighbors)) {
        if (self->rank == 0)
            usleep(20000);
        fixture_run(&own, 2);
    }
    if (fixture_open(&shared, self, &all, NULL))
        fixture_run(&shared, 2);
    if (self->rank < 2) {
        CHECK_STATUS(fixture_start(&own, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(own.ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(&own, true), 0);
        fixture_close(&own);
    }
    fixture_close(&shared);
}

/* Without packets, and with packets to the rank itself, nobody else is needed. */
static void commit_alone(local_rank_t *self)
{
    plan_t plan = {.seed = 4};
    fixture_t fixture;
    if (self->rank == 1) {
        for (int packets = 0; packets < 3; packets++) {
            if (packets > 0)
                plan_add(&plan, 1, 1, 0, 1000 * (size_t)packets);
            if (fixture_open(&fixture, self, &plan, &by_neighbors))
                fixture_run(&fixture, 2);
            fixture_close(&fixture);
        }
        atomic_store(&through, RANKS);
    }
    while (atomic_load(&through) < RANKS)
        usleep(1000);
}

/* --- neighbourhoods that change ----------------------------------------------------------------------------------- */

/* Words of commits are lost with one in so many. */
enum { LOST_ONE_IN = 6 };
static _Thread_local const sv_wire_ops_t *real_ops;
static _Thread_local uint64_t loss_state;

static selvage_status_t send_or_lose(sv_wire_t *wire, int peer, sv_wire_control_t *message)
{
    const uint64_t type = message->word[0];
    const bool of_commit = type == SV_CONTROL_HANDSHAKE || type == SV_CONTROL_HANDSHAKE_ACK ||
                           type == SV_CONTROL_NEIGHBOR || type == SV_CONTROL_NEIGHBOR_ACK;
    if (of_commit && local_ranks_random(&loss_state, LOST_ONE_IN) == 0)
        return SELVAGE_SUCCESS;
    return real_ops->control_send(wire, peer, message);
}

static plan_t random_plan(uint64_t *state, uint64_t round)
{
    static const size_t lengths[] = {0, 8, 100, 5000, 40000, 300000};
    plan_t plan = {.seed = round + 1};
    int group[GROUP_MAX];
    const int members = 2 + (int)local_ranks_random(state, GROUP_MAX - 1);
    const unsigned packets = 1 + (unsigned)local_ranks_random(state, 8);
    for (int i = 0; i < members; i++)
        group[i] = (int)local_ranks_random(state, RANKS);
    for (unsigned i = 0; i < packets; i++) {
        const int source = group[local_ranks_random(state, (uint64_t)members)];
        const int destination = group[local_ranks_random(state, (uint64_t)members)];
        plan_packet_t *packet = plan_add(&plan, source, destination, (int)local_ranks_random(state, 3),
                                         lengths[local_ranks_random(state, 6)]);
        packet->registered = local_ranks_random(state, 3) == 0;
        packet->recv_odd = (unsigned)local_ranks_random(state, 2) * 8;
    }
    return plan;
}

static void run_epoch(fixture_t *fixture)
{
    CHECK_STATUS(fixture_start(fixture, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(fixture->ex, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(fixture_wrong(fixture, true), 0);
}

/* All ranks know all rounds, but only those with packets in one do anything in it. */
static void change_often(local_rank_t *self)
{
    plan_t *plans = calloc(SLOTS, sizeof *plans);
    fixture_t fixtures[SLOTS];
    uint64_t state = 77;
    const uint64_t rounds = (uint64_t)check_part(ROUNDS);
    for (uint64_t round = 0; round < rounds + SLOTS; round++) {
        const uint64_t slot = round % SLOTS, other = (round + 1) % SLOTS;
        if (has_part(&plans[slot], self->rank))
            fixture_close(&fixtures[slot]);
        plans[slot] = round < rounds ? random_plan(&state, round) : (plan_t){0};
        if (has_part(&plans[slot], self->rank) &&
            fixture_open(&fixtures[slot], self, &plans[slot], self->arg))
            fixture_run(&fixtures[slot], 2);
        if (has_part(&plans[other], self->rank))
            run_epoch(&fixtures[other]);
    }
    free(plans);
}

/* --- memory that cannot be mapped --------------------------------------------------------------------------------- */

/* A ring of lists and of one piece each: some pair falls back, the others do not. */
static void send_lists(local_rank_t *self)
{
    enum { ELEMENTS = 500, COUNT = 200 };
    int64_t indices[COUNT];
    const int right = (self->rank + 1) % self->size, left = (self->rank + self->size - 1) % self->size;
    for (int i = 0; i < COUNT; i++)
        indices[i] = 2 * i + i % 2;
    for (int again = 0; again < 3; again++) {
        selvage_exchange_t *ex;
        uint64_t *out, *in;
        CHECK_STATUS(selvage_device_malloc(self->dev, 2 * ELEMENTS * 8, (void **)&out), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_malloc(self->dev, 2 * ELEMENTS * 8, (void **)&in), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_create(self->comm, &by_neighbors, &ex), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_send_indexed(ex, out, 8, indices, COUNT, right, 1, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_recv_indexed(ex, in, 8, indices, COUNT, left, 1, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_send(ex, out + ELEMENTS, ELEMENTS * 8, left, 2, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_add_recv(ex, in + ELEMENTS, ELEMENTS * 8, right, 2, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
        for (uint64_t epoch = 1; epoch <= 3; epoch++) {
            unsigned wrong = 0;
            for (uint64_t i = 0; i < 2 * ELEMENTS; i++) {
                out[i] = epoch << 32 | (uint64_t)self->rank << 16 | i;
                in[i] = 0;
            }
            CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
            CHECK_STATUS(selvage_exchange_wait(ex, NULL), SELVAGE_SUCCESS);
            for (int i = 0; i < COUNT; i++)
                wrong += in[indices[i]] != (epoch << 32 | (uint64_t)left << 16 | (uint64_t)indices[i]);
            for (uint64_t i = ELEMENTS; i < 2 * ELEMENTS; i++)
                wrong += in[i] != (epoch << 32 | (uint64_t)right << 16 | i);
            CHECK_EQ(wrong, 0);
        }
        selvage_exchange_destroy(ex);
        selvage_device_free(self->dev, out);
        selvage_device_free(self->dev, in);
    }
}

static void change_with_losses(local_rank_t *self)
{
    sv_wire_t *wire = self->comm->wire;
    sv_wire_ops_t lossy = *wire->ops;
    real_ops = wire->ops;
    loss_state = (uint64_t)self->rank + 1;
    lossy.control_send = send_or_lose;
    wire->ops = &lossy;
    change_often(self);
    wire->ops = real_ops;
}

/* --- what fails --------------------------------------------------------------------------------------------------- */

/* Of a leak sanitizer, if there is one. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

/* What this thread allocates meanwhile may stay: it is set aside where a neighbour does not say in time that it has let
   go. */
static void let_leak(bool begin)
{
    if (begin && __lsan_disable)
        __lsan_disable();
    if (!begin && __lsan_enable)
        __lsan_enable();
}

/* Of rank 0. Once all are there: on a crowded machine a thread may stand still for seconds before. */
static void set_deadline(local_rank_t *self, double timeout_s)
{
    local_ranks_barrier(self);
    if (self->rank == 0)
        self->comm->timeout_s = timeout_s; /* nothing else drives it */
}

/* 1 commits with 2 only, and 0 names 1: an error at 0's deadline, none at the others; later 0 and 1 get on. */
static void name_one_side(local_rank_t *self)
{
    static const int pair[] = {0, 1}, others[] = {1, 2};
    const plan_t lonely = ring_of(pair, 2, 100), plan = ring_of(others, 2, 200);
    fixture_t fixture;
    set_deadline(self, 0.5);
    const uint64_t begin_ns = sv_clock_ns();
    if (self->rank == 0) {
        CHECK(fixture_open(&fixture, self, &lonely, &by_neighbors));
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_TIMEOUT);
        check_says("rank 1 has not come for 0.5 s");
        CHECK((double)(sv_clock_ns() - begin_ns) < 20e9);
        CHECK_STATUS(selvage_exchange_start(fixture.ex, NULL), SELVAGE_ERR_TIMEOUT);
        fixture_close(&fixture);
    } else {
        CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
        fixture_run(&fixture, 2);
        fixture_close(&fixture);
    }
    set_deadline(self, 60);
    if (self->rank < 2) {
        CHECK(fixture_open(&fixture, self, &lonely, &by_neighbors));
        fixture_run(&fixture, 2);
        fixture_close(&fixture);
    }
}

static _Atomic bool announced, left;

/* 1 stands still once it has announced itself to 0, until that has left. */
static selvage_status_t send_and_tell(sv_wire_t *wire, int peer, sv_wire_control_t *message)
{
    const bool announces = message->word[0] == SV_CONTROL_HANDSHAKE && wire->rank == 1 && peer == 0;
    const bool leaves = message->word[0] == SV_CONTROL_NEIGHBOR && message->word[3] == SV_STAGE_LEFT;
    const selvage_status_t status = real_ops->control_send(wire, peer, message);
    if (announces)
        atomic_store(&announced, true);
    while (announces && !atomic_load(&left))
        usleep(1000);
    if (leaves && wire->rank == 0 && peer == 1)
        atomic_store(&left, true);
    return status;
}

/* 2 computes all the time. 1 hears of it from 0, whose deadline is over first, and names 0: which has met 1 at once,
   because 1 had announced itself before, and which has left when 1 takes up that 0 was there. */
static void never_come(local_rank_t *self)
{
    static const int ring[] = {0, 2, 1};
    const plan_t plan = ring_of(ring, 3, 100);
    sv_wire_t *wire = self->comm->wire;
    sv_wire_ops_t telling = *wire->ops;
    fixture_t fixture;
    real_ops = wire->ops;
    telling.control_send = send_and_tell;
    if (self->rank == 0) {
        atomic_store(&through, 0);
        atomic_store(&announced, false);
        atomic_store(&left, false);
    }
    set_deadline(self, 0.5);
    wire->ops = &telling;
    while (self->rank == 0 && !atomic_load(&announced))
        usleep(1000);
    if (self->rank < 2) {
        let_leak(true);
        CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
        (void)sv_comm_poll(self->comm);
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_TIMEOUT);
        check_says(self->rank == 0 ? "rank 2 has not come for 0.5 s" : "failed on rank 0, a neighbour");
        fixture_close(&fixture);
        let_leak(false);
        atomic_fetch_add(&through, 1);
    }
    while (atomic_load(&through) < 2)
        usleep(1000);
    wire->ops = real_ops;
}

/* A pair that does not agree on a length; other ranks commit meanwhile. */
static void differ_in_bytes(local_rank_t *self)
{
    static const int pair[] = {0, 1}, others[] = {2, 3};
    plan_t plan = self->rank < 2 ? ring_of(pair, 2, 100) : ring_of(others, 2, 100);
    fixture_t fixture;
    if (self->rank == 1)
        plan.packet[0].bytes = 108;
    let_leak(true);
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    if (self->rank < 2)
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_MISMATCH);
    else
        fixture_run(&fixture, 2);
    fixture_close(&fixture);
    let_leak(false);
}

/* A chain, in which rank 0 cannot commit: receives overlap. Its neighbour hears why, and in any case nobody takes an
   exchange for good whose neighbour has none. */
static void fail_at_the_end(local_rank_t *self)
{
    plan_t plan = {.seed = 5};
    fixture_t fixture;
    for (int i = 0; i + 1 < self->size; i++) {
        plan_add(&plan, i, i + 1, 0, 4000);
        plan_add(&plan, i + 1, i, 0, 4000);
    }
    let_leak(true);
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    if (self->rank == 0) {
        CHECK_STATUS(selvage_exchange_add_recv(fixture.ex, fixture.recv[1].data, 8, 1, 7, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_ARGUMENT);
    } else {
        selvage_status_t status = selvage_exchange_commit(fixture.ex);
        if (self->rank < 4)
            CHECK_STATUS(status, SELVAGE_ERR_ARGUMENT);
        if (self->rank < 4)
            check_says("a neighbour");
        if (status == SELVAGE_SUCCESS)
            status = fixture_start(&fixture, NULL);
        if (status == SELVAGE_SUCCESS)
            status = selvage_exchange_wait(fixture.ex, NULL);
        CHECK(status < 0);
    }
    fixture_close(&fixture);
    let_leak(false);
}

/* Who destroys waits for its neighbours, and for nobody else; without them, until the deadline. */
static void destroy_late(local_rank_t *self)
{
    static const int pair[] = {0, 1};
    const bool never = *(const bool *)self->arg;
    const plan_t plan = ring_of(pair, 2, 6000);
    fixture_t fixture;
    if (self->rank == 0)
        atomic_store(&through, 0);
    local_ranks_barrier(self);
    if (self->rank < 2) {
        const bool stays = never && self->rank == 0; /* its memory is set aside */
        CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
        if (stays)
            let_leak(true);
        fixture_run(&fixture, 2);
        if (stays)
            let_leak(false);
    }
    if (never)
        set_deadline(self, 0.5);
    if (self->rank == 1) {
        usleep(never ? 0 : 100000);
        while (never && atomic_load(&through) == 0)
            usleep(1000);
        atomic_fetch_add(&through, 1);
        fixture_close(&fixture);
    }
    if (self->rank == 0) {
        fixture_close(&fixture);
        CHECK_EQ(atomic_fetch_add(&through, 1), never ? 0 : 1);
    }
    while (atomic_load(&through) < 2)
        usleep(1000);
}

static void refuse_scope(local_rank_t *self)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .scope = (selvage_scope_t)7};
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_ERR_ARGUMENT);
    check_says("params.scope is 7");
    const selvage_exchange_params_t later = {SELVAGE_EXCHANGE_PARAMS_INIT, .reserved = 1};
    CHECK_STATUS(selvage_exchange_create(self->comm, &later, &ex), SELVAGE_ERR_ARGUMENT);
    check_says("params.reserved is 1, not 0");
}

static void play_changes(void)
{
    static const struct {
        const char *env;
        int ranks_per_node;
        selvage_route_t route;
        bool log_expected;
    } modes[] = {
        {"", 0, SELVAGE_ROUTE_DEFAULT, false},
        {"", 2, SELVAGE_ROUTE_DEFAULT, false},
        {"PROGRESS=thread", 0, SELVAGE_ROUTE_DEFAULT, false},
        {"ROUTE=shared", 0, SELVAGE_ROUTE_DEFAULT, false},
        {"", 0, SELVAGE_ROUTE_STAGED, false},
        {"ROUTE=direct", 0, SELVAGE_ROUTE_DEFAULT, false},
        {"FAULT=flip=0.05,drop=0.05 RETRY_TIMEOUT_MS=20", 0, SELVAGE_ROUTE_DEFAULT, true},
        {"FAULT=map=3", 0, SELVAGE_ROUTE_DEFAULT, true},
        {"FAULT=ipc=3+", 0, SELVAGE_ROUTE_DEFAULT, true},
    };
    for (size_t i = 0; i < (check_brief() ? 1 : sizeof modes / sizeof modes[0]); i++) {
        selvage_exchange_params_t params = by_neighbors;
        params.route = modes[i].route;
        local_ranks_env(modes[i].env);
        local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = modes[i].ranks_per_node, .body = change_often,
                                       .arg = &params, .log_expected = modes[i].log_expected});
    }
    selvage_exchange_params_t params = by_neighbors;
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = RANKS, .body = change_with_losses, .arg = &params});
}

static void play_mappings(void)
{
    static const char *const faults[] = {"FAULT=map=1", "FAULT=map=2", "FAULT=ipc=1", "FAULT=map=1+", "FAULT=ipc=1+"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        local_ranks_env(faults[i]);
        local_ranks_run(&(local_run_t){.size = 4, .body = send_lists, .log_expected = true});
        CHECK(local_ranks_any_logged("its packets go by route"));
    }
    local_ranks_env("");
}

int main(void)
{
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = RANKS, .body = commit_apart});
    local_ranks_run(&(local_run_t){.size = RANKS, .body = commit_beside_all});
    atomic_store(&through, 0);
    local_ranks_run(&(local_run_t){.size = 2, .body = commit_alone});
    play_changes();
    play_mappings();
    local_ranks_run(&(local_run_t){.size = 3, .body = name_one_side, .log_expected = true});
    local_ranks_run(&(local_run_t){.size = 3, .body = never_come, .log_expected = true, .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 4, .body = differ_in_bytes, .log_expected = true, .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 8, .body = fail_at_the_end, .log_expected = true, .may_set_aside = true});
    bool never = false;
    local_ranks_run(&(local_run_t){.size = 3, .body = destroy_late, .arg = &never});
    never = true;
    local_ranks_run(&(local_run_t){.size = 3, .body = destroy_late, .arg = &never, .log_expected = true,
                                   .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 1, .body = refuse_scope, .log_expected = true});
    return check_report("test_exchange_neighbors");
}
