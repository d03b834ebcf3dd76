/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting, in calls of communicators that span nodes, by turns that return at once. An abort ends a wait, and for other
 * ranks the deadline does. It runs where the engine lives.
 */
#include <stdio.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "collective/coll_nodes.h"
#include "comm/comm_control.h"

static bool is_stopped(const selvage_coll_t *coll)
{
    /* Partner: sv_coll_abort(). */
    return __atomic_load_n(&coll->arena->pinned->host_stop, __ATOMIC_ACQUIRE) != 0;
}

static selvage_status_t report_stopped(void)
{
    return sv_error_quiet(SELVAGE_ERR_ABORTED, "collectives of this communicator have ended: %s",
                          selvage_status_string(SELVAGE_ERR_ABORTED));
}

static selvage_status_t report_broken(const selvage_coll_t *coll)
{
    const selvage_comm_t *comm = coll->comm;
    return sv_error_quiet(comm->broken, "an earlier collective call failed on this communicator: %s",
                          sv_comm_broken_text(comm));
}

/* The other ranks of the node, by their numbers. A kernel that waits for one of them knows which, but may have begun to
   wait later than this rank's host. */
static void list_node_others(const selvage_coll_t *coll, char *text, size_t bytes)
{
    const sv_topology_t *topology = &coll->comm->topology;
    size_t used = 0;
    text[0] = 0;
    for (unsigned r = 0; r < coll->dev.n && used < bytes; r++) {
        if (r == coll->dev.me)
            continue;
        const int wrote = snprintf(text + used, bytes - used, "%s%d", used ? ", " : "",
                                   topology->node_ranks[coll->dev.member[r]]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* The ranks of other nodes on this rank's rail. */
static void list_rail_others(const selvage_coll_t *coll, char *text, size_t bytes)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    size_t used = 0;
    text[0] = 0;
    for (int k = 0; k < node_set->nnodes && used < bytes; k++) {
        if (k == node_set->mine)
            continue;
        const int wrote = snprintf(text + used, bytes - used, "%s%d", used ? ", " : "",
                                   node_set->rank_at[node_set->first[k] + node_set->inner[coll->rank]]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

selvage_status_t sv_coll_rail_check(const selvage_coll_t *coll, selvage_status_t status)
{
    char others[128];
    if (status == SELVAGE_SUCCESS || status == SELVAGE_IN_PROGRESS)
        return status;
    list_rail_others(coll, others, sizeof others);
    return sv_error_quiet(status, "MPI's collective with rank %s failed: %s", others, sv_thread_detail());
}

selvage_status_t sv_coll_stage_test(selvage_coll_t *coll, sv_event_t *event)
{
    const selvage_status_t status = SV_DEVICE_CALL(coll->comm->dev, event_query, event);
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    if (is_stopped(coll))
        return report_stopped();
    return coll->comm->broken == SELVAGE_SUCCESS ? status : report_broken(coll);
}

selvage_status_t sv_coll_stage_turn(selvage_coll_t *coll, bool is_over, int rank)
{
    selvage_comm_t *comm = coll->comm;
    if (is_stopped(coll))
        return report_stopped();
    int failed = -1;
    const selvage_status_t loss = sv_agree_loss(comm, &failed);
    if (loss != SELVAGE_SUCCESS)
        return sv_error(loss, "rank %d has failed: %s", failed, selvage_status_string(loss));
    if (is_over && rank == coll->rank) {
        char others[128];
        list_node_others(coll, others, sizeof others);
        return sv_error(SELVAGE_ERR_TIMEOUT, "the ranks of this node did not do their part of a collective call for "
                        "%g s%s%s", comm->timeout_s, others[0] ? ": waiting for rank " : "", others);
    }
    if (is_over && rank == SV_COLL_RAIL_RANKS) {
        char others[128];
        list_rail_others(coll, others, sizeof others);
        return sv_error(SELVAGE_ERR_TIMEOUT, "MPI's collective between nodes did not get on for %g s: waiting for rank "
                        "%s", comm->timeout_s, others);
    }
    if (is_over)
        return sv_error(SELVAGE_ERR_TIMEOUT, "rank %d (on another node) did not do its part of a collective call for "
                        "%g s", rank, comm->timeout_s);
    return comm->broken == SELVAGE_SUCCESS ? SELVAGE_IN_PROGRESS : report_broken(coll);
}

bool sv_coll_stage_end(selvage_coll_t *coll, double timeout_s)
{
    const sv_coll_staging_t *staging = coll->arena->staging;
    void *const streams[] = {coll->arena->stream, staging->up_stream, staging->down_stream};
    const uint64_t begin_ns = sv_clock_ns();
    sv_backoff_t backoff = {.max_sleep_us = 200, .oversubscribed = coll->comm->topology.oversubscribed};
    for (unsigned i = 0; i < sizeof streams / sizeof streams[0]; i++)
        while (SV_DEVICE_CALL(coll->comm->dev, stream_query, streams[i]) != SELVAGE_SUCCESS) {
            if ((double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
                return false;
            sv_backoff(&backoff);
        }
    return true;
}
