/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over MPI, a process per rank, on whatever device there is: every call, type and operation once, then
 * random cases, then the same in the parts of a split. Run by tests/mpi/test_coll_mpi.sh.
 *
 * Usage: coll_mpi ORDER CASES SEED [STRIDE]: ORDER is `ranks` if the algorithm that the environment asks for adds in
 * the order of ranks, so that bits are compared, else `any`; or `exact`, with SELVAGE_SUM=exact: the bits of sums of
 * float32 and float64 are compared, too, with those of exact_reference.h. CASES random ones; of the systematic ones
 * each STRIDE-th.
 */
#include <mpi.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "fixtures/exact_reference.h"
#include <selvage.h>

enum { CAPACITY = 1 << 18 };

typedef struct plan {
    bool any_order, exact, host_waits;
    int cases;
    uint64_t seed;
    unsigned stride;
} plan_t;

/* What cannot be exact in another order is not asked of algorithms that have one. */
static void fit_to_call(coll_case_t *what, const plan_t *plan)
{
    what->any_order = plan->any_order;
    if (what->any_order && what->terms.values == COLL_SPECIAL)
        what->terms.values = COLL_ORDERED;
    if (what->terms.values == COLL_SMALL && what->terms.nranks > 8 && coll_type_bytes(what->terms.type) == 1)
        what->terms.type = SELVAGE_INT8;
}

static void run_plan(selvage_coll_t *coll, selvage_device_t *dev, const plan_t *plan)
{
    coll_try_t try;
    coll_case_t what;
    void *stream = NULL;
    uint64_t state = plan->seed;
    const int size = selvage_coll_size(coll);
    CHECK_STATUS(selvage_stream_create(dev, &stream), SELVAGE_SUCCESS);
    coll_try_open(&try, coll, dev, CAPACITY, true);
    try.host_waits = plan->host_waits;
    for (unsigned i = (unsigned)plan->seed % plan->stride; coll_case_systematic(i, size, &what); i += plan->stride) {
        fit_to_call(&what, plan);
        coll_try_run(&try, &what, stream);
    }
    for (int i = 0; i < plan->cases; i++) {
        what = coll_case_random(&state, size, CAPACITY);
        fit_to_call(&what, plan);
        coll_try_run(&try, &what, stream);
    }
    coll_try_close(&try);
    selvage_stream_destroy(dev, stream);
}

/* Whether an element is the exact sum of what all ranks gave at this place. */
static bool is_exact_sum(const coll_terms_t *terms, uint64_t place, const uint8_t *found)
{
    uint64_t wide[64];
    uint32_t narrow[64];
    bool cut;
    for (int r = 0; r < terms->nranks; r++)
        coll_terms_value(terms, r, place, terms->type == SELVAGE_FLOAT64 ? (void *)&wide[r] : (void *)&narrow[r]);
    if (terms->type == SELVAGE_FLOAT64) {
        wide[0] = exact_sum_float64(wide, terms->nranks, &cut);
        return memcmp(&wide[0], found, 8) == 0;
    }
    narrow[0] = exact_sum_float32(narrow, terms->nranks, &cut);
    return memcmp(&narrow[0], found, 4) == 0;
}

/* Sums whose bits would depend on the order. */
static void run_exact(selvage_coll_t *coll, selvage_device_t *dev, const plan_t *plan)
{
    static const int calls[] = {COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_REDUCE};
    const int size = selvage_coll_size(coll), rank = selvage_coll_rank(coll);
    coll_try_t try;
    coll_try_open(&try, coll, dev, CAPACITY, true);
    try.host_waits = plan->host_waits;
    for (unsigned i = 0; i < 24 && size > 1; i++) {
        coll_case_t what = {.call = calls[i % 3], .count = i / 6 * 521 + 1, .any_order = true, .root = (int)i % size,
                            .in_place = i % 4 == 1, .shift = i % 3, .registered = i % 2 ? UINT32_MAX : 0};
        what.terms = (coll_terms_t){.type = i / 3 % 2 ? SELVAGE_FLOAT64 : SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM,
                                    .values = COLL_ORDERED, .nranks = size, .seed = plan->seed + i};
        size_t bytes;
        long wrong = 0;
        coll_try_run(&try, &what, NULL);
        const uint8_t *output = coll_try_output(&try, &bytes);
        const size_t each = coll_type_bytes(what.terms.type);
        const uint64_t first = what.call == COLL_REDUCE_SCATTER ? (uint64_t)rank * what.count : 0;
        for (uint64_t e = 0; e < what.count && (what.call != COLL_REDUCE || rank == what.root); e++)
            wrong += !is_exact_sum(&what.terms, first + e, output + e * each);
        CHECK_EQ(wrong, 0);
    }
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    coll_try_close(&try);
}

/* Neighbours in pairs of two parts, in reverse order; then all again, after the parts. */
static void run_split(selvage_coll_t *coll, selvage_device_t *dev, plan_t plan)
{
    selvage_coll_t *part = NULL;
    const int rank = selvage_coll_rank(coll);
    plan.cases /= 2;
    plan.stride *= 5;
    CHECK_STATUS(selvage_coll_split(coll, rank % 2, -rank, &part), SELVAGE_SUCCESS);
    if (part) {
        plan.seed += (uint64_t)rank % 2;
        run_plan(part, dev, &plan);
        plan.seed -= (uint64_t)rank % 2;
    }
    selvage_coll_destroy(part);
    plan.seed += 2;
    run_plan(coll, dev, &plan);
}

static void run(plan_t *plan)
{
    selvage_device_t *dev = NULL;
    selvage_comm_t *comm = NULL;
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_device_open_local(NULL, &dev), SELVAGE_SUCCESS);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = dev};
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), SELVAGE_SUCCESS);
    plan->host_waits = comm && ((uint64_t)selvage_comm_rank(comm) + plan->seed) % 3 > 0; /* ranks need not agree */
    const selvage_coll_params_t waits = {SELVAGE_COLL_PARAMS_INIT, .host_waits = plan->host_waits};
    if (comm)
        CHECK_STATUS(selvage_coll_create(comm, &waits, &coll), SELVAGE_SUCCESS);
    if (coll && plan->exact)
        run_exact(coll, dev, plan);
    if (coll) {
        run_plan(coll, dev, plan);
        run_split(coll, dev, *plan);
    }
    selvage_coll_destroy(coll);
    selvage_comm_destroy(comm);
    selvage_device_close(dev);
}

int main(int argc, char **argv)
{
    int threads;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    if (argc < 4) {
        fprintf(stderr, "usage: coll_mpi ranks|any|exact CASES SEED [STRIDE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    plan_t plan = {.any_order = strcmp(argv[1], "ranks") != 0,
                   .exact = strcmp(argv[1], "exact") == 0,
                   .cases = atoi(argv[2]),
                   .seed = strtoull(argv[3], NULL, 0), .stride = argc > 4 ? (unsigned)atoi(argv[4]) : 1};
    run(&plan);
    int status = check_report("coll_mpi");
    MPI_Finalize();
    return status;
}
