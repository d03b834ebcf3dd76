/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-up of collectives that fails: settings and devices that will not do, ranks that differ or do not come, and every
 * single call of device, memory, mapping and wire. All ranks get the same status, nobody hangs, nothing is lost, and
 * unless the wire was it the same works afterwards.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "collective/coll_setup.h"
#include "fixtures/local_ranks.h"

/* Whom a fault leaves waiting gives up after SOON_S. A thread may stand still for as long as that on a crowded machine:
   what is to go well has LATE_S. */
enum { RANKS = 3, NEVER = 1 << 30, SOON_S = 1, LATE_S = 60 };

static void check_detail(const char *text, int line)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    CHECK(found);
    if (!found)
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, text, selvage_error_detail());
}
#define CHECK_DETAIL(text) check_detail((text), __LINE__)

/* Creating fails on all ranks with this status; the text is in the detail of ranks from `from` to `to`. */
static void refused(local_rank_t *self, const selvage_coll_params_t *params, selvage_status_t wanted, const char *text,
                    int from, int to)
{
    selvage_coll_t *coll = NULL;
    const bool is_place = wanted == SELVAGE_ERR_UNSUPPORTED || strstr(text, "on this node");
    sv_comm_bind(self->comm);
    CHECK_EQ(sv_coll_is_supported(self->comm), !(is_place && self->rank >= from && self->rank <= to));
    CHECK_STATUS(sv_coll_create(self->comm, params, &coll), wanted);
    CHECK(!coll);
    CHECK(!self->comm->arena);
    if (self->rank >= from && self->rank <= to)
        CHECK_DETAIL(text);
}

static void works(local_rank_t *self)
{
    selvage_coll_t *coll = NULL;
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    sv_coll_destroy(coll);
    CHECK(!self->comm->arena);
}

static void refuse_device(local_rank_t *self)
{
    refused(self, NULL, SELVAGE_ERR_UNSUPPORTED, "leave SELVAGE_SOFT_MODE at auto or threads", 0, RANKS);
}

static void refuse_fifo(local_rank_t *self)
{
    refused(self, NULL, SELVAGE_ERR_CONFIG, "SELVAGE_WORK_FIFO_BYTES is 5000; wanted a power of two", 0, RANKS);
}

static void refuse_arena(local_rank_t *self)
{
    selvage_coll_params_t params = {SELVAGE_COLL_PARAMS_INIT, .arena_bytes = 100000};
    refused(self, &params, SELVAGE_ERR_LIMIT, "SELVAGE_COLL_ARENA_BYTES", 0, RANKS);
    params.arena_bytes = (uint64_t)(4 + (self->rank == 2)) << 20;
    refused(self, &params, SELVAGE_ERR_MISMATCH, "params.arena_bytes is", 0, RANKS);
    params.arena_bytes = 4 << 20;
    params.sum = self->rank == 1 ? SELVAGE_SUM_EXACT : SELVAGE_SUM_DEFAULT;
    refused(self, &params, SELVAGE_ERR_MISMATCH, "params.sum is order on rank 0 and exact on rank 1", 0, RANKS);
    params.sum = SELVAGE_SUM_DEFAULT;
    params.cache_bytes = (uint64_t)(1 + self->rank / 2) << 20;
    refused(self, &params, SELVAGE_ERR_MISMATCH, "params.cache_bytes is 1048576 on rank 0 and 2097152 on rank 2", 0,
            RANKS);
    params.sum = (selvage_sum_t)3;
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, &params, &coll), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("params.sum is 3");
    CHECK_STATUS(selvage_coll_wait(NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_coll_trim(NULL, 1, &(int){0}), SELVAGE_ERR_ARGUMENT);
    works(self);
}

/* One rank stands for what this machine does not have. */
static void refuse_places(local_rank_t *self)
{
    sv_topology_t *topology = &self->comm->topology;
    int size = topology->node_size;
    topology->shares_gpu = self->rank == 1;
    refused(self, NULL, SELVAGE_ERR_UNSUPPORTED, "use one GPU per rank", 1, 1);
    if (self->rank != 1)
        CHECK_DETAIL("selvage_coll_create failed on rank 1");
    topology->shares_gpu = false;
    topology->node_size = self->rank == 2 ? SV_COLL_RANKS + 1 : size;
    refused(self, NULL, SELVAGE_ERR_LIMIT, "comm has 17 ranks on this node", 2, 2);
    topology->node_size = size;
    works(self);
}

/* Lists that differ, and one communicator too many: each is alike on all ranks, and in the way of nothing that comes
   after it. */
static void refuse_among(local_rank_t *self, selvage_coll_t *coll)
{
    selvage_coll_t *part = NULL, *alive[SV_COLL_ALIVE];
    const int reverse[] = {1, 0}, pair[] = {0, 1};
    int n = 0;
    if (self->rank > 1)
        return;
    CHECK_STATUS(sv_coll_create_among(coll, 2, self->rank == 0 ? pair : reverse, &part), SELVAGE_ERR_MISMATCH);
    CHECK_DETAIL("have other lists of ranks");
    CHECK(part == NULL);
    selvage_status_t status = SELVAGE_SUCCESS;
    while (n < SV_COLL_ALIVE && status == SELVAGE_SUCCESS) {
        status = sv_coll_create_among(coll, 2, pair, &alive[n]);
        n += status == SELVAGE_SUCCESS;
    }
    CHECK_STATUS(status, SELVAGE_ERR_LIMIT);
    CHECK_EQ(n, SV_COLL_ALIVE - 1);
    while (n > 0)
        sv_coll_destroy(alive[--n]);
}

/* Errors after creation, on communicators that go on living. */
static void refuse_calls(local_rank_t *self)
{
    selvage_coll_t *coll = NULL, *part = NULL;
    selvage_window_t *window = NULL, *windows[SV_COLL_WINDOWS];
    char host[64];
    void *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 4096, &block), SELVAGE_SUCCESS);
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_split(coll, self->rank == 1 ? -2 : 0, 0, &part), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(self->rank == 1 ? "color is -2" : "selvage_coll_split failed on rank 1");
    refuse_among(self, coll);
    CHECK_STATUS(sv_coll_register(coll, self->rank == 0 ? host : block, 64, &window), SELVAGE_ERR_UNSUPPORTED);
    CHECK_DETAIL(self->rank == 0 ? "leave it unregistered" : "selvage_coll_register failed on rank 0");
    if (self->rank == 0) {
        CHECK_STATUS(sv_coll_split(coll, 0, 0, &part), SELVAGE_ERR_MISMATCH);
    } else {
        CHECK_STATUS(sv_coll_register(coll, block, 64, &window), SELVAGE_ERR_MISMATCH);
    }
    CHECK_DETAIL("ranks 0 and 1 are in different collective calls");
    CHECK(!part && !window);
    for (int i = 1; i < SV_COLL_WINDOWS; i++)
        CHECK_STATUS(sv_coll_register(coll, (uint8_t *)block + 8 * i, 8, &windows[i]), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_register(coll, block, 8, &window), SELVAGE_ERR_LIMIT);
    CHECK_DETAIL("all 63 windows");
    for (int i = 1; i < SV_COLL_WINDOWS; i++)
        CHECK_STATUS(sv_coll_unregister(windows[i]), SELVAGE_SUCCESS);
    sv_coll_destroy(coll);
    selvage_device_free(self->dev, block);
    works(self);
}

static _Atomic int missed; /* ranks that have met the deadline */

/* Rank 0 does not come: the others know it by the deadline, and that is the end of collective calls. */
static void miss_rank(local_rank_t *self)
{
    selvage_coll_t *coll = NULL, *part = NULL;
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    local_ranks_deadline(self, coll, SOON_S);
    if (self->rank != 0) {
        selvage_status_t status = selvage_coll_split(coll, 0, 0, &part);
        CHECK(status == SELVAGE_ERR_TIMEOUT);
        CHECK(strstr(selvage_error_detail(), "rank ") != NULL);
        CHECK_STATUS(selvage_coll_split(coll, 0, 0, &part), SELVAGE_ERR_TIMEOUT);
        CHECK_DETAIL("an earlier collective call failed");
        CHECK(strstr(selvage_error_detail(), "rank ") != NULL); /* the first failure's words */
        missed++;
    } else {
        while (missed < RANKS - 1)
            usleep(1000);
        CHECK_STATUS(selvage_coll_split(coll, 0, 0, &part), SELVAGE_ERR_TIMEOUT);
    }
    CHECK(!part);
    local_ranks_barrier(self);
    sv_comm_bind(self->comm);
    sv_coll_destroy(coll);
}

/* A series of calls of which one fails inside, on one rank. */
typedef struct sweep {
    sv_fault_call_t call;
    int nth;
    double timeout_s;
    bool sparse;               /* these calls are many */
    _Atomic int hit, broken;   /* the fault was met; the wire gave up: it allocates memory, too */
    _Atomic int status[8];     /* of each call, as the first rank to say so had it; 1: nobody has */
    _Atomic int differ;
    int ranks_per_node;        /* 0: one node */
} sweep_t;

static selvage_status_t item(sweep_t *sweep, int at, selvage_status_t status)
{
    int expected = 1;
    if (!atomic_compare_exchange_strong(&sweep->status[at], &expected, (int)status) && expected != (int)status)
        sweep->differ++;
    return status;
}

static void arm(local_rank_t *self, sv_fault_call_t call, int64_t nth)
{
    atomic_store(&self->comm->fault.call_countdown[call], self->rank == 1 ? nth : NEVER);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* The progress thread may be in the very call that fails: it is through with that when it does something else. */
static void disarm(local_rank_t *self, sweep_t *sweep)
{
    if (self->rank == 1)
        sweep->hit = atomic_exchange(&self->comm->fault.call_countdown[sweep->call], NEVER) <= 0;
    sv_progress_call(&self->comm->progress, do_nothing, NULL);
}

static void series(local_rank_t *self)
{
    sweep_t *sweep = self->arg;
    selvage_coll_t *coll = NULL, *part = NULL;
    selvage_window_t *window = NULL;
    const int others[RANKS - 1] = {2, 1};
    void *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 4096, &block), SELVAGE_SUCCESS);
    local_ranks_deadline(self, NULL, sweep->timeout_s);
    sv_comm_bind(self->comm);
    arm(self, sweep->call, sweep->nth);
    if (item(sweep, 0, sv_coll_create(self->comm, NULL, &coll)) == SELVAGE_SUCCESS) {
        if (item(sweep, 1, sv_coll_split(coll, self->rank != 0, 0, &part)) == SELVAGE_SUCCESS) {
            selvage_status_t status = sv_coll_register(part, (uint8_t *)block + 2048, 512, &window);
            if (self->rank > 0 && sweep->ranks_per_node == 0) /* alone in its part, or node, it hears of nothing */
                item(sweep, 2, status);
            sv_coll_unregister(window);
        }
        if (sweep->ranks_per_node == 0 &&
            item(sweep, 3, sv_coll_register(coll, block, 512, &window)) == SELVAGE_SUCCESS)
            item(sweep, 4, sv_coll_unregister(window));
        sv_coll_destroy(part);
        part = NULL;
        if (self->rank > 0) /* rank 0 hears of nothing */
            item(sweep, 5, sv_coll_create_among(coll, RANKS - 1, others, &part));
        sv_coll_destroy(part);
    }
    sv_coll_destroy(coll);
    disarm(self, sweep);
    if (__atomic_load_n(&self->comm->broken, __ATOMIC_RELAXED) != SELVAGE_SUCCESS)
        sweep->broken = 1;
    local_ranks_barrier(self);
    if (!sweep->broken) {
        local_ranks_deadline(self, NULL, LATE_S);
        works(self);
    }
    arm(self, sweep->call, NEVER);
    selvage_device_free(self->dev, block);
}

/* Where every access is looked at, not every call is failed. */
#if defined(SV_SANITIZES_THREAD)
enum { STEP = 13 };
#elif defined(SV_SANITIZES_ADDRESS)
enum { STEP = 7 };
#else
enum { STEP = 1 };
#endif

/* Of the calls, each or one of a few. On a GPU every one of hundreds of set-ups maps memory of three ranks. */
static int find_step(void)
{
    const char *device = getenv("SELVAGE_DEVICE");
    const bool is_soft = !device || strcmp(device, "soft") == 0;
    return STEP > 1 ? STEP : !is_soft ? 13 : check_part(3) < 3 ? 5 : 1;
}

static void run_place(sweep_t *sweep)
{
    const bool may_break = sweep->call == SV_FAULT_CALL_WIRE || sweep->call == SV_FAULT_CALL_ALLOC;
    for (int i = 0; i < 8; i++)
        sweep->status[i] = 1;
    sweep->differ = sweep->broken = 0;
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = sweep->ranks_per_node, .log_expected = true,
                                   .body = series, .arg = sweep, .may_set_aside = may_break});
}

/* Returns how many failures were survived. */
static int run_sweep(sv_fault_call_t call, const char *name, int ranks_per_node)
{
    int nth = 1, survived = 0;
    const bool waits = call == SV_FAULT_CALL_WIRE || call == SV_FAULT_CALL_ALLOC;
    const int step = find_step();
    sweep_t sweep = {.call = call, .ranks_per_node = ranks_per_node, .sparse = call == SV_FAULT_CALL_WIRE};
    const int most = sweep.sparse ? 1000000 : 2000; /* a GPU that others use, too, is asked for often */
    for (sweep.hit = 1; sweep.hit && nth < most; nth += step + sweep.sparse * (nth / 8)) {
        const long failed = atomic_load(&check_failed_);
        sweep.nth = nth;
        /* If a rank stood still, another one may have given up before it came to the fault: then with more time. */
        sweep.timeout_s = waits ? 2 * SOON_S : LATE_S;
        do
            run_place(&sweep);
        while (!sweep.hit && sweep.broken && (sweep.timeout_s *= 5) <= LATE_S);
        CHECK(sweep.broken || sweep.differ == 0);
        CHECK(sweep.broken || local_ranks_left() == 0);
        survived += !sweep.broken && sweep.hit;
        if (atomic_load(&check_failed_) != failed)
            fprintf(stderr, "%s call %d\n", name, nth);
    }
    CHECK(!sweep.hit);
    printf("failed %s calls up to %d%s: %d survived\n", name, nth - 1, ranks_per_node ? ", between nodes" : "",
           survived);
    return survived;
}

int main(void)
{
    static void (*const bodies[])(local_rank_t *) = {refuse_device, refuse_fifo, refuse_arena, refuse_places,
                                                     refuse_calls, miss_rank};
    const int step = find_step();
    static const char *const settings[] = {"SOFT_MODE=inline", "WORK_FIFO_BYTES=5000", "", "", "", "TIMEOUT_S=60"};
    static const char *const modes[] = {"COLL_ARENA_BYTES=1M", "COLL_ARENA_BYTES=1M PROGRESS=thread",
                                        "COLL_ARENA_BYTES=1M SUM=exact"};
    for (int mode = 0; mode < 3; mode++) {
        local_ranks_mode(modes[mode]);
        for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0] && mode < 2; i++) {
            local_ranks_env(settings[i]);
            missed = 0;
            local_ranks_run(&(local_run_t){.size = RANKS, .log_expected = true, .body = bodies[i],
                                           .may_set_aside = bodies[i] == miss_rank});
        }
        local_ranks_env("TIMEOUT_S=60 FAULT=device=1000000,alloc=1000000,ipc=1000000,wire=1000000");
        CHECK(run_sweep(SV_FAULT_CALL_DEVICE, "device", 0) > 40 / step);
        CHECK(run_sweep(SV_FAULT_CALL_ALLOC, "alloc", 0) >= 10 / step);
        CHECK(run_sweep(SV_FAULT_CALL_ALLOC, "alloc", 1) >= 10 / step);
        CHECK(run_sweep(SV_FAULT_CALL_IPC, "ipc", 0) > 4 / step);
        (void)run_sweep(SV_FAULT_CALL_WIRE, "wire", 0); /* what is repeated may survive */
    }
    return check_report("test_coll_setup");
}
