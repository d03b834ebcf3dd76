/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who shares a node with whom, whether the ranks are oversubscribed, which of them share a GPU, and which NUMA node is
 * next to this rank's GPU. Nodes come from the wire's shared-memory split. They can be divided further into virtual
 * nodes of ranks_per_node ranks each, in order of rank, to test and measure the internode path on one machine.
 *
 * Only the ranks of the own host are kept, so memory is not O(P). The struct is written while the communicator is made,
 * and read-only after. Any thread may read.
 */
#ifndef SV_TOPOLOGY_H
#define SV_TOPOLOGY_H

#include <stdbool.h>

#include "wire/wire.h"

enum { SV_TOPOLOGY_CPUS = 8192, SV_TOPOLOGY_CPU_WORDS = SV_TOPOLOGY_CPUS / (8 * (int)sizeof(long)) };

/* The NUMA node next to this rank's GPU; see topology_numa.c. */
typedef struct sv_place {
    int node;                                    /* -1: unknown, or nothing to choose between: nothing is bound */
    unsigned long cores[SV_TOPOLOGY_CPU_WORDS];  /* those of the node, in the layout of cpu_set_t */
    void *binder;                                /* what topology_bind.c needs to bind memory, or NULL; owned */
} sv_place_t;

typedef struct sv_topology {
    int rank, size;
    int *host_ranks;       /* ranks of the whole machine, ascending, this one included; owned */
    int host_size;         /* how many these are */
    int *node_ranks;       /* ranks of this (virtual) node: a run of host_ranks */
    int node_size;
    int node_index;        /* position of this rank in node_ranks */
    int cores;             /* cores this process may use */
    bool oversubscribed;   /* more ranks, or progress threads and ranks, than cores */
    int gpu_ranks;         /* ranks of the machine on this rank's GPU, this one included; 0: no GPU, or not asked */
    bool shares_gpu;       /* gpu_ranks > 1: no kernel of this rank may wait for another rank's */
    bool guesses_gpus;     /* shares_gpu is a guess: no rank has heard of the others' GPUs */
    sv_place_t near;       /* node -1 until sv_topology_place() */
} sv_topology_t;

/* Collective over the wire; may block. Partner: sv_topology_fini(). */
selvage_status_t sv_topology_init(sv_topology_t *topology, sv_wire_t *wire, int ranks_per_node);
void sv_topology_fini(sv_topology_t *topology);

/* Position of peer in node_ranks, or -1 if it is on another node. O(log node_size). */
int sv_topology_node_index(const sv_topology_t *topology, int peer);

/* Cores this process may use: hwloc's allowed cores if built with it, else the affinity mask. At least 1. */
int sv_topology_cores(void);

/* Fills near from a device's bus id, as sysfs below sys_root ("/sys" but in tests) has it. What is not found is left
   unbound: placement is never an error. Local. */
void sv_topology_place(sv_topology_t *topology, const char *sys_root, const char *bus_id);

/* Around allocations of the calling thread: memory touched first between the two lies next to the GPU, if it can. What
   begin returns is for its end. */
bool sv_topology_memory_begin(const sv_topology_t *topology);
void sv_topology_memory_end(const sv_topology_t *topology, bool begun);

/* Narrows the calling thread to those of its cores that are next to the GPU; leaves it if there are none. */
void sv_topology_bind_thread(const sv_topology_t *topology);

#endif
