/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The direct route: the wire reads the user's send buffer and writes the user's receive buffer, as soon as the work
 * before start is done; the record is a message of its own, which follows when the digest is there. The slots of such a
 * packet are its open messages, the last one the record's; they have no memory of their own.
 *
 * A message that leaves holds the user's memory. So a send is over only when all of them have left, and no attempt is
 * sent that the receiver has not promised to take, by asking for it. Only the newest attempt asked for is taken. See
 * pipe_exchange.h for why nothing else may be.
 */
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

typedef enum arrival { ARRIVAL_GOOD, ARRIVAL_STALE, ARRIVAL_BAD } arrival_t;

static size_t direct_message_bytes(const sv_packet_t *p, uint32_t number)
{
    return number == p->nsegments ? SV_RECORD_BYTES : sv_packet_piece(p, number);
}

/* A packet without payload is its record alone. */
static uint32_t first_message(const sv_packet_t *p)
{
    return p->bytes ? 0 : p->nsegments;
}

/* SUCCESS once the work before start is done, so that the user's buffers may be read and written; IN_PROGRESS. */
static selvage_status_t is_start_passed(selvage_exchange_t *x)
{
    if (x->begun_epoch == x->epoch)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, event_query, x->streams.start_event));
    x->begun_epoch = x->epoch;
    return SELVAGE_SUCCESS;
}

/* --- phases 0, prepare, and 1, post ------------------------------------------------------------------------------- */

static selvage_status_t direct_begin(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_begin_attempt(send, now_ns);
    if (sv_packet_is_left_to_push(send) || send->p.x->policy == SV_CONFIG_CHECKSUM_OFF)
        return SELVAGE_SUCCESS;
    return sv_packet_launch_digest(send, send->record, send->ready); /* partner: the acquire in sv_packet_is_ready() */
}

static selvage_status_t post_direct_message(sv_recv_t *recv, uint32_t number, void *buf, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    sv_slot_t *slot = &p->slots[number];
    int tag = number == p->nsegments ? p->record_tag : p->wire_tag;
    const sv_wire_path_t path = sv_packet_path(p, tag);
    SV_TRY(sv_slot_post(slot, &path, buf, direct_message_bytes(p, number)));
    slot->since_ns = now_ns;
    recv->posted_count++;
    return SELVAGE_SUCCESS;
}

/* The receives of payload and record are posted together, because the wire writes into the user's buffer. */
static selvage_status_t direct_post(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    if (recv->posted_count > 0)
        return SELVAGE_SUCCESS;
    selvage_status_t begun = is_start_passed(p->x);
    if (begun != SELVAGE_SUCCESS)
        return begun == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : begun;
    for (uint32_t number = first_message(p); number < p->nsegments; number++)
        SV_TRY(post_direct_message(recv, number, recv->buf + sv_packet_offset(p, number), now_ns));
    return post_direct_message(recv, p->nsegments, recv->record, now_ns);
}

/* --- phase 2, send ------------------------------------------------------------------------------------------------ */

static selvage_status_t send_direct_message(sv_send_t *send, uint32_t number, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    sv_slot_t *slot = &p->slots[number];
    bool record = number == p->nsegments;
    const void *message = record ? (const void *)send->record : send->buf + sv_packet_offset(p, number);
    size_t bytes = record ? SV_RECORD_BYTES : sv_packet_piece(p, number);
    const sv_wire_path_t path = sv_packet_path(p, record ? p->record_tag : p->wire_tag);
    if (record) /* it may have got a newer number than it was prepared with */
        send->record->attempt = (uint8_t)p->attempt;
    if (send->fault)
        SV_TRY(sv_fault_direct(send, number, &message, &bytes));
    SV_TRY(sv_slot_send(slot, &path, message, bytes));
    if (send->fault)
        SV_TRY(sv_fault_double(send, number));
    sv_packet_note_in_flight(p, slot, bytes, now_ns);
    return SELVAGE_SUCCESS;
}

static selvage_status_t direct_send(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    if (send->next_send == 0 && send->wanted_attempt > p->attempt)
        p->attempt = send->wanted_attempt; /* nothing has left yet: what leaves now is what was asked for */

    for (; send->next_send < p->nslots; send->next_send++, *moved = true) {
        const uint32_t number = send->next_send;
        if (send->silent || number < first_message(p))
            continue;
        /* The record and what a fault makes of the payload need the digest; the payload only the caller's stream. */
        if ((send->fault || number == p->nsegments) && !sv_packet_is_ready(send, now_ns))
            break;
        selvage_status_t status = is_start_passed(p->x);
        if (status == SELVAGE_IN_PROGRESS)
            break;
        SV_TRY(status);
        if (!sv_packet_may_send(p->x->comm, direct_message_bytes(p, number)))
            break;
        SV_TRY(send_direct_message(send, number, now_ns));
    }
    for (; send->reaped < send->next_send; send->reaped++) {
        sv_slot_t *slot = &p->slots[send->reaped];
        if (slot->state != SV_SLOT_IN_FLIGHT)
            continue;
        selvage_status_t status = sv_slot_test(slot, p->x->comm->wire, NULL);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
        sv_packet_trace(p, SV_TRACE_SEND, slot->since_ns, now_ns, slot->in_flight_bytes);
        sv_packet_note_left(p, slot);
        *moved = true;
    }
    if (send->reaped == p->nslots)
        send->state = SV_SEND_VERDICT;
    return SELVAGE_SUCCESS;
}

/* --- phase 3, receive --------------------------------------------------------------------------------------------- */

static arrival_t classify_direct(const sv_recv_t *recv, const sv_record_t *record)
{
    const sv_packet_t *p = &recv->p;
    if (p->x->policy == SV_CONFIG_CHECKSUM_OFF)
        return ARRIVAL_GOOD; /* nothing is checked */
    if (!sv_packet_is_same(record, &p->identity))
        return ARRIVAL_BAD;
    if (record->epoch < p->identity.epoch || (record->epoch == p->identity.epoch && record->attempt < p->attempt))
        return ARRIVAL_STALE;
    bool right = record->epoch == p->identity.epoch && record->attempt <= recv->requested_attempt &&
                 record->kind == SV_RECORD_PACKET && record->bytes == p->bytes && record->salt == p->identity.salt;
    for (uint32_t number = first_message(p); number < p->nslots; number++)
        right &= p->slots[number].in_flight_bytes == direct_message_bytes(p, number);
    return right ? ARRIVAL_GOOD : ARRIVAL_BAD;
}

/* All messages of one sending are here. */
static selvage_status_t take_direct(sv_recv_t *recv, uint64_t now_ns)
{
    const sv_packet_t *p = &recv->p;
    sv_record_t record = {0};
    if (p->slots[p->nsegments].in_flight_bytes == SV_RECORD_BYTES)
        record = *recv->record;
    recv->between_attempts = false;
    arrival_t arrival = classify_direct(recv, &record);
    if (arrival == ARRIVAL_BAD)
        return sv_recovery_bad_record(recv, &record, now_ns);
    if (arrival == ARRIVAL_STALE) {
        /* An older attempt of this epoch: the sender may not know of the question, so it is asked again. */
        p->x->comm->stats.stale_discarded++;
        sv_packet_trace(p, SV_TRACE_STALE, now_ns, 0, record.epoch);
        if (record.epoch != p->x->epoch)
            return SELVAGE_SUCCESS;
        recv->request_due = true;
        return sv_recovery_request_resend(recv);
    }
    while (recv->arrived_count < p->nsegments) {
        uint32_t segment = recv->arrived_count++;
        SV_TRY(sv_packet_verify(recv, recv->buf + sv_packet_offset(p, segment), segment));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t poll_posted_direct(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    for (uint32_t number = 0; number < p->nslots; number++) {
        sv_slot_t *slot = &p->slots[number];
        size_t bytes = 0;
        if (slot->state != SV_SLOT_POSTED)
            continue;
        selvage_status_t status = sv_slot_test(slot, p->x->comm->wire, &bytes);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        *moved = true;
        slot->in_flight_bytes = bytes;
        recv->posted_count--;
        p->moved_ns = p->peer->heard_ns = now_ns;
        sv_packet_trace(p, SV_TRACE_RECV, slot->since_ns, now_ns, bytes);
    }
    return SELVAGE_SUCCESS;
}

/* Messages are looked at together when all are complete. The n-th payload belongs to the n-th record: both have tags of
   their own, and messages of one tag arrive in order. */
static selvage_status_t direct_receive(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    if (recv->posted_count > 0) {
        SV_TRY(poll_posted_direct(recv, now_ns, moved));
        if (recv->posted_count == 0)
            SV_TRY(take_direct(recv, now_ns));
    }
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(direct_post(recv, now_ns));
    return sv_recovery_request_if_missing(recv, now_ns);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static selvage_status_t direct_discard_duplicate(sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    bool moved = false;
    if (!p->x->comm->config.fault[0])
        return SELVAGE_SUCCESS; /* only a fault doubles messages */
    if (recv->posted_count > 0)
        SV_TRY(poll_posted_direct(recv, p->moved_ns, &moved));
    if (recv->posted_count > 0)
        return SELVAGE_SUCCESS;
    for (uint32_t number = first_message(p); number < p->nsegments; number++)
        SV_TRY(post_direct_message(recv, number, recv->discard_buffer, p->moved_ns));
    return post_direct_message(recv, p->nsegments, recv->record, p->moved_ns);
}

const sv_route_ops_t sv_route_direct = {
    .from_user_memory = true,
    .messaged = true,
    .begin = direct_begin,
    .post = direct_post,
    .send = direct_send,
    .receive = direct_receive,
    .drain = sv_packet_drain_messages,
    .land = sv_packet_land,
    .discard_duplicate = direct_discard_duplicate,
};
