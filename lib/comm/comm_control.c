/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving and handing out control messages. See comm_control.h for what they say. */
#include "comm/comm_control.h"

#include "base/base_status.h"

/* A flood of messages must not keep packets waiting. */
enum { MESSAGES_PER_POLL = 64 };

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
        switch ((sv_control_type_t)message.word[0]) {
        case SV_CONTROL_AGREE:
            sv_agree_receive(comm, source, &message);
            break;
        case SV_CONTROL_AGREE_ACK:
            sv_agree_acked(comm, source, &message);
            break;
        default:
            SV_TRY(comm->exchanges_ops->control(comm, source, &message));
        }
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
