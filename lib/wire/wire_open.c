/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which wire. What UCX needs of this process alone is made first. The ranks then agree, as they open the wire over MPI,
 * that all have it and that all want the same. After that nothing fails.
 */
#include "wire/wire_open.h"

#include "base/base_config.h"
#include "base/base_status.h"
#include "wire/wire_mpi.h"
#include "wire/wire_ucx.h"

selvage_status_t sv_wire_open(MPI_Comm comm, sv_wire_t **wire_out, sv_wire_t **mpi_out)
{
    static const char *const variable = "SELVAGE_WIRE";
    sv_wire_ucx_t *ucx = NULL;
    sv_config_t config = {0};
    int size = 0;
    SV_TRY(sv_wire_mpi_check_comm(comm));
    PMPI_Comm_size(comm, &size);
    /* Everything else is read, and complained about, when the communicator is made. */
    selvage_status_t status = sv_config_load_one(variable, &config);
    if (status == SELVAGE_SUCCESS && config.wire == SV_CONFIG_WIRE_UCX)
        status = sv_wire_ucx_create(size, &ucx);
    status = sv_wire_mpi_open_agreed(comm, status, (unsigned)config.wire, variable, wire_out);
    if (status != SELVAGE_SUCCESS) {
        sv_wire_ucx_discard(ucx);
        return status;
    }
    *mpi_out = *wire_out;
    if (ucx)
        sv_wire_ucx_attach(ucx, wire_out);
    return SELVAGE_SUCCESS;
}
