/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host-staged packet, from one user's buffer to another's: the route that needs nothing but an MPI of host memory.
 *
 *   sender                                                             receiver
 *   user buffer --copy down--> staging slot --message of the wire--> staging slot --copy up--> user buffer
 *
 * A long packet goes in segments through a few slots, a small one whole, by kernels. Every message ends in a record of
 * 64 bytes that says which segment it is; that of the last one has the packet's digest. The verdict on all packets of
 * an epoch comes back as one control message. What is lost or damaged is asked for again (pipe_recovery.c).
 */
#include <string.h>

#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

/* --- phases 0 and 1: prepare (digest and record), post (copies down, and receives) -------------------------------- */

/* Copies down into free slots, each with a word after it. What kernels move was pushed there by phase 0. */
static selvage_status_t copy_to_slots(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    while (send->next_stage < p->nsegments && send->next_stage - send->reaped < p->nslots &&
           (p->kernel_copy || sv_packet_may_copy(p->x))) {
        const uint32_t segment = send->next_stage;
        sv_slot_t *slot = &p->slots[segment % p->nslots];
        if (p->kernel_copy) {
            slot->state = SV_SLOT_STAGING;
        } else {
            const sv_copy_lane_t lane = sv_exchange_lane(p->x, p->x->streams.out, p->nsegments > 1);
            SV_TRY(sv_slot_stage(slot, &lane, send->buf + sv_packet_offset(p, segment), sv_packet_piece(p, segment)));
        }
        slot->segment = send->next_stage++;
        slot->since_ns = now_ns;
    }
    return SELVAGE_SUCCESS;
}

/* Keeps as many receives posted as segments are missing, as far as slots are free. */
static selvage_status_t staged_post(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    for (uint32_t s = 0; s < p->nslots && recv->arrived_count + recv->posted_count < p->nsegments; s++) {
        sv_slot_t *slot = &p->slots[s];
        if (slot->state != SV_SLOT_FREE)
            continue;
        const sv_wire_path_t path = sv_packet_path(p, p->wire_tag);
        SV_TRY(sv_slot_post(slot, &path, slot->stage, p->segment_bytes + SV_RECORD_BYTES));
        slot->segment = recv->arrived_count + recv->posted_count; /* messages meet receives in order of posting */
        slot->since_ns = now_ns;
        recv->posted_count++;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t staged_begin(sv_send_t *send, uint64_t now_ns)
{
    const sv_packet_t *p = &send->p;

    /* Phase 0, prepare: digest and record, or for a small packet the push that brings all of it to its slot. */
    sv_packet_begin_attempt(send, now_ns);
    if (p->kernel_copy)
        send->ready_seen = false; /* the push stores the payload, too */
    if (!sv_packet_is_left_to_push(send)) {
        if (p->kernel_copy)
            sv_batch_push_later(send);
        else if (p->x->policy != SV_CONFIG_CHECKSUM_OFF) /* partner: the acquire in sv_packet_is_ready() */
            SV_TRY(sv_packet_launch_digest(send, send->record, send->ready));
    }

    /* Phase 1, post. */
    return copy_to_slots(send, now_ns);
}

/* --- phase 2, send: what is in host memory goes to the wire ------------------------------------------------------- */

static bool is_last_segment(const sv_send_t *send, uint32_t segment)
{
    return segment + 1 == send->p.nsegments;
}

/* The message of a segment: its bytes and a record after them, which the last one's is the packet's. */
static selvage_status_t send_slot(sv_send_t *send, sv_slot_t *slot, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    const sv_wire_path_t path = sv_packet_path(p, p->wire_tag);
    const size_t payload_bytes = sv_packet_piece(p, slot->segment);
    size_t bytes = payload_bytes + SV_RECORD_BYTES;
    uint8_t *message = slot->stage;
    if (p->kernel_copy && p->x->policy != SV_CONFIG_CHECKSUM_OFF) {
        memcpy(send->record, slot->stage + p->bytes, sizeof *send->record); /* the push put it there */
    } else {
        const bool last = is_last_segment(send, slot->segment);
        sv_record_t record = last ? *send->record : p->identity; /* the packet's may be in the making still */
        if (!last) { /* it only says which segment it is */
            record.kind = SV_RECORD_SEGMENT;
            record.bytes = payload_bytes;
            record.salt = sv_packet_offset(p, slot->segment);
            record.digest = 0;
        }
        record.attempt = (uint8_t)p->attempt;
        memcpy(slot->stage + payload_bytes, &record, sizeof record);
    }
    if (send->fault)
        message = sv_fault_message(send, slot, &bytes);
    if (message)
        SV_TRY(sv_slot_send(slot, &path, message, bytes));
    sv_packet_trace(p, SV_TRACE_D2H, slot->since_ns, now_ns, bytes - SV_RECORD_BYTES);
    sv_packet_note_in_flight(p, slot, bytes, now_ns);
    send->next_send++;
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap_slot(sv_send_t *send, sv_slot_t *slot, uint64_t now_ns)
{
    SV_TRY(sv_slot_test(slot, send->p.x->comm->wire, NULL));
    sv_packet_trace(&send->p, SV_TRACE_SEND, slot->since_ns, now_ns, slot->in_flight_bytes - SV_RECORD_BYTES);
    sv_packet_note_left(&send->p, slot);
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

selvage_status_t sv_staged_reap_in_flight(sv_send_t *send, uint64_t now_ns)
{
    for (uint32_t s = 0; send->outlives_epoch && s < send->p.nslots; s++)
        if (send->p.slots[s].state == SV_SLOT_IN_FLIGHT)
            SV_TRY(reap_slot(send, &send->p.slots[s], now_ns));
    send->outlives_epoch = false;
    return SELVAGE_SUCCESS;
}

/*
 * Whether an attempt that is still leaving may be begun again: what flies has landed, and what kernels bring has come
 * to its slot. The push of start is on the caller's stream, and the next one on another. If it came later, it would
 * store its record over the newer one, and over the word that is waited for one that nobody waits for any more.
 */
static bool is_attempt_quiet(sv_send_t *send, uint64_t now_ns)
{
    return send->reaped == send->next_send && (!send->p.kernel_copy || sv_packet_is_ready(send, now_ns));
}

/* The receiver has it although it is still leaving: a resend, or a message after its double (a fault). */
static bool is_unneeded(const sv_send_t *send)
{
    return (send->p.attempt > 0 || send->fault) && send->p.peer->verdict_epoch >= send->p.x->epoch;
}

bool sv_staged_is_settling(const sv_send_t *send)
{
    return is_unneeded(send) || send->outlives_epoch;
}

/* The verdict came before this attempt was through. It ends as soon as the device reads the user's buffer no more. */
static selvage_status_t end_attempt(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    bool quiet = sv_packet_is_ready(send, now_ns);
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

static selvage_status_t staged_send(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    if (is_unneeded(send))
        return end_attempt(send, now_ns, moved);
    if (send->outlives_epoch) {
        /* A new epoch after a resend that outlived its epoch: phases 0 and 1 of this packet are made up for. */
        selvage_status_t status = sv_staged_reap_in_flight(send, now_ns);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
        *moved = true;
        return p->ops->begin(send, now_ns);
    }
    if (send->wanted_attempt > p->attempt) { /* a newer one was asked for while this one is still leaving */
        SV_TRY(reap_slots(send, now_ns, moved));
        return is_attempt_quiet(send, now_ns) ? sv_recovery_resend(send, now_ns) : SELVAGE_SUCCESS;
    }

    /* Segments leave in order, each as soon as it is in host memory; the last one, with the record, once it is, too. */
    while (send->next_send < send->next_stage) {
        sv_slot_t *slot = &p->slots[send->next_send % p->nslots];
        const bool needs_record = p->kernel_copy || is_last_segment(send, slot->segment);
        if ((needs_record && !sv_packet_is_ready(send, now_ns)) || (!p->kernel_copy && !sv_slot_is_copied(slot)))
            break;
        if (!sv_packet_may_send(p->x->comm, sv_packet_piece(p, slot->segment)))
            break;
        SV_TRY(send_slot(send, slot, now_ns));
        *moved = true;
    }
    SV_TRY(reap_slots(send, now_ns, moved));
    SV_TRY(copy_to_slots(send, now_ns)); /* phase 1, for the slots that are free again */
    if (send->reaped == p->nsegments)
        send->state = SV_SEND_VERDICT;
    return SELVAGE_SUCCESS;
}

/* --- phase 3, receive: a message is placed by its record, goes up, and is verified -------------------------------- */

/* Which segment a record of this packet belongs to; false if it makes no sense. */
static bool find_segment(const sv_packet_t *p, const sv_record_t *record, size_t payload_bytes, uint32_t *segment)
{
    if (record->kind == SV_RECORD_PACKET) {
        *segment = p->nsegments - 1;
        return record->bytes == p->bytes && record->salt == p->identity.salt &&
               payload_bytes == sv_packet_piece(p, *segment);
    }
    if (record->kind != SV_RECORD_SEGMENT || p->segment_bytes == 0 || record->salt % p->segment_bytes)
        return false;
    uint64_t number = record->salt / p->segment_bytes;
    *segment = (uint32_t)number;
    return number + 1 < p->nsegments && record->bytes == payload_bytes && payload_bytes == p->segment_bytes &&
           record->digest == 0;
}

/*
 * What to do with a message of so many bytes in a slot. It is placed by what its record says, not by the slot it
 * happened to land in: after a lost or doubled message slots and segments no longer go together. Nothing that a record
 * says is believed beyond that; the digest decides.
 */
static selvage_status_t take_message(sv_recv_t *recv, sv_slot_t *slot, size_t bytes, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    sv_record_t record = {0};
    uint32_t segment = slot->segment;
    size_t payload = bytes >= SV_RECORD_BYTES ? bytes - SV_RECORD_BYTES : 0;
    if (bytes >= SV_RECORD_BYTES)
        memcpy(&record, slot->stage + payload, sizeof record);
    bool stale, bad = false;
    if (p->x->policy == SV_CONFIG_CHECKSUM_OFF) {
        /* Nothing is checked: the n-th receive posted takes the n-th message to be the n-th segment. The order in which
           a poll happens to see them complete says nothing. */
        stale = segment >= p->nsegments;
    } else {
        const bool same = sv_packet_is_same(&record, &p->identity), current = record.epoch == p->identity.epoch;
        stale = same && (record.epoch < p->identity.epoch || (current && record.attempt < p->attempt));
        bad = !stale && (!same || !current || record.attempt > recv->requested_attempt ||
                         !find_segment(p, &record, payload, &segment));
    }
    if (bad)
        return sv_recovery_bad_record(recv, &record, now_ns);
    if (stale || (recv->arrived_segments[segment / 64] >> (segment % 64) & 1)) { /* or it is here already */
        p->x->comm->stats.stale_discarded++;
        sv_packet_trace(p, SV_TRACE_STALE, now_ns, 0, record.epoch);
        return SELVAGE_SUCCESS;
    }
    if (segment + 1 == p->nsegments)
        *recv->record = record;
    return sv_packet_unstage(recv, slot, segment, now_ns);
}

static selvage_status_t staged_receive(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    for (uint32_t s = 0; s < p->nslots; s++) {
        sv_slot_t *slot = &p->slots[s];
        if (slot->state == SV_SLOT_UNSTAGING)
            sv_packet_poll_unstaging(recv, slot, now_ns, moved);
        if (slot->state != SV_SLOT_POSTED)
            continue;
        size_t bytes = 0;
        selvage_status_t status = sv_slot_test(slot, p->x->comm->wire, &bytes);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        *moved = true;
        recv->posted_count--;
        p->moved_ns = p->peer->heard_ns = now_ns;
        sv_packet_trace(p, SV_TRACE_RECV, slot->since_ns, now_ns, bytes);
        SV_TRY(take_message(recv, slot, bytes, now_ns));
    }
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(staged_post(recv, now_ns));
    return sv_recovery_request_if_missing(recv, now_ns);
}

/* --- phase 4, drain: sv_packet_drain_messages(); a send that has left waits for its verdict ----------------------- */
/* --- phase 5, land: sv_packet_land(); the verification is through, and the verdict goes out ----------------------- */
/* --- phase 6, join: sv_exchange_join(), once every packet of the exchange is through ------------------------------ */

/* --- the end ------------------------------------------------------------------------------------------------------ */

static selvage_status_t staged_discard_duplicate(sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    sv_slot_t *slot = &p->slots[0];
    const sv_wire_path_t path = sv_packet_path(p, p->wire_tag);
    if (recv->requested_attempt == 0 && !p->x->comm->config.fault[0])
        return SELVAGE_SUCCESS; /* nothing of this packet can be there twice */
    if (slot->state == SV_SLOT_POSTED) {
        selvage_status_t status = sv_slot_test(slot, path.wire, NULL);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
        p->x->comm->stats.stale_discarded++;
    }
    return sv_slot_post(slot, &path, slot->stage, p->segment_bytes + SV_RECORD_BYTES);
}

const sv_route_ops_t sv_route_staged = {
    .through_host = true,
    .own_slots = true,
    .messaged = true,
    .takes_any_attempt = true,
    .up_kind = SV_COPY_H2D,
    .begin = staged_begin,
    .post = staged_post,
    .send = staged_send,
    .receive = staged_receive,
    .drain = sv_packet_drain_messages,
    .land = sv_packet_land,
    .discard_duplicate = staged_discard_duplicate,
};
