/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: selvage_field_of(), which notes how an array lies in memory. It is a function, so that
 * lists of fields can be written down, and has no `error`: what is wrong is kept and told by selvage_halo_create().
 */
#include "fortran_field.h"

#include <string.h>

static const char *const fault_texts[] = {
    [FAULT_POINTER] = "array: is a type(c_ptr), so the call needs element_bytes as integer(c_size_t), and extents",
    [FAULT_ASSUMED_SIZE] = "array: has assumed size; give the section that is meant, as in array(1:n)",
    [FAULT_RANK] = "array: has not 1 to 4 dimensions besides those of cell_rank and plane_rank",
    [FAULT_CELL] = "cell_rank: the array has gaps within a cell",
    [FAULT_PLANES] = "plane_rank: the planes do not lie at one distance from each other",
    [FAULT_WIDTH] = "width_lo and width_hi: need one element per dimension",
    [FAULT_FIRST] = "first: needs one element per dimension, each at least 1",
    [FAULT_STAGGER] = "stagger: needs one element per dimension",
    [FAULT_PACKED] = "packed_dim: is no dimension of the field",
};

const char *sf_fault_text(int fault)
{
    return fault_texts[fault];
}

/* What a reverse exchange adds; complex numbers are pairs. */
static int number_of(CFI_type_t type)
{
    if (type == CFI_type_float || type == CFI_type_float_Complex)
        return SELVAGE_NUMBER_FLOAT32;
    if (type == CFI_type_double || type == CFI_type_double_Complex)
        return SELVAGE_NUMBER_FLOAT64;
    if (type == CFI_type_int32_t)
        return SELVAGE_NUMBER_INT32;
    return type == CFI_type_int64_t ? SELVAGE_NUMBER_INT64 : SELVAGE_NUMBER_NONE;
}

/* One integer per dimension; false if there are others. */
static int read_dims(const CFI_cdesc_t *array, int ndims, int *out)
{
    for (int d = 0; d < sf_elements(array) && d < ndims; d++)
        out[d] = *(int *)sf_element(array, d);
    return !array || sf_elements(array) == ndims;
}

static int read_widths(struct fortran_field *field, const int *width, const CFI_cdesc_t *width_lo,
                       const CFI_cdesc_t *width_hi)
{
    for (int d = 0; d < field->ndims; d++)
        field->width_lo[d] = field->width_hi[d] = sf_int(width);
    return read_dims(width_lo, field->ndims, field->width_lo) && read_dims(width_hi, field->ndims, field->width_hi);
}

/* After the halo below, or where the caller says. */
static int read_first(struct fortran_field *field, const CFI_cdesc_t *first)
{
    int places[SELVAGE_DIMS_MAX];
    if (!read_dims(first, field->ndims, places))
        return 0;
    for (int d = 0; d < field->ndims; d++) {
        field->first[d] = first ? places[d] - 1 : field->width_lo[d];
        if (field->first[d] < 0)
            return 0;
    }
    return 1;
}

/* Half of the cells: an extent in cells is twice that in places. */
static int read_parity(struct fortran_field *field, const int *parity, const int *packed_dim)
{
    field->parity = sf_int(parity);
    if (field->parity == SELVAGE_PARITY_ALL)
        return 1;
    field->packed_dim = packed_dim ? *packed_dim - 1 : 0;
    if (field->packed_dim < 0 || field->packed_dim >= field->ndims)
        return 0;
    field->extent[field->packed_dim] *= 2;
    return 1;
}

/* What is alike for arrays and pointers; the extents are known. */
static int read_rest(struct fortran_field *field, const int *width, const CFI_cdesc_t *width_lo,
                     const CFI_cdesc_t *width_hi, const CFI_cdesc_t *first, const CFI_cdesc_t *stagger,
                     const int *parity, const int *packed_dim)
{
    if (!read_widths(field, width, width_lo, width_hi))
        return FAULT_WIDTH;
    if (!read_first(field, first))
        return FAULT_FIRST;
    if (!read_dims(stagger, field->ndims, field->stagger))
        return FAULT_STAGGER;
    return read_parity(field, parity, packed_dim) ? FAULT_NONE : FAULT_PACKED;
}

/* Sorts the dimensions of the array: first those within a cell, then the grid's, last those that number planes. */
static int read_array(struct fortran_field *field, const CFI_cdesc_t *array, int cell_rank, int plane_rank)
{
    const CFI_dim_t *dim = array->dim;
    int planes = array->rank - plane_rank;
    field->ndims = planes - cell_rank;
    if (cell_rank < 0 || plane_rank < 0 || field->ndims < 1 || field->ndims > SELVAGE_DIMS_MAX) {
        field->ndims = 0;
        return FAULT_RANK;
    }
    if (dim[array->rank - 1].extent == -1)
        return FAULT_ASSUMED_SIZE;
    field->data = array->base_addr;
    field->element_bytes = array->elem_len;
    for (int d = 0; d < cell_rank; d++) {
        if (dim[d].extent > 1 && dim[d].sm != (CFI_index_t)field->element_bytes)
            return FAULT_CELL;
        field->element_bytes *= (size_t)dim[d].extent;
    }
    for (int d = 0; d < field->ndims; d++) {
        field->extent[d] = dim[cell_rank + d].extent;
        field->stride_bytes[d] = dim[cell_rank + d].sm;
    }
    field->components = 1;
    field->component_stride_bytes = plane_rank > 0 ? dim[planes].sm : 0;
    for (int d = planes; d < array->rank; d++) {
        if (dim[d].extent > 1 && dim[d].sm != field->component_stride_bytes * field->components)
            return FAULT_PLANES;
        field->components *= (int)dim[d].extent;
    }
    return FAULT_NONE;
}

struct fortran_field selvage_fortran_field_of_array(const CFI_cdesc_t *array, const int *width,
                                                    const CFI_cdesc_t *width_lo, const CFI_cdesc_t *width_hi,
                                                    const CFI_cdesc_t *first, const int *cell_rank,
                                                    const int *plane_rank, const CFI_cdesc_t *stagger,
                                                    const int *parity, const int *packed_dim, const int *number)
{
    struct fortran_field field = {.number = number ? *number : number_of(array->type)};
    field.fault = array->type == CFI_type_cptr ? FAULT_POINTER
                                               : read_array(&field, array, sf_int(cell_rank), sf_int(plane_rank));
    if (field.fault == FAULT_NONE)
        field.fault = read_rest(&field, width, width_lo, width_hi, first, stagger, parity, packed_dim);
    return field;
}

/* Strides stay zero: dimension 1 fastest, without gaps. */
struct fortran_field selvage_fortran_field_of_pointer(void **ptr, const size_t *element_bytes,
                                                      const CFI_cdesc_t *extent, const int *width,
                                                      const CFI_cdesc_t *width_lo, const CFI_cdesc_t *width_hi,
                                                      const CFI_cdesc_t *first, const int *components,
                                                      const CFI_cdesc_t *stagger, const int *parity,
                                                      const int *packed_dim, const int *number)
{
    struct fortran_field field = {.data = *ptr, .element_bytes = *element_bytes, .components = sf_int(components),
                                  .number = sf_int(number), .ndims = sf_elements(extent)};
    if (field.ndims < 1 || field.ndims > SELVAGE_DIMS_MAX) {
        field.ndims = 0;
        field.fault = FAULT_RANK;
        return field;
    }
    for (int d = 0; d < field.ndims; d++)
        field.extent[d] = *(int *)sf_element(extent, d);
    field.fault = read_rest(&field, width, width_lo, width_hi, first, stagger, parity, packed_dim);
    return field;
}

void sf_field(const struct fortran_field *field, selvage_field_t *out)
{
    *out = (selvage_field_t){SELVAGE_FIELD_INIT, .data = field->data, .element_bytes = field->element_bytes,
                             .order = SELVAGE_ORDER_FIRST, .has_first = 1, .components = field->components,
                             .component_stride_bytes = field->component_stride_bytes,
                             .parity = (selvage_parity_t)field->parity, .packed_dim = field->packed_dim,
                             .number = (selvage_number_t)field->number};
    memcpy(out->width_lo, field->width_lo, sizeof out->width_lo);
    memcpy(out->width_hi, field->width_hi, sizeof out->width_hi);
    memcpy(out->stagger, field->stagger, sizeof out->stagger);
    memcpy(out->array_extent, field->extent, sizeof out->array_extent);
    memcpy(out->first, field->first, sizeof out->first);
    memcpy(out->stride_bytes, field->stride_bytes, sizeof out->stride_bytes);
}
