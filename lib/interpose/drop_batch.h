/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batched sends, as the drop-in's calls see them: MPI_Isend adds to the batch, and all other calls flush it first.
 * Included by drop.h, whose types it needs. Threads and ownership: drop_batch.c.
 */
#ifndef SV_DROP_BATCH_H
#define SV_DROP_BATCH_H

#include "interpose/drop.h"

/* How many sends MPI has not been given yet, and one more after a send of device memory. */
extern _Atomic int sv_drop_batched;

/* Waits for their copies, and gives them to MPI. Launches what is kept of sends by the route. */
void sv_drop_batch_post(void);

/* Only gives the staged ones to MPI, before a send by the route. */
void sv_drop_batch_post_staged(void);

/* A non-blocking send of device memory is about to begin. Whether it is one of a long row, with no other call but
   MPI_Irecv in between. The kernels of those that go by the route are then kept until there are several, or until the
   next call of another kind. True: they are. */
void sv_drop_batch_note_send(void);
bool sv_drop_batch_is_row(void);
bool sv_drop_batch_keep_fast(void);

/* The first of every call that may send, complete, ask, block or synchronise. */
static inline void sv_drop_flush(void)
{
    if (__builtin_expect(atomic_load_explicit(&sv_drop_batched, memory_order_relaxed) != 0, 0))
        sv_drop_batch_post();
}

typedef int (*sv_drop_isend_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Takes a send over whose one buffer is staging memory, and begins to fill that. The program gets its request. False:
   it is not for the batch, and nothing has happened. */
bool sv_drop_batch_add(sv_drop_isend_t isend, const sv_drop_call_t *call, MPI_Comm comm, MPI_Request *request);

/* Whether this is device memory for sure: of the send that was batched last, which is not complete. */
bool sv_drop_batch_knows(const void *ptr);

/* Whether all bytes of a message are bytes of the send that was batched last. A right program changes none of them
   before that send is complete. So the message gets its staging memory, and needs no copy of its own. */
bool sv_drop_batch_lends(sv_drop_buffer_t *buffer);

/* Whether the program's work is waited for by the default stream's, and one thread is in MPI at a time. */
bool sv_drop_batch_is_open(void);

/* After MPI_Init; and when MPI_Finalize begins, after which nothing is batched. */
void sv_drop_batch_begin(void);
void sv_drop_batch_end(void);

/* For the report: sends that were batched by this rank, and batches of them. */
void sv_drop_batch_count(long long *sends_out, long long *batches_out);

#endif
