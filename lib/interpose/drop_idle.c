/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that nothing has used for long is given back: mappings of other ranks' memory, of messages and of collectives,
 * buffers of the route's, staging memory, and scratch memory. Runtimes wait for all work of the process on the device
 * before they release any. A kernel among that may wait for what the host does after this call. So it is done only
 * while the devices are known to be at rest, which is found out within a limit, and else another time.
 *
 * Calls that block come here, at their end or where they wait for the device. Any thread; one of them looks, the others
 * go on.
 */
#include "interpose/drop_idle.h"

#include "interpose/drop_collcomm.h"
#include "interpose/drop_pool.h"
#include "interpose/drop_route.h"
#include "interpose/drop_scratch.h"
#include "interpose/drop_strip.h"
#include "interpose/drop_table.h"

#include <selvage/message.h>

/* How often is looked, how long a call may wait then for the devices, and when again if it has waited in vain. */
enum { LOOK_NS = 100000000, REST_NS = 2000000, AGAIN_NS = 500000000 };

void sv_drop_give_back(void)
{
    static _Atomic int64_t next_ns;
    const int64_t now_ns = sv_drop_now_ns();
    int64_t next = atomic_load_explicit(&next_ns, memory_order_relaxed);
    int due = 0;
    if (now_ns < next ||
        !atomic_compare_exchange_strong_explicit(&next_ns, &next, now_ns + LOOK_NS, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    selvage_comm_t *world = sv_drop_fast_is_open() ? sv_drop_route.world : NULL;
    if (world)
        (void)selvage_message_trim(world, 0, &due);
    /* What has staging memory without need: operations that are over, and rows. */
    sv_drop_lock();
    sv_drop_read_notes();
    sv_drop_unlock();
    sv_drop_strips_break_idle();
    const bool colls_due = sv_drop_collcomm_trim(false);
    const bool pool_due = sv_drop_pool_has_idle(now_ns), scratch_due = sv_drop_scratch_has_idle(now_ns);
    if (!due && !colls_due && !pool_due && !scratch_due)
        return;
    if (!sv_drop_comes_to_rest(REST_NS)) { /* a program that keeps its GPU at work is not to wait often */
        atomic_store_explicit(&next_ns, now_ns + AGAIN_NS, memory_order_relaxed);
        return;
    }
    if (due)
        (void)selvage_message_trim(world, 1, &due);
    if (colls_due)
        (void)sv_drop_collcomm_trim(true);
    if (pool_due)
        sv_drop_pool_free_idle();
    if (scratch_due)
        sv_drop_scratch_free_idle();
}
