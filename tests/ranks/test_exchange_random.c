/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random exchanges. A seed decides ranks, nodes, packets, sizes, tags, settings, and in which order several exchanges
 * are started and completed; the reference is plain: the content of every packet follows from its place in the plan and
 * the epoch. Usage: test_exchange_random [seed...]
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "device/device.h"
#include "fixtures/fixture_exchange.h"

enum { FLOWS = 3, ROUNDS = 5 };
#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { CASES = 2 };
#else
enum { CASES = 4 };
#endif

typedef struct chaos {
    uint64_t seed;
    int size;
    size_t alone_bytes; /* what one block moves: of GPUs' devices only, otherwise */
    plan_t plan[FLOWS];
    selvage_exchange_params_t params[FLOWS];
} chaos_t;

static size_t random_bytes(uint64_t *state)
{
    switch (local_ranks_random(state, 5)) {
    case 0: return local_ranks_random(state, 10);
    case 1: return local_ranks_random(state, 200);
    case 2: return 4096 * local_ranks_random(state, 4) + local_ranks_random(state, 3);
    case 3: return local_ranks_random(state, 70000);
    default: return local_ranks_random(state, 20000);
    }
}

static void make_plan(plan_t *plan, int size, uint64_t *state)
{
    *plan = (plan_t){.seed = local_ranks_random(state, 1000)};
    unsigned count = (unsigned)local_ranks_random(state, 40);
    for (unsigned i = 0; i < count; i++) {
        int source = (int)local_ranks_random(state, (uint64_t)size);
        int destination = (int)local_ranks_random(state, (uint64_t)size);
        plan_packet_t *packet = plan_add(plan, source, destination, (int)local_ranks_random(state, 3),
                                         random_bytes(state));
        packet->send_odd = (unsigned)local_ranks_random(state, 16);
        packet->recv_odd = (unsigned)local_ranks_random(state, 16);
        packet->registered = local_ranks_random(state, 2);
    }
}

/* A rank's own order: not the order of the other ranks, so that nobody may rely on another's. */
static void shuffle(int order[FLOWS], uint64_t *state)
{
    for (int i = 0; i < FLOWS; i++)
        order[i] = i;
    for (int i = FLOWS - 1; i > 0; i--) {
        int j = (int)local_ranks_random(state, (uint64_t)i + 1), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

static void complete(fixture_t *fixture, bool by_test)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    for (unsigned turns = 0; by_test && (status = selvage_exchange_test(fixture->ex, NULL)) == SELVAGE_IN_PROGRESS;) {
        (void)selvage_progress(fixture->self->comm);
        check_wait_turn(&turns);
    }
    if (!by_test)
        status = selvage_exchange_wait(fixture->ex, NULL);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK_EQ(fixture_wrong(fixture, true), 0);
}

static void step(fixture_t *fixture, uint64_t *state)
{
    int order[FLOWS];
    shuffle(order, state);
    for (int i = 0; i < FLOWS; i++)
        CHECK_STATUS(fixture_start(&fixture[order[i]], NULL), SELVAGE_SUCCESS);
    shuffle(order, state);
    for (int i = 0; i < FLOWS; i++)
        complete(&fixture[order[i]], local_ranks_random(state, 2));
}

static void run_chaos(local_rank_t *self)
{
    const chaos_t *chaos = self->arg;
    fixture_t fixture[FLOWS];
    uint64_t state = chaos->seed * 64 + (uint64_t)self->rank;
    int good = 0;
    self->dev->kernel_alone_bytes = chaos->alone_bytes;
    for (int i = 0; i < FLOWS; i++) {
        good += fixture_open(&fixture[i], self, &chaos->plan[i], &chaos->params[i]);
        CHECK_STATUS(selvage_exchange_commit(fixture[i].ex), SELVAGE_SUCCESS);
    }
    for (int round = 0; round < ROUNDS && good == FLOWS; round++)
        step(fixture, &state);
    for (int i = 0; i < FLOWS; i++)
        fixture_close(&fixture[i]);
}

static void run_seed(uint64_t seed)
{
    static const char *const settings[] = {
        "", "SEGMENT_BYTES=4096 SEGMENT_SLOTS=2", "KERNEL_COPY_MAX_BYTES=0", "SEGMENT_BYTES=8192 SEGMENT_SLOTS=3",
        "ROUTE=shared", "ROUTE=staged SEGMENT_BYTES=4096", "INTRANODE=measured", "ROUTE=staged REQUESTS_MAX=2",
        "ROUTE=direct DIRECT_MESSAGE_BYTES=4096 REQUESTS_MAX=3", "ROUTE=direct", "DIRECT=probe",
        "EARLY_WAIT_US=300", "EARLY_WAIT_US=300 ROUTE=staged"};
    static chaos_t chaos;
    uint64_t state = seed;
    long failed = atomic_load(&check_failed_);
    chaos = (chaos_t){.seed = seed, .size = 2 + (int)local_ranks_random(&state, 5)};
    for (int i = 0; i < FLOWS; i++) {
        make_plan(&chaos.plan[i], chaos.size, &state);
        chaos.params[i] = (selvage_exchange_params_t){SELVAGE_EXCHANGE_PARAMS_INIT};
        if (local_ranks_random(&state, 4) == 0)
            chaos.params[i].route = local_ranks_random(&state, 2) ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_DIRECT;
        if (local_ranks_random(&state, 4) == 0)
            chaos.params[i].checksum = SELVAGE_CHECKSUM_OFF;
    }
    local_ranks_env(settings[local_ranks_random(&state, sizeof settings / sizeof settings[0])]);
    int per_node = (int)local_ranks_random(&state, 4);
    chaos.alone_bytes = local_ranks_random(&state, 2) ? 32 << 10 : 0;
    local_ranks_run(&(local_run_t){.size = chaos.size, .ranks_per_node = per_node, .body = run_chaos, .arg = &chaos});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "seed %llu: %d ranks, %d per node\n", (unsigned long long)seed, chaos.size, per_node);
}

static void run_mode(const char *mode, uint64_t first, uint64_t count)
{
    local_ranks_mode(mode);
    for (uint64_t seed = first; seed < first + count; seed++)
        run_seed(seed);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_mode("", strtoull(argv[i], NULL, 0), 1);
    if (argc == 1) {
        run_mode("", 1, 3 * CASES);
        run_mode("PROGRESS=thread", 101, CASES + CASES / 2);
        run_mode("SOFT_MODE=inline", 201, CASES);
    }
    return check_report("test_exchange_random");
}
