/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving and handing out control messages. See pipe_control.h for what they say. */
#include "pipeline/pipe_control.h"

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_exchange.h"
#include "pipeline/pipe_phases.h"

/* A flood of messages must not keep packets waiting. */
enum { MESSAGES_PER_POLL = 64 };

static selvage_exchange_t *find_exchange(selvage_comm_t *comm, uint64_t id)
{
    for (sv_list_t *it = comm->exchanges.next; it != &comm->exchanges; it = it->next) {
        selvage_exchange_t *x = SV_CONTAINER_OF(it, selvage_exchange_t, link);
        if (x->id == id)
            return x;
    }
    return NULL;
}

static void hand_to_exchange(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    const uint64_t *word = message->word;
    selvage_exchange_t *x = find_exchange(comm, word[1]);
    /* A neighbour may leave commit, start and fail while this rank is still in commit: that word comes only once. */
    bool early_failure = x && x == comm->committing && word[0] == SV_CONTROL_FAIL;
    if (!x || (!x->committed && !early_failure))
        return; /* destroyed meanwhile: whoever asks will learn it from the destroy agreement */
    sv_peer_t *peer = sv_exchange_peer(x, source);
    if (peer)
        peer->heard_ns = sv_clock_ns();
    bool asks = word[0] == SV_CONTROL_RESEND || word[0] == SV_CONTROL_QUERY;
    if (asks && sv_exchange_state(x) == SV_EXCHANGE_POISONED) {
        if (word[0] == SV_CONTROL_QUERY) /* it failed in a later epoch, maybe */
            sv_recovery_take_query(x, source, word[2]);
        sv_exchange_notify_failure(x, source); /* the word of it was lost */
        return;
    }
    switch ((sv_control_type_t)word[0]) {
    case SV_CONTROL_VERDICT:
        sv_recovery_verdict(x, source, word[2]);
        break;
    case SV_CONTROL_RESEND:
        sv_recovery_take_request(x, source, word[2], (uint32_t)word[3], (unsigned)word[4], (sv_resend_reason_t)word[5]);
        break;
    case SV_CONTROL_QUERY:
        sv_recovery_take_query(x, source, word[2]);
        break;
    case SV_CONTROL_FAIL:
        sv_recovery_peer_failed(x, source, message);
        break;
    default:
        break;
    }
}

static selvage_status_t dispatch_control(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    switch ((sv_control_type_t)message->word[0]) {
    case SV_CONTROL_AGREE:
        sv_agree_receive(comm, source, message);
        return SELVAGE_SUCCESS;
    case SV_CONTROL_AGREE_ACK:
        sv_agree_acked(comm, source, message);
        return SELVAGE_SUCCESS;
    case SV_CONTROL_RESEND_HANDSHAKE:
        return sv_commit_receive_resend(comm, source, message->word[1]);
    case SV_CONTROL_HANDSHAKE:
        return sv_commit_receive_handshake(comm, source, message->word[1], message->word[2]);
    case SV_CONTROL_HANDSHAKE_ACK:
        sv_commit_receive_ack(comm, source, message->word[1]);
        return SELVAGE_SUCCESS;
    case SV_CONTROL_VERDICT:
    case SV_CONTROL_RESEND:
    case SV_CONTROL_QUERY:
    case SV_CONTROL_FAIL:
        hand_to_exchange(comm, source, message);
        return SELVAGE_SUCCESS;
    }
    sv_log(SV_LOG_WARN, "control", "rank %d sent a control message of unknown type %llu", source,
           (unsigned long long)message->word[0]);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_control_poll(selvage_comm_t *comm, bool *moved_out)
{
    for (int n = 0; n < MESSAGES_PER_POLL; n++) {
        int source;
        sv_wire_control_t message;
        selvage_status_t status = sv_wire_control_poll(comm->wire, &source, &message);
        if (status == SELVAGE_IN_PROGRESS)
            return SELVAGE_SUCCESS;
        SV_TRY(status);
        *moved_out = true;
        SV_TRY(dispatch_control(comm, source, &message));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_control_status(uint64_t key)
{
    return sv_status_of_error(-(int64_t)(key & 0xff));
}

selvage_status_t sv_control_send_wait(selvage_comm_t *comm, int peer, const sv_wire_control_t *message)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, comm->timeout_s);
    for (;;) {
        sv_wire_control_t copy = *message;
        selvage_status_t status = sv_wire_control_send(comm->wire, peer, &copy);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "rank %d takes no control messages for %g s", peer, comm->timeout_s);
        SV_TRY(status);
    }
}
