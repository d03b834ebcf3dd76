/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters that go by the wire arrive, although it may lose, damage, repeat or reorder them. Each has a place among the
 * letters of its pair of ranks. The receiver takes what it has not had, in whatever order, since nothing in letters
 * depends on that; and it says up to where all came: beside each letter by the wire, or after a while in one that says
 * nothing else (HEARD, which has no place). The sender remembers what has not been said to be there, and sends the
 * oldest again, at intervals that double. It does so for as long as its communicator lives; who waits has the deadline.
 *
 *   unheard   of a peer: letters that it has not said to have, by place; bytes behind a letter stay in its mail
 *   untold    letters of a peer's since it was last told; those that came twice are told of at once
 *
 * Nothing of that concerns letters in boxes, which cannot be lost. Under the engine's lock.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_engine.h"

enum { FIRST_NS = 20000000, DOUBLED_MOST = 8, OLDEST = 4, HASTY = 3, SILENT = 5 }; /* of sending again */
enum { TELL_NS = 1000000, TELL_MANY = 16 };

/* --- what came from there ----------------------------------------------------------------------------------------- */

/* Where a letter says beside what it says how far the other's came; NULL: that one has no room for it. */
static uint64_t *beside(sv_letter_t *letter)
{
    const size_t last = sizeof letter->value / sizeof letter->value[0] - 1;
    const bool full = letter->kind == SV_LETTER_CTS && letter->value[0] == SV_MESSAGE_DIRECT;
    return full ? NULL : &letter->value[last];
}

static void note_told(sv_message_peer_t *peer)
{
    peer->untold = 0;
    sv_list_remove(&peer->untold_link);
}

void sv_unheard_tell_beside(sv_message_peer_t *peer, sv_letter_t *letter)
{
    uint64_t *at = beside(letter);
    if (!at)
        return;
    *at = peer->heard;
    note_told(peer);
}

static void plan_telling(sv_message_engine_t *engine, sv_message_peer_t *peer, uint32_t letters)
{
    if (peer->untold == 0) {
        peer->untold_ns = sv_clock_ns();
        sv_list_append(&engine->untold_peers, &peer->untold_link);
    }
    peer->untold += letters;
}

/* Whether this place is new, and not too far ahead; it is not new any more. */
static bool take_place(sv_message_peer_t *peer, uint32_t place)
{
    const int32_t ahead = (int32_t)(place - peer->heard);
    uint64_t *word = &peer->ahead[place % SV_MAIL_AHEAD / 64], bit = UINT64_C(1) << place % 64;
    if (ahead <= 0 || ahead > SV_MAIL_AHEAD || (*word & bit))
        return false;
    *word |= bit;
    for (;;) {
        const uint32_t next = peer->heard + 1;
        word = &peer->ahead[next % SV_MAIL_AHEAD / 64];
        bit = UINT64_C(1) << next % 64;
        if (!(*word & bit))
            return true;
        *word &= ~bit;
        peer->heard = next;
    }
}

static void hear_beside(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    sv_letter_t copy = *letter;
    const uint64_t *at = beside(&copy);
    bool any = false;
    if (!at || (int32_t)((uint32_t)*at - peer->placed) > 0)
        return;
    while (!sv_list_is_empty(&peer->unheard)) {
        sv_unheard_t *oldest = SV_CONTAINER_OF(peer->unheard.next, sv_unheard_t, link);
        if ((int32_t)(oldest->letter.place - (uint32_t)*at) > 0)
            break;
        sv_unheard_forget(engine, peer, oldest);
        any = true;
    }
    if (!any)
        return;
    peer->resends = 0;
    if (!sv_list_is_empty(&peer->unheard))
        peer->resend_ns = sv_clock_ns() + FIRST_NS;
}

bool sv_unheard_hear(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    hear_beside(engine, peer, letter);
    if (letter->kind == SV_LETTER_HEARD)
        return false;
    const bool is_new = take_place(peer, letter->place);
    const bool at_once = !is_new || letter->kind == SV_LETTER_BYE;
    plan_telling(engine, peer, at_once ? TELL_MANY : 1);
    return is_new;
}

/* By whichever way; nobody waits for it, and it is not sent again. */
static selvage_status_t tell_heard(sv_message_engine_t *engine, sv_message_peer_t *peer)
{
    sv_letter_t letter = {.kind = SV_LETTER_HEARD};
    sv_unheard_tell_beside(peer, &letter);
    return sv_mail_tell(engine, peer->rank, &letter);
}

/* --- what went there ---------------------------------------------------------------------------------------------- */

static selvage_status_t more_unheard(sv_message_engine_t *engine)
{
    sv_unheard_chunk_t *chunk;
    SV_TRY(sv_calloc(1, sizeof *chunk, &chunk));
    chunk->next = engine->unheard_chunks;
    engine->unheard_chunks = chunk;
    for (int i = 0; i < SV_UNHEARD_CHUNK; i++)
        sv_list_append(&engine->unheard_free, &chunk->entry[i].link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unheard_note(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail)
{
    if (sv_list_is_empty(&engine->unheard_free))
        SV_TRY(more_unheard(engine));
    sv_unheard_t *unheard = SV_CONTAINER_OF(engine->unheard_free.next, sv_unheard_t, link);
    sv_list_remove(&unheard->link);
    mail->letter->place = ++peer->placed;
    unheard->letter = *mail->letter;
    unheard->mail = NULL;
    if (sv_mail_bytes(mail->letter) > sizeof *mail->letter) {
        unheard->mail = mail;
        mail->unheard = unheard;
    }
    if (sv_list_is_empty(&peer->unheard)) {
        peer->resends = 0;
        peer->resend_ns = sv_clock_ns() + FIRST_NS;
        sv_list_append(&engine->unheard_peers, &peer->unheard_link);
    }
    sv_list_append(&peer->unheard, &unheard->link);
    return SELVAGE_SUCCESS;
}

void sv_unheard_forget(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unheard_t *unheard)
{
    sv_mail_t *mail = unheard->mail;
    sv_list_remove(&unheard->link);
    sv_list_append(&engine->unheard_free, &unheard->link);
    if (sv_list_is_empty(&peer->unheard))
        sv_list_remove(&peer->unheard_link);
    if (!mail)
        return;
    mail->unheard = NULL;
    if (!mail->flying && !mail->kept)
        sv_mail_put(engine, mail);
}

static selvage_status_t resend_letter(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unheard_t *unheard)
{
    sv_mail_t *mail = unheard->mail;
    if (mail && mail->flying) /* the wire has it still */
        return SELVAGE_SUCCESS;
    if (!mail) {
        SV_TRY(sv_mail_take(engine, &mail));
        *mail->letter = unheard->letter;
    }
    engine->resent++;
    sv_unheard_tell_beside(peer, mail->letter);
    return sv_mail_fly(engine, mail, peer->rank);
}

static selvage_status_t send_oldest_again(sv_message_engine_t *engine, sv_message_peer_t *peer, uint64_t now_ns)
{
    const unsigned doubled = peer->resends < DOUBLED_MOST ? peer->resends : DOUBLED_MOST;
    int left = peer->resends < HASTY ? OLDEST : 1; /* who does not read is not to be flooded */
    peer->resends++;
    peer->resend_ns = now_ns + ((uint64_t)FIRST_NS << doubled);
    for (sv_list_t *it = peer->unheard.next; it != &peer->unheard && left > 0; it = it->next, left--)
        SV_TRY(resend_letter(engine, peer, SV_CONTAINER_OF(it, sv_unheard_t, link)));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unheard_poll(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    if (sv_list_is_empty(&engine->unheard_peers) && sv_list_is_empty(&engine->untold_peers))
        return SELVAGE_SUCCESS;
    const uint64_t now_ns = sv_clock_ns();
    SV_LIST_FOR_EACH(it, safe, &engine->untold_peers) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, untold_link);
        if (peer->untold >= TELL_MANY || now_ns - peer->untold_ns > TELL_NS)
            SV_TRY(tell_heard(engine, peer));
    }
    SV_LIST_FOR_EACH(it, safe, &engine->unheard_peers) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unheard_link);
        if (now_ns >= peer->resend_ns)
            SV_TRY(send_oldest_again(engine, peer, now_ns));
    }
    return SELVAGE_SUCCESS;
}

int sv_unheard_silent(const sv_message_engine_t *engine)
{
    for (const sv_list_t *it = engine->unheard_peers.next; it != &engine->unheard_peers; it = it->next) {
        const sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unheard_link);
        if (peer->resends >= SILENT)
            return peer->rank;
    }
    return -1;
}

void sv_unheard_free(sv_message_engine_t *engine)
{
    for (sv_unheard_chunk_t *chunk = engine->unheard_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        sv_free(chunk);
    }
}
