/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes MPI's datatypes apart. Local; any thread that may call MPI. */
#ifndef SV_WIRE_MPI_DATATYPE_H
#define SV_WIRE_MPI_DATATYPE_H

#include <mpi.h>
#include <stdbool.h>

#include "wire/wire_type_map.h"

/*
 * Writes where the bytes of count elements of a type lie into an empty map, in the order in which MPI_Pack takes them.
 * The caller owns the map, which keeps nothing of the type. call is the name of the public call, for the error text.
 * SELVAGE_ERR_UNSUPPORTED for a type with an unknown constructor in it, such as darray.
 */
selvage_status_t sv_wire_mpi_flatten(const char *call, uint64_t count, MPI_Datatype type, sv_type_map_t *map_out);

/* Bytes of an element of the types that most messages are made of, whose elements lie one after the other; 0 for all
   other types. Asks no MPI. */
size_t sv_wire_mpi_plain_bytes(MPI_Datatype type);
/* Whether MPI may be called. */
bool sv_wire_mpi_is_usable(void);

#endif
