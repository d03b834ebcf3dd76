/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many cores the ranks of this machine have. hwloc tells the cores that the machine's administration (cgroups)
 * allows, whatever core the launcher bound this rank to. That is the number to compare with all ranks of the machine.
 *
 * Without hwloc the affinity mask has to do. It is small for a bound rank, which only makes waits more polite than
 * needed. Pure functions, any thread. A query takes milliseconds, so there is one per communicator.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sets of processors */
#endif
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(HAVE_HWLOC) && HAVE_HWLOC
#include <hwloc.h>
#endif

#include "host/topology.h"

enum { CPUS_FIRST = 1024, CPUS_MOST = 1 << 20 };

/* Cores of the affinity mask. The kernel refuses a set that is too small for the machine, so it grows. */
static int cores_by_affinity(void)
{
    for (int cpus = CPUS_FIRST; cpus <= CPUS_MOST; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        size_t set_bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, set_bytes, set) == 0 ? CPU_COUNT_S(set_bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

#if defined(HAVE_HWLOC) && HAVE_HWLOC
/* Everything but cores is filtered out: looking for caches, PCI and GPUs would cost every rank tens of milliseconds. */
static int cores_by_hwloc(void)
{
    hwloc_topology_t topology;
    int count = 0;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
#if HWLOC_API_VERSION >= 0x00020100
    /* The system tells enough. Asking each processor moves the calling thread about, and complains under valgrind. */
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
#endif
    if (hwloc_topology_load(topology) == 0)
        count = hwloc_get_nbobjs_inside_cpuset_by_type(topology, hwloc_topology_get_allowed_cpuset(topology),
                                                       HWLOC_OBJ_CORE);
    hwloc_topology_destroy(topology);
    return count;
}
#else
static int cores_by_hwloc(void)
{
    return 0;
}
#endif

int sv_topology_cores(void)
{
    int cores = cores_by_hwloc();
    return cores > 0 ? cores : cores_by_affinity();
}
