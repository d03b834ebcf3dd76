/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs of one packet each way between two ranks, driven by one thread in a fixed order, for a tool that counts
 * instructions: everything between start and landed happens in drive_epochs(), and nothing else does. The device is
 * inline, so that its kernels are counted too, and alike each time.
 *
 *   epoch_cost ROUTE BYTES EPOCHS
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"

enum { RANKS = 2, TESTS_MAX = 200 };

static pthread_barrier_t both;
static selvage_exchange_t *exchanges[RANKS];
static selvage_comm_t *comms[RANKS];
static selvage_route_t route;
static size_t packet_bytes;
static int epochs, most_tests;

__attribute__((noinline)) static void drive_epochs(int count)
{
    for (int epoch = 0; epoch < count; epoch++) {
        int tests = 0;
        bool ended[RANKS] = {false, false};
        for (int r = 0; r < RANKS; r++)
            CHECK_STATUS(selvage_exchange_start(exchanges[r], NULL), SELVAGE_SUCCESS);
        while (!(ended[0] && ended[1]) && tests++ < TESTS_MAX)
            for (int r = 0; r < RANKS; r++)
                if (!ended[r])
                    ended[r] = selvage_exchange_test(exchanges[r], NULL) == SELVAGE_SUCCESS;
        CHECK(ended[0] && ended[1]);
        most_tests = tests > most_tests ? tests : most_tests;
    }
}

static void run_rank(local_rank_t *self)
{
    const int other = 1 - self->rank;
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    uint8_t *out = calloc(packet_bytes, 1), *in = calloc(packet_bytes, 1);
    CHECK(out && in);
    local_ranks_fill(out, packet_bytes, (uint64_t)self->rank);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &exchanges[self->rank]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(exchanges[self->rank], out, packet_bytes, other, 1, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(exchanges[self->rank], in, packet_bytes, other, 1, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(exchanges[self->rank]), SELVAGE_SUCCESS);
    comms[self->rank] = self->comm;
    local_ranks_barrier(self);
    pthread_barrier_wait(&both);
    if (self->rank == 0)
        drive_epochs(epochs);
    pthread_barrier_wait(&both);
    CHECK_EQ(local_ranks_wrong(in, packet_bytes, (uint64_t)other), -1);
    selvage_exchange_destroy(exchanges[self->rank]);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"staged", "shared", "peer"};
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_STAGED, SELVAGE_ROUTE_SHARED, SELVAGE_ROUTE_PEER};
    if (argc != 4)
        return 2;
    for (int i = 0; i < 3; i++)
        if (strcmp(argv[1], names[i]) == 0)
            route = routes[i];
    packet_bytes = (size_t)strtoul(argv[2], NULL, 10);
    epochs = (int)strtol(argv[3], NULL, 10);
    local_ranks_mode("SOFT_MODE=inline RETRY_TIMEOUT_MS=60000");
    pthread_barrier_init(&both, NULL, RANKS);
    local_ranks_run(&(local_run_t){.size = RANKS, .body = run_rank});
    pthread_barrier_destroy(&both);
    printf("%s, %zu bytes: %d epochs, at most %d looks in each\n", argv[1], packet_bytes, epochs, most_tests);
    return check_report("epoch_cost");
}
