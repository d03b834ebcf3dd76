/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matches messages and receives, and handles the other control messages. Messages of a rank are taken in the order of
 * their numbers, so that none overtakes another whatever came first. A message that no receive has matched stays in its
 * descriptor, which holds all bytes of a small one and the announcement of a long one.
 */
#include <string.h>

#include "message/message_devslot.h"
#include "message/message_pool.h"
#include "message/message_prelaunch.h"
#include "message/message_put.h"
#include "message/message_unacked.h"

static bool matches_envelope(int source, int tag, const sv_ctrl_header_t *header)
{
    return (source == SV_MESSAGE_ANY || source == header->source) && (tag == SV_MESSAGE_ANY || tag == (int)header->tag);
}

sv_ctrl_desc_t *sv_message_unexpected(sv_message_engine_t *engine, int source, int tag)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->unexpected) {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
        if (matches_envelope(source, tag, desc->header))
            return desc;
    }
    return NULL;
}

static selvage_request_t *find_posted(sv_message_engine_t *engine, const sv_ctrl_header_t *header)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->posted) {
        selvage_request_t *recv = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (matches_envelope(recv->peer, recv->tag, header))
            return recv;
    }
    return NULL;
}

static sv_ctrl_desc_t *find_out_of_order(const sv_message_peer_t *peer, uint64_t number)
{
    for (sv_list_t *it = peer->out_of_order.next; it != &peer->out_of_order; it = it->next) {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
        if (desc->header->number == number)
            return desc;
    }
    return NULL;
}

static sv_ctrl_desc_t *find_deferred(sv_list_t *list, const sv_ctrl_header_t *header)
{
    for (sv_list_t *it = list->next; it != list; it = it->next) {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
        if (desc->header->kind == SV_CTRL_DEFERRED && desc->header->source == header->source &&
            desc->header->number == header->number)
            return desc;
    }
    return NULL;
}

static selvage_request_t *find_late_in(const sv_list_t *list, const sv_ctrl_header_t *header)
{
    for (const sv_list_t *it = list->next; it != list; it = it->next) {
        selvage_request_t *recv = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (!recv->is_send && recv->state == SV_REQUEST_DEFERRED && recv->peer == header->source &&
            recv->number == header->number)
            return recv;
    }
    return NULL;
}

/* A small message that was announced: where its announcement lies, or whoever was given that. */
static selvage_status_t take_deferred(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_ctrl_desc_t *desc)
{
    const sv_ctrl_header_t *header = desc->header;
    sv_ctrl_desc_t *deferred = find_deferred(&engine->unexpected, header);
    selvage_request_t *recv = NULL;
    deferred = deferred ? deferred : find_deferred(&engine->taken, header);
    deferred = deferred ? deferred : find_deferred(&peer->out_of_order, header);
    if (!deferred)
        recv = find_late_in(&engine->awaiting, header);
    if (!deferred && !recv) /* it is active still if no poll has looked at it */
        recv = find_late_in(&engine->active, header);
    if (deferred) {
        memcpy(deferred->header, header, sv_ctrl_bytes(header));
        deferred->from_wire = desc->from_wire;
        sv_devslot_move(desc, deferred);
        sv_ctrl_free(engine, desc);
    } else if (recv) {
        recv->desc = desc;
        recv->state = SV_REQUEST_GATE;
        sv_message_wake(recv);
        if (desc->devslot)
            sv_prelaunch_predict(recv, desc);
    } else {
        return sv_ctrl_consumed(engine, desc); /* its receive was too short */
    }
    return SELVAGE_SUCCESS;
}

/* A small message that was asked for again: the receive waits for just this one. */
static selvage_status_t take_resent(sv_message_engine_t *engine, sv_ctrl_desc_t *desc)
{
    selvage_request_t *recv = sv_message_find(engine, desc->header->recv_id);
    const int source = desc->header->source;
    const uint64_t number = desc->header->number;
    if (recv && recv->state == SV_REQUEST_NACKED && recv->number == desc->header->number) {
        recv->desc = desc;
        recv->attempt = desc->header->attempt;
        recv->state = SV_REQUEST_GATE;
        sv_message_wake(recv);
        return SELVAGE_SUCCESS;
    }
    sv_ctrl_free(engine, desc);
    return sv_ctrl_ack(engine, source, number); /* nobody wants it any more */
}

static sv_ctrl_desc_t *find_retained(const sv_message_peer_t *peer, uint64_t number)
{
    for (sv_list_t *it = peer->retained.next; it != &peer->retained; it = it->next) {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, retained_link);
        if (desc->header->number == number)
            return desc;
    }
    return NULL;
}

static void take_acks(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_ctrl_header_t *header)
{
    for (int i = 0; i < SV_CTRL_ACKS; i++) {
        sv_ctrl_desc_t *desc = find_retained(peer, header->value[i]);
        if (!desc)
            continue;
        sv_list_remove(&desc->retained_link);
        desc->retained = false;
        if (desc->unacked) /* it was taken, so it has come */
            sv_unacked_release(engine, peer, desc->unacked);
        else if (!desc->in_flight)
            sv_ctrl_free(engine, desc);
    }
}

/* The bytes of the first sending are still there, and go in a descriptor of their own: that one may be in flight. */
static selvage_status_t resend_eager(sv_message_engine_t *engine, sv_message_peer_t *peer,
                                     const sv_ctrl_header_t *asked)
{
    sv_ctrl_desc_t *retained = find_retained(peer, asked->number), *desc;
    if (!retained)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_ctrl_alloc(engine, false, &desc));
    memcpy(desc->header, retained->header, sizeof *desc->header + retained->header->bytes);
    if (retained->corrupted)
        sv_ctrl_payload(desc)[retained->corrupted - 1] ^= 1;
    desc->header->attempt = asked->attempt;
    desc->header->recv_id = asked->recv_id;
    return sv_ctrl_send(engine, desc, peer->rank);
}

/* A control message that stands for a message. */
static selvage_status_t take_announced(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_ctrl_desc_t *desc)
{
    const sv_ctrl_header_t *header = desc->header;
    selvage_status_t status = SELVAGE_SUCCESS;
    sv_ctrl_desc_t *own;
    /* 1. The bytes of one that was announced or asked for again; or what has come before: the message itself ahead of
       its announcement, or the same control message. */
    if (header->kind == SV_CTRL_EAGER && header->attempt > 0)
        return take_resent(engine, desc);
    if (header->kind == SV_CTRL_EAGER && (header->number <= peer->taken || find_deferred(&peer->out_of_order, header)))
        return take_deferred(engine, peer, desc);
    if (header->number <= peer->taken || find_out_of_order(peer, header->number)) {
        sv_ctrl_free(engine, desc);
        return SELVAGE_SUCCESS;
    }
    /* 2. A shared segment has few places: what has to wait does so in a descriptor of this rank's own. */
    if (desc->shm && !(header->number == peer->taken + 1 && find_posted(engine, header))) {
        status = sv_ctrl_alloc(engine, sv_ctrl_is_header_only(header), &own);
        if (status == SELVAGE_SUCCESS) {
            memcpy(own->header, header, sv_ctrl_bytes(header));
            sv_devslot_move(desc, own);
            sv_ctrl_free(engine, desc);
            desc = own;
        }
    }
    /* 3. In the order of the numbers: this one, and those that have waited for it. */
    if (desc->header->number != peer->taken + 1) {
        sv_list_append(&peer->out_of_order, &desc->link);
        return status;
    }
    while (desc) {
        header = desc->header;
        peer->taken++;
        peer->arrived[sv_message_tag_class((int)header->tag)] = peer->taken;
        if (header->kind != SV_CTRL_RTS && header->value[0] && peer->in) /* where the next one by a slot will be */
            peer->in->devslot.count = header->value[0];
        sv_list_remove(&desc->link);
        selvage_request_t *recv = find_posted(engine, header);
        if (recv) {
            sv_list_remove(&recv->link);
            sv_message_matched(recv, desc);
        } else {
            sv_list_append(&engine->unexpected, &desc->link);
        }
        desc = find_out_of_order(peer, peer->taken + 1);
    }
    return status;
}

selvage_status_t sv_message_arrive(sv_message_engine_t *engine, sv_ctrl_desc_t *desc)
{
    const sv_ctrl_header_t *header = desc->header;
    sv_message_peer_t *peer;
    selvage_request_t *request;
    selvage_status_t status = sv_message_peer(engine, header->source, &peer);
    if (status != SELVAGE_SUCCESS) {
        sv_ctrl_free(engine, desc);
        return status;
    }
    switch ((sv_ctrl_kind_t)header->kind) {
    case SV_CTRL_EAGER:
    case SV_CTRL_RTS:
    case SV_CTRL_DEFERRED:
        return take_announced(engine, peer, desc);
    case SV_CTRL_CTS:
    case SV_CTRL_STATUS: /* to a send */
        request = sv_message_find(engine, header->send_id);
        if (!request || !request->is_send || request->peer != header->source)
            break;
        if (header->kind == SV_CTRL_CTS)
            sv_message_send_cleared(request, header);
        else
            sv_message_send_status(request, header);
        break;
    case SV_CTRL_FIN:
    case SV_CTRL_CTS_NACK: /* to a receive */
        request = sv_message_find(engine, header->recv_id);
        if (request && !request->is_send && request->peer == header->source)
            sv_message_recv_fin(request, header);
        break;
    case SV_CTRL_SHM:
        sv_shm_open(engine, peer, header);
        break;
    case SV_CTRL_ACK:
        take_acks(engine, peer, header);
        break;
    case SV_CTRL_NACK:
        status = resend_eager(engine, peer, header);
        break;
    case SV_CTRL_SEQUENCE_ACK: /* in a shared segment: by the wire nobody comes here with it */
        status = sv_unacked_receive(engine, peer, header, &(bool){false});
        break;
    case SV_CTRL_DISCONNECT: /* which is acknowledged as all are */
        break;
    }
    sv_ctrl_free(engine, desc);
    return status;
}

bool sv_message_is_storing(const sv_message_engine_t *engine)
{
    for (const sv_list_t *it = engine->active.next; it != &engine->active; it = it->next) {
        const selvage_request_t *send = SV_CONTAINER_OF(it, selvage_request_t, link);
        const bool direct = send->state == SV_REQUEST_MOVING && send->route == SV_MESSAGE_PUT;
        if (!send->is_send && send->route == SV_MESSAGE_GET) /* reads there, and its sender waits for that */
            return true;
        if (send->is_send && (send->state == SV_REQUEST_FILLING || (direct && !sv_put_has_left(send))))
            return true;
    }
    return false;
}

selvage_status_t sv_message_disconnect(sv_message_engine_t *engine, bool *disconnected)
{
    *disconnected = !sv_message_is_storing(engine);
    for (int i = 0; i < SV_MESSAGE_PEERS; i++)
        for (sv_message_peer_t *peer = engine->peers[i]; peer; peer = peer->next) {
            sv_ctrl_desc_t *desc;
            if (peer->wrote && !peer->disconnecting) { /* by the wire, after all that went there before */
                SV_TRY(sv_ctrl_alloc(engine, true, &desc));
                *desc->header = (sv_ctrl_header_t){.kind = SV_CTRL_DISCONNECT};
                SV_TRY(sv_ctrl_send(engine, desc, peer->rank));
            }
            peer->disconnecting = true;
            *disconnected = *disconnected && sv_list_is_empty(&peer->unacked);
        }
    return SELVAGE_SUCCESS;
}
