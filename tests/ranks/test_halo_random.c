/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random halos against the naive reference, bit for bit: every number of ranks from 1 to 16 in 1 to 4 dimensions;
 * extents, splits, periods and maps; widths per side, staggers, parities; orders, strides, gaps and records of memory;
 * faces, edges, corners or any subset of directions; forward and reverse; one or two halos in flight, each with several
 * fields; every route; arrays that are swapped. Whatever is no halo must not change.
 *
 * Usage: test_halo_random [-n CASES] [SEED]; the seed is the clock's unless given, and always printed. The cases of a
 * seed are the same with any number of them.
 */
#include <stdlib.h>
#include <time.h>

#include "fixtures/check.h"
#include "fixtures/halo_case.h"

enum { CASES_PER_RUN = 8, EPOCHS = 3 };
#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { CASES = 24 };
#elif defined(SV_SANITIZES_ADDRESS) /* three times as long */
enum { CASES = 160 };
#else
enum { CASES = 500 };
#endif

/* Cases that the same ranks work through, one after the other. */
typedef struct batch {
    int count;
    halo_case_t test[CASES_PER_RUN];
} batch_t;

/* The halos of a case on one rank. */
typedef struct flight {
    const halo_case_t *test;
    int nparts;
    halo_part_t part[HALO_PARTS_MAX];
    selvage_halo_t *halo[HALO_PARTS_MAX];
    uint64_t state;
} flight_t;

static selvage_status_t finish(flight_t *flight, int w)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    if (local_ranks_random(&flight->state, 2))
        return selvage_halo_wait(flight->halo[w], NULL);
    for (unsigned turns = 0; (status = selvage_halo_test(flight->halo[w], NULL)) == SELVAGE_IN_PROGRESS;)
        check_wait_turn(&turns); /* ranks outnumber cores */
    return status;
}

/* All halos are started before any is waited for, in an order that is this rank's own. */
static bool step(flight_t *flight, uint64_t epoch)
{
    int set = (int)(epoch % HALO_SETS), last = flight->nparts - 1;
    int first = (int)local_ranks_random(&flight->state, (uint64_t)flight->nparts);
    selvage_status_t status = SELVAGE_SUCCESS;
    bool good = true;
    for (int w = 0; w < flight->nparts && status == SELVAGE_SUCCESS; w++) {
        void *data[HALO_FIELDS_MAX];
        halo_part_fill(&flight->part[w], set, epoch);
        halo_part_data(&flight->part[w], set, data);
        status = selvage_halo_rebind(flight->halo[w], data);
    }
    for (int w = 0; w < flight->nparts && status == SELVAGE_SUCCESS; w++)
        status = selvage_halo_start(flight->halo[(first + w) % flight->nparts], NULL);
    for (int w = 0; w < flight->nparts && status == SELVAGE_SUCCESS; w++)
        status = finish(flight, last - w);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(flight->part[0].self->dev, NULL), SELVAGE_SUCCESS);
    for (int w = 0; w < flight->nparts && good; w++)
        good = halo_part_check(&flight->part[w], set, epoch);
    CHECK(good);
    return status == SELVAGE_SUCCESS; /* wrong bytes do not keep the ranks from going on together */
}

static void check_info(const flight_t *flight, int w)
{
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    CHECK_STATUS(selvage_halo_describe(flight->halo[w], &info), SELVAGE_SUCCESS);
    CHECK(info.packets >= 0 && info.packets <= flight->test->size);
    CHECK(info.bytes_contiguous <= info.bytes_sent);
    CHECK_EQ(info.bytes_sent % 16, 0);
    CHECK_EQ(info.bytes_sent > 0, info.packets > 0);
}

static void fly(local_rank_t *self, const halo_case_t *test, selvage_grid_t *grid)
{
    flight_t flight = {.test = test, .state = test->seed * 16 + (uint64_t)self->rank};
    bool good = true;
    for (int w = 0; w < test->nparts && good; w++, flight.nparts++) {
        const halo_wish_t *wish = &test->wish[w];
        halo_part_open(&flight.part[w], self, test, w, grid);
        selvage_status_t status = selvage_halo_create(grid, &wish->params, flight.part[w].field, wish->nfields,
                                                      &flight.halo[w]);
        CHECK_STATUS(status, SELVAGE_SUCCESS);
        good = status == SELVAGE_SUCCESS;
        if (good)
            check_info(&flight, w);
    }
    for (uint64_t epoch = 1; epoch <= EPOCHS && good; epoch++)
        good = step(&flight, epoch);
    for (int w = 0; w < flight.nparts; w++) {
        selvage_halo_destroy(flight.halo[w]);
        halo_part_close(&flight.part[w]);
    }
}

static void run_batch(local_rank_t *self)
{
    batch_t *batch = self->arg;
    for (int i = 0; i < batch->count; i++) {
        const halo_case_t *test = &batch->test[i];
        long failed = atomic_load(&check_failed_);
        selvage_grid_t *grid = NULL;
        CHECK_STATUS(selvage_grid_create(self->comm, &test->grid, &grid), SELVAGE_SUCCESS);
        if (grid)
            fly(self, test, grid);
        selvage_grid_destroy(grid);
        local_ranks_barrier(self);
        if (self->rank == 0 && atomic_load(&check_failed_) != failed)
            halo_case_print(test);
        local_ranks_barrier(self);
    }
}

/* A rank on another node is not reached by all routes that a case may ask for. */
static void spare_routes(halo_case_t *test)
{
    for (int w = 0; w < test->nparts; w++) {
        selvage_route_t *route = &test->wish[w].params.route;
        if (*route == SELVAGE_ROUTE_PEER || *route == SELVAGE_ROUTE_SHARED)
            *route = SELVAGE_ROUTE_DEFAULT;
    }
}

/* The cases of a seed from number first on, which have the same number of ranks. */
static void run(uint64_t seed, int first, int count)
{
    static const char *const settings[] = {
        "", "SEGMENT_BYTES=4096 SEGMENT_SLOTS=2", "KERNEL_COPY_MAX_BYTES=0", "ROUTE=staged", "ROUTE=shared",
        "PROGRESS=thread", "SOFT_MODE=inline", "KERNEL_COPY_MAX_BYTES=256 ROUTE=staged SEGMENT_BYTES=4096"};
    static batch_t batch;
    static local_run_t plan;
    int group = first / CASES_PER_RUN + (int)(seed % 1000);
    int size = 1 + group % HALO_RANKS_MAX, per_node = group % 3 ? 0 : 1 + group % 5;
    batch.count = count;
    for (int i = 0; i < count; i++) {
        halo_case_make(&batch.test[i], size, seed * 1000003 + (uint64_t)(first + i));
        if (per_node)
            spare_routes(&batch.test[i]);
    }
    local_ranks_env(settings[(group / 2) % (int)(sizeof settings / sizeof settings[0])]);
    plan = (local_run_t){.size = size, .ranks_per_node = per_node, .body = run_batch, .arg = &batch};
    local_ranks_run(&plan);
}

int main(int argc, char **argv)
{
    int cases = check_part(3) < 3 ? CASES / 5 : CASES, at = 1;
    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        cases = atoi(argv[2]);
        at = 3;
    }
    uint64_t seed = argc > at ? strtoull(argv[at], NULL, 0) : (uint64_t)time(NULL) % 1000000;
    printf("test_halo_random: %d cases, seed %llu\n", cases, (unsigned long long)seed);
    fflush(stdout);
    for (int first = 0; first < cases; first += CASES_PER_RUN) {
        long failed = atomic_load(&check_failed_);
        run(seed, first, cases - first < CASES_PER_RUN ? cases - first : CASES_PER_RUN);
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "failed: test_halo_random -n %d %llu\n", first + CASES_PER_RUN, (unsigned long long)seed);
    }
    return check_report("test_halo_random");
}
