/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 2 of the direct route: the wire reads the user's send buffer, as soon as the work before start is done, and the
 * record follows when the digest is there. Nothing copies, so a message that leaves holds the user's memory: a send is
 * over only when all of them have left, and no attempt is sent that the receiver has not promised to take (by asking
 * for it), see pipe_exchange.h.
 */
#include "pipeline/pipe_phases.h"

selvage_status_t sv_direct_is_begun(selvage_exchange_t *x)
{
    if (x->begun_epoch == x->epoch)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, event_query, x->start_event));
    x->begun_epoch = x->epoch;
    return SELVAGE_SUCCESS;
}

static bool is_record_message(const sv_packet_t *p, uint32_t number)
{
    return number == p->nsegments;
}

/* A packet without payload is its record alone. */
static bool is_without_payload(const sv_packet_t *p, uint32_t number)
{
    return !is_record_message(p, number) && p->bytes == 0;
}

/* The record and what a fault makes of the payload need the digest; the payload only the caller's stream. */
static selvage_status_t may_send_direct(sv_send_t *send, uint32_t number, uint64_t now_ns)
{
    if ((send->fault || is_record_message(&send->p, number)) && !sv_phase2_is_ready(send, now_ns))
        return SELVAGE_IN_PROGRESS;
    return sv_direct_is_begun(send->p.x);
}

static selvage_status_t send_direct_message(sv_send_t *send, uint32_t number, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    selvage_comm_t *comm = p->x->comm;
    sv_slot_t *slot = &p->slots[number];
    bool record = is_record_message(p, number);
    const void *message = record ? (const void *)send->record : send->buf + sv_packet_offset(p, number);
    size_t bytes = record ? SV_RECORD_BYTES : sv_packet_piece(p, number);
    if (record) /* it may have got a newer number than it was prepared with */
        send->record->attempt = (uint8_t)p->attempt;
    if (send->fault)
        SV_TRY(sv_fault_direct(send, number, &message, &bytes));
    SV_TRY(sv_wire_send(comm->wire, SV_WIRE_DATA, message, bytes, p->peer->rank, record ? p->record_tag : p->wire_tag,
                        &slot->request));
    if (send->fault)
        SV_TRY(sv_fault_double(send, number));
    slot->state = SV_SLOT_IN_FLIGHT;
    slot->since_ns = now_ns;
    slot->in_flight_bytes = bytes;
    comm->exchanges->sends_in_flight++;
    comm->exchanges->bytes_in_flight += bytes;
    return SELVAGE_SUCCESS;
}

static selvage_status_t send_ready_messages(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    while (send->next_send < p->nslots) {
        uint32_t number = send->next_send;
        if (!send->silent && !is_without_payload(p, number)) {
            selvage_status_t status = may_send_direct(send, number, now_ns);
            if (status != SELVAGE_SUCCESS)
                return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
            if (!sv_phase2_caps_allow(p->x->comm,
                                      is_record_message(p, number) ? SV_RECORD_BYTES : sv_packet_piece(p, number)))
                return SELVAGE_SUCCESS;
            SV_TRY(send_direct_message(send, number, now_ns));
        }
        send->next_send++;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap_direct_messages(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    selvage_comm_t *comm = send->p.x->comm;
    for (; send->reaped < send->next_send; send->reaped++) {
        sv_slot_t *slot = &send->p.slots[send->reaped];
        if (slot->state != SV_SLOT_IN_FLIGHT)
            continue;
        selvage_status_t status = sv_wire_test(comm->wire, &slot->request, NULL);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
        sv_packet_trace(&send->p, SV_TRACE_SEND, slot->since_ns, now_ns, slot->in_flight_bytes);
        slot->state = SV_SLOT_FREE;
        comm->exchanges->sends_in_flight--;
        comm->exchanges->bytes_in_flight -= slot->in_flight_bytes;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase2_send_direct(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    if (send->next_send == 0 && send->wanted_attempt > p->attempt)
        p->attempt = send->wanted_attempt; /* nothing has left yet: what leaves now is what was asked for */
    SV_TRY(send_ready_messages(send, now_ns, moved));
    SV_TRY(reap_direct_messages(send, now_ns, moved));
    if (send->reaped == p->nslots)
        send->state = SV_SEND_VERDICT;
    return SELVAGE_SUCCESS;
}
