/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 2 for routes that write into the receiver's memory: as soon as the receiver's word of this epoch gives credit,
 * the copy is enqueued, and behind it on the same stream a kernel that stores the record and releases `arrived`. The
 * host polls the credit and enqueues; it touches no payload.
 */
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

/* Releases `arrived`; with the last segment the record goes first. */
static selvage_status_t signal_arrival(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    bool last = segment + 1 == p->nsegments;
    sv_signal_arg_t arg = {.word = &send->remote->arrived,
                           .value = sv_word(p->x->epoch, p->attempt, segment + 1),
                           .record = last ? (const uint64_t *)(const void *)sv_fault_record(send) : NULL,
                           .record_to = (uint64_t *)(void *)&send->remote->record};
    if (last) /* the record must be there; the copies run beside the digest */
        SV_TRY(SV_DEVICE_CALL(p->x->comm->dev, stream_wait_event, copy_stream(send), send->prepared));
    return SV_DEVICE_CALL(p->x->comm->dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, copy_stream(send));
}

/* A fault. Only the word is doubled: the memory behind it is the receiver's as soon as the first one has arrived. */
static selvage_status_t signal_again(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    sv_signal_arg_t arg = {.word = &send->remote->arrived, .value = sv_word(p->x->epoch, p->attempt, segment + 1)};
    return SV_DEVICE_CALL(p->x->comm->dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, copy_stream(send));
}

/* The copy of one segment, hurt if a fault says so. */
static selvage_status_t copy_segment(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    uint8_t *dst = send->target + (p->direct ? 0 : (segment % p->nslots) * send->target_stride);
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
    if (send->fused)
        return sv_phase0_fused(send, sv_word(p->x->epoch, p->attempt, 1));
    if (segment == 0 && p->x->defer_peer && copy_kind(send) == SV_COPY_PEER)
        SV_TRY(SV_DEVICE_CALL(p->x->comm->dev, stream_wait_event, copy_stream(send), p->x->last_out_event));
    SV_TRY(copy_segment(send, segment));
    SV_TRY(signal_arrival(send, segment));
    return send->fault_kind == SV_FAULT_DUPLICATE ? signal_again(send, segment) : SELVAGE_SUCCESS;
}

/* After every batch of copies: a resend must not rewrite the record while one of them may still read it. */
static selvage_status_t mark_copied(sv_send_t *send)
{
    void *stream = send->fused ? send->p.x->kernel_stream : copy_stream(send);
    if (send->next_stage == send->p.nsegments)
        send->state = SV_SEND_VERDICT;
    return SV_DEVICE_CALL(send->p.x->comm->dev, event_record, send->copied, stream);
}

/* The receiver wants a newer attempt. Nothing sent yet: it simply gets that number. */
static selvage_status_t adopt_attempt(sv_send_t *send, unsigned attempt, uint64_t now_ns)
{
    if (send->next_stage == 0) {
        send->p.attempt = send->wanted_attempt = attempt;
        return SELVAGE_SUCCESS;
    }
    selvage_status_t status = SV_DEVICE_CALL(send->p.x->comm->dev, event_query, send->copied);
    if (status != SELVAGE_SUCCESS)
        return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    send->wanted_attempt = attempt;
    return sv_recovery_resend(send, now_ns);
}

selvage_status_t sv_phase2_send_onesided(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    /* Partner: the releases in give_credit() of the receiver and its signal kernel. */
    uint64_t word = __atomic_load_n(&send->words->credit, __ATOMIC_ACQUIRE);
    if (sv_word_epoch(word) != (uint32_t)p->x->epoch)
        return SELVAGE_SUCCESS;
    if (sv_word_attempt(word) > p->attempt)
        return adopt_attempt(send, sv_word_attempt(word), now_ns);
    if (sv_word_attempt(word) != p->attempt || send->state != SV_SEND_MOVING)
        return SELVAGE_SUCCESS;
    uint32_t from = send->next_stage;
    while (send->next_stage < p->nsegments && send->next_stage < sv_word_count(word))
        SV_TRY(move_segment(send, send->next_stage++));
    if (send->next_stage == from)
        return SELVAGE_SUCCESS;
    *moved = true;
    p->moved_ns = now_ns;
    sv_packet_trace(p, SV_TRACE_READY, now_ns, 0, send->next_stage);
    return mark_copied(send);
}
