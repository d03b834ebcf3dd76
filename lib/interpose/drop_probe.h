/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that a probe has taken out of MPI's matching, and persistent receives of them (drop_probe.c). */
#ifndef SV_DROP_PROBE_H
#define SV_DROP_PROBE_H

#include "interpose/drop.h"

/* How many there are. */
extern _Atomic int sv_drop_taken;
static inline bool sv_drop_has_taken(void)
{
    return __builtin_expect(atomic_load_explicit(&sv_drop_taken, memory_order_relaxed) != 0, 0);
}

/* Whether one of them is what this receive is to get, which then is a receive of *message_out. */
bool sv_drop_taken_match(int source, int tag, MPI_Comm comm, MPI_Message *message_out);
/* Tells what is known of a message that is about to be received; false: nothing. */
bool sv_drop_taken_claim(MPI_Message message, sv_drop_fast_t *state);
void sv_drop_taken_end(void);

/* MPI_Request_get_status of a request of ours that is MPI's own. Where MPI would end it by that, it is ended here, and
   sv_drop_given_has() it then. mine: how many of the calls that hold it are the caller's; it is not asked about while
   others do. */
int sv_drop_given_ask(sv_drop_op_t *op, MPI_Request request, int mine, int *done, MPI_Status *status);
/* There is a persistent request: finds out what asking about it does. Not with the lock. */
void sv_drop_given_keep(void);
/* What stands in the place of a persistent request has begun, with this code. */
void sv_drop_given_begin(sv_drop_op_t *op, int code);
/* MPI_Start of one for which a message or a reduction is in flight, of which MPI knows nothing: true, with the error
   that MPI has for active requests. The error handler has heard of it. */
bool sv_drop_given_refuses(const sv_drop_op_t *op, int *code_out);
/* MPI_Start of one of ours: true if it gets what a probe has taken, and MPI's own request stays inactive. */
bool sv_drop_given_start(sv_drop_op_t *op);
extern _Atomic bool sv_drop_given_ever; /* whether one ever did, or asking may make it so */
/* Whether one is in flight, or has ended and the program has not been told, or it was ended by being asked about. */
static inline bool sv_drop_given_has(const sv_drop_op_t *op)
{
    return op && (op->given || op->instead != MPI_REQUEST_NULL);
}
/* Whether it has ended; blocks until it has, if that is wanted. */
bool sv_drop_given_ended(sv_drop_op_t *op, bool blocks);
/* Tells its status and returns its error; ends: once. */
int sv_drop_given_set_status(sv_drop_op_t *op, MPI_Status *status, bool ends);

#endif
