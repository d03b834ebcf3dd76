/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 3, receive: the moment a segment arrives, it goes up, and its verification after it. A message is placed by
 * what its record says, not by the slot it happened to land in: after a lost or doubled message slots and segments no
 * longer go together. Nothing that a record says is believed beyond that; the digest decides.
 */
#include <string.h>

#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"

typedef enum arrival { ARRIVAL_GOOD, ARRIVAL_STALE, ARRIVAL_BAD } arrival_t;

static bool has_segment_arrived(const sv_recv_t *recv, uint32_t segment)
{
    return recv->arrived_segments[segment / 64] >> (segment % 64) & 1;
}

/* Everything of a record that names the packet, but for epoch, attempt, kind and what depends on the segment. */
bool sv_phase3_same_packet(const sv_record_t *a, const sv_record_t *b)
{
    return a->magic == b->magic && a->version == b->version && a->exchange == b->exchange && a->index == b->index &&
           a->tag == b->tag && a->source == b->source && a->destination == b->destination;
}

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

static arrival_t classify_staged(const sv_recv_t *recv, const sv_record_t *record, size_t payload_bytes,
                                 uint32_t *segment)
{
    const sv_packet_t *p = &recv->p;
    if (!sv_phase3_same_packet(record, &p->identity))
        return ARRIVAL_BAD;
    if (record->epoch < p->identity.epoch || (record->epoch == p->identity.epoch && record->attempt < p->attempt))
        return ARRIVAL_STALE;
    if (record->epoch != p->identity.epoch || record->attempt > recv->requested_attempt ||
        !find_segment(p, record, payload_bytes, segment))
        return ARRIVAL_BAD;
    return has_segment_arrived(recv, *segment) ? ARRIVAL_STALE : ARRIVAL_GOOD;
}

/*
 * Without digests nothing is checked: the n-th receive posted takes the n-th message to be the n-th segment. The order
 * in which a poll happens to see them complete says nothing.
 */
static arrival_t take_unchecked(const sv_recv_t *recv, const sv_slot_t *slot, uint32_t *segment)
{
    *segment = slot->segment;
    return slot->segment < recv->p.nsegments && !has_segment_arrived(recv, slot->segment) ? ARRIVAL_GOOD
                                                                                          : ARRIVAL_STALE;
}

static bool is_unchecked(const sv_recv_t *recv)
{
    return recv->p.x->policy == SV_CONFIG_CHECKSUM_OFF;
}

/* Nothing is left for the device to do. */
static void end_unchecked(sv_recv_t *recv)
{
    __atomic_store_n(recv->done, sv_word(recv->p.x->epoch, recv->p.attempt, SV_PULL_GOOD), __ATOMIC_RELAXED);
}

/* A lone segment is verified after its copy; of several one is verified while the next one is copied. */
static void *verify_stream(const sv_packet_t *p)
{
    return p->slots && !p->in_place && p->nsegments == 1 ? p->x->in_stream : p->x->kernel_stream;
}

selvage_status_t sv_phase3_verify(sv_recv_t *recv, const uint8_t *src, uint32_t segment)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    bool last = recv->arrived_count == p->nsegments;
    if (last)
        recv->state = SV_RECV_VERIFYING;
    if (is_unchecked(recv)) {
        end_unchecked(recv);
        return SELVAGE_SUCCESS;
    }
    size_t bytes = sv_packet_piece(p, segment);
    void *stream = verify_stream(p);
    sv_digest_arg_t arg = {.src = src,
                           .bytes = bytes,
                           .first_word = sv_packet_offset(p, segment) / 8,
                           .key = p->key,
                           .scratch = p->scratch,
                           .record = sv_shared_device_address(&x->segment, recv->record),
                           .result = recv->result,
                           .mode = SV_DIGEST_ADD,
                           .identity = p->identity};
    if (last) {
        arg.mode = SV_DIGEST_VERIFY;
        arg.signal = recv->done; /* partner: the acquire in sv_phase5_complete() */
        arg.signal_value = sv_word(x->epoch, p->attempt, SV_PULL_GOOD);
    }
    x->kernel_stream_busy = true;
    return SV_DEVICE_CALL(x->comm->dev, launch, &sv_kernel_digest, &arg, sizeof arg,
                          sv_kernel_blocks(x->comm->dev, bytes), stream);
}

/* Up to the user's buffer: by the next batch of pulls if small, else by the copy engine with the digest after it. */
selvage_status_t sv_phase3_unstage(sv_recv_t *recv, sv_slot_t *slot, uint32_t segment, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    sv_device_t *dev = x->comm->dev;
    uint8_t *dst = recv->buf + sv_packet_offset(p, segment);
    slot->state = SV_SLOT_UNSTAGING;
    slot->segment = segment;
    slot->since_ns = now_ns;
    recv->between_attempts = false;
    recv->arrived_segments[segment / 64] |= UINT64_C(1) << (segment % 64);
    recv->arrived_count++;
    if (p->kernel_copy) {
        recv->state = SV_RECV_VERIFYING;
        if (recv->pull_prelaunched) /* partner: batch_await() of the pull that waits */
            __atomic_store_n(recv->arrived_word, sv_word(x->epoch, p->attempt, 1), __ATOMIC_RELEASE);
        else
            sv_batch_pull_later(recv);
        recv->pull_prelaunched = false;
        return SELVAGE_SUCCESS;
    }
    sv_copy_kind_t kind = p->route == SELVAGE_ROUTE_PEER ? SV_COPY_D2D : SV_COPY_H2D;
    SV_TRY(SV_DEVICE_CALL(dev, copy_async, dst, slot->stage, sv_packet_piece(p, segment), kind, x->in_stream));
    if (p->nsegments > 1) {
        SV_TRY(SV_DEVICE_CALL(dev, event_record, slot->event, x->in_stream));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, x->kernel_stream, slot->event));
    }
    if (!sv_recv_is_single_segment(recv)) /* else the digest after it says so; a word between would cost more than
                                             it */
        SV_TRY(sv_slot_mark(p, slot, x->in_stream));
    return sv_phase3_verify(recv, dst, segment);
}

/* What to do with a message of `bytes` bytes in a slot. */
static selvage_status_t take_message(sv_recv_t *recv, sv_slot_t *slot, size_t bytes, uint64_t now_ns)
{
    sv_record_t record = {0};
    uint32_t segment = 0;
    size_t payload = bytes >= SV_RECORD_BYTES ? bytes - SV_RECORD_BYTES : 0;
    if (bytes >= SV_RECORD_BYTES)
        memcpy(&record, slot->stage + payload, sizeof record);
    arrival_t arrival =
        is_unchecked(recv) ? take_unchecked(recv, slot, &segment) : classify_staged(recv, &record, payload, &segment);
    if (arrival == ARRIVAL_STALE) {
        recv->p.x->comm->stats.stale_discarded++;
        sv_packet_trace(&recv->p, SV_TRACE_STALE, now_ns, 0, record.epoch);
        return SELVAGE_SUCCESS;
    }
    if (arrival == ARRIVAL_BAD)
        return sv_recovery_bad_record(recv, &record, now_ns);
    if (segment + 1 == recv->p.nsegments)
        *recv->record = record;
    return sv_phase3_unstage(recv, slot, segment, now_ns);
}

static selvage_status_t poll_posted_slot(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved)
{
    size_t bytes = 0;
    selvage_status_t status = sv_wire_test(recv->p.x->comm->wire, &slot->request, &bytes);
    if (status == SELVAGE_IN_PROGRESS)
        return SELVAGE_SUCCESS;
    SV_TRY(status);
    *moved = true;
    recv->posted_count--;
    recv->p.moved_ns = now_ns;
    recv->p.peer->heard_ns = now_ns;
    sv_packet_trace(&recv->p, SV_TRACE_RECV, slot->since_ns, now_ns, bytes);
    slot->state = SV_SLOT_FREE;
    return take_message(recv, slot, bytes, now_ns);
}

void sv_phase3_poll_unstaging(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved)
{
    if (recv->p.kernel_copy || sv_recv_is_single_segment(recv) || !sv_slot_is_copied(slot))
        return; /* small and lone ones: phase 5 sees the word of the kernel */
    sv_phase3_slot_unstaged(recv, slot, now_ns);
    *moved = true;
}

void sv_phase3_slot_unstaged(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns)
{
    sv_packet_trace(&recv->p, recv->p.route == SELVAGE_ROUTE_PEER ? SV_TRACE_D2D : SV_TRACE_H2D, slot->since_ns, now_ns,
                    sv_packet_piece(&recv->p, slot->segment));
    slot->state = SV_SLOT_FREE;
}

static selvage_status_t discard_duplicate(sv_recv_t *recv, sv_slot_t *slot)
{
    sv_packet_t *p = &recv->p;
    sv_wire_t *wire = p->x->comm->wire;
    if (slot->state == SV_SLOT_POSTED) {
        selvage_status_t status = sv_wire_test(wire, &slot->request, NULL);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
        p->x->comm->stats.stale_discarded++;
    }
    SV_TRY(sv_wire_recv(wire, SV_WIRE_DATA, slot->stage, p->segment_bytes + SV_RECORD_BYTES, p->peer->rank, p->wire_tag,
                        &slot->request));
    slot->state = SV_SLOT_POSTED;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase3_discard_duplicates(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nrecvs && sv_exchange_state(x) == SV_EXCHANGE_IDLE; i++) {
        sv_recv_t *recv = &x->recvs[i];
        if (recv->p.route == SELVAGE_ROUTE_STAGED && (recv->requested_attempt > 0 || x->comm->config.fault[0]))
            SV_TRY(discard_duplicate(recv, &recv->p.slots[0]));
        if (recv->p.route == SELVAGE_ROUTE_DIRECT && x->comm->config.fault[0])
            SV_TRY(sv_phase3_discard_direct(recv));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase3_receive(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    if (p->route == SELVAGE_ROUTE_DIRECT)
        return sv_phase3_receive_direct(recv, now_ns, moved);
    if (p->route != SELVAGE_ROUTE_STAGED)
        return sv_phase3_receive_onesided(recv, now_ns, moved);
    for (uint32_t s = 0; s < p->nslots; s++) {
        sv_slot_t *slot = &p->slots[s];
        if (slot->state == SV_SLOT_POSTED)
            SV_TRY(poll_posted_slot(recv, slot, now_ns, moved));
        else if (slot->state == SV_SLOT_UNSTAGING)
            sv_phase3_poll_unstaging(recv, slot, now_ns, moved);
    }
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_phase1_post_recv(recv, now_ns));
    return sv_recovery_missing(recv, now_ns);
}
