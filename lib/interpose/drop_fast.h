/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast route as the drop-in's calls see it: opening, announcements, and receives that watch for them. Included by
 * drop.h, whose types it needs. Threads and ownership: drop_fast.c, drop_wireup.c and drop_announce.c.
 */
#ifndef SV_DROP_FAST_H
#define SV_DROP_FAST_H

#include "interpose/drop.h"
#include "interpose/drop_fragment.h"

/* A length that programs hardly use: a prime, so that no array of numbers has it. What is no longer than this is never
   announced. */
enum { SV_DROP_ANNOUNCE_BYTES = 251 };

/* How a send is made, which says from what length on the route is faster: by a call that returns at once; by one that
   waits for its end; in a long row of sends. */
typedef enum sv_drop_manner { SV_DROP_ALONE, SV_DROP_WAITED, SV_DROP_IN_ROW } sv_drop_manner_t;

/* This job may use it: constant after MPI_Init. And: it is open now, on this rank; with ON, on all. And: collective
   calls need not ask any more. */
extern bool sv_drop_fast_wanted;
extern bool sv_drop_pairs_wanted; /* likewise, and calls may become messages without a question (drop_pairs.c) */
bool sv_drop_fast_is_open(void);
bool sv_drop_fast_is_settled(void);
void sv_drop_fast_begin(void);
void sv_drop_fast_end(void);
void sv_drop_fast_see(void); /* this rank has shown device memory */

/* At the beginning of a collective call that blocks: whether ranks may owe each other bytes now. Then all ranks of the
   call take MPI's non-blocking form and drive it. */
bool sv_drop_fast_enter(MPI_Comm comm);
static inline bool sv_drop_enter(MPI_Comm comm)
{
    return __builtin_expect(sv_drop_fast_wanted, 0) && sv_drop_fast_enter(comm);
}

/* After a call from which no rank returns before all have entered it, if it has bytes: it may open the route. */
void sv_drop_fast_leave(MPI_Comm comm);
bool sv_drop_type_has_bytes(MPI_Datatype type);
static inline int sv_drop_leave(MPI_Comm comm, int64_t count, MPI_Datatype type, int code)
{
    if (__builtin_expect(sv_drop_fast_wanted, 0) && code == MPI_SUCCESS && count > 0 && !sv_drop_fast_is_settled() &&
        sv_drop_type_has_bytes(type))
        sv_drop_fast_leave(comm);
    return code;
}

/* In every wait: sends again a message that has come damaged, though the program's send is complete. Hears ranks that
   open the route. */
void sv_drop_fast_answer(void);
/* Before a message with device memory that is long enough, to or from a rank of comm (or MPI_ANY_SOURCE): opens the
   route between the two, in time. Not with the lock (drop_wireup.c). */
void sv_drop_wireup(MPI_Comm comm, int peer);

/* Whether so much takes the route, or may take it in a long row of sends or by a call that waits; whether a message of
   it may be sent by it now; and whether receives of it are watched. */
bool sv_drop_fast_takes(int64_t count, MPI_Datatype type);
/* Whether a collective call of so much goes by Selvage's own, if all else is right for it. */
bool sv_drop_fast_takes_call(int64_t count, MPI_Datatype type);
bool sv_drop_fast_may_take(int64_t count, MPI_Datatype type);
bool sv_drop_fast_may_send(int64_t count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, sv_drop_manner_t manner);
bool sv_drop_fast_watches(int64_t count, MPI_Datatype type, bool device);
/* Whether a receive of so little is given room for an announcement, since its sender waits for what hears it, or since
   it gets what a probe has taken. state may be NULL. */
bool sv_drop_fast_is_short(const sv_drop_fast_t *state, int64_t count, MPI_Datatype type);
/* Whether receives of threads must be posted under the lock, because a probe of another one may take messages. */
bool sv_drop_fast_guards(void);
/* Whether ranks may owe each other bytes, so that waits are driven and announcements heard at once. */
bool sv_drop_fast_drives(void);
/* Sends by it, as a part of the call of that name: the announcement by MPI's isend. *code_out is that of the call.
   False: the message is to be staged. */
bool sv_drop_fast_isend(const char *name, sv_drop_isend_t isend, sv_drop_manner_t manner, const void *buf, int count,
                        MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request, int *code_out);
/* Remembers what a receive was given. The type is the drop-in's own copy from here on. */
void sv_drop_fast_remember(sv_drop_fast_t *state, void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm);
/* Watches a receive, if an announcement could come. */
void sv_drop_fast_monitor(sv_drop_fast_t *state, void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm,
                          bool device);
/* What MPI is given for a receive that is watched: bytes for elements, so that an announcement ends within none. MPICH
   5.0 ends the program otherwise. Types that are not predefined remain as they are. */
void sv_drop_fast_as_bytes(sv_drop_fast_t *state, int *count, MPI_Datatype *type);
/* After the receive: whether it was an announcement. Its bytes are then under way, or cannot be had (state->error). */
bool sv_drop_fast_take_announced(sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status);
/* Before that: whether it is one whose bytes come to staging memory first. Then they may come before the program's
   memory is free for them. */
bool sv_drop_fast_needs_no_memory(const sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status);
/* Between these two, under the lock, kernels of messages by the route are kept, and then launched together. end is
   given what begin has returned. */
bool sv_drop_fast_begin_group(void);
void sv_drop_fast_end_group(bool begun);
/* Whether nothing is in flight any more; *error is set if it ended badly. */
bool sv_drop_fast_ended(sv_drop_fast_t *state, int *error);
/* After a receive that blocked: waits for what was announced, if anything was. True: it has come and landed, or failed
   with *code, of which the communicator's error handler has heard. */
bool sv_drop_fast_finish(sv_drop_fast_t *state, sv_drop_call_t *call, MPI_Status *status, int *code);
/* The number of the next message that this rank announces. */
int32_t sv_drop_take_id(void);
/* How many bytes the text of a message announces, false if it is no announcement; and whether announcements are read at
   all. */
bool sv_drop_fast_announces(const void *text, uint64_t *bytes_out);
bool sv_drop_fast_reads(void);
/* Whether a receive from source has waited for longer than the user wants, although its sender's message has come by
   the route. Its announcement is then nowhere, and state->error is set. */
bool sv_drop_fast_is_lost(sv_drop_fast_t *state, int source);
/* Puts into the status how much came, and from where. */
void sv_drop_fast_set_status(const sv_drop_fast_t *state, MPI_Status *status);
void sv_drop_fast_release(sv_drop_fast_t *state);

/* A non-blocking send of device memory, MPI's isend, as a part of the call of that name (drop_message.c). The caller
   has asked where the memory is, since a driver takes long to answer that. */
int sv_drop_isend(const char *name, sv_drop_isend_t isend, sv_drop_manner_t manner, const void *buf, int count,
                  MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request);
/* MPI_Isend likewise, of memory that may be the host's. */
static inline int sv_drop_isend_any(const char *name, sv_drop_manner_t manner, const void *buf, int count,
                                    MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (!sv_drop_is_host_typed(buf, count, type))
        return sv_drop_isend(name, PMPI_Isend, manner, buf, count, type, dest, tag, comm, request);
    sv_drop_flush();
    const int code = PMPI_Isend(buf, count, type, dest, tag, comm, request);
    if (code == MPI_SUCCESS)
        sv_drop_op_passed(*request);
    return code;
}

#endif
