/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, virtual nodes and cores, on local worlds whose nodes are known. */
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "host/topology.h"
#include "wire/wire_local.h"

/* One rank's view of a world of `size` ranks, `per_host` on each machine, divided into nodes of `per_node`. */
static void check_rank(sv_wire_world_t *world, int rank, int size, int per_host, int per_node)
{
    sv_wire_t *wire = NULL;
    sv_topology_t topology;
    int host_first = rank / per_host * per_host;
    int host_size = size - host_first < per_host ? size - host_first : per_host;
    int node_first = per_node ? host_first + (rank - host_first) / per_node * per_node : host_first;
    int node_end = per_node && node_first + per_node < host_first + host_size ? node_first + per_node
                                                                              : host_first + host_size;
    CHECK_STATUS(sv_wire_local_open(world, rank, &wire), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_topology_init(&topology, wire, per_node), SELVAGE_SUCCESS);
    CHECK_EQ(topology.rank, rank);
    CHECK_EQ(topology.size, size);
    CHECK_EQ(topology.host_size, host_size);
    for (int i = 0; i < host_size; i++)
        CHECK_EQ(topology.host_ranks[i], host_first + i);
    CHECK_EQ(topology.gpu_ranks, 0);
    CHECK_EQ(topology.near.node, -1);
    CHECK_EQ(topology.node_size, node_end - node_first);
    CHECK_EQ(topology.node_ranks[topology.node_index], rank);
    for (int peer = -1; peer <= size; peer++) {
        int inside = peer >= node_first && peer < node_end;
        CHECK_EQ(sv_topology_node_index(&topology, peer), inside ? peer - node_first : -1);
    }
    CHECK(topology.cores >= 1);
    CHECK_EQ(topology.oversubscribed, host_size > topology.cores);
    sv_topology_fini(&topology);
    sv_topology_fini(&topology);
    wire->ops->close(wire);
}

static void check_world(int size, int per_host, int per_node)
{
    sv_wire_world_t *world = NULL;
    CHECK_STATUS(sv_wire_world_create(size, per_host, &world), SELVAGE_SUCCESS);
    for (int rank = 0; rank < size; rank++)
        check_rank(world, rank, size, per_host, per_node);
    sv_wire_world_destroy(world);
    CHECK_EQ(sv_memory_live(), 0);
}

/* Without memory it fails, leaves nothing after, and fini takes what is there. */
static void test_failures(void)
{
    sv_wire_world_t *world = NULL;
    sv_wire_t *wire = NULL;
    CHECK_STATUS(sv_wire_world_create(4, 0, &world), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_wire_local_open(world, 2, &wire), SELVAGE_SUCCESS);
    int64_t before = sv_memory_live();
    sv_thread_binding()->log_level = 0;
    sv_topology_t topology;
    sv_fault_t fault;
    CHECK_STATUS(sv_fault_parse("alloc=1", 0, &fault), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = &fault;
    CHECK_STATUS(sv_topology_init(&topology, wire, 0), SELVAGE_ERR_MEMORY);
    sv_thread_binding()->fault = NULL;
    CHECK_EQ(sv_memory_live(), before);
    sv_topology_fini(&topology);
    sv_thread_binding()->log_level = 2;
    sv_topology_fini(NULL);
    wire->ops->close(wire);
    sv_wire_world_destroy(world);
}

int main(void)
{
    check_world(1, 1, 0);
    check_world(8, 8, 0);
    check_world(8, 8, 2);
    check_world(7, 4, 3);
    check_world(5, 5, 1);
    check_world(3, 3, 1000);
    test_failures();
    CHECK(sv_topology_cores() >= 1);
    return check_report("topology");
}
