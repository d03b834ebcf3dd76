/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a halo travels with Selvage: packets are declared once (halo_open) and then started and waited for as often as
 * wanted. Everything is ordered by one stream, so that no device synchronisation is needed but the last, before the
 * host reads. A code with its fields on a GPU packs there and has no copies at all.
 */
#include "plaquette_halo.h"

#include <mpi.h>
#include <stdio.h>

#define CHECK(call) halo_check((call), #call)

void halo_check(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "plaquette: %s: %s\n", what, selvage_status_name(status)); /* the library has said why */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Rank of the neighbour one step along mu; the lattice is periodic, so there always is one, perhaps the rank itself. */
static int neighbour(const placement_t *place, int mu, int step)
{
    int rank = 0;
    for (int d = GAUGE_DIMS - 1; d >= 0; d--) {
        int at = place->coord[d];
        if (d == mu)
            at = (at + step + place->grid[d]) % place->grid[d];
        rank = rank * place->grid[d] + at;
    }
    return rank;
}

static void allocate(halo_t *halo, selvage_comm_t *comm, const gauge_field_t *field)
{
    halo->device = selvage_comm_device(comm);
    for (int mu = 0; mu < GAUGE_DIMS; mu++)
        halo->offset[mu + 1] = halo->offset[mu] + gauge_face_floats(field, mu);
    size_t bytes = halo->offset[GAUGE_DIMS] * sizeof(float);
    CHECK(selvage_stream_create(halo->device, &halo->stream));
    CHECK(selvage_device_host_malloc(halo->device, bytes, (void **)&halo->send_host));
    CHECK(selvage_device_host_malloc(halo->device, bytes, (void **)&halo->recv_host));
    CHECK(selvage_device_malloc(halo->device, bytes, &halo->send_device));
    CHECK(selvage_device_malloc(halo->device, bytes, &halo->recv_device));
    CHECK(selvage_buffer_register(comm, halo->recv_device, bytes, &halo->buffer));
}

void halo_open(halo_t *halo, selvage_comm_t *comm, selvage_route_t route, const placement_t *place,
               const gauge_field_t *field)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    *halo = (halo_t){0};
    allocate(halo, comm, field);
    CHECK(selvage_exchange_create(comm, &params, &halo->exchange));
    for (int mu = 0; mu < GAUGE_DIMS; mu++) {
        /* The low face goes to the neighbour after, whose forward halo it is. The tag tells the directions apart
           where one rank is the neighbour in several of them. */
        size_t at = halo->offset[mu] * sizeof(float), bytes = halo->offset[mu + 1] * sizeof(float) - at;
        CHECK(selvage_exchange_add_send(halo->exchange, (char *)halo->send_device + at, bytes,
                                        neighbour(place, mu, -1), mu, NULL));
        CHECK(selvage_exchange_add_recv(halo->exchange, (char *)halo->recv_device + at, bytes,
                                        neighbour(place, mu, +1), mu, NULL));
    }
    CHECK(selvage_exchange_commit(halo->exchange));
}

void halo_start(halo_t *halo, const gauge_field_t *field)
{
    size_t bytes = halo->offset[GAUGE_DIMS] * sizeof(float);
    for (int mu = 0; mu < GAUGE_DIMS; mu++)
        gauge_face_pack(field, mu, halo->send_host + halo->offset[mu]);
    CHECK(selvage_device_copy(halo->device, halo->send_device, halo->send_host, bytes, SELVAGE_COPY_HOST_TO_DEVICE,
                              halo->stream));
    CHECK(selvage_exchange_start(halo->exchange, halo->stream)); /* reads send_device after the copy */
}

void halo_finish(halo_t *halo, gauge_field_t *field)
{
    size_t bytes = halo->offset[GAUGE_DIMS] * sizeof(float);
    CHECK(selvage_exchange_wait(halo->exchange, halo->stream)); /* later work on the stream sees what arrived */
    CHECK(selvage_device_copy(halo->device, halo->recv_host, halo->recv_device, bytes, SELVAGE_COPY_DEVICE_TO_HOST,
                              halo->stream));
    CHECK(selvage_stream_synchronize(halo->device, halo->stream));
    for (int mu = 0; mu < GAUGE_DIMS; mu++)
        gauge_face_unpack(field, mu, halo->recv_host + halo->offset[mu]);
}

void halo_close(halo_t *halo)
{
    selvage_exchange_destroy(halo->exchange);
    if (halo->buffer != NULL)
        CHECK(selvage_buffer_unregister(halo->buffer));
    selvage_device_free(halo->device, halo->recv_device);
    selvage_device_free(halo->device, halo->send_device);
    selvage_device_host_free(halo->device, halo->recv_host);
    selvage_device_host_free(halo->device, halo->send_host);
    selvage_stream_destroy(halo->device, halo->stream);
    *halo = (halo_t){0};
}
