/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When things went wrong: poisoning an exchange, and the report of a deadline, which says of every packet that is not
 * done what it waits for, since when, and when its peer was last alive.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

enum { PACKETS_REPORTED_MAX = 16 };

static double seconds_since(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns && then_ns < now_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

/* Node peers show when they last polled; of others we know when they were last heard. */
static void describe_peer(const sv_peer_t *peer, uint64_t now_ns, char *text, size_t text_bytes)
{
    uint64_t polled_ns = 0;
    if (peer->segment_open) {
        const sv_segment_head_t *head = (const sv_segment_head_t *)(const void *)sv_shared_base(&peer->segment);
        polled_ns = __atomic_load_n(&head->heartbeat_ns, __ATOMIC_RELAXED);
    }
    if (polled_ns)
        snprintf(text, text_bytes, "rank %d last polled %.2f s ago", peer->rank, seconds_since(polled_ns, now_ns));
    else if (peer->heard_ns)
        snprintf(text, text_bytes, "rank %d was last heard %.2f s ago", peer->rank,
                 seconds_since(peer->heard_ns, now_ns));
    else
        snprintf(text, text_bytes, "rank %d was never heard in this exchange", peer->rank);
}

static const char *what_send_waits_for(const sv_send_t *send)
{
    if (send->state == SV_SEND_VERDICT)
        return "phase 4, waits for the receiver's verdict";
    if (send->p.ops->from_user_memory)
        return send->next_send < send->p.nslots ? "phase 2, waits for this rank's own stream or for its digest"
                                                : "phase 4, waits for the wire";
    if (!send->p.ops->messaged)
        return "phase 2, waits until the receiver is ready";
    return send->next_send < send->p.nsegments ? "phase 2, waits for its copy to the host"
                                               : "phase 4, waits for the wire";
}

static void describe_packet_wait(const sv_packet_t *p, const char *kind, const char *direction, const char *waits,
                                 uint64_t now_ns, char *text, size_t text_bytes)
{
    char peer[96];
    describe_peer(p->peer, now_ns, peer, sizeof peer);
    snprintf(text, text_bytes, "%s %u (tag %d, %zu bytes) %s rank %d, route %s, attempt %u: %s for %.2f s; %s", kind,
             p->own_index, p->tag, p->bytes, direction, p->peer->rank, selvage_route_name(p->route), p->attempt, waits,
             seconds_since(p->started_ns, now_ns), peer);
}

selvage_status_t sv_exchange_report_deadline(selvage_exchange_t *x, double waited_s)
{
    uint64_t now_ns = sv_clock_ns();
    uint32_t shown = 0;
    char text[400], first[400] = "no packet is left; verdicts are";
    for (uint32_t i = 0; i < x->nactive_recvs && shown < PACKETS_REPORTED_MAX; i++, shown++) {
        const sv_recv_t *recv = x->active_recvs[i];
        const char *waits = recv->state == SV_RECV_VERIFYING ? "phase 5, waits for its verification"
                            : recv->arrived_count            ? "phase 3, waits for more of it"
                                                             : "phase 3, waits for its arrival";
        describe_packet_wait(&recv->p, "receive", "from", waits, now_ns, text, sizeof text);
        if (shown == 0)
            memcpy(first, text, sizeof first);
        sv_log(SV_LOG_ERROR, "deadline", "%s", text);
    }
    for (uint32_t i = 0; i < x->nactive_sends && shown < PACKETS_REPORTED_MAX; i++, shown++) {
        const sv_send_t *send = x->active_sends[i];
        describe_packet_wait(&send->p, "send", "to", what_send_waits_for(send), now_ns, text, sizeof text);
        if (shown == 0)
            memcpy(first, text, sizeof first);
        sv_log(SV_LOG_ERROR, "deadline", "%s", text);
    }
    x->comm->stats.deadlines++;
    return sv_error(SELVAGE_ERR_TIMEOUT,
                    "epoch %llu of exchange %llx made no progress for %g s; %u of %u receives and %u of %u sends are "
                    "not complete; first: %s", (unsigned long long)x->epoch, (unsigned long long)x->id, waited_s,
                    x->nactive_recvs, x->nrecvs, x->nactive_sends, x->nsends, first);
}

void sv_exchange_notify_failure(const selvage_exchange_t *x, int rank)
{
    const sv_peer_t *peer = sv_exchange_peer(x, rank);
    sv_wire_control_t message = {.word = {SV_CONTROL_FAIL, peer ? peer->exchange_id : x->id, x->failure.epoch,
                                          (uint64_t)-(int)x->failure.status,
                                          (uint64_t)x->failure.source << 32 | x->failure.index, x->failure.expected,
                                          x->failure.found}};
    (void)sv_wire_control_send(x->comm->wire, rank, &message); /* not now: whoever asks later is told again */
}

void sv_exchange_poison(selvage_exchange_t *x, selvage_status_t status, bool tell)
{
    selvage_comm_t *comm = x->comm;
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return;
    x->failure.status = status;
    x->failure.epoch =
        x->enqueued.found_epoch ? x->enqueued.found_epoch : x->epoch + (sv_exchange_state(x) != SV_EXCHANGE_RUNNING);
    memcpy(x->failure.text, sv_thread_detail(), sizeof x->failure.text);
    sv_trace_add(&comm->trace, &(sv_trace_record_t){.begin_ns = sv_clock_ns(), .epoch = x->epoch, .packet = UINT32_MAX,
                                                    .peer = -1, .value = (uint64_t)-(int)status,
                                                    .kind = SV_TRACE_POISON, .exchange = sv_exchange_trace_id(x)});
    tell &= comm->broken == SELVAGE_SUCCESS;
    for (const sv_list_t *it = x->peers.next; it != &x->peers && tell; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->rank != comm->wire->rank)
            sv_exchange_notify_failure(x, peer->rank);
    }
    if (comm->config.flight_file[0] || status == SELVAGE_ERR_TIMEOUT || status == SELVAGE_ERR_CHECKSUM)
        sv_trace_flight_write(&comm->trace, selvage_status_name(status));
    sv_list_remove(&x->active_link);
    if (x->abort) /* partner: the acquire in batch_await() of this rank's kernels */
        __atomic_store_n(x->abort, 1, __ATOMIC_RELEASE);
    sv_exchange_set_state(x, SV_EXCHANGE_POISONED);
}
