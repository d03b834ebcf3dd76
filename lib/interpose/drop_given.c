/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent receives that start after a probe has taken their message out of MPI's matching (drop_probe.c). MPI's own
 * request stays inactive then. A receive of the message that was taken stands in its place until a completion call has
 * told the program. Any thread may come; an operation's state is changed under the lock of drop_request.c. The
 * operation owns the receive that stands in its request's place.
 */
#include "interpose/drop.h"

_Atomic bool sv_drop_given_ever;

bool sv_drop_given_start(sv_drop_op_t *op)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    if (!op->persistent || !op->message || op->call.parts || !sv_drop_has_taken() ||
        !sv_drop_taken_match(op->source, op->tag, op->fast.comm, &message))
        return false;
    op->active = op->given = false;
    atomic_store_explicit(&sv_drop_given_ever, true, memory_order_relaxed);
    const int code = MPI_Imrecv(op->fast.buf, (int)op->fast.count, op->fast.type, &message, &op->instead);
    if (code != MPI_SUCCESS) {
        op->instead = MPI_REQUEST_NULL;
        op->error = code;
        op->given = true;
    }
    return true;
}

bool sv_drop_given_ended(sv_drop_op_t *op, bool blocks)
{
    int done = 1;
    if (op->instead == MPI_REQUEST_NULL)
        return op->given;
    const int code =
        blocks ? MPI_Wait(&op->instead, &op->status) : MPI_Test(&op->instead, &done, &op->status);
    if (code == MPI_SUCCESS && !done)
        return false;
    op->instead = MPI_REQUEST_NULL;
    op->error = code;
    op->given = true;
    return true;
}

int sv_drop_given_set_status(sv_drop_op_t *op, MPI_Status *status, bool ends)
{
    const int error = op->error;
    *status = op->status;
    status->MPI_ERROR = error;
    if (ends) {
        op->given = false;
        op->error = MPI_SUCCESS;
    }
    return error;
}
