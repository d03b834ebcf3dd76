/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous by get, within a node: the RTS says where the sender's bytes are, and the receiver copies them from there.
 * Once the RTS is out the sender's host is not needed any more: it may compute, or block in a call of MPI's, and the
 * receive ends all the same. So no rank waits for another one's host but for what MPI lets it wait for, a receive that
 * is not posted.
 *
 *   sender's host     where[k] = handle, offset; begun[k] = stamp * 2; RTS with k and the stamp
 *   sender's device   digest --> record[k], ready[k] = stamp                   (in the receiver's shared segment)
 *   receiver's host   begun[k] = stamp * 2 + 1; copies at once if the bytes are final, else once ready[k] is stamp
 *   receiver's device copy, digest, compared with record[k]
 *   receiver's host   STATUS: good; or a CTS with the next attempt, for a put or for pieces (message_rendezvous.c)
 *
 * The offer is taken, or taken back, by one exchange of begun[k]: so a sender that gives up knows whether its buffer is
 * being read. The sender owns the place k until its request has ended, and the receiver its mapping of the memory.
 *
 * It is offered only where the caller's stream has come to the message, because the digest is made on a stream of the
 * engine's, which waits for no caller's. A receive in host memory, and one whose kernel waits for a put already, do not
 * take it; then the message goes as if it had not been offered.
 */
#include "message/message_get.h"

#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_put.h"
#include "message/message_shm.h"

/* In an RTS, after what a claim says: the stamp; and the place k, with these flags. */
enum { STAMP = 3, PLACE = 4, PLACE_MASK = 0xff, FINAL = 1 << 8, CORRUPT = 1 << 9 };

static const sv_shm_end_t *end_of_get(const selvage_request_t *request)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(request->engine, request->peer, &peer) != SELVAGE_SUCCESS) /* it exists */
        return NULL;
    return request->is_send ? peer->out : peer->in;
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* Free, and no kernel of an earlier message that was given up writes to it any more; SV_SHM_PUT_SLOTS if there is
   none. */
static unsigned find_get_place(const sv_shm_end_t *end)
{
    unsigned k = 0;
    /* Partner: the digest kernel. */
    while (k < SV_SHM_PUT_SLOTS &&
           ((end->gets >> k & 1) || __atomic_load_n(&end->shm->get_ready[k], __ATOMIC_ACQUIRE) != end->get_stamp[k]))
        k++;
    return k;
}

static bool may_offer_get(const selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    const int route = send->engine->comm->config.route;
    return send->place.on_device && send->bytes > 0 && peer->out && peer->rank != send->engine->wire->rank &&
           !peer->no_get && route != SELVAGE_ROUTE_STAGED && route != SELVAGE_ROUTE_SHARED &&
           (stream == SELVAGE_MESSAGE_NO_STREAM || !send->gated) &&
           /* Partner: the release in sv_shm_prefer() of the receiver. */
           !__atomic_load_n(&peer->out->shm->prefers_host, __ATOMIC_ACQUIRE);
}

void sv_get_offer(selvage_request_t *send, void *stream, sv_ctrl_header_t *rts)
{
    sv_message_engine_t *engine = send->engine;
    const sv_fault_t *fault = &engine->comm->fault;
    sv_message_peer_t *peer;
    if (sv_message_peer(engine, send->peer, &peer) != SELVAGE_SUCCESS || !may_offer_get(send, peer, stream))
        return;
    sv_shm_end_t *end = peer->out;
    const unsigned k = find_get_place(end);
    if (k == SV_SHM_PUT_SLOTS)
        return;
    sv_message_where_t *where = &end->shm->get_where[k];
    if (sv_message_export(engine, send->place.data, send->bytes, &where->handle, &where->offset) != SELVAGE_SUCCESS)
        return;
    where->base = (uintptr_t)send->place.data - where->offset;
    const uint64_t stamp = ++engine->stamps;
    /* 1. The digest. Bytes that are there already need nobody to say so. */
    const bool final = !send->place.layout;
    if (sv_message_checks(engine) || !final) {
        const sv_prepare_job_t job = {.src = send->place.data,
                                      .record = sv_shared_device_address(&end->segment, &end->shm->get_record[k]),
                                      .word = sv_shared_device_address(&end->segment, &end->shm->get_ready[k]),
                                      .stamp = stamp};
        if (sv_message_prepare(send, &job, engine->streams.kernel) != SELVAGE_SUCCESS)
            return;
    } else { /* partner: the acquire in sv_get_poll() */
        __atomic_store_n(&end->shm->get_ready[k], stamp, __ATOMIC_RELEASE);
    }
    /* 2. The offer. */
    send->get = (sv_request_get_t){.place = k, .stamp = stamp};
    end->gets |= UINT32_C(1) << k;
    end->get_stamp[k] = stamp;
    /* Partners: the acquire in sv_get_match(), and the exchange in sv_get_begin(). */
    __atomic_store_n(&end->shm->get_begun[k], stamp << 1, __ATOMIC_RELEASE);
    const bool corrupt = fault->armed && sv_fault_packet(&engine->comm->fault, (uint32_t)send->number, send->attempt) ==
                                             SV_FAULT_FLIP;
    rts->value[STAMP] = stamp;
    rts->value[PLACE] = k | (final ? FINAL : 0u) | (corrupt ? CORRUPT : 0u);
}

bool sv_get_is_ready(const selvage_request_t *send)
{
    if (send->get.stamp == 0)
        return true;
    return sv_word_is(&end_of_get(send)->shm->get_ready[send->get.place], send->get.stamp);
}

bool sv_get_revoke(selvage_request_t *send)
{
    if (send->get.stamp == 0)
        return true;
    uint64_t word = send->get.stamp << 1;
    /* Partner: the exchange in sv_get_begin() of the receiver. */
    return __atomic_compare_exchange_n(&end_of_get(send)->shm->get_begun[send->get.place], &word, 0, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || word == 0;
}

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

void sv_get_match(selvage_request_t *recv, const sv_ctrl_header_t *rts)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    const unsigned k = (unsigned)rts->value[PLACE] & PLACE_MASK;
    recv->get = (sv_request_get_t){.stamp = 0};
    if (rts->kind != SV_CTRL_RTS || sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS || !peer->in)
        return;
    sv_shm_prefer(peer->in, !recv->place.on_device);
    if (rts->value[2] != 0 || rts->value[STAMP] == 0 || k >= SV_SHM_PUT_SLOTS || !recv->place.on_device ||
        recv->bytes == 0 || recv->bytes > recv->place.bytes || peer->no_get)
        return;
    /* Partner: the release in sv_get_offer(). */
    if (!sv_word_is(&peer->in->shm->get_begun[k], rts->value[STAMP] << 1)) /* taken back */
        return;
    const sv_message_where_t where = peer->in->shm->get_where[k];
    sv_transfer_mapping_t *mapping = NULL;
    /* Neighbours' devices are of one kind with this one, or could not be mapped. */
    const bool kept = SV_DEVICE_CALL(engine->dev, memory_id, recv->place.data) != 0;
    if (sv_transfer_map_kept(&engine->memory.mappings, engine->dev, recv->peer, &where.handle, where.base,
                             where.offset + recv->bytes, kept, &mapping) != SELVAGE_SUCCESS ||
        sv_transfer_mapping_bound(mapping, where.offset, recv->bytes) != SELVAGE_SUCCESS) {
        sv_transfer_unmap(mapping);
        peer->no_get = true;
        return;
    }
    recv->get = (sv_request_get_t){.place = k,
                                   .stamp = rts->value[STAMP],
                                   .mapping = mapping,
                                   .src = (uint8_t *)mapping->base + where.offset,
                                   .final = (rts->value[PLACE] & FINAL) != 0,
                                   .corrupt = (rts->value[PLACE] & CORRUPT) != 0};
}

bool sv_get_begin(selvage_request_t *recv)
{
    if (recv->get.stamp == 0)
        return false;
    uint64_t word = recv->get.stamp << 1;
    /* Partner: the exchange in sv_get_revoke() of the sender. */
    if (__atomic_compare_exchange_n(&end_of_get(recv)->shm->get_begun[recv->get.place], &word, word | 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return true;
    sv_get_end(recv);
    return false;
}

selvage_status_t sv_get_poll(selvage_request_t *recv, bool *moved)
{
    sv_message_engine_t *engine = recv->engine;
    sv_request_get_t *get = &recv->get;
    const sv_shm_end_t *end = end_of_get(recv);
    /* Partner: the sender's digest kernel, or its host in sv_get_offer(). */
    const bool ready = sv_word_is(&end->shm->get_ready[get->place], get->stamp);
    const bool by_kernel = sv_put_by_kernel(recv) && !get->corrupt;
    /* 1. What copy engines move begins when the bytes are there, the digest or not. */
    if (!by_kernel && !get->copied && (ready || get->final)) {
        get->copied = *moved = true;
        SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data, get->src, recv->bytes, SV_COPY_PEER,
                              engine->streams.peer));
        if (get->corrupt) { /* a fault of a test's: a byte that arrived is changed */
            const sv_flip_arg_t arg = {recv->place.data + recv->bytes / 2, 1};
            SV_TRY(SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, engine->streams.peer));
        }
    }
    if (!ready)
        return SELVAGE_IN_PROGRESS;
    /* 2. Verified after the copy, or by the kernel that copies. */
    *moved = true;
    recv->state = SV_REQUEST_CLOSING;
    const sv_verify_job_t job = {.src = by_kernel ? get->src : recv->place.data,
                                 .dst = by_kernel ? recv->place.data : NULL,
                                 .record = sv_shared_device_address(&end->segment, &end->shm->get_record[get->place])};
    return sv_message_verify(recv, &job, by_kernel ? engine->streams.kernel : engine->streams.peer);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void sv_get_end(selvage_request_t *request)
{
    if (request->get.stamp == 0)
        return;
    sv_message_peer_t *peer;
    if (!request->is_send)
        sv_transfer_unmap(request->get.mapping);
    else if (sv_message_peer(request->engine, request->peer, &peer) == SELVAGE_SUCCESS)
        peer->out->gets &= ~(UINT32_C(1) << request->get.place);
    request->get = (sv_request_get_t){.stamp = 0};
}
