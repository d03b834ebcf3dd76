/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For machines with fewer cores than ranks; preloaded by scripts/run-mpi, no part of the library. MPICH over UCX waits
 * in a loop that never gives up the core, so a rank that waits keeps out the rank it waits for until the scheduler
 * steps in. Here the library's progress call is put in front of UCX's: when UCX found nothing to do, the core is
 * offered to the others. Any thread; the address is looked up once, and looking it up twice does no harm.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

typedef unsigned progress_fn(void *worker);

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static _Atomic(progress_fn *) real;
    progress_fn *next = atomic_load_explicit(&real, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
        if (next == NULL)
            return 0;
        atomic_store_explicit(&real, next, memory_order_relaxed);
    }
    unsigned events = next(worker);
    if (events == 0)
        sched_yield();
    return events;
}
