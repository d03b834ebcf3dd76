/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who shares a node with whom, and whether the ranks are crowded. Nodes come from the wire's shared-memory split and
 * can be divided further into virtual nodes of ranks_per_node ranks each (in order of rank), to test and measure the
 * internode path on one machine. No O(P) memory: only the ranks of the own node are kept.
 */
#ifndef SV_TOPOLOGY_H
#define SV_TOPOLOGY_H

#include <stdbool.h>

#include "wire/wire.h"

typedef struct sv_topology {
    int rank, size;
    int *node_ranks;       /* ranks of this (virtual) node, ascending, this one included; owned */
    int node_size;
    int node_index;        /* position of this rank in node_ranks */
    int host_size;         /* ranks on the whole machine, virtual nodes put together */
    int cores;             /* cores this process may use */
    bool crowded;          /* more ranks on the machine than cores */
    bool shares_gpu;       /* another rank of the machine uses the same GPU: no kernel may wait for it */
} sv_topology_t;

/* Collective over the wire; may block. Partner: sv_topology_fini(). */
selvage_status_t sv_topology_init(sv_topology_t *topology, sv_wire_t *wire, int ranks_per_node);
void sv_topology_fini(sv_topology_t *topology);

/* Position of peer in node_ranks, or -1 if it is on another node. O(log node_size). */
int sv_topology_node_index(const sv_topology_t *topology, int peer);

/* Cores this process may use: hwloc's allowed cores if built with it, else the affinity mask. At least 1. */
int sv_topology_cores(void);

#endif
