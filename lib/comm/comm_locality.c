/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a new communicator finds out about where its ranks are. Each step that talks ends in an agreement, so that a
 * rank that fails takes all with it; a wire that fails is noticed by the deadline at the latest. Runs between the first
 * agreements of sv_comm_create() and the start of the progress thread; one thread.
 */
#include "base/base_status.h"
#include "comm/comm_control.h"

/* Ends the wait for a rank of the machine when some rank has failed already, or nothing has come for the deadline. */
static selvage_status_t keep_waiting(void *arg)
{
    sv_deadline_t *deadline = arg;
    if (sv_agree_is_lost(deadline->comm))
        return sv_error(SELVAGE_ERR_PEER, "selvage_comm_create: another rank failed while GPUs were compared");
    selvage_status_t status = sv_deadline_poll(deadline);
    if (status == SELVAGE_ERR_TIMEOUT)
        return sv_error(status, "selvage_comm_create: a rank of this machine has not said for %g s which GPU it uses",
                        deadline->timeout_s);
    return status;
}

static selvage_status_t find_gpu(selvage_comm_t *comm)
{
    sv_deadline_t deadline;
    uint64_t unused = 0;
    sv_deadline_begin(&deadline, comm, comm->timeout_s);
    selvage_status_t status =
        sv_topology_find_gpu(&comm->topology, comm->wire, comm->dev->bus_id, keep_waiting, &deadline);
    return sv_agree(comm, "selvage_comm_create: GPUs", 0, status, &unused, comm->timeout_s);
}

selvage_status_t sv_comm_locate(selvage_comm_t *comm)
{
    uint64_t no_gpu = comm->dev->bus_id[0] == '\0'; /* the minimum of all: whether no rank has one */
    selvage_status_t status = sv_topology_init(&comm->topology, comm->wire, comm->config.ranks_per_node);
    SV_TRY(sv_agree(comm, "selvage_comm_create: topology", 0, status, &no_gpu, comm->timeout_s));
    if (!no_gpu)
        SV_TRY(find_gpu(comm));
    if (comm->config.numa == SV_CONFIG_NUMA_AUTO)
        sv_topology_place(&comm->topology, "/sys", comm->dev->bus_id);
    return SELVAGE_SUCCESS;
}
