/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the neighbours of a communicator with a distributed graph. Local: nothing is sent, and it is not kept. */
#ifndef SV_WIRE_MPI_GRAPH_H
#define SV_WIRE_MPI_GRAPH_H

#include <mpi.h>

#include "wire/wire.h"

typedef struct sv_wire_graph {
    int nsources, ndestinations;
    int *sources, *destinations; /* ranks in MPI's order; one block of memory: sources is freed with sv_free() */
} sv_wire_graph_t;

/*
 * The calling rank's neighbours in graph. ERR_ARGUMENT, with call in the detail, if graph has no distributed graph, or
 * has other ranks than wire or in another order. ERR_UNSUPPORTED if wire is not MPI's.
 */
selvage_status_t sv_wire_mpi_graph_read(const char *call, sv_wire_t *wire, MPI_Comm graph, sv_wire_graph_t *graph_out);

#endif
