/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 1, post: every receive into its staging slots, "ready" to one-sided senders, and the copies of staged packets
 * to the host, each segment with its own event. Also called later, whenever a slot of a long packet is free again.
 */
#include "base/base_clock.h"
#include "pipeline/pipe_phases.h"

/* Keeps as many receives posted as segments are missing, as far as slots are free. */
static selvage_status_t post_free_slots(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    for (uint32_t s = 0; s < p->nslots && recv->arrived_count + recv->posted_count < p->nsegments; s++) {
        sv_slot_t *slot = &p->slots[s];
        if (slot->state != SV_SLOT_FREE)
            continue;
        SV_TRY(sv_wire_recv(p->x->comm->wire, SV_WIRE_DATA, slot->stage, p->segment_bytes + SV_RECORD_BYTES,
                            p->peer->rank, p->wire_tag, &slot->request));
        slot->state = SV_SLOT_POSTED;
        slot->segment = recv->arrived_count + recv->posted_count; /* messages meet receives in order of posting */
        slot->since_ns = now_ns;
        recv->posted_count++;
    }
    return SELVAGE_SUCCESS;
}

/* Slots that take turns: the first epochs have leave from the beginning, later ones by the pull that emptied theirs. */
static bool slot_word_of(const sv_recv_t *recv, uint64_t *word)
{
    const selvage_exchange_t *x = recv->p.x;
    *word = recv->requested_attempt ? sv_word(x->epoch, recv->requested_attempt, 1) : sv_word(recv->p.nslots, 0, 1);
    return recv->requested_attempt || x->epoch == 1;
}

/*
 * The sender may write once it sees the word. A buffer of the user's is ready when the work before start is done, so
 * the word follows it on the stream; receive slots are Selvage's own and ready at once, and so is the buffer of a rank
 * that sends to itself, because the copy is ordered after the same event.
 */
static selvage_status_t grant_credit(sv_recv_t *recv)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    uint64_t word = sv_word(x->epoch, recv->requested_attempt, recv->consumed + p->nslots);
    if (p->in_place && p->route != SELVAGE_ROUTE_SELF && recv->requested_attempt == 0)
        return SV_DEVICE_CALL(x->comm->dev, signal_async,
                              sv_shared_device_address(&p->peer->segment, &recv->remote->credit), word,
                              x->in_start ? x->caller_stream : x->kernel_stream);
    if (p->kernel_copy && !p->in_place && !slot_word_of(recv, &word))
        return SELVAGE_SUCCESS;
    /* Partners: the acquire in sv_phase2_send_onesided(), and batch_await() of a push that waits. */
    __atomic_store_n(&recv->remote->credit, word, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_phase1_post_recv(sv_recv_t *recv, uint64_t now_ns)
{
    if (recv->p.route == SELVAGE_ROUTE_STAGED)
        return post_free_slots(recv, now_ns);
    if (recv->p.route == SELVAGE_ROUTE_DIRECT)
        return sv_phase1_post_direct(recv, now_ns);
    return grant_credit(recv);
}

static selvage_status_t stage_segment(sv_send_t *send, sv_slot_t *slot, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    selvage_exchange_t *x = p->x;
    if (p->kernel_copy)
        return SELVAGE_SUCCESS; /* phase 0 pushes it there; see slot_is_full() in phase2_send.c */
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, copy_async, slot->stage, send->buf + sv_packet_offset(p, segment),
                          sv_packet_piece(p, segment), SV_COPY_D2H, x->out_stream));
    return sv_slot_mark(p, slot, x->out_stream);
}

selvage_status_t sv_phase1_stage(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    while (send->next_stage < p->nsegments && send->next_stage - send->reaped < p->nslots &&
           (p->kernel_copy || sv_phase1_may_copy(p->x))) {
        sv_slot_t *slot = &p->slots[send->next_stage % p->nslots];
        SV_TRY(stage_segment(send, slot, send->next_stage));
        slot->state = SV_SLOT_STAGING;
        slot->segment = send->next_stage++;
        slot->since_ns = now_ns;
    }
    return SELVAGE_SUCCESS;
}
