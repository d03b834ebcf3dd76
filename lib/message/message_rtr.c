/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages without a handshake. A receive may wait for one rank's messages with one tag, in device memory that is
 * its own to write. It says so in its shared segment: an RTR, with all that a CTS would say. A send that finds it
 * claims it and copies at once. Its RTS only says that it has.
 *
 * An RTR belongs to one message, the first with its tag after those that its receiver has taken. So the receiver
 * advertises only its oldest posted receive for that tag, with the number of the last message that it has taken. The
 * sender claims it only if it has sent nothing with that tag since. If that first message is of another kind, or the
 * receive is taken back, the RTR is withdrawn. A claim and a withdrawal exchange the same word, so only one of them
 * succeeds.
 *
 *   advertised[k]  stamp * 2: an RTR; stamp * 2 + 1: claimed; 0: none, or it can never be mapped; 1: given back
 *
 * A stamp is claimed once. A copy may have begun whose message did not leave after all, and words of it may be there
 * already. So what is given back is no RTR any more, and its receive goes on without one.
 */
#include "message/message_devslot.h"
#include "message/message_pool.h"
#include "message/message_put.h"

enum { DENIED = 0, RETURNED = 1 }; /* no RTR has such a word */

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

/* Receives that are posted before and might take the message. */
static bool is_oldest_posted(const selvage_request_t *recv)
{
    for (sv_list_t *it = recv->engine->posted.next; it != &recv->link; it = it->next) {
        const selvage_request_t *other = SV_CONTAINER_OF(it, selvage_request_t, link);
        if ((other->peer == recv->peer || other->peer == SV_MESSAGE_ANY) &&
            (other->tag == recv->tag || other->tag == SV_MESSAGE_ANY))
            return false;
    }
    return true;
}

static bool may_advertise(const selvage_request_t *recv)
{
    const sv_message_engine_t *engine = recv->engine;
    return recv->state == SV_REQUEST_POSTED && recv->place.on_device && recv->place.bytes > engine->devslot_bytes &&
           recv->place.bytes > engine->eager_bytes && !recv->put.advertised && !recv->put.tried_rtr && !recv->gated &&
           !recv->cancelled && recv->peer >= 0 && recv->tag >= 0 && recv->peer != engine->wire->rank;
}

void sv_message_rtr_post(selvage_request_t *recv)
{
    sv_message_peer_t *peer;
    if (!may_advertise(recv) || sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS || !peer->in ||
        !peer->in->used || !is_oldest_posted(recv))
        return;
    recv->put.tried_rtr = recv->from_device =
        true; /* a guess; if it is wrong, there is no put slot yet that could be missed */
    recv->bytes = recv->place.bytes;
    if (!sv_put_reserve(recv, peer))
        return;
    sv_message_shm_t *shm = peer->in->shm;
    const unsigned k = recv->put.slot;
    /* What a sender looks at before it claims. It sees the rest after the exchange. */
    __atomic_store_n(&shm->rtr_tag[k], (uint64_t)recv->tag, __ATOMIC_RELAXED);
    __atomic_store_n(&shm->rtr_taken[k], peer->taken, __ATOMIC_RELAXED);
    __atomic_store_n(&shm->rtr_bytes[k], recv->bytes, __ATOMIC_RELAXED);
    shm->rtr_recv[k] = sv_message_id(recv);
    /* Partner: the acquire in find_rtr(). */
    __atomic_store_n(&shm->advertised[k], recv->put.stamp << 1, __ATOMIC_RELEASE);
    recv->put.advertised = true;
}

sv_rtr_end_t sv_message_rtr_cancel(selvage_request_t *recv)
{
    sv_message_peer_t *peer;
    uint64_t word = recv->put.stamp << 1;
    if (!recv->put.advertised || sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS)
        return SV_RTR_CANCELLED;
    /* Partner: the exchange in sv_message_rtr_claim(). */
    const bool withdrawn = __atomic_compare_exchange_n(&peer->in->shm->advertised[recv->put.slot], &word, 0, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (!withdrawn && word > RETURNED)
        return SV_RTR_CLAIMED;
    recv->put.advertised = false;
    return withdrawn ? SV_RTR_CANCELLED : word == RETURNED ? SV_RTR_RETURNED : SV_RTR_DENIED;
}

selvage_status_t sv_message_rtr_match(selvage_request_t *recv, const sv_ctrl_header_t *header, bool *claimed_out)
{
    sv_message_peer_t *peer;
    const bool claims = header->kind == SV_CTRL_RTS && header->value[2] != 0;
    *claimed_out = claims && recv->put.advertised && header->value[2] == recv->put.stamp;
    if (*claimed_out) {
        recv->put.advertised = false;
        return SELVAGE_SUCCESS;
    }
    const sv_rtr_end_t end = sv_message_rtr_cancel(recv);
    if (claims || end == SV_RTR_CLAIMED) /* its bytes are going where another message's belong */
        return sv_error(SELVAGE_ERR_MISMATCH, "rank %d has claimed a receive for another message than its number %llu",
                        header->source, (unsigned long long)header->number);
    if (end == SV_RTR_DENIED && sv_message_peer(recv->engine, recv->peer, &peer) == SELVAGE_SUCCESS)
        peer->no_direct = true;
    if (end != SV_RTR_CANCELLED || header->kind != SV_CTRL_RTS)
        sv_put_release(recv);
    return SELVAGE_SUCCESS;
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* An RTR that this message, and no other one, belongs to. */
static bool find_rtr(const selvage_request_t *send, const sv_message_peer_t *peer, unsigned *put_slot_out,
                     uint64_t *word_out)
{
    const sv_message_shm_t *shm = peer->out->shm;
    for (unsigned k = 0; k < SV_SHM_PUT_SLOTS; k++) {
        /* Partner: the release in sv_message_rtr_post(). */
        const uint64_t word = __atomic_load_n(&shm->advertised[k], __ATOMIC_ACQUIRE);
        if (word == 0 || (word & 1) || __atomic_load_n(&shm->rtr_tag[k], __ATOMIC_RELAXED) != (uint64_t)send->tag ||
            __atomic_load_n(&shm->rtr_bytes[k], __ATOMIC_RELAXED) < send->bytes ||
            __atomic_load_n(&shm->rtr_taken[k], __ATOMIC_RELAXED) < send->before)
            continue;
        *put_slot_out = k;
        *word_out = word;
        return true;
    }
    return false;
}

bool sv_message_rtr_claim(selvage_request_t *send, sv_message_peer_t *peer)
{
    unsigned k;
    uint64_t word;
    if (!send->place.on_device || send->bytes == 0 || !peer->out || !find_rtr(send, peer, &k, &word))
        return false;
    sv_message_shm_t *shm = peer->out->shm;
    /* Partner: the exchange in sv_message_rtr_cancel(). */
    if (!__atomic_compare_exchange_n(&shm->advertised[k], &word, word | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    send->put.slot = k;
    send->put.stamp = word >> 1;
    send->other_id = shm->rtr_recv[k];
    send->route = SV_MESSAGE_PUT;
    const selvage_status_t status = sv_put_map(send, &shm->where[k]);
    if (status == SELVAGE_SUCCESS)
        return true;
    send->put.stamp = 0;
    send->route = SV_MESSAGE_NONE;
    /* Partner: the acquire in sv_message_rtr_cancel(). */
    __atomic_store_n(&shm->advertised[k], sv_transfer_never_maps(status) ? DENIED : RETURNED, __ATOMIC_RELEASE);
    return false;
}

/* If even the wait fails, the copy may never end, and nobody is told that it has. */
void sv_message_rtr_unclaim(selvage_request_t *send, const sv_message_peer_t *peer)
{
    uint64_t *advertised = &peer->out->shm->advertised[send->put.slot];
    if (!sv_message_drain(send->engine))
        return;
    send->put.stamp = 0;
    sv_put_end(send);
    __atomic_store_n(advertised, RETURNED, __ATOMIC_RELEASE); /* partner: the acquire in sv_message_rtr_cancel() */
}
