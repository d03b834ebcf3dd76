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

/* What a rank tells: its node, the channels that it wants and the numbers that it uses; and a digest of its terms,
   which are the same on all ranks, or it is an error. */
enum { WORD_NODE, WORD_TERMS };
enum { NODE_SHIFT = 32, CHANNELS_SHIFT = 16, NUMBERS_MASK = 0xffff };
_Static_assert(SV_COLL_ALIVE <= 16 && SV_COLL_CHANNELS <= 0xffff, "they share a word");
enum { TERM_BYTES, TERM_CACHE, TERM_TUNING, TERM_FLAGS, TERMS };
enum { FLAG_ARENA = 1, FLAG_EXACT = 2 };
/* More channels share the arena in smaller slots: with few ranks to send to, these are still long enough. */
enum { CHANNELS_SOFT = 2, CHANNELS_GPU = 32, CHANNELS_FEW = 64, FEW_RANKS = 4 };

typedef struct create_task {
    selvage_comm_t *comm;
    uint64_t arena_bytes;
    bool asked; /* for so many, by params */
    bool exact; /* sums */
    bool host_waits;
    uint64_t cache_bytes;
    sv_coll_tuning_t *tuning; /* until the arena has it */
    uint64_t *words;          /* of all ranks; owned, until they are known */
    sv_team_t node;           /* ranks of this node, for the arena; owned */
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

/* How many channels this rank wants. Blocks that wait for each other must all be resident, so no more than that. */
static uint64_t count_channels(const selvage_comm_t *comm)
{
    const sv_config_t *config = &comm->config;
    const bool soft = sv_coll_is_soft(comm->dev);
    const int usual = soft ? CHANNELS_SOFT : comm->topology.node_size <= FEW_RANKS ? CHANNELS_FEW : CHANNELS_GPU;
    int channels = config->coll_channels_max > 0 ? config->coll_channels_max : usual;
    if (config->coll_channels_min > channels)
        channels = config->coll_channels_min;
    if (!soft && (unsigned)channels > comm->dev->launch_blocks)
        channels = (int)comm->dev->launch_blocks;
    return channels <= 0 ? 1 : channels < SV_COLL_CHANNELS ? (uint64_t)channels : SV_COLL_CHANNELS;
}

/* What a communicator needs before ranks tell each other anything: so that nobody lacks memory in the middle. */
static selvage_status_t make_beforehand(create_task_t *call)
{
    const selvage_comm_t *comm = call->comm;
    const sv_topology_t *topology = &comm->topology;
    SV_TRY(sv_coll_alloc(call->comm, comm->wire->size, &call->coll));
    SV_TRY(sv_calloc((size_t)comm->wire->size * SV_GATHER_WORDS, sizeof *call->words, &call->words));
    call->coll->all.me = comm->wire->rank;
    for (int r = 0; r < comm->wire->size; r++)
        call->coll->all.ranks[r] = r;
    if (comm->arena || topology->node_size > SV_COLL_RANKS) /* no use, or refused when all have come */
        return SELVAGE_SUCCESS;
    SV_TRY(sv_team_init(&call->node, call->comm, topology->node_size));
    call->node.me = topology->node_index;
    for (int r = 0; r < topology->node_size; r++)
        call->node.ranks[r] = topology->node_ranks[r];
    return SELVAGE_SUCCESS;
}

/* Terms differ: everybody hears those of all, and says of which rank. Ends in an error. */
static selvage_status_t report_terms(create_task_t *call, const uint64_t term[TERMS])
{
    sv_team_t *all = &call->coll->all;
    const size_t me = (size_t)all->me * SV_GATHER_WORDS;
    for (int i = 0; i < TERMS; i++) {
        call->words[me] = term[i];
        call->words[me + 1] = 0;
        SV_TRY(sv_gather_words(all, "selvage_coll_create: terms", (uint64_t)i, SV_GATHER_WORDS, call->words,
                               call->comm->timeout_s));
        for (int r = 1; r < all->size; r++) {
            const uint64_t first = call->words[0], value = call->words[(size_t)r * SV_GATHER_WORDS];
            if (value == first)
                continue;
            if (i == TERM_BYTES)
                return sv_error(SELVAGE_ERR_MISMATCH,
                                "selvage_coll_create: params.arena_bytes is %llu here, %llu on rank "
                                "0 and %llu on rank %d",
                                (unsigned long long)term[i], (unsigned long long)first, (unsigned long long)value, r);
            if (i == TERM_CACHE)
                return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create: params.cache_bytes is %llu on rank 0 and "
                                "%llu on rank %d", (unsigned long long)first, (unsigned long long)value, r);
            if (i == TERM_TUNING)
                return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create: the file SELVAGE_COLL_TUNE says other "
                                "things on rank %d than on rank 0", r);
            if ((value ^ first) & FLAG_EXACT)
                return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create: params.sum is %s on rank 0 and %s on rank "
                                "%d", first & FLAG_EXACT ? "exact" : "order", value & FLAG_EXACT ? "exact" : "order",
                                r);
            return sv_error(SELVAGE_ERR_INTERNAL, "selvage_coll_create: of ranks 0 and %d only one has an arena", r);
        }
    }
    return sv_error(SELVAGE_ERR_INTERNAL, "selvage_coll_create: ranks have the same terms, and their digests differ");
}

/* Ranks tell each other what they have and want: the first free number, the fewest channels; refused where ranks want
   different arenas. */
static selvage_status_t agree_on_members(create_task_t *call, uint32_t *channels_out)
{
    selvage_comm_t *comm = call->comm;
    selvage_coll_t *coll = call->coll;
    uint64_t used = 0, unused = 0;
    uint64_t *mine = &call->words[(size_t)coll->all.me * SV_GATHER_WORDS];
    selvage_status_t status = check_alone(comm);
    if (status == SELVAGE_SUCCESS && !comm->arena)
        status = sv_coll_tuning_read(comm->config.coll_tune, &call->tuning);
    SV_TRY(sv_gather_least(&coll->all, "selvage_coll_create", 0, status, &unused, comm->timeout_s));
    const uint64_t term[TERMS] = {
        [TERM_BYTES] = call->arena_bytes,
        [TERM_CACHE] = call->cache_bytes,
        [TERM_TUNING] = sv_coll_tuning_hash(comm->arena ? comm->arena->tuning : call->tuning),
        [TERM_FLAGS] = (uint64_t)((comm->arena ? FLAG_ARENA : 0) | (call->exact ? FLAG_EXACT : 0))};
    mine[WORD_NODE] = (uint64_t)comm->topology.node_ranks[0] << NODE_SHIFT | count_channels(comm) << CHANNELS_SHIFT |
                      (comm->arena ? comm->arena->numbers_used : 0);
    mine[WORD_TERMS] = sv_digest_finish(0, sv_digest_sum(0, 0, term, sizeof term));
    SV_TRY(sv_gather_words(&coll->all, "selvage_coll_create: members", 0, SV_GATHER_WORDS, call->words,
                           comm->timeout_s));
    *channels_out = SV_COLL_CHANNELS;
    for (int r = 0; r < coll->size; r++) {
        const uint64_t *word = &call->words[(size_t)r * SV_GATHER_WORDS];
        const uint32_t channels = (uint32_t)(word[WORD_NODE] >> CHANNELS_SHIFT & NUMBERS_MASK);
        if (word[WORD_TERMS] != call->words[WORD_TERMS])
            return report_terms(call, term);
        used |= word[WORD_NODE] & NUMBERS_MASK;
        coll->node_of[r] = (int)(word[WORD_NODE] >> NODE_SHIFT);
        if (channels < *channels_out)
            *channels_out = channels;
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
static selvage_status_t map_room(selvage_coll_t *coll)
{
    const selvage_status_t status = sv_coll_room_map(coll);
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
    selvage_status_t status = make_beforehand(call);
    selvage_coll_t *coll = call->coll;
    SV_TRY_GOTO(status, sv_agree(comm, "selvage_coll_create", 0, status, &unused, comm->timeout_s), end);
    SV_TRY_GOTO(status, agree_on_members(call, &channels), end);
    sv_free(call->words);
    call->words = NULL;
    /* 2. The first of all communicators makes the arena. The software device commits its memory at once, for all ranks
       of one machine: it takes no more than it needs. */
    if (!comm->arena) {
        uint64_t bytes = call->arena_bytes, enough = (uint64_t)comm->topology.node_size << 20;
        if (sv_coll_is_soft(comm->dev) && !call->asked && enough < bytes)
            bytes = enough;
        SV_TRY_GOTO(status, sv_coll_arena_create(&coll->all, &call->node, channels, bytes,
                                                 call->cache_bytes), end);
        comm->arena->tuning = call->tuning;
        call->tuning = NULL;
    }
    /* 3. All have the arena: each makes the communicator itself. */
    coll->exact = call->exact;
    coll->host_waits = call->host_waits;
    status = sv_coll_init(coll, comm->arena);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_room_make(comm->arena, coll->size, coll->exact);
    others = count_others(comm->arena);
    status = sv_gather_least(&coll->all, "selvage_coll_create: end", coll->number, status, &others, comm->timeout_s);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_handed_connect(coll, &coll->all, "selvage_coll_create: MPI", coll->number);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_try_ll128(coll);
    if (status == SELVAGE_SUCCESS && coll->exact)
        status = map_room(coll); /* now, since the trial of LL128 clears the table of windows */
    if (status != SELVAGE_SUCCESS) {
        sv_coll_detach(coll);
        close_unused(&coll->all, others);
    }
end:
    /* A rank that breaks tells those that wait for it in the same step. Steps of the node have others than those of all
       ranks: who is in the next one of those hears of it by this, which does no more on a rank that is broken. */
    if (comm->broken != SELVAGE_SUCCESS && call->node.ranks)
        (void)sv_gather(&call->node, "selvage_coll_create: broken", 0, status, comm->timeout_s);
    sv_team_fini(&call->node);
    sv_free(call->words);
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
                                                         : comm->config.sum == SV_CONFIG_SUM_EXACT,
                          .host_waits = params && params->host_waits,
                          .cache_bytes = params && params->cache_bytes > 0 ? params->cache_bytes
                                                                           : comm->config.coll_cache_bytes};
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
