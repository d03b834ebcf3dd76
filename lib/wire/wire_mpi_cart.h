/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what MPI knows about a Cartesian communicator. Local: nothing is sent, and the communicator is not kept. */
#ifndef SV_WIRE_MPI_CART_H
#define SV_WIRE_MPI_CART_H

#include <mpi.h>

#include "wire/wire.h"

enum { SV_WIRE_CART_DIMS = 4 };

typedef struct sv_wire_cart {
    int ndims;                                            /* 1 to SV_WIRE_CART_DIMS */
    int dims[SV_WIRE_CART_DIMS], periods[SV_WIRE_CART_DIMS]; /* 0 above ndims */
    int *rank_of_block;                                   /* dimension 0 varying fastest; freed with sv_free() */
} sv_wire_cart_t;

/*
 * Reads the shape of cart, and the rank of every block. ERR_ARGUMENT, with call in the detail, if cart is not
 * Cartesian, has too many dimensions, or has other ranks than wire or in another order. ERR_UNSUPPORTED if wire is not
 * MPI's.
 */
selvage_status_t sv_wire_mpi_cart_read(const char *call, sv_wire_t *wire, MPI_Comm cart, sv_wire_cart_t *cart_out);

/*
 * Whether comm, an argument called name, has a topology of that kind (MPI_CART ...; wanted is the word for it) and the
 * ranks of wire in their order. Errors as above.
 */
selvage_status_t sv_wire_mpi_topology_check(const char *call, sv_wire_t *wire, MPI_Comm comm, const char *name,
                                            int kind, const char *wanted);

#endif
