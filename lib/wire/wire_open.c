/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which wire. What UCX needs of this process alone is made first. The ranks then agree, as they open the wire over MPI,
 * that all have it and that all want the same. After that nothing fails.
 *
 * Before, they agree on whether UCX takes two rails: all have the same subnets, and no address is on two machines.
 */
#include "wire/wire_open.h"

#include <stdlib.h>

#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi.h"
#include "wire/wire_ucx.h"

static int compare_hosts(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b; /* address, machine */
    return left[0] != right[0] ? (left[0] > right[0]) - (left[0] < right[0])
                               : (left[1] > right[1]) - (left[1] < right[1]);
}

/* An address that several machines have reaches none of them from the others. */
static bool has_address_twice(const sv_wire_ucx_reach_t *all, int size, uint64_t (*hosts)[2])
{
    size_t n = 0;
    for (int rank = 0; rank < size; rank++)
        for (int i = 0; i < SV_WIRE_UCX_HOSTS && all[rank].hosts[i]; i++, n++) {
            hosts[n][0] = all[rank].hosts[i];
            hosts[n][1] = all[rank].machine;
        }
    qsort(hosts, n, sizeof *hosts, compare_hosts);
    for (size_t i = 1; i < n; i++)
        if (hosts[i][0] == hosts[i - 1][0] && (hosts[i][1] != hosts[i - 1][1] || hosts[i][1] == 0))
            return true;
    return false;
}

/* Collective, also for ranks that want another wire. */
static bool agree_on_two_rails(MPI_Comm comm, int size, bool wants_ucx)
{
    sv_wire_ucx_reach_t mine = {0}, *all = NULL;
    uint64_t (*hosts)[2] = NULL;
    if (wants_ucx)
        sv_wire_ucx_reach(&mine);
    if (mine.subnets != 0 && (sv_calloc((size_t)size, sizeof *all, &all) != SELVAGE_SUCCESS ||
                              sv_calloc((size_t)size * SV_WIRE_UCX_HOSTS, sizeof *hosts, &hosts) != SELVAGE_SUCCESS))
        mine.subnets = 0;
    uint64_t words[2] = {mine.subnets, ~mine.subnets}; /* the lowest, and what the highest is not */
    bool agreed =
        PMPI_Allreduce(MPI_IN_PLACE, words, 2, MPI_UINT64_T, MPI_MIN, comm) == MPI_SUCCESS && words[0] == ~words[1] &&
        words[0] != 0 &&
        PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, comm) == MPI_SUCCESS;
    agreed = agreed && !has_address_twice(all, size, hosts);
    sv_free(all);
    sv_free(hosts);
    return agreed;
}

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
    const bool wants_ucx = status == SELVAGE_SUCCESS && config.wire == SV_CONFIG_WIRE_UCX;
    const bool two_rails = agree_on_two_rails(comm, size, wants_ucx);
    if (wants_ucx)
        status = sv_wire_ucx_create(size, two_rails, &ucx);
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
