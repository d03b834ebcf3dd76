/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's types and operations as those of Selvage's collectives (drop_number.c), for drop_fastcoll.c. */
#ifndef SV_DROP_NUMBER_H
#define SV_DROP_NUMBER_H

#include "interpose/drop.h"

#include <selvage/collective.h>

/* What elements of a reduction are; type SELVAGE_TYPE_DEFAULT: these do not map, and the rest says nothing. */
typedef struct sv_drop_number {
    selvage_type_t type;
    selvage_op_t op;
    size_t bytes, align; /* of an element, with its gap; of its address */
    bool has_gap;        /* some of its bytes are never written */
} sv_drop_number_t;

/* Whatever MPI says of the two, which the caller asks. Any thread. */
sv_drop_number_t sv_drop_number(MPI_Datatype type, MPI_Op op);

#endif
