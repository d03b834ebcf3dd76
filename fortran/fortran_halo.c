/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: halos. See selvage_fortran.h.
 */
#include "fortran_field.h"

#include <stdlib.h>

_Static_assert(SELVAGE_HALO_FACES == 1 && SELVAGE_HALO_FULL == 2 && SELVAGE_HALO_DIRECTIONS == 3 &&
               SELVAGE_PARITY_EVEN == 1 && SELVAGE_PARITY_ODD == 2, "selvage.F90 has these numbers");
_Static_assert(SELVAGE_NUMBER_FLOAT32 == 1 && SELVAGE_NUMBER_FLOAT64 == 2 && SELVAGE_NUMBER_INT32 == 3 &&
               SELVAGE_NUMBER_INT64 == 4, "selvage.F90 has these numbers");

/* As type(selvage_halo); the number of fields says how many pointers a rebind needs. */
struct fortran_halo { selvage_halo_t *handle; int nfields; };

/* As type(selvage_halo_info). */
struct fortran_halo_info { int packets; size_t bytes_sent, bytes_contiguous, bytes_received; };

/* Copies of what may have gaps in Fortran; read during the call. */
struct halo_arrays { selvage_field_t *fields; int *directions; };

static selvage_status_t read_fields(const selvage_grid_t *grid, const CFI_cdesc_t *fields, struct halo_arrays *arrays)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    int count = sf_elements(fields);
    selvage_status_t status = selvage_grid_describe(grid, &info);
    if (status != SELVAGE_SUCCESS)
        return status;
    arrays->fields = malloc((size_t)count * sizeof(selvage_field_t) + 1);
    if (!arrays->fields)
        return SELVAGE_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        const struct fortran_field *field = sf_element(fields, i);
        if (field->fault != FAULT_NONE)
            return sf_refuse("fields(%d): %s", i + 1, sf_fault_text(field->fault));
        if (field->ndims != info.ndims)
            return sf_refuse("fields(%d): has %d dimensions, and the grid has %d", i + 1, field->ndims, info.ndims);
        sf_field(field, &arrays->fields[i]);
    }
    return SELVAGE_SUCCESS;
}

/* directions(:, i) is a direction, and the library takes one after the other. */
static selvage_status_t read_directions(const selvage_grid_t *grid, const CFI_cdesc_t *directions,
                                        struct halo_arrays *arrays, selvage_halo_params_t *params)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    if (!directions)
        return SELVAGE_SUCCESS;
    selvage_status_t status = selvage_grid_describe(grid, &info);
    if (status != SELVAGE_SUCCESS)
        return status;
    int ndims = (int)directions->dim[0].extent, count = (int)directions->dim[1].extent;
    if (ndims != info.ndims)
        return sf_refuse("directions: has %d rows, and the grid has %d dimensions", ndims, info.ndims);
    arrays->directions = malloc((size_t)(ndims * count) * sizeof(int) + 1);
    if (!arrays->directions)
        return SELVAGE_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        for (int d = 0; d < ndims; d++)
            arrays->directions[i * ndims + d] =
                *(int *)((char *)sf_element(directions, d) + i * directions->dim[1].sm);
    params->shape = SELVAGE_HALO_DIRECTIONS;
    params->ndirections = count;
    params->directions = arrays->directions;
    return SELVAGE_SUCCESS;
}

void selvage_fortran_halo_create(selvage_grid_t **grid, const CFI_cdesc_t *fields, struct fortran_halo *halo,
                                 const int *shape, const CFI_cdesc_t *directions, int reverse, const int *route,
                                 const int *checksum, int *error)
{
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT, .shape = (selvage_halo_shape_t)sf_int(shape),
                                    .reverse = reverse, .route = (selvage_route_t)sf_int(route),
                                    .checksum = (selvage_checksum_t)sf_int(checksum)};
    struct halo_arrays arrays = {NULL, NULL};
    *halo = (struct fortran_halo){NULL, sf_elements(fields)};
    selvage_status_t status = read_fields(*grid, fields, &arrays);
    if (status == SELVAGE_SUCCESS)
        status = read_directions(*grid, directions, &arrays, &params);
    if (status == SELVAGE_SUCCESS)
        status = selvage_halo_create(*grid, &params, arrays.fields, halo->nfields, &halo->handle);
    free(arrays.fields);
    free(arrays.directions);
    sf_settle(status, error);
}

void selvage_fortran_halo_destroy(struct fortran_halo *halo)
{
    selvage_halo_destroy(halo->handle);
    *halo = (struct fortran_halo){NULL, 0};
}

void selvage_fortran_halo_start(struct fortran_halo *halo, void **stream, int *error)
{
    sf_settle(selvage_halo_start(halo->handle, sf_stream(stream)), error);
}

/* Not yet is no error, as in selvage_fortran_exchange_test(). */
void selvage_fortran_halo_test(struct fortran_halo *halo, int *complete, void **stream, int *error)
{
    selvage_status_t status = selvage_halo_test(halo->handle, sf_stream(stream));
    *complete = status == SELVAGE_SUCCESS;
    sf_settle(status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status, error);
}

void selvage_fortran_halo_wait(struct fortran_halo *halo, void **stream, int *error)
{
    sf_settle(selvage_halo_wait(halo->handle, sf_stream(stream)), error);
}

void selvage_fortran_halo_enqueue_wait(struct fortran_halo *halo, void **stream, int *error)
{
    sf_settle(selvage_halo_enqueue_wait(halo->handle, sf_stream(stream)), error);
}

void selvage_fortran_halo_exchange(struct fortran_halo *halo, void **stream, int *error)
{
    sf_settle(selvage_halo_exchange(halo->handle, sf_stream(stream)), error);
}

/* The address is the first member of a field, and all of a type(c_ptr). */
static void rebind(struct fortran_halo *halo, const CFI_cdesc_t *array, const char *name, int *error)
{
    int count = sf_elements(array);
    void **data = malloc((size_t)count * sizeof *data + 1);
    selvage_status_t status = data ? SELVAGE_SUCCESS : SELVAGE_ERR_MEMORY;
    if (status == SELVAGE_SUCCESS && count != halo->nfields)
        status = sf_refuse("%s: has %d elements, and the halo has %d fields", name, count, halo->nfields);
    for (int i = 0; i < count && status == SELVAGE_SUCCESS; i++)
        data[i] = *(void **)sf_element(array, i);
    if (status == SELVAGE_SUCCESS)
        status = selvage_halo_rebind(halo->handle, data);
    free(data);
    sf_settle(status, error);
}

void selvage_fortran_halo_rebind_pointers(struct fortran_halo *halo, const CFI_cdesc_t *ptr, int *error)
{
    rebind(halo, ptr, "ptr", error);
}

void selvage_fortran_halo_rebind_fields(struct fortran_halo *halo, const CFI_cdesc_t *fields, int *error)
{
    rebind(halo, fields, "fields", error);
}

void selvage_fortran_halo_describe(struct fortran_halo *halo, struct fortran_halo_info *info, int *error)
{
    selvage_halo_info_t found = {SELVAGE_HALO_INFO_INIT};
    sf_settle(selvage_halo_describe(halo->handle, &found), error);
    *info = (struct fortran_halo_info){found.packets, found.bytes_sent, found.bytes_contiguous, found.bytes_received};
}
