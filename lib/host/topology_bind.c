/* SPDX-License-Identifier: BSD-3-Clause */
/* See topology_bind.h. No state but the binder; any thread, each for itself. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "host/topology_bind.h"

#if defined(HAVE_HWLOC) && HAVE_HWLOC

#include <hwloc.h>

enum { BIND_FLAGS = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET };

/* Filters everything out but NUMA nodes, which are always found: looking for the rest takes long. */
void *sv_binder_create(void)
{
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0)
        return NULL;
    hwloc_topology_set_all_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
#if HWLOC_API_VERSION >= 0x00020100
    hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86"); /* as topology_host.c */
#endif
    if (hwloc_topology_load(machine) == 0)
        return machine;
    hwloc_topology_destroy(machine);
    return NULL;
}

void sv_binder_destroy(void *binder)
{
    if (binder)
        hwloc_topology_destroy(binder);
}

bool sv_binder_prefer(void *binder, int node)
{
    hwloc_nodeset_t set = binder ? hwloc_bitmap_alloc() : NULL;
    if (!set)
        return false;
    /* A policy that somebody has set stays. */
    hwloc_membind_policy_t policy;
    bool bound = hwloc_get_membind(binder, set, &policy, BIND_FLAGS) == 0 && policy == HWLOC_MEMBIND_FIRSTTOUCH;
    if (bound) { /* not strict: the system may take another node if this one is full */
        hwloc_bitmap_only(set, (unsigned)node);
        bound = hwloc_set_membind(binder, set, HWLOC_MEMBIND_BIND, BIND_FLAGS) == 0;
    }
    hwloc_bitmap_free(set);
    return bound;
}

void sv_binder_release(void *binder)
{
    (void)hwloc_set_membind(binder, hwloc_topology_get_topology_nodeset(binder), HWLOC_MEMBIND_DEFAULT, BIND_FLAGS);
}

#else

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for syscall() */
#endif
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel's mempolicy.h has them, which not every system installs. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, NODES = 1024, NODE_BITS = 8 * (int)sizeof(long) };

void *sv_binder_create(void)
{
    return NULL;
}

void sv_binder_destroy(void *binder)
{
    (void)binder;
}

bool sv_binder_prefer(void *binder, int node)
{
    unsigned long nodes[NODES / NODE_BITS] = {0};
    int policy = -1;
    (void)binder;
    if (node >= NODES || syscall(SYS_get_mempolicy, &policy, NULL, 0L, NULL, 0L) != 0 || policy != POLICY_DEFAULT)
        return false;
    nodes[node / NODE_BITS] = 1ul << node % NODE_BITS;
    return syscall(SYS_set_mempolicy, POLICY_PREFERRED, nodes, (long)NODES) == 0;
}

void sv_binder_release(void *binder)
{
    (void)binder;
    (void)syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0L);
}

#endif
