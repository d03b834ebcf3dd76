/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staged messages in fragments, as the drop-in's calls see them. Included by drop_fast.h. Threads and ownership:
 * drop_fragment.c. All but the questions below are called without the lock, unless it is said.
 */
#ifndef SV_DROP_FRAGMENT_H
#define SV_DROP_FRAGMENT_H

#include "interpose/drop.h"

struct sv_drop_notice;

/* How many ranks may send fragments to this one now; and whether any ever could. */
extern _Atomic int sv_drop_invited;
extern _Atomic bool sv_drop_invited_ever;

/* Collective over MPI_COMM_WORLD: at the end of MPI_Init, and in MPI_Finalize. */
void sv_drop_fragments_begin(void);
void sv_drop_fragments_end(void);

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* Whether a message from device memory, which is staged else, may go in fragments: it is long, and its receiver has
   invited this rank. The first such message asks the receiver for that. */
bool sv_drop_fragments_may_send(int64_t count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
/* Whether its staging buffer is such that it can. */
bool sv_drop_fragments_suit(const sv_drop_buffer_t *buffer);
/* Returns the announcement, which the caller sends before the fragments. The state owns it. */
void *sv_drop_fragments_announce(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer, int dest, int tag,
                                 MPI_Comm comm);
/* Copies down and gives MPI each fragment as it comes. The state takes the buffer's staging memory over. When this
   returns, all of it is in MPI's hands. */
void sv_drop_fragments_send(sv_drop_fast_t *state, sv_drop_buffer_t *buffer);
/* MPI's request of the announcement has ended with this status. If it was cancelled, nobody will receive the fragments,
   and nobody waits for them. With the lock. */
void sv_drop_fragments_cancel(sv_drop_fast_t *state, const MPI_Status *status);

/* --- receiving ---------------------------------------------------------------------------------------------------- */

/* Of a receive that is watched, before it begins: whether fragments may come to it, and from whom. */
void sv_drop_fragments_await(sv_drop_fast_t *state, MPI_Comm comm, int source);

/* Whether fragments may come to a receive: then it must be driven. */
static inline bool sv_drop_fragments_may_come(const sv_drop_fast_t *state)
{
    return state->awaits && atomic_load_explicit(&sv_drop_invited_ever, memory_order_relaxed);
}
/* The same of a receive that has not begun. */
bool sv_drop_fragments_may_come_to(int64_t count, MPI_Datatype type);

/* A message has come as a whole: if it is long, and its sender has asked, that is invited to send fragments. With the
   lock. */
void sv_drop_fragments_invite(const sv_drop_fast_t *state, int source, MPI_Count bytes);
/* Begins to receive what a notice announces. With the lock. */
selvage_status_t sv_drop_fragments_receive(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer,
                                           const struct sv_drop_notice *notice);

/* --- both --------------------------------------------------------------------------------------------------------- */

/* SUCCESS: all have gone, or have come and landed, and the state has no fragments any more. IN_PROGRESS: not yet. Of an
   error *detail_out says what it is. With the lock. */
selvage_status_t sv_drop_fragments_test(sv_drop_fast_t *state, const char **detail_out);
/* Gives fragments up; NULL is allowed. What is still MPI's remains so. */
void sv_drop_fragments_release(struct sv_drop_fragments *fragments);
/* In every turn of a wait. */
void sv_drop_fragments_poll(void);

/* Before a call that blocks in MPI without turns: its rank cannot take fragments meanwhile, and tells those that may
   send some to a receive that is open. */
void sv_drop_fragments_block(void);
static inline void sv_drop_flush_and_block(void)
{
    sv_drop_flush();
    if (__builtin_expect(atomic_load_explicit(&sv_drop_invited, memory_order_relaxed) != 0, 0))
        sv_drop_fragments_block();
}

/* After a call that completes or receives something. MPI may have cut an announcement off, whose fragments nobody will
   receive. Returns the code. */
void sv_drop_fragments_fail(int code);
static inline int sv_drop_heed(int code)
{
    if (__builtin_expect(code != MPI_SUCCESS, 0) && atomic_load_explicit(&sv_drop_invited, memory_order_relaxed) != 0)
        sv_drop_fragments_fail(code);
    return code;
}

#endif
