/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leak_driver [leak]: what valgrind looks at. Two ranks as threads, the software device without threads of its own,
 * every route, long packets, a flipped bit that is sent again, an exchange destroyed before its commit; everything is
 * destroyed at the end. With "leak" memory of the library is lost on purpose, so that the script can see it found.
 */
#include "base/base_memory.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"

enum { EPOCHS = 2, LEAK_BYTES = 1000 };

static void add_packets(plan_t *plan)
{
    static const size_t bytes[] = {0, 13, 4097, 30000};
    for (int source = 0; source < 2; source++)
        for (int destination = 0; destination < 2; destination++)
            for (unsigned i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
                plan_add(plan, source, destination, 0, bytes[i])->registered = i == 3;
}

static void run_route(local_rank_t *self)
{
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_PEER, SELVAGE_ROUTE_SHARED, SELVAGE_ROUTE_STAGED,
                                             SELVAGE_ROUTE_DIRECT};
    fixture_t fixture;
    for (unsigned r = 0; r < 4; r++) {
        selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = routes[r]};
        if (fixture_open(&fixture, self, self->arg, &params))
            fixture_run(&fixture, EPOCHS);
        fixture_close(&fixture);
    }
    fixture_open(&fixture, self, self->arg, NULL);
    fixture_close(&fixture); /* never committed */
}

static void lose_memory(void)
{
    void *lost = NULL;
    CHECK_STATUS(sv_calloc(1, LEAK_BYTES, &lost), SELVAGE_SUCCESS);
    memset(&lost, 0, sizeof lost);
}

int main(int argc, char **argv)
{
    plan_t plan = {.seed = 5};
    add_packets(&plan);
    local_ranks_mode("SOFT_MODE=inline SEGMENT_BYTES=4096 RETRY_TIMEOUT_MS=60000");
    local_ranks_env("");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_route, .arg = &plan});
    local_ranks_env("FAULT=flip=1");
    local_ranks_run(&(local_run_t){.size = 2, .body = run_route, .arg = &plan, .log_expected = true});
    if (argc > 1 && strcmp(argv[1], "leak") == 0)
        lose_memory();
    return check_report("leak_driver");
}
