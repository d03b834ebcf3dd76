/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire: host messages between ranks. This header is the whole contract. The wires mpi, ucx and local implement it,
 * and a fault wrapper stacks on each.
 *
 * - Ranks are 0..size-1. A wire belongs to one thread at a time (whoever drives the engine).
 * - Everything is non-blocking. Nothing completes without a call into the wire.
 * - Three channels never match each other: DATA (packets; tags given out at commit), SETUP (descriptors at commit; tags
 *   chosen by the caller) and MESSAGE (the message module's).
 * - Messages arrive in order within (channel, source, destination, tag). Receives from any source are filled in the
 *   order in which they were posted.
 * - The channel MESSAGE may be driven by another thread than everything else, where threads_ok says so.
 * - Control messages are 64 bytes. They come from any source, without posting, in order per source. The wire checks
 *   their digest (the `check` word), and drops and counts those that do not verify. The engine lives with a lost one.
 * - Buffers given to send and recv stay the caller's and must stay valid until test says SUCCESS.
 * - A wire that learns that a rank is gone fails what is sent to it or received from it, and one poll of control
 *   messages, with ERR_MPI and a detail that names the rank. The wire may still hold the buffer of a send that failed
 *   so (UCX by shared memory), but nobody reads it any more.
 * - Allowed statuses: SUCCESS, IN_PROGRESS where stated, ERR_MPI, ERR_MEMORY (open only), ERR_LIMIT. The detail names
 *   the native error.
 */
#ifndef SV_WIRE_H
#define SV_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/status.h>

enum { SV_WIRE_ABI = 1, SV_WIRE_CONTROL_WORDS = 7 };

typedef enum sv_wire_channel { SV_WIRE_DATA, SV_WIRE_SETUP, SV_WIRE_MESSAGE, SV_WIRE_CHANNELS } sv_wire_channel_t;

/* In place of the peer of a receive: a message of any rank will do. Who it was, the message itself must say. */
enum { SV_WIRE_ANY_SOURCE = -1 };

/* Opaque request; all zero bytes means none. Large enough for any implementation, so that nobody allocates. */
typedef struct sv_wire_request {
    uint64_t word[4];
} sv_wire_request_t;

/* A control message: seven words of the engine's and a check word that the wire fills and verifies. */
typedef struct sv_wire_control {
    uint64_t word[SV_WIRE_CONTROL_WORDS];
    uint64_t check;
} sv_wire_control_t;

typedef struct sv_wire sv_wire_t;

typedef struct sv_wire_ops {
    uint32_t abi;
    const char *name;
    /* Frees the wire. No request may be open but for cancelled ones that were not quiet (they are left alone). */
    void (*close)(sv_wire_t *wire);
    /* Starts a message. bytes up to 2^30 + 64. */
    selvage_status_t (*send)(sv_wire_t *wire, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                             int tag, sv_wire_request_t *request_out);
    /* Posts a receive of at most capacity bytes, of one rank or any. A longer message is an error at test (ERR_MPI). */
    selvage_status_t (*recv)(sv_wire_t *wire, sv_wire_channel_t channel, void *buf, size_t capacity, int peer, int tag,
                             sv_wire_request_t *request_out);
    /* SUCCESS: complete, request cleared, *bytes_out (may be NULL) is the received size. IN_PROGRESS: not yet. */
    selvage_status_t (*test)(sv_wire_t *wire, sv_wire_request_t *request, size_t *bytes_out);
    /* Tries to withdraw a receive. SUCCESS: it is withdrawn or complete, and nothing writes the buffer any more.
       IN_PROGRESS: the wire may still write the buffer, which must not be reused before a test says so. The request
       stays open for that. */
    selvage_status_t (*cancel)(sv_wire_t *wire, sv_wire_request_t *request);
    /* Sends a control message; fills message->check. IN_PROGRESS: no room at the moment, try again later. */
    selvage_status_t (*control_send)(sv_wire_t *wire, int peer, sv_wire_control_t *message);
    /* SUCCESS: one message and its source. IN_PROGRESS: none there. Also lets everything advance. */
    selvage_status_t (*control_poll)(sv_wire_t *wire, int *source_out, sv_wire_control_t *message_out);
    /* Ranks that share memory with this one, ascending, this one included; *ranks_out is freed with sv_free().
       Collective; may block. */
    selvage_status_t (*node_ranks)(sv_wire_t *wire, int **ranks_out, int *count_out);
    /* Lets everything advance, and does nothing else. NULL: that is done wherever MPI waits. */
    void (*advance)(sv_wire_t *wire);
} sv_wire_ops_t;

struct sv_wire {
    const sv_wire_ops_t *ops;
    const char *text;          /* what messages go by, for people; the wire's, and a wrapper's as well */
    int rank, size;
    int tag_max;               /* largest tag of either channel */
    int threads_ok;            /* may be driven by a thread other than the creator's (MPI_THREAD_MULTIPLE) */
    int one_thread;            /* MPI takes calls of one thread only (MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED) */
    int takes_cuda, takes_hip; /* says of itself that messages may lie in memory of such devices */
    uint64_t control_damaged;  /* control messages dropped because their check word was wrong */
    sv_wire_t *mpi;            /* the wire over MPI on which this one stands, or which it is; NULL: none */
    int failed;                /* its owner says so before close: messages may lie in it that nobody has received */
};

static inline selvage_status_t sv_wire_send(sv_wire_t *wire, sv_wire_channel_t channel, const void *buf, size_t bytes,
                                            int peer, int tag, sv_wire_request_t *request_out)
{
    return wire->ops->send(wire, channel, buf, bytes, peer, tag, request_out);
}
static inline selvage_status_t sv_wire_recv(sv_wire_t *wire, sv_wire_channel_t channel, void *buf, size_t capacity,
                                            int peer, int tag, sv_wire_request_t *request_out)
{
    return wire->ops->recv(wire, channel, buf, capacity, peer, tag, request_out);
}
static inline selvage_status_t sv_wire_test(sv_wire_t *wire, sv_wire_request_t *request, size_t *bytes_out)
{
    return wire->ops->test(wire, request, bytes_out);
}
static inline selvage_status_t sv_wire_cancel(sv_wire_t *wire, sv_wire_request_t *request)
{
    return wire->ops->cancel(wire, request);
}
static inline selvage_status_t sv_wire_control_send(sv_wire_t *wire, int peer, sv_wire_control_t *message)
{
    return wire->ops->control_send(wire, peer, message);
}
static inline selvage_status_t sv_wire_control_poll(sv_wire_t *wire, int *source_out, sv_wire_control_t *message_out)
{
    return wire->ops->control_poll(wire, source_out, message_out);
}

/* The check word of a control message: a mix chain over the seven words, the source and the destination. */
uint64_t sv_wire_control_check(const sv_wire_control_t *message, int source, int destination);

/* Takes *wire_inout and puts a wrapper in its place that asks sv_fault_call_fails(SV_FAULT_CALL_WIRE) before each call
   that can fail. close() closes both. */
selvage_status_t sv_wire_fault_wrap(sv_wire_t **wire_inout);
/* The wire in such a wrapper; wire itself if it is none. */
sv_wire_t *sv_wire_fault_inner(sv_wire_t *wire);

#endif
