/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file says what is the same for all rows of a call between nodes: how long the chunks are, and which piece of the
 * vector, or of which rank's block, each rail carries in which row. The same on all ranks. Pure, but for the slots of
 * the arena, whose addresses it tells. It runs where the engine lives.
 */
#include <math.h>

#include "collective/coll_nodes.h"

enum { SLOTS = SV_COLL_RAIL_SLOTS, CHUNK_UNIT = 256 };

/*
 * With chunks of c bytes of n, over h steps from node to node, each with a delay of a, and a wire of b bytes a second,
 * a call takes (n / c + h) * (c / b + a), which is least for c = sqrt(n * a * b / h); that quotient is taken as 1 KiB.
 * Messages of 64 KiB and more cost MPI a handshake, which waits in the same queues as the data: on links of 0.2 to 1
 * Gbit/s chunks just below were the best for 1 to 16 MiB. Where nodes take turns, each has two chunks at least, so that
 * all have the same to do.
 */
uint64_t sv_coll_chunk_bytes(const sv_coll_staging_t *staging, uint64_t bytes, unsigned turns)
{
    enum { EAGER = 60 << 10, LEAST = 16 << 10 };
    const uint64_t best = (uint64_t)sqrt((double)bytes * 1024), most = staging->chunk_bytes;
    uint64_t chunk = best > EAGER ? best : EAGER;
    if (turns > 0 && chunk > bytes / (2 * turns))
        chunk = bytes / (2 * turns) > LEAST ? bytes / (2 * turns) : LEAST;
    if (chunk > bytes)
        chunk = bytes > 0 ? bytes : 1;
    chunk = (chunk + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;
    return chunk < most ? chunk : most;
}

/* More nodes than that have no room for each other's messages. */
static bool is_direct(const selvage_coll_t *coll)
{
    return coll->comm->config.coll_internode == SV_CONFIG_COLL_INTERNODE_AUTO &&
           coll->node_set->nnodes <= SV_COLL_DIRECT_NODES;
}

/* What is short goes by trees where pieces do not go directly, unless that is not wanted. */
static bool has_trees(const selvage_coll_t *coll)
{
    const int internode = coll->comm->config.coll_internode;
    return internode == SV_CONFIG_COLL_INTERNODE_TREE ||
           (internode == SV_CONFIG_COLL_INTERNODE_AUTO && coll->node_set->nnodes > SV_COLL_DIRECT_NODES);
}

static void begin_plan(sv_coll_plan_t *plan, selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    const int inner = node_set->inner[coll->rank];
    *plan = (sv_coll_plan_t){.coll = coll, .call = call, .element_bytes = selvage_type_bytes(call->type),
                             .rails = node_set->rails, .mine = inner < node_set->rails ? inner : -1, .groups = 1,
                             .direct = is_direct(coll),
                             .handed = coll->comm->config.coll_internode == SV_CONFIG_COLL_INTERNODE_MPI};
}

static uint64_t divide_up(uint64_t number, uint64_t by)
{
    return (number + by - 1) / by;
}

void sv_coll_plan_begin(sv_coll_plan_t *plan, selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t bytes)
{
    begin_plan(plan, coll, call);
    const uint64_t rails = (uint64_t)plan->rails;
    const bool takes_turns = plan->direct && call->call == SV_COLL_ALL_REDUCE;
    plan->chunk_bytes = sv_coll_chunk_bytes(coll->arena->staging, divide_up(bytes, rails),
                                            takes_turns ? (unsigned)coll->node_set->nnodes : 0);
    if (has_trees(coll) && call->call != SV_COLL_BROADCAST) {
        const uint64_t share_bytes = sv_coll_tree_share_bytes(coll, divide_up(bytes, rails), plan->chunk_bytes);
        plan->gathers = share_bytes > 0;
        plan->chunk_bytes = plan->gathers ? share_bytes : plan->chunk_bytes;
    }
    plan->rows = divide_up(bytes, rails * plan->chunk_bytes);
    plan->branches = has_trees(coll) && sv_coll_tree_is_faster(coll, plan->rows);
}

uint64_t sv_coll_plan_piece(const sv_coll_plan_t *plan, uint64_t row, int rail, uint64_t bytes, uint64_t *at_out)
{
    const uint64_t at = (row * (uint64_t)plan->rails + (uint64_t)rail) * plan->chunk_bytes;
    *at_out = at;
    return at >= bytes ? 0 : bytes - at < plan->chunk_bytes ? bytes - at : plan->chunk_bytes;
}

void sv_coll_plan_begin_blocks(sv_coll_plan_t *plan, selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    begin_plan(plan, coll, call);
    for (int k = 0; k < node_set->nnodes; k++) {
        const int groups = (node_set->first[k + 1] - node_set->first[k] + plan->rails - 1) / plan->rails;
        plan->groups = groups > plan->groups ? groups : plan->groups;
    }
    const uint64_t block = call->count * plan->element_bytes, turns = (uint64_t)(node_set->nnodes * plan->groups);
    const uint64_t chunk_bytes = sv_coll_chunk_bytes(coll->arena->staging, block * turns, 0);
    const uint64_t least = divide_up(block, CHUNK_UNIT) * CHUNK_UNIT; /* more than a block is no use */
    plan->chunk_bytes = chunk_bytes < least ? chunk_bytes : least;
    plan->rows = turns * divide_up(block, plan->chunk_bytes);
}

/* Rows go through the nodes, then through the ranks that share a rail, then through the blocks. */
uint64_t sv_coll_plan_block(const sv_coll_plan_t *plan, uint64_t row, int rail, int *rank_out, uint64_t *at_out)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    const uint64_t nnodes = (uint64_t)node_set->nnodes, block = plan->call->count * plan->element_bytes;
    const int node = (int)(row % nnodes), group = (int)(row / nnodes % (uint64_t)plan->groups);
    const int place = node_set->first[node] + group * plan->rails + rail;
    const uint64_t skip = row / nnodes / (uint64_t)plan->groups * plan->chunk_bytes;
    if (place >= node_set->first[node + 1])
        return 0;
    *rank_out = node_set->rank_at[place];
    *at_out = (uint64_t)*rank_out * block + skip;
    return block - skip < plan->chunk_bytes ? block - skip : plan->chunk_bytes;
}

int sv_coll_plan_rank(const sv_coll_plan_t *plan, int node, int rail)
{
    const sv_coll_node_set_t *node_set = plan->coll->node_set;
    return node_set->rank_at[node_set->first[node] + rail];
}

uint8_t *sv_coll_plan_collected(const sv_coll_plan_t *plan, uint64_t row)
{
    return plan->coll->arena->staging->up[row % SLOTS].device;
}

uint8_t *sv_coll_plan_received(const sv_coll_plan_t *plan, uint64_t row)
{
    return plan->coll->arena->staging->down[row % SLOTS].device;
}
