/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI wire's control channel: 64-byte messages from any source on a communicator of their own, tag 0. Receives are
 * posted ahead in a ring, so that a verdict never waits in MPI's unexpected queue for long; the oldest is always read
 * first, which keeps the order of each source, because MPI fills posted receives in the order of posting. Sends copy
 * into fixed slots. A check word that does not verify is damage on the way, or a late message of a wire that is gone.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "wire/wire_mpi_private.h"

enum {
    TAG = 0,
    MESSAGE_BYTES = sizeof(sv_wire_control_t),
    SEND_TRIES = 16, /* slots looked at per call; a full pool is searched on by the next call */
    STOP_ROUNDS = 1000,
    STOP_SLEEP_US = 200
};

#define STOP_LIMIT_NS 5000000000u /* how long close waits for the other ranks */

_Static_assert(MESSAGE_BYTES == 64, "a control message is 64 bytes on the wire");

static selvage_status_t post_slot(sv_wire_mpi_t *wire, unsigned slot)
{
    int code = PMPI_Irecv(&wire->recv_message[slot], MESSAGE_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG,
                          wire->comm[SV_WIRE_MPI_CONTROL], &wire->recv_request[slot]);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Irecv of a control message");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_control_start(sv_wire_mpi_t *wire)
{
    for (unsigned i = 0; i < SV_WIRE_MPI_SEND_SLOTS; i++)
        wire->send_request[i] = MPI_REQUEST_NULL;
    for (unsigned i = 0; i < SV_WIRE_MPI_RECV_SLOTS; i++)
        wire->recv_request[i] = MPI_REQUEST_NULL;
    for (unsigned i = 0; i < SV_WIRE_MPI_RECV_SLOTS; i++)
        SV_TRY(post_slot(wire, i));
    return SELVAGE_SUCCESS;
}

/* Finds a slot whose last message has left. IN_PROGRESS: none among the next few. */
static selvage_status_t find_slot(sv_wire_mpi_t *wire, unsigned *slot_out)
{
    for (unsigned i = 0; i < SEND_TRIES; i++) {
        unsigned slot = wire->send_next;
        MPI_Request *request = &wire->send_request[slot];
        MPI_Status status;
        int done = 1;
        wire->send_next = (slot + 1) % SV_WIRE_MPI_SEND_SLOTS;
        int code = *request == MPI_REQUEST_NULL ? MPI_SUCCESS : PMPI_Test(request, &done, &status);
        if (code != MPI_SUCCESS)
            return sv_wire_mpi_error(code, "MPI_Test of a control message sent before");
        if (done) {
            *slot_out = slot;
            return SELVAGE_SUCCESS;
        }
    }
    return SELVAGE_IN_PROGRESS;
}

selvage_status_t sv_wire_mpi_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    unsigned slot = 0;
    SV_TRY(find_slot(wire, &slot));
    message->check = sv_wire_control_check(message, base->rank, peer) ^ wire->nonce;
    wire->send_message[slot] = *message;
    int code = PMPI_Isend(&wire->send_message[slot], MESSAGE_BYTES, MPI_BYTE, peer, TAG,
                          wire->comm[SV_WIRE_MPI_CONTROL], &wire->send_request[slot]);
    if (code != MPI_SUCCESS) {
        wire->send_request[slot] = MPI_REQUEST_NULL;
        return sv_wire_mpi_error(code, "MPI_Isend of a control message to rank %d", peer);
    }
    wire->sent++;
    return SELVAGE_SUCCESS;
}

static bool is_message_valid(const sv_wire_mpi_t *wire, const sv_wire_control_t *message, const MPI_Status *status)
{
    int count = 0;
    PMPI_Get_count(status, MPI_BYTE, &count);
    return count == MESSAGE_BYTES &&
           message->check == (sv_wire_control_check(message, status->MPI_SOURCE, wire->base.rank) ^ wire->nonce);
}

/* Takes the oldest message, good or not, and posts its slot again as the newest. */
static selvage_status_t take_oldest(sv_wire_mpi_t *wire, sv_wire_control_t *message, MPI_Status *status)
{
    unsigned slot = wire->recv_head;
    int done = 0;
    int code = PMPI_Test(&wire->recv_request[slot], &done, status);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Test of a control message");
    if (!done)
        return SELVAGE_IN_PROGRESS;
    wire->received++;
    *message = wire->recv_message[slot];
    wire->recv_head = (slot + 1) % SV_WIRE_MPI_RECV_SLOTS;
    return post_slot(wire, slot);
}

selvage_status_t sv_wire_mpi_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    /* Bounded, so that a flood of damaged messages cannot keep the caller here. */
    for (unsigned i = 0; i < SV_WIRE_MPI_RECV_SLOTS; i++) {
        sv_wire_control_t message;
        MPI_Status status;
        SV_TRY(take_oldest(wire, &message, &status));
        if (is_message_valid(wire, &message, &status)) {
            *source_out = status.MPI_SOURCE;
            *message_out = message;
            return SELVAGE_SUCCESS;
        }
        base->control_damaged++;
    }
    return SELVAGE_IN_PROGRESS;
}

/* Takes what has arrived and forgets it. */
static void discard_arrived(sv_wire_mpi_t *wire)
{
    for (unsigned i = 0; i < SV_WIRE_MPI_RECV_SLOTS; i++) {
        sv_wire_control_t message;
        MPI_Status status;
        if (take_oldest(wire, &message, &status) != SELVAGE_SUCCESS)
            return;
    }
}

/* Adds up over all ranks what was sent and received. False: not all ranks came in time. */
static bool sum_messages(sv_wire_mpi_t *wire, uint64_t deadline_ns)
{
    sv_backoff_t backoff = {.max_sleep_us = STOP_SLEEP_US};
    MPI_Request request;
    wire->drain_mine[0] = wire->sent;
    wire->drain_mine[1] = wire->received;
    int code = PMPI_Iallreduce(wire->drain_mine, wire->drain_sum, 2, MPI_UINT64_T, MPI_SUM,
                               wire->comm[SV_WIRE_MPI_CONTROL], &request);
    while (code == MPI_SUCCESS && sv_clock_ns() < deadline_ns) {
        MPI_Status status;
        int done = 0;
        discard_arrived(wire);
        code = PMPI_Test(&request, &done, &status);
        if (code == MPI_SUCCESS && done)
            return true;
        sv_backoff(&backoff);
    }
    return false;
}

/* Nobody sends any more once he is here, so equal sums mean that nothing is under way. Every rank counts alike. */
static bool drain_control(sv_wire_mpi_t *wire)
{
    uint64_t deadline_ns = sv_clock_ns() + STOP_LIMIT_NS;
    for (int i = 0; i < STOP_ROUNDS; i++) {
        if (!sum_messages(wire, deadline_ns))
            return false;
        if (wire->drain_sum[1] >= wire->drain_sum[0])
            return true;
    }
    return false;
}

/* Sends that MPI has not completed are waited for, receives are withdrawn. Returns how many stay active. */
static unsigned count_active(sv_wire_mpi_t *wire)
{
    unsigned active = 0;
    for (unsigned i = 0; i < SV_WIRE_MPI_SEND_SLOTS && active == 0; i++)
        active += !sv_wire_mpi_withdraw(&wire->send_request[i], false);
    /* Newest first: a late message must not move into a receive that was just about to be withdrawn. */
    for (unsigned i = SV_WIRE_MPI_RECV_SLOTS; i-- > 0;) {
        unsigned slot = (wire->recv_head + i) % SV_WIRE_MPI_RECV_SLOTS;
        active += !sv_wire_mpi_withdraw(&wire->recv_request[slot], true);
    }
    return active;
}

void sv_wire_mpi_control_stop(sv_wire_mpi_t *wire)
{
    if (wire->stopped)
        return;
    wire->stopped = true;
    bool drained = drain_control(wire);
    unsigned active = count_active(wire);
    if (drained && active == 0)
        return;
    wire->unquiet[SV_WIRE_MPI_CONTROL] = true;
    sv_log(SV_LOG_WARN, "wire", "control messages were still under way at close; their memory is left to MPI");
}
