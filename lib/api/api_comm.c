/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on communicators and registered buffers. Each checks its arguments, and then calls comm or
 * memory_buffer where the engine lives.
 */
#include <string.h>

#include "api/api_params.h"
#include "comm/comm_task.h"
#include "host/memory_buffer.h"
#include "pipeline/exchange_set.h"
#include "wire/wire_mpi.h"
#include "wire/wire_open.h"

selvage_status_t selvage_mpi_check(void)
{
    sv_thread_begin_call();
    return sv_api_leave(sv_wire_mpi_check());
}

selvage_status_t selvage_comm_create(MPI_Comm mpi_comm, const selvage_comm_params_t *params, selvage_comm_t **comm_out)
{
    selvage_comm_params_t own;
    sv_wire_t *wire, *mpi;
    SV_API_NEED(comm_out);
    sv_thread_begin_call();
    SV_TRY(sv_api_copy_params("params", params, &own, sizeof own));
    if (own.timeout_s < 0 && own.timeout_s != -1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: timeout_s is %g; wanted -1, 0 or more", own.timeout_s);
    if (own.device && own.device_later)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: a device, and one that is given later");
    SV_TRY(sv_wire_mpi_check());
    SV_TRY(sv_wire_open(mpi_comm, &wire, &mpi));
    selvage_comm_t *comm;
    selvage_status_t status = sv_comm_create(wire, &own, &sv_exchange_set_ops, &comm);
    if (status == SELVAGE_SUCCESS) {
        sv_wire_mpi_on_finalize(mpi, sv_comm_at_finalize, comm);
        comm->only_thread = wire->one_thread ? sv_thread_binding() : NULL;
        *comm_out = comm;
    }
    return sv_api_leave(status);
}

void selvage_comm_destroy(selvage_comm_t *comm)
{
    sv_thread_begin_call();
    sv_comm_destroy(comm);
    sv_api_leave(SELVAGE_SUCCESS);
}

int selvage_comm_rank(const selvage_comm_t *comm)
{
    return comm ? comm->wire->rank : -1;
}

int selvage_comm_size(const selvage_comm_t *comm)
{
    return comm ? comm->wire->size : -1;
}

int selvage_comm_node_size(const selvage_comm_t *comm)
{
    return comm ? comm->topology.node_size : -1;
}

const char *selvage_comm_wire(const selvage_comm_t *comm)
{
    return comm ? comm->wire->text : "";
}

selvage_device_t *selvage_comm_device(const selvage_comm_t *comm)
{
    return comm && comm->dev_under != sv_device_absent() ? comm->dev_under : NULL;
}

typedef struct device_call {
    selvage_comm_t *comm;
    selvage_device_t *device;
} device_call_t;

static selvage_status_t run_set_device(void *arg)
{
    const device_call_t *call = arg;
    return sv_comm_set_device(call->comm, call->device);
}

selvage_status_t selvage_comm_set_device(selvage_comm_t *comm, selvage_device_t *device)
{
    SV_API_NEED(comm);
    SV_API_NEED(device);
    SV_TRY(sv_api_enter(comm));
    device_call_t call = {.comm = comm, .device = device};
    return sv_api_leave(sv_comm_run(comm, run_set_device, &call));
}

selvage_status_t selvage_progress(selvage_comm_t *comm)
{
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    sv_progress_poll(&comm->progress);
    return sv_api_leave(SELVAGE_SUCCESS);
}

/* Lists of the communicator belong to the engine, so its thread changes them. */
typedef struct buffer_call {
    selvage_comm_t *comm;
    selvage_buffer_t *buf;
    void *ptr;
    size_t bytes;
} buffer_call_t;

static selvage_status_t run_buffer_register(void *arg)
{
    buffer_call_t *call = arg;
    return sv_buffer_register(&call->comm->buffers, call->comm->dev, call->ptr, call->bytes, &call->buf);
}

selvage_status_t selvage_buffer_register(selvage_comm_t *comm, void *ptr, size_t bytes, selvage_buffer_t **buf_out)
{
    SV_API_NEED(comm);
    SV_API_NEED(ptr);
    SV_API_NEED(buf_out);
    if (bytes == 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_buffer_register: bytes is 0");
    buffer_call_t call = {.comm = comm, .ptr = ptr, .bytes = bytes};
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = sv_comm_run(comm, run_buffer_register, &call);
    if (status == SELVAGE_SUCCESS) {
        call.buf->comm = comm;
        *buf_out = call.buf;
    }
    return sv_api_leave(status);
}

static selvage_status_t run_buffer_unregister(void *buf)
{
    return sv_buffer_unregister(buf);
}

selvage_status_t selvage_buffer_unregister(selvage_buffer_t *buf)
{
    if (!buf)
        return SELVAGE_SUCCESS;
    selvage_comm_t *comm = buf->comm;
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(sv_comm_run(comm, run_buffer_unregister, buf));
}

typedef struct stats_call {
    selvage_comm_t *comm;
    selvage_stats_t stats;
} stats_call_t;

static selvage_status_t run_stats(void *arg)
{
    stats_call_t *call = arg;
    sv_comm_stats(call->comm, &call->stats);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_comm_stats(selvage_comm_t *comm, selvage_stats_t *stats)
{
    SV_API_NEED(comm);
    SV_API_NEED(stats);
    stats_call_t call = {.comm = comm};
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = sv_comm_run(comm, run_stats, &call);
    if (status == SELVAGE_SUCCESS)
        status = sv_api_fill_struct("stats", "SELVAGE_STATS_INIT", stats, &call.stats, sizeof call.stats);
    return sv_api_leave(status);
}
