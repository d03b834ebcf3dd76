/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does reductions between nodes. The vector (of a reduce-scatter, the blocks of all ranks one after the
 * other) is divided among the rails, chunk by chunk:
 *
 *   collect   all ranks of a node -> the rank whose rail it is       in the order of ranks
 *   up        each adds its node's sum after what it is sent; the last one divides
 *   down      the result, to where it belongs
 *   spread    the rank whose rail it is -> all ranks of its node, or the root
 *
 * So an element is always added in the same order: on a node by rank, then over nodes by node. What the result is does
 * not depend on sizes, chunks, routes or time; it is the same on all ranks, and rounded once on each node.
 *
 * Among a few nodes a piece is sent to the node that adds it, and from there to all: two steps, in which each node
 * sends 2 (n - 1) / n of the vector, as in a ring. A short vector is sent to all nodes, each of which adds all shares:
 * one step. Among many, sums go from node 0 to node 1 and so on, and results back, so that a rank has two neighbours,
 * whatever n is. So do sums for one root, whose node would otherwise receive the vector n - 1 times: it does where that
 * is once, or one chunk. Of short vectors among many nodes all shares travel whole, to all or to the root, in as many
 * rounds as n has binary digits; who has them adds them in that same order.
 *
 * MPI's own collectives may do all of what is between nodes, in an order that is theirs.
 */
#include "base/base_status.h"
#include "collective/coll_nodes.h"

static uint64_t vector_bytes(const sv_coll_plan_t *plan)
{
    return plan->call->count * plan->element_bytes;
}

/* The own share of a piece. */
static const uint8_t *find_share(const sv_coll_plan_t *plan, uint64_t row, uint64_t at)
{
    return plan->collect ? sv_coll_plan_collected(plan, row) : (const uint8_t *)plan->call->send + at;
}

/* The sum of a piece goes up from node to node. */
static void describe_chain(const sv_coll_plan_t *plan, uint64_t row, int rail, sv_coll_row_t *row_out)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    const int mine = node_set->mine, last = node_set->nnodes - 1;
    row_out->own = find_share(plan, row, row_out->at);
    row_out->from = mine > 0 ? sv_coll_plan_rank(plan, mine - 1, rail) : -1;
    row_out->to = mine < last ? sv_coll_plan_rank(plan, mine + 1, rail) : -1;
    row_out->ends = mine == last;
}

/* All shares come to one node, or to all, and are added there. */
static void describe_gathered(const sv_coll_plan_t *plan, uint64_t row, int rail, int node, sv_coll_row_t *row_out)
{
    row_out->own = find_share(plan, row, row_out->at);
    row_out->from = SV_COLL_TREE;
    row_out->node = node;
    row_out->ends = node == SV_COLL_ALL_NODES || node == plan->coll->node_set->mine;
    row_out->to = row_out->ends ? -1 : sv_coll_tree_above(plan, node, rail);
}

/* All shares go to one node. */
static void describe_star(const sv_coll_plan_t *plan, uint64_t row, int rail, int node, sv_coll_row_t *row_out)
{
    row_out->own = find_share(plan, row, row_out->at);
    row_out->ends = plan->coll->node_set->mine == node;
    if (row_out->ends)
        row_out->from = SV_COLL_ALL_NODES;
    else
        row_out->to = sv_coll_plan_rank(plan, node, rail);
}

/* MPI adds all shares; one node gets the sum, or all do. Every share is there before, so every rank's ends. */
static void describe_handed_sum(const sv_coll_plan_t *plan, uint64_t row, int node, sv_coll_row_t *row_out)
{
    row_out->own = find_share(plan, row, row_out->at);
    row_out->handed = row_out->ends = true;
    row_out->node = node;
}

/* Whether all nodes add a piece of an all-reduce. That is one message after the other less, and n - 1 messages in place
   of one from each node: for what is short. */
static bool is_added_everywhere(const sv_coll_plan_t *plan)
{
    enum { SENT_BYTES = 32 << 10 };
    return plan->direct && plan->rows == 1 &&
           plan->chunk_bytes * (uint64_t)(plan->coll->node_set->nnodes - 1) <= SENT_BYTES;
}

/* Node sums of pieces, each to the rank whose rail it is. */
static selvage_status_t launch_sums(const sv_coll_plan_t *plan, uint64_t row, const uint64_t *at, const uint64_t *bytes)
{
    selvage_coll_t *coll = plan->coll;
    sv_coll_call_t sums[SV_COLL_RANKS];
    unsigned nsums = 0;
    for (int rail = 0; rail < plan->rails; rail++) {
        if (bytes[rail] == 0)
            continue;
        sums[nsums] = *plan->call;
        sums[nsums].call = SV_COLL_REDUCE;
        sums[nsums].root = rail;
        sums[nsums].flags &= (uint8_t)~SV_COLL_DIVIDE;
        sums[nsums].send = (const uint8_t *)plan->call->send + at[rail];
        sums[nsums].recv = sv_coll_plan_collected(plan, row);
        sums[nsums].count = bytes[rail] / plan->element_bytes;
        sums[nsums].send_id = sums[nsums].recv_id = 0;
        sums[nsums++].stream = coll->arena->stream;
    }
    return sv_coll_launch(coll->node_set->part, sums, nsums);
}

/* --- all-reduce, reduce ------------------------------------------------------------------------------------------- */

static selvage_status_t collect_vector(const sv_coll_plan_t *plan, uint64_t row)
{
    selvage_coll_t *coll = plan->coll;
    uint64_t at[SV_COLL_RANKS], bytes[SV_COLL_RANKS];
    for (int rail = 0; rail < plan->rails; rail++)
        bytes[rail] = sv_coll_plan_piece(plan, row, rail, vector_bytes(plan), &at[rail]);
    /* Equal pieces for all ranks are one call. */
    if (plan->rails == (int)coll->dev.n && bytes[plan->rails - 1] == bytes[0] && plan->rails > 1) {
        sv_coll_call_t call = *plan->call;
        call.call = SV_COLL_REDUCE_SCATTER;
        call.root = -1;
        call.flags &= (uint8_t)~SV_COLL_DIVIDE;
        call.send = (const uint8_t *)plan->call->send + at[0];
        call.recv = sv_coll_plan_collected(plan, row);
        call.count = bytes[0] / plan->element_bytes;
        call.send_id = call.recv_id = 0;
        call.stream = coll->arena->stream;
        return sv_coll_launch(coll->node_set->part, &call, 1);
    }
    return launch_sums(plan, row, at, bytes);
}

static void describe_all_reduce(const sv_coll_plan_t *plan, uint64_t row, sv_coll_row_t *row_out)
{
    *row_out = (sv_coll_row_t){.from = -1, .to = -1, .source = -1, .next = -1};
    if (plan->mine < 0)
        return;
    row_out->bytes = sv_coll_plan_piece(plan, row, plan->mine, vector_bytes(plan), &row_out->at);
    row_out->put = (uint8_t *)plan->call->recv + row_out->at;
    if (plan->handed) {
        describe_handed_sum(plan, row, SV_COLL_ALL_NODES, row_out);
        return;
    }
    if (is_added_everywhere(plan)) {
        describe_star(plan, row, plan->mine, plan->coll->node_set->mine, row_out);
        row_out->to = SV_COLL_ALL_NODES;
        return;
    }
    if (plan->gathers) {
        describe_gathered(plan, row, plan->mine, SV_COLL_ALL_NODES, row_out);
        return;
    }
    if (plan->direct) /* nodes take turns to add */
        describe_star(plan, row, plan->mine, (int)(row % (uint64_t)plan->coll->node_set->nnodes), row_out);
    else
        describe_chain(plan, row, plan->mine, row_out);
    if (plan->branches) {
        row_out->node = plan->coll->node_set->nnodes - 1;
        row_out->source = sv_coll_tree_above(plan, row_out->node, plan->mine);
        row_out->next = SV_COLL_TREE;
        return;
    }
    if (!row_out->ends)
        row_out->source = row_out->to;
    row_out->next = !plan->direct ? row_out->from : row_out->ends ? SV_COLL_ALL_NODES : -1;
}

/* Whether all nodes send their shares to that of the root. */
static bool is_added_at_root(const sv_coll_plan_t *plan)
{
    return plan->gathers || (plan->direct && (plan->coll->node_set->nnodes == 2 || plan->rows == 1));
}

/* To the node of the root, and there to a place of its own, if it is not the root's piece. */
static void describe_reduce(const sv_coll_plan_t *plan, uint64_t row, sv_coll_row_t *row_out)
{
    const selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    const int root_node = node_set->node[plan->call->root];
    const int adds = plan->handed || is_added_at_root(plan) ? root_node : node_set->nnodes - 1;
    *row_out = (sv_coll_row_t){.from = -1, .to = -1, .source = -1, .next = -1};
    if (plan->mine < 0)
        return;
    row_out->bytes = sv_coll_plan_piece(plan, row, plan->mine, vector_bytes(plan), &row_out->at);
    if (plan->handed)
        describe_handed_sum(plan, row, adds, row_out);
    else if (plan->gathers)
        describe_gathered(plan, row, plan->mine, adds, row_out);
    else if (is_added_at_root(plan))
        describe_star(plan, row, plan->mine, adds, row_out);
    else
        describe_chain(plan, row, plan->mine, row_out);
    if (node_set->mine == adds && root_node != adds)
        row_out->next = sv_coll_plan_rank(plan, root_node, plan->mine);
    if (node_set->mine != root_node)
        return;
    if (node_set->mine != adds)
        row_out->source = sv_coll_plan_rank(plan, adds, plan->mine);
    row_out->put = coll->rank == plan->call->root ? (uint8_t *)plan->call->recv + row_out->at
                                                  : sv_coll_plan_received(plan, row);
}

/* The ranks of the root's node send it their pieces. */
static selvage_status_t spread_to_root(const sv_coll_plan_t *plan, uint64_t row)
{
    selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    const int root = plan->call->root;
    sv_coll_call_t pairs[SV_COLL_RANKS];
    unsigned npairs = 0;
    if (node_set->node[root] != node_set->mine)
        return SELVAGE_SUCCESS;
    for (int rail = 0; rail < plan->rails; rail++) {
        uint64_t at;
        const uint64_t bytes = sv_coll_plan_piece(plan, row, rail, vector_bytes(plan), &at);
        sv_coll_call_t pair = {.call = SV_COLL_PAIR, .type = plan->call->type, .count = bytes / plan->element_bytes,
                               .stream = coll->arena->stream};
        if (bytes == 0 || rail == node_set->inner[root])
            continue;
        if (coll->rank == root) {
            pair.root = rail;
            pair.recv = (uint8_t *)plan->call->recv + at;
            pairs[npairs++] = pair;
        } else if (rail == plan->mine) {
            pair.root = node_set->inner[root];
            pair.is_send = true;
            pair.send = sv_coll_plan_received(plan, row);
            pairs[npairs++] = pair;
        }
    }
    return sv_coll_launch(node_set->part, pairs, npairs);
}

/* --- reduce-scatter ----------------------------------------------------------------------------------------------- */

static selvage_status_t collect_blocks(const sv_coll_plan_t *plan, uint64_t row)
{
    uint64_t at[SV_COLL_RANKS], bytes[SV_COLL_RANKS];
    int rank;
    for (int rail = 0; rail < plan->rails; rail++)
        bytes[rail] = sv_coll_plan_block(plan, row, rail, &rank, &at[rail]);
    return launch_sums(plan, row, at, bytes);
}

/* Where it was added, on the last node or that of the rank that gets it, a piece goes straight to that rank, which may
   have no rail. */
static void describe_reduce_scatter(const sv_coll_plan_t *plan, uint64_t row, sv_coll_row_t *row_out)
{
    const selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    const int rail = node_set->inner[coll->rank] % plan->rails;
    const uint64_t block = vector_bytes(plan), own_block = block * (uint64_t)coll->rank;
    int rank;
    *row_out = (sv_coll_row_t){.from = -1, .to = -1, .source = -1, .next = -1};
    row_out->bytes = sv_coll_plan_block(plan, row, rail, &rank, &row_out->at);
    if (row_out->bytes == 0)
        return;
    const int adds = plan->direct || plan->handed ? node_set->node[rank] : node_set->nnodes - 1;
    if (plan->mine >= 0 && plan->handed)
        describe_handed_sum(plan, row, adds, row_out);
    else if (plan->mine >= 0 && plan->direct)
        describe_star(plan, row, rail, adds, row_out);
    else if (plan->mine >= 0)
        describe_chain(plan, row, rail, row_out);
    const bool has_sum = row_out->ends && (!plan->handed || node_set->mine == adds);
    if (has_sum && rank != coll->rank)
        row_out->next = rank;
    if (rank != coll->rank)
        return;
    if (!has_sum)
        row_out->source = sv_coll_plan_rank(plan, adds, rail);
    row_out->put = (uint8_t *)plan->call->recv + (row_out->at - own_block);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

void sv_coll_nodes_reduce(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out)
{
    const uint64_t bytes = call->count * selvage_type_bytes(call->type);
    /* One rank of a node has its sum as it is, unless it is multiplied first. */
    const bool collects = coll->dev.n > 1 || (call->flags & SV_COLL_PREMUL);
    if (call->call == SV_COLL_REDUCE_SCATTER) {
        sv_coll_plan_begin_blocks(plan_out, coll, call);
        plan_out->describe = describe_reduce_scatter;
        plan_out->collect = collects ? collect_blocks : NULL;
        return;
    }
    sv_coll_plan_begin(plan_out, coll, call, bytes);
    plan_out->collect = collects ? collect_vector : NULL;
    plan_out->describe = call->call == SV_COLL_REDUCE ? describe_reduce : describe_all_reduce;
    if (coll->dev.n == 1)
        return;
    plan_out->spreads_received = call->call == SV_COLL_REDUCE;
    plan_out->spread = plan_out->spreads_received ? spread_to_root : sv_coll_plan_spread_vector;
}
