/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the neighbours of a communicator with a distributed graph; see wire_mpi_graph.h. The caller's communicator
 * keeps its error handler: everything is checked before MPI could complain. Weights are not asked for.
 */
#include "wire/wire_mpi_graph.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_cart.h"
#include "wire/wire_mpi_private.h"

selvage_status_t sv_wire_mpi_graph_read(const char *call, sv_wire_t *wire, MPI_Comm graph, sv_wire_graph_t *graph_out)
{
    sv_wire_graph_t found = {0};
    int weighted;
    SV_TRY(sv_wire_mpi_topology_check(call, wire, graph, "graph", MPI_DIST_GRAPH, "distributed graph"));
    int code = PMPI_Dist_graph_neighbors_count(graph, &found.nsources, &found.ndestinations, &weighted);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Dist_graph_neighbors_count", call);
    SV_TRY(sv_calloc((size_t)found.nsources + (size_t)found.ndestinations + 1, sizeof *found.sources, &found.sources));
    found.destinations = found.sources + found.nsources;
    code = PMPI_Dist_graph_neighbors(graph, found.nsources, found.sources, MPI_UNWEIGHTED, found.ndestinations,
                                     found.destinations, MPI_UNWEIGHTED);
    if (code != MPI_SUCCESS) {
        sv_free(found.sources);
        return sv_wire_mpi_error(code, "%s: MPI_Dist_graph_neighbors", call);
    }
    *graph_out = found;
    return SELVAGE_SUCCESS;
}
