/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which message meets which receive, and what letters say otherwise. Messages of a rank are taken in the order of their
 * numbers, so that none overtakes another one whatever came first; those that nothing has asked for stay in their mail,
 * which holds all bytes of a small one and the announcement of a long one.
 */
#include <string.h>

#include "message/message_near.h"
#include "message/message_unacked.h"

static bool fits(int source, int tag, const sv_letter_t *letter)
{
    return (source == SV_MESSAGE_ANY || source == letter->source) && (tag == SV_MESSAGE_ANY || tag == (int)letter->tag);
}

sv_mail_t *sv_message_unexpected(sv_message_engine_t *engine, int source, int tag)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->unexpected) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, link);
        if (fits(source, tag, mail->letter))
            return mail;
    }
    return NULL;
}

void sv_message_post(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    sv_mail_t *mail = sv_message_unexpected(engine, recv->peer, recv->tag);
    if (!mail) {
        sv_list_append(&engine->posted, &recv->link);
        sv_message_offer(recv);
        return;
    }
    sv_list_remove(&mail->link);
    sv_message_matched(recv, mail);
}

static selvage_request_t *find_posted(sv_message_engine_t *engine, const sv_letter_t *letter)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->posted) {
        selvage_request_t *recv = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (fits(recv->peer, recv->tag, letter))
            return recv;
    }
    return NULL;
}

static void match(sv_message_engine_t *engine, sv_mail_t *mail)
{
    selvage_request_t *recv = find_posted(engine, mail->letter);
    if (!recv) {
        sv_list_append(&engine->unexpected, &mail->link);
        return;
    }
    sv_list_remove(&recv->link);
    sv_message_matched(recv, mail);
}

/* A box has few places: what has to wait does so in mail of this rank's own. */
static selvage_status_t make_room(sv_message_engine_t *engine, const sv_message_peer_t *peer, sv_mail_t **mail)
{
    const sv_letter_t *letter = (*mail)->letter;
    sv_mail_t *own;
    if (!(*mail)->box || (letter->number == peer->taken + 1 && find_posted(engine, letter)))
        return SELVAGE_SUCCESS;
    SV_TRY(sv_mail_take(engine, sv_mail_is_bare(letter), &own));
    memcpy(own->letter, letter, sv_mail_bytes(letter));
    sv_near_move(*mail, own);
    sv_mail_put(engine, *mail);
    *mail = own;
    return SELVAGE_SUCCESS;
}

static sv_mail_t *find_early(const sv_message_peer_t *peer, uint64_t number)
{
    for (sv_list_t *it = peer->early.next; it != &peer->early; it = it->next) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, link);
        if (mail->letter->number == number)
            return mail;
    }
    return NULL;
}

/* Where the next message that comes by a slot will be. */
static void note_slot(sv_message_peer_t *peer, const sv_letter_t *letter)
{
    if (letter->kind != SV_LETTER_RTS && letter->value[0] && peer->in)
        peer->in->near.count = letter->value[0];
}

static void take_in_order(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail)
{
    if (mail->letter->number != peer->taken + 1) {
        sv_list_append(&peer->early, &mail->link);
        return;
    }
    while (mail) {
        peer->taken++;
        peer->came[sv_message_tag_class((int)mail->letter->tag)] = peer->taken;
        note_slot(peer, mail->letter);
        sv_list_remove(&mail->link);
        match(engine, mail);
        mail = find_early(peer, peer->taken + 1);
    }
}

static sv_mail_t *find_late(sv_list_t *list, const sv_letter_t *letter)
{
    for (sv_list_t *it = list->next; it != list; it = it->next) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, link);
        if (mail->letter->kind == SV_LETTER_LATE && mail->letter->source == letter->source &&
            mail->letter->number == letter->number)
            return mail;
    }
    return NULL;
}

static selvage_request_t *find_late_in(const sv_list_t *list, const sv_letter_t *letter)
{
    for (const sv_list_t *it = list->next; it != list; it = it->next) {
        selvage_request_t *recv = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (!recv->is_send && recv->state == SV_REQUEST_LATE && recv->peer == letter->source &&
            recv->number == letter->number)
            return recv;
    }
    return NULL;
}

/* It is active still if no poll has looked at it. */
static selvage_request_t *find_late_recv(const sv_message_engine_t *engine, const sv_letter_t *letter)
{
    selvage_request_t *recv = find_late_in(&engine->awaiting, letter);
    return recv ? recv : find_late_in(&engine->active, letter);
}

/* A small message that was announced: where its announcement lies, or whoever was given that. */
static selvage_status_t take_late(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail)
{
    const sv_letter_t *letter = mail->letter;
    sv_mail_t *late = find_late(&engine->unexpected, letter);
    selvage_request_t *recv;
    late = late ? late : find_late(&engine->taken, letter);
    late = late ? late : find_late(&peer->early, letter);
    if (late) {
        memcpy(late->letter, letter, sv_mail_bytes(letter));
        late->from_wire = mail->from_wire;
        sv_near_move(mail, late);
        sv_mail_put(engine, mail);
    } else if ((recv = find_late_recv(engine, letter)) != NULL) {
        recv->mail = mail;
        recv->state = SV_REQUEST_GATE;
        sv_message_wake(recv);
        if (mail->near)
            sv_message_early_learn(recv, mail);
    } else {
        return sv_mail_taken(engine, mail); /* its receive was too short */
    }
    return SELVAGE_SUCCESS;
}

/* Whether it has come before: the message itself ahead of its announcement, or the same letter. */
static bool is_stale(const sv_message_peer_t *peer, const sv_letter_t *letter)
{
    return letter->number <= peer->taken || find_early(peer, letter->number);
}

/* A small message that was asked for again: the receive waits for just this one. */
static selvage_status_t take_again(sv_message_engine_t *engine, sv_mail_t *mail)
{
    selvage_request_t *recv = sv_message_find(engine, mail->letter->recv_id);
    const int source = mail->letter->source;
    const uint64_t number = mail->letter->number;
    if (recv && recv->state == SV_REQUEST_AGAIN && recv->number == mail->letter->number) {
        recv->mail = mail;
        recv->attempt = mail->letter->attempt;
        recv->state = SV_REQUEST_GATE;
        sv_message_wake(recv);
        return SELVAGE_SUCCESS;
    }
    sv_mail_put(engine, mail);
    return sv_mail_acknowledge(engine, source, number); /* nobody wants it any more */
}

static sv_mail_t *find_kept(const sv_message_peer_t *peer, uint64_t number)
{
    for (sv_list_t *it = peer->kept.next; it != &peer->kept; it = it->next) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, kept_link);
        if (mail->letter->number == number)
            return mail;
    }
    return NULL;
}

static void acknowledged(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    for (int i = 0; i < SV_MAIL_ACKS; i++) {
        sv_mail_t *mail = find_kept(peer, letter->value[i]);
        if (!mail)
            continue;
        sv_list_remove(&mail->kept_link);
        mail->kept = false;
        if (mail->unacked) /* it was taken, so it has come */
            sv_unacked_release(engine, peer, mail->unacked);
        else if (!mail->flying)
            sv_mail_put(engine, mail);
    }
}

/* The bytes of the first sending are still there, and go in mail of their own: that one may be flying. */
static selvage_status_t send_again(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *asked)
{
    sv_mail_t *kept = find_kept(peer, asked->number), *mail;
    if (!kept)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_mail_take(engine, false, &mail));
    memcpy(mail->letter, kept->letter, sizeof *mail->letter + kept->letter->bytes);
    if (kept->hurt)
        sv_mail_payload(mail)[kept->hurt - 1] ^= 1;
    mail->letter->attempt = asked->attempt;
    mail->letter->recv_id = asked->recv_id;
    return sv_mail_post(engine, mail, peer->rank);
}

static void to_send(sv_message_engine_t *engine, const sv_letter_t *letter)
{
    selvage_request_t *send = sv_message_find(engine, letter->send_id);
    if (!send || !send->is_send || send->peer != letter->source)
        return;
    if (letter->kind == SV_LETTER_CTS)
        sv_message_send_cleared(send, letter);
    else
        sv_message_send_judged(send, letter);
}

static void to_recv(sv_message_engine_t *engine, const sv_letter_t *letter)
{
    selvage_request_t *recv = sv_message_find(engine, letter->recv_id);
    if (recv && !recv->is_send && recv->peer == letter->source)
        sv_message_recv_done(recv, letter);
}

static selvage_status_t obey(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    switch ((sv_letter_kind_t)letter->kind) {
    case SV_LETTER_CTS:
    case SV_LETTER_VERDICT:
        to_send(engine, letter);
        break;
    case SV_LETTER_DONE:
    case SV_LETTER_DENY:
        to_recv(engine, letter);
        break;
    case SV_LETTER_BOX:
        sv_message_box_open(engine, peer, letter);
        break;
    case SV_LETTER_ACK:
        acknowledged(engine, peer, letter);
        break;
    case SV_LETTER_AGAIN:
        return send_again(engine, peer, letter);
    case SV_LETTER_SEQUENCE_ACK: /* in a box: by the wire nobody comes here with it */
        return sv_unacked_receive(engine, peer, letter, &(bool){false});
    case SV_LETTER_BYE:   /* which is acknowledged as all are */
    case SV_LETTER_EAGER:
    case SV_LETTER_RTS:
    case SV_LETTER_LATE:
        break;
    }
    return SELVAGE_SUCCESS;
}

/* A letter that stands for a message. */
static selvage_status_t take(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail)
{
    const sv_letter_t *letter = mail->letter;
    if (letter->kind == SV_LETTER_EAGER && letter->attempt > 0)
        return take_again(engine, mail);
    if (letter->kind == SV_LETTER_EAGER && (letter->number <= peer->taken || find_late(&peer->early, letter)))
        return take_late(engine, peer, mail);
    if (is_stale(peer, letter)) {
        sv_mail_put(engine, mail);
        return SELVAGE_SUCCESS;
    }
    selvage_status_t status = make_room(engine, peer, &mail);
    take_in_order(engine, peer, mail);
    return status;
}

selvage_status_t sv_message_arrive(sv_message_engine_t *engine, sv_mail_t *mail)
{
    sv_message_peer_t *peer;
    const uint32_t kind = mail->letter->kind;
    selvage_status_t status = sv_message_peer(engine, mail->letter->source, &peer);
    if (status != SELVAGE_SUCCESS) {
        sv_mail_put(engine, mail);
        return status;
    }
    if (kind == SV_LETTER_EAGER || kind == SV_LETTER_RTS || kind == SV_LETTER_LATE)
        return take(engine, peer, mail);
    status = obey(engine, peer, mail->letter);
    sv_mail_put(engine, mail);
    return status;
}

/* By the wire, behind all that went there before. */
static selvage_status_t say_bye(sv_message_engine_t *engine, const sv_message_peer_t *peer)
{
    sv_mail_t *mail;
    SV_TRY(sv_mail_take(engine, true, &mail));
    *mail->letter = (sv_letter_t){.kind = SV_LETTER_BYE};
    return sv_mail_post(engine, mail, peer->rank);
}

bool sv_message_is_storing(const sv_message_engine_t *engine)
{
    for (const sv_list_t *it = engine->active.next; it != &engine->active; it = it->next) {
        const selvage_request_t *send = SV_CONTAINER_OF(it, selvage_request_t, link);
        const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_DIRECT;
        if (send->is_send && (send->state == SV_REQUEST_FILLING || (direct && !sv_message_direct_has_left(send))))
            return true;
    }
    return false;
}

selvage_status_t sv_message_part(sv_message_engine_t *engine, bool *parted)
{
    *parted = !sv_message_is_storing(engine);
    for (int i = 0; i < SV_MESSAGE_PEERS; i++)
        for (sv_message_peer_t *peer = engine->peers[i]; peer; peer = peer->next) {
            if (peer->wrote && !peer->parting)
                SV_TRY(say_bye(engine, peer));
            peer->parting = true;
            *parted = *parted && sv_list_is_empty(&peer->unacked);
        }
    return SELVAGE_SUCCESS;
}
