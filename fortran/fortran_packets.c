/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: packets that lie in pieces, by MPI datatypes and by lists of elements, whose numbers count
 * from 1 there and from 0 here. See selvage_fortran.h.
 */
#include "selvage_fortran.h"

#include <stdlib.h>

/* As type(MPI_Datatype) of mpi_f08. */
struct f08_datatype { MPI_Fint handle; };

/* What add_send and add_recv have in common. */
struct packet {
    selvage_exchange_t *exchange;
    int peer, tag, receives;
};

static selvage_status_t add_type(const struct packet *p, void *buf, size_t count, MPI_Fint type)
{
    if (p->receives)
        return selvage_exchange_add_recv_type(p->exchange, buf, count, MPI_Type_f2c(type), p->peer, p->tag, NULL);
    return selvage_exchange_add_send_type(p->exchange, buf, count, MPI_Type_f2c(type), p->peer, p->tag, NULL);
}

/* The type says what is taken from the array's first element on, which often is all that is given. */
static selvage_status_t add_array(const struct packet *p, const CFI_cdesc_t *array, int count, MPI_Fint type)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status == SELVAGE_SUCCESS && count < 0)
        status = sf_refuse("count: is %d", count);
    return status == SELVAGE_SUCCESS ? add_type(p, base, (size_t)count, type) : status;
}

void selvage_fortran_add_send_type_array(selvage_exchange_t **exchange, const CFI_cdesc_t *array, const int *count,
                                         const MPI_Fint *type, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 0};
    sf_settle(add_array(&p, array, *count, *type), error);
}

void selvage_fortran_add_recv_type_array(selvage_exchange_t **exchange, const CFI_cdesc_t *array, const int *count,
                                         const MPI_Fint *type, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 1};
    sf_settle(add_array(&p, array, *count, *type), error);
}

void selvage_fortran_add_send_type_array_f08(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                             const int *count, const struct f08_datatype *type, const int *peer,
                                             const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 0};
    sf_settle(add_array(&p, array, *count, type->handle), error);
}

void selvage_fortran_add_recv_type_array_f08(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                             const int *count, const struct f08_datatype *type, const int *peer,
                                             const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 1};
    sf_settle(add_array(&p, array, *count, type->handle), error);
}

void selvage_fortran_add_send_type(selvage_exchange_t **exchange, void **ptr, const size_t *count,
                                   const MPI_Fint *type, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 0};
    sf_settle(add_type(&p, *ptr, *count, *type), error);
}

void selvage_fortran_add_recv_type(selvage_exchange_t **exchange, void **ptr, const size_t *count,
                                   const MPI_Fint *type, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 1};
    sf_settle(add_type(&p, *ptr, *count, *type), error);
}

/* Elements are numbered from 1 to `elements`, if that is known (0: it is not). */
static selvage_status_t read_indices(const CFI_cdesc_t *indices, int64_t elements, int64_t *out)
{
    for (int64_t i = 0; i < indices->dim[0].extent; i++) {
        const void *at = sf_element(indices, i);
        int64_t index = indices->elem_len == sizeof(int32_t) ? *(const int32_t *)at : *(const int64_t *)at;
        if (index < 1)
            return sf_refuse("indices(%lld): is %lld, and the first element is 1", (long long)i + 1, (long long)index);
        if (elements > 0 && index > elements)
            return sf_refuse("indices(%lld): is %lld, and the array has %lld elements along its last dimension",
                             (long long)i + 1, (long long)index, (long long)elements);
        out[i] = index - 1;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t add_list(const struct packet *p, void *buf, size_t element_bytes, int64_t elements,
                                 const CFI_cdesc_t *indices)
{
    size_t count = (size_t)indices->dim[0].extent;
    int64_t *list = malloc(count * sizeof *list + 1);
    selvage_status_t status = list ? read_indices(indices, elements, list) : SELVAGE_ERR_MEMORY;
    if (status == SELVAGE_SUCCESS)
        status = p->receives ? selvage_exchange_add_recv_indexed(p->exchange, buf, element_bytes, list, count, p->peer,
                                                                 p->tag, NULL)
                             : selvage_exchange_add_send_indexed(p->exchange, buf, element_bytes, list, count, p->peer,
                                                                 p->tag, NULL);
    free(list);
    return status;
}

static selvage_status_t add_elements(const struct packet *p, const CFI_cdesc_t *array, const CFI_cdesc_t *indices)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status != SELVAGE_SUCCESS)
        return status;
    if (array->rank == 0 || bytes == 0)
        return sf_refuse("array: has no elements to be numbered");
    int64_t elements = array->dim[array->rank - 1].extent;
    return add_list(p, base, bytes / (size_t)elements, elements, indices);
}

void selvage_fortran_add_send_indexed_int32(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                            const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 0};
    sf_settle(add_elements(&p, array, indices), error);
}

void selvage_fortran_add_recv_indexed_int32(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                            const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 1};
    sf_settle(add_elements(&p, array, indices), error);
}

void selvage_fortran_add_send_indexed_int64(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                            const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    selvage_fortran_add_send_indexed_int32(exchange, array, indices, peer, tag, error);
}

void selvage_fortran_add_recv_indexed_int64(selvage_exchange_t **exchange, const CFI_cdesc_t *array,
                                            const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    selvage_fortran_add_recv_indexed_int32(exchange, array, indices, peer, tag, error);
}

void selvage_fortran_add_send_indexed(selvage_exchange_t **exchange, void **ptr, const size_t *element_bytes,
                                      const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 0};
    sf_settle(add_list(&p, *ptr, *element_bytes, 0, indices), error);
}

void selvage_fortran_add_recv_indexed(selvage_exchange_t **exchange, void **ptr, const size_t *element_bytes,
                                      const CFI_cdesc_t *indices, const int *peer, const int *tag, int *error)
{
    const struct packet p = {*exchange, *peer, *tag, 1};
    sf_settle(add_list(&p, *ptr, *element_bytes, 0, indices), error);
}
