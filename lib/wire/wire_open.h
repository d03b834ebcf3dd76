/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the wire that SELVAGE_WIRE names. */
#ifndef SV_WIRE_OPEN_H
#define SV_WIRE_OPEN_H

#include <mpi.h>

#include "wire/wire.h"

/*
 * Collective. As sv_wire_mpi_open(), and over UCX if SELVAGE_WIRE says so. All ranks fail if one cannot, or if they are
 * not all told the same. *mpi_out is the wire over MPI, for sv_wire_mpi_on_finalize().
 */
selvage_status_t sv_wire_open(MPI_Comm comm, sv_wire_t **wire_out, sv_wire_t **mpi_out);

#endif
