/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire over MPI: the only place of the library that calls MPI, always by PMPI_ names, on private communicators. */
#ifndef SV_WIRE_MPI_H
#define SV_WIRE_MPI_H

#include <mpi.h>
#include <stdbool.h>

#include "wire/wire.h"

/* SELVAGE_ERR_UNSUPPORTED, with both names, if the process runs with an MPI of another kind. May precede MPI_Init. */
selvage_status_t sv_wire_mpi_check(void);

/* Called at MPI_Finalize (attribute callback on MPI_COMM_SELF) while the wire is still open. */
typedef void (*sv_wire_finalize_fn)(void *arg);

/*
 * Collective. Makes four communicators of comm's ranks (data, setup, message, control) with MPI_ERRORS_RETURN. Refuses
 * NULL communicators, inter-communicators (SELVAGE_ERR_ARGUMENT), and MPI not initialised or finalised
 * (SELVAGE_ERR_STATE). If one rank has no memory, all fail: that one with ERR_MEMORY, the others with ERR_PEER. A
 * thread level below MPI_THREAD_FUNNELED is said at info level only, because every program that calls plain MPI_Init
 * has it.
 */
selvage_status_t sv_wire_mpi_open(MPI_Comm comm, sv_wire_t **wire_out);

/* What of these refusals needs no other rank. */
selvage_status_t sv_wire_mpi_check_comm(MPI_Comm comm);

/*
 * Opens the wire, and the ranks agree on more: none comes with a failure (mine: of what the caller has done before),
 * and all with the same choice, which a variable of this name has made. SELVAGE_ERR_CONFIG if they differ.
 */
selvage_status_t sv_wire_mpi_open_agreed(MPI_Comm comm, selvage_status_t mine, unsigned choice, const char *variable,
                                         sv_wire_t **wire_out);

/*
 * Sets who is told at MPI_Finalize; NULL: nobody. wire is the one that open gave, before any wrapper. The function may
 * close the wire (or the wrapper around it). If it does not, the wire's control channel is stopped after it, and only
 * close may be called later. Other wires are left alone. Closing (and MPI_Finalize) waits a few seconds at most for the
 * other ranks to close too, so that no control message is left under way.
 */
void sv_wire_mpi_on_finalize(sv_wire_t *wire, sv_wire_finalize_fn fn, void *arg);

#endif
