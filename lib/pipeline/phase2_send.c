/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 2, send: the moment a segment is in host memory, it goes to the wire. Segments of a packet leave in order; the
 * packets know nothing of each other. The last segment carries the packet's record and so waits for its digest too.
 */
#include <string.h>

#include "pipeline/pipe_phases.h"

static bool is_last_segment(const sv_send_t *send, uint32_t segment)
{
    return segment + 1 == send->p.nsegments;
}

/* The record, and the payload if kernels move it, are in host memory. */
bool sv_phase2_is_ready(sv_send_t *send, uint64_t now_ns)
{
    if (send->ready_seen)
        return true;
    /* Partner: the release of the digest or push kernel. */
    if (!sv_word_matches(__atomic_load_n(send->ready, __ATOMIC_ACQUIRE), send->p.x->epoch, send->p.identity.attempt))
        return false;
    send->ready_seen = true;
    sv_packet_trace(&send->p, SV_TRACE_PREPARE, send->p.started_ns, now_ns, send->p.bytes);
    return true;
}

/* Whether the segment (and for the last one the record) is in host memory. */
static bool slot_is_full(sv_send_t *send, sv_slot_t *slot, uint64_t now_ns)
{
    if ((send->p.kernel_copy || is_last_segment(send, slot->segment)) && !sv_phase2_is_ready(send, now_ns))
        return false;
    return send->p.kernel_copy || sv_slot_is_copied(slot);
}

/* The record after a segment that is not the last: says which segment it is. */
static sv_record_t segment_record(const sv_send_t *send, uint32_t segment)
{
    sv_record_t record = send->p.identity;
    record.kind = SV_RECORD_SEGMENT;
    record.bytes = sv_packet_piece(&send->p, segment);
    record.salt = sv_packet_offset(&send->p, segment);
    record.digest = 0;
    return record;
}

static void append_record(sv_send_t *send, sv_slot_t *slot)
{
    if (send->p.kernel_copy && send->p.x->policy != SV_CONFIG_CHECKSUM_OFF) {
        memcpy(send->record, slot->stage + send->p.bytes, sizeof *send->record); /* the push put it there */
        return;
    }
    sv_record_t record = is_last_segment(send, slot->segment) ? *send->record : segment_record(send, slot->segment);
    record.attempt = (uint8_t)send->p.attempt;
    memcpy(slot->stage + sv_packet_piece(&send->p, slot->segment), &record, sizeof record);
}

/* Some MPIs and networks fail beyond a number of requests or bytes; one message is always allowed. */
bool sv_phase2_caps_allow(const selvage_comm_t *comm, size_t bytes)
{
    if (comm->exchanges->sends_in_flight == 0)
        return true;
    return comm->exchanges->sends_in_flight < (uint64_t)comm->config.requests_max &&
           comm->exchanges->bytes_in_flight + bytes <= comm->config.inflight_bytes;
}

static selvage_status_t send_slot(sv_send_t *send, sv_slot_t *slot, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    selvage_comm_t *comm = p->x->comm;
    size_t bytes = sv_packet_piece(p, slot->segment) + SV_RECORD_BYTES;
    uint8_t *message = slot->stage;
    append_record(send, slot);
    if (send->fault)
        message = sv_fault_message(send, slot, &bytes);
    if (message)
        SV_TRY(sv_wire_send(comm->wire, SV_WIRE_DATA, message, bytes, p->peer->rank, p->wire_tag, &slot->request));
    sv_packet_trace(p, SV_TRACE_D2H, slot->since_ns, now_ns, bytes - SV_RECORD_BYTES);
    slot->state = SV_SLOT_IN_FLIGHT;
    slot->since_ns = now_ns;
    slot->in_flight_bytes = bytes;
    comm->exchanges->sends_in_flight++;
    comm->exchanges->bytes_in_flight += bytes;
    send->next_send++;
    return SELVAGE_SUCCESS;
}

static selvage_status_t send_full_slots(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    while (send->next_send < send->next_stage) {
        sv_slot_t *slot = &p->slots[send->next_send % p->nslots];
        if (!slot_is_full(send, slot, now_ns))
            return SELVAGE_SUCCESS;
        if (!sv_phase2_caps_allow(p->x->comm, sv_packet_piece(p, slot->segment)))
            return SELVAGE_SUCCESS;
        SV_TRY(send_slot(send, slot, now_ns));
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap_slot(sv_send_t *send, sv_slot_t *slot, uint64_t now_ns)
{
    selvage_comm_t *comm = send->p.x->comm;
    SV_TRY(sv_wire_test(comm->wire, &slot->request, NULL));
    sv_packet_trace(&send->p, SV_TRACE_SEND, slot->since_ns, now_ns, slot->in_flight_bytes - SV_RECORD_BYTES);
    slot->state = SV_SLOT_FREE;
    comm->exchanges->sends_in_flight--;
    comm->exchanges->bytes_in_flight -= slot->in_flight_bytes;
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap_slots(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    while (send->reaped < send->next_send) {
        selvage_status_t status = reap_slot(send, &p->slots[send->reaped % p->nslots], now_ns);
        if (status == SELVAGE_IN_PROGRESS)
            return SELVAGE_SUCCESS;
        SV_TRY(status);
        send->reaped++;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase2_reap_in_flight(sv_send_t *send, uint64_t now_ns)
{
    for (uint32_t s = 0; send->outlives_epoch && s < send->p.nslots; s++)
        if (send->p.slots[s].state == SV_SLOT_IN_FLIGHT)
            SV_TRY(reap_slot(send, &send->p.slots[s], now_ns));
    send->outlives_epoch = false;
    return SELVAGE_SUCCESS;
}

/* A new epoch after a resend that outlived its epoch: phases 0 and 1 of this packet are made up for. */
static selvage_status_t begin_after_reap(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    selvage_status_t status = sv_phase2_reap_in_flight(send, now_ns);
    if (status == SELVAGE_IN_PROGRESS)
        return SELVAGE_SUCCESS;
    SV_TRY(status);
    *moved = true;
    SV_TRY(sv_phase0_prepare(send, now_ns));
    return sv_phase1_stage(send, now_ns);
}

/* The receiver has it although it is still leaving: a resend, or a message after its double (a fault). */
static bool is_unneeded(const sv_send_t *send)
{
    return (send->p.attempt > 0 || send->fault) && send->p.peer->verdict_epoch >= send->p.x->epoch;
}

/* The verdict came before this attempt was through. It ends as soon as the device reads the user's buffer no more. */
static selvage_status_t end_attempt(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    bool quiet = sv_phase2_is_ready(send, now_ns);
    for (uint32_t s = 0; s < send->p.nslots && quiet; s++) {
        sv_slot_t *slot = &send->p.slots[s];
        if (slot->state == SV_SLOT_STAGING && !send->p.kernel_copy)
            quiet = sv_slot_is_copied(slot);
        if (slot->state == SV_SLOT_STAGING && quiet)
            slot->state = SV_SLOT_FREE;
        send->outlives_epoch |= slot->state == SV_SLOT_IN_FLIGHT;
    }
    if (!quiet)
        return SELVAGE_SUCCESS;
    send->state = SV_SEND_VERDICT;
    *moved = true;
    return SELVAGE_SUCCESS;
}

/* A newer attempt was asked for while this one is still leaving: let what flies land, then begin again. */
static selvage_status_t restart_attempt(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    SV_TRY(reap_slots(send, now_ns, moved));
    return send->reaped == send->next_send ? sv_recovery_resend(send, now_ns) : SELVAGE_SUCCESS;
}

static bool is_delayed(sv_send_t *send, uint64_t now_ns)
{
    selvage_exchange_t *x = send->p.x;
    if (x->never_send)
        return true;
    if (x->comm->fault.armed && !send->fault_decided)
        sv_fault_decide(send, now_ns);
    return (x->comm->fault.armed && !send->fault_decided) || now_ns < send->delay_until_ns;
}

static selvage_status_t send_staged(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    SV_TRY(send_full_slots(send, now_ns, moved));
    SV_TRY(reap_slots(send, now_ns, moved));
    SV_TRY(sv_phase1_stage(send, now_ns));
    if (send->reaped == send->p.nsegments)
        send->state = SV_SEND_VERDICT;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase2_send(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    if (send->p.route == SELVAGE_ROUTE_STAGED && is_unneeded(send))
        return end_attempt(send, now_ns, moved);
    if (send->outlives_epoch)
        return begin_after_reap(send, now_ns, moved);
    if (is_delayed(send, now_ns))
        return SELVAGE_SUCCESS;
    if (send->p.route == SELVAGE_ROUTE_DIRECT)
        return sv_phase2_send_direct(send, now_ns, moved);
    if (send->p.route != SELVAGE_ROUTE_STAGED)
        return sv_phase2_send_onesided(send, now_ns, moved);
    if (send->wanted_attempt > send->p.attempt)
        return restart_attempt(send, now_ns, moved);
    return send_staged(send, now_ns, moved);
}
