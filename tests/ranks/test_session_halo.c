/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random halos that kernels gather, send, await and scatter, against the naive reference, bit for bit: those of
 * test_halo_random. Two epochs of each session have two sets of arrays, and eager epochs come between sessions. Halos
 * that add are refused.
 *
 * Usage: test_session_halo [SEED]
 */
#include <stdlib.h>
#include <time.h>

#include "fixtures/check.h"
#include "fixtures/halo_case.h"
#include "fixtures/session_loops.h"

enum { CASES_PER_RUN = 8, BLOCKS = 2 };
#ifdef SV_SANITIZES_THREAD
enum { RUNS = 3 };
#else
enum { RUNS = 16 };
#endif

typedef struct batch {
    int count;
    halo_case_t test[CASES_PER_RUN];
    _Atomic int able[CASES_PER_RUN];
} batch_t;

static _Atomic int nsessions, nrefused;

static void eager(halo_part_t *part, selvage_halo_t *halo, uint64_t epoch)
{
    void *data[HALO_FIELDS_MAX];
    halo_part_fill(part, 0, epoch);
    halo_part_data(part, 0, data);
    CHECK_STATUS(selvage_halo_rebind(halo, data), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(halo, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(part->self->dev, NULL), SELVAGE_SUCCESS);
    CHECK(halo_part_check(part, 0, epoch));
}

static void in_kernel(halo_part_t *part, selvage_halo_t *halo, uint64_t epoch, uint32_t parts)
{
    selvage_device_t *dev = part->self->dev;
    session_halo_t arg = {.parts = parts};
    void *table;
    CHECK_STATUS(selvage_device_malloc(dev, 2 * HALO_FIELDS_MAX * sizeof(void *), &table), SELVAGE_SUCCESS);
    for (int set = 0; set < 2; set++) {
        arg.fields[set] = (void **)table + set * HALO_FIELDS_MAX;
        halo_part_fill(part, set, epoch + (uint64_t)set);
        halo_part_data(part, set, arg.fields[set]);
    }
    selvage_status_t status = selvage_halo_device(halo, 2, NULL, &arg.ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS)
        CHECK_STATUS(device_kernel_run(&session_halo, &arg, sizeof arg, BLOCKS, dev, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_wait(halo, NULL), SELVAGE_SUCCESS);
    for (int set = 0; set < 2; set++)
        CHECK(halo_part_check(part, set, epoch + (uint64_t)set));
    selvage_device_free(dev, table);
}

/* All ranks are able, or none tries. */
static bool is_able(local_rank_t *self, batch_t *batch, int number, selvage_halo_t *halo)
{
    const bool able = selvage_halo_device(halo, 1, NULL, NULL) == SELVAGE_SUCCESS;
    if (!able)
        CHECK(strstr(selvage_error_detail(), "has cells that are added") != NULL);
    atomic_fetch_add(&batch->able[number], able);
    local_ranks_barrier(self);
    const bool all = atomic_load(&batch->able[number]) == self->size;
    atomic_fetch_add(all ? &nsessions : &nrefused, 1);
    return all;
}

static void run_case(local_rank_t *self, batch_t *batch, int number)
{
    const halo_case_t *test = &batch->test[number];
    const halo_wish_t *wish = &test->wish[0];
    selvage_grid_t *grid = NULL;
    selvage_halo_t *halo = NULL;
    halo_part_t part;
    CHECK_STATUS(selvage_grid_create(self->comm, &test->grid, &grid), SELVAGE_SUCCESS);
    if (!grid)
        return;
    halo_part_open(&part, self, test, 0, grid);
    CHECK_STATUS(selvage_halo_create(grid, &wish->params, part.field, wish->nfields, &halo), SELVAGE_SUCCESS);
    if (halo && is_able(self, batch, number, halo)) {
        in_kernel(&part, halo, 1, 1);
        eager(&part, halo, 3);
        in_kernel(&part, halo, 4, 2);
        in_kernel(&part, halo, 6, 3);
        eager(&part, halo, 8);
    }
    selvage_halo_destroy(halo);
    halo_part_close(&part);
    selvage_grid_destroy(grid);
}

static void run_batch(local_rank_t *self)
{
    batch_t *batch = self->arg;
    for (int i = 0; i < batch->count; i++) {
        const long failed = atomic_load(&check_failed_);
        run_case(self, batch, i);
        local_ranks_barrier(self);
        if (self->rank == 0 && atomic_load(&check_failed_) != failed)
            halo_case_print(&batch->test[i]);
        local_ranks_barrier(self);
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    static batch_t batch;
    printf("seed %llu\n", (unsigned long long)seed);
    local_ranks_env("TIMEOUT_S=60");
    for (int run = 0; run < (check_brief() ? 4 : RUNS); run++) {
        const int size = 1 + run % 6;
        memset(&batch, 0, sizeof batch);
        for (batch.count = 0; batch.count < CASES_PER_RUN; batch.count++) {
            halo_case_t *test = &batch.test[batch.count];
            uint64_t number = seed * 1000 + (uint64_t)(run * CASES_PER_RUN + batch.count);
            do /* the first one of each run adds, so that some are refused whatever the seed */
                halo_case_make(test, size, number);
            while (batch.count == 0 && !test->wish[0].params.reverse && (number += 1000003) != 0);
            if (test->wish[0].params.route != SELVAGE_ROUTE_DEFAULT)
                test->wish[0].params.route = SELVAGE_ROUTE_PEER;
            if (batch.count % 4 != 0)
                test->wish[0].params.reverse = 0;
        }
        local_ranks_run(&(local_run_t){.size = size, .body = run_batch, .arg = &batch});
    }
    printf("halos in kernels: %d, refused: %d\n", nsessions, nrefused);
    CHECK(nsessions > 2 * nrefused && nrefused > 0);
    return check_report("session_halo");
}
