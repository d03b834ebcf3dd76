/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share the node. The wire says who shares memory. Virtual nodes are runs of ranks_per_node of these ranks,
 * in order of rank, so that every rank divides the machine alike without talking. Memory is O(ranks of the machine).
 * Read-only once made; any thread may read.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "host/topology.h"
#include "host/topology_bind.h"

static int find_rank(const int *ranks, int count, int rank)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranks[low] == rank ? low : -1;
}

selvage_status_t sv_topology_init(sv_topology_t *topology, sv_wire_t *wire, int ranks_per_node)
{
    sv_topology_t made = {.rank = wire->rank, .size = wire->size, .near.node = -1};
    memset(topology, 0, sizeof *topology); /* so that fini accepts it whatever happens */
    topology->near.node = -1;
    SV_TRY(wire->ops->node_ranks(wire, &made.host_ranks, &made.host_size));
    int position = find_rank(made.host_ranks, made.host_size, wire->rank);
    if (position < 0) {
        sv_free(made.host_ranks);
        return sv_error(SELVAGE_ERR_INTERNAL, "rank %d is not among the ranks of its own node", wire->rank);
    }
    /* The run of ranks that is the caller's virtual node. */
    const int per_node = ranks_per_node > 0 ? ranks_per_node : made.host_size;
    const int first = position / per_node * per_node, rest = made.host_size - first;
    made.node_size = rest < per_node ? rest : per_node;
    made.node_index = position - first;
    made.node_ranks = made.host_ranks + first;
    made.cores = sv_topology_cores();
    made.oversubscribed = made.host_size > made.cores;
    *topology = made;
    return SELVAGE_SUCCESS;
}

void sv_topology_fini(sv_topology_t *topology)
{
    if (!topology)
        return;
    sv_free(topology->host_ranks);
    sv_binder_destroy(topology->near.binder);
    memset(topology, 0, sizeof *topology);
    topology->near.node = -1;
}

int sv_topology_node_index(const sv_topology_t *topology, int peer)
{
    return find_rank(topology->node_ranks, topology->node_size, peer);
}
