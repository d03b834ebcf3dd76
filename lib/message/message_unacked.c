/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters that go by the wire arrive, although it may lose, damage, repeat or reorder them. Each has a sequence number
 * in its pair of ranks. The receiver takes each once, in whatever order, since nothing in letters depends on that; and
 * it acknowledges up to which number all came: in each letter by the wire, or after a while in one that says nothing
 * else (SEQUENCE_ACK, which has no number). The sender keeps what was not acknowledged, and sends the oldest again, at
 * intervals that double. It does so for as long as its communicator lives; who waits has the deadline.
 *
 *   unacked   of a peer: letters that it has not acknowledged, by number; what comes after a letter stays in its mail
 *   ack_due   letters of a peer's since it last had an acknowledgement; those that came twice get one at once
 *
 * Nothing of that concerns letters in boxes, which cannot be lost. Under the engine's lock.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_engine.h"

/* Sending again: after so long, which doubles so often; so many of the oldest, but one alone after so many times in vain;
   and a rank that has not answered so often is named in errors. */
enum { FIRST_NS = 20000000, DOUBLED_MOST = 8, OLDEST = 4, HASTY = 3, SILENT = 5 };
/* An acknowledgement goes out after so long, or for so many letters. */
enum { ACK_NS = 1000000, ACK_LETTERS = 16 };

enum { UNACKED_CHUNK = 32 };
typedef struct sv_unacked_chunk {
    struct sv_unacked_chunk *next;
    sv_unacked_t entry[UNACKED_CHUNK];
} sv_unacked_chunk_t;

/* --- what came from there ----------------------------------------------------------------------------------------- */

/* The value of a letter that acknowledges others. */
enum { ACK_VALUE = 16 };
_Static_assert(sizeof((sv_letter_t *)0)->value / sizeof(uint64_t) == ACK_VALUE + 1, "it is the last one");

static bool has_ack_room(const sv_letter_t *letter)
{
    return letter->kind != SV_LETTER_CTS || letter->value[0] != SV_MESSAGE_DIRECT;
}

void sv_unacked_piggyback(sv_message_peer_t *peer, sv_letter_t *letter)
{
    if (!has_ack_room(letter))
        return;
    letter->value[ACK_VALUE] = peer->came_sequence;
    peer->ack_due = 0;
    sv_list_remove(&peer->ack_due_link);
}

static void owe_ack(sv_message_engine_t *engine, sv_message_peer_t *peer, uint32_t letters)
{
    if (peer->ack_due == 0) {
        peer->ack_due_ns = sv_clock_ns();
        sv_list_append(&engine->ack_due_peers, &peer->ack_due_link);
    }
    peer->ack_due += letters;
}

/* Whether this number is new, and not too far ahead; it is not new any more. */
static bool take_sequence(sv_message_peer_t *peer, uint32_t sequence)
{
    const int32_t ahead = (int32_t)(sequence - peer->came_sequence);
    uint64_t *word = &peer->ahead[sequence % SV_MAIL_AHEAD / 64], bit = UINT64_C(1) << sequence % 64;
    if (ahead <= 0 || ahead > SV_MAIL_AHEAD || (*word & bit))
        return false;
    *word |= bit;
    for (;;) {
        const uint32_t next = peer->came_sequence + 1;
        word = &peer->ahead[next % SV_MAIL_AHEAD / 64];
        bit = UINT64_C(1) << next % 64;
        if (!(*word & bit))
            return true;
        *word &= ~bit;
        peer->came_sequence = next;
    }
}

static void take_piggybacked(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    const uint32_t acked = (uint32_t)letter->value[ACK_VALUE];
    bool any = false;
    if (!has_ack_room(letter) || (int32_t)(acked - peer->sent_sequence) > 0)
        return;
    while (!sv_list_is_empty(&peer->unacked)) {
        sv_unacked_t *oldest = SV_CONTAINER_OF(peer->unacked.next, sv_unacked_t, link);
        if ((int32_t)(oldest->letter.sequence - acked) > 0)
            break;
        sv_unacked_release(engine, peer, oldest);
        any = true;
    }
    if (!any)
        return;
    peer->resends = 0;
    if (!sv_list_is_empty(&peer->unacked))
        peer->resend_ns = sv_clock_ns() + FIRST_NS;
}

bool sv_unacked_receive(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter)
{
    take_piggybacked(engine, peer, letter);
    if (letter->kind == SV_LETTER_SEQUENCE_ACK)
        return false;
    const bool is_new = take_sequence(peer, letter->sequence);
    const bool at_once = !is_new || letter->kind == SV_LETTER_BYE;
    owe_ack(engine, peer, at_once ? ACK_LETTERS : 1);
    return is_new;
}

/* By whichever way. It is not sent again: what it acknowledged is, and then it is made anew. */
static selvage_status_t send_sequence_ack(sv_message_engine_t *engine, sv_message_peer_t *peer)
{
    sv_letter_t letter = {.kind = SV_LETTER_SEQUENCE_ACK};
    sv_unacked_piggyback(peer, &letter);
    return sv_mail_tell(engine, peer->rank, &letter);
}

/* --- what went there ---------------------------------------------------------------------------------------------- */

static selvage_status_t grow_unacked(sv_message_engine_t *engine)
{
    sv_unacked_chunk_t *chunk;
    SV_TRY(sv_calloc(1, sizeof *chunk, &chunk));
    chunk->next = engine->unacked_chunks;
    engine->unacked_chunks = chunk;
    for (int i = 0; i < UNACKED_CHUNK; i++)
        sv_list_append(&engine->unacked_free, &chunk->entry[i].link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unacked_add(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail)
{
    if (sv_list_is_empty(&engine->unacked_free))
        SV_TRY(grow_unacked(engine));
    sv_unacked_t *unacked = SV_CONTAINER_OF(engine->unacked_free.next, sv_unacked_t, link);
    sv_list_remove(&unacked->link);
    mail->letter->sequence = ++peer->sent_sequence;
    unacked->letter = *mail->letter;
    unacked->mail = NULL;
    if (sv_mail_bytes(mail->letter) > sizeof *mail->letter) {
        unacked->mail = mail;
        mail->unacked = unacked;
    }
    if (sv_list_is_empty(&peer->unacked)) {
        peer->resends = 0;
        peer->resend_ns = sv_clock_ns() + FIRST_NS;
        sv_list_append(&engine->unacked_peers, &peer->unacked_link);
    }
    sv_list_append(&peer->unacked, &unacked->link);
    return SELVAGE_SUCCESS;
}

void sv_unacked_release(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked)
{
    sv_mail_t *mail = unacked->mail;
    sv_list_remove(&unacked->link);
    sv_list_append(&engine->unacked_free, &unacked->link);
    if (sv_list_is_empty(&peer->unacked))
        sv_list_remove(&peer->unacked_link);
    if (!mail)
        return;
    mail->unacked = NULL;
    if (!mail->flying && !mail->kept)
        sv_mail_put(engine, mail);
}

static selvage_status_t resend_letter(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked)
{
    sv_mail_t *mail = unacked->mail;
    if (mail && mail->flying) /* the wire has it still */
        return SELVAGE_SUCCESS;
    if (!mail) {
        SV_TRY(sv_mail_take(engine, &mail));
        *mail->letter = unacked->letter;
    }
    engine->resent++;
    sv_unacked_piggyback(peer, mail->letter);
    return sv_mail_fly(engine, mail, peer->rank);
}

static selvage_status_t send_oldest_again(sv_message_engine_t *engine, sv_message_peer_t *peer, uint64_t now_ns)
{
    const unsigned doubled = peer->resends < DOUBLED_MOST ? peer->resends : DOUBLED_MOST;
    int left = peer->resends < HASTY ? OLDEST : 1; /* who does not read is not to be flooded */
    peer->resends++;
    peer->resend_ns = now_ns + ((uint64_t)FIRST_NS << doubled);
    for (sv_list_t *it = peer->unacked.next; it != &peer->unacked && left > 0; it = it->next, left--)
        SV_TRY(resend_letter(engine, peer, SV_CONTAINER_OF(it, sv_unacked_t, link)));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unacked_poll(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    if (sv_list_is_empty(&engine->unacked_peers) && sv_list_is_empty(&engine->ack_due_peers))
        return SELVAGE_SUCCESS;
    const uint64_t now_ns = sv_clock_ns();
    SV_LIST_FOR_EACH(it, safe, &engine->ack_due_peers) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, ack_due_link);
        if (peer->ack_due >= ACK_LETTERS || now_ns - peer->ack_due_ns > ACK_NS)
            SV_TRY(send_sequence_ack(engine, peer));
    }
    SV_LIST_FOR_EACH(it, safe, &engine->unacked_peers) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unacked_link);
        if (now_ns >= peer->resend_ns)
            SV_TRY(send_oldest_again(engine, peer, now_ns));
    }
    return SELVAGE_SUCCESS;
}

int sv_unacked_silent_rank(const sv_message_engine_t *engine)
{
    for (const sv_list_t *it = engine->unacked_peers.next; it != &engine->unacked_peers; it = it->next) {
        const sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unacked_link);
        if (peer->resends >= SILENT)
            return peer->rank;
    }
    return -1;
}

void sv_unacked_free(sv_message_engine_t *engine)
{
    for (sv_unacked_chunk_t *chunk = engine->unacked_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        sv_free(chunk);
    }
}
