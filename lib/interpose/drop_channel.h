/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of communicators whose collective calls become messages (drop_channel.c). */
#ifndef SV_DROP_CHANNEL_H
#define SV_DROP_CHANNEL_H

#include "interpose/drop_tie.h"

/* Messages of one channel have so many tags, from the channel's number times that on. */
enum { SV_DROP_CHANNEL_TAGS = 128 };

/* Whether calls on it may be messages, now or later, and MPI_Finalize has not begun. */
bool sv_drop_channel_may_be(MPI_Comm comm);
/* Whether the next call on it that could be messages on all of its ranks is. */
static inline bool sv_drop_channel_is_due(const sv_drop_tie_t *tie)
{
    return tie->channel && tie->calls >= tie->first_call;
}
/* Counts a call on it that could be messages on all of its ranks, and returns whether it is. */
static inline bool sv_drop_channel_takes(sv_drop_tie_t *tie)
{
    return tie->channel && tie->calls++ >= tie->first_call;
}
/* A number for tags that are no channel's, on which all ranks of the communicator agree here; 0: none is left. */
int sv_drop_channel_number(MPI_Comm comm);
/* The tie is about to be freed. */
void sv_drop_channel_end(sv_drop_tie_t *tie);

/* After a call on all of its ranks that has made the communicator. */
void sv_drop_channel_begin(MPI_Comm comm);
static inline int sv_drop_made(int code, const MPI_Comm *comm)
{
    if (__builtin_expect(sv_drop_pairs_wanted, 0) && code == MPI_SUCCESS)
        sv_drop_channel_begin(*comm);
    return code;
}

/* After a call that has succeeded, from which no rank returns before all have entered it, if it has bytes. From then on
   calls may be messages. */
void sv_drop_channel_meet(MPI_Comm comm);
static inline int sv_drop_met(MPI_Comm comm, int64_t count, MPI_Datatype type, int code)
{
    if (__builtin_expect(sv_drop_pairs_wanted, 0) && code == MPI_SUCCESS && count > 0 && sv_drop_type_has_bytes(type))
        sv_drop_channel_meet(comm);
    return code;
}

#endif
