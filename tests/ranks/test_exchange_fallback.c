/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a peer that cannot be mapped, as in containers: both ends of the pair must come to the same route, say so
 * in one line for the pair and communicator, move the right bytes, and not try again in later exchanges. Host memory
 * that fails leads to staged, device memory to shared. What opens without an error but leads elsewhere counts as
 * failed. Who has destroyed an exchange has its memory alone.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "transfer/transfer_mapping.h"
#include "pipeline/pipe_exchange.h"

enum { RANKS = 3, BYTES = 20000, EXCHANGES = 2 };
#define LINE "its packets go by route"

/* What goes wrong, and the route between each two ranks that must come of it. */
typedef struct mishap {
    const char *name, *settings;
    void (*spoil)(selvage_comm_t *comm); /* before the first exchange */
    selvage_route_t route[RANKS][RANKS];
    int lines;                           /* warnings, over all ranks */
} mishap_t;

/* The device of a communicator, with calls that can be replaced. */
static sv_device_ops_t *own_ops(selvage_comm_t *comm)
{
    if (!comm->dev_wrapped)
        CHECK_STATUS(sv_device_fault_wrap(&comm->dev), SELVAGE_SUCCESS);
    comm->dev_wrapped = true;
    return (sv_device_ops_t *)(uintptr_t)comm->dev->ops; /* the wrapper's own copy */
}

static selvage_status_t refuse_export(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                      uint64_t *offset_out)
{
    (void)dev, (void)ptr, (void)bytes, (void)handle_out, (void)offset_out;
    return SELVAGE_ERR_UNSUPPORTED;
}

static void spoil_export(selvage_comm_t *comm)
{
    if (comm->wire->rank == 1)
        own_ops(comm)->export_memory = refuse_export;
}

/* Fine-grained memory cannot be exported, ordinary memory can. For one rank. */
static sv_device_ops_t real_ops;
static void *last_fine;

static selvage_status_t allocate_fine(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    SV_TRY(real_ops.malloc_fine(dev, bytes, ptr_out));
    last_fine = *ptr_out;
    return SELVAGE_SUCCESS;
}

/* Other memory may lie there next. */
static void free_fine(sv_device_t *dev, void *ptr)
{
    if (ptr == last_fine)
        last_fine = NULL;
    real_ops.free(dev, ptr);
}

static selvage_status_t export_plain(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                     uint64_t *offset_out)
{
    if (last_fine && ptr == last_fine)
        return SELVAGE_ERR_UNSUPPORTED;
    return real_ops.export_memory(dev, ptr, bytes, handle_out, offset_out);
}

static void spoil_fine(selvage_comm_t *comm)
{
    if (comm->wire->rank != 1)
        return;
    sv_device_ops_t *ops = own_ops(comm);
    real_ops = *ops;
    ops->free = free_fine;
    ops->malloc_fine = allocate_fine;
    ops->export_memory = export_plain;
}

/* And ordinary memory does not show a kernel what others store. */
static void spoil_fine_hidden(selvage_comm_t *comm)
{
    spoil_fine(comm);
    comm->dev->shows_stores = false;
}

/* A handle that leads to other memory of the right size. */
static uint64_t decoy[BYTES];

static selvage_status_t open_decoy(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                   uint64_t *bytes_out)
{
    (void)dev, (void)handle;
    *base_out = decoy;
    *bytes_out = UINT64_MAX;
    return SELVAGE_SUCCESS;
}

static void close_decoy(sv_device_t *dev, void *base)
{
    (void)dev;
    CHECK(base == (void *)decoy);
}

static void spoil_opening(selvage_comm_t *comm)
{
    if (comm->wire->rank != 2)
        return;
    own_ops(comm)->open_memory = open_decoy;
    own_ops(comm)->close_memory = close_decoy;
}

/* Every rank sends to every rank, itself too: small and in segments, registered and not. */
static void make_plan(plan_t *plan)
{
    *plan = (plan_t){.seed = 5};
    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++) {
            plan_add(plan, from, to, 0, 100);
            plan_add(plan, from, to, 1, BYTES);
            plan_add(plan, from, to, 2, BYTES)->registered = true;
        }
}

/* A rank that can export nothing cannot register either; its memory is left unregistered then. */
static void forget_registered(plan_t *plan, int rank)
{
    for (unsigned i = 0; i < plan->count; i++)
        if (plan->packet[i].destination == rank)
            plan->packet[i].registered = false;
}

static void check_routes(const fixture_t *fixture, const mishap_t *mishap)
{
    uint32_t index = 0;
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        selvage_route_t route = SELVAGE_ROUTE_DEFAULT;
        const plan_packet_t *packet = &fixture->plan->packet[i];
        if (packet->source != fixture->self->rank)
            continue;
        CHECK_STATUS(selvage_exchange_send_route(fixture->ex, index++, &route), SELVAGE_SUCCESS);
        CHECK_STR(selvage_route_name(route), selvage_route_name(mishap->route[packet->source][packet->destination]));
    }
}

static unsigned count_opened(const selvage_comm_t *comm)
{
    unsigned count = 0;
    for (const sv_list_t *it = comm->mappings.mappings.next; it != &comm->mappings.mappings; it = it->next)
        count++;
    return count;
}

static void suffer(local_rank_t *self)
{
    const mishap_t *mishap = self->arg;
    plan_t *plan = calloc(1, sizeof *plan);
    make_plan(plan);
    if (mishap->spoil)
        mishap->spoil(self->comm);
    if (mishap->spoil == spoil_export)
        forget_registered(plan, 1);
    for (int i = 0; i < EXCHANGES; i++) {
        fixture_t fixture;
        if (fixture_open(&fixture, self, plan, NULL)) {
            fixture_run(&fixture, 3);
            check_routes(&fixture, mishap);
            /* one mapping per peer and allocation, however many packets land in it: soft's small pieces share one */
            CHECK(count_opened(self->comm) <= RANKS - 1);
        }
        fixture_close(&fixture);
        CHECK_EQ(count_opened(self->comm), 0);
    }
    free(plan);
}

static void run_mishap(const mishap_t *mishap)
{
    char list[160];
    snprintf(list, sizeof list, "SEGMENT_BYTES=4096 SEGMENT_SLOTS=2 %s", mishap->settings);
    local_ranks_env(list);
    local_ranks_run(&(local_run_t){.size = RANKS, .log_expected = true, .body = suffer,
                                   .arg = (void *)(uintptr_t)mishap});
    CHECK_EQ(local_ranks_count_logged(LINE), mishap->lines);
    CHECK_EQ(local_ranks_count_logged("] warn: "), mishap->lines);
    CHECK_EQ(local_ranks_count_logged("] error: "), 0);
    if (atomic_load(&check_failed_) > 0)
        fprintf(stderr, "that was: %s\n", mishap->name);
}

#define SELF SELVAGE_ROUTE_SELF
#define PEER SELVAGE_ROUTE_PEER
#define SHARED SELVAGE_ROUTE_SHARED
#define STAGED SELVAGE_ROUTE_STAGED

static const mishap_t mishaps[] = {
    {"nothing", "", NULL, {{SELF, PEER, PEER}, {PEER, SELF, PEER}, {PEER, PEER, SELF}}, 0},
    {"device memory on rank 1", "FAULT=ipc=1+,rank=1", NULL,
     {{SELF, SHARED, PEER}, {SHARED, SELF, SHARED}, {PEER, SHARED, SELF}}, 2},
    {"device memory everywhere", "FAULT=ipc=1+", NULL,
     {{SELF, SHARED, SHARED}, {SHARED, SELF, SHARED}, {SHARED, SHARED, SELF}}, 3},
    {"device memory of one peer", "FAULT=ipc=1,rank=0", NULL,
     {{SELF, SHARED, PEER}, {SHARED, SELF, PEER}, {PEER, PEER, SELF}}, 1},
    {"host memory on rank 1", "FAULT=map=1+,rank=1", NULL,
     {{SELF, STAGED, PEER}, {STAGED, STAGED, STAGED}, {PEER, STAGED, SELF}}, 3},
    {"host memory everywhere", "FAULT=map=1+", NULL,
     {{STAGED, STAGED, STAGED}, {STAGED, STAGED, STAGED}, {STAGED, STAGED, STAGED}}, 6},
    {"host memory for shared", "ROUTE=shared FAULT=map=1+,rank=2", NULL,
     {{SELF, SHARED, STAGED}, {SHARED, SELF, STAGED}, {STAGED, STAGED, STAGED}}, 3},
    {"both, one after the other", "FAULT=ipc=1+,map=5+,rank=0", NULL,
     {{STAGED, STAGED, STAGED}, {STAGED, SELF, PEER}, {STAGED, PEER, SELF}}, 5},
    {"memory that cannot be exported", "", spoil_export,
     {{SELF, SHARED, PEER}, {SHARED, SELF, SHARED}, {PEER, SHARED, SELF}}, 2},
    {"fine-grained memory that cannot be exported", "", spoil_fine,
     {{SELF, PEER, PEER}, {PEER, SELF, PEER}, {PEER, PEER, SELF}}, 0},
    {"the same, and ordinary memory does not do", "", spoil_fine_hidden,
     {{SELF, SHARED, PEER}, {SHARED, SELF, SHARED}, {PEER, SHARED, SELF}}, 2},
    {"a handle that leads elsewhere", "", spoil_opening,
     {{SELF, PEER, SHARED}, {PEER, SELF, SHARED}, {SHARED, SHARED, SELF}}, 2},
};

/* A route that an exchange asks for is not exchanged for another; the communicator goes on. */
static void insist(local_rank_t *self)
{
    for (int i = 0; i < 2; i++) {
        selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = i ? SHARED : PEER};
        plan_t *plan = calloc(1, sizeof *plan);
        fixture_t fixture;
        make_plan(plan);
        CHECK(fixture_open(&fixture, self, plan, &params));
        if (i == 0) {
            CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_UNSUPPORTED);
            CHECK(strstr(selvage_error_detail(), "route peer was asked for") != NULL);
        } else {
            fixture_run(&fixture, 2);
        }
        fixture_close(&fixture);
        free(plan);
    }
}

/* --- mappings at the end of an exchange --------------------------------------------------------------------------- */

static _Atomic int nopen;
static void (*real_close)(sv_device_t *dev, void *base);
static selvage_status_t (*real_open)(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                     uint64_t *bytes_out);

static selvage_status_t count_open(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                   uint64_t *bytes_out)
{
    nopen++;
    return real_open(dev, handle, base_out, bytes_out);
}

static void close_slowly(sv_device_t *dev, void *base)
{
    usleep(20000);
    real_close(dev, base);
    nopen--;
}

/* When destroy returns nobody has memory of this rank's mapped. Where a kernel does not end, nothing is unmapped. */
static void unmap_in_destroy(local_rank_t *self)
{
    const bool stuck = *(const bool *)self->arg;
    fixture_t fixture;
    plan_t plan = {.seed = 5};
    for (int i = 0; i < RANKS; i++)
        plan_add(&plan, i, (i + 1) % RANKS, 1, BYTES)->registered = !stuck; /* what is set aside stays registered */
    sv_device_ops_t *ops = own_ops(self->comm);
    if (self->rank == 0) {
        nopen = 0;
        real_open = ops->open_memory;
        real_close = ops->close_memory;
    }
    local_ranks_barrier(self);
    ops->open_memory = count_open;
    ops->close_memory = close_slowly;
    CHECK(fixture_open(&fixture, self, &plan, NULL));
    fixture_run(&fixture, 2);
    local_ranks_barrier(self);
    const int before = nopen;
    CHECK(before >= RANKS);
    local_ranks_barrier(self);
    fixture.ex->failure.device_busy = stuck;
    self->comm->device_stuck = stuck;
    selvage_exchange_destroy(fixture.ex);
    fixture.ex = NULL;
    CHECK_EQ(nopen, stuck ? before : 0);
    local_ranks_barrier(self);
    fixture_close(&fixture);
}

int main(void)
{
    static const char *const modes[] = {"", "PROGRESS=thread", "SOFT_MODE=inline"};
    const unsigned count = sizeof modes / sizeof modes[0] - check_brief(); /* the last has the fewest threads */
    for (unsigned m = 0; m < count; m++) {
        local_ranks_mode(modes[m]);
        for (unsigned i = 0; i < sizeof mishaps / sizeof mishaps[0]; i++)
            run_mishap(&mishaps[i]);
        local_ranks_env("FAULT=ipc=1+");
        local_ranks_run(&(local_run_t){.size = RANKS, .log_expected = true, .body = insist});
        local_ranks_env("");
        local_ranks_run(&(local_run_t){.size = RANKS, .body = unmap_in_destroy, .arg = &(bool){false}});
#ifndef SV_SANITIZES_ADDRESS /* what is set aside looks like a leak */
        local_ranks_run(&(local_run_t){.size = RANKS, .log_expected = true, .may_set_aside = true,
                                       .body = unmap_in_destroy, .arg = &(bool){true}});
#endif
    }
    return check_report("test_exchange_fallback");
}
