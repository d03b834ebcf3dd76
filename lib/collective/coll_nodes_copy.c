/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does broadcasts and all-gathers between nodes. Pieces go to all nodes, round from node to node, those of
 * broadcasts also by a tree, each on its rail:
 *
 *   collect   the root, or a rank without a rail -> the rank whose rail it is
 *   up        out of the device
 *   down      to the next node, and the next, until all have it
 *   spread    the rank whose rail it is -> all ranks of its node
 *
 * The node that a piece comes from is served by the device alone: by its kernels, or by a copy if it has one rank.
 */
#include "base/base_status.h"
#include "collective/coll_nodes.h"

static uint64_t origin_bytes(const sv_coll_plan_t *plan)
{
    return plan->call->count * plan->element_bytes;
}

/* Whether a piece is sent to all nodes at once. Each gets it with the first step, but its sender has n - 1 messages
   under way in place of one, of which networks lose some if they are long. So it is for one chunk of each origin. */
static bool is_fanned(const sv_coll_plan_t *plan)
{
    const uint64_t nnodes = (uint64_t)plan->coll->node_set->nnodes;
    return plan->direct && plan->rows <= (plan->call->call == SV_COLL_ALL_GATHER ? nnodes * (uint64_t)plan->groups : 1);
}

/* A piece that comes from this node goes to all, or round from here; one of another node goes on, unless that is next.
   */
static void describe_round(const sv_coll_plan_t *plan, uint64_t row, int origin, sv_coll_row_t *row_out)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    const int nnodes = node_set->nnodes, mine = node_set->mine;
    const int after = (mine + 1) % nnodes, before = (mine + nnodes - 1) % nnodes;
    if (mine == origin) {
        row_out->own = sv_coll_plan_collected(plan, row);
        row_out->ends = true;
    } else {
        row_out->put = (uint8_t *)plan->call->recv + row_out->at;
    }
    if (plan->handed) { /* MPI takes it from there to all other nodes */
        row_out->handed = true;
        row_out->node = origin;
        return;
    }
    if (plan->branches) {
        row_out->node = origin;
        row_out->source = sv_coll_tree_above(plan, origin, plan->mine);
        row_out->next = SV_COLL_TREE;
        return;
    }
    if (mine != origin)
        row_out->source = sv_coll_plan_rank(plan, is_fanned(plan) ? origin : before, plan->mine);
    if (is_fanned(plan))
        row_out->next = mine == origin ? SV_COLL_ALL_NODES : -1;
    else if (after != origin)
        row_out->next = sv_coll_plan_rank(plan, after, plan->mine);
}

/* A call among the ranks of this node, on the arena's stream. */
static sv_coll_call_t make_inner(const sv_coll_plan_t *plan, unsigned call, int root, uint64_t bytes)
{
    return (sv_coll_call_t){.call = (uint8_t)call, .type = plan->call->type, .root = root,
                            .count = bytes / plan->element_bytes, .stream = plan->coll->arena->stream};
}

/* Of a rank that is alone on its node, of which no kernel fills the output. */
static void keep_own(sv_coll_plan_t *plan, uint64_t at, uint64_t bytes)
{
    plan->keep_from = plan->call->send;
    plan->keep_to = (uint8_t *)plan->call->recv + at;
    plan->keep_bytes = plan->keep_from == plan->keep_to ? 0 : bytes;
}

/* --- broadcast ---------------------------------------------------------------------------------------------------- */

/* The root sends the other ranks of its node the pieces of their rails. */
static selvage_status_t collect_from_root(const sv_coll_plan_t *plan, uint64_t row)
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
        const uint64_t bytes = sv_coll_plan_piece(plan, row, rail, origin_bytes(plan), &at);
        if (bytes == 0 || rail == node_set->inner[root])
            continue;
        if (coll->rank == root) {
            pairs[npairs] = make_inner(plan, SV_COLL_PAIR, rail, bytes);
            pairs[npairs].is_send = true;
            pairs[npairs++].send = (const uint8_t *)plan->call->send + at;
        } else if (rail == plan->mine) {
            pairs[npairs] = make_inner(plan, SV_COLL_PAIR, node_set->inner[root], bytes);
            pairs[npairs++].recv = sv_coll_plan_collected(plan, row);
        }
    }
    return sv_coll_launch(node_set->part, pairs, npairs);
}

static void describe_broadcast(const sv_coll_plan_t *plan, uint64_t row, sv_coll_row_t *row_out)
{
    const selvage_coll_t *coll = plan->coll;
    *row_out = (sv_coll_row_t){.from = -1, .to = -1, .source = -1, .next = -1};
    if (plan->mine < 0)
        return;
    row_out->bytes = sv_coll_plan_piece(plan, row, plan->mine, origin_bytes(plan), &row_out->at);
    describe_round(plan, row, coll->node_set->node[plan->call->root], row_out);
    if (coll->rank == plan->call->root)
        row_out->own = (const uint8_t *)plan->call->send + row_out->at;
}

selvage_status_t sv_coll_plan_spread_vector(const sv_coll_plan_t *plan, uint64_t row)
{
    selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_call_t calls[SV_COLL_RANKS];
    uint64_t at[SV_COLL_RANKS] = {0}, bytes[SV_COLL_RANKS] = {0};
    unsigned ncalls = 0;
    const int last = plan->rails - 1;
    for (int rail = 0; rail <= last; rail++)
        bytes[rail] = sv_coll_plan_piece(plan, row, rail, origin_bytes(plan), &at[rail]);
    if (plan->call->call == SV_COLL_BROADCAST && node_set->node[plan->call->root] == node_set->mine) {
        const uint64_t left = origin_bytes(plan) - at[0], row_bytes = plan->chunk_bytes * (uint64_t)plan->rails;
        calls[0] = make_inner(plan, SV_COLL_BROADCAST, node_set->inner[plan->call->root],
                              left < row_bytes ? left : row_bytes); /* the root has all of it */
        calls[0].send = (const uint8_t *)plan->call->send + at[0];
        calls[0].recv = (uint8_t *)plan->call->recv + at[0];
        return sv_coll_launch(node_set->part, calls, 1);
    }
    if (last + 1 == (int)coll->dev.n && bytes[last] == bytes[0]) { /* equal pieces are one call */
        calls[0] = make_inner(plan, SV_COLL_ALL_GATHER, -1, bytes[0]);
        calls[0].send = (const uint8_t *)plan->call->recv + at[plan->mine];
        calls[0].recv = (uint8_t *)plan->call->recv + at[0];
        return sv_coll_launch(node_set->part, calls, 1);
    }
    for (int rail = 0; rail < plan->rails; rail++) {
        if (bytes[rail] == 0)
            continue;
        calls[ncalls] = make_inner(plan, SV_COLL_BROADCAST, rail, bytes[rail]);
        calls[ncalls].send = calls[ncalls].recv = (uint8_t *)plan->call->recv + at[rail];
        ncalls++;
    }
    return sv_coll_launch(node_set->part, calls, ncalls);
}

void sv_coll_nodes_broadcast(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out)
{
    sv_coll_plan_begin(plan_out, coll, call, call->count * selvage_type_bytes(call->type));
    plan_out->describe = describe_broadcast;
    plan_out->collect = plan_out->rails > 1 || coll->node_set->inner[call->root] > 0 ? collect_from_root : NULL;
    if (coll->dev.n > 1)
        plan_out->spread = sv_coll_plan_spread_vector;
    else if (coll->rank == call->root)
        keep_own(plan_out, 0, origin_bytes(plan_out));
}

/* --- all-gather --------------------------------------------------------------------------------------------------- */

/* Ranks without a rail give their pieces to those of their node that have theirs. */
static selvage_status_t collect_from_others(const sv_coll_plan_t *plan, uint64_t row)
{
    selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_call_t pairs[SV_COLL_RANKS];
    unsigned npairs = 0;
    for (int rail = 0; rail < plan->rails; rail++) {
        uint64_t at;
        int rank;
        const uint64_t bytes = sv_coll_plan_block(plan, row, rail, &rank, &at);
        if (bytes == 0 || node_set->node[rank] != node_set->mine || node_set->inner[rank] == rail)
            continue;
        if (coll->rank == rank) {
            pairs[npairs] = make_inner(plan, SV_COLL_PAIR, rail, bytes);
            pairs[npairs].is_send = true;
            pairs[npairs++].send = (const uint8_t *)plan->call->send + (at - origin_bytes(plan) * (uint64_t)rank);
        } else if (rail == plan->mine) {
            pairs[npairs] = make_inner(plan, SV_COLL_PAIR, node_set->inner[rank], bytes);
            pairs[npairs++].recv = sv_coll_plan_collected(plan, row);
        }
    }
    return sv_coll_launch(node_set->part, pairs, npairs);
}

static void describe_all_gather(const sv_coll_plan_t *plan, uint64_t row, sv_coll_row_t *row_out)
{
    const selvage_coll_t *coll = plan->coll;
    int rank;
    *row_out = (sv_coll_row_t){.from = -1, .to = -1, .source = -1, .next = -1};
    if (plan->mine < 0)
        return;
    row_out->bytes = sv_coll_plan_block(plan, row, plan->mine, &rank, &row_out->at);
    if (row_out->bytes == 0)
        return;
    describe_round(plan, row, coll->node_set->node[rank], row_out);
    if (coll->rank == rank)
        row_out->own = (const uint8_t *)plan->call->send + (row_out->at - origin_bytes(plan) * (uint64_t)rank);
}

static selvage_status_t spread_blocks(const sv_coll_plan_t *plan, uint64_t row)
{
    selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_call_t calls[SV_COLL_RANKS];
    unsigned ncalls = 0;
    for (int rail = 0; rail < plan->rails; rail++) {
        uint64_t at;
        int rank;
        const uint64_t bytes = sv_coll_plan_block(plan, row, rail, &rank, &at);
        if (bytes == 0 || node_set->node[rank] == node_set->mine)
            continue;
        calls[ncalls] = make_inner(plan, SV_COLL_BROADCAST, rail, bytes);
        calls[ncalls].send = calls[ncalls].recv = (uint8_t *)plan->call->recv + at;
        ncalls++;
    }
    return sv_coll_launch(node_set->part, calls, ncalls);
}

/* The blocks of this node's ranks, to all of them. */
static selvage_status_t gather_on_node(const sv_coll_plan_t *plan)
{
    selvage_coll_t *coll = plan->coll;
    const sv_coll_node_set_t *node_set = coll->node_set;
    sv_coll_call_t calls[SV_COLL_RANKS];
    const uint64_t block = origin_bytes(plan);
    for (unsigned i = 0; i < coll->dev.n; i++) {
        const int rank = sv_coll_plan_rank(plan, node_set->mine, (int)i);
        calls[i] = make_inner(plan, SV_COLL_BROADCAST, (int)i, block);
        calls[i].recv = (uint8_t *)plan->call->recv + (uint64_t)rank * block;
        calls[i].send = rank == coll->rank ? plan->call->send : calls[i].recv;
    }
    return sv_coll_launch(node_set->part, calls, coll->dev.n);
}

selvage_status_t sv_coll_nodes_all_gather(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out)
{
    sv_coll_plan_begin_blocks(plan_out, coll, call);
    plan_out->describe = describe_all_gather;
    plan_out->collect = plan_out->groups > 1 ? collect_from_others : NULL;
    plan_out->spread = coll->dev.n > 1 ? spread_blocks : NULL;
    if (coll->dev.n > 1)
        return gather_on_node(plan_out);
    keep_own(plan_out, (uint64_t)coll->rank * origin_bytes(plan_out), origin_bytes(plan_out));
    return SELVAGE_SUCCESS;
}
