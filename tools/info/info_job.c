/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding out. Routes are learned from the library itself: an exchange with a packet of no bytes between every two of
 * the first ranks is committed, asked for its routes, and never started. A rank without a device keeps all from making
 * a communicator, which is collective; everything else is reported all the same.
 */
#include "tools/info/info_job.h"
#include "tools/info/info_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const device_names[INFO_DEVICES] = {"nvidia", "amd", "soft"};

static void keep_error(char text[INFO_ERROR_BYTES], selvage_status_t status)
{
    snprintf(text, INFO_ERROR_BYTES, "%s: %.440s", selvage_status_name(status), selvage_error_detail());
}

static void find_mpi(info_job_t *info)
{
    int level;
    tool_mpi_name(info->mpi, sizeof info->mpi);
    MPI_Get_version(&info->mpi_version, &info->mpi_subversion);
    MPI_Query_thread(&level);
    const char *name = level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
                       : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
                       : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                                        : "MPI_THREAD_MULTIPLE";
    snprintf(info->thread_level, sizeof info->thread_level, "%s", name);
}

static void find_devices(info_job_t *info)
{
    for (int i = 0; i < INFO_DEVICES; i++) {
        info_device_t *device = &info->devices[i];
        device->name = device_names[i];
        if (selvage_device_probe(device->name, &device->count) != SELVAGE_SUCCESS)
            snprintf(device->why, sizeof device->why, "%.500s", selvage_error_detail());
    }
}

static void describe_device(const info_job_t *info, info_rank_t *mine)
{
    selvage_device_info_t device = {SELVAGE_DEVICE_INFO_INIT};
    tool_try(&info->job, "device_describe", selvage_device_describe(info->device, &device));
    snprintf(mine->device, sizeof mine->device, "%s", selvage_device_name(info->device));
    memcpy(mine->bus_id, device.bus_id, sizeof mine->bus_id);
    memcpy(mine->model, device.model, sizeof mine->model);
    mine->index = device.index;
    mine->count = device.count;
    info_locality_find("/sys", mine->bus_id, &mine->near);
    if (!mine->bus_id[0])
        info_locality_allowed(mine->near.cores, sizeof mine->near.cores);
}

/* How many ranks of the host have the same bus id: masks renumber GPUs, so numbers say nothing. */
static void count_sharers(const tool_job_t *job, info_rank_t *mine)
{
    const size_t bytes = sizeof mine->bus_id;
    char *all = tool_malloc(job, (size_t)job->host_count * bytes);
    MPI_Request request;
    MPI_Iallgather(mine->bus_id, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, job->host_comm, &request);
    tool_poll(job, &request, 1);
    for (int i = 0; mine->bus_id[0] && i < job->host_count; i++)
        mine->gpu_ranks += strncmp(all + (size_t)i * bytes, mine->bus_id, bytes) == 0;
    free(all);
}

/* Opens this rank's device; all ranks' answers are on rank 0, whether all are good everywhere. */
static void find_ranks(info_job_t *info)
{
    const tool_job_t *job = &info->job;
    info_rank_t mine;
    char host[MPI_MAX_PROCESSOR_NAME];
    int length, failed;
    MPI_Request request;
    memset(&mine, 0, sizeof mine); /* all of it is sent */
    mine.near.numa_node = -1;
    MPI_Get_processor_name(host, &length);
    snprintf(mine.host, sizeof mine.host, "%.63s", host);
    selvage_status_t status = selvage_device_open_local(NULL, &info->device);
    mine.failed = status != SELVAGE_SUCCESS;
    if (mine.failed)
        keep_error(mine.error, status);
    else
        describe_device(info, &mine);
    count_sharers(job, &mine);
    if (job->rank == 0)
        info->ranks = tool_malloc(job, (size_t)job->size * sizeof mine);
    MPI_Igather(&mine, (int)sizeof mine, MPI_BYTE, info->ranks, (int)sizeof mine, MPI_BYTE, 0, job->comm, &request);
    tool_poll(job, &request, 1);
    failed = mine.failed;
    tool_reduce(job, job->comm, &failed, 1, MPI_INT, MPI_MAX);
    info->good = !failed;
}

typedef struct named {
    char device[16], bus_id[32];
} named_t;

static int ask_access(const info_job_t *info, const named_t *peer)
{
    int possible;
    if (!info->device || strcmp(peer->device, selvage_device_name(info->device)) != 0)
        return INFO_ACCESS_UNKNOWN;
    if (selvage_device_peer_access(info->device, peer->bus_id, &possible) != SELVAGE_SUCCESS)
        return INFO_ACCESS_UNKNOWN;
    return possible ? INFO_ACCESS_POSSIBLE : INFO_ACCESS_NONE;
}

/* Which devices of the first ranks this rank's reaches. */
static void find_access(info_job_t *info)
{
    const tool_job_t *job = &info->job;
    named_t names[INFO_ROUTE_RANKS];
    info->first = job->size < INFO_ROUTE_RANKS ? job->size : INFO_ROUTE_RANKS;
    memset(names, 0, sizeof names);
    for (int i = 0; job->rank == 0 && i < info->first; i++) {
        memcpy(names[i].device, info->ranks[i].device, sizeof names[i].device);
        memcpy(names[i].bus_id, info->ranks[i].bus_id, sizeof names[i].bus_id);
    }
    tool_bcast(job, names, (int)sizeof names, MPI_BYTE);
    for (int peer = 0; peer < info->first; peer++)
        info->row[peer].access = tool_job_on_host(job, peer) ? ask_access(info, &names[peer]) : INFO_ACCESS_OTHER_HOST;
}

static selvage_status_t declare(const info_job_t *info, selvage_exchange_t *ex)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int peer = 0; info->job.rank < info->first && peer < info->first && status == SELVAGE_SUCCESS; peer++) {
        status = selvage_exchange_add_send(ex, NULL, 0, peer, 0, NULL);
        if (status == SELVAGE_SUCCESS)
            status = selvage_exchange_add_recv(ex, NULL, 0, peer, 0, NULL);
    }
    return status;
}

static bool on_node(const tool_ring_t *node, int rank)
{
    for (int i = 0; i < node->size; i++) {
        if (node->ranks[i] == rank)
            return true;
    }
    return false;
}

static void read_routes(info_job_t *info, const selvage_exchange_t *ex)
{
    const tool_job_t *job = &info->job;
    tool_ring_t node;
    tool_ring_node(job, &node);
    for (int peer = 0; job->rank < info->first && peer < info->first; peer++) {
        selvage_route_t route;
        tool_try(job, "send_route", selvage_exchange_send_route(ex, (uint32_t)peer, &route));
        info->row[peer].route = (int)route;
        info->row[peer].on_node = on_node(&node, peer);
    }
    tool_ring_fini(&node);
    info->routes_known = info->first;
}

static void collect_rows(info_job_t *info)
{
    const tool_job_t *job = &info->job;
    const size_t bytes = sizeof info->row;
    MPI_Request request;
    if (job->rank == 0)
        info->cells = tool_malloc(job, (size_t)job->size * bytes);
    MPI_Igather(info->row, (int)bytes, MPI_BYTE, info->cells, (int)bytes, MPI_BYTE, 0, job->comm, &request);
    tool_poll(job, &request, 1);
}

/* UCX's devices in the order of their distance from the GPU of rank 0. */
static void find_wire(info_job_t *info)
{
    char list[512], asked[32];
    const char *text = selvage_comm_wire(info->comm), *devices = strstr(text, ": ");
    if (info->job.rank != 0)
        return;
    info_setting_value("SELVAGE_WIRE", asked, sizeof asked);
    info_locality_near_first(devices ? devices + 2 : "", info->ranks[0].near.nic, list, sizeof list);
    snprintf(info->wire, sizeof info->wire, "%.*s%s%s%s", devices ? (int)(devices - text) : (int)strlen(text), text,
             devices ? ", by " : "", list,
             strcmp(asked, "auto") == 0 ? " (SELVAGE_WIRE is auto: MPI is what needs nothing else)"
                                        : " (SELVAGE_WIRE asks for it)");
}

/* Any error here is one of all ranks: creating and committing agree. */
static selvage_status_t find_routes(info_job_t *info)
{
    selvage_exchange_t *ex = NULL;
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = info->device};
    selvage_status_t status = selvage_comm_create(info->job.comm, &params, &info->comm);
    if (status != SELVAGE_SUCCESS)
        return status;
    find_wire(info);
    tool_try(&info->job, "exchange_create", selvage_exchange_create(info->comm, NULL, &ex));
    tool_try(&info->job, "declare", declare(info, ex));
    status = selvage_exchange_commit(ex);
    if (status == SELVAGE_SUCCESS)
        read_routes(info, ex);
    else
        keep_error(info->error, status);
    selvage_exchange_destroy(ex);
    return SELVAGE_SUCCESS;
}

void info_job_find(info_job_t *info)
{
    find_mpi(info);
    find_devices(info);
    find_ranks(info);
    find_access(info);
    if (info->good) {
        selvage_status_t status = find_routes(info);
        if (status != SELVAGE_SUCCESS)
            keep_error(info->error, status);
        info->good = info->routes_known > 0;
    } else {
        snprintf(info->error, sizeof info->error, "no communicator was made, because a rank has no device");
    }
    collect_rows(info);
}

void info_job_fini(info_job_t *info)
{
    selvage_comm_destroy(info->comm);
    selvage_device_close(info->device);
    free(info->cells);
    free(info->ranks);
}

const char *info_route_reason(const info_cell_t *cell, const char *asked)
{
    const char *name = selvage_route_name((selvage_route_t)cell->route);
    if (cell->route == SELVAGE_ROUTE_SELF)
        return "a rank to itself";
    if (strcmp(asked, name) == 0 && (cell->on_node || cell->route != SELVAGE_ROUTE_STAGED))
        return "SELVAGE_ROUTE asks for it";
    if (cell->route == SELVAGE_ROUTE_DIRECT)
        return "ranks of different nodes; a probe of device memory through MPI was right";
    if (strcmp(asked, "direct") == 0)
        return "SELVAGE_ROUTE asks for direct, which does not work here: the warnings say why";
    if (cell->route == SELVAGE_ROUTE_PEER)
        return "ranks of one node whose memory can be mapped, device to device";
    if (cell->on_node && cell->access == INFO_ACCESS_NONE)
        return "ranks of one node whose devices cannot reach each other";
    if (cell->on_node)
        return "ranks of one node that cannot map each other's memory: the warnings say why";
    if (cell->access != INFO_ACCESS_OTHER_HOST)
        return "ranks of one host on different virtual nodes: SELVAGE_RANKS_PER_NODE";
    return "ranks of different nodes";
}
