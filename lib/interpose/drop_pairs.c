/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls on the fast route that become messages without a question: calls to neighbours, MPI_Alltoallw, and
 * calls that do not block and move data. A call that does not block cannot ask the other ranks, and one to neighbours
 * has nothing to do with most of them. So all ranks must know by themselves what a call becomes:
 *
 *   - the communicator has a channel, and all ranks have agreed from which of its calls on it is used (drop_channel.c);
 *   - where all ranks know how long the blocks are, they are as long as messages of the route;
 *   - of a broadcast, the ranks are few, and share a node.
 *
 * Then it is messages on all ranks, whatever memory each of them gives: each message goes by the route, or is staged,
 * or is MPI's own. What MPI refuses is left to MPI, on the one rank that it refuses: the others find that rank where
 * they would without the drop-in, in its next such call.
 *
 *   a receive of each block ... a send of each block (drop_blocks.c) ... one request for all (drop_joint.c)
 *
 * The messages are on the communicator of the drop-in's that has all ranks of the job. Those between two ranks have the
 * order of the calls on the program's communicator, whose channel they are in. Within a call to neighbours of a grid,
 * tags say which side a block comes to. In graphs, and in rings of one or two, blocks of the same two ranks match in
 * the order in which MPI's own call of this form would match them: by side, or in the order of the lists, one of which
 * may be reversed. So what comes where does not depend on the way that a call takes.
 *
 * What a persistent call does at each start is listed when it is made (drop_blocks.c), if all ranks agree then to have
 * messages of it (drop_persistent.c).
 *
 * MPI's rules order the calls of a communicator. A call owns nothing when it returns: its request does.
 */
#include "interpose/drop_pairs.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_blocks.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_joint.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_route.h"

#include <limits.h>
#include <stdlib.h>

/* In a channel. Each side of a grid has one from GRID_TAG on: MPI's grids have no more than 32 dimensions here. */
enum { LIST_TAG = 8, ALL_TAG, ROOT_TAG, GRID_TAG = 16 };

/* A call, as this rank sees it. */
typedef struct plan {
    const sv_drop_pairs_t *call;
    sv_drop_tie_t *tie;
    sv_drop_kind_t kind;
    bool in_place;
    sv_drop_order_t order; /* of a call to neighbours */
    int tag, side_tag;     /* of blocks in the order of lists; and of that from the first side, if they go by sides */
    int nout, nin; /* blocks of each side */
    sv_drop_pairs_side_t out, in;
    int64_t out_extent, in_extent; /* of the type of a side that has one */
} plan_t;

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static MPI_Datatype type_of_block(const sv_drop_pairs_side_t *side, int i)
{
    return side->list.types ? side->list.types[i] : side->list.type;
}

static int64_t count_of_block(const sv_drop_pairs_side_t *side, int i)
{
    const sv_drop_list_t *list = &side->list;
    return list->counts ? list->counts[i] : list->large_counts ? (int64_t)list->large_counts[i] : list->count;
}

static sv_drop_pair_t find_block(const sv_drop_pairs_side_t *side, int i, int64_t extent)
{
    const sv_drop_list_t *list = &side->list;
    sv_drop_pair_t block = {.count = count_of_block(side, i), .type = type_of_block(side, i)};
    int64_t offset = 0;
    if (list->bytes)
        offset = list->bytes[i];
    else if (list->far)
        offset = list->far[i];
    else if (list->displs)
        offset = list->displs[i] * extent;
    else if (list->large_displs)
        offset = list->large_displs[i] * extent;
    else if (!side->same)
        offset = i * list->count * extent;
    block.at = (char *)((uintptr_t)side->buf + (uintptr_t)offset);
    return block;
}

/* Whether this rank has a block for itself, and both sides of it. */
static bool has_own_block(const plan_t *plan)
{
    const sv_drop_pairs_t *call = plan->call;
    return call->pattern == SV_DROP_ALL || (call->pattern != SV_DROP_NEIGHBORS && call->root == plan->tie->me);
}

/* The rank that block i of a side is for. Its tag is that of the receiver's block. */
static void find_peer(const plan_t *plan, bool sends, int i, sv_drop_pair_t *block)
{
    const sv_drop_pairs_t *call = plan->call;
    const sv_drop_tie_t *tie = plan->tie;
    block->tag = plan->tag;
    block->peer = i;
    if (call->pattern == SV_DROP_NEIGHBORS) {
        block->peer = (sends ? tie->to : tie->from)[i];
        if (plan->order == SV_DROP_BY_SIDE)
            block->tag = plan->side_tag + (sends ? i ^ 1 : i);
    } else if (call->pattern != SV_DROP_ALL && sends == (call->pattern == SV_DROP_TO_ROOT)) {
        block->peer = call->root;
    }
    block->sends = sends;
    block->own = block->peer == tie->me && has_own_block(plan);
}

/* In the communicator's channel. Of a persistent call, tags are counted from those that it gets when all agree. */
static void find_tags_of_call(plan_t *plan)
{
    static const int kinds[] = {[SV_DROP_NEIGHBORS] = LIST_TAG, [SV_DROP_ALL] = ALL_TAG, [SV_DROP_TO_ROOT] = ROOT_TAG,
                                [SV_DROP_FROM_ROOT] = ROOT_TAG};
    const int first = plan->tie->channel * SV_DROP_CHANNEL_TAGS;
    if (plan->kind == SV_DROP_PERSISTENT)
        return;
    plan->tag = first + kinds[plan->call->pattern];
    plan->side_tag = first + GRID_TAG;
}

/* --- what MPI refuses --------------------------------------------------------------------------------------------- */

static bool is_list_missing(const sv_drop_pairs_side_t *side, bool listed, bool typed)
{
    const sv_drop_list_t *list = &side->list;
    const bool placed = list->displs || list->large_displs || list->bytes || list->far;
    return (listed && ((!list->counts && !list->large_counts) || !placed)) || (typed && !list->types);
}

/* Whether MPI refuses the blocks of a side, on this rank. */
static bool is_pairs_side_refused(const sv_drop_pairs_side_t *side, int n)
{
    MPI_Datatype good = MPI_DATATYPE_NULL;
    for (int i = 0; i < n; i++) {
        MPI_Datatype const type = type_of_block(side, i);
        const int64_t count = count_of_block(side, i);
        if (count < 0)
            return true;
        if (type == good && type != MPI_DATATYPE_NULL)
            continue;
        if ((type == MPI_DATATYPE_NULL || !sv_drop_type_is_committed(type)) &&
            (count > 0 || sv_drop_tie_refuses_none(type)))
            return true;
        good = type;
    }
    return false;
}

static int64_t extent_of(const sv_drop_pairs_side_t *side, int n)
{
    sv_drop_type_t info;
    return n > 0 && !side->list.types && sv_drop_type(side->list.type, &info) ? info.extent : 0;
}

static bool are_sides_same(const sv_drop_pairs_side_t *a, const sv_drop_pairs_side_t *b)
{
    const sv_drop_list_t *one = &a->list, *other = &b->list;
    return a->buf == b->buf && one->count == other->count && one->type == other->type &&
           one->counts == other->counts && one->large_counts == other->large_counts && one->displs == other->displs &&
           one->large_displs == other->large_displs && one->bytes == other->bytes && one->far == other->far &&
           one->types == other->types;
}

static bool has_pair_elements(const sv_drop_pairs_side_t *side, int n)
{
    for (int i = 0; i < n; i++)
        if (count_of_block(side, i) > 0)
            return true;
    return false;
}

/* Whether MPI refuses the call since both sides are one buffer. The other ranks make messages, so this must be no
   guess. If types, counts or lists differ, blocks of one buffer need not overlap, and MPICH 4.0 and Open MPI 4.1 take
   the call. So MPI is asked only about sides that are the same in all: both sides of an exchange, and otherwise what a
   rank has for itself. */
static bool is_same_refused(const plan_t *plan)
{
    const sv_drop_pairs_t *call = plan->call;
    const int me = plan->tie->me;
    if (!has_own_block(plan) || plan->in_place)
        return false;
    if (call->pattern == SV_DROP_ALL && !plan->out.same)
        return are_sides_same(&plan->out, &plan->in) && has_pair_elements(&plan->out, plan->nout) &&
               sv_drop_tie_refuses_same(SV_DROP_ALIAS_ALLTOALL, call->ring);
    const sv_drop_pair_t from = find_block(&plan->out, plan->nout > 1 ? me : 0, plan->out_extent);
    const sv_drop_pair_t to = find_block(&plan->in, plan->nin > 1 ? me : 0, plan->in_extent);
    return from.at == to.at && from.type == to.type && from.count == to.count && from.count > 0 &&
           sv_drop_tie_refuses_same(call->pattern == SV_DROP_TO_ROOT     ? SV_DROP_ALIAS_GATHER
                                    : call->pattern == SV_DROP_FROM_ROOT ? SV_DROP_ALIAS_SCATTER
                                                                         : SV_DROP_ALIAS_ALLGATHER,
                                    call->ring);
}

/* Whether a side has memory of both kinds in it, so that the call is refused as it is when it is staged. */
static bool is_side_mixed(const char *name, const sv_drop_pairs_side_t *side, int n, int64_t extent)
{
    enum { FEW = 32 };
    sv_drop_call_t call = {.name = name};
    sv_drop_block_t few[FEW] = {{0}}, *blocks = few;
    bool derived = side->buf == MPI_BOTTOM;
    for (int i = 0; i < n && !derived; i++)
        derived = !sv_drop_is_named(type_of_block(side, i));
    if (!derived || n <= 0)
        return false;
    if (n > FEW && !(blocks = malloc((size_t)n * sizeof *blocks)))
        sv_drop_fatal("no memory", name);
    for (int i = 0; i < n; i++) {
        const sv_drop_pair_t block = find_block(side, i, extent);
        blocks[i] = (sv_drop_block_t){.count = block.count, .type = block.type,
                                      .offset = (int64_t)((uintptr_t)block.at - (uintptr_t)side->buf)};
        blocks[i].is_type = sv_drop_type(block.type, &blocks[i].info);
    }
    const bool mixed = sv_drop_refuse(&call, side->buf, blocks, side->same ? 1 : n);
    if (blocks != few)
        free(blocks);
    return mixed;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static sv_drop_own_block_t find_own_block(const plan_t *plan)
{
    const int out_at = plan->nout > 1 ? plan->tie->me : 0, in_at = plan->nin > 1 ? plan->tie->me : 0;
    sv_drop_type_t out, in;
    if (plan->in_place || !has_own_block(plan))
        return (sv_drop_own_block_t){.in_place = plan->in_place};
    const sv_drop_pair_t from = find_block(&plan->out, out_at, plan->out_extent);
    const sv_drop_pair_t to = find_block(&plan->in, in_at, plan->in_extent);
    if (!sv_drop_type(from.type, &out) || !sv_drop_type(to.type, &in) || !out.dense || !in.dense ||
        from.count * out.bytes != to.count * in.bytes)
        return (sv_drop_own_block_t){0};
    return (sv_drop_own_block_t){false, from.at, to.at, from.count * out.bytes};
}

/* Visits each block that has a message: one without elements has none, as its sender knows, too. Receives come first.
   Each rank begins with another peer. */
static void visit_blocks(const plan_t *plan, void (*visit)(void *with, const sv_drop_pair_t *block), void *with)
{
    const bool turns = plan->call->pattern == SV_DROP_ALL;
    for (int sends = 0; sends < 2; sends++) {
        const int n = sends ? plan->nout : plan->nin;
        for (int i = 0; i < n; i++) {
            const int back = !sends && plan->order == SV_DROP_REVERSED ? n - 1 - i : i;
            const int at = !turns ? back : sends ? (plan->tie->me + i) % n : (plan->tie->me + n - i) % n;
            sv_drop_pair_t block = sends ? find_block(&plan->out, at, plan->out_extent)
                                  : find_block(&plan->in, at, plan->in_extent);
            find_peer(plan, sends, at, &block);
            if (block.peer == MPI_PROC_NULL || block.count == 0 || !sv_drop_type_has_bytes(block.type))
                continue;
            block.rank = sv_drop_world_rank(plan->call->comm, block.peer);
            visit(with, &block);
        }
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether blocks are long enough, of calls of which all ranks know that. */
static bool is_call_long(const plan_t *plan)
{
    const sv_drop_pairs_t *call = plan->call;
    const sv_drop_pairs_side_t *side = &plan->in;
    int64_t most = 0;
    if ((call->pattern == SV_DROP_TO_ROOT && plan->tie->me != call->root) ||
        (call->pattern == SV_DROP_FROM_ROOT && plan->tie->me == call->root))
        side = &plan->out;
    if (side->list.types || !call->alike)
        return !call->alike;
    for (int i = 0; i < (side == &plan->out ? plan->nout : plan->nin); i++)
        most = count_of_block(side, i) > most ? count_of_block(side, i) : most;
    return sv_drop_fast_takes(most, side->list.type);
}

static bool is_broadcast(const sv_drop_pairs_t *call)
{
    return call->pattern == SV_DROP_FROM_ROOT && call->out.same;
}

/* How many blocks each side has on this rank; false: MPI is to make, or to refuse, such a call on all ranks. */
static bool count_blocks(plan_t *plan)
{
    const sv_drop_pairs_t *call = plan->call;
    const sv_drop_tie_t *tie = plan->tie;
    const bool is_root = call->root == tie->me, gathers = call->pattern == SV_DROP_TO_ROOT;
    switch (call->pattern) {
    case SV_DROP_NEIGHBORS:
        plan->nout = tie->nto;
        plan->nin = tie->nfrom;
        return tie->nfrom >= 0;
    case SV_DROP_ALL:
        plan->nout = plan->nin = tie->n;
        return tie->n > 1;
    default:
        plan->nout = gathers || is_root ? (gathers ? 1 : tie->n) : 0;
        plan->nin = !gathers || is_root ? (gathers ? tie->n : 1) : 0;
        return tie->n > 1 && call->root >= 0 && call->root < tie->n && (tie->near || !is_broadcast(call));
    }
}

/* In place a rank's own block is there already, or is what it sends. So it always is in a broadcast. An exchange in
   place, which all ranks make in place, is MPI's. So is a buffer that nobody has. */
static bool find_in_place(plan_t *plan)
{
    const sv_drop_pairs_t *call = plan->call;
    const bool out = plan->nout > 0 && call->out.buf == MPI_IN_PLACE;
    const bool in = plan->nin > 0 && call->in.buf == MPI_IN_PLACE;
    const bool is_root = call->root == plan->tie->me;
    if (is_broadcast(call)) {
        plan->in_place = is_root;
        plan->nin = is_root ? 0 : plan->nin;
        return !out && !in;
    }
    if (!out && !in)
        return true;
    plan->in_place = true;
    if (call->pattern == SV_DROP_TO_ROOT && out && is_root && !in) {
        plan->nout = 0;
        return true;
    }
    if (call->pattern == SV_DROP_FROM_ROOT && in && is_root && !out) {
        plan->nin = 0;
        return true;
    }
    return call->pattern == SV_DROP_ALL && call->out.same && out && !in;
}

/* Of a gather to all in place, what a rank sends is its own block of what it receives. */
static void send_from_place(plan_t *plan)
{
    const int64_t extent = extent_of(&plan->in, plan->nin);
    const sv_drop_pair_t own = find_block(&plan->in, plan->tie->me, extent);
    plan->out = (sv_drop_pairs_side_t){.buf = own.at, .same = true, .list = {.count = own.count, .type = own.type}};
}

/* Whether the call has device memory on this rank. */
static bool has_device_memory(const plan_t *plan)
{
    for (int i = 0; i < plan->nout + plan->nin; i++) {
        const bool sends = i < plan->nout;
        const sv_drop_pair_t block = sends ? find_block(&plan->out, i, plan->out_extent)
                                    : find_block(&plan->in, i - plan->nout, plan->in_extent);
        if (block.count > 0 && !sv_drop_is_host_typed(block.at, block.count, block.type))
            return true;
    }
    return false;
}

int64_t sv_drop_count_pairs(const char *name)
{
    int64_t fast, staged;
    sv_drop_count_parts(&fast, &staged);
    if (fast > 0)
        sv_drop_count_all(name, "fast", fast);
    if (staged > 0)
        sv_drop_count_all(name, "staged", staged);
    return fast + staged;
}

/* Whether the drop-in refuses the call on this rank, as it does when it is staged. Calls that are refused count on no
   rank: the others find this one in its next call. Also notes whether it has a use for messages. */
static bool is_call_mixed(const plan_t *plan)
{
    sv_drop_tie_t *tie = plan->tie;
    const bool due = sv_drop_channel_is_due(tie);
    const bool device = !due && (tie->channel || !tie->needs) && has_device_memory(plan);
    tie->needs = tie->needs || device;
    return (due || (device && tie->channel)) &&
           (is_side_mixed(plan->call->name, &plan->out, plan->nout, plan->out_extent) ||
            is_side_mixed(plan->call->name, &plan->in, plan->nin, plan->in_extent));
}

/* Whether the call can be messages, and MPI does not refuse it on this rank. */
static bool fill_plan(const sv_drop_pairs_t *call, sv_drop_kind_t kind, plan_t *plan)
{
    const bool typed = call->ring == SV_DROP_RING_W, listed = typed || call->ring == SV_DROP_RING_V;
    *plan = (plan_t){.call = call, .tie = sv_drop_tie_of(call->comm), .kind = kind, .out = call->out, .in = call->in};
    if (!count_blocks(plan) || !find_in_place(plan))
        return false;
    const bool no_list = (plan->nin > 0 && is_list_missing(&plan->in, listed && !plan->in.same, typed)) ||
                         (plan->nout > 0 && is_list_missing(&plan->out, listed && !plan->out.same, typed));
    if (no_list)
        return false;
    if (plan->in_place && call->pattern == SV_DROP_ALL)
        send_from_place(plan);
    if (!is_call_long(plan) || is_pairs_side_refused(&plan->in, plan->nin) ||
        is_pairs_side_refused(&plan->out, plan->nout))
        return false;
    plan->out_extent = extent_of(&plan->out, plan->nout);
    plan->in_extent = extent_of(&plan->in, plan->nin);
    find_tags_of_call(plan);
    return !is_same_refused(plan);
}

static void find_call_order(plan_t *plan)
{
    if (plan->call->pattern == SV_DROP_NEIGHBORS)
        plan->order = sv_drop_tie_order(plan->tie, plan->call->ring, plan->kind);
}

/* Whether the call, which MPI does not refuse, becomes messages on all ranks. refused_out: it is an error of this rank
   that the drop-in has found. */
static bool plan_pairs(const sv_drop_pairs_t *call, sv_drop_kind_t kind, plan_t *plan, bool *refused_out)
{
    *refused_out = false;
    if (!sv_drop_channel_may_be(call->comm) || !fill_plan(call, kind, plan))
        return false;
    *refused_out = is_call_mixed(plan);
    if (*refused_out)
        return true;
    if (!sv_drop_channel_takes(plan->tie))
        return false;
    find_call_order(plan);
    return true;
}

static bool begin_pairs(const sv_drop_pairs_t *call, sv_drop_kind_t kind, MPI_Request *request, int *code)
{
    plan_t plan;
    bool refused;
    if (!plan_pairs(call, kind, &plan, &refused))
        return false;
    *code = MPI_SUCCESS;
    if (refused) {
        *code = sv_drop_raise(call->comm, MPI_ERR_BUFFER);
        return true;
    }
    int64_t before[2];
    sv_drop_count_parts(&before[0], &before[1]); /* of calls that count by themselves */
    sv_drop_joint_t *joint = sv_drop_joint_begin(plan.nout + plan.nin);
    const sv_drop_own_block_t own = find_own_block(&plan);
    sv_drop_beginning_t to = {call->name, joint, sv_drop_copy_own_block(&own, joint)};
    visit_blocks(&plan, sv_drop_pair_begin, &to);
    sv_drop_flush(); /* short messages must not wait for the next call */
    const int64_t bytes = sv_drop_count_pairs(call->name);
    sv_drop_joint_start(joint, call->name, bytes, call->comm, request);
    return true;
}

bool sv_drop_make_pairs(const sv_drop_pairs_t *call, int *code)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!begin_pairs(call, SV_DROP_BLOCKING, &request, code))
        return false;
    if (*code == MPI_SUCCESS)
        *code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    return true;
}

bool sv_drop_begin_pairs(const sv_drop_pairs_t *call, MPI_Request *request, int *code)
{
    return begin_pairs(call, SV_DROP_NONBLOCKING, request, code);
}

/* Beyond a node, only neighbours send each other messages without more ado: MPI has better ways for calls to all. */
static sv_drop_recipe_t *make_recipe(const sv_drop_pairs_t *call)
{
    plan_t plan;
    if (!fill_plan(call, SV_DROP_PERSISTENT, &plan) || (call->pattern != SV_DROP_NEIGHBORS && !plan.tie->one_node) ||
        is_side_mixed(call->name, &plan.out, plan.nout, plan.out_extent) ||
        is_side_mixed(call->name, &plan.in, plan.nin, plan.in_extent))
        return NULL;
    const sv_drop_own_block_t own = find_own_block(&plan);
    find_call_order(&plan);
    sv_drop_recipe_t *recipe = sv_drop_recipe_begin(call->name, &own, plan.nout + plan.nin);
    visit_blocks(&plan, sv_drop_recipe_add, recipe);
    return recipe; /* partner: sv_drop_recipe_end() */
}

bool sv_drop_persist_pairs(const sv_drop_pairs_t *call, bool device, MPI_Request *request)
{
    if (!sv_drop_persistent_may_be(call->comm))
        return false;
    const sv_drop_starts_t starts = {sv_drop_recipe_start, sv_drop_recipe_end, make_recipe(call)};
    return sv_drop_persistent_make(call->name, call->comm, device, &starts, request);
}
