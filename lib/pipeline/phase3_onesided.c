/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 3 for routes that write into this rank's memory: the host polls `arrived`. Into a receive slot: up it goes, and
 * the slot's credit is given back. Straight into the user's buffer: only verification is left.
 *
 * Once a newer attempt was asked for, arrivals of older ones are ignored: the sender is going to write again, and must
 * not do so into a buffer that wait has given back to the application.
 */
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"

static bool any_unstaging(const sv_recv_t *recv)
{
    for (uint32_t s = 0; recv->p.slots && s < recv->p.nslots; s++)
        if (recv->p.slots[s].state == SV_SLOT_UNSTAGING)
            return true;
    return false;
}

/* Slots land in order, so credit is given back in order. */
static selvage_status_t collect_unstaged(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    bool freed = false;
    while (recv->consumed < recv->arrived_count) {
        sv_slot_t *slot = &p->slots[recv->consumed % p->nslots];
        sv_phase3_poll_unstaging(recv, slot, now_ns, moved);
        if (slot->state == SV_SLOT_UNSTAGING)
            break;
        recv->consumed++;
        freed = true;
    }
    return freed && recv->arrived_count < p->nsegments ? sv_phase1_post_recv(recv, now_ns) : SELVAGE_SUCCESS;
}

static selvage_status_t take_segments(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    while (recv->arrived_count < arrived && recv->arrived_count < p->nsegments) {
        sv_slot_t *slot = &p->slots[recv->arrived_count % p->nslots];
        if (slot->state != SV_SLOT_FREE)
            break;
        *moved = true;
        p->moved_ns = now_ns;
        SV_TRY(sv_phase3_unstage(recv, slot, recv->arrived_count, now_ns));
    }
    return SELVAGE_SUCCESS;
}

/* What came straight to its place is verified piece by piece, while the next one comes. */
static selvage_status_t take_pieces(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    *moved = true;
    p->moved_ns = now_ns;
    while (recv->arrived_count < arrived && recv->arrived_count < p->nsegments) {
        uint32_t piece = recv->arrived_count++;
        SV_TRY(sv_phase3_verify(recv, recv->buf + sv_packet_offset(p, piece), piece));
    }
    return SELVAGE_SUCCESS;
}

/* Nothing to copy and nothing to check. */
static bool is_in_place(const sv_recv_t *recv)
{
    return recv->p.in_place && !recv->p.fused && recv->p.x->policy == SV_CONFIG_CHECKSUM_OFF;
}

/*
 * A newer attempt is asked for by the credit word, but not while a slot is still being read. Nobody else looks at those
 * slots any more: the counters of the old attempt are reset already.
 */
static selvage_status_t request_when_silent(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    if (!recv->request_due)
        return SELVAGE_SUCCESS;
    for (uint32_t s = 0; p->slots && s < p->nslots; s++)
        if (p->slots[s].state == SV_SLOT_UNSTAGING)
            sv_phase3_poll_unstaging(recv, &p->slots[s], now_ns, moved);
    if (any_unstaging(recv))
        return SELVAGE_SUCCESS;
    recv->request_due = false;
    recv->consumed = recv->arrived_count = 0;
    return sv_phase1_post_recv(recv, now_ns);
}

/* What one kernel verifies (and, if it landed in a slot, brings to its place) joins the next batch of pulls. */
static selvage_status_t take_pulled(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    if (is_in_place(recv))
        return take_pieces(recv, arrived, now_ns, moved);
    *moved = true;
    recv->p.moved_ns = now_ns;
    recv->arrived_count = arrived;
    if (arrived < recv->p.nsegments)
        return SELVAGE_SUCCESS;
    recv->state = SV_RECV_VERIFYING;
    sv_batch_pull_later(recv);
    return SELVAGE_SUCCESS;
}

/* The record comes beside the copies; without digests there is none. */
static bool is_recorded(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    /* Partner: the release of the sender's digest kernel (address_record()), or of its signal kernel. */
    return p->x->policy == SV_CONFIG_CHECKSUM_OFF || p->kernel_copy ||
           sv_word_matches(__atomic_load_n(&recv->words->recorded, __ATOMIC_ACQUIRE), p->x->epoch, p->attempt);
}

/* How many segments of this attempt lie here; the last one only if its record does. */
static uint32_t count_arrived(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    /* Partner: the release after the sender's copy (signal_arrival()) or of its push kernel. */
    uint64_t word = __atomic_load_n(&recv->words->arrived, __ATOMIC_ACQUIRE);
    if (recv->request_due)
        return 0;
    if (p->kernel_copy && !p->in_place && sv_word_ahead(word, p->x->epoch) > 0)
        return 1; /* the sender, without verdicts to wait for, is an epoch ahead: in another slot */
    uint32_t arrived = sv_word_matches(word, p->x->epoch, p->attempt) ? sv_word_count(word) : 0;
    if (arrived > p->nsegments)
        return 0; /* more than there are: no word of the sender's */
    return arrived == p->nsegments && !is_recorded(recv) ? arrived - 1 : arrived;
}

selvage_status_t sv_phase3_receive_onesided(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    if (p->slots)
        SV_TRY(collect_unstaged(recv, now_ns, moved));
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(request_when_silent(recv, now_ns, moved));
    uint32_t arrived = count_arrived(recv);
    if (arrived > recv->arrived_count && p->pulled)
        return take_pulled(recv, arrived, now_ns, moved);
    if (arrived > recv->arrived_count)
        SV_TRY(p->in_place ? take_pieces(recv, arrived, now_ns, moved) : take_segments(recv, arrived, now_ns, moved));
    return recv->state == SV_RECV_WAITING ? sv_recovery_missing(recv, now_ns) : SELVAGE_SUCCESS;
}
