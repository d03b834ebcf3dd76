/* SPDX-License-Identifier: BSD-3-Clause */
/* What fragments (drop_fragment.c) need of invitations (drop_invite.c). The lock is held, unless it is said. */
#ifndef SV_DROP_INVITE_H
#define SV_DROP_INVITE_H

#include "interpose/drop.h"

/* On the communicator of both, on which tags of fragments are greater. */
enum { SV_DROP_NOTE_TAG = 0 };

/* Collective over MPI_COMM_WORLD: makes that communicator, which is the caller's. MPI_COMM_NULL: none is needed. */
MPI_Comm sv_drop_invites_begin(void);
/* All notes have gone, and all that were sent to this rank have come. */
void sv_drop_invites_end(void);

/* Whether this job may have fragments. Without the lock as well. */
bool sv_drop_may_invite(void);
/* Whether so much goes in fragments in such a job. Without the lock as well. */
bool sv_drop_is_long(int64_t count, MPI_Datatype type);
/* Tells a rank of MPI_COMM_WORLD, once, that this one has long messages for it. */
void sv_drop_ask_for_invitation(int rank);
/* Whether a rank of MPI_COMM_WORLD invites this one; looks: for its newest note. */
bool sv_drop_is_invited_by(int rank, bool looks);
/* Whether all notes of this rank have come. */
bool sv_drop_notes_have_gone(void);

#endif
