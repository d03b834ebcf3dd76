/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short pieces among many nodes: a number of steps that grows as the number of binary digits of the nodes does.
 *
 * Nodes are counted from the root of a tree, round. The node above node d is d without the lowest bit of it that is
 * set, so the nodes below d are d + 1, d + 2, d + 4 and so on, and all under d are d and the nodes that follow. A
 * result goes down the tree, to the most distant node first. The shares of a sum go up it to the root. Those for all
 * nodes go by rounds, each from the node `known` above, where `known` shares are in hand (Bruck and others 1997).
 * Either way entry i of what is in hand is the share of node mine + i, and who has all adds them in the order of nodes:
 * the bits are those of sums that go from node to node.
 *
 * A share travels whole, so a rail's rank receives all of them: that is for what is short. The message of each round
 * has memory of its own, since it may be wanted again: in all no more than that of all shares and of the heads.
 *
 * It runs where the engine lives; a slot's memory is the arena's.
 */
#include <string.h>

#include "base/base_status.h"
#include "collective/coll_nodes_run.h"
#include "kernels/coll_pass_host.h"

enum {
    /*
     * Shares of up to so many bytes of a rail travel whole. With a delay of a, a time for each byte of b, and n nodes,
     * that takes n * bytes * b and a few delays, the way from node to node and back 2 * n * a. So bytes may be
     * 2 * a / b, whatever n is: 5 KiB by 20 us and 1 Gbit/s, 40 KiB by 10 us and what a host takes to sum, add and move
     * bytes.
     */
    SHARE_BYTES = 4 << 10,
    SHARE_UNIT = 16,
    ROUNDS = 16 /* of 2^16 nodes */
};
_Static_assert((int)ROUNDS <= (int)SV_COLL_DIRECT_NODES, "a slot has room for a message of each round");

static int count_rounds(int nnodes)
{
    int rounds = 0;
    while (1 << rounds < nnodes)
        rounds++;
    return rounds;
}

uint64_t sv_coll_tree_share_bytes(const selvage_coll_t *coll, uint64_t bytes, uint64_t chunk_bytes)
{
    const uint64_t whole = SV_COLL_CHUNK_BYTES - ROUNDS * (SV_COLL_HEAD_BYTES + SHARE_UNIT);
    const uint64_t most = coll->arena->staging->chunk_bytes < whole ? coll->arena->staging->chunk_bytes : whole;
    const uint64_t share = most / (uint64_t)coll->node_set->nnodes / SHARE_UNIT * SHARE_UNIT;
    return bytes > SHARE_BYTES ? 0 : share < chunk_bytes ? share : chunk_bytes;
}

/* In chunks that follow each other: the root of a tree sends each as often as there are rounds, and the last one has as
   many to go; round from node to node each is sent once, and the last one passes all nodes. */
bool sv_coll_tree_is_faster(const selvage_coll_t *coll, uint64_t rows)
{
    const uint64_t nnodes = (uint64_t)coll->node_set->nnodes, rounds = (uint64_t)count_rounds(coll->node_set->nnodes);
    return coll->comm->config.coll_internode == SV_CONFIG_COLL_INTERNODE_TREE ||
           (rows + 1) * rounds <= nnodes - 1 + rows;
}

static int count_from(const sv_coll_node_set_t *node_set, int root)
{
    return (node_set->mine - root + node_set->nnodes) % node_set->nnodes;
}

/* The lowest bit of this node's number; of the root one beyond all. */
static int lowest_bit(const sv_coll_node_set_t *node_set, int root)
{
    const int d = count_from(node_set, root);
    return d == 0 ? 1 << count_rounds(node_set->nnodes) : d & -d;
}

static int rank_after(const sv_coll_plan_t *plan, int distance, int rail)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    return sv_coll_plan_rank(plan, (node_set->mine + distance + node_set->nnodes) % node_set->nnodes, rail);
}

int sv_coll_tree_above(const sv_coll_plan_t *plan, int root, int rail)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    return node_set->mine == root ? -1 : rank_after(plan, -lowest_bit(node_set, root), rail);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

selvage_status_t sv_coll_tree_pass(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message)
{
    const sv_coll_node_set_t *node_set = run->coll->node_set;
    const sv_coll_row_t *what = &slot->row;
    const int left = node_set->nnodes - count_from(node_set, what->node);
    int bit = lowest_bit(node_set, what->node) / 2;
    if (bit > 0 && left > 1)
        sv_coll_message_write(run->coll, run->plan->call, message, what->at, what->bytes);
    for (; bit > 0; bit /= 2)
        if (bit < left)
            SV_TRY(sv_coll_rails_send(run, slot, message, rank_after(run->plan, bit, run->plan->mine)));
    return SELVAGE_SUCCESS;
}

/* --- shares ------------------------------------------------------------------------------------------------------- */

static bool is_for_all(const sv_coll_rail_slot_t *slot)
{
    return slot->row.node == SV_COLL_ALL_NODES;
}

/* How many shares come from the node that is next: as many as are known, but no more than there are. */
static int count_coming(const sv_coll_rails_t *run, const sv_coll_rail_slot_t *slot)
{
    const sv_coll_node_set_t *node_set = run->coll->node_set;
    int all = node_set->nnodes;
    if (!is_for_all(slot)) {
        const int left = all - count_from(node_set, slot->row.node), bit = lowest_bit(node_set, slot->row.node);
        all = bit < left ? bit : left;
    }
    return slot->node < all - slot->node ? slot->node : all - slot->node;
}

/* A round: what is known goes to a node below, if it is for all; and what is known there comes from one above. */
static selvage_status_t begin_tree_round(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const sv_coll_plan_t *plan = run->plan;
    const uint64_t bytes = (uint64_t)count_coming(run, slot) * slot->row.bytes;
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_rails_take(run, slot, slot->in, bytes, rank_after(plan, slot->node, plan->mine)));
    if (!is_for_all(slot))
        return SELVAGE_SUCCESS;
    uint8_t *message = slot->other + slot->passed_bytes;
    slot->passed_bytes += SV_COLL_HEAD_BYTES + (bytes + SHARE_UNIT - 1) / SHARE_UNIT * SHARE_UNIT;
    memcpy(message + SV_COLL_HEAD_BYTES, slot->out + SV_COLL_HEAD_BYTES, bytes);
    sv_coll_message_write(run->coll, plan->call, message, slot->row.at, bytes);
    return sv_coll_rails_send(run, slot, message, rank_after(plan, -slot->node, plan->mine));
}

selvage_status_t sv_coll_tree_begin(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    slot->node = 1;
    slot->passed_bytes = 0;
    return begin_tree_round(run, slot);
}

/* In the order of the nodes. What came last is not needed any more where it came. */
static void add_all(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const sv_coll_call_t *call = run->plan->call;
    const sv_coll_node_set_t *node_set = run->coll->node_set;
    const unsigned nnodes = (unsigned)node_set->nnodes, first = (nnodes - (unsigned)node_set->mine) % nnodes;
    const unsigned divisor = call->flags & SV_COLL_DIVIDE ? (unsigned)run->coll->size : 0;
    slot->sum = slot->in;
    sv_coll_pass_host_rows(slot->sum + SV_COLL_HEAD_BYTES, slot->out + SV_COLL_HEAD_BYTES, slot->row.bytes, nnodes,
                           first, call->type, call->op, divisor);
}

selvage_status_t sv_coll_tree_step(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    for (int coming; (coming = count_coming(run, slot)) > 0;) {
        sv_coll_rails_await(run, slot->taking.rank);
        SV_TRY(sv_coll_rails_poll(run, slot, &run->up_late));
        SV_TRY(sv_coll_taking_drain(run->coll, &slot->taking));
        memcpy(slot->out + SV_COLL_HEAD_BYTES + (uint64_t)slot->node * slot->row.bytes, slot->in + SV_COLL_HEAD_BYTES,
               (uint64_t)coming * slot->row.bytes);
        slot->node += coming;
        run->moved = true;
        SV_TRY(begin_tree_round(run, slot));
    }
    slot->sum = slot->out;
    if (slot->row.ends)
        add_all(run, slot);
    return SELVAGE_SUCCESS;
}
