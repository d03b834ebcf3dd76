/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 2 for routes that write into the receiver's memory: as soon as the receiver's word gives leave, small packets
 * join the next batch of pushes; for others the copy is enqueued, and after it on the same stream the release of
 * `arrived`. The host polls the credit and enqueues; it touches no payload.
 */
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"

static void *copy_stream(const sv_send_t *send)
{
    return send->p.route == SELVAGE_ROUTE_SHARED ? send->p.x->out_stream : send->p.x->peer_stream;
}

static sv_copy_kind_t copy_kind(const sv_send_t *send)
{
    switch (send->p.route) {
    case SELVAGE_ROUTE_SHARED: return SV_COPY_D2H;
    case SELVAGE_ROUTE_SELF: return SV_COPY_D2D;
    default: return SV_COPY_PEER;
    }
}

static uint8_t *device_record(const sv_send_t *send, uint8_t *slot)
{
    return send->device_line ? send->device_line : slot + sv_commit_trailer(&send->p);
}

/* The slot of this epoch for packets that kernels move, else that of the segment; or its place in the buffer. */
static uint8_t *target_slot(const sv_send_t *send, uint32_t segment)
{
    const sv_packet_t *p = &send->p;
    uint64_t turn = p->kernel_copy ? p->x->epoch : segment;
    return send->target + (p->in_place ? sv_packet_offset(p, segment) : (turn % p->nslots) * send->target_stride);
}

/*
 * A fault: the record may have been corrupted on the way, so it goes along with the word. Small packets on `peer` have
 * their record and a second word after the payload.
 */
static selvage_status_t signal_with_record(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    bool last = segment + 1 == p->nsegments, device_line = sv_batch_has_device_record(p);
    uint8_t *slot = target_slot(send, segment);
    sv_signal_arg_t arg = {.word = &send->remote->arrived, .value = sv_word(p->x->epoch, p->attempt, segment + 1)};
    if (last) {
        arg.record = (const uint64_t *)(const void *)sv_fault_record(send);
        arg.record_to =
            (uint64_t *)(void *)(device_line ? device_record(send, slot) : (uint8_t *)&send->remote->record);
        arg.second =
            device_line ? arg.record_to + sizeof(sv_record_t) / sizeof *arg.record_to : &send->remote->recorded;
    }
    return SV_DEVICE_CALL(p->x->comm->dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, copy_stream(send));
}

/* Releases `arrived`. The record comes by itself; see address_record() in phase0_prepare.c. */
static selvage_status_t signal_arrival(sv_send_t *send, uint32_t segment)
{
    const sv_packet_t *p = &send->p;
    if (send->fault)
        return signal_with_record(send, segment);
    return sv_signal_after(p->x, copy_stream(send), &send->remote->arrived,
                           sv_word(p->x->epoch, p->attempt, segment + 1), p->nsegments > 1);
}

/* A fault. Only the word is doubled: the memory after it is the receiver's as soon as the first one has arrived. */
static selvage_status_t signal_again(sv_send_t *send, uint32_t segment)
{
    const sv_packet_t *p = &send->p;
    return SV_DEVICE_CALL(p->x->comm->dev, signal_async, &send->remote->arrived,
                          sv_word(p->x->epoch, p->attempt, segment + 1), copy_stream(send));
}

/* The copy of one segment, corrupted if a fault says so. */
static selvage_status_t copy_segment(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    uint8_t *dst = target_slot(send, segment);
    const uint8_t *src = send->buf + sv_packet_offset(p, segment);
    size_t bytes = sv_packet_piece(p, segment);
    if (send->fault)
        return sv_fault_copy(send, segment, dst, src, bytes, copy_kind(send), copy_stream(send));
    return SV_DEVICE_CALL(p->x->comm->dev, copy_async, dst, src, bytes, copy_kind(send), copy_stream(send));
}

static selvage_status_t move_segment(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    if (send->silent)
        return SELVAGE_SUCCESS;
    if (segment == 0 && p->x->defer_peer && copy_kind(send) == SV_COPY_PEER)
        SV_TRY(SV_DEVICE_CALL(p->x->comm->dev, stream_wait_event, copy_stream(send), p->x->last_out_event));
    SV_TRY(copy_segment(send, segment));
    SV_TRY(signal_arrival(send, segment));
    return send->fault_kind == SV_FAULT_DUPLICATE ? signal_again(send, segment) : SELVAGE_SUCCESS;
}

/* After every batch of copies: when they have read the user's buffer, which a resend waits for. */
static selvage_status_t mark_sent(sv_send_t *send)
{
    const sv_packet_t *p = &send->p;
    if (send->next_stage == p->nsegments)
        send->state = SV_SEND_VERDICT;
    /* Partner: the acquire in sv_phase2_is_sent(). */
    return sv_signal_after(p->x, copy_stream(send), send->sent, sv_word(p->x->epoch, p->attempt, send->next_stage),
                           p->nsegments > 1);
}

bool sv_phase2_is_sent(const sv_send_t *send)
{
    /* Partners: mark_sent(), and the push kernel. */
    return __atomic_load_n(send->sent, __ATOMIC_ACQUIRE) ==
           sv_word(send->p.x->epoch, send->p.attempt, send->next_stage);
}

/* The receiver wants a newer attempt. Nothing sent yet: it simply gets that number. */
static selvage_status_t adopt_attempt(sv_send_t *send, unsigned attempt, uint64_t now_ns)
{
    if (send->next_stage > 0 && !sv_phase2_is_sent(send))
        return SELVAGE_SUCCESS;
    send->wanted_attempt = attempt;
    if (send->next_stage > 0)
        return sv_recovery_resend(send, now_ns);
    send->p.attempt = attempt;
    return sv_phase0_prepare(send, now_ns);
}

/* Whether a fault corrupts this attempt in a way that needs the long way: digest, copy, signal one by one. */
static bool is_corrupted(const sv_send_t *send)
{
    return send->fault && send->fault_kind != SV_FAULT_NONE && send->fault_kind != SV_FAULT_DELAY;
}

static selvage_status_t send_segments(sv_send_t *send, uint32_t credit)
{
    sv_packet_t *p = &send->p;
    if (p->kernel_copy && !is_corrupted(send)) {
        if (send->fault)
            SV_TRY(sv_fault_keep(send));
        send->next_stage = 1;
        send->state = SV_SEND_VERDICT;
        sv_batch_push_later(send);
        return SELVAGE_SUCCESS;
    }
    const uint32_t before = send->next_stage;
    SV_TRY(sv_exchange_order(p->x));
    while (send->next_stage < p->nsegments && send->next_stage < credit && sv_phase1_may_copy(p->x))
        SV_TRY(move_segment(send, send->next_stage++));
    return send->next_stage > before ? mark_sent(send) : SELVAGE_SUCCESS;
}

/* How many segments the receiver lets through in this attempt: 0 for none (more). */
static uint32_t credit_of(const sv_send_t *send, uint64_t word)
{
    const sv_packet_t *p = &send->p;
    if (p->kernel_copy && !p->in_place && sv_word_ahead(word, p->x->epoch) > 0)
        return 1;
    const uint32_t count = sv_word_matches(word, p->x->epoch, p->attempt) ? sv_word_count(word) : 0;
    return count < p->nsegments ? count : p->nsegments;
}

selvage_status_t sv_phase2_send_onesided(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    /* Partner: the releases in grant_credit() of the receiver, of its stream, and of its pull kernel. */
    uint64_t word = __atomic_load_n(&send->words->credit, __ATOMIC_ACQUIRE);
    if (sv_word_ahead(word, p->x->epoch) == 0 && sv_word_attempt(word) > p->attempt)
        return adopt_attempt(send, sv_word_attempt(word), now_ns);
    uint32_t credit = credit_of(send, word);
    if (send->state != SV_SEND_MOVING || send->next_stage >= credit || send->next_stage >= p->nsegments)
        return SELVAGE_SUCCESS;
    *moved = true;
    p->moved_ns = now_ns;
    SV_TRY(send_segments(send, credit));
    sv_packet_trace(p, SV_TRACE_READY, now_ns, 0, send->next_stage);
    return SELVAGE_SUCCESS;
}
