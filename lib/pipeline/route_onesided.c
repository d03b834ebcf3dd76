/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes that write into the receiver's memory: `shared`, `peer` and `self`. They differ in where the receiver's slots
 * lie and in who copies; everything else is one protocol, by words in node-shared memory (see pipe_exchange.h):
 *
 *   receiver: credit ---> sender: copy or push, arrived ---> receiver: up to its place, verified: verdict, credit
 *
 * The host polls words and enqueues; it touches no payload. Small packets are moved by kernels in batches
 * (pipe_batch.c), which give verdict and credit themselves.
 */
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

/* --- phase 0, prepare --------------------------------------------------------------------------------------------- */

/* The record goes straight to the receiver, beside the copies that run meanwhile, unless a fault may want to corrupt it
   first. A push makes digest and record in the pass in which it copies. */
static selvage_status_t onesided_begin(sv_send_t *send, uint64_t now_ns)
{
    const sv_packet_t *p = &send->p;
    sv_packet_begin_attempt(send, now_ns);
    if (sv_packet_is_left_to_push(send) || p->x->policy == SV_CONFIG_CHECKSUM_OFF || (p->kernel_copy && !send->fault))
        return SELVAGE_SUCCESS;
    /* Partners: the acquires in count_arrived() of the receiver, and in sv_packet_is_ready() here. */
    return send->fault ? sv_packet_launch_digest(send, send->record, send->ready)
                       : sv_packet_launch_digest(send, &send->remote->record, &send->remote->recorded);
}

/* --- phase 1, post: credit ---------------------------------------------------------------------------------------- */

/*
 * The sender may write once it sees the word. A buffer of the user's is ready when the work before start is done, so
 * the word follows it on the stream; receive slots are Selvage's own and ready at once, and so is the buffer of a rank
 * that sends to itself, because the copy is ordered after the same event.
 */
static selvage_status_t onesided_post(sv_recv_t *recv, uint64_t now_ns)
{
    sv_packet_t *p = &recv->p;
    selvage_exchange_t *x = p->x;
    uint64_t word = sv_word(x->epoch, recv->requested_attempt, recv->consumed + p->nslots);
    (void)now_ns;
    if (p->in_place && !p->ops->within_rank && recv->requested_attempt == 0)
        return SV_DEVICE_CALL(x->comm->dev, signal_async,
                              sv_shared_device_address(&p->peer->segment, &recv->remote->credit), word,
                              x->in_start ? x->streams.caller : x->streams.kernel);
    if (p->kernel_copy && !p->in_place) {
        /* Slots that take turns: the first epochs have leave from the beginning, later ones by the pull that emptied
           theirs. */
        if (recv->requested_attempt == 0 && x->epoch > 1)
            return SELVAGE_SUCCESS;
        word = recv->requested_attempt ? sv_word(x->epoch, recv->requested_attempt, 1) : sv_word(p->nslots, 0, 1);
    }
    /* Partners: the acquire in onesided_send(), and batch_await() of a push that waits. */
    __atomic_store_n(&recv->remote->credit, word, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

/* --- phase 2, send ------------------------------------------------------------------------------------------------ */

static void *copy_stream(const sv_send_t *send)
{
    return send->p.ops->through_host ? send->p.x->streams.out : send->p.x->streams.peer;
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
    uint8_t *record_line =
        send->device_line ? send->device_line : target_slot(send, segment) + sv_commit_trailer(p);
    sv_signal_arg_t arg = {.word = &send->remote->arrived, .value = sv_word(p->x->epoch, p->attempt, segment + 1)};
    if (last) {
        arg.record = (const uint64_t *)(const void *)sv_fault_record(send);
        arg.record_to =
            (uint64_t *)(void *)(device_line ? record_line : (uint8_t *)&send->remote->record);
        arg.second =
            device_line ? arg.record_to + sizeof(sv_record_t) / sizeof *arg.record_to : &send->remote->recorded;
    }
    return SV_DEVICE_CALL(p->x->comm->dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, copy_stream(send));
}

/* The copy of a segment, and after it on the same stream the release of `arrived`. */
static selvage_status_t move_segment(sv_send_t *send, uint32_t segment)
{
    sv_packet_t *p = &send->p;
    selvage_exchange_t *x = p->x;
    const sv_copy_kind_t kind = p->ops->copy_kind;
    const uint64_t word = sv_word(x->epoch, p->attempt, segment + 1);
    void *stream = copy_stream(send);
    uint8_t *dst = target_slot(send, segment);
    const uint8_t *src = send->buf + sv_packet_offset(p, segment);
    if (send->silent)
        return SELVAGE_SUCCESS;
    if (segment == 0 && x->timing.defer_peer && kind == SV_COPY_PEER)
        SV_TRY(SV_DEVICE_CALL(x->comm->dev, stream_wait_event, stream, x->streams.last_out_event));
    if (!send->fault) {
        SV_TRY(SV_DEVICE_CALL(x->comm->dev, copy_async, dst, src, sv_packet_piece(p, segment), kind, stream));
        /* The record comes by itself; see onesided_begin(). */
        const sv_copy_lane_t lane = sv_exchange_lane(x, stream, p->nsegments > 1);
        return sv_lane_signal(&lane, &send->remote->arrived, word);
    }
    SV_TRY(sv_fault_copy(send, segment, dst, src, sv_packet_piece(p, segment), kind, stream));
    SV_TRY(signal_with_record(send, segment));
    if (send->fault_kind != SV_FAULT_DUPLICATE)
        return SELVAGE_SUCCESS;
    /* Only the word is doubled: the memory after it is the receiver's as soon as the first one has arrived. */
    return SV_DEVICE_CALL(x->comm->dev, signal_async, &send->remote->arrived, word, stream);
}

/* Whether the device has read everything that this attempt has sent so far. */
static bool is_sent(const sv_send_t *send)
{
    /* Partners: the word of send_segments(), and the push kernel. */
    return __atomic_load_n(send->sent, __ATOMIC_ACQUIRE) ==
           sv_word(send->p.x->epoch, send->p.attempt, send->next_stage);
}

/* The receiver wants a newer attempt. Nothing sent yet: it simply gets that number. */
static selvage_status_t adopt_attempt(sv_send_t *send, unsigned attempt, uint64_t now_ns)
{
    if (send->next_stage > 0 && !is_sent(send))
        return SELVAGE_SUCCESS;
    send->wanted_attempt = attempt;
    if (send->next_stage > 0)
        return sv_recovery_resend(send, now_ns);
    send->p.attempt = attempt;
    return onesided_begin(send, now_ns);
}

static selvage_status_t send_segments(sv_send_t *send, uint32_t credit)
{
    sv_packet_t *p = &send->p;
    /* Whether a fault corrupts this attempt in a way that needs the long way: digest, copy, signal one by one. */
    const bool corrupted = send->fault && send->fault_kind != SV_FAULT_NONE && send->fault_kind != SV_FAULT_DELAY;
    if (p->kernel_copy && !corrupted) {
        if (send->fault)
            SV_TRY(sv_fault_keep(send));
        send->next_stage = 1;
        send->state = SV_SEND_VERDICT;
        sv_batch_push_later(send);
        return SELVAGE_SUCCESS;
    }
    const uint32_t before = send->next_stage;
    SV_TRY(sv_exchange_order(p->x));
    while (send->next_stage < p->nsegments && send->next_stage < credit && sv_packet_may_copy(p->x))
        SV_TRY(move_segment(send, send->next_stage++));
    if (send->next_stage == before)
        return SELVAGE_SUCCESS;
    if (send->next_stage == p->nsegments)
        send->state = SV_SEND_VERDICT;
    /* When the copies have read the user's buffer, which a resend waits for. Partner: the acquire in is_sent(). */
    const sv_copy_lane_t lane = sv_exchange_lane(p->x, copy_stream(send), p->nsegments > 1);
    return sv_lane_signal(&lane, send->sent, sv_word(p->x->epoch, p->attempt, send->next_stage));
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

static selvage_status_t onesided_send(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &send->p;
    /* Partner: the releases in onesided_post() of the receiver, of its stream, and of its pull kernel. */
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

/* --- phase 3, receive --------------------------------------------------------------------------------------------- */

/* Slots land in order, so credit is given back in order. */
static selvage_status_t collect_unstaged(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    bool freed = false;
    while (recv->consumed < recv->arrived_count) {
        sv_slot_t *slot = &p->slots[recv->consumed % p->nslots];
        sv_packet_poll_unstaging(recv, slot, now_ns, moved);
        if (slot->state == SV_SLOT_UNSTAGING)
            break;
        recv->consumed++;
        freed = true;
    }
    return freed && recv->arrived_count < p->nsegments ? onesided_post(recv, now_ns) : SELVAGE_SUCCESS;
}

static selvage_status_t take_segments(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    while (recv->arrived_count < arrived && recv->arrived_count < p->nsegments) {
        sv_slot_t *slot = &p->slots[recv->arrived_count % p->nslots];
        if (slot->state != SV_SLOT_FREE)
            break;
        *moved = true;
        p->moved_ns = now_ns;
        SV_TRY(sv_packet_unstage(recv, slot, recv->arrived_count, now_ns));
    }
    return SELVAGE_SUCCESS;
}

/* What came straight to its place is verified piece by piece, while the next one comes. */
static selvage_status_t take_pieces(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    *moved = true;
    p->moved_ns = now_ns;
    while (recv->arrived_count < arrived && recv->arrived_count < p->nsegments) {
        uint32_t piece = recv->arrived_count++;
        SV_TRY(sv_packet_verify(recv, recv->buf + sv_packet_offset(p, piece), piece));
    }
    return SELVAGE_SUCCESS;
}

/*
 * A newer attempt is asked for by the credit word, but not while a slot is still being read. Nobody else looks at those
 * slots any more: the counters of the old attempt are reset already.
 */
static selvage_status_t request_when_silent(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    bool read = false;
    if (!recv->request_due)
        return SELVAGE_SUCCESS;
    for (uint32_t s = 0; p->slots && s < p->nslots; s++)
        if (p->slots[s].state == SV_SLOT_UNSTAGING) {
            sv_packet_poll_unstaging(recv, &p->slots[s], now_ns, moved);
            read |= p->slots[s].state == SV_SLOT_UNSTAGING;
        }
    if (read)
        return SELVAGE_SUCCESS;
    recv->request_due = false;
    recv->consumed = recv->arrived_count = 0;
    return onesided_post(recv, now_ns);
}

/* What one kernel verifies (and, if it landed in a slot, brings to its place) joins the next batch of pulls. */
static selvage_status_t take_pulled(sv_recv_t *recv, uint32_t arrived, uint64_t now_ns, bool *moved)
{
    const sv_packet_t *p = &recv->p;
    if (p->in_place && !p->fused && p->x->policy == SV_CONFIG_CHECKSUM_OFF) /* nothing to copy, nothing to check */
        return take_pieces(recv, arrived, now_ns, moved);
    *moved = true;
    recv->p.moved_ns = now_ns;
    recv->arrived_count = arrived;
    if (arrived < recv->p.nsegments)
        return SELVAGE_SUCCESS;
    recv->state = SV_RECV_VERIFYING;
    sv_batch_pull_later(recv);
    return SELVAGE_SUCCESS;
}

/* How many segments of this attempt lie here; the last one only if its record does. */
static uint32_t count_arrived(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    /* Partner: the release after the sender's copy (move_segment()) or of its push kernel. */
    uint64_t word = __atomic_load_n(&recv->words->arrived, __ATOMIC_ACQUIRE);
    if (recv->request_due)
        return 0;
    if (p->kernel_copy && !p->in_place && sv_word_ahead(word, p->x->epoch) > 0)
        return 1; /* the sender, without verdicts to wait for, is an epoch ahead: in another slot */
    uint32_t arrived = sv_word_matches(word, p->x->epoch, p->attempt) ? sv_word_count(word) : 0;
    if (arrived > p->nsegments)
        return 0; /* more than there are: no word of the sender's */
    if (arrived < p->nsegments || p->x->policy == SV_CONFIG_CHECKSUM_OFF || p->kernel_copy)
        return arrived;
    /* The record comes beside the copies. Partner: the release of the sender's digest kernel (onesided_begin()), or of
       its signal kernel. */
    word = __atomic_load_n(&recv->words->recorded, __ATOMIC_ACQUIRE);
    return sv_word_matches(word, p->x->epoch, p->attempt) ? arrived : arrived - 1;
}

/*
 * Into a receive slot: up it goes, and the slot's credit is given back. Straight into the user's buffer: only
 * verification is left. Once a newer attempt was asked for, arrivals of older ones are ignored: the sender is going to
 * write again, and must not do so into a buffer that wait has given back to the application.
 */
static selvage_status_t onesided_receive(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    sv_packet_t *p = &recv->p;
    if (p->slots)
        SV_TRY(collect_unstaged(recv, now_ns, moved));
    if (recv->state != SV_RECV_WAITING)
        return SELVAGE_SUCCESS;
    SV_TRY(request_when_silent(recv, now_ns, moved));
    if (sv_varying_has_come(recv)) /* there may be fewer segments than are waited for, or more */
        return sv_recovery_bad_record(recv, recv->record, now_ns);
    uint32_t arrived = count_arrived(recv);
    if (arrived > recv->arrived_count && p->pulled)
        return take_pulled(recv, arrived, now_ns, moved);
    if (arrived > recv->arrived_count)
        SV_TRY(p->in_place ? take_pieces(recv, arrived, now_ns, moved) : take_segments(recv, arrived, now_ns, moved));
    return recv->state == SV_RECV_WAITING ? sv_recovery_request_if_missing(recv, now_ns) : SELVAGE_SUCCESS;
}

/* --- phases 4, drain, and 5, land --------------------------------------------------------------------------------- */

static selvage_status_t onesided_drain(sv_send_t *send, uint64_t now_ns, bool *moved)
{
    const selvage_exchange_t *x = send->p.x;
    const bool off = x->policy == SV_CONFIG_CHECKSUM_OFF;
    /* Partners: the releases of the receiver: of its pull kernel, or in onesided_land(). */
    bool over = off || __atomic_load_n(&send->words->verdict, __ATOMIC_ACQUIRE) == sv_word(x->epoch, 0, 1);
    /* A verdict answers the last copy, so nothing is left to copy, unless a fault doubled it. But a push may have words
       left to store, and the memory that they lie in must outlive it. */
    if (over && (off || send->fault || send->p.kernel_copy))
        over = is_sent(send);
    if (!over)
        return onesided_send(send, now_ns, moved);
    send->state = SV_SEND_IDLE;
    *moved = true;
    return SELVAGE_SUCCESS;
}

static selvage_status_t onesided_land(sv_recv_t *recv, uint64_t now_ns, bool *moved)
{
    SV_TRY(sv_packet_land(recv, now_ns, moved));
    const bool verified = recv->state == SV_RECV_IDLE && recv->p.x->policy != SV_CONFIG_CHECKSUM_OFF;
    if (verified && !recv->p.pulled) /* else the pull kernel gave it. Partner: the acquire in onesided_drain() */
        __atomic_store_n(&recv->remote->verdict, sv_word(recv->p.x->epoch, 0, 1), __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

#define ONE_SIDED_OPS                                                                                                 \
    .begin = onesided_begin, .post = onesided_post, .send = onesided_send, .receive = onesided_receive,                \
    .drain = onesided_drain, .land = onesided_land

const sv_route_ops_t sv_route_shared = {ONE_SIDED_OPS, .through_host = true, .segment_slots = true,
                                        .copy_kind = SV_COPY_D2H, .up_kind = SV_COPY_H2D};
const sv_route_ops_t sv_route_peer = {ONE_SIDED_OPS, .maps_device = true, .copy_kind = SV_COPY_PEER,
                                      .up_kind = SV_COPY_D2D};
const sv_route_ops_t sv_route_self = {ONE_SIDED_OPS, .within_rank = true, .copy_kind = SV_COPY_D2D,
                                      .up_kind = SV_COPY_H2D};
