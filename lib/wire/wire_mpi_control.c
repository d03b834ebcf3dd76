/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI wire's control channel: messages of 64 bytes from any source, on a communicator of their own, with tag 0.
 *
 * Receives are posted ahead in a ring, so that a message never waits in MPI's unexpected queue for long. The oldest
 * receive is always read first. This keeps the order of each source, because MPI fills posted receives in the order of
 * posting. Sends copy into fixed slots. A check word that does not verify is damage on the way, or a late message of a
 * wire that is gone.
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

selvage_status_t sv_wire_mpi_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    /* Find a slot whose last message has left, among the next few. */
    unsigned slot = 0;
    int done = 0;
    for (unsigned i = 0; i < SEND_TRIES && !done; i++) {
        MPI_Status status;
        slot = wire->send_next;
        wire->send_next = (slot + 1) % SV_WIRE_MPI_SEND_SLOTS;
        if (wire->send_request[slot] == MPI_REQUEST_NULL)
            break;
        int code = PMPI_Test(&wire->send_request[slot], &done, &status);
        if (code != MPI_SUCCESS)
            return sv_wire_mpi_error(code, "MPI_Test of a control message sent before");
    }
    if (wire->send_request[slot] != MPI_REQUEST_NULL)
        return SELVAGE_IN_PROGRESS;
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
        int count = 0;
        SV_TRY(take_oldest(wire, &message, &status));
        PMPI_Get_count(&status, MPI_BYTE, &count);
        if (count == MESSAGE_BYTES &&
            message.check == (sv_wire_control_check(&message, status.MPI_SOURCE, base->rank) ^ wire->nonce)) {
            *source_out = status.MPI_SOURCE;
            *message_out = message;
            return SELVAGE_SUCCESS;
        }
        base->control_damaged++;
    }
    return SELVAGE_IN_PROGRESS;
}

/*
 * Adds up over all ranks what was sent and received, and meanwhile takes what arrives and drops it. False: not all
 * ranks came in time.
 */
static bool sum_messages(sv_wire_mpi_t *wire, uint64_t deadline_ns)
{
    sv_backoff_t backoff = {.max_sleep_us = STOP_SLEEP_US};
    MPI_Request request;
    wire->drain_mine[0] = wire->sent;
    wire->drain_mine[1] = wire->received;
    int code = PMPI_Iallreduce(wire->drain_mine, wire->drain_sum, 2, MPI_UINT64_T, MPI_SUM,
                               wire->comm[SV_WIRE_MPI_CONTROL], &request);
    while (code == MPI_SUCCESS && sv_clock_ns() < deadline_ns) {
        sv_wire_control_t message;
        MPI_Status status;
        int done = 0;
        for (unsigned i = 0; i < SV_WIRE_MPI_RECV_SLOTS; i++)
            if (take_oldest(wire, &message, &status) != SELVAGE_SUCCESS)
                break;
        code = PMPI_Test(&request, &done, &status);
        if (code == MPI_SUCCESS && done)
            return true;
        sv_backoff(&backoff);
    }
    return false;
}

void sv_wire_mpi_control_stop(sv_wire_mpi_t *wire)
{
    if (wire->stopped)
        return;
    wire->stopped = true;

    /* A rank that is here sends no more, so equal sums mean that nothing is under way. Every rank counts alike. */
    const uint64_t deadline_ns = sv_clock_ns() + STOP_LIMIT_NS;
    bool drained = false;
    for (int i = 0; i < STOP_ROUNDS && !drained && sum_messages(wire, deadline_ns); i++)
        drained = wire->drain_sum[1] >= wire->drain_sum[0];

    /* Sends that MPI has not completed are waited for, receives are withdrawn. */
    unsigned active = 0;
    for (unsigned i = 0; i < SV_WIRE_MPI_SEND_SLOTS && active == 0; i++)
        active += !sv_wire_mpi_withdraw(&wire->send_request[i], false);
    /* Newest first: a late message must not move into a receive that was just about to be withdrawn. */
    for (unsigned i = SV_WIRE_MPI_RECV_SLOTS; i-- > 0;) {
        unsigned slot = (wire->recv_head + i) % SV_WIRE_MPI_RECV_SLOTS;
        active += !sv_wire_mpi_withdraw(&wire->recv_request[slot], true);
    }
    if (drained && active == 0)
        return;
    wire->unquiet[SV_WIRE_MPI_CONTROL] = true;
    sv_log(SV_LOG_WARN, "wire", "control messages were still under way at close; their memory is left to MPI");
}
