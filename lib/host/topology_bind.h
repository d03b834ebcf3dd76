/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the calling thread's new memory lies: hwloc if built with it, else the system call that hwloc would make. A
 * preference, not an order: a node without room gives way to another instead of ending the job.
 */
#ifndef SV_TOPOLOGY_BIND_H
#define SV_TOPOLOGY_BIND_H

#include <stdbool.h>

/* What the other calls need, or NULL (which they accept) if nothing is needed or it cannot be had. */
void *sv_binder_create(void);
void sv_binder_destroy(void *binder);

/* Prefers a NUMA node from here on. Returns false, and changes nothing, where it is not possible, and where the thread
   has a policy already: whoever set that (numactl, the batch system) knows more. Partner: sv_binder_release(). */
bool sv_binder_prefer(void *binder, int node);
void sv_binder_release(void *binder);

#endif
