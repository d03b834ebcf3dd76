/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over MPI, a process per rank, on whatever device there is: every call, type and operation once, then
 * random cases, then the same in the parts of a split. Run by tests/mpi/test_coll_mpi.sh.
 *
 * Usage: coll_mpi ORDER CASES SEED [STRIDE]: ORDER is `ranks` if the algorithm that the environment asks for adds in
 * the order of ranks, so that bits are compared, else `any`; CASES random ones; of the systematic ones each STRIDE-th.
 */
#include <mpi.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include <selvage.h>

enum { CAPACITY = 1 << 18 };

typedef struct plan {
    bool any_order;
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

static void run(const plan_t *plan)
{
    selvage_device_t *dev = NULL;
    selvage_comm_t *comm = NULL;
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_device_open_local(NULL, &dev), SELVAGE_SUCCESS);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = dev};
    CHECK_STATUS(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), SELVAGE_SUCCESS);
    if (comm)
        CHECK_STATUS(selvage_coll_create(comm, NULL, &coll), SELVAGE_SUCCESS);
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
        fprintf(stderr, "usage: coll_mpi ranks|any CASES SEED [STRIDE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    plan_t plan = {.any_order = strcmp(argv[1], "any") == 0, .cases = atoi(argv[2]),
                   .seed = strtoull(argv[3], NULL, 0), .stride = argc > 4 ? (unsigned)atoi(argv[4]) : 1};
    run(&plan);
    int status = check_report("coll_mpi");
    MPI_Finalize();
    return status;
}
