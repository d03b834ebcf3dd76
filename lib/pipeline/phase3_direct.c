/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phases 1 and 3 of the direct route: the receives of payload and record are posted together once the work before start
 * is done, because the wire writes into the user's buffer, and looked at together when all are complete. The n-th
 * payload belongs to the n-th record: both have tags of their own, and messages of one tag arrive in order.
 *
 * Only the newest attempt asked for is taken. When an older one of this epoch comes, the sender may not know of the
 * question, so it is asked again. See pipe_exchange.h for why nothing else may be taken.
 */
#include "pipeline/pipe_phases.h"

typedef enum arrival { ARRIVAL_GOOD, ARRIVAL_STALE, ARRIVAL_BAD } arrival_t;

static size_t direct_message_bytes(const sv_packet_t *p, uint32_t number)
{
    return number == p->nsegments ? SV_RECORD_BYTES : sv_packet_piece(p, number);
}

static selvage_status_t post_direct_message(sv_recv_t *recv, uint32_t number, void *buf, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    sv_slot_t *slot = &p->slots[number];
    int tag = number == p->nsegments ? p->record_tag : p->wire_tag;
    SV_TRY(sv_wire_recv(p->x->comm->wire, SV_WIRE_DATA, buf, direct_message_bytes(p, number), p->peer->rank, tag,
                        &slot->request));
    slot->state = SV_SLOT_POSTED;
    slot->since_ns = now_ns;
    recv->posted_count++;
    return SELVAGE_SUCCESS;
}

/* A packet without payload is its record alone. */
static uint32_t first_message(const sv_packet_t *p)
{
    return p->bytes ? 0 : p->nsegments;
}

selvage_status_t sv_phase1_post_direct(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    if (recv->posted_count > 0)
        return SELVAGE_SUCCESS;
    selvage_status_t begun = sv_direct_is_begun(p->x);
    if (begun != SELVAGE_SUCCESS)
        return begun == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : begun;
    for (uint32_t number = first_message(p); number < p->nsegments; number++)
        SV_TRY(post_direct_message(recv, number, recv->buf + sv_packet_offset(p, number), now_ns));
    return post_direct_message(recv, p->nsegments, recv->record, now_ns);
}

static bool is_direct_whole(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    for (uint32_t number = first_message(p); number < p->nslots; number++)
        if (p->slots[number].in_flight_bytes != direct_message_bytes(p, number))
            return false;
    return true;
}

static arrival_t classify_direct(const sv_recv_t *recv, const sv_record_t *record)
{
    const sv_packet_t *p = &recv->p;
    if (p->x->policy == SV_CONFIG_CHECKSUM_OFF)
        return ARRIVAL_GOOD; /* nothing is checked */
    if (!sv_phase3_same_packet(record, &p->identity))
        return ARRIVAL_BAD;
    if (record->epoch < p->identity.epoch || (record->epoch == p->identity.epoch && record->attempt < p->attempt))
        return ARRIVAL_STALE;
    bool right = record->epoch == p->identity.epoch && record->attempt <= recv->requested_attempt &&
                 record->kind == SV_RECORD_PACKET && record->bytes == p->bytes && record->salt == p->identity.salt;
    return right && is_direct_whole(recv) ? ARRIVAL_GOOD : ARRIVAL_BAD;
}

static selvage_status_t verify_direct(sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    while (recv->arrived_count < p->nsegments) {
        uint32_t segment = recv->arrived_count++;
        SV_TRY(sv_phase3_verify(recv, recv->buf + sv_packet_offset(p, segment), segment));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t discard_direct(sv_recv_t *recv, const sv_record_t *record, uint64_t now_ns)
{
    recv->p.x->comm->stats.stale_discarded++;
    sv_packet_trace(&recv->p, SV_TRACE_STALE, now_ns, 0, record->epoch);
    if (record->epoch != recv->p.x->epoch)
        return SELVAGE_SUCCESS;
    recv->request_due = true;
    return sv_recovery_request_resend(recv);
}

/* All messages of one sending are here. */
static selvage_status_t take_arrival(sv_recv_t *recv, uint64_t now_ns)
{
    sv_record_t record = {0};
    if (recv->p.slots[recv->p.nsegments].in_flight_bytes == SV_RECORD_BYTES)
        record = *recv->record;
    recv->between_attempts = false;
    switch (classify_direct(recv, &record)) {
    case ARRIVAL_STALE:
        return discard_direct(recv, &record, now_ns);
    case ARRIVAL_BAD: return sv_recovery_bad_record(recv, &record, now_ns);
    case ARRIVAL_GOOD: break;
    }
    return verify_direct(recv);
}

static selvage_status_t poll_posted_direct(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved)
{
    size_t bytes = 0;
    selvage_status_t status = sv_wire_test(recv->p.x->comm->wire, &slot->request, &bytes);
    if (status != SELVAGE_SUCCESS)
        return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    *moved = true;
    slot->state = SV_SLOT_FREE;
    slot->in_flight_bytes = bytes;
    recv->posted_count--;
    recv->p.moved_ns = recv->p.peer->heard_ns = now_ns;
    sv_packet_trace(&recv->p, SV_TRACE_RECV, slot->since_ns, now_ns, bytes);
    return SELVAGE_SUCCESS;
}

static selvage_status_t poll_all_posted_direct(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    for (uint32_t number = 0; number < recv->p.nslots; number++)
        if (recv->p.slots[number].state == SV_SLOT_POSTED)
            SV_TRY(poll_posted_direct(recv, &recv->p.slots[number], now_ns, moved));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase3_receive_direct(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    if (recv->posted_count > 0) {
        SV_TRY(poll_all_posted_direct(recv, now_ns, moved));
        if (recv->posted_count == 0)
            SV_TRY(take_arrival(recv, now_ns));
    }
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_phase1_post_direct(recv, now_ns));
    return sv_recovery_missing(recv, now_ns);
}

selvage_status_t sv_phase3_discard_direct(sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    bool moved = false;
    if (recv->posted_count > 0)
        SV_TRY(poll_all_posted_direct(recv, p->moved_ns, &moved));
    if (recv->posted_count > 0)
        return SELVAGE_SUCCESS;
    for (uint32_t number = first_message(p); number < p->nsegments; number++)
        SV_TRY(post_direct_message(recv, number, recv->discard_buffer, p->moved_ns));
    return post_direct_message(recv, p->nsegments, recv->record, p->moved_ns);
}
