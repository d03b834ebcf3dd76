/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls on exchanges. Each checks its arguments and calls the pipeline. */
#include <string.h>

#include "api/api_packet.h"
#include "api/api_params.h"
#include "comm/comm_ranges.h"
#include "comm/comm_task.h"
#include "pipeline/pipe_epoch.h"
#include "pipeline/pipe_exchange.h"
#include "pipeline/pipe_session.h"
#include "pipeline/pipe_varying.h"

static const char *const route_names[] = {"default", "self", "peer", "shared", "staged", "direct"};

const char *selvage_route_name(selvage_route_t route)
{
    unsigned number = (unsigned)route;
    return number < sizeof route_names / sizeof route_names[0] ? route_names[number] : "unknown";
}

typedef struct exchange_call {
    selvage_comm_t *comm;
    const selvage_exchange_params_t *params;
    selvage_exchange_t *ex;
} exchange_call_t;

static selvage_status_t run_exchange_create(void *arg)
{
    exchange_call_t *call = arg;
    return sv_exchange_create(call->comm, call->params, &call->ex);
}

selvage_status_t selvage_exchange_create(selvage_comm_t *comm, const selvage_exchange_params_t *params,
                                         selvage_exchange_t **ex_out)
{
    selvage_exchange_params_t own;
    SV_API_NEED(comm);
    SV_API_NEED(ex_out);
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = sv_api_copy_params("params", params, &own, sizeof own);
    if (status == SELVAGE_SUCCESS)
        status = sv_api_check_policy(own.route, own.checksum);
    if (status == SELVAGE_SUCCESS && own.varying && own.rebindable)
        status = sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_create: params has both rebindable and varying");
    if (status == SELVAGE_SUCCESS && own.scope != SELVAGE_SCOPE_ALL && own.scope != SELVAGE_SCOPE_NEIGHBORS)
        status = sv_error(SELVAGE_ERR_ARGUMENT, "selvage_exchange_create: params.scope is %d; wanted a selvage_scope_t",
                          (int)own.scope);
    if (status == SELVAGE_SUCCESS && own.reserved != 0)
        status = sv_error(SELVAGE_ERR_ARGUMENT, "selvage_exchange_create: params.reserved is %d, not 0", own.reserved);
    exchange_call_t call = {.comm = comm, .params = &own};
    if (status == SELVAGE_SUCCESS)
        status = sv_comm_run(comm, run_exchange_create, &call);
    if (status == SELVAGE_SUCCESS)
        *ex_out = call.ex;
    return sv_api_leave(status);
}

selvage_status_t sv_api_check_packet(const char *call, const selvage_exchange_t *ex, const void *buf, size_t bytes,
                                     int peer, int tag)
{
    int size = ex->comm->wire->size;
    if (sv_exchange_state(ex) != SV_EXCHANGE_BUILDING)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange is committed already", call);
    if (peer != MPI_PROC_NULL && (peer < 0 || peer >= size))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: peer is %d; wanted 0..%d, or MPI_PROC_NULL", call, peer,
                        size - 1);
    if (tag < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: tag is %d; wanted 0..2147483647", call, tag);
    if (peer == MPI_PROC_NULL)
        return SELVAGE_SUCCESS; /* as to MPI, the buffer means nothing then */
    if (!buf && bytes)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf is NULL and bytes is %zu", call, bytes);
    if ((uintptr_t)buf + bytes < (uintptr_t)buf || bytes > SIZE_MAX / 4)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: bytes is %zu, more than memory can hold", call, bytes);
    return SELVAGE_SUCCESS;
}

bool sv_api_is_nobody(int peer, uint32_t *index_out)
{
    if (peer == MPI_PROC_NULL && index_out)
        *index_out = UINT32_MAX;
    return peer == MPI_PROC_NULL;
}

selvage_status_t selvage_exchange_add_send(selvage_exchange_t *ex, const void *buf, size_t bytes, int peer, int tag,
                                           uint32_t *index_out)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = sv_api_check_packet(__func__, ex, buf, bytes, peer, tag);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_send(ex, buf, bytes, peer, tag, index_out);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_add_recv(selvage_exchange_t *ex, void *buf, size_t bytes, int peer, int tag,
                                           uint32_t *index_out)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = sv_api_check_packet(__func__, ex, buf, bytes, peer, tag);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_recv(ex, buf, bytes, peer, tag, index_out);
    return sv_api_leave(status);
}

static selvage_status_t run_commit(void *ex)
{
    return sv_exchange_commit(ex);
}

selvage_status_t selvage_exchange_commit(selvage_exchange_t *ex)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    if (sv_exchange_state(ex) != SV_EXCHANGE_BUILDING)
        return sv_api_leave(sv_error(SELVAGE_ERR_STATE, "selvage_exchange_commit: the exchange was committed before"));
    return sv_api_leave(sv_comm_run(ex->comm, run_commit, ex));
}

/* An array has one entry for each packet that was declared, or is not there. */
typedef struct packet_array {
    const char *call, *name, *count_name;
    const void *entries;
    uint32_t count, declared;
} packet_array_t;

static selvage_status_t check_array(const packet_array_t *array)
{
    if (!array->entries && array->count)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is NULL and %s is %u", array->call, array->name,
                        array->count_name, array->count);
    if (array->entries && array->count != array->declared)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is %u; %u were declared", array->call, array->count_name,
                        array->count, array->declared);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_exchange_rebind(selvage_exchange_t *ex, const void *const *sends, uint32_t nsends,
                                         void *const *recvs, uint32_t nrecvs)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = check_array(&(packet_array_t){__func__, "sends", "nsends", sends, nsends, ex->nsends});
    if (status == SELVAGE_SUCCESS)
        status = check_array(&(packet_array_t){__func__, "recvs", "nrecvs", recvs, nrecvs, ex->nrecvs});
    if (status == SELVAGE_SUCCESS)
        status = sv_rebind_bind(ex, sends, recvs);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_set_bytes(selvage_exchange_t *ex, const size_t *send_bytes, uint32_t nsends,
                                            const size_t *recv_bytes, uint32_t nrecvs)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status =
        check_array(&(packet_array_t){__func__, "send_bytes", "nsends", send_bytes, nsends, ex->nsends});
    if (status == SELVAGE_SUCCESS)
        status = check_array(&(packet_array_t){__func__, "recv_bytes", "nrecvs", recv_bytes, nrecvs, ex->nrecvs});
    if (status == SELVAGE_SUCCESS)
        status = sv_varying_set(ex, send_bytes, recv_bytes);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_start(selvage_exchange_t *ex, void *stream)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    sv_range_push(ex->comm, "selvage_exchange_start");
    selvage_status_t status = sv_exchange_start(ex, stream);
    sv_range_pop(ex->comm);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_test(selvage_exchange_t *ex, void *stream)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    return sv_api_leave(sv_exchange_test(ex, stream));
}

selvage_status_t selvage_exchange_wait(selvage_exchange_t *ex, void *stream)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    sv_range_push(ex->comm, "selvage_exchange_wait");
    selvage_status_t status = sv_exchange_wait(ex, stream);
    sv_range_pop(ex->comm);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_enqueue_wait(selvage_exchange_t *ex, void *stream)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    return sv_api_leave(sv_exchange_enqueue_wait(ex, stream));
}

selvage_status_t selvage_exchange_run(selvage_exchange_t *ex, void *stream)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    sv_range_push(ex->comm, "selvage_exchange_run");
    selvage_status_t status = sv_exchange_run(ex, stream);
    sv_range_pop(ex->comm);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_device(selvage_exchange_t *ex, unsigned epochs, void *stream,
                                         selvage_device_exchange_t *handle_out)
{
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    return sv_api_leave(sv_session_begin(ex, epochs, stream, false, handle_out));
}

uint64_t selvage_exchange_epoch(const selvage_exchange_t *ex)
{
    return ex ? sv_epoch_count(ex) : 0;
}

selvage_status_t selvage_exchange_send_route(const selvage_exchange_t *ex, uint32_t index, selvage_route_t *route_out)
{
    SV_API_NEED(ex);
    SV_API_NEED(route_out);
    if (!ex->committed)
        return sv_error(SELVAGE_ERR_STATE, "selvage_exchange_send_route: the exchange is not committed");
    if (index >= ex->nsends)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_exchange_send_route: index is %u of %u sends", index,
                        ex->nsends);
    *route_out = ex->sends[index].p.route;
    return SELVAGE_SUCCESS;
}

static void run_exchange_destroy(void *arg)
{
    sv_exchange_destroy(arg);
}

void selvage_exchange_destroy(selvage_exchange_t *ex)
{
    if (!ex)
        return;
    selvage_comm_t *comm = ex->comm;
    (void)sv_api_enter(comm);
    sv_progress_call(&comm->progress, run_exchange_destroy, ex);
    sv_api_leave(SELVAGE_SUCCESS);
}
