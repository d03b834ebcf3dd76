/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes: how a packet gets from one rank to another. A route is a table of functions, chosen once at commit
 * (sv_route_ops_of()); a poll asks no packet which way it goes.
 *
 *   staged       route_staged.c     messages of the wire, through pinned host memory at both ends
 *   shared       route_onesided.c   a slot in the receiver's node-shared segment
 *   peer, self   route_onesided.c   the receiver's device memory
 *   direct       route_direct.c     messages of the wire, from and to the user's buffers
 *
 * A packet goes through the same seven phases on every route:
 *
 *   0 prepare   begin()     the digest and the record are made on the device, after the caller's stream
 *   1 post      begin()     a send's copies to the host are enqueued
 *               post()      receives are posted, or the sender is given credit
 *   2 send      send()      what is ready leaves, and what has left is noticed
 *   3 receive   receive()   what has come goes up to its place, and its verification after it
 *   4 drain     drain()     a send that has left waits for its verdict
 *   5 verify    land()      the verification is through: the verdict goes out, or the packet is asked for again
 *   6 join      sv_exchange_join(), once every packet of the exchange is through
 *
 * All run on the engine thread, never block, and neither allocate, lock nor log (but for what went wrong). A function
 * that returns selvage_status_t returns an error only for what ends the exchange; the caller poisons it then
 * (sv_exchange_poison()). *moved is set if anything happened.
 */
#ifndef SV_PIPELINE_ROUTE_H
#define SV_PIPELINE_ROUTE_H

#include "pipeline/pipe_exchange.h"

typedef struct sv_route_ops {
    /* Which memory the bytes go through; commit sizes, places and maps by these. */
    bool through_host;         /* staged, shared: memory of the host */
    bool own_slots;            /* staged: slots in pinned memory of either end */
    bool segment_slots;        /* shared: slots in the receiver's node-shared segment */
    bool maps_device;          /* peer: the sender maps the receiver's device memory: its slab or a registered buffer */
    bool within_rank;          /* self: both ends are one */
    bool from_user_memory;     /* direct: the wire reads and writes the user's buffers */

    bool messaged;             /* verdicts and questions are control messages; else words in node-shared memory */
    bool takes_any_attempt;    /* the first attempt that comes whole is good; else only the newest one asked for */
    sv_copy_kind_t up_kind;    /* of the copy from a receiver's slot to its place */
    sv_copy_kind_t copy_kind;  /* one-sided: of the copies of a send */
    selvage_status_t (*begin)(sv_send_t *send, uint64_t now_ns); /* phases 0 and 1, of a resend too */
    selvage_status_t (*post)(sv_recv_t *recv, uint64_t now_ns);
    selvage_status_t (*send)(sv_send_t *send, uint64_t now_ns, bool *moved);
    selvage_status_t (*receive)(sv_recv_t *recv, uint64_t now_ns, bool *moved);
    selvage_status_t (*drain)(sv_send_t *send, uint64_t now_ns, bool *moved);
    selvage_status_t (*land)(sv_recv_t *recv, uint64_t now_ns, bool *moved);
    /* Before destroying: receives and forgets a resend that crossed the verdict, so that its sender sees it leave. */
    selvage_status_t (*discard_duplicate)(sv_recv_t *recv);
} sv_route_ops_t;

extern const sv_route_ops_t sv_route_staged, sv_route_shared, sv_route_peer, sv_route_self, sv_route_direct;

static inline const sv_route_ops_t *sv_route_ops_of(selvage_route_t route)
{
    static const sv_route_ops_t *const ops[] = {
        [SELVAGE_ROUTE_DEFAULT] = &sv_route_staged, [SELVAGE_ROUTE_SELF] = &sv_route_self,
        [SELVAGE_ROUTE_PEER] = &sv_route_peer,      [SELVAGE_ROUTE_SHARED] = &sv_route_shared,
        [SELVAGE_ROUTE_STAGED] = &sv_route_staged,  [SELVAGE_ROUTE_DIRECT] = &sv_route_direct};
    return ops[route];
}
/* Commit decides it: by this rank's rule, by the receiver's word, or as what is left. */
static inline void sv_packet_set_route(sv_packet_t *p, selvage_route_t route)
{
    p->route = route;
    p->ops = sv_route_ops_of(route);
}
/* Whether the receiver's device memory is written by the sender's device. */
static inline bool sv_packet_stays_on_device(const sv_packet_t *p)
{
    return p->ops->maps_device || p->ops->within_rank;
}
/* Whether kernels alone can bring it to its end: it needs no slots that the host hands out. */
static inline bool sv_packet_is_device_driven(const sv_packet_t *p)
{
    return sv_packet_stays_on_device(p) && (p->in_place || p->kernel_copy);
}

/* --- what routes share: packet.c ---------------------------------------------------------------------------------- */

/* Phase 0: what names this attempt, and its key. */
void sv_packet_begin_attempt(sv_send_t *send, uint64_t now_ns);
/* Whether phase 0 leaves everything to a push that waits for credit: what is sent again does not. */
static inline bool sv_packet_is_left_to_push(const sv_send_t *send)
{
    return sv_epoch_is_on_device(send->p.x) && send->p.attempt == 0;
}
/* Enqueues one pass over the data that makes the digest and the record; the word after it says so. */
selvage_status_t sv_packet_launch_digest(sv_send_t *send, sv_record_t *record, uint64_t *word);
/* Whether the record, and the payload if kernels move it, are in host memory. */
bool sv_packet_is_ready(sv_send_t *send, uint64_t now_ns);
/* Whether one more copy may be enqueued now; counts it. The caller's interior waits for start to return, so that starts
   a few and leaves the others to the polls after it. */
static inline bool sv_packet_may_copy(selvage_exchange_t *x)
{
    enum { COPIES_OF_START = 2 };
    return !x->in_start || x->timing.defer_peer || x->start_copies++ < COPIES_OF_START;
}
/* Some MPIs and networks fail beyond a number of requests or bytes; one message is always allowed. */
bool sv_packet_may_send(const selvage_comm_t *comm, size_t bytes);
/* A slot whose message leaves, or is through. */
void sv_packet_note_in_flight(sv_packet_t *p, sv_slot_t *slot, size_t bytes, uint64_t now_ns);
void sv_packet_note_left(sv_packet_t *p, const sv_slot_t *slot);
/* Whether two records name the same packet; epoch, attempt, kind and what depends on the segment apart. */
bool sv_packet_is_same(const sv_record_t *a, const sv_record_t *b);
/* Starts the way up of a segment that lies in a slot; and notices when the slot is free again. */
selvage_status_t sv_packet_unstage(sv_recv_t *recv, sv_slot_t *slot, uint32_t segment, uint64_t now_ns);
void sv_packet_poll_unstaging(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved);
/* Enqueues the verification of one landed piece, counted already; after the last one comes recv->done. */
selvage_status_t sv_packet_verify(sv_recv_t *recv, const uint8_t *src, uint32_t segment);
/* Phase 4 of routes that send messages: over, asked for again, or its verdict is asked for. */
selvage_status_t sv_packet_drain_messages(sv_send_t *send, uint64_t now_ns, bool *moved);
/* Phase 5: what the verifying kernel says of a receive. SUCCESS: nothing yet, asked for again, or good and over, as
   recv->state says. An error ends the exchange. On routes that send messages the verdict is due when all packets of the
   sender are good ... */
selvage_status_t sv_packet_land(sv_recv_t *recv, uint64_t now_ns, bool *moved);
/* ... and sent by this; one that finds no room on the wire is sent by a later poll. */
selvage_status_t sv_exchange_send_verdicts(selvage_exchange_t *x, bool *moved);

/* --- what others ask of a route ----------------------------------------------------------------------------------- */

/* staged: IN_PROGRESS while messages of an earlier epoch still leave from the slots of a send. */
selvage_status_t sv_staged_reap_in_flight(sv_send_t *send, uint64_t now_ns);
/* staged: this attempt is to end, or its epoch to begin, whatever faults want. */
bool sv_staged_is_settling(const sv_send_t *send);

#endif
