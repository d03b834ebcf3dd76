/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages by the wire arrive, although the wire may lose, damage, repeat or reorder them. Each has a sequence
 * number in its pair of ranks. The receiver takes each once, in any order, since nothing in them depends on that. It
 * acknowledges up to which number all came, in each control message by the wire. After a while without one it sends a
 * SEQUENCE_ACK, which says nothing else and has no number.
 *
 * The sender keeps what was not acknowledged, and sends the oldest again, at intervals that double. It does so for as
 * long as its communicator lives. Whoever waits has the deadline.
 *
 *   unacked   of a peer: control messages that it has not acknowledged, by number. The payload of one stays in its
 *             descriptor
 *   ack_due   control messages of a peer's since it last had an acknowledgement. Those that came twice get one at once
 *
 * Control messages in shared segments cannot be lost, and have none of this. Under the engine's lock.
 */
#include "message/message_unacked.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_pool.h"

/* Sending again. It begins after FIRST_NS, and that doubles DOUBLED_MOST times. It sends the OLDEST, and HOLES of those
   known to be missing; after HASTY times in vain one of each. Errors name a rank that has not answered SILENT times. */
enum { FIRST_NS = 20000000, DOUBLED_MOST = 8, OLDEST = 4, HASTY = 3, HOLES = 64, SILENT = 5 };
/* An acknowledgement goes out after so long, or for so many control messages. */
enum { ACK_NS = 1000000, ACK_MESSAGES = 16 };

enum { UNACKED_CHUNK = 32 };
typedef struct sv_unacked_chunk {
    struct sv_unacked_chunk *next;
    sv_unacked_t entry[UNACKED_CHUNK];
} sv_unacked_chunk_t;

/* --- what came from there ----------------------------------------------------------------------------------------- */

/* The value of a control message that acknowledges others. */
enum { ACK_VALUE = 16 };
_Static_assert(sizeof((sv_ctrl_header_t *)0)->value / sizeof(uint64_t) == ACK_VALUE + 1, "it is the last one");

static bool has_ack_room(const sv_ctrl_header_t *header)
{
    return header->kind != SV_CTRL_CTS || header->value[0] != SV_MESSAGE_PUT;
}

void sv_unacked_piggyback(sv_message_peer_t *peer, sv_ctrl_header_t *header)
{
    if (!has_ack_room(header))
        return;
    header->value[ACK_VALUE] = peer->arrived_sequence;
    if (peer->nahead) /* it does not say so: a SEQUENCE_ACK will */
        return;
    peer->ack_due = 0;
    sv_list_remove(&peer->ack_due_link);
}

static bool test_bit(uint64_t *bits, uint32_t sequence, bool set)
{
    uint64_t *word = &bits[sequence % SV_CTRL_AHEAD / 64];
    const uint64_t bit = UINT64_C(1) << sequence % 64, before = *word & bit;
    *word = set ? *word | bit : *word & ~bit;
    return before != 0;
}

/* Whether this number is new, and not too far ahead. Marks it as taken. */
static bool take_sequence(sv_message_peer_t *peer, uint32_t sequence)
{
    const int32_t ahead = (int32_t)(sequence - peer->arrived_sequence);
    if (ahead <= 0 || ahead > SV_CTRL_AHEAD || test_bit(peer->ahead, sequence, true))
        return false;
    peer->nahead++;
    for (; peer->nahead && test_bit(peer->ahead, peer->arrived_sequence + 1, false); peer->nahead--)
        peer->arrived_sequence++;
    return true;
}

/* By whichever way. It is not sent again: what it acknowledged is, and then it is made anew. */
static selvage_status_t send_sequence_ack(sv_message_engine_t *engine, sv_message_peer_t *peer)
{
    sv_ctrl_header_t header = {.kind = SV_CTRL_SEQUENCE_ACK};
    header.value[ACK_VALUE] = peer->arrived_sequence;
    memcpy(header.value, peer->ahead, sizeof peer->ahead);
    peer->ack_due = 0;
    sv_list_remove(&peer->ack_due_link);
    return sv_ctrl_send_header(engine, peer->rank, &header);
}

/* --- what was acknowledged ---------------------------------------------------------------------------------------- */

void sv_unacked_release(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked)
{
    sv_ctrl_desc_t *desc = unacked->desc;
    sv_list_remove(&unacked->link);
    sv_list_append(&engine->unacked.free, &unacked->link);
    if (sv_list_is_empty(&peer->unacked))
        sv_list_remove(&peer->unacked_link);
    if (!desc)
        return;
    desc->unacked = NULL;
    if (!desc->in_flight && !desc->retained)
        sv_ctrl_free(engine, desc);
}

static selvage_status_t resend_unacked(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked)
{
    sv_ctrl_desc_t *desc = unacked->desc;
    if (desc && desc->in_flight) /* the wire has it still */
        return SELVAGE_SUCCESS;
    if (!desc) {
        SV_TRY(sv_ctrl_alloc(engine, true, &desc));
        *desc->header = unacked->header;
    }
    sv_unacked_piggyback(peer, desc->header);
    return sv_ctrl_send_wire(engine, desc, peer->rank);
}

static bool may_send_now(const sv_message_peer_t *peer, uint32_t sequence)
{
    return sequence - peer->acked_sequence <= SV_CTRL_AHEAD;
}

/* Releases those that came out of order. The bits are of the numbers after `acked`. */
static void release_ahead(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_ctrl_header_t *header)
{
    const uint32_t acked = (uint32_t)header->value[ACK_VALUE];
    uint64_t bits[SV_CTRL_AHEAD / 64], any = 0;
    memcpy(bits, header->value, sizeof bits);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        any |= bits[i];
    for (sv_list_t *it = peer->unacked.next, *next; any && it != &peer->unacked; it = next) {
        sv_unacked_t *unacked = SV_CONTAINER_OF(it, sv_unacked_t, link);
        const uint32_t sequence = unacked->header.sequence, ahead = sequence - acked;
        next = it->next;
        if (unacked == peer->held || ahead > SV_CTRL_AHEAD)
            break;
        if (!test_bit(bits, sequence, false))
            continue;
        peer->hole_sequence = sequence;
        sv_unacked_release(engine, peer, unacked);
    }
}

static selvage_status_t take_ack(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_ctrl_header_t *header)
{
    const uint32_t acked = (uint32_t)header->value[ACK_VALUE];
    if (!has_ack_room(header) || (int32_t)(acked - peer->sent_sequence) > 0)
        return SELVAGE_SUCCESS;
    while (!sv_list_is_empty(&peer->unacked)) {
        sv_unacked_t *oldest = SV_CONTAINER_OF(peer->unacked.next, sv_unacked_t, link);
        if ((int32_t)(oldest->header.sequence - acked) > 0)
            break;
        sv_unacked_release(engine, peer, oldest);
    }
    if (header->kind == SV_CTRL_SEQUENCE_ACK)
        release_ahead(engine, peer, header);
    if ((int32_t)(acked - peer->acked_sequence) <= 0)
        return SELVAGE_SUCCESS;
    peer->acked_sequence = acked;
    peer->resends = 0;
    peer->resend_ns = sv_clock_ns() + FIRST_NS;
    /* The receiver has room for more of those that wait here. */
    while (peer->held && may_send_now(peer, peer->held->header.sequence)) {
        sv_unacked_t *unacked = peer->held;
        const sv_list_t *next = unacked->link.next;
        peer->held = next == &peer->unacked ? NULL : SV_CONTAINER_OF(next, sv_unacked_t, link);
        SV_TRY(resend_unacked(engine, peer, unacked));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unacked_receive(sv_message_engine_t *engine, sv_message_peer_t *peer,
                                    const sv_ctrl_header_t *header, bool *is_new_out)
{
    SV_TRY(take_ack(engine, peer, header));
    if (header->kind == SV_CTRL_SEQUENCE_ACK)
        return SELVAGE_SUCCESS;
    *is_new_out = take_sequence(peer, header->sequence);
    if (peer->ack_due == 0) {
        peer->ack_due_ns = sv_clock_ns();
        sv_list_append(&engine->unacked.ack_due, &peer->ack_due_link);
    }
    peer->ack_due += !*is_new_out || header->kind == SV_CTRL_DISCONNECT ? ACK_MESSAGES : 1;
    return SELVAGE_SUCCESS;
}

/* --- what went there ---------------------------------------------------------------------------------------------- */

selvage_status_t sv_unacked_add(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_ctrl_desc_t *desc,
                                bool *may_send_out)
{
    if (desc->unacked) /* it was asked for again, so it has come, though not all before it */
        sv_unacked_release(engine, peer, desc->unacked);
    if (sv_list_is_empty(&engine->unacked.free)) {
        sv_unacked_chunk_t *chunk;
        SV_TRY(sv_calloc(1, sizeof *chunk, &chunk));
        chunk->next = engine->unacked.chunks;
        engine->unacked.chunks = chunk;
        for (int i = 0; i < UNACKED_CHUNK; i++)
            sv_list_append(&engine->unacked.free, &chunk->entry[i].link);
    }
    sv_unacked_t *unacked = SV_CONTAINER_OF(engine->unacked.free.next, sv_unacked_t, link);
    sv_list_remove(&unacked->link);
    desc->header->sequence = ++peer->sent_sequence;
    unacked->header = *desc->header;
    unacked->desc = NULL;
    if (sv_ctrl_bytes(desc->header) > sizeof *desc->header) {
        unacked->desc = desc;
        desc->unacked = unacked;
    }
    if (sv_list_is_empty(&peer->unacked)) {
        peer->resends = 0;
        peer->resend_ns = sv_clock_ns() + FIRST_NS;
        sv_list_append(&engine->unacked.peers, &peer->unacked_link);
    }
    sv_list_append(&peer->unacked, &unacked->link);
    if (!peer->held && !may_send_now(peer, peer->sent_sequence))
        peer->held = unacked;
    *may_send_out = !peer->held;
    return SELVAGE_SUCCESS;
}

/* The oldest, of which nobody knows whether they came, and what is known not to have. */
static selvage_status_t send_oldest_again(sv_message_engine_t *engine, sv_message_peer_t *peer, uint64_t now_ns)
{
    const unsigned doubled = peer->resends < DOUBLED_MOST ? peer->resends : DOUBLED_MOST;
    int oldest = peer->resends < HASTY ? OLDEST : 1, holes = peer->resends < HASTY ? HOLES : 1;
    peer->resends++;
    peer->resend_ns = now_ns + ((uint64_t)FIRST_NS << doubled);
    for (sv_list_t *it = peer->unacked.next; it != &peer->unacked; it = it->next) {
        sv_unacked_t *unacked = SV_CONTAINER_OF(it, sv_unacked_t, link);
        const bool is_hole = (int32_t)(peer->hole_sequence - unacked->header.sequence) > 0;
        if (unacked == peer->held || (is_hole ? holes-- : oldest--) <= 0)
            break;
        engine->unacked.resent++;
        SV_TRY(resend_unacked(engine, peer, unacked));
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_unacked_poll(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    if (sv_list_is_empty(&engine->unacked.peers) && sv_list_is_empty(&engine->unacked.ack_due))
        return SELVAGE_SUCCESS;
    const uint64_t now_ns = sv_clock_ns();
    SV_LIST_FOR_EACH(it, safe, &engine->unacked.ack_due) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, ack_due_link);
        if (peer->ack_due >= ACK_MESSAGES || now_ns - peer->ack_due_ns > ACK_NS)
            SV_TRY(send_sequence_ack(engine, peer));
    }
    SV_LIST_FOR_EACH(it, safe, &engine->unacked.peers) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unacked_link);
        if (now_ns >= peer->resend_ns)
            SV_TRY(send_oldest_again(engine, peer, now_ns));
    }
    return SELVAGE_SUCCESS;
}

int sv_unacked_silent_rank(const sv_message_engine_t *engine)
{
    for (const sv_list_t *it = engine->unacked.peers.next; it != &engine->unacked.peers; it = it->next) {
        const sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, unacked_link);
        if (peer->resends >= SILENT)
            return peer->rank;
    }
    return -1;
}

void sv_unacked_free(sv_message_engine_t *engine)
{
    for (sv_unacked_chunk_t *chunk = engine->unacked.chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        sv_free(chunk);
    }
}
