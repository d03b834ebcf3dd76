/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 5, land: the verifying kernel is through and its result lies in pinned memory. Good: the sender is told, by a
 * word on one-sided routes, by one control message per sender and epoch on the others. Bad: recovery.
 */
#include "comm/comm_control.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"

static void give_verdict(sv_recv_t *recv)
{
    selvage_exchange_t *x = recv->p.x;
    if (x->policy == SV_CONFIG_CHECKSUM_OFF)
        return;
    if (sv_route_is_messaged(recv->p.route)) {
        if (--recv->p.peer->staged_left == 0) {
            recv->p.peer->good_epoch = x->epoch;
            recv->p.peer->verdict_due = true;
        }
        return;
    }
    if (recv->p.pulled)
        return; /* the pull kernel gave it */
    /* Partner: the acquire in verdict_is_good() of the sender. */
    __atomic_store_n(&recv->remote->verdict, sv_word(x->epoch, 0, 1), __ATOMIC_RELEASE);
}

static void close_recv(sv_recv_t *recv, uint64_t now_ns)
{
    selvage_stats_t *stats = &recv->p.x->comm->stats;
    recv->state = SV_RECV_IDLE;
    recv->took_ns = now_ns - recv->p.started_ns;
    stats->packets_received++;
    stats->bytes_received += recv->p.bytes;
    give_verdict(recv);
    sv_packet_trace(&recv->p, SV_TRACE_VERIFY, recv->p.moved_ns, now_ns, recv->p.bytes);
}

/* Slots whose copies the device has not reported yet are left to phase 3 of the next poll. */
static bool slots_are_drained(const sv_recv_t *recv)
{
    for (uint32_t s = 0;
         recv->p.slots && s < recv->p.nslots && !recv->p.kernel_copy && !sv_recv_is_single_segment(recv); s++)
        if (recv->p.slots[s].state == SV_SLOT_UNSTAGING)
            return false;
    return true;
}

static bool is_verified_good(const sv_recv_t *recv, uint32_t outcome)
{
    if (recv->p.x->policy == SV_CONFIG_CHECKSUM_OFF)
        return true;
    return recv->p.pulled ? outcome == SV_PULL_GOOD : recv->result->verified;
}

/* A pull that was launched early gave up waiting. By now the packet may lie here all the same. */
static selvage_status_t pull_again(sv_recv_t *recv)
{
    __atomic_store_n(recv->done, 0, __ATOMIC_RELAXED); /* seen: it must not be taken for the next pull's word */
    recv->launched = 0;
    if (recv->arrived_count < recv->p.nsegments)
        recv->state = SV_RECV_WAITING;
    else
        sv_batch_pull_later(recv);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase5_complete(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    /* Partner: the release of the pull kernel, or of the digest kernel after the last segment. */
    uint64_t word = __atomic_load_n(recv->done, __ATOMIC_ACQUIRE);
    if (!sv_word_matches(word, p->x->epoch, p->attempt) || !slots_are_drained(recv))
        return SELVAGE_SUCCESS;
    *moved = true;
    if (p->pulled && sv_word_count(word) == SV_PULL_ABSENT)
        return pull_again(recv);
    if ((p->kernel_copy && p->slots) || sv_recv_is_single_segment(recv))
        sv_phase3_slot_unstaged(recv, &p->slots[0], now_ns);
    if (!is_verified_good(recv, sv_word_count(word)))
        return sv_recovery_bad_digest(recv, now_ns);
    close_recv(recv, now_ns);
    return SELVAGE_SUCCESS;
}

/* Sends the verdicts that are due; one that finds no room on the wire is sent by a later poll. */
selvage_status_t sv_phase5_verdicts(selvage_exchange_t *x, bool *moved)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->verdict_due)
            continue;
        sv_wire_control_t message = {.word = {SV_CONTROL_VERDICT, x->id, peer->good_epoch}};
        selvage_status_t status = sv_wire_control_send(x->comm->wire, peer->rank, &message);
        if (status == SELVAGE_IN_PROGRESS)
            return SELVAGE_SUCCESS;
        SV_TRY(status);
        peer->verdict_due = false;
        x->verdicts_due--;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}
