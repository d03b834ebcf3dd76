/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery. The receiver decides: a packet that does not verify is asked for again, with a new attempt number, a
 * bounded number of times; one that does not come is asked for again and again, at doubling intervals, until the
 * deadline. The sender sends again from the user's buffer (phase 0 and all), never from host staging: a bad copy must
 * not be repeated.
 *
 *   damaged:  attempt a failed --> only attempts > a are accepted from now on; ask for it at once
 *   missing:  staged: any attempt is accepted still, the first complete one wins
 *             others: only the attempt asked for (see route_onesided.c, route_direct.c)
 *
 * Asks go by control message on the staged and direct routes, by the credit word on one-sided ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

enum { ATTEMPT_MAX = 250, DOUBLINGS_MAX = 6, WARNINGS_MAX = 20 };
/* The interval is longer by the time that the packet takes at this speed. */
static const double SLOWEST_BYTES_PER_NS = 0.05;

static uint64_t request_interval_ns(const sv_packet_t *p, double first_ns)
{
    unsigned doublings = p->requests < DOUBLINGS_MAX ? p->requests : DOUBLINGS_MAX;
    return (uint64_t)(first_ns * (double)(1u << doublings) + (double)p->bytes / SLOWEST_BYTES_PER_NS);
}

static double retry_timeout_ns(const selvage_comm_t *comm)
{
    return comm->config.retry_timeout_ms * 1e6;
}

/* Back to the beginning of an attempt. The scratch is cleared after the kernels that may still add to it. */
static selvage_status_t reset_attempt(sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    memset(recv->arrived_segments, 0, (p->nsegments + 63) / 64 * sizeof *recv->arrived_segments);
    recv->arrived_count = recv->consumed = 0;
    recv->pull_prelaunched = false; /* one that still waits gives up by itself */
    recv->state = SV_RECV_WAITING;
    SV_TRY(sv_exchange_order(p->x)); /* a pull that waits for a message may be on the caller's stream */
    sv_device_t *dev = p->x->comm->dev;
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, p->scratch, 0, sizeof *p->scratch, p->x->streams.kernel));
    if (!p->x->streams.in)
        return SELVAGE_SUCCESS;
    /* Copies of the new attempt must not overtake kernels that still read what landed of the old one. */
    SV_TRY(SV_DEVICE_CALL(dev, event_record, p->x->streams.cross_event, p->x->streams.kernel));
    return SV_DEVICE_CALL(dev, stream_wait_event, p->x->streams.in, p->x->streams.cross_event);
}

void sv_recovery_abort(selvage_exchange_t *x)
{
    sv_trace_flight_write(&x->comm->trace, "abort on a packet that did not verify");
    abort();
}

/* The error of the last attempt. */
static selvage_status_t give_up(sv_recv_t *recv, const sv_record_t *arrived, const char *text)
{
    const sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    if (sv_varying_is_other(p, arrived, x->epoch))
        return sv_varying_report(x, p, arrived);
    x->failure.index = p->index;
    x->failure.source = (uint32_t)p->peer->rank;
    return sv_error(SELVAGE_ERR_CHECKSUM, "%.*s%s", SV_DETAIL_BYTES - 100, text,
                    recv->damaged > 0 ? "; damaged in every attempt: was the send buffer written there between start "
                                        "and wait?" : "");
}

/* A failed attempt: ask for another, or give up. */
static selvage_status_t fail_attempt(sv_recv_t *recv, const sv_record_t *arrived, uint64_t now_ns, const char *what)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    char text[SV_DETAIL_BYTES];
    snprintf(text, sizeof text,
             "packet %u (tag %d) from rank %d to rank %d, epoch %llu, attempt %u, %zu bytes, salt %llu, route %s: "
             "expected digest %016llx, found %016llx: %s",
             p->index, p->tag, p->peer->rank, x->comm->wire->rank, (unsigned long long)x->epoch, p->attempt, p->bytes,
             (unsigned long long)p->identity.salt, selvage_route_name(p->route),
             (unsigned long long)x->failure.expected, (unsigned long long)x->failure.found, what);
    sv_packet_trace(p, SV_TRACE_BAD, now_ns, 0, p->attempt);
    if (x->policy != SV_CONFIG_CHECKSUM_RETRY || recv->damaged >= (unsigned)x->comm->config.retry_max ||
        recv->requested_attempt >= ATTEMPT_MAX) {
        selvage_status_t status = give_up(recv, arrived, text);
        if (x->policy == SV_CONFIG_CHECKSUM_ABORT)
            sv_recovery_abort(x);
        return status;
    }
    if (x->comm->exchanges->warnings++ < WARNINGS_MAX)
        sv_log(SV_LOG_WARN, "recovery", "%s; asked for again", text);
    recv->damaged++;
    recv->between_attempts = true;
    recv->requested_attempt++;
    p->attempt = recv->requested_attempt;
    p->moved_ns = now_ns;
    recv->resend_reason = SV_RESEND_DAMAGED;
    recv->request_due = true;
    SV_TRY(reset_attempt(recv));
    return p->ops->messaged ? sv_recovery_request_resend(recv) : SELVAGE_SUCCESS;
}

selvage_status_t sv_recovery_bad_record(sv_recv_t *recv, const sv_record_t *arrived, uint64_t now_ns)
{
    selvage_exchange_t *x = recv->p.x;
    char what[256];
    x->failure.expected = arrived->digest;
    x->failure.found = 0;
    x->comm->stats.bad_records++;
    const bool present = arrived->attempt == recv->p.attempt && sv_varying_is_other(&recv->p, arrived, x->epoch);
    if (recv->between_attempts && recv->p.nsegments > 1 && !present)
        return SELVAGE_SUCCESS; /* most likely another segment of the attempt that has failed already */
    if (sv_misdelivery_describe(recv, arrived, false, what, sizeof what))
        x->comm->stats.swapped_named++;
    return fail_attempt(recv, arrived, now_ns, what);
}

selvage_status_t sv_recovery_bad_digest(sv_recv_t *recv, uint64_t now_ns)
{
    selvage_exchange_t *x = recv->p.x;
    char what[256];
    x->failure.expected = recv->result->expected;
    x->failure.found = recv->result->found;
    if (recv->result->record_ok)
        x->comm->stats.bad_digests++;
    else
        x->comm->stats.bad_records++;
    if (sv_misdelivery_describe(recv, recv->record, true, what, sizeof what))
        x->comm->stats.swapped_named++;
    recv->result->epoch = 0; /* taken */
    return fail_attempt(recv, recv->record, now_ns, what);
}

selvage_status_t sv_recovery_request_resend(sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    sv_wire_control_t message = {.word = {SV_CONTROL_RESEND, p->peer->exchange_id, p->x->epoch, p->index,
                                          recv->requested_attempt, (uint64_t)recv->resend_reason}};
    selvage_status_t status = sv_wire_control_send(p->x->comm->wire, p->peer->rank, &message);
    if (status == SELVAGE_SUCCESS)
        recv->request_due = false;
    return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status; /* still due: the next poll tries again */
}

selvage_status_t sv_recovery_request_if_missing(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    const bool messaged = p->ops->messaged;
    if (messaged && recv->request_due)
        return sv_recovery_request_resend(recv);
    /* A poll's clock may be older than that of the start. */
    if (now_ns - p->moved_ns < request_interval_ns(p, retry_timeout_ns(p->x->comm)) || now_ns < p->moved_ns)
        return SELVAGE_SUCCESS;
    if (p->x->policy != SV_CONFIG_CHECKSUM_RETRY || recv->requested_attempt >= ATTEMPT_MAX)
        return SELVAGE_SUCCESS;
    /* Until wait or test is called here, an enqueued wait may yet end the epoch. Then the sender's host may have left
       it already, and would not answer. */
    if (!p->x->enqueued.host_ends && !p->x->comm->progress.threaded && sv_packet_is_device_driven(p))
        return SELVAGE_SUCCESS;
    /* Nothing is missing as long as this rank's own stream has not come to start. */
    SV_TRY(sv_exchange_order(p->x));
    selvage_status_t begun = SV_DEVICE_CALL(p->x->comm->dev, event_query, p->x->streams.start_event);
    if (begun != SELVAGE_SUCCESS) {
        p->moved_ns = now_ns;
        return begun == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : begun;
    }
    p->requests++;
    p->moved_ns = now_ns;
    p->x->comm->stats.asked_again++;
    recv->requested_attempt++;
    recv->resend_reason = SV_RESEND_MISSING;
    recv->request_due = true;
    sv_packet_trace(p, SV_TRACE_ASK, now_ns, 0, recv->requested_attempt);
    if (!p->ops->takes_any_attempt)
        p->attempt = recv->requested_attempt;
    return messaged ? sv_recovery_request_resend(recv) : reset_attempt(recv);
}

selvage_status_t sv_recovery_query(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    /* To ask for a verdict costs a word only, so it is done in time before a deadline that is short, three times. */
    const double part_ns = p->x->comm->timeout_s * 1e9 / 8, retry = retry_timeout_ns(p->x->comm);
    const double first_ns = part_ns > 0 && part_ns < retry ? part_ns : retry;
    if (p->x->policy == SV_CONFIG_CHECKSUM_OFF || now_ns < p->moved_ns ||
        now_ns - p->moved_ns < request_interval_ns(p, first_ns))
        return SELVAGE_SUCCESS;
    p->requests++;
    p->moved_ns = now_ns;
    if (now_ns - p->peer->queried_ns < (uint64_t)first_ns)
        return SELVAGE_SUCCESS; /* the verdict is one for all packets of the peer */
    p->peer->queried_ns = now_ns;
    sv_wire_control_t message = {.word = {SV_CONTROL_QUERY, p->peer->exchange_id, p->x->epoch}};
    selvage_status_t status = sv_wire_control_send(p->x->comm->wire, p->peer->rank, &message);
    return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
}

selvage_status_t sv_recovery_resend(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    p->attempt = send->wanted_attempt;
    p->x->comm->stats.resends++;
    sv_packet_trace(p, SV_TRACE_RESEND, now_ns, 0, p->attempt);
    send->next_stage = send->next_send = send->reaped = 0;
    send->state = SV_SEND_MOVING;
    send->fault_decided = send->silent = false;
    send->fault_kind = SV_FAULT_NONE;
    send->delay_until_ns = 0;
    return p->ops->begin(send, now_ns);
}

void sv_recovery_take_request(selvage_exchange_t *x, int source, uint64_t epoch, uint32_t index, unsigned attempt,
                              sv_resend_reason_t reason)
{
    if (index >= x->nsends)
        return;
    sv_send_t *send = &x->sends[index];
    /* The receiver misses a packet of an epoch that has not begun here. On the direct route it takes no older
       attempt. */
    if (epoch == x->epoch + 1 && send->p.ops->messaged && !send->p.ops->takes_any_attempt &&
        send->p.peer->rank == source && !(send->ahead_epoch == epoch && send->ahead_attempt >= attempt)) {
        send->ahead_epoch = epoch;
        send->ahead_attempt = attempt;
    }
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING || epoch != x->epoch)
        return;
    if (send->state == SV_SEND_IDLE || send->p.peer->rank != source || attempt <= send->wanted_attempt)
        return;
    if (reason == SV_RESEND_MISSING && send->state == SV_SEND_MOVING && send->p.ops->takes_any_attempt)
        return; /* it is leaving; a slow packet is not a lost one */
    send->wanted_attempt = attempt;
}

void sv_recovery_take_query(selvage_exchange_t *x, int source, uint64_t epoch)
{
    sv_peer_t *peer = sv_exchange_peer(x, source);
    if (!peer || peer->good_epoch < epoch)
        return; /* it will come when it is due */
    sv_wire_control_t message = {.word = {SV_CONTROL_VERDICT, peer->exchange_id, peer->good_epoch}};
    (void)sv_wire_control_send(x->comm->wire, source, &message); /* no room: they ask again */
}

static selvage_status_t report_peer(int source, uint64_t epoch, selvage_status_t theirs)
{
    return sv_error(SELVAGE_ERR_PEER, "rank %d gave up the exchange in its epoch %llu: %s", source,
                    (unsigned long long)epoch, selvage_status_string(theirs));
}

void sv_recovery_begin_lost(selvage_exchange_t *x)
{
    if (x->failure.lost_epoch && x->failure.lost_epoch <= x->epoch)
        sv_exchange_poison(x, report_peer(x->failure.lost_source, x->failure.lost_epoch, x->failure.lost_status), true);
}

void sv_recovery_peer_failed(selvage_exchange_t *x, int source, const sv_wire_control_t *message)
{
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return;
    const uint64_t *word = message->word;
    selvage_status_t theirs = sv_control_status(word[3]), status = SELVAGE_ERR_PEER;
    if (word[2] > x->epoch) {
        /* A neighbour that fails or leaves in a later epoch has completed this one, so it can complete here too. */
        if (!x->failure.lost_epoch || x->failure.lost_epoch > word[2]) {
            x->failure.lost_epoch = word[2];
            x->failure.lost_source = source;
            x->failure.lost_status = theirs;
        }
        return;
    }
    uint32_t index = (uint32_t)word[4];
    const bool ours = (uint32_t)(word[4] >> 32) == (uint32_t)x->comm->wire->rank && index < x->nsends &&
                      x->sends[index].p.peer->rank == source;
    if (theirs == SELVAGE_ERR_MISMATCH && ours) {
        status = sv_varying_report_send(&x->sends[index], message);
    } else if (theirs == SELVAGE_ERR_CHECKSUM && ours) {
        const sv_packet_t *p = &x->sends[index].p;
        status = sv_error(SELVAGE_ERR_CHECKSUM,
                          "rank %d could not verify packet %u (tag %d) of this rank, epoch %llu, %zu bytes, salt %llu: "
                          "expected digest %016llx, found %016llx; was its buffer written between start and wait, or "
                          "freed?", source, index, p->tag, (unsigned long long)word[2],
                          p->bytes, (unsigned long long)p->identity.salt, (unsigned long long)word[5],
                          (unsigned long long)word[6]);
    } else {
        status = report_peer(source, word[2], theirs);
    }
    sv_exchange_poison(x, status, true);
}
