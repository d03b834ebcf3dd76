/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: exchanges. See selvage_fortran.h.
 */
#include "selvage_fortran.h"

#include <stdint.h>
#include <stdlib.h>

_Static_assert(SELVAGE_ROUTE_SELF == 1 && SELVAGE_ROUTE_DIRECT == 5 && SELVAGE_SCOPE_NEIGHBORS == 1,
               "selvage.F90 has these numbers");

static void create_exchange(selvage_comm_t **comm, selvage_exchange_t **exchange, const int *route,
                            const int *checksum, int varying, int scope, int *error)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = (selvage_route_t)sf_int(route),
                                        .checksum = (selvage_checksum_t)sf_int(checksum), .varying = varying,
                                        .scope = (selvage_scope_t)scope};
    *exchange = NULL;
    sf_settle(selvage_exchange_create(*comm, &params, exchange), error);
}

void selvage_fortran_exchange_create(selvage_comm_t **comm, selvage_exchange_t **exchange, const int *route,
                                     const int *checksum, int *error)
{
    create_exchange(comm, exchange, route, checksum, 0, SELVAGE_SCOPE_ALL, error);
}

void selvage_fortran_exchange_create_varying(selvage_comm_t **comm, selvage_exchange_t **exchange, const int *route,
                                             const int *checksum, int *error)
{
    create_exchange(comm, exchange, route, checksum, 1, SELVAGE_SCOPE_ALL, error);
}

void selvage_fortran_exchange_create_scoped(selvage_comm_t **comm, selvage_exchange_t **exchange, const int *scope,
                                            const int *varying, const int *route, const int *checksum, int *error)
{
    create_exchange(comm, exchange, route, checksum, sf_int(varying), *scope, error);
}

/* Lengths without gaps, as C wants them; NULL for an absent array. */
static selvage_status_t read_lengths(const CFI_cdesc_t *array, const char *name, size_t **out)
{
    if (!array)
        return SELVAGE_SUCCESS;
    *out = malloc((size_t)sf_elements(array) * sizeof **out + 1);
    if (!*out)
        return SELVAGE_ERR_MEMORY;
    for (int i = 0; i < sf_elements(array); i++) {
        const int64_t length = *(const int64_t *)sf_element(array, i);
        if (length < 0)
            return sf_refuse("%s(%d): is %lld", name, i + 1, (long long)length);
        (*out)[i] = (size_t)length;
    }
    return SELVAGE_SUCCESS;
}

void selvage_fortran_exchange_set_bytes(selvage_exchange_t **exchange, const CFI_cdesc_t *send_bytes,
                                        const CFI_cdesc_t *recv_bytes, int *error)
{
    size_t *sends = NULL, *recvs = NULL;
    selvage_status_t status = read_lengths(send_bytes, "send_bytes", &sends);
    if (status == SELVAGE_SUCCESS)
        status = read_lengths(recv_bytes, "recv_bytes", &recvs);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_set_bytes(*exchange, sends, (uint32_t)sf_elements(send_bytes), recvs,
                                            (uint32_t)sf_elements(recv_bytes));
    free(sends);
    free(recvs);
    sf_settle(status, error);
}

void selvage_fortran_exchange_add_send(selvage_exchange_t **exchange, void **ptr, const size_t *bytes,
                                       const int *peer, const int *tag, int *error)
{
    sf_settle(selvage_exchange_add_send(*exchange, *ptr, *bytes, *peer, *tag, NULL), error);
}

void selvage_fortran_exchange_add_recv(selvage_exchange_t **exchange, void **ptr, const size_t *bytes,
                                       const int *peer, const int *tag, int *error)
{
    sf_settle(selvage_exchange_add_recv(*exchange, *ptr, *bytes, *peer, *tag, NULL), error);
}

void selvage_fortran_exchange_add_send_array(selvage_exchange_t **exchange, const CFI_cdesc_t *array, const int *peer,
                                             const int *tag, int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_add_send(*exchange, base, bytes, *peer, *tag, NULL);
    sf_settle(status, error);
}

void selvage_fortran_exchange_add_recv_array(selvage_exchange_t **exchange, const CFI_cdesc_t *array, const int *peer,
                                             const int *tag, int *error)
{
    void *base;
    size_t bytes;
    selvage_status_t status = sf_bytes(array, "array", &base, &bytes);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_add_recv(*exchange, base, bytes, *peer, *tag, NULL);
    sf_settle(status, error);
}

void selvage_fortran_exchange_commit(selvage_exchange_t **exchange, int *error)
{
    sf_settle(selvage_exchange_commit(*exchange), error);
}

void selvage_fortran_exchange_start(selvage_exchange_t **exchange, void **stream, int *error)
{
    sf_settle(selvage_exchange_start(*exchange, sf_stream(stream)), error);
}

/* Not yet is no error: whoever reads `error` finds 0, and `done` false. */
void selvage_fortran_exchange_test(selvage_exchange_t **exchange, int *complete, void **stream, int *error)
{
    selvage_status_t status = selvage_exchange_test(*exchange, sf_stream(stream));
    *complete = status == SELVAGE_SUCCESS;
    sf_settle(status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status, error);
}

void selvage_fortran_exchange_wait(selvage_exchange_t **exchange, void **stream, int *error)
{
    sf_settle(selvage_exchange_wait(*exchange, sf_stream(stream)), error);
}

void selvage_fortran_exchange_enqueue_wait(selvage_exchange_t **exchange, void **stream, int *error)
{
    sf_settle(selvage_exchange_enqueue_wait(*exchange, sf_stream(stream)), error);
}

int64_t selvage_fortran_exchange_epoch(selvage_exchange_t **exchange)
{
    return (int64_t)selvage_exchange_epoch(*exchange);
}

void selvage_fortran_exchange_send_route(selvage_exchange_t **exchange, const int *index, int *route, int *error)
{
    selvage_route_t found = SELVAGE_ROUTE_DEFAULT;
    sf_settle(selvage_exchange_send_route(*exchange, (uint32_t)*index, &found), error);
    *route = (int)found;
}

void selvage_fortran_exchange_destroy(selvage_exchange_t **exchange)
{
    selvage_exchange_destroy(*exchange);
    *exchange = NULL;
}
