/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * type(selvage_field) of the Fortran module, between selvage_field_of() and selvage_halo_create().
 */
#ifndef FORTRAN_FIELD_H
#define FORTRAN_FIELD_H

#include "selvage_fortran.h"

enum fault {
    FAULT_NONE, FAULT_POINTER, FAULT_ASSUMED_SIZE, FAULT_RANK, FAULT_CELL, FAULT_PLANES, FAULT_WIDTH, FAULT_FIRST,
    FAULT_STAGGER, FAULT_PACKED
};

/* Member for member type(selvage_field) of selvage.F90; dimensions and places count from 0. */
struct fortran_field {
    void *data;
    size_t element_bytes;
    int64_t extent[SELVAGE_DIMS_MAX], first[SELVAGE_DIMS_MAX];
    ptrdiff_t stride_bytes[SELVAGE_DIMS_MAX], component_stride_bytes;
    int ndims, components, parity, packed_dim, number;
    int width_lo[SELVAGE_DIMS_MAX], width_hi[SELVAGE_DIMS_MAX], stagger[SELVAGE_DIMS_MAX];
    int fault; /* what selvage_field_of() found wrong: an enum fault */
};

/* What a fault means, with the argument named. */
const char *sf_fault_text(int fault);

/* The field as the library takes it. */
void sf_field(const struct fortran_field *field, selvage_field_t *out);

#endif
