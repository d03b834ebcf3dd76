/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share the node. The wire says who shares memory; virtual nodes are runs of ranks_per_node of them, in
 * order of rank, so that every rank of the machine divides it alike without talking. Memory is O(ranks of the machine)
 * during init and O(ranks of the virtual node) after it. Read-only once made; any thread may read.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "topology/topology.h"

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

/* Keeps the run of ranks that is the caller's virtual node. */
static selvage_status_t keep_virtual_node(const int *host_ranks, int position, int ranks_per_node,
                                          sv_topology_t *topology)
{
    int per_node = ranks_per_node > 0 ? ranks_per_node : topology->host_size;
    int first = position / per_node * per_node;
    int rest = topology->host_size - first;
    topology->node_size = rest < per_node ? rest : per_node;
    topology->node_index = position - first;
    SV_TRY(sv_calloc((size_t)topology->node_size, sizeof(int), &topology->node_ranks));
    memcpy(topology->node_ranks, host_ranks + first, (size_t)topology->node_size * sizeof(int));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_topology_init(sv_topology_t *topology, sv_wire_t *wire, int ranks_per_node)
{
    sv_topology_t made = {.rank = wire->rank, .size = wire->size};
    int *host_ranks = NULL;
    memset(topology, 0, sizeof *topology); /* so that fini accepts it whatever happens */
    SV_TRY(wire->ops->node_ranks(wire, &host_ranks, &made.host_size));
    selvage_status_t status;
    int position = find_rank(host_ranks, made.host_size, wire->rank);
    if (position < 0)
        status = sv_error(SELVAGE_ERR_INTERNAL, "rank %d is not among the ranks of its own node", wire->rank);
    else
        status = keep_virtual_node(host_ranks, position, ranks_per_node, &made);
    sv_free(host_ranks);
    SV_TRY(status);
    made.cores = sv_topology_cores();
    made.crowded = made.host_size > made.cores;
    *topology = made;
    return SELVAGE_SUCCESS;
}

void sv_topology_fini(sv_topology_t *topology)
{
    if (!topology)
        return;
    sv_free(topology->node_ranks);
    memset(topology, 0, sizeof *topology);
}

int sv_topology_node_index(const sv_topology_t *topology, int peer)
{
    return find_rank(topology->node_ranks, topology->node_size, peer);
}
