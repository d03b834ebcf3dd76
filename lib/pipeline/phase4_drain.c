/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 4, drain: a send is over when the receiver has called its epoch good: a success here is a success there.
 * Without checksums there are no verdicts: it is over when its bytes have left.
 */
#include "pipeline/pipe_phases.h"

static bool verdict_is_good(const sv_send_t *send)
{
    uint64_t epoch = send->p.x->epoch;
    if (sv_route_is_messaged(send->p.route))
        return send->p.peer->verdict_epoch >= epoch;
    /* Partners: the releases of the receiver: of its pull kernel, or in give_verdict(). */
    return __atomic_load_n(&send->words->verdict, __ATOMIC_ACQUIRE) == sv_word(epoch, 0, 1);
}

static bool is_send_over(const sv_send_t *send)
{
    if (send->p.x->policy != SV_CONFIG_CHECKSUM_OFF && !verdict_is_good(send))
        return false;
    /* A verdict answers the last copy, so nothing is left to copy, unless a fault doubled it. But a push may have words
       left to store, and the memory that they lie in must outlive it. */
    if (sv_route_is_one_sided(send->p.route) &&
        (send->p.x->policy == SV_CONFIG_CHECKSUM_OFF || send->fault || send->p.kernel_copy))
        return sv_phase2_is_sent(send);
    return true;
}

static void close_send(sv_send_t *send)
{
    selvage_stats_t *stats = &send->p.x->comm->stats;
    send->state = SV_SEND_IDLE;
    stats->packets_sent++;
    stats->bytes_sent += send->p.bytes;
    stats->packets_by_route[send->p.route]++;
}

selvage_status_t sv_phase4_drain(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    if (is_send_over(send)) {
        close_send(send);
        *moved = true;
        sv_packet_trace(&send->p, SV_TRACE_VERDICT_SEEN, now_ns, 0, send->p.attempt);
        return SELVAGE_SUCCESS;
    }
    if (sv_route_is_one_sided(send->p.route))
        return sv_phase2_send_onesided(send, now_ns, moved);
    if (send->wanted_attempt > send->p.attempt)
        return sv_recovery_resend(send, now_ns);
    return sv_recovery_query(send, now_ns);
}
