/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a new communicator finds out about where its ranks are: nodes, which ranks share a GPU, what lies next to it.
 * Each step that talks ends in an agreement, so that a rank that fails takes all with it. A failing wire is noticed by
 * the deadline at the latest. All this runs in one thread, between the first agreements of sv_comm_create() and the
 * start of the progress thread.
 *
 * A kernel that waits for another rank's kernel must not sit on the GPU that the other needs. So each rank learns how
 * many ranks of its machine are on its own GPU. GPUs are compared by bus id, because numbers mean nothing between
 * processes: a mask of visible devices renumbers them. Devices without one (soft) share nothing. Partitions of a GPU
 * (MIG, CPX) have the bus id of the whole, so ranks on two partitions count as sharing. That is safe, and costs them
 * the kernels that wait: nobody promises that partitions run side by side.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "comm/comm_gather.h"

/* The ranks of the machine tell each other the bus ids of their devices ("" for those that have none). */
static selvage_status_t count_gpu_ranks(sv_team_t *machine)
{
    selvage_comm_t *comm = machine->comm;
    const char *const bus_id = comm->dev->bus_id;
    enum { BUS_BYTES = sizeof(sv_device_handle_t) < 32 ? sizeof(sv_device_handle_t) : 32 };
    int gpu_ranks = 0;
    snprintf((char *)&sv_gather_item_begin(machine)->handle, BUS_BYTES, "%s", bus_id);
    SV_TRY(sv_gather(machine, "selvage_comm_create: GPUs", 0, SELVAGE_SUCCESS, comm->timeout_s));
    for (int r = 0; r < machine->size && bus_id[0]; r++)
        gpu_ranks += memcmp(&sv_gather_item_of(machine, r)->handle, &sv_gather_item_of(machine, machine->me)->handle,
                            BUS_BYTES) == 0;
    comm->topology.gpu_ranks = gpu_ranks;
    comm->topology.shares_gpu = gpu_ranks > 1;
    if (comm->topology.shares_gpu)
        sv_log(SV_LOG_INFO, "topology", "%d ranks of this machine use GPU %s: no kernel here waits for another rank",
               gpu_ranks, bus_id);
    return SELVAGE_SUCCESS;
}

/* Made beforehand: a rank that gave up for want of memory in the middle would leave the others waiting. */
static selvage_status_t make_machine_team(selvage_comm_t *comm, sv_team_t *machine)
{
    const sv_topology_t *topology = &comm->topology;
    SV_TRY(sv_team_init(machine, comm, topology->host_size));
    for (int r = 0; r < topology->host_size; r++) {
        machine->ranks[r] = topology->host_ranks[r];
        if (topology->host_ranks[r] == topology->rank)
            machine->me = r;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_comm_locate(selvage_comm_t *comm)
{
    sv_team_t machine = {0};
    uint64_t no_gpu = comm->dev->bus_id[0] == '\0'; /* the minimum of all: whether no rank has one */
    uint64_t unused = 0;
    selvage_status_t status = sv_topology_init(&comm->topology, comm->wire, comm->config.ranks_per_node);
    if (status == SELVAGE_SUCCESS)
        status = make_machine_team(comm, &machine);
    SV_TRY_GOTO(status, sv_agree(comm, "selvage_comm_create: topology", 0, status, &no_gpu, comm->timeout_s), done);
    if (!no_gpu) {
        status = count_gpu_ranks(&machine);
        if (status != SELVAGE_SUCCESS) /* ranks of other machines wait in the agreement */
            sv_agree_abort(comm, status);
        else
            status = sv_agree(comm, "selvage_comm_create: GPUs", 0, status, &unused, comm->timeout_s);
        if (status != SELVAGE_SUCCESS)
            goto done;
    }
    if (comm->config.numa == SV_CONFIG_NUMA_AUTO)
        sv_topology_place(&comm->topology, "/sys", comm->dev->bus_id);
done:
    sv_team_fini(&machine);
    return status;
}
