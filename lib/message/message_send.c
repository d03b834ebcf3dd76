/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send from its call to its end. A small message leaves at once: of device memory a kernel on the caller's stream
 * stores payload and record into mail, of host memory this thread does, as soon as that stream has come so far. A long
 * one, and one that is to be complete only when it has met its receive, is announced and waits to be cleared.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "message/message_layout.h"
#include "message/message_near.h"

static sv_letter_t letter_of(const selvage_request_t *send, sv_letter_kind_t kind)
{
    return (sv_letter_t){.kind = kind, .tag = (uint32_t)send->tag, .number = send->number, .bytes = send->bytes,
                         .attempt = send->attempt, .send_id = sv_message_id(send), .recv_id = send->other_id};
}

/* What goes wrong behind the call ends the request, and nothing else: messages behind it wait for its number, which is
   announced as that of a long one whose sender never answers. */
static selvage_status_t settle(selvage_request_t *send, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS || status == SELVAGE_IN_PROGRESS || send->state == SV_REQUEST_COMPLETE)
        return SELVAGE_SUCCESS;
    sv_message_engine_t *engine = send->engine;
    const sv_letter_t letter = letter_of(send, SV_LETTER_RTS);
    const bool is_gap = send->mail && !send->told_late && engine->broken == SELVAGE_SUCCESS;
    const int peer = send->peer;
    sv_message_complete(send, status);
    if (is_gap)
        (void)sv_mail_tell(engine, peer, &letter);
    return SELVAGE_SUCCESS;
}

/* Where kernels of a send run that are to be behind the caller's work. */
static void *stream_for(const selvage_request_t *send, void *stream)
{
    return stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->kernel_stream : stream;
}

/* --- small -------------------------------------------------------------------------------------------------------- */

static uint64_t slot_of(const selvage_request_t *send)
{
    return send->mail->near ? send->mail->near_count : 0;
}

/* A message that its stream holds up holds up none behind it, which may have other tags: it is announced. */
static selvage_status_t tell_if_late(selvage_request_t *send)
{
    enum { LATE_NS = 100000 };
    sv_letter_t letter = letter_of(send, SV_LETTER_LATE);
    if (send->told_late || sv_clock_ns() - send->began_ns < LATE_NS)
        return SELVAGE_IN_PROGRESS;
    letter.value[0] = slot_of(send);
    send->told_late = sv_mail_tell(send->engine, send->peer, &letter) == SELVAGE_SUCCESS;
    send->began_ns = sv_clock_ns(); /* for want of memory: later, as nobody needs it, and a kernel is at work */
    return SELVAGE_IN_PROGRESS;
}

/* The mail leaves, and the buffer is the caller's again. */
static selvage_status_t post_mail(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_mail_t *mail = send->mail;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->mail = NULL;
    if (send->peer != engine->wire->rank && !mail->box) {
        mail->kept = true;
        sv_list_append(&peer->kept, &mail->kept_link);
    }
    SV_TRY(sv_mail_post(engine, mail, send->peer));
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_by_host(selvage_request_t *send)
{
    sv_mail_t *mail = send->mail;
    uint64_t sum = 0;
    SV_TRY(sv_message_pack_host(send));
    if (send->bytes)
        memcpy(sv_mail_payload(mail), send->place.data, send->bytes);
    if (sv_message_checks(send->engine))
        sum = sv_digest_sum(send->key, 0, sv_mail_payload(mail), send->bytes);
    mail->letter->record = send->identity;
    mail->letter->record.digest = sv_message_checks(send->engine) ? sv_digest_finish(send->key, sum) : 0;
    return post_mail(send);
}

/* The kernel is through. Where it has told the receiver, the place in the box may be another message's by now: stamps
   only grow. */
static selvage_status_t take_filled(selvage_request_t *send, bool *moved)
{
    /* Partner: the digest kernel. */
    if ((int64_t)(__atomic_load_n(send->mail->word, __ATOMIC_ACQUIRE) - send->stamp) < 0)
        return tell_if_late(send);
    *moved = true;
    if (!send->mail->box)
        return post_mail(send);
    send->mail = NULL;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_by_kernel(selvage_request_t *send, void *stream)
{
    sv_mail_t *mail = send->mail;
    void *on = stream_for(send, stream);
    send->state = SV_REQUEST_FILLING;
    if (!mail->box)
        mail->stamp = ++send->engine->stamps;
    send->stamp = mail->stamp;
    sv_mail_seal(send->engine, mail, send->peer); /* the kernel itself may tell the receiver */
    SV_TRY(sv_message_pack_device(send, on));
    sv_prepare_job_t job = {.src = send->place.data, .dst = sv_mail_device(mail, sv_mail_payload(mail)),
                            .record = sv_mail_device(mail, &mail->letter->record),
                            .word = sv_mail_device(mail, mail->word), .stamp = mail->stamp};
    if (mail->near) {
        const sv_near_place_t to = sv_near_place(send->engine, mail->near, mail->near_count);
        job.dst = to.payload;
        job.record = to.record;
        job.near = to.word;
        job.near_value = sv_near_value(send->key, send->before);
    }
    return sv_message_prepare(send, &job, on);
}

/* Mail in the neighbour's box, with a slot in his device memory: for longer messages, too. */
static bool has_slot(selvage_request_t *send, const sv_message_peer_t *peer)
{
    if (!send->place.on_device || send->bytes == 0 || send->synchronous || send->engine->comm->fault.armed ||
        !peer->out || !peer->out->near.base || send->bytes > send->engine->near_bytes)
        return false;
    sv_mail_t *mail = sv_message_box_room(send->engine, peer->out);
    if (mail && sv_near_take(send, mail)) {
        send->mail = mail;
        return true;
    }
    if (mail)
        sv_mail_put(send->engine, mail);
    return false;
}

/* Where the caller's stream must have come to before the buffer is read; or the engine's, which packs it. */
static selvage_status_t record(selvage_request_t *send, void *stream)
{
    const bool packed = send->place.layout && send->place.on_device;
    if (send->bytes == 0 || (stream == SELVAGE_MESSAGE_NO_STREAM && !packed))
        return SELVAGE_SUCCESS;
    return sv_message_record(send, stream_for(send, stream));
}

static selvage_status_t begin_small(selvage_request_t *send, sv_message_peer_t *peer, void *stream)
{
    /* What a fault has hurt can be asked for again only if it went by the wire. */
    if (!send->mail && send->engine->comm->fault.armed)
        SV_TRY(sv_mail_take(send->engine, false, &send->mail));
    else if (!send->mail)
        SV_TRY(sv_mail_take_to(send->engine, send->peer, false, &send->mail));
    if (!send->mail->box) {
        send->mail->counted = peer;
        peer->neager++;
    }
    send->began_ns = sv_clock_ns();
    *send->mail->letter = letter_of(send, SV_LETTER_EAGER);
    send->mail->letter->value[0] = slot_of(send);
    send->mail->letter->value[1] = send->before;
    if (send->place.on_device && send->bytes)
        return fill_by_kernel(send, stream);
    send->state = SV_REQUEST_GATE;
    return record(send, stream);
}

/* --- long --------------------------------------------------------------------------------------------------------- */

static selvage_status_t ask(selvage_request_t *send, void *stream)
{
    sv_letter_t letter = letter_of(send, SV_LETTER_RTS);
    letter.value[0] = send->place.on_device;
    if (send->place.on_device)
        SV_TRY(sv_message_pack_device(send, stream_for(send, stream)));
    SV_TRY(record(send, stream)); /* what is told has its number, and nothing fails behind it */
    send->state = SV_REQUEST_ASKED;
    return sv_mail_tell(send->engine, send->peer, &letter);
}

/* Copies and sums may begin: the caller's stream has come so far. */
static selvage_status_t begin_to_move(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    if (send->route == SV_MESSAGE_STAGED && !sv_message_pieces_begin(send))
        return SELVAGE_IN_PROGRESS;
    if (send->route == SV_MESSAGE_DIRECT)
        SV_TRY(sv_message_direct_start(send));
    send->state = SV_REQUEST_MOVING;
    send->hurt = engine->comm->fault.armed && send->place.on_device &&
                 sv_fault_packet(&engine->comm->fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    if (send->route == SV_MESSAGE_DIRECT)
        return sv_message_direct_copy(send, stream);
    if (!send->place.on_device)
        return sv_message_pack_host(send);
    if (!sv_message_checks(engine))
        return SELVAGE_SUCCESS;
    send->stamp = ++engine->stamps;
    const sv_prepare_job_t job = {.src = send->place.data, .record = &send->line->record, .word = &send->line->ready,
                                  .stamp = send->stamp};
    return sv_message_prepare(send, &job, engine->kernel_stream);
}

static selvage_status_t move_claimed(selvage_request_t *send, void *stream)
{
    enum { SHORT_BYTES = 2 << 20 }; /* what holds the caller's stream up for microseconds only */
    const bool packed = send->place.layout != NULL;
    SV_TRY(sv_message_pack_device(send, stream_for(send, stream)));
    SV_TRY(record(send, stream));
    if (!send->gated)
        return begin_to_move(send, send->engine->kernel_stream);
    if (sv_message_direct_by_kernel(send) && (packed || send->bytes <= SHORT_BYTES)) {
        send->gated = false; /* the stream itself sees to it */
        return begin_to_move(send, stream_for(send, stream));
    }
    send->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* Its receive is posted, and has said where: the copy begins, and then the receiver hears of it, by mail that is there
   before. */
static selvage_status_t begin_claimed(selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    sv_mail_t *mail = NULL;
    sv_letter_t letter = letter_of(send, SV_LETTER_RTS);
    letter.value[0] = true;
    letter.value[1] = send->landing;
    letter.value[2] = send->landing_stamp;
    selvage_status_t status = sv_mail_take_to(send->engine, send->peer, true, &mail);
    if (status == SELVAGE_SUCCESS)
        status = move_claimed(send, stream);
    if (status == SELVAGE_SUCCESS) {
        *mail->letter = letter;
        return sv_mail_post(send->engine, mail, send->peer);
    }
    if (mail)
        sv_mail_put(send->engine, mail);
    sv_message_unclaim(send, peer);
    return status;
}

/* All bytes have left: the record follows. */
static selvage_status_t send_record(selvage_request_t *send)
{
    sv_letter_t letter = letter_of(send, SV_LETTER_DONE);
    if (send->place.on_device) {
        if (!sv_word_is(&send->line->ready, send->stamp)) /* partner: the digest kernel */
            return SELVAGE_IN_PROGRESS;
        letter.record = send->line->record;
    } else {
        letter.record = send->identity;
        letter.record.digest = sv_digest_finish(send->key, send->sum);
    }
    send->state = SV_REQUEST_JUDGED;
    return sv_mail_tell(send->engine, send->peer, &letter);
}

/* Behind a copy to the receiver's memory the streams tell him themselves, and his kernel gives the verdict. */
static selvage_status_t move_direct(selvage_request_t *send, bool *moved)
{
    if (sv_message_checks(send->engine) ? !sv_message_direct_is_good(send) : !sv_message_direct_has_left(send))
        return SELVAGE_IN_PROGRESS;
    *moved = true;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t move(selvage_request_t *send, bool *moved)
{
    if (send->route == SV_MESSAGE_DIRECT)
        return move_direct(send, moved);
    SV_TRY(sv_message_pieces_send(send, moved));
    sv_message_pieces_end(send);
    *moved = true;
    if (sv_message_checks(send->engine))
        send->state = SV_REQUEST_CLOSING;
    else
        sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

/* Whether the receiver says a way that there is, and a place in its box that there is. */
static bool is_way(const selvage_request_t *send, const sv_letter_t *cts)
{
    sv_message_peer_t *peer;
    if (cts->value[0] != SV_MESSAGE_DIRECT)
        return cts->value[0] == SV_MESSAGE_NONE || cts->value[0] == SV_MESSAGE_STAGED;
    if (cts->value[1] >= SV_BOX_LANDINGS || cts->value[2] == 0)
        return false;
    return sv_message_peer(send->engine, send->peer, &peer) == SELVAGE_SUCCESS &&
           (send->peer == send->engine->wire->rank ? peer->in : peer->out) != NULL;
}

void sv_message_send_cleared(selvage_request_t *send, const sv_letter_t *cts)
{
    bool again = cts->attempt > send->attempt;
    if (again && send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT)
        sv_message_direct_end(send);
    else if (send->state != SV_REQUEST_ASKED && !(again && send->state == SV_REQUEST_JUDGED))
        return;
    if (!is_way(send, cts)) {
        (void)settle(send, sv_error(SELVAGE_ERR_MISMATCH, "rank %d wants message %llu by a way that there is not",
                                    send->peer, (unsigned long long)send->number));
        return;
    }
    if (cts->value[0] == SV_MESSAGE_NONE) {
        sv_message_complete(send, SELVAGE_SUCCESS);
        return;
    }
    send->other_id = cts->recv_id;
    send->attempt = cts->attempt;
    send->route = (sv_message_route_t)cts->value[0];
    sv_message_identify(send);
    if (send->route == SV_MESSAGE_DIRECT && sv_message_direct_open(send, cts) != SELVAGE_SUCCESS) {
        sv_letter_t letter = letter_of(send, SV_LETTER_DENY);
        sv_message_direct_end(send);
        send->state = SV_REQUEST_ASKED;
        (void)settle(send, sv_mail_tell(send->engine, send->peer, &letter));
        return;
    }
    send->state = SV_REQUEST_GATE;
    sv_message_wake(send);
}

/* A copy that has begun is over: its receiver has waited for that. */
static void abandoned(selvage_request_t *send, const sv_letter_t *verdict)
{
    if (send->number != verdict->number || send->state == SV_REQUEST_COMPLETE || send->state == SV_REQUEST_FILLING)
        return;
    (void)settle(send, sv_error(SELVAGE_ERR_TIMEOUT, "rank %d has given up its receive of message %llu (tag %d, %llu "
                                "bytes)", send->peer, (unsigned long long)send->number, send->tag,
                                (unsigned long long)send->bytes));
}

/* A kernel on the caller's stream reads the buffer in the order of that stream. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status)
{
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT;
    if (send->state == SV_REQUEST_COMPLETE)
        return true;
    if (send->state == SV_REQUEST_FILLING ||
        (direct && !(sv_message_drain(send->engine) && sv_message_direct_has_left(send))))
        return false;
    (void)settle(send, status);
    return true;
}

void sv_message_send_judged(selvage_request_t *send, const sv_letter_t *verdict)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT;
    if (verdict->value[0] == SV_VERDICT_ABANDONED) {
        abandoned(send, verdict);
        return;
    }
    if ((send->state != SV_REQUEST_JUDGED && !direct) || verdict->attempt != send->attempt)
        return;
    if (verdict->value[0])
        status = sv_error(SELVAGE_ERR_CHECKSUM, "message %llu to rank %d (tag %d, %llu bytes) did not verify there, "
                          "after %u attempts; was its buffer written before it was complete, or freed?",
                          (unsigned long long)send->number, send->peer, send->tag,
                          (unsigned long long)send->bytes, send->attempt + 1);
    sv_message_complete(send, status);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static selvage_status_t pass_gate(selvage_request_t *send, bool *moved)
{
    const bool small = send->mail != NULL;
    selvage_status_t status = sv_message_gate(send);
    if (status == SELVAGE_IN_PROGRESS && small)
        return tell_if_late(send);
    SV_TRY(status);
    status = small ? fill_by_host(send) : begin_to_move(send, send->engine->kernel_stream);
    *moved |= status == SELVAGE_SUCCESS;
    return status;
}

static selvage_status_t advance(selvage_request_t *send, bool *moved)
{
    switch (send->state) {
    case SV_REQUEST_GATE:
        return pass_gate(send, moved);
    case SV_REQUEST_FILLING:
        return take_filled(send, moved);
    case SV_REQUEST_MOVING:
        return move(send, moved);
    case SV_REQUEST_CLOSING: {
        selvage_status_t status = send_record(send);
        *moved |= status == SELVAGE_SUCCESS;
        return status;
    }
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved)
{
    return settle(send, advance(send, moved));
}

static bool is_small(const selvage_request_t *send, const sv_message_peer_t *peer)
{
    return send->bytes <= send->engine->eager_bytes && !send->synchronous && peer->neager < SV_MAIL_UNACKED;
}

selvage_status_t sv_message_send(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->number = peer->sent + 1;
    send->before = peer->last[sv_message_tag_class(send->tag)];
    sv_message_identify(send);
    send->refused = send->buffered && !has_slot(send, peer);
    if (send->refused)
        return sv_error_quiet(SELVAGE_ERR_LIMIT, "rank %d has no room for a message of %llu bytes now", send->peer,
                              (unsigned long long)send->bytes);
    if (send->mail || has_slot(send, peer) || is_small(send, peer))
        SV_TRY(begin_small(send, peer, stream));
    else if (sv_message_claim(send, peer))
        SV_TRY(begin_claimed(send, peer, stream));
    else
        SV_TRY(ask(send, stream));
    peer->sent++;
    peer->last[sv_message_tag_class(send->tag)] = send->number;
    sv_list_append(&engine->active, &send->link);
    return SELVAGE_SUCCESS;
}
