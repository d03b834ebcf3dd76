/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages without a handshake. A receive that waits for one rank's messages with one tag, in device memory that
 * is its own to write, says so in its box: an offer, with all that a CTS would say. A send that finds it claims it and
 * copies at once; its RTS only says that it has.
 *
 * An offer belongs to one message, the first with its tag behind those that its receiver has taken. So the receiver
 * offers only what is first in line for that tag, with the number of the last message that it has taken, and the sender
 * claims only if it has sent nothing with that tag since. Where another kind of message is that first one, or the
 * receive is taken back, the offer is withdrawn. Both are one exchange of the same word, so that only one can be.
 *
 *   offered[k]   stamp * 2: an offer; stamp * 2 + 1: claimed; 0: none, or it cannot be mapped; 1: given back
 *
 * A stamp is claimed once: behind a copy that has begun, and whose message did not leave after all, words of it may be
 * there already. So what is given back is no offer any more, and its receive goes on without one.
 */
#include "message/message_near.h"

enum { DENIED = 0, RETURNED = 1 }; /* no offer has such a word */

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

/* Receives that are posted before and might take the message. */
static bool is_first(const selvage_request_t *recv)
{
    for (sv_list_t *it = recv->engine->posted.next; it != &recv->link; it = it->next) {
        const selvage_request_t *other = SV_CONTAINER_OF(it, selvage_request_t, link);
        if ((other->peer == recv->peer || other->peer == SV_MESSAGE_ANY) &&
            (other->tag == recv->tag || other->tag == SV_MESSAGE_ANY))
            return false;
    }
    return true;
}

static bool may_be(const selvage_request_t *recv)
{
    const sv_message_engine_t *engine = recv->engine;
    return recv->state == SV_REQUEST_POSTED && recv->place.on_device && recv->place.bytes > engine->near_bytes &&
           recv->place.bytes > engine->eager_bytes && !recv->offered && !recv->tried_offer && !recv->gated &&
           !recv->cancelled && recv->peer >= 0 && recv->tag >= 0 && recv->peer != engine->wire->rank;
}

void sv_message_offer(selvage_request_t *recv)
{
    sv_message_peer_t *peer;
    if (!may_be(recv) || sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS || !peer->in ||
        !peer->in->used || !is_first(recv))
        return;
    recv->tried_offer = recv->from_device = true; /* as hoped; if not, there is no landing yet that could be missed */
    recv->bytes = recv->place.bytes;
    if (!sv_message_direct_land(recv, peer))
        return;
    sv_message_box_t *box = peer->in->box;
    const unsigned k = recv->landing;
    /* What a sender looks at before it claims; the rest it sees behind the exchange. */
    __atomic_store_n(&box->offer_tag[k], (uint64_t)recv->tag, __ATOMIC_RELAXED);
    __atomic_store_n(&box->offer_taken[k], peer->taken, __ATOMIC_RELAXED);
    __atomic_store_n(&box->offer_bytes[k], recv->bytes, __ATOMIC_RELAXED);
    box->offer_recv[k] = sv_message_id(recv);
    /* Partner: the acquire in find(). */
    __atomic_store_n(&box->offered[k], recv->landing_stamp << 1, __ATOMIC_RELEASE);
    recv->offered = true;
}

sv_offer_end_t sv_message_offer_withdraw(selvage_request_t *recv)
{
    sv_message_peer_t *peer;
    uint64_t word = recv->landing_stamp << 1;
    if (!recv->offered || sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS)
        return SV_OFFER_WITHDRAWN;
    /* Partner: the exchange in sv_message_claim(). */
    const bool withdrawn = __atomic_compare_exchange_n(&peer->in->box->offered[recv->landing], &word, 0, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (!withdrawn && word > RETURNED)
        return SV_OFFER_CLAIMED;
    recv->offered = false;
    return withdrawn ? SV_OFFER_WITHDRAWN : word == RETURNED ? SV_OFFER_RETURNED : SV_OFFER_DENIED;
}

selvage_status_t sv_message_offer_meet(selvage_request_t *recv, const sv_letter_t *letter, bool *claimed_out)
{
    sv_message_peer_t *peer;
    const bool claims = letter->kind == SV_LETTER_RTS && letter->value[2] != 0;
    *claimed_out = claims && recv->offered && letter->value[2] == recv->landing_stamp;
    if (*claimed_out) {
        recv->offered = false;
        return SELVAGE_SUCCESS;
    }
    const sv_offer_end_t end = sv_message_offer_withdraw(recv);
    if (claims || end == SV_OFFER_CLAIMED) /* its bytes are going where another message's belong */
        return sv_error(SELVAGE_ERR_MISMATCH, "rank %d has claimed a receive for another message than its number %llu",
                        letter->source, (unsigned long long)letter->number);
    if (end == SV_OFFER_DENIED && sv_message_peer(recv->engine, recv->peer, &peer) == SELVAGE_SUCCESS)
        peer->no_direct = true;
    if (end != SV_OFFER_WITHDRAWN || letter->kind != SV_LETTER_RTS)
        sv_message_direct_drop(recv);
    return SELVAGE_SUCCESS;
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* An offer that this message, and no other one, belongs to. */
static bool find(const selvage_request_t *send, const sv_message_peer_t *peer, unsigned *landing_out,
                 uint64_t *word_out)
{
    const sv_message_box_t *box = peer->out->box;
    for (unsigned k = 0; k < SV_BOX_LANDINGS; k++) {
        /* Partner: the release in sv_message_offer(). */
        const uint64_t word = __atomic_load_n(&box->offered[k], __ATOMIC_ACQUIRE);
        if (word == 0 || (word & 1) ||
            __atomic_load_n(&box->offer_tag[k], __ATOMIC_RELAXED) != (uint64_t)send->tag ||
            __atomic_load_n(&box->offer_bytes[k], __ATOMIC_RELAXED) < send->bytes ||
            __atomic_load_n(&box->offer_taken[k], __ATOMIC_RELAXED) < send->before)
            continue;
        *landing_out = k;
        *word_out = word;
        return true;
    }
    return false;
}

bool sv_message_claim(selvage_request_t *send, sv_message_peer_t *peer)
{
    unsigned k;
    uint64_t word;
    if (!send->place.on_device || send->bytes == 0 || !peer->out || !find(send, peer, &k, &word))
        return false;
    sv_message_box_t *box = peer->out->box;
    /* Partner: the exchange in sv_message_offer_withdraw(). */
    if (!__atomic_compare_exchange_n(&box->offered[k], &word, word | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    send->landing = k;
    send->landing_stamp = word >> 1;
    send->other_id = box->offer_recv[k];
    send->route = SV_MESSAGE_DIRECT;
    if (sv_message_direct_map(send, &box->where[k]) == SELVAGE_SUCCESS)
        return true;
    send->landing_stamp = 0;
    send->route = SV_MESSAGE_NONE;
    /* Partner: the acquire in sv_message_offer_withdraw(). */
    __atomic_store_n(&box->offered[k], DENIED, __ATOMIC_RELEASE);
    return false;
}

/* Where even a wait fails, a copy may run for good: nobody is told that it does not. */
void sv_message_unclaim(selvage_request_t *send, const sv_message_peer_t *peer)
{
    uint64_t *offered = &peer->out->box->offered[send->landing];
    if (!sv_message_drain(send->engine))
        return;
    send->landing_stamp = 0;
    sv_message_direct_end(send);
    __atomic_store_n(offered, RETURNED, __ATOMIC_RELEASE); /* partner: the acquire in sv_message_offer_withdraw() */
}
