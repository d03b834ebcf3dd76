/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file makes and ends communicators of collectives. To make one, all ranks agree that they call it, and tell each
 * other what they have and want. They make the arena if there is none, and then the communicator. Every step ends in an
 * agreement, so all ranks have a communicator or none has. To end one, each rank waits for its launches; then all agree
 * on who is left, and the arena goes with the last user. The caller waits for the tasks.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_setup.h"
#include "collective/coll_tune.h"
#include "comm/comm_control.h"

enum { ITEM_CHANNELS, ITEM_BYTES, ITEM_NUMBERS, ITEM_FLAGS, ITEM_NODE, ITEM_TUNING };
enum { FLAG_ARENA = 1, FLAG_EXACT = 2 };
/* More channels share the arena in smaller slots: with few ranks to send to, these are still long enough. */
enum { CHANNELS_SOFT = 2, CHANNELS_GPU = 32, CHANNELS_FEW = 64, FEW_RANKS = 4 };

typedef struct create_task {
    selvage_comm_t *comm;
    uint64_t arena_bytes;
    bool asked; /* for so many, by params */
    bool exact; /* sums */
    sv_coll_tuning_t *tuning; /* until the arena has it */
    selvage_coll_t *coll;
} create_task_t;

bool sv_coll_is_supported(const selvage_comm_t *comm)
{
    const int size = comm->topology.node_size;
    return size == 1 || (size <= SV_COLL_RANKS && comm->dev->kernels_wait && !comm->topology.shares_gpu);
}

/* What a rank can know alone. */
static selvage_status_t check_alone(const selvage_comm_t *comm)
{
    uint64_t fifo_bytes = comm->config.work_fifo_bytes;
    int size = comm->topology.node_size;
    if (fifo_bytes & (fifo_bytes - 1))
        return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_WORK_FIFO_BYTES is %llu; wanted a power of two",
                        (unsigned long long)fifo_bytes);
    if (size > SV_COLL_RANKS)
        return sv_error(SELVAGE_ERR_LIMIT, "selvage_coll_create: comm has %d ranks on this node; at most %d can be "
                        "served", size, SV_COLL_RANKS);
    if (size > 1 && !comm->dev->kernels_wait)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_create: kernels of device %s cannot wait for those of "
                        "other ranks%s", comm->dev->ops->name,
                        sv_coll_is_soft(comm->dev) ? "; leave SELVAGE_SOFT_MODE at auto or threads" : "");
    if (size > 1 && comm->topology.shares_gpu)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_coll_create: %d ranks share GPU %s, where a kernel that "
                        "waits for another rank's would keep that from running; use one GPU per rank",
                        comm->topology.gpu_ranks, comm->dev->bus_id);
    return SELVAGE_SUCCESS;
}

/* Tells all what this rank has and wants, and lists the ranks. */
static selvage_status_t gather_members(create_task_t *call)
{
    selvage_comm_t *comm = call->comm;
    const sv_config_t *config = &comm->config;
    sv_team_t *all = &call->coll->all;
    /* How many channels it wants. Blocks that wait for each other must all be resident, so no more than that. */
    const bool soft = sv_coll_is_soft(comm->dev);
    const int usual = soft ? CHANNELS_SOFT : comm->topology.node_size <= FEW_RANKS ? CHANNELS_FEW : CHANNELS_GPU;
    int channels = config->coll_channels_max > 0 ? config->coll_channels_max : usual;
    if (config->coll_channels_min > channels)
        channels = config->coll_channels_min;
    if (!soft && (unsigned)channels > comm->dev->launch_blocks)
        channels = (int)comm->dev->launch_blocks;
    sv_gather_item_t item = {.value = {[ITEM_CHANNELS] = channels > 0 ? (uint64_t)channels : 1,
                                     [ITEM_BYTES] = call->arena_bytes,
                                     [ITEM_NUMBERS] = comm->arena ? comm->arena->numbers_used : 0,
                                     [ITEM_FLAGS] = (comm->arena ? FLAG_ARENA : 0) |
                                                    (call->exact ? FLAG_EXACT : 0),
                                     [ITEM_NODE] = (uint64_t)comm->topology.node_ranks[0]}};
    selvage_status_t status = check_alone(comm);
    if (status == SELVAGE_SUCCESS && !comm->arena)
        status = sv_coll_tuning_read(comm->config.coll_tune, &call->tuning);
    item.value[ITEM_TUNING] = sv_coll_tuning_hash(comm->arena ? comm->arena->tuning : call->tuning);
    memcpy(item.handle.bytes, comm->dev->bus_id, sizeof comm->dev->bus_id);
    all->me = comm->wire->rank;
    for (int r = 0; r < all->size; r++)
        all->ranks[r] = r;
    *sv_gather_item_begin(all) = item;
    return sv_gather(all, "selvage_coll_create", 0, status, comm->timeout_s);
}

/* From the items of all: the first free number, the fewest channels; refused where ranks want different arenas. */
static selvage_status_t agree_on_members(selvage_coll_t *coll, uint64_t arena_bytes, uint32_t *channels_out)
{
    uint64_t used = 0;
    *channels_out = SV_COLL_CHANNELS;
    for (int r = 0; r < coll->size; r++) {
        const uint64_t *value = sv_gather_item_of(&coll->all, r)->value;
        const uint64_t *first = sv_gather_item_of(&coll->all, 0)->value;
        if (value[ITEM_BYTES] != first[ITEM_BYTES])
            return sv_error(SELVAGE_ERR_MISMATCH,
                            "selvage_coll_create: params.arena_bytes is %llu here, %llu on rank "
                            "0 and %llu on rank %d",
                            (unsigned long long)arena_bytes, (unsigned long long)first[ITEM_BYTES],
                            (unsigned long long)value[ITEM_BYTES], r);
        if (value[ITEM_TUNING] != first[ITEM_TUNING])
            return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create: the file SELVAGE_COLL_TUNE says other things "
                            "on rank %d than on rank 0", r);
        if ((value[ITEM_FLAGS] ^ first[ITEM_FLAGS]) & FLAG_EXACT)
            return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create: params.sum is %s on rank 0 and %s on rank %d",
                            first[ITEM_FLAGS] & FLAG_EXACT ? "exact" : "order",
                            value[ITEM_FLAGS] & FLAG_EXACT ? "exact" : "order", r);
        if (value[ITEM_FLAGS] != first[ITEM_FLAGS])
            return sv_error(SELVAGE_ERR_INTERNAL, "selvage_coll_create: of ranks 0 and %d only one has an arena", r);
        used |= value[ITEM_NUMBERS];
        coll->node_of[r] = (int)value[ITEM_NODE];
        if (value[ITEM_CHANNELS] < *channels_out)
            *channels_out = (uint32_t)value[ITEM_CHANNELS];
    }
    return sv_coll_pick_number(used, &coll->number);
}

/* How many communicators there are besides the own one, so that the least of all ranks' words has the most. */
static uint64_t count_others(const sv_coll_arena_t *arena)
{
    return UINT64_MAX - (arena->users - 1);
}

/* The last communicator of collectives is gone on all ranks: so is the arena. others: the least of all ranks. */
static void close_unused(sv_team_t *all, uint64_t others)
{
    selvage_comm_t *comm = all->comm;
    if (comm->broken == SELVAGE_SUCCESS && all->size == comm->wire->size && others == UINT64_MAX)
        sv_coll_arena_close(all);
}

/* On each node; what came of it is one status for all. */
static selvage_status_t map_exact(selvage_coll_t *coll)
{
    const selvage_status_t status = sv_coll_exact_map(coll);
    uint64_t unused = 0;
    return sv_gather_least(&coll->all, "selvage_coll_create: exact sums", coll->number, status, &unused,
                           coll->comm->timeout_s);
}

static selvage_status_t run_coll_create(void *arg)
{
    create_task_t *call = arg;
    selvage_comm_t *comm = call->comm;
    uint64_t unused = 0, others;
    uint32_t channels;
    /* 1. All agree that they call this and have the memory to go on; then they tell each other what they want. */
    selvage_status_t status = sv_coll_alloc(comm, comm->wire->size, &call->coll);
    selvage_coll_t *coll = call->coll;
    if (status == SELVAGE_SUCCESS)
        status = sv_team_wake(&coll->all);
    SV_TRY_GOTO(status, sv_agree(comm, "selvage_coll_create", 0, status, &unused, comm->timeout_s), end);
    SV_TRY_GOTO(status, gather_members(call), end);
    SV_TRY_GOTO(status, agree_on_members(coll, call->arena_bytes, &channels), end);
    /* 2. The first of all communicators makes the arena. The software device commits its memory at once, for all ranks
       of one machine: it takes no more than it needs. */
    if (!comm->arena) {
        uint64_t bytes = call->arena_bytes, enough = (uint64_t)comm->topology.node_size << 20;
        if (sv_coll_is_soft(comm->dev) && !call->asked && enough < bytes)
            bytes = enough;
        SV_TRY_GOTO(status, sv_coll_arena_create(&coll->all, channels, bytes), end);
        comm->arena->tuning = call->tuning;
        call->tuning = NULL;
    }
    /* 3. All have the arena: each makes the communicator itself. */
    coll->exact = call->exact;
    status = sv_coll_init(coll, comm->arena);
    if (status == SELVAGE_SUCCESS && coll->exact)
        status = sv_coll_exact_make(comm->arena, coll->size);
    others = count_others(comm->arena);
    status = sv_gather_least(&coll->all, "selvage_coll_create: end", coll->number, status, &others, comm->timeout_s);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_handed_connect(coll, &coll->all, "selvage_coll_create: MPI", coll->number);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_try_ll128(coll);
    if (status == SELVAGE_SUCCESS && coll->exact)
        status = map_exact(coll); /* now, since the trial of LL128 clears the table of windows */
    if (status != SELVAGE_SUCCESS) {
        sv_coll_detach(coll);
        close_unused(&coll->all, others);
    } else if (coll->spans) {
        sv_team_rest(&coll->all);
    }
end:
    sv_free(call->tuning);
    if (status != SELVAGE_SUCCESS && call->coll)
        sv_coll_free(call->coll);
    return status;
}

selvage_status_t sv_coll_create(selvage_comm_t *comm, const selvage_coll_params_t *params, selvage_coll_t **coll_out)
{
    bool asked = params && params->arena_bytes > 0;
    create_task_t call = {.comm = comm,
                          .arena_bytes = asked ? params->arena_bytes : comm->config.coll_arena_bytes,
                          .asked = asked,
                          .exact = params && params->sum ? params->sum == SELVAGE_SUM_EXACT
                                                         : comm->config.sum == SV_CONFIG_SUM_EXACT};
    if (comm->arena)
        sv_coll_queue_wait(comm->arena);
    SV_TRY(sv_comm_run(comm, run_coll_create, &call));
    *coll_out = call.coll;
    return SELVAGE_SUCCESS;
}

typedef struct destroy_task {
    selvage_coll_t *coll;
} destroy_task_t;

/* This rank is done with peers' memory but for what others of its communicators still use. */
static selvage_status_t run_coll_destroy(void *arg)
{
    selvage_coll_t *coll = ((destroy_task_t *)arg)->coll;
    sv_coll_arena_t *arena = coll->arena;
    selvage_comm_t *comm = coll->comm;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (arena->stuck)
        status = sv_error(SELVAGE_ERR_TIMEOUT, "selvage_coll_destroy: a kernel of this rank does not end");
    else
        sv_coll_withdraw_windows(arena, coll);
    if (comm->detached) { /* MPI is over: what peers may use stays until the communicator goes */
        sv_coll_free(coll);
        return SELVAGE_SUCCESS;
    }
    uint64_t others = count_others(arena);
    /* After an error some rank may never come; else the others' work may take its time. */
    double timeout_s = arena->broken != SELVAGE_SUCCESS ? sv_coll_unmap_timeout(comm) : comm->timeout_s;
    status = sv_gather_least(&coll->all, "selvage_coll_destroy", coll->number, status, &others, timeout_s);
    sv_coll_detach(coll);
    if (status == SELVAGE_SUCCESS)
        close_unused(&coll->all, others);
    sv_coll_free(coll);
    return status;
}

void sv_coll_destroy(selvage_coll_t *coll)
{
    if (!coll)
        return;
    destroy_task_t call = {.coll = coll};
    sv_coll_queue_wait(coll->arena);
    sv_coll_arena_drain(coll->arena);
    (void)sv_coll_check(coll); /* an error that nobody has asked for is in the log at least */
    (void)sv_comm_run(coll->comm, run_coll_destroy, &call); /* there is nobody to tell but the log */
}
