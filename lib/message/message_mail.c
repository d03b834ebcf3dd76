/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters out and in. They go by the wire, all with one tag, into receives that their reader has posted ahead, and are
 * taken as they come. To this rank itself they go by a list.
 * A letter that does not verify is dropped and said on the log: its sender sends it again (message_unacked.c).
 */
#include <string.h>

#include "base/base_log.h"
#include "message/message_box.h"
#include "message/message_engine.h"
#include "message/message_unacked.h"

enum { LETTER_TAG = 0, LETTERS_PER_POLL = 64 };

static uint64_t check_of(const sv_message_engine_t *engine, const sv_letter_t *letter, int destination)
{
    const uint64_t *word = (const uint64_t *)(const void *)letter;
    const size_t words = offsetof(sv_letter_t, record) / sizeof *word;
    uint64_t check = sv_digest_mix(engine->exchange + (uint64_t)destination + 1);
    for (size_t i = 1; i < words; i++)
        check = sv_digest_mix(check + word[i]);
    return check;
}

size_t sv_mail_bytes(const sv_letter_t *letter)
{
    const bool behind = letter->kind == SV_LETTER_EAGER && letter->value[0] == 0;
    return sizeof *letter + (behind ? letter->bytes : 0);
}

/* In the place of a LATE the message itself will lie. */
bool sv_mail_is_bare(const sv_letter_t *letter)
{
    return sv_mail_bytes(letter) == sizeof *letter && letter->kind != SV_LETTER_LATE;
}

/* A fault of a test's: a small message is damaged on its way, and whole again when it has left. */
static void hurt(sv_message_engine_t *engine, sv_mail_t *mail)
{
    const sv_letter_t *letter = mail->letter;
    sv_fault_t *fault = &engine->comm->fault;
    if (letter->kind != SV_LETTER_EAGER || letter->bytes == 0 ||
        sv_fault_packet(fault, (uint32_t)letter->number, letter->attempt) != SV_FAULT_FLIP)
        return;
    mail->hurt = sv_fault_random(fault, letter->bytes) + 1;
    sv_mail_payload(mail)[mail->hurt - 1] ^= 1;
}

/* What fails is still the caller's. */
static selvage_status_t launch_mail(sv_message_engine_t *engine, sv_mail_t *mail, int rank)
{
    sv_mail_seal(engine, mail, rank);
    if (engine->comm->fault.armed)
        hurt(engine, mail);
    SV_TRY(sv_wire_send(engine->wire, SV_WIRE_MESSAGE, mail->letter, sv_mail_bytes(mail->letter), rank, LETTER_TAG,
                        &mail->request));
    mail->flying = true;
    sv_list_append(&engine->flying, &mail->link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_mail_fly(sv_message_engine_t *engine, sv_mail_t *mail, int rank)
{
    selvage_status_t status = launch_mail(engine, mail, rank);
    if (status == SELVAGE_SUCCESS)
        return status;
    if (!mail->unacked)
        sv_mail_put(engine, mail);
    sv_message_break(engine, status);
    return status;
}

/* What must arrive is remembered until it has. */
static selvage_status_t post_by_wire(sv_message_engine_t *engine, sv_mail_t *mail, int rank)
{
    const bool numbered = mail->letter->kind != SV_LETTER_SEQUENCE_ACK;
    bool may_fly = true;
    sv_message_peer_t *peer;
    selvage_status_t status = sv_message_peer(engine, rank, &peer);
    if (status == SELVAGE_SUCCESS && numbered)
        status = sv_unacked_add(engine, peer, mail, &may_fly);
    if (status != SELVAGE_SUCCESS) {
        sv_mail_put(engine, mail);
        sv_message_break(engine, status);
        return status;
    }
    peer->wrote |= numbered;
    if (!may_fly) {
        if (!mail->unacked && !mail->kept)
            sv_mail_put(engine, mail);
        return SELVAGE_SUCCESS;
    }
    if (numbered)
        sv_unacked_piggyback(peer, mail->letter);
    return sv_mail_fly(engine, mail, rank);
}

void sv_mail_seal(sv_message_engine_t *engine, sv_mail_t *mail, int rank)
{
    mail->letter->source = engine->wire->rank;
    mail->letter->check = check_of(engine, mail->letter, rank);
}

selvage_status_t sv_mail_post(sv_message_engine_t *engine, sv_mail_t *mail, int rank)
{
    if (!mail->box && rank != engine->wire->rank)
        return post_by_wire(engine, mail, rank);
    sv_mail_seal(engine, mail, rank);
    if (mail->box) {
        __atomic_store_n(mail->word, mail->stamp, __ATOMIC_RELEASE); /* partner: the acquire in look_into() */
        return SELVAGE_SUCCESS;
    }
    mail->kept = false;
    sv_list_append(&engine->own, &mail->link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_mail_tell(sv_message_engine_t *engine, int rank, const sv_letter_t *letter)
{
    sv_mail_t *mail;
    SV_TRY(sv_mail_take_to(engine, rank, sv_mail_is_bare(letter), &mail));
    *mail->letter = *letter;
    return sv_mail_post(engine, mail, rank);
}

selvage_status_t sv_mail_acknowledge(sv_message_engine_t *engine, int rank, uint64_t number)
{
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, rank, &peer));
    peer->acks[peer->nacks++] = number;
    if (peer->nacks < SV_MAIL_ACKS)
        return SELVAGE_SUCCESS;
    sv_letter_t letter = {.kind = SV_LETTER_ACK};
    memcpy(letter.value, peer->acks, sizeof peer->acks);
    peer->nacks = 0;
    return sv_mail_tell(engine, rank, &letter);
}

selvage_status_t sv_mail_taken(sv_message_engine_t *engine, sv_mail_t *mail)
{
    const int source = mail->letter->source;
    const uint64_t number = mail->letter->number;
    const bool from_wire = mail->from_wire;
    sv_mail_put(engine, mail);
    return from_wire ? sv_mail_acknowledge(engine, source, number) : SELVAGE_SUCCESS;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static selvage_status_t listen(sv_message_engine_t *engine, unsigned slot)
{
    sv_mail_t *mail;
    SV_TRY(sv_mail_take(engine, false, &mail));
    selvage_status_t status = sv_wire_recv(engine->wire, SV_WIRE_MESSAGE, mail->letter, engine->mail_bytes,
                                           SV_WIRE_ANY_SOURCE, LETTER_TAG, &mail->request);
    if (status != SELVAGE_SUCCESS) {
        sv_mail_put(engine, mail);
        return status;
    }
    engine->ring[slot] = mail;
    return SELVAGE_SUCCESS;
}

static selvage_status_t listen_all(sv_message_engine_t *engine)
{
    for (unsigned i = 0; i < SV_MAIL_RING && !engine->ring_posted; i++)
        SV_TRY(listen(engine, i));
    engine->ring_posted = true;
    return SELVAGE_SUCCESS;
}

bool sv_mail_is_sound(const sv_message_engine_t *engine, const sv_letter_t *letter)
{
    return letter->check == check_of(engine, letter, engine->wire->rank) &&
           sv_mail_bytes(letter) <= engine->mail_bytes && letter->source >= 0 && letter->source < engine->wire->size;
}

static bool is_whole(const sv_message_engine_t *engine, const sv_letter_t *letter, size_t bytes)
{
    return bytes >= sizeof *letter && sv_mail_is_sound(engine, letter) && bytes == sv_mail_bytes(letter) &&
           (letter->kind != SV_LETTER_EAGER || letter->value[0] == 0); /* else its bytes would be in a slot */
}

/* What is new; a letter that says what came, or comes again, moves nothing, and puts no deadline off. */
static selvage_status_t take_whole(sv_message_engine_t *engine, sv_mail_t *mail, bool *moved)
{
    const int source = mail->letter->source;
    sv_mail_t *copy;
    sv_message_peer_t *peer;
    bool is_new = false;
    selvage_status_t status = sv_message_peer(engine, source, &peer);
    if (status == SELVAGE_SUCCESS)
        status = sv_unacked_receive(engine, peer, mail->letter, &is_new);
    if (!is_new) {
        sv_mail_put(engine, mail);
        return status;
    }
    *moved = true;
    SV_TRY(sv_message_box_offer(engine, source));
    /* A letter alone may lie here for long, before somebody asks for its message: not with room for more after it. */
    if (sv_mail_is_bare(mail->letter) && sv_mail_take(engine, true, &copy) == SELVAGE_SUCCESS) {
        *copy->letter = *mail->letter;
        copy->from_wire = mail->from_wire;
        sv_mail_put(engine, mail);
        mail = copy;
    }
    return sv_message_arrive(engine, mail);
}

/* The receive in this place from the oldest on, if it is filled, is posted anew as the youngest. */
static selvage_status_t take_ring_letter(sv_message_engine_t *engine, unsigned behind, bool *moved)
{
    const unsigned head = engine->ring_head;
    sv_mail_t *mail = engine->ring[(head + behind) % SV_MAIL_RING];
    size_t bytes = 0;
    SV_TRY(sv_wire_test(engine->wire, &mail->request, &bytes));
    for (unsigned i = behind; i > 0; i--)
        engine->ring[(head + i) % SV_MAIL_RING] = engine->ring[(head + i - 1) % SV_MAIL_RING];
    engine->ring[head] = NULL;
    SV_TRY(listen(engine, head));
    engine->ring_head = (head + 1) % SV_MAIL_RING;
    mail->from_wire = mail->letter->kind == SV_LETTER_EAGER;
    if (is_whole(engine, mail->letter, bytes))
        return take_whole(engine, mail, moved);
    sv_log(SV_LOG_WARN, "message", "a letter of %zu bytes came that does not verify; its sender sends it again",
           bytes);
    sv_mail_put(engine, mail);
    return SELVAGE_SUCCESS;
}

/* The oldest is the next to be filled, but where the wire is in the middle of it and its sender stands still: those
   after it may be filled before, and are looked at now and then. */
static selvage_status_t take_letters(sv_message_engine_t *engine, bool *moved)
{
    enum { STUCK_POLLS = 4096 }; /* each look lets MPI do all that it has to do, and takes up to a microsecond */
    selvage_status_t status = listen_all(engine);
    for (int i = 0; i < LETTERS_PER_POLL && status == SELVAGE_SUCCESS; i++) {
        status = take_ring_letter(engine, 0, moved);
        if (status == SELVAGE_SUCCESS)
            engine->ring_polls = 0;
    }
    if (status != SELVAGE_IN_PROGRESS || ++engine->ring_polls % STUCK_POLLS != 0)
        return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    for (unsigned behind = 1; behind < SV_MAIL_RING; behind++) {
        status = take_ring_letter(engine, behind, moved);
        if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS)
            return status;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t take_own(sv_message_engine_t *engine, bool *moved)
{
    for (int i = 0; i < LETTERS_PER_POLL && !sv_list_is_empty(&engine->own); i++) {
        sv_mail_t *mail = SV_CONTAINER_OF(engine->own.next, sv_mail_t, link);
        sv_list_remove(&mail->link);
        *moved = true;
        SV_TRY(sv_message_arrive(engine, mail));
    }
    return SELVAGE_SUCCESS;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static void has_left(sv_message_engine_t *engine, sv_mail_t *mail)
{
    mail->flying = false;
    if (mail->hurt)
        sv_mail_payload(mail)[mail->hurt - 1] ^= 1;
    mail->hurt = 0;
    if (mail->kept || mail->unacked)
        sv_list_remove(&mail->link);
    else
        sv_mail_put(engine, mail);
}

/* That one has left moves nothing: repeats and acknowledgements leave, too, and are to put no deadline off. */
static selvage_status_t reap(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->flying) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, link);
        selvage_status_t status = sv_wire_test(engine->wire, &mail->request, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        has_left(engine, mail);
    }
    return SELVAGE_SUCCESS;
}

/* A question to the wire takes longer than all looks into boxes, and letters of the node do not come by it. */
static bool is_wires_turn(sv_message_engine_t *engine)
{
    enum { TURNS = 4 };
    return sv_list_is_empty(&engine->boxed) || !engine->ring_posted || engine->polls++ % TURNS == 0;
}

selvage_status_t sv_mail_poll(sv_message_engine_t *engine, bool *moved)
{
    SV_TRY(sv_message_boxes_poll(engine, moved));
    if (is_wires_turn(engine))
        SV_TRY(take_letters(engine, moved));
    SV_TRY(take_own(engine, moved));
    SV_TRY(reap(engine));
    return sv_unacked_poll(engine);
}

void sv_mail_withdraw(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    /* Youngest first: a late letter must not move into a receive that was just about to be withdrawn. */
    for (unsigned i = SV_MAIL_RING; i-- > 0;) {
        sv_mail_t *mail = engine->ring[(engine->ring_head + i) % SV_MAIL_RING];
        if (mail && sv_wire_cancel(engine->wire, &mail->request) != SELVAGE_SUCCESS)
            engine->quarantined = true;
        engine->ring[(engine->ring_head + i) % SV_MAIL_RING] = NULL;
    }
    SV_LIST_FOR_EACH(it, safe, &engine->flying) {
        sv_mail_t *mail = SV_CONTAINER_OF(it, sv_mail_t, link);
        if (sv_wire_cancel(engine->wire, &mail->request) != SELVAGE_SUCCESS)
            engine->quarantined = true;
        mail->flying = false;
        sv_list_remove(&mail->link);
    }
}
