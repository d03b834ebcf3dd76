/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lattice example's use of Selvage: one exchange of four packets per rank, which brings the forward halo of a gauge
 * field. Errors end the job with the library's own text: an example has nothing to fall back on.
 */
#ifndef PLAQUETTE_HALO_H
#define PLAQUETTE_HALO_H

#include <selvage.h>

#include "gauge_field.h"

/* Where a rank's block lies. */
typedef struct placement {
    int grid[GAUGE_DIMS];   /* ranks in each direction */
    int coord[GAUGE_DIMS];  /* of this rank; x runs fastest with the rank */
    int extent[GAUGE_DIMS]; /* of the whole lattice */
    int low[GAUGE_DIMS];    /* first site of this rank */
    int size[GAUGE_DIMS];   /* sites of this rank */
} placement_t;

typedef struct halo {
    selvage_device_t *device; /* the communicator's */
    selvage_exchange_t *exchange;
    selvage_buffer_t *buffer; /* lets the node's peers write straight into recv_device */
    void *stream;
    float *send_host, *recv_host;     /* pinned */
    void *send_device, *recv_device;
    size_t offset[GAUGE_DIMS + 1];    /* of each direction's face, in floats */
} halo_t;

/* Prints status, detail and `what` and aborts the job, unless the status is success. */
void halo_check(selvage_status_t status, const char *what);

/* Collective. Declares and commits the packets for this field's faces. Partner: halo_close(). */
void halo_open(halo_t *halo, selvage_comm_t *comm, selvage_route_t route, const placement_t *place,
               const gauge_field_t *field);
/* Packs the low faces and starts the exchange; returns at once. The field may be read meanwhile. */
void halo_start(halo_t *halo, const gauge_field_t *field);
/* Waits, and puts what arrived into the field's halo. */
void halo_finish(halo_t *halo, gauge_field_t *field);
void halo_close(halo_t *halo);

#endif
