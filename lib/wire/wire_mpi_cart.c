/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads what MPI knows about a Cartesian communicator; see wire_mpi_cart.h. MPI may number its processes as it likes,
 * so each rank's coordinates are asked for. The caller's communicator keeps its error handler: everything is checked
 * before MPI could complain.
 */
#include "wire/wire_mpi_cart.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_mpi_private.h"

/* Whether cart is a Cartesian communicator of the wire's ranks in the wire's order. */
static selvage_status_t check_cart(const char *call, const sv_wire_mpi_t *wire, MPI_Comm cart)
{
    int kind = MPI_UNDEFINED, inter = 0, relation = MPI_UNEQUAL;
    if (cart == MPI_COMM_NULL)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: cart is MPI_COMM_NULL", call);
    int code = PMPI_Comm_test_inter(cart, &inter);
    if (code == MPI_SUCCESS && !inter)
        code = PMPI_Topo_test(cart, &kind);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Topo_test", call);
    if (kind != MPI_CART)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: cart has no Cartesian topology", call);
    code = PMPI_Comm_compare(wire->comm[SV_WIRE_SETUP], cart, &relation);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "%s: MPI_Comm_compare", call);
    if (relation != MPI_IDENT && relation != MPI_CONGRUENT)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: cart has %s", call,
                        relation == MPI_SIMILAR ? "the ranks of comm, but in another order" : "other ranks than comm");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_cart_read(const char *call, sv_wire_t *wire, MPI_Comm cart, sv_wire_cart_t *cart_out)
{
    sv_wire_t *inner = sv_wire_fault_inner(wire);
    sv_wire_cart_t shape = {0};
    int coords[SV_WIRE_CART_DIMS] = {0};
    if (strcmp(inner->ops->name, "mpi") != 0)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s: comm does not talk MPI", call);
    SV_TRY(check_cart(call, (const sv_wire_mpi_t *)inner, cart));
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
