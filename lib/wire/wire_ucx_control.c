/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX wire's control channel: active messages of 64 bytes, which need no receive. UCX calls a handler for each
 * while it progresses. The handler checks it and puts it into a ring, from which the poll takes it. The ring grows when
 * it is full, because a sender is not told when the receiver falls back. If there is no memory for that, the message is
 * lost and counted as damaged; the engine asks again for what it misses.
 */
#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_ucx_private.h"

enum { FIRST_ARRIVALS = 64 };

static selvage_status_t grow_ring(sv_wire_ucx_t *wire)
{
    sv_ucx_control_t *ring;
    const size_t size = wire->arrivals_size ? 2 * wire->arrivals_size : FIRST_ARRIVALS;
    SV_TRY(sv_calloc(size, sizeof *ring, &ring));
    for (size_t i = 0; i < wire->narrivals; i++)
        ring[i] = wire->arrivals[(wire->first_arrival + i) % wire->arrivals_size];
    sv_free(wire->arrivals);
    wire->arrivals = ring;
    wire->arrivals_size = size;
    wire->first_arrival = 0;
    return SELVAGE_SUCCESS;
}

static ucs_status_t on_control(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    sv_wire_ucx_t *wire = arg;
    sv_ucx_control_t arrival;
    (void)header;
    (void)param;
    bool good = header_bytes == 0 && bytes == sizeof arrival;
    if (good) {
        memcpy(&arrival, data, sizeof arrival);
        good = arrival.source >= 0 && arrival.source < wire->base.size &&
               arrival.message.check == sv_wire_control_check(&arrival.message, (int)arrival.source, wire->base.rank);
    }
    if (!good || (wire->narrivals == wire->arrivals_size && grow_ring(wire) != SELVAGE_SUCCESS)) {
        __atomic_fetch_add(&wire->base.control_damaged, 1, __ATOMIC_RELAXED); /* statistics are read without the lock */
        return UCS_OK;
    }
    wire->arrivals[(wire->first_arrival + wire->narrivals++) % wire->arrivals_size] = arrival;
    return UCS_OK;
}

selvage_status_t sv_ucx_control_begin(sv_wire_ucx_t *wire)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = 0,
                                          .cb = on_control,
                                          .arg = wire};
    SV_TRY(grow_ring(wire));
    const ucs_status_t status = wire->ucp->worker_set_am_recv_handler(wire->worker, &param);
    if (status != UCS_OK)
        return sv_error(SELVAGE_ERR_SYSTEM, "UCX: no active messages: %s", wire->ucp->status_string(status));
    return SELVAGE_SUCCESS;
}

void sv_ucx_control_end(sv_wire_ucx_t *wire)
{
    sv_free(wire->arrivals);
    wire->arrivals = NULL;
}

selvage_status_t sv_ucx_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    /* Bounded, so that messages that do not leave keep no memory; and for each rank, so that one that takes none keeps
       no room from the others. */
    enum { CONTROLS_MAX = 1024, OF_RANK_MAX = 64 };
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    sv_ucx_operation_t *operation = NULL;
    sv_ucx_peer_t *to = NULL;
    sv_ucx_lock(wire);
    selvage_status_t status = sv_ucx_find_peer(wire, peer, &to);
    if (status == SELVAGE_SUCCESS && (wire->controls >= CONTROLS_MAX || to->controls >= OF_RANK_MAX)) {
        sv_ucx_progress(wire);
        status = SELVAGE_IN_PROGRESS;
    } else if (status == SELVAGE_SUCCESS) {
        operation = sv_ucx_take(wire);
        if (!operation)
            status = sv_error_quiet(SELVAGE_ERR_LIMIT, "UCX wire: no memory for a control message");
    }
    if (operation) {
        message->check = sv_wire_control_check(message, base->rank, peer);
        operation->kind = SV_UCX_CONTROL;
        operation->peer = peer;
        operation->bytes = sizeof *message;
        operation->control = (sv_ucx_control_t){.message = *message, .source = base->rank};
        status = sv_ucx_send_operation(operation);
    }
    sv_ucx_unlock(wire);
    return status;
}

selvage_status_t sv_ucx_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    sv_ucx_lock(wire);
    if (wire->narrivals == 0 && !wire->moved)
        sv_ucx_progress(wire);
    else
        wire->moved = false; /* the caller answers first what has just come */
    if (wire->narrivals > 0) {
        const sv_ucx_control_t *arrival = &wire->arrivals[wire->first_arrival];
        *source_out = (int)arrival->source;
        *message_out = arrival->message;
        wire->first_arrival = (wire->first_arrival + 1) % wire->arrivals_size;
        wire->narrivals--;
        status = SELVAGE_SUCCESS;
    } else if (wire->lost) {
        status = sv_error(SELVAGE_ERR_MPI, "UCX: rank %d is gone: %s", wire->lost->rank,
                          wire->ucp->status_string(wire->lost->why));
        wire->lost = NULL; /* said once; what is sent to it or received from it fails */
    } else if (wire->broken != SELVAGE_SUCCESS) {
        status = sv_error(wire->broken, "UCX wire: the wire over MPI, by which addresses come, has failed");
    }
    sv_ucx_unlock(wire);
    return status;
}
