/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls on halos. Each checks its arguments, and calls the halo or its exchange. */
#include <stdio.h>
#include <string.h>

#include "api/api_params.h"
#include "base/base_memory.h"
#include "comm/comm_ranges.h"
#include "comm/comm_task.h"
#include "grid/halo_handle.h"
#include "pipeline/pipe_session.h"

/* One call of create. Whatever is wrong on this rank, the others must hear of it: so it is carried along. */
typedef struct create_call {
    selvage_grid_t *grid;
    selvage_halo_params_t params;
    selvage_field_t *fields; /* owned: the caller's, as this library knows them */
    int nfields;
    selvage_halo_t *halo;
    selvage_status_t before;
} create_call_t;

static selvage_status_t check_halo_create(create_call_t *call, const selvage_halo_params_t *params,
                                          const selvage_field_t *fields, int nfields, selvage_halo_t **halo_out)
{
    if (!halo_out)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_halo_create: halo_out is NULL");
    SV_TRY(sv_api_copy_params("params", params, &call->params, sizeof call->params));
    SV_TRY(sv_api_check_policy(call->params.route, call->params.checksum));
    if (nfields < 1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_halo_create: nfields is %d; wanted at least 1", nfields);
    if (!fields)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_halo_create: fields is NULL");
    SV_TRY(sv_calloc((size_t)nfields, sizeof *call->fields, &call->fields));
    call->nfields = nfields;
    /* Structs of another version may have another size, which the first one tells: the next begins after it. */
    for (int i = 0; i < nfields; i++) {
        char name[32];
        const char *given = (const char *)fields + (size_t)i * fields->struct_size;
        snprintf(name, sizeof name, "fields[%d]", i);
        SV_TRY(sv_api_copy_params(name, given, &call->fields[i], sizeof call->fields[i]));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t run_halo_create(void *arg)
{
    create_call_t *call = arg;
    return sv_halo_create(call->grid, &call->params, call->fields, call->nfields, call->before, &call->halo);
}

selvage_status_t selvage_halo_create(selvage_grid_t *grid, const selvage_halo_params_t *params,
                                     const selvage_field_t *fields, int nfields, selvage_halo_t **halo_out)
{
    SV_API_NEED(grid);
    create_call_t call = {.grid = grid};
    SV_TRY(sv_api_enter(grid->comm));
    call.before = check_halo_create(&call, params, fields, nfields, halo_out);
    selvage_status_t status = sv_comm_run(grid->comm, run_halo_create, &call);
    sv_free(call.fields);
    if (status == SELVAGE_SUCCESS)
        *halo_out = call.halo;
    return sv_api_leave(status);
}

static void run_halo_destroy(void *arg)
{
    sv_halo_destroy(arg);
}

void selvage_halo_destroy(selvage_halo_t *halo)
{
    if (!halo)
        return;
    selvage_comm_t *comm = halo->grid->comm;
    (void)sv_api_enter(comm);
    sv_progress_call(&comm->progress, run_halo_destroy, halo);
    sv_api_leave(SELVAGE_SUCCESS);
}

static selvage_status_t start_halo(selvage_halo_t *halo, void *stream)
{
    const selvage_comm_t *comm = halo->grid->comm;
    sv_range_push(comm, "selvage_halo_start");
    selvage_status_t status = sv_exchange_start(halo->exchange, stream);
    sv_range_pop(comm);
    return status;
}

static selvage_status_t wait_halo(selvage_halo_t *halo, void *stream)
{
    const selvage_comm_t *comm = halo->grid->comm;
    sv_range_push(comm, "selvage_halo_wait");
    selvage_status_t status = sv_exchange_wait(halo->exchange, stream);
    sv_range_pop(comm);
    return status;
}

selvage_status_t selvage_halo_start(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(start_halo(halo, stream));
}

selvage_status_t selvage_halo_test(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(sv_exchange_test(halo->exchange, stream));
}

selvage_status_t selvage_halo_wait(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(wait_halo(halo, stream));
}

selvage_status_t selvage_halo_enqueue_wait(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(sv_exchange_enqueue_wait(halo->exchange, stream));
}

selvage_status_t selvage_halo_run(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    sv_range_push(halo->grid->comm, "selvage_halo_run");
    selvage_status_t status = sv_exchange_run(halo->exchange, stream);
    sv_range_pop(halo->grid->comm);
    return sv_api_leave(status);
}

selvage_status_t selvage_halo_device(selvage_halo_t *halo, unsigned epochs, void *stream,
                                     selvage_device_exchange_t *handle_out)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(sv_session_begin(halo->exchange, epochs, stream, true, handle_out));
}

selvage_status_t selvage_halo_exchange(selvage_halo_t *halo, void *stream)
{
    SV_API_NEED(halo);
    SV_TRY(sv_api_enter(halo->grid->comm));
    selvage_status_t status = start_halo(halo, stream);
    if (status == SELVAGE_SUCCESS)
        status = wait_halo(halo, stream);
    return sv_api_leave(status);
}

selvage_status_t selvage_halo_rebind(selvage_halo_t *halo, void *const *data)
{
    SV_API_NEED(halo);
    SV_API_NEED(data);
    SV_TRY(sv_api_enter(halo->grid->comm));
    return sv_api_leave(sv_halo_rebind(halo, data));
}

selvage_status_t selvage_halo_describe(const selvage_halo_t *halo, selvage_halo_info_t *info)
{
    SV_API_NEED(halo);
    SV_API_NEED(info);
    return sv_api_fill_struct("info", "SELVAGE_HALO_INFO_INIT", info, &halo->info, sizeof halo->info);
}
