/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send from its call to its end. A small message leaves at once: of device memory a kernel on the caller's stream
 * stores payload and record into mail, of host memory this thread does, as soon as that stream has come so far. A long
 * one, and one that is to be complete only when it has met its receive, is announced and waits to be cleared.
 */
#include <string.h>

#include "base/base_log.h"
#include "message/message_engine.h"
#include "message/message_layout.h"

/* What goes wrong behind the call ends the request, and nothing else. */
static selvage_status_t settle(selvage_request_t *send, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS && send->state != SV_REQUEST_COMPLETE)
        sv_message_complete(send, status);
    return SELVAGE_SUCCESS;
}

static sv_letter_t letter_of(const selvage_request_t *send, sv_letter_kind_t kind)
{
    return (sv_letter_t){.kind = kind, .tag = (uint32_t)send->tag, .number = send->number, .bytes = send->bytes,
                         .attempt = send->attempt, .send_id = sv_message_id(send), .recv_id = send->other_id};
}

/* --- small -------------------------------------------------------------------------------------------------------- */

/* The mail leaves, and the buffer is the caller's again. */
static selvage_status_t post_mail(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_mail_t *mail = send->mail;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->mail = NULL;
    if (send->peer != engine->wire->rank) {
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

static selvage_status_t fill_by_kernel(selvage_request_t *send, void *stream)
{
    sv_mail_t *mail = send->mail;
    void *on = stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->kernel_stream : stream;
    send->state = SV_REQUEST_FILLING;
    mail->stamp = ++send->engine->stamps;
    SV_TRY(sv_message_pack_device(send, on));
    return sv_message_prepare(send, send->place.data, sv_mail_payload(mail), &mail->letter->record, mail->word,
                              mail->stamp, on);
}

static selvage_status_t begin_small(selvage_request_t *send, void *stream)
{
    SV_TRY(sv_mail_take(send->engine, &send->mail));
    *send->mail->letter = letter_of(send, SV_LETTER_EAGER);
    if (send->place.on_device && send->bytes)
        return fill_by_kernel(send, stream);
    send->state = SV_REQUEST_GATE;
    return SELVAGE_SUCCESS;
}

/* --- long --------------------------------------------------------------------------------------------------------- */

static selvage_status_t begin_long(selvage_request_t *send, void *stream)
{
    sv_letter_t letter = letter_of(send, SV_LETTER_RTS);
    if (send->place.on_device)
        SV_TRY(sv_message_pack_device(send, stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->kernel_stream
                                                                                : stream));
    send->state = SV_REQUEST_ASKED;
    return sv_mail_tell(send->engine, send->peer, &letter);
}

/* Copies and sums may begin: the caller's stream has come so far, or theirs are behind it. */
static selvage_status_t begin_to_move(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    if (!sv_message_pieces_begin(send))
        return SELVAGE_IN_PROGRESS; /* for want of pinned memory: later */
    send->state = SV_REQUEST_MOVING;
    send->hurt = engine->comm->fault.armed && send->place.on_device &&
                 sv_fault_packet(&engine->comm->fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    if (!send->place.on_device)
        return sv_message_pack_host(send);
    SV_TRY(sv_message_order(send, engine->out_stream));
    if (!sv_message_checks(engine))
        return SELVAGE_SUCCESS;
    SV_TRY(sv_message_order(send, engine->kernel_stream));
    send->stamp = ++engine->stamps;
    return sv_message_prepare(send, send->place.data, NULL, &send->line->record, &send->line->ready, send->stamp,
                              engine->kernel_stream);
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

static selvage_status_t move(selvage_request_t *send, bool *moved)
{
    SV_TRY(sv_message_pieces_send(send, moved));
    sv_message_pieces_end(send);
    *moved = true;
    if (sv_message_checks(send->engine))
        send->state = SV_REQUEST_CLOSING;
    else
        sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

void sv_message_send_cleared(selvage_request_t *send, const sv_letter_t *cts)
{
    bool again = send->state == SV_REQUEST_JUDGED && cts->attempt > send->attempt;
    if (send->state != SV_REQUEST_ASKED && !again)
        return;
    if (cts->value[0] == SV_MESSAGE_NONE) {
        sv_message_complete(send, SELVAGE_SUCCESS);
        return;
    }
    send->other_id = cts->recv_id;
    send->attempt = cts->attempt;
    sv_message_identify(send);
    send->state = SV_REQUEST_GATE;
}

void sv_message_send_judged(selvage_request_t *send, const sv_letter_t *verdict)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    if (send->state != SV_REQUEST_JUDGED)
        return;
    if (verdict->value[0])
        status = sv_error(SELVAGE_ERR_CHECKSUM, "message %llu to rank %d (tag %d, %llu bytes) did not verify there, "
                          "after %u attempts", (unsigned long long)send->number, send->peer, send->tag,
                          (unsigned long long)send->bytes, send->attempt + 1);
    sv_message_complete(send, status);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static selvage_status_t pass_gate(selvage_request_t *send, bool *moved)
{
    const bool small = send->mail != NULL;
    if (!send->place.on_device || small)
        SV_TRY(sv_message_gate(send));
    selvage_status_t status = small ? fill_by_host(send) : begin_to_move(send);
    *moved |= status == SELVAGE_SUCCESS;
    return status;
}

static selvage_status_t advance(selvage_request_t *send, bool *moved)
{
    switch (send->state) {
    case SV_REQUEST_GATE:
        return pass_gate(send, moved);
    case SV_REQUEST_FILLING:
        if (!sv_word_is(send->mail->word, send->mail->stamp)) /* partner: the digest kernel */
            return SELVAGE_IN_PROGRESS;
        *moved = true;
        return post_mail(send);
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
    return send->bytes <= send->engine->eager_bytes && !send->synchronous && peer->nkept < SV_MAIL_UNACKED;
}

/* Where the caller's stream must have come to before the buffer is read; or the engine's, which packs it. */
static selvage_status_t record(selvage_request_t *send, void *stream)
{
    const bool packed = send->place.layout && send->place.on_device;
    if (send->bytes == 0 || (stream == SELVAGE_MESSAGE_NO_STREAM && !packed))
        return SELVAGE_SUCCESS;
    return sv_message_record(send, stream == SELVAGE_MESSAGE_NO_STREAM ? send->engine->kernel_stream : stream);
}

selvage_status_t sv_message_send(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    const bool small = is_small(send, peer);
    send->number = peer->sent + 1;
    sv_message_identify(send);
    if (small && send->peer != engine->wire->rank)
        peer->nkept++;
    selvage_status_t status = small ? begin_small(send, stream) : begin_long(send, stream);
    if (status == SELVAGE_SUCCESS && send->state != SV_REQUEST_FILLING)
        status = record(send, stream);
    if (status != SELVAGE_SUCCESS) {
        if (small && send->peer != engine->wire->rank)
            peer->nkept--;
        return status;
    }
    peer->sent++;
    sv_list_append(&engine->active, &send->link);
    return SELVAGE_SUCCESS;
}
