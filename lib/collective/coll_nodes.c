/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file runs a call, or a group, of a communicator that spans nodes, from its beginning to its end. First it waits
 * for what is on the streams. Before a call of all ranks, these compare what each of them calls: so they agree that it
 * is the same call, and that all are there. Sends and receives concern two ranks alone, and their messages say what
 * they are.
 *
 * A rank that meets an error in the middle tells everybody: the kernels of its node by ending them, other ranks by an
 * abort in place of the message that they may be waiting for. After that no collective call is possible any more, since
 * nobody knows which messages are still in flight. The caller waits; one thread at a time is inside.
 */
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_nodes.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"
#include "comm/comm_control.h"

enum { ITEM_WHAT, ITEM_COUNT, ITEM_ROOT, ITEM_SEQUENCE };

typedef struct nodes_task {
    selvage_coll_t *coll;
    const sv_coll_call_t *calls;
    unsigned ncalls;
    bool agreed;               /* all ranks know of the error, and nothing was begun */
} nodes_task_t;

static selvage_status_t report_call_mismatch(const selvage_coll_t *coll, int rank)
{
    const uint64_t *there = sv_gather_item_of(&coll->all, rank)->value;
    const uint64_t *first = sv_gather_item_of(&coll->all, 0)->value;
    return sv_error(SELVAGE_ERR_MISMATCH,
                    "rank %d called %s of %llu %s (operation %s, root %d) where rank 0 called %s "
                    "of %llu %s (operation %s, root %d), as call %llu of communicator %u",
                    rank, sv_coll_call_name(there[ITEM_WHAT] & 0xff), (unsigned long long)there[ITEM_COUNT],
                    selvage_type_name((selvage_type_t)(there[ITEM_WHAT] >> 8 & 0xff)),
                    sv_coll_operation_name((unsigned)(there[ITEM_WHAT] >> 16)), (int)(int64_t)there[ITEM_ROOT],
                    sv_coll_call_name(first[ITEM_WHAT] & 0xff), (unsigned long long)first[ITEM_COUNT],
                    selvage_type_name((selvage_type_t)(first[ITEM_WHAT] >> 8 & 0xff)),
                    sv_coll_operation_name((unsigned)(first[ITEM_WHAT] >> 16)), (int)(int64_t)first[ITEM_ROOT],
                    (unsigned long long)first[ITEM_SEQUENCE], coll->number);
}

/* What a rank calls, in the words that ranks compare. */
static void describe_call(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t value[SV_GATHER_VALUES])
{
    const unsigned op = call->flags & SV_COLL_DIVIDE   ? (unsigned)SV_COLL_SIGNED_AVERAGE
                        : call->flags & SV_COLL_PREMUL ? (unsigned)SV_COLL_SIGNED_PREMUL
                                                       : call->op;
    value[ITEM_WHAT] = (uint64_t)op << 16 | (uint64_t)call->type << 8 | call->call;
    value[ITEM_COUNT] = call->count;
    value[ITEM_ROOT] = (uint64_t)(int64_t)call->root;
    value[ITEM_SEQUENCE] = coll->node_set->sequence;
}

/* All ranks are there, and call the same. Only if they do not, each of them hears what all others call. */
static selvage_status_t match_call(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    sv_team_t *all = &coll->all;
    uint64_t value[SV_GATHER_VALUES] = {0}, digest = 0;
    bool same = false;
    coll->node_set->sequence++;
    describe_call(coll, call, value);
    for (int i = ITEM_WHAT; i <= ITEM_SEQUENCE; i++)
        digest = sv_digest_mix(digest + value[i]);
    all->stop = &coll->arena->pinned->host_stop;
    selvage_status_t status =
        sv_gather_compare(all, "selvage_coll", coll->number, digest, &same, coll->comm->timeout_s);
    if (status == SELVAGE_SUCCESS && !same) {
        describe_call(coll, call, sv_gather_item_begin(all)->value);
        status = sv_gather(all, "selvage_coll", coll->number, SELVAGE_SUCCESS, coll->comm->timeout_s);
    }
    all->stop = NULL;
    if (status != SELVAGE_SUCCESS || same)
        return status;
    for (int r = 1; r < coll->size; r++)
        for (int i = ITEM_WHAT; i <= ITEM_SEQUENCE; i++)
            if (sv_gather_item_of(all, r)->value[i] != sv_gather_item_of(all, 0)->value[i])
                return report_call_mismatch(coll, r);
    return sv_error(SELVAGE_ERR_INTERNAL, "selvage_coll: ranks call the same, and their digests differ");
}

static selvage_status_t do_call(selvage_coll_t *coll, const sv_coll_call_t *call, bool *agreed_out)
{
    selvage_status_t status = match_call(coll, call);
    *agreed_out = status != SELVAGE_SUCCESS && coll->comm->broken == SELVAGE_SUCCESS;
    SV_TRY(status);
    switch (call->call) {
    case SV_COLL_ALL_REDUCE: case SV_COLL_REDUCE: case SV_COLL_REDUCE_SCATTER: return sv_coll_nodes_reduce(coll, call);
    case SV_COLL_BROADCAST: return sv_coll_nodes_broadcast(coll, call);
    case SV_COLL_ALL_GATHER: return sv_coll_nodes_all_gather(coll, call);
    case SV_COLL_ALL_TO_ALL: return sv_coll_nodes_all_to_all(coll, call);
    default: return SELVAGE_SUCCESS; /* a barrier: all have met */
    }
}

/* Ends this rank's kernels, and with them those of its node, which wait for the next one: that is launched to tell
   them. It receives what nobody sends, so that it ends in no other way. Copies to and from the user's memory end, too.
   */
static void stop_node(selvage_coll_t *coll)
{
    const double grace_s = 5;
    sv_coll_arena_t *arena = coll->arena;
    const sv_coll_call_t messenger = {.call = SV_COLL_PAIR, .type = SV_COLL_UINT8, .count = 1,
                                      .root = (int)((coll->dev.me + 1) % coll->dev.n),
                                      .recv = arena->staging->device, .stream = arena->stream};
    /* Partner: the kernel's waits. */
    __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE);
    if (coll->dev.n > 1)
        (void)sv_coll_launch(coll->node_set->part, &messenger, 1);
    (void)sv_coll_drain(arena, grace_s);
    if (!sv_coll_stage_end(coll, grace_s))
        sv_coll_arena_set_stuck(arena);
}

static selvage_status_t do_calls(nodes_task_t *task)
{
    selvage_coll_t *coll = task->coll;
    const sv_coll_call_t *calls = task->calls;
    unsigned npairs = 0;
    for (unsigned i = 0; i < task->ncalls; i++)
        if (i == 0 || calls[i].stream != calls[i - 1].stream)
            SV_TRY(sv_coll_stage_wait_stream(coll, calls[i].stream));
    for (unsigned i = 0; i < task->ncalls; i++) {
        if (calls[i].call == SV_COLL_PAIR)
            npairs++;
        else
            SV_TRY(do_call(coll, &calls[i], &task->agreed));
    }
    return npairs > 0 ? sv_coll_nodes_pairs(coll, calls, task->ncalls) : SELVAGE_SUCCESS;
}

static selvage_status_t run_nodes(void *arg)
{
    nodes_task_t *call = arg;
    selvage_coll_t *coll = call->coll, *part = coll->node_set->part;
    selvage_comm_t *comm = coll->comm;
    selvage_status_t none = SELVAGE_SUCCESS;
    /* 1. The node's ranks are a communicator of their own, with the same number: all but the ranks and the sequence is
       as it is in the whole one now. */
    const uint32_t sequence = part->sequence;
    *part = *coll;
    part->sequence = sequence;
    part->rank = (int)coll->dev.me;
    part->size = (int)coll->dev.n;
    part->spans = false;
    /* 2. The calls. */
    selvage_status_t status = do_calls(call);
    if (status == SELVAGE_SUCCESS)
        return status;
    /* 3. The first error stays. Partner: sv_coll_check(), on any thread. */
    (void)__atomic_compare_exchange_n(&coll->arena->broken, &none, status, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (call->agreed)
        return status;
    /* 4. Tell whoever waits for this rank: for a message, in a gathering (which on a broken communicator says that and
       no more), or anywhere else. */
    if (comm->broken == SELVAGE_SUCCESS)
        comm->broken = status;
    sv_coll_message_give_up(coll, status);
    (void)sv_gather(&coll->all, "selvage_coll", coll->number, status, comm->timeout_s);
    sv_agree_abort(comm, status);
    stop_node(coll);
    return status;
}

selvage_status_t sv_coll_nodes(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    nodes_task_t call = {.coll = coll, .calls = calls, .ncalls = ncalls};
    return ncalls > 0 ? sv_comm_run(coll->comm, run_nodes, &call) : SELVAGE_SUCCESS;
}
