/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packets do alike on every route: making digest and record, coming up from a slot, verification, and the two
 * ends. See route.h for the phases. Engine thread; no allocation, lock or log.
 */
#include <string.h>

#include "comm/comm_control.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

/* --- sends -------------------------------------------------------------------------------------------------------- */

void sv_packet_begin_attempt(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    p->identity.epoch = p->x->epoch;
    p->identity.attempt = (uint8_t)p->attempt;
    p->key = sv_digest_key(&p->identity);
    p->started_ns = p->moved_ns = now_ns;
    send->ready_seen = p->x->policy == SV_CONFIG_CHECKSUM_OFF;
    if (send->ready_seen)
        *send->record = p->identity;
}

selvage_status_t sv_packet_launch_digest(sv_send_t *send, sv_record_t *record, uint64_t *word)
{
    sv_packet_t *p = &send->p;
    sv_device_t *dev = p->x->comm->dev;
    sv_digest_arg_t arg = {.src = send->buf,
                           .bytes = p->bytes,
                           .key = p->key,
                           .scratch = p->scratch,
                           .record = (uint8_t *)record,
                           .signal = word,
                           .signal_value = sv_word(p->x->epoch, p->attempt, 1),
                           .mode = SV_DIGEST_PREPARE,
                           .identity = p->identity};
    p->x->enqueued.kernel_stream_busy = true;
    SV_TRY(sv_exchange_order(p->x)); /* what is sent again may have been left to the caller's stream at first */
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &arg, sizeof arg, sv_kernel_blocks(dev, p->bytes),
                          p->x->streams.kernel);
}

bool sv_packet_is_ready(sv_send_t *send, uint64_t now_ns)
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

bool sv_packet_may_send(const selvage_comm_t *comm, size_t bytes)
{
    if (comm->exchanges->sends_in_flight == 0)
        return true;
    return comm->exchanges->sends_in_flight < (uint64_t)comm->config.requests_max &&
           comm->exchanges->bytes_in_flight + bytes <= comm->config.inflight_bytes;
}

void sv_packet_note_in_flight(sv_packet_t *p, sv_slot_t *slot, size_t bytes, uint64_t now_ns)
{
    slot->state = SV_SLOT_IN_FLIGHT;
    slot->since_ns = now_ns;
    slot->in_flight_bytes = bytes;
    p->x->comm->exchanges->sends_in_flight++;
    p->x->comm->exchanges->bytes_in_flight += bytes;
}

void sv_packet_note_left(sv_packet_t *p, const sv_slot_t *slot)
{
    p->x->comm->exchanges->sends_in_flight--;
    p->x->comm->exchanges->bytes_in_flight -= slot->in_flight_bytes;
}

selvage_status_t sv_packet_drain_messages(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    const selvage_exchange_t *x = send->p.x;
    if (x->policy == SV_CONFIG_CHECKSUM_OFF || send->p.peer->verdict_epoch >= x->epoch) {
        send->state = SV_SEND_IDLE;
        *moved = true;
        return SELVAGE_SUCCESS;
    }
    return send->wanted_attempt > send->p.attempt ? sv_recovery_resend(send, now_ns) : sv_recovery_query(send, now_ns);
}

/* --- receives ----------------------------------------------------------------------------------------------------- */

bool sv_packet_is_same(const sv_record_t *a, const sv_record_t *b)
{
    return a->magic == b->magic && a->version == b->version && a->exchange == b->exchange && a->index == b->index &&
           a->tag == b->tag && a->source == b->source && a->destination == b->destination;
}

selvage_status_t sv_packet_verify(sv_recv_t *recv, const uint8_t *src, uint32_t segment)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    bool last = recv->arrived_count == p->nsegments;
    if (last)
        recv->state = SV_RECV_VERIFYING;
    if (x->policy == SV_CONFIG_CHECKSUM_OFF) { /* nothing is left for the device to do */
        __atomic_store_n(recv->done, sv_word(x->epoch, p->attempt, SV_PULL_GOOD), __ATOMIC_RELAXED);
        return SELVAGE_SUCCESS;
    }
    size_t bytes = sv_packet_piece(p, segment);
    /* A lone segment is verified after its copy; of several one is verified while the next one is copied. */
    void *stream = p->slots && !p->in_place && p->nsegments == 1 ? x->streams.in : x->streams.kernel;
    sv_digest_arg_t arg = {.src = src,
                           .bytes = bytes,
                           .first_word = sv_packet_offset(p, segment) / 8,
                           .key = p->key,
                           .scratch = p->scratch,
                           .record = sv_shared_device_address(&x->memory.segment, recv->record),
                           .result = recv->result,
                           .mode = SV_DIGEST_ADD,
                           .identity = p->identity};
    if (last) {
        arg.mode = SV_DIGEST_VERIFY;
        arg.signal = recv->done; /* partner: the acquire in sv_packet_land() */
        arg.signal_value = sv_word(x->epoch, p->attempt, SV_PULL_GOOD);
    }
    x->enqueued.kernel_stream_busy = true;
    return SV_DEVICE_CALL(x->comm->dev, launch, &sv_kernel_digest, &arg, sizeof arg,
                          sv_kernel_blocks(x->comm->dev, bytes), stream);
}

/* Up to the user's buffer: by the next batch of pulls if small, else by the copy engine with the digest after it. */
selvage_status_t sv_packet_unstage(sv_recv_t *recv, sv_slot_t *slot, uint32_t segment, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    sv_device_t *dev = x->comm->dev;
    uint8_t *dst = recv->buf + sv_packet_offset(p, segment);
    slot->segment = segment;
    slot->since_ns = now_ns;
    recv->between_attempts = false;
    recv->arrived_segments[segment / 64] |= UINT64_C(1) << (segment % 64);
    recv->arrived_count++;
    if (p->kernel_copy) {
        slot->state = SV_SLOT_UNSTAGING;
        recv->state = SV_RECV_VERIFYING;
        if (recv->pull_prelaunched) /* partner: batch_await() of the pull that waits */
            __atomic_store_n(recv->arrived_word, sv_word(x->epoch, p->attempt, 1), __ATOMIC_RELEASE);
        else
            sv_batch_pull_later(recv);
        recv->pull_prelaunched = false;
        return SELVAGE_SUCCESS;
    }
    const sv_copy_lane_t lane = sv_exchange_lane(x, x->streams.in, p->nsegments > 1);
    SV_TRY(sv_slot_unstage(slot, &lane, dst, sv_packet_piece(p, segment), p->ops->up_kind));
    if (p->nsegments > 1) {
        SV_TRY(SV_DEVICE_CALL(dev, event_record, slot->event, x->streams.in));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, x->streams.kernel, slot->event));
    }
    if (!sv_recv_is_single_segment(recv)) /* else the digest after it says so; a word between would cost more */
        SV_TRY(sv_slot_mark(slot, &lane));
    return sv_packet_verify(recv, dst, segment);
}

/* The copy out of a slot is through. */
static void free_unstaged(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns)
{
    sv_packet_trace(&recv->p, recv->p.ops->up_kind == SV_COPY_D2D ? SV_TRACE_D2D : SV_TRACE_H2D, slot->since_ns, now_ns,
                    sv_packet_piece(&recv->p, slot->segment));
    slot->state = SV_SLOT_FREE;
}

void sv_packet_poll_unstaging(sv_recv_t *recv, sv_slot_t *slot, uint64_t now_ns, bool *moved)
{
    if (recv->p.kernel_copy || sv_recv_is_single_segment(recv) || !sv_slot_is_copied(slot))
        return; /* small and lone ones: phase 5 sees the word of the kernel */
    free_unstaged(recv, slot, now_ns);
    *moved = true;
}

selvage_status_t sv_packet_land(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    const bool off = p->x->policy == SV_CONFIG_CHECKSUM_OFF, single = sv_recv_is_single_segment(recv);
    selvage_stats_t *stats = &p->x->comm->stats;
    /* Partner: the release of the pull kernel, or of the digest kernel after the last segment. */
    uint64_t word = __atomic_load_n(recv->done, __ATOMIC_ACQUIRE);
    if (!sv_word_matches(word, p->x->epoch, p->attempt))
        return SELVAGE_SUCCESS;
    /* Slots whose copies the device has not reported yet are left to phase 3 of the next poll. */
    for (uint32_t s = 0; p->slots && s < p->nslots && !p->kernel_copy && !single; s++)
        if (p->slots[s].state == SV_SLOT_UNSTAGING)
            return SELVAGE_SUCCESS;
    *moved = true;
    if (p->pulled && sv_word_count(word) == SV_PULL_ABSENT) {
        /* A pull that was launched early gave up waiting. By now the packet may lie here all the same. */
        __atomic_store_n(recv->done, 0, __ATOMIC_RELAXED); /* seen: it must not be taken for the next pull's word */
        recv->launched = 0;
        if (recv->arrived_count < p->nsegments)
            recv->state = SV_RECV_WAITING;
        else
            sv_batch_pull_later(recv);
        return SELVAGE_SUCCESS;
    }
    if ((p->kernel_copy && p->slots) || single)
        free_unstaged(recv, &p->slots[0], now_ns);
    if (!off && !(p->pulled ? sv_word_count(word) == SV_PULL_GOOD : recv->result->verified))
        return sv_recovery_bad_digest(recv, now_ns);
    recv->state = SV_RECV_IDLE;
    recv->took_ns = now_ns - p->started_ns;
    stats->packets_received++;
    stats->bytes_received += p->bytes;
    sv_packet_trace(p, SV_TRACE_VERIFY, p->moved_ns, now_ns, p->bytes);
    /* Without digests there are no verdicts; and where the sender looks at words, its route stores it there. */
    if (!off && p->ops->messaged && --p->peer->staged_left == 0) {
        p->peer->good_epoch = p->x->epoch;
        p->peer->verdict_due = true; /* sent by sv_exchange_send_verdicts() */
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_send_verdicts(selvage_exchange_t *x, bool *moved)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->verdict_due)
            continue;
        sv_wire_control_t message = {.word = {SV_CONTROL_VERDICT, peer->exchange_id, peer->good_epoch}};
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
