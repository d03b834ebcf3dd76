/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NUMA node next to a GPU, and its cores. Bytes that cross sockets on their way to a GPU share that link with
 * everybody else's. So pinned memory and the progress thread belong on the GPU's side. hwloc would say the same as
 * sysfs, but its search of the PCI bus takes a second on large machines. Everything that is unknown, or refused by the
 * system, leaves things as they are. Finding is local to a thread. Any thread may bind.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sets of processors */
#endif
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_log.h"
#include "host/topology.h"
#include "host/topology_bind.h"

enum { LIST_BYTES = 8192, WORD_BITS = 8 * (int)sizeof(long) };

/* First line of a file below a folder; false if it cannot be read. */
static bool read_line(const char *folder, const char *name, char line[LIST_BYTES])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool found = fgets(line, LIST_BYTES, file) != NULL;
    fclose(file);
    return found;
}

/* Puts "0-15,64-79" into a set; returns how many. What is beyond the set, or no number, ends it. */
static int parse_list(const char *text, unsigned long set[SV_TOPOLOGY_CPU_WORDS])
{
    int count = 0;
    memset(set, 0, SV_TOPOLOGY_CPU_WORDS * sizeof set[0]);
    for (char *end; *text; text = *end == ',' ? end + 1 : "") {
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (first < 0 || last >= SV_TOPOLOGY_CPUS)
            break;
        for (long i = first; i <= last; i++, count++)
            set[i / WORD_BITS] |= 1ul << i % WORD_BITS;
    }
    return count;
}

void sv_topology_place(sv_topology_t *topology, const char *sys_root, const char *bus_id)
{
    char folder[PATH_MAX], line[LIST_BYTES], *end;
    unsigned long nodes[SV_TOPOLOGY_CPU_WORDS];
    if (!bus_id[0] || strchr(bus_id, '/'))
        return;
    snprintf(folder, sizeof folder, "%s/devices/system/node", sys_root);
    if (!read_line(folder, "has_memory", line) || parse_list(line, nodes) < 2)
        return; /* memory on one node only: there is nothing to choose */
    snprintf(folder, sizeof folder, "%s/bus/pci/devices/%s", sys_root, bus_id);
    if (!read_line(folder, "numa_node", line))
        return;
    long node = strtol(line, &end, 10);
    if (end == line || node < 0 || node > INT_MAX)
        return;
    if (read_line(folder, "local_cpulist", line))
        parse_list(line, topology->near.cores);
    topology->near.binder = sv_binder_create();
    topology->near.node = (int)node;
    sv_log(SV_LOG_INFO, "topology", "GPU %s is next to NUMA node %ld", bus_id, node);
}

bool sv_topology_memory_begin(const sv_topology_t *topology)
{
    if (topology->near.node < 0)
        return false;
    bool bound = sv_binder_prefer(topology->near.binder, topology->near.node);
    if (!bound)
        sv_log(SV_LOG_INFO, "topology", "memory is not bound to NUMA node %d: not possible, or bound already",
               topology->near.node);
    return bound;
}

void sv_topology_memory_end(const sv_topology_t *topology, bool begun)
{
    if (begun)
        sv_binder_release(topology->near.binder);
}

void sv_topology_bind_thread(const sv_topology_t *topology)
{
    unsigned long cores[SV_TOPOLOGY_CPU_WORDS], both = 0;
    if (topology->near.node < 0)
        return;
    memset(cores, 0, sizeof cores);
    if (sched_getaffinity(0, sizeof cores, (cpu_set_t *)(void *)cores) != 0)
        return;
    for (int i = 0; i < SV_TOPOLOGY_CPU_WORDS; i++)
        both |= cores[i] &= topology->near.cores[i];
    if (!both || sched_setaffinity(0, sizeof cores, (const cpu_set_t *)(const void *)cores) != 0)
        sv_log(SV_LOG_INFO, "topology", "the thread stays where it is: none of its cores is on NUMA node %d",
               topology->near.node);
}
