/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads what MPI knows about a Cartesian communicator; see wire_mpi_cart.h. MPI may number its processes as it likes,
 * so each rank's coordinates are asked for. The caller's communicator keeps its error handler: everything is checked
 * before MPI could complain.
 */
#include "wire/wire_mpi_cart.h"

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_private.h"

selvage_status_t sv_wire_mpi_topology_check(const char *call, sv_wire_t *wire, MPI_Comm comm, const char *name,
                                            int kind, const char *wanted)
{
    const sv_wire_mpi_t *mpi = (const sv_wire_mpi_t *)sv_wire_fault_inner(wire)->mpi; /* also under a wire over UCX */
    int found = MPI_UNDEFINED, inter = 0, relation = MPI_UNEQUAL, size = 0;
    if (!mpi)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s: comm does not talk MPI", call);
    if (comm == MPI_COMM_NULL)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is MPI_COMM_NULL", call, name);
    int code = PMPI_Comm_test_inter(comm, &inter);
    if (code == MPI_SUCCESS && !inter)
        code = PMPI_Topo_test(comm, &found);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Topo_test", call);
    if (found != kind)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s has no %s topology", call, name, wanted);
    code = PMPI_Comm_compare(mpi->comm[SV_WIRE_SETUP], comm, &relation);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Comm_compare", call);
    PMPI_Comm_size(comm, &size); /* MPICH 5.0 says of the first ranks of a communicator that they are congruent to it */
    if (size != wire->size || (relation != MPI_IDENT && relation != MPI_CONGRUENT))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s has %s", call, name,
                        relation == MPI_SIMILAR ? "the ranks of comm, but in another order" : "other ranks than comm");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_cart_read(const char *call, sv_wire_t *wire, MPI_Comm cart, sv_wire_cart_t *cart_out)
{
    sv_wire_cart_t shape = {0};
    int coords[SV_WIRE_CART_DIMS] = {0};
    SV_TRY(sv_wire_mpi_topology_check(call, wire, cart, "cart", MPI_CART, "Cartesian"));
    int code = PMPI_Cartdim_get(cart, &shape.ndims);
    if (code == MPI_SUCCESS && (shape.ndims < 1 || shape.ndims > SV_WIRE_CART_DIMS))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: cart has %d dimensions; wanted 1..%d", call, shape.ndims,
                        SV_WIRE_CART_DIMS);
    if (code == MPI_SUCCESS)
        code = PMPI_Cart_get(cart, SV_WIRE_CART_DIMS, shape.dims, shape.periods, coords);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Cart_get", call);
    SV_TRY(sv_calloc((size_t)wire->size, sizeof *shape.rank_of_block, &shape.rank_of_block));
    for (int rank = 0; rank < wire->size; rank++) {
        code = PMPI_Cart_coords(cart, rank, SV_WIRE_CART_DIMS, coords);
        if (code != MPI_SUCCESS) {
            sv_free(shape.rank_of_block);
            return sv_wire_mpi_error(code, "%s: MPI_Cart_coords of rank %d", call, rank);
        }
        int block = 0;
        for (int d = shape.ndims - 1; d >= 0; d--)
            block = block * shape.dims[d] + coords[d];
        shape.rank_of_block[block] = rank;
    }
    *cart_out = shape;
    return SELVAGE_SUCCESS;
}
